"""The same every time, in this process and in others; and what breaks it."""

from __future__ import annotations

import os

from course_lib.runtime import InputError, seed_everything
from course_lib.training import SWITCHES, digests, repeat_in_processes, reproducible, tiny_training

import numpy as np
import paddle
import pytest
import recipe_runs as runs


def test_two_processes_give_the_same_bits():
    function = "course_lib.training.reproducibility:tiny_training"
    one, two = repeat_in_processes(function, {"seed": 5}, environment=SWITCHES)
    assert one == two and set(one) == {"weights", "predictions"}
    assert tiny_training(6) != one


def test_what_a_missing_seed_and_a_forgotten_eval_do():
    same = tiny_training(5)
    assert tiny_training(5) == same
    unseeded = {tiny_training(None)["weights"] for _ in range(2)}
    assert len(unseeded) == 2
    forgotten = tiny_training(5, evaluating=False)
    assert forgotten["weights"] == same["weights"]
    assert forgotten["predictions"] != same["predictions"]


def test_digests_leave_the_model_in_its_mode():
    model, batch = runs.build(), runs.batch()
    for training in (True, False):
        model.train() if training else model.eval()
        for evaluating in (True, False):
            digests(model, [batch], evaluating)
            assert model.training == training


def test_the_switches_are_set_and_named(monkeypatch):
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)
    said = reproducible(7)
    assert said["seed"] == "7" and said["device"] == "cpu"
    assert {name: os.environ[name] for name in SWITCHES} == SWITCHES
    assert {**said, **SWITCHES} == said
    first = np.random.rand(), float(paddle.rand([1]))
    seed_everything(7)
    assert first == (np.random.rand(), float(paddle.rand([1])))


def test_repeating_says_what_failed(tmp_path):
    for function, words in (
        ("json", "package.module:name"),
        ("json:nothing", "no attribute 'nothing'"),
        ("json:loads", "missing 1 required"),
    ):
        with pytest.raises(InputError, match=words):
            repeat_in_processes(function, times=1)
    with pytest.raises(InputError, match="times"):
        repeat_in_processes("json:loads", times=0)
    (tmp_path / "slow_module.py").write_text("import time\n\ndef run():\n    time.sleep(600)\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    with pytest.raises(InputError, match="took over"):
        repeat_in_processes(
            "slow_module:run", times=1, environment={"PYTHONPATH": path}, timeout=0.2
        )
