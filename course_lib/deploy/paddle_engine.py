"""Paddle Inference on the CPU, in FP32 or in real INT8, and what its C++ code prints."""

import contextlib
import ctypes
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from ..models.pickles import failure_named
from ..runtime import InputError, machine, stack
from .files import PROGRAM, WEIGHTS, file_of
from .program import read_program

import numpy as np
import paddle
from paddle import inference

# What runs in INT8: products and their moves. Sums in INT8 would lose more, and be no faster.
IN_INT8 = {"fc", "fused_matmul", "reshape2", "transpose2", "fused_transpose"}


class PaddleEngine:
    """A program and its weights, loaded from two files with the common path `prefix`.

    The other arguments, `quantized` and `int8` are as for `Predictor`; `types`, `rows` and
    `positions` are the `inputs`, `rows` and `positions` of `deploy.program.Program`.
    """

    def __init__(self, prefix: Path, int8: bool | None, threads: int, mkldnn: bool) -> None:
        self._prefix, self._threads, self._mkldnn = prefix, threads, mkldnn
        program = read_program(file_of(prefix, PROGRAM))
        self.types, self.rows, self.positions = program.inputs, program.rows, program.positions
        self.quantized = program.quantized
        if int8 and not mkldnn:
            raise InputError("mkldnn", "is off and int8 on", "oneDNN, which has the INT8 kernels")
        self.int8 = mkldnn and (self.quantized if int8 is None else int8)
        if self.int8 and not self.quantized:
            message = f"{prefix} has no quantized operators: it runs in FP32"
            warnings.warn(f"{message}. Quantize it first (quantize_static)", stacklevel=6)
            self.int8 = False
        if self.int8 and not machine.cpu().vnni:
            message = "this processor has no VNNI instructions (avx512_vnni, avx_vnni): INT8"
            warnings.warn(f"{message} gains little speed here, and is less exact", stacklevel=6)
        # A predictor has one set of inputs: threads at once read each other's answers, or crash.
        self._lock = threading.Lock()
        self._predictor = made = self._create()
        self.input_names: list[str] = made.get_input_names()
        self._inputs = {name: made.get_input_handle(name) for name in self.input_names}
        self._outputs = [made.get_output_handle(name) for name in made.get_output_names()]

    def _create(self):
        program, weights = (str(file_of(self._prefix, ending)) for ending in (PROGRAM, WEIGHTS))
        config = inference.Config(program, weights)
        config.disable_gpu()
        config.disable_glog_info()
        config.enable_memory_optim()
        config.set_cpu_math_library_num_threads(self._threads)
        if self._mkldnn:
            config.enable_mkldnn()
            # 0: 1 MB is kept for each shape. With a number it is all, the weights in oneDNN's order
            # included: 60 MB and the time of several runs per shape for the course's encoder.
            config.set_mkldnn_cache_capacity(0)
        else:  # it is on by itself
            config.disable_mkldnn()
        if self.int8:
            config.enable_mkldnn_int8(IN_INT8)
            # The attention mask is added in FP32: in INT8 its -10,000 would hide the scores. Fused
            # with that sum, the product of queries and keys would stay in FP32 too.
            config.delete_pass(stack.SUM_FUSION)
        named = failure_named(self._prefix, "cannot be loaded", "what export_model wrote")
        with named, captured(), _threads_restored():
            return inference.create_predictor(config)

    def run(self, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Run one batch, whose ids are known to fit: beyond its tables Paddle ends the process."""
        with self._lock, _threads_restored():
            for name, array in arrays.items():
                self._inputs[name].copy_from_cpu(array)
            self._predictor.run()
            return [handle.copy_to_cpu() for handle in self._outputs]


@contextlib.contextmanager
def _threads_restored() -> Iterator[None]:
    """Put the process's number of threads back, which Paddle Inference changes.

    It sets its own when it is made, and 1 after each run: training would be slower, and give other
    bits.
    """
    try:
        yield
    finally:
        paddle.base.core.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))


@contextlib.contextmanager
def captured() -> Iterator[Callable[[], str]]:
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
