"""What all readers of a user's files share: decoding, lines, and checks of texts and labels.

Files are UTF-8 unless `encoding` says otherwise; lines end in LF, CRLF or CR. Byte order marks are
dropped at the beginning of any line, because files that were joined have some inside.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import warnings
from collections.abc import Mapping
from typing import Any

from ..runtime import InputError
from ..runtime.files import read_bytes
from ..runtime.visible import hidden_character, is_blank

POLICIES = ("strict", "repair")  # for what is wrong in annotated files
MAX_TEXT = 100_000  # characters; a longer "text" is a file that was put together wrongly
MAX_LABEL = 100  # characters

_UNFIT = re.compile("[\0\ud800-\udfff]")
_MARKS = re.compile("(?:^|(?<=[\r\n]))\ufeff+")
_WIDE = {  # in this order: the mark of UTF-32 begins with that of UTF-16
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_LINE_END = re.compile(r"\r\n|\n|\r")


def read_content(source: Any, encoding: str | None = None) -> str:
    """Read a whole text file or open stream; a mark that begins the file or a line is dropped.

    Args:
        encoding: what the user asked for; None where nobody can ask for another one than UTF-8.

    Raises:
        InputError: as `runtime.files.read_bytes`; bytes that are not in `encoding` (with their
            line, and the encoding to ask for where it can be told), UTF-16 or -32 that was not
            asked for, or a NUL character.
    """
    if not hasattr(source, "read"):
        return _decode(read_bytes(source), source, encoding)
    content = getattr(source, "buffer", source).read()
    if isinstance(content, str):
        return content
    return _decode(content, str(getattr(source, "name", "<stream>")), encoding)


def _decode(content: bytes, where: str | os.PathLike, encoding: str | None) -> str:
    fixed, encoding = encoding is None, "utf-8-sig" if encoding is None else encoding
    try:
        name = codecs.lookup(encoding).name
        " ".encode(encoding)  # "hex" and the like are codecs, but not of text
    except (LookupError, ValueError, TypeError):
        raise InputError("encoding", f"unknown ({encoding!r})", '"utf-8" or "gb18030"') from None
    wide = next((wide for wide, marks in _WIDE.items() if content.startswith(marks)), "")
    if wide and not name.startswith(wide.lower()):
        advice = "" if fixed else f", or {_asked(wide.lower())}"
        raise InputError(where, f"is {wide}", f"UTF-8 text{advice}", 1)
    if content.startswith(codecs.BOM_UTF8):
        if not name.startswith("utf-8"):
            raise InputError(where, "starts with the mark of UTF-8", _asked("utf-8"), 1)
        content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = _line_of(content[: error.start].decode(encoding, "replace"))
        bad = content[error.start : error.start + 1].hex()
        other, advice = _other_encoding(content, name), "save the file as UTF-8"
        if other:
            advice = f"with {_asked(other)} the file can be read"
            advice = f"convert the file from {other}" if fixed else advice
        expected = f"text in that encoding; {advice}"
        raise InputError(where, f"byte 0x{bad} is not {encoding}", expected, line) from None
    except UnicodeError as error:  # utf-16 without its mark, and the like
        raise InputError(where, f"is not {encoding} ({error})", "text in that encoding") from None
    if "\0" in text:
        line = _line_of(text[: text.index("\0")])
        raise InputError(where, "holds a NUL character", "text without binary zeros", line)
    return _MARKS.sub("", text)


def _asked(encoding: str) -> str:
    """How to ask for an encoding, in Python and on the command line."""
    return f'encoding="{encoding}" (--encoding {encoding})'


def _line_of(before: str) -> int:
    """The 1-based line on which the text that follows `before` begins."""
    return 1 + len(line_ends(before))


def line_ends(content: str) -> list[int]:
    """Where each line end of a text ends, rising."""
    return [found.end() for found in _LINE_END.finditer(content)]


def _other_encoding(content: bytes, tried: str) -> str:
    for encoding in ("utf-8", "gb18030"):
        with contextlib.suppress(UnicodeDecodeError):
            if encoding != tried.removesuffix("-sig") and "\0" not in content.decode(encoding):
                return encoding
    return ""


def split_lines(content: str) -> list[str]:
    """Lines that end in LF, CRLF or CR, without their ends."""
    # Not str.splitlines: U+2028, U+0085 or a form feed inside a text are no line ends.
    lines = _LINE_END.split(content)
    return lines[:-1] if lines[-1] == "" else lines


def read_lines(path: str | os.PathLike) -> list[str]:
    """The lines of a whole file, as `read_content` and `split_lines` give them."""
    lines = split_lines(read_content(path))
    if not lines:
        raise InputError(path, "holds no line", "at least one example")
    return lines


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


def warn_of(
    where: str | os.PathLike,
    found: Mapping[str, list[int]],
    questions: Mapping[str, list[str]] | None = None,
) -> None:
    """Warn of what a reader has repaired or left out: how often, and on which lines first.

    Args:
        questions: the ids of the questions, which are told where all lines are the same.
    """
    for what, lines in found.items():
        if lines:
            places, told = [str(line) for line in lines], "lines "
            if questions and len(set(lines)) == 1:
                places, told = list(dict.fromkeys(questions[what])), f"line {lines[0]}, questions "
            told += ", ".join(places[:5]) + (", ..." if len(places) > 5 else "")
            warnings.warn(f"{where}: {what}: {len(lines)} ({told})", stacklevel=4)


def check_text(text: str, where: str | os.PathLike, line: int, column: str | None = None) -> str:
    """Give the text back, or raise InputError where it is none: nothing in it can be seen."""
    if is_blank(text):
        hidden = f": nothing in {text[:6]!a} can be seen" if text.strip() else ""
        field = f" in {column!r}" if column else ""
        also = ", or --skip_empty to leave such rows out" if column else ""
        raise InputError(where, f"empty text{field}{hidden}", f"a text{also}", line)
    if len(text) > MAX_TEXT:
        problem = f"a text of {len(text):,} characters"
        raise InputError(where, problem, f"at most {MAX_TEXT:,}", line)
    if _UNFIT.search(text):
        raise InputError(where, "a NUL or half a surrogate pair in the text", "plain text", line)
    return text


def check_label(
    label: str, where: str | os.PathLike, line: int | None = None, column: str | None = None
) -> str:
    """Give the label back without white space around it, or raise InputError.

    A character that cannot be seen (`hidden_character`) is refused and not taken out.
    """
    label = label.strip()
    if not label:
        field = f" in {column!r}" if column else ""
        raise InputError(where, f"empty label{field}", "a label", line)
    if len(label) > MAX_LABEL:
        problem = f"a label of {len(label):,} characters"
        raise InputError(where, problem, f"at most {MAX_LABEL}", line)
    hidden = hidden_character(label)
    if hidden:
        problem = f"{hidden} in the label {shown(label)}"
        raise InputError(where, problem, "characters that can be seen, and plain spaces", line)
    return label


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
