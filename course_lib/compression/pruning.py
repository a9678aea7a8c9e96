"""Cutting attention heads and feed-forward neurons out of a PaddleNLP encoder, for real.

What a head or a neuron is worth is measured as in Michel et al. 2019 (arXiv:1905.10650) and
DynaBERT (arXiv:2004.04037): multiply what it hands on by a mask of ones, and take the absolute
derivative of the loss by that mask. What is worth least is then taken out of the matrices, and a
smaller model of the same class remains.
"""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from course_lib.models.backbone import CUT
from course_lib.models.files import (
    check_saved,
    check_sizes,
    check_weights,
    find_weights,
    read_config,
    read_weights,
    shapes_of,
)
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError, errors
from course_lib.runtime.files import read_unmixed

import numpy as np
import paddle
import paddlenlp.transformers
from paddlenlp.transformers import PretrainedModel

LABELS = ("labels", "start_positions", "end_positions")
Integers = Sequence[int] | np.ndarray
HEADS, NEURONS = CUT


def encoder_layers(model: paddle.nn.Layer) -> list[paddle.nn.TransformerEncoderLayer]:
    """The encoder's layers of a model with a head, in order.

    Raises:
        InputError: the model is a bare encoder, or is not built of paddle's TransformerEncoder
            (ERNIE, BERT, RoBERTa, ELECTRA and the like are).
    """
    name = type(model).__name__
    if isinstance(model, PretrainedModel) and isinstance(model, model.base_model_class):
        problem = "is a bare encoder: without a fine-tuned head nothing says what a part is worth"
        raise InputError(name, problem, "a fine-tuned model such as ErnieForSequenceClassification")
    encoder = getattr(
        getattr(model, getattr(model, "base_model_prefix", ""), None), "encoder", None
    )
    layers = list(encoder.layers) if isinstance(encoder, paddle.nn.TransformerEncoder) else []
    if not layers or any(type(layer) is not paddle.nn.TransformerEncoderLayer for layer in layers):
        problem = "is a class that cannot be pruned"
        raise InputError(
            name, problem, "ERNIE, BERT or another built of paddle's TransformerEncoder"
        )
    return layers


def shape_of(model: paddle.nn.Layer) -> tuple[list[int], list[int]]:
    """Heads of each layer, and neurons of each layer."""
    layers = encoder_layers(model)
    heads = [layer.self_attn.num_heads for layer in layers]
    return heads, [layer.linear1.weight.shape[1] for layer in layers]


@contextmanager
def masks(
    model: paddle.nn.Layer,
    heads: Sequence[paddle.Tensor] | np.ndarray,
    neurons: Sequence[paddle.Tensor] | np.ndarray,
) -> Iterator[None]:
    """Multiply what heads and neurons hand on, inside the block, by masks.

    Args:
        heads: for each layer [heads], or [batch_size, heads] for one mask an example.
        neurons: for each layer [neurons], or [batch_size, neurons].

    Raises:
        InputError: as `encoder_layers`; masks of another number or size.
    """
    layers = encoder_layers(model)
    for name, given, sizes in zip(
        ("heads", "neurons"), (heads, neurons), shape_of(model), strict=True
    ):
        shapes = [list(getattr(one, "shape", ())) for one in given] if _is_table(given) else None
        if shapes is None or [shape[-1:] for shape in shapes] != [[size] for size in sizes]:
            found = f"are {type(given).__name__}" if shapes is None else f"have shapes {shapes}"
            raise InputError(name, found, f"a mask a layer, of sizes {sizes}")

    def multiply(mask: paddle.Tensor, width: int):
        mask = mask.reshape([-1, 1, mask.shape[-1], 1])

        def hook(layer, inputs):
            value = inputs[0]
            parts = value.reshape([0, 0, mask.shape[2], width]) * mask
            return (parts.reshape(value.shape), *inputs[1:])

        return hook

    with ExitStack() as stack:
        for layer, head, neuron in zip(layers, heads, neurons, strict=True):
            attention = layer.self_attn
            for linear, mask, width in (
                (attention.out_proj, head, attention.head_dim),
                (layer.linear2, neuron, 1),
            ):
                mask = (
                    mask if isinstance(mask, paddle.Tensor) else paddle.to_tensor(mask, "float32")
                )
                handle = linear.register_forward_pre_hook(multiply(mask, width))
                stack.callback(handle.remove)
        yield


