"""The rules for organizations, by example."""

from __future__ import annotations

import course_lib  # noqa: F401
from course_lib.data.people_daily import _join_names
from tools.corpora.organisations import find

import pytest


def parse(line):
    """Words and types of a tagged line, by the rules."""
    tagged = [tuple(token.rsplit("/", 1)) for token in line.split()]
    return _join_names(tagged, find(tagged))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("中国/ns 人民/n 银行/n 行长/n", ["中国人民银行"]),
        ("在/p 新华社/nt 北京/ns", ["新华社"]),
        ("党中央/nt 国务院/nt", ["党中央", "国务院"]),  # neighbors stay two
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
