"""Figures and experiments of chapter 01."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.notebook.figures import probability_bars, probability_rows
from course_lib.notebook.style import (
    COLORS,
    INK,
    MUTED,
    PAPER,
    CourseFigure,
    course_style,
    direct_label,
    finish,
)

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator


def length_histogram(
    lengths: Sequence[int],
    max_seq_length: int | None = None,
    unit: str = "characters",
    title: str | None = None,
) -> CourseFigure:
    """Show how long texts are, and how many of them a maximum would cut.

    Args:
        lengths: one per text, in `unit`.
        max_seq_length: where texts will be cut, in the same unit; None draws no limit.
        unit: what was counted ("characters", "tokens").
        title: default: the number of texts.
    """
    values = np.asarray(lengths)
    median, high = (int(np.percentile(values, q)) for q in (50, 95))
    longest = int(values.max())
    # The last half per cent would squeeze everything else to the left: the axis ends before it.
    end = max(int(np.percentile(values, 99.5)), (max_seq_length or 0) * 5 // 4, 1)
    cut = None if max_seq_length is None else float((values > max_seq_length).mean())
    with course_style():
        figure = CourseFigure(figsize=(7.2, 3.3))
        axes = figure.subplots()
        # Whole units a bar, and an edge exactly where the limit cuts.
        width = -(-end // 60)
        first = -0.5 if max_seq_length is None else (max_seq_length + 0.5) % width - width
        edges = np.arange(first, end + width + 1, width)
        heights, _, bars = axes.hist(values, bins=edges, color=COLORS[0], alpha=0.85, linewidth=0)
        top = max(float(heights.max()), 1.0)
        axes.set(
            xlim=(0, end + 1), ylim=(0, top * 1.22), xlabel=f"length in {unit}", ylabel="texts"
        )
        axes.grid(axis="y")
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        for value, text, height in ((median, "median", 1.14), (high, "95th percentile", 1.03)):
            axes.plot([value, value], [0, top * height], color=INK, linewidth=1, marker="")
            direct_label(axes, value, top * height, f"{text} {value:,}", INK, bbox=PAPER)
        if max_seq_length is not None:
            for bar, left in zip(bars, edges[:-1], strict=True):
                if left > max_seq_length:
                    bar.set(facecolor=COLORS[1], hatch="////", edgecolor="white")
            limit = {"color": COLORS[1], "linewidth": 1.6, "linestyle": "--", "marker": ""}
            axes.axvline(max_seq_length + 0.5, **limit)
            text = f"max_seq_length {max_seq_length}\ncuts {cut:.1%} of the texts"
            right = {"xytext": (6, 0), "ha": "left"}
            side = right if max_seq_length < 0.7 * end else {"xytext": (-6, 0), "ha": "right"}
            direct_label(axes, max_seq_length, top * 0.84, text, "#A84A00", **side, bbox=PAPER)
        axes.set_title(title or f"{values.size:,} texts")
        beyond = int((values > end).sum())
        if beyond:
            note = f"{beyond} longer, up to {longest:,} \u2192"
            corner = {"xycoords": "axes fraction", "ha": "right", "va": "bottom"}
            axes.annotate(note, (1, 0.03), **corner, color=MUTED, fontsize=9)
        alt = (
            f"Histogram of the lengths of {values.size:,} texts in {unit}: median {median}, "
            f"95th percentile {high}, longest {longest:,}."
        )
        if cut is not None:
            alt += f" A maximum of {max_seq_length} cuts {cut:.1%} of them."
        return finish(figure, alt)


def confident_mistakes(
    predictions: Sequence[Mapping], labels: Sequence[int], count: int = 6, max_characters: int = 26
) -> CourseFigure:
    """Show the wrongly classified texts that the model was surest about, surest first.

    Args:
        predictions: what `course_lib.training.predict` returns.
        labels: true label ids, one a prediction.
        count: how many at most.
        max_characters: longer texts are shortened in the figure.
    """
    _, rows = probability_rows(predictions)
    true = np.asarray(labels, dtype=int)
    wrong = np.flatnonzero(rows.argmax(axis=1) != true)
    chosen = wrong[np.argsort(-rows[wrong].max(axis=1), kind="stable")][:count]
    return probability_bars(
        [predictions[i] for i in chosen],
        labels=true[chosen],
        title=f"Surest of the {wrong.size:,} mistakes in {len(predictions):,} texts",
        max_characters=max_characters,
    )
