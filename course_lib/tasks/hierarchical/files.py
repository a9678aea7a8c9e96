"""The files of the guide: `text TAB label,label##child`, label.txt and data.txt.

A file is read from its first fault on no further (`read_dataset`), or all faults of a directory are
listed at once (`validate`). Both look with the same eyes, so what the second passes, the first
reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.data.readers import check_label, check_text, read_lines, shown
from course_lib.runtime import InputError, atomic_file
from course_lib.runtime.errors import one_line
from course_lib.runtime.visible import is_blank
from course_lib.tasks.hierarchical.taxonomy import SEPARATOR, Taxonomy, path_fault

LABELS, DATA = "label.txt", "data.txt"
SPLITS = ("train.txt", "dev.txt", "test.txt")
FULL_WIDTH = "，"
LINE = "a text, a tab and labels with commas between them"


@dataclass(frozen=True)
class Finding:
    """Something in a file that is not right.

    Attributes:
        file: its path.
        line: counted from 1; None where it is about the file.
        severity: "error" (no training with it) or "warning" (look at it).
        problem, expected: as in InputError.
    """

    file: str
    line: int | None
    severity: str
    problem: str
    expected: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return one_line(f"{place}: {self.severity}: {self.problem}; expected {self.expected}")

    def refuse(self) -> None:
        raise InputError(self.file, self.problem, self.expected, self.line)


def read_labels(
    path: str | os.PathLike, complete: bool = False, separator: str = SEPARATOR
) -> Taxonomy:
    """Read label.txt: one path a line, each ancestor of a path a label of its own.

    Args:
        complete: put ancestors that are missing in, each before the first label that needs it.

    Raises:
        InputError: the first fault, with its line.
    """
    taxonomy, findings = _scan_labels(Path(path), complete, separator)
    for finding in findings:
        finding.refuse()
    return taxonomy


def read_dataset(
    path: str | os.PathLike, taxonomy: Taxonomy, complete: bool = False
) -> list[dict[str, str | list[str]]]:
    """Read a labelled file.

    Args:
        complete: add the ancestors that a line does not name; without it such a line is a fault.

    Returns:
        {"text": str, "labels": list of str in the order of the taxonomy} a line. A line that
        repeats an earlier one is left out.

    Raises:
        InputError: the first fault, with its line.
    """
    examples: list[dict] = []
    for example, findings in _scan(Path(path), taxonomy, complete, {}):
        for finding in findings:
            if finding.severity == "error":
                finding.refuse()
        if example is not None:
            examples.append(example)
    return examples


def validate(
    directory: str | os.PathLike,
    complete: bool = False,
    train_file: str = SPLITS[0],
    dev_file: str = SPLITS[1],
    test_file: str = SPLITS[2],
    label_file: str = LABELS,
    data_file: str = DATA,
    separator: str = SEPARATOR,
) -> list[Finding]:
    """Every fault of a directory: of each file, and of texts that stand in several.

    test.txt and data.txt may be missing. A test file that is the dev file is looked at once; one
    that is the train file is a fault, as is a dev file.

    Args:
        complete: missing ancestors are no fault, as they will be added.

    Raises:
        InputError: the directory does not exist.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise InputError(directory, "is no directory", f"one with {', '.join(SPLITS)}, {LABELS}")
    taxonomy, findings = _scan_labels(directory / label_file, complete, separator)
    if taxonomy is None:
        return findings
    texts: dict[str, tuple[str, int]] = {}  # of all files so far
    used: dict[str, set[str]] = {}
    unread: set[str] = set()
    for name in (train_file, dev_file, test_file):
        path = directory / name
        if name == train_file and used:
            problem = "is the train file and another one too"
            findings.append(Finding(str(path), None, "error", problem, "a file for each split"))
        if name in used or (name == test_file and not os.path.lexists(path)):
            continue
        own: dict[str, tuple[int, tuple[str, ...] | None]] = {}
        used[name], before = set(), len(findings)
        try:
            for example, found in _scan(path, taxonomy, complete, own):
                findings += found
                if example is not None:
                    used[name] |= set(example["labels"])
        except InputError as error:
            findings.append(_finding(error))
            unread.add(name)
        for text, (line, _) in own.items():
            if text in texts:
                place = "{}, line {}".format(*texts[text])
                problem = f"the text {shown(text)} is in {place} too"
                findings.append(Finding(str(path), line, "error", problem, "each text in one file"))
            else:
                texts[text] = name, line
        findings[before:] = sorted(findings[before:], key=lambda one: one.line or 0)
    for label in () if train_file in unread else taxonomy.labels:
        if label not in used[train_file]:
            others = [name for name in used if label in used[name]]
            problem = f"no text has the label {shown(label)}"
            problem += f", but {', '.join(others)}" if others else ""
            file = str(directory / train_file)
            findings.append(Finding(file, None, "warning", problem, "examples of each label"))
    if os.path.lexists(directory / data_file):
        try:
            read_texts(directory / data_file)
        except InputError as error:
            findings.append(_finding(error))
    return sorted(findings, key=lambda one: one.severity)


