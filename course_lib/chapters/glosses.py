"""English translations of the Chinese texts that chapters print, from data/glosses.tsv."""

import hashlib
from functools import cache

from course_lib.runtime import data_dir


@cache
def _glosses() -> dict[str, str]:
    path = data_dir() / "glosses.tsv"  # a user's own COURSE_DATA may have none
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return dict(line.split("\t") for line in lines)


def gloss(text: str) -> str:
    """Return the English translation of `text`, or "" where data/glosses.tsv has none.

    Texts that the course may not ship (the reviews) are listed by the start of their SHA-256.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return _glosses().get(text) or _glosses().get(digest, "")


def print_with_gloss(text: str, before: str = "") -> None:
    """Print `before` and a Chinese text; below it its translation, if there is one."""
    print(f"{before}{text}")
    if meaning := gloss(text):
        print(f"{' ' * len(before)}{meaning}")
