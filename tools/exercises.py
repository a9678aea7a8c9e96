"""The notation of exercises, which tools/notebooks.py reads in the chapters.

An exercise is three cells: a prompt in markdown, an answer and its check.

    # %% [markdown]
    # ### Exercise 1: how long is long?
    # Which share of the reviews has more than 100 characters?

    # %% answer="01-long-share"
    long_share = ...
    ### BEGIN SOLUTION
    long_share = sum(length > 100 for length in lengths) / len(lengths)
    ### END SOLUTION

    # %% check="01-long-share" points=2
    if attempted("01-long-share", long_share):
        assert long_share <= 1, "A share lies between 0 and 1: divide by the number of reviews."
        assert abs(long_share - 0.2) < 0.05, "Count the characters of each text, not the reviews."
        solved("01-long-share")

The name is the number of the chapter, a hyphen, and words; it becomes nbgrader's grade_id. The
block between the two marks is what the learner writes: in notebooks/ it is replaced by the line
`# your answer here`, so what stands outside the block must be valid Python on its own. A variable
starts as `...` (not filled in); a function gets a docstring, so that its empty body is legal and
returns None. `attempted` and `solved` come from course_lib.notebook.checks. Four typical
wrong answers for each exercise stand in tests/exercises/NN_name.txt.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

from course_lib.runtime import InputError

from nbformat import NotebookNode

NUMBER = re.compile(r"\d\d[a-z]?(?=_)")  # of a chapter, where its name begins
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = "# your answer here"
SOLUTION_BLOCK = re.compile(
    rf"^(?P<indent>[ \t]*){BEGIN}[ \t]*\n(?P<body>.*?)^[ \t]*{END}[ \t]*$", re.DOTALL | re.MULTILINE
)
# Whatever may have been meant as a mark: "###Begin Solution", "# END_SOLUTION", an HTML comment.
LOOSE_MARK = re.compile(r"(?:#|<!-+)[\s#]*(?:BEGIN|END)[\s_-]*SOLUTION", re.IGNORECASE)


def name_of(cell: NotebookNode, role: str) -> str | None:
    """Return the exercise of an answer or check cell (`role`), None when it is not one."""
    entry = cell.metadata.get("nbgrader")
    grade_id = str(entry.get("grade_id", "")) if isinstance(entry, dict) else ""
    return grade_id.removesuffix(f"-{role}") if grade_id.endswith(f"-{role}") else None


def to_nbgrader(cell: NotebookNode, where: str) -> None:
    """Turn answer= or check= of a script's cell into the entry that nbgrader reads."""
    if "answer" in cell.metadata and "check" in cell.metadata:
        raise InputError(where, "a cell with answer= and check=", "one cell for each")
    for role in ("answer", "check"):
        name = cell.metadata.pop(role, None)
        if name is None:
            continue
        if not isinstance(name, str) or not re.fullmatch(r"\d\d[a-z]?-[a-z0-9-]+", name):
            raise InputError(where, f"{role}={name!r}", f'a name such as {role}="01-long-share"')
        points = cell.metadata.pop("points", None)
        if role == "check" and (not isinstance(points, int) or points < 1):
            raise InputError(where, f'check="{name}" has no points', "points=1 or more")
        cell.metadata["nbgrader"] = {
            "schema_version": 3,
            "grade_id": f"{name}-{role}",
            "solution": role == "answer",
            "grade": role == "check",
            "locked": role == "check",
            "task": False,
        }
        if role == "check":
            cell.metadata["nbgrader"]["points"] = points


def from_nbgrader(cell: NotebookNode) -> None:
    """Turn nbgrader's entry back into answer= or check= of a script's cell."""
    for role in ("answer", "check"):
        name = name_of(cell, role)
        if name is not None:
            points = cell.metadata.pop("nbgrader").get("points")
            cell.metadata[role] = name
            if role == "check":
                cell.metadata["points"] = points


def replace_answer(source: str, answer: str | None = None) -> str:
    """Put `answer`, or the blank line that a learner finds, in place of the solution blocks."""

    def replacement(match: re.Match) -> str:
        text = STUB if answer is None else answer
        return "\n".join(match["indent"] + line if line else line for line in text.splitlines())

    return SOLUTION_BLOCK.sub(replacement, source)


def check_exercises(notebook: NotebookNode, where: str | os.PathLike) -> None:
    """Raise InputError unless each exercise is one answer with its check in the next cell.

    Args:
        where: path of the notebook; a name such as 04_ or 04a_... is that of a chapter, whose
            exercises begin with the same number.
    """
    chapter = NUMBER.match(Path(where).name)
    seen: dict[str, int] = {}
    pending = None  # the answer in the cell before
    for number, cell in enumerate(notebook.cells, 1):
        place = f"{where}, cell {number}"
        answer, check = (name_of(cell, role) for role in ("answer", "check"))
        name = answer or check
        if pending is not None and check != pending:
            raise InputError(place, f"not the check of {pending!r}", "it right after the answer")
        if check is not None and pending is None:
            raise InputError(place, f"the check of {check!r} follows no answer", "the answer first")
        if name is not None and cell.cell_type != "code":
            raise InputError(place, f"{name!r} in a {cell.cell_type} cell", "a code cell")
        if name is not None and chapter and not name.startswith(f"{chapter[0]}-"):
            raise InputError(place, f"exercise {name!r}", f"a name that begins with {chapter[0]}-")
        if answer is not None and seen.setdefault(answer, number) != number:
            raise InputError(place, f"{answer!r} is also in cell {seen[answer]}", "another name")
        pending = answer
    if pending is not None:
        place = f"{where}, cell {number}"
        raise InputError(place, f"{pending!r} has no check", "one right after it")


def blank_answer(cell: NotebookNode, place: str) -> str:
    """Return the cell's source without the solution, or raise InputError if it could leak."""
    answer = name_of(cell, "answer")
    blocks = len(SOLUTION_BLOCK.findall(cell.source))
    if len(LOOSE_MARK.findall(cell.source)) != 2 * blocks:
        raise InputError(
            place,
            "a solution mark without its partner, or not written exactly so",
            f"a line {BEGIN}, and later a line {END}",
        )
    if blocks != (0 if answer is None else 1):
        raise InputError(place, f"{blocks} solution blocks", "one in each answer cell only")
    if answer is None:
        return cell.source
    source = replace_answer(cell.source)
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as error:
        problem = getattr(error, "msg", error)
        raise InputError(
            place, f"the blank answer is not Python ({problem})", "a docstring or `= ...`"
        ) from None
    return source
