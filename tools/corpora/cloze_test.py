"""That the questions cannot be guessed, and come from where their ids say.

Run `pytest tools/corpora` after a change of the data.
"""

from __future__ import annotations

import json
import re
from collections import Counter

import course_lib  # noqa: F401  (before paddle)
from course_lib import runtime
from course_lib.chapters.ch04 import Mention
from course_lib.data.cloze import GAP, HINTS, Question, frozen, load_cloze
from course_lib.data.people_daily import BLOCK, split_lines, text, words
from course_lib.data.sources import read_records
from course_lib.data.splits import SPLITS
from course_lib.models import load_backbone
from tools.corpora import cloze

import pytest

LEAST = {"train": 2_000, "dev": 300, "test": 300}


@pytest.fixture(scope="module")
def gold():
    return load_cloze("gold")


@pytest.fixture(scope="module")
def questions():
    return dict(zip(SPLITS, load_cloze(), strict=True))


def place(row):
    """Line, first character of the entity, the one after it."""
    _, line, start, end = row["id"].split("-")
    return int(line), int(start), int(end)


def test_contexts_are_lines_of_the_same_split_and_block(questions):
    for name, dataset in questions.items():
        inside = set(split_lines()[name])
        for row in dataset.data[:100]:
            line, _, _ = place(row)
            first = (line - 1) // BLOCK * BLOCK + 1
            near = range(max(first, line - 60), min(first + BLOCK, line + 60))
            texts = {text(other) for other in near if other in inside}
            pieces = row["context"].split("\n")
            unknown = [piece for piece in pieces if piece not in texts]
            assert len(unknown) <= 1  # the question's line, less the sentence
            assert all(re.sub(r"\W", "", piece) for piece in pieces)


def test_no_baseline_comes_near_to_reading(questions):
    for name in SPLITS:
        right = [cloze.guesses(cloze.cloze(asked)) for asked in frozen(name)]
        assert max(map(len, right)) == len(cloze.BASELINES)
        for baseline in cloze.BASELINES:
            share = sum(guess[baseline] for guess in right) / len(right)
            assert 0.1 < share < 0.45, (name, baseline, share)


def test_without_the_filters_the_baselines_would_be_strong():
    # What the construction is for: the same measure over what it leaves out.
    kept = set(frozen("dev"))
    left_out = [item for item in cloze.possible("dev") if item.question not in kept]
    assert len(left_out) > 50
    right = [cloze.guesses(item)["most shared words"] for item in left_out]
    assert sum(right) / len(right) > 0.6


def test_few_sentences_of_dev_and_test_nearly_stand_in_another_split(questions):
    owners = {}
    for name, lines in split_lines().items():
        grams = owners[name] = set()
        for line in lines:
            whole = text(line)
            grams.update(whole[i : i + 8] for i in range(len(whole) - 7))
    for name in ("dev", "test"):
        near = 0
        for row in questions[name]:
            sentence = row["question"].removeprefix(HINTS[row["type"]])
            sentence = sentence.replace(GAP, row["answers"][0])
            grams = {sentence[i : i + 8] for i in range(len(sentence) - 7)}
            others = [owned for split, owned in owners.items() if split != name]
            near += any(len(grams & owned) >= 0.6 * len(grams) for owned in others)
        assert near <= 0.03 * len(questions[name])


def test_baselines_on_a_context_made_for_them():
    filler = "这里有一些别的话，和要问的事一点也不相干，只是为了占去一些地方。"
    context = f"甲城来信。乙城下雪，乙城放假。{filler}丙城的港口今天开放。{filler}丁城无事。"
    mentions = [Mention(m.start(), m[0], "LOC") for m in re.finditer("[甲乙丙丁]城", context)]
    row = {"context": context, "question": "填地名：【？】港口今天开放了", "answers": ["丙城"]}
    chosen = {
        name: guess(context, row["question"], mentions, 0).name
        for name, guess in cloze.BASELINES.items()
    }
    assert chosen["most frequent"] == "乙城" and chosen["first"] == "甲城"
    assert chosen["last"] == "丁城" and chosen["nearest to the cut"] == "甲城"
    assert chosen["most shared words"] == "丙城"
    asked = Question(1, 0, 8, 0, 2, "LOC", 1, 1)
    right = cloze.guesses(cloze.Cloze(asked, {**row, "answers": ["丁城"]}, mentions, len(context)))
    assert right["last"] and right["nearest to the cut"] and not right["first"]


def test_choosing_anew_gives_the_frozen_questions():
    path = runtime.data_dir() / "cloze" / "questions.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert json.loads(json.dumps(cloze.choose("test"))) == stored["splits"]["test"]
    assert set(stored["splits"]) == set(stored["labels"]) == set(SPLITS)
    for split, places in stored["splits"].items():
        questions = [Question(*place) for place in places]
        assert places == sorted(places) and len(places) >= LEAST[split]
        assert cloze.labels_digest(questions) == stored["labels"][split], "build cloze anew"
        for question in questions:
            # The word asked for is an entity of that type in the labels of today.
            start, labeled = 0, set()
            for word, kind in words(question.line):
                labeled.add((start, start + len(word), kind))
                start += len(word)
            assert (question.start, question.end, question.kind) in labeled
            assert question.context_first <= question.line <= question.context_last
            assert question.first <= question.start < question.end <= question.last


def test_gold_passages_lie_in_the_split_of_their_id():
    for record in read_records("cloze/gold.jsonl"):
        assert {"accepted", *record} == {"id", "lines", "question", "answer", "accepted"}
        first, last = record["lines"]
        inside = set(split_lines()[record["id"].split("-")[1]])
        assert first <= last and set(range(first, last + 1)) <= inside


def test_gold_questions_are_not_guessed(gold):
    shares = cloze.gold_guesses()
    assert len(shares) == 4 and all(0 < share < 0.3 for share in shares.values())


def test_no_answer_is_asked_for_too_often(questions):
    for name, dataset in questions.items():
        counts = Counter(row["answers"][0] for row in dataset)
        assert max(counts.values()) <= cloze.MOST[name]
        assert len(counts) > len(dataset) / 5


def test_gold_questions_are_not_copied_from_the_passage(gold):
    longest = []
    for row in gold:
        question, size = row["question"], 0
        while any(
            question[i : i + size + 1] in row["context"] for i in range(len(question) - size)
        ):
            size += 1
        longest.append(size / len(question))
    assert sum(longest) / len(longest) < 0.4 and max(longest) < 0.8


def test_the_gap_is_known_to_the_tokenizer(questions):
    _, tokenizer = load_backbone(num_classes=2)
    for row in questions["dev"].data[:20]:
        tokens = tokenizer.tokenize(row["question"])
        at = tokens.index("【")
        assert tokens[at : at + 3] == list(GAP)
