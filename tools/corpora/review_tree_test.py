"""The terms of the review tree, what was drawn to be read, and the scores of its tables.

Run `pytest tools/corpora` after a change of the data.
"""

from __future__ import annotations

from collections import Counter

import course_lib  # noqa: F401  (before paddle)
from course_lib import runtime
from course_lib.data import load_review_tree, load_reviews, review_tree
from course_lib.data.sources import read_records
from course_lib.data.splits import SPLITS
from tools.corpora import review_tree as builder

import numpy as np
import pytest

DATA = runtime.data_dir()
NAMES = (*SPLITS, "gold")


@pytest.fixture(scope="module")
def tree():
    return dict(zip(NAMES, load_review_tree(NAMES), strict=True))


@pytest.fixture(scope="module")
def reviews():
    return dict(zip(SPLITS, load_reviews(), strict=True))


def test_no_term_is_there_for_nothing(reviews):
    """Each term decides something in train, and each exception takes a term away."""
    texts = {
        review_tree.DOMAINS[domain]: [
            row["text"].lower() for row in reviews["train"].data if row["domain"] == domain
        ]
        for domain in review_tree.DOMAINS
    }
    for domain, aspects in review_tree.read_rules().items():
        for aspect, rule in aspects.items():
            where = (domain, aspect)
            assert rule.meaning, where
            assert len(set(rule.terms)) == len(rule.terms), where
            for term in rule.terms:
                assert any(term in text for text in texts[domain]), (*where, term)
                assert not any(t != term and t in term for t in rule.terms), (*where, term)
            for exception in rule.exceptions:
                assert any(exception in text for text in texts[domain]), (*where, exception)
                assert any(term in exception for term in rule.terms), (*where, exception)


def test_gold_is_the_drawn_reviews_of_test(tree, reviews):
    ids = [row["id"] for row in read_records(review_tree.GOLD_FILE)]
    assert ids == builder.draw_gold() == [row["id"] for row in tree["gold"].data]
    assert len(set(ids)) == len(ids) >= 300
    of = {row["id"]: row for row in reviews["test"].data}
    assert set(ids) <= set(of)
    cells = Counter((of[name]["domain"], of[name]["label"]) for name in ids)
    assert set(cells.values()) == {51} and len(cells) == 6
    assert [row["text"] for row in tree["gold"].data] == [of[name]["text"] for name in ids]


def test_the_second_reading_is_of_the_drawn_sixty():
    again = read_records("review_tree/again.jsonl")
    assert [row["id"] for row in again] == builder.draw_again()
    first = {row["id"]: row["labels"] for row in read_records(review_tree.GOLD_FILE)}
    assert len({row["id"] for row in again} & set(first)) == 60
    assert any(row["labels"] != first[row["id"]] for row in again)


def test_scores_by_hand():
    """Two hotel reviews: one verdict wrong, of three aspects one missed and one too many."""
    true = [
        ["酒店", "酒店##好评", "酒店##好评##位置", "酒店##好评##服务"],
        ["酒店", "酒店##差评", "酒店##差评##服务"],
    ]
    found = [
        ["酒店", "酒店##好评", "酒店##好评##位置", "酒店##好评##餐饮"],
        ["酒店", "酒店##好评", "酒店##好评##服务"],
    ]
    scores = builder.score(true, found)
    assert scores["1"] == pytest.approx([1, 1, 1, 1 / 3, 1 / 3, 1 / 3])
    assert scores["2"] == pytest.approx([1 / 2, 1 / 2, 1 / 2, 1 / 12, 1 / 6, 1 / 9])
    assert scores["3"][:3] == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert scores["3"][3:] == pytest.approx([1 / 50] * 3)
    # 位置 right; 服务 found once of twice, never wrongly; 餐饮 wrongly.
    alone = scores[builder.ALONE]
    assert alone[:3] == pytest.approx([2 / 3, 2 / 3, 2 / 3])
    assert alone[3:] == pytest.approx(np.array([2, 1.5, 1 + 2 / 3]) / 25)


def test_gold_says_what_the_files_and_the_rules_do_not(tree):
    """It was set by reading: it differs from the file's verdicts and from the keywords."""
    by_rules = {row["id"]: row["labels"] for row in tree["test"].data}
    pairs = [(row["labels"], by_rules[row["id"]]) for row in tree["gold"].data]
    verdicts = sum(one[1] != other[1] for one, other in pairs)
    assert 0.03 * len(pairs) < verdicts < 0.2 * len(pairs)
    assert sum(one == other for one, other in pairs) < 0.7 * len(pairs)


def test_the_rules_are_worth_something_and_not_everything():
    gold = read_records(review_tree.GOLD_FILE)
    of = {row["id"]: row for row in load_reviews("test").data}
    by_rules = [review_tree.rule_labels(of[row["id"]]) for row in gold]
    scores = builder.score([row["labels"] for row in gold], by_rules)
    assert scores["1"][2] > 0.97
    assert 0.8 < scores["2"][2] < 0.95
    assert 0.7 < scores[builder.ALONE][2] < 0.9
    assert scores["3"][2] < scores[builder.ALONE][2]


# --- the graph that is no tree ----------------------------------------------------------------


def read_example(name):
    lines = (DATA / "review_tree" / "dag_example" / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines]


def test_the_dag_example_is_a_graph_in_the_guides_format():
    labels = [label for (label,) in read_example("label.txt")]
    nodes: dict[str, set[str]] = {}
    for label in labels:
        above, _, name = label.rpartition("##")
        assert not above or above in labels
        nodes.setdefault(name, set()).add(above.rpartition("##")[2])
    assert len(set(labels)) == len(labels) == 16 and len(nodes) == 10
    parents = {name: above for name, above in nodes.items() if len(above) > 1}
    assert parents == {
        "运费": {"价格", "物流"},
        "退货": {"物流", "售后"},
        "补差价": {"价格", "售后"},
        "退货运费": {"运费", "退货"},
    }
    assert max(label.count("##") for label in labels) == 2


def test_texts_of_the_dag_example_have_all_ways_to_their_nodes():
    labels = [label for (label,) in read_example("label.txt")]
    train, dev = read_example("train.txt"), read_example("dev.txt")
    assert (len(train), len(dev)) == (21, 9)
    texts = [text for text, _ in train + dev]
    assert len(set(texts)) == len(texts)
    for rows in (train, dev):
        used = [given.split(",") for _, given in rows]
        for given in used:
            assert given == [label for label in labels if label in given]
            names = {label.rpartition("##")[2] for label in given}
            assert given == [label for label in labels if label.rpartition("##")[2] in names]
        assert {label for given in used for label in given} == set(labels)
