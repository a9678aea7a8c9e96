"""What the loaders of all corpora have in common: splits by name, and draws from them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

SPLITS = ("train", "dev", "test")


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
