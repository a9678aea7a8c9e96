"""What the loaders of all corpora are asked for."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from course_lib.runtime.errors import whole

import numpy as np

SPLITS = ("train", "dev", "test")


def wanted(
    splits: str | Sequence[str],
    max_examples: int | None,
    seed: int,
    known: Sequence[str] = SPLITS,
) -> list[str]:
    """The names of the splits, as a list.

    Args:
        known: the splits that there are.

    Raises:
        ValueError: an unknown split, a `max_examples` that is no number of examples, or a seed that
            is no whole number from 0 on.
    """
    if not isinstance(splits, (str, Iterable)):
        raise ValueError(f"splits are {splits!r}; expected names of {', '.join(known)}")
    names = [splits] if isinstance(splits, str) else list(splits)
    for name in names:
        if name not in known:
            raise ValueError(f"split {name!r}; expected one of {', '.join(known)}")
    number = isinstance(max_examples, (int, np.integer)) and not isinstance(max_examples, bool)
    if max_examples is not None and not (number and max_examples >= 1):
        raise ValueError(f"max_examples is {max_examples!r}; expected None or at least 1")
    whole("seed", seed, 0)
    return names


def balanced(rows: list[dict], max_examples: int, seed: int) -> list[dict]:
    """At most so many rows, half of label 0 and half of label 1, in the order given.

    Args:
        rows: dicts with `id` and `label`.
    """
    draw = random.Random(seed)
    kept: set[str] = set()
    for label in (0, 1):
        ids = [row["id"] for row in rows if row["label"] == label]
        share = (max_examples + 1 - label) // 2
        kept.update(draw.sample(ids, min(share, len(ids))))
    return [row for row in rows if row["id"] in kept]
