"""docs/QUESTIONS.md: where the course answers each question of the three documents.

    python tools/questions.py generate [--check]   write (or compare) the page

docs/questions.yml lists the questions, with the chapters and the functions that answer them. Which
section of a chapter it is, the section itself says, in the line below its heading:

    ## 3 An index
    *FAQ: Q4.4, draft 23*

`problems` finds what does not fit: a question without a section, a section with an unknown one, a
function that there is not or that the section does not use.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.runtime import InputError, atomic_file  # noqa: E402

import nbformat  # noqa: E402
import yaml  # noqa: E402

SOURCE, PAGE = ROOT / "docs" / "questions.yml", ROOT / "docs" / "QUESTIONS.md"
SOLUTIONS = ROOT / "solutions"
POINTER = re.compile(r"\*FAQ: ([^*]+)\*")
ID = re.compile(r"Q[1-9]\.[1-9]\d*|draft [1-9]\d*")
HEADING = re.compile(r"## +(.+)")


@dataclass(frozen=True)
class Question:
    """A question as docs/questions.yml has it.

    Attributes:
        ids: its numbers in the documents.
        answers: chapter ("02") -> functions, dotted, within course_lib.
    """

    theme: str
    ids: tuple[str, ...]
    text: str
    answers: dict[str, tuple[str, ...]]


@dataclass
class Section:
    """A section of a chapter that answers questions.

    Attributes:
        chapter: the notebook's name without its ending.
        ids: of its pointer line.
        names: every name and attribute in its code.
    """

    chapter: str
    heading: str
    ids: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    @property
    def number(self) -> str:
        return self.chapter[:2]

    @property
    def link(self) -> str:
        """As Jupyter and nbviewer name a heading: its text, hyphens for spaces."""
        anchor = quote(self.heading.replace("`", "").replace(" ", "-"))
        return f"[{self.number} · {self.heading}](../notebooks/{self.chapter}.ipynb#{anchor})"


def read_questions(path: Path = SOURCE) -> list[Question]:
    """The questions in their order.

    Raises:
        InputError: the file is not of the form that its head describes, or an id is there twice.
    """
    expected = "themes with questions: ids, question, answers"
    try:
        themes = yaml.safe_load(path.read_text(encoding="utf-8"))
        found = [
            Question(
                theme["theme"],
                tuple(one["ids"]),
                one["question"],
                {chapter: tuple(names) for chapter, names in one["answers"].items()},
            )
            for theme in themes
            for one in theme["questions"]
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise InputError(path, f"cannot be read ({error})", expected) from None
    seen: set[str] = set()
    for question in found:
        functions = [name for names in question.answers.values() for name in names]
        chapters = all(isinstance(chapter, str) for chapter in question.answers)
        one_line = isinstance(question.text, str) and not set("|\n") & set(question.text)
        if not question.ids or not chapters or not one_line:
            raise InputError(path, f"has the question {question.text!r:.60}", expected)
        if not all(isinstance(name, str) and "." in name for name in functions):
            problem = f"has the functions {functions!r:.60}"
            raise InputError(path, problem, "a list of names within course_lib")
        for name in question.ids:
            if not isinstance(name, str) or not ID.fullmatch(name):
                raise InputError(path, f"has the id {name!r}", "one as Q2.1 or draft 7")
            if name in seen:
                raise InputError(path, f"has {name} twice", "each id once")
            seen.add(name)
    return found


def read_sections(directory: Path = SOLUTIONS) -> list[Section]:
    """The sections that carry a pointer line, in the order of the chapters.

    Raises:
        InputError: a pointer line that cannot be read, or that does not follow its heading.
    """
    found = []
    for path in sorted(directory.glob("[0-9][0-9]_*.ipynb")):
        section = Section(path.stem, "")
        try:
            cells = nbformat.read(path, as_version=4).cells
        except (
            OSError,
            ValueError,
            LookupError,
            AttributeError,
            nbformat.ValidationError,
        ) as error:
            problem = f"cannot be read ({' '.join(str(error).split()):.80})"
            raise InputError(path, problem, "a notebook of format 4") from None
        for cell in cells:
            if cell.cell_type == "code":
                section.names |= names_in(cell.source)
                continue
            before = ""
            for line in filter(None, map(str.strip, cell.source.splitlines())):
                if heading := HEADING.fullmatch(line):
                    section = Section(path.stem, heading[1])
                elif line.startswith("*FAQ"):
                    pointer = POINTER.fullmatch(line)
                    if not pointer or before != f"## {section.heading}":
                        problem = f"{line!r} below {before!r}"
                        raise InputError(path, problem, "*FAQ: ids* below a heading of ##")
                    section.ids = [name.strip() for name in pointer[1].split(",")]
                    found.append(section)
                before = re.sub(r"^## +", "## ", line)
    return found


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
        found = getattr(importlib.import_module(f"course_lib.{module}"), name)
        return Path(inspect.getsourcefile(inspect.unwrap(found))).relative_to(ROOT)
    except (ImportError, AttributeError, TypeError, ValueError):
        raise InputError(SOURCE, f"names {dotted}", "a function of course_lib") from None


def problems(questions: list[Question], sections: list[Section]) -> list[str]:
    """What does not fit, one line each; none when all is well."""
    found = []
    known = {name for question in questions for name in question.ids}
    for section in sections:
        for name in section.ids:
            if name not in known:
                found.append(f"{section.chapter}, {section.heading}: no question {name}")
    for question in questions:
        name = " = ".join(question.ids)
        there = answering(question, sections)
        for number in sorted(set(question.answers) - {section.number for section in there}):
            found.append(f"{name}: no section of chapter {number} points to it")
        for number in sorted({section.number for section in there} - set(question.answers)):
            found.append(f"{name}: chapter {number} points to it, {SOURCE.name} does not know that")
        if not question.answers:
            found.append(f"{name}: no chapter answers it")
        for number, functions in question.answers.items():
            used = set().union(*(one.names for one in there if one.number == number))
            for function in functions:
                try:
                    find_function(function)
                except InputError as error:
                    found.append(f"{name}: {error}")
                    continue
                if number in {one.number for one in there} and function.split(".")[-1] not in used:
                    found.append(f"{name}: its section in chapter {number} does not use {function}")
    return found


def answering(question: Question, sections: list[Section]) -> list[Section]:
    return [section for section in sections if set(question.ids) & set(section.ids)]


def page(questions: list[Question], sections: list[Section]) -> str:
    """The text of docs/QUESTIONS.md."""
    lines = [
        "<!-- Generated by tools/questions.py from docs/questions.yml and the chapters. -->",
        "",
        "# Questions and answers",
        "",
        "What users of PaddleNLP ask again and again, and where the course answers it: a section "
        "that runs, for which the setup cell of its chapter is enough, and functions to copy. "
        "Numbers with a Q are those of PaddleNLP's FAQ; *draft* counts the questions of an older "
        "draft of it from its top.",
    ]
    theme = None
    for question in questions:
        if question.theme != theme:
            theme = question.theme
            lines += ["", f"## {theme}", "", "| Question | Number | Sections | Functions |"]
            lines.append("| --- | --- | --- | --- |")
        there = [section.link for section in answering(question, sections)]
        functions = dict.fromkeys(name for names in question.answers.values() for name in names)
        links = [f"[`{name}`](../{find_function(name).as_posix()})" for name in functions]
        row = [question.text, ", ".join(question.ids), "<br>".join(there), "<br>".join(links)]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def generate(check: bool = False) -> bool:
    """Write the page, or with `check` only compare it; return whether it differed."""
    text = page(read_questions(), read_sections())
    differs = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text
    if differs and not check:
        with atomic_file(PAGE) as file:
            file.write(text)
    return differs


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Generate docs/QUESTIONS.md.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("generate", help="write the page from the list and the chapters")
    command.add_argument("--check", action="store_true", help="only compare; status 1 if different")
    options = parser.parse_args(arguments)
    try:
        wrong = problems(read_questions(), read_sections())
        for line in wrong:
            print(line, file=sys.stderr)
        differs = generate(options.check)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    if differs:
        print(f"{PAGE.relative_to(ROOT)}: {'differs' if options.check else 'written'}")
    if options.check and differs:
        print("run: python tools/questions.py generate", file=sys.stderr)
    return int(bool(wrong) or (options.check and differs))


if __name__ == "__main__":
    sys.exit(main())
