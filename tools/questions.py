"""docs/QUESTIONS.md: where the course answers each question of the three documents.

    python tools/questions.py generate [--check]   write (or compare) the page in both languages

docs/questions.yml lists the questions, with the chapters and the functions that answer them. Which
section of a chapter it is, the section itself says, in the line below its heading:

    ## 3 An index
    *[FAQ](../docs/QUESTIONS.md): Q4.4, draft 23*

`problems` finds what does not fit: a question without a section, a section with an unknown one, a
function that there is not or that the section does not use.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.runtime import InputError  # noqa: E402
from tools import notebooks, pages  # noqa: E402

import yaml  # noqa: E402
from pydantic import BaseModel, Field, ValidationError  # noqa: E402

SOURCE = ROOT / "docs" / "questions.yml"
PAGES = {"en": ROOT / "docs" / "QUESTIONS.md", "zh": ROOT / "docs" / "QUESTIONS.zh.md"}
SOLUTIONS = ROOT / "solutions"
POINTER = re.compile(r"\*\[FAQ\]\(\.\./docs/QUESTIONS\.md\): ([^*]+)\*")
HEADING = re.compile(r"## +(.+)")
HEADS = {
    "en": """<a href="QUESTIONS.zh.md">中文</a>

# Questions and answers

These are questions that users of PaddleNLP often ask, with the sections of the course that answer \
them (run the setup of the chapter first), and functions to copy. A number with a Q is that of \
PaddleNLP's FAQ; *draft* 5 is question 5 of an older draft of it.""",
    "zh": """<a href="QUESTIONS.md">English</a>

# 问题与解答

PaddleNLP 的用户经常提出的问题，本课程回答它们的各节（先运行该章的准备单元格），\
以及可以复制的函数。带 Q 的是 PaddleNLP 官方 FAQ 的编号；\
*草稿* 5 是 FAQ 早期草稿里的第 5 个问题。""",
}
COLUMNS = {
    "en": ["Question", "Number", "Sections", "Functions"],
    "zh": ["问题", "编号", "章节", "函数"],
}
Id = Annotated[str, Field(pattern=r"^(Q[1-9]\.[1-9]\d*|draft [1-9]\d*)$")]
Function = Annotated[str, Field(pattern=r"^\w+(\.\w+)+$")]


class Question(BaseModel, extra="forbid"):
    """A question as docs/questions.yml has it.

    Attributes:
        theme: in English and in Chinese.
        ids: its numbers in the documents.
        text: a cell of a table in Markdown, so without bars and line ends.
        zh: the same in Chinese.
        answers: chapter ("02") -> functions, dotted, within course_lib.
    """

    theme: tuple[str, str]
    ids: list[Id] = Field(min_length=1)
    text: str = Field(alias="question", pattern=r"^[^|\n]+$")
    zh: str = Field(pattern=r"^[^|\n]*[\u3400-\u9fff][^|\n]*$")
    answers: dict[str, list[Function]]


@dataclass
class Section:
    """A section of a chapter that answers questions.

    Attributes:
        chapter: the notebook's name without its ending.
        chinese: its heading in the Chinese edition, "" where there is none.
        ids: of its pointer line.
        names: every name and attribute in its code.
    """

    chapter: str
    heading: str
    chinese: str = ""
    ids: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    @property
    def number(self) -> str:
        return self.chapter.partition("_")[0]

    def link(self, language: str) -> str:
        """As Jupyter and nbviewer name a heading: its text, hyphens for spaces."""
        heading, folder = self.heading, "notebooks"
        if language == "zh" and self.chinese:
            heading, folder = self.chinese, "notebooks/zh"
        anchor = quote(heading.replace("`", "").replace(" ", "-"))
        note = "（英文）" if language == "zh" and not self.chinese else ""
        return f"[{self.number} · {heading}](../{folder}/{self.chapter}.ipynb#{anchor}){note}"


def read_questions(path: Path = SOURCE) -> list[Question]:
    """The questions in their order.

    Raises:
        InputError: the file is not of the form that its head describes, or an id is there twice.
    """
    expected = "themes with questions: ids, question, zh, answers"
    try:
        themes = yaml.safe_load(path.read_text(encoding="utf-8"))
        questions = [
            Question(theme=(theme["theme"], theme["zh"]), **entry)
            for theme in themes
            for entry in theme["questions"]
        ]
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        problem = f"{place} {first['input']!r:.60}: {first['msg']}"
        raise InputError(path, problem, expected) from None
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError) as error:
        raise InputError(path, f"cannot be read ({error})", expected) from None
    counts = Counter(name for question in questions for name in question.ids)
    for name, count in counts.items():
        if count > 1:
            raise InputError(path, f"has {name} twice", "each id once")
    return questions


