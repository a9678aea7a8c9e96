"""The one error that a user's own input can cause."""

from __future__ import annotations

import math
import numbers
from os import PathLike, fspath


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
        super().__init__(f"{place}: {problem}; expected {expected}")

    def __reduce__(self):
        return type(self), (self.where, self.problem, self.expected, self.line)


def whole(name: str, value: object, least: float = -math.inf, most: float = math.inf) -> int:
    """A whole number as an int; NumPy's count, bools do not.

    Raises:
        InputError: another type, or a number out of bounds; it names `name`.
    """
    fits = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not fits or not least <= value <= most:
        bounds = f" from {least} to {most}" if most != math.inf else f" of at least {least}"
        bounds = "" if (least, most) == (-math.inf, math.inf) else bounds
        raise InputError(name, f"is {value!r}", f"a whole number{bounds}")
    return int(value)
