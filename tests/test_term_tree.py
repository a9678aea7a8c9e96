"""A tree of terms, and labels of the terms of a text."""

from __future__ import annotations

import course_lib  # noqa: F401
from course_lib.runtime import InputError
from course_lib.tasks.tagging import LacTagger, Term, TermTree, cut_words, match

import pytest

TERMS = """# name\ttype\tparent\taliases

计算机\t类别
笔记本\t类别\t计算机\t笔记本电脑,手提电脑
联想\t品牌\t\tLenovo,小黑
小米\t品牌
粟\t植物\t\t小米粥,小黑
"""


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text(TERMS, encoding="utf-8")
    return TermTree.read(path)


def test_a_file_of_terms_is_read(tree):
    assert len(tree) == 5
    assert tree["笔记本"] == Term("笔记本", "类别", "计算机", ("笔记本电脑", "手提电脑"))
    assert tree.ancestors("笔记本") == ("计算机",) and tree.ancestors("计算机") == ()
    assert [term.name for term in tree.find("小黑")] == ["联想", "粟"]
    assert tree.find("没有") == () and tree.longest == 6


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("联想二", "line 8: has 1 columns"),
        ("\t品牌", "line 8: its name is ''"),
        ("联想\t品牌", "line 8: its name is '联想', a term already"),
        ("联想二\t品牌\t没有", "line 8: its parent is '没有', which is no term"),
        ("联想二\t品牌\t\ta,,b", "line 8: its alias is ''"),
        ("甲\t品牌\t乙\n乙\t品牌\t甲", "line 8: its parent is '乙', which is no term"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    path = tmp_path / "terms.tsv"
    path.write_text(TERMS + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        TermTree.read(path)


def test_add_refuses_and_leaves_the_tree_as_it_was(tree):
    for arguments in (("联想", "品牌"), ("甲", "品牌", "没有"), ("甲", "品牌", None, [""])):
        with pytest.raises(InputError, match=r"a term already|which is no term|alias: is ''"):
            tree.add(*arguments)
    assert len(tree) == 5 and tree.find("甲") == ()


def test_the_longest_term_counts(tree):
    sentence = "联想笔记本电脑比粟好"
    mentions = match(tree, sentence)
    assert [(m.start, m.end, m.terms[0].name) for m in mentions] == [
        (0, 2, "联想"),
        (2, 7, "笔记本"),
        (8, 9, "粟"),
    ]


def test_terms_do_not_cross_the_words_of_the_segmentation():
    tree = TermTree()
    tree.add("市长", "职务")
    assert [m.text for m in match(tree, "南京市长江大桥")] == ["市长"]
    assert match(tree, ["南京市", "长江", "大桥"]) == []
    tree.add("长江大桥", "建筑")
    (mention,) = match(tree, ["南京市", "长江", "大桥"])
    assert (mention.start, mention.end) == (3, 7)


def test_the_class_of_a_word_chooses_among_terms(tree):
    allowed = {"n": {"植物"}, "nz": {"品牌"}}
    for kind, name in (("n", "粟"), ("nz", "联想")):
        (mention,) = match(tree, [("小黑", kind)], allowed)
        assert [term.name for term in mention.terms] == [name]
    (mention,) = match(tree, [("小黑", "v")], allowed)
    assert len(mention.terms) == 2 and mention.type == "品牌"
    assert match(tree, [("小米", "n")], allowed) == []


def test_a_term_added_at_run_time_is_found_with_lacs_words(tree):
    lac = LacTagger()
    (words,) = cut_words(lac, ["我买了一台笔记本电脑"])
    assert [m.type for m in match(tree, words)] == ["类别"]
    assert "北京" not in [m.text for m in match(tree, cut_words(lac, ["我在北京"])[0])]
    assert tree.add("北京", "城市", aliases=["京城"]).name == "北京"
    assert [m.type for m in match(tree, cut_words(lac, ["我在北京"])[0])] == ["城市"]
