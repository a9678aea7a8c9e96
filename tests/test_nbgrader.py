"""A real nbgrader hands out and grades one chapter: the exam, in which a person grades a part.

nbgrader needs packages that clash with the course's, so it lives in an environment of its own:
`.venv-nbgrader`, which `make test` builds, or the Python that COURSE_NBGRADER_PYTHON names. The
kernel that it starts is the course's.
"""

import csv
import os
import shutil
import textwrap
from pathlib import Path

import course_lib  # noqa: F401, before anything that may import paddle
from tools import exercises, notebooks

import pytest
from course_kernel import course_kernel
from exercise_runner import wrong_answers
from processes import run

ROOT = Path(__file__).resolve().parents[1]
PYTHON = os.environ.get("COURSE_NBGRADER_PYTHON") or str(ROOT / ".venv-nbgrader/bin/python")
CHAPTERS = notebooks.chapters(["23"])
SOLUTION = "the solution"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"no nbgrader at {PYTHON}: make test"),
    pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem),
]


def nbgrader(course: Path, *arguments: str) -> None:
    variables = {
        "COURSE_PROFILE": "smoke",
        "COURSE_DEVICE": "cpu",
        "JUPYTER_CONFIG_DIR": str(course),
        "JUPYTER_DATA_DIR": str(course / "jupyter"),
        # nbgrader calls alembic, which stands beside its Python, by its bare name.
        "PATH": os.pathsep.join([str(Path(PYTHON).parent), os.environ["PATH"]]),
    }
    with course_kernel(**variables) as environment:
        result = run(PYTHON, "-m", "nbgrader", *arguments, cwd=course, env=environment)
    assert result.returncode == 0, (result.stdout + result.stderr)[-3000:]


def hand_in(course: Path, student: str, path: Path, answers: dict[str, str | None]) -> None:
    """Hand the released chapter in with code in place of some blanks; None leaves one blank."""
    handed = notebooks.read(course / "release" / "chapter" / path.name)
    full = {cell.id: cell.source for cell in notebooks.read(path).cells}
    for cell in handed.cells:
        answer = answers.get(exercises.name_of(cell, "answer"))
        if answer is not None:
            solution = textwrap.dedent(exercises.SOLUTION_BLOCK.search(full[cell.id])["body"])
            answer = answer.replace(SOLUTION, solution)
            cell["source"] = exercises.replace_answer(full[cell.id], answer)
    notebooks.write(handed, course / "submitted" / student / "chapter" / path.name)


def test_chapter_is_handed_out_and_graded(path, tmp_path):
    (tmp_path / "source" / "chapter").mkdir(parents=True)
    shutil.copy(path, tmp_path / "source" / "chapter")
    shutil.copy(ROOT / "tools" / "nbgrader_config.py", tmp_path)
    nbgrader(tmp_path, "generate_assignment", "chapter", "--create")

    released = notebooks.read(tmp_path / "release" / "chapter" / path.name)
    edition = notebooks.learner_edition(notebooks.read(path))
    marks = ("# NBVAL_CHECK_OUTPUT\n", "")
    assert [(cell.id, cell.source.replace(*marks)) for cell in released.cells] == [
        (cell.id, cell.source) for cell in edition.cells
    ]

    points = {
        exercises.name_of(cell, "check"): cell.metadata.nbgrader.points
        for cell in edition.cells
        if exercises.name_of(cell, "check")
    }
    entries = [cell.metadata.get("nbgrader", {}) for cell in edition.cells]
    by_hand = sum(entry["points"] for entry in entries if entry.get("task"))
    wrong = wrong_answers(ROOT / "tests" / "exercises" / f"{path.stem}.txt")
    first, second, third, *_blank = points
    full = dict.fromkeys(points, SOLUTION)
    warning = f"import warnings\nwarnings.warn('!')\n{SOLUTION}"
    hand_in(tmp_path, "all", path, {**full, first: warning})
    fooling = "global attempted\nattempted = lambda *answers: False"
    mixed = {first: SOLUTION, second: wrong[second][0][0], third: fooling}
    hand_in(tmp_path, "mixed", path, mixed)
    nbgrader(tmp_path, "autograde", "chapter", "--create")
    nbgrader(tmp_path, "export")

    with open(tmp_path / "grades.csv", encoding="utf-8", newline="") as handle:
        rows = {row["student_id"]: row for row in csv.DictReader(handle)}
    assert {float(row["max_score"]) for row in rows.values()} == {sum(points.values()) + by_hand}
    assert float(rows["all"]["score"]) == sum(points.values())
    assert float(rows["mixed"]["score"]) == points[first]
