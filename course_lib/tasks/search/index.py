"""An index of sentences by their vectors, what it is held to, and how both are measured.

FAQ: what is the difference between semantic indexing and semantic matching? The models are in
`course_lib.tasks.search.encoders`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from course_lib.runtime import InputError, atomic_directory
from course_lib.runtime.errors import finite, numbers_in, whole
from course_lib.runtime.files import read_json, read_unmixed
from course_lib.runtime.manifest import check_described, describe_files, verify_files
from course_lib.tasks.search.encoders import _places, _texts, _vectors
from course_lib.training.metrics import paired_bootstrap

import faiss
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer

FAISS = {"flat": faiss.IndexFlat, "hnsw": faiss.IndexHNSWFlat, "ivf": faiss.IndexIVFFlat}
KINDS = tuple(FAISS)
VECTORS, SENTENCES, DESCRIPTION = "vectors.faiss", "sentences.json", "index.json"
MOST = 2**31 - 1  # what faiss takes


class SentenceIndex:
    """Sentences, found by the cosine of their vectors (faiss).

    Equal vectors are stored once: a graph of many equal ones is cut into parts that a search cannot
    leave, so that it misses most of the others, whatever its effort. Threads may share an index.

    Args:
        size: numbers of a vector.
        kind: "flat" compares with every sentence and misses none. "hnsw" walks along a graph of
            neighbours (Malkov and Yashunin, 2018), "ivf" looks only into the groups nearest to the
            query; both miss some and are faster where sentences are many.
        links: of a sentence in the graph of "hnsw".
        groups: of "ivf", formed from the first sentences that are added; so many different
            vectors must these have.
        effort: how far a search looks, candidates for "hnsw", groups for "ivf"; more finds more and
            takes longer. May be set later.

    Attributes:
        sentences: in the order in which they were added; a place is a number in this list.
    """

    def __init__(
        self, size: int, kind: str = "flat", links: int = 16, groups: int = 16, effort: int = 16
    ) -> None:
        self.size = size = whole("size", size, 1, 2**20)
        if kind not in KINDS:
            raise InputError("kind", f"is {kind!r}", f"one of {', '.join(KINDS)}")
        self.kind = kind
        product = faiss.METRIC_INNER_PRODUCT
        if kind == "flat":
            self._index = faiss.IndexFlatIP(size)
        elif kind == "hnsw":
            self._index = faiss.IndexHNSWFlat(size, whole("links", links, 2, 2**10), product)
        else:
            groups = whole("groups", groups, 1, 2**20)
            self._index = faiss.IndexIVFFlat(faiss.IndexFlatIP(size), size, groups, product)
            self._index.cp.min_points_per_centroid = 1  # no warning: the groups are small here
        self.sentences: list[str] = []
        self._numbers: dict[bytes, int] = {}  # of vectors in faiss, by their digests
        self._copies: list[list[int]] = []  # places of each vector's sentences
        self.effort = whole("effort", effort, 1, MOST)
        self._lock, self._half_added = threading.RLock(), False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            if self._half_added:
                raise InputError("index", "is damaged: a call of add was interrupted", "a new one")
            yield

    def __len__(self) -> int:
        with self._lock:
            return len(self.sentences)

    def add(self, vectors: np.ndarray, sentences: Sequence[str]) -> None:
        """Add sentences with their vectors, float [sentences, size], of length 1.

        Raises:
            InputError: vectors of another number or size, not finite or not of length 1; no
                sentence, an empty one; for a new "ivf", fewer different vectors than its groups.
        """
        sentences = _texts("sentences", sentences)
        vectors = _vectors(vectors, self.size, len(sentences))
        digests = _digests(vectors)
        rows = {digest: row for row, digest in reversed([*enumerate(digests)])}  # the first of each
        with self._alone():
            new = sorted(row for digest, row in rows.items() if digest not in self._numbers)
            new = vectors[new]
            if not self._index.is_trained and len(new) < self._index.nlist:
                problem = f"have {len(new)} different vectors at first"
                raise InputError("sentences", problem, f"{self._index.nlist}, a group each")
            if not self._index.is_trained:
                self._index.train(new)
            self._half_added = True
            self._index.add(new)
            self._place(digests)
            self.sentences += sentences
            self._half_added = False

    def _place(self, digests: Iterable[bytes]) -> None:
        for place, digest in enumerate(digests, start=len(self.sentences)):
            number = self._numbers.setdefault(digest, len(self._copies))
            if number == len(self._copies):
                self._copies.append([])
            self._copies[number].append(place)

    def search(self, vectors: np.ndarray, count: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The nearest sentences of each query.

        Args:
            vectors: float [queries, size], of length 1.
            count: sentences a query.

        Returns:
            Cosines float32 and places int64, both [queries, count], best first. Where less was
            found, places are -1 and cosines -inf.

        Raises:
            InputError: vectors as for `add`; the index is empty.
        """
        count, effort = whole("count", count, 1, MOST), whole("effort", self.effort, 1, MOST)
        if not self.sentences:
            raise InputError("index", "is empty", "sentences: call add first")
        vectors = _vectors(vectors, self.size)
        with self._alone():
            if self.kind == "hnsw":
                self._index.hnsw.efSearch = max(effort, count)
            elif self.kind == "ivf":
                self._index.nprobe = effort
            cosines, places = self._index.search(vectors, count)
            if len(self._copies) < len(self.sentences):
                for row, numbers in enumerate(places):
                    found = [(n, c) for n, c in zip(numbers, cosines[row], strict=True) if n >= 0]
                    each = ((place, cosine) for n, cosine in found for place in self._copies[n])
                    places[row] = -1
                    for column, (place, cosine) in enumerate(islice(each, count)):
                        places[row, column], cosines[row, column] = place, cosine
        cosines[places < 0] = -np.inf
        return cosines, places

    def save(self, directory: str | os.PathLike) -> Path:
        """Write vectors and sentences; the directory appears whole or not at all.

        Raises:
            InputError: it cannot be written, or holds something else than an older index.
        """
        with atomic_directory(directory, DESCRIPTION) as temporary:
            with self._alone():
                vectors = faiss.serialize_index(self._index)
                content = {"sentences": self.sentences, "places": self._copies}
                text = json.dumps(content)  # escapes, so that halves of characters pass
            (temporary / VECTORS).write_bytes(vectors)  # faiss is silent about a full disk
            (temporary / SENTENCES).write_text(text, encoding="utf-8")
            files = describe_files(temporary)
            own = {"size": self.size, "kind": self.kind, "effort": self.effort, "files": files}
            (temporary / DESCRIPTION).write_text(json.dumps(own, indent=1), encoding="utf-8")
        return Path(directory)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> SentenceIndex:
        """Read what `save` wrote; one that is replaced meanwhile is read as before or as after.

        Raises:
            InputError: a file is missing, damaged, or does not fit the others; a graph of an older
                version in which vectors stand more than once.
        """
        return read_unmixed(directory, lambda: cls._read(Path(directory)))

    @classmethod
    def _read(cls, directory: Path) -> SentenceIndex:
        expected = "what SentenceIndex.save wrote"
        file = directory / DESCRIPTION
        try:
            own = read_json(file, expected)
            index = cls(own["size"], own["kind"], effort=own["effort"])
            names = check_described(own["files"])
        except InputError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(file, f"is damaged ({error})", expected) from None
        if names != {VECTORS, SENTENCES}:
            raise InputError(file, f"names {', '.join(sorted(names))}", f"{VECTORS}, {SENTENCES}")
        verify_files(directory, own["files"])  # faiss ends the process at some damaged files
        index._index = faiss.read_index(str(directory / VECTORS))
        content = read_json(directory / SENTENCES, expected)
        if isinstance(content, list):  # an older version's, a vector for each sentence
            content = {"sentences": content, "places": [[n] for n in range(len(content))]}
        index.sentences, index._copies = content["sentences"], content["places"]
        if not isinstance(index._index, FAISS[index.kind]):
            problem = f"is a {type(index._index).__name__}"
            raise InputError(directory / VECTORS, problem, f"{index.kind}, as {DESCRIPTION} says")
        found = (index._index.d, index._index.ntotal)
        if found != (index.size, len(index._copies)):
            problem = f"holds {found[1]} vectors of size {found[0]}"
            raise InputError(directory, problem, f"{len(index._copies)} of size {index.size}")
        digests = _digests(index._index.reconstruct_n(0, found[1]))
        index._numbers = {digest: number for number, digest in enumerate(digests)}
        if index.kind == "hnsw" and len(index._numbers) < found[1]:
            problem = f"holds {found[1]} vectors, {len(index._numbers)} of them different"
            raise InputError(directory, problem, "each once: make the index anew and add to it")
        return index


