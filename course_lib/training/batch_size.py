"""The largest batch that can be trained on: tried in a child process that may die of it."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError
from course_lib.runtime.machine import child_environment

import paddle
from paddlenlp.transformers import PretrainedModel

MB = 2**20
CHILD = "from course_lib.training.batch_size import train_child; train_child()"


@dataclass(frozen=True)
class BatchSearch:
    """What `largest_batch` found.

    Attributes:
        largest: the largest batch that was trained on within the budget; 0 when not even one
            example fits.
        tried: (examples, peak bytes of the process) in the order of trying; the peak is None where
            the process ran out of its memory.
    """

    largest: int
    tried: list[tuple[int, int | None]]


def largest_batch(
    model: PretrainedModel, length: int, budget: int, max_size: int = 4096, timeout: float = 300
) -> BatchSearch:
    """Find the largest batch whose training steps stay within `budget`, by training on it.

    A child process of limited memory builds the same model with random weights and takes AdamW
    steps on random ids, on the CPU, so that an out-of-memory ends the child and not the notebook.
    Sizes double until one does not fit; another child then goes on from the last one that fitted,
    an eighth at a time. On a GPU read `paddle.device.cuda.max_memory_allocated()` after a step.

    Args:
        model: a PaddleNLP classifier; its class and configuration are what is used.
        length: tokens per example.
        budget: bytes of the whole process, which holds Paddle (some 500 MB) as well.
        max_size: no larger batch is tried.
        timeout: seconds for one child.

    Raises:
        InputError: Paddle and the model alone exceed the budget; the system has no /proc; the child
            cannot build or train the model.
        subprocess.TimeoutExpired: a child took too long.
    """
    if not Path("/proc/self/status").exists():
        raise InputError("largest_batch", "needs Linux's /proc", "a Linux machine")
    tried: list[tuple[int, int | None]] = []
    sizes = [2**power for power in range(max_size.bit_length()) if 2**power < max_size]
    sizes.append(max_size)
    with tempfile.TemporaryDirectory(prefix="largest-batch-") as directory:
        with quiet_paddlenlp():
            model.config.save_pretrained(directory)
        kind = type(model)
        names = [kind.__module__, kind.__name__]
        job = {"class": names, "config": directory, "length": length, "budget": budget}
        while sizes:
            tried += _peaks(job, sizes, timeout)
            fitted = {size for size, peak in tried if peak is not None and peak <= budget}
            largest = max(fitted, default=0)
            limit = min((size for size, _ in tried if size not in fitted), default=max_size)
            step = max(1, largest // 8)
            sizes = list(range(largest + step, limit, step))
    return BatchSearch(largest, tried)


def _peaks(job: dict, sizes: list[int], timeout: float) -> list[tuple[int, int | None]]:
    """Train on batches of these sizes in one child, until one does not fit."""
    process = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps({**job, "sizes": sizes}),
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**child_environment(), "CUDA_VISIBLE_DEVICES": ""},
    )
    reason = " ".join(process.stderr.split())[-300:]
    lines = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise InputError("model", f"cannot be built in a child: {reason}", "a class to import")
    if lines[0]["resident"] >= job["budget"]:
        needed = f"more than {lines[0]['resident'] / MB:.0f} MB, what Paddle and the model take"
        raise InputError("budget", f"is {job['budget'] / MB:.0f} MB", needed)
    peaks: list[tuple[int, int | None]]
    peaks = [(size, line["peak"]) for size, line in zip(sizes, lines[1:], strict=False)]
    if process.returncode:
        by_memory = any(word in reason.lower() for word in ("memory", "alloc"))
        if process.returncode == 1 and not by_memory:
            raise InputError("model", f"cannot be trained in a child: {reason}", "a classifier")
        peaks.append((sizes[len(peaks)], None))
    return peaks


def train_child() -> None:
    """The child of `largest_batch`: reads a job (JSON) and writes the peak of each size."""
    import resource

    job = json.load(sys.stdin)
    Path("/proc/self/oom_score_adj").write_text("1000")  # rather this one than the notebook
    kind = getattr(importlib.import_module(job["class"][0]), job["class"][1])
    with quiet_paddlenlp():
        model = kind(kind.config_class.from_pretrained(job["config"]))
    model.train()
    optimizer = paddle.optimizer.AdamW(0.0, parameters=model.parameters())
    budget, libc = job["budget"], ctypes.CDLL(None)

    def step(size: int) -> None:
        ids = paddle.randint(1, model.config.vocab_size, [size, job["length"]])
        model(ids).sum().backward()
        optimizer.step()
        optimizer.clear_grad()

    print(json.dumps({"resident": _status("VmRSS")}), flush=True)
    step(1)  # makes the moments
    # Reserved memory is not all used, so the hard limit leaves room; the watch keeps the budget.
    limit = _status("VmData") + max(0, budget - _status("VmRSS")) + 1024 * MB
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def watch() -> None:
        while _status("VmRSS") <= budget:
            time.sleep(0.002)
        os._exit(os.EX_UNAVAILABLE)

    threading.Thread(target=watch, daemon=True).start()
    for size in job["sizes"]:
        gc.collect()
        if hasattr(libc, "malloc_trim"):
            libc.malloc_trim(0)  # what an earlier size has left is not this one's
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        for _ in range(2):
            step(size)
        peak = _status("VmHWM")
        print(json.dumps({"peak": peak}), flush=True)
        if peak > budget:
            break


def _status(name: str) -> int:
    """A value of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0
