"""Checkpoints that a kill at any moment cannot damage, and that name the file that is damaged."""

import contextlib
import io
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..models.files import check_weights, read_weights, shapes_of, write_weights
from ..runtime import InputError, atomic_directory, atomic_file
from ..runtime.files import read_json, read_unmixed
from ..runtime.manifest import COMPLETE, read_manifest, verify_files, write_manifest

import numpy as np
import paddle
from paddle.base.layer_helper import LayerHelper

BEST = "best.safetensors"  # only where early stopping keeps the best weights

Arrays = dict[str, np.ndarray]


@dataclass
class Checkpoint:
    """Everything that a training run needs to go on as if it had never stopped.

    Attributes:
        model, optimizer: weights and moments by structured name, see `optimizer_arrays`.
        state: JSON values: position, scheduler, seed, settings, history, early stopping.
        best: the best weights so far, when early stopping keeps them.
    """

    model: Arrays
    optimizer: Arrays
    state: dict
    best: Arrays | None = None

    @classmethod
    def of(cls, model, optimizer, scheduler, best: Arrays | None = None, **state) -> "Checkpoint":
        """Copies of a model's weights, an optimizer's moments and a scheduler's numbers."""
        state["scheduler"] = scheduler.state_dict()
        return cls(model_arrays(model), optimizer_arrays(optimizer, model), state, best)

    def restore(self, model, optimizer, scheduler) -> None:
        """Put weights, moments and the learning rate back into objects that are built alike.

        The next step is then the same to the bit as without a stop, if it gets the same batch and,
        with dropout, the same seed: `seed_step(seed, step)` before each step.
        """
        shapes = {name: value.shape for name, value in self.model.items()}
        check_weights("the checkpoint", shapes, shapes_of(model), "one of this model")
        model.set_state_dict(self.model)
        restore_optimizer(optimizer, model, self.optimizer)
        scheduler.set_state_dict(self.state["scheduler"])

    def save(self, directory: str | os.PathLike, step: int) -> Path:
        """Write `directory/checkpoint-STEP` whole or not at all."""
        path = Path(directory) / f"checkpoint-{step:08d}"
        with atomic_directory(path) as temporary:
            write_weights(temporary / "model.safetensors", self.model)
            write_weights(temporary / "optimizer.safetensors", self.optimizer)
            if self.best is not None:
                write_weights(temporary / BEST, self.best)
            text = json.dumps(self.state, ensure_ascii=False)
            (temporary / "state.json").write_text(text, encoding="utf-8")
            write_manifest(temporary, step=step)
        return path

    @staticmethod
    def load(path: str | os.PathLike) -> "Checkpoint":
        """Read a checkpoint after comparing every file with the manifest.

        Raises:
            InputError: it names a damaged file, and the newest older checkpoint that is whole.
        """
        return read_unmixed(path, lambda: _read(Path(path)))


def model_arrays(model: paddle.nn.Layer) -> Arrays:
    """Copies of a model's weights and buffers by structured name."""
    return {name: np.array(value.numpy()) for name, value in model.state_dict().items()}


def optimizer_arrays(optimizer: paddle.optimizer.Optimizer, model: paddle.nn.Layer) -> Arrays:
    """Copies of an optimizer's moments, as "structured name|accumulator".

    The names in `optimizer.state_dict()` change when another layer is built before the model.
    """
    names = {parameter.name: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter_name]}|{accumulator}": np.array(value.numpy())
        for accumulator, values in optimizer._accumulators.items()
        for parameter_name, value in values.items()
        if parameter_name in names  # not those of a criterion
    }


def restore_optimizer(
    optimizer: paddle.optimizer.Optimizer, model: paddle.nn.Layer, arrays: Arrays
) -> None:
    """Put moments back that `optimizer_arrays` took, whatever paddle calls the parameters now."""
    owners = {key.split("|")[0] for key in arrays}
    parameters = {name: p for name, p in model.named_parameters() if name in owners}
    # paddle makes the accumulators in the first step, as here; the public set_state_dict would look
    # them up by generated names
    optimizer.helper = LayerHelper(type(optimizer).__name__)
    block = paddle.static.default_main_program().global_block()
    optimizer._create_accumulators(block, list(parameters.values()))
    for key, array in arrays.items():
        name, accumulator = key.split("|")
        optimizer._accumulators[accumulator][parameters[name].name].set_value(array)


def find_checkpoints(directory: str | os.PathLike, digits: str = r"\d{8}") -> list[Path]:
    """The directories checkpoint-STEP in a directory, oldest first.

    Args:
        digits: how steps are written: `fit` fills up with zeros, a Trainer (`\\d+`) does not.
    """
    name = re.compile(f"checkpoint-({digits})")
    steps = {path: name.fullmatch(path.name) for path in Path(directory).glob("checkpoint-*")}
    found = [(int(step[1]), path) for path, step in steps.items() if step and path.is_dir()]
    return [path for _, path in sorted(found)]


def _read(path: Path) -> Checkpoint:
    try:
        files = _verified(path)
    except InputError as error:
        advice = "a complete checkpoint; none is left, so start without resume"
        for older in reversed(find_checkpoints(path.parent)):
            with contextlib.suppress(InputError):
                if older.name < path.name and _verified(older):
                    advice = f'resume="{older}", the newest complete one'
                    break
        raise InputError(error.where, error.problem, advice) from None
    return Checkpoint(
        model=read_weights(path / "model.safetensors"),
        optimizer=read_weights(path / "optimizer.safetensors"),
        state=read_json(path / "state.json", COMPLETE),
        best=read_weights(path / BEST) if BEST in files else None,
    )


def _verified(path: Path) -> set[str]:
    """The names of a checkpoint's files, which are as its manifest says."""
    if not path.is_dir():
        raise InputError(path, "does not exist", "a checkpoint directory")
    files = read_manifest(path)
    verify_files(path, files)
    return set(files)


def save_plain(layer: paddle.nn.Layer, file: str | os.PathLike) -> Path:
    """Save any layer's weights with `paddle.save`, whole or not at all.

    A PaddleNLP model with its configuration and tokenizer: `course_lib.models.save_model`.
    """
    buffer = io.BytesIO()  # paddle.save takes a name or a BytesIO, and no open file
    paddle.save(layer.state_dict(), buffer)
    with atomic_file(file, "wb") as opened:
        opened.write(buffer.getbuffer())
    return Path(file)


def load_plain(layer: paddle.nn.Layer, file: str | os.PathLike) -> None:
    """Fill a layer with what `save_plain` or `paddle.save` wrote, all of it or nothing.

    Raises:
        InputError: no such file, a damaged one, a pickle that holds more than arrays, or one whose
            names or shapes are not the layer's; the layer is then as before.
    """
    state = read_weights(file)
    shapes = {name: value.shape for name, value in state.items()}
    check_weights(file, shapes, shapes_of(layer), "the weights of a layer that is built alike")
    layer.set_state_dict(state)
