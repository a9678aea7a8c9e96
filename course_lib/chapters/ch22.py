"""Chapter 22: the desk's paragraphs and questions, BM25, late interaction, and its web page."""

from __future__ import annotations

import csv
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from course_lib.data import batchify_fn, convert_example
from course_lib.data.batching import map_by_length
from course_lib.data.sources import read_shipped
from course_lib.deploy import Predictor
from course_lib.models import encoder_of
from course_lib.notebook.style import COLORS, CourseFigure

import numpy as np
import paddle
import paddle.nn.functional as F
import pandas as pd
from paddle import nn
from scipy.sparse import diags
from sklearn.feature_extraction.text import CountVectorizer

STEP = 8  # batches are padded to multiples of it


def load_paragraphs() -> dict[str, str]:
    """The desk's paragraphs by their ids, such as "rust-0019", in the order of the documents."""
    lines = read_shipped("desk/paragraphs.tsv.bz2").removesuffix("\n").split("\n")
    return dict(line.split("\t") for line in lines)


def load_questions(split: str) -> list[dict]:
    """The questions of "train", "dev" or "test".

    Returns:
        `{"question": str, "paragraphs": list of ids, "answer": str, "english": str}`. The answer is
        a piece of the first paragraph; the others answer the question, too. A question that the
        documents do not answer has no paragraph and the answer "". Train has no translations.
    """
    lines = read_shipped("desk/questions.tsv").removesuffix("\n").split("\n")
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    return [
        {**row, "paragraphs": row["paragraphs"].split()} for row in rows if row["split"] == split
    ]


class BM25:
    """Robertson and Walker's score (1994) over single characters and pairs of them."""

    def __init__(self, texts: Sequence[str], k1: float = 1.2, b: float = 0.75) -> None:
        self._counter = CountVectorizer(analyzer="char", ngram_range=(1, 2))
        counts = self._counter.fit_transform(texts).tocoo().astype("float64")
        lengths = np.bincount(counts.row, counts.data, len(texts))
        found = np.bincount(counts.col, minlength=counts.shape[1])
        room = k1 * (1 - b + b * lengths / lengths.mean())
        counts.data *= (k1 + 1) / (counts.data + room[counts.row])
        rarity = np.log(1 + (len(texts) - found + 0.5) / (found + 0.5))
        self._weights = (counts.tocsr() @ diags(rarity)).T.tocsr()

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """A score of each text for each query, float64 [queries, texts]."""
        return ((self._counter.transform(queries) > 0) @ self._weights).toarray()


