"""Readers of a user's own files: what they give, and the one line that bad input gets."""

import io
import json
import os
import random

import course_lib  # noqa: F401 - before paddle
from course_lib.data import read_bio, read_examples, read_squad
from course_lib.data.examples import PAIR_COLUMNS
from course_lib.data.readers import MAX_TEXT
from course_lib.models import load_backbone
from course_lib.runtime import InputError
from course_lib.runtime.visible import is_blank
from course_lib.tasks.hierarchical.doccano import read_doccano
from course_lib.tasks.hierarchical.files import read_labels as read_taxonomy
from course_lib.tasks.hierarchical.files import read_texts as read_data
from course_lib.tasks.tagging.term_tree import TermTree

import pytest

ROWS = [
    ("房间很干净，下次还住。", "1"),
    ('他说"太吵"了', "0"),
    ("屏幕不错", "1"),
    ("没有驱动盘", "0"),
]
TSV = "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS)
JSONL = "".join(json.dumps({"text": t, "label": int(n)}) + "\n" for t, n in ROWS)


def write(folder, name, content, encoding="utf-8"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def read_texts(source, **layout):
    return [row["text"] for row in read_examples(source, require_label=False, **layout)]


def pairs(dataset):
    return [(row["text"], dataset.label_list[row["label"]]) for row in dataset.data]


def csv_of(rows, end="\n"):
    quoted = [(text.replace('"', '""'), label) for text, label in rows]
    return f"text,label{end}" + "".join(f'"{text}",{label}{end}' for text, label in quoted)


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl", ".TSV"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last_line_ends", [True, False])
@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_every_format_line_end_and_encoding_gives_the_same(
    tmp_path, suffix, end, last_line_ends, coding
):
    content = {".tsv": TSV, ".csv": csv_of(ROWS), ".jsonl": JSONL}[suffix.lower()]
    content = content.replace("\n", end)
    if not last_line_ends:
        content = content.removesuffix(end)
    path = write(tmp_path, "reviews" + suffix, content, coding)
    asked = {} if coding.startswith("utf-8") else {"encoding": coding}
    dataset = read_examples(path, **asked)
    assert pairs(dataset) == ROWS
    assert dataset.label_list == ["0", "1"]
    assert read_texts(path, **asked) == [text for text, _ in ROWS]


@pytest.mark.parametrize("seed", range(20))
def test_random_texts_come_back_unchanged(tmp_path, seed):
    rng = random.Random(seed)
    alphabet = "好坏 abc\"',;|\\#\u3000\u2028\x85\x0b😀。"
    csv_alphabet = alphabet + "\t\n"
    for name, letters in (("r.tsv", alphabet), ("r.csv", csv_alphabet), ("r.jsonl", csv_alphabet)):
        rows = [
            ("x" + "".join(rng.choices(letters, k=rng.randint(0, 30))), rng.choice("ab"))
            for _ in range(rng.randint(1, 30))
        ]
        rows += [("x", "a"), ("x", "a"), ("y", "b"), ("y", "b")]
        content = {
            "r.tsv": "label\tid\ttext\n" + "".join(f"{n}\t7\t{t}\n" for t, n in rows),
            "r.csv": csv_of(rows),
            "r.jsonl": "".join(
                json.dumps({"id": 1, "text": t, "label": n}) + "\n" for t, n in rows
            ),
        }[name]
        assert pairs(read_examples(write(tmp_path, name, content))) == rows


def test_labels_sort_as_numbers_or_as_text(tmp_path):
    for labels, expected in (
        (["10", "2", "-1"], ["-1", "2", "10"]),
        (["10", "b", "2"], ["10", "2", "b"]),
    ):
        path = write(tmp_path, "a.tsv", "text\tlabel\n" + "".join(f"x\t{n}\n" for n in labels * 2))
        assert read_examples(path).label_list == expected


def test_a_given_label_list_keeps_its_order_and_none_is_needed_to_predict(tmp_path):
    path = write(tmp_path, "a.tsv", "text\tlabel\n好\tpos\n坏\tneg\n")
    dataset = read_examples(path, label_list=["pos", "neutral", "neg"])
    assert [row["label"] for row in dataset.data] == [0, 2]
    assert dataset.label_list == ["pos", "neutral", "neg"]
    dataset = read_examples(write(tmp_path, "a.csv", "text\n好\n"), require_label=False)
    assert dataset.data == [{"text": "好"}]
    assert dataset.label_list is None


@pytest.mark.parametrize("stream", [io.BytesIO("好\r\n坏\r\n\r\n".encode()), io.StringIO("好\n坏")])
def test_a_stream_is_one_text_a_line(stream):
    assert read_texts(stream) == ["好", "坏"]


