"""Output directories: which command owns one, and which process is writing to it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from course_lib.runtime.errors import InputError
from course_lib.runtime.files import (
    FULL,
    LEFTOVER,
    LOCK,
    atomic_file,
    check_writable,
    hold,
    read_json,
    writing,
)

MARKER = "run.json"  # names the command that a directory belongs to
RESUME = {"train": "--resume", "hierarchical train": "init_from_ckpt newest"}
CHECKPOINT_DIR, LOG_DIR = "checkpoints", "logs"


def check_output_dir(
    output_dir: str | os.PathLike,
    command: str,
    go_on: bool = False,
    again: bool = False,
    keep: str | None = None,
) -> None:
    """Refuse, before any work is done, a directory whose content a run would replace.

    Args:
        go_on: the run resumes: the directory must be one that the same command has begun.
        again: the run may replace what the same command has written.
        keep: a glob of the command's checkpoints. A run that was killed before the first one has
            left nothing to lose, and may be started again.

    Raises:
        InputError: such a directory, one that cannot be written, or one that another process
            writes to now.
    """
    output_dir = Path(output_dir)
    if (output_dir / LOCK).is_file():
        with lock_directory(output_dir):
            pass
    _check(output_dir, command, go_on, again, keep)
    check_writable(output_dir)


@contextmanager
def claim(
    output_dir: str | os.PathLike,
    command: str,
    go_on: bool = False,
    again: bool = False,
    keep: str | None = None,
    **notes: str,
) -> Iterator[None]:
    """Hold an output directory for one process, and mark it as this command's, with notes.

    What killed processes have left half written is removed. Arguments and errors are those of
    `check_output_dir`: what it let pass may have changed since.
    """
    output_dir = Path(output_dir)
    with lock_directory(output_dir), writing(output_dir, FULL):
        barren = _check(output_dir, command, go_on, again, keep)
        _clear_leftovers(output_dir)
        for name in (CHECKPOINT_DIR, LOG_DIR) if barren else ():
            shutil.rmtree(output_dir / name, ignore_errors=True)
        with atomic_file(output_dir / MARKER) as file:
            json.dump({"command": command, **notes}, file)
        yield


@contextmanager
def lock_directory(output_dir: str | os.PathLike) -> Iterator[None]:
    """Hold a directory, made if it is not there, for one process.

    Raises:
        InputError: another process holds it.
    """
    Path(output_dir).mkdir(parents=True, exist_ok=True)
    lock = hold(Path(output_dir, LOCK))
    if lock is None:
        expected = "another directory, or to wait until it has ended"
        raise InputError(output_dir, "is in use: another process is writing to it", expected)
    with lock:
        yield


def read_marker(output_dir: Path) -> dict:
    """Return what `claim` noted in a directory; empty where it did not, or the file is damaged."""
    try:
        marker = read_json(output_dir / MARKER, "what a command wrote")
    except InputError:
        marker = None
    return marker if isinstance(marker, dict) else {}


def _check(output_dir: Path, command: str, go_on: bool, again: bool, keep: str | None) -> bool:
    """Return whether nothing is there but what a run left that was killed before a checkpoint."""
    owner = read_marker(output_dir).get("command")
    barren = owner == command and keep is not None and not any(output_dir.glob(keep))
    passed = {MARKER, LOCK, *((CHECKPOINT_DIR, LOG_DIR) if barren else ())}
    results = any(
        path.name not in passed and not LEFTOVER.fullmatch(path.name) and _holds_files(path)
        for path in output_dir.glob("*")
    )
    if owner is None and not results and (output_dir / LOCK).is_file():
        owner = command  # killed before it could mark the directory
    if results and not ((go_on or again) and owner == command):
        what = f"holds a run of {owner}" if owner else "is not empty"
        also = f", or {RESUME[owner]} to go on with it" if owner == command in RESUME else ""
        raise InputError(output_dir, what, f"a new directory{also}")
    if go_on and owner != command:
        raise InputError(output_dir, "holds no training", f"the directory of an earlier {command}")
    return barren and not results


def _holds_files(path: Path) -> bool:
    return not path.is_dir() or any(not inner.is_dir() for inner in path.rglob("*"))


def _clear_leftovers(directory: Path) -> None:
    """Remove what killed processes were writing in a directory that this one alone holds now."""
    for path in [path for path in directory.rglob(".*-*") if LEFTOVER.fullmatch(path.name)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
