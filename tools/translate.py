"""The Chinese edition: i18n/zh/ is its source, solutions/zh/ and notebooks/zh/ are generated.

    python tools/translate.py status          the share that is translated, per chapter
    python tools/translate.py draft NAME ...  write or update i18n/zh/NN_name.md and messages.tsv
    python tools/translate.py check           what is missing, stale or inconsistent; status 1
    python tools/translate.py confirm NAME [CELL ...]  these stale blocks are right again

i18n/zh/NN_name.md holds one block for each markdown cell: a line with the cell's id and a digest of
the English cell, then the Chinese text. `todo` after the digest: the text is still English.

    <!-- cell a27c8709 en 1f2e3d4c -->
    # 12 · 词向量

The first line of the file says `complete` or `in progress`. `python tools/notebooks.py generate`
writes the editions of complete chapters. Code cells are those of the English chapter, but for
comments, docstrings and the hints of check cells, which messages.tsv translates; outputs are taken
over, so a figure keeps its English labels, and a line below it explains them. A block that is
stale (its English cell has changed) is replaced by the English cell until someone has looked.
README.zh.md, CONTRIBUTING.zh.md and data/README.zh.md hold such blocks themselves, one for each
section.
i18n/README.md tells translators how to work.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from nbformat import NotebookNode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from course_lib.runtime import InputError, atomic_file
from tools import exercises, notebooks

MARK = re.compile(r"^<!-- cell (\S+) en ([0-9a-f]{8})( todo)? -->$", re.MULTILINE)
STATE = re.compile(r"<!-- (\S+): (complete|in progress) -->\n")
KEEP = "="  # in place of a translation: the text stays as it is
LINK = re.compile(r"(\]\(|<img [^>]*src=\")(?!https?:|mailto:|data:|#)([^)#\"\s]+)")
CHINESE = re.compile(r"[\u3400-\u9fff]")
DIRECTIVE = re.compile(r"#\s*(noqa|fmt|type|ruff|NBVAL|#)|#+\s*(BEGIN|END) SOLUTION")
# Between Chinese and Chinese; after a punctuation mark also before Latin letters and code.
BREAK = re.compile(
    r"(?<=[\u3400-\u9fff])\n(?=[\u3400-\u9fff（“《])"
    r"|(?<=[，。：；、？！）”》])\n(?=[\u3400-\u9fff（“《`\[A-Za-z])"
)
PAGES = ("README", "CONTRIBUTING", "data/README")
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LABELS = {"set_title", "set_xlabel", "set_ylabel", "suptitle", "title", "xlabel", "ylabel"}


class Block(NamedTuple):
    """The Chinese text of a cell, and the digest of the English cell that it translates."""

    digest: str
    text: str
    todo: bool


def folder() -> Path:
    return notebooks.ROOT / "i18n" / "zh"


def number_of(path: Path) -> str:
    """Return the number of a chapter, such as 04a, by which messages.tsv names it."""
    return path.stem.split("_")[0]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# i18n/zh/NN_name.md


def read_blocks(path: Path) -> tuple[bool, dict[str, Block]]:
    """Return whether the chapter claims to be complete, and its blocks by the cell's id."""
    text = path.read_text(encoding="utf-8")
    state = STATE.match(text)
    if state is None or state[1] != path.stem:
        raise InputError(path, "its first line is wrong", f"<!-- {path.stem}: in progress -->")
    blocks: dict[str, Block] = {}
    marks = list(MARK.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=True):
        line = text.count("\n", 0, mark.start()) + 1
        if mark[1] in blocks:
            raise InputError(path, "a second block for this cell", "one", line)
        blocks[mark[1]] = Block(mark[2], text[mark.end() : end].strip("\n"), bool(mark[3]))
    loose = re.search(r"^<!-- *cell(?! \S+ en [0-9a-f]{8}( todo)? -->$).*", text, re.MULTILINE)
    if loose:
        line = text.count("\n", 0, loose.start()) + 1
        raise InputError(path, f"{loose[0]!r}", "<!-- cell ID en DIGEST -->", line)
    return state[2] == "complete", blocks


def write_blocks(path: Path, complete: bool, blocks: dict[str, Block]) -> None:
    parts = [f"<!-- {path.stem}: {'complete' if complete else 'in progress'} -->\n"]
    for name, block in blocks.items():
        todo = " todo" if block.todo else ""
        parts.append(f"\n<!-- cell {name} en {block.digest}{todo} -->\n{block.text}\n")
    with atomic_file(path) as handle:
        handle.write("".join(parts))


