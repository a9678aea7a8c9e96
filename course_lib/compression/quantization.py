"""Static quantisation after training: INT8 weights, and INT8 scales read off a few batches.

Paddle's PostTrainingQuantization does the work, in the format (`onnx_format=True`) that Paddle
Inference runs in real INT8 on a CPU. Mended here are its algorithms KL, whose loops over Python
lists take minutes, avg, which stops with an IndexError at tensors without an axis, and mse and emd,
which compare all values 36 times; its scales of the attention mask and of square matrices, which
cost the course's classifier ten points; and the order of its operators, which changes every time.
What does not work in paddle 2.6.2 is refused with the reason (`REFUSED`).
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from course_lib.deploy.export import (
    PROGRAM,
    WEIGHTS,
    check_file,
    copy_companions,
    describe,
    find_files,
    new_files,
)
from course_lib.deploy.paddle_engine import table_rows
from course_lib.deploy.predictor import Predictor
from course_lib.runtime import InputError
from course_lib.runtime.errors import whole

import numpy as np
import paddle
import pandas as pd
from paddle.base.proto import framework_pb2
from paddle.static.quantization import PostTrainingQuantization, post_training_quantization
from paddle.static.quantization.utils import load_variable_data

ALGORITHMS = ("hist", "mse", "KL", "emd", "avg", "abs_max")
WEIGHT_TYPES = ("channel_wise_abs_max", "abs_max")
ACTIVATION_TYPES = ("range_abs_max", "moving_average_abs_max", "abs_max")
OPERATORS = ("matmul", "matmul_v2")
HIST_PERCENT = 0.9999  # as PaddleNLP sets it
HISTOGRAMS = ("hist", "KL")  # algorithms whose limits Paddle keeps in a table of their own
BINS = 8192  # of the histograms that mse and emd are computed from
REFUSED = {
    ("algo", "min_max"): "paddle 2.6.2 only notes the limits as attributes and quantises nothing",
    ("round_type", "adaround"): "paddle 2.6.2 rounds the weights to whole numbers, which the "
    "format that runs in INT8 then scales and rounds once more, so the model's output is wrong",
    ("bias_correction", True): "paddle 2.6.2 leaves it out, without a word, in the format that "
    "runs in INT8",
}


def check_options(
    algo: str = "hist",
    weight_quantize_type: str = "channel_wise_abs_max",
    activation_quantize_type: str | None = "range_abs_max",
    round_type: str = "round",
    bias_correction: bool = False,
) -> None:
    """Refuse what is unknown, and what this version of paddle cannot do.

    Raises:
        InputError: it names the option, and the reason.
    """
    given = {"algo": algo, "round_type": round_type, "bias_correction": bias_correction}
    for (option, value), reason in REFUSED.items():
        if given[option] == value and type(given[option]) is type(value):
            known = {"algo": ALGORITHMS, "round_type": ("round",), "bias_correction": (False,)}
            expected = f"one of {', '.join(map(str, known[option]))}"
            raise InputError(option, f"{value!r} does not work here: {reason}", expected)
    for option, value, known in (
        ("algo", algo, ALGORITHMS),
        ("weight_quantize_type", weight_quantize_type, WEIGHT_TYPES),
        ("activation_quantize_type", activation_quantize_type, (*ACTIVATION_TYPES, None)),
        ("round_type", round_type, ("round",)),
        ("bias_correction", bias_correction, (False,)),
    ):
        if value not in known:
            raise InputError(option, f"is {value!r}", f"one of {', '.join(map(str, known))}")


def check_lists(
    algo_list: Sequence[str],
    batch_num_list: Sequence[int | None],
    batch_size_list: Sequence[int],
    **options,
) -> None:
    """Refuse lists for `search` that are empty or hold what cannot work.

    Args:
        options: as for `check_options`, for every algorithm.

    Raises:
        InputError: it names the list, or the option.
    """
    lists = {"algo_list": algo_list, "batch_num_list": batch_num_list}
    for name, values in {**lists, "batch_size_list": batch_size_list}.items():
        if not isinstance(values, (list, tuple)) or not values:
            raise InputError(name, f"is {values!r}", "a list with one value at least")
    for algo in algo_list:
        check_options(algo, **options)
    for name, values in (("batch_num_list", batch_num_list), ("batch_size_list", batch_size_list)):
        for value in values:
            if value is not None or name == "batch_size_list":
                whole(name, value, 1)


def one_number(name: str, value) -> float:
    """What a function of the user gives, as a float.

    Raises:
        InputError: no number, or nan: no other score would be higher, nor lower.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        problem = f"gives {type(value).__name__}"
        raise InputError(name, problem, "one number, higher is better") from None
    if math.isnan(number):
        raise InputError(name, "gives nan", "one number, higher is better")
    return number


