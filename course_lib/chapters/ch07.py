"""Figures and experiments of chapter 07."""

from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.notebook.style import (
    BESIDE,
    COLORS,
    HEAT,
    INK,
    MARKERS,
    PAPER,
    CourseFigure,
    drawable,
)

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter


def head_importance(
    worth: Sequence[Sequence[float]], outlined: Sequence[tuple[int, int]] = ()
) -> CourseFigure:
    """Show what each attention head is worth, one row per layer, as a share of the best.

    Args:
        worth: importance of shape [layers, heads], at least 0, such as
            `course_lib.compression.importance` gives.
        outlined: (layer, head) of heads to draw a frame around.
    """
    worth = np.asarray(worth, dtype=float)
    share = worth / worth.max()
    layers, heads = share.shape
    with CourseFigure(figsize=(max(4.0, 0.58 * heads + 1.0), 0.52 * layers + 1.1)) as figure:
        axes = figure.subplots()
        axes.imshow(share, cmap=HEAT, vmin=0, vmax=1, aspect="auto")
        for layer, head in np.ndindex(share.shape):
            color = "white" if share[layer, head] > 0.55 else INK
            text = f"{share[layer, head]:.0%}"
            axes.text(head, layer, text, ha="center", va="center", color=color, fontsize=9)
        for layer, head in outlined:
            corner = (head - 0.44, layer - 0.42)
            style = {"fill": False, "edgecolor": COLORS[1], "linewidth": 2.2}
            axes.add_patch(Rectangle(corner, 0.88, 0.84, **style))
        axes.set_xticks(range(heads))
        axes.set_yticks(range(layers))
        axes.set(xlabel="head", ylabel="layer", title="Importance, in % of the largest")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, colors=INK)
        most, least = (
            np.unravel_index(place, share.shape) for place in (share.argmax(), share.argmin())
        )
        alt = (
            f"Importance of {heads} heads in each of {layers} layers. The most important is head "
            f"{most[1]} of layer {most[0]}, the least head {least[1]} of layer {least[0]}, with "
            f"{share.min():.0%} of that."
        )
        return figure.finish(alt)


def width_tradeoff(
    widths: Sequence[float],
    accuracy: Mapping[str, Sequence[float]],
    milliseconds: Sequence[float],
    megabytes: Sequence[float],
    chosen: float | None = None,
) -> CourseFigure:
    """Show what a width keeps of accuracy, and what it costs in time and on disk.

    Args:
        widths: shares of the whole width, one a model.
        accuracy: for each way of making the models, 0 to 1 a width.
        milliseconds: time of a batch, one value a width.
        megabytes: on disk, one value a width.
        chosen: one of `widths`, to be marked and have its figures written beside it.
    """
    widths = [float(width) for width in widths]
    order = np.argsort(widths)
    at = [widths[place] for place in order]
    low = min(min(values) for values in accuracy.values())
    high = max(max(values) for values in accuracy.values())
    spread = max(high - low, 0.04)
    with CourseFigure(figsize=(8.2, 3.3)) as figure:
        left, *bars = figure.subplots(1, 3, width_ratios=[2.1, 1, 1])
        for number, (name, values) in enumerate(accuracy.items()):
            style = {"color": COLORS[number], "marker": MARKERS[number]}
            values = [values[place] for place in order]
            left.plot(at, values, label=drawable(name), **style)
            if chosen is not None:
                value = values[at.index(chosen)]
                there = [other[widths.index(chosen)] for other in accuracy.values()]
                if value in there[:number]:
                    continue  # one label for one place
                # series stand one above the other in the order of their values there
                rank = sum(value < other for other in there)
                beside: dict[str, Any] = {**BESIDE, "ha": "center", "bbox": PAPER}
                beside["xytext"], beside["va"] = ((0, -9), "top") if rank else ((0, 9), "bottom")
                left.annotate(f"{value:.1%}", (chosen, value), color=COLORS[number], **beside)
        left.set(title="Accuracy", xlabel="width", ylim=(low - 0.22 * spread, high + 0.3 * spread))
        left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        left.legend(loc="lower right")
        left.grid(axis="y")
        for axes, values, title in zip(
            bars, (milliseconds, megabytes), ("ms a batch", "MB on disk"), strict=True
        ):
            heights = [values[place] for place in order]
            faded = ["#9DB8CC" if chosen not in (None, width) else COLORS[0] for width in at]
            axes.bar(range(len(at)), heights, 0.62, color=faded, linewidth=0)
            for place, (width, height) in enumerate(zip(at, heights, strict=True)):
                if chosen in (None, width):
                    axes.text(place, height, f"{height:.0f}", ha="center", va="bottom", fontsize=9)
            axes.set(title=title, xlabel="width", ylim=(0, 1.15 * max(heights)))
            axes.set_xticks(range(len(at)), [f"{width:g}" for width in at])
        left.set_xticks(at, [f"{width:g}" for width in at])
        summary = "; ".join(
            f"width {width:g}: "
            + ", ".join(f"{name} {values[place]:.1%}" for name, values in accuracy.items())
            + f", {milliseconds[place]:.0f} ms, {megabytes[place]:.0f} MB"
            for width, place in zip(at, order, strict=True)
            if chosen in (None, width)
        )
        return figure.finish(f"Accuracy, time and size by width. {summary}.")
