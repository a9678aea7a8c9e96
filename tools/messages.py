"""What the code cells of the Chinese edition say: i18n/zh/messages.tsv, and where it goes.

A row holds the number of a chapter (`*` for all), a text of its code cells, and the Chinese. Texts
are comments, docstrings, the labels of figures and the hints of check cells: what an assertion
says, and every other sentence.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from course_lib.runtime import InputError, atomic_file
from tools import exercises, notebooks

from nbformat import NotebookNode

KEEP = "="  # in place of a translation: the text stays as it is
DIRECTIVE = re.compile(r"#\s*(noqa|fmt|type|ruff|NBVAL|#)|#+\s*(BEGIN|END) SOLUTION")
SENTENCE = re.compile(r"(?:[A-Za-z]\w* .*\.|[\u3400-\u9fff].*。)$", re.DOTALL)
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LABELS = {"set_title", "set_xlabel", "set_ylabel", "suptitle", "title", "xlabel", "ylabel"}


def folder() -> Path:
    return notebooks.ROOT / "i18n" / "zh"


def read_messages() -> dict[tuple[str, str], str]:
    """Return the Chinese of each message by (number of the chapter, English); "" where missing."""
    path, found = folder() / "messages.tsv", {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines[1:], 2):
        if line.count("\t") != 2:
            problem = f"has {line.count(chr(9))} tabs"
            raise InputError(path, problem, "chapter, English, Chinese between two tabs", number)
        chapter, english, chinese = map(_unescape, line.split("\t"))
        found[chapter, english] = chinese
    return found


def write_messages(messages: dict[tuple[str, str], str]) -> None:
    rows = sorted(messages.items(), key=lambda row: row[0][0])  # stable: a chapter's own order
    with atomic_file(folder() / "messages.tsv") as handle:
        handle.write("chapter\tEnglish\t中文\n")
        for (chapter, english), chinese in rows:
            handle.write("\t".join(map(_escape, (chapter, english, chinese))) + "\n")


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace("\t", r"\t")


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), text)


class Message(NamedTuple):
    """A piece of a code cell that is translated, and the characters that it takes there."""

    kind: str  # hint, docstring, comment or label
    english: str
    start: int
    end: int
    is_format: bool = False


def messages_of(cell: NotebookNode) -> list[Message]:
    """Return what a code cell says to its reader, in order.

    A string with values in it (an f-string) is given as its source between the quotes.
    """
    source = cell.source
    tree = ast.parse(source)
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:  # ast counts bytes
        return len(source.encode()[: starts[line - 1] + column].decode())

    found = [
        Message(
            kind,
            _text(node),
            place(node.lineno, node.col_offset),
            place(node.end_lineno, node.end_col_offset),
            isinstance(node, ast.JoinedStr),
        )
        for kind, node in _strings(tree, exercises.name_of(cell, "check") is not None)
    ]
    if any("image/png" in output.get("data", {}) for output in cell.outputs):
        found += [Message("label", _text(node), -1, -1) for node in _labels(tree)]
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
            start, text = lines[token.start[0] - 1] + token.start[1], token.string.lstrip("# ")
            if len(re.findall(r"[A-Za-z]{2,}", text)) > 1:
                end = start + len(token.string)
                found.append(Message("comment", text, end - len(text), end))
    return sorted(found, key=lambda message: message.start)


def _strings(tree: ast.Module, is_check: bool) -> Iterator[tuple[str, ast.expr]]:
    if is_check:
        yield from (("hint", node) for node in _hints(tree))
    yield from (("docstring", node.body[0].value) for node in _documented(tree))


def _documented(tree: ast.Module) -> list[ast.stmt]:
    found = (node for node in ast.walk(tree) if isinstance(node, DOCUMENTED))
    return [node for node in found if ast.get_docstring(node, False)]


def _hints(tree: ast.Module) -> list[ast.expr]:
    """Return the messages of assertions, and all other sentences that are not docstrings."""
    nodes = list(ast.walk(tree))
    asserted = [node.msg for node in nodes if isinstance(node, ast.Assert) and _is_text(node.msg)]
    known = {*asserted, *(node.body[0].value for node in _documented(tree))}
    known.update(part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values)
    others = (node for node in nodes if _is_text(node) and node not in known)
    return [*asserted, *(node for node in others if SENTENCE.search(_text(node)))]


def _labels(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the texts that a cell writes into its figure."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            texts = node.args[:1] if name in LABELS else []
            texts += [each.value for each in node.keywords if each.arg in {*LABELS, "label"}]
            yield from (
                text for text in texts if _is_text(text) and re.search("[a-z]", _text(text))
            )


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _text(node: ast.expr) -> str:
    """Return a string's value; of an f-string its source, the same on each version of Python."""
    if isinstance(node, ast.Constant):
        return node.value
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(part.value.replace("{", "{{").replace("}", "}}"))
            continue
        form = _text(part.format_spec) if part.format_spec else ""
        sign = f"!{chr(part.conversion)}" if part.conversion > 0 else ""
        parts.append(f"{{{ast.unparse(part.value)}{sign}{':' if form else ''}{form}}}")
    return "".join(parts)


def _literal(text: str, is_format: bool) -> str:
    """Return the source of a string, in double quotes as ruff writes them."""
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    if is_format:  # between braces there is code, in which ast.unparse prefers single quotes
        return 'f"' + re.sub(r'(\{[^{}]*\})|"', lambda match: match[1] or '\\"', plain) + '"'
    return '"' + plain.replace('"', '\\"') + '"'


def _values(text: str) -> list[str]:
    """Return what stands in the braces of an f-string, in the order of the alphabet."""
    return sorted(re.findall(r"\{[^{}]*\}", text.replace("{{", "").replace("}}", "")))


def translate_code(cell: NotebookNode, messages: dict[str, str], where: str) -> str:
    """Return the source of a code cell with its messages in Chinese.

    Raises:
        InputError: a translation has other values in it than the English text, or would change
            what the cell does.
    """
    source = cell.source
    for message in reversed(messages_of(cell)):
        chinese = messages.get(message.english, "")
        if message.kind == "label" or chinese in ("", KEEP):
            continue
        if message.kind == "comment":
            new = chinese
        elif message.kind == "docstring":
            new = f'"""{chinese}"""'
        else:
            if message.is_format and _values(chinese) != _values(message.english):
                problem = f"{chinese!r} has other values than {message.english!r}"
                raise InputError(where, problem, "the same {...} in both")
            new = _literal(chinese, message.is_format)
        source = source[: message.start] + new + source[message.end :]
    if skeleton(source) != skeleton(cell.source):
        raise InputError(
            where, "a translation changes what the cell does", "texts; a sentence has its 。"
        )
    return source


def skeleton(source: str) -> str:
    """Return the syntax tree of a cell without docstrings and the texts of hints."""
    tree = ast.parse(source)
    for node in _hints(tree):
        if isinstance(node, ast.JoinedStr):
            node.values = [ast.Constant("".join(_values(_text(node))))]
        else:
            node.value = ""
    for node in _documented(tree):
        node.body[0] = ast.Pass()
    return ast.dump(tree)
