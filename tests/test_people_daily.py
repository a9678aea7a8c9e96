"""Entities of People's Daily: labels, splits, names."""

from __future__ import annotations

import itertools

import course_lib  # noqa: F401
from course_lib.data import people_daily
from course_lib.data.people_daily import LABELS, example, load_people_daily, parse, split_lines

import pytest


def test_labels_of_a_line():
    row = example(2)
    assert "".join(row["tokens"]) == "中共中央总书记、国家主席江泽民"
    tags = [LABELS[label] for label in row["labels"]]
    assert tags[:5] == ["B-ORG", "I-ORG", "I-ORG", "I-ORG", "O"]
    assert tags[-3:] == ["B-PER", "I-PER", "I-PER"]
    assert tags.count("O") == len(tags) - 7


def test_names_are_joined_and_neighbours_stay_two():
    words = parse("江/nr  泽民/nr  李/nr  鹏/nr  欧阳/nr  修/nr  在/p  北京/ns  １９９８年/t")
    people = [word for word, kind in words if kind == "PER"]
    assert people == ["江泽民", "李鹏", "欧阳修"]
    assert words[-2:] == [("北京", "LOC"), ("1998年", None)]


def test_splits_are_blocks_with_a_gap():
    lines = split_lines()
    assert {name: len(found) > 1500 for name, found in lines.items()} == dict.fromkeys(lines, True)
    split_of = {line: name for name, found in lines.items() for line in found}
    assert len(split_of) == sum(map(len, lines.values()))
    ordered = sorted(split_of)
    for one, other in itertools.pairwise(ordered):
        assert split_of[one] == split_of[other] or other - one > people_daily.GAP
    texts = {name: {people_daily.text(line) for line in found} for name, found in lines.items()}
    assert not texts["train"] & (texts["dev"] | texts["test"])
    assert not texts["dev"] & texts["test"]


def test_loading():
    train, dev = load_people_daily(("train", "dev"), max_examples=50, seed=1)
    assert len(train) == len(dev) == 50
    assert train.label_list == LABELS
    assert train[0] == load_people_daily("train", max_examples=50, seed=1)[0]
    assert all(len(row["tokens"]) == len(row["labels"]) <= 254 for row in train)
    with pytest.raises(ValueError, match="valid"):
        load_people_daily("valid")
