"""`python -m course_lib.data.reviews build` writes the split anew, `stats` prints its figures."""

from __future__ import annotations

import sys

from course_lib.data.reporting import corpus_command, count_lines
from course_lib.data.reviews.split import build
from course_lib.data.reviews.stats import report


def main(arguments: list[str] | None = None) -> int:
    """Run one command: see `corpus_command`."""
    return corpus_command(
        "reviews", __doc__, arguments, build=lambda: count_lines(build()), stats=report
    )


if __name__ == "__main__":
    sys.exit(main())
