"""Static quantization after training: INT8 weights, and INT8 scales read off a few batches.

Paddle's PostTrainingQuantization does the work, in the format (`onnx_format=True`) that Paddle
Inference runs in real INT8 on a CPU. Corrected here are its algorithms KL, whose loops over Python
lists take minutes, avg, which stops with an IndexError at tensors without an axis, and mse and emd,
which compare all values 36 times; its scales of the attention mask and of square matrices, which
cost the course's classifier ten points; and the order of its operators, which changes every time.
What does not work in paddle 2.6.2 is refused with the reason (`check_options`).
"""

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ..deploy.files import PROGRAM, WEIGHTS, copy_companions, describe, find_files, new_files
from ..deploy.program import check_inputs, read_program
from ..runtime import InputError
from .program import load_program, static_mode

import numpy as np
import paddle
from paddle.base.proto import framework_pb2
from paddle.static.quantization import PostTrainingQuantization
from paddle.static.quantization.utils import load_variable_data
from paddlenlp.data import Pad

ALGORITHMS = ("hist", "mse", "KL", "emd", "avg", "abs_max")
WEIGHT_TYPES = ("channel_wise_abs_max", "abs_max")
ACTIVATION_TYPES = ("range_abs_max", "moving_average_abs_max", "abs_max")
HIST_PERCENT = 0.9999  # as PaddleNLP sets it
BINS = 8192  # of the histograms that mse and emd are computed from
OPTIONS = {
    "algo": ALGORITHMS,
    "weight_quantize_type": WEIGHT_TYPES,
    "activation_quantize_type": ACTIVATION_TYPES,
    "round_type": ("round",),
    "bias_correction": (False,),
    "onnx_format": (True,),
    "input_dtype": ("int64",),
    "prune_embeddings": (False,),
}
BROKEN = {  # options that Paddle has and that do not work here
    ("algo", "min_max"): "paddle 2.6.2 only notes the limits as attributes and quantizes nothing",
    ("round_type", "adaround"): "paddle 2.6.2 rounds the weights to whole numbers, which the "
    "format that runs in INT8 then scales and rounds once more, so the model's output is wrong",
    ("bias_correction", True): "paddle 2.6.2 leaves it out, without a word, in the format that "
    "runs in INT8",
    ("input_dtype", "int32"): "calibration and Predictor feed int64",
    ("onnx_format", False): "Paddle Inference has no INT8 kernels for the older format",
    ("prune_embeddings", True): "compress() does not take tokens out of the vocabulary",
}


def check_options(**options) -> None:
    """Refuse what is unknown, and what this version of Paddle computes wrongly or leaves out.

    Args:
        options: any of `OPTIONS`, by the names of PaddleNLP's CompressionArguments.
    """
    for option, value in options.items():
        if value not in OPTIONS[option]:
            reason = BROKEN.get((option, value))
            problem = f"{value!r} does not work here: {reason}" if reason else f"is {value!r}"
            raise InputError(option, problem, f"one of {', '.join(map(str, OPTIONS[option]))}")


