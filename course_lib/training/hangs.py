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


@contextlib.contextmanager
def watch_hang(seconds: float, file: str | os.PathLike) -> Iterator[Path]:
    """Write down where the program stands when the block takes longer than `seconds`.

    The stack of every thread of this process goes into `file`, even when the interpreter itself is
    stuck in native code, then the stacks of its child processes (the workers of a DataLoader that
    were started inside the block). The program goes on: nothing is ended. Linux and macOS; the
    children on Linux only.

    Args:
        file: is emptied at the beginning and stays empty when all goes well.
    """
    with open(file, "w", encoding="utf-8") as report:
        clock = threading.Timer(seconds + 0.2, _ask_children, [report])
        clock.daemon = True
        try:
            # forked children inherit the handler and the file
            faulthandler.register(signal.SIGUSR1, report, all_threads=True)
            faulthandler.dump_traceback_later(seconds, file=report)
            clock.start()
            yield Path(file)
        finally:
            clock.cancel()
            if clock.is_alive():
                clock.join()
            faulthandler.cancel_dump_traceback_later()
            faulthandler.unregister(signal.SIGUSR1)


def _ask_children(report) -> None:
    for child in _children(os.getpid()):
        os.write(report.fileno(), f"\nChild process {child}:\n".encode())
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGUSR1)
        time.sleep(0.1)  # one after another


def _children(parent: int) -> list[int]:
    """Children that catch SIGUSR1; any other one would be ended by it."""
    children = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            lines = status.read_text().splitlines()
            fields = dict(line.split(":", 1) for line in lines if ":" in line)
            catches = int(fields["SigCgt"], 16) >> (signal.SIGUSR1 - 1) & 1
            if int(fields["PPid"]) == parent and catches:
                children.append(int(status.parent.name))
    return sorted(children)
