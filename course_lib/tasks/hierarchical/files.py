"""The files of the guide: `text TAB label,label##child`, label.txt and data.txt.

A file is read up to its first fault (`read_dataset`), or all faults of a directory are listed at
once (`validate`). Both use the same rules, so what the second passes, the first reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
        """Raise it as an InputError."""
        raise InputError(self.file, self.problem, self.expected, self.line)


def read_labels(path: str | os.PathLike, complete: bool = False) -> Taxonomy:
    """Read label.txt: one path a line, each ancestor of a path a label of its own.

    Args:
        complete: put ancestors that are missing in, each before the first label that needs it.

    Raises:
        InputError: the first fault, with its line.
    """
    labels, findings = _scan_labels(Path(path), complete)
    for finding in findings:
        finding.refuse()
    return Taxonomy(labels)


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
    examples, findings, _ = _scan(Path(path), taxonomy, complete)
    for finding in findings:
        if finding.severity == "error":
            finding.refuse()
    return examples


def validate(
    directory: str | os.PathLike,
    complete: bool = False,
    train_file: str = SPLITS[0],
    dev_file: str = SPLITS[1],
    test_file: str = SPLITS[2],
    label_file: str = LABELS,
    data_file: str = DATA,
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
    labels, findings = _scan_labels(directory / label_file, complete)
    if not labels:
        return findings
    taxonomy = Taxonomy(labels)
    train_path = str(directory / train_file)
    if train_file in (dev_file, test_file):
        problem = "is the train file and another one too"
        findings.append(Finding(train_path, None, "error", problem, "a file for each split"))
    places: dict[str, str] = {}  # of the texts of all files so far
    used: dict[str, set[str]] = {}  # the labels of each file that can be read
    for name in dict.fromkeys((train_file, dev_file, test_file)):
        path = directory / name
        if name == test_file and not os.path.lexists(path):
            continue
        try:
            examples, of_file, lines = _scan(path, taxonomy, complete)
        except InputError as error:
            findings.append(_finding(error))
            continue
        used[name] = {label for example in examples for label in example["labels"]}
        for text, line in lines.items():
            place = places.setdefault(text, f"{name}, line {line}")
            if place != f"{name}, line {line}":
                problem = f"the text {shown(text)} is in {place} too"
                of_file.append(Finding(str(path), line, "error", problem, "each text in one file"))
        findings += sorted(of_file, key=lambda one: one.line or 0)
    for label in taxonomy.labels if train_file in used else ():
        if label not in used[train_file]:
            others = [name for name in used if label in used[name]]
            problem = f"no text has the label {shown(label)}"
            problem += f", but {', '.join(others)}" if others else ""
            findings.append(Finding(train_path, None, "warning", problem, "examples of each label"))
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
    labels: Sequence[str],
    texts: Sequence[str] = (),
) -> Path:
    """Write the guide's files: NAME.txt for each split, label.txt, and data.txt where asked for.

    Args:
        splits: by "train", "dev" and "test", rows of {"text", "labels"}.
        labels: all labels in the order of their ids.
        texts: without labels, for data.txt.

    Returns:
        The directory.

    Raises:
        InputError: a text or a label that the format cannot hold, a label without its parent.
            Nothing is written then.
    """
    taxonomy = Taxonomy(labels)
    contents = {LABELS: list(taxonomy.labels)}
    for name, split in splits.items():
        lines = contents[f"{name}.txt"] = []
        for number, row in enumerate(split, 1):
            text = _plain(row["text"], name, number)
            for label in row["labels"]:
                if label not in taxonomy:
                    raise InputError(name, f"{shown(label)} is no label", "one of labels", number)
            lacking = taxonomy.missing(row["labels"])
            if lacking or not row["labels"]:
                problem = f"has no label {shown(lacking[0])}" if lacking else "has no label"
                raise InputError(name, problem, "all ancestors of each label", number)
            lines.append(f"{text}\t{','.join(taxonomy.complete(row['labels']))}")
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


def _scan_labels(path: Path, complete: bool) -> tuple[list[str], list[Finding]]:
    """The labels of the lines that can be used, with their ancestors; and the faults."""
    findings: list[Finding] = []
    lines: dict[str, int] = {}
    try:
        content = read_lines(path)
    except InputError as error:
        return [], [_finding(error)]
    for number, line in enumerate(content, 1):
        label = line.strip()
        fault = path_fault(label)
        if not label:
            fault = "an empty line", "one label a line"
        elif "\t" in label or "," in label:
            fault = f"a tab or a comma in {shown(label)}", "one label a line, without them"
        elif label in lines:
            fault = f"{shown(label)} again, as in line {lines[label]}", "each label once"
        elif not fault:
            fault = _refusal(check_label, label)
        if fault:
            findings.append(Finding(str(path), number, "error", *fault))
        else:
            lines[label] = number
    labels: dict[str, None] = {}
    for label, number in lines.items():
        parts = label.split(SEPARATOR)
        for above in (SEPARATOR.join(parts[:end]) for end in range(1, len(parts))):
            if above not in lines and above not in labels:
                labels[above] = None
                if not complete:
                    problem = f"{shown(label)} without its ancestor {shown(above)}"
                    expected = f"a line for {shown(above)} too, or --complete_labels"
                    findings.append(Finding(str(path), number, "error", problem, expected))
        labels[label] = None
    return list(labels), findings


def _scan(
    path: Path, taxonomy: Taxonomy, complete: bool
) -> tuple[list[dict], list[Finding], dict[str, int]]:
    """The examples of a file, without repeated ones; its findings; and the first line of each text.

    Raises:
        InputError: the file cannot be read as text.
    """
    examples: list[dict] = []
    findings: list[Finding] = []
    first: dict[str, tuple[int, list[str] | None]] = {}  # line and labels; None: they have a fault
    for number, line in enumerate(read_lines(path), 1):

        def add(problem: str, expected: str, severity: str = "error", number=number) -> None:
            findings.append(Finding(str(path), number, severity, problem, expected))

        text, tab, field = line.partition("\t")
        names = [name.strip() for name in field.split(",")]
        faults = list(_line_faults(line, text, field, names, taxonomy, complete))
        for fault in faults:
            add(*fault)
        if faults:
            if text.strip() and tab:
                first.setdefault(text, (number, None))
            continue
        if len(set(names)) < len(names):
            add("repeats a label", "each label once", "warning")
        labels = taxonomy.complete(names)
        line_before, labels_before = first.setdefault(text, (number, labels))
        if line_before == number or labels_before is None:
            examples.append({"text": text, "labels": labels})
        elif labels_before == labels:
            add(f"repeats line {line_before}", "each text once", "warning")
        else:
            add(f"the text of line {line_before} with other labels", "one set of labels for a text")
    return examples, findings, {text: line for text, (line, _) in first.items()}


def _line_faults(
    line: str, text: str, field: str, names: list[str], taxonomy: Taxonomy, complete: bool
) -> Iterator[tuple[str, str]]:
    """What is wrong with a line of a labelled file, and what was expected."""
    if is_blank(line):
        yield "an empty line", "no empty line, not even at the end"
    elif "\t" not in line:
        yield "no tab: no labels, or spaces in its place", LINE
    elif "\t" in field:
        yield f"{line.count(chr(9))} tabs: one in the text?", "one tab, before the labels"
    elif not field.strip():
        yield "no label after the tab", LINE
    else:
        if fault := _refusal(check_text, text):
            yield fault
        unknown = [name for name in names if name not in taxonomy]
        for name in unknown:
            if not name:
                yield "an empty label: a comma too many", LINE
            elif FULL_WIDTH in name:
                yield f"a full-width comma in {shown(name)}", "an ASCII comma between labels"
            else:
                yield f"the label {shown(name)} is not in the label file", "labels of that file"
        lacking = () if unknown or complete else taxonomy.missing(names)
        if lacking:
            problem = f"a label without its ancestor {shown(lacking[0])}"
            yield problem, "all ancestors of a label too, or --complete_labels"


def _refusal(check, value: str) -> tuple[str, str] | None:
    """The problem that a check of the readers finds, and what it expects; None: nothing."""
    try:
        check(value, "", 1)
    except InputError as error:
        return error.problem, error.expected
    return None


def _finding(error: InputError) -> Finding:
    return Finding(error.where, error.line, "error", error.problem, error.expected)
