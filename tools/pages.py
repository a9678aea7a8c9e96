"""What the tools share that write a page of docs/: a command line, and tables in Markdown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from course_lib.runtime import InputError, atomic_file


def table(header: list[str], rows: Iterable[list]) -> list[str]:
    """Return the lines of a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(map(str, line))} |" for line in lines]


def run(
    arguments: list[str] | None,
    tool: str,
    path: Path,
    page: Callable[[], str],
    problems: Callable[[], list[str]] = list,
) -> int:
    """Run `tool generate [--check]`: write the page, or compare it with the file.

    Args:
        arguments: of the command line; None takes those of this process.
        page: returns the text.
        problems: returns what is wrong with its sources, one line each; they are printed first.

    Returns:
        The status: 1 when something is wrong or, with --check, the page differs; 2 when a source
        cannot be read.
    """
    parser = argparse.ArgumentParser(prog=tool, description=f"Generate docs/{path.name}.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("generate", help="write the page")
    command.add_argument("--check", action="store_true", help="only compare; status 1 if different")
    check = parser.parse_args(arguments).check
    try:
        lines = problems()
        for line in lines:
            print(line, file=sys.stderr)
        text = page()
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    differs = not path.is_file() or path.read_text(encoding="utf-8") != text
    if differs:
        print(f"docs/{path.name}: {'differs from its sources' if check else 'written'}")
    if differs and check:
        print(f"run: python {tool} generate", file=sys.stderr)
    elif differs:
        path.parent.mkdir(exist_ok=True)
        with atomic_file(path) as file:
            file.write(text)
    return int(bool(lines) or (check and differs))
