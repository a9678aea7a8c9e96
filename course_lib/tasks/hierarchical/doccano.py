"""JSONL from doccano, the annotation tool: {"text": ..., "label": [...]} a line.

A line gets its own labels and nothing else. (Upstream's converter kept a list that grew from line
to line, so the last text had every label there was: PaddleNLP issue 3790.)
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...data.readers import check_text, json_object, json_type, read_lines, shown
from ...runtime import InputError
from ...runtime.visible import is_blank
from .taxonomy import SEPARATOR, Taxonomy

import numpy as np

EXPECTED = '{"text": "...", "label": ["...", ...]}, of a project for text classification'


def read_doccano(
    path: str | os.PathLike, complete: bool = True, separator: str = SEPARATOR
) -> tuple[list[dict], list[str], Taxonomy]:
    """Read an export of doccano's project type "text classification".

    White space inside a text, tabs and line breaks too, becomes one space: the guide's files hold a
    text in one line.

    Args:
        complete: add the ancestors of each label, which annotators seldom mark. Without it a label
            whose ancestors the line does not have is a fault.
        separator: between the parts of a label in the export; in what is returned it is "##".

    Returns:
        Examples {"text", "labels"}, those that repeat an earlier one left out; texts that nobody
        has labeled; and the taxonomy of all labels, ancestors included, sorted.

    Raises:
        InputError: the first fault, with its line.
    """
    path = Path(path)
    if not separator or separator in (",", "\t"):
        raise InputError("separator", f"is {separator!r}", 'characters such as "##"')
    rows: dict[str, tuple[int, list[str]]] = {}  # line and labels of each text
    unlabeled: dict[str, None] = {}
    paths: set[str] = set()
    for number, line in enumerate(read_lines(path), 1):
        if is_blank(line):
            continue
        text, labels = _record(line, path, number, separator)
        if not labels:
            unlabeled[text] = None
            continue
        before, labels_before = rows.setdefault(text, (number, labels))
        if set(labels_before) != set(labels):
            problem = f"the text of line {before} with other labels"
            raise InputError(path, problem, "one set of labels for a text", number)
        paths |= {one for label in labels for one in (*Taxonomy.ancestors(label), label)}
    if not paths:
        raise InputError(path, "holds no labeled text", EXPECTED)
    taxonomy = Taxonomy(sorted(paths))
    examples = []
    for text, (number, labels) in rows.items():
        lacking = taxonomy.missing(labels)
        if lacking and not complete:
            problem = f"a label without its ancestor {shown(lacking[0])}"
            raise InputError(path, problem, "all ancestors, or --complete_labels", number)
        examples.append({"text": text, "labels": taxonomy.complete(labels)})
    return examples, [text for text in unlabeled if text not in rows], taxonomy


def split_examples(
    examples: Sequence[Mapping], shares: Sequence[float], seed: int = 1000
) -> dict[str, list[Mapping]]:
    """Shuffle examples and deal them out to "train", "dev" and, with a third share, "test".

    Raises:
        InputError: shares that are not two or three numbers of at least 0 with the sum 1, or so few
            examples that train or dev would be empty.
    """
    fits = len(shares) in (2, 3) and min(shares) >= 0 and abs(sum(shares) - 1) <= 1e-6
    if not fits:  # nor with nan
        raise InputError("splits", f"are {shares}", "two or three shares with the sum 1")
    order = np.random.RandomState(seed).permutation(len(examples))
    ends = np.round(np.cumsum(shares[:-1]) * len(examples)).astype(int)
    parts = {
        name: [examples[index] for index in part]
        for name, part in zip(("train", "dev", "test"), np.split(order, ends), strict=False)
    }
    if not parts["train"] or not parts["dev"]:
        problem = f"of {len(examples)} examples leave train or dev empty"
        raise InputError("splits", problem, "more examples, or other shares")
    return {name: rows for name, rows in parts.items() if rows}


def _record(line: str, path: Path, number: int, separator: str) -> tuple[str, list[str]]:
    """The text of a line, and its labels with "##" between their parts."""
    record = json_object(line, path, number, EXPECTED)
    text = record.get("text", record.get("data"))  # "data" before doccano 1.6
    if not isinstance(text, str):
        problem = f"text is a JSON {json_type(text)}" if text is not None else "no key 'text'"
        raise InputError(path, problem, EXPECTED, number)
    text = " ".join(text.split())
    check_text(text, path, number)
    labels = record.get("label") or record.get("labels") or []
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        problem = f"label is a JSON {json_type(labels)}, and no list of names"
        raise InputError(path, problem, EXPECTED, number)
    return text, [Taxonomy.check_path(label.strip(), path, number, separator) for label in labels]
