"""Figures and experiments of chapter 06."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.notebook.style import (
    INK,
    MUTED,
    SERIES,
    CourseFigure,
    drawable,
)

import numpy as np


def limit_costs(values: np.ndarray, limits: Mapping[str, float]) -> CourseFigure:
    """Show where limits of an INT8 scale lie among a tensor's values, and what each costs.

    Args:
        values: of a tensor, of any shape.
        limits: by name the largest value that shall fit; it becomes 127.
    """
    sizes = np.abs(np.asarray(values, dtype="float32")).reshape(-1)
    top = float(sizes.max())
    counts, edges = np.histogram(sizes, 2**15, (0, top))
    middles, shares = (edges[:-1] + edges[1:]) / 2, counts / sizes.size

    def costs(limit: float) -> tuple[float, float]:
        step, inside = limit / 127, middles <= limit
        off = np.where(inside, np.round(middles / step) * step, limit) - middles
        rounded, clipped = (float(off[part] ** 2 @ shares[part]) for part in (inside, ~inside))
        return rounded, clipped

    grid = np.linspace(0.06 * top, max(top, *limits.values()), 80)
    rounding, clipping = np.array([costs(limit) for limit in grid]).T
    total = rounding + clipping
    with CourseFigure(figsize=(7.4, 4.9)) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.25])
        above.hist(sizes, 120, color="#9DB8CC", log=True)
        above.set(title="How often a value is that large", ylabel="values")
        for line, style, name in ((rounding, "--", "rounding"), (clipping, ":", "clipping")):
            below.plot(grid, line, style, color=MUTED, marker="", linewidth=1.4, label=name)
        below.plot(grid, total, color=INK, marker="", linewidth=1.4, label="both")
        summary = []
        for number, (name, limit) in enumerate(limits.items()):
            style = SERIES[number]
            cost = sum(costs(limit))
            for axes in (above, below):
                axes.axvline(limit, color=style["color"], linewidth=1.2, marker="", alpha=0.8)
            below.plot(
                limit, cost, linestyle="", markersize=8, zorder=5,
                label=f"{drawable(name)} {limit:.2f}", **style,
            )  # fmt: skip
            beyond = float((sizes > limit).mean())
            summary.append(f"{name} {limit:.2f}, error {cost:.1e}, {beyond:.3%} of values clipped")
        below.set(
            yscale="log", ylim=(total.min() / 6, 2 * total.max()), xlim=(0, 1.02 * grid[-1]),
            title="What a limit there costs", ylabel="mean squared error",
            xlabel="absolute value, and limit",
        )  # fmt: skip
        handles, names = below.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside right upper")
        alt = (
            f"Values up to {top:.2f}, and the squared error against the limit. {'; '.join(summary)}"
        )
        return figure.finish(alt + ".")