def read_texts(path: str | os.PathLike) -> list[str]:
    """Read data.txt: one text a line.

    Raises:
        InputError: there is none, or a line is empty or holds a tab.
    """
    texts = read_lines(path)
    for number, text in enumerate(texts, 1):
        check_text(text, path, number)
        if "\t" in text:
            raise InputError(path, "a tab in the text", "a text alone", number)
    return texts


def write_dataset(
    directory: str | os.PathLike,
    splits: Mapping[str, Sequence[Mapping]],
    labels: Sequence[str] | None = None,
    texts: Sequence[str] = (),
) -> Path:
    """Write the guide's files: NAME.txt for each split, label.txt, and data.txt where asked for.

    Args:
        splits: by "train", "dev" and "test", rows of {"text", "labels"}.
        labels: all labels in the order of their ids; by default the `label_list` of a split.
        texts: without labels, for data.txt.

    Returns:
        The directory.

    Raises:
        InputError: a text or a label that the format cannot hold, a label without its parent.
            Nothing is written then.
    """
    if labels is None:
        found = [getattr(split, "label_list", None) for split in splits.values()]
        labels = next((one for one in found if one), None)
        if labels is None:
            raise InputError("labels", "are not known from the splits", "the list of all labels")
    taxonomy = Taxonomy(labels)
    contents = {LABELS: list(taxonomy.labels)}
    for name, split in splits.items():
        lines = contents[f"{name}.txt"] = []
        for number, row in enumerate(split, 1):
            text = _plain(row["text"], name, number)
            lacking = taxonomy.missing(row["labels"])
            if lacking or not row["labels"]:
                problem = f"has no label {shown(lacking[0])}" if lacking else "has no label"
                raise InputError(name, problem, "all ancestors of each label", number)
            names = sorted(set(row["labels"]), key=taxonomy.ids.__getitem__)
            lines.append(f"{text}\t{','.join(names)}")
    if texts:
        contents[DATA] = [_plain(text, "texts", line) for line, text in enumerate(texts, 1)]
    for name, lines in contents.items():
        with atomic_file(Path(directory, name)) as file:
            file.writelines(line + "\n" for line in lines)
    return Path(directory)


def _plain(text: str, where: str, number: int) -> str:
    check_text(text, where, number)
    if any(mark in text for mark in "\t\n\r"):
        raise InputError(where, "a tab or a line break in the text", "a text in one line", number)
    return text


