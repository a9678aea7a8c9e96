"""Where does a program stand that does not go on?"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from course_lib.runtime import InputError
from course_lib.runtime.errors import finite


@contextlib.contextmanager
def watch_hang(seconds: float, file: str | os.PathLike) -> Iterator[Path]:
    """Write down where the program stands when the block takes longer than `seconds`.

    The stack of every thread of this process goes into `file`, even when the interpreter itself is
    stuck in native code, then the stacks of its child processes (the workers of a DataLoader that
    were started inside the block). The program goes on: nothing is ended. Linux and macOS; the
    children on Linux only.

    Args:
        seconds: how long the block may take.
        file: is emptied at the beginning and stays empty when all goes well.

    Raises:
        InputError: `seconds` is not above 0, or the file cannot be written.

    Source: FAQ Q3.6, and Python's faulthandler.
    """
    seconds = finite("seconds", seconds, 0, threading.TIMEOUT_MAX)
    try:
        report = open(file, "w", encoding="utf-8")  # noqa: SIM115, closed below
    except OSError as error:
        raise InputError(
            file, f"cannot be written ({error.strerror})", "a writable place"
        ) from None
    # forked children inherit the handler and the file; the signal is sent to nobody without it
    faulthandler.register(signal.SIGUSR1, report, all_threads=True)
    faulthandler.dump_traceback_later(seconds, file=report)
    clock = threading.Timer(seconds + 0.2, _ask_children, [report])
    clock.daemon = True
    clock.start()
    try:
        yield Path(file)
    finally:
        clock.cancel()
        clock.join()
        faulthandler.cancel_dump_traceback_later()
        faulthandler.unregister(signal.SIGUSR1)
        report.close()


def _ask_children(report) -> None:
    for child in _children(os.getpid()):
        os.write(report.fileno(), f"\nChild process {child}:\n".encode())
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGUSR1)
        time.sleep(0.1)  # one after another


def _children(parent: int) -> list[int]:
    """Children that catch SIGUSR1; any other one would be ended by it."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            fields = dict(
                line.split(":", 1) for line in status.read_text().splitlines() if ":" in line
            )
            caught = int(fields["SigCgt"], 16) >> (signal.SIGUSR1 - 1) & 1
            if int(fields["PPid"]) == parent and caught:
                found.append(int(status.parent.name))
    return sorted(found)
