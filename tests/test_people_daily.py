"""Entities of People's Daily: labels, splits, names."""

from __future__ import annotations

import hashlib
import itertools
import re

import course_lib  # noqa: F401
from course_lib import runtime
from course_lib.data import people_daily
from course_lib.data.people_daily import (
    LABELS,
    audit,
    example,
    load_people_daily,
    parse,
    split_lines,
    stats,
)
from course_lib.data.people_daily.__main__ import main
from course_lib.data.reporting import read_audit

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
    line = "字/n " * 251 + "中国/ns 人民/n 银行/n"
    monkeypatch.setattr(people_daily.corpus, "read_lines", lambda: (line,))
    assert len(example(1)["tokens"]) == 251 and not any(example(1)["labels"])


def test_labels_are_frozen():
    digest = hashlib.sha256()
    for dataset in load_people_daily():
        for row in dataset:
            digest.update(f"{row['id']} {row['labels']}\n".encode())
    assert digest.hexdigest() == "cff9bf3fbf7fe6b31fafd93b7626c6d9090458e16981567918fed79ce0208dec"


def test_audit_judges_what_the_rules_find():
    rows = read_audit("people_daily")
    drawn = audit.draw()
    assert len(drawn) == 200 and {int(row["id"][5:]) for row in rows} == set(drawn)
    for line in drawn:
        own = [row for row in rows if row["id"] == f"line-{line:05d}" and row["start"]]
        judged = [(int(r["start"]), int(r["end"])) for r in own if r["verdict"] != "missed"]
        assert judged == audit.organisations(line)
        assert all(row["verdict"] in audit.VERDICTS and row["reason"].isascii() for row in own)


def test_readme_holds_the_computed_tables_and_the_baseline_is_weak(capsys):
    readme = (runtime.data_dir() / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- people_daily \d -->\n\n(.*?)\n\n<!-- end -->", readme, re.DOTALL)
    assert main(["stats"]) == 0
    assert blocks == capsys.readouterr().out.strip().split("\n\n")
    counts = stats.baseline()
    assert 0.6 < stats.span_f1(counts["all"]) < 0.85
    assert counts["unseen"][2] > 0.2 * counts["all"][2]


@pytest.mark.parametrize("line", [0, -1, 10**9])
def test_a_line_that_is_not_there(line):
    for read in (people_daily.text, people_daily.example):
        with pytest.raises(IndexError, match="expected 1 to 19,484"):
            read(line)
