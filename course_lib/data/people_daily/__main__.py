"""`python -m course_lib.data.people_daily stats` prints the figures, `audit` those of the audit."""

from __future__ import annotations

import sys

from course_lib.data.people_daily.stats import audit_report, report
from course_lib.data.reporting import corpus_command


def main(arguments: list[str] | None = None) -> int:
    """Run one command: see `corpus_command`."""
    return corpus_command("people_daily", __doc__, arguments, stats=report, audit=audit_report)


if __name__ == "__main__":
    sys.exit(main())
