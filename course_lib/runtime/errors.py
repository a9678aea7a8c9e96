"""The one error that a user's own input can cause."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")


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
        super().__init__(one_line(f"{place}: {problem}; expected {expected}"))

    def __reduce__(self):
        return type(self), (self.where, self.problem, self.expected, self.line)


def one_line(text: str) -> str:
    """Text without line breaks and other control characters, which file names may hold."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


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


def finite(name: str, value: object, above: float = -math.inf, below: float = math.inf) -> float:
    """A finite number between two others as a float; NumPy's count, bools do not.

    Raises:
        InputError: another type, or a number out of bounds; it names `name`.
    """
    fits = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not fits or not above < value < below or not math.isfinite(value):
        bounds = [f" above {above}"] * (above > -math.inf) + [f" below {below}"] * (
            below < math.inf
        )
        raise InputError(name, f"is {value!r}", f"a finite number{' and'.join(bounds)}")
    return float(value)


def numbers_in(name: str, values: object, kind: str = "float64") -> np.ndarray:
    """Numbers as an array of this type, "float64" or "int64"; fractions are no whole numbers.

    Raises:
        InputError: something else than numbers, or rows of different length; it names `name`.
    """
    import numpy as np  # not before what must happen first

    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)) and not len(values):
        return np.zeros(0, kind)
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):  # ragged
        array = np.asarray(None)
    if array.dtype.kind not in ("biu" if kind.startswith("int") else "biuf"):
        wanted = "whole numbers" if kind.startswith("int") else "numbers"
        raise InputError(name, f"are {values!r:.60}", f"{wanted}, in rows of one length")
    return array.astype(kind)