def quantize_static(
    source: str | os.PathLike,
    target: str | os.PathLike,
    calibration,
    *,
    algo: str = "hist",
    batch_size: int = 4,
    batch_nums: int | None = 1,
    weight_quantize_type: str = "channel_wise_abs_max",
    activation_quantize_type: str = "range_abs_max",
    seed: int = 42,
    name: str = "model",
    limits: Mapping[str, float] | None = None,
) -> Path:
    """Quantize the matrix products of a static model to INT8.

    Args:
        source: a directory of `export_model`, or the common path of its files.
        target: the directory for `name`.pdmodel and `name`.pdiparams; deploy.json and the
            tokenizer go with them.
        calibration: texts as features (dicts with the model's inputs: a list or a Dataset), of
            which batch_size x batch_nums are drawn by `seed`; or ready batches (a DataLoader, or a
            list of dicts of arrays of shape [N, L]), of which the first `batch_nums` are taken.
            Training data, never the data to be scored on.
        algo: how a scale is read off a tensor's values. abs_max: their largest. avg: the mean of
            each row's largest. hist: the limit that 99.99% lie below. mse, emd: the limit whose
            rounding changes the values least, by mean squared error, or in mean and deviation. KL:
            the limit that keeps their histogram most alike (Migacz, 2017).
        batch_size, batch_nums: batch_nums None means all of `calibration`.
        weight_quantize_type: one scale per output ("channel_wise_abs_max"), or one for the whole
            matrix ("abs_max"). (Square matrices get one in either case: Paddle Inference mistakes
            their axis.)
        activation_quantize_type: what the file calls the scales of activations; their values come
            from `algo`.
        limits: of activations, by their names in the program; they replace those of `algo`.

    Returns:
        The common path of the new files. The same call gives the same bytes.

    Raises:
        InputError: an option that does not work, no calibration data, data that lack an input or
            hold something other than ids of tokens.
    """
    types = {
        "weight_quantize_type": weight_quantize_type,
        "activation_quantize_type": activation_quantize_type,
    }
    check_options(algo=algo, **types)
    source, target = find_files(source), Path(target)
    program_file = source.with_name(source.name + PROGRAM)
    with static_mode() as executor:
        program, names, _ = load_program(source, executor)
    # outside static mode, in which a Dataset of tensors would end the process
    padding = describe(source).get("pad_token_id", 0)
    drawn = _calibration_batches(calibration, names, batch_size, batch_nums, seed, padding)
    tables = read_program(program_file)
    batches = [
        check_inputs(batch, names, tables.rows, tables.positions, "calibration") for batch in drawn
    ]
    with static_mode(quiet=True) as executor:
        loader = paddle.io.DataLoader(
            [tuple(batch[name].astype("int64") for name in names) for batch in batches],
            places=paddle.CPUPlace(),
            feed_list=[program.global_block().var(name) for name in names],
            batch_size=None,
            return_list=False,
        )
        with new_files(target, name) as temporary:
            quantizer = _Quantizer(
                executor=executor,
                data_loader=loader,
                model_dir=str(source.parent),
                model_filename=program_file.name,
                params_filename=source.name + WEIGHTS,
                batch_size=len(batches[0][names[0]]),
                batch_nums=len(batches),
                algo=algo,
                hist_percent=HIST_PERCENT,
                quantizable_op_type=["matmul", "matmul_v2"],
                **types,
                onnx_format=True,
            )
            quantizer.fixed_limits = dict(limits or {})
            quantizer.quantize()
            made = temporary / (name + PROGRAM)
            quantizer.save_quantized_model(str(temporary), made.name, name + WEIGHTS)
            _sort_operators(made, program_file)
            copy_companions(source, temporary)
    return target / name


def _calibration_batches(
    calibration,
    names: Sequence[str],
    batch_size: int = 4,
    batch_nums: int | None = 1,
    seed: int = 42,
    pad_token_id: int = 0,
) -> list[dict[str, np.ndarray]]:
    """Batches of a program's inputs, of features or ready batches as for `quantize_static`."""
    expected = f"features or batches with {', '.join(names)}"
    ready = isinstance(calibration, paddle.io.DataLoader)
    items = list(islice(calibration, batch_nums)) if ready else calibration
    if isinstance(items, Mapping) or not len(items) or not isinstance(items[0], Mapping):
        raise InputError("calibration", f"is {_kind(items)}", f"a list of {expected}")
    if names[0] not in items[0]:
        raise InputError("calibration", f"has no column {names[0]!r}", expected)
    if np.ndim(items[0][names[0]]) < 2:  # features: one row each
        order = np.random.RandomState(seed).permutation(len(items))
        if batch_nums is not None:
            order = order[: batch_size * batch_nums]
        chunks = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
        return [
            pad_features([items[int(index)] for index in chunk], names, pad_token_id)
            for chunk in chunks
        ]
    return [items[index] for index in range(min(batch_nums or len(items), len(items)))]


def _kind(items) -> str:
    if isinstance(items, Mapping):
        return "one example"
    return f"a {type(items).__name__} of {type(items[0]).__name__}" if len(items) else "empty"


def pad_features(
    features: Sequence[Mapping], names: Sequence[str], pad_token_id: int
) -> dict[str, np.ndarray]:
    """Pad features to the longest one.

    Returns:
        For each of `names` that the features have, an array of shape [features, longest].
    """
    columns = {name: [row[name] for row in features] for name in names if name in features[0]}
    return {
        name: Pad(pad_val=pad_token_id if name == "input_ids" else 0)([*map(np.asarray, rows)])
        for name, rows in columns.items()
    }


