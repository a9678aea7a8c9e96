"""Generated questions and questions by hand: their promises, what gives them away, the figures."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections import Counter
from pathlib import Path

import course_lib
from course_lib.data import cloze
from course_lib.data.cloze import load_cloze, load_cloze_gold
from course_lib.data.people_daily import BLOCK, SPLITS, parse, read_lines, split_lines, text
from course_lib.data.reporting import read_audit
from course_lib.models import load_backbone
from course_lib.runtime import InputError

import pytest

DATA = Path(course_lib.__file__).parents[1] / "data"
LEAST = {"train": 2_000, "dev": 300, "test": 300}


@pytest.fixture(scope="module")
def questions():
    return dict(zip(SPLITS, load_cloze(), strict=True))


@pytest.fixture(scope="module")
def gold():
    return load_cloze_gold()


@pytest.fixture(scope="module")
def report():
    """What `python -m course_lib.data.cloze stats` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert cloze.main(["stats"]) == 0
    return printed.getvalue()


def place(row):
    """Line, first character of the entity, the one after it."""
    _, line, start, end = row["id"].split("-")
    return int(line), int(start), int(end)


# --- generated questions ----------------------------------------------------------------------


def test_examples_are_as_described(questions):
    for name, dataset in questions.items():
        assert len(dataset) >= LEAST[name]
        assert len({row["id"] for row in dataset}) == len(dataset)
        for row in dataset:
            keys = ["id", "context", "question", "answers", "answer_starts", "type"]
            assert list(row) == keys and row["type"] in cloze.HINTS
            assert row["question"].startswith(cloze.HINTS[row["type"]])
            assert row["question"].count(cloze.GAP) == 1


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
            line, start, end = place(row)
            whole = text(line)
            answer = row["answers"][0]
            assert whole[start:end] == answer
            sentence = row["question"].removeprefix(cloze.HINTS[row["type"]])
            sentence = sentence.replace(cloze.GAP, answer)
            assert sentence in whole and sentence not in row["context"]
            assert answer not in row["question"]
            grams = {sentence[i : i + 5] for i in range(len(sentence) - 4)}
            assert sum(gram in row["context"] for gram in grams) <= 0.3 * len(grams)


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


def test_three_candidates_and_a_context_that_needs_a_stride(questions):
    for name in SPLITS:
        items = [cloze.cloze(asked) for asked in cloze.frozen(name)]
        assert [item.row for item in items] == questions[name].data
        for _, row, mentions, _ in items:
            names = {mention.name for mention in mentions}
            assert len(names) >= 3 and row["answers"][0] in names
            assert not any(name in row["question"] for name in names)
            for mention in mentions:
                assert row["context"].startswith(mention.name, mention.start)
        lengths = [len(item.row["context"]) for item in items]
        assert max(lengths) <= cloze.LONGEST
        assert sum(length > 192 for length in lengths) > 0.9 * len(lengths)


def test_no_baseline_comes_near_to_reading(questions):
    for name in SPLITS:
        right = [cloze.guesses(cloze.cloze(asked)) for asked in cloze.frozen(name)]
        assert max(map(len, right)) == len(cloze.BASELINES)
        for baseline in cloze.BASELINES:
            share = sum(guess[baseline] for guess in right) / len(right)
            assert 0.1 < share < 0.45, (name, baseline, share)


def test_without_the_filters_the_baselines_would_be_strong():
    # What the construction is for: the same measure over what it leaves out.
    kept = set(cloze.frozen("dev"))
    left_out = [item for item in cloze.candidates("dev") if item.asked not in kept]
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
            sentence = row["question"].removeprefix(cloze.HINTS[row["type"]])
            sentence = sentence.replace(cloze.GAP, row["answers"][0])
            grams = {sentence[i : i + 8] for i in range(len(sentence) - 7)}
            others = [owned for split, owned in owners.items() if split != name]
            near += any(len(grams & owned) >= 0.6 * len(grams) for owned in others)
        assert near <= 0.03 * len(questions[name])


def test_no_answer_is_asked_for_too_often(questions):
    for name, dataset in questions.items():
        counts = Counter(row["answers"][0] for row in dataset)
        assert max(counts.values()) <= cloze.MOST[name]
        assert len(counts) > len(dataset) / 5


def test_baselines_on_a_context_made_for_them():
    filler = "这里有一些别的话，和要问的事一点也不相干，只是为了占去一些地方。"
    context = f"甲城来信。乙城下雪，乙城放假。{filler}丙城的港口今天开放。{filler}丁城无事。"
    mentions = [cloze.Mention(m.start(), m[0], "LOC") for m in re.finditer("[甲乙丙丁]城", context)]
    row = {"context": context, "question": "填地名：【？】港口今天开放了", "answers": ["丙城"]}
    chosen = {
        name: guess(context, row["question"], mentions, 0).name
        for name, guess in cloze.BASELINES.items()
    }
    assert chosen["most frequent"] == "乙城" and chosen["first"] == "甲城"
    assert chosen["last"] == "丁城" and chosen["nearest to the cut"] == "甲城"
    assert chosen["most shared words"] == "丙城"
    asked = cloze.Asked(1, 0, 8, 0, 2, "LOC", 1, 1)
    right = cloze.guesses(cloze.Cloze(asked, {**row, "answers": ["丁城"]}, mentions, len(context)))
    assert right["last"] and right["nearest to the cut"] and not right["first"]


