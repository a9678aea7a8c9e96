"""The index of questions: complete, and true of the chapters."""

import re
from pathlib import Path
from urllib.parse import unquote

import course_lib  # noqa: F401, before anything that may import paddle
from course_lib.runtime import InputError
from tools import pages
from tools import questions as index

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]

FAQ = {1: 5, 2: 2, 3: 10, 4: 5, 5: 6}  # questions of each part
DRAFT = 35


@pytest.fixture(scope="module")
def questions():
    return index.read_questions()


@pytest.fixture(scope="module")
def sections():
    return index.read_sections()


def test_every_question_of_the_documents_is_in_the_list(questions):
    wanted = {f"Q{part}.{i}" for part, count in FAQ.items() for i in range(1, count + 1)}
    wanted |= {f"draft {number}" for number in range(1, DRAFT + 1)}
    listed = [name for question in questions for name in question.ids]
    assert set(listed) == wanted and len(listed) == len(wanted)


def test_every_question_has_a_section_that_uses_its_functions(questions, sections):
    assert index.problems(questions, sections) == []


@pytest.mark.parametrize("language", index.PAGES)
def test_the_page_is_up_to_date(questions, sections, language):
    page = index.page(questions, sections, language)
    same = index.PAGES[language].read_text(encoding="utf-8") == page
    assert same, "run: python tools/questions.py generate"


@pytest.mark.parametrize("language", index.PAGES)
def test_every_link_of_the_page_leads_somewhere_in_its_language(language):
    text = index.PAGES[language].read_text(encoding="utf-8")
    links = re.findall(r"\]\(\.\./([^)#]+)(?:#([^)]+))?\)", text)
    assert len(links) > 60
    for file, anchor in links:
        assert (ROOT / file).is_file(), file
        chinese = (ROOT / file).parent / "zh" / Path(file).name
        assert language == "en" or not chinese.exists(), f"{file} has a Chinese edition"
        if anchor:
            cells = nbformat.read(ROOT / file, as_version=4).cells
            prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
            headings = re.findall(r"^## +(.+)$", prose, re.MULTILINE)
            found = {heading.replace("`", "").strip().replace(" ", "-") for heading in headings}
            assert unquote(anchor) in found, (file, anchor)


# --- what the tool finds

LIST = """
- theme: Speed
  zh: 速度
  questions:
    - ids: [Q1.1, draft 3]
      question: How fast?
      zh: 有多快？
      answers: {"02": [tasks.search.fuse]}
    - ids: [Q1.2]
      question: How slow?
      zh: 有多慢？
      answers: {"02": []}
"""
SLOW = "*[FAQ](../docs/QUESTIONS.md): Q1.2*"
CELLS = [
    ("markdown", "# 02 · A chapter"),
    ("code", "from course_lib.tasks.search import fuse"),
    ("markdown", "## 1 Fast\n*[FAQ](../docs/QUESTIONS.md): Q1.1, draft 3*\n\nText."),
    ("markdown", "### Part"),
    ("code", "fuse(1)"),
    ("markdown", f"## 2 `Slow`\n\n{SLOW}"),
    ("code", "%time print(1)"),
    ("markdown", "## Summary"),
    ("code", "recall_at_k"),
]


def chapter(directory, cells):
    make = {"markdown": new_markdown_cell, "code": new_code_cell}
    notebook = new_notebook(cells=[make[kind](source) for kind, source in cells])
    nbformat.write(notebook, directory / "02_chapter.ipynb")
    for cell in notebook.cells:
        cell["source"] = cell.source.replace("1 Fast", "1 快").replace("): Q1.1", ")：Q1.1")
    (directory / "zh").mkdir(exist_ok=True)
    nbformat.write(notebook, directory / "zh" / "02_chapter.ipynb")
    return index.read_sections(directory)


def listed(directory, text):
    file = directory / "questions.yml"
    file.write_text(text, encoding="utf-8")
    return index.read_questions(file)


def replaced(cells, old, new):
    changed = [(kind, source.replace(old, new)) for kind, source in cells]
    assert changed != cells
    return changed


def test_a_list_and_a_chapter_that_fit(tmp_path):
    questions, sections = listed(tmp_path, LIST), chapter(tmp_path, CELLS)
    assert index.problems(questions, sections) == []
    assert [(one.heading, one.ids) for one in sections] == [
        ("1 Fast", ["Q1.1", "draft 3"]),
        ("2 `Slow`", ["Q1.2"]),
    ]
    assert sections[0].names == {"fuse"} and sections[1].names == set()
    page = index.page(questions, sections)
    assert (
        "| How fast? | Q1.1, draft 3 | [02 · 1 Fast](../notebooks/02_chapter.ipynb#1-Fast) | "
        "[`tasks.search.fuse`](../course_lib/tasks/search/index.py) |"
    ) in page
    assert "#2-Slow) |  |" in page and page.count("## Speed") == 1
    page = index.page(questions, sections, "zh")
    assert "| 有多快？ | Q1.1、草稿 3 | [02 · 1 快](../notebooks/zh/02_chapter.ipynb#1-%E5" in page
    assert page.count("## 速度") == 1
    sections[0].chinese = ""  # a chapter without a Chinese edition
    assert "02_chapter.ipynb#1-Fast)（英文） |" in index.page(questions, sections, "zh")
    with pytest.raises(InputError, match=r"zh 'How fast\?'"):
        listed(tmp_path, LIST.replace("有多快？", "How fast?"))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (SLOW, "", ["Q1.2: no section of chapter 02 points to it"]),
        (SLOW, SLOW.replace("Q1.2", "Q1.2, Q7.7"), ["02_chapter, 2 `Slow`: no question Q7.7"]),
        ("fuse(1)", "rerank(1)", ["does not use tasks.search.fuse"]),
        ("[tasks.search.fuse", "[tasks.search.fuze", ["names tasks.search.fuze"]),
        ('{"02": []}', "{}", ["does not know that", "no chapter answers it"]),
        ('{"02": []}', '{"02": [], "03": []}', ["no section of chapter 03"]),
    ],
)
def test_chapters_and_lists_that_do_not_fit(tmp_path, old, new, told):
    questions = listed(tmp_path, LIST.replace(old, new))
    cells = CELLS if old in LIST else replaced(CELLS, old, new)
    problems = index.problems(questions, chapter(tmp_path, cells))
    assert len(problems) == len(told)
    for line, words in zip(problems, told, strict=True):
        assert words in line
    with pytest.raises(InputError, match="below a heading"):  # in no section, or not as asked for
        chapter(tmp_path, replaced(CELLS, SLOW, "*FAQ Q1.2*"))


def test_a_page_is_written_compared_and_its_problems_told(tmp_path, capsys):
    page = tmp_path / "docs" / "PAGE.md"

    def run(*words, text="text", problems=()):
        return pages.run(["generate", *words], "tool.py", page, lambda: text, lambda: problems)

    assert run("--check") == 1 and not page.exists()
    assert run() == 0 and page.read_text() == "text"
    assert run("--check") == 0
    assert run("--check", text="new") == 1 and page.read_text() == "text"
    assert "PAGE.md: differs" in capsys.readouterr().out
    assert run(problems=["does not fit"]) == 1
    assert capsys.readouterr().err == "does not fit\n"