class _Quantizer(PostTrainingQuantization):
    """Paddle's, with our own limits where its are too slow, crash or are fixed."""

    fixed_limits: Mapping[str, float]
    _algo: str  # these three are set by Paddle
    _quantized_act_var_name: Any
    _quantized_weight_var_name: Any

    def _collect_target_varnames(self) -> None:
        super()._collect_target_varnames()
        masks = _masks(self._program)
        self._zero_size_var_names |= masks  # Paddle's word for tensors without a scale
        # Paddle keeps names in sets, so their order, and with it the file, would change with the
        # process's hash seed
        names = self._quantized_act_var_name - masks
        self._quantized_act_var_name = _InOrder(sorted(names))
        self._quantized_weight_var_name = _InOrder(sorted(self._quantized_weight_var_name))

    def _sample_avg(self) -> None:
        self._sample_abs_max()  # for the weights; activations are overwritten at the end
        for name in self._quantized_act_var_name:
            values = np.atleast_1d(load_variable_data(self._scope, name))
            if values.size:
                largest = np.abs(values.reshape(len(values), -1)).max(axis=1)
                self._quantized_var_avg.setdefault(name, []).append(float(largest.mean()))

    def _sample_histogram(self) -> None:
        for name in self._quantized_act_var_name:
            values = np.abs(load_variable_data(self._scope, name))
            if values.size:
                histogram = self._sampling_act_histogram[name]
                ends = histogram[1][0], histogram[1][-1]
                histogram[0] += np.histogram(values, self._histogram_bins, ends)[0]

    def _sample_limits(self) -> None:
        """Paddle's search of a limit, on a histogram of the values instead of on all of them."""
        if not self._quantized_threshold:
            self._sample_abs_max()  # for the weights
        for name in self._quantized_act_var_name:
            values = load_variable_data(self._scope, name).reshape(-1)
            if not values.size:
                continue
            largest = float(np.abs(values).max()) or 1e-8
            places = ((values / largest + 1) * (BINS / 2)).astype("int32")
            shares = np.bincount(np.minimum(places, BINS - 1), minlength=BINS) / values.size
            limit, value = _best_limit(shares, largest, self._algo)
            if value <= self._best_calibration_loss.get(name, np.inf):
                self._best_calibration_loss[name] = value
                self._quantized_threshold[name] = limit

    _sample_mse = _sample_emd = _sample_limits

    def _calculate_kl_hist_threshold(self) -> None:
        algo, self._algo = self._algo, "hist"
        super()._calculate_kl_hist_threshold()  # of the weights, for KL
        self._algo = algo
        if algo == "KL":
            for name, (counts, edges) in self._sampling_act_histogram.items():
                limit = _kl_threshold(counts, edges[1] - edges[0], self._activation_bits)
                self._quantized_var_threshold[name] = limit

    def _update_program(self) -> None:
        in_histograms = self._algo in ("hist", "KL")  # which Paddle keeps in their own table
        limits = self._quantized_var_threshold if in_histograms else self._quantized_threshold
        for name in self._quantized_weight_var_name:
            rows, columns = load_variable_data(self._scope, name).shape
            # Paddle Inference finds the axis of the scales by their number, and takes the wrong
            # one of a square matrix: one scale for all of it is then nearer to the truth
            if rows == columns and isinstance(limits[name], list):
                limits[name] = [max(limits[name])] * len(limits[name])
        limits.update(self.fixed_limits)
        super()._update_program()


def _masks(program: paddle.static.Program) -> set[str]:
    """The attention mask and the scores that it has been added to.

    It holds -10,000 where there is padding. A scale that reaches that far has steps of 79, and
    rounds all scores of attention to 0: the classifier of the course then loses ten points.
    """
    masks: set[str] = set()
    grows = {"attention_mask"}
    for operator in program.global_block().ops:
        starts = operator.type in ("equal", "not_equal")
        if starts or grows & set(operator.input_arg_names):
            masks |= set(operator.output_arg_names)
            if operator.type != "elementwise_add":
                grows |= set(operator.output_arg_names)
    return masks


class _InOrder(dict):
    """A set that keeps its order, with the two methods that Paddle calls."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(dict.fromkeys(names))

    def add(self, name: str) -> None:
        self[name] = None


def _best_limit(shares: np.ndarray, largest: float, algo: str) -> tuple[float, float]:
    """Find the limit, from 0.3 to 1 times the largest value, where rounding to 8 bits costs least.

    Args:
        shares: histogram of values from -largest to largest, with sum 1.
        algo: "mse", by mean squared error; "emd", by how far mean and standard deviation move.

    Returns:
        The limit and its cost.
    """
    values = ((np.arange(len(shares)) + 0.5) * (2 / len(shares)) - 1) * largest
    limits = largest * np.linspace(0.3, 1, 36)[:, None]
    rounded = np.clip(np.round(values / limits * 127), -128, 127) / 127 * limits
    if algo == "mse":
        costs = (rounded - values) ** 2 @ shares
    else:
        mean, spread = _moments(values[None], shares)
        means, spreads = _moments(rounded, shares)
        costs = abs(means - mean) + abs(spreads - spread)
    best = len(costs) - 1 - costs[::-1].argmin()  # the widest of equals, as Paddle's loop
    return float(limits[best, 0]), float(costs[best])


def _moments(rows: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each row's values."""
    means = rows @ shares
    return means, np.sqrt((rows - means[:, None]) ** 2 @ shares)