def importance(
    model: paddle.nn.Layer,
    batches: Iterable,
    loss: Callable | None = None,
    label_names: Sequence[str] | None = None,
    calc_loss: Callable | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """How much the loss depends on each head and each neuron.

    Summed over all examples: |d loss of the example / d mask|, the first-order estimate of what
    the loss would change by if the part were not there. The data should be new to the model's next
    training, and no test data.

    Args:
        model: fine-tuned; it is left as it was.
        batches: dicts of inputs and labels, or (input_ids, token_type_ids, labels).
        loss: (logits, labels) -> the mean loss of a batch; by default cross entropy. Several label
            columns come as a tuple, as a Trainer's criterion gets them.
        label_names: columns that hold labels; by default "labels" or the two positions.
        calc_loss: (model, batch) -> the mean loss, instead of `loss` and `label_names`.

    Returns:
        heads [layers, heads] and neurons [layers, neurons], at least 0, in float64.

    Raises:
        InputError: as `encoder_layers`; there is no batch; the layers differ in their numbers of
            heads or neurons; a batch has no labels; the loss is no number.
    """
    head_counts, neuron_counts = shape_of(model)
    if len(set(head_counts)) > 1 or len(set(neuron_counts)) > 1:
        problem = f"has layers of {head_counts} heads and {neuron_counts} neurons"
        raise InputError(type(model).__name__, problem, "layers of one size to compare them")
    count = len(head_counts)
    sums = np.zeros([count, head_counts[0]]), np.zeros([count, neuron_counts[0]])
    before = [(p, p.stop_gradient) for p in model.parameters()]
    training, seen = model.training, False
    model.eval()  # dropout would be a second, random mask
    try:
        for parameter, _ in before:  # derivatives by weights are not needed
            parameter.stop_gradient = True
        for batch in batches:
            if not isinstance(batch, Mapping):
                if not isinstance(batch, (list, tuple)) or len(batch) != 3:
                    problem = f"hold a {type(batch).__name__}"
                    expected = "dicts, or (input_ids, token_type_ids, labels)"
                    raise InputError("batches", problem, expected)
                batch = dict(zip(("input_ids", "token_type_ids", "labels"), batch, strict=True))
            rows = len(batch["input_ids"])
            given = [[paddle.ones([rows, s.shape[1]]) for _ in range(count)] for s in sums]
            for mask in [*given[0], *given[1]]:
                mask.stop_gradient = False
            with masks(model, *given):
                if calc_loss is None:
                    inputs, labels = split_labels(batch, label_names)
                    value = (loss or cross_entropy)(model(**inputs), labels)
                else:
                    value = calc_loss(model, batch)
            if not np.isfinite(float(value)):
                raise InputError("loss", f"is {float(value)} on a batch", "a finite number")
            value.backward()
            for total, part in zip(sums, given, strict=True):
                # the loss is a mean over the rows, so each row's part of it is too small by `rows`
                total += [np.abs(mask.grad.numpy() * rows).sum(axis=0) for mask in part]
            seen = True
    finally:
        for parameter, stopped in before:
            parameter.stop_gradient = stopped
        if training:
            model.train()
    if not seen:
        raise InputError("batches", "are none", "at least one batch to measure importance on")
    return sums


def split_labels(batch: Mapping, label_names: Sequence[str] | None = None) -> tuple[dict, object]:
    """A batch's inputs, and its labels: one tensor, or a tuple of them.

    Raises:
        InputError: there are no labels.
    """
    names = [name for name in (label_names or LABELS) if name in batch]
    if not names:
        expected = " or ".join(label_names or LABELS)
        raise InputError("the batch", f"has the columns {', '.join(batch)} only", expected)
    inputs = {name: value for name, value in batch.items() if name not in names}
    labels = tuple(batch[name] for name in names)
    return inputs, labels[0] if len(labels) == 1 else labels


def multi_label(model: paddle.nn.Layer) -> bool:
    """Whether a classifier gives an example any number of labels, by its configuration."""
    kind = getattr(getattr(model, "config", None), "problem_type", None)
    return kind == "multi_label_classification"


def cross_entropy(logits, labels) -> paddle.Tensor:
    """The mean loss of logits and labels, of a pair of each (start and end) the mean of both.

    Labels that are floats [batch_size, labels], zeros and ones, are choices of their own.
    """
    if not isinstance(logits, (tuple, list)):
        if labels.dtype == logits.dtype:
            return paddle.nn.functional.binary_cross_entropy_with_logits(logits, labels)
        return paddle.nn.functional.cross_entropy(logits, labels)
    losses = [
        paddle.nn.functional.cross_entropy(one, label)
        for one, label in zip(logits, labels, strict=True)
    ]
    return sum(losses) / len(losses)


def parse_width(value) -> float:
    """A share of the width to keep: 0.75, "0.75" or "3/4", above 0 and at most 1.

    Raises:
        InputError: anything else.
    """
    try:
        width = float(Fraction(value.strip())) if isinstance(value, str) else float(value)
    except (ValueError, TypeError, ZeroDivisionError):
        width = math.nan
    if not 0 < width <= 1 or isinstance(value, bool):
        raise InputError("width", f"is {value!r}", 'above 0 and at most 1, such as 0.75 or "3/4"')
    return width


def kept(width: float | str, heads: int, neurons: int) -> tuple[int, int]:
    """How many of a layer's heads and neurons a width keeps: rounded down, as DynaBERT does.

    Raises:
        InputError: `width` is outside (0, 1], or keeps no head or no neuron.
    """
    width = parse_width(width)
    counts = [math.floor(count * width + 1e-9) for count in (heads, neurons)]  # 12 * 2/3 is 8
    if not all(counts):
        part, count = ("head", heads) if not counts[0] else ("neuron", neurons)
        raise InputError("width", f"{width:g} of {count} {part}s leaves none", f"1/{count} or more")
    return counts[0], counts[1]


def prune(
    model: paddle.nn.Layer, width: float | str, heads: np.ndarray, neurons: np.ndarray
) -> paddle.nn.Layer:
    """A new model with the most important share of each layer's heads and neurons.

    Args:
        model: fine-tuned; it stays as it is.
        width: the share to keep, above 0 and at most 1; counts are rounded down.
        heads: importance [layers, heads], from `importance`.
        neurons: importance [layers, neurons].

    Returns:
        A model of the same class, see `cut`. Without further training it loses accuracy.

    Raises:
        InputError: the width keeps no head; importance of another shape; as `encoder_layers`.
    """
    counts = [kept(width, *layer) for layer in zip(*shape_of(model), strict=True)]
    _check_importance(model, heads, neurons)
    best = [
        [
            np.sort(_descending(worth)[: count[part]])
            for worth, count in zip(table, counts, strict=True)
        ]
        for part, table in enumerate((heads, neurons))
    ]
    return cut(model, best[0], best[1])


def reorder(model: paddle.nn.Layer, heads: np.ndarray, neurons: np.ndarray) -> paddle.nn.Layer:
    """A new model that computes the same, its heads and neurons in falling importance.

    Then every width is the first part of each matrix, and all widths share their weights.

    Raises:
        InputError: as `prune`.
    """
    _check_importance(model, heads, neurons)
    return cut(model, [*map(_descending, heads)], [*map(_descending, neurons)])


def _descending(worth: np.ndarray) -> np.ndarray:
    return np.argsort(-np.asarray(worth), kind="stable")


def _check_importance(model: paddle.nn.Layer, heads, neurons) -> None:
    for name, table, counts in zip(
        ("heads", "neurons"), (heads, neurons), shape_of(model), strict=True
    ):
        try:
            rows = [np.asarray(worth, "float64") for worth in table]
        except (TypeError, ValueError):
            raise InputError(name, "are no rows of numbers", "what importance() gives") from None
        lengths = [len(row) if row.ndim == 1 else row.shape for row in rows]
        if lengths != counts:
            raise InputError(name, f"has rows of {lengths}", f"{counts}, one value for each")
        if not all(np.isfinite(row).all() for row in rows):
            raise InputError(name, "holds nan or infinity", "finite numbers, to put in order")


def _is_table(value: object) -> bool:
    """Has it rows that can be counted and read twice?"""
    readable = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    return readable and not isinstance(value, (str, Mapping))


def cut(
    model: paddle.nn.Layer, heads: Sequence[Integers], neurons: Sequence[Integers]
) -> paddle.nn.Layer:
    """A new model that has only the named heads and neurons, in the given order.

    It computes what the whole model computes when all others are masked with zero. It is of the
    same class; `save_pretrained` writes it, its configuration names the heads and neurons of each
    layer, and `load_pruned` reads it.

    Args:
        heads: for each layer the numbers of the heads to keep, at least one.
        neurons: for each layer the numbers of the neurons to keep, at least one.

    Raises:
        InputError: a layer would keep nothing, a number is repeated or out of range; as
            `encoder_layers`.
    """
    counts = shape_of(model)
    for name, chosen, available in zip(("heads", "neurons"), (heads, neurons), counts, strict=True):
        if not _is_table(chosen) or not all(map(_is_table, chosen)):
            raise InputError(name, "is no list of lists", "for each layer the numbers to keep")
        if len(chosen) != len(available):
            raise InputError(name, f"names {len(chosen)} layers", f"{len(available)} layers")
        for layer, (numbers, count) in enumerate(zip(chosen, available, strict=True)):
            numbers = [errors.whole(name, number) for number in numbers]
            if not numbers or len(set(numbers)) < len(numbers):
                problem = f"keeps none in layer {layer}" if not numbers else f"repeats in {numbers}"
                raise InputError(name, problem, "at least one, each once")
            if min(numbers) < 0 or max(numbers) >= count:
                raise InputError(name, f"keeps {numbers} in layer {layer}", f"0 to {count - 1}")
    smaller = copy.deepcopy(model)
    for layer, head, neuron in zip(encoder_layers(smaller), heads, neurons, strict=True):
        attention = layer.self_attn
        neuron = np.asarray(neuron, dtype=np.int64)
        columns = np.arange(attention.num_heads * attention.head_dim).reshape(
            [attention.num_heads, attention.head_dim]
        )[np.asarray(head, dtype=np.int64)]
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(attention, name, _part(getattr(attention, name), columns=columns.reshape(-1)))
        attention.out_proj = _part(attention.out_proj, rows=columns.reshape(-1))
        attention.num_heads = len(columns)
        layer.linear1 = _part(layer.linear1, columns=neuron)
        layer.linear2 = _part(layer.linear2, rows=neuron)
    for name, numbers in zip((HEADS, NEURONS), shape_of(smaller), strict=True):
        setattr(smaller.config, name, numbers)
    return smaller


def _part(
    linear: paddle.nn.Linear, rows: np.ndarray | None = None, columns: np.ndarray | None = None
) -> paddle.nn.Linear:
    """A Linear of some of another's inputs (rows) or outputs (columns)."""
    weight = linear.weight.numpy()
    bias = None if linear.bias is None else linear.bias.numpy()
    if rows is not None:
        weight = weight[rows]
    if columns is not None:
        weight = weight[:, columns]
        bias = bias if bias is None else bias[columns]
    smaller = _zeros(weight.shape[0], weight.shape[1], bias is not None)
    smaller.weight.set_value(weight)
    smaller.weight.stop_gradient = linear.weight.stop_gradient
    if bias is not None:
        smaller.bias.set_value(bias)
        smaller.bias.stop_gradient = linear.bias.stop_gradient
    return smaller


def _zeros(rows: int, columns: int, bias: bool) -> paddle.nn.Linear:
    # zeros: another initializer would draw from the global generator, and change what comes after
    zero = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.0))
    return paddle.nn.Linear(rows, columns, weight_attr=zero, bias_attr=zero if bias else False)


