"""The desk: its questions, its searches by hand, and its page in a real browser."""

from course_lib.chapters import ch22
from course_lib.chapters.ch22 import load_paragraphs, load_questions
from course_lib.runtime import data_dir

import numpy as np
import pytest


def test_questions_point_into_paragraphs_that_no_other_split_has():
    texts, seen = load_paragraphs(), {}
    for split, count in (("train", 118), ("dev", 60), ("test", 111)):
        rows = load_questions(split)
        assert len({row["question"] for row in rows}) == len(rows) == count
        for row in rows:
            assert all(seen.setdefault(name, split) == split for name in row["paragraphs"])
            assert not row["answer"] or row["answer"] in texts[row["paragraphs"][0]]


def test_searches_agree_with_their_formulas():
    scores = ch22.BM25(["甲乙", "丙丁", "丙甲"]).scores(["乙", "丙丁"])
    assert np.isclose(scores[0], [np.log(1 + 2.5 / 1.5), 0, 0]).all() and scores[1].argmax() == 1
    assert ch22.reciprocal_ranks(np.array([[3, 1, 2]]), [[2, 1]]).tolist() == [0.5]
    tokens = [np.eye(2), np.array([[0.6, 0.8]])]
    assert np.allclose(ch22.rerank_late([np.eye(2)[1:]], tokens, np.array([[1, 0]]))[1], [1, 0.8])


@pytest.mark.browser
def test_the_page_marks_the_answer(monkeypatch):
    monkeypatch.syspath_prepend(str(data_dir().parent / "tests"))
    from browser import page

    found = {"text": "一<b>二三", "start": 1, "end": 6}
    with ch22.serving(lambda question: found) as url, page(url) as browser:
        browser.until("document.activeElement.id == 'question'")
        browser.type("哪个？")
        browser.run("document.querySelector('button').click()")
        browser.until("document.querySelector('mark').textContent == '<b>二三'")
