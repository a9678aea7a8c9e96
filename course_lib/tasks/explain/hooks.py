"""Looking inside a model: hidden states, attention, parameters, its graph."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from course_lib.models import encoder_of
from course_lib.runtime import InputError
from course_lib.training.prediction import inference_mode

import numpy as np
import paddle
import paddle.nn.functional as F


@contextlib.contextmanager
def recorded(layers: Mapping[str, paddle.nn.Layer]) -> Iterator[dict[str, list[paddle.Tensor]]]:
    """Keep the outputs of layers while the block lasts, by forward post hooks.

    Args:
        layers: the layers to listen to, by any name.

    Yields:
        A dictionary that fills as the model runs: for each name a list with one entry per call. Of
        a layer with several outputs the first is kept. Gradients still flow through them.

    Source: FAQ Q3.8.
    """
    outputs: dict[str, list[paddle.Tensor]] = {name: [] for name in layers}

    def listen(name: str) -> Callable:
        def hook(layer, inputs, output) -> None:
            outputs[name].append(paddle.utils.flatten(output)[0])

        return hook

    hooks = [layer.register_forward_post_hook(listen(name)) for name, layer in layers.items()]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


def _named_layers(model: paddle.nn.Layer) -> dict[str, paddle.nn.Layer]:
    """The embeddings and each layer of a BERT-like encoder, by name, for `recorded`."""
    encoder = encoder_of(model)
    layers = {f"layer {i}": one for i, one in enumerate(encoder.encoder.layers, start=1)}
    return {"embeddings": encoder.embeddings, **layers}


def hidden_states(model: paddle.nn.Layer, *inputs: paddle.Tensor) -> dict[str, np.ndarray]:
    """Run a model without dropout and return the states after its embeddings and each layer.

    Since PaddleNLP 2.5 most models return the same with `output_hidden_states=True`; hooks work
    for every model, also for a pruned one or your own.

    Args:
        inputs: of the model, usually input_ids and token_type_ids [batch, length].

    Returns:
        float32 arrays [batch, length, hidden] by name: "embeddings", "layer 1", ...
    """
    with inference_mode(model), recorded(_named_layers(model)) as outputs:
        model(*inputs)
    return {name: calls[0].numpy() for name, calls in outputs.items()}


def attention_maps(model: paddle.nn.Layer, *inputs: paddle.Tensor) -> np.ndarray:
    """How much each token attends to each other token, in every layer and head, without dropout.

    Recomputed by hooks from the inputs of each attention layer: softmax(q k' / √d + mask).
    Multiplied by the values and projected, this must be the layer's output, or an error says so.
    PaddleNLP returns the same with `output_attentions=True`; setting `need_weights` by hand has no
    effect there, because every encoder layer resets it.

    Returns:
        float32 of shape [layers, batch, heads, length, length]; each last row sums to 1.

    Raises:
        InputError: recomputing gives another output: the model's attention is of another kind.
    """
    attentions: list[Any] = [layer.self_attn for layer in encoder_of(model).encoder.layers]
    maps: list[np.ndarray] = []

    def compute(layer: paddle.nn.MultiHeadAttention, inputs, output) -> None:
        query, mask = inputs[0], inputs[3] if len(inputs) > 3 else None
        query, key, value = layer._prepare_qkv(query, query, query)  # [N, heads, L, head_dim]
        scores = paddle.matmul(query * layer.head_dim**-0.5, key, transpose_y=True)
        weights = F.softmax(scores if mask is None else scores + mask)
        mixed = paddle.matmul(weights, value).transpose([0, 2, 1, 3]).flatten(2)
        expected = paddle.utils.flatten(output)[0]
        apart = float((layer.out_proj(mixed) - expected).abs().max())
        if apart > 1e-4 * max(1.0, float(expected.abs().max())):
            problem = f"computed again, the output of layer {len(maps) + 1} is {apart:.1e} away"
            raise InputError(type(model).__name__, problem, "plain scaled dot-product attention")
        maps.append(weights.numpy())

    hooks = [attention.register_forward_post_hook(compute) for attention in attentions]
    try:
        with inference_mode(model):
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return np.stack(maps)


def set_parameter(model: paddle.nn.Layer, name: str, value: np.ndarray | paddle.Tensor) -> None:
    """Overwrite a parameter or a buffer in place, so that optimizers still know it.

    Paddle's `set_value` accepts NaN in silence.

    Args:
        name: the structured name, as in `model.state_dict()`.
        value: of the same shape; it is converted to the parameter's type.

    Raises:
        InputError: no such name, another shape, or a value that is not finite.

    Source: FAQ Q5.2.
    """
    state = model.state_dict()
    if name not in state:
        expected = f"one such as {', '.join(list(state)[:3])}"
        raise InputError("name", f"{name!r} is no parameter", expected)
    array = np.asarray(value)
    if list(array.shape) != list(state[name].shape):
        problem = f"has shape {list(array.shape)}"
        raise InputError("value", problem, f"{list(state[name].shape)}, that of {name}")
    if not np.isfinite(array.astype("float64")).all():
        raise InputError("value", "holds numbers that are not finite", "finite ones")
    state[name].set_value(array.astype(state[name].numpy().dtype))


def create_parameter(
    layer: paddle.nn.Layer,
    name: str,
    value: np.ndarray | Sequence | float,
    trained: bool = True,
) -> paddle.Tensor:
    """Add a parameter to a layer, with a name and numbers of your own.

    It is saved with the others. An existing optimizer does not know it: create the optimizer
    afterwards.

    Args:
        name: an attribute that the layer does not have yet.
        value: its initial numbers; float32.
        trained: False freezes it.

    Raises:
        InputError: the layer has an attribute of this name already.

    Source: FAQ Q5.2.
    """
    if hasattr(layer, name):
        raise InputError("name", f"{name!r} is taken by {type(layer).__name__}", "a free name")
    array = np.asarray(value, dtype="float32")
    parameter = layer.create_parameter(
        shape=list(array.shape) or [1],
        default_initializer=paddle.nn.initializer.Assign(array.reshape(array.shape or (1,))),
    )
    parameter.stop_gradient = not trained
    layer.add_parameter(name, parameter)
    return parameter


def log_graph(
    log_dir: str | os.PathLike,
    model: paddle.nn.Layer,
    input_spec: Sequence[paddle.static.InputSpec] | None = None,
) -> Path:
    """Write the graph of a model for VisualDL's page "Graphs".

    VisualDL changes the model for good (hooks, names, static mode), so it gets a copy.

    Args:
        input_spec: of the model; None means input_ids and token_type_ids of any size.

    Returns:
        The file, JSON with "nodes" and "edges".

    Raises:
        InputError: Paddle cannot make a static graph of the model.

    Source: FAQ Q5.6.
    """
    from visualdl import LogWriter

    directory, spec = Path(log_dir), paddle.static.InputSpec
    directory.mkdir(parents=True, exist_ok=True)
    if input_spec is None:
        input_spec = [spec([None, None], "int64", n) for n in ("input_ids", "token_type_ids")]
    twin = copy.deepcopy(model)
    twin.eval()
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        warnings.catch_warnings(),  # of what VisualDL asks Paddle for
        # elsewhere: its empty file of curves would hide those that the directory has already
        tempfile.TemporaryDirectory() as temporary,
        LogWriter(logdir=temporary) as writer,
    ):
        warnings.simplefilter("ignore")
        try:
            writer.add_graph(twin, list(input_spec))
        except Exception as error:  # whatever the translation meets
            reason = " ".join(str(error).split())[-200:]
            raise InputError("model", f"gives no graph ({reason})", "a model to export") from error
        (graph,) = Path(temporary).glob("vdlgraph*")
        return Path(shutil.move(graph, directory / graph.name))
