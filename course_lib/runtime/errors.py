"""The one error that a user's own input can cause."""

from __future__ import annotations

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
