"""Figures and experiments of chapter 17."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.notebook.style import (
    COLORS,
    MUTED,
    CourseFigure,
    course_style,
    direct_label,
    finish,
)

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator


def batch_peaks(
    tried: Sequence[tuple[int, int | None]], budget: int, counted: Mapping[int, int] | None = None
) -> CourseFigure:
    """Show the memory of training on batches of several sizes, and which were too large.

    Args:
        tried: (examples, peak bytes; None where the process ran out of its memory).
        budget: bytes that a process may take.
        counted: bytes by examples that an estimate gives, drawn as a line.
    """
    peaks = {size: peak for size, peak in tried if peak is not None}
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
    """
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
