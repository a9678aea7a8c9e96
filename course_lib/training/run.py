"""Where a run of `fit` stands: how it is saved, resumed, and shown by VisualDL."""

import hashlib
import json
import math
import os
import warnings
from pathlib import Path
from typing import Any

from ..data import ResumableBatchSampler
from ..data.features import IGNORED
from ..runtime import InputError
from ..runtime.files import clear_leftovers, discard
from .checkpoint import Checkpoint, find_checkpoints, model_arrays
from .reproducibility import environment

import numpy as np
import paddle

CHANGED = "the file, its labels, the vocabulary or max_seq_length has changed"
DIGESTS = {  # what a message says in place of a digest
    "train_data": f"other training data: {CHANGED}",
    "dev_data": f"other dev data: {CHANGED}",
    "train_batches": "other batches: batching, or the seed or the rank of the loader has changed",
}
TAGS = {  # VisualDL's, with the lists of a history that hold steps and values
    "train/loss": ("step", "loss"),
    "train/learning_rate": ("step", "learning_rate"),
    "dev/loss": ("epoch_step", "dev_loss"),
    "dev/accuracy": ("epoch_step", "dev_accuracy"),
}
HISTORY = ("step", "loss", "learning_rate", "epoch", "epoch_step", "train_loss", "train_accuracy")
HISTORY += ("dev_loss", "dev_accuracy")
POSITION = ("step", "epoch", "batch", "loss_sum", "correct", "examples", "best_score")
POSITION += ("epochs_without_gain", "stopped")


