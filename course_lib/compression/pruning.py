"""Width pruning: attention heads and feed-forward neurons are cut out of an encoder's matrices.

The importance of a head or a neuron is measured as in Michel et al. 2019 (arXiv:1905.10650) and
DynaBERT (arXiv:2004.04037): multiply its output by a mask of ones, and take the absolute derivative
of the loss by that mask. The least important ones are then cut out of the matrices, and a smaller
model of the same class remains.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..models import encoder_of
from ..models.backbone import CUT
from ..models.files import SAVED, check_weights, read_config, read_saved, read_weights, shapes_of
from ..models.patches import quiet_paddlenlp
from ..models.pickles import failure_named
from ..runtime import InputError
from ..runtime.files import read_unmixed
from ..training.prediction import LABELS, cross_entropy

import numpy as np
import paddle
import paddlenlp.transformers
from paddlenlp.transformers import PretrainedModel

Integers = Sequence[int] | np.ndarray
HEADS, NEURONS = CUT
ALL = slice(None)


def prunable_layers(model: paddle.nn.Layer) -> list[paddle.nn.TransformerEncoderLayer]:
    """Return the encoder's layers of a fine-tuned model, from the lowest to the highest.

    Raises:
        InputError: the model is a bare encoder, or is not built of Paddle's TransformerEncoder
            (ERNIE, BERT, RoBERTa, ELECTRA and the like are).
    """
    name = type(model).__name__
    if isinstance(model, PretrainedModel) and isinstance(model, model.base_model_class):
        problem = "is a bare encoder: without a fine-tuned head nothing measures what a part is for"
        raise InputError(name, problem, "a fine-tuned model such as ErnieForSequenceClassification")
    layers = list(getattr(encoder_of(model).encoder, "layers", ()))
    if not layers or any(type(layer) is not paddle.nn.TransformerEncoderLayer for layer in layers):
        expected = "ERNIE, BERT or another built of Paddle's TransformerEncoder"
        raise InputError(name, "is a class that cannot be pruned", expected)
    return layers


def _shape_of(model: paddle.nn.Layer) -> tuple[list[int], list[int]]:
    """The number of heads of each layer, and the number of neurons of each layer."""
    layers = prunable_layers(model)
    heads = [layer.self_attn.num_heads for layer in layers]
    return heads, [layer.linear1.weight.shape[1] for layer in layers]


def _linears(layer: paddle.nn.TransformerEncoderLayer, columns, neurons) -> list[tuple]:
    """The Linears of a layer whose sizes depend on its heads and neurons.

    Args:
        columns: index of the outputs of query, key and value that are to be kept.
        neurons: index of the neurons that are to be kept.

    Returns:
        For each (its parent, its name there, the rows and the columns of its weight to keep).
    """
    attention = layer.self_attn
    return [
        (attention, "q_proj", ALL, columns),
        (attention, "k_proj", ALL, columns),
        (attention, "v_proj", ALL, columns),
        (attention, "out_proj", columns, ALL),
        (layer, "linear1", ALL, neurons),
        (layer, "linear2", neurons, ALL),
    ]


@contextmanager
def masks(
    model: paddle.nn.Layer,
    heads: Sequence[paddle.Tensor] | np.ndarray,
    neurons: Sequence[paddle.Tensor] | np.ndarray,
) -> Iterator[None]:
    """Multiply the outputs of heads and neurons, inside the block, by masks.

    Args:
        heads: for each layer [heads], or [batch_size, heads] for one mask per example.
        neurons: for each layer [neurons], or [batch_size, neurons].
    """

    def multiply(mask: paddle.Tensor, width: int):
        mask = mask.reshape([-1, 1, mask.shape[-1], 1])

        def hook(layer, inputs):
            value = inputs[0]
            parts = value.reshape([0, 0, mask.shape[2], width]) * mask
            return (parts.reshape(value.shape), *inputs[1:])

        return hook

    with ExitStack() as stack:
        for layer, head, neuron in zip(prunable_layers(model), heads, neurons, strict=True):
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
    criterion: Callable | None = None,
    calc_loss: Callable[[paddle.nn.Layer, Mapping], paddle.Tensor] | None = None,
    label_names: Sequence[str] = LABELS,
) -> tuple[np.ndarray, np.ndarray]:
    """How much the loss depends on each head and each neuron.

    Summed over all examples: |d loss of the example / d mask|, the first-order estimate of what
    the loss would change by without the part. Use data that the model will not be trained on next,
    and no test data.

    Args:
        model: fine-tuned, all layers of one size; it is left as it was.
        batches: dicts of inputs and labels, or (input_ids, token_type_ids, labels).
        criterion: (logits, labels) -> the mean loss of a batch, `cross_entropy` by default. Several
            label columns come as a tuple, as a Trainer's criterion gets them.
        calc_loss: (model, batch) -> the mean loss, instead of `criterion`.
        label_names: columns that hold labels.

    Returns:
        heads [layers, heads] and neurons [layers, neurons], at least 0, in float64.

    Raises:
        InputError: as `prunable_layers`; there is no batch; the loss is not finite, so that
            importance could not be sorted.
    """
    head_counts, neuron_counts = _shape_of(model)
    count = len(head_counts)
    sums = np.zeros([count, head_counts[0]]), np.zeros([count, neuron_counts[0]])
    before = [(p, p.stop_gradient) for p in model.parameters()]
    training, examples = model.training, 0
    model.eval()  # dropout would be a second, random mask
    try:
        for parameter, _ in before:  # derivatives by weights are not needed
            parameter.stop_gradient = True
        for batch in batches:
            if not isinstance(batch, Mapping):
                batch = dict(zip(("input_ids", "token_type_ids", "labels"), batch, strict=True))
            rows = len(batch["input_ids"])
            examples += rows
            ones = [[paddle.ones([rows, s.shape[1]]) for _ in range(count)] for s in sums]
            for mask in [*ones[0], *ones[1]]:
                mask.stop_gradient = False
            with masks(model, *ones):
                loss = (
                    calc_loss(model, batch)
                    if calc_loss
                    else _batch_loss(model, batch, criterion, label_names)
                )
            if not np.isfinite(float(loss)):
                raise InputError("loss", f"is {float(loss)} on a batch", "a finite number")
            loss.backward()
            for total, part in zip(sums, ones, strict=True):
                # the loss is a mean over the rows, so each row's part of it is too small by `rows`
                total += [np.abs(mask.grad.numpy() * rows).sum(axis=0) for mask in part]
    finally:
        for parameter, stopped in before:
            parameter.stop_gradient = stopped
        if training:
            model.train()
    if not examples:
        raise InputError("batches", "are empty", "at least one batch to measure importance on")
    return sums


def _batch_loss(
    model: paddle.nn.Layer, batch: Mapping, criterion: Callable | None, label_names: Sequence[str]
) -> paddle.Tensor:
    labels = tuple(batch[name] for name in label_names if name in batch)
    if not labels:
        problem = f"has the columns {', '.join(batch)} only"
        raise InputError("the batch", problem, " or ".join(label_names))
    logits = model(**{name: value for name, value in batch.items() if name not in label_names})
    return (criterion or cross_entropy)(logits, labels[0] if len(labels) == 1 else labels)


def parse_width(value) -> float:
    """A share of the width to keep: 0.75, "0.75" or "3/4", above 0 and at most 1."""
    try:
        width = float(Fraction(value.strip())) if isinstance(value, str) else float(value)
    except (ValueError, TypeError, ZeroDivisionError):
        width = math.nan
    if not 0 < width <= 1 or isinstance(value, bool):
        raise InputError("width", f"is {value!r}", 'above 0 and at most 1, such as 0.75 or "3/4"')
    return width


def kept(model: paddle.nn.Layer, width: float | str) -> tuple[list[int], list[int]]:
    """How many heads and neurons of each layer a width keeps: rounded down, as DynaBERT does.

    Raises:
        InputError: `width` is outside (0, 1], or keeps no head or no neuron; as `prunable_layers`.
    """
    width = parse_width(width)
    counts = []
    for part, sizes in zip(("head", "neuron"), _shape_of(model), strict=True):
        counts.append([math.floor(size * width + 1e-9) for size in sizes])  # 12 * 2/3 is 8
        if not all(counts[-1]):
            problem = f"{width:g} of {min(sizes)} {part}s leaves none"
            raise InputError("width", problem, f"1/{min(sizes)} or more")
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
    """
    best = [
        [np.sort(row[:count]) for row, count in zip(ranks, counts, strict=True)]
        for ranks, counts in zip(_ranks(model, heads, neurons), kept(model, width), strict=True)
    ]
    return cut(model, *best)


