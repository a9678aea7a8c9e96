"""Saving and loading: the weights of any layer, and all that a warm restart needs."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

from course_lib.models.files import check_weights, shapes_of
from course_lib.models.pickles import read_pickle
from course_lib.runtime import InputError, atomic_directory, atomic_file
from course_lib.runtime.errors import whole
from course_lib.runtime.files import read_json
from course_lib.training.checkpoint import optimizer_arrays, restore_optimizer
from course_lib.training.steps import check_layer

import numpy as np
import paddle


def save_plain(layer: paddle.nn.Layer, file: str | os.PathLike) -> Path:
    """Save any layer's weights with `paddle.save`, whole or not at all.

    A PaddleNLP model with its configuration and tokenizer: `course_lib.models.save_model`.

    Raises:
        InputError: the file cannot be written.

    Source: FAQ Q1.3, second part.
    """
    check_layer("layer", layer)
    buffer = io.BytesIO()  # paddle.save takes a name or a BytesIO, and no open file
    paddle.save(layer.state_dict(), buffer)
    with atomic_file(file, "wb") as opened:
        opened.write(buffer.getbuffer())
    return Path(file)


def load_plain(layer: paddle.nn.Layer, file: str | os.PathLike) -> None:
    """Fill a layer with what `save_plain` or `paddle.save` wrote, all of it or nothing.

    `set_state_dict` alone only warns of a name that is missing and leaves that weight random. The
    file is a pickle, which could run code: one that holds more than arrays is refused.

    Raises:
        InputError: no such file, a damaged one, or one whose names or shapes are not the layer's;
            the layer is then as before.

    Source: FAQ Q1.3, second part.
    """
    check_layer("layer", layer)
    state = _read(Path(file))
    shapes = {name: np.shape(value) for name, value in state.items()}
    check_weights(file, shapes, shapes_of(layer), "the weights of a layer that is built alike")
    layer.set_state_dict(state)


def _read(file: Path) -> dict:
    state = read_pickle(file)
    if not isinstance(state, dict):
        raise InputError(file, f"holds a {type(state).__name__}", "a state dict")
    return state


STATE_FILES = ("model.pdparams", "optimizer.pdopt", "schedule.pdlr", "step.json")


def save_state(
    directory: str | os.PathLike,
    model: paddle.nn.Layer,
    optimizer: paddle.optimizer.Optimizer,
    schedule: paddle.optimizer.lr.LRScheduler,
    step: int,
) -> Path:
    """Save all that a warm restart needs with `paddle.save`: model, optimizer, schedule and step.

    As in the FAQ, but for the moments' names: `optimizer.state_dict()` files them under generated
    ones (linear_7.w_0_moment1_0), under which another process may not find them again.

    Raises:
        InputError: the directory cannot be written, or holds something else than an older state.

    Source: FAQ Q3.3. Whole runs: `training.fit(..., output_dir=..., resume=True)`, `CourseTrainer`.
    """
    step = whole("step", step, 0)
    with atomic_directory(directory, STATE_FILES[3]) as temporary:
        paddle.save(model.state_dict(), str(temporary / STATE_FILES[0]))
        paddle.save(optimizer_arrays(optimizer, model), str(temporary / STATE_FILES[1]))
        paddle.save(schedule.state_dict(), str(temporary / STATE_FILES[2]))
        (temporary / STATE_FILES[3]).write_text(json.dumps({"step": step}))
    return Path(directory)


def load_state(
    directory: str | os.PathLike,
    model: paddle.nn.Layer,
    optimizer: paddle.optimizer.Optimizer,
    schedule: paddle.optimizer.lr.LRScheduler,
) -> int:
    """Put back what `save_state` saved, into pieces that are built alike; return the step.

    The next step is then the same to the bit as without a stop, if it gets the same batch and,
    with dropout, the same seed: `training.loop.seed_step(seed, step)` before each step.

    Raises:
        InputError: a file is missing, damaged, or of another model.
    """
    directory = Path(directory)
    missing = [name for name in STATE_FILES if not (directory / name).is_file()]
    if missing:
        raise InputError(directory, f"lacks {missing[0]}", "a directory that save_state wrote")
    moments = _read(directory / STATE_FILES[1])
    settings = _read(directory / STATE_FILES[2])
    load_plain(model, directory / STATE_FILES[0])
    restore_optimizer(optimizer, model, moments)
    schedule.set_state_dict(settings)
    return int(read_json(directory / STATE_FILES[3], "what save_state wrote")["step"])
