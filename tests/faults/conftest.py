"""What the tests of faults share, and the figures that they end with."""

from pathlib import Path

import pytest
import workshop


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return workshop.build(tmp_path_factory.mktemp("place"))


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("faults")


def pytest_terminal_summary(terminalreporter):
    for figure, count in sorted(workshop.FIGURES.items()):
        terminalreporter.write_line(f"{count:5} {figure}")