def reorder(model: paddle.nn.Layer, heads: np.ndarray, neurons: np.ndarray) -> paddle.nn.Layer:
    """A new model that computes the same, with heads and neurons by falling importance.

    Then every width is the first part of each matrix, and all widths share their weights.

    Args:
        heads, neurons: importance, as for `prune`.
    """
    return cut(model, *_ranks(model, heads, neurons))


def _ranks(
    model: paddle.nn.Layer, heads: np.ndarray, neurons: np.ndarray
) -> list[list[np.ndarray]]:
    """The numbers of each layer's heads, and of its neurons, by falling importance."""
    tables = {"heads": heads, "neurons": neurons}
    for (name, table), sizes in zip(tables.items(), _shape_of(model), strict=True):
        if [len(row) for row in table] != sizes:
            problem = f"have an importance of shape {np.shape(table)}"
            raise InputError(name, problem, f"the model's: layers of {', '.join(map(str, sizes))}")
    return [
        [np.argsort(-np.asarray(row), kind="stable") for row in table] for table in tables.values()
    ]


def cut(
    model: paddle.nn.Layer, heads: Sequence[Integers], neurons: Sequence[Integers]
) -> paddle.nn.Layer:
    """A new model that has only the named heads and neurons, in the given order.

    It computes what the whole model computes when all others are masked with zero. It is of the
    same class; `save_pretrained` writes it, its configuration names the heads and neurons of each
    layer, and `load_pruned` reads it.

    Args:
        heads: for each layer the numbers of the heads to keep, at least one, each once.
        neurons: for each layer the numbers of the neurons to keep, at least one, each once.

    Raises:
        InputError: a number that the model does not have, twice the same, or none.
    """
    for name, layers, sizes in zip(
        ("heads", "neurons"), (heads, neurons), _shape_of(model), strict=True
    ):
        for numbers, size in zip(layers, sizes, strict=True):
            if not len(numbers) or len({*numbers} & {*range(size)}) < len(numbers):
                expected = f"different numbers from 0 to {size - 1}"
                raise InputError(name, f"are {list(numbers)!r:.60}", expected)
    smaller = copy.deepcopy(model)
    for layer, head, neuron in zip(prunable_layers(smaller), heads, neurons, strict=True):
        attention = layer.self_attn
        columns = np.arange(attention.num_heads * attention.head_dim)
        columns = columns.reshape([attention.num_heads, -1])[np.asarray(head)].reshape(-1)
        for parent, name, rows, outputs in _linears(layer, columns, np.asarray(neuron)):
            setattr(parent, name, _part(getattr(parent, name), rows, outputs))
        attention.num_heads = len(head)
    for name, numbers in zip((HEADS, NEURONS), _shape_of(smaller), strict=True):
        setattr(smaller.config, name, numbers)
    return smaller


