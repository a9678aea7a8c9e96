"""Figures of the review tree: which reviews were read, and what the rules are worth."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache

from course_lib.data.review_tree import (
    DOMAINS,
    GOLD,
    GOLD_FILE,
    SEPARATOR,
    VERDICTS,
    load_review_tree,
    rule_labels,
)
from course_lib.data.reviews import load_reviews
from course_lib.data.sources import read_records
from course_lib.data.splits import SPLITS
from tools.corpora.reporting import interval, markdown_table

import numpy as np

ALONE = "3, aspect alone"
EACH = 51  # reviews of each domain and class that were read
TWICE = 60  # of them, that were read twice


def draw_gold() -> list[str]:
    """The ids of the test reviews that were read: 51 of each domain and class, mixed, seed 42."""
    cells: dict[tuple, list[str]] = {}
    for row in load_reviews("test").data:
        cells.setdefault((row["domain"], row["label"]), []).append(row["id"])
    draw = random.Random(42)
    chosen = [name for cell in sorted(cells) for name in draw.sample(sorted(cells[cell]), EACH)]
    draw.shuffle(chosen)
    return chosen


def draw_again() -> list[str]:
    """The ids of the 60 of them that were read a second time, in that order, seed 7."""
    return random.Random(7).sample(sorted(draw_gold()), TWICE)


def _read_reviews(ids: Sequence[str]) -> list[dict]:
    """Reviews of test in the order of their ids."""
    by_id = {row["id"]: row for row in load_reviews("test").data}
    return [by_id[name] for name in ids]


def _verdict(labels: Sequence[str]) -> int:
    return VERDICTS.index(labels[1].split(SEPARATOR)[1])


@cache
def levels() -> dict[str, list[str]]:
    """The labels of each level; and the aspects alone, whatever the verdict above them."""
    paths = load_review_tree("dev").label_list
    found = {str(n): [p for p in paths if p.count(SEPARATOR) == n - 1] for n in (1, 2, 3)}
    return {**found, ALONE: list(dict.fromkeys(map(_alone, found["3"])))}


def _alone(path: str) -> str:
    """酒店##好评##位置 without its middle; a shorter path as it is."""
    parts = path.split(SEPARATOR)
    return path if len(parts) < 3 else SEPARATOR.join((parts[0], parts[2]))


def _matrix(rows: Sequence[Sequence[str]], level: str) -> np.ndarray:
    """Which labels of a level each text has: bool, [texts, labels]."""
    given = [set(map(_alone, row)) if level == ALONE else set(row) for row in rows]
    return np.array([[label in labels for label in levels()[level]] for labels in given])


