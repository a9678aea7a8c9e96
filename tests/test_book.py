"""tools/book.py: what Sphinx reads, and what is found wrong with its pages."""

import re
import subprocess
import sys
from importlib.metadata import packages_distributions

from tools import book

import nbformat
import pytest


def test_the_tool_imports_only_what_its_own_environment_has():
    lock = (book.ROOT / "requirements" / "book.txt").read_text()
    has = {"course-lib", *re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)}
    other = [
        name for name, (first, *_) in packages_distributions().items() if slug(first) not in has
    ]
    script = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:])); import tools.book"
    subprocess.run([sys.executable, "-c", script, *other], cwd=book.ROOT, check=True)


def slug(package):
    return re.sub(r"[-_.]+", "-", package).lower()


@pytest.mark.parametrize("language", book.LANGUAGES)
def test_a_chapter_of_the_book_has_its_answers_folded_and_its_links_inside(tmp_path, language):
    book.Staging(language, tmp_path / "pages", tmp_path / "files", ["02", "12", "16", "17"]).write()
    made = nbformat.read(tmp_path / "pages" / "12_word_embeddings.ipynb", as_version=4)
    blank, answer = (c for c in made.cells if "def pairs(ids" in c.source)
    assert book.text("stub", language) in blank.source and "for place, center" in answer.source
    assert answer.metadata.tags == ["hide-input", "answer"] and "SOLUTION" not in answer.source
    prose = "\n".join(cell.source for cell in made.cells if cell.cell_type == "markdown")
    assert "](16_faq_vocabulary.ipynb)" in prose and "](18_" not in prose  # 18 is not in this book
    drawn = [cell.metadata.mystnb for cell in made.cells if "image/png" in str(cell.get("outputs"))]
    assert drawn and all(len(each.image.alt) > 20 for each in drawn)
    questions = (tmp_path / "pages/questions.md").read_text(encoding="utf-8")
    assert "(source:course_lib/data/examples.py)" in questions
    assert f"#2-{'from-everything-else' if language == 'en' else '从各种来源创建'})" in questions
    assert ("| 问题 |" if language == "zh" else "| Question |") in questions
    faq = (tmp_path / "pages/17_faq_training.ipynb").read_text(encoding="utf-8")
    assert "](questions.md)" in faq and "zh.md" not in faq + questions
    assert (tmp_path / "files/course_lib/data/examples.py").exists()
    index = (tmp_path / "pages/index.md").read_text(encoding="utf-8")
    assert index.count("](12_word_embeddings.ipynb) | ") == 1
    assert "[12](12_word_embeddings.ipynb) |" in (tmp_path / "pages/glossary.md").read_text()


def test_links_that_lead_nowhere_and_other_hosts_are_found(tmp_path):
    (tmp_path / "b.html").write_text('<h1 id="here"></h1><a href="https://x.org">fine</a>')
    links = '<a href="b.html#here"></a><a href="b.html#there"></a><a href="c.html"></a>'
    (tmp_path / "a.html").write_text(f'{links}<script src="https://cdn.org/x.js"></script>')
    (tmp_path / "a.css").write_text("@import 'https://fonts.org/a.css';")
    expected = ["no such place", "c.html leads nowhere", "fetch https://cdn", "fetch https://fonts"]
    for found, words in zip(book.faults(tmp_path), expected, strict=True):
        assert words in found
