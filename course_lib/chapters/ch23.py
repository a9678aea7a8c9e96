"""Chapter 23: an inbox that a seed makes, with the faults of real data, and what grades it.

A message is one or two pieces of real reviews. Its label is the desk that has to act: "book",
"hotel" or "computer" if the message complains about one, "thanks" if about nothing. In a message of
two pieces the other one praises another product, so words alone do not tell whom it is for.
Pieces of train, dev and test come from the same split of the reviews.
"""

from __future__ import annotations

import os
import random
import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.data import load_reviews
from course_lib.runtime import InputError

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

LABELS = ["book", "hotel", "computer", "thanks"]
SIZES = {"train": 1000, "dev": 240, "test": 400}  # messages, before the faults
SHARES = {"book": 0.1, "hotel": 0.27, "computer": 0.23, "thanks": 0.4}
TWO = 0.4  # of each label's messages have two pieces
# How many rows of each fault there are. All but "wrong labels" are rows that `clean` drops.
FAULTS = {
    "empty": 12,  # no letter and no digit
    "leaks": 40,  # copies of messages of dev (15) and test (25)
    "duplicates": 40,  # copies of other training messages, with their label
    "conflicts": 20,  # ten messages, each twice with two labels
    "wrong labels": 50,  # of train
    "wrong labels in dev": 12,
}
LEAKS_OF_DEV = 15

JOINTS = ("。另外，", "，还有，", "。不过", "。但是", "；", "。顺便说一句，", "。")
OPENINGS = ("你好，", "客服你好，", "在吗？", "打扰了，", "")
CLOSINGS = ("，谢谢", "，盼回复", "，就这些", "")
EMPTY = ("", " ", "　", "……", "？？", "!!!")
EDGES = " 。，,.;；、!！?？~"

Row = dict[str, str]


def chosen_seed() -> int:
    """The seed of the inbox: what `COURSE_CAPSTONE_SEED` holds, 23 without it.

    Raises:
        InputError: that is no whole number.
    """
    value = os.environ.get("COURSE_CAPSTONE_SEED", "").strip() or "23"
    if not value.isdecimal():
        raise InputError("COURSE_CAPSTONE_SEED", f"is {value!r}", "a whole number")
    return int(value)


