"""Reading a user's own labeled texts: TSV, CSV and JSONL, with errors that name the line.

TSV knows no quoting: a quotation mark is a character like any other, and a text cannot hold a tab
or a line break. In CSV, as Python's csv module reads it, a quoted text may hold commas, doubled
quotes and line breaks. JSONL is one JSON object per line. Files are UTF-8 unless `encoding` says
otherwise; lines end in LF, CRLF or CR. Lines without a visible character are skipped, except in
plain text for prediction. Byte order marks are dropped at the beginning of any line, because files
that were joined have some inside.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from course_lib.runtime import InputError
from course_lib.runtime.files import read_bytes
from course_lib.runtime.visible import hidden_character, is_blank

from paddlenlp.datasets import MapDataset

MAX_TEXT = 100_000  # characters; a longer "text" is a file that was put together wrongly
MAX_LABEL = 100  # characters
LCQMC_COLUMNS = ("sentence1", "sentence2", "label")  # of the files of LCQMC, which have no header
SUFFIXES = (".tsv", ".csv", ".jsonl")

_UNFIT = re.compile("[\0\ud800-\udfff]")
_MARKS = re.compile("(?:^|(?<=[\r\n]))\ufeff+")
_NO_FILE_ENCODINGS = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined")
_LINE_END = re.compile(r"\r\n|\n|\r")
_NUMBER = re.compile(r"-?\d+")


def read_examples(
    path: str | os.PathLike,
    label_list: Sequence[str | int] | None = None,
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8-sig",
    require_label: bool = True,
    texts: Sequence[str] = ("text",),
) -> MapDataset:
    """Read labeled texts from a .tsv, .csv or .jsonl file.

    Args:
        path: the file; its suffix says how it is read.
        label_list: the labels that may occur, in the order of their ids. None collects them from
            the file: sorted, as numbers when all of them are whole numbers.
        columns: the names of the columns of a TSV or CSV file without a header, for example
            `["label", "text"]`. None takes the first line as the header. Other columns than text
            and label are allowed and left out.
        encoding: "utf-8-sig" (the default) reads UTF-8 with or without a byte order mark; use
            "gb18030" for GBK, GB2312 and GB18030.
        require_label: False leaves labels out and does not ask for them.
        texts: the columns that hold text.

    Returns:
        A MapDataset of `{"text": str, "label": int}` in the order of the file, `label` being an
        index into its `label_list`; without labels `{"text": str}` and `label_list` None.

    Raises:
        InputError: anything in the file that is not as described, with its line. Of collected
            labels there must be two, each seen twice: one seen once is a typing error.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(path, f"unknown suffix {path.suffix!r}", f"one of {', '.join(SUFFIXES)}")
    if label_list is not None:
        label_list = [check_label(str(label), "label_list") for label in label_list]
        if len(set(label_list)) < len(label_list):
            raise InputError("label_list", f"repeats a label ({label_list})", "each label once")
    content = read_content(path, encoding)
    names = [*texts, "label"] if require_label else list(texts)
    if path.suffix.lower() == ".jsonl":
        if columns is not None:
            raise InputError("columns", "given for a .jsonl file", f"keys {listed(names)}")
        rows: list[tuple[int, dict]] = list(_json_rows(content, path, names))
    else:
        rows = list(_table_rows(content, path, columns, names))
    if not rows:
        raise InputError(path, "holds no example", "at least one line with a text")
    if not require_label:
        return MapDataset([row for _, row in rows], label_list=None)
    if label_list is None:
        label_list = _collect_labels(path, [(line, row["label"]) for line, row in rows])
    ids = {label: index for index, label in enumerate(label_list)}
    for line, row in rows:
        if row["label"] not in ids:
            problem = f"unknown label {shown(row['label'])}"
            raise InputError(path, problem, f"one of {listed(label_list)}", line)
        row["label"] = ids[row["label"]]
    return MapDataset([row for _, row in rows], label_list=label_list)


