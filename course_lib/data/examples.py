"""A user's own examples: texts, or pairs of texts, with labels, in TSV, CSV, JSONL or plain text.

TSV knows no quoting: a quotation mark is a character like any other, and a text cannot hold a tab
or a line break. In CSV, as Python's csv module reads it, a quoted text may hold commas, doubled
quotes and line breaks. JSONL is one JSON object per line. Lines without a visible character are
skipped, except in plain text. Encodings and line ends are as in `course_lib.data.readers`. An error
names file, line and column.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..runtime import InputError
from ..runtime.errors import one_of
from ..runtime.visible import is_blank
from .readers import (
    MAX_TEXT,
    check_label,
    check_text,
    json_object,
    json_type,
    listed,
    read_content,
    shown,
    split_lines,
    warn_of,
)

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

PAIR_COLUMNS = {"text_column": "sentence1", "text_pair_column": "sentence2"}  # by default
SUFFIXES = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".txt": "lines"}
FORMATS = tuple(SUFFIXES.values())
TEXTS = ("text", "sentence1", "sentence2")  # the keys of an example that hold text

_MARK = "\ufeff"  # the byte order mark
_TAGGED = re.compile(r"\S*[ \t]+(O|[BIESM]-\S+)\s*|.*\002.*")  # as `read_bio` reads them
_NUMBER = re.compile(r"-?\d+")
_HEADER_WORD = re.compile(  # what no text or label is, but the name of a column
    r"(?i)(text|label|sentence|query|question|answer)s?[ _]?[ab12]?|q?id|index|review|content"
    r"|title|comment|score|rating|class|category|文本|内容|评论|标签|类别"
)


@dataclass(frozen=True)
class Layout:
    """How a user's files are laid out; the command line has an option for each field.

    Attributes:
        columns: the names of the columns of a TSV or CSV file without a header, for example
            `["label", "text"]`. None takes the first line as the header.
        encoding: "utf-8-sig" (the default) reads UTF-8 with or without a byte order mark; use
            "gb18030" for GBK, GB2312 and GB18030.
        format: "tsv", "csv", "jsonl" or "lines" (a text per line). None goes by the suffix of the
            file, where .txt means lines.
        text_column: the column (in JSONL the key) of the text, or of a pair's first text.
        text_pair_column: of the second text; None reads single texts.
        label_column: of the label. All other columns are left out.
        label_names: the names of the classes 0, 1, 2, ... of files whose labels are numbers.
        skip_empty: leave out rows without a text or a label, and byte order marks inside texts,
            and count them in a warning. False refuses them.
    """

    columns: Sequence[str] | None = None
    encoding: str = "utf-8-sig"
    format: str | None = None
    text_column: str = "text"
    text_pair_column: str | None = None
    label_column: str = "label"
    label_names: Sequence[str] | None = None
    skip_empty: bool = False

    def wanted(self, require_label: bool) -> dict[str, str]:
        """The columns to read: the keys of an example, by the names in the file."""
        names = [(self.text_column, "text")]
        if self.text_pair_column is not None:
            names = [(self.text_column, "sentence1"), (self.text_pair_column, "sentence2")]
        names += [(self.label_column, "label")] if require_label else []
        columns = dict(names)
        if len(columns) < len(names):
            raise InputError("text_column", f"is {self.text_column!r} twice", "different columns")
        return columns

    def read(
        self,
        source: str | os.PathLike | IO,
        label_list: Sequence[str | int] | None = None,
        require_label: bool = True,
    ) -> tuple[list[dict[str, Any]], list[str] | None]:
        """Do what `read_examples` does, without importing Paddle: give examples and label list."""
        given = self.label_names if label_list is None else label_list
        labels = None if given is None else [check_label(str(one), "label_list") for one in given]
        if labels is not None and len(set(labels)) < len(labels):
            raise InputError("label_list", f"repeats a label ({labels})", "each label once")
        wanted = self.wanted(require_label)
        where, form, content = _open(source, self, wanted)
        if form == "lines":
            lines = split_lines(content)
            while lines and is_blank(lines[-1]):
                lines.pop()
            _refuse_tagged(lines, where)
            fields: Iterable = ((n, {self.text_column: line}) for n, line in enumerate(lines, 1))
        elif form == "jsonl":
            fields = _json_rows(content, where, wanted, self.skip_empty)
        else:
            table = _csv_table(content, where) if form == "csv" else _tsv_table(content)
            fields = _table_rows(table, where, self, wanted)
        rows = list(_checked(fields, where, wanted, self))
        if not rows:
            what = "no text" if form == "lines" else "no example"
            raise InputError(where, f"holds {what}", "at least one line with a text")
        if not require_label:
            return [row for _, row in rows], None
        if labels is None:
            labels = _collect_labels(where, [(line, row["label"]) for line, row in rows])
        ids = {label: index for index, label in enumerate(labels)}
        examples: list[dict[str, Any]] = []
        for line, row in rows:
            if row["label"] not in ids:
                problem = f"unknown label {shown(row['label'])}"
                numbers = ", or --label_names where they are numbers" * row["label"].isdecimal()
                raise InputError(where, problem, f"one of {listed(labels)}{numbers}", line)
            examples.append({**row, "label": ids[row["label"]]})
        return examples, labels


def read_examples(
    source: str | os.PathLike | IO,
    label_list: Sequence[str | int] | None = None,
    require_label: bool = True,
    **layout,
) -> MapDataset:
    """Read texts, or pairs of texts, with or without labels.

    Args:
        source: a file, or an open stream such as `sys.stdin`, by default one text per line.
        label_list: the labels that may occur, in the order of their ids. None takes `label_names`,
            or collects them from the file: sorted, as numbers when all of them are whole numbers.
        require_label: False leaves labels out and does not ask for them.
        layout: fields of `Layout`, such as `text_column="review"`; for pairs `**PAIR_COLUMNS`.

    Returns:
        A MapDataset of `{"text": str, "label": int}`, or for pairs of `{"sentence1": str,
        "sentence2": str, "label": int}`, in the order of the file. `label` is an index into its
        `label_list`; without labels there is no such key, and `label_list` is None.

    Raises:
        InputError: anything in the file that is not as described, with its line. Of collected
            labels there must be two, each seen twice: one seen once is a typing error.
    """
    rows, labels = Layout(**layout).read(source, label_list, require_label)
    from paddlenlp.datasets import MapDataset  # seconds; a bad file is refused before them

    return MapDataset(rows, label_list=labels)


def _open(source, layout: Layout, wanted: dict[str, str]) -> tuple[str | Path, str, str]:
    """The name of a source, its format and its content, where these fit what is wanted of it."""
    stream = hasattr(source, "read")
    where: Any = str(getattr(source, "name", "<stream>")) if stream else Path(source)
    form = layout.format or ("lines" if stream else SUFFIXES.get(where.suffix.lower(), ""))
    if not form:
        expected = f"one of {', '.join(SUFFIXES)}, or --format"
        raise InputError(where, f"unknown suffix {where.suffix!r}", expected)
    one_of("format", form, FORMATS)
    if form == "lines" and len(wanted) > 1:
        problem = f"is plain text, without the columns {listed(wanted)}"
        raise InputError(where, problem, "--format tsv, csv or jsonl where it has them")
    if form in ("lines", "jsonl") and layout.columns is not None:
        expected = f"keys {listed(wanted)}" if form == "jsonl" else "no columns: a line is a text"
        raise InputError("columns", f"given for a file in the format {form}", expected)
    return where, form, read_content(source, layout.encoding)


def _refuse_tagged(lines: Sequence[str], where: str | Path) -> None:
    """Refuse labeled tokens where texts are asked for: most lines are a token and its label."""
    tagged = [number for number, line in enumerate(lines, 1) if _TAGGED.fullmatch(line)]
    if len(tagged) > max(1, sum(not is_blank(line) for line in lines) / 2):
        problem = f"labeled tokens ({shown(lines[tagged[0] - 1])})"
        expected = "a text per line; evaluate reads such labeled files, as --test_file"
        raise InputError(where, problem, expected, tagged[0])


def _checked(
    fields: Iterable[tuple[int, dict[str, str]]],
    where: str | Path,
    wanted: dict[str, str],
    layout: Layout,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, example); with `skip_empty` leave out what is empty, and count it."""
    skipped: dict[str, list[int]] = defaultdict(list)
    for line, row in fields:
        empty = [column for column, value in row.items() if layout.skip_empty and is_blank(value)]
        if empty:
            skipped[f"rows with nothing in {empty[0]!r} are left out"].append(line)
            continue
        example = {}
        for column, key in wanted.items():
            value = row[column]
            if layout.skip_empty and _MARK in value:
                skipped[f"byte order marks in {column!r} are left out"].append(line)
                value = value.replace(_MARK, "")
            if key == "label":
                example[key] = _named(check_label(value, where, line, column), where, line, layout)
                continue
            if _MARK in check_text(value, where, line, column):
                problem = f"a byte order mark (U+FEFF) in {column!r}"
                raise InputError(where, problem, "none, or --skip_empty to take it out", line)
            example[key] = value
        yield line, example
    warn_of(where, skipped)


