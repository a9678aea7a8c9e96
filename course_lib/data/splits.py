"""Splits by name and draws from them, for the loaders; and a dev split of a user's own file."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..runtime import InputError

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

SPLITS = ("train", "dev", "test")
GRAM, CONTAINMENT = 8, 0.6  # near-duplicates: so much of the shorter text's 8-grams
MOST_HOLDERS = 200  # texts with an 8-gram; what more have is a phrase that says nothing

_UNSEEN = re.compile(r"[\W_]+")


def load_splits(
    splits: str | Sequence[str],
    read: Callable[[str], list[dict[str, Any]]],
    max_examples: int | None,
    label_list: Sequence[str] | None = None,
    known: Sequence[str] = SPLITS,
) -> MapDataset | list[MapDataset]:
    """Load splits as paddlenlp's `load_dataset` does: one for a name, a list for several names.

    Args:
        read: gives the examples of a split, at most `max_examples` where that is a number.
        known: the splits that there are.

    Raises:
        ValueError: an unknown split, or a `max_examples` below 1.
    """
    from paddlenlp.datasets import MapDataset

    names = [splits] if isinstance(splits, str) else list(splits)
    for name in names:
        if name not in known:
            raise ValueError(f"split {name!r}; expected one of {', '.join(known)}")
    if max_examples is not None and max_examples < 1:
        raise ValueError(f"max_examples is {max_examples!r}; expected None or at least 1")
    datasets = [
        MapDataset(read(name), label_list=None if label_list is None else list(label_list))
        for name in names
    ]
    return datasets[0] if isinstance(splits, str) else datasets


def drawn(
    items: Sequence[Any], max_examples: int | None, seed: int, balanced: bool = False
) -> list[Any]:
    """All items, or `max_examples` of them in random order.

    Args:
        balanced: draw half of label 0 and half of label 1, and keep the order of the items, which
            are dicts with `id` and `label`.
    """
    if max_examples is None or (not balanced and max_examples >= len(items)):
        return list(items)
    draw = random.Random(seed)
    if not balanced:
        return draw.sample(items, max_examples)
    kept: set[str] = set()
    for label in (0, 1):
        ids = [row["id"] for row in items if row["label"] == label]
        share = (max_examples + 1 - label) // 2
        kept.update(draw.sample(ids, min(share, len(ids))))
    return [row for row in items if row["id"] in kept]


def split_dev(
    examples: Sequence[Mapping[str, Any]], share: float, seed: int = 42
) -> tuple[list[Any], list[Any]]:
    """Split labeled examples into training and dev.

    Each label gives about `share` of its examples to dev, at least one if it has two or more.
    Near-duplicates stay together: a copy of a training text in dev would be scored as if it were
    new. So a group of them that is larger than what a label still has to give stays in training,
    unless the label is then short by a third: it may give up to half as much again, or, where it
    gave nothing, its smallest group, if that is at most half of its examples.

    Args:
        examples: texts or pairs with "label", tokens, or questions, where those on the same
            context stay together.
        seed: of the draw; the same examples, share and seed give the same split.

    Returns:
        The examples of training and of dev, in their order.

    Raises:
        InputError: there is nothing to hold out.
    """
    numbers = _near_duplicates([_text(example) for example in examples])
    groups: dict[int, Counter] = {}  # the examples of each label in it
    for number, example in zip(numbers, examples, strict=True):
        groups.setdefault(number, Counter())[example.get("label")] += 1
    totals = Counter(example.get("label") for example in examples)
    quotas = {label: min(n - 1, max(1, round(share * n))) for label, n in totals.items()}
    order = random.Random(seed).sample(sorted(groups), len(groups))
    held: Counter = Counter()
    chosen: set[int] = set()

    def hold(number: int, most: Mapping[Any, float]) -> None:
        if all(held[label] + n <= most[label] for label, n in groups[number].items()):
            chosen.add(number)
            held.update(groups[number])

    def loose(label: Any) -> float:
        n = totals[label]
        return min(n - 1, 1.5 * quotas[label]) if held[label] else n // 2

    for number in order:
        hold(number, quotas)
    rest = [number for number in order if number not in chosen]
    for number in sorted(rest, key=lambda number: groups[number].total()):
        if any(held[label] < quotas[label] / 1.5 for label in groups[number]):
            hold(number, {label: loose(label) for label in groups[number]})
    if not chosen:
        problem = "no examples can be held out as dev: almost all are near-duplicates of each other"
        raise InputError("dev_share", problem, "other examples, or a dev file: give --dev_file")
    parts: tuple[list[Any], list[Any]] = ([], [])
    for number, example in zip(numbers, examples, strict=True):
        parts[number in chosen].append(example)
    return parts


def _text(example: Mapping[str, Any]) -> str:
    if "tokens" in example or "context" in example:
        return "".join(example.get("tokens") or example["context"])
    return " ".join(str(example[key]) for key in example if key != "label")


def _near_duplicates(texts: Sequence[str]) -> list[int]:
    """The number of each text's group; punctuation and case do not count."""
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components
    from sklearn.feature_extraction.text import CountVectorizer

    plain, places = np.unique(
        [_UNSEEN.sub("", text).lower() or text for text in texts], return_inverse=True
    )

    def grams(text: str) -> set[str]:
        return {text[at : at + GRAM] for at in range(max(1, len(text) - GRAM + 1))}

    holds = CountVectorizer(analyzer=grams, dtype=np.int32).fit_transform(plain.tolist())
    holds = holds[:, np.asarray(holds.sum(axis=0)).ravel() <= MOST_HOLDERS]
    sizes, shared = holds.getnnz(axis=1), (holds @ holds.T).tocoo()
    near = shared.data >= CONTAINMENT * np.minimum(sizes[shared.row], sizes[shared.col])
    pairs = csr_matrix((near, (shared.row, shared.col)), shape=shared.shape)
    return connected_components(pairs, directed=False)[1][places].tolist()
