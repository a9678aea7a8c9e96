"""Training steps, one on a batch, whole or in pieces, or many: what the other modules build on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from course_lib.data.features import IGNORED
from course_lib.runtime import InputError, seed_everything
from course_lib.runtime.errors import whole
from course_lib.training import create_optimizer
from course_lib.training.prediction import forward, training_mode

import numpy as np
import paddle
from tqdm.auto import tqdm

Chosen = TypeVar("Chosen")
Batch = Sequence[paddle.Tensor] | Mapping[str, paddle.Tensor]  # as `training.fit` takes them
Loss = Callable[[paddle.Tensor, paddle.Tensor], paddle.Tensor]


def check_layer(name: str, value: object) -> None:
    if not isinstance(value, paddle.nn.Layer):
        raise InputError(name, f"is a {type(value).__name__}", "a paddle.nn.Layer")


def loss_of(model: paddle.nn.Layer, batch: Batch, criterion: Loss | None) -> paddle.Tensor:
    logits, labels = forward(model, batch)
    return (criterion or paddle.nn.functional.cross_entropy)(logits, labels)


def _tensors(batch: Batch) -> list[paddle.Tensor]:
    return list(batch.values() if isinstance(batch, Mapping) else batch)


def rows_of(batch: Batch) -> int:
    tensors = _tensors(batch)
    if not tensors or not tensors[0].shape[0]:
        raise InputError("batch", "has no rows", "at least one example")
    return tensors[0].shape[0]


def train_steps(
    model: paddle.nn.Layer,
    batches: Iterable[Chosen],
    loss_on: Callable[[Chosen], paddle.Tensor],
    steps: int,
    learning_rate: float,
    weight_decay: float = 0.01,
    seed: int = 42,
    progress: bool = False,
) -> list[float]:
    """Train on the first `steps` batches and give their losses.

    The model is then in evaluation mode; after an error or an interrupt, in the mode it was in.

    Raises:
        InputError: the loss or a weight is no longer a finite number.
    """
    optimizer, scheduler = create_optimizer(model, learning_rate, steps, weight_decay=weight_decay)
    seed_everything(seed)
    losses: list[float] = []
    model.clear_gradients()  # an interrupted training may have left some
    with training_mode(model), tqdm(total=steps, unit="step", disable=not progress) as bar:
        for batch in islice(batches, steps):
            loss = loss_on(batch)
            losses.append(float(loss))
            if not math.isfinite(losses[-1]):
                problem = f"the loss is {losses[-1]} at step {len(losses)}"
                raise InputError("learning_rate", problem, "a smaller one")
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.clear_grad()
            bar.update()
            bar.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
        if not all(bool(paddle.isfinite(weight).all()) for weight in model.parameters()):
            raise InputError("learning_rate", "the weights became infinite", "a smaller one")
    model.eval()
    return losses


def accumulated_step(
    model: paddle.nn.Layer,
    batch: Batch,
    parts: int,
    optimizer: paddle.optimizer.Optimizer,
    criterion: Loss | None = None,
) -> float:
    """One optimizer step on a batch that goes through the model in `parts` pieces.

    Each piece's mean loss counts by its share of the labels, -100 left out, so the gradients are
    those of the whole batch, but for rounding and for dropout's masks. Activations shrink with the
    pieces.

    Args:
        criterion: a mean over the rows of (logits, labels); cross entropy when None.

    Returns:
        The loss of the whole batch.

    Raises:
        InputError: more parts than rows.
    """
    loss = accumulate(model, batch, parts, criterion)
    optimizer.step()
    optimizer.clear_grad()
    return loss


def accumulate(model, batch: Batch, parts: int, criterion: Loss | None) -> float:
    total = 0.0
    for piece, share in pieces_of(batch, parts):
        loss = loss_of(model, piece, criterion) * share
        loss.backward()
        total += float(loss)
    return total


def pieces_of(batch: Batch, parts: int) -> Iterator[tuple[Batch, float]]:
    rows, labels = rows_of(batch), _counted(batch)
    parts = whole("parts", parts, 1, rows)
    for chosen in np.array_split(np.arange(rows), parts):
        low, high = int(chosen[0]), int(chosen[-1]) + 1
        if isinstance(batch, Mapping):
            piece = {name: tensor[low:high] for name, tensor in batch.items()}
        else:
            piece = [tensor[low:high] for tensor in batch]
        yield piece, _counted(piece) / max(1, labels)


def _counted(batch: Batch) -> int:
    """The labels that a mean counts: those of special tokens and padding are left out."""
    labels = batch["labels"] if isinstance(batch, Mapping) else batch[-1]
    return int((labels != IGNORED).sum())