def prose(notebook: NotebookNode) -> dict[str, str]:
    """Return the English text of each markdown cell by the cell's id."""
    return {cell.id: cell.source for cell in notebook.cells if cell.cell_type == "markdown"}


def page(name: str) -> tuple[Path, dict[str, str]]:
    """Return the Chinese file of a page, and the sections of the English one by their headings."""
    text = (notebooks.ROOT / f"{name}.md").read_text(encoding="utf-8")
    parts = [part.strip("\n") for part in re.split(r"^(?=## )", text, flags=re.MULTILINE)]
    headings = [re.sub(r"\W+", "-", part.splitlines()[0].strip("# ")).lower() for part in parts]
    return notebooks.ROOT / f"{name}.zh.md", dict(zip(headings, parts, strict=True))


# messages.tsv: chapter, English, Chinese


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
    for node in ast.walk(tree):
        if is_check and isinstance(node, ast.Assert) and _is_text(node.msg):
            yield "hint", node.msg
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, False):
            yield "docstring", node.body[0].value


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
        raise InputError(where, "a translation changes what the cell does", "texts only")
    return source


def skeleton(source: str) -> str:
    """Return the syntax tree of a cell without docstrings and the texts of assertions."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and _is_text(node.msg):
            text = _text(node.msg)
            values = _values(text) if isinstance(node.msg, ast.JoinedStr) else []
            node.msg = ast.Constant("".join(values))
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, False):
            node.body[0] = ast.Pass()
    return ast.dump(tree)


# The edition


def joined(text: str) -> str:
    """Join lines that a browser would join with a space, which Chinese does not have there."""
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        before = lines[-1] if lines and not fenced else "#"
        if not before.startswith(("#", "|")) and BREAK.search(f"{before[-1:]}\n{line[:1]}"):
            lines[-1] += line
        else:
            lines.append(line)
    return "\n".join(lines)


def relink(text: str, chapters: set[str]) -> str:
    """Let relative links of a chapter point from solutions/zh/, to Chinese pages where there are.

    Args:
        chapters: names of the notebooks that have a Chinese edition.
    """

    def replace(match: re.Match) -> str:
        page = re.sub(r"\.md$", ".zh.md", match[2])
        there = page != match[2] and (notebooks.SOLUTIONS / page).exists()
        return match[0] if match[2] in chapters else f"{match[1]}../{page if there else match[2]}"

    return LINK.sub(replace, text)


def edition(
    notebook: NotebookNode,
    blocks: dict[str, Block],
    messages: dict[str, str],
    chapters: set[str],
    where: str,
) -> NotebookNode:
    """Return the Chinese chapter; cells whose block is missing or stale stay English."""
    result, labels = copy.deepcopy(notebook), []
    for number, cell in enumerate(result.cells, 1):
        if cell.cell_type == "code":
            place = f"{where}, cell {number}"
            pairs = [
                (each.english, messages.get(each.english, ""))
                for each in messages_of(cell)
                if each.kind == "label"
            ]
            labels = [f"{en}（{zh}）" for en, zh in pairs if zh not in ("", KEEP)]
            cell["source"] = translate_code(cell, messages, place)
            continue
        block = blocks.get(cell.id)
        if block and not block.todo and block.digest == digest(cell.source):
            cell["source"] = joined(block.text)
            if labels and cell.source.startswith("*图"):
                first, gap, rest = cell.source.partition("\n\n")
                explained = f"{first}\n\n*图中文字：{'；'.join(dict.fromkeys(labels))}*"
                cell["source"] = f"{explained}{gap}{rest}"
        labels = []
        cell["source"] = relink(cell.source, chapters)
    course = {
        key: each for key, each in notebook.metadata.get("course", {}).items() if key != "code"
    }
    result.metadata["course"] = {**course, "language": "zh-CN"}
    result.metadata["course"]["generated"] = notebooks.work_digest(result)
    return result


def sources() -> dict[Path, tuple[bool, dict[str, Block]]]:
    """Return (complete, blocks) of each chapter that has a file in i18n/zh/, by its notebook."""
    paths = {path: folder() / f"{path.stem}.md" for path in notebooks.chapters()}
    return {path: read_blocks(file) for path, file in paths.items() if file.exists()}


def messages_for(path: Path, messages: dict[tuple[str, str], str]) -> dict[str, str]:
    """Return a chapter's messages; chapter `*` holds those of all chapters."""
    number = number_of(path)
    return {
        english: chinese
        for (chapter, english), chinese in messages.items()
        if chapter in ("*", number)
    }


