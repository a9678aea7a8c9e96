"""From a model in Python to files that Paddle Inference runs: a program and its weights.

The program takes batches of any size and length. Beside it lie the tokenizer, the configuration and
`deploy.json` (see `deploy.files`), so that one directory is all that a server needs.
"""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..data.kinds import KINDS, find_task
from ..models.files import save_tokenizer
from ..models.patches import quiet_paddlenlp
from ..runtime import InputError
from .files import MULTI_LABEL, file_of, new_files, write_description

import paddle
from paddlenlp.transformers import PretrainedModel


def export_model(
    model: paddle.nn.Layer,
    directory: str | os.PathLike,
    tokenizer=None,
    max_length: int | None = None,
    input_spec: Sequence[paddle.static.InputSpec] | None = None,
    name: str = "model",
    thresholds: Mapping[str, float] | None = None,
) -> Path:
    """Write `name`.pdmodel (the program) and `name`.pdiparams (the weights).

    The program is put there last, so where it is, all is; until then an older export stays. Other
    files stay, but for an ONNX file of an older program of this name. The model is not changed.

    Args:
        model: a PaddleNLP model with a head for sequence or token classification or for question
            answering; any layer where `input_spec` says what it takes.
        tokenizer: its files go into the directory too, for `Predictor.predict`.
        max_length: tokens per example at most, kept in deploy.json; None means the number of the
            model's positions.
        input_spec: by default `input_ids` and, where the model takes them, `token_type_ids`, each
            int64 of shape [batch_size, seq_len], both free.
        thresholds: probability from which a label is given, by label, for a classifier whose
            `config.problem_type` is "multi_label_classification"; None means 0.5 for all.

    Returns:
        The files' common path, without endings.

    Raises:
        InputError: a model of another task, a `max_length` that it has no positions for, thresholds
            that do not fit its labels, a directory that cannot be written or holds another model.
    """
    config = getattr(model, "config", None)
    task = find_task(type(model).__name__, getattr(config, "task", None))
    if task is None and input_spec is None:
        problem = f"{type(model).__name__} has no head for a task that the course knows"
        raise InputError("model", problem, "a fine-tuned model, or input_spec")
    positions = getattr(config, "max_position_embeddings", None)
    if max_length is not None and positions is not None and max_length > positions:
        raise InputError("max_length", f"is {max_length}", f"at most {positions}, its positions")
    if input_spec is None:
        takes = inspect.signature(model.forward).parameters
        columns = [column for column in ("input_ids", "token_type_ids") if column in takes]
        input_spec = [paddle.static.InputSpec([None, None], "int64", column) for column in columns]
    names = getattr(config, "id2label", None) or {}
    labeled = task is not None and task != "qa"
    labels: list[str] = [names[index] for index in sorted(names)] if labeled else []
    several = getattr(config, "problem_type", None) == "multi_label_classification"
    kind = MULTI_LABEL if several else "single_label"
    if thresholds is not None and set(thresholds) != set(labels):
        raise InputError("thresholds", "do not name the model's labels", "one for each label")
    description = {
        "task": task and KINDS[task],
        "problem": kind if task in ("text", "pair") else None,
        "class": type(model).__name__,
        "inputs": [spec.name for spec in input_spec],
        "labels": labels or None,
        "thresholds": thresholds and [float(thresholds[label]) for label in labels],
        "max_length": max_length or positions,
        "pad_token_id": getattr(config, "pad_token_id", None) or 0,
    }
    with new_files(directory, name) as temporary:
        _save(model, temporary / name, list(input_spec))
        with quiet_paddlenlp():
            if tokenizer is not None:
                save_tokenizer(temporary, tokenizer)
            if isinstance(model, PretrainedModel):  # for load_static, which makes a model again
                saved = copy.deepcopy(model.config)
                saved.architectures, saved.dtype = [type(model).__name__], "float32"
                saved.save_pretrained(str(temporary))
        write_description(temporary, description)
    return Path(directory, name)


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
    # it is for training on, and names our paths
    file_of(prefix, ".pdiparams.info").unlink(missing_ok=True)