def test_marks_of_joined_files_are_dropped_and_texts_keep_their_joiners(tmp_path):
    rows = [("好", "a"), ("坏", "b"), ("👨\u200d👩\u200d👧 a\u0301", "a"), ("坏\u200b", "b")]
    lines = ["\ufeff\ufefftext\tlabel\r\n", *(f"\ufeff{text}\t{label}\r" for text, label in rows)]
    path = write(tmp_path, "a.tsv", "".join(lines) + "\ufeff\n")
    assert pairs(read_examples(path)) == rows
    bio = write(tmp_path, "a.txt", "好\tB-A\n\ufeff坏\tB-A\n\ufeff\n\ufeff大\tO\n")
    assert [row["tokens"] for row in read_bio(bio)] == [["好", "坏"], ["大"]]


SQUAD = '{"data": [{"paragraphs": [{"context":\n"\\u200b", "qas": []}]}]}'


@pytest.mark.parametrize(
    ("read", "content", "told"),
    [
        (read_bio, "好\tB-A\n坏\tB-A\u200b\n", r"line 2: U\+200B ZERO WIDTH SPACE in the label"),
        (read_bio, "好\tB-A\n\n\u200b\tO\n \tO\n", "line 3: no token of this sentence can be seen"),
        (read_squad, SQUAD, "line 1: empty text.*: nothing in"),
        (read_taxonomy, "酒店\n酒店##\u200b位置\n", r"line 2: U\+200B ZERO WIDTH SPACE"),
        (read_data, "好\n\ufeff\u200b\n", "line 2: empty text"),
        (read_doccano, '{"text": "好", "label": ["\ufeffa"]}', r"line 1: U\+FEFF BYTE ORDER MARK"),
        (read_doccano, '{"text": "\u200b", "label": ["a"]}', "line 1: empty text"),
        (TermTree.read, "充电\u200b宝\t物\n", r"line 1: its name is '充电\\u200b宝'"),
    ],
)
def test_what_cannot_be_seen_is_refused_by_every_reader(tmp_path, read, content, told):
    with pytest.raises(InputError, match=told):
        read(write(tmp_path, "a.txt", content))


def test_blank_is_what_the_tokenizer_finds_no_token_in():
    _, tokenizer = load_backbone("fresh", vocab_texts=["好"])
    drawn = {"\u115f", "\u1160", "\u2800", "\u3164"}  # [UNK] to the tokenizer, nothing to the eye
    for code in (*range(0x3165), *range(0xD7F0, 0xE010), *range(0xFE00, 0x10000)):
        character = chr(code)
        blank = not tokenizer.tokenize(character)
        seen_as_nothing = character in drawn or character == "\uffa0"
        assert is_blank(character) == (blank or seen_as_nothing), f"{code:04X}"


