"""Figures of what a model predicts and how right it is: probabilities, mistakes, thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.plotting.style import (
    COLORS,
    HEAT,
    INK,
    MARKERS,
    MUTED,
    NEGATIVE,
    POSITIVE,
    CourseFigure,
    course_style,
    direct_label,
    drawable,
    finish,
)

import matplotlib
import numpy as np
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import FuncFormatter, MaxNLocator


def confusion_matrix(matrix: Sequence[Sequence[int]], label_names: Sequence[str]) -> CourseFigure:
    """Show how often each true label (row) was predicted as each label (column).

    Args:
        matrix: counts, shape [labels, labels], as `course_lib.training.confusion_matrix` returns.
        label_names: the name of each row and column.

    Raises:
        ValueError: the shape does not fit, or the matrix counts nothing.
    """
    matrix, count = np.asarray(matrix), len(label_names)
    if matrix.shape != (count, count) or matrix.sum() == 0:
        raise ValueError(f"matrix {matrix.shape} of {matrix.sum()} texts for {count} label names")
    label_names = [drawable(name) for name in label_names]
    share = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    accuracy = matrix.trace() / matrix.sum()
    side = max(3.4, 0.62 * count + 1.6)
    with course_style():
        figure = CourseFigure(figsize=(side + 0.35, side))
        axes = figure.subplots()
        axes.imshow(share, cmap=HEAT, vmin=0, vmax=1)
        axes.set_xticks(range(count), label_names, rotation=0 if count < 6 else 45)
        axes.set_yticks(range(count), label_names)
        axes.set(xlabel="predicted", ylabel="true", title=f"Accuracy {accuracy:.1%}")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, colors=INK)
        # White lines between the cells tell them apart where the shades are close.
        axes.set_xticks(np.arange(count + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(count + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=3)
        axes.tick_params(which="minor", length=0)
        for row, column in np.ndindex(matrix.shape):
            color = "white" if share[row, column] > 0.55 else INK
            large = count <= 4
            text = f"{matrix[row, column]:,}"
            where = {"ha": "center", "color": color}
            if large:
                axes.text(column, row - 0.06, text, va="center", fontsize=15, **where)
                axes.text(
                    column, row + 0.22, f"{share[row, column]:.1%} of row", va="center", **where
                )
            else:
                axes.text(column, row, text, va="center", fontsize=9, **where)
        rows = (
            f"{label_names[i]}: {matrix[i, i]:,} of {matrix[i].sum():,} right" for i in range(count)
        )
        return finish(figure, f"Confusion matrix, accuracy {accuracy:.1%}. {'; '.join(rows)}.")


def _probability_rows(predictions: Sequence[Mapping]) -> tuple[list[str], np.ndarray]:
    if len(predictions) == 0:
        raise ValueError("no predictions: there is nothing to draw")
    names = list(predictions[0]["probabilities"])
    rows = [[each["probabilities"][name] for name in names] for each in predictions]
    return [drawable(name) for name in names], np.asarray(rows, dtype=float)


def probability_bars(
    predictions: Sequence[Mapping],
    labels: Sequence[int] | None = None,
    title: str | None = None,
    max_characters: int = 26,
) -> CourseFigure:
    """Show the probability of each label for each text, one full bar a text.

    Args:
        predictions: what `course_lib.training.predict` returns; used are "text" and
            "probabilities" (by label name, in the order of the ids; they sum to 1).
        labels: true label ids, one a text; printed behind the bars when given.
        title: printed above.
        max_characters: longer texts are shortened in the figure.

    Raises:
        ValueError: there are no predictions, or `labels` differ in number.
    """
    label_names, rows = _probability_rows(predictions)
    texts = [drawable(each["text"], max_characters) for each in predictions]
    if labels is not None and len(labels) != len(texts):
        raise ValueError(f"{len(labels)} labels for {len(texts)} predictions")
    two = len(label_names) == 2
    palette = (NEGATIVE, POSITIVE) if two else COLORS
    hatches = ("////", "") if two else ("", "////", "", "....", "", "\\\\\\\\")
    with course_style(**{"hatch.linewidth": 0.6}):
        figure = CourseFigure(figsize=(7.6, 0.95 + 0.42 * len(texts)))
        axes = figure.subplots()
        heights = np.arange(len(texts))
        left = np.zeros(len(texts))
        for column in range(len(label_names)):
            color = palette[column % len(palette)]
            hatch = hatches[column % len(hatches)]
            style = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
            axes.barh(heights, rows[:, column], 0.62, left=left, **style)
            for height, start, value in zip(heights, left, rows[:, column], strict=True):
                if value >= 0.09:
                    box = {"facecolor": color, "edgecolor": "none", "pad": 1.5}
                    axes.text(
                        start + value / 2,
                        height,
                        f"{value:.0%}" if value < 0.995 else f"{value:.1%}",
                        ha="center",
                        va="center_baseline",
                        color="white",
                        fontsize=9,
                        bbox=box if hatch else None,
                    )
            left += rows[:, column]
        axes.set(xlim=(0, 1), ylim=(len(texts) - 0.5, -0.5), xticks=[])
        axes.set_yticks(heights, texts)
        axes.tick_params(length=0, labelcolor=INK)
        axes.spines[:].set_visible(False)
        if labels is not None:
            for height, label in zip(heights, labels, strict=True):
                text = f"labelled {label_names[label]}"
                color = palette[label % len(palette)]
                direct_label(axes, 1, height, text, color, annotation_clip=False)
        ends = {"fontsize": 10, "va": "bottom", "transform": axes.get_xaxis_transform()}
        if two:
            axes.text(0, 1.02, label_names[0], color=NEGATIVE, ha="left", **ends)
            axes.text(1, 1.02, label_names[1], color=POSITIVE, ha="right", **ends)
        else:
            figure.legend(
                axes.containers, label_names, loc="outside upper center", ncols=len(label_names)
            )
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        likely = rows.argmax(axis=1)
        # Enough to tell the bars apart: the alt text joins all excerpts into one line.
        short = [drawable(text, min(max_characters, 12)) for text in texts]
        parts = (
            f"{text}: {label_names[best]} {row[best]:.0%}"
            for text, row, best in zip(short, rows, likely, strict=True)
        )
        return finish(figure, f"Probabilities. {'; '.join(parts)}.")


def confident_mistakes(
    predictions: Sequence[Mapping], labels: Sequence[int], count: int = 6, max_characters: int = 26
) -> CourseFigure:
    """Show the wrongly classified texts that the model was surest about, surest first.

    Args:
        predictions: what `course_lib.training.predict` returns.
        labels: true label ids, one a prediction.
        count: how many at most.
        max_characters: longer texts are shortened in the figure.

    Raises:
        ValueError: the numbers differ, or nothing was classified wrongly.
    """
    _, rows = _probability_rows(predictions)
    true = np.asarray(labels, dtype=int)
    if true.shape != (len(predictions),):
        raise ValueError(f"{true.size} labels for {len(predictions)} predictions")
    wrong = np.flatnonzero(rows.argmax(axis=1) != true)
    if wrong.size == 0:
        raise ValueError("every text was classified right: there is no mistake to show")
    chosen = wrong[np.argsort(-rows[wrong].max(axis=1), kind="stable")][:count]
    return probability_bars(
        [predictions[i] for i in chosen],
        labels=true[chosen],
        title=f"Surest of the {wrong.size:,} mistakes in {len(predictions):,} texts",
        max_characters=max_characters,
    )


def answer_positions(
    tokens: Sequence[str],
    start: Sequence[float],
    end: Sequence[float],
    named: int = 3,
) -> CourseFigure:
    """Show where a question-answering head sees the answer begin (upwards) and end (downwards).

    Args:
        tokens: of one window.
        start, end: the probability of each token to be the first and the last of the answer.
        named: how many of the highest bars of either kind carry their token.

    Raises:
        ValueError: the three differ in length, or there is no token.
    """
    if not len(tokens) == len(start) == len(end) > 0:
        raise ValueError(f"{len(tokens)} tokens, {len(start)} starts and {len(end)} ends")
    heights = np.asarray([start, end], dtype=float)
    with course_style():
        figure = CourseFigure(figsize=(7.6, 3.2))
        axes = figure.subplots()
        top = 1.3 * float(heights.max())
        said = []
        for values, color, sign, word in zip(
            heights, COLORS, (1, -1), ("begins", "ends"), strict=False
        ):
            axes.bar(range(len(tokens)), sign * values, color=color, width=1.0, linewidth=0)
            best = np.argsort(-values, kind="stable")[:named]
            for place in best:
                x, y = place, sign * values[place]
                align = {"ha": "center", "va": "bottom" if sign > 0 else "top"}
                axes.text(x, y + sign * 0.01 * top, drawable(tokens[place]), color=INK, **align)
            axes.text(
                1, sign * 0.98 * top, f"the answer {word} here", color=color,
                va="top" if sign > 0 else "bottom", fontsize=9,
            )  # fmt: skip
            said.append(f"{word} at {tokens[best[0]]!r} ({values[best[0]]:.0%})")
        axes.axhline(0, color=MUTED, linewidth=0.8, marker="")
        axes.set(
            xlim=(-1, len(tokens)), ylim=(-top, top), xlabel="token of the window",
            ylabel="probability",
        )  # fmt: skip
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):.0%}"))
        return finish(figure, f"Probabilities over {len(tokens)} tokens: {' and '.join(said)}.")


def threshold_tradeoff(
    probabilities: np.ndarray, true: np.ndarray, threshold: float | None = None, name: str = ""
) -> CourseFigure:
    """Show what a threshold does with one label: who passes it, and precision, recall and F1.

    Args:
        probabilities: of the label, one a text, 0 to 1.
        true: which texts have it.
        threshold: marked in both panels; None marks none.
        name: of the label, for the title.

    Raises:
        ValueError: arrays of different shapes, no text with the label, a number outside 0 to 1.
    """
    values, has = np.asarray(probabilities, "float64"), np.asarray(true, bool)
    inside = threshold is None or 0 <= threshold <= 1
    if values.ndim != 1 or values.shape != has.shape or not has.any() or not inside:
        raise ValueError(
            f"probabilities {values.shape}, true {has.shape} with {has.sum()} texts, threshold "
            f"{threshold}; expected two lists alike, a text with the label, numbers from 0 to 1"
        )

    def figures(limit: float) -> tuple[float, float, float]:
        right, found = (has & (values >= limit)).sum(), (values >= limit).sum()
        precision = right / found if found else np.nan  # nothing found: neither right nor wrong
        return precision, right / has.sum(), 2 * right / (found + has.sum())

    grid = np.linspace(0.01, 0.99, 99)
    curves = np.array([figures(limit) for limit in grid]).T
    names = ("precision", "recall", "F1")
    with course_style():
        figure = CourseFigure(figsize=(8.4, 3.1))
        left, right = figure.subplots(1, 2)
        bins = np.linspace(0, 1, 21)
        texts, groups = [values[~has], values[has]], ["without the label", "with it"]
        left.hist(texts, bins, label=groups, color=["#BBBBBB", COLORS[0]])
        left.set(title=f"Texts by probability {drawable(name)}".strip(), yscale="log")
        left.set(xlabel="probability", ylabel="texts", ylim=(0.7, None), xlim=(0, 1))
        left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        left.legend(loc="upper right")
        for number, curve in enumerate(curves):
            style = {"color": COLORS[number], "linestyle": ("--", ":", "-")[number], "marker": ""}
            right.plot(grid, curve, label=names[number], **style)
        right.set(title="What a threshold gives", xlabel="threshold", xlim=(0, 1), ylim=(0, 1.03))
        best = int(curves[2].argmax())
        alt = f"Probabilities of a label that {has.sum()} of {has.size} texts have. The best F1, "
        alt += f"{curves[2][best]:.2f}, is at {grid[best]:.2f}."
        if threshold is not None:
            found = figures(threshold)
            for axes in (left, right):
                axes.axvline(threshold, color=INK, linewidth=1, linestyle="-.", marker="")
            for number, value in enumerate(found):
                mark = {"color": COLORS[number], "marker": MARKERS[number], "linestyle": ""}
                right.plot(threshold, value, **mark)
            said = ", ".join(f"{n} {v:.2f}" for n, v in zip(names, found, strict=True))
            right.set(title=f"At {threshold:.2f}: {said}".replace("nan", "–"))
            alt += f" At {threshold:.2f}: {said}."
        right.legend(loc="upper left", bbox_to_anchor=(1, 1))
        return finish(figure, alt)


def precision_recall(
    probabilities: Sequence[float], true: Sequence[bool], threshold: float = 0.5, name: str = ""
) -> CourseFigure:
    """Show all bargains between precision and recall of one class, and the one of a threshold.

    Args:
        probabilities: of the class, one an example, 0 to 1.
        true: which examples are of the class.
        threshold: marked on the curve.
        name: of the class, for the title.

    Raises:
        ValueError: arrays of different shapes, no example of the class, a number outside 0 to 1.
    """
    values, has = np.asarray(probabilities, "float64"), np.asarray(true, bool)
    if values.ndim != 1 or values.shape != has.shape or not has.any() or not 0 <= threshold <= 1:
        raise ValueError(
            f"probabilities {values.shape}, true {has.shape} with {has.sum()} of the class, "
            f"threshold {threshold}; expected two lists alike, one of the class, 0 to 1"
        )

    def point(limit: float) -> tuple[float, float]:
        right, found = (has & (values >= limit)).sum(), (values >= limit).sum()
        return right / has.sum(), right / found if found else 1.0

    curve = np.array([point(limit) for limit in np.unique(values)[::-1]]).T
    recall, precision = point(threshold)
    with course_style():
        figure = CourseFigure(figsize=(6.4, 3.8))
        axes = figure.subplots()
        axes.plot(
            *curve, color=COLORS[0], drawstyle="steps-post", marker="", label="all thresholds"
        )
        style = {"color": COLORS[1], "marker": "D", "linestyle": "", "markersize": 9}
        axes.plot(recall, precision, label=f"threshold {threshold:.2f}", **style)
        share = has.mean()
        axes.axhline(share, color=MUTED, linewidth=1, linestyle=":", marker="", label="chance")
        said = f"recall {recall:.2f}, precision {precision:.2f}"
        axes.set(title=f"{drawable(name)} at {threshold:.2f}: {said}".strip())
        axes.set(xlabel="recall", ylabel="precision", xlim=(-0.02, 1.02), ylim=(0, 1.05))
        axes.grid()
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        alt = f"Precision against recall, {has.sum()} of {has.size} examples are of the class. "
        return finish(figure, alt + f"At the threshold {threshold:.2f}: {said}.")


def taxonomy_tree(
    scores: Mapping[str, float],
    counts: Mapping[str, int] | None = None,
    separator: str = "##",
    rows: int = 24,
) -> CourseFigure:
    """Show labels that are paths as trees from left to right, coloured by F1.

    Args:
        scores: F1 by label, 0 to 1, all ancestors of a label among them.
        counts: texts by label; labels of fewer than one are left grey.
        separator: between the parts of a path.
        rows: labels without children that one column of the figure takes, where the trees allow it.

    Raises:
        ValueError: there are no scores, one is not from 0 to 1, or a parent is missing.
    """
    if not scores or not all(0 <= value <= 1 for value in scores.values()):
        raise ValueError(f"scores {dict(list(scores.items())[:3])}; expected some, from 0 to 1")
    children: dict[str, list[str]] = {"": []}
    for label in scores:
        above = separator.join(label.split(separator)[:-1])
        if above and above not in scores:
            raise ValueError(f"{label!r} has no parent {above!r} among the scores")
        children.setdefault(above, []).append(label)

    def leaves(label: str) -> int:
        return sum(map(leaves, children.get(label, ()))) or 1

    panels: list[list[str]] = [[]]
    for root in children[""]:  # whole trees side by side, in their order
        if panels[-1] and sum(map(leaves, panels[-1])) + leaves(root) > rows:
            panels.append([])
        panels[-1].append(root)
    height = max(sum(map(leaves, roots)) for roots in panels)
    depth = max(label.count(separator) for label in scores) + 1
    with course_style():
        figure = CourseFigure(figsize=(1.28 * depth * len(panels) + 0.9, 0.27 * height + 0.7))
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, roots in zip(grid, panels, strict=True):
            axes.set(xlim=(-0.02, depth), ylim=(height - 0.4, -0.6))
            axes.axis("off")
            line = 0

            def draw(label: str, level: int, axes=axes) -> float:
                nonlocal line
                below = [draw(child, level + 1) for child in children.get(label, ())]
                y = sum(below) / len(below) if below else float(line)
                line += not below
                for other in below:
                    middle = level + 0.9
                    axes.plot(
                        [level + 0.84, middle, middle, level + 1], [y, y, other, other],
                        color="#BBBBBB", linewidth=0.9, marker="", zorder=1,
                    )  # fmt: skip
                value, empty = scores[label], counts is not None and not counts.get(label)
                face = "#EEEEEE" if empty else HEAT(value)
                axes.add_patch(
                    FancyBboxPatch(
                        (level, y - 0.36), 0.84, 0.72, facecolor=face, edgecolor="#BBBBBB",
                        boxstyle="round,pad=0,rounding_size=0.08", linewidth=0.6, zorder=2,
                    )
                )  # fmt: skip
                ink = "white" if value > 0.8 and not empty else INK
                name = drawable(label.rpartition(separator)[2], 6)
                style = {"va": "center", "fontsize": 8.5, "color": ink, "zorder": 3}
                axes.text(level + 0.04, y, name, ha="left", **style)
                figures = "–" if empty else f"{value:.2f}"
                axes.text(level + 0.8, y, figures, ha="right", **style)
                return y

            for root in roots:
                draw(root, 0)
        scale = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(0, 1), HEAT)
        bar = figure.colorbar(scale, ax=list(grid), shrink=min(1, 2.2 / (0.27 * height)), pad=0.01)
        bar.set_label("F1")
        bar.outline.set_visible(False)
        known = [label for label in scores if counts is None or counts.get(label)]
        ranked = sorted(known, key=scores.__getitem__)
        said = f"Tree of {len(scores)} labels on {depth} levels, coloured by F1."
        if len(known) < len(scores):
            said += f" {len(scores) - len(known)} have no text, and are grey."
        if ranked:
            best, worst = (f"{label} ({scores[label]:.2f})" for label in (ranked[-1], ranked[0]))
            said += f" The best is {best}, the worst {worst}."
        return finish(figure, said)
