"""Chapter 21: waybills with marked fields, the models' mistakes, and the chapter's figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from course_lib.data.sources import read_shipped
from course_lib.notebook.style import COLORS, MARKERS, MUTED, CourseFigure

import pandas as pd

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

FIELDS = ("name", "phone", "province", "city", "district", "street")
LABELS = ["O", *(f"{prefix}-{field}" for field in FIELDS for prefix in "BI")]
MARK = re.compile(r"\{(\w+):([^{}]+)\}")
FORMATS = ("chat", "form", "printed", "short", "both", "prose", "order", "typo")

Span = tuple[int, int, int]  # first character, the one after the last, place in FIELDS


def parse(marked: str) -> tuple[str, list[tuple[int, int, str]]]:
    """A waybill without its marks, and (start, end, field) of each field, in characters."""
    text, spans, last = "", [], 0
    for found in MARK.finditer(marked):
        text += marked[last : found.start()]
        spans.append((len(text), len(text) + len(found[2]), found[1]))
        text += found[2]
        last = found.end()
    return text + marked[last:], spans


def bio_example(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of a file of waybills with `tokens`, one per character, and `labels`, their ids."""
    text, spans = parse(row["text"])
    labels = [0] * len(text)
    for start, end, field in spans:
        first = LABELS.index(f"B-{field}")
        labels[start:end] = [first] + [first + 1] * (end - start - 1)
    return {**row, "tokens": list(text), "labels": labels}


def load_waybills(kind: str, split: str, max_examples: int | None = None) -> MapDataset:
    """Load waybills with one BIO label for each character; `label_list` is LABELS.

    Args:
        kind: "plain" and "noisy" are made by templates, "by hand" is not.
        split: train or dev; of those by hand dev or test.
        max_examples: the first ones; of those by hand, evenly from all formats.
    """
    from paddlenlp.datasets import MapDataset  # seconds

    name = "by_hand" if kind == "by hand" else "synthetic"
    header, *lines = read_shipped(f"waybills/{name}.tsv").splitlines()
    rows = [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
    rows = [row for row in rows if row["split"] == split and row.get("kind", kind) == kind]
    step = max(1, len(rows) // (max_examples or len(rows))) if kind == "by hand" else 1
    examples = [bio_example(row) for row in rows[::step][:max_examples]]
    return MapDataset(examples, label_list=LABELS)


def mistakes(
    dataset: Sequence[Mapping[str, Any]], gold: Sequence[set[Span]], found: Sequence[set[Span]]
) -> pd.DataFrame:
    """One row per waybill by hand that is not entirely right, those with most mistakes first.

    Columns: the text, its translation, what was missed and what was found wrongly.
    """

    def told(text: str, spans: set[Span]) -> str:
        return " ".join(f"{text[a:b]}/{FIELDS[kind]}" for a, b, kind in sorted(spans))

    rows = []
    for example, true, own in zip(dataset, gold, found, strict=True):
        text = "".join(example["tokens"])
        missed, wrong = true - own, own - true
        if missed or wrong:
            row = {"id": example["id"], "text": text, "in English": example["english"]}
            row |= {"missed": told(text, missed), "wrong": told(text, wrong)}
            rows.append({**row, "mistakes": len(missed) + len(wrong)})
    columns = ["id", "text", "in English", "missed", "wrong", "mistakes"]
    return pd.DataFrame(rows, columns=columns).sort_values("mistakes", ascending=False)


def _in_words(scores: pd.DataFrame) -> str:
    return "; ".join(
        f"{name}: " + ", ".join(f"{column} {value:.2f}" for column, value in row.items())
        for name, row in scores.iterrows()
    )


def gap_figure(scores: pd.DataFrame) -> CourseFigure:
    """Draw F1 of each system, a row, on each set of waybills, a column, as points on one line."""
    with CourseFigure(figsize=(7.5, 0.55 * len(scores) + 1.2)) as figure:
        axes = figure.subplots()
        heights = range(len(scores))[::-1]
        axes.hlines(heights, scores.min(axis=1), scores.max(axis=1), color="#CCCCCC", zorder=1)
        for number, column in enumerate(scores):
            style = {"color": COLORS[number], "marker": MARKERS[number], "s": 55, "zorder": 2}
            axes.scatter(scores[column], heights, label=column, **style)
        axes.set_yticks(list(heights), list(scores.index))
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.6, len(scores) - 0.4), xlabel="F1 of fields")
        axes.grid(axis="x")
        figure.legend(loc="outside upper center", ncols=len(scores.columns))
        return figure.finish(f"F1 of fields. {_in_words(scores)}.")


def group_figure(scores: pd.DataFrame, title: str) -> CourseFigure:
    """Draw F1 of each group, a row, as one horizontal bar per system, a column."""
    count, width = len(scores.columns), 0.8 / len(scores.columns)
    with CourseFigure(figsize=(7.5, 0.2 * count * len(scores) + 1.4)) as figure:
        axes = figure.subplots()
        for number, column in enumerate(scores):
            heights = [-row - width * (number - (count - 1) / 2) for row in range(len(scores))]
            axes.barh(heights, scores[column], 0.9 * width, color=COLORS[number], label=column)
            for height, value in zip(heights, scores[column], strict=True):
                style = {"va": "center", "fontsize": 8, "color": MUTED}
                axes.text(value + 0.01, height, f"{value:.2f}", **style)
        axes.set_yticks([-row for row in range(len(scores))], list(scores.index))
        axes.set(xlim=(0, 1.1), xlabel="F1 of fields", title=title)
        figure.legend(loc="outside lower center", ncols=count)
        return figure.finish(f"{title}. {_in_words(scores)}.")
