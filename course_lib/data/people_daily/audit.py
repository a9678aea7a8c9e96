"""The audit of the organisation rules: 200 sentences, every ORG in them judged by a reader."""

from __future__ import annotations

import random

from course_lib.data.people_daily.corpus import LABELS, example, split_lines
from course_lib.data.people_daily.organisations import HEADS
from course_lib.data.reporting import wilson
from course_lib.data.spans import bio_spans

DRAWN = 200
SEED = 2026
ORG = LABELS.index("B-ORG") // 2
VERDICTS = ("right", "boundary", "wrong", "missed")


def organisations(line: int) -> list[tuple[int, int]]:
    """Character offsets of the ORG entities of an example."""
    return sorted((s, e) for s, e, kind in bio_spans(example(line)["labels"]) if kind == ORG)


def draw() -> list[int]:
    """The lines that were judged, of dev and test: two strata, in proportion to their sizes.

    The strata are sentences in which the rules find an organisation and those in which they find
    none although a head word (银行, 党, ...) stands there.
    """
    lines = split_lines()
    found, silent = [], []
    for line in sorted(lines["dev"] + lines["test"]):
        words = "".join(example(line)["tokens"])
        if organisations(line):
            found.append(line)
        elif any(head in words for head in HEADS):
            silent.append(line)
    share = round(DRAWN * len(found) / (len(found) + len(silent)))
    chance = random.Random(SEED)
    return sorted(chance.sample(found, share) + chance.sample(silent, DRAWN - share))


def figures(rows: list[dict[str, str]]) -> dict[str, tuple[int, int, float, float]]:
    """Precision and recall of whole organisations: hits, of how many, and the 95% interval.

    A wrong boundary is both a false organisation and a missed one.
    """
    count = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
    labelled = count["right"] + count["boundary"] + count["wrong"]
    true = count["right"] + count["boundary"] + count["missed"]
    return {
        name: (count["right"], total, *wilson(count["right"], total))
        for name, total in (("precision", labelled), ("recall", true))
    }
