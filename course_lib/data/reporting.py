"""What the figures of data/README.md have in common: audits, intervals, tables, the command."""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Sequence

from course_lib import runtime
from course_lib.runtime import InputError
from course_lib.runtime.commands import exit_status


def read_audit(corpus: str) -> list[dict[str, str]]:
    """The rows of data/CORPUS/audit.csv: what a reader judged, by the names of its header."""
    path = runtime.data_dir() / corpus / "audit.csv"
    with open(path, encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def corpus_command(
    corpus: str, description: str, arguments: Sequence[str] | None, **commands: Callable[[], str]
) -> int:
    """`python -m course_lib.data.CORPUS COMMAND`: print what a command's function gives.

    Returns:
        The exit status: 2 when an input is not as expected.
    """
    program = f"python -m course_lib.data.{corpus}"
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("command", choices=list(commands))
    command = commands[parser.parse_args(arguments).command]
    return exit_status(lambda: print(command().rstrip("\n")))


def count_lines(counts: dict[str, int]) -> str:
    """What was built: a number and what it counts, a line each."""
    return "\n".join(f"{count:>6,}  {name}" for name, count in counts.items())


def wilson(count: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """The Wilson score interval of the share count / total; 95% at the default z."""
    if not 0 <= count <= total or not total:
        raise InputError("count", f"is {count} of {total}", "some of one at least")
    share = count / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total)
    half *= math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, centre - half), min(1.0, centre + half)  # no -0.0 by rounding


def markdown_table(header: list[str], rows: list[list]) -> str:
    """A table whose first column is aligned left, the others right; 1234 is written 1,234."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(
        "| " + " | ".join(f"{c:,}" if isinstance(c, int) else str(c) for c in line) + " |"
        for line in lines
    )