class Run:
    """Counts, weights and history of a run; `with` closes what it writes for VisualDL.

    A resumed run must share the `settings`, JSON values, with the one that was saved.
    """

    def __init__(
        self, model, optimizer, scheduler, settings: dict, output_dir, keep: int, log_dir
    ) -> None:
        self.model, self.parts = model, (model, optimizer, scheduler)
        self.output_dir = None if output_dir is None else Path(output_dir)
        self.keep, self.settings = keep, settings
        self.step = self.epoch = self.batch = 0
        self.loss_sum, self.correct, self.examples = 0.0, 0, 0
        self.best_score, self.epochs_without_gain, self.stopped = None, 0, False
        self.best: dict[str, np.ndarray] | None = None
        self.history: dict[str, list] = {name: [] for name in HISTORY}
        self.log_dir = log_dir
        self.writer: Any = None
        self.stale: list[Path] = []  # checkpoints of an older run, which this one replaces
        if self.output_dir is not None:
            clear_leftovers(self.output_dir)
            self.stale = find_checkpoints(self.output_dir)

    def __enter__(self) -> "Run":
        if self.log_dir is not None:
            from visualdl import LogWriter  # slow to import

            self.writer = LogWriter(logdir=str(self.log_dir))
            self._show(0, "step", "epoch_step")  # of a resumed run: it shows the newest file only
        return self

    def __exit__(self, *error) -> None:
        if self.writer is not None:
            self.writer.close()

    def _show(self, since: int, *kinds: str) -> None:
        """Write for VisualDL what the history holds from `since` on, by step or by epoch."""
        for tag, (steps, name) in TAGS.items() if self.writer is not None else ():
            if steps in kinds:
                new = self.history[steps][since:], self.history[name][since:]
                for step, value in zip(*new, strict=False):  # without a dev loader no values
                    self.writer.add_scalar(tag=tag, value=value, step=step)

    def _note(self, **values: float) -> None:
        for name, value in values.items():
            self.history[name].append(value)

    def end_step(self, loss: float, logits: paddle.Tensor, labels: paddle.Tensor, rate: float):
        """Count a step that has updated the weights; a loss that is not finite raises."""
        labels = labels.reshape([-1])
        self.step, self.batch = self.step + 1, self.batch + 1
        count = int((labels != IGNORED).sum())
        self.loss_sum += loss * count
        self.correct += int((logits.argmax(axis=-1).reshape([-1]) == labels).sum())
        self.examples += count
        if not math.isfinite(loss):
            raise self._diverged(f"the loss {loss}")
        self._note(step=self.step, loss=loss, learning_rate=rate)
        self._show(-1, "step")

    def end_epoch(self, dev_scores: dict[str, float]) -> None:
        """Note the scores of an epoch, and begin the next one."""
        self._note(
            epoch=self.epoch + 1,
            epoch_step=self.step,
            train_loss=self.loss_sum / self.examples,
            train_accuracy=self.correct / self.examples,
            **{f"dev_{name}": score for name, score in dev_scores.items()},
        )
        self._show(-1, "epoch_step")
        self.epoch, self.batch = self.epoch + 1, 0
        self.loss_sum, self.correct, self.examples = 0.0, 0, 0

    def watch(self, monitor: str, patience: int | None) -> None:
        """Keep the best weights by the last value of `monitor`; stop when nothing gets better."""
        if patience is None:
            return
        score, sign = self.history[monitor][-1], -1 if monitor == "dev_loss" else 1
        if self.best_score is None or sign * score > sign * self.best_score:
            self.best_score, self.epochs_without_gain = score, 0
            self.best = model_arrays(self.model)
        else:
            self.epochs_without_gain += 1
            self.stopped = self.epochs_without_gain >= patience

    def load_best(self) -> None:
        """Put the weights of the best epoch into the model, where `watch` has kept them."""
        if self.best is not None:
            self.model.set_state_dict(self.best)

    def check_weights(self) -> None:
        """The loss of a step says nothing about the weights that the same step leaves behind."""
        for name, parameter in self.model.named_parameters():
            if not bool(paddle.isfinite(parameter).all()):
                raise self._diverged(f"weights infinite or NaN ({name})")

    def _diverged(self, what: str) -> InputError:
        problem = f"{self.settings['learning_rate']:g} made {what} at step {self.step}"
        return InputError("learning_rate", problem, "a lower one")

    def save(self) -> None:
        """Write a checkpoint, and remove old ones."""
        if self.output_dir is None:
            return
        self.check_weights()
        for path in self.stale:
            discard(path)
        self.stale = []
        checkpoint = Checkpoint.of(
            *self.parts,
            self.best,
            position={name: getattr(self, name) for name in POSITION},
            settings=self.settings,
            environment=environment(),
            history=self.history,
        )
        checkpoint.save(self.output_dir, self.step)
        for path in find_checkpoints(self.output_dir)[: -self.keep]:
            discard(path)

    def restore(self, resume: bool | str | os.PathLike) -> None:
        """Go on from a checkpoint; True takes the newest of `output_dir`, or starts over."""
        if not resume:
            return
        if resume is True and self.output_dir is None:
            raise InputError("resume", "has nowhere to look", "output_dir, or a checkpoint")
        path = next(reversed(self.stale), None) if resume is True else Path(resume)
        self.stale = []
        if path is None:
            return
        checkpoint = Checkpoint.load(path)
        state = checkpoint.state
        for name, value in self.settings.items():
            saved = state["settings"].get(name)
            if saved != value:
                problem = DIGESTS.get(name, f"{name} {saved}, this run has {value}")
                expected = "the same settings and data, or training without resume"
                raise InputError(path, f"was made with {problem}", expected)
        for name, value in environment().items():
            saved = state["environment"].get(name)
            if saved != value:
                problem = f"{path} was made with {name} {saved}, now it is {value}: its numbers"
                warnings.warn(f"{problem} may differ in the last digits", stacklevel=3)
        checkpoint.restore(*self.parts)
        for name in POSITION:
            setattr(self, name, state["position"][name])
        self.best = checkpoint.best
        self.history = state["history"]


def describe(model, train_loader, dev_loader) -> dict:
    """What a run trains on, so that a resume notices any change: sizes and digests."""
    sampler = train_loader.batch_sampler
    shapes = [(name, list(parameter.shape)) for name, parameter in model.named_parameters()]
    first_epoch = sampler.batches(0) if isinstance(sampler, ResumableBatchSampler) else None
    return {
        "train_examples": len(train_loader.dataset),
        "batch_size": getattr(sampler, "batch_size", None),
        "max_tokens": getattr(sampler, "max_tokens", None),
        "model": _digest([shapes]),
        "train_data": _digest(train_loader.dataset),
        "dev_data": None if dev_loader is None else _digest(dev_loader.dataset),
        "train_batches": _digest([first_epoch]),
    }


def _digest(rows) -> str:
    """A digest of every number and text in a dataset's rows, or in those of a list."""

    def plain(value) -> list:
        array = np.asarray(value)
        return [str(array.dtype), array.shape, array.tolist()]

    digest = hashlib.sha256()
    for index in range(len(rows)):
        row = json.dumps(rows[index], default=plain, sort_keys=True)
        digest.update(f"{row}\n".encode())
    return digest.hexdigest()[:16]
