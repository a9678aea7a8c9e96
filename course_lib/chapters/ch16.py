"""Figures and experiments of chapter 16."""

from __future__ import annotations

from course_lib.notebook.style import (
    COLORS,
    INK,
    MUTED,
    CourseFigure,
    course_style,
    drawable,
    finish,
)

import numpy as np
import pandas as pd


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
