"""What the figures of data/README.md have in common: audits, intervals, tables, checksums."""

from __future__ import annotations

import csv
import hashlib

import course_lib  # noqa: F401  before paddle
from course_lib import runtime
from course_lib.data.sources import CHECKSUMS
from course_lib.runtime import atomic_file

from scipy.stats import binomtest

SHIPPED = (
    *("cloze/gold.jsonl", "cloze/questions.json", "desk/paragraphs.tsv.bz2", "desk/questions.tsv"),
    "pairs/pairs.tsv",
    *("people_daily/organisations.json", "review_tree/again.jsonl"),
    *("review_tree/corrections.jsonl", "review_tree/gold.jsonl"),
    *("review_tree/rules.json", "reviews/split.json"),
    *("waybills/by_hand.tsv", "waybills/synthetic.tsv"),
)


def write_checksums() -> str:
    """Write data/SHA256SUMS for the files that the loaders read, and return its text."""
    lines = []
    for name in SHIPPED:
        path = runtime.data_dir() / name
        if path.exists():
            content = path.read_bytes()
            if path.suffix != ".bz2":
                content = content.replace(b"\r\n", b"\n")
            lines.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
    with atomic_file(runtime.data_dir() / CHECKSUMS) as handle:
        handle.write("".join(lines))
    return "".join(lines)


def read_audit(corpus: str) -> list[dict[str, str]]:
    """The rows of data/CORPUS/audit.csv: what a reader judged, by the names of its header."""
    path = runtime.data_dir() / corpus / "audit.csv"
    with open(path, encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def interval(count: int, total: int) -> str:
    """The 95% Wilson score interval of the share count / total."""
    low, high = binomtest(count, total).proportion_ci(method="wilson")
    return f"{abs(low):.1%} to {high:.1%}"  # no -0.0 by rounding


def markdown_table(header: list[str], rows: list[list]) -> str:
    """A table whose first column is aligned left, the others right; 1234 is written 1,234."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(
        "| " + " | ".join(f"{c:,}" if isinstance(c, int) else str(c) for c in line) + " |"
        for line in lines
    )
