"""VisualDL without leaving the notebook: its logs as a table, its page for as long as needed."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path

from ..runtime import InputError, atomic_file

import pandas as pd

_LOG = "vdlrecords."  # VisualDL reads no file of another name
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TRIES = 3  # of a browser that hangs
_PATIENCE = 300  # seconds that a server or a browser may take on a busy machine


def read_scalars(log_dir: str | os.PathLike) -> pd.DataFrame:
    """Read the scalars that VisualDL's page shows: those in the newest file of each directory.

    (A run that is resumed or restarted in the same directory writes another file. Both `fit` and
    `CourseTrainer` write there first what was logged before a resume.)

    Returns:
        A row a value, in the order of directories and of writing, with the columns "run" (the
        directory, relative to `log_dir`), "tag" (such as "train/loss"), "step", "value" and "time".

    Raises:
        InputError: there is no log; one of these files is damaged or cut off.
    """
    from visualdl import LogReader  # slow to import, and needed by few

    directory = Path(log_dir)
    files = sorted(path for path in directory.rglob("*") if _LOG in path.name and path.is_file())
    if not files:
        raise InputError(directory, "holds no VisualDL log", f"a file {_LOG}NUMBER.log below it")
    rows = []
    for path in {path.parent: path for path in files}.values():
        try:
            reader = LogReader(file_path=str(path))
            series = [reader.get_data("scalar", tag) for tag in reader.get_tags().get("scalar", [])]
        except Exception as error:  # protobuf's, struct's, or MemoryError for a length that is none
            problem = f"is damaged or cut off ({type(error).__name__})"
            raise InputError(path, problem, "a log that VisualDL wrote to its end") from error
        run = str(path.parent.relative_to(directory))
        rows += [(run, r.tag, r.id, r.value, r.timestamp) for records in series for r in records]
    table = pd.DataFrame(rows, columns=["run", "tag", "step", "value", "time"])
    table["time"] = pd.to_datetime(table["time"], unit="ms")
    return table


@contextlib.contextmanager
def visualdl_page(log_dir: str | os.PathLike) -> Iterator[str]:
    """Serve VisualDL's page on this machine, for this machine, inside the block.

    Yields:
        The address of the page. Below it, `api/runs` names the runs, and
        `api/scalar/list?run=RUN&tag=TAG` gives the values that are drawn.

    Raises:
        InputError: the directory does not exist; the server ends or does not answer.
    """
    directory = Path(log_dir)
    if not directory.is_dir():
        raise InputError(directory, "does not exist", "a directory of VisualDL logs")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "visualdl.server.app", "--logdir", "."]
    command += ["--host", "127.0.0.1", "--port", str(port), "--disable-telemetry", "--language=en"]
    with (
        tempfile.TemporaryFile() as output,
        _running(command, cwd=directory, stdout=output, stderr=output) as server,
    ):
        _wait_for(server, f"http://127.0.0.1:{port}/alive", output)
        yield f"http://127.0.0.1:{port}/app"


@contextlib.contextmanager
def _running(command: list[str], **options) -> Iterator[subprocess.Popen]:
    """Run a program inside the block, in a group of its own: nothing of it is left afterwards."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(server: subprocess.Popen, url: str, output) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy is elsewhere
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        with contextlib.suppress(OSError):
            direct.open(url, timeout=5).close()
            return
        time.sleep(0.1)
    output.seek(0)
    lines = output.read().decode("utf-8", "replace").strip().splitlines()[-3:]
    raise InputError(url, f"does not answer: {' / '.join(lines)}", "a server there")


def screenshot(
    url: str, path: str | os.PathLike, size: tuple[int, int] = (1200, 760)
) -> Path | None:
    """Save a page as a PNG, with a Chromium or Chrome that is installed.

    The browser resolves no names, so neither it nor a page can reach beyond this machine.

    Args:
        url: of a file, or of a server at 127.0.0.1.
        size: width and height of the window in pixels.

    Returns:
        The path, or None when there is no such browser, or when it gives no picture (a warning
        says so).
    """
    with tempfile.TemporaryDirectory() as directory:
        picture = Path(directory, "page.png")
        options = [f"--window-size={size[0]},{size[1]}", "--hide-scrollbars"]
        if _browse(url, *options, f"--screenshot={picture}") is None:
            return None
        if not picture.is_file():
            warnings.warn(f"the browser gives no picture of {url}", stacklevel=2)
            return None
        with atomic_file(path, "wb") as file:
            file.write(picture.read_bytes())
    return Path(path)


def _browser() -> list[str] | None:
    """Return how to start a Chromium or Chrome, if one is installed."""
    if (browser := next(filter(None, map(shutil.which, _BROWSERS)), None)) is None:
        return None
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    return [*command, "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]


def _browse(url: str, *options: str) -> str | None:
    """Open a page in a browser without a window; see `screenshot`.

    Args:
        options: what to do with the page: `--dump-dom` or `--screenshot=FILE`.

    Returns:
        What the browser prints; None without one, or where it fails or hangs (a warning).
    """
    if (command := _browser()) is None:
        return None
    for _ in range(TRIES):  # now and then one hangs, and the next does not
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
            tempfile.TemporaryFile() as output,
        ):
            started = [f"--user-data-dir={profile}", "--virtual-time-budget=10000", *options, url]
            with _running(command + started, stdout=output, stderr=subprocess.DEVNULL) as process:
                try:
                    status = process.wait(_PATIENCE / TRIES)
                    problem = f"ended with status {status}"
                except subprocess.TimeoutExpired:
                    problem = f"did not end within {_PATIENCE / TRIES:g} s"
                    continue
            if status != 0:
                break
            output.seek(0)
            return output.read().decode("utf-8")
    warnings.warn(f"the browser {problem} and does not show {url}", stacklevel=2)
    return None
