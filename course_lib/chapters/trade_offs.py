"""A picture of models beside their teachers: size, speed and accuracy at once."""

import json
from collections.abc import Iterator, Mapping

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
        grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
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
            axes.set_xlim(0.8, 1.3 * max(frame["speedup"].max() for frame in panels.values()))
            axes.minorticks_off()
            axes.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
            axes.grid(axis="y")
        grid[0].set_ylabel("points of accuracy more than the teacher")
        for size in (5, 20, 40):
            grid[0].scatter([], [], AREA * size, MUTED, alpha=0.6, linewidth=0, label=f"{size} MB")
        figure.legend(loc="outside lower center", ncols=3)
        figure.canvas.draw()  # the layout, and with it the scale, is settled on drawing
        for axes, frame in zip(grid, panels.values(), strict=True):
            _write_names(axes, frame)
        return figure.finish("Accuracy against speed. " + "; ".join(alt) + ".")


def _write_names(axes: Axes, frame: pd.DataFrame) -> None:
    """Write each name beside its mark, where it covers least of marks, intervals and names."""
    pixels = axes.figure.dpi / 72
    line, ends = axes.transData.transform((1, 0))[1], {}
    taken = [Bbox.from_extents(axes.bbox.x0, line - 1, axes.bbox.x1, line + 1)]
    for name, row in frame.iterrows():
        speed, radius = row["speedup"], pixels * np.sqrt(AREA * row["megabytes"] / np.pi)
        heights = [100 * row[key] for key in ("low", "difference", "high")]
        (x, low), (_, y), (_, high) = (axes.transData.transform((speed, at)) for at in heights)
        low, high = min(low, y - radius), max(high, y + radius)
        taken += [Bbox.from_extents(x - radius, y - radius, x + radius, y + radius)]
        taken += [Bbox.from_extents(x - 2, low, x + 2, high)]
        ends[name] = (x, y, low, high, radius)
    for name, place in ends.items():
        tried = []
        for x, y, look in _places(*place, gap=3 * pixels):
            at = axes.transData.inverted().transform((x, y))
            note = axes.text(*at, drawable(name), fontsize=8.5, **look)
            box = note.get_window_extent().padded(-2)  # it is larger than what is drawn
            common = [Bbox.intersection(box, other) for other in taken]
            covered = sum(one.width * one.height for one in common if one is not None)
            inside = Bbox.intersection(box, axes.bbox)
            outside = box.width * box.height - (inside.width * inside.height if inside else 0)
            tried.append((covered + 2 * outside, note, box))
        _, chosen, box = min(tried, key=lambda one: one[0])
        for _, note, _ in tried:
            if note is not chosen:
                note.remove()
        taken.append(box)


def _places(
    x: float, y: float, low: float, high: float, radius: float, gap: float
) -> Iterator[tuple[float, float, dict]]:
    """Where a name may be written, the best first: pixels, and how the text is aligned there."""
    yield x + radius + gap, y, {"ha": "left", "va": "center"}
    yield x - radius - gap, y, {"ha": "right", "va": "center"}
    for rotation in (0, 90):
        yield x, high + gap, {"ha": "center", "va": "bottom", "rotation": rotation}
        yield x, low - gap, {"ha": "center", "va": "top", "rotation": rotation}