def score(true: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> dict[str, list[float]]:
    """Micro and macro precision, recall and F1 of labels, by level, as scikit-learn has them.

    Args:
        true, found: the labels of each text.

    Returns:
        `{level: [micro P, R, F1, macro P, R, F1]}` for the levels of `levels`. A label that is in
        no text counts as 0.
    """
    from sklearn.metrics import precision_recall_fscore_support

    return {
        level: [
            float(value)
            for average in ("micro", "macro")
            for value in precision_recall_fscore_support(
                _matrix(true, level), _matrix(found, level), average=average, zero_division=0
            )[:3]
        ]
        for level in levels()
    }


def _pair() -> tuple[list[dict], list[list[str]], list[list[str]]]:
    """The gold rows, their labels, and what the rules give to the same reviews."""
    gold = read_records(GOLD_FILE)
    by_rules = [rule_labels(review) for review in _read_reviews([row["id"] for row in gold])]
    return gold, [row["labels"] for row in gold], by_rules


def report() -> str:
    """The tables of data/README.md, as Markdown."""
    return "\n\n".join((_sizes(), _files(), _again(), _scores(), _aspects()))


def _sizes() -> str:
    rows: list[list[object]] = []
    for name, dataset in zip((*SPLITS, GOLD), load_review_tree((*SPLITS, GOLD)), strict=True):
        counts = Counter(row["labels"][0] for row in dataset.data)
        aspects = [len(row["labels"]) - 2 for row in dataset.data]
        without = f"{aspects.count(0) / len(aspects):.0%}"
        mean = f"{sum(aspects) / len(aspects):.1f}"
        rows.append([name, len(aspects), *map(counts.get, DOMAINS.values()), without, mean])
    return markdown_table(
        ["split", "texts", *DOMAINS.values(), "no aspect", "aspects per text"], rows
    )


def _files() -> str:
    gold, true, by_rules = _pair()
    domain = [one[0] == other[0] for one, other in zip(true, by_rules, strict=True)]
    verdict = [_verdict(a) == _verdict(b) for a, b in zip(true, by_rules, strict=True)]
    sure = ["verdict" not in row.get("unsure", []) for row in gold]
    parts = {
        "domain": domain,
        "verdict": verdict,
        "verdict, where the text settles it": [v for v, s in zip(verdict, sure, strict=True) if s],
        "verdict, guessed": [v for v, s in zip(verdict, sure, strict=True) if not s],
    }
    return _share_table("file and reader agree", parts)


def _share_table(title: str, parts: dict[str, list[bool]]) -> str:
    rows: list[list[object]] = []
    for name, values in parts.items():
        share = f"{sum(values) / len(values):.1%}"
        between = interval(sum(values), len(values))
        rows.append([name, f"{sum(values)} of {len(values)}", share, between])
    return markdown_table([title, "count", "share", "95% interval (Wilson)"], rows)


def _again() -> str:
    """How far the second reading agrees with the first."""
    from sklearn.metrics import cohen_kappa_score

    first = {row["id"]: row["labels"] for row in read_records(GOLD_FILE)}
    pairs = [(first[row["id"]], row["labels"]) for row in read_records("review_tree/again.jsonl")]
    one, two = (_matrix(labels, ALONE) for labels in zip(*pairs, strict=True))
    # Of each review the aspects of its domain are decided, not those of the others.
    asked = np.array([[a.startswith(labels[0]) for a in levels()[ALONE]] for labels, _ in pairs])
    kappa = cohen_kappa_score(one[asked], two[asked])
    parts = {
        "domain": [first[0] == second[0] for first, second in pairs],
        "verdict": [_verdict(first) == _verdict(second) for first, second in pairs],
        "all aspects": (one == two).all(axis=1).tolist(),
        f"each aspect, yes or no (kappa {kappa:.2f})": (one == two)[asked].tolist(),
    }
    return _share_table("two readings agree", parts)


def _scores() -> str:
    _, true, by_rules = _pair()
    rows: list[list[object]] = []
    for level, values in score(true, by_rules).items():
        rows.append([level, len(levels()[level]), *(f"{value:.3f}" for value in values)])
    header = ["level", "labels", "micro P", "R", "F1", "macro P", "R", "F1"]
    return markdown_table(header, rows)


def _aspects() -> str:
    from sklearn.metrics import precision_recall_fscore_support

    loaded = load_review_tree((*SPLITS, GOLD))
    counts = [
        Counter(label for row in dataset.data for label in row["labels"]) for dataset in loaded
    ]
    _, true, by_rules = _pair()
    figures = precision_recall_fscore_support(
        _matrix(true, ALONE), _matrix(by_rules, ALONE), zero_division=0
    )
    rows: list[list[object]] = []
    for label, *values in zip(levels()[ALONE], *figures[:3], strict=True):
        domain, aspect = label.split(SEPARATOR)
        cells = [
            f"{count[SEPARATOR.join((domain, VERDICTS[1], aspect))]:,} / "
            f"{count[SEPARATOR.join((domain, VERDICTS[0], aspect))]:,}"
            for count in counts
        ]
        rows.append([f"{domain} {aspect}", *cells, *(f"{value:.2f}" for value in values)])
    header = ["aspect (liked / not)", *SPLITS, GOLD, "P", "R", "F1"]
    return markdown_table(header, rows)