def quantize_static(
    source: str | os.PathLike,
    target: str | os.PathLike,
    calibration,
    *,
    algo: str = "hist",
    batch_size: int = 4,
    batch_nums: int | None = 1,
    collate: Callable | None = None,
    weight_quantize_type: str = "channel_wise_abs_max",
    activation_quantize_type: str | None = "range_abs_max",
    round_type: str = "round",
    bias_correction: bool = False,
    embeddings: bool = False,
    quantizable_op_type: Sequence[str] = OPERATORS,
    seed: int = 42,
    name: str = "model",
    scales: Mapping[str, float] | None = None,
) -> Path:
    """Quantise the matrix products of a static model to INT8.

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
        collate: makes a batch of a list of features; by default they are padded.
        weight_quantize_type: a scale for each output, or one for the whole matrix. (Square
            matrices get one in either case: Paddle Inference mistakes their axis.)
        activation_quantize_type: what the file calls the scales of activations (None: the default,
            range_abs_max); their values come from `algo`.
        round_type, bias_correction: only "round" and False work here, see `REFUSED`.
        embeddings: store embedding tables as INT8 too (`quantize_embeddings`).
        quantizable_op_type: Paddle's names of the operators to quantise.
        scales: limits of tensors, by their names in the program, that go before those of `algo`.

    Returns:
        The common path of the new files. The same call gives the same bytes.

    Raises:
        InputError: an option that does not work, no calibration data, data that lack an input or
            hold something else than ids of tokens, a scale of a tensor that there is not.
    """
    check_options(algo, weight_quantize_type, activation_quantize_type, round_type, bias_correction)
    supported = post_training_quantization.SUPPORT_QUANTIZATION_OP_DICT
    if isinstance(quantizable_op_type, str) or not quantizable_op_type:
        problem = f"is {quantizable_op_type!r}"
        raise InputError("quantizable_op_type", problem, 'a list, such as ["matmul_v2"]')
    for kind in quantizable_op_type:
        if kind not in supported:
            raise InputError("quantizable_op_type", f"{kind!r} cannot be quantised", "matmul_v2")
    source, target = find_files(source), Path(target)
    with static_mode() as executor:
        program, names, _ = load_program(source, executor)
        for tensor, limit in (scales or {}).items():
            if not program.global_block().has_var(tensor):
                raise InputError("scales", f"names {tensor!r}", "a tensor of the program")
            if one_number("scales", limit) <= 0 or math.isinf(limit):
                raise InputError("scales", f"gives {limit} for {tensor}", "a number above 0")
        batches = calibration_batches(
            calibration,
            names,
            batch_size,
            batch_nums,
            collate,
            seed,
            describe(source).get("pad_token_id", 0),
        )
        _check_ids(batches, names, source)
        loader = paddle.io.DataLoader(
            _Batches(batches),
            places=paddle.CPUPlace(),
            feed_list=[program.global_block().var(name) for name in names],
            batch_size=None,
            return_list=False,
        )
        with _quietly():
            quantiser = _Quantiser(
                executor=executor,
                data_loader=loader,
                model_dir=str(source.parent),
                model_filename=source.name + PROGRAM,
                params_filename=source.name + WEIGHTS,
                batch_size=len(batches[0][0]),
                batch_nums=len(batches),
                algo=algo,
                hist_percent=HIST_PERCENT,
                quantizable_op_type=list(quantizable_op_type),
                weight_quantize_type=weight_quantize_type,
                activation_quantize_type=activation_quantize_type or "range_abs_max",
                onnx_format=True,
            )
            quantiser.given = dict(scales or {})
            quantiser.quantize()
            with new_files(target, name) as temporary:
                quantiser.save_quantized_model(
                    str(temporary), model_filename=name + PROGRAM, params_filename=name + WEIGHTS
                )
                _put_in_order(temporary / (name + PROGRAM), source)
                copy_companions(source, temporary)
    made = target / name
    return quantize_embeddings(made, made) if embeddings else made


