"""Pairs of Chinese sentences: do they say (or ask) the same?

Written for this course, in the style of LCQMC, and shipped as data/pairs/pairs.tsv; data/README.md
tells how.
"""

from __future__ import annotations

import csv
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .sources import read_shipped
from .splits import SPLITS, drawn, load_splits

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

LABELS = ["different", "same"]
SEED = 42
SHARE = 0.2  # of a domain's groups, for dev and for test each


def load_pairs(
    splits: str | Sequence[str] = SPLITS, max_examples: int | None = None, seed: int = 42
) -> MapDataset | list[MapDataset]:
    """Load splits of the sentence pairs, as paddlenlp's `load_dataset` would.

    Args:
        splits, max_examples, seed: as for `load_reviews`.

    Returns:
        MapDatasets of `{"sentence1": str, "sentence2": str, "label": 0 | 1, "id": "travel-2-4"}`
        with `label_list` ["different", "same"], in a mixed, fixed order.
    """
    dealt = split_rows()

    def read(name: str) -> list[dict]:
        rows = [
            {
                "sentence1": row["sentence1"],
                "sentence2": row["sentence2"],
                "label": LABELS.index(row["label"]),
                "id": row["id"],
            }
            for row in dealt[name]
        ]
        random.Random(name).shuffle(rows)
        return drawn(rows, max_examples, seed, balanced=True)

    return load_splits(splits, read, max_examples, LABELS)


def split_rows() -> dict[str, list[dict[str, str]]]:
    """The rows of data/pairs/pairs.tsv by split, in its order, by the names of its columns.

    Whole groups are dealt, domain by domain: 60, 20 and 20 percent.
    """
    lines = read_shipped("pairs/pairs.tsv").removesuffix("\n").split("\n")
    rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    groups: dict[str, list[str]] = defaultdict(list)
    for group in dict.fromkeys(row["group"] for row in rows):
        groups[group.rpartition("-")[0]].append(group)
    split_of: dict[str, str] = {}
    rng = random.Random(SEED)
    for domain in sorted(groups):
        names = groups[domain]
        rng.shuffle(names)
        share = round(len(names) * SHARE)
        split_of.update(dict.fromkeys(names, "train"))
        split_of.update(dict.fromkeys(names[:share], "dev"))
        split_of.update(dict.fromkeys(names[share : 2 * share], "test"))
    dealt: dict[str, list[dict[str, str]]] = {name: [] for name in SPLITS}
    for row in rows:
        dealt[split_of[row["group"]]].append(row)
    return dealt
