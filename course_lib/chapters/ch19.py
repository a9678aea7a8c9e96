"""Figures and experiments of chapter 19."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.notebook.style import (
    COLORS,
    INK,
    MUTED,
    NEGATIVE,
    POSITIVE,
    CourseFigure,
    course_style,
    drawable,
    finish,
)

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter


def entity_text(
    texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int, str]]], row: int = 30
) -> CourseFigure:
    """Draw texts with their entities on coloured ground, the type below each.

    Args:
        texts: one below the other.
        spans: (first, end, type) of each text, end excluded; they do not overlap.
        row: Chinese characters a line.
    """
    kinds = list(dict.fromkeys(kind for own in spans for _, _, kind in own))
    places, line, widest = [], 0, 1.0
    for text in texts:
        x, own = 0.0, []
        for character in text:
            width = 1.0 if ord(character) > 0x2E7F else 0.6
            if x and x + width > row:
                line, x = line + 1, 0.0
            own.append((x, line, width))
            x += width
            widest = max(widest, x)
        places.append(own)
        line += 1
    with course_style():
        figure = CourseFigure(figsize=(8.4, 0.62 * line + 0.35))
        axes = figure.subplots()
        for text, own, marks in zip(texts, places, spans, strict=True):
            for first, end, kind in marks:
                color = COLORS[kinds.index(kind) % len(COLORS)]
                for at in range(first, end):
                    x, y, width = own[at]
                    box = Rectangle((x, y), width, 0.55, facecolor=color, alpha=0.3, linewidth=0)
                    axes.add_patch(box)
                x, y, _ = own[first]
                axes.text(x, y + 0.75, drawable(kind, 12), fontsize=7.5, color=MUTED, va="center")
            for character, (x, y, width) in zip(text, own, strict=True):
                style = {"ha": "center", "va": "center", "fontsize": 12}
                axes.text(x + width / 2, y + 0.3, drawable(character), **style)
        axes.set(xlim=(-0.1, max(row, widest) + 0.1), ylim=(line, -0.1))
        axes.set_axis_off()
        found = [
            f"{text[first:end]} ({kind})"
            for text, marks in zip(texts, spans, strict=True)
            for first, end, kind in marks
        ]
        return finish(figure, f"{len(texts)} texts. Marked: {', '.join(found) or 'nothing'}.")


def transition_map(
    transitions: Sequence[Sequence[float]], labels: Sequence[str], title: str = "Transitions"
) -> CourseFigure:
    """Show the scores that a CRF gives to each label (a column) after each other one (a row).

    Args:
        transitions: of shape [labels, labels], `[label, the next label]`; above 0 it is liked.
        labels: their names. The scores are written into the cells of at most 12 labels.
    """
    scores = np.asarray(transitions, dtype=float)
    count = len(labels)
    if scores.shape != (count, count) or not count or not np.isfinite(scores).all():
        problem = f"transitions of shape {scores.shape} for {count} labels"
        raise ValueError(f"{problem}; expected finite ones of shape [labels, labels]")
    names = [drawable(label, 10) for label in labels]
    largest = float(np.abs(scores).max()) or 1.0
    colors = LinearSegmentedColormap.from_list("signed", [NEGATIVE, "#FFFFFF", POSITIVE])
    with course_style():
        side = 4.4 if count <= 12 else 7.2
        figure = CourseFigure(figsize=(side + 1.0, side))
        axes = figure.subplots()
        picture = axes.imshow(scores, cmap=colors, vmin=-largest, vmax=largest)
        size = 9 if count <= 12 else 7
        axes.set_xticks(range(count), names, fontsize=size, rotation=90)
        axes.set_yticks(range(count), names, fontsize=size)
        axes.tick_params(length=0, colors=INK)
        axes.set(title=drawable(title, 60), xlabel="the next label", ylabel="label")
        axes.spines[:].set_visible(False)
        if count <= 12:
            for (row, column), value in np.ndenumerate(scores):
                deep = abs(value) > 0.7 * largest
                style = {"ha": "center", "va": "center", "fontsize": 8}
                color = "white" if deep and value > 0 else INK
                axes.text(column, row, f"{value:.2f}", color=color, **style)
        else:
            bar = figure.colorbar(picture, ax=axes, shrink=0.7)
            bar.outline.set_visible(False)
        said = []
        for word, place in (("highest", scores.argmax()), ("lowest", scores.argmin())):
            row, column = map(int, np.unravel_index(place, scores.shape))
            said.append(f"{word} {scores[row, column]:.2f}, {labels[row]} to {labels[column]}")
        return finish(figure, f"{title}: {count} labels; {'; '.join(said)}.")


def share_panels(panels: Mapping[str, pd.DataFrame], xlabel: str, title: str) -> CourseFigure:
    """Show how several shares change with a setting, one panel a way of doing it.

    Args:
        panels: by title a frame whose index is the setting (numbers above 0, drawn by their
            logarithm) and whose columns are shares from 0 to 1; the same columns in all.
        xlabel: what the setting is.
        title: over all panels.
    """
    frames = list(panels.values())
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
