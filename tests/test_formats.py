"""Official files: what the writers wrote, PaddleNLP's own readers give back unchanged."""

from __future__ import annotations

import json
import random

import course_lib  # noqa: F401 - before paddle
from course_lib.data import materialize
from course_lib.data.cloze import load_cloze
from course_lib.data.formats import (
    MSRA_LABELS,
    OFFICIAL_SPLITS,
    write_chnsenticorp,
    write_cmrc2018,
    write_cola,
    write_lcqmc,
    write_msra_ner,
    write_squad,
)
from course_lib.data.pairs import load_pairs
from course_lib.data.people_daily import LABELS, load_people_daily
from course_lib.data.reviews import load_reviews
from course_lib.runtime import InputError

import numpy as np
import pytest
from paddlenlp.datasets import load_dataset

INSIDE = {
    "quotes": "他说\"好\"'吵'“贵”",
    "comma": "好,坏，又好",
    "002": "好\002坏",
    "space": "好 坏\u3000吵",
    "separators": "好\u2028坏\x85吵\x0b干\x0c净\x1c",  # no line ends to PaddleNLP's readers
    "backslash": "好\\n坏\\t",
    "emoji": "好😀坏",
    "mark": "\ufeff好",
    "nul": "好\0坏",
}
BROKEN = {"tab": "好\t坏", "line break": "好\n坏", "carriage return": "好\r坏", "CRLF": "好\r\n坏"}
ENDS = {
    "space": " ",
    "full-width space": "\u3000",
    "no-break space": "\xa0",
    "unit separator": "\x1f",
    "next line": "\x85",
}
inside = pytest.mark.parametrize("text", INSIDE.values(), ids=INSIDE)
broken = pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
ends = pytest.mark.parametrize("white", ENDS.values(), ids=ENDS)


def rows(dataset, *keys):
    return [tuple(example[key] for key in keys) for example in dataset]


def visible(text):
    return text + "。"  # ends with a character that no reader strips


# --- one text: chnsenticorp and cola ----------------------------------------------------------


def reviews(*texts):
    return [
        {"text": text, "label": number % 2, "id": f"r-{number}"}
        for number, text in enumerate(texts)
    ]


def read_reviews(kind, path, split):
    if kind == "chnsenticorp":
        return load_dataset("chnsenticorp", data_files=str(path), splits=split)
    return load_dataset("glue", "cola", data_files=str(path), splits=split)


WRITE = {"chnsenticorp": write_chnsenticorp, "glue/cola": write_cola}
TEXT = {"chnsenticorp": "text", "glue/cola": "sentence"}
one_text = pytest.mark.parametrize("kind", WRITE)
every_split = pytest.mark.parametrize("split", ["train", "dev", "test"])


def round_trip(kind, split, examples, path):
    WRITE[kind](examples, path, split)
    dataset = read_reviews(kind, path, split)
    assert [row[TEXT[kind]] for row in dataset] == [row["text"] for row in examples]
    if split != "test":
        label = "label" if kind == "chnsenticorp" else "labels"
        assert [row[label] for row in dataset] == [row["label"] for row in examples]
        assert dataset.label_list == ["0", "1"]
    if kind == "chnsenticorp" and split != "train":
        assert [row["qid"] for row in dataset] == [row["id"] for row in examples]


@one_text
@every_split
@inside
def test_a_review_comes_back(tmp_path, kind, split, text):
    round_trip(kind, split, reviews(visible(text), "好", "\u3000坏", visible(text)), tmp_path / "f")


@one_text
@every_split
@broken
def test_a_review_that_breaks_the_line_is_refused(tmp_path, kind, split, text):
    path = tmp_path / "f.tsv"
    with pytest.raises(InputError, match=r"example r-1: a (tab|line break|carriage return) in"):
        WRITE[kind](reviews("好", text), path, split)
    assert list(tmp_path.iterdir()) == []


@one_text
@every_split
@ends
def test_a_review_with_white_space_at_its_end_is_refused(tmp_path, kind, split, white):
    with pytest.raises(InputError, match=r"example r-0: .* ends with white space"):
        WRITE[kind](reviews("好" + white), tmp_path / "f", split)
    round_trip(kind, split, reviews(white + "好"), tmp_path / "f")


@one_text
@every_split
def test_an_empty_review_and_other_unfit_ones_are_refused(tmp_path, kind, split):
    for text, message in (
        ("", "example r-0: '' is empty"),
        ("\u3000", "example r-0: .* is empty or ends"),
    ):
        with pytest.raises(InputError, match=message):
            WRITE[kind](reviews(text), tmp_path / "f", split)
    with pytest.raises(InputError, match="no example to write"):
        WRITE[kind]([], tmp_path / "f", split)
    assert list(tmp_path.iterdir()) == []


