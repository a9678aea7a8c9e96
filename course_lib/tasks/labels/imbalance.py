"""Answers about classes of uneven size: sampling, weights, focal loss, a threshold, and what helps.

`compare_imbalance` trains once for each remedy, `imbalance_table` says what each is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from course_lib.runtime import InputError
from course_lib.runtime.errors import finite, numbers_in, whole
from course_lib.tasks.labels.few_labels import Classifier, Learner, Loss, by_class, labels_of, take

import numpy as np
import paddle
import paddle.nn.functional as F
import pandas as pd
from paddlenlp.datasets import MapDataset
from sklearn.utils.class_weight import compute_class_weight

REMEDIES = (
    "nothing",
    "under-sampling",
    "over-sampling",
    "class weights",
    "focal loss",
    "threshold",
)

MOST_CLASSES = 10_000

# ---- the data


def make_imbalanced(
    dataset: MapDataset,
    ratio: int = 20,
    rare: int = 0,
    seed: int = 42,
    max_examples: int | None = None,
) -> MapDataset:
    """Throw examples of one class away until each other class has `ratio` times as many.

    Which ones stay depends on the seed and the size only; their order is the data's.

    Args:
        dataset: examples with a key "label", a class from 0 on.
        ratio: examples of the largest other class for one of the rare class.
        rare: the class that becomes rare.
        max_examples: at most so many in all; the ratio stays. None takes what there is.

    Raises:
        InputError: no example of the rare class, or of any other, would be left.
    """
    ratio = whole("ratio", ratio, 1)
    groups = by_class(dataset)
    if rare not in list(groups) or len(groups) < 2:
        found = ", ".join(map(str, groups))
        raise InputError("rare", f"is {rare!r}, the classes are {found}", "one of two or more")
    random = np.random.RandomState(whole("seed", seed, 0, 2**32 - 1))
    others = sorted(set(groups) - {rare})
    if max_examples is not None:
        room = whole("max_examples", max_examples, 1) * ratio // (ratio * len(others) + 1)
        groups |= {one: _draw(groups[one], min(room, len(groups[one])), random) for one in others}
    count = max(len(groups[one]) for one in others) // ratio
    if not 1 <= count <= len(groups[rare]):
        problem = f"leaves {count} of {len(groups[rare])} examples of class {rare}"
        raise InputError("ratio", f"{ratio} {problem}", "one at least, and no more than there are")
    groups[rare] = _draw(groups[rare], count, random)
    return take(dataset, np.sort(np.concatenate(list(groups.values()))))


def under_sample(dataset: MapDataset, seed: int = 42) -> MapDataset:
    """Keep of every class as many examples as the smallest has (欠采样), in the data's order."""
    groups = by_class(dataset)
    least = min(map(len, groups.values()))
    random = np.random.RandomState(whole("seed", seed, 0, 2**32 - 1))
    kept = [_draw(rows, least, random) for rows in groups.values()]
    return take(dataset, np.sort(np.concatenate(kept)))


def over_sample(dataset: MapDataset, seed: int = 42) -> MapDataset:
    """Repeat examples until every class has as many as the largest (过采样).

    Each example is repeated equally often, but for a remainder drawn at random; copies stand behind
    the data. Sample the training examples only, and after splitting: a copy in dev is a leak.
    """
    groups = by_class(dataset)
    most = max(map(len, groups.values()))
    random = np.random.RandomState(whole("seed", seed, 0, 2**32 - 1))
    copies = [np.arange(len(dataset))]
    for rows in groups.values():
        times, rest = divmod(most - len(rows), len(rows))
        copies += [np.tile(rows, times), _draw(rows, rest, random)]
    return take(dataset, np.concatenate(copies))


def class_weights(labels: Iterable[int], num_classes: int | None = None) -> np.ndarray:
    """scikit-learn's "balanced" weights: N / (classes x examples of the class); their mean is 1.

    Args:
        labels: classes of the training examples, from 0 on.
        num_classes: how many there are; None takes the largest label plus 1.

    Returns:
        float32 [num_classes].

    Raises:
        InputError: a class has no example, so that its weight would be infinite.
    """
    listed = isinstance(labels, Iterable) and not isinstance(labels, str)
    labels = _classes("labels", list(labels) if listed else labels)
    if labels.ndim != 1:
        raise InputError("labels", f"have shape {list(labels.shape)}", "a class an example")
    if num_classes is not None:
        num_classes = whole("num_classes", num_classes, 1)
    counts = np.bincount(labels, minlength=num_classes or 0)
    if not len(labels) or (counts == 0).any() or len(counts) != (num_classes or len(counts)):
        problem = f"have {counts.tolist()} examples of the classes 0 to {len(counts) - 1}"
        raise InputError("labels", problem, "each of the classes once at least")
    weights = compute_class_weight("balanced", classes=np.arange(len(counts)), y=labels)
    return weights.astype("float32")


