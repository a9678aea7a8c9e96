"""Evaluating and saving after every epoch, with paddle.Model and with a loop."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from course_lib.runtime import InputError
from course_lib.runtime.errors import whole
from course_lib.training.loop import History, create_optimizer, fit, seed_step
from course_lib.training.prediction import training_mode

import numpy as np
import paddle
from paddlenlp.transformers import PretrainedModel


class MeanLoss(paddle.metric.Metric):
    """The mean cross entropy of all examples, for `paddle.Model.prepare(metrics=...)`.

    What `paddle.Model` calls the loss of an evaluation is that of its last batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def reset(self) -> None:
        self.total, self.count = 0.0, 0

    def compute(self, logits: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
        return paddle.nn.functional.cross_entropy(logits, labels, reduction="none")

    def update(self, losses: np.ndarray) -> float:
        self.total += float(np.sum(losses, dtype="float64"))
        self.count += int(np.size(losses))
        return self.accumulate()

    def accumulate(self) -> float:
        return self.total / max(self.count, 1)

    def name(self) -> str:
        return "mean_loss"


def fit_high_level(
    model: PretrainedModel,
    train_loader: paddle.io.DataLoader,
    dev_loader: paddle.io.DataLoader,
    directory: str | os.PathLike,
    *,
    epochs: int = 1,
    learning_rate: float = 5e-5,
    warmup: float = 0.1,
    weight_decay: float = 0.01,
    seed: int = 42,
) -> History:
    """`paddle.Model.fit` with an evaluation and a file of weights after every epoch.

    With the same arguments it ends with the same bits as `training.fit`: what the explicit loop
    does in its lines, a callback does here (the order of the batches, the seed of each step). Into
    `directory` go EPOCH.pdparams and EPOCH.pdopt, from 0, and final.pdparams and final.pdopt.

    Args:
        train_loader, dev_loader: batches of [input_ids, token_type_ids, labels].

    Returns:
        As of `training.fit`: a list entry a step ("loss", "learning_rate"), and one an epoch, here
        "epoch", "epoch_step", "dev_loss" (of all examples) and "dev_accuracy".

    Raises:
        InputError: a number out of bounds; the directory is a file.

    Source: FAQ Q3.5, first way. The second way is `training.fit(..., output_dir=...)`.
    """
    whole("epochs", epochs, 1)
    directory = Path(directory)
    if directory.is_file():
        raise InputError(directory, "is a file", "the name of a directory to write")
    steps = epochs * len(train_loader)
    optimizer, _ = create_optimizer(model, learning_rate, steps, warmup, weight_decay)
    spec = paddle.static.InputSpec
    wrapped = paddle.Model(
        model,
        inputs=[spec([None, None], "int64", n) for n in ("input_ids", "token_type_ids")],
        labels=[spec([None], "int64", "labels")],
    )
    metrics = [paddle.metric.Accuracy(), MeanLoss()]
    wrapped.prepare(optimizer, paddle.nn.CrossEntropyLoss(), metrics)
    follow = _Follow(optimizer, train_loader, seed)
    with (
        training_mode(model),
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),  # it names files
    ):
        wrapped.fit(
            train_loader,
            dev_loader,
            epochs=epochs,
            eval_freq=1,
            save_freq=1,
            save_dir=str(directory),
            callbacks=[follow],
            verbose=0,
        )
    return follow.history


class _Follow(paddle.callbacks.Callback):
    """Make a run of paddle.Model the same as one of `training.fit`, and write down what happens."""

    def __init__(self, optimizer, loader: paddle.io.DataLoader, seed: int) -> None:
        super().__init__()
        self.optimizer, self.loader, self.seed = optimizer, loader, seed
        self.history, self.step = History(), 0

    def on_epoch_begin(self, epoch=None, logs=None) -> None:
        self.epoch = epoch
        seed_step(self.seed, -1 - epoch)
        if hasattr(self.loader.batch_sampler, "set_epoch"):  # else every epoch has one order
            self.loader.batch_sampler.set_epoch(epoch)

    def on_train_batch_begin(self, step, logs=None) -> None:
        seed_step(self.seed, self.step)
        self.rate = self.optimizer.get_lr()

    def on_train_batch_end(self, step, logs=None) -> None:
        self.step += 1
        loss = float(np.ravel(logs["loss"])[0])
        self.history.add(step=self.step, loss=loss, learning_rate=self.rate)

    def on_eval_end(self, logs=None) -> None:
        scores = {"dev_loss": logs["mean_loss"], "dev_accuracy": float(np.ravel(logs["acc"])[0])}
        self.history.add(epoch=self.epoch + 1, epoch_step=self.step, **scores)


def fit_explicit(
    model: paddle.nn.Layer,
    train_loader: paddle.io.DataLoader,
    dev_loader: paddle.io.DataLoader,
    directory: str | os.PathLike,
    *,
    epochs: int = 1,
    **settings,
) -> History:
    """The explicit loop with an evaluation and a checkpoint after every epoch, all of them kept.

    Args:
        settings: others of `training.fit`.

    Source: FAQ Q3.5, second way.
    """
    return fit(
        model,
        train_loader,
        dev_loader,
        epochs=epochs,
        output_dir=directory,
        keep_checkpoints=epochs,
        **settings,
    )