def _digests(vectors: np.ndarray) -> list[bytes]:
    return [hashlib.blake2b(row, digest_size=16).digest() for row in vectors + np.float32(0)]  # -0


class CharacterIndex:
    """The baseline without a model: TF-IDF of single characters and pairs of them.

    Args:
        sentences: what is searched; the frequencies are theirs.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self.sentences = _texts("sentences", sentences)
        self._tfidf = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True)
        self._weights = self._tfidf.fit_transform(self.sentences)

    def search(self, queries: Sequence[str], count: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """As `SentenceIndex.search`, of texts; what shares no character with one is not found."""
        count = whole("count", count, 1, MOST)
        weights = self._tfidf.transform(_texts("queries", queries))
        cosines = (weights @ self._weights.T).toarray().astype("float32")
        places = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
        cosines = np.take_along_axis(cosines, places, axis=1)
        places[cosines <= 0], cosines[cosines <= 0] = -1, -np.inf
        missing = ((0, 0), (0, count - places.shape[1]))
        cosines = np.pad(cosines, missing, constant_values=-np.inf)
        return cosines, np.pad(places.astype("int64"), missing, constant_values=-1)


def fuse(*places: np.ndarray, count: int = 10, constant: float = 60.0) -> np.ndarray:
    """One order out of several searches, by their ranks alone (Cormack et al., 2009).

    A sentence's score is the sum of 1 / (constant + rank) over the searches that found it.

    Args:
        places: int [queries, found] of each search, best first; -1 where less was found.

    Returns:
        int64 [queries, count], -1 where there are no more.

    Raises:
        InputError: no search, or other numbers of queries.
    """
    count, constant = whole("count", count, 1), finite("constant", constant, -1)
    places = tuple(numbers_in("places", one, "int64") for one in places)
    if not all(one.ndim == 2 and one.size for one in places):
        raise InputError("places", "are empty or no tables", "what searches give")
    rows = {len(one) for one in places}
    if len(rows) != 1:
        raise InputError("places", f"have {sorted(rows)} rows", "the same queries in each search")
    rows = rows.pop()
    most = max(int(np.max(one)) for one in places) + 1
    checked = [_places(one, rows, most) for one in places]
    result = np.full((rows, count), -1, "int64")
    for row in range(rows):
        scores: dict[int, float] = {}
        for one in checked:
            for rank, place in enumerate(one[row].tolist(), 1):
                if place >= 0:
                    scores[place] = scores.get(place, 0.0) + 1 / (constant + rank)
        best = sorted(scores, key=lambda place: (-scores[place], place))[:count]
        result[row, : len(best)] = best
    return result


# --- measuring ------------------------------------------------------------------------------------


def recall_at_k(
    places: np.ndarray, right: Sequence[int], counts: Sequence[int] = (1, 5, 10)
) -> pd.DataFrame:
    """How often is the right sentence among the first k that were found?

    Args:
        places: int [queries, found], best first; -1 where less was found.
        right: the one right place of each query.
        counts: of k, none above found.

    Returns:
        A row a count, with columns "recall", "low" and "high": the 95% bootstrap interval over
        queries.

    Raises:
        InputError: other numbers of rows, fewer than two, a count out of bounds.
    """
    right, places = numbers_in("right", right, "int64"), numbers_in("places", places, "int64")
    if not isinstance(counts, Iterable) or isinstance(counts, str):
        raise InputError("counts", f"is {counts!r}", "a list of k")
    if right.ndim != 1 or right.dtype.kind not in "iu" or len(right) < 2 or right.min() < 0:
        problem = f"hold {right.dtype} of shape {list(right.shape)}"
        raise InputError("right", problem, "one place a query, two queries at least")
    places = _places(places, len(right), int(max(np.max(places, initial=0), right.max())) + 1)
    table = {}
    for count in counts:
        hits = (places[:, : whole("counts", count, 1, places.shape[1])] == right[:, None]).any(1)
        interval = paired_bootstrap(hits, np.zeros(len(hits)))
        table[count] = {"recall": interval["difference"], **_ends(interval)}
    return pd.DataFrame.from_dict(table, orient="index")


def compare_search(
    methods: Mapping[str, Callable[[list[str]], np.ndarray]],
    queries: Sequence[str],
    right: Sequence[int],
    counts: Sequence[int] = (1, 10),
    batch_size: int = 1,
) -> pd.DataFrame:
    """Recall and time of several ways to search, which take turns on the same queries.

    Args:
        methods: by name, from queries to places int [queries, found]. The first query is given to
            each once before, unmeasured.
        right, counts: as for `recall_at_k`.
        batch_size: queries a call; 1 is how a person asks.

    Returns:
        A row a method, with columns "recall@K", "low@K" and "high@K" for each K of `counts`, and
        "ms": the median time of a call, divided by its queries.

    Raises:
        InputError: no method, one that is no function or gives something else; as `recall_at_k`.
    """
    queries = _texts("queries", queries)
    batch_size = whole("batch_size", batch_size, 1)
    if not isinstance(methods, Mapping) or not methods:
        raise InputError("methods", "are none", "functions by name")
    for name, method in methods.items():
        if not callable(method):
            raise InputError(f"methods[{name!r}]", f"is a {type(method).__name__}", "a function")
    found: dict[str, list] = {name: [] for name in methods}
    times: dict[str, list[float]] = {name: [] for name in methods}
    first = queries[:batch_size]
    widths = {
        name: _places_of(name, method(first), len(first)).shape[1]
        for name, method in methods.items()
    }
    turns = np.random.RandomState(0)
    for start in range(0, len(queries), batch_size):
        asked = queries[start : start + batch_size]
        for name in turns.permutation(list(methods)):
            begin = time.perf_counter()
            places = methods[name](asked)
            times[name].append(1000 * (time.perf_counter() - begin) / len(asked))
            found[name].append(_places_of(name, places, len(asked), widths[name]))
    table = {}
    for name in methods:
        recall = recall_at_k(np.concatenate(found[name]), right, counts)
        row = {}
        for count in counts:
            row[f"recall@{count}"] = recall.loc[count, "recall"]
            row[f"low@{count}"], row[f"high@{count}"] = recall.loc[count, ["low", "high"]]
        table[name] = {**row, "ms": float(np.median(times[name]))}
    return pd.DataFrame.from_dict(table, orient="index")


def _places_of(name: str, places: object, rows: int, width: int | None = None) -> np.ndarray:
    places = numbers_in(f"what methods[{name!r}] gives", places, "int64")
    if places.ndim != 2 or len(places) != rows or width not in (None, places.shape[1]):
        problem = f"gives places of shape {list(places.shape)} for {rows} queries"
        expected = "a row a query, always as many: -1 where less is found"
        raise InputError(f"methods[{name!r}]", problem, expected)
    return places


def _ends(interval: Mapping[str, float]) -> dict[str, float]:
    """The ends of an interval; where all queries agree, the bootstrap has none to draw."""
    ends = (interval["low"], interval["high"])
    if any(math.isnan(end) for end in ends):
        ends = (interval["difference"],) * 2
    return {"low": ends[0], "high": ends[1]}
