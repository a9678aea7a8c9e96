"""Chapter 21: waybills with marked fields, a service for them, and the chapter's figures.

python -m course_lib.chapters.ch21 DIRECTORY [--port 8000]      a page at /waybill
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.data.sources import read_shipped
from course_lib.deploy import Predictor
from course_lib.deploy.service import listen, make_app, serve
from course_lib.notebook.style import COLORS, MARKERS, MUTED, CourseFigure
from course_lib.runtime.commands import exit_status

import numpy as np
import paddle
import pandas as pd
from fastapi.responses import HTMLResponse
from paddle.text import viterbi_decode
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
    name = "by_hand" if kind == "by hand" else "synthetic"
    lines = read_shipped(f"waybills/{name}.tsv").splitlines()
    table = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    rows = [row for row in table if row["split"] == split and row.get("kind", kind) == kind]
    step = max(1, len(rows) // (max_examples or len(rows))) if kind == "by hand" else 1
    return MapDataset([*map(bio_example, rows[::step][:max_examples])], label_list=LABELS)


TRANSITIONS = "crf.npy"  # beside the exported model: [labels, labels]


class CrfPredictor(Predictor):
    """An exported tagger with the CRF of its training: the best sequence, not the best labels."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """As `Predictor.run`, but 1 for each label of the best sequence, and 0 for the others."""
        scores = super().run(inputs)[0]
        ids = np.asarray(inputs["input_ids"])
        lengths = (ids != self.tokenizer.pad_token_id).sum(axis=1) - 2  # [CLS] and [SEP]
        inner = scores[:, 1 : lengths.max() + 1]
        arrays = inner, np.load(self.path.parent / TRANSITIONS), lengths
        best = viterbi_decode(*map(paddle.to_tensor, arrays), include_bos_eos_tag=False)[1].numpy()
        found = np.zeros_like(scores)
        found[:, 1 : best.shape[1] + 1] = np.eye(scores.shape[2], dtype=scores.dtype)[best]
        return [found]


PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Waybill</title>
<link rel="icon" href="data:,"><style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem }
textarea, input { width: 100%; box-sizing: border-box; font: inherit; padding: .4rem }
label { display: grid; grid-template-columns: 6rem 1fr; margin: .3rem 0; align-items: center }
</style><h1>Fill in a waybill</h1><form id="form"><textarea id="text" rows="3" autofocus
aria-label="What the customer wrote"></textarea><button>Fill in</button></form>
<div id="fields"></div><p id="error" role="status"></p><script>
const at = id => document.getElementById(id);
for (const name of "name phone province city district street".split(" ")) {
  const label = document.createElement("label");
  label.append(name, Object.assign(document.createElement("input"), {id: name}));
  at("fields").append(label);
}
async function fill(event) {
  event?.preventDefault();
  const body = JSON.stringify({text: at("text").value});
  const headers = {"Content-Type": "application/json"};
  const found = await (await fetch("predict", {method: "POST", headers, body})).json();
  at("error").textContent = found.error ?? "";
  for (const input of at("fields").querySelectorAll("input")) {
    const own = (found.entities ?? []).filter(one => one.type == input.id).map(one => one.text);
    input.value = input.id == "street" ? own.join("") : own[0] ?? "";
  }
}
at("form").addEventListener("submit", fill);
const given = new URLSearchParams(location.search).get("text");
if (given) { at("text").value = given; fill(); }
</script></html>"""


def mistakes(
    dataset: Sequence[Mapping[str, Any]], gold: Sequence[set[Span]], found: Sequence[set[Span]]
) -> pd.DataFrame:
    """The waybills by hand that are not entirely right, with missed and wrong fields."""

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
                where = {"va": "center", "fontsize": 8, "color": MUTED}
                axes.text(value + 0.01, height, f"{value:.2f}", **where)
        axes.set_yticks([-row for row in range(len(scores))], list(scores.index))
        axes.set(xlim=(0, 1.1), xlabel="F1 of fields", title=title)
        figure.legend(loc="outside lower center", ncols=count)
        return figure.finish(f"{title}. {_in_words(scores)}.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve an exported model of waybills as `course_lib.deploy` does, with PAGE at /waybill."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("directory", help=f"an export, with its CRF in {TRANSITIONS}")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args(arguments)

    def run() -> None:
        listener = listen("127.0.0.1", options.port)
        app = make_app(CrfPredictor(options.directory))
        app.get("/waybill", response_class=HTMLResponse)(lambda: PAGE)
        serve(app, listener)

    return exit_status(run)


if __name__ == "__main__":
    raise SystemExit(main())
