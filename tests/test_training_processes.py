"""Repeated, measured or watched in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from course_lib.chapters.ch17 import tiny_training
from course_lib.runtime import InputError, seed_everything
from course_lib.runtime.machine import child_environment
from course_lib.training import SWITCHES, batch_size, reproducible, watch_hang

import numpy as np
import paddle
import pytest
import recipe_runs as runs

# ---- the same result every time


def test_two_processes_give_the_same_bits():
    code = "import course_lib, json; from course_lib.chapters.ch17 import tiny_training"
    command = [sys.executable, "-c", f"{code}; print(json.dumps(tiny_training(5)))"]
    environment = {**child_environment(), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    one = json.loads(done.stdout.splitlines()[-1])
    assert one == tiny_training(5) and set(one) == {"weights", "predictions"}
    assert tiny_training(6) != one


def test_what_a_missing_seed_and_a_forgotten_eval_do():
    same = tiny_training(5)
    assert tiny_training(5) == same
    assert len({tiny_training(None)["weights"] for _ in range(2)}) == 2
    forgotten = tiny_training(5, evaluating=False)
    assert forgotten["weights"] == same["weights"]
    assert forgotten["predictions"] != same["predictions"]


def test_the_switches_are_set_and_named(monkeypatch):
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)
    shared = reproducible(7)
    assert shared["seed"] == "7" and shared["device"] == "cpu"
    assert {name: os.environ[name] for name in SWITCHES} == SWITCHES
    assert {**shared, **SWITCHES} == shared
    first = np.random.rand(), float(paddle.rand([1]))
    seed_everything(7)
    assert first == (np.random.rand(), float(paddle.rand([1])))


# ---- the largest batch


def test_the_largest_batch_is_tried_in_a_child_that_may_die():
    model = runs.build(hidden_size=48, max_position_embeddings=128)
    roomy = batch_size.largest_batch(model, 128, 8 * 2**30, max_size=2)
    assert roomy.largest == 2 and [size for size, _ in roomy.tried] == [1, 2]
    budget = roomy.tried[-1][1] + 60 * batch_size.MB
    found = batch_size.largest_batch(model, 128, budget)
    peaks = dict(found.tried)
    assert 8 < found.largest < 1000 and peaks[found.largest] <= budget
    too_large = [size for size, peak in found.tried if peak is None or peak > budget]
    assert found.largest < min(too_large) <= found.largest * 1.125 + 1


@pytest.mark.parametrize("limit", [0, 1, 7, 100, 4096])
def test_the_search_ends_just_below_the_limit(monkeypatch, limit):
    def peaks(job, sizes, timeout):
        fitting = [(size, 100 + size) for size in sizes if size <= limit]
        return fitting + [(size, None) for size in sizes[len(fitting) :][:1]]

    monkeypatch.setattr(batch_size, "_peaks", peaks)
    found = batch_size.largest_batch(runs.build(), 8, 10**9)
    assert limit - max(1, limit // 8) < found.largest <= limit and len(found.tried) < 25


READY = "import json, os, sys, time; budget = json.load(sys.stdin)['budget']; print({}, flush=True)"


@pytest.mark.parametrize("end, words", [
    ("os.kill(os.getpid(), 9)", None),
    ("raise MemoryError", None),
    ("raise RuntimeError('ResourceExhaustedError: Fail to alloc memory')", None),
    ("raise TypeError('no sum of a tuple')", "cannot be trained .*no sum of a tuple"),
    ("time.sleep(60)", "timed out"),
])  # fmt: skip
def test_how_a_child_ends_is_told_apart(monkeypatch, end, words):
    ready = READY.format("json.dumps({'resident': 1})")
    monkeypatch.setattr(batch_size, "CHILD", f"{ready}; {end}")
    timeout = 2 if "sleep" in end else 600
    if words is None:
        found = batch_size.largest_batch(runs.build(), 8, 2**30, timeout=timeout)
        assert found == batch_size.BatchSearch(0, [(1, None)])
    else:
        with pytest.raises((InputError, subprocess.TimeoutExpired), match=words):
            batch_size.largest_batch(runs.build(), 8, 2**30, timeout=timeout)


def test_a_budget_below_what_paddle_takes_is_refused(monkeypatch):
    monkeypatch.setattr(batch_size, "CHILD", READY.format("json.dumps({'resident': 500 << 20})"))
    with pytest.raises(InputError, match="is 100 MB; expected more than 500 MB"):
        batch_size.largest_batch(runs.build(), 8, 100 * batch_size.MB)


# ---- hangs


class Stuck(paddle.io.Dataset):
    """Gives nothing until the report names it."""

    def __init__(self, report):
        super().__init__()
        self.report, self.end = report, time.monotonic() + 600

    def __len__(self):
        return 1

    def __getitem__(self, index):
        while "_worker_loop" not in self.report.read_text() and time.monotonic() < self.end:
            time.sleep(0.05)
        return np.zeros(1, "float32")


def test_a_hang_in_a_worker_is_named(tmp_path):
    report = tmp_path / "report.txt"
    loader = paddle.io.DataLoader(Stuck(report), batch_size=1, num_workers=1)
    with watch_hang(5, report):  # time enough to start a worker, on a busy machine too
        next(iter(loader))
    ours, _, workers = report.read_text().partition("Child process")
    assert "Timeout" in ours and "test_a_hang_in_a_worker_is_named" in ours
    assert "__getitem__" in workers and "_worker_loop" in workers


def test_no_report_when_all_goes_well(tmp_path):
    with watch_hang(60, tmp_path / "report.txt") as report:
        pass
    assert report.read_text() == ""