@one_text
@pytest.mark.parametrize("label", [2, -1, "1", None])
def test_a_label_other_than_0_and_1_is_refused(tmp_path, kind, label):
    with pytest.raises(InputError, match=r"example 1: label is .*; expected 0 or 1"):
        WRITE[kind]([{"text": "好", "label": label}], tmp_path / "f")


@one_text
@every_split
@pytest.mark.parametrize("seed", range(5))
def test_random_reviews_come_back_or_are_refused(tmp_path, kind, split, seed):
    """Nothing but these two ever happens, whatever the characters."""
    rng = random.Random(seed)
    alphabet = "好坏 \u3000\t\n\r\"',\002\0\x1c\x85\u2028\xa0😀a"
    refused = 0
    for _ in range(40):
        text = "".join(rng.choices(alphabet, k=rng.randint(0, 6)))
        try:
            round_trip(kind, split, reviews("好", text, "坏"), tmp_path / "f")
        except InputError:
            refused += 1
    assert 0 < refused < 40


# --- sentence pairs ---------------------------------------------------------------------------


def pairs(*sentences):
    return [
        {"sentence1": one, "sentence2": two, "label": number % 2, "id": f"p-{number}"}
        for number, (one, two) in enumerate(sentences)
    ]


def pairs_round_trip(examples, path, split="dev"):
    write_lcqmc(examples, path)
    dataset = load_dataset("lcqmc", data_files=str(path), splits=split)
    assert rows(dataset, "query", "title", "label") == rows(
        examples, "sentence1", "sentence2", "label"
    )
    assert dataset.label_list == ["0", "1"]


@every_split
@inside
def test_a_pair_comes_back(tmp_path, split, text):
    pairs_round_trip(pairs((text, text), ("好", ""), ("好", text)), tmp_path / "f", split)


@broken
def test_a_pair_that_breaks_the_line_is_refused(tmp_path, text):
    for pair in ((text, "好"), ("好", text)):
        with pytest.raises(InputError, match=r"example p-1: a (tab|line break|carriage return) in"):
            write_lcqmc(pairs(("好", "坏"), pair), tmp_path / "f")


@ends
def test_white_space_before_the_first_sentence_is_refused(tmp_path, white):
    for first in (white + "好", "", white):
        with pytest.raises(
            InputError, match=r"example p-0: .* is empty or begins with white space"
        ):
            write_lcqmc(pairs((first, "坏")), tmp_path / "f")
    pairs_round_trip(pairs(("好" + white, white + "坏" + white)), tmp_path / "f")


# --- tagged tokens ----------------------------------------------------------------------------


def tagged(tokens, labels=None, name="t-0"):
    return {
        "tokens": list(tokens),
        "labels": [0] * len(tokens) if labels is None else labels,
        "id": name,
    }


def tags_round_trip(examples, path, split="train", label_list=LABELS):
    write_msra_ner(examples, path, label_list)
    dataset = load_dataset("msra_ner", data_files=str(path), splits=split)
    assert dataset.label_list == list(MSRA_LABELS)
    assert [row["tokens"] for row in dataset] == [row["tokens"] for row in examples]
    names = [[dataset.label_list[label] for label in row["labels"]] for row in dataset]
    assert names == [[label_list[label] for label in row["labels"]] for row in examples]


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("text", [v for k, v in INSIDE.items() if k != "002"])
def test_tokens_and_labels_come_back(tmp_path, split, text):
    examples = [
        tagged(text),
        tagged("王明在北京", [1, 2, 0, 3, 4]),
        tagged(["王明", "a b"], [1, 5]),
    ]
    tags_round_trip(examples, tmp_path / "f", split)
    tags_round_trip(examples[1:], tmp_path / "f", split, [*MSRA_LABELS[:5], "O"])


@ends
def test_a_first_token_of_white_space_is_refused_and_a_later_one_kept(tmp_path, white):
    with pytest.raises(InputError, match=r"example t-0: .* begins with white space"):
        write_msra_ner([tagged(white + "好")], tmp_path / "f", LABELS)
    tags_round_trip([tagged("好" + white)], tmp_path / "f")


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (tagged(["好", "\002"]), r"the token '\\x02'; expected characters other than"),
        (tagged(["好", "a\tb"]), "a tab in"),
        (tagged(["好", "\n"]), "a line break in"),
        (tagged(["好", "\r"]), "a carriage return in"),
        (tagged(["好", ""]), "the token ''"),
        (tagged("好坏", [0]), "2 tokens and 1 labels"),
    ],
)
def test_tokens_that_cannot_be_carried_are_refused(tmp_path, example, message):
    with pytest.raises(InputError, match="example t-0: " + message):
        write_msra_ner([tagged("好", name="t"), example], tmp_path / "f", LABELS)
    assert list(tmp_path.iterdir()) == []


