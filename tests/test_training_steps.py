"""Steps of a training, its switches, and its processes."""

import json
import os
import subprocess
import sys

from course_lib.chapters import ch17
from course_lib.chapters.ch17 import tiny_training
from course_lib.runtime import InputError, seed_everything
from course_lib.runtime.machine import child_environment
from course_lib.training import SWITCHES, fit, load_plain, reproducible, save_plain
from course_lib.training.checkpoint import model_arrays
from course_lib.training.prediction import forward
from course_lib.training.steps import accumulate, train_steps

import numpy as np
import paddle
import pytest
import recipe_runs as runs
import training_runs as task
from paddlenlp.transformers import ErnieForQuestionAnswering
from recipe_runs import NO_DROPOUT

# ---- steps in pieces, plain files, modes: what is kept, moved and put back


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


def test_pieces_give_the_gradients_of_the_whole_batch(batch):
    model, gradients = runs.build(**NO_DROPOUT), []
    for parts in (1, 3):
        loss = accumulate(model, batch, parts)
        gradients.append(
            [loss, *(p.grad.numpy() for p in model.parameters() if p.grad is not None)]
        )
        model.clear_gradients()
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.upstream
def test_upstream_switches_recomputation_on_when_it_is_told_to_switch_it_off():
    """Chapter 17 sets `enable_recompute` itself. When this fails, upstream is mended."""
    model = runs.build()
    model.recompute_disable()
    assert model.ernie.encoder.enable_recompute


# ---- modes


def _fit(model):
    fit(model, *task.loaders(runs.tokenizer(), 20), progress=False)


def _steps(model, rate=1e-3):
    batches = [runs.batch()] * 4
    loss = paddle.nn.CrossEntropyLoss()
    return train_steps(model, batches, lambda batch: loss(*forward(model, batch)), 3, rate)


WAYS = {
    "fit": _fit,
    "train_steps": _steps,
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


# ---- repeated, measured or watched in processes of their own


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
