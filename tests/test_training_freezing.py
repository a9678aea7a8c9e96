"""Freezing: what is frozen does not move, and what is not does."""

from __future__ import annotations

from course_lib.runtime import InputError
from course_lib.training import (
    compare_freezing,
    moved_weights,
    no_grad_around,
    parameters_without,
    stopped_outputs,
)

import paddle
import pytest
import recipe_runs as runs


@pytest.fixture(scope="module")
def batch():
    return runs.batch()


@pytest.mark.parametrize("freezing", [no_grad_around, stopped_outputs])
def test_a_frozen_part_does_not_move_and_moves_again_afterwards(freezing, batch):
    model = runs.build()
    optimizer = paddle.optimizer.AdamW(1e-2, parameters=model.parameters())

    def train():
        runs.some_steps(model, batch, optimizer, 2)

    with freezing(model.ernie):
        moved = moved_weights(model, train)
    inside = moved.index.str.startswith("ernie.")
    assert (moved["moved"][inside] == 0).all() and (moved["largest"][inside] == 0).all()
    assert (moved["moved"][~inside] == moved["numbers"][~inside]).all()
    again = moved_weights(model, train)
    assert again["moved"][inside].astype(bool).mean() > 0.9
    assert "forward" not in vars(model.ernie) and not model.ernie._forward_post_hooks


def test_the_hook_of_the_documents_fails_on_a_tuple(batch):
    model = runs.build()

    def hook(layer, inputs, output):
        output.stop_gradient = True

    model.ernie.register_forward_post_hook(hook)
    with pytest.raises(AttributeError, match="tuple"):
        model(*batch[:2])


def test_an_optimizer_without_some_leaves_gradients_behind(batch):
    model = runs.build()
    kept = parameters_without(model, lambda name: name.startswith("ernie."))
    assert {id(p) for p in kept} == {id(p) for p in model.classifier.parameters()}
    optimizer = paddle.optimizer.SGD(0.0, parameters=kept)
    left = []
    for _ in range(2):
        runs.some_steps(model, batch, optimizer)
        left.append(float(model.ernie.pooler.dense.weight.grad.abs().sum()))
    assert left[1] > left[0] > 0
    for nothing in (True, False):
        with pytest.raises(InputError, match="leaves out"):
            parameters_without(model, lambda name, nothing=nothing: nothing)


def test_the_three_ways_side_by_side(batch):
    table = compare_freezing(runs.build, batch, 1e-2)
    assert table.loc["nothing frozen", "encoder moved"] > 0.9
    assert (table["head moved"] == 1).all()
    assert (table["encoder moved"][1:] == 0).all()
    assert list(table["gradients"] > 0) == [True, False, False, True]
    with pytest.raises(InputError, match="has no head"):
        compare_freezing(lambda: paddle.nn.Linear(2, 2), batch)


def test_what_is_frozen_must_be_a_layer_and_frozen_once():
    model = runs.build()
    for freezing in (no_grad_around, stopped_outputs):
        with pytest.raises(InputError, match=r"paddle\.nn\.Layer"), freezing("ernie"):
            pass
    with (
        no_grad_around(model.ernie),
        pytest.raises(InputError, match="one way"),
        no_grad_around(model.ernie),
    ):
        pass
