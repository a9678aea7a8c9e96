"""Official files: what the writers wrote, PaddleNLP's own readers give back unchanged."""

import json
import random

import course_lib  # noqa: F401 - before paddle
from course_lib import data
from course_lib.chapters.ch02 import MSRA_LABELS, OFFICIAL_SPLITS, materialize
from course_lib.chapters.ch02 import write_official as write
from course_lib.data.people_daily import LABELS
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
LOADERS = {
    "chnsenticorp": "load_reviews",
    "glue/cola": "load_reviews",
    "lcqmc": "load_pairs",
    "msra_ner": "load_people_daily",
    "cmrc2018": "load_cloze",
    "squad": "load_cloze",
}
inside = pytest.mark.parametrize("text", INSIDE.values(), ids=INSIDE)
broken = pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
ends = pytest.mark.parametrize("white", [" ", "\u3000", "\xa0", "\x1f", "\x85"], ids=ascii)
TEXTS = ["chnsenticorp", "glue/cola"]
one_text = pytest.mark.parametrize("kind", TEXTS)
reading = pytest.mark.parametrize("kind", ["cmrc2018", "squad"])
every_split = pytest.mark.parametrize("split", ["train", "dev", "test"])


def check(kind, examples, path, split="train", label_list=LABELS):
    """PaddleNLP's reader gives back what was written."""
    name = kind.split("/")
    dataset = load_dataset(*name, data_files=str(path), splits=OFFICIAL_SPLITS[kind][split])
    columns = {
        "chnsenticorp": {"text": "text", "label": "label"},
        "glue/cola": {"text": "sentence", "label": "labels"},
        "lcqmc": {"sentence1": "query", "sentence2": "title", "label": "label"},
        "msra_ner": {"tokens": "tokens"},
    }.get(kind, {key: key for key in ("id", "context", "question", "answers", "answer_starts")})
    if split == "test" and kind != "lcqmc":
        columns.pop("label", None)
    if kind == "chnsenticorp" and split != "train":
        columns["id"] = "qid"
    for ours, theirs in columns.items():
        assert [row[theirs] for row in dataset] == [row[ours] for row in examples]
    if kind == "msra_ner":
        assert dataset.label_list == list(MSRA_LABELS)
        names = [[dataset.label_list[label] for label in row["labels"]] for row in dataset]
        assert names == [[label_list[label] for label in row["labels"]] for row in examples]
    elif "label" in columns:
        assert dataset.label_list == ["0", "1"]
    if kind in ("cmrc2018", "squad"):
        assert [row["title"] for row in dataset] == [row.get("title", "") for row in examples]
    if kind == "squad":
        assert [row["is_impossible"] for row in dataset] == [not r["answers"] for r in examples]


def round_trip(kind, examples, path, split="train", label_list=LABELS):
    write(kind, examples, path, split, label_list)
    check(kind, examples, path, split, label_list)


def numbered(keys, rows):
    """Examples with labels 0, 1, 0, ... and ids n-0, n-1, ..."""
    return [
        {**dict(zip(keys, row, strict=True)), "label": number % 2, "id": f"n-{number}"}
        for number, row in enumerate(rows)
    ]


def reviews(*texts):
    return numbered(["text"], [(text,) for text in texts])


def pairs(*sentences):
    return numbered(["sentence1", "sentence2"], sentences)


def visible(text):
    return text + "。"  # ends with a character that no reader strips


# --- one text ---------------------------------------------------------------------------------


