"""Figures and experiments of chapter 03."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.notebook.style import (
    COLORS,
    INK,
    MUTED,
    CourseFigure,
    drawable,
)

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.ticker import MaxNLocator

_PADDED = "#F6BE93"  # far lighter than the tokens beside it


def pipeline_flow(
    stages: Sequence[tuple[str, str]],
    calls: Sequence[str],
    side: tuple[str, str, int] | None = None,
) -> CourseFigure:
    """Show what becomes of data: a box for each form it takes, an arrow for each call between.

    Args:
        stages: (name, example of its content), in order; the content may have several lines.
        calls: what turns each stage into the next, one less than stages.
        side: (name, content, number of the call that it steers): a box below that arrow.
    """
    width, gap, height = 1.8, 1.15, 1.15
    right = len(stages) * (width + gap) - gap
    low = -2.3 if side else -0.7
    box = {"boxstyle": "round,pad=0.02,rounding_size=0.08", "linewidth": 1.2}
    arrow = {"arrowstyle": "-|>", "color": MUTED, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
    # One unit is 0.65 inches in both directions, so boxes keep their shape.
    with CourseFigure(figsize=(0.65 * (right + 0.2), 0.65 * (0.7 - low))) as figure:
        axes = figure.subplots()
        axes.set(xlim=(-0.1, right + 0.1), ylim=(low, 0.7), xticks=[], yticks=[])
        axes.spines[:].set_visible(False)

        def draw(x: float, y: float, name: str, content: str, color: str) -> None:
            corner = (x - width / 2, y - height / 2)
            style = {**box, "edgecolor": color, "facecolor": "white"}
            axes.add_patch(FancyBboxPatch(corner, width, height, **style))
            text = {"ha": "center", "fontsize": 8}
            axes.text(x, y + 0.36, name, color=color, va="center", **text)
            content = "\n".join(drawable(line) for line in content.splitlines())
            axes.text(x, y - 0.14, content, color=INK, va="center", **text)

        for number, (name, content) in enumerate(stages):
            x = width / 2 + number * (width + gap)
            draw(x, 0, name, content, COLORS[0])
            if number:
                middle = x - (width + gap) / 2
                ends = {"xy": (x - width / 2, 0), "xytext": (x - width / 2 - gap, 0)}
                axes.annotate("", **ends, arrowprops=arrow)
                call = {"ha": "center", "va": "bottom", "fontsize": 8, "color": "#A84A00"}
                axes.text(middle, 0.08, calls[number - 1], **call)
        if side:
            name, content, number = side
            x = (number + 1) * (width + gap) - gap / 2
            draw(x, -1.65, name, content, "#007A59")
            ends = {"xy": (x, -0.04), "xytext": (x, -1.65 + height / 2)}
            axes.annotate("", **ends, arrowprops={**arrow, "color": "#007A59"})
        steps = "; ".join(
            f"{call} makes {name}"
            for call, (name, _) in zip(
                (call.replace("\n", " ") for call in calls), stages[1:], strict=True
            )
        )
        alt = f"Boxes and arrows. It begins with {stages[0][0]}; {steps}."
        if side:
            alt += f" {side[0]} steers {calls[side[2]]}."
        return figure.finish(alt)


def padding_map(strategies: Mapping[str, Sequence[Sequence[int]]], rows: int = 160) -> CourseFigure:
    """Show how much of each batch is padding: one row a sequence, padded cells in another colour.

    Args:
        strategies: the batches of each way to make them, by its name; a batch is the lengths of
            its sequences in tokens. The share printed is that of all batches.
        rows: draw the first batches, up to so many sequences.
    """
    widest = max(max(map(max, batches)) for batches in strategies.values())
    tallest = 0
    pictures, shares, lines = {}, {}, {}
    for name, batches in strategies.items():
        padded = sum(max(batch) * len(batch) for batch in batches)
        shares[name] = 1 - sum(map(sum, batches)) / padded
        kinds: list = []
        edges = [0]
        for batch in batches:
            if kinds and len(kinds) + len(batch) > rows:
                break
            for length in batch:
                kinds.append([1] * length + [2] * (max(batch) - length))
            edges.append(len(kinds))
        pictures[name] = np.zeros((len(kinds), widest), dtype=int)
        for row, kind in zip(pictures[name], kinds, strict=True):
            row[: len(kind)] = kind
        lines[name] = edges
        tallest = max(tallest, len(kinds))
    colors = ListedColormap(["white", COLORS[0], _PADDED])
    with CourseFigure(figsize=(max(4.6, 2.35 * len(strategies)), 3.9)) as figure:
        grid = figure.subplots(1, len(strategies), squeeze=False, sharex=True, sharey=True)[0]
        for axes, (name, picture) in zip(grid, pictures.items(), strict=True):
            extent = (0, widest, len(picture), 0)
            axes.imshow(
                picture, cmap=colors, vmin=0, vmax=2, aspect="auto", extent=extent,
                interpolation="nearest",
            )  # fmt: skip
            for edge in lines[name][1:-1]:
                axes.axhline(edge, color="white", linewidth=1.5, marker="")
            axes.set(ylim=(tallest, 0), xlabel="position", yticks=[])
            axes.set_title(f"{name}\n{shares[name]:.0%} padding")
            axes.spines["left"].set_visible(False)
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        grid[0].set_ylabel("one row a sequence, batches apart")
        handles = [Patch(facecolor=COLORS[0]), Patch(facecolor=_PADDED)]
        figure.legend(handles, ["tokens", "padding"], loc="outside lower center", ncols=2)
        summary = "; ".join(f"{name}: {share:.0%}" for name, share in shares.items())
        return figure.finish(f"Rows of tokens and of padding. Share of padding: {summary}.")
