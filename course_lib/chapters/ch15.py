"""Chapter 15: the comparison of remedies against imbalance, and the chapter's figures."""

from collections.abc import Callable, Mapping, Sequence

from course_lib.notebook.style import (
    COLORS,
    MUTED,
    SERIES,
    CourseFigure,
    drawable,
)
from course_lib.tasks.labels import FocalLoss, best_threshold, over_sample, under_sample

import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter
from paddlenlp.datasets import MapDataset
from sklearn.metrics import PrecisionRecallDisplay
from sklearn.utils.class_weight import compute_class_weight


def compare_imbalance(
    learner: Callable,
    train: MapDataset,
    dev: MapDataset,
    test: MapDataset,
    rare: int = 0,
    seed: int = 42,
    progress: Callable[[str], object] | None = None,
) -> dict[str, np.ndarray]:
    """Train once with each remedy against imbalance, everything else being equal.

    "threshold" trains nothing: it moves the threshold of "nothing", chosen on dev.

    Args:
        learner: as `course_lib.tasks.labels.few_labels` describes it.
        progress: called with the name of each remedy before it is tried.

    Returns:
        By remedy, the classes that it gives to test, int64 [N], for `imbalance_table`.
    """
    labels = [row["label"] for row in train]
    weights = compute_class_weight("balanced", classes=np.unique(labels), y=labels)
    remedies = {
        "nothing": (train, None),
        "under-sampling": (under_sample(train, seed), None),
        "over-sampling": (over_sample(train, seed), None),
        "class weights": (train, FocalLoss(0.0, weights)),
        "focal loss": (train, FocalLoss(2.0)),
    }
    predictions, classifiers = {}, {}
    for name, (examples, criterion) in remedies.items():
        if progress is not None:
            progress(name)
        classifiers[name] = learner(examples, criterion, seed)
        predictions[name] = classifiers[name](test).argmax(axis=1)
    plain = classifiers["nothing"]
    limit = best_threshold(plain(dev)[:, rare], [row["label"] == rare for row in dev])
    chances = plain(test)
    others = np.where(np.arange(chances.shape[1]) == rare, -1.0, chances)
    found = np.where(chances[:, rare] >= limit, rare, others.argmax(axis=1))
    return predictions | {"threshold": found}


def imbalance_table(
    labels: Sequence[int],
    predictions: Mapping[str, np.ndarray],
    rare: int = 0,
    ratio: float | None = None,
    resamples: int = 2000,
) -> pd.DataFrame:
    """Macro F1 and the scores of the rare class, each remedy against the first, paired.

    Few examples of the rare class make its recall uncertain, so the test set may hold more of them
    than in practice: with `ratio`, all scores are those that the same recalls give at that ratio.

    Args:
        labels: true classes, [N].
        predictions: classes by remedy, [N] or [seeds, N] (scores are then means over the seeds).
        ratio: examples of the other classes per example of the rare class; None: as they are.

    Returns:
        One row per remedy: "macro F1", "accuracy", "recall" and "precision" of the rare class;
        "gain" of macro F1 and "recall gain", each with the "low" and "high" end of a 95% bootstrap
        interval over the test examples, drawn class by class.
    """
    labels = np.asarray(labels)
    counts = np.bincount(labels)
    shares = counts / len(labels)
    if ratio is not None:
        others = np.where(np.arange(len(counts)) == rare, 0, shares)
        shares = others / others.sum() * ratio / (ratio + 1)
        shares[rare] = 1 / (ratio + 1)
    random = np.random.RandomState(42)
    drawn = np.ones((1 + resamples, len(labels)))  # row 0: every example once
    for label in np.flatnonzero(counts):
        rows = np.flatnonzero(labels == label)
        even = np.full(len(rows), 1 / len(rows))
        drawn[1:, rows] = random.multinomial(len(rows), even, resamples)
    weights = drawn * (shares / counts.clip(1))[labels]
    scores = {
        name: _scores(labels, np.atleast_2d(answers), weights, rare)
        for name, answers in predictions.items()
    }
    table, first = {}, next(iter(scores.values()))
    for name, values in scores.items():
        row = {score: value[0] for score, value in values.items()}
        for score, gain in (("macro F1", "gain"), ("recall", "recall gain")):
            difference = values[score] - first[score]
            row[gain] = difference[0]
            row[f"{gain} low"], row[f"{gain} high"] = np.quantile(difference[1:], [0.025, 0.975])
        table[name] = row
    return pd.DataFrame(table).T


