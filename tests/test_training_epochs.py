"""Every epoch: both ways evaluate and save, and end with the same bits."""

from __future__ import annotations

from course_lib.runtime import InputError
from course_lib.training import MeanLoss, find_checkpoints, fit_explicit, fit_high_level
from course_lib.training.checkpoint import model_arrays

import numpy as np
import paddle
import pytest
import recipe_runs as runs
import training_runs as task


@pytest.fixture(scope="module")
def tokenizer():
    return runs.tokenizer()


def test_both_ways_evaluate_and_save_every_epoch_and_give_the_same_bits(tmp_path, tokenizer):
    settings = {"epochs": 2, "learning_rate": 3e-3}
    results = {}
    for name, train in (("high", fit_high_level), ("loop", fit_explicit)):
        model = runs.build()
        train_loader, dev_loader = task.loaders(tokenizer, 20)
        options = {"progress": False} if name == "loop" else {}
        history = train(model, train_loader, dev_loader, tmp_path / name, **settings, **options)
        results[name] = (model_arrays(model), history)
    high, loop = results["high"][1], results["loop"][1]
    assert high["loss"] == pytest.approx(loop["loss"], abs=1e-7)
    assert high["learning_rate"] == loop["learning_rate"] and high["epoch_step"] == [3, 6]
    assert high["dev_loss"] == pytest.approx(loop["dev_loss"], abs=1e-6)
    assert high["dev_accuracy"] == pytest.approx(loop["dev_accuracy"], abs=1e-7)
    for name, value in results["loop"][0].items():
        assert np.array_equal(results["high"][0][name], value), name
    assert {p.name for p in (tmp_path / "high").iterdir()} == {
        f"{when}.{kind}" for when in ("0", "1", "final") for kind in ("pdparams", "pdopt")
    }
    assert len(find_checkpoints(tmp_path / "loop")) == 2
    first = paddle.load(str(tmp_path / "high" / "0.pdparams"))
    assert not np.array_equal(first["classifier.weight"], results["loop"][0]["classifier.weight"])
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        fit_high_level(model, train_loader, dev_loader, tmp_path / "file")


def test_the_loss_of_paddle_model_is_that_of_the_last_batch(tokenizer):
    model = runs.build()
    _, loader = task.loaders(tokenizer)
    spec = paddle.static.InputSpec
    wrapped = paddle.Model(
        model, [spec([None, None], "int64", n) for n in "ab"], [spec([None], "int64", "c")]
    )
    wrapped.prepare(loss=paddle.nn.CrossEntropyLoss(), metrics=MeanLoss())
    said = wrapped.evaluate(loader, verbose=0)
    model.eval()
    losses = [
        paddle.nn.functional.cross_entropy(model(a, b), y, reduction="none").numpy().ravel()
        for a, b, y in loader
    ]
    assert said["mean_loss"] == pytest.approx(np.concatenate(losses).mean(), abs=1e-6)
    assert said["loss"][0] == pytest.approx(losses[-1].mean(), abs=1e-6)
    assert abs(said["loss"][0] - said["mean_loss"]) > 1e-5
