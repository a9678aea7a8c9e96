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

    Each label gives `share` of its examples to dev, at least one. Near-duplicates stay together: a
    copy of a training text in dev would be scored as if it were new. A group of them that is
    larger than dev should be stays in training.

    Args:
        examples: texts or pairs with "label", tokens, or questions, where those on the same
            context stay together.
        seed: of the draw; the same examples, share and seed give the same split.

    Returns:
        The examples of training and of dev, in their order.

    Raises:
        InputError: there is nothing to hold out.
    """
    texts = [_text(example) for example in examples]
    groups = _near_duplicates(texts)
    sizes = Counter(groups)
    by_label: dict[Any, dict[int, None]] = {}
    for group, example in dict(zip(reversed(groups), reversed(examples), strict=True)).items():
        label = example.get("label")  # that of the group's first text
        by_label.setdefault(label, {})[group] = None
    draw, chosen = random.Random(seed), set()
    for label in sorted(by_label):
        own = [one for one in sorted(by_label[label]) if sizes[one] <= max(1, share * len(groups))]
        chosen.update(draw.sample(own, max(1, round(share * len(own))) if len(own) > 1 else 0))
    parts: tuple[list[Any], list[Any]] = ([], [])
    for group, example in zip(groups, examples, strict=True):
        parts[group in chosen].append(example)
    if not parts[1]:
        problem = f"of {len(groups)} examples is nothing: almost all are copies of each other"
        raise InputError("dev_share", problem, "more different examples, or a dev file")
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
