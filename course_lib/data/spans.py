"""Entities as spans: read from BIO labels, and looked up in a dictionary of training names."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

from ..runtime import InputError

import numpy as np

Span = tuple[int, int, int]  # first token, the token after the last, type index


def bio_types(label_list: Sequence[str]) -> list[str]:
    """The types of a list of BIO labels, in the order in which the list first names them.

    Raises:
        InputError: a label that is not O, B-X or I-X; a type without its B- or I-; a label twice.
    """
    types = list(dict.fromkeys(str(label)[2:] for label in label_list if label != "O"))
    if sorted(map(str, label_list)) != sorted(_bio_order(types)):
        problem = f"is {list(label_list)!r:.60}"
        raise InputError("label_list", problem, "O and, for each type X, B-X and I-X, each once")
    return types


def _bio_order(types: Sequence[str]) -> list[str]:
    return ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI")]


def bio_ids(labels: Sequence[int] | np.ndarray, label_list: Sequence[str]) -> np.ndarray:
    """Label ids of any order as those of the order that `bio_spans` takes by default."""
    ids = {name: number for number, name in enumerate(_bio_order(bio_types(label_list)))}
    labels = np.asarray(labels, "int64")
    default = np.array([ids[name] for name in label_list])
    return np.where(labels < 0, labels, default[np.maximum(labels, 0)])


def bio_spans(
    labels: Sequence[int] | np.ndarray, label_list: Sequence[str] | None = None
) -> set[Span]:
    """The entities of a row of BIO label ids.

    Args:
        labels: negative ids (the -100 of special tokens) count as O.
        label_list: names of the ids, in any order; types are counted as in `bio_types`. By default
            0 is O, 1 and 2 are B- and I- of the first type, 3 and 4 of the second, and so on.

    Returns:
        Spans `(start, end, type_index)`. An I- that continues nothing of its type opens a span.
    """
    if label_list is not None:
        labels = bio_ids(labels, label_list)
    result: set[Span] = set()
    start, kind = 0, -1
    for position, label in enumerate([*labels, 0]):
        here = -1 if label <= 0 else (int(label) - 1) // 2
        if kind >= 0 and (here != kind or label % 2 == 1):
            result.add((start, position, kind))
            kind = -1
        if here >= 0 and kind < 0:
            start, kind = position, here
    return result


def training_names(dataset: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Names of tagged sentences, with type, that are names in at least half of their places.

    Args:
        dataset: examples with one-character `tokens` and BIO `labels`, ids of its `label_list`; a
            dataset without one has them in the order that `bio_spans` takes by default.
    """
    label_list = getattr(dataset, "label_list", None)
    kinds: dict[str, Counter[int]] = {}
    lengths: dict[str, set[int]] = {}  # of the names that begin with a character
    texts = []
    for example in dataset:
        texts.append("".join(example["tokens"]))
        for start, end, kind in bio_spans(example["labels"], label_list):
            name = texts[-1][start:end]
            kinds.setdefault(name, Counter())[kind] += 1
            lengths.setdefault(name[0], set()).add(len(name))
    places: Counter[str] = Counter()
    for text in texts:
        for start, character in enumerate(text):
            for length in lengths.get(character, ()):
                if start + length <= len(text):
                    places[text[start : start + length]] += 1
    return {
        name: counts.most_common(1)[0][0]
        for name, counts in kinds.items()
        if 2 * counts.total() >= places[name]
    }


def look_up(dataset: Iterable[dict[str, Any]], names: dict[str, int]) -> list[set[Span]]:
    """The baseline without learning: the longest known name at each place, from left to right.

    Args:
        dataset: examples with one-character `tokens`.
        names: name -> type index, as `training_names` gives.

    Returns:
        The spans of each example.
    """
    longest = max(map(len, names), default=0)
    texts = ("".join(example["tokens"]) for example in dataset)
    return [
        {(a, b, names[text[a:b]]) for a, b in longest_matches(text, names, longest)}
        for text in texts
    ]


def longest_matches(text: str, names: Container[str], longest: int) -> Iterator[tuple[int, int]]:
    """Where names are in a text, from left to right, the longest at each place.

    Args:
        longest: characters of the longest name.
    """
    place = 0
    while place < len(text):
        ends = range(min(place + longest, len(text)), place, -1)
        end = next((end for end in ends if text[place:end] in names), None)
        if end is not None:
            yield place, end
        place = end or place + 1
