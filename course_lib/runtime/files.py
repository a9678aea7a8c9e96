"""Writing that never leaves half a file: a temporary name first, then one rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from course_lib.runtime.errors import InputError


@contextmanager
def atomic_file(path: str | os.PathLike, mode: str = "w", **open_options) -> Iterator[IO]:
    """Open `path` for writing so that it appears whole or not at all.

    Text is UTF-8 with LF line ends unless `open_options` says otherwise. An exception inside the
    block removes the temporary file and leaves an existing `path` as it was.

    Raises:
        InputError: `path` cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    if "b" not in mode:
        open_options = {"encoding": "utf-8", "newline": "\n", **open_options}
    if path.is_dir():
        raise InputError(path, "is a directory", "the name of a file to write")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = open(temporary, mode, **open_options)  # noqa: SIM115, closed by the `with` below
    except OSError as error:
        raise InputError(
            path, f"cannot be written ({error.strerror})", "a writable place"
        ) from None
    try:
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_directory(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary directory that becomes `path` when the block ends well.

    An existing `path` is kept until the new one is complete. Between the two renames that swap
    them the old one is called `.NAME.previous`; a later call puts it back if a crash left it so.

    Raises:
        InputError: the parent cannot be written, or `path` is a file.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    previous = path.with_name(f".{path.name}.previous")
    if path.exists() and not path.is_dir():
        raise InputError(path, "is a file", "the name of a directory to write")
    try:
        if previous.exists() and not path.exists():
            previous.rename(path)
        shutil.rmtree(previous, ignore_errors=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            path, f"cannot be written ({error.strerror})", "a writable place"
        ) from None
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with open(file, "rb") as handle:
                    os.fsync(handle.fileno())
        if path.exists():
            path.rename(previous)
        temporary.rename(path)
        shutil.rmtree(previous, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
