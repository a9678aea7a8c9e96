"""A trained model at work: on a labeled loader, and on plain texts."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence

from ..data.features import IGNORED
from ..runtime import InputError
from ..runtime.visible import is_blank

import numpy as np
import paddle
import paddle.nn.functional as F

LABELS = ("labels", "start_positions", "end_positions")  # the columns of a batch that hold labels
NO_NUMBERS = "finite weights: train again with a lower learning_rate, or take another checkpoint"


def forward(model: paddle.nn.Layer, batch) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Logits [batch_size, num_classes] and labels [batch_size] of one batch of a loader.

    Start and end of an answer are two choices among the tokens: logits [batch_size, 2, seq_len] and
    labels [batch_size, 2].

    Args:
        batch: [input_ids, token_type_ids, labels], or a dict with a key "labels" or the two of
            positions; ids have shape [batch_size, seq_len].
    """
    if isinstance(batch, Mapping):
        outputs = model(**{name: value for name, value in batch.items() if name not in LABELS})
        labels = [batch[name] for name in LABELS if name in batch]
        if len(labels) == 1:
            return outputs, labels[0]
        return paddle.stack(outputs, axis=1), paddle.stack(labels, axis=1)
    *inputs, labels = batch
    return model(*inputs), labels


@contextlib.contextmanager
def inference_mode(model: paddle.nn.Layer) -> Iterator[None]:
    """No dropout and no gradients inside the block; each layer's mode is put back afterwards."""
    with training_mode(model, False), paddle.no_grad():
        yield


@contextlib.contextmanager
def training_mode(model: paddle.nn.Layer, training: bool = True) -> Iterator[None]:
    """Dropout inside the block; each layer's mode is put back afterwards, also after an error."""
    modes = [(layer, layer.training) for layer in model.sublayers(include_self=True)]
    (model.train if training else model.eval)()
    try:
        yield
    finally:
        (model.train if modes[0][1] else model.eval)()
        for layer, before in modes:
            layer.training = before


def check_scores(scores: paddle.Tensor | np.ndarray) -> None:
    """Refuse scores that are not finite: argmax takes NaN for the best one."""
    if not bool(np.isfinite(np.asarray(scores)).all()):
        raise InputError("model", "its scores are infinite or no numbers", NO_NUMBERS)


def cross_entropy(logits, labels) -> paddle.Tensor:
    """The mean loss of logits and labels, of a pair of each (start and end) the mean of both.

    Labels that are floats [batch_size, labels], zeros and ones, are choices of their own.
    """
    if not isinstance(logits, (tuple, list)):
        if labels.dtype == logits.dtype:
            return F.binary_cross_entropy_with_logits(logits, labels)
        return F.cross_entropy(logits, labels)
    losses = [F.cross_entropy(one, label) for one, label in zip(logits, labels, strict=True)]
    return sum(losses) / len(losses)


def evaluate(model: paddle.nn.Layer, loader: paddle.io.DataLoader) -> dict[str, float]:
    """Loss and accuracy over a loader, each example counting the same, also in a short last batch.

    Labels may be those of tokens, [N, L]; where they are -100 nothing is counted.

    Returns:
        {"loss": mean cross entropy in nats, "accuracy": share of right predictions}.

    Raises:
        InputError: the loader is empty, or the loss is not a finite number.
    """
    loss_sum, correct, count = 0.0, 0, 0
    with inference_mode(model):
        for batch in loader:
            logits, labels = forward(model, batch)
            labels = labels.reshape([-1])
            logits = logits.reshape([-1, logits.shape[-1]])
            loss_sum += float(F.cross_entropy(logits, labels, reduction="sum"))
            correct += int((logits.argmax(axis=-1) == labels).sum())
            count += int((labels != IGNORED).sum())
    if count == 0:
        raise InputError("evaluate", "the loader has no examples", "at least one")
    if not math.isfinite(loss_sum):
        raise InputError("model", f"its loss is {loss_sum}", NO_NUMBERS)
    return {"loss": loss_sum / count, "accuracy": correct / count}


def check_texts(texts: Sequence[str], name: str = "texts") -> None:
    """Refuse what is not a list of texts with something in each; a model answers blanks as well."""
    if isinstance(texts, (str, bytes)):
        raise InputError(name, "is one text", "a list of texts")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str) or is_blank(text):
            raise InputError(name, f"text {number} is empty or not a string", "a non-empty text")
