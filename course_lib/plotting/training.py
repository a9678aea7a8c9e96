"""Figures of training: its course, its memory, and what settings and more data change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.plotting.style import (
    COLORS,
    MARKERS,
    MUTED,
    CourseFigure,
    course_style,
    direct_label,
    drawable,
    finish,
    series_style,
)

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator, PercentFormatter


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Mean of each value and up to `window - 1` before it (it never looks ahead)."""
    sums = np.cumsum(np.insert(values, 0, 0.0))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def learning_curves(
    history: Mapping[str, Sequence[float]], chance: float | None = None
) -> CourseFigure:
    """Show the training loss of every step beside what the dev split says after each epoch.

    Args:
        history: what `course_lib.training.fit` returns; used are "loss" (one value a step) and,
            where they are not empty, "epoch_step" (the step at the end of each epoch), "dev_loss"
            and "dev_accuracy" (0 to 1), one value an epoch.
        chance: accuracy of guessing, drawn as a line for comparison.

    Raises:
        ValueError: there are no steps, or the values of epochs differ in number.
    """
    values = np.asarray(history["loss"], dtype=float)
    if values.size == 0:
        raise ValueError("the history has no steps: there is nothing to draw")
    dev_loss, dev_accuracy = history.get("dev_loss", ()), history.get("dev_accuracy", ())
    dev_steps = history.get("epoch_step", ())
    for name, series in (("dev_loss", dev_loss), ("dev_accuracy", dev_accuracy)):
        if len(series) not in (0, len(dev_steps)):
            raise ValueError(f"{name} has {len(series)} values for {len(dev_steps)} epochs")
    steps = np.arange(1, values.size + 1)
    smooth = _running_mean(values, max(1, values.size // 20))
    panels = 2 if len(dev_accuracy) else 1
    with course_style():
        figure = CourseFigure(figsize=(4.4 * panels, 3.2))
        grid = figure.subplots(1, panels, squeeze=False)[0]
        left = grid[0]
        left.plot(steps, values, color=COLORS[0], alpha=0.25, linewidth=1, marker="")
        left.plot(steps, smooth, color=COLORS[0], marker="")
        left.set(title="Loss", xlabel="step", xlim=(0, values.size * 1.22))
        shown = np.concatenate([np.sort(values)[: max(1, int(values.size * 0.99))], dev_loss])
        left.set_ylim(0, float(shown.max()) * 1.12)
        ends = [float(smooth[-1])]
        if len(dev_loss):
            left.plot(dev_steps, dev_loss, color=COLORS[1], marker=MARKERS[1], linestyle="--")
            ends.append(float(dev_loss[-1]))
        # Two labels at almost the same height would print over each other.
        apart = 0.075 * left.get_ylim()[1]
        push = 0.0
        if len(ends) == 2 and abs(ends[0] - ends[1]) < apart:
            push = (apart - abs(ends[0] - ends[1])) / 2
        for index, (end, name) in enumerate(zip(ends, ("train", "dev"), strict=False)):
            sign = 1 if end >= ends[index - 1] and (end, index) != (ends[index - 1], 1) else -1
            position = end + sign * push
            at = values.size if index == 0 else dev_steps[-1]
            direct_label(left, at, position, f"{name} {end:.2f}", COLORS[index], xytext=(8, 0))
        alt = f"Training loss over {values.size} steps, from {values[0]:.2f} to {smooth[-1]:.2f}"
        if len(dev_loss):
            alt += f"; dev loss ends at {dev_loss[-1]:.2f}"
        if panels == 2:
            right = grid[1]
            color, marker = COLORS[2], MARKERS[2]
            right.plot(dev_steps, dev_accuracy, color=color, marker=marker)
            right.set(title="Accuracy on dev", xlabel="step", xlim=(0, values.size * 1.22))
            floor = min([*dev_accuracy, *([] if chance is None else [chance])])
            spread = max(max(dev_accuracy) - floor, 0.04)
            right.set_ylim(floor - 0.12 * spread, min(1.0, max(dev_accuracy) + 0.3 * spread))
            right.yaxis.set_major_formatter(PercentFormatter(1, decimals=0 if spread > 0.1 else 1))
            best = int(np.argmax(dev_accuracy))
            place = {"xytext": (0, 9), "ha": "center", "va": "bottom"}
            text = f"best {dev_accuracy[best]:.1%}"
            direct_label(right, dev_steps[best], dev_accuracy[best], text, color, **place)
            if chance is not None:
                right.axhline(chance, color=MUTED, linewidth=1, linestyle=":", marker="")
                place = {"xytext": (0, 4), "va": "bottom"}
                direct_label(right, 0, chance, f"  guessing {chance:.0%}", MUTED, **place)
            alt += f". Dev accuracy is best, {dev_accuracy[best]:.1%}, at step {dev_steps[best]}"
        for axes in grid:
            axes.grid(axis="y")
            ticks = MaxNLocator(5, integer=True).tick_values(0, values.size)
            axes.set_xticks([tick for tick in ticks if 0 <= tick <= values.size])
            axes.yaxis.set_major_locator(MaxNLocator(5))
        return finish(figure, alt + ".")


def batch_peaks(
    tried: Sequence[tuple[int, int | None]], budget: int, counted: Mapping[int, int] | None = None
) -> CourseFigure:
    """Show the memory of training on batches of several sizes, and which were too large.

    Args:
        tried: (examples, peak bytes; None where the process ran out of its memory).
        budget: bytes that a process may take.
        counted: bytes by examples that an estimate gives, drawn as a line.

    Raises:
        ValueError: no size has a peak.
    """
    peaks = {size: peak for size, peak in tried if peak is not None}
    if not peaks:
        raise ValueError("no size has a peak: there is nothing to draw")
    failed = sorted({size for size, peak in tried if peak is None})
    with course_style():
        figure = CourseFigure(figsize=(6.8, 3.9))
        axes = figure.subplots()
        fitted = np.array(sorted(peaks.items()), dtype=float).T
        axes.plot(fitted[0], fitted[1] / 2**20, color=COLORS[0], label="peak of the process")
        if failed:
            style = {"color": COLORS[1], "marker": "X", "linestyle": "", "markersize": 8}
            axes.plot(failed, [budget / 2**20] * len(failed), label="did not fit", **style)
        if counted:
            line = np.array(sorted(counted.items()), dtype=float).T
            style = {"color": COLORS[2], "linestyle": "--", "marker": ""}
            axes.plot(line[0], line[1] / 2**20, label="counted, without Paddle itself", **style)
        axes.axhline(budget / 2**20, color=MUTED, linewidth=1, linestyle=":", marker="")
        place = {"xytext": (0, 4), "va": "bottom"}
        direct_label(axes, 0, budget / 2**20, f"  budget {budget / 2**20:,.0f} MB", MUTED, **place)
        axes.set(xlabel="examples a batch", ylabel="MB", xlim=(0, 1.08 * max([*peaks, *failed])))
        axes.set_ylim(0, 1.15 * max(budget, *peaks.values()) / 2**20)
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        figure.legend(loc="outside upper center", ncols=3)
        said = ", ".join(f"{size}: {peak / 2**20:.0f}" for size, peak in sorted(peaks.items()))
        alt = f"Peak memory in MB by examples a batch: {said}. Budget {budget / 2**20:.0f} MB."
        if failed:
            alt += f" Too large: {', '.join(map(str, failed))}."
        return finish(figure, alt)


def memory_price(frame: pd.DataFrame) -> CourseFigure:
    """Show what accumulation and recompute save in memory, and what they cost in time.

    Args:
        frame: what `course_lib.recipes.price_of_memory` returns.

    Raises:
        ValueError: it has no rows.
    """
    if frame.empty:
        raise ValueError("the table has no rows: there is nothing to draw")
    names = [
        f"{parts} piece{'s' if parts > 1 else ''}{', recompute' if again else ''}"
        for parts, again in frame.index
    ]
    colors = [COLORS[1] if again else COLORS[0] for _, again in frame.index]
    with course_style():
        figure = CourseFigure(figsize=(7.6, 0.9 + 0.36 * len(names)))
        panels = {"activations": "activations, MB", "milliseconds": "forward and backward, ms"}
        grid = figure.subplots(1, 2, sharey=True)
        for axes, (key, title) in zip(grid, panels.items(), strict=True):
            bars = axes.barh(names, frame[key], color=colors, height=0.62)
            axes.bar_label(bars, [f"{value:,.0f}" for value in frame[key]], padding=3)
            axes.set(title=title, xlim=(0, 1.18 * frame[key].max()))
            axes.xaxis.set_visible(False)
            axes.spines["bottom"].set_visible(False)
        grid[0].invert_yaxis()
        said = "; ".join(
            f"{name}: {row.activations:.0f} MB, {row.milliseconds:.0f} ms"
            for name, row in zip(names, frame.itertuples(), strict=True)
        )
        return finish(figure, f"Memory of the activations, and time. {said}.")


def share_panels(panels: Mapping[str, pd.DataFrame], xlabel: str, title: str) -> CourseFigure:
    """Show how several shares change with a setting, one panel a way of doing it.

    Args:
        panels: by title a frame whose index is the setting (numbers above 0, drawn by their
            logarithm) and whose columns are shares from 0 to 1; the same columns in all.
        xlabel: what the setting is.
        title: over all panels.

    Raises:
        ValueError: no panel, other columns in one, an empty frame, or values out of bounds.
    """
    frames = list(panels.values())
    fits = all(
        list(frame.columns) == list(frames[0].columns)
        and frame.size
        and frame.ge(0).all(axis=None)
        and frame.le(1).all(axis=None)
        and min(frame.index) > 0
        for frame in frames
    )
    if not frames or not fits:
        raise ValueError("expected frames of the same columns, of shares from 0 to 1")
    with course_style():
        figure = CourseFigure(figsize=(0.8 + 3.4 * len(frames), 3.6))
        grid = np.atleast_1d(figure.subplots(1, len(frames), sharey=True))
        for axes, (name, frame) in zip(grid, panels.items(), strict=True):
            for column in frame:
                axes.plot(frame.index, frame[column], label=drawable(column))
            axes.set(title=drawable(name, 40), xlabel=xlabel, xscale="log", ylim=(-0.03, 1.03))
            axes.set_xticks(list(frame.index), [f"{value:g}" for value in frame.index])
            axes.minorticks_off()
            axes.yaxis.set_major_formatter(PercentFormatter(1))
            axes.grid(axis="y")
        handles, names = grid[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        figure.suptitle(drawable(title), x=0.02, ha="left", fontsize=11)
        said = "; ".join(
            f"{name}, {column}: " + ", ".join(f"{value:.0%}" for value in frame[column])
            for name, frame in panels.items()
            for column in frame
        )
        return finish(figure, f"{title}, by {xlabel}. {said}.")


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