def read_pairs(
    path: str | os.PathLike,
    label_list: Sequence[str | int] | None = None,
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8-sig",
    require_label: bool = True,
) -> MapDataset:
    """Read sentence pairs from a .tsv, .csv or .jsonl file.

    Args:
        label_list, columns, encoding, require_label: as for `read_examples`; a file in the form of
            LCQMC, which has no header, takes `columns=LCQMC_COLUMNS`.

    Returns:
        A MapDataset of `{"sentence1": str, "sentence2": str, "label": int}` in the order of the
        file; without labels the label is left out and `label_list` is None.

    Raises:
        InputError: as for `read_examples`.
    """
    texts = ("sentence1", "sentence2")
    return read_examples(path, label_list, columns, encoding, require_label, texts)


def read_texts(
    source: str | os.PathLike | IO,
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8-sig",
) -> list[str]:
    """Read the texts to predict; labels are neither needed nor looked at.

    Args:
        source: a file (.txt: one text per line; .tsv, .csv, .jsonl: as in `read_examples`), or an
            open stream such as `sys.stdin`, read as one text per line.
        columns, encoding: as in `read_examples`.

    Returns:
        The texts in their order, one for each line of plain text.

    Raises:
        InputError: no text at all, an empty line between texts, or what `read_examples` refuses.
    """
    if hasattr(source, "read"):
        name = str(getattr(source, "name", "<stream>"))
        content = getattr(source, "buffer", source).read()
        if isinstance(content, bytes):
            content = _decode(content, name, encoding)
        return _plain_texts(content, name)
    path = Path(source)
    if path.suffix.lower() == ".txt":
        if columns is not None:
            raise InputError("columns", "given for a .txt file", "no columns: a line is a text")
        return _plain_texts(read_content(path, encoding), path)
    if path.suffix.lower() not in SUFFIXES:
        expected = f"one of .txt, {', '.join(SUFFIXES)}"
        raise InputError(path, f"unknown suffix {path.suffix!r}", expected)
    dataset = read_examples(path, columns=columns, encoding=encoding, require_label=False)
    return [example["text"] for example in dataset.data]


def read_content(path: str | os.PathLike, encoding: str | None = None) -> str:
    """Read a whole text file; a byte order mark that begins the file or a line is dropped.

    Args:
        encoding: what the user asked for; None where nobody can ask for another one than UTF-8.

    Raises:
        InputError: as `runtime.files.read_bytes`; bytes that are not in `encoding` (with their
            line, and the encoding to ask for where it can be told), UTF-16 or -32 that was not
            asked for, or a NUL character.
    """
    return _decode(read_bytes(path), path, encoding)


def _decode(content: bytes, where: str | os.PathLike, encoding: str | None) -> str:
    fixed, encoding = encoding is None, "utf-8-sig" if encoding is None else encoding
    try:
        name = codecs.lookup(encoding).name
        " ".encode(encoding)  # "hex" and the like are codecs, but not of text
        if name.replace("_", "-") in _NO_FILE_ENCODINGS:
            raise LookupError
    except (LookupError, ValueError, TypeError):
        raise InputError("encoding", f"unknown ({encoding!r})", '"utf-8" or "gb18030"') from None
    wide, hint = _wide(content)
    if wide and not name.startswith(wide.lower()):
        advice = "" if fixed else f', or encoding="{hint}"'
        raise InputError(where, f"is {wide}", f"UTF-8 text{advice}", 1)
    if content.startswith(codecs.BOM_UTF8):
        if not name.startswith("utf-8"):
            raise InputError(where, "starts with the mark of UTF-8", 'encoding="utf-8"', 1)
        content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = _line_of(content[: error.start].decode(encoding, "replace"))
        bad = content[error.start : error.start + 1].hex()
        other, advice = _other_encoding(content, name), "save the file as UTF-8"
        if other:
            advice = f'as encoding="{other}" the file can be read'
            advice = f"convert the file from {other}" if fixed else advice
        expected = f"text in that encoding; {advice}"
        raise InputError(where, f"byte 0x{bad} is not {encoding}", expected, line) from None
    except UnicodeError as error:  # utf-16 without its mark, and the like
        raise InputError(where, f"is not {encoding} ({error})", "text in that encoding") from None
    if "\0" in text:
        line = _line_of(text[: text.index("\0")])
        raise InputError(where, "holds a NUL character", "text without binary zeros", line)
    return _MARKS.sub("", text)