TWO = "text\tlabel\n好\ta\n坏\tb\n"
# fmt: off
BAD = [
    ("double column", "a.tsv", "text\ttext\tlabel\n好\t好\t1\n", r"line 1: the header repeats"),
    ("empty text", "a.tsv", TWO + "\ta\n", r"line 4: empty text"),
    ("empty file", "a.tsv", b"", r"is empty; expected"),
    ("header only", "a.tsv", "text\tlabel\n", r"holds no example"),
    ("seen once", "a.tsv", TWO + "好\ta\n", r"line 3: label 'b' is seen only here"),
    ("one label", "a.tsv", "text\tlabel\n好\ta\n好\ta\n", r"only one label \('a'\)"),
    ("too few fields", "a.tsv", TWO + "\n好\n", r"line 5: 1 field; expected 2"),
    ("gb18030", "a.tsv", TWO.encode("gb18030"), r'line 2: byte 0xba .*="gb18030" \(--encoding'),
    ("no encoding", "a.tsv", TWO.encode() + b"\xff\xff\xff",
     r"line 4: byte 0xff .*save the file as"),
    ("utf-16", "a.tsv", TWO.encode("utf-16"), r'is UTF-16; .*"utf-16" \(--encoding utf-16\)'),
    ("utf-32", "a.tsv", TWO.encode("utf-32"), r'is UTF-32; .*"utf-32"'),
    ("nul", "a.tsv", TWO + "好\0\ta\n", r"line 4: holds a NUL"),
    ("long line, tsv", "a.tsv", TWO + "好" * 2**20 + "\ta\n", r"line 4: a text of 1,048,576 char"),
    ("long text, csv", "a.csv", "text,label\n" + "好" * (MAX_TEXT + 1) + ",a\n",
     r"line 2: a text of"),
    ("open quote", "a.csv", 'text,label\n好,a\n"坏,b\n好,a\n',
     r"line 3: the record that begins here is not well-formed CSV .*end of data"),
    ("lines in quotes", "a.csv", 'text,label\n"one\ntwo\nthree",a\n"four\nfive",\n',
     r"line 5: empty label"),
    ("stray quote", "a.csv", 'text,label\n"好"啊,a\n', r"line 2: .*not well-formed CSV"),
    ("invalid JSON", "a.jsonl", JSONL + "{'text': 1}\n", r"line 5: not valid JSON .*column 2"),
    ("JSON array", "a.jsonl", JSONL + "[]\n", r"line 5: JSON array, not an object"),
    ("file is an array", "a.jsonl", '[\n {"text": "a", "label": 1}\n]\n',
     r"line 1: the file is a JSON array, .*jq -c"),
    ("JSON deep", "a.jsonl", "[" * 10**5, r"line 1: JSON out of bounds"),
    ("text no string", "a.jsonl", '{"text": 5, "label": 1}\n', r"line 1: text is a JSON number"),
    ("label float", "a.jsonl", '{"text": "a", "label": 0.5}\n', r"line 1: label is a JSON number"),
    ("half a surrogate", "a.jsonl", '{"text": "a\\ud800", "label": 1}\n', r"line 1: .*surrogate"),
    ("label line end", "a.csv", 'text,label\n好,"a\nb"\n', r"line 2: U\+000A a control"),
    ("label filler", "a.tsv", TWO + "好\t\u3164\n", r"line 4: U\+3164 HANGUL FILLER"),
    ("zero-width text", "a.tsv", TWO + "\u200b\ta\n",
     r"line 4: empty text in 'text': nothing in '\\u200b' can be seen"),
    ("label huge", "a.tsv", f"text\tlabel\n好\t{'9' * 5000}\n", r"line 2: a label of 5,000 char"),
    ("suffix", "a.xlsx", TWO, r"unknown suffix '.xlsx'; expected one of .tsv, .csv, .jsonl"),
]
# fmt: on


@pytest.mark.parametrize(
    ("name", "content", "message"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD]
)
def test_bad_files_get_one_line_that_names_file_and_line(tmp_path, name, content, message):
    path = write(tmp_path, name, content)
    before = path.read_bytes()
    with pytest.raises(InputError, match=message) as caught:
        read_examples(path)
    told = str(caught.value)
    assert told.startswith(str(path))
    assert "; expected " in told and "\n" not in told and len(told) < len(str(path)) + 300
    assert path.read_bytes() == before


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.tsv")
    (tmp_path / "loop.tsv").symlink_to("loop.tsv")
    (tmp_path / "folder.tsv").mkdir()
    (tmp_path / "a\nb\x1b.tsv").write_text("text\tlabel\n")
    for name, message in (
        ("pipe.tsv", "is a device or a pipe"),
        ("loop.tsv", "cannot be read .Too many levels of symbolic links"),
        ("folder.tsv", "is a directory; expected a file"),
        ("missing.tsv", "does not exist"),
        ("a\nb\x1b.tsv", r"a\\nb\\x1b.tsv: holds no example"),
    ):
        with pytest.raises(InputError, match=message):
            read_examples(tmp_path / name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["text", "label"]}, r"a header \('text', 'label'\) though columns were named"),
        ({"columns": ["text", "id"]}, "no column 'label' in columns"),
        ({"label_list": ["b", "c"]}, "line 2: unknown label 'a'; expected one of 'b', 'c'"),
        ({"label_list": ["a", "a"]}, "repeats a label"),
        ({"encoding": "gb18030"}, 'mark of UTF-8; expected encoding="utf-8"'),
        *(({"encoding": name}, "encoding: unknown") for name in ("klingon", "hex", "a\0", "")),
    ],
)
def test_options_that_do_not_fit(tmp_path, options, message):
    path = write(tmp_path, "a.tsv", TWO + "好\ta\n坏\tb\n", "utf-8-sig")
    with pytest.raises(InputError, match=message):
        read_examples(path, **options)
    with pytest.raises(InputError, match="columns: given for a"):
        read_examples(write(tmp_path, "a.jsonl", JSONL), columns=["text", "label"])
    with pytest.raises(InputError, match=r'byte .* is not ascii; .*encoding="utf-8" \(--encoding'):
        read_examples(write(tmp_path, "b.tsv", TWO), encoding="ascii")


SORTED = "label,review\n1,早餐好\n1,房间大\n0,太吵\n0,又脏\n"  # as ChnSentiCorp and others have it