def test_splits_subsets_and_copies(questions):
    assert load_cloze("dev").data == questions["dev"].data
    both = load_cloze(["test", "dev"])
    assert [dataset.data for dataset in both] == [questions["test"].data, questions["dev"].data]
    subset = load_cloze("dev", max_examples=20)
    assert len(subset) == 20 and load_cloze("dev", max_examples=20).data == subset.data
    assert load_cloze("dev", max_examples=20, seed=1).data != subset.data
    assert all(row in questions["dev"].data for row in subset)
    subset[0]["answers"].clear()  # must not reach the next caller
    assert all(row["answers"] for row in load_cloze("dev"))
    with pytest.raises(ValueError, match="split 'valid'; expected one of train, dev, test"):
        load_cloze("valid")


# --- the frozen choice ------------------------------------------------------------------------


def test_choosing_anew_gives_the_frozen_questions():
    stored = json.loads(cloze.questions_path().read_text(encoding="utf-8"))
    assert json.loads(json.dumps(cloze.choose("test"))) == stored["splits"]["test"]


def test_the_frozen_questions_fit_the_labels_and_are_sorted():
    stored = json.loads(cloze.questions_path().read_text(encoding="utf-8"))
    assert set(stored["splits"]) == set(stored["labels"]) == set(SPLITS)
    for split, places in stored["splits"].items():
        assert places == sorted(places) and len(places) >= LEAST[split]
        for asked in (cloze.Asked(*place) for place in places):
            # The word asked for is an entity of that type in the labels of today.
            start = 0
            labelled = set()
            for word, kind in parse(read_lines()[asked.line - 1]):
                labelled.add((start, start + len(word), kind))
                start += len(word)
            assert (asked.start, asked.end, asked.kind) in labelled
            assert asked.context_first <= asked.line <= asked.context_last
            assert asked.first <= asked.start < asked.end <= asked.last


def test_build_writes_the_choice(tmp_path, monkeypatch):
    some = {split: cloze.frozen(split)[:5] for split in SPLITS}
    monkeypatch.setattr(cloze, "choose", lambda split: sorted(some[split]))
    path = tmp_path / "questions.json"
    assert cloze.build(path) == dict.fromkeys(SPLITS, 5)
    assert {split: cloze.frozen(split, path) for split in SPLITS} == some


def test_other_labels_and_damaged_files_are_refused_in_words(tmp_path):
    content = json.loads(cloze.questions_path().read_text(encoding="utf-8"))
    path = tmp_path / "questions.json"
    path.write_text(json.dumps({**content, "labels": {"dev": "0" * 64}}), encoding="utf-8")
    with pytest.raises(InputError, match="damaged or were made from other labels") as told:
        cloze.frozen("dev", path)
    assert "python -m course_lib.data.cloze build" in str(told.value)
    line, *rest = content["splits"]["dev"][0]
    for field in range(8):  # any place that is not the one that was chosen
        place = [line, *rest]
        place[field] = "LOC" if place[field] == "PER" else "PER" if field == 5 else place[field] + 1
        moved = {**content["splits"], "dev": [place, *content["splits"]["dev"][1:]]}
        path.write_text(json.dumps({**content, "splits": moved}), encoding="utf-8")
        with pytest.raises(InputError, match=r"questions\.json"):
            cloze.frozen("dev", path)
    for damaged in (
        "{",
        "[" * 100_000,
        "[]",
        "{}",
        json.dumps({**content, "splits": {"dev": [[line]]}}),
        json.dumps({**content, "splits": {"dev": [[10**9, *rest]]}}),
        json.dumps({**content, "splits": {"dev": [["1", *rest]]}}),
    ):
        path.write_text(damaged, encoding="utf-8")
        with pytest.raises(InputError, match=r"questions\.json: damaged"):
            cloze.frozen("dev", path)
    with pytest.raises(InputError, match=r"none\.json") as told:
        cloze.frozen("dev", tmp_path / "none.json")
    assert "damaged (" not in str(told.value)


def test_a_change_of_labels_is_noticed(monkeypatch):
    asked = cloze.frozen("dev")[:1]
    before = cloze.labels_digest(asked)
    words = [(word, None) for word, _ in cloze._words(asked[0].line)]
    monkeypatch.setattr(cloze, "_words", lambda line: words)
    assert cloze.labels_digest(asked) != before


