"""Training steps: many by a loss of your own, or one on a batch in pieces."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from ..data.features import IGNORED
from ..runtime import InputError, seed_everything
from .loop import create_optimizer
from .prediction import forward, training_mode

import numpy as np
import paddle
from tqdm.auto import tqdm

Chosen = TypeVar("Chosen")
Batch = Sequence[paddle.Tensor] | Mapping[str, paddle.Tensor]  # as `training.fit` takes them
Loss = Callable[[paddle.Tensor, paddle.Tensor], paddle.Tensor]


def train_steps(
    model: paddle.nn.Layer,
    batches: Iterable[Chosen],
    loss_on: Callable[[Chosen], paddle.Tensor],
    steps: int,
    learning_rate: float,
    seed: int = 42,
    progress: bool = False,
) -> list[float]:
    """Train on the first `steps` batches and return their losses.

    The model is then in evaluation mode; after an error or an interrupt, in the mode it was in.

    Raises:
        InputError: the loss or a weight is no longer a finite number.
    """
    optimizer, scheduler = create_optimizer(model, learning_rate, steps)
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


def accumulate(
    model: paddle.nn.Layer, batch: Batch, parts: int, criterion: Loss | None = None
) -> float:
    """Add up the gradients of a batch that goes through the model in `parts` pieces.

    Each piece's mean loss counts by its share of the labels, -100 left out, so gradients and loss
    are those of the whole batch, except for rounding and dropout's masks.

    Args:
        criterion: a mean over the rows of (logits, labels); cross entropy when None.
    """
    labels = batch["labels"] if isinstance(batch, Mapping) else batch[-1]
    counts = (labels != IGNORED).numpy().reshape([len(labels), -1]).sum(axis=1)
    total = 0.0
    for rows in np.array_split(np.arange(len(labels)), parts):
        low, high = int(rows[0]), int(rows[-1]) + 1
        if isinstance(batch, Mapping):
            logits, labels = forward(model, {name: each[low:high] for name, each in batch.items()})
        else:
            logits, labels = forward(model, [each[low:high] for each in batch])
        loss = (criterion or paddle.nn.functional.cross_entropy)(logits, labels)
        loss = loss * float(counts[low:high].sum() / max(1, counts.sum()))
        loss.backward()
        total += float(loss)
    return total