def _part(linear: paddle.nn.Linear, rows, columns) -> paddle.nn.Linear:
    """A Linear of some of another's inputs (rows) and outputs (columns)."""
    weight = linear.weight.numpy()[rows][:, columns]
    # zeros: another initializer would draw from the global generator, and change what comes after
    zeros = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.0))
    bias = False if linear.bias is None else zeros
    smaller = paddle.nn.Linear(*weight.shape, weight_attr=zeros, bias_attr=bias)
    smaller.weight.set_value(weight)
    smaller.weight.stop_gradient = linear.weight.stop_gradient
    if linear.bias is not None:
        smaller.bias.set_value(linear.bias.numpy()[columns])
        smaller.bias.stop_gradient = linear.bias.stop_gradient
    return smaller


@contextmanager
def narrowed(model: paddle.nn.Layer, width: float) -> Iterator[None]:
    """Let a model compute, inside the block, with the first part of its heads and neurons only.

    The weights stay whole and get their gradients; what is left out is not computed.
    """
    with ExitStack() as stack:
        for layer, heads, neurons in zip(prunable_layers(model), *kept(model, width), strict=True):
            attention = layer.self_attn
            inner = slice(heads * attention.head_dim)
            for parent, name, rows, columns in _linears(layer, inner, slice(neurons)):
                linear = getattr(parent, name)
                stack.callback(setattr, parent, name, linear)
                setattr(parent, name, _Part(linear, rows, columns))
            stack.callback(setattr, attention, "num_heads", attention.num_heads)
            attention.num_heads = heads
        yield


