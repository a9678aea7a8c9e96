"""What every command line of the course shares: types of its options, and how it ends."""

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import InputError


def whole(min_: int, max_: int = 2**31 - 1) -> Callable[[str], int]:
    """An argparse type: a whole number within bounds."""

    def parse(text: str) -> int:
        value = int(text)
        if not min_ <= value <= max_:
            raise argparse.ArgumentTypeError(f"{text} is not between {min_} and {max_}")
        return value

    parse.__name__ = "whole number"
    return parse


def exit_status(command: Callable[[], int | None]) -> int:
    """Run a command and return its exit status: 0 for done, 2 for wrong input.

    Wrong input and warnings are printed to standard error in one line, without a line of code.
    SIGTERM ends it with SystemExit(143), without a message, after it has cleaned up.
    """
    python_shows = warnings.showwarning

    def show(message, category, *place) -> None:
        if category is UserWarning:
            print(f"warning: {message}", file=sys.stderr)
        else:
            python_shows(message, category, *place)

    try:
        with warnings.catch_warnings(), _ends_quietly():
            warnings.showwarning = show  # type: ignore[assignment]
            return command() or 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: no error, and nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (InputError, OSError) as error:  # no room on the disk, no home directory
        print(f"error: {error}", file=sys.stderr)
        return 2


@contextmanager
def _ends_quietly() -> Iterator[None]:
    """Let SIGTERM raise SystemExit(143); `runtime.imports` keeps Paddle from changing that."""

    def end(*_) -> None:
        raise SystemExit(143)

    main = threading.current_thread() is threading.main_thread()
    ours = main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
