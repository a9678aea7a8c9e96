"""`python -m course_lib.data.people_daily stats` prints the figures, `audit` those of the audit."""

from __future__ import annotations

import argparse
import sys

from course_lib.data.people_daily.stats import audit_report, report
from course_lib.runtime import InputError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status is 2 when an input is not as expected."""
    program = "python -m course_lib.data.people_daily"
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    parser.add_argument("command", choices=("stats", "audit"))
    command = parser.parse_args(arguments).command
    try:
        print(report() if command == "stats" else audit_report() + "\n", end="")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