@broken
@pytest.mark.parametrize("kind", ["chnsenticorp", "glue/cola", "lcqmc"])
def test_a_text_that_breaks_the_line_is_refused(tmp_path, kind, text):
    rows = pairs(("好", "坏"), (text, "好")) if kind == "lcqmc" else reviews("好", text)
    with pytest.raises(InputError, match=r"example n-1: a (tab|line break|carriage return) in"):
        write(kind, rows, tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


@ends
def test_white_space_that_a_reader_would_strip_is_refused(tmp_path, white):
    path, before, behind = tmp_path / "f", white + "好", "好" + white
    for kind, bad, good in (
        *((kind, map(reviews, (behind, white, "")), reviews(before)) for kind in TEXTS),
        ("lcqmc", (pairs((one, "坏")) for one in (before, white, "")), pairs((behind, before))),
        ("msra_ner", [[tagged(before)]], [tagged(behind)]),
    ):
        for rows in bad:
            with pytest.raises(InputError, match=r"example [nt]-0: .* white space at an end"):
                write(kind, rows, path, label_list=LABELS)
        for split in OFFICIAL_SPLITS[kind] if kind in TEXTS else ["train"]:
            round_trip(kind, good, path, split)


@one_text
@every_split
@pytest.mark.parametrize("seed", range(3))
def test_random_reviews_come_back_or_are_refused(tmp_path, kind, split, seed):
    """Nothing but these two ever happens, whatever the characters."""
    rng = random.Random(seed)
    alphabet = "好坏 \u3000\t\n\r\"',\\\ufeff\002\0\x1c\x85\u2028\xa0😀a"
    refused = 0
    for _ in range(40):
        text = "".join(rng.choices(alphabet, k=rng.randint(0, 6)))
        try:
            round_trip(kind, reviews("好", text, "坏"), tmp_path / "f", split)
        except InputError:
            refused += 1
    assert 0 < refused < 40


# --- sentence pairs ---------------------------------------------------------------------------


@every_split
@inside
def test_a_pair_comes_back(tmp_path, split, text):
    rows = pairs((text, text), ("好", ""), ("好", text))
    round_trip("lcqmc", rows, tmp_path / "f", split)


# --- tagged tokens ----------------------------------------------------------------------------


def tagged(tokens, labels=None):
    labels = [0] * len(tokens) if labels is None else labels
    return {"tokens": list(tokens), "labels": labels, "id": "t-0"}


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("text", [v for k, v in INSIDE.items() if k != "002"])
def test_tokens_and_labels_come_back(tmp_path, split, text):
    examples = [
        tagged(text),
        tagged("王明在北京", [1, 2, 0, 3, 4]),
        tagged(["王明", "a b"], [1, 5]),
    ]
    round_trip("msra_ner", examples, tmp_path / "f", split)
    round_trip("msra_ner", examples[1:], tmp_path / "f", split, [*MSRA_LABELS[:5], "O"])


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (tagged(["好", "\002"]), r"the token '\\x02'; expected characters other than"),
        (tagged(["好", "a\tb"]), "a tab in"),
        (tagged(["好", ""]), "the token ''"),
        (tagged("好坏", [0]), "2 tokens and 1 labels"),
    ],
)
def test_tokens_that_cannot_be_carried_are_refused(tmp_path, example, message):
    with pytest.raises(InputError, match="example t-0: " + message):
        write("msra_ner", [tagged("好"), example], tmp_path / "f", label_list=LABELS)
    with pytest.raises(InputError, match="label_list: has 'B-TIME'; expected only B-PER"):
        write("msra_ner", [tagged("好")], tmp_path / "f", label_list=["O", "B-TIME", "I-TIME"])
    assert list(tmp_path.iterdir()) == []


# --- questions --------------------------------------------------------------------------------


def question(context="王明在北京。", answers=("北京",), starts=(3,), name="q-0", **more):
    return {
        "id": name,
        "context": context,
        "question": "王明在[空]。",
        "answers": list(answers),
        "answer_starts": list(starts),
        **more,
    }


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
    for split in ("train", "dev"):
        round_trip(kind, examples, tmp_path / "f.json", split)


@reading
@ends
@pytest.mark.parametrize("side", ["begin", "end"])
def test_white_space_at_an_end_of_a_text_is_refused(tmp_path, kind, white, side):
    text = white + "北京" if side == "begin" else "北京" + white
    for change in ({"context": text, "answers": [], "answer_starts": []}, {"question": text}):
        with pytest.raises(InputError, match=r"example q-0: .* begins or ends with white space"):
            write(kind, [{**question(), **change}], tmp_path / "f")
    with pytest.raises(InputError, match=r"example q-0: the answer .* has white space at an end"):
        write(kind, [question("在" + text + "市", [text], [1])], tmp_path / "f")


@reading
@pytest.mark.parametrize(
    ("example", "message"),
    [
        (question(starts=[2]), "the answer '北京' is not at 2"),
        (question(answers=[""]), "the answer '' is empty"),
        (question(name="q-9"), "the id comes again"),
    ],
)
def test_questions_that_do_not_hold_are_refused(tmp_path, kind, example, message):
    with pytest.raises(InputError, match=r"example q-\d: .*" + message):
        write(kind, [question(name="q-9"), example], tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.upstream
def test_what_the_pinned_readers_do_to_texts_that_are_refused_here(tmp_path):
    """Tells when a rule above is no longer needed."""
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
    asked = {"id": "1", "question": "?", "answers": [{"text": "北京", "answer_start": 4}]}
    content = {"data": [{"paragraphs": [{"context": " 王明在北京", "qas": [asked]}]}]}
    example = read("cmrc2018", json.dumps(content))[0]
    assert not example["context"].startswith("北京", example["answer_starts"][0])


# --- materialize ------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "load"), LOADERS.items())
def test_the_corpora_come_back(tmp_path, kind, load):
    paths = materialize(kind, tmp_path, max_examples=500, seed=7)
    assert list(paths) == ["train", "dev", "test"]
    for split, path in paths.items():
        assert path.parent == tmp_path / kind and path.stem == split
        check(kind, getattr(data, load)(split, max_examples=500, seed=7).data, path, split)


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(InputError, match="no example to write"):
        write("lcqmc", [], tmp_path / "f")
    with pytest.raises(InputError, match=r"example 1: label is 2; expected 0 or 1"):
        write("chnsenticorp", [{"text": "好", "label": 2}], tmp_path / "f")
    with pytest.raises(InputError, match="name: is 'msra'; expected one of chnsenticorp"):
        materialize("msra", tmp_path)
    with pytest.raises(ValueError, match="split 'trial'; expected one of train, dev, test"):
        materialize("cmrc2018", tmp_path, ["trial"])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "lcqmc").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="lcqmc"):
        materialize("lcqmc", tmp_path, "dev")
    assert (tmp_path / "lcqmc").read_text(encoding="utf-8") == "mine"
