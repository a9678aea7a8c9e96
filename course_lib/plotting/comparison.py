"""Figures that hold models, methods and services against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.plotting.style import (
    COLORS,
    INK,
    MUTED,
    CourseFigure,
    course_style,
    direct_label,
    drawable,
    finish,
    plain_numbers,
    series_style,
)

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator, PercentFormatter


def size_comparison(models: Mapping[str, Mapping[str, float]]) -> CourseFigure:
    """Show what accuracy costs in time and in memory, one point a model.

    Args:
        models: by name {"accuracy": 0 to 1, "margin": half of its interval, "ms": time of a
            training step in milliseconds, "megabytes": memory of a training step}.

    Raises:
        ValueError: there is no model.
    """
    if not models:
        raise ValueError("no models: there is nothing to draw")
    panels = {"ms": "one training step, ms", "megabytes": "memory of a training step, MB"}
    with course_style():
        figure = CourseFigure(figsize=(7.6, 3.9))
        grid = figure.subplots(1, 2, sharey=True)
        for axes, (key, label) in zip(grid, panels.items(), strict=True):
            for number, (name, model) in enumerate(models.items()):
                axes.errorbar(
                    model[key], model["accuracy"], model["margin"], capsize=3, linestyle="",
                    elinewidth=1.2, label=drawable(name), **series_style(number),
                )  # fmt: skip
            axes.set(xlabel=label, xlim=(0, 1.1 * max(model[key] for model in models.values())))
            axes.grid(axis="y")
            axes.xaxis.set_major_locator(MaxNLocator(5))
        grid[0].set_ylabel("accuracy on dev")
        grid[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        handles, names = grid[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=min(4, len(names)))
        said = "; ".join(
            f"{name}: {model['accuracy']:.1%}, {model['ms']:.0f} ms, {model['megabytes']:.0f} MB"
            for name, model in models.items()
        )
        return finish(figure, f"Accuracy against time and memory. {said}.")


def method_differences(table: pd.DataFrame, unit: str = "accuracy") -> CourseFigure:
    """Draw how much better or worse each method is than the first, with its interval.

    Args:
        table: a row a method, with "difference", "low" and "high"; the first row, which has none,
            is what the others are compared with.
        unit: of the differences.
    """
    base, rows = table.index[0], table.iloc[1:]
    with course_style():
        figure = CourseFigure(figsize=(8.0, 0.9 + 0.5 * len(rows)))
        axes = figure.subplots()
        places = np.arange(len(rows))[::-1]
        spans = [rows["difference"] - rows["low"], rows["high"] - rows["difference"]]
        style = {"fmt": "o", "color": COLORS[0], "ecolor": INK, "capsize": 4}
        axes.errorbar(rows["difference"], places, xerr=np.array(spans, dtype=float), **style)
        axes.axvline(0, color=MUTED, linestyle="--", linewidth=1)
        axes.set_yticks(places, [drawable(name, 45) for name in rows.index])
        axes.set(ylim=(-0.6, len(rows) - 0.4), xlabel=f"{unit} minus that of {base!r}")
        axes.grid(axis="x")
        said = "; ".join(
            f"{name}: {row['difference']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f})"
            for name, row in rows.iterrows()
        )
        return finish(figure, f"Difference of {unit} to {base}. {said}.")


def gain_intervals(gains: Mapping[str, pd.DataFrame], unit: str = "") -> CourseFigure:
    """Show what remedies gain against doing nothing: a point and an interval each, 0 is no gain.

    Args:
        gains: by name of a figure (a panel each), tables with a row a remedy and the columns
            "gain", "low" and "high".
        unit: of the gains, written below.

    Raises:
        ValueError: no table, or tables of different remedies.
    """
    frames = list(gains.values())
    rows = [list(frame.index) for frame in frames]
    if not rows or not rows[0] or any(row != rows[0] for row in rows):
        raise ValueError("no table, or tables of different remedies: there is nothing to compare")
    names = [drawable(name) for name in frames[0].index]
    places = np.arange(len(names))
    with course_style():
        figure = CourseFigure(figsize=(8.4, 1.1 + 0.42 * len(names)))
        panels = figure.subplots(1, len(frames), sharey=True, squeeze=False)[0]
        for axes, (title, frame) in zip(panels, gains.items(), strict=True):
            axes.axvline(0, color=INK, linewidth=1, marker="")
            for place, row in zip(places, frame.itertuples(), strict=True):
                color = COLORS[0] if row.low > 0 else COLORS[1] if row.high < 0 else MUTED
                marker = "o" if row.low > 0 else "v" if row.high < 0 else "s"
                axes.plot([row.low, row.high], [place, place], color=color, marker="|")
                axes.plot(row.gain, place, color=color, marker=marker, linestyle="")
            axes.set(title=drawable(title), xlabel=unit, yticks=places, yticklabels=names)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.grid(axis="x")
        panels[0].invert_yaxis()
        said = ". ".join(
            f"{title}: "
            + "; ".join(
                f"{name} {row.gain:+.3f} ({row.low:+.3f} to {row.high:+.3f})"
                for name, row in zip(frame.index, frame.itertuples(), strict=True)
            )
            for title, frame in gains.items()
        )
        return finish(figure, f"Gains against doing nothing, with intervals. {said}.")


def vector_effects(effect: pd.DataFrame) -> CourseFigure:
    """Draw what added words do before any training, by their first vectors.

    Args:
        effect: as `course_lib.recipes.vector_effect` gives it; the first row is the reading
            without added words, drawn as a line in the panel of the loss.
    """
    kinds = list(effect.index[1:])
    panels = {
        "loss": ("Loss of characters between", "nats a hidden character", "{:.2f}"),
        "distance": ("Distance of their states", "1 - cosine", "{:.3f}"),
        "word found": ("Hidden word found", "share of the texts", "{:.0%}"),
    }
    with course_style():
        figure = CourseFigure(figsize=(8.4, 3.2))
        for axes, (column, (title, unit, form)) in zip(
            figure.subplots(1, 3), panels.items(), strict=True
        ):
            values = effect[column].iloc[1:]
            axes.bar(kinds, values, width=0.6, color=COLORS[: len(kinds)])
            top = max(values)
            for place, value in enumerate(values):
                axes.annotate(
                    form.format(value),
                    (place, value),
                    xytext=(0, 3),
                    textcoords="offset points",
                    ha="center",
                )
            if column == "loss":
                plain = effect[column].iloc[0]
                axes.axhline(plain, color=INK, linestyle="--", linewidth=1)
                axes.set_xlabel(f"dashed: {effect.index[0]}, {form.format(plain)}")
            axes.set(title=title, ylabel=unit, ylim=(0, 1.15 * top if top else 1))
        said = "; ".join(
            f"{name}: loss {row['loss']:.2f}, distance {row['distance']:.3f}"
            for name, row in effect.iterrows()
        )
        return finish(figure, f"Added words before training. {said}.")


def recall_against_time(frame: pd.DataFrame, count: int) -> CourseFigure:
    """Show what each way to search finds and how long it takes; up and to the left is better.

    Args:
        frame: of `course_lib.recipes.compare_search`.
        count: the K of the recall that is drawn, with its interval.

    Raises:
        ValueError: there is no method, or no recall at this count.
    """
    columns = [f"{name}@{count}" for name in ("recall", "low", "high")]
    if not len(frame) or not {*columns, "ms"} <= set(frame.columns):
        raise ValueError(f"no columns {columns} and ms: there is nothing to draw")
    with course_style():
        figure = CourseFigure(figsize=(7.2, 3.8))
        axes = figure.subplots()
        for number, (name, row) in enumerate(frame.iterrows()):
            recall, low, high = row[columns]
            axes.errorbar(
                row["ms"], recall, [[recall - low], [high - recall]], capsize=3, linestyle="",
                elinewidth=1.2, label=drawable(str(name)), **series_style(number),
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set(xlabel="milliseconds a query", ylabel=f"recall@{count}")
        plain_numbers(axes.xaxis)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")
        said = "; ".join(
            f"{name}: {row[columns[0]]:.1%} in {row['ms']:.3g} ms" for name, row in frame.iterrows()
        )
        return finish(figure, f"Recall at {count} against time. {said}.")


def latency_curves(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    ylabel: str = "latency, ms",
    notes: Sequence[str] = (),
) -> CourseFigure:
    """Show what a service's clients wait against how much it answers, one line a service.

    Args:
        lines: by name (texts a second, milliseconds) for each load, in rising order of the load.
        ylabel: which latency it is.
        notes: what stands beside the points of the line drawn last, such as the number of clients.

    Raises:
        ValueError: there are no lines, or one without points or with a latency of 0 or less.
    """
    if not lines or not all(points and min(y for _, y in points) > 0 for points in lines.values()):
        raise ValueError(f"lines {list(lines)}; expected some, each of points above 0")
    with course_style():
        figure = CourseFigure(figsize=(7.2, 4.0))
        axes = figure.subplots()
        for number, (name, points) in enumerate(lines.items()):
            style = {"markersize": 5, **series_style(number)}
            axes.plot(*zip(*points, strict=True), label=drawable(name), **style)
        for note, (x, y) in zip(notes, points, strict=False):
            direct_label(axes, x, y, str(note), MUTED, xytext=(0, -11), ha="center", fontsize=8)
        axes.set(xlabel="texts a second", ylabel=ylabel, yscale="log")
        axes.margins(y=0.12)  # room for a note below the lowest point
        axes.set_xlim(0, 1.06 * max(x for points in lines.values() for x, _ in points))
        plain_numbers(axes.yaxis)
        axes.grid(axis="y", which="both")
        figure.legend(loc="outside upper center", ncols=2)
        said = "; ".join(
            f"{name}: {points[0][1]:.0f} ms at {points[0][0]:.0f} texts a second to "
            f"{points[-1][1]:.0f} ms at {points[-1][0]:.0f}"
            for name, points in lines.items()
        )
        return finish(figure, f"{ylabel} against throughput. {said}.")
