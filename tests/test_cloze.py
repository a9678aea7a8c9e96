"""Generated questions and questions by hand. What gives them away: tools/corpora/cloze_test.py."""

from __future__ import annotations

import re
from collections import Counter

import course_lib  # noqa: F401  (before paddle)
from course_lib.chapters.ch04 import candidates
from course_lib.data.cloze import GAP, HINTS, frozen, load_cloze
from course_lib.data.people_daily import text
from course_lib.data.splits import SPLITS

import pytest


@pytest.fixture(scope="module")
def questions():
    return dict(zip(SPLITS, load_cloze(), strict=True))


@pytest.fixture(scope="module")
def gold():
    return load_cloze("gold")


# --- generated questions ----------------------------------------------------------------------


def test_all_places_of_the_answer_are_given(questions):
    for dataset in questions.values():
        for row in dataset:
            answer = row["answers"][0]
            found = [m.start() for m in re.finditer(f"(?={re.escape(answer)})", row["context"])]
            assert row["answer_starts"] == found != []
            assert row["answers"] == [answer] * len(found)


def test_the_question_is_a_sentence_of_its_line_and_the_context_does_not_hold_it(questions):
    for dataset in questions.values():
        for row in dataset:
            line, start, end = map(int, row["id"].split("-")[1:])
            whole = text(line)
            answer = row["answers"][0]
            assert whole[start:end] == answer
            sentence = row["question"].removeprefix(HINTS[row["type"]])
            sentence = sentence.replace(GAP, answer)
            assert sentence in whole and sentence not in row["context"]
            assert answer not in row["question"]
            grams = {sentence[i : i + 5] for i in range(len(sentence) - 4)}
            assert sum(gram in row["context"] for gram in grams) <= 0.3 * len(grams)


def test_three_candidates_and_a_context_that_needs_a_stride(questions):
    for name in SPLITS:
        for question, row in zip(frozen(name), questions[name].data, strict=True):
            mentions = candidates(question)
            names = {mention.name for mention in mentions}
            assert len(names) >= 3 and row["answers"][0] in names
            assert not any(name in row["question"] for name in names)
            for mention in mentions:
                assert row["context"].startswith(mention.name, mention.start)
        lengths = [len(row["context"]) for row in questions[name]]
        assert sum(length > 192 for length in lengths) > 0.9 * len(lengths)


# --- questions by hand ------------------------------------------------------------------------


def test_gold_questions_are_many_and_their_spans_are_right(gold):
    halves = Counter(row["id"].split("-")[1] for row in gold)
    assert halves["dev"] >= 100 and halves["test"] >= 100 and len(halves) == 2
    assert len({row["question"] for row in gold}) == len(gold)
    for row in gold:
        assert set(row) == {"id", "context", "question", "answers", "answer_starts"}
        assert row["question"].endswith("？") and 1 < len(row["answers"][0]) <= 24
        for answer, start in zip(row["answers"], row["answer_starts"], strict=True):
            assert row["context"].startswith(answer, start)
        assert row["answers"][0] not in row["question"]
