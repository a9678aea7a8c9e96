"""The label audit: 200 reviews read and judged, and the share of wrong labels they give."""

from __future__ import annotations

import json
import random

from course_lib.data.reviews.corpus import FILES, split_path

DRAWN = 200
JUDGEMENTS = ("agree", "wrong label", "cannot tell")


def draw() -> list[str]:
    """The ids of the 200 reviews that were judged: drawn from dev and test together, seed 42."""
    splits = json.loads(split_path().read_text(encoding="utf-8"))["splits"]
    ids = [f"{f}-{line:05d}" for s in ("dev", "test") for f in FILES for line in splits[s][f]]
    return random.Random(42).sample(sorted(ids), DRAWN)
