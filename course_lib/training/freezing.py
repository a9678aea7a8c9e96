"""Freezing a part of a model in three ways, and proving that it stays as it was."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from course_lib.runtime import InputError
from course_lib.runtime.errors import whole
from course_lib.training.checkpoint import model_arrays
from course_lib.training.steps import Batch, Loss, check_layer, loss_of

import numpy as np
import paddle
import pandas as pd


@contextlib.contextmanager
def no_grad_around(part: paddle.nn.Layer) -> Iterator[None]:
    """Run `part` without recording gradients inside the block: the fastest way to freeze it.

    Nothing below the part's outputs learns, and what its backward pass would need is not kept.
    Dropout stays on while the model trains: `part.eval()` turns it off, after `model.train()`.

    Args:
        part: a layer of the model, such as `model.ernie`.

    Raises:
        InputError: `part` is no layer, or its forward has been replaced already.

    Source: FAQ Q3.4, first way, without a change in PaddleNLP's code.
    """
    check_layer("part", part)
    if "forward" in vars(part):
        raise InputError(
            "part", "has a forward of its own already", "one way of freezing at a time"
        )
    part.forward = paddle.no_grad()(part.forward)
    try:
        yield
    finally:
        del part.forward  # the class's forward shows again


@contextlib.contextmanager
def stopped_outputs(part: paddle.nn.Layer) -> Iterator[None]:
    """Stop gradients at the outputs of `part`, by a forward post hook, inside the block.

    The FAQ's hook sets `output.stop_gradient`; ERNIE's encoder returns a tuple, for which that
    raises AttributeError. This one walks through tuples, lists and dictionaries.

    Raises:
        InputError: `part` is no layer.

    Source: FAQ Q3.4, second way.
    """
    check_layer("part", part)

    def stop(layer, inputs, outputs) -> None:
        for tensor in paddle.utils.flatten(outputs):
            if isinstance(tensor, paddle.Tensor):
                tensor.stop_gradient = True

    hook = part.register_forward_post_hook(stop)
    try:
        yield
    finally:
        hook.remove()


def parameters_without(
    model: paddle.nn.Layer, frozen: Callable[[str], bool]
) -> list[paddle.Tensor]:
    """The parameters for an optimizer that leaves some alone.

    The FAQ filters by `p.name` ("linear_7.w_0"), which depends on what else the process has built.
    Here `frozen` gets the structured name ("ernie.pooler.dense.weight"). Gradients are computed for
    all: this way saves the moments' memory and no time. And `optimizer.clear_grad()` clears only
    its own: call `model.clear_gradients()`, or the others' gradients add up.

    Args:
        frozen: says of a structured name whether that parameter is left out.

    Raises:
        InputError: none is left out, or all are.

    Source: FAQ Q3.4, third way.
    """
    named = list(model.named_parameters())
    kept = [parameter for name, parameter in named if not frozen(name)]
    if not kept or len(kept) == len(named):
        problem = f"leaves out {len(named) - len(kept)} of {len(named)} parameters"
        raise InputError("frozen", problem, f"some of them; the first is {named[0][0]}")
    return kept


def moved_weights(model: paddle.nn.Layer, train: Callable[[], object]) -> pd.DataFrame:
    """Call `train` and compare every weight with what it was before.

    Returns:
        One row a weight or buffer, by structured name: "numbers" (how many it holds), "moved" (how
        many of them differ in any bit) and "largest" (the largest change; not a number where
        training made one).
    """
    before = model_arrays(model)
    train()
    rows = []
    for name, after in model_arrays(model).items():
        change = np.abs(after.astype("float64") - before[name].astype("float64"))
        moved = int((after != before[name]).sum())
        rows.append((name, after.size, moved, float(change.max(initial=0.0))))
    return pd.DataFrame(rows, columns=["name", "numbers", "moved", "largest"]).set_index("name")


def compare_freezing(
    build: Callable[[], paddle.nn.Layer],
    batch: Batch,
    learning_rate: float = 1e-3,
    steps: int = 2,
    criterion: Loss | None = None,
) -> pd.DataFrame:
    """Freeze the encoder of a fresh model in each of the three ways, train, and say what moved.

    Args:
        build: makes a PaddleNLP model with a head; called for each way, so the same weights each
            time when it seeds.
        batch: one batch of a loader, read in every step.

    Returns:
        A row a way ("nothing frozen", "no_grad", "hook", "optimizer"): "encoder moved" and
        "head moved" (share of the weights' tensors), "gradients" (tensors of the encoder that had a
        gradient after the last step) and "milliseconds" of the fastest step.
    """
    whole("steps", steps, 1)
    ways: dict[str, Any] = {
        "nothing frozen": contextlib.nullcontext,
        "no_grad": no_grad_around,
        "hook": stopped_outputs,
        "optimizer": contextlib.nullcontext,
    }
    rows = {}
    for name, freezing in ways.items():
        model = build()
        encoder, prefix = _encoder(model)
        parameters = model.parameters()
        if name == "optimizer":
            parameters = parameters_without(model, lambda one: one.startswith(prefix))  # noqa: B023
        optimizer = paddle.optimizer.AdamW(learning_rate, parameters=parameters)
        times: list[float] = []
        model.train()

        def train(model=model, optimizer=optimizer, times=times) -> None:
            for _ in range(steps):
                model.clear_gradients()
                start = time.perf_counter()
                loss_of(model, batch, criterion).backward()
                optimizer.step()
                times.append(1000 * (time.perf_counter() - start))

        with freezing(encoder):
            moved = moved_weights(model, train)["moved"] > 0
        inside = moved.index.str.startswith(prefix)
        rows[name] = {
            "encoder moved": float(moved[inside].mean()),
            "head moved": float(moved[~inside].mean()),
            "gradients": sum(p.grad is not None for p in encoder.parameters()),
            "milliseconds": min(times),
        }
    return pd.DataFrame(rows).T.astype({"gradients": int})


def _encoder(model: paddle.nn.Layer) -> tuple[paddle.nn.Layer, str]:
    prefix = getattr(model, "base_model_prefix", "")
    encoder = getattr(model, prefix, None) if prefix else None
    if not isinstance(encoder, paddle.nn.Layer):
        raise InputError(
            "model", f"{type(model).__name__} has no head", "a PaddleNLP model with one"
        )
    return encoder, f"{prefix}."
