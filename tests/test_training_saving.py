"""Saving and loading: everything comes back, or nothing changes."""

from __future__ import annotations

from course_lib.models import load_backbone, save_model
from course_lib.runtime import InputError
from course_lib.training import load_plain, load_state, save_plain, save_state
from course_lib.training.checkpoint import model_arrays
from course_lib.training.loop import create_optimizer

import numpy as np
import paddle
import pytest
import recipe_runs as runs


def test_plain_weights_come_back_or_nothing_changes(tmp_path):
    layer, other = paddle.nn.Linear(3, 2), paddle.nn.Linear(3, 2)
    file = save_plain(layer, tmp_path / "linear.pdparams")
    load_plain(other, file)
    assert np.array_equal(other.weight, layer.weight)
    before = model_arrays(other)
    (tmp_path / "cut").write_bytes(file.read_bytes()[:40])
    paddle.save({"weight": layer.weight}, str(tmp_path / "lacks"))
    paddle.save({**layer.state_dict(), "more": layer.bias}, str(tmp_path / "more"))
    paddle.save(paddle.nn.Linear(4, 2).state_dict(), str(tmp_path / "shape"))
    for name, words in (
        ("none", "does not exist"),
        ("cut", "damaged"),
        ("lacks", "bias is absent there"),
        ("more", r"more is \[2\] there and absent here"),
        ("shape", r"weight is \[4, 2\] there and \[3, 2\] here"),
    ):
        with pytest.raises(InputError, match=words):
            load_plain(other, tmp_path / name)
    assert all(np.array_equal(before[n], v) for n, v in model_arrays(other).items())
    with pytest.raises(InputError, match="Layer"):
        save_plain({"weight": 1}, tmp_path / "x")


def test_plain_and_pretrained_saving_hold_the_same_weights(tmp_path):
    model = runs.build()
    save_model(model, runs.tokenizer(), tmp_path / "pretrained")
    again, _ = load_backbone(tmp_path / "pretrained")
    other = runs.build(seed=2)
    load_plain(other, save_plain(model, tmp_path / "plain.pdparams"))
    for name, value in model_arrays(model).items():
        assert np.array_equal(model_arrays(again)[name], value)
        assert np.array_equal(model_arrays(other)[name], value)


def test_a_warm_restart_goes_on_to_the_same_bits(tmp_path):
    batch = runs.batch()

    def pieces(seed=1):
        model = runs.build(seed=seed)
        return (model, *create_optimizer(model, 1e-2, 6))

    unbroken, optimizer, schedule = pieces()
    runs.some_steps(unbroken, batch, optimizer, 3, schedule)
    save_state(tmp_path / "state", unbroken, optimizer, schedule, 3)
    rate = optimizer.get_lr()
    runs.some_steps(unbroken, batch, optimizer, 3, schedule, first=3)
    paddle.nn.Linear(2, 2)  # shifts the generated names of what is built next
    model, optimizer, schedule = pieces(seed=2)
    step = load_state(tmp_path / "state", model, optimizer, schedule)
    assert step == 3 and optimizer.get_lr() == rate > 0
    runs.some_steps(model, batch, optimizer, 3, schedule, first=step)
    after = model_arrays(model)
    assert all(np.array_equal(after[n], v) for n, v in model_arrays(unbroken).items())
    other = runs.build(num_hidden_layers=1)
    with pytest.raises(InputError, match="there and absent here"):
        load_state(tmp_path / "state", other, *create_optimizer(other, 1e-2, 6))
    (tmp_path / "state" / "schedule.pdlr").unlink()
    with pytest.raises(InputError, match=r"lacks schedule\.pdlr"):
        load_state(tmp_path / "state", model, optimizer, schedule)
    with pytest.raises(InputError, match="step"):
        save_state(tmp_path / "state", model, optimizer, schedule, -1)


def test_somebodys_own_directory_is_not_replaced_by_a_state(tmp_path):
    model = paddle.nn.Linear(2, 2)
    pieces = model, *create_optimizer(model, 1e-2, 6)
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis.txt").write_text("years")
    with pytest.raises(InputError, match=r"own: holds files, but no step\.json"):
        save_state(own, *pieces, 3)
    assert [file.name for file in tmp_path.rglob("*")] == ["own", "thesis.txt"]
    for step in (1, 2):
        save_state(tmp_path / "new", *pieces, step)
    assert load_state(tmp_path / "new", *pieces) == 2
