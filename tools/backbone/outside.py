"""Out-of-domain tasks from the paragraphs that prepare.py holds out of pretraining.

    python tools/backbone/outside.py --texts CORPUS_DIR     the baselines: one JSON line
    python tools/backbone/outside.py --texts CORPUS_DIR --tokenizer DIRECTORY --output outside.npz

authors: who wrote this passage? Five novelists and scholars; dev and test are from other works of
theirs than train, so that the names of characters do not help.
sources: which documentation or law is this from, without its Latin letters and digits? Dev and test
are later parts of the files.
headings: which paragraph stands under this heading?
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import dataclass
from pathlib import Path

import course_lib  # noqa: F401  before paddle
from course_lib.runtime import atomic_file

import numpy as np
from prepare import read_documents

SPLITS = ("train", "dev", "test")
AUTHORS = {  # works of train, dev and test
    "李涵秋": (("广陵潮",), ("战地莺花录",), ("侠凤奇缘",)),
    "还珠楼主": (
        ("云海争奇记", "独手丐", "兵书峡"),
        ("龙山四友", "黑蚂蚁"),
        ("女侠夜明珠", "大漠英雄"),
    ),
    "李劼人": (("大波",), (), ("死水微澜",)),
    "张恨水": (("牛马走", "落霞孤鹜"), ("水浒新传",), ("满城风雨",)),
    "胡适": (
        ("胡适留学日记", "中国哲学史大纲"),
        ("白话文学史",),
        ("中国章回小说考证", "容忍与自由"),
    ),
}
SHORTEST, LONGEST = 20, 100  # characters of a passage
PER_CLASS = {"train": 400, "dev": 100, "test": 200}
HEADING = 24  # characters at most


@dataclass
class Outside:
    """Texts and labels of the splits of the two classifications, and (heading, paragraph) pairs."""

    classes: dict[str, list[str]]
    rows: dict[tuple[str, str], list[tuple[str, int]]]
    headings: list[tuple[str, str]]


def load_outside(directory: Path) -> Outside:
    """Build the three tasks from the held-out paragraphs of a directory of texts."""
    documents: dict[tuple[str, str], list[str]] = {}
    for source, document, text, out in read_documents(directory):
        if out:
            documents.setdefault((source, document), []).append(text)
    rows: dict[tuple[str, str], list[tuple[str, int]]] = {}
    sources = sorted({source for source, _ in documents} - {"literature"})

    def add(task: str, split: str, passages: list[str], label: int) -> None:
        long = [passage for passage in passages if len(passage) >= SHORTEST]
        chosen = random.Random(split).sample(long, min(len(long), PER_CLASS[split]))
        rows.setdefault((task, split), []).extend((passage, label) for passage in chosen)

    for number, split in enumerate(SPLITS):
        for label, works in enumerate(AUTHORS.values()):
            lines = [line for work in works[number] for line in documents["literature", work]]
            add(
                "authors",
                split,
                [line[at : at + LONGEST] for line in lines for at in _steps(line)],
                label,
            )
        for label, source in enumerate(sources):
            lines = _part(documents[source, source], number)
            add("sources", split, [_chinese(line)[:LONGEST] for line in lines], label)
    headings = [
        pair
        for source in sources
        for pair in zip(documents[source, source], documents[source, source][1:], strict=False)
        if _is_heading(pair[0]) and len(pair[1]) >= 2 * HEADING
    ]
    unique = dict((heading, text) for heading, text in headings)
    return Outside({"authors": list(AUTHORS), "sources": sources}, rows, sorted(unique.items()))


def _steps(line: str) -> range:
    return range(0, len(line), LONGEST)


def _part(lines: list[str], number: int) -> list[str]:
    half, rest = len(lines) // 2, len(lines) * 5 // 8
    return (lines[:half], lines[half:rest], lines[rest:])[number]


def _chinese(text: str) -> str:
    return "".join(c for c in text if not c.isascii())


def _is_heading(text: str) -> bool:
    return len(_chinese(text)) >= 3 and len(text) <= HEADING and text[-1].isalnum()


def encode(outside: Outside, tokenizer_directory: Path) -> dict[str, np.ndarray]:
    """The arrays that finetune.read_task reads, and `headings` and `paragraphs` alike."""
    from course_lib.training.pretraining import WordEncoder

    from finetune_data import _arrays
    from paddlenlp.transformers import ErnieTokenizer

    tokenizer = ErnieTokenizer.from_pretrained(str(tokenizer_directory))
    encoder = WordEncoder(tokenizer)
    named = {f"{task}_{split}": rows for (task, split), rows in outside.rows.items()}
    named["headings"] = [(heading, 0) for heading, _ in outside.headings]
    named["paragraphs"] = [(text, 0) for _, text in outside.headings]
    arrays = {}
    for name, rows in named.items():
        encoded = [(*encoder(text), label) for text, label in rows]
        arrays.update(_arrays(name, encoded, tokenizer, one_label=True))
    return arrays


def baselines(outside: Outside, split: str = "dev") -> dict[str, float]:
    """TF-IDF of character 1-3-grams: with a LinearSVC, and as an index of the paragraphs."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    def tfidf() -> TfidfVectorizer:
        return TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True)

    scores = {}
    for task in outside.classes:
        texts, labels = zip(*outside.rows[task, "train"], strict=True)
        held, gold = zip(*outside.rows[task, split], strict=True)
        model = make_pipeline(tfidf(), LinearSVC(random_state=0)).fit(texts, labels)
        scores[task] = round(float(np.mean(model.predict(held) == np.array(gold))), 4)
    index = tfidf()
    paragraphs = index.fit_transform([text for _, text in outside.headings])
    near = (index.transform([heading for heading, _ in outside.headings]) @ paragraphs.T).toarray()
    place = (near > near.diagonal()[:, None]).sum(axis=1)
    scores["headings"] = round(float((place < 10).mean()), 4)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    outside = load_outside(options.texts)
    if options.output:
        arrays = encode(outside, options.tokenizer)
        with atomic_file(options.output, "wb") as handle:
            np.savez_compressed(handle, **arrays)
    counts = {"_".join(key): len(rows) for key, rows in outside.rows.items()}
    counts["headings"] = len(outside.headings)
    print(json.dumps({"examples": counts, "tfidf": baselines(outside)}, ensure_ascii=False))


if __name__ == "__main__":
    main()
