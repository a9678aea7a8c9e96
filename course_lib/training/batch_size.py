"""The largest batch that can be trained on: tried in a child process that may die of it."""

from __future__ import annotations

import contextlib
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
from typing import Any

from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError
from course_lib.runtime.errors import whole
from course_lib.runtime.machine import child_environment

import paddle
from paddlenlp.transformers import PretrainedModel

MB = 2**20


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
    model: PretrainedModel,
    length: int,
    budget: int,
    most: int = 4096,
    timeout: float = 300,
) -> BatchSearch:
    """Find the largest batch whose training steps stay within `budget`, by training on it.

    A child process of limited memory builds the same model with random weights and takes AdamW
    steps on random ids, on the CPU, so that an out-of-memory ends the child and not the notebook.
    Sizes grow, guided by the peaks so far, until one does not fit; the answer is within an eighth
    of the true limit. On a GPU read `paddle.device.cuda.max_memory_allocated()` after a step.

    Args:
        model: a PaddleNLP classifier; its class and configuration are what is used.
        length: tokens an example.
        budget: bytes of the whole process, which holds Paddle (some 500 MB) as well.
        most: no larger batch is tried.
        timeout: seconds for one size, and for the start.

    Raises:
        InputError: another model, a length that it has no positions for, a budget that Paddle and
            the model alone exceed, a system without /proc, or a child that cannot build or train
            the model, or not in time.
    """
    kind = type(model)
    if not isinstance(model, PretrainedModel) or not hasattr(model.config, "num_labels"):
        raise InputError("model", f"is a {kind.__name__}", "a PaddleNLP classifier")
    positions = getattr(model.config, "max_position_embeddings", None)
    length = whole("length", length, 1, positions or float("inf"))
    budget, most = whole("budget", budget, 1), whole("most", most, 1)
    if not Path("/proc/self/status").exists():
        raise InputError("largest_batch", "needs Linux's /proc", "a Linux machine")
    tried: list[tuple[int, int | None]] = []
    low, high, size = 0, most + 1, 1
    with tempfile.TemporaryDirectory(prefix="largest-batch-") as directory:
        with quiet_paddlenlp():
            model.config.save_pretrained(directory)
        job = {"class": [kind.__module__, kind.__name__], "config": directory}
        child = _Child({**job, "length": length, "budget": budget}, timeout)
        try:
            while high - low > max(1, low // 8):
                peak = child.peak(size)
                tried.append((size, peak))
                fits = peak is not None and peak <= budget
                low, high = (size, high) if fits else (low, size)
                size = _next_size(tried, low, high, budget)
        finally:
            child.end()
    return BatchSearch(low, tried)


def _next_size(tried: list[tuple[int, int | None]], low: int, high: int, budget: int) -> int:
    """Where the line through the two largest peaks meets the budget, within bounds."""
    known = sorted({(size, peak) for size, peak in tried if peak is not None and peak <= budget})
    guess = 2 * low
    if len(known) > 1 and known[-1][1] > known[-2][1]:
        slope = (known[-1][1] - known[-2][1]) / (known[-1][0] - known[-2][0])
        guess = min(4 * low, low + int((budget - known[-1][1]) / slope))
    guess = max(guess, low + max(1, low // 8))
    if guess >= high:
        failed = any(size == high for size, _ in tried)
        guess = (low + high) // 2 if failed else high - 1
    return max(guess, low + 1)


class _Child:
    """A process that trains on batches of the sizes it is told; begun anew when one ends it."""

    CODE = "from course_lib.training.batch_size import _train; _train()"

    def __init__(self, job: dict, timeout: float) -> None:
        self.job, self.timeout = job, timeout
        self.process: Any = None  # a Popen with pipes while it runs

    def peak(self, size: int) -> int | None:
        """Peak bytes of the process while it trained on `size` examples; None: it ended."""
        if self.process is None:
            self.begin()
        with contextlib.suppress(BrokenPipeError):  # it ended before it was asked
            self.process.stdin.write(f"{size}\n")
            self.process.stdin.flush()
        answer = self.answer()
        if answer is not None:
            return answer["peak"]
        status, reason = self.process.wait(), self.reason()
        self.end()
        if status == 1 and not any(word in reason.lower() for word in ("memory", "alloc")):
            raise InputError("model", f"cannot be trained in a child: {reason}", "a classifier")
        return None

    def begin(self) -> None:
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed by end()
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
            env={**child_environment(), "CUDA_VISIBLE_DEVICES": ""},
            start_new_session=True,
        )
        self.process.stdin.write(json.dumps(self.job) + "\n")
        self.process.stdin.flush()
        ready = self.answer()
        if ready is None:
            self.process.wait()
            reason = self.reason()
            self.end()
            raise InputError("model", f"cannot be built in a child: {reason}", "a class to import")
        if ready["resident"] >= self.job["budget"]:
            self.end()
            problem = f"is {self.job['budget'] / MB:.0f} MB"
            needed = f"more than {ready['resident'] / MB:.0f} MB, what Paddle and the model take"
            raise InputError("budget", problem, needed)

    def answer(self) -> dict | None:
        """The child's next line of JSON; None when it ends."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self.process.kill()

        clock = threading.Timer(self.timeout, stop)
        clock.start()
        try:
            for line in self.process.stdout:  # Paddle may say something, too
                if line.startswith("{"):
                    return json.loads(line)
        finally:
            clock.cancel()
        if late.is_set():
            self.end()
            raise InputError("timeout", f"of {self.timeout:g} s has passed", "a longer one")
        return None

    def reason(self) -> str:
        """The end of what the child has said of its end."""
        self.said.seek(0)
        return " ".join(self.said.read().split())[-300:]

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.said):
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
            self.process = None


def _train() -> None:
    """The child of `largest_batch`: reads a job (JSON), then sizes; answers each on a line."""
    import resource

    job = json.loads(sys.stdin.readline())
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
    for line in sys.stdin:
        gc.collect()
        if hasattr(libc, "malloc_trim"):
            libc.malloc_trim(0)  # what an earlier size has left is not this one's
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        for _ in range(2):
            step(int(line))
        print(json.dumps({"peak": _status("VmHWM")}), flush=True)


def _status(name: str) -> int:
    """A figure of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0