def editions() -> dict[Path, NotebookNode]:
    """Return the Chinese edition of every complete chapter, by its path in solutions/zh/."""
    known = {path: blocks for path, (complete, blocks) in sources().items() if complete}
    names, messages = {path.name for path in known}, read_messages()
    return {
        path.parent / "zh" / path.name: edition(
            notebooks.read(path), blocks, messages_for(path, messages), names, f"zh/{path.name}"
        )
        for path, blocks in known.items()
    }


# What is missing or wrong


def problems() -> Iterator[str]:
    """Yield what is missing in complete chapters, and what is stale or inconsistent in any."""
    messages, glossary = read_messages(), read_glossary()
    for path, (complete, blocks) in sources().items():
        name, notebook = f"i18n/zh/{path.stem}.md", notebooks.read(path)
        texts, mine = prose(notebook), messages_for(path, messages)
        yield from faults(name, complete, blocks, texts)
        said = [m for cell in notebook.cells if cell.cell_type == "code" for m in messages_of(cell)]
        if complete:
            for text in dict.fromkeys(m.english for m in said if not mine.get(m.english)):
                yield f"i18n/zh/messages.tsv, chapter {number_of(path)}: {text!r} is missing"
            for entry, _ in words(notebook):
                if term_of(entry, glossary) is None:
                    yield f"i18n/zh/glossary.tsv: has no {entry!r}, as {path.stem} says in Words"
        known = {m.english for m in said}
        for chapter, english in messages:
            if chapter == number_of(path) and english not in known:
                yield f"i18n/zh/messages.tsv, chapter {chapter}: nothing says {english!r}"


def page_problems() -> Iterator[str]:
    """Yield the same of the pages, whose links may lead to Chinese chapters and pages."""
    for name in PAGES:
        if not (notebooks.ROOT / f"{name}.zh.md").exists():
            continue
        file, texts = page(name)
        complete, blocks = read_blocks(file)
        plain = {
            cell: block._replace(text=re.sub(r"(?<=/)zh/(?=\d)|\.zh(?=\.md\))", "", block.text))
            for cell, block in blocks.items()
        }
        yield from faults(file.name, complete, plain, texts)


def faults(
    name: str, complete: bool, blocks: dict[str, Block], texts: dict[str, str]
) -> Iterator[str]:
    """Yield what is wrong with the blocks of a file; a file in progress may lag behind."""
    for cell, text in texts.items():
        block, title = blocks.get(cell), f"{name}, cell {cell} ({text.splitlines()[0][:50]})"
        if block is None or block.todo:
            if complete:
                yield f"{title}: is missing"
        elif block.digest == digest(text):
            yield from (f"{title}: {each}" for each in differences(text, block.text))
        elif complete:
            yield f"{title}: is stale, its English text has changed"
    if complete:
        yield from (
            f"{name}, cell {cell}: is not in English" for cell in blocks if cell not in texts
        )


def differences(english: str, chinese: str) -> Iterator[str]:
    """Yield what a translation has to keep and does not: headings, links, code and numbers."""
    levels = [re.findall(r"^(#+) ", _no_code(text), re.MULTILINE) for text in (english, chinese)]
    if levels[0] != levels[1]:
        yield f"has headings {levels[1]} instead of {levels[0]}"
    if not CHINESE.search(chinese) and len(re.findall("[A-Za-z]+", english)) > 3:
        yield "has no Chinese in it"
    inline = (each for token in MarkdownIt().parse(chinese) for each in token.children or [])
    if any(each.type == "text" and "**" in each.content for each in inline):
        yield "has ** that is not read as bold: no punctuation before a closing **"
    kept = {
        "the link": r"\]\(([^)\s]+)\)",
        "the code": r"(?<!`)`((?:[^`\n]|\n(?!\n))+)`(?!`)",
        "the number": r"(?<![\w.,])(\d[\d.,]*\d)(?!\w| million| billion|[.,]\d)",
        "the tag": r"<(\w+)>",
        "the formula": r"\$([^$\n]+)\$",
    }
    for what, pattern in kept.items():
        needed, there = (
            {" ".join(found.split()) for found in re.findall(pattern, text)}
            for text in (english, chinese)
        )
        for found in sorted(needed - there):
            if what != "the number" or found not in chinese:
                yield f"lacks {what} {found}"


def _no_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def read_glossary() -> dict[str, list[str]]:
    """Return the Chinese of each English term: the one to use, then others that are known."""
    path, found = folder() / "glossary.tsv", {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines[1:], 2):
        english, chinese, *_ = line.split("\t")
        if english in found:
            raise InputError(path, f"{english!r} is there twice", "one row per term", number)
        found[english] = chinese.split("；")
    return found