# ---- the loss


class FocalLoss(paddle.nn.Layer):
    """Cross entropy that loses interest in what is right already: -(1 - p)^gamma x log p.

    p is the probability of the true class. With gamma 2 an example at p = 0.9 counts 100 times
    less than in cross entropy, one at p = 0.1 hardly less. gamma 0 is cross entropy.

    Weights multiply the loss of each example, and the mean is over the number of examples. Paddle's
    `CrossEntropyLoss(weight=...)` divides by the sum of the batch's weights instead: in a batch of
    one class all weights cancel, and small batches of uneven classes are often of one class.

    Args:
        gamma: 0 or more.
        weight: a number for each class, such as `class_weights` gives; None is 1 for all.

    Shapes: logits [..., classes], labels [...] int64; the loss is a scalar in nats.

    Raises:
        InputError: gamma or a weight is negative or no finite number.

    Source: Lin et al., Focal Loss for Dense Object Detection, 2017.
    """

    def __init__(self, gamma: float = 2.0, weight: Sequence[float] | None = None) -> None:
        super().__init__()
        self.gamma, self.weight = finite("gamma", gamma), None
        if self.gamma < 0:
            raise InputError("gamma", f"is {gamma!r}", "a number of at least 0")
        if weight is not None:
            values = numbers_in("weight", weight).astype("float32")
            if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any():
                raise InputError("weight", f"is {values.tolist()}", "a number >= 0 for each class")
            self.weight = paddle.to_tensor(values)

    def forward(self, logits: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
        classes = logits.shape[-1]
        if self.weight is not None and len(self.weight) != classes:
            problem = f"has {len(self.weight)} numbers for {classes} classes"
            raise InputError("weight", problem, "one number for each class")
        logits, labels = logits.reshape([-1, classes]), labels.reshape([-1])
        loss = F.cross_entropy(logits, labels, reduction="none")  # -log p, never log of 0
        if self.gamma:
            # 1 - p, but never 0: the derivative of 0 ** gamma is no number for gamma below 1
            missing = paddle.clip(-paddle.expm1(-loss), min=1e-8)
            loss = missing**self.gamma * loss
        if self.weight is not None:
            loss = loss * paddle.gather(self.weight, labels)
        return loss.mean()


# ---- the threshold


def best_threshold(probabilities: Sequence[float], is_rare: Sequence[bool]) -> float:
    """The threshold of the rare class's probability with the highest macro F1 on these examples.

    They should be dev's: on the examples of the choice the figure is too good afterwards. Of
    several best ones the nearest to 0.5 is taken; candidates lie half way between neighbours.

    Args:
        probabilities: of the rare class, [N], 0 to 1.
        is_rare: which examples are of that class, [N].

    Raises:
        InputError: lists that do not fit each other, only one class, a number outside 0 to 1.
    """
    values, rare = _checked(probabilities, is_rare)
    levels = np.unique(values)
    cuts = np.append((levels[1:] + levels[:-1]) / 2, 0.5)
    found = values[None] >= cuts[:, None]
    both = [2 * (found & rare).sum(1) / (found.sum(1) + rare.sum())]
    both += [2 * (~found & ~rare).sum(1) / ((~found).sum(1) + (~rare).sum())]
    scores = np.mean(both, axis=0)
    best = cuts[scores >= scores.max() - 1e-12]
    return float(best[np.abs(best - 0.5).argmin()])


def apply_threshold(probabilities: np.ndarray, rare: int, threshold: float) -> np.ndarray:
    """The rare class where its probability reaches the threshold, else the likeliest other one.

    Args:
        probabilities: [N, classes].

    Returns:
        int64 [N], classes.

    Raises:
        InputError: numbers outside 0 to 1, a class that there is not, a threshold that is none.
    """
    values = numbers_in("probabilities", probabilities).copy()
    if values.ndim != 2 or not ((values >= 0) & (values <= 1)).all():
        problem = f"have shape {list(values.shape)}, or are not all from 0 to 1"
        raise InputError("probabilities", problem, "probabilities [N, classes]")
    rare, threshold = whole("rare", rare, 0, values.shape[1] - 1), finite("threshold", threshold)
    chosen = values[:, rare] >= threshold
    values[:, rare] = -1.0
    return np.where(chosen, rare, values.argmax(axis=1))


def _checked(probabilities, is_rare) -> tuple[np.ndarray, np.ndarray]:
    values, rare = numbers_in("probabilities", probabilities), numbers_in("is_rare", is_rare)
    if not np.isin(rare, (0, 1)).all():
        raise InputError("is_rare", "holds other numbers than 0 and 1", "whether it is, not labels")
    rare = rare.astype(bool)
    if values.ndim != 1 or values.shape != rare.shape or rare.all() or not rare.any():
        problem = f"have shape {values.shape}, is_rare {rare.shape} with {rare.sum()} of the class"
        raise InputError("probabilities", problem, "two lists alike, with examples of both classes")
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError("probabilities", "are not all from 0 to 1", "probabilities")
    return values, rare


# ---- the comparison


def compare_imbalance(
    learner: Learner,
    train: MapDataset,
    dev: MapDataset,
    test: MapDataset,
    rare: int = 0,
    seed: int = 42,
    remedies: Sequence[str] = REMEDIES,
    progress: Callable[[str], object] | None = None,
) -> dict[str, np.ndarray]:
    """Train once for each remedy against uneven classes, all else alike.

    "threshold" trains nothing: it moves the threshold of "nothing", chosen on dev.

    Args:
        train, dev: uneven, as they would be in life; dev is read by "threshold" only.
        test: see `imbalance_table` for one with more of the rare class than life has.
        rare: the class of interest.
        remedies: some of `REMEDIES`.
        progress: called with the name of each remedy before it is tried.

    Returns:
        For each remedy its classes for test, int64 [N]: rows for `imbalance_table`.

    Raises:
        InputError: a remedy that there is not, or an empty or one-sided dataset.
    """
    names = [] if isinstance(remedies, str) or not isinstance(remedies, Iterable) else remedies
    unknown = [name for name in names if name not in REMEDIES]
    if unknown or not names:
        raise InputError("remedies", f"has {unknown or remedies!r}", f"some of {REMEDIES}")
    for name, dataset in {"train": train, "dev": dev, "test": test}.items():
        if rare not in by_class(dataset, name):
            raise InputError(name, f"has no example of class {rare}", "some, to learn and to judge")
    weights = class_weights(labels_of(train))
    ways: dict[str, tuple[MapDataset, Loss | None]] = {
        "nothing": (train, None),
        "under-sampling": (under_sample(train, seed), None),
        "over-sampling": (over_sample(train, seed), None),
        "class weights": (train, FocalLoss(0.0, weights)),
        "focal loss": (train, FocalLoss(2.0)),
    }
    predictions: dict[str, np.ndarray] = {}
    plain: Classifier | None = None
    for name in remedies:
        if progress is not None:
            progress(name)
        if name == "threshold":
            plain = plain or learner(*ways["nothing"], seed)
            is_rare = np.array(labels_of(dev)) == rare
            limit = best_threshold(plain(dev)[:, rare], is_rare)
            predictions[name] = apply_threshold(plain(test), rare, limit)
            continue
        classify = learner(*ways[name], seed)
        plain = classify if name == "nothing" else plain
        predictions[name] = classify(test).argmax(axis=1)
    return predictions


def imbalance_table(
    labels: Sequence[int],
    predictions: Mapping[str, np.ndarray],
    rare: int = 0,
    ratio: float | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 42,
) -> pd.DataFrame:
    """Macro F1 and what becomes of the rare class, each remedy against the first, paired.

    Recall does not depend on how many examples a class has, precision and F1 do. A test set at 20:1
    has few examples of the rare class, and a recall of few is unsure. So test may hold more of them
    than life does: with `ratio`, all figures are those that the same recalls give at that ratio.

    Examples are drawn with replacement, class by class, each with the answers of both remedies;
    over several seeds figures are means. The interval tells how sure the test examples make us; it
    says nothing of seeds and training examples that were not tried.

    Args:
        labels: true classes, [N].
        predictions: classes by remedy, [N] or [seeds, N]; the first is what others are held
            against.
        ratio: examples of the other classes together for one of the rare class; None leaves the
            classes as they are in `labels`.

    Returns:
        A row a remedy: "macro F1", "accuracy", and of the rare class "recall" and "precision" (0
        where nothing was found); then "gain" of macro F1 with "gain low" and "gain high", and
        "recall gain" with "recall gain low" and "recall gain high" (all 0 in the first row).

    Raises:
        InputError: predictions of another shape than the labels, a class that there is not, one
            class only, or a `ratio` that is no positive number.
    """
    labels = _classes("labels", labels)
    confidence = finite("confidence", confidence, 0, 1)
    resamples, seed = whole("resamples", resamples, 1), whole("seed", seed, 0, 2**32 - 1)
    if (
        not isinstance(predictions, Mapping)
        or not predictions
        or labels.ndim != 1
        or not len(labels)
    ):
        raise InputError("labels", "or predictions are empty", "a class an example")
    answers = {name: np.atleast_2d(_classes(str(name), one)) for name, one in predictions.items()}
    first = next(iter(answers.values())).shape
    for name, one in answers.items():
        if one.ndim != 2 or one.shape != first or one.shape[1] != len(labels):
            problem = f"has shape {list(np.shape(predictions[name]))} for {len(labels)} labels"
            raise InputError(name, problem, "[N] or [seeds, N], the same for all")
    classes = 1 + max(int(one.max()) for one in (labels, *answers.values()))
    counts = np.bincount(labels, minlength=classes)
    rare = whole("rare", rare, 0, classes - 1)
    if not 0 < counts[rare] < len(labels):
        raise InputError("rare", f"{rare} has {counts[rare : rare + 1]} of labels", "some, not all")
    ratio = None if ratio is None else finite("ratio", ratio, 0)
    shares = counts / len(labels)
    if ratio is not None:
        shares = np.where(np.arange(classes) == rare, 0, shares)
        shares *= ratio / (ratio + 1) / shares.sum()
        shares[rare] = 1 / (ratio + 1)

    random = np.random.RandomState(seed)
    values, draws = {name: 0.0 for name in answers}, {name: 0.0 for name in answers}
    for one in np.flatnonzero(counts):  # recalls: how class `one` is answered, in its rows alone
        rows = np.flatnonzero(labels == one)
        drawn = random.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), resamples)
        for name, answer in answers.items():
            hot = np.eye(classes)[answer[:, rows]]  # [seeds, rows, classes]
            part = np.zeros((classes, 1))
            part[one] = shares[one] / len(rows)
            values[name] = values[name] + part * hot.sum(axis=1)[:, None]
            draws[name] = draws[name] + part * np.einsum("br,srk->bsk", drawn, hot)[:, :, None]
    scores = {name: _figures(value, rare, counts > 0) for name, value in values.items()}
    spread = {name: _figures(value, rare, counts > 0) for name, value in draws.items()}
    base, ends = next(iter(answers)), [(1 - confidence) / 2, (1 + confidence) / 2]
    table = {}
    for name in answers:
        row = {figure: float(value) for figure, value in scores[name].items()}
        for figure, short in (("macro F1", "gain"), ("recall", "recall gain")):
            low, high = np.quantile(spread[name][figure] - spread[base][figure], ends)
            row |= {
                short: float(scores[name][figure] - scores[base][figure]),
                f"{short} low": float(low),
                f"{short} high": float(high),
            }
        table[name] = row
    return pd.DataFrame(table).T


