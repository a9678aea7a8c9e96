"""The paragraphs of chapter 22's question-answer desk: data/desk/paragraphs.tsv.bz2.

    python -m tools.corpora.desk TEXTS

TEXTS is a folder with one file for each source, NAME.txt.gz: one paragraph of its Markdown files
per line, without code and markup (`SOURCES` has the names). The same files make the same result.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import course_lib  # noqa: F401  before paddle
from course_lib import runtime
from course_lib.chapters.ch22 import load_paragraphs, load_questions
from tools.corpora.reporting import markdown_table, write_checksums

SOURCES = {"rust": "trpl-zh-cn", "hf": "hf-course-zh", "paddle": "paddle-docs"}
NAMES = {"rust": "The Rust Programming Language", "hf": "Hugging Face course", "paddle": "Paddle"}
LENGTHS = 50, 260  # characters of a paragraph
GRAM, SHARED = 8, 0.6  # a near-duplicate has this share of its 8-grams in an earlier paragraph
_HAN = re.compile(r"[\u4e00-\u9fff]")
_LINK = re.compile(r"\[([^\[\]]+)\](?:\[[^\[\]]*\]|\([^()]*\))")
_OUT = re.compile(r"[|$]|https?:|\[\[|^[✏🚨]|^[-+•]|^\d+[.、]|示例代码|如下：|以下示例|翻译")


def clean(line: str) -> str:
    """A paragraph without links, emphasis and the emoji at its start."""
    text = _LINK.sub(r"\1", line).replace("**", "").replace("*", "").replace("\t", " ")
    return re.sub(r"^[💡⚠️\s]+", "", text).strip()


def kept(text: str) -> bool:
    """Whether a paragraph is prose of the right length that ends a sentence."""
    return (
        LENGTHS[0] <= len(text) <= LENGTHS[1]
        and len(_HAN.findall(text)) >= 0.6 * len(text)
        and text[-1] in "。！？）"
        and not _OUT.search(text)
    )


def paragraphs(texts: Path) -> dict[str, str]:
    """The text of each paragraph by its id, in the order of the sources' files."""
    rows: dict[str, str] = {}
    seen: set[str] = set()
    for source, name in SOURCES.items():
        count = 0
        with gzip.open(texts / f"{name}.txt.gz", "rt", encoding="utf-8") as handle:
            for text in filter(kept, map(clean, handle)):
                grams = {text[i : i + GRAM] for i in range(len(text) - GRAM + 1)}
                if len(grams & seen) < SHARED * len(grams):
                    rows[f"{source}-{count:04d}"] = text
                    count += 1
                seen |= grams
    return rows


def report() -> str:
    """The table of data/README.md: paragraphs and questions by source."""
    texts = load_paragraphs()
    counts = {
        split: Counter(
            row["paragraphs"][0].split("-")[0] if row["paragraphs"] else ""
            for row in load_questions(split)
        )
        for split in ("train", "dev", "test")
    }
    table = []
    for source, name in NAMES.items():
        own = [text for key, text in texts.items() if key.startswith(f"{source}-")]
        table.append([name, len(own), sum(map(len, own)), *(c[source] for c in counts.values())])
    table.append(["not answered by them", 0, 0, *(c[""] for c in counts.values())])
    header = ["documents", "paragraphs", "characters", "train", "dev", "test"]
    return markdown_table(header, table)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the file and the checksums."""
    parser = argparse.ArgumentParser(prog="python -m tools.corpora.desk")
    parser.add_argument("texts", type=Path, help="the folder of the sources' text files")
    rows = paragraphs(parser.parse_args(arguments).texts)
    content = "".join(f"{name}\t{text}\n" for name, text in rows.items()).encode()
    path = runtime.data_dir() / "desk" / "paragraphs.tsv.bz2"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bz2.compress(content))
    print(f"{len(rows):,} paragraphs, {path.stat().st_size:,} bytes")
    print(write_checksums(), end="")


if __name__ == "__main__":
    main()
