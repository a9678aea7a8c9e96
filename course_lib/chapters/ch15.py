"""Figures and experiments of chapter 15."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.notebook.style import (
    COLORS,
    INK,
    MUTED,
    CourseFigure,
    course_style,
    drawable,
    finish,
    series_style,
)

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator, PercentFormatter


def gain_intervals(gains: Mapping[str, pd.DataFrame], unit: str = "") -> CourseFigure:
    """Show what remedies gain against doing nothing: a point and an interval each, 0 is no gain.

    Args:
        gains: by name of a figure (a panel each), tables with a row a remedy and the columns
            "gain", "low" and "high".
        unit: of the gains, written below.

    Raises:
        ValueError: no table, or tables of different remedies.
    """
    frames = list(gains.values())
    rows = [list(frame.index) for frame in frames]
    if not rows or not rows[0] or any(row != rows[0] for row in rows):
        raise ValueError("no table, or tables of different remedies: there is nothing to compare")
    names = [drawable(name) for name in frames[0].index]
    places = np.arange(len(names))
    with course_style():
        figure = CourseFigure(figsize=(8.4, 1.1 + 0.42 * len(names)))
        panels = figure.subplots(1, len(frames), sharey=True, squeeze=False)[0]
        for axes, (title, frame) in zip(panels, gains.items(), strict=True):
            axes.axvline(0, color=INK, linewidth=1, marker="")
            for place, row in zip(places, frame.itertuples(), strict=True):
                color = COLORS[0] if row.low > 0 else COLORS[1] if row.high < 0 else MUTED
                marker = "o" if row.low > 0 else "v" if row.high < 0 else "s"
                axes.plot([row.low, row.high], [place, place], color=color, marker="|")
                axes.plot(row.gain, place, color=color, marker=marker, linestyle="")
            axes.set(title=drawable(title), xlabel=unit, yticks=places, yticklabels=names)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.grid(axis="x")
        panels[0].invert_yaxis()
        said = ". ".join(
            f"{title}: "
            + "; ".join(
                f"{name} {row.gain:+.3f} ({row.low:+.3f} to {row.high:+.3f})"
                for name, row in zip(frame.index, frame.itertuples(), strict=True)
            )
            for title, frame in gains.items()
        )
        return finish(figure, f"Gains against doing nothing, with intervals. {said}.")


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


def accuracy_by_size(points: pd.DataFrame, chance: float | None = None) -> CourseFigure:
    """Show how accuracy grows with the number of labelled examples, a line a learner.

    Args:
        points: what `course_lib.recipes.curve_points` returns.
        chance: accuracy of guessing, drawn as a line.

    Raises:
        ValueError: there is no point.
    """
    if points.empty:
        raise ValueError("no points: there is nothing to draw")
    sizes = sorted(set(points.index.get_level_values("examples")))
    with course_style():
        figure = CourseFigure(figsize=(7.2, 4.0))
        axes = figure.subplots()
        names = list(dict.fromkeys(points.index.get_level_values("learner")))
        for number, name in enumerate(names):
            line = points.xs(name, level="learner").sort_index()
            spread = [line["accuracy"] - line["low"], line["high"] - line["accuracy"]]
            shift = 1.04 ** (number - (len(names) - 1) / 2)  # so that bars do not hide each other
            axes.errorbar(
                line.index * shift, line["accuracy"], np.maximum(spread, 0), capsize=3,
                elinewidth=1.2, label=drawable(name), **series_style(number),
            )  # fmt: skip
        if chance is not None:
            axes.axhline(chance, color=MUTED, linewidth=1, linestyle=":", marker="", label="chance")
        axes.set(xscale="log", xlabel="labelled examples", ylabel="accuracy")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.set_xticks([], minor=True)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")
        said = "; ".join(
            f"{name} with {size}: {row.accuracy:.1%} ({row.low:.1%} to {row.high:.1%})"
            for (name, size), row in zip(points.index, points.itertuples(), strict=True)
        )
        return finish(figure, f"Accuracy by number of labelled examples. {said}.")
