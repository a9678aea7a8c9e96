"""Figures and experiments of chapter 10."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.notebook.style import (
    COLORS,
    HEAT,
    INK,
    MARKERS,
    CourseFigure,
    course_style,
    drawable,
    finish,
)

import matplotlib
import numpy as np
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import FuncFormatter


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
            summary = ", ".join(f"{n} {v:.2f}" for n, v in zip(names, found, strict=True))
            right.set(title=f"At {threshold:.2f}: {summary}".replace("nan", "–"))
            alt += f" At {threshold:.2f}: {summary}."
        right.legend(loc="upper left", bbox_to_anchor=(1, 1))
        return finish(figure, alt)


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
    """
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
        summary = f"Tree of {len(scores)} labels on {depth} levels, coloured by F1."
        if len(known) < len(scores):
            summary += f" {len(scores) - len(known)} have no text, and are grey."
        if ranked:
            best, worst = (f"{label} ({scores[label]:.2f})" for label in (ranked[-1], ranked[0]))
            summary += f" The best is {best}, the worst {worst}."
        return finish(figure, summary)