def _kl_threshold(counts: np.ndarray, bin_width: float, bits: int = 8) -> float:
    """The limit that loses least information: Paddle's `cal_kl_threshold` without its loops.

    For each limit from the middle on, the values above it are counted in the last bin below it
    (P), the bins are merged to 2 ** (bits - 1) - 1 levels (Q), and the limit with the smallest
    Kullback-Leibler divergence of Q from P wins.

    Args:
        counts: histogram of absolute values, beginning at about 0, shape [bins].
        bin_width: of each bin.

    Returns:
        The limit, in the unit of `bin_width`.
    """
    counts = np.asarray(counts, "float64")
    levels, middle = 2 ** (bits - 1) - 1, int((len(counts) - 1) * 0.5)
    limits = np.arange(middle, len(counts))
    limits = limits[(limits >= levels) & (counts[limits - 1] > 0)]
    if not limits.size:
        while middle > 0 and counts[middle] == 0:
            middle -= 1
        return float((middle + 0.5) * bin_width)

    def cumulative(values: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(values)])

    def entropy(values: np.ndarray) -> np.ndarray:
        return values * np.log(np.where(values > 0, values, 1))

    below, total = cumulative(counts), counts.sum()
    edges = np.arange(levels + 1) * (limits // levels)[:, None]
    edges[:, -1] = limits
    merged = np.diff(below[edges], axis=1)
    filled = np.diff(cumulative(counts > 0)[edges], axis=1)  # only these share a level's count
    last = counts[limits - 1]
    above = total - below[limits]
    own = cumulative(entropy(counts))[limits] - entropy(last) + entropy(last + above)
    mean = np.where(filled > 0, merged / np.maximum(filled, 1), 1)
    weight = merged.copy()
    weight[:, -1] += above
    cross = (weight * np.log(mean)).sum(axis=1)
    divergence = (own - cross) / total + np.log(below[limits]) - np.log(total)
    return float((limits[divergence.argmin()] + 0.5) * bin_width)


def _sort_operators(program: Path, source: Path) -> None:
    """Rewrite a quantized .pdmodel with its operators in the order of the .pdmodel it came from.

    Paddle's passes leave them in an order that depends on addresses in memory. Another order gives
    another file, and even other results: which operators oneDNN can fuse depends on it.
    """
    described, original = (
        framework_pb2.ProgramDesc.FromString(file.read_bytes()) for file in (program, source)
    )
    block = described.blocks[0]
    operators = [copy.copy(operator) for operator in block.ops]
    # a name may be written twice (once for its reader, once as an output): who reads which matters
    last_writer: dict[str, int] = {}
    needs: list[list[int]] = []
    maker: dict[str, int] = {}
    for index, operator in enumerate(operators):
        needs.append([last_writer[n] for n in _names(operator.inputs) if n in last_writer])
        last_writer |= dict.fromkeys(_names(operator.outputs), index)
        if not operator.type.endswith("quantize_linear"):
            maker |= dict.fromkeys(_names(operator.outputs), index)
    ordered: dict[int, None] = {}

    def put(index: int) -> None:
        if index not in ordered:
            for need in needs[index]:
                put(need)
            ordered[index] = None

    for operator in original.blocks[0].ops:
        for name in _names(operator.outputs):
            if name in maker:
                put(maker[name])
    rest = sorted(range(len(operators)), key=lambda index: _names(operators[index].outputs))
    for index in sorted(rest, key=lambda index: operators[index].type == "fetch"):
        put(index)
    variables = sorted((copy.copy(one) for one in block.vars), key=lambda one: one.name)
    del block.ops[:], block.vars[:]
    for index in ordered:
        block.ops.append(operators[index])
    block.vars.extend(variables)
    program.write_bytes(described.SerializeToString(deterministic=True))


def _names(slots: Iterable) -> list[str]:
    return [name for slot in slots for name in slot.arguments]
