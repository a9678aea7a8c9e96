"""Seconds and memory of every reader of a user's files at 1,000 to 100,000 rows: one JSON line.

    python benchmarks/readers.py

Each reader reads a file that it finds no fault in, with rows of 40 to 80 characters; a row is a
line, a sentence of a tagged file, or a question (three to a passage of 200 characters). `seconds`
is the faster of two reads. `peak_mib` is what Python allocated meanwhile at most, the rows that are
given back included, in a third read. `growth` is the time of a row in the largest file over that in
the middle one: about 1 where time is linear, 10 where it is quadratic.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib import data
from course_lib.data.examples import PAIR_COLUMNS
from course_lib.tasks.hierarchical.doccano import read_doccano
from course_lib.tasks.hierarchical.files import read_dataset, read_labels, read_texts
from course_lib.tasks.hierarchical.taxonomy import Taxonomy
from course_lib.tasks.tagging.term_tree import TermTree

TEXT = "房间很干净，早餐也不错，就是离地铁站有点远，下次还会再来。服务员态度很好，"
TAXONOMY = Taxonomy(["酒店", "酒店##好评", "酒店##差评"])
PASSAGE = TEXT * 5


def text(row: int) -> str:
    return TEXT[: 35 - row % 7] * (1 + row % 2) + str(row)


def dumps(value: object, **options) -> str:
    return json.dumps(value, ensure_ascii=False, **options)


def squad(rows: int) -> str:
    answers = [{"text": "早餐", "answer_start": PASSAGE.index("早餐")}]
    paragraphs = [
        {
            "context": f"{PASSAGE}{first}",
            "qas": [
                {"id": f"q{row}", "question": f"{row}房早餐怎么样？", "answers": answers}
                for row in range(first, min(first + 3, rows))
            ],
        }
        for first in range(0, rows, 3)
    ]
    return dumps({"data": [{"paragraphs": paragraphs}]}, indent=1)


def lines(head: str, line: Callable[[int], str]) -> Callable[[int], str]:
    return lambda rows: head + "".join(line(row) + "\n" for row in range(rows))


TAGS = ["B-PER", "I-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "I-LOC", "O"] * 5
TOKENS = "王小明去过北京市。" * 5
CONLL = "".join(f"{token}\t{tag}\n" for token, tag in zip(TOKENS, TAGS, strict=True))
READERS: dict[str, tuple[str, Callable[[int], str], Callable]] = {
    "read_examples tsv": (
        "a.tsv",
        lines("text\tlabel\n", lambda i: f"{text(i)}\t{i % 2}"),
        data.read_examples,
    ),
    "read_examples csv": (
        "a.csv",
        lines("text,label\n", lambda i: f'"{text(i)}\n",{i % 2}'),
        data.read_examples,
    ),
    "read_examples jsonl": (
        "a.jsonl",
        lines("", lambda i: dumps({"text": text(i), "label": i % 2})),
        data.read_examples,
    ),
    "read_examples txt": (
        "a.txt",
        lines("", text),
        lambda path: data.read_examples(path, require_label=False),
    ),
    "read_examples pairs": (
        "a.tsv",
        lines("sentence1\tsentence2\tlabel\n", lambda i: f"{text(i)}\t{text(i + 1)}\t{i % 2}"),
        lambda path: data.read_examples(path, **PAIR_COLUMNS),
    ),
    "read_bio conll": ("a.txt", lines("", lambda i: CONLL), data.read_bio),
    "read_bio msra": (
        "a.txt",
        lines("", lambda i: "\002".join(TOKENS) + "\t" + "\002".join(TAGS)),
        data.read_bio,
    ),
    "read_squad": ("a.json", squad, data.read_squad),
    "hierarchical.read_dataset": (
        "a.txt",
        lines("", lambda i: f"{text(i)}\t酒店,酒店##好评"),
        lambda path: read_dataset(path, TAXONOMY),
    ),
    "hierarchical.read_labels": ("a.txt", lines("酒店\n", lambda i: f"酒店##{i}"), read_labels),
    "hierarchical.read_texts": ("a.txt", lines("", text), read_texts),
    "read_doccano": (
        "a.jsonl",
        lines("", lambda i: dumps({"text": text(i), "label": ["酒店##好评"]})),
        read_doccano,
    ),
    "TermTree.read": (
        "a.tsv",
        lines("车\t产品\n", lambda i: f"车型{i}\t产品\t车\t型{i},{i}型"),
        TermTree.read,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    args = parser.parse_args()
    result: dict = {"task": "readers: seconds and peak MiB", "rows": args.rows}
    with tempfile.TemporaryDirectory() as directory:
        for name, (file, write, read) in READERS.items():
            path = Path(directory, file)
            measured = []
            for rows in args.rows:
                path.write_text(write(rows), encoding="utf-8")
                measured.append((min(seconds(read, path), seconds(read, path)), peak(read, path)))
            times, peaks = zip(*measured, strict=True)
            result[name] = {
                "seconds": [round(each, 3) for each in times],
                "peak_mib": [round(each, 1) for each in peaks],
                "growth": round(times[-1] / args.rows[-1] / (times[-2] / args.rows[-2]), 2),
            }
    print(json.dumps(result))


def seconds(read: Callable, path: Path) -> float:
    start = time.perf_counter()
    read(path)
    return time.perf_counter() - start


def peak(read: Callable, path: Path) -> float:
    tracemalloc.start()
    read(path)
    most = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return most


if __name__ == "__main__":
    main()
