"""Build the corpora's frozen files, and print the tables of data/README.md.

    python -m tools.corpora stats CORPUS    print the tables of a corpus
    python -m tools.corpora build CORPUS    make anew: reviews, people_daily, cloze, waybills
    python -m tools.corpora checksums       after an edit by hand: write data/SHA256SUMS

`build` writes data/SHA256SUMS, too. Questions (cloze) depend on the labels of people_daily.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import course_lib  # noqa: F401  before paddle
from course_lib.runtime.commands import exit_status
from tools.corpora import cloze, desk, pairs, people_daily, review_tree, reviews, waybills
from tools.corpora.reporting import write_checksums

CORPORA = {
    module.__name__.rpartition(".")[2]: module
    for module in (cloze, desk, pairs, people_daily, review_tree, reviews, waybills)
}
BUILT = ("reviews", "people_daily", "cloze", "waybills")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 2 when an input is not as expected."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.corpora",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("stats").add_argument("corpus", choices=CORPORA)
    commands.add_parser("build").add_argument("corpus", choices=BUILT)
    commands.add_parser("checksums")
    options = parser.parse_args(arguments)
    return exit_status(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    if options.command == "stats":
        print(CORPORA[options.corpus].report())
        return
    if options.command == "build":
        for name, count in CORPORA[options.corpus].build().items():
            print(f"{count:>6,}  {name}")
    print(write_checksums(), end="")


if __name__ == "__main__":
    sys.exit(main())
