"""Readers of annotated files: what they give, and the one line that bad input gets."""

from __future__ import annotations

import copy
import json
import random
import time

import course_lib  # noqa: F401 - before paddle
from course_lib.chapters.ch02 import write_official
from course_lib.data import read_bio, read_squad
from course_lib.data.annotated import MAX_TOKENS
from course_lib.runtime import InputError

import pytest

LABELS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
SENTENCES = [
    (list("王明在北京"), ["B-PER", "I-PER", "O", "B-LOC", "I-LOC"]),
    (list("李红到上海。"), ["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O"]),
]


def cases(table):
    return [pytest.param(*row, id=name) for name, *row in table]


def write(folder, content, name="a.txt", encoding="utf-8"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def conll(sentences=SENTENCES, between="\t"):
    lines = (
        "".join(f"{token}{between}{label}\n" for token, label in zip(*sentence, strict=True))
        for sentence in sentences
    )
    return "\n".join(lines)


def msra(sentences=SENTENCES):
    return "".join("\002".join(a) + "\t" + "\002".join(b) + "\n" for a, b in sentences)


def named(dataset):
    return [
        (row["tokens"], [dataset.label_list[label] for label in row["labels"]])
        for row in dataset.data
    ]


# --- tagged tokens ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [conll(), conll(between=" "), conll(between="   "), msra(), "\n\n" + conll() + "\n\n \n"],
    ids=["conll, tab", "conll, space", "conll, spaces", "msra", "blank lines"],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_every_format_line_end_and_encoding_gives_the_same(tmp_path, content, end, coding):
    asked = {} if coding.startswith("utf-8") else {"encoding": coding}
    for last in (content, content.rstrip("\n ")):
        path = write(tmp_path, last.replace("\n", end), encoding=coding)
        dataset = read_bio(path, **asked)
        assert named(dataset) == SENTENCES
        assert dataset.label_list == LABELS
    labels = ["B-PER", "I-PER", "B-LOC", "B-ORG", "I-ORG", "I-LOC", "O"]
    assert read_bio(path, labels, **asked)[0]["labels"] == [0, 1, 6, 2, 5]


def test_tokens_may_be_words_white_space_or_signs(tmp_path):
    tokens = ["北京 大学", "\u3000", " ", '"', "#", "O", "B-LOC", "\u2028", "😀"]
    content = "".join(f"{token}\tO\n" for token in tokens) + conll()
    assert read_bio(write(tmp_path, content))[0]["tokens"] == tokens + SENTENCES[0][0]
    assert read_bio(write(tmp_path, msra([(tokens, ["O"] * 9), *SENTENCES])))[0] == {
        "tokens": tokens,
        "labels": [0] * 9,
    }
    content = conll(between=" ").replace("在 O\n", "在 O\n O\n")  # a space, a space, its label
    assert "".join(read_bio(write(tmp_path, content))[0]["tokens"]) == "王明在 北京"


FAULTS = [  # the last columns: as repaired, the token at fault and what is said of it
    ("O I-PER I-PER", "O B-PER I-PER", 1, "after O"),
    ("B-PER I-LOC", "B-PER B-LOC", 1, "after B-PER"),
    ("S-PER B-PER E-PER I-PER E-PER", "B-PER B-PER I-PER B-PER I-PER", 3, "after E-PER"),
    ("B-LOC I-LOC O S-LOC", "B-LOC I-LOC O B-LOC", 1, "before O; expected E-LOC at"),
    ("B-PER B-PER E-PER", "B-PER B-PER I-PER", 0, "before B-PER"),
    ("B-PER S-PER", "B-PER B-PER", 0, "before S-PER"),
    ("S-LOC B-PER", "B-LOC B-PER", 1, "before the end of the sentence; .* S-PER for one of a"),
    ("B-PER M-PER B-LOC E-LOC", "B-PER I-PER B-LOC I-LOC", 1, "before B-LOC"),
]


@pytest.mark.parametrize("form", [conll, msra])
@pytest.mark.parametrize(("labels", "repaired", "place", "said"), FAULTS)
def test_a_broken_entity_is_refused_or_repaired(tmp_path, form, labels, repaired, place, said):
    tokens = list("甲乙丙丁戊")[: len(labels.split())]
    path = write(tmp_path, form([(["好"], ["O"]), (tokens, labels.split())]))
    line = 3 + place if form is conll else 2
    fault = f"'{labels.split()[place]}' of the token '{tokens[place]}' comes {said}"
    with pytest.raises(InputError, match=f"a.txt, line {line}: {fault}"):
        read_bio(path, LABELS)
    done = "ing read as B-" if "after" in said else "end after them read as the end"
    with pytest.warns(UserWarning, match=rf"a.txt: labels without .*{done}: 1 \(lines {line}\)"):
        assert named(read_bio(path, LABELS, policy="repair"))[-1] == (tokens, repaired.split())


def test_other_schemes_become_bio(tmp_path):
    tokens, bio = list("王小明在京去沪"), ["B-PER", "I-PER", "I-PER", "O", "B-LOC", "O", "B-LOC"]
    for middle, form in (("I", msra), ("M", msra), ("I", conll), ("M", conll)):
        sentence = (tokens, ["B-PER", f"{middle}-PER", "E-PER", "O", "S-LOC", "O", "S-LOC"])
        read = read_bio(write(tmp_path, form([sentence, sentence])))
        assert named(read)[-1] == (tokens, bio)


BAD_TAGS = [
    ("no label", conll() + "\n好\n", r"line 14: the token '好' has no label"),
    ("no token", conll() + "\n\tO\n", r"line 14: a label without a token"),
    ("four columns", conll() + "\nEU NNP B-NP O\n", r"line 14: 4 columns; expected two"),
    ("unknown shape", conll() + "\n好\tX-LOC\n", r"line 14: label 'X-LOC'; expected O, B-TYPE"),
    ("header", "token\tlabel\n" + conll(), r"line 1: label 'label'"),
    ("a type once", conll() + "\n好\tB-LCO\n", r"line 14: the type 'LCO' has only the entity that"),
    ("only O", "好\tO\n坏\tO\n", r"a.txt: holds no entity"),
    ("blank lines", "\n \n\n", r"a.txt: holds no token"),
    ("GBK", conll().encode("gb18030"), r"line 1: byte 0x.* is not utf-8-sig; .*\"gb18030\""),
    ("next", "王\tB-PER\n\n明\tI-PER\n", r"line 3: 'I-PER' of .* after O; .*\(--policy repair\)"),
    ("no blank line", "好\tO\n" * (MAX_TOKENS + 1), r"line 1: the sentence that begins here has"),
    ("fewer labels", msra() + "好\002坏\tO\n", r"line 3: 2 tokens and 1 label; expected one label"),
    ("no labels", msra() + "好\002坏\n", r"line 3: tokens without labels"),
    ("msra token", msra() + "好\002\tO\002O\n", r"line 3: token 2 of 2 is empty"),
]


@pytest.mark.parametrize(("content", "message"), cases(BAD_TAGS))
def test_a_bad_tag_file_is_refused_with_its_line(tmp_path, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read_bio(write(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_labels_that_were_not_announced_are_refused(tmp_path):
    path = write(tmp_path, conll())
    with pytest.raises(
        InputError, match=r"line 4: unknown label 'B-LOC'; expected one of 'O', 'B-"
    ):
        read_bio(path, ["O", "B-PER", "I-PER"])
    for labels in (["O", "B-PER"], ["B-PER", "I-PER"], ["O", "O"]):
        with pytest.raises(InputError, match="label_list: "):
            read_bio(path, labels)
    with pytest.raises(InputError, match="policy: is 'ignore'; expected one of strict, repair"):
        read_bio(path, policy="ignore")


@pytest.mark.parametrize("seed", range(10))
def test_what_the_writer_wrote_is_read(tmp_path, seed):
    rng = random.Random(seed)
    examples = []
    for _ in range(20):
        tokens, labels = ["x", "y"], [1, 3]
        for _ in range(rng.randint(0, 20)):
            tokens.append(rng.choice('好坏a"\u3000 ,\u2028\x85😀'))
            last = labels[-1]
            labels.append(rng.choice([0, 1, 3, last + last % 2]))
        examples.append({"tokens": tokens, "labels": labels})
    write_official("msra_ner", examples, tmp_path / "f", label_list=LABELS)
    assert read_bio(tmp_path / "f", LABELS).data == examples


# --- questions --------------------------------------------------------------------------------

CONTEXT = " 王明在北京，李红也在北京。"
ANSWERS = [{"text": "北京", "answer_start": 4}, {"text": "北京", "answer_start": 11}]
QUESTIONS = [
    {"id": "q-1", "question": "王明在哪里？", "answers": ANSWERS},
    {"id": "q-2", "question": "多大？", "answers": [], "is_impossible": True},
]
PARAGRAPHS = [{"context": CONTEXT, "qas": QUESTIONS}]
SQUAD = {"version": "1.1", "data": [{"title": "城", "paragraphs": PARAGRAPHS}]}


def squad(folder, change=None, text=None, **options):
    data = copy.deepcopy(SQUAD)
    if change is not None:
        change(data)
    content = json.dumps(data, ensure_ascii=False, indent=1) if text is None else text
    return read_squad(write(folder, content, "a.json"), **options)


def paragraph(data):
    return data["data"][0]["paragraphs"][0]


def asked(data):
    return paragraph(data)["qas"][0]


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_questions_of_every_layout_and_encoding(tmp_path, indent, end, coding):
    content = json.dumps(SQUAD, ensure_ascii=False, indent=indent).replace("\n", end)
    encoding = {} if coding.startswith("utf-8") else {"encoding": coding}
    dataset = read_squad(write(tmp_path, content, "a.json", coding), **encoding)
    assert dataset.data == [
        {
            "id": "q-1",
            "context": CONTEXT,
            "question": "王明在哪里？",
            "answers": ["北京"] * 2,
            "answer_starts": [4, 11],
        },
        {"id": "q-2", "context": CONTEXT, "question": "多大？", "answers": [], "answer_starts": []},
    ]


def test_what_the_writers_wrote_is_read(tmp_path):
    examples = [{**row, "context": row["context"].strip()} for row in squad(tmp_path).data]
    examples[0]["answer_starts"] = [3, 10]
    write_official("squad", examples, tmp_path / "s.json")
    assert read_squad(tmp_path / "s.json").data == examples
    write_official("cmrc2018", examples, tmp_path / "c.json")
    with pytest.raises(InputError, match=r"qas\[1\] has no answer; expected an answer, \"is_imp"):
        read_squad(tmp_path / "c.json")
    assert read_squad(tmp_path / "c.json", require_answers=False).data == examples


def test_questions_as_published_are_repaired(tmp_path):
    def change(data):
        answer(data)["answer_start"] = -1
        qas, one = paragraph(data)["qas"], {"text": "北京", "answer_start": 12}
        more = [
            ("q-3", "哪？", [one]),
            ("q-4", " ", [one]),
            ("q-5", "谁？", [{**one, "text": "上海"}]),
        ]
        qas += [{"id": name, "question": asks, "answers": given} for name, asks, given in more]

    with pytest.warns(UserWarning) as caught:
        read = squad(tmp_path, change, policy="repair").data
    assert [row["id"] for row in read] == ["q-1", "q-2", "q-3"]
    assert read[0]["answer_starts"] == [4, 4] and read[2]["answer_starts"] == [11]
    said = " ".join(str(each.message) for each in caught)
    for part in (
        "answers moved to where they are: 2 (lines 18, 3",
        "questions without text dropped: 1 (line 40, questions 'q-4')",
        "answers that their context lacks dropped: 1 (line ",
        "questions without an answer dropped: 1 (line ",
    ):
        assert part in said
    one_line = json.dumps(json.loads((tmp_path / "a.json").read_bytes()))
    with pytest.warns(UserWarning) as caught:
        squad(tmp_path, text=one_line, policy="repair")
    assert "are: 2 (line 1, questions 'q-1', 'q-3')" in str(caught[0].message)
    for policy, words in (("strict", r"answer_start -1.*\(--pol"), ("mend", "policy: is 'mend'")):
        with pytest.raises(InputError, match=words):
            squad(tmp_path, change, policy=policy)


def set_to(where, key, value):
    return lambda data: where(data).update({key: value})


def delete(where, key):
    return lambda data: where(data).pop(key)


def answer(data):
    return asked(data)["answers"][1]


def root(data):
    return data


# fmt: off
WRONG = [
    ("offset", set_to(answer, "answer_start", 10), 18,
     r"\.answers\[1\] '北京' is not at answer_start 10; expected the offset 11, where"),
    ("other text", set_to(answer, "text", "上海"), 18,
     r"'上海' is not at answer_start 11; .* that it contains"),
    ("float", set_to(answer, "answer_start", 11.0), 18, r"answer_start is 11.0; expected a whole"),
    ("no offset", delete(answer, "answer_start"), 18,
     r"answers\[1\] has no 'answer_start' \(found 'text'\)"),
    ("empty text", set_to(answer, "text", " "), 18, r"empty text in '.*answers\[1\]\.text'"),
    ("empty question", set_to(asked, "question", ""), 10, r"empty text in '.*qas\[0\]\.question'"),
    ("answers object", set_to(asked, "answers", {"text": ["北京"]}), 10,
     r"qas\[0\]\.answers is JSON object; expected an array"),
    ("impossible", set_to(asked, "is_impossible", 1), 10, r"is_impossible is a JSON number"),
    ("no question", delete(asked, "question"), 10, r"qas\[0\] has no 'question'"),
    ("id again", set_to(asked, "id", "q-2"), 24,
     r"qas\[1\] has the id 'q-2' of data\[0\]\.paragraphs\[0\]\.qas\[0\]"),
    ("no context", delete(paragraph, "context"), 7,
     r"^\S+, line 7: data\[0\]\.paragraphs\[0\] has no 'context' \(found 'qas'\)"),
    ("context long", set_to(paragraph, "context", "a" * 100_001), 7, r"a text of 100,001 charac"),
    ("no entry", set_to(root, "data", []), 1, r"holds no question"),
]
# fmt: on


@pytest.mark.parametrize(("change", "line", "message"), cases(WRONG))
def test_json_of_the_wrong_shape_is_refused_with_its_line(tmp_path, change, line, message):
    with pytest.raises(InputError, match=message) as caught:
        squad(tmp_path, change)
    assert caught.value.line == line
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


TEXT = json.dumps(SQUAD, ensure_ascii=False, indent=1)
BROKEN = [
    ("list", "[" + TEXT + "]", 1, r"the file is a JSON array; expected an object {\"data\""),
    ("cut", TEXT[: TEXT.index("王明在哪里")], 12, r"not valid JSON \(Unterminated string"),
    ("two objects", TEXT + "\n{}", 1 + len(TEXT.splitlines()), r"not valid JSON \(Extra data"),
    ("deep", '{"data":\n' + "[" * 10**5, 2, r"JSON nested too deeply"),
    ("exponent", TEXT.replace(": 11", ": 1e999"), 18, r"answer_start is inf"),
    ("nul", TEXT.replace("王明在哪里", "\\u0000"), 10, r"a NUL or half a surrogate pair"),
]


@pytest.mark.parametrize(("text", "line", "message"), cases(BROKEN))
def test_broken_json_is_refused_with_its_line(tmp_path, text, line, message):
    with pytest.raises(InputError, match=message) as caught:
        squad(tmp_path, text=text)
    assert caught.value.line == line
    assert len(str(caught.value)) < 400


def test_reading_questions_takes_time_in_proportion_to_their_number(tmp_path):
    answers = [{"text": "北京", "answer_start": 4}]
    rows = [{"id": f"q-{n}", "question": "?", "answers": answers} for n in range(4000)]
    paragraphs = [{"context": CONTEXT * 10, "qas": rows[n : n + 3]} for n in range(0, 4000, 3)]
    start = time.perf_counter()
    assert len(squad(tmp_path, lambda data: data["data"][0].update(paragraphs=paragraphs))) == 4000
    # a second; a minute when each line number is counted from the beginning of the file
    assert time.perf_counter() - start < 20
