"""A picture of models beside their teachers: size, speed and accuracy at once."""

import json
from collections.abc import Mapping

from course_lib.chapters.point_labels import write_clear
from course_lib.notebook.style import COLORS, MUTED, CourseFigure, drawable
from course_lib.runtime import data_dir

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

AREA = 5.0  # of a mark, square points (1/72 inch) for each megabyte


def frontier(setting: str = "64 tokens, 2 threads") -> pd.DataFrame:
    """The models of chapter 07's long run, with the columns of `course_lib.compression.compare`.

    Args:
        setting: of the speed, a key in the file.
    """
    file = data_dir() / "results" / "inference_frontier.json"
    rows = {}
    for name, model in json.loads(file.read_text("utf-8"))["models"].items():
        if "oneDNN" not in name:
            lost = {key: 0 - points / 100 for key, points in model["lost"].items()}
            ends = {"difference": lost["points"], "low": lost["high"], "high": lost["low"]}
            speedup = model["speed"][setting]["speedup"]
            row = {"megabytes": model["megabytes"], "speedup": speedup, **ends}
            rows[name.replace(" int8", ", INT8")] = row
    return pd.DataFrame(rows).T


def trade_offs(panels: Mapping[str, pd.DataFrame]) -> CourseFigure:
    """Show what speed and size cost in accuracy: a mark for each model, its area for the size.

    Args:
        panels: frames by title, as `course_lib.compression.compare` returns them. The first row of
            each is the teacher that the others are compared with.
    """
    with CourseFigure(figsize=(8.6, 4.4)) as figure:
        grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        alt = []
        for axes, (title, frame) in zip(grid, panels.items(), strict=True):
            axes.axhline(0, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), marker="")
            for name, row in frame.iterrows():
                color, marker = (COLORS[1], "s") if "INT8" in name else (COLORS[0], "o")
                low, at, high = (100 * row[key] for key in ("low", "difference", "high"))
                ends = {"marker": "_", "markersize": 7, "linewidth": 1.2}
                axes.plot([row["speedup"]] * 2, [low, high], color=color, **ends)
                area = {"s": AREA * row["megabytes"], "linewidth": 0}
                axes.scatter(row["speedup"], at, color=color, marker=marker, alpha=0.6, **area)
                alt.append(
                    f"{name}: {row['speedup']:.2f} times as fast, {at:+.1f} points "
                    f"({low:+.1f} to {high:+.1f}), {row['megabytes']:.1f} MB"
                )
            alt[-len(frame)] = f"{title}: {alt[-len(frame)]}"
            axes.set(xscale="log", xlabel="times as fast as the teacher", title=drawable(title))
            axes.grid(axis="y")
        grid[0].set_xlim(0.8, 1.3 * max(frame["speedup"].max() for frame in panels.values()))
        grid[0].set_ylabel("points of accuracy more than the teacher")
        for size in (5, 20, 40):
            grid[0].scatter([], [], AREA * size, MUTED, alpha=0.6, linewidth=0, label=f"{size} MB")
        figure.legend(loc="outside lower center", ncols=3)
        figure.canvas.draw()  # the layout, and with it the scale, is settled on drawing
        for axes, frame in zip(grid, panels.values(), strict=True):
            _write_names(axes, frame)
        return figure.finish(f"Accuracy against speed. {'; '.join(alt)}.", plain=grid[0].xaxis)


def _write_names(axes: Axes, frame: pd.DataFrame) -> None:
    """Write each name beside its mark, where it covers least of marks, intervals and names."""
    pixels = axes.figure.dpi / 72
    line, looks = axes.transData.transform((1, 0))[1], {}
    taken = [Bbox.from_extents(axes.bbox.x0, line - 1, axes.bbox.x1, line + 1)]
    for name, row in frame.iterrows():
        speed, radius = row["speedup"], pixels * np.sqrt(AREA * row["megabytes"] / np.pi)
        heights = [100 * row[key] for key in ("low", "difference", "high")]
        (x, low), (_, y), (_, high) = (axes.transData.transform((speed, at)) for at in heights)
        low, high = min(low, y - radius), max(high, y + radius)
        taken += [Bbox.from_extents(x - radius, y - radius, x + radius, y + radius)]
        taken += [Bbox.from_extents(x - 2, low, x + 2, high)]
        looks[name] = _looks(*(distance / pixels + 3 for distance in (radius, y - low, high - y)))
    for name, row in frame.iterrows():
        mark = row["speedup"], 100 * row["difference"]
        write_clear(axes, drawable(name), mark, looks[name], taken, shrink=2, outside=2)


def _looks(side: float, below: float, above: float) -> list[dict]:
    """How a name may be written, the best first: points from the middle of its mark."""
    looks: list[dict] = [
        {"xytext": (side, 0), "ha": "left", "va": "center"},
        {"xytext": (-side, 0), "ha": "right", "va": "center"},
    ]
    for rotation in (0, 90):
        looks.append({"xytext": (0, above), "ha": "center", "va": "bottom", "rotation": rotation})
        looks.append({"xytext": (0, -below), "ha": "center", "va": "top", "rotation": rotation})
    return [{"fontsize": 8.5, **look} for look in looks]