def test_the_gap_is_known_to_the_tokenizer(questions):
    _, tokenizer = load_backbone(num_classes=2)
    for row in questions["dev"].data[:20]:
        tokens = tokenizer.tokenize(row["question"])
        at = tokens.index("【")
        assert tokens[at : at + 3] == list(cloze.GAP)


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


def test_gold_passages_lie_in_the_split_of_their_id():
    records = [
        json.loads(line)
        for line in (DATA / "cloze" / "gold.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    for record in records:
        assert set(record) <= {"id", "lines", "question", "answer", "accepted"}
        first, last = record["lines"]
        split = record["id"].split("-")[1]
        assert set(range(first, last + 1)) <= set(split_lines()[split])


def write(path, *records):
    path.write_text(
        "".join(r + "\n" if isinstance(r, str) else json.dumps(r) + "\n" for r in records),
        encoding="utf-8",
    )
    return path


GOOD = {"id": "a", "lines": [3148, 3150], "question": "什么树？", "answer": "桫椤"}


def test_a_gold_file_of_ones_own(tmp_path):
    row = {**GOOD, "accepted": ["椤", "恐龙"]}
    (example,) = load_cloze_gold(write(tmp_path / "g.jsonl", row, ""))
    places = example["context"].count("桫椤")
    assert example["answers"] == ["桫椤"] * places + ["椤"] * places + ["恐龙"]
    # 5 stands in 0.5, but not alone in 500: a number is not part of a longer one.
    (example,) = load_cloze_gold(write(tmp_path / "g.jsonl", {**GOOD, "answer": "5"}))
    assert [example["context"][s - 2 : s + 1] for s in example["answer_starts"]] == ["0.5"]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ({**GOOD, "id": "b", "answer": "银杏"}, "the answer '银杏' is not in lines 3148 to 3150"),
        ({**GOOD, "id": "b", "accepted": ["银杏"]}, "the accepted answer '银杏' is not in the"),
        ({**GOOD, "id": "b", "lines": [190, 230]}, "lines 190 to 230 are not within one split"),
        ({**GOOD, "id": "b", "lines": [3150, 3148]}, "lines 3150 to 3148 are not within one"),
        ({**GOOD, "id": "b", "lines": [0, 10**7]}, "are not within one split"),
        ({**GOOD, "id": "b", "lines": ["1", 2]}, "no two line numbers under 'lines'"),
        ({**GOOD, "id": "b", "lines": 3}, "no two line numbers under 'lines'"),
        ({**GOOD, "id": "b", "question": " "}, "no text under 'question'"),
        ({**GOOD, "id": "b", "accepted": "x"}, "no list of texts under 'accepted'"),
        (GOOD, "the id 'a' again"),
        ("{", "not valid JSON"),
        ("[1]", "no JSON object"),
    ],
)
def test_a_wrong_gold_line_is_named_with_file_and_line(tmp_path, bad, problem):
    path = write(tmp_path / "gold.jsonl", GOOD, bad)
    with pytest.raises(InputError, match=r"gold\.jsonl, line 2: ") as told:
        load_cloze_gold(path)
    assert problem in str(told.value) and "\n" not in str(told.value)


def test_a_missing_empty_or_foreign_gold_file(tmp_path, monkeypatch, capsys):
    with pytest.raises(InputError, match=r"none\.jsonl"):
        load_cloze_gold(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="holds no question"):
        load_cloze_gold(write(tmp_path / "empty.jsonl", ""))
    (tmp_path / "gb.jsonl").write_bytes("什么树".encode("gb18030"))
    with pytest.raises(InputError, match=r"gb\.jsonl"):
        load_cloze_gold(tmp_path / "gb.jsonl")
    monkeypatch.setattr(cloze, "_gold_path", lambda: tmp_path / "none.jsonl")
    assert cloze.main(["stats"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_gold_questions_are_not_guessed(gold):
    shares = cloze.gold_guesses()
    assert len(shares) == 4 and all(0 < share < 0.3 for share in shares.values())


# --- audit and figures ------------------------------------------------------------------------


def test_audit_rows_are_judged_questions_and_give_the_published_figures(questions, gold, report):
    rows = read_audit("cloze")
    assert len({row["id"] for row in rows}) == len(rows)
    answers = {row["id"]: row["answers"] for row in [*questions["dev"], *gold]}
    for kind, prefix, least in (("generated", "line", 100), ("by hand", "gold", 60)):
        judged = [row for row in rows if row["id"].startswith(prefix) and row["id"] in answers]
        agree = sum(row["answer"] in answers[row["id"]] for row in judged)
        assert len(judged) >= least
        assert f"| {kind} | {len(judged)} | {agree} ({agree / len(judged):.1%}) |" in report
        assert {row["sure"] for row in judged} <= {"yes", "no"}


def test_readme_shows_what_the_command_prints(report):
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- cloze stats \d -->\n\n(.*?)\n\n<!-- end -->", readme, re.DOTALL)
    assert blocks == report.strip().split("\n\n")