class _Quantiser(PostTrainingQuantization):
    """Paddle's, with thresholds of our own where its are too slow, crash or are given."""

    given: Mapping[str, float]
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

    def _sample_mse(self) -> None:
        self._sample_limits(_squared_error)

    def _sample_emd(self) -> None:
        self._sample_limits(_moved)

    def _sample_limits(self, loss: Callable) -> None:
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
            limit, value = best_limit(shares, largest, loss)
            if value <= self._best_calibration_loss.get(name, np.inf):
                self._best_calibration_loss[name] = value
                self._quantized_threshold[name] = limit

    def _calculate_kl_hist_threshold(self) -> None:
        wanted, self._algo = self._algo, "hist"
        super()._calculate_kl_hist_threshold()  # of the weights, for KL
        self._algo = wanted
        if wanted == "KL":
            for name, (counts, edges) in self._sampling_act_histogram.items():
                limit = kl_threshold(counts, edges[1] - edges[0], self._activation_bits)
                self._quantized_var_threshold[name] = limit

    def _update_program(self) -> None:
        found = self._quantized_var_threshold if self._algo in HISTOGRAMS else None
        found = self._quantized_threshold if found is None else found
        for name in self._quantized_weight_var_name:
            rows, columns = load_variable_data(self._scope, name).shape
            # Paddle Inference finds the axis of the scales by their number, and takes the wrong
            # one of a square matrix: one scale for all of it is then nearer to the truth
            if rows == columns and isinstance(found[name], list):
                found[name] = [max(found[name])] * len(found[name])
        found.update(self.given)
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


def best_limit(shares: np.ndarray, largest: float, loss: Callable) -> tuple[float, float]:
    """The limit, from 0.3 to 1 times the largest value, that rounding to 8 bits hurts least by.

    Args:
        shares: histogram of values from -largest to largest, summing up to 1.
        loss: (values, rounded values, shares) -> a loss for each row of rounded values.

    Returns:
        The limit and its loss.
    """
    values = ((np.arange(len(shares)) + 0.5) * (2 / len(shares)) - 1) * largest
    limits = largest * np.linspace(0.3, 1, 36)[:, None]
    rounded = np.clip(np.round(values / limits * 127), -128, 127) / 127 * limits
    losses = loss(values, rounded, shares)
    best = len(losses) - 1 - losses[::-1].argmin()  # the widest of equals, as Paddle's loop
    return float(limits[best, 0]), float(losses[best])


def _squared_error(values, rounded, shares) -> np.ndarray:
    return (rounded - values) ** 2 @ shares


def _moved(values, rounded, shares) -> np.ndarray:
    """How far the mean and the standard deviation move."""
    means = rounded @ shares
    spreads = np.sqrt((rounded - means[:, None]) ** 2 @ shares)
    mean = values @ shares
    return abs(means - mean) + abs(spreads - np.sqrt((values - mean) ** 2 @ shares))


