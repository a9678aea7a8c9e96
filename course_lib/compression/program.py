"""Paddle's static programs: loading them, and writing their operators in one order."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from course_lib.deploy.files import PROGRAM, WEIGHTS, check_file, describe
from course_lib.runtime import InputError

import paddle
from paddle.base.proto import framework_pb2

_LOGGERS = (
    "paddle.static.quantization.post_training_quantization",
    "paddle.static.quantization.quantization_pass",
    "paddle.static.io",
)


@contextlib.contextmanager
def static_mode() -> Iterator[paddle.static.Executor]:
    """Static mode with its own scope inside the block; the previous mode comes back afterwards."""
    dynamic = paddle.in_dynamic_mode()
    paddle.enable_static()
    try:
        with paddle.static.scope_guard(paddle.static.Scope()), paddle.utils.unique_name.guard():
            yield paddle.static.Executor(paddle.CPUPlace())
    finally:
        if dynamic:
            paddle.disable_static()


def load_program(
    prefix: Path, executor: paddle.static.Executor
) -> tuple[paddle.static.Program, list[str], list]:
    """Load a program and its weights into the current scope.

    Returns:
        The program, the names of its inputs, and its outputs.

    Raises:
        InputError: the files are damaged, or are not those that deploy.json describes.
    """
    for ending in (PROGRAM, WEIGHTS):
        check_file(prefix.with_name(prefix.name + ending), describe(prefix))
    try:
        return tuple(paddle.static.load_inference_model(str(prefix), executor))
    except Exception as error:  # Paddle's own kinds, with pages of C++ in them
        reason = " ".join(str(error).split())[-200:]
        problem = f"cannot be loaded ({reason})"
        raise InputError(prefix, problem, "what export_model wrote") from None


@contextlib.contextmanager
def quiet_paddle() -> Iterator[None]:
    """Hide Paddle's log and its progress bars, which have no switch."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def sort_operators(program: Path, source: Path) -> None:
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
