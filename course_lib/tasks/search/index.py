"""An index of sentences by their vectors, and fusion of several searches.

The models that make the vectors are in `course_lib.tasks.search.encoders`.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from ...runtime import InputError, atomic_directory
from ...runtime.errors import one_of
from ...runtime.files import read_json, read_unmixed
from ...runtime.manifest import read_manifest, verify_files, write_manifest
from ...training.prediction import check_texts

import faiss
import numpy as np

FAISS = {"flat": faiss.IndexFlat, "hnsw": faiss.IndexHNSWFlat, "ivf": faiss.IndexIVFFlat}
LINKS = 16  # per sentence in the graph of "hnsw"
VECTORS, SENTENCES = "vectors.faiss", "sentences.json"


class SentenceIndex:
    """Sentences, found by the cosine of their vectors (faiss).

    Equal vectors are stored once: a graph of many equal ones falls apart into pieces that a search
    cannot leave, so it would miss most of the others. Threads may share an index.

    Args:
        size: numbers per vector.
        kind: "flat" compares with every sentence and misses none. "hnsw" walks along a graph of
            neighbors (Malkov and Yashunin, 2018), "ivf" looks only into the groups closest to the
            query; both miss some and are faster when there are many sentences.
        groups: of "ivf", formed from the sentences that are added first, which need at least as
            many different vectors.
        effort: how far a search looks: candidates for "hnsw" (`efSearch`), groups for "ivf"
            (`nprobe`). More finds more and takes longer; may be set later.

    Attributes:
        sentences: in the order in which they were added; a place is an index into this list.
    """

    def __init__(self, size: int, kind: str = "flat", groups: int = 16, effort: int = 16) -> None:
        self.size, self.kind, self.effort = size, one_of("kind", kind, FAISS), effort
        self._index = faiss.IndexFlatIP(size)
        if kind == "hnsw":
            self._index = faiss.IndexHNSWFlat(size, LINKS, faiss.METRIC_INNER_PRODUCT)
        elif kind == "ivf":
            flat, product = self._index, faiss.METRIC_INNER_PRODUCT
            self._index = faiss.IndexIVFFlat(flat, size, groups, product)
            self._index.cp.min_points_per_centroid = 1  # no warning: the groups are small here
        self.sentences: list[str] = []
        self._numbers: dict[bytes, int] = {}  # of vectors in faiss, by their digests
        self._copies: list[list[int]] = []  # places of each vector's sentences
        self._lock, self._half_added = threading.RLock(), False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            if self._half_added:
                raise InputError("index", "is damaged: a call of add was interrupted", "a new one")
            yield

    def _checked(self, vectors: np.ndarray, rows: int | None = None) -> np.ndarray:
        vectors = np.ascontiguousarray(vectors, "float32")
        count = len(vectors) if rows is None else rows
        if vectors.shape != (count, self.size):
            expected = f"{'any number of' if rows is None else rows} rows of {self.size} numbers"
            raise InputError("vectors", f"have shape {list(vectors.shape)}", expected)
        lengths = np.linalg.norm(vectors, axis=1)
        wrong = np.flatnonzero(~(np.abs(lengths - 1) < 1e-3))  # NaN, too
        if len(wrong):
            problem = f"row {wrong[0]} has length {lengths[wrong[0]]:.4g}"
            raise InputError("vectors", problem, "length 1: products are cosines then")
        return vectors

    def __len__(self) -> int:
        return len(self.sentences)

    def add(self, vectors: np.ndarray, sentences: Sequence[str]) -> None:
        """Add sentences with their vectors, float [sentences, size], of length 1.

        Raises:
            InputError: vectors of another number or size, not finite or not of length 1, so that
                products would not be cosines; an empty sentence.
        """
        check_texts(sentences, "sentences")
        vectors = self._checked(vectors, len(sentences))
        digests = _digests(vectors)
        rows = {digest: row for row, digest in reversed([*enumerate(digests)])}  # the first of each
        with self._alone():
            new = sorted(row for digest, row in rows.items() if digest not in self._numbers)
            new = vectors[new]
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
            count: sentences per query.

        Returns:
            Cosines float32 and places int64, both [queries, count], best first. Where fewer
            were found, places are -1 and cosines -inf.
        """
        vectors = self._checked(vectors)
        with self._alone():
            if self.kind == "hnsw":
                self._index.hnsw.efSearch = max(self.effort, count)
            elif self.kind == "ivf":
                self._index.nprobe = self.effort
            cosines, places = self._index.search(vectors, count)
            if len(self._copies) < len(self.sentences):
                for row, numbers in enumerate(places):
                    hits = [(n, c) for n, c in zip(numbers, cosines[row], strict=True) if n >= 0]
                    each = ((place, cosine) for n, cosine in hits for place in self._copies[n])
                    places[row] = -1
                    for column, (place, cosine) in enumerate(islice(each, count)):
                        places[row, column], cosines[row, column] = place, cosine
        cosines[places < 0] = -np.inf
        return cosines, places

    def save(self, directory: str | os.PathLike) -> Path:
        """Write vectors and sentences; the directory appears whole or not at all."""
        with atomic_directory(directory, VECTORS) as temporary:
            with self._alone():
                vectors = faiss.serialize_index(self._index)
                content = {"sentences": self.sentences, "places": self._copies}
                text = json.dumps({**content, "effort": self.effort})  # escapes half characters
            (temporary / VECTORS).write_bytes(vectors)  # faiss is silent about a full disk
            (temporary / SENTENCES).write_text(text, encoding="utf-8")
            write_manifest(temporary)
        return Path(directory)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "SentenceIndex":
        """Read what `save` wrote; one that is replaced meanwhile is read as before or as after.

        Raises:
            InputError: a file is missing, damaged, or does not fit the others.
        """
        return read_unmixed(directory, lambda: cls._read(Path(directory)))

    @classmethod
    def _read(cls, directory: Path) -> "SentenceIndex":
        expected = "what SentenceIndex.save wrote"
        files = read_manifest(directory, expected)
        verify_files(directory, files, expected)  # faiss ends the process at some damaged files
        found = faiss.read_index(str(directory / VECTORS))
        content = read_json(directory / SENTENCES, expected)
        (kind,) = (kind for kind, each in FAISS.items() if isinstance(found, each))
        index = cls(found.d, kind, effort=content["effort"])
        index._index = found
        index.sentences, index._copies = content["sentences"], content["places"]
        digests = _digests(found.reconstruct_n(0, found.ntotal))
        index._numbers = {digest: number for number, digest in enumerate(digests)}
        return index


def _digests(vectors: np.ndarray) -> list[bytes]:
    return [hashlib.blake2b(row, digest_size=16).digest() for row in vectors + np.float32(0)]  # -0


def fuse(*places: np.ndarray, count: int = 10, constant: float = 60.0) -> np.ndarray:
    """Reciprocal rank fusion: one order from several searches (Cormack et al., 2009).

    A sentence's score is the sum of 1 / (constant + rank) over the searches that found it.

    Args:
        places: int [queries, K] of each search, best first; -1 where fewer were found.

    Returns:
        int64 [queries, count], -1 where there are no more.
    """
    result = np.full((len(places[0]), count), -1, "int64")
    for row, searches in enumerate(zip(*places, strict=True)):
        scores: dict[int, float] = {}
        for search in searches:
            for rank, place in enumerate(search.tolist(), 1):
                if place >= 0:
                    scores[place] = scores.get(place, 0.0) + 1 / (constant + rank)
        best = sorted(scores, key=lambda place: (-scores[place], place))[:count]
        result[row, : len(best)] = best
    return result
