"""Answers about what goes on inside a model: states, attention, parameters, graphs."""

from __future__ import annotations

import contextlib
import copy
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from course_lib.data import convert_example
from course_lib.deploy import Predictor, export_model
from course_lib.models import encoder_of
from course_lib.runtime import InputError
from course_lib.training.prediction import inference_mode

import numpy as np
import paddle
import paddle.nn.functional as F
from paddlenlp.transformers import PretrainedModel

# ---- states and attention


@contextlib.contextmanager
def recorded(layers: Mapping[str, paddle.nn.Layer]) -> Iterator[dict[str, list[paddle.Tensor]]]:
    """Keep what layers give, for as long as the block lasts, by forward post hooks.

    Args:
        layers: the layers to listen to, by any name.

    Yields:
        A dictionary that fills as the model runs: for each name a list with one entry a call. Of
        a layer that gives several tensors the first is kept. Gradients are not cut off.

    Raises:
        InputError: no layers, or something else.

    Source: FAQ Q3.8.
    """
    if not layers:
        raise InputError("layers", "is empty", "at least one layer by name")
    for name, layer in layers.items():
        if not isinstance(layer, paddle.nn.Layer):
            raise InputError("layers", f"{name} is a {type(layer).__name__}", "a paddle.nn.Layer")
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


def encoder_layers(model: paddle.nn.Layer) -> dict[str, paddle.nn.Layer]:
    """The embeddings and each layer of a BERT-like encoder, by name, for `recorded`.

    Raises:
        InputError: the model has no `embeddings` and `encoder.layers`.
    """
    encoder = encoder_of(model)
    layers = {f"layer {i}": one for i, one in enumerate(encoder.encoder.layers, start=1)}
    return {"embeddings": encoder.embeddings, **layers}


def hidden_states(model: paddle.nn.Layer, *inputs: paddle.Tensor) -> dict[str, np.ndarray]:
    """Run a model without dropout and return the states after its embeddings and each layer.

    Since PaddleNLP 2.5 most models give the same for `output_hidden_states=True`; hooks work for
    every model, also for one that is cut or one's own.

    Args:
        inputs: what the model takes, as a rule input_ids and token_type_ids [batch, length].

    Returns:
        float32 arrays [batch, length, hidden] by name: "embeddings", "layer 1", ...
    """
    with inference_mode(model), recorded(encoder_layers(model)) as outputs:
        model(*inputs)
    return {name: calls[0].numpy() for name, calls in outputs.items()}


def attention_maps(model: paddle.nn.Layer, *inputs: paddle.Tensor) -> np.ndarray:
    """How much each token looks at each other one, in every layer and head, without dropout.

    Computed again from what each attention layer is given, by hooks: softmax(q k' / √d + mask).
    Multiplied by the values and projected this must be what the layer gave, or an error says so.
    PaddleNLP gives the same for `output_attentions=True`; setting `need_weights` by hand does
    nothing there, because every encoder layer sets it anew.

    Returns:
        float32 of shape [layers, batch, heads, length, length]; each last row sums to 1.

    Raises:
        InputError: the layers have no attention of Paddle's, different numbers of heads (a pruned
            model), or computing again gives something else.
    """
    layers = list(encoder_layers(model).values())[1:]
    attentions: list[Any] = [getattr(layer, "self_attn", None) for layer in layers]
    if not attentions or not all(isinstance(a, paddle.nn.MultiHeadAttention) for a in attentions):
        problem = "its layers have no self_attn of Paddle's"
        raise InputError(
            type(model).__name__, problem, "layers with a paddle.nn.MultiHeadAttention"
        )
    if len({attention.num_heads for attention in attentions}) > 1:
        heads = [attention.num_heads for attention in attentions]
        raise InputError(type(model).__name__, f"has {heads} heads", "as many in every layer")
    maps: list[np.ndarray] = []

    def compute(layer: paddle.nn.MultiHeadAttention, inputs, output) -> None:
        query, mask = inputs[0], inputs[3] if len(inputs) > 3 else None
        query, key, value = layer._prepare_qkv(query, query, query)  # [N, heads, L, head_dim]
        scores = paddle.matmul(query * layer.head_dim**-0.5, key, transpose_y=True)
        weights = F.softmax(scores if mask is None else scores + mask)
        mixed = paddle.matmul(weights, value).transpose([0, 2, 1, 3]).flatten(2)
        given = paddle.utils.flatten(output)[0]
        apart = float((layer.out_proj(mixed) - given).abs().max())
        if apart > 1e-4 * max(1.0, float(given.abs().max())):
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


# ---- parameters


