"""Figures and scores of chapter 04, and the names among which its cloze reader chooses."""

from collections.abc import Container, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from course_lib.data.cloze import Question
from course_lib.data.people_daily import words
from course_lib.data.spans import Span
from course_lib.notebook.style import (
    COLORS,
    INK,
    MUTED,
    SERIES,
    CourseFigure,
    drawable,
)
from course_lib.training import span_scores

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

_BYLINE = ("记者", "本报", "新华社", "通讯员", "摄影")  # the word before an author or a dateline


class Mention(NamedTuple):
    """An entity in a text: the place of its first character, its name and its type."""

    start: int
    name: str
    kind: str


def candidates(question: Question) -> list[Mention]:
    """Return the names in the context that have the type of the answer, in order.

    A name that is in the question cannot be its answer and is left out.
    """
    named: list[Mention] = []
    offset = 0
    for line, piece in question.pieces():
        for mention in mentions(line):
            start, end = mention.start, mention.start + len(mention.name)
            if line == question.line and start >= question.last:
                start -= question.last - question.first
            elif line == question.line and end > question.first:
                continue  # within the sentence, which is not in the context
            named.append(mention._replace(start=offset + start))
        offset += len(piece) + 1
    sentence = question.row()["question"]
    return [each for each in named if each.kind == question.kind and each.name not in sentence]


@cache
def mentions(line: int) -> tuple[Mention, ...]:
    """Return the entities of a line, without authors and datelines: 记者 X, 本报 X, （X 摄）."""
    named = []
    start = depth = 0
    before = ""
    for word, kind in words(line):
        depth += word.count("（") - word.count("）")
        if kind and depth <= 0 and before not in _BYLINE and word != "新华社" and len(word) > 1:
            named.append(Mention(start, word, kind))
        start += len(word)
        before = word
    return tuple(named)


def size_comparison(models: Mapping[str, Mapping[str, float]]) -> CourseFigure:
    """Show what accuracy costs in time and in memory, one point per model.

    Args:
        models: by name {"accuracy": 0 to 1, "margin": half of its interval, "ms": time of a
            training step in milliseconds, "megabytes": memory of a training step}.
    """
    panels = {"ms": "one training step, ms", "megabytes": "memory of a training step, MB"}
    with CourseFigure(figsize=(7.6, 3.9)) as figure:
        grid = figure.subplots(1, 2, sharey=True)
        for axes, (key, label) in zip(grid, panels.items(), strict=True):
            for number, (name, model) in enumerate(models.items()):
                axes.errorbar(
                    model[key], model["accuracy"], model["margin"], capsize=3, linestyle="",
                    elinewidth=1.2, label=drawable(name), **SERIES[number],
                )  # fmt: skip
            axes.set(xlabel=label, xlim=(0, 1.1 * max(model[key] for model in models.values())))
            axes.grid(axis="y")
            axes.xaxis.set_major_locator(MaxNLocator(5))
        grid[0].set_ylabel("accuracy on dev")
        grid[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        handles, names = grid[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=min(4, len(names)))
        summary = "; ".join(
            f"{name}: {model['accuracy']:.1%}, {model['ms']:.0f} ms, {model['megabytes']:.0f} MB"
            for name, model in models.items()
        )
        return figure.finish(f"Accuracy against time and memory. {summary}.")


def answer_positions(
    tokens: Sequence[str],
    start: Sequence[float],
    end: Sequence[float],
    named: int = 3,
) -> CourseFigure:
    """Show where a question-answering head sees the answer begin (upwards) and end (downwards).

    Args:
        tokens: of one window.
        start, end: the probability that a token is the first or the last of the answer.
        named: how many of the highest bars of each kind are labeled with their token.
    """
    heights = np.asarray([start, end], dtype=float)
    with CourseFigure(figsize=(7.6, 3.2)) as figure:
        axes = figure.subplots()
        top = 1.3 * float(heights.max())
        summary = []
        for values, color, sign, word in zip(
            heights, COLORS, (1, -1), ("begins", "ends"), strict=False
        ):
            axes.bar(range(len(tokens)), sign * values, color=color, width=1.0, linewidth=0)
            best = np.argsort(-values, kind="stable")[:named]
            for place in best:
                x, y = place, sign * values[place]
                align = {"ha": "center", "va": "bottom" if sign > 0 else "top"}
                axes.text(x, y + sign * 0.01 * top, drawable(tokens[place]), color=INK, **align)
            axes.text(
                1, sign * 0.98 * top, f"the answer {word} here", color=color,
                va="top" if sign > 0 else "bottom", fontsize=9,
            )  # fmt: skip
            summary.append(f"{word} at {tokens[best[0]]!r} ({values[best[0]]:.0%})")
        axes.axhline(0, color=MUTED, linewidth=0.8, marker="")
        axes.set(
            xlim=(-1, len(tokens)), ylim=(-top, top), xlabel="token of the window",
            ylabel="probability",
        )  # fmt: skip
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):.0%}"))
        return figure.finish(f"Probabilities over {len(tokens)} tokens: {' and '.join(summary)}.")


def seen_and_unseen(
    gold: Sequence[set[Span]],
    found: Sequence[set[Span]],
    types: Sequence[str],
    tokens: Sequence[Sequence[str]],
    names: Container[str],
) -> dict[str, dict[str, float]]:
    """Return `span_scores`, and the scores of the entities that are "seen" and "unseen" in `names`.

    Args:
        tokens: the characters of each sentence.
        names: the entities of the training sentences.
    """
    scores = span_scores(gold, found, types)
    for part, wanted in (("seen", True), ("unseen", False)):
        sides: list[list[set[Span]]] = [[], []]
        for side, rows in zip(sides, (gold, found), strict=True):
            for row, spans in zip(tokens, rows, strict=True):
                named = {span: "".join(row[span[0] : span[1]]) for span in spans}
                side.append({span for span, name in named.items() if (name in names) == wanted})
        scores[part] = span_scores(*sides, types)["all"]
    return scores
