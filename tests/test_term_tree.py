"""A tree of terms, and labels of the terms of a text."""

from __future__ import annotations

import course_lib  # noqa: F401
from course_lib.runtime import InputError
from course_lib.tasks.tagging import (
    Term,
    TermTree,
    bioes_labels,
    bioes_spans,
    cut_words,
    load_lac,
    match,
)

import pytest

TERMS = """# name\ttype\tparent\taliases

笔记本\t类别\t计算机\t笔记本电脑,手提电脑
计算机\t类别
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
        ("a\tb\tc\td\te", "line 8: has 5 columns"),
        ("\t品牌", "line 8: its name is ''"),
        ("联想二\t", "line 8: its type is ''"),
        ("联想\t品牌", "line 8: has '联想' again, as line 5"),
        ("联想二\t品牌\t没有", "line 8: the parent '没有' is no term"),
        ("联想二\t品牌\t联想二", "line 8: '联想二' is its own parent"),
        ("联想二\t品牌\t\ta,,b", "line 8: its alias is ''"),
        ("甲\t品牌\t乙\n乙\t品牌\t甲", "line 8: 甲 < 乙 < 甲 is a circle"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    path = tmp_path / "terms.tsv"
    path.write_text(TERMS + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        TermTree.read(path)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        TermTree.read(tmp_path / "none.tsv")
    (tmp_path / "gbk.tsv").write_bytes("联想\t品牌".encode("gbk"))
    with pytest.raises(InputError, match="byte 0xc1 is not utf-8"):
        TermTree.read(tmp_path / "gbk.tsv")


def test_the_longest_term_counts_and_labels_are_bioes(tree):
    sentence = "联想笔记本电脑比粟好"
    mentions = match(tree, sentence)
    assert [(m.start, m.end, m.terms[0].name) for m in mentions] == [
        (0, 2, "联想"),
        (2, 7, "笔记本"),
        (8, 9, "粟"),
    ]
    labels = bioes_labels(len(sentence), mentions)
    assert labels[:3] == ["B-品牌", "E-品牌", "B-类别"] and labels[6:9] == ["E-类别", "O", "S-植物"]
    assert bioes_spans(labels) == [(m.start, m.end, m.type) for m in mentions]


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
    lac = load_lac()
    (words,) = cut_words(lac, ["我买了一台笔记本电脑"])
    assert [m.type for m in match(tree, words)] == ["类别"]
    assert "北京" not in [m.text for m in match(tree, cut_words(lac, ["我在北京"])[0])]
    assert tree.add("北京", "城市", aliases=["京城"]).name == "北京"
    assert [m.type for m in match(tree, cut_words(lac, ["我在北京"])[0])] == ["城市"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("联想", "品牌"), "a term already"),
        (("", "品牌"), "its name is ''"),
        (("甲", ""), "its type is ''"),
        (("甲", "品牌", "没有"), "which is no term"),
        (("甲", "品牌", None, [""]), "its alias is ''"),
    ],
)
def test_add_refuses_and_leaves_the_tree_as_it_was(tree, arguments, message):
    with pytest.raises(InputError, match=message):
        tree.add(*arguments)
    assert len(tree) == 5 and tree.find("甲") == ()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["I-X"], "place 0: is 'I-X' without its B-"),
        (["B-X", "E-Y"], "place 1: is 'E-Y' without its B-"),
        (["B-X", "O"], "place 1: is 'O' within an entity"),
        (["B-X"], "place 1: is 'O' within an entity"),
        (["B-X", "S-X"], "place 1: is 'S-X' within an entity"),
        (["S-X", "E-X"], "place 1: is 'E-X' without its B-"),
        (["Q-X"], "place 0: is 'Q-X'"),
        (["B-"], "place 0: is 'B-'"),
    ],
)
def test_labels_that_no_entities_give_are_refused(labels, message):
    with pytest.raises(InputError, match=message):
        bioes_spans(labels)