def set_parameter(model: paddle.nn.Layer, name: str, value: np.ndarray | paddle.Tensor) -> None:
    """Give a parameter or a buffer other numbers, in place, so that optimizers still know it.

    `set_value` alone speaks of generated names, and takes numbers that are none.

    Args:
        name: the structured name, as in `model.state_dict()`.
        value: of the same shape; it is converted to the parameter's type.

    Raises:
        InputError: no such name, another shape, or a value that is not finite.

    Source: FAQ Q5.2.
    """
    state = model.state_dict()
    if name not in state:
        near = ", ".join(list(state)[:3])
        raise InputError("name", f"{name!r} is no parameter", f"one such as {near}")
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
    """Give a layer one more parameter with a name and numbers of one's own.

    It is saved with the others. An optimizer that exists already does not know it: make the
    optimizer afterwards.

    Args:
        name: an attribute that the layer does not have yet.
        value: its first numbers; float32.
        trained: False freezes it.

    Raises:
        InputError: the name is taken or no name, or a value is not finite.

    Source: FAQ Q5.2.
    """
    if not isinstance(name, str) or not name.isidentifier() or hasattr(layer, name):
        problem = f"{name!r} is no name, or taken by {type(layer).__name__}"
        raise InputError("name", problem, "an identifier that is free")
    array = np.asarray(value, dtype="float32")
    if not np.isfinite(array).all():
        raise InputError("value", "holds numbers that are not finite", "finite ones")
    parameter = layer.create_parameter(
        shape=list(array.shape) or [1],
        default_initializer=paddle.nn.initializer.Assign(array.reshape(array.shape or (1,))),
    )
    parameter.stop_gradient = not trained
    layer.add_parameter(name, parameter)
    return parameter


# ---- VisualDL


def log_scalars(log_dir: str | os.PathLike, scalars: Mapping[str, Sequence[float]]) -> Path:
    """Write curves for VisualDL; `training.read_scalars` and `visualdl_page` read them.

    Args:
        scalars: values by tag ("train/loss"); the first is step 1.

    Raises:
        InputError: a tag without values, or a value that is not finite (it would end the curve).

    Source: FAQ Q5.6.
    """
    from visualdl import LogWriter  # slow to import, and needed by few

    for tag, values in scalars.items():
        if not len(values) or not all(math.isfinite(value) for value in values):
            raise InputError(tag, "has no values, or some that are not finite", "finite numbers")
    with LogWriter(logdir=str(log_dir)) as writer:
        for tag, values in scalars.items():
            for step, value in enumerate(values, start=1):
                writer.add_scalar(tag=tag, value=float(value), step=step)
    return Path(log_dir)


def log_graph(
    log_dir: str | os.PathLike,
    model: paddle.nn.Layer,
    input_spec: Sequence[paddle.static.InputSpec] | None = None,
) -> Path:
    """Write the graph of a model for VisualDL's page "Graphs".

    VisualDL hooks into the model, renames its layers and makes it static, for good; so it gets a
    copy.

    Args:
        input_spec: what the model takes; None means input_ids and token_type_ids of any size.

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


# ---- dynamic and static


def static_agreement(
    model: PretrainedModel,
    tokenizer,
    texts: Iterable[str],
    directory: str | os.PathLike | None = None,
    max_seq_length: int = 128,
    batch_size: int = 32,
    tolerance: float = 1e-4,
) -> dict[str, float]:
    """Export a classifier, run both models on the same texts, and compare what they say.

    They add the same numbers in another order, and oneDNN fuses operators: bits differ, labels do
    not.

    Args:
        directory: where the export goes; None: nowhere for good.
        tolerance: of the probabilities.

    Returns:
        "largest" and "mean" (difference of a probability), "same labels" (share) and "texts".

    Raises:
        InputError: no text, or the two differ by more than `tolerance`.

    Source: FAQ Q5.5.
    """
    texts = list(texts)
    if not texts:
        raise InputError("texts", "is empty", "at least one text")
    with tempfile.TemporaryDirectory(prefix="static-") as place:
        target = Path(directory or place)
        export_model(model, target, tokenizer, max_length=max_seq_length)
        static = Predictor(target).predict(texts, batch_size)
    # the same ids in the same batches as the predictor makes would hide what padding does
    dynamic = np.concatenate([_probabilities(model, tokenizer, t, max_seq_length) for t in texts])
    apart = np.abs(static - dynamic)
    if apart.max() > tolerance:
        problem = f"differ by {apart.max():.1e} in text {int(apart.max(axis=1).argmax()) + 1}"
        raise InputError("static and dynamic probabilities", problem, f"at most {tolerance:g}")
    return {
        "largest": float(apart.max()),
        "mean": float(apart.mean()),
        "same labels": float((static.argmax(axis=1) == dynamic.argmax(axis=1)).mean()),
        "texts": len(texts),
    }


def _probabilities(model, tokenizer, text: str, max_seq_length: int) -> np.ndarray:
    ids, types = convert_example({"text": text}, tokenizer, max_seq_length, is_test=True)[:2]
    with inference_mode(model):
        logits = model(paddle.to_tensor([list(ids)]), paddle.to_tensor([list(types)]))
    return F.softmax(logits, axis=-1).numpy()