def load_pruned(directory: str | os.PathLike) -> paddle.nn.Layer:
    """Load a model that `cut`, `prune` or the CompressTrainer made and `save_pretrained` wrote.

    Its tokenizer comes from the same directory, through AutoTokenizer, where it was saved too.

    Returns:
        The model, in evaluation mode as `from_pretrained` gives it.

    Raises:
        InputError: a file is missing or damaged; the class is none of PaddleNLP's; weights and
            configuration do not fit.
    """
    return read_unmixed(directory, lambda: _load_pruned(Path(directory)))


def _load_pruned(directory: Path) -> paddle.nn.Layer:
    settings = read_config(directory / "config.json")
    name = (settings.get("architectures") or [""])[0]
    kind = getattr(paddlenlp.transformers, name, None)
    if not (isinstance(kind, type) and issubclass(kind, PretrainedModel)):
        problem = f"names the class {name!r}, which PaddleNLP does not have"
        raise InputError(directory / "config.json", problem, "a model of PaddleNLP")
    weights = find_weights(directory)
    state = read_weights(weights)
    shapes = {key: value.shape for key, value in state.items()}
    check_sizes(directory / "config.json", settings, shapes)
    with quiet_paddlenlp():
        config = kind.config_class.from_pretrained(str(directory))  # type: ignore[attr-defined]
        random = paddle.get_rng_state()
        model = kind(config)
        paddle.set_rng_state(random)  # weights that are overwritten should change nothing else
    if settings.get(HEADS) is not None or settings.get(NEURONS) is not None:
        _shrink(model, settings, directory / "config.json")
    check_weights(weights, shapes, shapes_of(model), "the weights that belong to config.json")
    check_saved(directory)
    model.set_state_dict(state)
    model.eval()
    return model


