"""Whoever trains a model puts its mode back, also when the training fails or is interrupted."""

from __future__ import annotations

from course_lib.runtime import InputError
from course_lib.training import digests, estimate_memory, fit, fit_high_level, price_of_memory
from course_lib.training.steps import loss_of, train_steps

import numpy as np
import paddle
import pytest
import recipe_runs as runs
import training_runs as task

WAYS = {
    "fit": lambda model, directory: fit(model, *_loaders(), progress=False),
    "fit_high_level": lambda model, directory: fit_high_level(model, *_loaders(), directory),
    "train_steps": lambda model, directory: _steps(model),
    "price_of_memory": lambda model, directory: price_of_memory(
        model, runs.batch(), (1,), rounds=1
    ),
    "estimate_memory": lambda model, directory: estimate_memory(model, runs.batch()),
    "digests": lambda model, directory: digests(model, [runs.batch()], evaluating=False),
}


def _loaders():
    return task.loaders(runs.tokenizer(), 20)


def _steps(model, rate=1e-3):
    batches = [runs.batch()] * 4
    return train_steps(model, batches, lambda batch: loss_of(model, batch, None), 3, rate)


def modes(model):
    return {layer.training for layer in model.sublayers(include_self=True)}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_the_mode_is_put_back(way, training, tmp_path):
    model = runs.build()
    model.train() if training else model.eval()
    seen = []

    def interrupt(layer, inputs):
        seen.append(layer.training)
        raise KeyboardInterrupt

    hook = model.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        WAYS[way](model, tmp_path / "interrupted")
    assert seen == [True] and modes(model) == {training}
    hook.remove()
    WAYS[way](model, tmp_path / "whole")
    assert modes(model) == {training and way != "train_steps"}  # which says that it leaves eval


def test_steps_are_those_asked_for_and_an_infinite_loss_stops_them():
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
    digests(model, [runs.batch()])
    digests(model, [runs.batch()], evaluating=False)
    assert model.training and not model.classifier.training


@pytest.mark.parametrize("way", ["fit", "train_steps"])
def test_gradients_of_an_interrupted_training_are_not_learnt(way, tmp_path):
    results = []
    for interrupted in (False, True):
        paddle.seed(1)
        model = runs.build()
        if interrupted:
            loss_of(model, runs.batch(), None).backward()
        WAYS[way](model, tmp_path / str(interrupted))
        results.append(model.classifier.weight.numpy())
    np.testing.assert_array_equal(*results)
