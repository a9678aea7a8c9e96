"""The training loop: one function that fits on two screens and hides nothing."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import random
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from course_lib.data import ResumableBatchSampler
from course_lib.data.features import IGNORED
from course_lib.runtime import InputError
from course_lib.training.checkpoint import (
    Checkpoint,
    find_checkpoints,
    load_checkpoint,
    model_arrays,
    optimizer_arrays,
    remove_checkpoint,
    remove_leftovers,
    restore_optimizer,
    save_checkpoint,
)
from course_lib.training.prediction import evaluate, forward, training_mode

import numpy as np
import paddle
from paddlenlp.transformers import LinearDecayWithWarmup
from tqdm.auto import tqdm

MONITORS = ("dev_accuracy", "dev_loss")
CHANGED_DATA = "the file, its labels, the vocabulary or max_seq_length has changed"
DIGESTS = {  # of which a message cannot show the values: what it says, and what is expected
    "train_data": (f"other training data: {CHANGED_DATA}", "the data as they were"),
    "dev_data": (f"other dev data: {CHANGED_DATA}", "the data as they were"),
    "train_batches": (
        "other batches: batching, or the seed or the rank of the loader has changed",
        "the loader as it was",
    ),
}


class History(dict):
    """What happened: lists by name, ready for JSON and for plotting.

    One entry a step: "step" (from 1), "loss" (nats), "learning_rate". One entry an epoch: "epoch"
    (from 1), "epoch_step" (the step at its end), "train_loss", "train_accuracy" and, with a dev
    loader, "dev_loss", "dev_accuracy".
    """

    NAMES = (
        "step",
        "loss",
        "learning_rate",
        "epoch",
        "epoch_step",
        "train_loss",
        "train_accuracy",
        "dev_loss",
        "dev_accuracy",
    )

    def __init__(self, values: dict | None = None) -> None:
        super().__init__({name: [] for name in self.NAMES} | dict(values or {}))

    def add(self, **values: float) -> None:
        """Append one value to each of the named lists."""
        for name, value in values.items():
            self[name].append(value)


def create_optimizer(
    model: paddle.nn.Layer,
    learning_rate: float,
    num_training_steps: int,
    warmup: float = 0.1,
    weight_decay: float = 0.01,
    max_grad_norm: float = 1.0,
) -> tuple[paddle.optimizer.AdamW, LinearDecayWithWarmup]:
    """AdamW whose learning rate rises during the warm-up and then falls to 0 in a straight line.

    Biases and layer norms are not decayed: pulling them to zero gains nothing.

    Args:
        learning_rate: the peak.
        num_training_steps: steps from the first to where the learning rate is 0.
        warmup: share of the steps (a float below 1) or number of steps (an int) of the warm-up.
        weight_decay: decoupled decay of the other weights.
        max_grad_norm: the gradients are scaled down when their global norm is larger.
    """
    scheduler = LinearDecayWithWarmup(learning_rate, num_training_steps, warmup)
    decayed = {
        parameter.name
        for name, parameter in model.named_parameters()
        if not any(word in name for word in ("bias", "norm"))
    }
    optimizer = paddle.optimizer.AdamW(
        learning_rate=scheduler,
        parameters=model.parameters(),
        weight_decay=weight_decay,
        apply_decay_param_fun=lambda name: name in decayed,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(max_grad_norm),
    )
    return optimizer, scheduler


def fit(
    model: paddle.nn.Layer,
    train_loader: paddle.io.DataLoader,
    dev_loader: paddle.io.DataLoader | None = None,
    *,
    epochs: int = 1,
    learning_rate: float = 5e-5,
    warmup: float = 0.1,
    weight_decay: float = 0.01,
    max_steps: int | None = None,
    seed: int = 42,
    criterion: Callable[[paddle.Tensor, paddle.Tensor], paddle.Tensor] | None = None,
    early_stopping: int | None = None,
    monitor: str = "dev_accuracy",
    output_dir: str | os.PathLike | None = None,
    checkpoint_every: int | None = None,
    keep_checkpoints: int = 2,
    resume: bool | str | os.PathLike = False,
    log_dir: str | os.PathLike | None = None,
    progress: bool = True,
) -> History:
    """Train a classifier and evaluate it after each epoch.

    All randomness is a function of the seed and the number of the step (see `seed_step`), so a run
    that was killed and resumed gives the same bits as one that was not, dropout included, as long
    as the number of threads is the same.

    Args:
        model: gives logits of shape [batch_size, num_classes], or of tokens, [batch_size, seq_len,
            num_classes]; what is labelled -100 does not count.
        train_loader: batches of [input_ids, token_type_ids, labels].
        dev_loader: the same; without it nothing is evaluated.
        max_steps: stop after so many steps; the learning rate is 0 there.
        criterion: loss of (logits, labels); cross entropy when None.
        early_stopping: stop after so many epochs without a better `monitor`, and end with the
            weights of the best epoch. None trains to the end and keeps the last weights.
        monitor: "dev_accuracy" or "dev_loss".
        output_dir: where `checkpoint-STEP` directories go: one after each epoch, and after each
            `checkpoint_every` steps. The newest `keep_checkpoints` are kept.
        resume: True goes on from the newest checkpoint in `output_dir` (from the start when there
            is none); a path goes on from that one. Without it, a new run replaces old checkpoints.
        log_dir: where VisualDL scalars go, after a resume those of the steps before it, too.
        progress: show a bar.

    Raises:
        InputError: an argument is out of bounds; a checkpoint is damaged or was made with other
            settings or data; the loss or a weight is no longer a finite number.
    """
    _require("epochs", epochs, _is_whole(epochs, 1), "a whole number of at least 1")
    _require("keep_checkpoints", keep_checkpoints, _is_whole(keep_checkpoints, 1), "1 or more")
    for name, value in (
        ("max_steps", max_steps),
        ("early_stopping", early_stopping),
        ("checkpoint_every", checkpoint_every),
    ):
        _require(name, value, value is None or _is_whole(value, 1), "1 or more, or None")
    _require("seed", seed, _is_whole(seed, -math.inf), "a whole number")
    fits = _is_number(learning_rate) and learning_rate > 0
    _require("learning_rate", learning_rate, fits, "a number above 0")
    fits = _is_number(weight_decay) and weight_decay >= 0
    _require("weight_decay", weight_decay, fits, "a number of at least 0")
    fits = _is_whole(warmup, 0) or (_is_number(warmup) and 0 <= warmup < 1)
    _require("warmup", warmup, fits, "a share of the steps below 1, or a whole number of steps")
    _require("monitor", monitor, monitor in MONITORS, " or ".join(MONITORS))
    if early_stopping is not None and dev_loader is None:
        raise InputError("early_stopping", "needs something to watch", "a dev_loader")
    criterion = criterion or paddle.nn.CrossEntropyLoss()
    total_steps = sum(_epoch_steps(train_loader, epoch) for epoch in range(epochs))
    if max_steps is not None:
        total_steps = min(total_steps, max_steps)
    optimizer, scheduler = create_optimizer(model, learning_rate, total_steps, warmup, weight_decay)
    run = _Run(
        model,
        optimizer,
        scheduler,
        output_dir=output_dir,
        keep=keep_checkpoints,
        settings={
            "seed": seed,
            "epochs": epochs,
            "learning_rate": learning_rate,
            "warmup": warmup,
            "weight_decay": weight_decay,
            "early_stopping": early_stopping,
            "monitor": monitor,
            "train_examples": len(train_loader.dataset),
            "batch_size": getattr(train_loader.batch_sampler, "batch_size", None),
            "max_tokens": getattr(train_loader.batch_sampler, "max_tokens", None),
            "total_steps": total_steps,  # after what changes it, so that a message names the cause
            "model": _describe_model(model),
            "train_data": _describe_data(train_loader),
            "dev_data": None if dev_loader is None else _describe_data(dev_loader),
            "train_batches": _describe_batches(train_loader),
        },
    )
    if resume:
        run.restore(None if resume is True else Path(resume))
    history = run.history
    scalars = _Scalars(log_dir, history)
    bar = tqdm(total=total_steps, initial=run.step, unit="step", disable=not progress)
    model.clear_gradients()  # an interrupted training may have left some
    with training_mode(model), bar:
        while run.step < total_steps and not run.stopped:
            epoch_steps = _epoch_steps(train_loader, run.epoch)  # with a budget of tokens they vary
            for batch in _batches(train_loader, run.epoch, run.batch, seed):
                seed_step(seed, run.step)
                logits, labels = forward(model, batch)
                loss = criterion(logits, labels)
                loss.backward()
                rate = optimizer.get_lr()
                optimizer.step()
                scheduler.step()
                optimizer.clear_grad()

                value = float(loss)
                run.count(value, logits, labels)
                if not math.isfinite(value):
                    raise run.diverged(f"the loss {value}")
                history.add(step=run.step, loss=value, learning_rate=rate)
                scalars.write(run.step, {"train/loss": value, "train/learning_rate": rate})
                bar.update()
                bar.set_postfix(epoch=run.epoch + 1, loss=f"{value:.4f}", refresh=False)
                if run.step == total_steps:
                    break
                at_end = run.batch == epoch_steps
                if checkpoint_every and run.step % checkpoint_every == 0 and not at_end:
                    run.save()

            run.check_weights()
            history.add(epoch=run.epoch + 1, epoch_step=run.step, **run.epoch_means())
            if dev_loader is not None:
                scores = evaluate(model, dev_loader)
                history.add(dev_loss=scores["loss"], dev_accuracy=scores["accuracy"])
                scalars.write(run.step, {f"dev/{name}": score for name, score in scores.items()})
                if early_stopping is not None:
                    run.watch(history[monitor][-1], monitor, early_stopping)
            run.next_epoch()
            run.save()
    scalars.close()
    if run.best is not None:
        model.set_state_dict(run.best)
    return history


def seed_step(seed: int, step: int) -> None:
    """Seed Python, NumPy and paddle for one step (costs about 40 microseconds).

    A saved paddle random state holds only device, seed and offset, and dropout masks differ after
    it is loaded again. Seeding from (seed, step) makes each step's masks depend on nothing before
    it, so a run can be resumed anywhere.
    """
    digest = hashlib.blake2b(f"{seed}/{step}".encode(), digest_size=4).digest()
    number = int.from_bytes(digest, "little")
    random.seed(number)
    np.random.seed(number)
    paddle.seed(number)


def _epoch_steps(loader: paddle.io.DataLoader, epoch: int) -> int:
    sampler = loader.batch_sampler
    return sampler.count(epoch) if isinstance(sampler, ResumableBatchSampler) else len(loader)


def _batches(loader: paddle.io.DataLoader, epoch: int, start: int, seed: int) -> Iterable:
    """The batches of an epoch (from 0) from number `start` on."""
    seed_step(seed, -1 - epoch)  # for samplers that draw from NumPy's or Python's global generator
    sampler = loader.batch_sampler
    if isinstance(sampler, ResumableBatchSampler):
        sampler.set_epoch(epoch, start_batch=start)
        return loader
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)
    return itertools.islice(loader, start, None)


class _Run:
    """Where a training run stands, and how it is put away and taken up again."""

    def __init__(self, model, optimizer, scheduler, *, output_dir, keep, settings) -> None:
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.output_dir = None if output_dir is None else Path(output_dir)
        self.keep, self.settings = keep, settings
        self.step = self.epoch = self.batch = 0
        self.loss_sum, self.correct, self.examples = 0.0, 0, 0
        self.best_score, self.epochs_without_gain, self.stopped = None, 0, False
        self.best: dict[str, np.ndarray] | None = None
        self.history = History()
        self.stale: list[Path] = []
        if self.output_dir is not None:
            remove_leftovers(self.output_dir)
            self.stale = find_checkpoints(self.output_dir)

    POSITION = (
        "step",
        "epoch",
        "batch",
        "loss_sum",
        "correct",
        "examples",
        "best_score",
        "epochs_without_gain",
        "stopped",
    )

    def count(self, loss: float, logits: paddle.Tensor, labels: paddle.Tensor) -> None:
        labels = labels.reshape([-1])
        self.step += 1
        self.batch += 1
        count = int((labels != IGNORED).sum())
        self.loss_sum += loss * count
        self.correct += int((logits.argmax(axis=-1).reshape([-1]) == labels).sum())
        self.examples += count

    def epoch_means(self) -> dict[str, float]:
        return {
            "train_loss": self.loss_sum / self.examples,
            "train_accuracy": self.correct / self.examples,
        }

    def next_epoch(self) -> None:
        self.epoch, self.batch = self.epoch + 1, 0
        self.loss_sum, self.correct, self.examples = 0.0, 0, 0

    def watch(self, score: float, monitor: str, patience: int) -> None:
        sign = -1 if monitor == "dev_loss" else 1
        if self.best_score is None or sign * score > sign * self.best_score:
            self.best_score, self.epochs_without_gain = score, 0
            self.best = model_arrays(self.model)
        else:
            self.epochs_without_gain += 1
            self.stopped = self.epochs_without_gain >= patience

    def diverged(self, what: str) -> InputError:
        problem = f"{self.settings['learning_rate']:g} made {what} at step {self.step}"
        return InputError("learning_rate", problem, "a lower one")

    def check_weights(self) -> None:
        """The loss of a step says nothing about the weights that the same step leaves behind."""
        for name, parameter in self.model.named_parameters():
            if not bool(paddle.isfinite(parameter).all()):
                raise self.diverged(f"weights infinite or no numbers ({name})")

    def save(self) -> None:
        if self.output_dir is None:
            return
        self.check_weights()
        state = {
            "position": {name: getattr(self, name) for name in self.POSITION},
            "scheduler": self.scheduler.state_dict(),
            "settings": self.settings,
            "environment": _describe_environment(),
            "history": self.history,
        }
        for path in self.stale:  # an older run's, which this run now replaces
            remove_checkpoint(path)
        self.stale = []
        arrays = model_arrays(self.model), optimizer_arrays(self.optimizer, self.model)
        save_checkpoint(self.output_dir, self.step, Checkpoint(*arrays, state, self.best))
        for path in find_checkpoints(self.output_dir)[: -self.keep]:
            remove_checkpoint(path)

    def restore(self, path: Path | None) -> None:
        if path is None:
            if self.output_dir is None:
                raise InputError("resume", "has nowhere to look", "output_dir, or a checkpoint")
            if not self.stale:
                return
            path = self.stale[-1]
        self.stale = []
        checkpoint = load_checkpoint(path)
        state = checkpoint.state
        for name, value in self.settings.items():
            if state["settings"].get(name) != value:
                if name in DIGESTS:
                    problem, expected = DIGESTS[name]
                    expected += ", or training without resume"
                    raise InputError(path, f"was made with {problem}", expected)
                raise InputError(
                    path,
                    f"was made with {name} {state['settings'].get(name)}, this run has {value}",
                    "the same settings, or training without resume",
                )
        for name, value in _describe_environment().items():
            if state["environment"].get(name) != value:
                warnings.warn(
                    f"{path} was made with {name} {state['environment'].get(name)}, now it is "
                    f"{value}: the run goes on, but its figures may differ in the last digits",
                    stacklevel=3,
                )
        self.model.set_state_dict(checkpoint.model)
        restore_optimizer(self.optimizer, self.model, checkpoint.optimizer)
        self.scheduler.set_state_dict(state["scheduler"])
        for name in self.POSITION:
            setattr(self, name, state["position"][name])
        self.best = checkpoint.best
        self.history = History(state["history"])


def _describe_model(model: paddle.nn.Layer) -> str:
    shapes = [(name, list(parameter.shape)) for name, parameter in model.named_parameters()]
    return hashlib.sha256(repr(shapes).encode()).hexdigest()[:16]


def _describe_data(loader: paddle.io.DataLoader) -> str:
    """A digest of every example as the model reads it, so a change in any of them is noticed."""
    digest = hashlib.sha256()
    for index in range(len(loader.dataset)):
        _digest(digest, loader.dataset[index])
    return digest.hexdigest()[:16]


def _describe_batches(loader: paddle.io.DataLoader) -> str | None:
    """A digest of the first epoch's batches: the same data can be batched in another way."""
    sampler = loader.batch_sampler
    if not isinstance(sampler, ResumableBatchSampler):
        return None
    return hashlib.sha256(repr(sampler.batches(0)).encode()).hexdigest()[:16]