def read_sections(directory: Path = SOLUTIONS) -> list[Section]:
    """The sections that carry a pointer line, in the order of the chapters.

    Raises:
        InputError: a pointer line that cannot be read, or that does not follow its heading.
    """
    sections = []
    for path in sorted(directory.glob("[0-9][0-9]*_*.ipynb")):
        section, chinese = Section(path.stem, ""), path.parent / "zh" / path.name
        cells = notebooks.read(chinese).cells if chinese.exists() else []
        translated = {cell.id: cell.source.splitlines() for cell in cells}
        for cell in notebooks.read(path).cells:
            if cell.cell_type == "code":
                section.names |= names_in(cell.source)
                continue
            found = map(HEADING.fullmatch, translated.get(cell.id, []))
            headings = iter([heading[1] for heading in found if heading])
            before = ""
            for line in filter(None, map(str.strip, cell.source.splitlines())):
                if heading := HEADING.fullmatch(line):
                    section = Section(path.stem, heading[1], next(headings, ""))
                elif re.match(r"\*\[?FAQ(?!\*)", line):
                    pointer = POINTER.fullmatch(line)
                    if not pointer or before != f"## {section.heading}":
                        problem = f"{line!r} below {before!r}"
                        expected = "*[FAQ](../docs/QUESTIONS.md): ids* below a heading of ##"
                        raise InputError(path, problem, expected)
                    section.ids = [name.strip() for name in pointer[1].split(",")]
                    sections.append(section)
                before = re.sub(r"^## +", "## ", line)
    return sections


def names_in(code: str) -> set[str]:
    """Every name, attribute and imported name in code; none in what is not Python."""
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except SyntaxError:
        return set()
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    return names | {alias.name for node in imports for alias in node.names}


def find_function(dotted: str) -> Path:
    """The file of a function or class of course_lib.

    Raises:
        InputError: there is none of that name.
    """
    module, _, name = dotted.rpartition(".")
    try:
        function = getattr(importlib.import_module(f"course_lib.{module}"), name)
        return Path(inspect.getsourcefile(inspect.unwrap(function))).relative_to(ROOT)
    except (ImportError, AttributeError, TypeError, ValueError):
        raise InputError(SOURCE, f"names {dotted}", "a function of course_lib") from None


def problems(questions: list[Question], sections: list[Section]) -> list[str]:
    """What does not fit, one line each; none when all is well."""
    lines = []
    known = {name for question in questions for name in question.ids}
    for section in sections:
        unknown = [name for name in section.ids if name not in known]
        lines += [f"{section.chapter}, {section.heading}: no question {name}" for name in unknown]
    for question in questions:
        name = " = ".join(question.ids)
        names: dict[str, set[str]] = {}  # chapter -> what its sections on the question use
        for section in answering(question, sections):
            names[section.number] = names.get(section.number, set()) | section.names
        for number in sorted(question.answers.keys() - names):
            lines.append(f"{name}: no section of chapter {number} points to it")
        for number in sorted(names.keys() - question.answers):
            lines.append(f"{name}: chapter {number} points to it, {SOURCE.name} does not know that")
        if not question.answers:
            lines.append(f"{name}: no chapter answers it")
        for number, functions in question.answers.items():
            for function in functions:
                try:
                    find_function(function)
                except InputError as error:
                    lines.append(f"{name}: {error}")
                    continue
                if number in names and function.rpartition(".")[2] not in names[number]:
                    lines.append(f"{name}: its section in chapter {number} does not use {function}")
    return lines


def answering(question: Question, sections: list[Section]) -> list[Section]:
    return [section for section in sections if set(question.ids) & set(section.ids)]


def page(questions: list[Question], sections: list[Section], language: str = "en") -> str:
    """The text of docs/QUESTIONS.md, or of the Chinese page."""
    chinese = language == "zh"
    lines = [
        "<!-- Generated by tools/questions.py from docs/questions.yml and the chapters. -->",
        "",
        HEADS[language],
    ]
    for theme, group in groupby(questions, lambda question: question.theme[chinese]):
        rows = []
        for question in group:
            links = [section.link(language) for section in answering(question, sections)]
            names = dict.fromkeys(name for names in question.answers.values() for name in names)
            functions = [f"[`{name}`](../{find_function(name).as_posix()})" for name in names]
            ids = ", ".join(question.ids)
            ids = ids.replace(", ", "、").replace("draft", "草稿") if chinese else ids
            text = question.zh if chinese else question.text
            rows.append([text, ids, "<br>".join(links), "<br>".join(functions)])
        lines += ["", f"## {theme}", "", *pages.table(COLUMNS[language], rows)]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    sources = cache(lambda: (read_questions(), read_sections()))
    return max(
        pages.run(
            arguments,
            "tools/questions.py",
            path,
            page=lambda language=language: page(*sources(), language),
            problems=lambda language=language: problems(*sources()) if language == "en" else [],
        )
        for language, path in PAGES.items()
    )


if __name__ == "__main__":
    sys.exit(main())
