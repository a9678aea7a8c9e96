"""Processes that tests start: one, or two that write into one directory at once."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def run(*command, **options) -> subprocess.CompletedProcess:
    """Run a command, whose words may be paths or numbers, to its end; its output is text."""
    settings = {"capture_output": True, "text": True, "timeout": 3600, **options}
    return subprocess.run(list(map(str, command)), **settings)


def python(*command, **options) -> subprocess.CompletedProcess:
    return run(sys.executable, *command, **options)


@contextmanager
def two_writers(script: str, path: Path, *arguments: str) -> Iterator[Callable[[], bool]]:
    """Run `script PATH NAME ...`, which prints "saved"; yields what says whether one still runs."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path), name, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in ("one", "other")
    ]  # fmt: skip
    try:
        yield lambda: any(process.poll() is None for process in processes)
        for process in processes:
            output, errors = process.communicate(timeout=300)
            assert output.strip() == "saved", errors
    finally:
        for process in processes:
            process.kill()
            process.wait()
