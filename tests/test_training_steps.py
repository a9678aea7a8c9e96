"""Steps in pieces, frozen parts, plain files, modes: what is kept, moved and put back."""

from __future__ import annotations

from course_lib.chapters import ch17
from course_lib.models import load_backbone, save_model
from course_lib.runtime import InputError
from course_lib.training import (
    accumulated_step,
    fit,
    load_plain,
    no_grad_around,
    parameters_without,
    recomputing,
    save_plain,
    stopped_outputs,
)
from course_lib.training.checkpoint import model_arrays
from course_lib.training.steps import accumulate, loss_of, train_steps

import numpy as np
import paddle
import pytest
import recipe_runs as runs
import training_runs as task
from recipe_runs import NO_DROPOUT


@pytest.fixture(scope="module")
def batch():
    return runs.batch()


def assert_equal(model, arrays):
    assert all(np.array_equal(arrays[name], value) for name, value in model_arrays(model).items())


# ---- files


def test_plain_weights_come_back_or_nothing_changes(tmp_path):
    layer, other = paddle.nn.Linear(3, 2), paddle.nn.Linear(3, 2)
    file = save_plain(layer, tmp_path / "linear.pdparams")
    load_plain(other, file)
    assert_equal(other, model_arrays(layer))
    (tmp_path / "cut").write_bytes(file.read_bytes()[:40])
    paddle.save({"weight": layer.weight}, str(tmp_path / "lacks"))
    paddle.save({**layer.state_dict(), "more": layer.bias}, str(tmp_path / "more"))
    paddle.save(paddle.nn.Linear(4, 2).state_dict(), str(tmp_path / "shape"))
    for name, words in (
        ("none", "does not exist"),
        ("cut", "damaged"),
        ("lacks", "bias"),
        ("more", "more"),
        ("shape", r"weight is \[4, 2\] there and \[3, 2\] here"),
    ):
        with pytest.raises(InputError, match=words):
            load_plain(other, tmp_path / name)
    assert_equal(other, model_arrays(layer))


def test_plain_and_pretrained_saving_hold_the_same_weights(tmp_path):
    model = runs.build()
    save_model(model, runs.tokenizer(), tmp_path / "pretrained")
    again, _ = load_backbone(tmp_path / "pretrained")
    other = runs.build(seed=2)
    load_plain(other, save_plain(model, tmp_path / "plain.pdparams"))
    assert_equal(again, model_arrays(model))
    assert_equal(other, model_arrays(model))


# ---- freezing


@pytest.mark.parametrize("freezing", [no_grad_around, stopped_outputs])
def test_a_frozen_part_does_not_move_and_moves_again_afterwards(freezing, batch):
    model = runs.build()
    optimizer = paddle.optimizer.AdamW(1e-2, parameters=model.parameters())

    def train():
        runs.some_steps(model, batch, optimizer, 2)

    with freezing(model.ernie):
        moved = ch17.moved_weights(model, train)
    inside = moved.index.str.startswith("ernie.")
    assert (moved["moved"][inside] == 0).all()
    assert (moved["moved"][~inside] == moved["numbers"][~inside]).all()
    again = ch17.moved_weights(model, train)
    assert again["moved"][inside].astype(bool).mean() > 0.9
    assert "forward" not in vars(model.ernie) and not model.ernie._forward_post_hooks


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


# ---- memory


def test_kept_bytes_are_counted(batch):
    model, length = runs.build(), batch[0].shape[1]
    kept = ch17.kept_bytes(model, batch) / 8
    # the scores of attention alone: layers x heads x length², kept before and after the softmax
    assert kept > 2 * 2 * length * length * 4
    assert ch17.kept_bytes(model, [tensor[:4] for tensor in batch]) / 4 == pytest.approx(kept, 0.02)
    for parameter in model.ernie.parameters():
        parameter.stop_gradient = True
    assert ch17.kept_bytes(model, batch) / 8 < kept / 10


def test_pieces_give_the_step_of_the_whole_batch(batch):
    results = []
    for parts in (1, 3):
        model = runs.build(**NO_DROPOUT)
        optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        model.train()
        loss = accumulated_step(model, batch, parts, optimizer)
        results.append({"loss": loss, **model_arrays(model)})
        assert all(p.grad is None or not p.grad.abs().sum() for p in model.parameters())
    for name, value in results[0].items():
        np.testing.assert_allclose(results[1][name], value, atol=1e-6)


def test_the_price_of_memory(batch):
    model = runs.build(**NO_DROPOUT)
    before = model_arrays(model)
    table = ch17.price_of_memory(model, batch, (1, 2), rounds=2)
    assert_equal(model, before)
    memory = table["activations"]
    assert memory[2, False] == pytest.approx(memory[1, False] / 2, rel=0.1)
    assert memory[1, True] < memory[1, False] / 3
    assert table["difference"][1, False] == table["difference"][1, True] == 0
    assert 0 < table["difference"][2, False] < 1e-4 and (table["milliseconds"] > 0).all()
    assert not model.ernie.encoder.enable_recompute
    dropped = ch17.price_of_memory(runs.build(), batch, (1,), rounds=1)
    assert dropped["difference"][1, True] == 0, "recompute draws the same masks"
    with pytest.raises(InputError, match="cannot recompute"), recomputing(paddle.nn.Linear(2, 2)):
        pass


# ---- modes


def _fit(model):
    fit(model, *task.loaders(runs.tokenizer(), 20), progress=False)


def _steps(model, rate=1e-3):
    batches = [runs.batch()] * 4
    return train_steps(model, batches, lambda batch: loss_of(model, batch), 3, rate)


WAYS = {
    "fit": _fit,
    "train_steps": _steps,
    "price_of_memory": lambda model: ch17.price_of_memory(model, runs.batch(), (1,), rounds=1),
    "digests": lambda model: ch17.digests(model, runs.batch(), evaluating=False),
}


def modes(model):
    return {layer.training for layer in model.sublayers(include_self=True)}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_the_mode_is_put_back(way, training):
    """Also when the training fails or is interrupted."""
    model = runs.build()
    model.train() if training else model.eval()
    seen = []

    def interrupt(layer, inputs):
        seen.append(layer.training)
        raise KeyboardInterrupt

    hook = model.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        WAYS[way](model)
    assert seen == [True] and modes(model) == {training}
    hook.remove()
    WAYS[way](model)
    assert modes(model) == {training and way != "train_steps"}  # which documents evaluation mode


def test_steps_are_counted_and_an_infinite_loss_stops_them():
    model = runs.build()
    losses = _steps(model)
    assert len(losses) == 3 and len(set(losses)) == 3
    model.eval()
    model.classifier.bias.set_value(paddle.full_like(model.classifier.bias, np.nan))
    with pytest.raises(InputError, match="learning_rate: the loss is nan at step 1"):
        _steps(model)
    assert modes(model) == {False}


def test_a_layer_that_is_kept_in_evaluation_stays_there():
    model = runs.build()
    model.train()
    model.classifier.eval()
    for evaluating in (True, False):
        ch17.digests(model, runs.batch(), evaluating)
    assert model.training and not model.classifier.training


@pytest.mark.parametrize("way", ["fit", "train_steps"])
def test_gradients_of_an_interrupted_training_are_not_learned(way):
    results = []
    for interrupted in (False, True):
        paddle.seed(1)
        model = runs.build()
        if interrupted:
            accumulate(model, runs.batch(), 1)
        WAYS[way](model)
        results.append(model.classifier.weight.numpy())
    np.testing.assert_array_equal(*results)
