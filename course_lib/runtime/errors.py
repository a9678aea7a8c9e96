"""The one error that a user's own input can cause, and checks of numbers that raise it."""

import math
import numbers
import re
from collections.abc import Callable, Collection
from os import PathLike, fspath
from typing import Any

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class InputError(ValueError):
    """Something that the user gave is not what was expected.

    The message is one line that names the place, the problem and what would be right, so a command
    line can print it as it is and exit with status 2.

    Args:
        where: the file (or the option, or the column) that is wrong.
        problem: what was found.
        expected: what would have been right.
        line: 1-based line number within the file, when there is one.
    """

    def __init__(
        self, where: str | PathLike, problem: str, expected: str, line: int | None = None
    ) -> None:
        self.where, self.problem, self.expected, self.line = fspath(where), problem, expected, line
        place = self.where if line is None else f"{self.where}, line {line}"
        text = f"{place}: {problem}; expected {expected}"  # file names may hold line breaks
        super().__init__(_CONTROL.sub(lambda match: ascii(match[0])[1:-1], text))

    def __reduce__(self):
        return type(self), (self.where, self.problem, self.expected, self.line)


def whole(name: str, value: Any, min_: int, max_: float = math.inf) -> int:
    """Return a whole number as an int, NumPy's too; raise InputError about `name` otherwise."""
    fits = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not fits or not min_ <= value <= max_:
        bounds = f" from {min_} to {max_}" if max_ < math.inf else f" of at least {min_}"
        raise InputError(name, f"is {value!r}", f"a whole number{bounds}")
    return int(value)


def real(name: str, value: Any, fits: Callable[[float], bool], expected: str) -> float:
    """Return a finite number that `fits`; raise InputError about `name` otherwise.

    Args:
        expected: what fits, in words.
    """
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not fits(float(value)):
        raise InputError(name, f"is {value!r}", expected)
    return float(value)


def positive(**counts: Any) -> None:
    """Refuse counts that are given (not None) and are not whole numbers of at least 1."""
    for name, value in counts.items():
        if value is not None:
            whole(name, value, 1)


def one_of(name: str, value: Any, allowed: Collection) -> Any:
    """Return a value that is allowed; raise InputError about `name` otherwise."""
    if value not in allowed:
        raise InputError(name, f"is {value!r}", f"one of {', '.join(map(str, allowed))}")
    return value
