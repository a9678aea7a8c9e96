"""Paddle Inference behind one call, in FP32 or in real INT8, with proof of which it is."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from course_lib.data import batchify_fn, convert_example
from course_lib.deploy.export import (
    DESCRIPTION,
    PROGRAM,
    WEIGHTS,
    check_file,
    describe,
    find_files,
)
from course_lib.runtime import InputError, machine
from course_lib.runtime.errors import whole

import numpy as np
import paddle
from paddle import inference
from paddlenlp.transformers import AutoTokenizer
from scipy.special import expit, softmax

QUANTISED = ("quantize_linear", "fake_quantize")  # operators: ours; those of PaddleSlim's export
VNNI = frozenset({"avx512_vnni", "avx_vnni"})  # instructions that multiply INT8 four at a time
PRIMITIVES = {  # those of oneDNN's that calculate; "reorder" only changes formats
    "inner_product": "fc",
    "matmul": "matmul",
    "binary": "add",
    "softmax": "softmax",
    "layer_normalization": "layer_norm",
    "eltwise": "activation",
}
_EXECUTED = re.compile(
    r"onednn_verbose,exec,cpu,(?P<primitive>\w+),(?P<kernel>[^,]*),[^,]*,(src|data)_(?P<format>\w+)"
)


class Predictor:
    """A static model, ready to run on the CPU.

    Args:
        path: a directory of `export_model` or of the quantisation, or the common path of its two
            files (`out/int8`).
        int8: run quantised operators in INT8. None means where the file has some. False runs a
            quantised file without INT8 kernels, which is far slower than FP32.
        threads: of one call; None means all cores that this process may use.
        mkldnn: use oneDNN's kernels; INT8 needs them.

    Attributes:
        quantised: whether the file holds quantised operators.
        int8: whether INT8 kernels are switched on.
        input_names, labels, max_length, threads: as they are.
        problem, thresholds: of a classifier of sequences, see `classify`.

    Raises:
        InputError: files that are missing or damaged.

    Warns where INT8 cannot pay: the processor has no VNNI, or nothing in the file is quantised.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        int8: bool | None = None,
        threads: int | None = None,
        mkldnn: bool = True,
    ) -> None:
        self.path = find_files(path)
        self.description = describe(self.path)
        self.labels: list[str] | None = self.description.get("labels")
        self.max_length: int | None = self.description.get("max_length")
        self.problem: str = self.description.get("problem") or "single_label"
        self.thresholds: list[float] | None = self.description.get("thresholds")
        self.threads = whole("threads", machine.usable_cores() if threads is None else threads, 1)
        program = self.path.with_name(self.path.name + PROGRAM)
        for ending in (PROGRAM, WEIGHTS):
            check_file(self.path.with_name(self.path.name + ending), self.description)
        operators, self._types = read_program(program)
        self._rows, self._positions = table_rows(program)
        self.quantised = any(kind.startswith(QUANTISED) for kind in operators)
        if int8 and not mkldnn:
            raise InputError("mkldnn", "is off and int8 on", "oneDNN, which has the INT8 kernels")
        self.int8 = mkldnn and (self.quantised if int8 is None else bool(int8))
        self.mkldnn = mkldnn
        if self.int8 and not self.quantised:
            message = f"{self.path} has no quantised operators: it runs in FP32"
            warnings.warn(f"{message}. Quantise it first (quantize_static)", stacklevel=2)
            self.int8 = False
        if self.int8 and not VNNI & machine.cpu().flags:
            message = "this processor has no VNNI instructions (avx512_vnni, avx_vnni)"
            warnings.warn(f"{message}: INT8 will not be faster than FP32 here", stacklevel=2)
        self._inputs: dict = {}
        self._predictor = self._create()
        self.input_names: list[str] = self._predictor.get_input_names()
        self._inputs = {name: self._predictor.get_input_handle(name) for name in self.input_names}
        names = self._predictor.get_output_names()
        self._outputs = [self._predictor.get_output_handle(name) for name in names]
        self._tokenizer = None

    def _create(self):
        program, weights = (
            str(self.path.with_name(self.path.name + ending)) for ending in (PROGRAM, WEIGHTS)
        )
        config = inference.Config(program, weights)
        config.disable_gpu()
        config.disable_glog_info()
        config.enable_memory_optim()
        config.set_cpu_math_library_num_threads(self.threads)
        if self.mkldnn:
            config.enable_mkldnn()
            config.set_mkldnn_cache_capacity(10)  # one entry a shape; without a limit it grows
        else:  # it is on by itself
            config.disable_mkldnn()
        if self.int8:
            config.enable_mkldnn_int8()
            # The attention mask is added in FP32 (see quantization.py); fused with that sum, the
            # product of queries and keys would stay in FP32 too.
            config.delete_pass("matmul_elementwise_add_mkldnn_fuse_pass")
        with _captured():
            try:
                return inference.create_predictor(config)
            except Exception as error:  # paddle's own kinds, with pages of C++ in them
                reason = " ".join(str(error).split())[-200:]
                problem = f"cannot be loaded ({reason})"
                raise InputError(self.path, problem, "what export_model wrote") from None

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Run one batch.

        Args:
            inputs: an array a name of `input_names`, whole numbers of shape [batch_size, seq_len].
                `token_type_ids` may be left out where they are all 0; other names are not read.

        Returns:
            The model's outputs, float32: logits of shape [batch_size, num_classes] or [batch_size,
            seq_len, num_classes], or start and end logits of shape [batch_size, seq_len].

        Raises:
            InputError: an input is missing, empty or has another shape; it holds a number that the
                model has no embedding for, or more tokens than the model has positions.
        """
        shape = None
        for name, handle in self._inputs.items():
            value = inputs.get(name)
            if value is None and name == "token_type_ids" and "input_ids" in inputs:
                value = np.zeros_like(np.asarray(inputs["input_ids"]))
            if value is None:
                problem = f"{name} is missing"
                raise InputError("inputs", problem, f"arrays {', '.join(self.input_names)}")
            value = np.ascontiguousarray(value)
            if value.dtype.kind not in "iub":
                problem = f"{name} holds {value.dtype}"
                raise InputError("inputs", problem, "whole numbers: ids of tokens")
            value = value.astype(self._types[name], copy=False)
            shape = shape or value.shape
            if value.size == 0 or value.shape != shape:
                problem = f"{name} has shape {list(value.shape)}"
                raise InputError("inputs", problem, f"one shape for all, first {list(shape)}")
            rows = self._rows.get(name)  # beyond its tables Paddle ends the whole process
            if rows is not None and not 0 <= value.min() <= value.max() < rows:
                wrong = value[(value < 0) | (value >= rows)].flat[0]
                raise InputError("inputs", f"{name} holds {wrong}", f"0 to {rows - 1}")
            if self._positions is not None and value.shape[-1] > self._positions:
                problem = f"{name} has shape {list(value.shape)}"
                raise InputError("inputs", problem, f"at most {self._positions} tokens")
            handle.copy_from_cpu(value)
        self._predictor.run()
        return [handle.copy_to_cpu() for handle in self._outputs]

    @property
    def tokenizer(self):
        """The tokenizer that lies beside the model.

        Raises:
            InputError: there is none.
        """
        if self._tokenizer is None:
            directory = self.path.parent
            if not (directory / "tokenizer_config.json").is_file():
                raise InputError(directory, "has no tokenizer", "export_model with a tokenizer")
            self._tokenizer = AutoTokenizer.from_pretrained(str(directory))
        return self._tokenizer

    def predict(self, texts: Sequence[str], batch_size: int = 32) -> np.ndarray:
        """Classify texts; those of similar length share a batch.

        Returns:
            Probabilities of shape [texts, num_classes], classes in the order of `labels`; for a
            "multi_label" problem each by itself, otherwise with sum 1.

        Raises:
            InputError: not a classifier of sequences, one whose labels are not as many as its
                outputs, no tokenizer, a text that is empty or none.
        """
        task = self.description.get("task")
        if task != "sequence classification" or not self.labels:
            problem = f"is for {task or 'a task that no ' + DESCRIPTION + ' names'}"
            problem = problem if self.labels else "has no labels"
            raise InputError(self.path, problem, "a sequence classifier; others: run()")
        if isinstance(texts, (str, bytes)):
            raise InputError("texts", f"is one {type(texts).__name__}", "a list of texts")
        for number, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                problem = "is empty" if isinstance(text, str) else f"is {type(text).__name__}"
                raise InputError(f"texts[{number}]", problem, "a text")
        batch_size = whole("batch_size", batch_size, 1)
        rows = [
            convert_example(
                {"text": text},
                tokenizer=self.tokenizer,
                max_seq_length=self.max_length or 128,
                is_test=True,
            )
            for text in texts
        ]
        batchify = batchify_fn(self.tokenizer, is_test=True)
        order = sorted(range(len(rows)), key=lambda index: len(rows[index][0]))
        result = np.zeros((len(rows), len(self.labels)), "float32")
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            arrays = batchify([rows[index] for index in chosen])
            batch = dict(zip(("input_ids", "token_type_ids"), arrays, strict=False))
            logits = self.run(batch)[0]
            if logits.shape[1:] != result.shape[1:]:
                problem = f"names {len(self.labels)} labels of outputs {list(logits.shape[1:])}"
                raise InputError(self.path.parent / DESCRIPTION, problem, "a label an output")
            multi = self.problem == "multi_label"
            result[chosen] = expit(logits) if multi else softmax(logits, axis=-1)
        return result

    def classify(self, texts: Sequence[str], batch_size: int = 32) -> list[dict]:
        """Label texts.

        Returns:
            {"labels": [...], "probabilities": {label: probability, ...}} a text. The labels are the
            most probable one; for a "multi_label" problem all that reach their threshold (0.5 where
            the export has none), which may be none.

        Raises:
            InputError: as `predict`.
        """
        probabilities = self.predict(texts, batch_size)
        if self.problem == "multi_label":
            least = np.array(self.thresholds or [0.5] * len(self.labels), "float32")
            chosen = probabilities >= least
        else:
            chosen = np.arange(len(self.labels)) == probabilities.argmax(axis=1)[:, None]
        return [
            {
                "labels": [name for name, one in zip(self.labels, given, strict=True) if one],
                "probabilities": dict(zip(self.labels, row.tolist(), strict=True)),
            }
            for given, row in zip(chosen, probabilities, strict=True)
        ]

    def kernels(self) -> Counter[tuple[str, str, str]]:
        """What oneDNN runs for one small batch, from its own log.

        Returns:
            How often (operator, number format of its inputs, kernel) ran; for example 14 times
            ("fc", "s8", "brgemm:avx512_core_vnni"): matrix products of signed 8-bit numbers, by
            VNNI instructions. Empty without oneDNN.
        """
        ids = np.ones((2, 8), "int64")
        self.run(dict.fromkeys(self.input_names, ids * 0) | {"input_ids": ids})
        library = next(Path(paddle.__file__).parent.glob("libs/*dnnl*"), None)
        if library is None:
            return Counter()
        dnnl = ctypes.CDLL(str(library))  # the one that Paddle has loaded
        with _captured() as read:
            dnnl.dnnl_set_verbose(1)
            try:
                self._predictor.run()
            finally:
                dnnl.dnnl_set_verbose(0)
            log = read()
        return Counter(
            (PRIMITIVES[match["primitive"]], match["format"], match["kernel"])
            for match in map(_EXECUTED.match, log.splitlines())
            if match and match["primitive"] in PRIMITIVES
        )

    def int8_operators(self) -> dict[str, tuple[int, int]]:
        """Count the operators that calculate, as they really run: see `kernels`.

        A file full of quantised operators that run in FP32 is the commonest reason why a quantised
        model is slow.

        Returns:
            {"fc": (in INT8, in FP32), "matmul": ..., "add": ..., ...}; "fc" are the matrix products
            with weights, "matmul" those of attention. (Without INT8 kernels "matmul" are both.)
        """
        counts = {name: [0, 0] for name in PRIMITIVES.values()}
        for (name, number_format, _), count in self.kernels().items():
            counts[name][0 if number_format in ("s8", "u8") else 1] += count
        return {name: tuple(count) for name, count in counts.items()}


def read_program(path: Path) -> tuple[list[str], dict[str, str]]:
    """The type of each operator of a .pdmodel, in order, and the number format of each input.

    Raises:
        InputError: it is damaged.
    """
    try:
        program = paddle.base.core.ProgramDesc(path.read_bytes())
        blocks = [program.block(index) for index in range(program.num_blocks())]
        operators = [block.op(i) for block in blocks for i in range(block.op_size())]
        inputs = [op.output("Out")[0] for op in operators if op.type() == "feed"]
        variables = [blocks[0].find_var(name.encode()) for name in inputs]
        types = [str(variable.dtype()).rpartition(".")[2].lower() for variable in variables]
        if not inputs:  # of an empty file, which is a program without blocks
            raise ValueError("no inputs")
        return [op.type() for op in operators], dict(zip(inputs, types, strict=True))
    except Exception:  # paddle's own kinds, with pages of C++ in them
        raise InputError(path, "is damaged or no program", "what export_model wrote") from None


def table_rows(path: Path) -> tuple[dict[str, int], int | None]:
    """How many rows the tables of a .pdmodel have that its inputs are looked up in.

    Returns:
        Rows by the names of inputs; and those of the table of positions, None where none is found.
    """
    program = paddle.base.core.ProgramDesc(path.read_bytes())  # its blocks do not keep it alive
    block = program.block(0)
    operators = [block.op(index) for index in range(block.op_size())]
    inputs = {op.output("Out")[0] for op in operators if op.type() == "feed"}
    rows: dict[str, int] = {}
    positions, counted = None, set()  # positions are counted by a cumulative sum of ones
    for operator in operators:
        read = set(operator.input_arg_names())
        if operator.type() == "lookup_table_v2":
            table = block.find_var(operator.input("W")[0].encode())
            size, ids = int(table.shape()[0]), operator.input("Ids")[0]
            if ids in inputs:
                rows[ids] = min(size, rows.get(ids, size))
            elif ids in counted:
                positions = size if positions is None else min(size, positions)
        elif operator.type() == "cumsum" or read & counted:
            counted |= set(operator.output_arg_names())
    return rows, positions


@contextlib.contextmanager
def _captured() -> Iterator[Callable[[], str]]:
    """Keep what C++ code writes to the process's standard output and error from the screen.

    Yields a function that gives what has been written so far.
    """
    libc = ctypes.CDLL(None) if os.name == "posix" else None

    def flush() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        if libc is not None:
            libc.fflush(None)

    with tempfile.TemporaryFile() as file:

        def read() -> str:
            flush()
            file.seek(0)
            return file.read().decode(errors="replace")

        flush()
        kept = [(number, os.dup(number)) for number in (1, 2)]
        try:
            for number, _ in kept:
                os.dup2(file.fileno(), number)
            yield read
        finally:
            flush()
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)