def _figures(matrix: np.ndarray, rare: int, present: np.ndarray) -> dict[str, np.ndarray]:
    """Figures of confusion matrices [..., seeds, classes, classes] of shares, means over seeds."""
    right = np.diagonal(matrix, axis1=-2, axis2=-1)
    true, found = matrix.sum(axis=-1), matrix.sum(axis=-2)
    f1 = 2 * right / np.maximum(true + found, 1e-12)
    return {
        "macro F1": f1[..., present].mean(axis=(-1, -2)),
        "accuracy": right.sum(axis=-1).mean(axis=-1),
        "recall": (right / np.maximum(true, 1e-12))[..., rare].mean(axis=-1),
        "precision": (right / np.maximum(found, 1e-12))[..., rare].mean(axis=-1),
    }


def _draw(rows: np.ndarray, count: int, random: np.random.RandomState) -> np.ndarray:
    return random.permutation(rows)[:count]


def _classes(name: str, values: object) -> np.ndarray:
    """int64 of classes: whole numbers from 0 on, and few enough to count them."""
    labels = numbers_in(name, values, "int64")
    if labels.size and not 0 <= labels.min() <= labels.max() < MOST_CLASSES:
        problem = f"reach from {labels.min()} to {labels.max()}"
        raise InputError(name, problem, f"classes from 0 to {MOST_CLASSES - 1}")
    return labels