def test_labels_that_msra_ner_does_not_know_are_refused(tmp_path):
    with pytest.raises(InputError, match="label_list: has 'B-TIME'; expected only B-PER"):
        write_msra_ner([tagged("好")], tmp_path / "f", ["O", "B-TIME", "I-TIME"])


# --- questions --------------------------------------------------------------------------------

QUESTIONS = {"cmrc2018": write_cmrc2018, "squad": write_squad}
reading = pytest.mark.parametrize("kind", QUESTIONS)


def question(context="王明在北京。", answers=("北京",), starts=(3,), name="q-0", **more):
    return {
        "id": name,
        "context": context,
        "question": "王明在[空]。",
        "answers": list(answers),
        "answer_starts": list(starts),
        **more,
    }


def questions_round_trip(kind, examples, path):
    QUESTIONS[kind](examples, path)
    for split in set(OFFICIAL_SPLITS[kind].values()):
        dataset = load_dataset(kind, data_files=str(path), splits=split)
        keys = ("id", "context", "question", "answers", "answer_starts")
        assert rows(dataset, *keys) == rows(examples, *keys)
        assert [row["title"] for row in dataset] == [row.get("title", "") for row in examples]
        if kind == "squad":
            assert [row["is_impossible"] for row in dataset] == [not r["answers"] for r in examples]


@reading
@pytest.mark.parametrize("text", [*INSIDE.values(), *BROKEN.values()], ids=[*INSIDE, *BROKEN])
def test_a_question_comes_back_with_exact_offsets(tmp_path, kind, text):
    context = visible(text) + "王明在北京，北京" + visible(text)
    first, last = context.index("北京"), context.rindex("北京")
    examples = [
        question(context, ["北京", "北京"], [first, last], title=visible(text)),
        question(context, [visible(text)], [0], "q-1", title=visible(text)),
        question(name="q-2", question=visible(text)),
        question(context, [], [], "q-3"),
        question(context, ["北京"], [np.int64(first)], "q-4"),
        question(name="q-5", question=""),
    ]
    questions_round_trip(kind, examples, tmp_path / "f.json")


@reading
@ends
@pytest.mark.parametrize("side", ["begin", "end"])
def test_white_space_at_an_end_of_a_text_is_refused(tmp_path, kind, white, side):
    text = white + "北京" if side == "begin" else "北京" + white
    for change in ({"context": text, "answers": [], "answer_starts": []}, {"question": text}):
        with pytest.raises(InputError, match=r"example q-0: .* begins or ends with white space"):
            QUESTIONS[kind]([{**question(), **change}], tmp_path / "f")
    with pytest.raises(InputError, match=r"example q-0: the answer .* has white space at an end"):
        QUESTIONS[kind]([question("在" + text + "市", [text], [1])], tmp_path / "f")


