"""Every pytest run in this repository, nbval's included, is offline and says so if it is not."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path

import course_lib  # noqa: F401, before any test module imports paddle

import pytest

OFFLINE = Path(__file__).resolve().parent / "tests" / "offline"


late = {}  # for each notebook: whether its first cell came too late


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    os.environ.update(
        HF_HUB_OFFLINE="1",
        HF_DATASETS_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        DO_NOT_TRACK="1",
    )
    # Kernels and scripts that a test starts read these two.
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{OFFLINE}{os.pathsep}{path}" if path else str(OFFLINE)
    if not _is_worker(config):  # pytest-xdist's workers write to the log that they inherit
        handle, log = tempfile.mkstemp(prefix="course-network-", suffix=".jsonl")
        os.close(handle)
        os.environ["COURSE_NETWORK_LOG"] = log
    config.network_log = Path(os.environ["COURSE_NETWORK_LOG"])
    if config.getoption("nbval_lax", False):  # its kernels need not load Paddle each
        sys.path.insert(0, str(OFFLINE.parent))
        from course_kernel import forked_kernels

        forked_kernels().start()
    if "sitecustomize" not in sys.modules or not hasattr(sys.modules["sitecustomize"], "guard"):
        sys.path.insert(0, str(OFFLINE))
        sys.modules.pop("sitecustomize", None)
        import sitecustomize  # noqa: F401

        sys.path.remove(str(OFFLINE))


def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """A file and a notebook stay in one process; a file's chapters or recipes are dealt out."""
    from xdist.scheduler import LoadScopeScheduling

    class ByChapter(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            part = re.search(r"\[\d+[a-z]?[_ ]\w+", nodeid)
            return nodeid.split("::")[0] + (part.group() if part else "")

    return ByChapter(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes long begins first, so that two processes end at about the same time."""
    if _is_worker(config):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no notebook after COURSE_NBVAL_UNTIL: a slow machine skips what it does not reach."""
    over = time.time() > float(os.environ.get("COURSE_NBVAL_UNTIL", "inf"))
    if item.path.suffix == ".ipynb" and late.setdefault(item.path, over):
        pytest.skip("after COURSE_NBVAL_UNTIL no further notebook is begun")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.network_log.stat().st_size and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    attempts = config.network_log.read_text(encoding="utf-8")
    if attempts:
        terminalreporter.section("connections beyond this machine were refused", red=True)
        terminalreporter.write_line(attempts)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _is_worker(config):
        config.network_log.unlink(missing_ok=True)
