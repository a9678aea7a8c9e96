"""The files of the guide: `text TAB label,label##child`, label.txt and data.txt.

A file is read up to its first fault (`read_dataset`), or the faults of a directory are listed
(`validate`). Both use the same rules, so what the second passes, the first reads.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ...data.readers import check_text, read_lines, shown
from ...runtime import InputError, atomic_file
from ...runtime.visible import is_blank
from .taxonomy import Taxonomy

LABELS, DATA = "label.txt", "data.txt"
SPLITS = ("train.txt", "dev.txt", "test.txt")
FULL_WIDTH = "，"
BAD_CASES = "Prediction\tLabel\tText"  # the first line of their file
LINE = "a text, a tab and labels with commas between them"

Finding = tuple[str, InputError]  # "error" (no training with it) or "warning" (look at it)


def read_labels(path: str | os.PathLike, complete: bool = False) -> Taxonomy:
    """Read label.txt: one path a line, each ancestor of a path a label of its own.

    Args:
        complete: put ancestors that are missing in, each before the first label that needs it.

    Raises:
        InputError: the first fault, with its line.
    """
    labels, faults = _scan_labels(Path(path), complete)
    if faults:
        raise faults[0]
    return Taxonomy(labels)


def read_dataset(
    path: str | os.PathLike, taxonomy: Taxonomy, complete: bool = False
) -> list[dict[str, str | list[str]]]:
    """Read a labeled file.

    Args:
        complete: add the ancestors that a line does not name; without it such a line is a fault.

    Returns:
        {"text", "labels": in the order of the taxonomy} for each line that repeats no earlier one.

    Raises:
        InputError: the first fault, with its line.
    """
    examples, findings, _ = _scan(Path(path), taxonomy, complete)
    for severity, fault in findings:
        if severity == "error":
            raise fault
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
    """The faults of a directory: of each line of each file, and of texts that are in several files.

    test.txt and data.txt may be missing. A test file that is the dev file is looked at once.

    Args:
        complete: missing ancestors are no fault, as they will be added.

    Returns:
        Pairs of a severity, "error" or "warning", and the fault; errors first.

    Raises:
        InputError: the directory does not exist.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise InputError(directory, "is no directory", f"one with {', '.join(SPLITS)}, {LABELS}")
    labels, faults = _scan_labels(directory / label_file, complete)
    findings: list[Finding] = [("error", fault) for fault in faults]
    if not labels:
        return findings
    taxonomy = Taxonomy(labels)
    train_path = directory / train_file
    if train_file in (dev_file, test_file):
        problem = "is the train file and another one too"
        findings.append(("error", InputError(train_path, problem, "a file for each split")))
    places: dict[str, str] = {}  # of the texts of all files so far
    used: dict[str, set[str]] = {}  # the labels of each file that can be read
    for name in dict.fromkeys((train_file, dev_file, test_file)):
        path = directory / name
        if name == test_file and not os.path.lexists(path):
            continue
        try:
            examples, of_file, lines = _scan(path, taxonomy, complete)
        except InputError as error:
            findings.append(("error", error))
            continue
        used[name] = {label for example in examples for label in example["labels"]}
        for text, line in lines.items():
            place = places.setdefault(text, f"{name}, line {line}")
            if place != f"{name}, line {line}":
                problem = f"the text {shown(text)} is in {place} too"
                fault = InputError(path, problem, "each text in one file", line)
                of_file.append(("error", fault))
        findings += sorted(of_file, key=lambda one: one[1].line or 0)
    for label in taxonomy.labels if train_file in used else ():
        if label not in used[train_file]:
            others = [name for name in used if label in used[name]]
            problem = f"no text has the label {shown(label)}"
            problem += f", but {', '.join(others)}" if others else ""
            findings.append(("warning", InputError(train_path, problem, "examples of each label")))
    if os.path.lexists(directory / data_file):
        try:
            read_texts(directory / data_file)
        except InputError as error:
            findings.append(("error", error))
    return sorted(findings, key=lambda one: one[0])


def read_texts(path: str | os.PathLike) -> list[str]:
    """Read data.txt: one text per line.

    Raises:
        InputError: there is none, or a line is empty or holds a tab.
    """
    return [_plain(text, path, number) for number, text in enumerate(read_lines(path), 1)]


