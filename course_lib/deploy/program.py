"""What a .pdmodel file says about itself, and whether a batch fits it; read without running it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..runtime import InputError

import numpy as np
import paddle

_QUANTIZED = ("quantize_linear", "fake_quantize")  # operators: ours; those of PaddleSlim's export


@dataclass(frozen=True)
class Program:
    """A program as its file describes it.

    Attributes:
        operators: the type of each operator, in order.
        inputs: the number format of each input, by name, such as "int64".
        rows: of the tables that inputs are looked up in, by the names of these inputs.
        positions: rows of the table of positions; None where none is found.
    """

    operators: list[str]
    inputs: dict[str, str]
    rows: dict[str, int]
    positions: int | None

    @property
    def quantized(self) -> bool:
        """Whether it holds quantized operators."""
        return any(kind.startswith(_QUANTIZED) for kind in self.operators)


def read_program(path: Path) -> Program:
    """Read a .pdmodel file."""
    try:
        described = paddle.base.core.ProgramDesc(path.read_bytes())  # keeps its blocks alive
        blocks = [described.block(index) for index in range(described.num_blocks())]
        operators = [block.op(i) for block in blocks for i in range(block.op_size())]
        names = [op.output("Out")[0] for op in operators if op.type() == "feed"]
        variables = [blocks[0].find_var(name.encode()) for name in names]
        types = [str(variable.dtype()).rpartition(".")[2].lower() for variable in variables]
        if not names:  # of an empty file, which is a program without blocks
            raise ValueError("no inputs")
        return Program(
            operators=[op.type() for op in operators],
            inputs=dict(zip(names, types, strict=True)),
            **_table_rows(blocks[0], set(names)),
        )
    except Exception:  # paddle's own kinds, with pages of C++ in them
        raise InputError(path, "is damaged or no program", "what export_model wrote") from None


def _table_rows(block, inputs: set[str]) -> dict:
    """`rows` and `positions` of a Program."""
    rows: dict[str, int] = {}
    positions = None
    counted: set[str] = set()  # positions are counted by a cumulative sum of ones
    for operator in [block.op(index) for index in range(block.op_size())]:
        if operator.type() == "lookup_table_v2":
            table = block.find_var(operator.input("W")[0].encode())
            size, ids = int(table.shape()[0]), operator.input("Ids")[0]
            if ids in inputs:
                rows[ids] = min(size, rows.get(ids, size))
            elif ids in counted:
                positions = size if positions is None else min(size, positions)
        elif operator.type() == "cumsum" or counted.intersection(operator.input_arg_names()):
            counted |= set(operator.output_arg_names())
    return {"rows": rows, "positions": positions}


def check_inputs(
    inputs: Mapping[str, np.ndarray],
    names: Sequence[str],
    rows: Mapping[str, int],
    positions: int | None,
    where: str = "inputs",
) -> dict[str, np.ndarray]:
    """Refuse a batch that an engine would answer with nonsense, or end the whole process for.

    Beyond its tables Paddle ends the process, and ONNX Runtime counts backwards.

    Args:
        inputs: an array for each of `names`; "token_type_ids" may be absent and is then 0.
        rows, positions: of the tables, see `Program`.
        where: what the error message calls the inputs.

    Returns:
        The arrays in the order of `names`.

    Raises:
        InputError: an input is missing, empty, of another shape or not of whole numbers; it has an
            id or a length beyond the model's tables.
    """
    arrays: dict[str, np.ndarray] = {}
    shape = None
    for name in names:
        value = inputs.get(name)
        if value is None and name == "token_type_ids" and "input_ids" in inputs:
            value = np.zeros_like(np.asarray(inputs["input_ids"]))
        if value is None:
            raise InputError(where, f"{name} is missing", f"arrays {', '.join(names)}")
        value = np.ascontiguousarray(value)
        if value.dtype.kind not in "iub":
            raise InputError(where, f"{name} holds {value.dtype}", "whole numbers: ids of tokens")
        shape = shape or value.shape
        if value.size == 0 or value.shape != shape:
            problem = f"{name} has shape {list(value.shape)}"
            raise InputError(where, problem, f"one shape for all, first {list(shape)}")
        if name in rows and not 0 <= value.min() <= value.max() < rows[name]:
            wrong = value[(value < 0) | (value >= rows[name])].flat[0]
            raise InputError(where, f"{name} holds {wrong}", f"0 to {rows[name] - 1}")
        if positions is not None and value.shape[-1] > positions:
            problem = f"{name} has shape {list(value.shape)}"
            raise InputError(where, problem, f"at most {positions} tokens")
        arrays[name] = value
    return arrays