class _Part(paddle.nn.Layer):
    """The first inputs (rows) and outputs (columns) of a Linear."""

    def __init__(self, linear: paddle.nn.Linear, rows: slice, columns: slice) -> None:
        super().__init__()
        self.linear, self.rows, self.columns = linear, rows, columns

    def forward(self, value: paddle.Tensor) -> paddle.Tensor:
        weight, bias = self.linear.weight[self.rows, self.columns], self.linear.bias
        return paddle.nn.functional.linear(
            value, weight, None if bias is None else bias[self.columns]
        )


def narrow(model: paddle.nn.Layer, width: float) -> paddle.nn.Layer:
    """A new, smaller model that computes what `narrowed` lets this one compute."""
    return cut(model, *([range(count) for count in counts] for counts in kept(model, width)))


def load_pruned(
    directory: str | os.PathLike, kind: type[PretrainedModel] | None = None
) -> paddle.nn.Layer:
    """Load a pruned model that `save_pretrained` wrote, in evaluation mode.

    Args:
        kind: the model's class where it is your own; by default PaddleNLP's of its name.

    Raises:
        InputError: a file is missing or damaged; PaddleNLP does not have the class; weights and
            configuration do not fit.
    """
    return read_unmixed(directory, lambda: _load_pruned(Path(directory), kind))


def _load_pruned(directory: Path, kind: type | None) -> paddle.nn.Layer:
    settings, weights, shapes = read_saved(directory)
    name = (settings.get("architectures") or [""])[0]
    model = build(directory, name, directory / "config.json", kind)
    check_weights(weights, shapes, shapes_of(model), "the weights that belong to config.json")
    model.set_state_dict(read_weights(weights))
    return model


def build(directory: Path, name: str, named_in: Path, kind: Any = None) -> paddle.nn.Layer:
    """A new model in evaluation mode by a config.json, as small as a pruned one is.

    Args:
        name, named_in, kind: its class, the file that names it, and the class if not PaddleNLP's
    """
    kind = kind or getattr(paddlenlp.transformers, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, PretrainedModel)):
        problem = f"names the class {name!r}, which PaddleNLP does not have"
        raise InputError(named_in, problem, "a model of PaddleNLP, or the class as `kind`")
    file, random = directory / "config.json", paddle.get_rng_state()
    with quiet_paddlenlp(), failure_named(file, f"no {name} can be built of it", SAVED):
        model = kind(kind.config_class.from_pretrained(str(directory)))  # type: ignore[attr-defined]
        settings = read_config(file)
        if settings.get(HEADS) is not None:
            model = cut(model, *([range(n) for n in settings[name]] for name in (HEADS, NEURONS)))
    paddle.set_rng_state(random)  # weights that are overwritten should change nothing else
    model.eval()
    return model