def write_dataset(
    directory: str | os.PathLike,
    splits: Mapping[str, Sequence[Mapping]],
    labels: Sequence[str],
    texts: Sequence[str] = (),
) -> Path:
    """Write the files of the guide, as `read_dataset` reads them, and give the directory.

    Args:
        splits: by "train", "dev" and "test", rows of {"text", "labels"}.
        labels: all labels in the order of their ids.
        texts: without labels, for data.txt.

    Raises:
        InputError: a text or a label that the format cannot hold, a label without its parent.
            Nothing is written then.
    """
    taxonomy = Taxonomy(labels)
    contents = {LABELS: list(taxonomy.labels)}
    for name, split in splits.items():
        lines = contents[f"{name}.txt"] = []
        for number, row in enumerate(split, 1):
            line = f"{_plain(row['text'], name, number)}\t{','.join(row['labels'])}"
            text, names = _read_line(line, name, number, taxonomy, complete=False)
            lines.append(f"{text}\t{','.join(taxonomy.complete(names))}")
    if texts:
        contents[DATA] = [_plain(text, "texts", line) for line, text in enumerate(texts, 1)]
    for name, lines in contents.items():
        with atomic_file(Path(directory, name)) as file:
            file.writelines(line + "\n" for line in lines)
    return Path(directory)


def _plain(text: str, where: str | os.PathLike, number: int) -> str:
    check_text(text, where, number)
    if any(mark in text for mark in "\t\n\r"):
        raise InputError(where, "a tab or a line break in the text", "a text in one line", number)
    return text


def _scan_labels(path: Path, complete: bool) -> tuple[list[str], list[InputError]]:
    """The labels of the lines that can be used, with their ancestors; and the faults."""
    faults: list[InputError] = []
    lines: dict[str, int] = {}
    try:
        content = read_lines(path)
    except InputError as error:
        return [], [error]
    for number, line in enumerate(content, 1):
        try:
            label = Taxonomy.check_path(line.strip(), path, number)
        except InputError as error:
            faults.append(error)
            continue
        if label in lines:
            problem = f"{shown(label)} again, as in line {lines[label]}"
            faults.append(InputError(path, problem, "each label once", number))
        lines.setdefault(label, number)
    labels: dict[str, None] = {}
    for label, number in lines.items():
        for above in Taxonomy.ancestors(label):
            if above not in lines and above not in labels:
                labels[above] = None
                if not complete:
                    problem = f"{shown(label)} without its ancestor {shown(above)}"
                    expected = f"a line for {shown(above)} too, or --complete_labels"
                    faults.append(InputError(path, problem, expected, number))
        labels[label] = None
    return list(labels), faults


def _scan(
    path: Path, taxonomy: Taxonomy, complete: bool
) -> tuple[list[dict], list[Finding], dict[str, int]]:
    """The examples of a file without repeated ones, its findings, and each text's first line."""
    examples: list[dict] = []
    findings: list[Finding] = []
    first: dict[str, tuple[int, list[str] | None]] = {}  # line and labels; None: they have a fault
    for number, line in enumerate(read_lines(path), 1):

        def add(severity: str, problem: str, expected: str, number=number) -> None:
            findings.append((severity, InputError(path, problem, expected, number)))

        try:
            text, names = _read_line(line, path, number, taxonomy, complete)
        except InputError as error:
            findings.append(("error", error))
            text, tab, _ = line.partition("\t")
            if text.strip() and tab:
                first.setdefault(text, (number, None))
            continue
        if len(set(names)) < len(names):
            add("warning", "repeats a label", "each label once")
        labels = taxonomy.complete(names)
        line_before, labels_before = first.setdefault(text, (number, labels))
        if line_before == number or labels_before is None:
            examples.append({"text": text, "labels": labels})
        elif labels_before == labels:
            add("warning", f"repeats line {line_before}", "each text once")
        else:
            problem = f"the text of line {line_before} with other labels"
            add("error", problem, "one set of labels for a text")
    return examples, findings, {text: line for text, (line, _) in first.items()}


def _read_line(
    line: str, where: str | os.PathLike, number: int, taxonomy: Taxonomy, complete: bool
) -> tuple[str, list[str]]:
    """The text and the labels of a line."""

    def refuse(problem: str, expected: str = LINE) -> NoReturn:
        raise InputError(where, problem, expected, number)

    text, tab, field = line.partition("\t")
    if is_blank(line):
        refuse("an empty line", "no empty line, not even at the end")
    if not tab:
        refuse("no tab: no labels, or spaces in its place")
    if "\t" in field:
        refuse(f"{line.count(tab)} tabs: one in the text?", "one tab, before the labels")
    if not field.strip():
        refuse("no label after the tab")
    check_text(text, where, number)
    names = [name.strip() for name in field.split(",")]
    for name in names:
        if not name:
            refuse("an empty label: a comma too many")
        if name not in taxonomy and FULL_WIDTH in name:
            refuse(f"a full-width comma in {shown(name)}", "an ASCII comma between labels")
        if name not in taxonomy:
            refuse(f"the label {shown(name)} is not in the label file", "labels of that file")
    lacking = () if complete else taxonomy.missing(names)
    if lacking:
        problem = f"a label without its ancestor {shown(lacking[0])}"
        refuse(problem, "all ancestors of a label too, or --complete_labels")
    return text, names