@reading
@pytest.mark.parametrize(
    ("example", "message"),
    [
        (question(starts=[2]), "the answer '北京' is not at 2"),
        (question(starts=[-3]), "the answer '北京' is not at -3"),
        (question(answers=[""]), "the answer '' is empty"),
    ],
)
def test_questions_that_do_not_hold_are_refused(tmp_path, kind, example, message):
    with pytest.raises(InputError, match="example q-0: .*" + message):
        QUESTIONS[kind]([question(name="q-9"), example], tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


@reading
def test_an_id_that_comes_again_is_refused(tmp_path, kind):
    with pytest.raises(InputError, match="example q-0: the id comes again"):
        QUESTIONS[kind]([question(), question()], tmp_path / "f")


def test_neighbours_with_one_context_share_a_paragraph(tmp_path):
    other = question("他在上海。", ["上海"], [2], "q-2")
    write_squad([question(), question(name="q-1"), other], tmp_path / "f")
    (entry,) = json.loads((tmp_path / "f").read_text(encoding="utf-8"))["data"]
    assert [len(paragraph["qas"]) for paragraph in entry["paragraphs"]] == [2, 1]


# --- upstream, as it is; these tell when a rule above is no longer needed ----------------------


@pytest.mark.upstream
def test_what_the_pinned_readers_do_to_texts_that_are_refused_here(tmp_path):
    path = tmp_path / "f"

    def read(name, content, split="train"):
        path.write_bytes(content.encode())
        return load_dataset(name, data_files=str(path), splits=split)

    assert read("chnsenticorp", "label\ttext_a\n1\t好\u3000\n")[0]["text"] == "好"
    with pytest.raises(ValueError, match="not enough values"):
        read("chnsenticorp", "label\ttext_a\n1\t好\r坏\n")
    assert len(read("lcqmc", "好\t坏\t1\n好\t坏\t吵\t1\n")) == 1  # a line is lost, silently
    with pytest.raises(AttributeError):
        read("msra_ner", "好\002坏\tO\002O\n好\002坏\n")
    context = " 王明在北京"
    asked = {"id": "1", "question": "?", "answers": [{"text": "北京", "answer_start": 4}]}
    content = {"data": [{"paragraphs": [{"context": context, "qas": [asked]}]}]}
    example = read("cmrc2018", json.dumps(content))[0]
    assert not example["context"].startswith("北京", example["answer_starts"][0])


# --- materialize ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chnsenticorp", "glue/cola"])
def test_all_reviews_come_back(tmp_path, kind):
    paths = materialize(kind, tmp_path)
    assert list(paths) == ["train", "dev", "test"]
    for split, path in paths.items():
        assert path == tmp_path / kind / f"{split}.tsv"
        expected, dataset = load_reviews(split), read_reviews(kind, path, split)
        assert [r[TEXT[kind]] for r in dataset] == [r["text"] for r in expected]
        if split != "test":
            label = "label" if kind == "chnsenticorp" else "labels"
            assert [r[label] for r in dataset] == [r["label"] for r in expected]


def test_all_tagged_sentences_come_back(tmp_path):
    paths = materialize("msra_ner", tmp_path, ["dev", "test"])
    for split, path in paths.items():
        expected = load_people_daily(split)
        dataset = load_dataset(
            "msra_ner", data_files=str(path), splits=OFFICIAL_SPLITS["msra_ner"][split]
        )
        assert [r["tokens"] for r in dataset] == [r["tokens"] for r in expected]
        for one, other in zip(dataset, expected, strict=True):
            names = [dataset.label_list[label] for label in one["labels"]]
            assert names == [LABELS[label] for label in other["labels"]]


def test_a_subset_is_the_one_of_the_loader(tmp_path):
    path = materialize("chnsenticorp", tmp_path, "dev", max_examples=20, seed=7)["dev"]
    expected = load_reviews("dev", max_examples=20, seed=7)
    assert rows(read_reviews("chnsenticorp", path, "dev"), "text") == rows(expected, "text")


def test_several_files_are_read_at_once_each_as_its_split(tmp_path):
    paths = materialize("chnsenticorp", tmp_path, max_examples=4)
    datasets = load_dataset(
        "chnsenticorp", data_files=[str(path) for path in paths.values()], splits=list(paths)
    )
    assert [len(dataset) for dataset in datasets] == [4, 4, 4]


def test_unknown_names_and_splits_are_refused(tmp_path):
    with pytest.raises(InputError, match="name: is 'msra'; expected one of chnsenticorp"):
        materialize("msra", tmp_path)
    with pytest.raises(ValueError, match="split 'trial'; expected one of train, dev, test"):
        materialize("cmrc2018", tmp_path, ["trial"])
    assert list(tmp_path.iterdir()) == []


def test_all_pairs_come_back(tmp_path):
    for split, path in materialize("lcqmc", tmp_path).items():
        expected = load_pairs(split)
        dataset = load_dataset("lcqmc", data_files=str(path), splits=split)
        assert rows(dataset, "query", "title", "label") == rows(
            expected, "sentence1", "sentence2", "label"
        )


@reading
def test_cloze_questions_come_back_with_their_offsets(tmp_path, kind):
    for split, path in materialize(kind, tmp_path, ["dev", "test"], 150).items():
        expected = load_cloze(split, max_examples=150)
        dataset = load_dataset(kind, data_files=str(path), splits=OFFICIAL_SPLITS[kind][split])
        keys = ("id", "context", "question", "answers", "answer_starts")
        assert rows(dataset, *keys) == rows(expected, *keys)
        for example in dataset:
            assert example["answers"]
            for answer, start in zip(example["answers"], example["answer_starts"], strict=True):
                assert example["context"].startswith(answer, start)


def test_a_directory_in_the_way_is_told_in_words(tmp_path):
    (tmp_path / "lcqmc").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="lcqmc"):
        materialize("lcqmc", tmp_path, "dev")
    assert (tmp_path / "lcqmc").read_text(encoding="utf-8") == "mine"