def same(text: str) -> str:
    """The letters and digits of a text. Two messages with the same ones are the same."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text)).lower()


def piece_of(text: str, domain: str) -> str:
    """What a message takes from a review; of long ones of books, the first sentence."""
    text = re.split("[。！？!?]", text)[0] if domain == "book" and len(text) > 45 else text
    return text.strip(EDGES) if 8 <= len(text) <= 45 else ""


@cache
def _pieces(split: str) -> list[tuple[tuple[str, int], str]]:
    """((domain, label), piece) of each review of a split that gives one."""
    found = [
        ((row["domain"], row["label"]), piece_of(row["text"], row["domain"]))
        for row in load_reviews(split)
    ]
    return [each for each in found if each[1]]


def _messages(split: str, draw: random.Random) -> list[Row]:
    """Messages without faults, in random order, as rows of "text" and "label"."""
    pools: dict[tuple[str, int], list[str]] = {}
    for kind, piece in draw.sample(_pieces(split), len(_pieces(split))):
        pools.setdefault(kind, []).append(piece)
    rows, known = [], set()
    for label, share in SHARES.items():
        count = round(share * SIZES[split])
        for number in range(count):
            complains = label != "thanks"
            first = label if complains else LABELS[number % 3]
            other = draw.choice([name for name in LABELS[:3] if name != first])
            text = ""
            while not text or same(text) in known:
                parts = [pools[first, 0 if complains else 1].pop()]
                parts += [pools[other, 1].pop()] if number < TWO * count else []
                text = draw.choice(JOINTS).join(draw.sample(parts, len(parts)))
            known.add(same(text))
            if draw.random() < 0.4:
                text = draw.choice(OPENINGS) + text + draw.choice(CLOSINGS)
            rows.append({"text": text, "label": label})
    return draw.sample(rows, len(rows))


def _copy(row: Row, draw: random.Random) -> Row:
    """The same message, every other time written differently."""
    text, wide = row["text"], str.maketrans("0123456789,", "０１２３４５６７８９，")
    ways = (text, text, text + "！！", f" {text.translate(wide)}~", text.upper() + "。。")
    return {"text": draw.choice(ways), "label": row["label"]}


def _wrong(row: Row, draw: random.Random) -> str:
    return draw.choice([name for name in LABELS if name != row["label"]])


def make_inbox(seed: int) -> tuple[dict[str, list[Row]], dict[str, set[str]]]:
    """Make the messages of a seed; the same seed gives the same ones.

    Returns:
        Rows of "id", "text" and "label" by split, and the ids of the rows of each fault.
    """
    draw = random.Random(f"capstone {seed}")
    inbox = {split: _messages(split, draw) for split in SIZES}
    train, faults = inbox["train"], FAULTS
    order = draw.sample(train, len(train))
    for row in order[: faults["wrong labels"]]:
        row |= {"label": _wrong(row, draw), "fault": "wrong labels"}
    for row in draw.sample(inbox["dev"], faults["wrong labels in dev"]):
        row |= {"label": _wrong(row, draw), "fault": "wrong labels in dev"}
    rest, added = order[faults["wrong labels"] :], []
    for row in rest[: faults["duplicates"]]:
        place = draw.randint(train.index(row) + 1, len(train))  # the first one is the original
        train.insert(place, {**_copy(row, draw), "fault": "duplicates"})
    for row in rest[-faults["conflicts"] // 2 :]:
        row["fault"] = "conflicts"
        added.append({**_copy(row, draw), "label": _wrong(row, draw), "fault": "conflicts"})
    for split, count in (("dev", LEAKS_OF_DEV), ("test", faults["leaks"] - LEAKS_OF_DEV)):
        copies = [_copy(row, draw) for row in draw.sample(inbox[split], count)]
        added += [{**row, "fault": "leaks"} for row in copies]
    empty = [{"text": EMPTY[n % len(EMPTY)]} for n in range(faults["empty"])]
    added += [{**row, "label": draw.choice(LABELS), "fault": "empty"} for row in empty]
    for row in added:
        train.insert(draw.randint(0, len(train)), row)
    found: dict[str, set[str]] = {name: set() for name in faults}
    for split, rows in inbox.items():
        for number, row in enumerate(rows, 1):
            row["id"] = f"{split}-{number:04d}"
            found.get(row.pop("fault", ""), set()).add(row["id"])
    return inbox, found


def write_inbox(seed: int, directory: str | os.PathLike) -> None:
    """Write train.tsv, dev.tsv and test.tsv (which has no labels), and for the instructor
    answers.tsv (the labels of test) and faults.tsv."""
    inbox, faults = make_inbox(seed)
    tables = {split: (["id", "text", "label"], rows) for split, rows in inbox.items()}
    tables["test"] = (["id", "text"], inbox["test"])
    tables["answers"] = (["id", "label"], inbox["test"])
    ids = [{"id": one, "fault": name} for name, rows in faults.items() for one in sorted(rows)]
    tables["faults"] = (["id", "fault"], ids)
    Path(directory).mkdir(parents=True, exist_ok=True)
    for name, (columns, rows) in tables.items():
        lines = ["\t".join(columns), *("\t".join(row[key] for key in columns) for row in rows)]
        Path(directory, f"{name}.tsv").write_bytes(("\n".join(lines) + "\n").encode())


def read_rows(file: str | os.PathLike) -> list[Row]:
    """The rows of one of these files."""
    table = pd.read_csv(file, sep="\t", quoting=3, keep_default_na=False, dtype=str)
    return table.to_dict("records")


def ready(seed: int) -> dict[str, MapDataset]:
    """Train and dev as data sets, without the rows that a program can find; wrong labels stay."""
    from paddlenlp.datasets import MapDataset

    inbox, faults = make_inbox(seed)
    dropped = set().union(*(faults[name] for name in FAULTS if not name.startswith("wrong")))
    kept = {name: [r for r in inbox[name] if r["id"] not in dropped] for name in ("train", "dev")}
    return {
        split: MapDataset(
            [{"text": row["text"], "label": LABELS.index(row["label"])} for row in rows],
            label_list=LABELS,
        )
        for split, rows in kept.items()
    }


def score_test(seed: int, answers: Sequence[str]) -> tuple[float, np.ndarray]:
    """Macro F1 of labels for the (first) test messages, in order, and which of them are right."""
    true = [row["label"] for row in make_inbox(seed)[0]["test"]][: len(answers)]
    right = np.array([one == other for one, other in zip(true, answers, strict=True)])
    return float(f1_score(true, answers, average="macro", labels=LABELS)), right