class _InOrder(dict):
    """A set that keeps its order, with the two methods that Paddle calls."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(dict.fromkeys(names))

    def add(self, name: str) -> None:
        self[name] = None


def _put_in_order(program: Path, source: Path) -> None:
    """Bring the operators of a quantised program into the order of the program it was made from.

    Paddle's passes leave them in an order that depends on addresses in memory. Another order gives
    another file, and even other results: which operators oneDNN can fuse depends on it.
    """
    described = framework_pb2.ProgramDesc.FromString(program.read_bytes())
    original = framework_pb2.ProgramDesc.FromString(
        source.with_name(source.name + PROGRAM).read_bytes()
    )
    block = described.blocks[0]
    operators = [copy.copy(operator) for operator in block.ops]

    def names(slots) -> list[str]:
        return [name for slot in slots for name in slot.arguments]

    # a name may be written twice (once for its reader, once as an output): who reads which matters
    writer: dict[str, int] = {}
    needs: list[list[int]] = []
    makes: dict[str, int] = {}
    for index, operator in enumerate(operators):
        needs.append([writer[name] for name in names(operator.inputs) if name in writer])
        writer |= dict.fromkeys(names(operator.outputs), index)
        if not operator.type.endswith("quantize_linear"):
            makes |= dict.fromkeys(names(operator.outputs), index)
    ordered: dict[int, None] = {}

    def put(index: int) -> None:
        if index not in ordered:
            for need in needs[index]:
                put(need)
            ordered[index] = None

    for operator in original.blocks[0].ops:
        for name in names(operator.outputs):
            if name in makes:
                put(makes[name])
    rest = sorted(range(len(operators)), key=lambda index: names(operators[index].outputs))
    for index in sorted(rest, key=lambda index: operators[index].type == "fetch"):
        put(index)
    variables = sorted((copy.copy(one) for one in block.vars), key=lambda one: one.name)
    del block.ops[:], block.vars[:]
    for index in ordered:
        block.ops.append(operators[index])
    block.vars.extend(variables)
    program.write_bytes(described.SerializeToString(deterministic=True))


def kl_threshold(counts: np.ndarray, bin_width: float, bits: int = 8) -> float:
    """The limit that loses least information: `cal_kl_threshold` of paddle, without its loops.

    For each limit from the middle on, the values above it are counted in the last bin below it
    (P), the bins are merged to 2 ** (bits - 1) - 1 levels (Q), and that with the smallest
    Kullback-Leibler divergence of Q from P is taken.

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


def quantize_embeddings(source: str | os.PathLike, target: str | os.PathLike) -> Path:
    """Store embedding tables as INT8 with a scale a row; they are a quarter as large.

    The rows that a batch needs are scaled back after they have been looked up, so the model runs as
    before, and other operators stay as they are. (PaddleSlim's `quant_embedding`, which PaddleNLP's
    "+embeddings" calls, has one scale a table, of which a few large weights are the measure.)

    Args:
        source: a static model, quantised or not: a directory, or the common path of its files.
        target: the common path of the new files (it may be that of the old ones), or an existing
            directory, in which they are called as the old ones.

    Returns:
        The common path of the new files.

    Raises:
        InputError: no model is there, or it has no table in FP32.
    """
    source, target = find_files(source), Path(target)
    if target.is_dir():
        target = target / source.name
    with static_mode() as executor, _quietly():
        program, names, outputs = load_program(source, executor)
        block, scope, place = program.global_block(), paddle.static.global_scope(), executor.place
        tables = []
        for operator in block.ops:
            if operator.type == "lookup_table_v2" and operator.input("W")[0] not in tables:
                tables.append(operator.input("W")[0])
        tables = [
            name
            for name in tables
            if block.var(name).dtype == paddle.float32 and not name.endswith(".scale")
        ]
        if not tables:
            raise InputError(source, "has no embedding table in FP32", "a model with embeddings")
        for table in tables:
            weights = np.array(scope.find_var(table).get_tensor())
            scales = np.abs(weights).max(axis=1, keepdims=True) / 127
            whole_numbers = np.round(weights / np.where(scales > 0, scales, 1)).astype("int8")
            for suffix, value in ((".int8", whole_numbers), (".scale", scales.astype("float32"))):
                block.create_var(
                    name=table + suffix,
                    shape=value.shape,
                    dtype=str(value.dtype),
                    persistable=True,
                    stop_gradient=True,
                )
                scope.var(table + suffix).get_tensor().set(value, place)
        index = 0
        while index < len(block.ops):
            operator = block.ops[index]
            if operator.type == "lookup_table_v2" and operator.input("W")[0] in tables:
                _look_up_int8(block, index, operator)
                index += 3
            index += 1
        for table in tables:
            block._remove_var(table)
        with new_files(target.parent, target.name) as temporary:
            paddle.static.save_inference_model(
                str(temporary / target.name),
                [block.var(name) for name in names],
                outputs,
                executor,
                program=program,
                clip_extra=True,
            )
            if source.parent != target.parent:
                copy_companions(source, temporary)
    return target


