"""Embedding tables in INT8: the largest part of a small Chinese model's file."""

import os
from pathlib import Path

from ..deploy.files import copy_companions, find_files, new_files
from ..runtime import InputError
from .program import load_program, static_mode

import numpy as np
import paddle


def quantize_embeddings(source: str | os.PathLike, target: str | os.PathLike) -> Path:
    """Store embedding tables as INT8 with one scale per row, in a quarter of the space.

    The rows that a batch needs are scaled back after the look-up, so the model runs as before, and
    all other operators stay as they are. (PaddleSlim's `quant_embedding`, which PaddleNLP's
    "+embeddings" calls, has one scale per table, and a few large weights decide it.)

    Args:
        source: a static model, quantized or not: a directory, or the common path of its files.
        target: the common path of the new files (it may be that of the old ones), or an existing
            directory, which gets the files under their old name.

    Returns:
        The common path of the new files.

    Raises:
        InputError: there is no model, or it has no embedding table in FP32.
    """
    source, target = find_files(source), Path(target)
    if target.is_dir():
        target = target / source.name
    with static_mode(quiet=True) as executor:
        program, names, outputs = load_program(source, executor)
        block = program.global_block()
        lookups = [operator for operator in block.ops if _reads_fp32_table(block, operator)]
        if not lookups:
            raise InputError(source, "has no embedding table in FP32", "a model with embeddings")
        tables = dict.fromkeys(operator.input("W")[0] for operator in lookups)
        for table in tables:
            _add_int8_table(block, table, executor.place)
        for index in reversed(range(len(block.ops))):
            if _reads_fp32_table(block, block.ops[index]):
                _look_up_int8(block, index)
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


def _reads_fp32_table(block, operator) -> bool:
    if operator.type != "lookup_table_v2":
        return False
    table = operator.input("W")[0]
    return block.var(table).dtype == paddle.float32 and not table.endswith(".scale")


def _add_int8_table(block, table: str, place) -> None:
    """Put `table`.int8 and `table`.scale, float32 [rows, 1], into the block and the scope."""
    scope = paddle.static.global_scope()
    weights = np.array(scope.find_var(table).get_tensor())
    scales = np.abs(weights).max(axis=1, keepdims=True) / 127
    rounded = np.round(weights / np.where(scales > 0, scales, 1)).astype("int8")
    for suffix, value in ((".int8", rounded), (".scale", scales.astype("float32"))):
        block.create_var(
            name=table + suffix,
            shape=value.shape,
            dtype=str(value.dtype),
            persistable=True,
            stop_gradient=True,
        )
        scope.var(table + suffix).get_tensor().set(value, place)


def _look_up_int8(block, index: int) -> None:
    """Replace one look-up by four operators; the last one has the output of the old one."""
    operator = block.ops[index]
    table, ids, out = operator.input("W")[0], operator.input("Ids")[0], operator.output("Out")[0]
    padding, shape = operator.attr("padding_idx"), block.var(out).shape
    block._remove_op(index)
    whole = block.create_var(name=f"{out}.int8", shape=shape, dtype="int8")
    scale = block.create_var(name=f"{out}.scale", shape=[*shape[:-1], 1], dtype="float32")
    cast = block.create_var(name=f"{out}.cast", shape=shape, dtype="float32")
    look_up = "lookup_table_v2"
    operators = [
        (look_up, {"W": [f"{table}.int8"], "Ids": [ids]}, whole, {"padding_idx": padding}),
        (look_up, {"W": [f"{table}.scale"], "Ids": [ids]}, scale, {"padding_idx": -1}),
        ("cast", {"X": [whole]}, cast, {"in_dtype": whole.dtype, "out_dtype": cast.dtype}),
        ("elementwise_mul", {"X": [cast], "Y": [scale]}, out, {"axis": -1}),
    ]
    for place, (kind, inputs, output, attributes) in enumerate(operators, index):
        options = {"inputs": inputs, "outputs": {"Out": [output]}, "attrs": attributes}
        block._insert_op(place, type=kind, **options)