def words(notebook: NotebookNode) -> list[tuple[str, str]]:
    """Return the entries of a chapter's list **Words** as ("term 词", the API's name or "")."""
    text = notebook.cells[-1].source.partition("**Words**")[2].partition("**Next**")[0]
    text = text.lstrip(":： ").rstrip(".。 \n")
    entries = [entry.partition("`") for entry in " ".join(text.split()).split(" · ") if entry]
    return [(term.strip(" ,;"), api.replace("`", "").strip()) for term, _, api in entries]


def term_of(entry: str, glossary: dict[str, list[str]]) -> str | None:
    """Return the term of an entry such as "soft label 软标签", None where the glossary differs."""
    fitting = (t for t, chinese in glossary.items() if entry in {f"{t} {each}" for each in chinese})
    return next(fitting, None)


# Command line


def draft(path: Path) -> None:
    """Write or update a chapter's file and its rows in messages.tsv; nothing written is lost."""
    notebook = notebooks.read(path)
    update(folder() / f"{path.stem}.md", prose(notebook))
    messages, number = read_messages(), number_of(path)
    known = messages_for(path, messages)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    said = [message.english for cell in cells for message in messages_of(cell)]
    mine = {
        (number, english): known.get(english, "")
        for english in said
        if ("*", english) not in messages
    }
    write_messages({**{key: text for key, text in messages.items() if key[0] != number}, **mine})


def update(file: Path, texts: dict[str, str]) -> None:
    """Write a file of blocks, or add what it lacks; `check` names blocks without a cell."""
    complete, blocks = read_blocks(file) if file.exists() else (False, {})
    fresh = {cell: Block(digest(text), text, True) for cell, text in texts.items()}
    kept = {cell: block for cell, block in blocks.items() if cell in texts and not block.todo}
    lost = {cell: block for cell, block in blocks.items() if cell not in texts and not block.todo}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_blocks(file, complete, {**fresh, **kept, **lost})


def confirm(file: Path, texts: dict[str, str], cells: list[str]) -> None:
    """Give stale blocks the digest of today's English cell."""
    complete, blocks = read_blocks(file)
    for cell in cells or texts:
        if cell in blocks and cell in texts and not blocks[cell].todo:
            blocks[cell] = blocks[cell]._replace(digest=digest(texts[cell]))
    write_blocks(file, complete, blocks)


def status() -> None:
    known, messages = sources(), read_messages()
    print(f"{'chapter':<34}{'blocks':>10}{'stale':>7}{'messages':>11}")
    for path in notebooks.chapters():
        complete, blocks = known.get(path, (False, {}))
        notebook, mine = notebooks.read(path), messages_for(path, messages)
        texts = prose(notebook)
        done = [c for c in texts if c in blocks and not blocks[c].todo]
        stale = sum(blocks[cell].digest != digest(texts[cell]) for cell in done)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        said = {message.english for cell in cells for message in messages_of(cell)}
        told = sum(bool(mine.get(text)) for text in said)
        state = "complete" if complete else "in progress" if path in known else ""
        print(
            f"{path.stem:<34}{f'{len(done)}/{len(texts)}':>10}{stale:>7}"
            f"{f'{told}/{len(said)}':>11}  {state}".rstrip()
        )


def source_of(name: str) -> tuple[Path, dict[str, str]]:
    """Return the file of blocks of a chapter or page, and its English texts."""
    if name in PAGES:
        return page(name)
    (path,) = notebooks.chapters([name])
    return folder() / f"{path.stem}.md", prose(notebooks.read(path))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Keep the Chinese edition in step.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("status", help="the share that is translated, per chapter")
    commands.add_parser("check", help="what is missing, stale or inconsistent; status 1 if any")
    command = commands.add_parser("draft", help="write or update the files of chapters")
    command.add_argument("names", nargs="+", help="12, 12_word_embeddings or README")
    command = commands.add_parser("confirm", help="stale blocks are right again")
    command.add_argument("name", help="12, 12_word_embeddings or README")
    command.add_argument("cells", nargs="*", help="ids of cells (default: all)")
    options = parser.parse_args(arguments)
    try:
        if options.command == "status":
            status()
        elif options.command == "draft":
            for name in options.names:
                update(*page(name)) if name in PAGES else draft(*notebooks.chapters([name]))
        elif options.command == "confirm":
            confirm(*source_of(options.name), options.cells)
        else:
            found = [*problems(), *page_problems()]
            print(*found, sep="\n", end="\n" if found else "")
            return int(bool(found))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
