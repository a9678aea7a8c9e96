"""Figures and experiments of chapter 16."""

from __future__ import annotations

from course_lib.notebook.style import (
    COLORS,
    INK,
    CourseFigure,
    course_style,
    finish,
)

import pandas as pd


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
