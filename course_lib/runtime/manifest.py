"""Size and SHA-256 of files, written when they are made and compared before they are used.

A checkpoint, a trained model, an export and an index of sentences each keep such a list, because
Paddle loads weights that are cut off, and a tokenizer another vocabulary, without a word.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from course_lib.runtime.errors import InputError
from course_lib.runtime.files import atomic_file, read_json

MANIFEST = "manifest.json"
COMPLETE = "a complete checkpoint"


def describe_file(file: str | os.PathLike) -> dict[str, int | str]:
    """Return a file's size in bytes and its SHA-256, for `verify_file`."""
    digest = hashlib.sha256()
    with open(file, "rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
        return {"bytes": handle.tell(), "sha256": digest.hexdigest()}


def describe_files(directory: Path) -> dict[str, dict]:
    """Return `describe_file` of each file in a directory, by name, for `verify_files`."""
    files = sorted(file for file in directory.iterdir() if file.is_file())
    return {file.name: describe_file(file) for file in files}


def check_described(files: Mapping) -> set[str]:
    """Return the names in a list of files that was read from disk, if it has the right form.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it is not what `describe_files` wrote.
    """
    for name, record in files.items():
        plain = Path(name).name == name and record["sha256"] == record["sha256"].lower()
        if type(record["bytes"]) is not int or not plain:
            raise ValueError(f"{name} has no size or SHA-256, or is in another directory")
    return set(files)


def verify_file(file: Path, record: Mapping, expected: str, source: str = "the manifest") -> None:
    """Compare a file with what `describe_file` gave when it was written.

    Raises:
        InputError: the file is missing or differs.
    """
    if not file.is_file():
        raise InputError(file, "is missing", expected)
    size, reason = file.stat().st_size, ""
    if size != record["bytes"]:
        reason = f"{size} bytes instead of {record['bytes']}"
    elif describe_file(file)["sha256"] != record["sha256"]:
        reason = f"its SHA-256 differs from {source}"
    if reason:
        raise InputError(file, f"is damaged or was changed: {reason}", expected)


def verify_files(directory: Path, files: Mapping[str, Mapping], expected: str = COMPLETE) -> None:
    """Compare the files in a directory with what `describe_files` wrote of them.

    Raises:
        InputError: naming the first file that is missing or differs.
    """
    for name in sorted(files):
        verify_file(directory / name, files[name], expected)


def write_manifest(directory: Path, files: Mapping[str, Mapping] | None = None, **more) -> None:
    """Write manifest.json beside the files that it lists: by default all that are there."""
    files = describe_files(directory) if files is None else files
    with atomic_file(directory / MANIFEST) as file:
        json.dump({**more, "files": files}, file, indent=1)


def read_manifest(directory: Path, expected: str = COMPLETE) -> dict[str, dict]:
    """Return size and SHA-256 of each file that a directory's manifest lists, by name.

    Raises:
        InputError: it is missing or damaged.
    """
    file = directory / MANIFEST
    try:
        files = read_json(file, expected)["files"]
        check_described(files)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise InputError(file, "is missing or damaged", expected) from None
    return files


def verify_model(directory: Path, read: Iterable[str]) -> None:
    """Compare a model's directory with its manifest; one without a manifest is let pass.

    Args:
        read: names of the files that loading looks for; none of them may have been added.

    Raises:
        InputError: naming the file that is missing, changed or new.
    """
    if not (directory / MANIFEST).is_file():
        return
    expected = f"the model as it was saved; to accept the change, delete {MANIFEST} beside it"
    files = read_manifest(directory, expected)
    verify_files(directory, files, expected)
    for name in read:
        if name not in files and (directory / name).is_file():
            raise InputError(directory / name, "was added after the model was saved", expected)