def _look_up_int8(block, index: int, operator) -> None:
    """Put four operators in the place of one; the last has the output of the old one."""
    table, ids, out = operator.input("W")[0], operator.input("Ids")[0], operator.output("Out")[0]
    padding, shape = operator.attr("padding_idx"), block.var(out).shape
    block._remove_op(index)
    parts = {}
    for suffix, dtype, width in (("int8", "int8", shape[-1]), ("scale", "float32", 1)):
        parts[suffix] = block.create_var(
            name=f"{out}.{suffix}", shape=[*shape[:-1], width], dtype=dtype
        )
        block._insert_op(
            index + len(parts) - 1,
            type="lookup_table_v2",
            inputs={"W": [f"{table}.{suffix}"], "Ids": [ids]},
            outputs={"Out": [parts[suffix]]},
            attrs={"padding_idx": padding if suffix == "int8" else -1},
        )
    cast = block.create_var(name=f"{out}.cast", shape=shape, dtype="float32")
    block._insert_op(
        index + 2,
        type="cast",
        inputs={"X": [parts["int8"]]},
        outputs={"Out": [cast]},
        attrs={"in_dtype": parts["int8"].dtype, "out_dtype": cast.dtype},
    )
    block._insert_op(
        index + 3,
        type="elementwise_mul",
        inputs={"X": [cast], "Y": [parts["scale"]]},
        outputs={"Out": [out]},
        attrs={"axis": -1},
    )


def search(
    source: str | os.PathLike,
    target: str | os.PathLike,
    calibration,
    evaluate: Callable[[Predictor], float],
    *,
    algo_list: Sequence[str] = ("mse", "KL"),
    batch_num_list: Sequence[int | None] = (1,),
    batch_size_list: Sequence[int] = (4,),
    name: str = "int8",
    **options,
) -> tuple[Path, pd.DataFrame]:
    """Quantise with every combination, and find the best.

    Each is kept in a directory called as upstream calls it: `hist4_1` for algorithm, batch size and
    number of batches.

    Args:
        evaluate: Predictor -> a number, higher is better. Not on test data: the best of many on
            test data is better there than on any other.
        algo_list, batch_num_list, batch_size_list: upstream's arguments and defaults.
        options: as for `quantize_static`.

    Returns:
        The common path of the best one's files, the first of equals; and a table with columns path,
        algo, batch_size, batch_nums and score, a row a combination.

    Raises:
        InputError: as `quantize_static`; a list that is empty or holds what cannot work, before
            anything is computed; `evaluate` gives no number.
    """
    if "algo" in options or "batch_size" in options or "batch_nums" in options:
        raise InputError("search", "one value and a list of values", "the list alone")
    if not callable(evaluate):
        raise InputError("evaluate", f"is {evaluate!r}", "a function of a Predictor")
    asked = ("weight_quantize_type", "activation_quantize_type", "round_type", "bias_correction")
    given = {key: options[key] for key in asked if key in options}
    check_lists(algo_list, batch_num_list, batch_size_list, **given)
    table = []
    for algo in algo_list:
        for batch_size in batch_size_list:
            for batch_nums in batch_num_list:
                how: dict[str, Any] = {
                    "algo": algo,
                    "batch_size": batch_size,
                    "batch_nums": batch_nums,
                }
                directory = Path(target, f"{algo}{batch_size}_{batch_nums}")
                path = quantize_static(source, directory, calibration, name=name, **how, **options)
                score = one_number("evaluate", evaluate(Predictor(path)))
                table.append({"path": path, **how, "score": score})
    frame = pd.DataFrame(table)
    return frame["path"][frame["score"].idxmax()], frame


