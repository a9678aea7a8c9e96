"""The review tree: labels as paths, the rules, the labels by reading, the published figures."""

from __future__ import annotations

import re
from collections import Counter

import course_lib  # noqa: F401  (before paddle)
from course_lib import runtime
from course_lib.data import load_review_tree, load_reviews, review_tree
from course_lib.data.splits import SPLITS

import pytest

DATA = runtime.data_dir()
NAMES = (*SPLITS, "gold")


@pytest.fixture(scope="module")
def tree():
    return dict(zip(NAMES, load_review_tree(NAMES), strict=True))


@pytest.fixture(scope="module")
def reviews():
    return dict(zip(SPLITS, load_reviews(), strict=True))


# --- loading ----------------------------------------------------------------------------------


def test_examples_are_the_reviews_with_paths(tree, reviews):
    assert sum(len(tree[name]) for name in SPLITS) >= 8_000
    for name, dataset in reviews.items():
        for row, review in zip(tree[name].data, dataset.data, strict=True):
            assert list(row) == ["text", "labels", "id"]
            assert (row["text"], row["id"]) == (review["text"], review["id"])
            domain = {"book": "书籍", "hotel": "酒店", "computer": "电脑"}[review["domain"]]
            verdict = ("差评", "好评")[review["label"]]
            assert row["labels"][:2] == [domain, f"{domain}##{verdict}"]


def test_labels_are_one_domain_one_verdict_and_aspects_below(tree):
    for dataset in tree.values():
        assert dataset.label_list == tree["train"].label_list
        order = dataset.label_list.index
        for row in dataset.data:
            domain, verdict, *aspects = row["labels"]
            assert "##" not in domain and verdict.count("##") == 1
            assert verdict.startswith(f"{domain}##")
            assert all(a.count("##") == 2 and a.startswith(f"{verdict}##") for a in aspects)
            places = list(map(order, row["labels"]))
            assert places == sorted(set(places))


def test_the_label_list_is_complete_and_fit_for_the_guides_files(tree):
    labels = tree["train"].label_list
    assert len(set(labels)) == len(labels) == 59
    seen: set[str] = set()
    for label in labels:
        assert label.rpartition("##")[0] in seen | {""}  # a parent stands before its children
        seen.add(label)
        assert not re.search(r"[,\t\s]", label)
    for dataset in tree.values():
        assert not any(re.search(r"[\t\n\r]", row["text"]) for row in dataset.data)
    counts = Counter(label for row in tree["train"].data for label in row["labels"])
    assert min(counts[label] for label in labels) >= 50
    for name in ("dev", "test", "gold"):
        assert {label for row in tree[name].data for label in row["labels"]} == set(labels)


# --- rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "text", "aspects"),
    [
        ("hotel", "离火车站很近，早餐一般", ["位置", "餐饮"]),
        ("hotel", "我们马上离开了", []),
        ("hotel", "房间很干净", ["卫生"]),
        ("hotel", "卫生间漏水", ["设施"]),
        ("computer", "装XP时蓝屏了三次", ["系统"]),
        ("computer", "装xp时蓝屏了三次", ["系统"]),
        ("computer", "送货速度快", ["服务"]),
        ("computer", "屏幕上有两个坏点，送货速度快，速度也快", ["屏幕", "性能", "服务"]),
        ("book", "看完了，推荐", []),
        ("book", "翻译得不好，纸张也差，快递倒是快", ["文笔", "印装", "物流"]),
    ],
)
def test_rules_by_example(domain, text, aspects):
    labels = review_tree.rule_labels({"text": text, "label": 0, "domain": domain})
    assert [label.split("##")[2] for label in labels[2:]] == aspects