def _named(label: str, where: str | Path, line: int, layout: Layout) -> str:
    """The name of a class that `label_names` has by its number."""
    if layout.label_names is None or not label.isdecimal():
        return label
    if int(label) >= len(layout.label_names):
        expected = f"0 to {len(layout.label_names) - 1}: the first of the label names is class 0"
        raise InputError(where, f"the label {label}", expected, line)
    return layout.label_names[int(label)]


def _table_rows(
    table: Iterator[tuple[int, list[str]]],
    where: str | Path,
    layout: Layout,
    wanted: dict[str, str],
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, {column: value}) of every row, with the wanted columns only."""
    line, source = 1, "columns"
    names = None if layout.columns is None else list(layout.columns)
    if names is None:
        line, names = next(table, (1, None))
        if names is None:
            raise InputError(where, "holds no line", "a header and at least one example")
        names, source = [name.strip() for name in names], "the header"
    for name in wanted:
        if names.count(name) > 1:
            problem = f"{source} repeats the name {name!r} ({listed(names)})"
            raise InputError(where, problem, "each name once", line)
        if name not in names:
            problem = f"no column {name!r} in {source} ({listed(names)})"
            raise InputError(where, problem, _renamed(name, names, wanted, source), line)
    places = {name: names.index(name) for name in wanted}
    for number, (line, fields) in enumerate(table):
        if len(fields) != len(names):
            problem = f"{len(fields)} field{'s' * (len(fields) != 1)}"
            raise InputError(where, problem, f"{len(names)} ({listed(names)})", line)
        if source == "columns" and number == 0:
            first = [field.strip() for field in fields]
            if any(map(_HEADER_WORD.fullmatch, first)) or any(map(str.__eq__, first, names)):
                problem = f"a header ({listed(first)}) though columns were named"
                expected = "--text_column and --label_column, which choose from a header"
                raise InputError(where, problem, expected, line)
        yield line, {name: fields[at] for name, at in places.items()}


def _renamed(name: str, names: Iterable[str], wanted: dict[str, str], source: str) -> str:
    """How to say which column is meant, by name where only one is left."""
    option = {"label": "label_column", "sentence2": "text_pair_column"}.get(wanted[name])
    left = [other for other in names if other and other not in wanted]
    said = f"--{option or 'text_column'} {left[0] if len(left) == 1 else 'NAME'}"
    if source == "the header":
        said += ", or for a file without a header --columns with a name for each column"
    return f"that column, or {said}"


def _tsv_table(content: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(split_lines(content), 1):
        if not is_blank(line) or "\t" in line:
            yield number, line.split("\t")


def _csv_table(content: str, where: str | Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    while True:
        line = reader.line_num + 1  # where a record begins; line_num is where it ends
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = f"the record that begins here is not well-formed CSV ({error})"
            expected = f'quotes in pairs ("" inside a quoted field), up to {MAX_TEXT:,} characters'
            raise InputError(where, problem, expected, line) from None
        if len(fields) > 1 or not all(map(is_blank, fields)):
            yield line, fields


def _json_rows(
    content: str, where: str | Path, wanted: dict[str, str], nulls: bool
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, {key: value}) of every line; with `nulls`, null is an empty text."""
    expected = "{" + ", ".join(f'"{key}": ...' for key in wanted) + "}"
    for number, line in enumerate(split_lines(content), 1):
        if is_blank(line):
            continue
        record = json_object(line, where, number, expected)
        row = {}
        for key, kind in wanted.items():
            if key not in record:
                problem = f"no key {key!r} (found {listed(record)})"
                raise InputError(where, problem, _renamed(key, record, wanted, "keys"), number)
            value = "" if nulls and record[key] is None else record[key]
            numbers = kind == "label" and isinstance(value, int) and not isinstance(value, bool)
            if not isinstance(value, str) and not numbers:
                what = "a string or a whole number" if kind == "label" else "a string"
                raise InputError(where, f"{key} is a JSON {json_type(value)}", what, number)
            row[key] = str(value)
        yield number, row


def _collect_labels(where: str | Path, rows: list[tuple[int, str]]) -> list[str]:
    lines: dict[str, list[int]] = {}
    for line, label in rows:
        lines.setdefault(label, []).append(line)
    if len(lines) < 2:
        only = shown(next(iter(lines)))
        raise InputError(where, f"only one label ({only})", "two labels at least")
    for label, seen in lines.items():
        if len(seen) == 1:
            problem = f"label {shown(label)} is seen only here"
            raise InputError(where, problem, "each label in two examples at least", seen[0])
    numeric = all(_NUMBER.fullmatch(label) for label in lines)
    return sorted(lines, key=(lambda label: (int(label), label)) if numeric else None)
