"""`python -m course_lib.data.reviews build` writes the split anew, `stats` prints its figures."""

from __future__ import annotations

import argparse
import sys

from course_lib.data.reviews.split import build
from course_lib.data.reviews.stats import report
from course_lib.runtime import InputError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status is 2 when an input is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m course_lib.data.reviews", description=__doc__)
    parser.add_argument("command", choices=("build", "stats"))
    command = parser.parse_args(arguments).command
    try:
        if command == "build":
            for reason, count in build().items():
                print(f"{count:>6,}  {reason}")
        else:
            print(report(), end="")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
