"""tools/new_chapter.py: its skeleton runs and passes the tests of all chapters."""

import os
import shutil
from pathlib import Path

from course_lib.runtime import InputError
from tools import new_chapter

import pytest
from processes import python

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def run(tmp_path):
    """Run a command in a small copy of the course, and return its status and output."""
    for name in ("course_lib", "tools", "tests/exercises", "tests/offline"):
        shutil.copytree(ROOT / name, tmp_path / name)
    files = [f"{kind}/00_environment.ipynb" for kind in ("solutions", "notebooks")]
    helpers = ("test_notebooks", "course_kernel", "exercise_runner", "processes")
    tests = [f"tests/{each}.py" for each in helpers]
    tests += ["tests/nbval_sanitize.cfg", "README.md", "conftest.py", "pyproject.toml"]
    for name in [*files, *tests]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "data").symlink_to(ROOT / "data")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}

    def run(*command: str) -> tuple[int, str]:
        done = python(*command, cwd=tmp_path, env=environment)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.slow
def test_the_skeleton_is_a_chapter(run, tmp_path):
    status, said = run("tools/new_chapter.py", "12", "Word embeddings", "--companion")
    name = "12_word_embeddings"
    files = [f"solutions/{name}.ipynb", f"tests/exercises/{name}.txt", "README.md"]
    assert (status, said.splitlines()[:4]) == (0, [*files, "course_lib/chapters/ch12.py"])
    assert f"](notebooks/{name}.ipynb)" in (tmp_path / "README.md").read_text(encoding="utf-8")
    for command in (
        ["tools/notebooks.py", "execute", "12"],
        ["tools/notebooks.py", "generate"],
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_notebooks.py", "-k", "12_"],
    ):
        status, said = run(*command)
        assert status == 0, said
    assert " passed" in said and "skipped" not in said
    status, said = run("tools/new_chapter.py", "12", "Vectors")
    assert (status, said.split(":")[0]) == (2, "chapter 12")


@pytest.mark.parametrize(
    ("number", "title", "problem"),
    [("00", "Again", "taken by 00_env"), ("4", "Far", "two digits"), ("12", "词", "English words")],
)
def test_what_makes_no_chapter_is_refused(tmp_path, monkeypatch, number, title, problem):
    monkeypatch.setattr(new_chapter.notebooks, "SOLUTIONS", tmp_path)
    monkeypatch.setattr(new_chapter, "ROOT", tmp_path)
    (tmp_path / "00_env.ipynb").touch()
    with pytest.raises(InputError, match=problem):
        new_chapter.write_chapter(number, title)


def test_04a_comes_before_04(tmp_path, monkeypatch):
    monkeypatch.setattr(new_chapter.notebooks, "SOLUTIONS", tmp_path)
    for name in ("03_a", "04_b", "04a_c"):
        (tmp_path / f"{name}.ipynb").touch()
    assert [path.stem for path in new_chapter.notebooks.chapters()] == ["03_a", "04a_c", "04_b"]
    readme = new_chapter.with_row("05a", "New", "05a_new")
    assert readme.index("[04 · ") < readme.index("[05a · ") < readme.index("[05 · ")
