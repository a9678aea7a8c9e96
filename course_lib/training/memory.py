"""The memory of a training step: an estimate, two ways to need less, and their price."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from course_lib.runtime import InputError, seed_everything
from course_lib.runtime.errors import whole
from course_lib.training.prediction import training_mode
from course_lib.training.steps import Batch, Loss, accumulate, loss_of, pieces_of, rows_of

import numpy as np
import paddle
import pandas as pd
from paddlenlp.transformers import PretrainedModel

MB = 2**20


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of a training step, by what holds them.

    Attributes:
        parameters: the weights, and buffers.
        gradients: one a trained number.
        optimizer: the moments, two a trained number for Adam.
        activations: what the backward pass needs of one example of the measured length.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: float

    @property
    def fixed(self) -> int:
        """Bytes that do not depend on the batch."""
        return self.parameters + self.gradients + self.optimizer

    def total(self, batch_size: int) -> int:
        """Bytes of a step with `batch_size` examples."""
        return self.fixed + round(whole("batch_size", batch_size, 1) * self.activations)

    def largest(self, budget: int) -> int:
        """Examples that fit into `budget` bytes; 0 when not even the weights do."""
        return max(0, int((budget - self.fixed) // self.activations))


def estimate_memory(
    model: paddle.nn.Layer, batch: Batch, criterion: Loss | None = None, moments: int = 2
) -> MemoryEstimate:
    """Count what a training step must hold, from one small batch.

    Activations are the tensors that Paddle's autograd keeps between the forward and the backward
    pass, each counted once, on `batch`; they grow with its rows in proportion, and with the length
    faster than that. Not counted: the program itself (Paddle alone is some 500 MB) and what lives
    for a moment only, so a real step needs more: see `largest_batch`, which tries.

    Args:
        batch: as `training.fit` takes it, padded to the length that counts.
        moments: numbers that the optimizer keeps a trained number: 2 for Adam and AdamW, 1 for
            Momentum, 0 for SGD.

    Raises:
        InputError: nothing in the model is trained.
    """
    moments = whole("moments", moments, 0)
    parameters = list(model.parameters())
    trained = sum(_bytes(p) for p in parameters if not p.stop_gradient)
    if not trained:
        raise InputError("model", "has nothing to train", "a parameter with stop_gradient False")
    return MemoryEstimate(
        parameters=sum(_bytes(p) for p in [*parameters, *model.buffers()]),
        gradients=trained,
        optimizer=moments * trained,
        activations=_kept_bytes(model, batch, criterion) / rows_of(batch),
    )


def _kept_bytes(model: paddle.nn.Layer, batch: Batch, criterion: Loss | None) -> int:
    """Bytes that autograd keeps from the forward pass of a training step for the backward pass."""
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    kept = {}

    def keep(tensor: paddle.Tensor) -> paddle.Tensor:
        if tensor.data_ptr() not in weights:
            kept[tensor.data_ptr()] = _bytes(tensor)
        return tensor

    hooks = paddle.autograd.saved_tensors_hooks(keep, lambda tensor: tensor)
    with training_mode(model), hooks:
        loss = loss_of(model, batch, criterion)
    del loss  # alive until here, so that no address was used twice
    return sum(kept.values())


def _bytes(tensor: paddle.Tensor) -> int:
    return int(tensor.size) * tensor.element_size()


@contextlib.contextmanager
def recomputing(model: PretrainedModel) -> Iterator[None]:
    """Keep only the inputs of each encoder layer inside the block; compute the rest a second time.

    PaddleNLP's own switch (`model.recompute_enable()`), put back afterwards. The gradients are the
    same to the bit, dropout's masks included.

    Raises:
        InputError: no layer of the model has the switch.

    Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
    """
    layers = [layer for layer in model.sublayers(True) if hasattr(layer, "enable_recompute")]
    if not layers:
        raise InputError("model", f"{type(model).__name__} cannot recompute", "a PaddleNLP encoder")
    before = [layer.enable_recompute for layer in layers]
    for layer in layers:
        layer.enable_recompute = True
    try:
        yield
    finally:
        for layer, value in zip(layers, before, strict=True):
            layer.enable_recompute = value


def price_of_memory(
    model: PretrainedModel,
    batch: Batch,
    parts: Sequence[int] = (1, 2, 4),
    rounds: int = 3,
    criterion: Loss | None = None,
    seed: int = 42,
) -> pd.DataFrame:
    """What accumulation and recompute save in memory, and cost in time; no weight is changed.

    The arms take turns, and the fastest of the rounds counts. A batch in pieces draws other
    dropout masks: switch dropout off to see that the gradients are the same.

    Args:
        parts: pieces of the batch, an arm each, without and with recompute.

    Returns:
        A row an arm (index "parts", "recompute"): "activations" in MB (kept between the passes, of
        the largest piece; recompute needs one layer's more for a moment), "milliseconds" of forward
        and backward pass, "loss", and "difference" (the largest difference of a gradient from those
        of the first arm, as a share of the largest gradient).
    """
    whole("rounds", rounds, 1)
    arms = [(count, again) for again in (False, True) for count in parts]
    best, rows, first = dict.fromkeys(arms, float("inf")), {}, None
    with training_mode(model):
        for turn in range(rounds):
            for count, again in arms:
                with recomputing(model) if again else contextlib.nullcontext():
                    seed_everything(seed)
                    model.clear_gradients()
                    start = time.perf_counter()
                    loss = accumulate(model, batch, count, criterion)
                    seconds = time.perf_counter() - start
                    best[count, again] = min(best[count, again], 1000 * seconds)
                    if turn:
                        continue
                    grads = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
                    first = grads if first is None else first
                    scale = max(np.abs(grad).max() for grad in first)
                    apart = max(np.abs(a - b).max() for a, b in zip(grads, first, strict=True))
                    piece = next(pieces_of(batch, count))[0]
                    rows[count, again] = {
                        "activations": _kept_bytes(model, piece, criterion) / MB,
                        "loss": loss,
                        "difference": float(apart / scale),
                    }
    model.clear_gradients()
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame.insert(1, "milliseconds", [best[arm] for arm in rows])
    frame.index = pd.MultiIndex.from_tuples(rows, names=["parts", "recompute"])
    return frame
