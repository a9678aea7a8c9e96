"""Chapter 20: a search for paraphrases, a search by characters, recall, ways to search."""

import re
import time
from collections.abc import Callable, Mapping, Sequence

from course_lib.data import load_pairs
from course_lib.notebook.style import INK, MUTED, SERIES, CourseFigure, drawable
from course_lib.runtime import InputError
from course_lib.runtime.errors import whole
from course_lib.training.metrics import paired_bootstrap

import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.feature_extraction.text import TfidfVectorizer

_SENTENCE = re.compile(r"[^。！？!?；;…~～]+[。！？!?；;…~～]*")


def text_halves(
    texts: Sequence[str], min_length: int = 12, max_length: int = 30
) -> list[tuple[str, str]]:
    """Pairs that belong together, without labels: two adjacent parts of one text.

    A text is cut at the end of the sentence closest to its middle (the inverse cloze task; Lee et
    al., 2019). Texts of one sentence, or with a part below `min_length` characters, give no pair.
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
    """The baseline without a model: TF-IDF of single characters and pairs of them."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self._tfidf = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True)
        self._weights = self._tfidf.fit_transform(sentences)

    def search(self, queries: Sequence[str], count: int = 10) -> np.ndarray:
        """Places int64 [queries, count], best first; -1 where no more share a character."""
        cosines = (self._tfidf.transform(queries) @ self._weights.T).toarray()
        places = np.argsort(-cosines.astype("float32"), axis=1, kind="stable")[:, :count]
        places[np.take_along_axis(cosines, places, axis=1) <= 0] = -1
        return np.pad(places, ((0, 0), (0, count - places.shape[1])), constant_values=-1)


def meanings(split: str) -> list[list[str]]:
    """The sentences of `load_pairs`, one list for each meaning: those that say the same."""
    rows = list(load_pairs(split))
    texts = dict.fromkeys(row[side] for row in rows for side in ("sentence1", "sentence2"))
    place = {text: number for number, text in enumerate(texts)}
    same = [(place[row["sentence1"]], place[row["sentence2"]]) for row in rows if row["label"]]
    graph = coo_array((np.ones(len(same)), np.array(same).T), shape=(len(texts), len(texts)))
    numbers = connected_components(graph, directed=False)[1]
    return [
        [text for text, number in zip(texts, numbers, strict=True) if number == meaning]
        for meaning in range(max(numbers) + 1)
    ]


def paraphrase_search() -> tuple[list[str], np.ndarray, list[str], list[int]]:
    """The collection, the number of each sentence's meaning, the queries and their meanings.

    Each meaning of dev and test that several sentences have gives one query: the sentence with the
    fewest characters in common with the others. All others, those of train too, are the collection.
    """
    collection, numbers, queries, right = [], [], [], []
    splits = [(split, each) for split in ("dev", "test", "train") for each in meanings(split)]
    for number, (split, texts) in enumerate(splits):
        if split != "train" and len(texts) > 1:
            common = [max(overlap(one, two) for two in texts if two != one) for one in texts]
            queries.append(texts[int(np.argmin(common))])
            right.append(number)
            texts = [text for text in texts if text != queries[-1]]
        collection += texts
        numbers += [number] * len(texts)
    return collection, np.array(numbers), queries, right


def overlap(one: str, two: str) -> float:
    """The share of the characters of two texts that are in both."""
    return len({*one} & {*two}) / len({*one} | {*two})


def compare_search(
    methods: Mapping[str, Callable[[list[str]], np.ndarray]],
    queries: Sequence[str],
    right: Sequence[int],
    counts: Sequence[int] = (1, 10),
) -> pd.DataFrame:
    """Recall ("recall@K", "low@K", "high@K") and median time ("ms") of several ways to search.

    Args:
        methods: by name, from a list of queries to places int [queries, K]. They take turns, with
            one query at a time, as a person asks, after one call that is not measured.
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
    """Show recall at `count` from `compare_search` against time; up and to the left is better."""
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
        axes.set(xlabel="milliseconds per query", ylabel=f"recall@{count}")
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
    """How often the right sentence is among the first k, with a 95% bootstrap interval.

    Args:
        places: int [queries, K], best first; -1 where fewer were found.
        right: the one right place of each query (or its meaning, with meanings for places).
    """
    right, table = np.asarray(right), {}
    if right.shape != places.shape[:1]:  # one would be compared with every row
        raise InputError("right", f"has shape {list(right.shape)}", f"{len(places)} places")
    for count in counts:
        whole("counts", count, 1, places.shape[1])
        hits = (places[:, :count] == right[:, None]).any(axis=1)
        interval = paired_bootstrap(hits, np.zeros(len(hits)))
        ends = [interval["low"], interval["high"]]
        if np.isnan(ends[0]):  # all queries agree, so the bootstrap has nothing to draw
            ends = [interval["difference"]] * 2
        table[count] = {"recall": interval["difference"], "low": ends[0], "high": ends[1]}
    return pd.DataFrame.from_dict(table, orient="index")


WAYS: dict[str, list[tuple[float, float, str, int | None]]] = {  # place, text, box above
    "bi-encoder (finds)": [
        (0, 0, "query", 2), (2, 0, "sentence", 3), (0, 1, "model", 4), (2, 1, "model", 5),
        (0, 2, "vector", 6), (2, 2, "vector", 6), (1, 3, "cosine", None),
    ],
    "cross-encoder (sorts)": [
        (1, 0, "query + sentence", 1), (1, 1.5, "model", 2), (1, 3, "score", None),
    ],
}  # fmt: skip


def two_ways() -> CourseFigure:
    """Draw a bi-encoder and a cross-encoder, from the texts at the bottom to the score on top."""
    with CourseFigure(figsize=(7.2, 3.2)) as figure:
        for axes, (title, boxes) in zip(figure.subplots(1, 2), WAYS.items(), strict=True):
            for x, y, text, above in boxes:
                face = {"model": "#DCEBF5", "vector": "#D9F0E8"}.get(text, "white")
                frame = {"boxstyle": "round,pad=0.4", "facecolor": face, "edgecolor": "#AAAAAA"}
                axes.text(x, y, text, ha="center", va="center", color=INK, bbox=frame)
                if above is not None:
                    arrow = {"arrowstyle": "->", "color": MUTED, "shrinkA": 15, "shrinkB": 15}
                    axes.annotate("", boxes[above][:2], (x, y), arrowprops=arrow)
            axes.set(xlim=(-0.7, 2.7), ylim=(-0.4, 3.4))
            axes.set_title(title, loc="center")
            axes.axis("off")
        left = "Left: the model reads the texts apart, and a cosine compares their vectors"
        return figure.finish(f"{left}. Right: the model reads both together and gives a score.")