def _scores(labels, answers, weights, rare) -> dict[str, np.ndarray]:
    """Scores by name, [resamples], of answers [seeds, N] with weights [resamples, N]."""
    classes = np.unique(labels)
    hits = [weights @ ((labels == label) & (answers == label)).T for label in classes]
    true = [weights @ (labels == label)[:, None] for label in classes]
    answered = [weights @ (answers == label).T for label in classes]
    hits, true, answered = map(np.stack, (hits, true, answered))  # [classes, resamples, seeds]
    return {
        "macro F1": (2 * hits / (true + answered)).mean(axis=(0, 2)),
        "accuracy": hits.sum(axis=0).mean(axis=1),
        "recall": (hits / true)[classes == rare][0].mean(axis=1),
        "precision": (hits / answered.clip(1e-12))[classes == rare][0].mean(axis=1),
    }


def precision_recall(
    probabilities: Sequence[float], true: Sequence[bool], threshold: float = 0.5, name: str = ""
) -> CourseFigure:
    """Show precision against recall of one class, with the point of one threshold.

    Args:
        probabilities, true: of the class, [N]; which examples are of it, [N].
        name: of the class, for the title.
    """
    values, has = np.asarray(probabilities), np.asarray(true, bool)
    flagged = values >= threshold
    recall = (has & flagged).sum() / has.sum()
    precision = (has & flagged).sum() / flagged.sum() if flagged.any() else 1.0
    with CourseFigure(figsize=(6.4, 3.8)) as figure:
        axes = figure.subplots()
        PrecisionRecallDisplay.from_predictions(
            has, values, ax=axes, color=COLORS[0], marker="", label="all thresholds"
        )
        point = {"color": COLORS[1], "marker": "D", "linestyle": "", "markersize": 9}
        axes.plot(recall, precision, label=f"threshold {threshold:.2f}", **point)
        axes.axhline(has.mean(), label="chance", color=MUTED, linewidth=1, linestyle=":", marker="")
        result = f"recall {recall:.2f}, precision {precision:.2f}"
        axes.set(title=f"{drawable(name)} at {threshold:.2f}: {result}".strip())
        axes.set(xlabel="recall", ylabel="precision", xlim=(-0.02, 1.02), ylim=(0, 1.05))
        axes.set_aspect("auto")
        axes.grid()
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        alt = f"Precision against recall, {has.sum()} of {has.size} examples are of the class"
        return figure.finish(f"{alt}. At the threshold {threshold:.2f}: {result}.")


def accuracy_by_size(points: pd.DataFrame, chance: float | None = None) -> CourseFigure:
    """Show how accuracy grows with the number of labeled examples, one line per learner.

    Args:
        points: "accuracy", "low" and "high" by (learner, examples).
        chance: accuracy of guessing.
    """
    sizes = sorted(set(points.index.get_level_values("examples")))
    with CourseFigure(figsize=(7.2, 4.0)) as figure:
        axes = figure.subplots()
        names = list(dict.fromkeys(points.index.get_level_values("learner")))
        for number, name in enumerate(names):
            line = points.xs(name, level="learner").sort_index()
            spread = [line["accuracy"] - line["low"], line["high"] - line["accuracy"]]
            shift = 1.04 ** (number - (len(names) - 1) / 2)  # so that bars do not hide each other
            style = {"capsize": 3, "elinewidth": 1.2, **SERIES[number]}
            bars = np.maximum(spread, 0)
            axes.errorbar(line.index * shift, line["accuracy"], bars, label=drawable(name), **style)
        if chance is not None:
            axes.axhline(chance, color=MUTED, linewidth=1, linestyle=":", marker="", label="chance")
        axes.set(xscale="log", xlabel="labeled examples", ylabel="accuracy")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.set_xticks([], minor=True)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")
        summary = "; ".join(
            f"{name} with {size}: {row.accuracy:.1%} ({row.low:.1%} to {row.high:.1%})"
            for (name, size), row in zip(points.index, points.itertuples(), strict=True)
        )
        return figure.finish(f"Accuracy by number of labeled examples. {summary}.")
