"""Chapter 22's data, its searches by hand, and its page in a real browser."""

import course_lib  # noqa: F401  (before paddle)
from course_lib.chapters.ch22 import (
    BM25,
    load_paragraphs,
    load_questions,
    reciprocal_ranks,
    rerank_late,
    serving,
)

import numpy as np
import pytest
from browser import page


def test_questions_point_into_paragraphs_that_no_other_split_has():
    texts, seen = load_paragraphs(), {}
    assert len(texts) == 2738 and all(50 <= len(text) <= 260 for text in texts.values())
    for split, count in (("train", 118), ("dev", 60), ("test", 111)):
        rows = load_questions(split)
        assert len(rows) == count and len({row["question"] for row in rows}) == count
        for row in rows:
            assert bool(row["paragraphs"]) == bool(row["answer"])
            assert split == "train" or row["english"].isascii()
            assert all(seen.setdefault(name, split) == split for name in row["paragraphs"])
            assert not row["answer"] or row["answer"] in texts[row["paragraphs"][0]]


def test_searches_agree_with_their_formulas():
    scores = BM25(["甲乙", "丙丁", "丙甲"]).scores(["乙", "丙丁"])
    assert np.isclose(scores[0], [np.log(1 + 2.5 / 1.5), 0, 0]).all() and scores[1].argmax() == 1
    places = np.array([[3, 1, 2], [0, 1, 2]])
    assert reciprocal_ranks(places, [[2, 1], [5]]).tolist() == [0.5, 0]
    tokens = [np.eye(2), np.array([[0.6, 0.8]])]
    order, late = rerank_late([np.eye(2)[1:]], tokens, np.array([[1, 0]]))
    assert order.tolist() == [[0, 1]] and np.allclose(late, [[1, 0.8]])


@pytest.mark.browser
def test_the_page_marks_the_answer_and_says_when_it_does_not_know():
    def answer(question):
        found = {"answer": "<b>二", "text": "一<b>二三", "start": 1, "end": 5, "source": "x"}
        return found if question == "哪个？" else {"answer": ""}

    with serving(answer) as url, page(url) as browser:
        for question, shown in (("哪个？", "<b>二"), ("别的", "我不知道 (I don't know)")):
            browser.until("document.activeElement.id == 'question'")
            browser.run("document.getElementById('question').value = ''")
            browser.type(question)
            browser.run("document.querySelector('button').click()")
            browser.until(f"document.getElementById('answer').textContent == `{shown}`")
            marked = browser.run("document.querySelector('mark').textContent")
            assert marked == ("<b>二" if question == "哪个？" else "")
