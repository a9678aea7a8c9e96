"""What the check cells of exercises call.

A check cell is plain Python that a learner can read:

    if attempted("01-long-share", long_share):
        assert long_share <= 1, "A share lies between 0 and 1: divide by the number of reviews."
        solved("01-long-share")

While the answer is blank it prints "not solved yet" and the notebook goes on; when the answer is
wrong, the assertion's hint is raised; when it is right, one green line is printed.
"""

from __future__ import annotations

import os


def attempted(exercise: str, *answers: object) -> bool:
    """Return whether every answer is filled in; say so when one is not.

    Args:
        exercise: the exercise's name, such as "01-long-share".
        answers: the variables to check, or what the learner's functions returned. `...` and None
            are blank.

    Raises:
        AssertionError: an answer is blank and nbgrader is grading (it sets NBGRADER_EXECUTION).
            A cell that runs without an error earns its points, so a blank one must not.
    """
    if all(answer is not None and answer is not ... for answer in answers):
        return True
    if os.environ.get("NBGRADER_EXECUTION"):
        raise AssertionError(f"{exercise}: not solved yet")
    print(f"\033[33m{exercise}: not solved yet\033[0m")
    return False


def solved(exercise: str) -> None:
    """Say that the exercise is right, in one green line."""
    print(f"\033[32m{exercise}: correct\033[0m")
