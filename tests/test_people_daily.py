"""Entities of People's Daily: labels, splits, names."""

from __future__ import annotations

import hashlib
import itertools
import json

import course_lib  # noqa: F401
from course_lib import runtime
from course_lib.data import people_daily
from course_lib.data.people_daily import LABELS, example, join_names, load_people_daily, split_lines
from tools.corpora.organisations import find
from tools.corpora.people_daily import organisation_spans

import pytest


def parse(line):
    """Words and types of a tagged line, by the rules."""
    tagged = [tuple(token.rsplit("/", 1)) for token in line.split()]
    return join_names(tagged, find(tagged))


def test_the_frozen_organisations_are_what_the_rules_find():
    path = runtime.data_dir() / "people_daily" / "organisations.json"
    frozen = json.loads(path.read_text(encoding="utf-8"))["spans"]
    assert frozen == {str(line): spans for line, spans in organisation_spans().items()}


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


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("中国/ns 人民/n 银行/n 行长/n", ["中国人民银行"]),
        ("在/p 新华社/nt 北京/ns", ["新华社"]),
        ("党中央/nt 国务院/nt", ["党中央", "国务院"]),  # neighbours stay two
        ("俄罗斯/ns 国防部/nt 发言人/n", ["俄罗斯国防部"]),
        ("国务院/nt 办公厅/n", ["国务院办公厅"]),  # nested: the whole
        ("中国/ns 银行/n 上海/ns 分行/n 经理/n", ["中国银行上海分行"]),
        ("中国/ns 政府/n 和/c 美国/ns 公司/n", ["中国政府"]),
        ("中国/ns 人民/n ，/w 银行/n", []),  # never across punctuation
        ("中国/ns 的/u 银行/n", []),
        ("中国/ns 总理/n 政府/n", []),  # nor across a title
        ("在/p 复旦/nz 大学/n", ["复旦大学"]),  # at the end of a line
    ],
)
def test_organisations(line, expected):
    assert [word for word, kind in parse(line) if kind == "ORG"] == expected


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


def test_labels_are_frozen():
    digest = hashlib.sha256()
    for dataset in load_people_daily():
        for row in dataset:
            digest.update(f"{row['id']} {row['labels']}\n".encode())
    assert digest.hexdigest() == "cff9bf3fbf7fe6b31fafd93b7626c6d9090458e16981567918fed79ce0208dec"


@pytest.mark.parametrize("line", [0, -1, 10**9])
def test_a_line_that_is_not_there(line):
    for read in (people_daily.text, people_daily.example):
        with pytest.raises(IndexError, match="expected 1 to 19,484"):
            read(line)