def _wide(content: bytes) -> tuple[str, str]:
    """UTF-16 or UTF-32 where these bytes are such text, and the name of that encoding."""
    if content.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "UTF-32", "utf-32"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16", "utf-16"
    zeros = content.count(0)
    if zeros > 1 and (4 * zeros > len(content) or not _decodes(content, "utf-8")):
        for encoding in ("utf-16-le", "utf-16-be"):
            with contextlib.suppress(UnicodeDecodeError):
                text = content.decode(encoding)
                # with its bytes swapped, a tab or a line end is no character of Chinese
                if "\0" not in text and ("\n" in text or "\t" in text):
                    return "UTF-16", encoding
    return "", ""


def _decodes(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _line_of(before: str) -> int:
    """The 1-based line on which the text that follows `before` begins."""
    return 1 + len(line_ends(before))


def line_ends(content: str) -> list[int]:
    """Where each line end of a text ends, rising."""
    return [found.end() for found in _LINE_END.finditer(content)]


def _other_encoding(content: bytes, tried: str) -> str:
    for encoding in ("utf-8", "gb18030"):
        if encoding != tried.removesuffix("-sig") and _decodes(content, encoding):
            return encoding
    return ""


def split_lines(content: str) -> list[str]:
    """Lines that end in LF, CRLF or CR, without their ends."""
    # Not str.splitlines: U+2028, U+0085 or a form feed inside a text are no line ends.
    lines = _LINE_END.split(content)
    return lines[:-1] if lines[-1] == "" else lines


def read_lines(path: str | os.PathLike) -> list[str]:
    """The lines of a whole file, as `read_content` and `split_lines` give them.

    Raises:
        InputError: as `read_content`; there is no line, but a byte order mark alone.
    """
    lines = split_lines(read_content(path))
    if not lines:
        raise InputError(path, "holds no line", "at least one example")
    return lines


def _plain_texts(content: str, where: str | os.PathLike) -> list[str]:
    lines = split_lines(content)
    while lines and is_blank(lines[-1]):
        lines.pop()
    if not lines:
        raise InputError(where, "holds no text", "one text per line")
    for number, line in enumerate(lines, 1):
        check_text(line, where, number)
    return lines


def _table_rows(
    content: str, path: Path, columns: Sequence[str] | None, wanted: list[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, {column: value}) of every example, with the wanted columns only."""
    table = _csv_table(content, path) if path.suffix.lower() == ".csv" else _tsv_table(content)
    line = 1
    if columns is None:
        line, names = next(table, (1, None))
        if names is None:
            raise InputError(path, "holds no line", "a header and at least one example")
        names = [name.strip() for name in names]
        source = "the header"
    else:
        names = list(columns)
        source = "columns"
    if len(set(names)) < len(names):
        raise InputError(path, f"{source} repeats a name ({listed(names)})", "each name once", line)
    for name in wanted:
        if name not in names:
            problem = f"no column {name!r} in {source} ({listed(names)})"
            expected = f"a column {name!r}; for a file without a header name its columns"
            raise InputError(path, problem, expected, line)
    places = {name: names.index(name) for name in wanted}
    for number, (line, fields) in enumerate(table):
        if len(fields) != len(names):
            problem = f"{len(fields)} field{'s' * (len(fields) != 1)}"
            raise InputError(path, problem, f"{len(names)} ({listed(names)})", line)
        if columns is not None and number == 0 and [f.strip() for f in fields] == names:
            raise InputError(path, "a header though columns were named", "one or the other", line)
        yield (
            line,
            {
                name: (check_label if name == "label" else check_text)(fields[at], path, line)
                for name, at in places.items()
            },
        )


def _tsv_table(content: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(split_lines(content), 1):
        if not is_blank(line) or "\t" in line:
            yield number, line.split("\t")


def _csv_table(content: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    while True:
        line = reader.line_num + 1  # where a record begins; line_num is where it ends
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                problem = "the record that begins here has a quote that is never closed"
            elif "field larger" in str(error):
                problem = "the record that begins here has a field that is far too long"
            else:
                problem = f"not well-formed CSV ({error})"
            expected = (
                f'quotes in pairs ("" inside a quoted field), at most {MAX_TEXT:,} characters'
            )
            raise InputError(path, problem, expected, line) from None
        if len(fields) > 1 or not all(map(is_blank, fields)):
            yield line, fields


def _json_rows(content: str, path: Path, wanted: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    expected = "{" + ", ".join(f'"{key}": ...' for key in wanted) + "}"
    for number, line in enumerate(split_lines(content), 1):
        if is_blank(line):
            continue
        record = json_object(line, path, number, expected)
        row = {}
        for key in wanted:
            if key not in record:
                raise InputError(path, f"no key {key!r} (found {listed(record)})", expected, number)
            value = record[key]
            if key != "label":
                if not isinstance(value, str):
                    problem = f"{key} is a JSON {json_type(value)}"
                    raise InputError(path, problem, "a string", number)
                row[key] = check_text(value, path, number)
            elif isinstance(value, bool) or not isinstance(value, (str, int)):
                problem = f"label is a JSON {json_type(value)}"
                raise InputError(path, problem, "a string or a whole number", number)
            else:
                row[key] = check_label(str(value), path, number)
        yield number, row


def json_object(line: str, path: str | os.PathLike, number: int, expected: str) -> dict:
    """Read a line of JSONL.

    Raises:
        InputError: it is not a JSON object; the message says so where the file is one array.
    """
    array = number == 1 and line.lstrip().startswith("[")
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON ({error.msg} at column {error.colno})"
        if not array:
            raise InputError(path, problem, "one JSON object per line", number) from None
        record = []
    except (RecursionError, ValueError):
        raise InputError(path, "JSON out of bounds", "a flat JSON object", number) from None
    if isinstance(record, dict):
        return record
    problem = f"JSON {json_type(record)}, not an object"
    if array:
        problem = "the file is a JSON array, not JSONL"
        expected += " per line (in doccano export as JSONL, not JSON; elsewhere: jq -c '.[]' FILE)"
    raise InputError(path, problem, expected, number)


def check_text(text: str, where: str | os.PathLike, line: int) -> str:
    """Give the text back, or raise InputError where it is none: nothing in it can be seen."""
    if is_blank(text):
        hidden = f": nothing in {text[:6]!a} can be seen" if text.strip() else ""
        raise InputError(where, f"empty text{hidden}", "a text", line)
    if len(text) > MAX_TEXT:
        problem = f"a text of {len(text):,} characters"
        raise InputError(where, problem, f"at most {MAX_TEXT:,}", line)
    if _UNFIT.search(text):
        raise InputError(where, "a NUL or half a surrogate pair in the text", "plain text", line)
    return text


def check_label(label: str, where: str | os.PathLike, line: int | None = None) -> str:
    """Give the label back without white space around it, or raise InputError.

    A character that cannot be seen (`hidden_character`) is refused and not taken out.
    """
    label = label.strip()
    if not label:
        raise InputError(where, "empty label", "a label", line)
    if len(label) > MAX_LABEL:
        problem = f"a label of {len(label):,} characters"
        raise InputError(where, problem, f"at most {MAX_LABEL}", line)
    hidden = hidden_character(label)
    if hidden:
        problem = f"{hidden} in the label {shown(label)}"
        raise InputError(where, problem, "characters that can be seen, and plain spaces", line)
    return label


def _collect_labels(path: Path, rows: list[tuple[int, str]]) -> list[str]:
    lines: dict[str, list[int]] = {}
    for line, label in rows:
        lines.setdefault(label, []).append(line)
    if len(lines) < 2:
        only = shown(next(iter(lines)))
        raise InputError(path, f"only one label ({only})", "two labels at least")
    for label, seen in lines.items():
        if len(seen) == 1:
            problem = f"label {shown(label)} is seen only here"
            raise InputError(path, problem, "each label in two examples at least", seen[0])
    numeric = all(_NUMBER.fullmatch(label) for label in lines)
    return sorted(lines, key=(lambda label: (int(label), label)) if numeric else None)


def shown(value: str) -> str:
    """A value as error messages quote it."""
    return repr(value if len(value) <= 40 else value[:37] + "...")


def listed(names) -> str:
    """The first ten names as error messages quote them."""
    names = list(names)
    return ", ".join(map(shown, names[:10])) + (", ..." if len(names) > 10 else "")


def json_type(value: object) -> str:
    """What JSON calls the type of a value."""
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