class DeskEncoder(nn.Layer):
    """Gives the vector of a text and those of its tokens, all of length 1; 0 for padding."""

    def __init__(self, model: nn.Layer) -> None:
        super().__init__()
        self.encoder = encoder_of(model)

    def forward(self, input_ids: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """float32 [N, H] and [N, L, H] of ids int64 [N, L], padded with 0."""
        states = self.encoder(input_ids)[0]
        real = (input_ids != 0).astype("float32").unsqueeze(-1)
        mean = (states * real).sum(axis=1) / real.sum(axis=1)
        return F.normalize(mean, axis=-1), F.normalize(states, axis=-1) * real


def read(
    model: Predictor, texts: Sequence[str], batch_size: int = 32
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Vectors [texts, H] of an exported DeskEncoder; of each text those of its tokens, float16."""
    rows = [
        convert_example({"text": one}, model.tokenizer, model.max_length, is_test=True)
        for one in texts
    ]
    pad = batchify_fn(model.tokenizer, is_test=True)

    def run(batch: list[tuple]) -> list[tuple]:
        ids = pad(batch)[0]
        ids = np.pad(ids, ((0, 0), (0, -ids.shape[1] % STEP)))
        pairs = zip(*model.run({"input_ids": ids}), batch, strict=True)
        return [(one, all_[: len(row[0])].astype("float16")) for one, all_, row in pairs]

    found = map_by_length(run, rows, batch_size, length=lambda row: len(row[0]))
    vectors, tokens = zip(*found, strict=True)
    return np.stack(vectors), list(tokens)


def reciprocal_ranks(places: np.ndarray, right: Sequence[Sequence[int]]) -> np.ndarray:
    """1 / the rank of the first right place in each row, 0 where none is found."""
    hits = [np.isin(row, good) for row, good in zip(places, right, strict=True)]
    return np.array([1 / (1 + hit.argmax()) if hit.any() else 0.0 for hit in hits])


def score_table(ranks: dict[str, np.ndarray]) -> pd.DataFrame:
    """Recall at 1, 5 and 10 and MRR at 10 of several searches, from their reciprocal ranks."""
    rows = {
        name: {
            **{f"recall@{k}": np.mean(own >= 1 / k) for k in (1, 5, 10)},
            "MRR@10": np.mean(np.where(own >= 0.1, own, 0)),
        }
        for name, own in ranks.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def rerank_late(
    asked: Sequence[np.ndarray], tokens: Sequence[np.ndarray], places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sort found places by late interaction (Khattab and Zaharia, 2020); their scores, too.

    The score is the mean over the query's tokens of the largest cosine with a token of the text.
    """
    scores = np.empty(places.shape, "float32")
    for query, row, own in zip(asked, places, scores, strict=True):
        one = query.astype("float32")
        own[:] = [(one @ tokens[p].astype("float32").T).max(axis=1).mean() for p in row]
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(places, order, 1), np.take_along_axis(scores, order, 1)


def threshold_figure(scores: np.ndarray, right: np.ndarray, threshold: float) -> CourseFigure:
    """Show the scores of questions with and without an answer, and where the desk gives up."""
    with CourseFigure(figsize=(7.4, 2.6)) as figure:
        axes = figure.subplots()
        groups = {"the documents answer it": right, "they do not": ~right}
        for number, rows in enumerate(groups.values()):
            spread = number + np.random.RandomState(0).uniform(-0.25, 0.25, rows.sum())
            axes.scatter(scores[rows], spread, s=22, color=COLORS[number])
        axes.axvline(threshold, color="#555555", linestyle="--", linewidth=1)
        axes.set(yticks=[0, 1], yticklabels=list(groups), xlabel="score of the best paragraph")
        share = [float(np.mean(scores[rows] >= threshold)) for rows in groups.values()]
        said = " and ".join(f"{one:.0%}" for one in share)
        return figure.finish(f"Scores of questions; {said} of the groups reach {threshold:.3f}.")


PAGE = """<!doctype html><html lang="zh"><meta charset="utf-8"><title>Desk</title>
<link rel="icon" href="data:,"><style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem }
input { width: 75%; font: inherit; padding: .4rem } button { font: inherit; padding: .4rem 1rem }
#answer { font-size: 1.4rem; margin: 1rem 0 .3rem } mark { background: #ffe08a }
</style><h1>Question-answer desk</h1><form id="form"><label for="question">Question</label><br>
<input id="question" autofocus> <button>Ask</button></form>
<div role="status"><p id="answer"></p><p id="text"></p><small id="source"></small></div><script>
const at = id => document.getElementById(id);
async function ask(event) {
  event?.preventDefault();
  const reply = await fetch("ask?question=" + encodeURIComponent(at("question").value));
  const found = await reply.json();
  at("answer").textContent = found.answer || "我不知道 (I don't know)";
  const mark = document.createElement("mark"), text = found.text || "";
  mark.textContent = text.slice(found.start, found.end);
  at("text").replaceChildren(text.slice(0, found.start), mark, text.slice(found.end));
  at("source").textContent = found.source || "";
}
at("form").addEventListener("submit", ask);
const given = new URLSearchParams(location.search).get("question");
if (given) { at("question").value = given; ask(); }
</script></html>"""


@contextmanager
def serving(answer: Callable[[str], dict]) -> Iterator[str]:
    """Serve the page and GET /ask?question=... on this machine, inside the block; its address."""
    import uvicorn
    from fastapi import FastAPI
    from fastapi.responses import HTMLResponse

    app = FastAPI(openapi_url=None)
    app.get("/", response_class=HTMLResponse)(lambda: PAGE)

    @app.get("/ask")
    def ask(question: str) -> dict:
        return answer(question[:200]) if question.strip() else {"answer": ""}

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()
