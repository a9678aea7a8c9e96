"""Entities of People's Daily: labels, splits, names."""

from __future__ import annotations

import itertools

import course_lib  # noqa: F401
from course_lib.data import people_daily
from course_lib.data.people_daily import LABELS, _join_names, example, split_lines
from tools.corpora.organisations import find

import pytest


def parse(line):
    """Words and types of a tagged line, by the rules."""
    tagged = [tuple(token.rsplit("/", 1)) for token in line.split()]
    return _join_names(tagged, find(tagged))


def test_labels_of_a_line():
    row = example(2)
    assert "".join(row["tokens"]) == "中共中央总书记、国家主席江泽民"
    tags = [LABELS[label] for label in row["labels"]]
    assert tags[:5] == ["B-ORG", "I-ORG", "I-ORG", "I-ORG", "O"]
    assert tags[-3:] == ["B-PER", "I-PER", "I-PER"]
    assert tags.count("O") == len(tags) - 7


def test_names_are_joined_and_neighbours_stay_two():
    words = parse("江/nr  泽民/nr  李/nr  鹏/nr  欧阳/nr  修/nr  在/p  北京/ns")
    people = [word for word, kind in words if kind == "PER"]
    assert people == ["江泽民", "李鹏", "欧阳修"]
    assert words[-1] == ("北京", "LOC")


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


def test_persons():
    def people(line):
        return [word for word, kind in parse(line) if kind == "PER"]

    assert people("陈/nr 方/nr 安生/nr 司长/n") == ["陈方安生"]
    assert people("马克思/nr 恩格斯/nr") == ["马克思", "恩格斯"]
    assert people("司马/nr 徽/nr 江/nr 主席/n") == ["司马徽", "江"]


def test_no_entity_is_cut(monkeypatch):
    monkeypatch.setattr(
        people_daily, "words", lambda line: [("字", None)] * 251 + [("中国人民银行", "ORG")]
    )
    assert len(example(1)["tokens"]) == 251 and not any(example(1)["labels"])


@pytest.mark.parametrize("line", [0, -1, 10**9])
def test_a_line_that_is_not_there(line):
    for read in (people_daily.text, people_daily.example):
        with pytest.raises(IndexError, match="expected 1 to 19,484"):
            read(line)