def _digest(digest, value) -> None:
    if isinstance(value, Mapping):
        value = sorted(value.items())
    if isinstance(value, (tuple, list)) and not all(isinstance(item, int) for item in value):
        digest.update(f"{len(value)}:".encode())
        for item in value:
            _digest(digest, item)
    elif isinstance(value, (np.ndarray, np.generic, paddle.Tensor)):
        array = np.asarray(value)  # whole: the repr of a long array leaves its middle out
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    else:
        digest.update(f"{value!r};".encode("utf-8", "surrogatepass"))


def _is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value, least: float) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _require(name: str, value, fits: bool, expected: str) -> None:
    if not fits:
        raise InputError(name, f"is {value!r}", expected)


def _describe_environment() -> dict[str, str]:
    """What changes the last bits of a sum although all settings are the same."""
    return {
        "paddle": paddle.__version__,
        "threads": os.environ.get("OMP_NUM_THREADS", "1"),
        "MKL_DEBUG_CPU_TYPE": os.environ.get("MKL_DEBUG_CPU_TYPE", "unset"),
        "device": paddle.get_device(),
    }


class _Scalars:
    """Figures for VisualDL, or nothing when there is no directory for them."""

    def __init__(self, log_dir: str | os.PathLike | None, history: History) -> None:
        self.writer = None
        if log_dir is not None:
            from visualdl import LogWriter  # slow to import, and needed by few

            self.writer = LogWriter(logdir=str(log_dir))
        for steps, prefix, names in (  # of before a resume: VisualDL shows the newest file only
            ("step", "train", ("loss", "learning_rate")),
            ("epoch_step", "dev", ("loss", "accuracy")),
        ):
            for name in names:
                values = history[name if prefix == "train" else f"{prefix}_{name}"]
                for step, value in zip(history[steps], values, strict=False):  # no dev, no values
                    self.write(step, {f"{prefix}/{name}": value})

    def write(self, step: int, values: dict[str, float]) -> None:
        if self.writer is not None:
            for tag, value in values.items():
                self.writer.add_scalar(tag=tag, value=value, step=step)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