def _scan_labels(path: Path, complete: bool, separator: str) -> tuple[Any, list[Finding]]:
    """The taxonomy of the lines that can be used, None without any; and the faults."""
    findings: list[Finding] = []
    lines: dict[str, int] = {}

    def add(line: int, problem: str, expected: str) -> None:
        findings.append(Finding(str(path), line, "error", problem, expected))

    try:
        content = read_lines(path)
    except InputError as error:
        return None, [_finding(error)]
    for number, line in enumerate(content, 1):
        label = line.strip()
        if not label:
            add(number, "an empty line", "one label a line")
        elif "\t" in label or "," in label:
            add(number, f"a tab or a comma in {shown(label)}", "one label a line, without them")
        elif label in lines:
            add(number, f"{shown(label)} again, as in line {lines[label]}", "each label once")
        elif fault := path_fault(label, separator):
            add(number, *fault)
        else:
            try:
                check_label(label, path, number)
                lines[label] = number
            except InputError as error:
                findings.append(_finding(error))
    labels: dict[str, None] = {}
    for label, number in lines.items():
        parts = label.split(separator)
        for above in (separator.join(parts[:end]) for end in range(1, len(parts))):
            if above not in lines and above not in labels:
                labels[above] = None
                if not complete:
                    add(number, f"{shown(label)} without its ancestor {shown(above)}",
                        f"a line for {shown(above)} too, or --complete_labels")  # fmt: skip
        labels[label] = None
    return Taxonomy(list(labels), separator) if labels else None, findings


def _scan(
    path: Path,
    taxonomy: Taxonomy,
    complete: bool,
    texts: dict[str, tuple[int, tuple[str, ...] | None]],
) -> Iterator[tuple[dict | None, list[Finding]]]:
    """Each line's example, None where it has a fault or repeats one, and what is wrong with it.

    Args:
        texts: gets the line and the labels of each text; None where they have a fault.
    """
    for number, line in enumerate(read_lines(path), 1):
        found: list[Finding] = []

        def add(problem, expected=LINE, severity="error", number=number, found=found) -> None:
            found.append(Finding(str(path), number, severity, problem, expected))

        text, tab, field = line.partition("\t")
        names = [name.strip() for name in field.split(",")]
        if is_blank(line):
            add("an empty line", "no empty line, not even at the end")
        elif not tab:
            add("no tab: no labels, or spaces in its place")
        elif "\t" in field:
            add(f"{line.count(chr(9))} tabs: one in the text?", "one tab, before the labels")
        elif not field.strip():
            add("no label after the tab")
        else:
            try:
                check_text(text, path, number)
            except InputError as error:
                found.append(_finding(error))
            _check_names(names, taxonomy, complete, add)
        if any(finding.severity == "error" for finding in found):
            if text.strip() and tab:
                texts.setdefault(text, (number, None))
            yield None, found
            continue
        labels = taxonomy.complete(names)
        first = texts.setdefault(text, (number, tuple(labels)))
        if first[0] == number or first[1] is None:
            yield {"text": text, "labels": labels}, found
            continue
        if first[1] == tuple(labels):
            add(f"repeats line {first[0]}", "each text once", "warning")
        else:
            add(f"the text of line {first[0]} with other labels", "one set of labels for a text")
        yield None, found


def _check_names(names: list[str], taxonomy: Taxonomy, complete: bool, add) -> None:
    unknown = [name for name in names if name not in taxonomy]
    for name in unknown:
        if not name:
            add("an empty label: a comma too many")
        elif FULL_WIDTH in name:
            add(f"a full-width comma in {shown(name)}", "an ASCII comma between labels")
        else:
            add(f"the label {shown(name)} is not in the label file", "labels of that file")
    if unknown:
        return
    if len(set(names)) < len(names):
        add("repeats a label", "each label once", "warning")
    lacking = taxonomy.missing(names)
    if lacking and not complete:
        add(
            f"a label without its ancestor {shown(lacking[0])}",
            "all ancestors of a label too, or --complete_labels",
        )


def _finding(error: InputError) -> Finding:
    return Finding(error.where, error.line, "error", error.problem, error.expected)
