"""Figures and experiments of chapter 10."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter

from course_lib.notebook.style import (
    COLORS,
    HEAT,
    INK,
    MARKERS,
    CourseFigure,
    drawable,
)

import matplotlib
import numpy as np
from matplotlib.patches import FancyBboxPatch
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


def taxonomy_tree(
    scores: Mapping[str, float],
    counts: Mapping[str, int] | None = None,
    separator: str = "##",
    rows: int = 24,
) -> CourseFigure:
    """Show labels that are paths as trees from left to right, colored by F1.

    Args:
        scores: F1 by label, 0 to 1, all ancestors of a label among them.
        counts: texts by label; labels without one are left gray.
        separator: between the parts of a path.
        rows: labels without children that one column of the figure takes, where the trees allow it.
    """
    children: dict[str, list[str]] = {"": []}
    for label in scores:
        above = separator.join(label.split(separator)[:-1])
        children.setdefault(above, []).append(label)
    panels, heights = _panels(children, rows)
    depth = max(label.count(separator) for label in scores) + 1
    size = 1.28 * depth * len(panels) + 0.9, 0.27 * max(heights) + 0.7
    with CourseFigure(figsize=size) as figure:
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, roots in zip(grid, panels, strict=True):
            axes.set(xlim=(-0.02, depth), ylim=(max(heights) - 0.4, -0.6))
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
                known = counts is None or counts.get(label)
                name = drawable(label.rpartition(separator)[2], 6)
                _box(axes, level, y, name, scores[label] if known else None)
                return y

            for root in roots:
                draw(root, 0)
        scale = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(0, 1), HEAT)
        shrink = min(1, 2.2 / (0.27 * max(heights)))
        bar = figure.colorbar(scale, ax=list(grid), shrink=shrink, pad=0.01)
        bar.set_label("F1")
        bar.outline.set_visible(False)
        known = [label for label in scores if counts is None or counts.get(label)]
        ranked = sorted(known, key=scores.__getitem__)
        alt = f"Tree of {len(scores)} labels on {depth} levels, colored by F1."
        if len(known) < len(scores):
            alt += f" {len(scores) - len(known)} have no text, and are gray."
        if ranked:
            best, worst = (f"{label} ({scores[label]:.2f})" for label in (ranked[-1], ranked[0]))
            alt += f" The best is {best}, the worst {worst}."
        return figure.finish(alt)


def _panels(children: Mapping[str, list[str]], rows: int) -> tuple[list[list[str]], list[int]]:
    """Whole trees side by side, in their order, and how many leaves each column has."""

    def leaves(label: str) -> int:
        return sum(map(leaves, children.get(label, ()))) or 1

    panels: list[list[str]] = [[]]
    heights = [0]
    for root in children[""]:
        if panels[-1] and heights[-1] + leaves(root) > rows:
            panels.append([])
            heights.append(0)
        panels[-1].append(root)
        heights[-1] += leaves(root)
    return panels, heights


def _box(axes, level: int, y: float, name: str, score: float | None) -> None:
    """A label's box with its name and score; gray without a score."""
    face = "#EEEEEE" if score is None else HEAT(score)
    axes.add_patch(
        FancyBboxPatch(
            (level, y - 0.36), 0.84, 0.72, facecolor=face, edgecolor="#BBBBBB",
            boxstyle="round,pad=0,rounding_size=0.08", linewidth=0.6, zorder=2,
        )
    )  # fmt: skip
    ink = "white" if score is not None and score > 0.8 else INK
    style = {"va": "center", "fontsize": 8.5, "color": ink, "zorder": 3}
    axes.text(level + 0.04, y, name, ha="left", **style)
    axes.text(level + 0.8, y, "–" if score is None else f"{score:.2f}", ha="right", **style)
