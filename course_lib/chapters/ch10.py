"""Figures and experiments of chapter 10."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter

from course_lib.notebook.style import (
    COLORS,
    INK,
    MARKERS,
    CourseFigure,
    drawable,
)

import numpy as np
from matplotlib.ticker import FuncFormatter


def unfold(parents: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Give the paths of a graph in which a node may have several parents: one for each way down.

    Args:
        parents: for each node the nodes right above it; a top one may be left out.

    Returns:
        The paths that end in each node, its parts joined by "##"; all together a tree of labels.

    Raises:
        ValueError: there is a cycle.
    """
    paths: dict[str, list[str]] = {}
    for name in TopologicalSorter(parents).static_order():
        above = [path for parent in parents.get(name, ()) for path in paths[parent]]
        paths[name] = [f"{path}##{name}" for path in above] or [name]
    return paths


def threshold_tradeoff(
    probabilities: np.ndarray, true: np.ndarray, threshold: float | None = None, name: str = ""
) -> CourseFigure:
    """Show what a threshold does with one label: who passes it, and precision, recall and F1.

    Args:
        probabilities: of the label, one a text, 0 to 1.
        true: which texts have it.
        threshold: marked in both panels; None marks none.
        name: of the label, for the title.
    """
    values, has = np.asarray(probabilities, "float64"), np.asarray(true, bool)

    def figures(limit: float) -> tuple[float, float, float]:
        right, passed = (has & (values >= limit)).sum(), (values >= limit).sum()
        precision = right / passed if passed else np.nan  # neither right nor wrong
        return precision, right / has.sum(), 2 * right / (passed + has.sum())

    grid = np.linspace(0.01, 0.99, 99)
    curves = np.array([figures(limit) for limit in grid]).T
    names = ("precision", "recall", "F1")
    with CourseFigure(figsize=(8.4, 3.1)) as figure:
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
            reached = figures(threshold)
            for axes in (left, right):
                axes.axvline(threshold, color=INK, linewidth=1, linestyle="-.", marker="")
            for number, value in enumerate(reached):
                mark = {"color": COLORS[number], "marker": MARKERS[number], "linestyle": ""}
                right.plot(threshold, value, **mark)
            shown = ", ".join(f"{n} {v:.2f}" for n, v in zip(names, reached, strict=True))
            right.set(title=f"At {threshold:.2f}: {shown}".replace("nan", "–"))
            alt += f" At {threshold:.2f}: {shown}."
        right.legend(loc="upper left", bbox_to_anchor=(1, 1))
        return figure.finish(alt)