# ---- calibration data


class _Batches(paddle.io.Dataset):
    def __init__(self, batches: list[tuple[np.ndarray, ...]]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        return self.batches[index]


def calibration_batches(
    calibration,
    names: Sequence[str],
    batch_size: int = 4,
    batch_nums: int | None = 1,
    collate: Callable | None = None,
    seed: int = 42,
    pad_token_id: int = 0,
) -> list[tuple[np.ndarray, ...]]:
    """Batches of whole numbers in the order of a program's inputs; see `quantize_static`.

    Raises:
        InputError: there is nothing to calibrate with, or what there is does not fit.
    """
    batch_size, seed = whole("batch_size", batch_size, 1), whole("seed", seed, 0, 2**32 - 1)
    if collate is not None and not callable(collate):
        raise InputError("collate", f"is {collate!r}", "a function of a list of features")
    if batch_nums is not None:
        batch_nums = whole("batch_nums", batch_nums, 1)
    expected = f"features or batches with {', '.join(names)}"
    if isinstance(calibration, paddle.io.TensorDataset):
        problem = "is a TensorDataset, whose rows are tensors without names"
        raise InputError("calibration", problem, expected)
    if isinstance(calibration, paddle.io.DataLoader):
        items: list = []
        for batch in calibration:
            if len(items) == batch_nums:
                break
            items.append(batch)
    elif hasattr(calibration, "__len__") and hasattr(calibration, "__getitem__"):
        if isinstance(calibration, (str, bytes, Mapping)):
            kind = type(calibration).__name__
            raise InputError("calibration", f"is one {kind}", expected)
        items = calibration
    else:
        raise InputError("calibration", f"is {type(calibration).__name__}", expected)
    if len(items) == 0:
        raise InputError("calibration", "is empty", "at least one example to read scales off")
    first = items[0]
    if not isinstance(first, Mapping):
        raise InputError("calibration", f"holds {type(first).__name__}", expected)
    for name in names:
        if name not in first and name != "token_type_ids":
            raise InputError("calibration", f"has no column {name!r}", expected)
    if np.ndim(_array(first[names[0]])) < 2:  # features: rows of their own
        order = np.random.RandomState(seed).permutation(len(items))
        if batch_nums is not None:
            order = order[: batch_size * batch_nums]
        rows = [items[int(index)] for index in order]
        chunks = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
        items = [(collate or Pad(names, pad_token_id))(chunk) for chunk in chunks]
    elif batch_nums is not None:
        items = [items[index] for index in range(min(batch_nums, len(items)))]
    batches = []
    where = "calibration" if collate is None else "collate"
    for item in items:
        if not isinstance(item, Mapping):
            raise InputError(where, f"gives {type(item).__name__} as a batch", expected)
        arrays = {}
        for name in names:
            if name in item:
                arrays[name] = _ids(where, name, item[name])
            elif name == "token_type_ids" and arrays:
                arrays[name] = np.zeros_like(arrays[names[0]])
            else:
                raise InputError(where, f"gives a batch without {name!r}", expected)
        _check_one_shape(where, arrays)
        batches.append(tuple(arrays.values()))
    return batches


def _ids(where: str, name: str, value) -> np.ndarray:
    value = _array(value)
    if value.size == 0:
        raise InputError(where, f"has no tokens in {name}", "one token at least")
    if value.dtype.kind not in "iub":
        problem = f"{name} holds {value.dtype}" if value.dtype.kind == "f" else f"{name} is none"
        raise InputError(where, problem, "whole numbers: ids of tokens")
    return value.astype("int64")


def _check_one_shape(where: str, arrays: Mapping[str, np.ndarray]) -> None:
    shapes = {name: list(value.shape) for name, value in arrays.items()}
    first, *others = shapes
    for name in others:
        if shapes[name] != shapes[first]:
            problem = f"{name} has shape {shapes[name]} for {shapes[first]} of {first}"
            raise InputError(where, problem, "one shape for all")


def _check_ids(batches: list[tuple[np.ndarray, ...]], names: Sequence[str], source: Path) -> None:
    """Beyond the tables of its embeddings Paddle would end the whole process."""
    rows, positions = table_rows(source.with_name(source.name + PROGRAM))
    for batch in batches:
        for name, values in zip(names, batch, strict=True):
            most = rows.get(name)
            if most is not None and not 0 <= values.min() <= values.max() < most:
                wrong = values[(values < 0) | (values >= most)].flat[0]
                raise InputError("calibration", f"{name} holds {wrong}", f"0 to {most - 1}")
            if positions is not None and values.shape[-1] > positions:
                problem = f"has {values.shape[-1]} tokens in a row"
                raise InputError("calibration", problem, f"at most {positions}")


def _array(value) -> np.ndarray:
    if isinstance(value, paddle.Tensor):
        return value.numpy()
    try:
        return np.asarray(value)
    except ValueError:  # lists of several lengths
        return np.asarray(None)


class Pad:
    """Pads features to the longest of their batch.

    Args:
        names: of the model's inputs; all but the first may be absent, and are then 0.
        where: what the features are called, for messages.

    Raises:
        InputError: a row without its ids, with something else in their place, or with columns of
            different lengths.
    """

    def __init__(self, names: Sequence[str], pad_token_id: int, where: str = "calibration") -> None:
        self.names, self.pad_token_id, self.where = names, pad_token_id, where

    def __call__(self, rows: Sequence[Mapping]) -> dict[str, np.ndarray]:
        first, read = self.names[0], []
        for row in rows:
            if not isinstance(row, Mapping) or first not in row:
                raise InputError(self.where, f"has a row without {first!r}", "one in each row")
            read.append({n: _ids(self.where, n, row[n]) for n in self.names if n in row})
            _check_one_shape(self.where, read[-1])
        length = max(len(row[first]) for row in read)
        batch = {}
        for name in self.names:
            filler = self.pad_token_id if name == "input_ids" else 0
            batch[name] = np.full((len(rows), length), filler, "int64")
            for index, row in enumerate(read):
                if name in row:
                    batch[name][index, : len(row[name])] = row[name]
        return batch


# ---- paddle's static mode


@contextlib.contextmanager
def static_mode() -> Iterator[paddle.static.Executor]:
    """Static mode and a scope of its own inside the block; the mode before is put back."""
    dynamic = paddle.in_dynamic_mode()
    paddle.enable_static()
    try:
        with paddle.static.scope_guard(paddle.static.Scope()), paddle.utils.unique_name.guard():
            yield paddle.static.Executor(paddle.CPUPlace())
    finally:
        if dynamic:
            paddle.disable_static()


def load_program(prefix: Path, executor) -> tuple[paddle.static.Program, list[str], list]:
    """Program, names of its inputs, and its outputs."""
    for ending in (PROGRAM, WEIGHTS):
        check_file(prefix.with_name(prefix.name + ending), describe(prefix))
    try:
        return tuple(paddle.static.load_inference_model(str(prefix), executor))
    except Exception as error:
        reason = " ".join(str(error).split())[-200:]
        problem = f"cannot be loaded ({reason})"
        raise InputError(prefix, problem, "what export_model wrote") from None


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Leave out Paddle's log and bars; its tqdm has no switch."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        levels = [logger.level for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


_LOGGERS = (
    "paddle.static.quantization.post_training_quantization",
    "paddle.static.quantization.quantization_pass",
    "paddle.static.io",
)
