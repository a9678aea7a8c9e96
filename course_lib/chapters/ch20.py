"""Chapter 20: pairs out of texts, a search by characters, recall, ways to search, distillation."""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence

from course_lib.data import batchify_fn, convert_example
from course_lib.notebook.style import SERIES, CourseFigure, drawable
from course_lib.runtime import InputError
from course_lib.runtime.errors import whole
from course_lib.tasks.search import BiEncoder
from course_lib.training.metrics import paired_bootstrap
from course_lib.training.steps import train_steps

import numpy as np
import paddle
import pandas as pd
from matplotlib.ticker import PercentFormatter
from sklearn.feature_extraction.text import TfidfVectorizer

_SENTENCE = re.compile(r"[^。！？!?；;…~～]+[。！？!?；;…~～]*")


def text_halves(
    texts: Sequence[str], min_length: int = 12, max_length: int = 30
) -> list[tuple[str, str]]:
    """Pairs that belong together, without labels: two parts of one text.

    A text is cut at the end of the sentence closest to its middle (the inverse cloze task; Lee et
    al., 2019). Texts of one sentence, or with a part that is too short, give no pair.

    Args:
        min_length, max_length: characters of a part; of a longer first part the end is kept, of a
            longer second one the beginning, so that the two are adjacent.
    """
    pairs = []
    for text in texts:
        ends = np.array([sentence.end() for sentence in _SENTENCE.finditer(text)][:-1])
        if len(ends):
            cut = int(ends[np.abs(ends - len(text) / 2).argmin()])
            first, second = text[:cut].strip(), text[cut:].strip()
            if min(len(first), len(second)) >= min_length:
                pairs.append((first[-max_length:].strip(), second[:max_length].strip()))
    return pairs


class CharacterIndex:
    """The baseline without a model: TF-IDF of single characters and pairs of them.

    Args:
        sentences: what is searched; the frequencies are theirs.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self._tfidf = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True)
        self._weights = self._tfidf.fit_transform(sentences)

    def search(self, queries: Sequence[str], count: int = 10) -> np.ndarray:
        """Places int64 [queries, count], best first; -1 where no more share a character."""
        cosines = (self._tfidf.transform(queries) @ self._weights.T).toarray()
        places = np.argsort(-cosines.astype("float32"), axis=1, kind="stable")[:, :count]
        places[np.take_along_axis(cosines, places, axis=1) <= 0] = -1
        return np.pad(places, ((0, 0), (0, count - places.shape[1])), constant_values=-1)


def distil_encoder(
    student: BiEncoder, texts: Sequence[str], vectors: np.ndarray, batch_size: int, steps: int
) -> list[float]:
    """Teach a smaller encoder the vectors of a larger one, so that its index can stay.

    Args:
        vectors: float [texts, hidden_size] of the teacher, of length 1.

    Returns:
        The loss of each step: 1 - the mean cosine between teacher and student.
    """
    length = student.max_length
    rows = [
        convert_example({"text": one}, student.tokenizer, length, is_test=True) for one in texts
    ]
    batchify = batchify_fn(student.tokenizer, is_test=True)

    def loss(batch: np.ndarray) -> paddle.Tensor:
        predicted = student(*map(paddle.to_tensor, batchify([rows[i] for i in batch])))
        return 1 - (predicted * paddle.to_tensor(vectors[batch])).sum(axis=-1).mean()

    order = np.random.RandomState(42).permutation(len(rows))
    batches = [order[i : i + batch_size] for i in range(0, len(rows), batch_size)]
    return train_steps(student, batches, loss, min(steps, len(batches)), learning_rate=3e-4)


def compare_search(
    methods: Mapping[str, Callable[[list[str]], np.ndarray]],
    queries: Sequence[str],
    right: Sequence[int],
    counts: Sequence[int] = (1, 10),
) -> pd.DataFrame:
    """Recall and time of several ways to search, which take turns on the same queries.

    Args:
        methods: by name, from a list of queries to places int [queries, K]. Each is called with
            one query at a time, as a person asks, after one call that is not measured.
        right, counts: as for `recall_at_k`.

    Returns:
        One row per method: "recall@K", "low@K" and "high@K" for each K of `counts`, and "ms", the
        median time of a query.
    """
    places: dict[str, list] = {name: [] for name in methods}
    times: dict[str, list[float]] = {name: [] for name in methods}
    for search in methods.values():
        search([queries[0]])
    turns = np.random.RandomState(0)
    for query in queries:
        for name in turns.permutation(list(methods)):
            start = time.perf_counter()
            places[name].append(methods[name]([query]))
            times[name].append(1000 * (time.perf_counter() - start))
    table = {}
    for name in methods:
        recall = recall_at_k(np.concatenate(places[name]), right, counts)
        table[name] = {
            f"{column}@{count}": recall.loc[count, column]
            for count in counts
            for column in ("recall", "low", "high")
        }
        table[name]["ms"] = float(np.median(times[name]))
    return pd.DataFrame.from_dict(table, orient="index")


def recall_against_time(frame: pd.DataFrame, count: int) -> CourseFigure:
    """Show what each way to search finds and how long it takes; up and to the left is better.

    Args:
        frame: from `compare_search`.
        count: the K of the recall that is drawn, with its interval.
    """
    columns = [f"{name}@{count}" for name in ("recall", "low", "high")]
    with CourseFigure(figsize=(7.2, 3.8)) as figure:
        axes = figure.subplots()
        for number, (name, row) in enumerate(frame.iterrows()):
            recall, low, high = row[columns]
            axes.errorbar(
                row["ms"], recall, [[recall - low], [high - recall]], capsize=3, linestyle="",
                elinewidth=1.2, label=drawable(str(name)), **SERIES[number],
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set(xlabel="milliseconds a query", ylabel=f"recall@{count}")
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")
        summary = "; ".join(
            f"{name}: {row[columns[0]]:.1%} in {row['ms']:.3g} ms" for name, row in frame.iterrows()
        )
        return figure.finish(f"Recall at {count} against time. {summary}.", plain=axes.xaxis)


def recall_at_k(
    places: np.ndarray, right: Sequence[int], counts: Sequence[int] = (1, 5, 10)
) -> pd.DataFrame:
    """How often the right sentence is among the first k that were found.

    Args:
        places: int [queries, K], best first; -1 where fewer were found.
        right: the one right place of each query.
        counts: values of k, each from 1 to K.

    Returns:
        One row per k, with columns "recall", "low" and "high": the 95% bootstrap interval over the
        queries.

    Raises:
        InputError: another number of right places than of queries; a k that is not within 1 to K.
    """
    right, table = np.asarray(right), {}
    if right.shape != places.shape[:1]:  # one would be compared with every row
        raise InputError("right", f"has shape {list(right.shape)}", f"{len(places)} places")
    for count in counts:
        whole("counts", count, 1, places.shape[1])
        hits = (places[:, :count] == right[:, None]).any(axis=1)
        interval = paired_bootstrap(hits, np.zeros(len(hits)))
        ends = [interval["low"], interval["high"]]
        if math.isnan(ends[0]):  # all queries agree, so the bootstrap has nothing to draw
            ends = [interval["difference"]] * 2
        table[count] = {"recall": interval["difference"], "low": ends[0], "high": ends[1]}
    return pd.DataFrame.from_dict(table, orient="index")
