"""The same model for ONNX Runtime: converted by paddle2onnx, corrected, checked, and run."""

import json
import os
import subprocess
import sys
from pathlib import Path

from ..models.pickles import failure_named
from ..runtime import InputError, machine
from .files import ONNX, PROGRAM, WEIGHTS, check_file, describe, file_of, find_files, new_files
from .program import read_program

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

OPSET = "17"  # version of ONNX's operators: the first with a layer norm
TABLES = "course_lib.tables"  # key of the file's metadata
_CONVERT = """
import os, sys
made, _ = os.dup(1), os.dup2(2, 1)  # what paddle2onnx prints is not the model
import PACKAGE, paddle2onnx
program, weights, opset = sys.argv[1:]
settings = {"auto_upgrade_opset": False, "verbose": False}
with open(made, "wb") as file:
    file.write(paddle2onnx.export(program, weights, None, int(opset), **settings))
""".replace("PACKAGE", machine.PACKAGE)


def convert(source: str | os.PathLike) -> Path:
    """Write `name`.onnx beside `name`.pdmodel, for batches of any size and length.

    paddle2onnx works in a process of its own, because it ends its process where it lacks an
    operator. Two things are corrected in what it writes: each embedding table comes with a mask of
    the same size, to be multiplied by it at each start (here it is, once); and each free dimension
    has a name of its own, as if the inputs' sizes might differ.

    Args:
        source: a directory of `export_model`, or the common path of its files.

    Returns:
        The file.

    Raises:
        InputError: the program is quantized (paddle2onnx would leave its weights in FP32;
            Paddle2ONNX 3705), holds an operator that paddle2onnx lacks, or is damaged.
    """
    prefix = find_files(source)
    program, weights = (file_of(prefix, ending) for ending in (PROGRAM, WEIGHTS))
    for file in (program, weights):
        check_file(file, describe(prefix))
    described = read_program(program)
    if described.quantized:
        problem = "is quantized, and would run in FP32 in ONNX Runtime"
        expected = "the FP32 export; Paddle Inference runs this one in INT8"
        raise InputError(program, problem, expected)
    target = file_of(prefix, ONNX)
    command = [sys.executable, "-c", _CONVERT, str(program), str(weights), OPSET]
    done = subprocess.run(command, capture_output=True, env=machine.child_environment())
    if done.returncode != 0 or not done.stdout:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason"]
        reason = " ".join([line for line in lines if "ONNX]" in line][-2:]) or lines[-1]
        raise InputError(program, f"cannot be converted ({reason})", "operators that ONNX has")
    model = onnx.load_from_string(done.stdout)
    _fold_masks(model.graph)
    _name_sizes(model.graph)
    tables = json.dumps({"rows": described.rows, "positions": described.positions})
    onnx.helper.set_model_props(model, {TABLES: tables})
    onnx.checker.check_model(model, full_check=True)
    with new_files(prefix.parent, prefix.name, endings=(ONNX,)) as temporary:
        onnx.save(model, temporary / target.name)
    return target


def _fold_masks(graph: onnx.GraphProto) -> None:
    """Multiply each embedding table by its constant mask, which zeroes the row of padding."""
    made_by = {node.output[0]: node for node in graph.node}
    for lookup in [node for node in graph.node if node.op_type == "Gather"]:
        product = made_by.get(lookup.input[0])
        if product is None or product.op_type != "Mul":
            continue
        factors = [made_by[name] for name in product.input if name in made_by]
        if [factor.op_type for factor in factors] != ["Constant", "Constant"]:
            continue
        values = [numpy_helper.to_array(factor.attribute[0].t) for factor in factors]
        table = numpy_helper.from_array(np.multiply(*values), product.output[0])
        product.CopyFrom(onnx.helper.make_node("Constant", [], list(product.output), value=table))
    read = {name for node in graph.node for name in node.input}
    unread = [n for n in graph.node if n.op_type == "Constant" and n.output[0] not in read]
    for node in unread:
        graph.node.remove(node)


def _name_sizes(graph: onnx.GraphProto) -> None:
    for value in [*graph.input, *graph.output]:
        sizes = zip(value.type.tensor_type.shape.dim, ("batch_size", "seq_len"), strict=False)
        for size, name in sizes:
            if size.dim_param:
                size.dim_param = name


class OnnxEngine:
    """An ONNX file, loaded; it has what `PaddleEngine` has."""

    quantized = int8 = False

    def __init__(self, prefix: Path, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what goes wrong is raised as well
        # waiting threads would take the cores from whoever brings the next batch
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        file = file_of(prefix, ONNX)
        with failure_named(file, "cannot be loaded", "what convert wrote"):
            providers = ["CPUExecutionProvider"]
            self._session = onnxruntime.InferenceSession(str(file), options, providers=providers)
            tables = json.loads(self._session.get_modelmeta().custom_metadata_map.get(TABLES, "{}"))
            self.rows: dict[str, int] = tables.get("rows", {})
            self.positions: int | None = tables.get("positions")
        self.types = {value.name: value.type[7:-1] for value in self._session.get_inputs()}
        self.input_names = list(self.types)

    def run(self, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Run one batch."""
        return self._session.run(None, arrays)
