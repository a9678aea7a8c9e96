"""Freezing a part of a model in three ways."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import paddle


@contextlib.contextmanager
def no_grad_around(part: paddle.nn.Layer) -> Iterator[None]:
    """Run `part` without recording gradients inside the block: the fastest way to freeze it.

    Nothing below the part's outputs learns, and what its backward pass would need is not kept.
    Dropout stays on while the model trains: `part.eval()` turns it off, after `model.train()`.

    Args:
        part: a layer of the model, such as `model.ernie`.
    """
    part.forward = paddle.no_grad()(part.forward)
    try:
        yield
    finally:
        del part.forward  # the class's forward shows again


@contextlib.contextmanager
def stopped_outputs(part: paddle.nn.Layer) -> Iterator[None]:
    """Stop gradients at the outputs of `part`, by a forward post hook, inside the block.

    ERNIE's encoder returns a tuple, on which `output.stop_gradient = True` raises AttributeError.
    This hook walks through tuples, lists and dictionaries.
    """

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

    Gradients are computed for all: this saves the moments' memory and no time. And
    `optimizer.clear_grad()` clears only its own: call `model.clear_gradients()`, or the gradients
    of the others add up.

    Args:
        frozen: whether the parameter of a structured name ("ernie.pooler.dense.weight") is left
            out. Generated names (`parameter.name`, "linear_7.w_0") depend on what else was built.
    """
    return [parameter for name, parameter in model.named_parameters() if not frozen(name)]
