"""What the check cells of exercises call.

A check cell is plain Python that a learner can read:

    if attempted("01-long-share", long_share):
        assert long_share <= 1, "A share lies between 0 and 1: divide by the number of reviews."
        solved("01-long-share")

While the answer is blank it prints "not solved yet" and the notebook goes on; when the answer is
wrong, the assertion's hint is raised; when it is right, one green line is printed.
"""

import ast
import linecache
import os
import sys
from types import FrameType, FunctionType


def attempted(exercise: str, *answers: object) -> bool:
    """Return whether every answer is filled in; say so when one is not.

    Args:
        exercise: the exercise's name, such as "01-long-share".
        answers: the variables to check, or what the learner's functions returned. `...` is blank,
            and so is None, the value of a function whose body is still only a docstring.

    Raises:
        AssertionError: an answer is None although no function that the check cell names is blank;
            or an answer is blank and nbgrader is grading (it sets NBGRADER_EXECUTION). A cell that
            runs without an error earns its points, so a blank one must not.
    """
    if all(answer is not None and answer is not ... for answer in answers):
        return True
    if all(answer is not ... for answer in answers) and not _names_a_blank(sys._getframe(1)):
        raise AssertionError(f"{exercise}: your answer is None. Is a `return` or `yield` missing?")
    if os.environ.get("NBGRADER_EXECUTION"):
        raise AssertionError(f"{exercise}: not solved yet")
    print(f"\033[33m{exercise}: not solved yet\033[0m")
    return False


def _blank() -> None:
    """A function without a body, as learners find them."""


def _names_a_blank(cell: FrameType) -> bool:
    """Tell whether a running cell names a blank function of its notebook, or a class with one."""
    source = "".join(linecache.getlines(cell.f_code.co_filename))  # IPython keeps its cells there
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    found = [cell.f_globals.get(name) for name in names]
    found += [each for one in found if isinstance(one, type) for each in vars(one).values()]
    return not source or any(
        function.__globals__ is cell.f_globals
        and function.__code__.co_code == _blank.__code__.co_code
        for function in found
        if isinstance(function, FunctionType)
    )


def solved(exercise: str) -> None:
    """Say that the exercise is right, in one green line."""
    print(f"\033[32m{exercise}: correct\033[0m")
