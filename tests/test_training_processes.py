"""Repeated, measured or watched in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from course_lib.chapters import ch17
from course_lib.chapters.ch17 import tiny_training
from course_lib.runtime import InputError, seed_everything
from course_lib.runtime.machine import child_environment
from course_lib.training import SWITCHES, reproducible

import numpy as np
import paddle
import pytest
import recipe_runs as runs
from paddlenlp.transformers import ErnieForQuestionAnswering

# ---- the same result every time


def test_two_processes_give_the_same_bits():
    code = "import course_lib, json; from course_lib.chapters.ch17 import tiny_training"
    command = [sys.executable, "-c", f"{code}; print(json.dumps(tiny_training(5)))"]
    environment = {**child_environment(), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    one = json.loads(done.stdout.splitlines()[-1])
    same = tiny_training(5)
    assert one == same and set(one) == {"weights", "predictions"}
    assert tiny_training(6) != one
    # a missing seed, and a forgotten eval()
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
    largest, peaks = ch17.largest_batch(model, 128, 8 * 2**30, max_size=2)
    assert largest == 2 and list(peaks) == [1, 2]
    budget = peaks[2] + 60 * ch17.MB
    largest, peaks = ch17.largest_batch(model, 128, budget)
    assert 8 <= largest < 1000 and peaks.pop(2 * largest) is None
    assert max(peaks) == largest and max(peaks.values()) <= budget
    with pytest.raises(InputError, match="cannot be trained in a child"):
        ch17.largest_batch(ErnieForQuestionAnswering(model.config), 8, 2**33, max_size=1)
