"""One training step on a batch, whole or in pieces: what other recipes build on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from course_lib.runtime import InputError
from course_lib.runtime.errors import whole
from course_lib.training.prediction import forward

import numpy as np
import paddle

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


def accumulated_step(
    model: paddle.nn.Layer,
    batch: Batch,
    parts: int,
    optimizer: paddle.optimizer.Optimizer,
    criterion: Loss | None = None,
) -> float:
    """One optimizer step on a batch that goes through the model in `parts` pieces.

    Each piece's mean loss counts by its share of the rows, so the gradients are those of the whole
    batch, but for rounding and for dropout's masks. Activations shrink with the pieces.

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
    rows = rows_of(batch)
    parts = whole("parts", parts, 1, rows)
    for chosen in np.array_split(np.arange(rows), parts):
        low, high = int(chosen[0]), int(chosen[-1]) + 1
        if isinstance(batch, Mapping):
            piece = {name: tensor[low:high] for name, tensor in batch.items()}
        else:
            piece = [tensor[low:high] for tensor in batch]
        yield piece, (high - low) / rows
