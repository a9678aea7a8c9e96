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
    for name in ("tools", "tests/exercises", "tests/offline"):
        shutil.copytree(ROOT / name, tmp_path / name)
    first = "00_environment"
    files = [f"{kind}/{first}.ipynb" for kind in ("solutions", "notebooks")]
    helpers = ("course_kernel", "exercise_runner", "processes")
    tests = [f"tests/{each}.py" for each in ("test_notebooks", *helpers)]
    for name in [*files, *tests, "README.md", "conftest.py", "pyproject.toml"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "course_lib", tmp_path / "course_lib")
    (tmp_path / "data").symlink_to(ROOT / "data")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

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


def test_a_chapter_with_a_letter_comes_before_the_one_of_its_number(tmp_path, monkeypatch):
    monkeypatch.setattr(new_chapter.notebooks, "SOLUTIONS", tmp_path)
    for name in ("03_a", "04_b", "04a_c", "05_d"):
        (tmp_path / f"{name}.ipynb").touch()
    found = [path.stem for path in new_chapter.notebooks.chapters()]
    assert found == ["03_a", "04a_c", "04_b", "05_d"]
    assert [path.stem for path in new_chapter.notebooks.chapters(["04"])] == ["04_b"]
    rows = [f"| [{name[:-2]} · Title](x) | | | |\n" for name in ("03_a", "04_b", "05_d")]
    (tmp_path / "README.md").write_text("".join(rows), encoding="utf-8")
    monkeypatch.setattr(new_chapter, "ROOT", tmp_path)
    assert new_chapter.with_row("04a", "New", "04a_c").splitlines()[1].startswith("| [04a · New")