def test_columns_are_chosen_from_a_header(tmp_path):
    path = write(tmp_path, "a.csv", SORTED.replace("\n", ",,\n"))  # spreadsheets add empty columns
    dataset = read_examples(path, text_column="review")
    assert dataset[0] == {"text": "早餐好", "label": 1} and dataset.label_list == ["0", "1"]
    named = read_examples(path, text_column="review", label_names=["差", "好"])
    assert named[0] == {"text": "早餐好", "label": 1} and named.label_list == ["差", "好"]
    other = read_examples(path, ["好", "差"], text_column="review", label_names=["差", "好"])
    assert other[0]["label"] == 0
    lines = [{"q1": "a", "q2": "b", "same": n} for n in (0, 0, 1, 1)]
    path = write(tmp_path, "a.txt", "".join(json.dumps(line) + "\n" for line in lines))
    names = {"text_column": "q1", "text_pair_column": "q2", "label_column": "same"}
    pairs = read_examples(path, format="jsonl", **names)
    assert pairs[3] == {"sentence1": "a", "sentence2": "b", "label": 1}


@pytest.mark.parametrize(
    ("name", "content", "layout", "message"),
    [
        ("a.csv", SORTED, {}, r"line 1: no column 'text' .*--text_column review, or .*--columns"),
        ("a.csv", SORTED, {"columns": ["label", "text"]}, r"line 1: a header \('label', 'review'"),
        ("a.csv", "Rating" + SORTED[5:], {"columns": ["label", "text"]}, r"line 1: a header"),
        ("a.csv", SORTED, {"text_column": "review", "label_names": ["差"]}, "line 2: the label 1;"),
        ("a.csv", SORTED, {"text_column": "label"}, "text_column: is 'label' twice"),
        ("a.csv", SORTED + "1,\n", {"text_column": "review"}, "line 6: empty text in 'review'"),
        ("a.tsv", "sentence1\n怎么退款\n", PAIR_COLUMNS, "line 1: no column 'sentence2' in the h"),
        ("a.csv", SORTED + "1,好\ufeff\n", {"text_column": "review"}, r"line 6: .*U\+FEFF. in 're"),
        ("a.csv", SORTED + ",好\n", {"text_column": "review"}, "line 6: empty label in 'label'"),
        ("a.txt", SORTED, {}, "is plain text.*--format tsv, csv or jsonl"),
        ("a.jsonl", JSONL, {"text_column": "review"}, "line 1: no key 'review'.*_column text"),
    ],
)
def test_a_layout_that_does_not_fit_is_explained(tmp_path, name, content, layout, message):
    with pytest.raises(InputError, match=message):
        read_examples(write(tmp_path, name, content), **layout)


def test_what_is_empty_is_left_out_and_counted(tmp_path):
    content = SORTED + "1,\n0,\u200b\n,好\n1,\ufeff干\ufeff净\n"
    path = write(tmp_path, "a.csv", content)
    with pytest.warns(UserWarning) as told:
        rows = read_examples(path, text_column="review", skip_empty=True)
    assert [row["text"] for row in rows] == ["早餐好", "房间大", "太吵", "又脏", "干净"]
    assert [str(each.message) for each in told] == [
        f"{path}: rows with nothing in 'review' are left out: 2 (lines 6, 7)",
        f"{path}: rows with nothing in 'label' are left out: 1 (lines 8)",
        f"{path}: byte order marks in 'review' are left out: 1 (lines 9)",
    ]
    path = write(tmp_path, "b.jsonl", '{"text": null}\n{"text": "好"}\n')
    with pytest.warns(UserWarning, match="out: 1 .lines 1"):
        assert read_texts(path, skip_empty=True) == ["好"]


def test_texts_that_are_none(tmp_path):
    for content, message in (
        ("\n\n", "holds no text"),
        ("好\n \n坏", "line 2: empty text"),
        ("a" * 2**20, "line 1: a text of"),
        ("王 B-PER\n明 E-PER\n\n去 O\n", "line 1: labeled tokens .'王 B.* evaluate reads"),
        ("\n王\tB-PER\n明\tI-PER\n", "line 2: labeled tokens"),
        ("王\002明\tB-PER\002I-PER\n" * 2, "line 1: labeled tokens"),
    ):
        for skip_empty in (False, "labeled" in message):
            with pytest.raises(InputError, match=message):
                read_texts(write(tmp_path, "a.txt", content), skip_empty=skip_empty)
    texts = ["甲 O", "他住 B-2 栋。", "吃维生素 B-12", "你好"]
    assert read_texts(write(tmp_path, "a.txt", "\n".join(texts))) == texts
