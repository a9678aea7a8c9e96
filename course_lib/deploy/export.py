"""From a model in Python to files that Paddle Inference runs: a program and its weights.

The program takes batches of any size and length. Beside it lie the tokenizer and `deploy.json`,
so that one directory is all that a server needs.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from course_lib.models.backbone import _quiet
from course_lib.runtime import InputError
from course_lib.runtime.errors import whole

import paddle

PROGRAM, WEIGHTS, DESCRIPTION = ".pdmodel", ".pdiparams", "deploy.json"
TASKS = {
    "ForSequenceClassification": "sequence classification",
    "ForTokenClassification": "token classification",
    "ForQuestionAnswering": "question answering",
}


def export_model(
    model: paddle.nn.Layer,
    directory: str | os.PathLike,
    tokenizer=None,
    max_length: int | None = None,
    input_spec: Sequence[paddle.static.InputSpec] | None = None,
    name: str = "model",
) -> Path:
    """Write `name`.pdmodel (the program) and `name`.pdiparams (the weights).

    Other files in the directory stay. The program is put there last, so where it is, all is. The
    model itself is not changed.

    Args:
        model: a PaddleNLP model with a head for sequence or token classification or for question
            answering; any layer where `input_spec` says what it takes.
        tokenizer: its files go into the directory too, for `Predictor.predict`.
        max_length: tokens an example at most, kept in deploy.json; None means the number of the
            model's positions.
        input_spec: by default `input_ids` and, where the model takes them, `token_type_ids`, each
            int64 of shape [batch_size, seq_len], both free.

    Returns:
        The files' common path, without endings.

    Raises:
        InputError: a model without a head or of another task, a `max_length` that the model has no
            positions for, or a directory that cannot be written.
    """
    task = _task(model)
    if task is None and input_spec is None:
        problem = f"{type(model).__name__} has no head for a task that the course knows"
        raise InputError("model", problem, f"a model {', '.join(TASKS)}, or input_spec")
    config = getattr(model, "config", None)
    positions = getattr(config, "max_position_embeddings", None)
    if max_length is None:
        max_length = positions
    else:
        max_length = whole("max_length", max_length, 3, positions or float("inf"))
    if input_spec is None:
        takes = inspect.signature(model.forward).parameters
        columns = [column for column in ("input_ids", "token_type_ids") if column in takes]
        input_spec = [paddle.static.InputSpec([None, None], "int64", column) for column in columns]
    names = getattr(config, "id2label", None) or {}
    description = {
        "task": task,
        "class": type(model).__name__,
        "inputs": [spec.name for spec in input_spec],
        "labels": [names[index] for index in sorted(names)] if task in _LABELLED else None,
        "max_length": max_length,
        "pad_token_id": getattr(config, "pad_token_id", None) or 0,
    }
    with new_files(directory, name) as temporary:
        _save(model, temporary / name, list(input_spec))
        if tokenizer is not None:
            with _quiet():
                tokenizer.save_pretrained(str(temporary))
        text = json.dumps(description, ensure_ascii=False, indent=1)
        (temporary / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
    return Path(directory, name)


_LABELLED = ("sequence classification", "token classification")


def check_head(model: paddle.nn.Layer) -> None:
    """Refuse a model whose head has never been trained: its biases are all still exactly 0.

    Raises:
        InputError: such a model, or one without a head.
    """
    if _task(model) is None:
        problem = f"{type(model).__name__} has no head"
        raise InputError("model", problem, "a model that has been fine-tuned on your task")
    body = f"{model.base_model_prefix}."
    biases = [
        value
        for name, value in model.named_parameters()
        if not name.startswith(body) and name.endswith("bias")
    ]
    if biases and not any(bool((bias != 0).any()) for bias in biases):
        problem = "its head has never been trained (all its biases are 0)"
        raise InputError("model", problem, "a model that has been fine-tuned on your task")


def _task(model: paddle.nn.Layer) -> str | None:
    return next((task for part, task in TASKS.items() if part in type(model).__name__), None)


def _save(model: paddle.nn.Layer, prefix: Path, input_spec: list) -> None:
    training, forward = model.training, model.__dict__.get("forward")
    model.eval()
    try:
        static = paddle.jit.to_static(model, input_spec=input_spec, full_graph=True)
        paddle.jit.save(static, str(prefix))
    finally:
        # to_static puts a static forward into the layer, and it would stay there
        model.__dict__.pop("forward", None)
        if forward is not None:
            model.__dict__["forward"] = forward
        if training:
            model.train()
    Path(f"{prefix}.pdiparams.info").unlink(missing_ok=True)  # for training on; it names our paths


@contextmanager
def new_files(directory: str | os.PathLike, name: str) -> Iterator[Path]:
    """Yield a temporary directory whose files then go into `directory`, the program last."""
    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise InputError(directory, "is a file", "the name of a directory to write")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".export-", dir=directory))
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise InputError(directory, problem, "a writable directory") from error
    try:
        yield temporary
        Path(directory, name + PROGRAM).unlink(missing_ok=True)  # it goes with the old weights
        for file in sorted(temporary.iterdir(), key=lambda file: file.suffix == PROGRAM):
            os.replace(file, directory / file.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def find_files(path: str | os.PathLike) -> Path:
    """The common path of a program and its weights, from it or from their directory.

    Raises:
        InputError: nothing is there, or several programs and none is called "model".
    """
    path = Path(path)
    if path.suffix in (PROGRAM, WEIGHTS):
        path = path.with_suffix("")
    if path.is_dir() and not path.with_name(path.name + PROGRAM).is_file():
        found = sorted(file.name[: -len(PROGRAM)] for file in path.glob(f"*{PROGRAM}"))
        if "model" in found or len(found) == 1:
            path = path / ("model" if "model" in found else found[0])
        else:
            problem = f"holds {', '.join(found)}" if found else "holds no program (*.pdmodel)"
            expected = f"one of them, as {path / found[0]}" if found else "what export_model wrote"
            raise InputError(path, problem, expected)
    for ending in (PROGRAM, WEIGHTS):
        if not path.with_name(path.name + ending).is_file():
            raise InputError(path, f"has no {path.name}{ending}", "what export_model wrote")
    return path


def describe(prefix: Path) -> dict:
    """What deploy.json says beside a program; empty where there is none."""
    file = prefix.parent / DESCRIPTION
    if not file.is_file():
        return {}
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(file, f"is not JSON ({error})", "what export_model wrote") from None
    if not isinstance(description, dict):
        raise InputError(file, "is no JSON object", "what export_model wrote")
    return description


def copy_companions(prefix: Path, directory: Path) -> None:
    """Copy deploy.json and the tokenizer's files that lie beside a program."""
    names = [DESCRIPTION, "vocab.txt", "tokenizer_config.json", "special_tokens_map.json"]
    names += ["added_tokens.json", "tokenizer.json", "sentencepiece.bpe.model", "spiece.model"]
    for name in names:
        if (prefix.parent / name).is_file():
            shutil.copyfile(prefix.parent / name, directory / name)
