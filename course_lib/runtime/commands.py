"""What every command line of the course shares: types of its options, and how it ends."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable

from course_lib.runtime.errors import InputError, one_line


def whole(least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    """An argparse type: a whole number within bounds."""

    def parse(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least} and {most}")
        return value

    parse.__name__ = "whole number"
    return parse


def positive(text: str) -> float:
    """An argparse type: a finite number above 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def exit_status(command: Callable[[], int | None]) -> int:
    """Run a command: 0 done, 2 wrong input, which is told in one line on standard error.

    So is a warning: the line of code that it comes from tells a user of commands nothing.
    """
    shown = warnings.showwarning

    def tell(message, category, *place) -> None:
        if category is UserWarning:
            print(f"warning: {message}", file=sys.stderr)
        else:
            shown(message, category, *place)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = tell
            return command() or 0
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: no error, and nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # no room on the disk, no home directory
        problem = f"{error.filename or 'system'}: {error.strerror or error}"
        print(f"error: {one_line(problem)}", file=sys.stderr)
        return 2
