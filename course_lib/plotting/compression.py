"""Figures of smaller and faster models: pruning, INT8, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.plotting.style import (
    COLORS,
    HEAT,
    INK,
    MARKERS,
    MUTED,
    PAPER,
    CourseFigure,
    course_style,
    direct_label,
    drawable,
    finish,
    series_style,
)

import numpy as np
import pandas as pd
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter


def speed_accuracy(frame: pd.DataFrame) -> CourseFigure:
    """Show what speed costs in accuracy, one point a model; up and to the right is better.

    Args:
        frame: of `course_lib.compression.compare`. The first row is what the others are held to: a
            bar reaches over the 95% interval of a model's difference from it.

    Raises:
        ValueError: there is no model.
    """
    if not len(frame):
        raise ValueError("no models: there is nothing to draw")
    first = frame["score"].iloc[0]
    with course_style():
        figure = CourseFigure(figsize=(7.2, 4.0))
        axes = figure.subplots()
        axes.axhline(first, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for number, (name, row) in enumerate(frame.iterrows()):
            ends = sorted((first + row["low"], first + row["high"]))
            spread = [[max(0, row["score"] - ends[0])], [max(0, ends[1] - row["score"])]]
            axes.errorbar(
                row["speedup"], row["score"], None if number == 0 else spread, capsize=3,
                linestyle="", elinewidth=1.2, label=drawable(f"{name}, {row['megabytes']:.1f} MB"),
                **series_style(number),
            )  # fmt: skip
        axes.set(xlabel="times as fast as the first", ylabel="score")
        axes.set_xlim(0, 1.1 * frame["speedup"].max())
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")
        said = "; ".join(
            f"{name}: {row['speedup']:.2f} times as fast, score {row['score']:.1%}, "
            f"{row['megabytes']:.1f} MB"
            for name, row in frame.iterrows()
        )
        return finish(figure, f"Accuracy against speed. {said}.")


def head_importance(
    worth: Sequence[Sequence[float]], outlined: Sequence[tuple[int, int]] = ()
) -> CourseFigure:
    """Show what each attention head is worth, a row a layer, as a share of the most important one.

    Args:
        worth: importance of shape [layers, heads], at least 0, such as
            `course_lib.compression.importance` gives.
        outlined: (layer, head) of heads to draw a frame around.

    Raises:
        ValueError: the shape is another, or nothing is worth anything.
    """
    worth = np.asarray(worth, dtype=float)
    if worth.ndim != 2 or not worth.size or worth.max() <= 0:
        raise ValueError(f"worth has shape {worth.shape}; expected [layers, heads], not all 0")
    share = worth / worth.max()
    layers, heads = share.shape
    with course_style():
        figure = CourseFigure(figsize=(max(4.0, 0.58 * heads + 1.0), 0.52 * layers + 1.1))
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
        return finish(figure, alt)


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

    Raises:
        ValueError: the numbers of values differ, there are none, or `chosen` is no width.
    """
    widths = [float(width) for width in widths]
    columns = [*accuracy.values(), milliseconds, megabytes]
    if not widths or not accuracy or any(len(column) != len(widths) for column in columns):
        raise ValueError(f"{[len(column) for column in columns]} values for {len(widths)} widths")
    if chosen is not None and chosen not in widths:
        raise ValueError(f"chosen is {chosen}; expected one of {widths}")
    order = np.argsort(widths)
    at = [widths[place] for place in order]
    low = min(min(values) for values in accuracy.values())
    high = max(max(values) for values in accuracy.values())
    spread = max(high - low, 0.04)
    with course_style():
        figure = CourseFigure(figsize=(8.2, 3.3))
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
                place = {"xytext": (0, -9 if rank else 9), "ha": "center"}
                place["va"] = "top" if rank else "bottom"
                place["bbox"] = PAPER
                direct_label(left, chosen, value, f"{value:.1%}", COLORS[number], **place)
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
        said = "; ".join(
            f"width {width:g}: "
            + ", ".join(f"{name} {values[place]:.1%}" for name, values in accuracy.items())
            + f", {milliseconds[place]:.0f} ms, {megabytes[place]:.0f} MB"
            for width, place in zip(at, order, strict=True)
            if chosen in (None, width)
        )
        return finish(figure, f"Accuracy, time and size by width. {said}.")


def limit_costs(values: np.ndarray, limits: Mapping[str, float]) -> CourseFigure:
    """Show where limits of an INT8 scale lie among a tensor's values, and what each costs.

    Args:
        values: of a tensor, of any shape.
        limits: by name the largest value that shall fit; it becomes 127.

    Raises:
        ValueError: there is no value other than 0, no limit, or one that is not above 0.
    """
    sizes = np.abs(np.asarray(values, dtype="float32")).reshape(-1)
    if not limits or not all(limit > 0 for limit in limits.values()) or not sizes.any():
        raise ValueError(f"limits {dict(limits)}; expected some above 0, and values not all 0")
    top = float(sizes.max())
    counts, edges = np.histogram(sizes, 2**15, (0, top))
    middles, shares = (edges[:-1] + edges[1:]) / 2, counts / sizes.size

    def costs(limit: float) -> tuple[float, float]:
        step, inside = limit / 127, middles <= limit
        off = np.where(inside, np.round(middles / step) * step, limit) - middles
        return tuple(float(off[part] ** 2 @ shares[part]) for part in (inside, ~inside))

    grid = np.linspace(0.06 * top, max(top, *limits.values()), 80)
    rounding, clipping = np.array([costs(limit) for limit in grid]).T
    total = rounding + clipping
    with course_style():
        figure = CourseFigure(figsize=(7.4, 4.9))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.25])
        above.hist(sizes, 120, color="#9DB8CC", log=True)
        above.set(title="How often a value is that large", ylabel="values")
        for line, style, name in ((rounding, "--", "rounding"), (clipping, ":", "clipping")):
            below.plot(grid, line, style, color=MUTED, marker="", linewidth=1.4, label=name)
        below.plot(grid, total, color=INK, marker="", linewidth=1.4, label="both")
        said = []
        for number, (name, limit) in enumerate(limits.items()):
            style = series_style(number)
            cost = sum(costs(limit))
            for axes in (above, below):
                axes.axvline(limit, color=style["color"], linewidth=1.2, marker="", alpha=0.8)
            below.plot(
                limit, cost, linestyle="", markersize=8, zorder=5,
                label=f"{drawable(name)} {limit:.2f}", **style,
            )  # fmt: skip
            beyond = float((sizes > limit).mean())
            said.append(f"{name} {limit:.2f}, error {cost:.1e}, {beyond:.3%} of values clipped")
        below.set(
            yscale="log", ylim=(total.min() / 6, 2 * total.max()), xlim=(0, 1.02 * grid[-1]),
            title="What a limit there costs", ylabel="mean squared error",
            xlabel="absolute value, and limit",
        )  # fmt: skip
        handles, names = below.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside right upper")
        alt = f"Values up to {top:.2f}, and the squared error against the limit. {'; '.join(said)}"
        return finish(figure, alt + ".")
