"""The figures of data/README.md, computed: `python -m course_lib.data.people_daily stats`."""

from __future__ import annotations

from collections import Counter
from functools import cache

from course_lib.data.people_daily.audit import VERDICTS, figures
from course_lib.data.people_daily.corpus import SPLITS, TYPES, load_people_daily
from course_lib.data.reporting import markdown_table, read_audit
from course_lib.data.spans import bio_spans, look_up, training_names


def report() -> str:
    """All tables as Markdown, as they stand in data/README.md."""
    return "\n\n".join((_splits(), _baseline(), audit_report())) + "\n"


def audit_report() -> str:
    """The verdicts of the audit, and the precision and recall that they give."""
    rows = read_audit("people_daily")
    verdicts = Counter(row["verdict"] for row in rows)
    table: list[list[object]] = [[verdict, verdicts[verdict], "", ""] for verdict in VERDICTS]
    for name, (hits, total, low, high) in figures(rows).items():
        share = f"{hits / total:.1%}"
        table.append([name, f"{hits} of {total}", share, f"{low:.1%} to {high:.1%}"])
    header = ["organisations", "count", "share", "95% interval (Wilson)"]
    return markdown_table(header, table)


@cache
def baseline(split: str = "dev") -> dict[str, tuple[int, int, int]]:
    """The dictionary of training names on a split: right, found and true spans.

    The keys are "all", "seen" (names of the dictionary) and "unseen".
    """
    train, scored = load_people_daily(["train", split])
    names = training_names(train)
    counts = {name: [0, 0, 0] for name in ("all", "seen", "unseen")}
    for example, found in zip(scored, look_up(scored, names), strict=True):
        text = "".join(example["tokens"])
        true = bio_spans(example["labels"])
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
    return markdown_table(["names in dev", "right", "found", "true", "span F1"], rows)
