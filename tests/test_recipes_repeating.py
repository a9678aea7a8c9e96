"""The same every time, in this process and in others; and what breaks it."""

from __future__ import annotations

import os

from course_lib import recipes
from course_lib.runtime import InputError, seed_everything

import numpy as np
import paddle
import pytest
import recipe_runs as runs


def test_two_processes_give_the_same_bits():
    function = "course_lib.recipes:tiny_training"
    one, two = recipes.repeat_in_processes(function, {"seed": 5}, environment=recipes.SWITCHES)
    assert one == two and set(one) == {"weights", "predictions"}
    assert recipes.tiny_training(6) != one


def test_what_a_missing_seed_and_a_forgotten_eval_do():
    same = recipes.tiny_training(5)
    assert recipes.tiny_training(5) == same
    unseeded = {recipes.tiny_training(None)["weights"] for _ in range(2)}
    assert len(unseeded) == 2
    forgotten = recipes.tiny_training(5, evaluating=False)
    assert forgotten["weights"] == same["weights"]
    assert forgotten["predictions"] != same["predictions"]


def test_digests_leave_the_model_in_its_mode():
    model, batch = runs.build(), runs.batch()
    for training in (True, False):
        model.train() if training else model.eval()
        for evaluating in (True, False):
            recipes.digests(model, [batch], evaluating)
            assert model.training == training


def test_the_switches_are_set_and_named(monkeypatch):
    for name in recipes.SWITCHES:
        monkeypatch.delenv(name, raising=False)
    said = recipes.reproducible(7)
    assert said["seed"] == "7" and said["device"] == "cpu"
    assert {name: os.environ[name] for name in recipes.SWITCHES} == recipes.SWITCHES
    assert {**said, **recipes.SWITCHES} == said
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
            recipes.repeat_in_processes(function, times=1)
    with pytest.raises(InputError, match="times"):
        recipes.repeat_in_processes("json:loads", times=0)
    (tmp_path / "slow_module.py").write_text("import time\n\ndef run():\n    time.sleep(600)\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    with pytest.raises(InputError, match="took over"):
        recipes.repeat_in_processes(
            "slow_module:run", times=1, environment={"PYTHONPATH": path}, timeout=0.2
        )
