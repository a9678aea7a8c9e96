"""Figures of chapter 11, and a service in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from course_lib.notebook.style import (
    BESIDE,
    MUTED,
    SERIES,
    CourseFigure,
    drawable,
)
from course_lib.runtime import InputError, machine


@contextmanager
def running(model_dir: str | os.PathLike, *options: str) -> Iterator[tuple[str, subprocess.Popen]]:
    """Run `python -m course_lib serve` as a process of its own, inside the block.

    Args:
        options: more of its arguments, such as "--max_batch", "1".

    Yields:
        Its address, at a free port, and the process.

    Raises:
        InputError: it does not start; the message is its own.
    """
    command = [sys.executable, "-m", "course_lib", "serve", str(model_dir), "--port", "0", *options]
    with tempfile.TemporaryFile() as errors:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": errors, "text": True}
        process: Any = subprocess.Popen(command, env=machine.child_environment(), **pipes)
        try:
            line = process.stdout.readline()  # empty once it has ended
            if not line:
                errors.seek(0)
                reason = errors.read().decode(errors="replace").strip().splitlines()[-1:]
                raise InputError("serve", f"does not start: {' '.join(reason)}", "a service")
            yield line.split()[-1], process
        finally:
            process.terminate()
            try:
                process.wait(60)  # longer than it waits for its last answers
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def latency_curves(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    ylabel: str = "latency, ms",
    notes: Sequence[str] = (),
) -> CourseFigure:
    """Show what a service's clients wait against how much it answers, one line a service.

    Args:
        lines: by name (texts a second, milliseconds) for each load, in rising order of the load.
        ylabel: which latency it is.
        notes: what stands beside the points of the line drawn last, such as the number of clients.
    """
    with CourseFigure(figsize=(7.2, 4.0)) as figure:
        axes = figure.subplots()
        for number, (name, points) in enumerate(lines.items()):
            style = {"markersize": 5, **SERIES[number]}
            axes.plot(*zip(*points, strict=True), label=drawable(name), **style)
        for note, (x, y) in zip(notes, points, strict=False):
            below = {**BESIDE, "xytext": (0, -11), "ha": "center"}
            axes.annotate(str(note), (x, y), color=MUTED, fontsize=8, **below)
        axes.set(xlabel="texts a second", ylabel=ylabel, yscale="log")
        axes.margins(y=0.12)  # room for a note below the lowest point
        axes.set_xlim(0, 1.06 * max(x for points in lines.values() for x, _ in points))
        axes.grid(axis="y", which="both")
        figure.legend(loc="outside upper center", ncols=2)
        summary = "; ".join(
            f"{name}: {points[0][1]:.0f} ms at {points[0][0]:.0f} texts a second to "
            f"{points[-1][1]:.0f} ms at {points[-1][0]:.0f}"
            for name, points in lines.items()
        )
        return figure.finish(f"{ylabel} against throughput. {summary}.", plain=axes.yaxis)
