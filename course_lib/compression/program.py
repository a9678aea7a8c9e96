"""Paddle's static programs: a mode of their own, and loading them."""

import contextlib
import io
import logging
from collections.abc import Iterator
from pathlib import Path

from ..deploy.files import PROGRAM, WEIGHTS, check_file, describe, file_of
from ..models.pickles import failure_named

import numpy as np
import paddle


@contextlib.contextmanager
def static_mode(quiet: bool = False) -> Iterator[paddle.static.Executor]:
    """Static mode with its own scope inside the block; the previous mode comes back afterwards.

    Args:
        quiet: hide Paddle's log and its progress bars, which have no switch.
    """
    dynamic = paddle.in_dynamic_mode()
    paddle.enable_static()
    try:
        with (
            paddle.static.scope_guard(paddle.static.Scope()),
            paddle.utils.unique_name.guard(),
            _quiet() if quiet else contextlib.nullcontext(),
        ):
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
        InputError: the files are damaged or not those that deploy.json describes; a weight is NaN.
    """
    for ending in (PROGRAM, WEIGHTS):
        check_file(file_of(prefix, ending), describe(prefix))
    with failure_named(prefix, "cannot be loaded", "what export_model wrote, of finite weights"):
        loaded = paddle.static.load_inference_model(str(prefix), executor)
        for weight in loaded[0].state_dict().values():
            np.asarray_chkfinite(np.array(weight))  # rounding to INT8 would hide a NaN
        return tuple(loaded)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