def _shrink(model: paddle.nn.Layer, settings: dict, config_file: Path) -> None:
    """Make the layers of a new model as small as its configuration says."""
    whole_heads, whole_neurons = shape_of(model)
    heads: Any = settings.get(HEADS)
    neurons: Any = settings.get(NEURONS)
    for name, given, whole in ((HEADS, heads, whole_heads), (NEURONS, neurons, whole_neurons)):
        fits = isinstance(given, list) and len(given) == len(whole)
        if not fits or not all(
            type(n) is int and 1 <= n <= most for n, most in zip(given, whole, strict=True)
        ):
            problem = f"its {name} is {json.dumps(given)}"
            raise InputError(config_file, problem, f"{len(whole)} numbers, at most {whole[0]}")
    for layer, head, neuron in zip(encoder_layers(model), heads, neurons, strict=True):
        attention, size = layer.self_attn, layer.linear2.weight.shape[1]
        inner = head * attention.head_dim
        for name in ("q_proj", "k_proj", "v_proj"):
            bias = getattr(attention, name).bias is not None
            setattr(attention, name, _zeros(size, inner, bias))
        attention.out_proj = _zeros(inner, size, attention.out_proj.bias is not None)
        attention.num_heads = head
        layer.linear1 = _zeros(size, neuron, layer.linear1.bias is not None)
        layer.linear2 = _zeros(neuron, size, layer.linear2.bias is not None)
