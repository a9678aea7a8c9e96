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
comments, docstrings and the hints of check cells (tools/messages.py translates them); outputs are
taken over, so a figure keeps its English labels, and a line below it explains them. A block that is
stale (its English cell has changed) is replaced by the English cell until someone has looked.
README.zh.md and the other pages in PAGES hold such blocks themselves, one for each section.
i18n/README.md tells translators how to work.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from nbformat import NotebookNode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from course_lib.runtime import InputError, atomic_file
from tools import notebooks
from tools.messages import (
    KEEP,
    folder,
    messages_of,
    read_messages,
    translate_code,
    write_messages,
)

MARK = re.compile(r"^<!-- cell (\S+) en ([0-9a-f]{8})( todo)? -->$", re.MULTILINE)
STATE = re.compile(r"<!-- (\S+): (complete|in progress) -->\n")
LINK = re.compile(r"(\]\(|<img [^>]*src=\")(?!https?:|mailto:|data:|#)([^)#\"\s]+)")
CHINESE = re.compile(r"[\u3400-\u9fff]")
DRAWN = "*图中文字："
# Between Chinese and Chinese; after a punctuation mark also before Latin letters and code.
BREAK = re.compile(
    r"(?<=[\u3400-\u9fff])\n(?=[\u3400-\u9fff（“《])"
    r"|(?<=[，。：；、？！）”》])\n(?=[\u3400-\u9fff（“《`\[A-Za-z])"
)
GUIDES = ("command_line", "copying", "gpu", "instructors", "two_stacks")
PAGES = ("README", "CONTRIBUTING", "data/README", *(f"docs/{name}" for name in GUIDES))


class Block(NamedTuple):
    """The Chinese text of a cell, and the digest of the English cell that it translates."""

    digest: str
    text: str
    todo: bool


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
                if rest.startswith(DRAWN):  # what the library has drawn, by hand
                    by_hand, gap, rest = rest.partition("\n\n")
                    labels.append(by_hand.removeprefix(DRAWN).rstrip("*"))
                explained = f"{first}\n\n{DRAWN}{'；'.join(dict.fromkeys(labels))}*"
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
    if _stars(chinese) > _stars(english):
        yield "has * or ** that is not read as emphasis: no punctuation before a closing one"
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


def _stars(text: str) -> int:
    """Count the asterisks that a reader sees."""
    inline = (each for token in MarkdownIt().parse(text) for each in token.children or [])
    return sum(each.content.count("*") for each in inline if each.type == "text")


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
