"""Memory: the estimate is counted, and both ways to need less give the same gradients."""

from __future__ import annotations

from course_lib.runtime import InputError
from course_lib.training import accumulated_step, estimate_memory, price_of_memory, recomputing
from course_lib.training.checkpoint import model_arrays

import numpy as np
import paddle
import pytest
import recipe_runs as runs
from recipe_runs import NO_DROPOUT


@pytest.fixture(scope="module")
def batch():
    return runs.batch()


def test_memory_is_counted(batch):
    model = runs.build()
    numbers = sum(p.size for p in model.parameters())
    estimate = estimate_memory(model, batch)
    assert estimate.parameters == estimate.gradients == 4 * numbers
    assert estimate.optimizer == 8 * numbers
    # the scores of attention alone: layers x heads x length², kept before and after the softmax
    length = batch[0].shape[1]
    assert estimate.activations > 2 * 2 * length * length * 4
    assert estimate.total(8) - estimate.total(4) == pytest.approx(4 * estimate.activations, abs=1)
    assert estimate.largest(estimate.total(10) + 1) == 10 and estimate.largest(5) == 0
    half = [tensor[:4] for tensor in batch]
    assert estimate_memory(model, half).activations == pytest.approx(estimate.activations, rel=0.02)
    for parameter in model.ernie.parameters():
        parameter.stop_gradient = True
    frozen = estimate_memory(model, batch, moments=0)
    assert frozen.optimizer == 0 and frozen.gradients < estimate.gradients / 50
    assert frozen.activations < estimate.activations / 10
    for parameter in model.parameters():
        parameter.stop_gradient = True
    with pytest.raises(InputError, match="nothing to train"):
        estimate_memory(model, batch)
    with pytest.raises(InputError, match="batch_size"):
        estimate.total(0)


def test_pieces_give_the_step_of_the_whole_batch(batch):
    weights = []
    for parts in (1, 3):
        model = runs.build(**NO_DROPOUT)
        optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        model.train()
        loss = accumulated_step(model, batch, parts, optimizer)
        weights.append((loss, model_arrays(model)))
        assert all(p.grad is None or not p.grad.abs().sum() for p in model.parameters())
    assert weights[0][0] == pytest.approx(weights[1][0], abs=1e-6)
    for name, value in weights[0][1].items():
        np.testing.assert_allclose(weights[1][1][name], value, atol=1e-6)
    for parts in (0, 9):
        with pytest.raises(InputError, match="from 1 to 8"):
            accumulated_step(model, batch, parts, optimizer)


def test_the_price_of_memory(batch):
    model = runs.build(**NO_DROPOUT)
    before = model_arrays(model)
    table = price_of_memory(model, batch, (1, 2), rounds=1)
    assert all(np.array_equal(before[n], v) for n, v in model_arrays(model).items())
    memory = table["activations"]
    assert memory[2, False] == pytest.approx(memory[1, False] / 2, rel=0.1)
    assert memory[1, True] < memory[1, False] / 3
    assert table["difference"][1, False] == table["difference"][1, True] == 0
    assert 0 < table["difference"][2, False] < 1e-4 and (table["milliseconds"] > 0).all()
    assert not model.ernie.encoder.enable_recompute
    dropped = price_of_memory(runs.build(), batch, (1,), rounds=1)
    assert dropped["difference"][1, True] == 0, "recompute draws the same masks"
    with (
        pytest.raises(InputError, match="cannot recompute"),
        recomputing(paddle.nn.Linear(2, 2)),
    ):
        pass
