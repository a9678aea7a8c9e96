"""The reviews as a tree of labels: what is reviewed, liked or not, and which aspects it is about.

A label is its path, as in PaddleNLP's guide to hierarchical classification: 酒店, 酒店##好评,
酒店##好评##位置. The first level comes from the order of the file, the second from the file that
the review is in, the third from keywords (data/review_tree/rules.json): weak supervision.
data/review_tree/gold.jsonl holds labels of test reviews that were set by reading.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from .reviews import load_reviews
from .sources import read_records, read_shipped
from .splits import SPLITS, drawn, load_splits

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

SEPARATOR = "##"
GOLD, GOLD_FILE = "gold", "review_tree/gold.jsonl"
DOMAINS = {"book": "书籍", "hotel": "酒店", "computer": "电脑"}
VERDICTS = ("差评", "好评")  # by the label of the review


class _Rule(NamedTuple):
    """When a review is taken to be about an aspect: it has a term outside the exceptions."""

    meaning: str
    terms: tuple[str, ...]
    exceptions: tuple[str, ...]

    def fits(self, text: str) -> bool:
        """Whether a term is in a text; case does not matter."""
        text = text.lower()
        for exception in self.exceptions:
            text = text.replace(exception, "|")
        return any(term in text for term in self.terms)


@cache
def read_rules() -> dict[str, dict[str, _Rule]]:
    """The rules by domain (书籍, 酒店, 电脑) and aspect, in the order of rules.json."""
    return {
        domain: {
            aspect: _Rule(
                rule["meaning"],
                tuple(rule["terms"].lower().split()),
                tuple(rule["except"].lower().split()),
            )
            for aspect, rule in aspects.items()
        }
        for domain, aspects in json.loads(read_shipped("review_tree/rules.json")).items()
    }


def _label_list() -> list[str]:
    """All paths, each below its parent and followed by its children: 59 labels."""
    labels = []
    for domain, aspects in read_rules().items():
        labels.append(domain)
        for verdict in reversed(VERDICTS):
            labels += _paths(domain, verdict, list(aspects))[1:]
    return labels


def _paths(domain: str, verdict: str, aspects: Sequence[str]) -> list[str]:
    """The labels of a review: domain, verdict below it, aspects below that."""
    liked = f"{domain}{SEPARATOR}{verdict}"
    return [domain, liked, *(f"{liked}{SEPARATOR}{aspect}" for aspect in aspects)]


def rule_labels(review: dict) -> list[str]:
    """The labels that file order, file and keywords give to a review of `load_reviews`."""
    domain = DOMAINS[review["domain"]]
    aspects = [name for name, rule in read_rules()[domain].items() if rule.fits(review["text"])]
    return _paths(domain, VERDICTS[review["label"]], aspects)


def load_review_tree(
    splits: str | Sequence[str] = SPLITS, max_examples: int | None = None, seed: int = 42
) -> MapDataset | list[MapDataset]:
    """Load splits of the review tree: texts with the paths of their labels.

    Args:
        splits: "train", "dev" or "test" for one MapDataset, labeled by rules; "gold" for those
            reviews of test that were labeled by reading; a list or tuple of them for a list.
            They are the splits and examples of `load_reviews`.
        max_examples, seed: as for `load_reviews`.

    Returns:
        MapDatasets of `{"text": str, "labels": ["酒店", "酒店##好评", "酒店##好评##位置"],
        "id": "pos-00123"}` in a mixed, fixed order. A review has one label of the first level, one
        of the second, and none, one or several of the third, in the order of `label_list`, which
        holds all paths.
    """

    def read(name: str) -> list[dict]:
        if name != GOLD:
            reviews = load_reviews(name, max_examples, seed)
            return [
                {"text": review["text"], "labels": rule_labels(review), "id": review["id"]}
                for review in reviews
            ]
        labels = {row["id"]: row["labels"] for row in read_records(GOLD_FILE)}
        verdicts = [
            {"id": each, "label": VERDICTS.index(paths[1].split(SEPARATOR)[1])}
            for each, paths in labels.items()
        ]
        texts = {row["id"]: row["text"] for row in load_reviews("test")}
        kept = [row["id"] for row in drawn(verdicts, max_examples, seed, balanced=True)]
        return [{"text": texts[each], "labels": labels[each], "id": each} for each in kept]

    return load_splits(splits, read, max_examples, _label_list(), (*SPLITS, GOLD))
