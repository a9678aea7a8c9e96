"""Size and SHA-256 of files, written when they are made and compared before they are used.

A checkpoint, a trained model, an export and an index of sentences each keep such a list, because
Paddle loads weights that are cut off, and a tokenizer another vocabulary, without a word.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from .errors import InputError
from .files import atomic_file, read_json

MANIFEST = "manifest.json"
COMPLETE = "a complete checkpoint"


def describe_files(
    directory: Path, names: Iterable[str] | None = None
) -> dict[str, dict[str, int | str]]:
    """Return size in bytes and SHA-256 of files in a directory, by name, for `verify_files`.

    Args:
        names: of the files; None means all.
    """
    if names is None:
        names = [file.name for file in directory.iterdir() if file.is_file()]
    return {name: _describe(directory / name) for name in sorted(names)}


def _describe(file: Path) -> dict[str, int | str]:
    digest = hashlib.sha256()
    with open(file, "rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
        return {"bytes": handle.tell(), "sha256": digest.hexdigest()}


def verify_files(directory: Path, files: Mapping[str, Mapping], expected: str = COMPLETE) -> None:
    """Refuse a directory where a file is missing or not as `describe_files` wrote of it."""
    for name, record in sorted(files.items()):
        file, reason = directory / name, ""
        if not file.is_file():
            raise InputError(file, "is missing", expected)
        if file.stat().st_size != record["bytes"]:
            reason = f"{file.stat().st_size} bytes instead of {record['bytes']}"
        elif _describe(file)["sha256"] != record["sha256"]:
            reason = "its SHA-256 is another one"
        if reason:
            raise InputError(file, f"is damaged or was changed: {reason}", expected)


def write_manifest(directory: Path, files: Mapping[str, Mapping] | None = None, **more) -> None:
    """Write manifest.json beside the files that it lists: by default all that are there."""
    files = describe_files(directory) if files is None else files
    with atomic_file(directory / MANIFEST) as file:
        json.dump({**more, "files": files}, file, indent=1)


def read_manifest(directory: Path, expected: str = COMPLETE) -> dict[str, dict]:
    """Return size and SHA-256 of each file that a directory's manifest lists, by name."""
    file = directory / MANIFEST
    try:
        files = read_json(file, expected)["files"].items()
        return {name: {key: one[key] for key in ("bytes", "sha256")} for name, one in files}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise InputError(file, "is missing or damaged", expected) from None
