"""From a model in Python to files that Paddle Inference runs: a program and its weights.

The program takes batches of any size and length. Beside it lie the tokenizer, the configuration and
`deploy.json`, so that one directory is all that a server needs.

deploy.json also keeps the size and SHA-256 of each file, because Paddle loads weights that are cut
off, or another model's, without a word; and so does a tokenizer with its vocabulary.
"""

from __future__ import annotations

import copy
import filecmp
import inspect
import json
import math
import numbers
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from course_lib.models.files import VOCABULARIES, save_tokenizer
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError
from course_lib.runtime.errors import whole
from course_lib.runtime.files import read_json, temporary_in, unwritable
from course_lib.runtime.manifest import (
    MANIFEST,
    describe_file,
    read_manifest,
    verify_file,
    write_manifest,
)

import paddle
from google.protobuf.message import DecodeError
from paddle.base.proto import framework_pb2
from paddlenlp.transformers import PretrainedModel

PROGRAM, WEIGHTS, ONNX, DESCRIPTION = ".pdmodel", ".pdiparams", ".onnx", "deploy.json"
PROBLEMS = ("single_label", "multi_label")
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
    thresholds: Mapping[str, float] | None = None,
    onnx: bool = False,
) -> Path:
    """Write `name`.pdmodel (the program) and `name`.pdiparams (the weights).

    Other files in the directory stay, but for an ONNX file made of an older program of this name;
    a model's configuration or vocabulary that is not of an export is not replaced by another one.
    The program is put there last, so where it is, all is; until all is made, an older export stays.
    The model itself is not changed.

    Args:
        model: a PaddleNLP model with a head for sequence or token classification or for question
            answering; any layer where `input_spec` says what it takes.
        tokenizer: its files go into the directory too, for `Predictor.predict`.
        max_length: tokens an example at most, kept in deploy.json; None means the number of the
            model's positions.
        input_spec: by default `input_ids` and, where the model takes them, `token_type_ids`, each
            int64 of shape [batch_size, seq_len], both free.
        thresholds: probability from which a label is given, by label, for a classifier whose
            `config.problem_type` is "multi_label_classification"; None means 0.5 for all.
        onnx: also write `name`.onnx, see `course_lib.deploy.convert`.

    Returns:
        The files' common path, without endings.

    Raises:
        InputError: a model without a head or of another task, a `max_length` that the model has no
            positions for, thresholds that do not fit its labels, a directory that cannot be
            written or holds another model, or with `onnx` an operator that paddle2onnx lacks.
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
    labels = [names[index] for index in sorted(names)] if task in _LABELLED else None
    several = getattr(config, "problem_type", None) == "multi_label_classification"
    problem = PROBLEMS[several] if task == "sequence classification" else None
    description = {
        "task": task,
        "problem": problem,
        "class": type(model).__name__,
        "inputs": [spec.name for spec in input_spec],
        "labels": labels,
        "thresholds": _in_order(thresholds, labels, problem),
        "max_length": max_length,
        "pad_token_id": getattr(config, "pad_token_id", None) or 0,
    }
    with new_files(directory, name) as temporary:
        _save(model, temporary / name, list(input_spec))
        if tokenizer is not None:
            with quiet_paddlenlp():
                save_tokenizer(temporary, tokenizer)
        if isinstance(model, PretrainedModel):  # for load_static, which makes a model again
            saved = copy.deepcopy(model.config)
            saved.architectures, saved.dtype = [type(model).__name__], "float32"
            with quiet_paddlenlp():
                saved.save_pretrained(str(temporary))
        text = json.dumps(description, ensure_ascii=False, indent=1)
        (temporary / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
        if onnx:
            from course_lib.deploy.onnx import convert  # loads onnxruntime

            try:
                convert(temporary / name)
            except InputError as error:  # it names a file that goes now
                place = Path(directory, name + ONNX)
                raise InputError(place, error.problem, error.expected) from error
    return Path(directory, name)


_LABELLED = ("sequence classification", "token classification")


def _in_order(
    thresholds: Mapping[str, float] | None, labels: Any, problem: str | None
) -> list[float] | None:
    if thresholds is None:
        return None
    if problem != "multi_label":
        raise InputError("thresholds", "given to a model that is not multi-label", "none")
    if not isinstance(thresholds, Mapping) or set(thresholds) != set(labels):
        raise InputError("thresholds", "do not name the model's labels", "one for each label")
    for label, value in thresholds.items():
        if not _is_share(value):
            raise InputError("thresholds", f"{label}: {value!r}", "a number from 0 to 1")
    return [float(thresholds[label]) for label in labels]


def _is_share(value: Any) -> bool:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return number and 0 <= value <= 1  # and so no nan


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


def _leave_out_traces(program: Path) -> None:
    """Make a program the same bytes wherever it is written.

    Paddle notes with each operator the lines of code that made it, with their whole paths, and
    writes attributes in an order that depends on addresses in memory.
    """
    described = framework_pb2.ProgramDesc.FromString(program.read_bytes())
    for block in described.blocks:
        for operator in block.ops:
            attributes = [copy.copy(one) for one in operator.attrs if one.name != "op_callstack"]
            del operator.attrs[:]
            operator.attrs.extend(sorted(attributes, key=lambda one: one.name))
    program.write_bytes(described.SerializeToString(deterministic=True))


@contextmanager
def new_files(directory: str | os.PathLike, name: str) -> Iterator[Path]:
    """Yield a temporary directory whose files then go into `directory`, the program last.

    What deploy.json says of the files beside it is made to fit those that are there then.
    """
    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise InputError(directory, "is a file", "the name of a directory to write")
    with temporary_in(directory) as temporary:
        yield temporary
        if not (directory / DESCRIPTION).is_file():  # what is there is of no export
            names = ("config.json", *VOCABULARIES)
            _, different, _ = filecmp.cmpfiles(directory, temporary, names, shallow=False)
            if different:
                problem = "is another model's, and would be replaced"
                expected = "a new directory, or one of an older export"
                raise InputError(directory / different[0], problem, expected)
        for program in temporary.glob(f"*{PROGRAM}"):
            if not _are_whole(program):
                raise unwritable(directory / program.name, "what was written is cut off")
            _leave_out_traces(program)
        old = [directory / (name + ending) for ending in (PROGRAM, ONNX)]  # go with the old weights
        record(directory, temporary, old)
        if (directory / MANIFEST).is_file():  # of a trained model, whose files are replaced
            own = read_manifest(directory, "the manifest of the model that is there")
            names = [file.name for file in temporary.iterdir() if file.name in own]
            own |= {name: describe_file(temporary / name) for name in names}
            write_manifest(temporary, own)
        for file in old:
            file.unlink(missing_ok=True)
        for file in sorted(temporary.iterdir(), key=lambda file: file.suffix == PROGRAM):
            os.replace(file, directory / file.name)


def _are_whole(program: Path) -> bool:
    """Whether a program's file of weights holds all of them, which Paddle's writer does not ask.

    A tensor is a version, levels of detail, a description of its type and sizes, and its numbers.
    """
    description = paddle.base.core.ProgramDesc(program.read_bytes())  # keeps its blocks alive
    names = {value.name() for value in description.block(0).all_vars() if value.persistable()}
    file = program.with_suffix(WEIGHTS)
    size = file.stat().st_size if file.is_file() else 0
    with open(file, "rb") as handle:
        for _ in names - {"feed", "fetch"}:
            levels = handle.read(12)[4:]
            for _ in range(int.from_bytes(levels, "little")):
                handle.seek(int.from_bytes(handle.read(8), "little"), os.SEEK_CUR)
            length = handle.read(8)[4:]
            if len(length) < 4:
                return False
            described = handle.read(int.from_bytes(length, "little"))
            tensor = framework_pb2.VarType.TensorDesc()
            try:
                tensor.ParseFromString(described)
            except DecodeError:
                return False
            kind = paddle.base.core.VarDesc.VarType(tensor.data_type)
            each = paddle.base.core.size_of_dtype(kind)
            if handle.seek(math.prod(tensor.dims) * each, os.SEEK_CUR) > size:
                return False
        return handle.tell() == size


def find_files(path: str | os.PathLike, endings: Sequence[str] = (PROGRAM, WEIGHTS)) -> Path:
    """The common path of a model's files, from it, from one of them or from their directory.

    Args:
        endings: of the files that are needed; the first one's names are looked for.

    Raises:
        InputError: nothing is there, or several models and none is called "model".
    """
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise InputError("path", f"is {path!r}", "a directory, or the common path of a model")
    path, first = Path(path), endings[0]
    maker = "deploy.onnx.convert" if first == ONNX else "export_model"
    if path.suffix in (PROGRAM, WEIGHTS, ONNX) and not path.is_dir():
        path = path.with_suffix("")
    if path.is_dir() and not path.with_name(path.name + first).is_file():
        found = sorted(file.name[: -len(first)] for file in path.glob(f"*{first}"))
        if "model" in found or len(found) == 1:
            path = path / ("model" if "model" in found else found[0])
        else:
            kind = f"model (*{first})" if first == ONNX else f"program (*{first})"
            problem = f"holds {', '.join(found)}" if found else f"holds no {kind}"
            expected = f"one of them, as {path / found[0]}" if found else f"what {maker} wrote"
            if not found and (path / "config.json").is_file() and first != ONNX:
                problem = "holds a trained model that is not exported"
                expected = f"what {maker} or the commands `export` of course_lib and "
                expected += "course_lib.hierarchical make of it"
            raise InputError(path, problem, expected)
    for ending in endings:
        if not path.with_name(path.name + ending).is_file():
            raise InputError(path, f"has no {path.name}{ending}", f"what {maker} wrote")
    return path


def describe(prefix: Path) -> dict:
    """What deploy.json says beside a program; empty where there is none.

    Raises:
        InputError: it is damaged, or says what cannot be.
    """
    file = prefix.parent / DESCRIPTION
    if not file.is_file():
        return {}
    description = read_json(file, "what export_model wrote")
    if not isinstance(description, dict):
        raise InputError(file, "is no JSON object", "what export_model wrote")
    for key, (fits, expected) in _RULES.items():
        if key in description and not fits(description[key], description):
            found = repr(description[key])
            found = found if len(found) < 60 else f"{found[:60]}..."
            raise InputError(file, f"{key} is {found}", expected)
    return description


def _are_names(value: Any, description: dict) -> bool:
    if value is None:
        return True
    texts = isinstance(value, list) and all(isinstance(name, str) and name for name in value)
    halves = texts and any("\ud800" <= letter <= "\udfff" for name in value for letter in name)
    return texts and not halves and 0 < len(value) == len(set(value))


def _are_shares(value: Any, description: dict) -> bool:
    if value is None:
        return True
    several = description.get("problem") == "multi_label"
    fits = (
        several and isinstance(value, list) and len(value) == len(description.get("labels") or ())
    )
    return fits and all(map(_is_share, value))


def _are_records(value: object, description: dict) -> bool:
    return isinstance(value, dict) and all(
        isinstance(record, dict)
        and type(record.get("bytes")) is int
        and isinstance(record.get("sha256"), str)
        for record in value.values()
    )


_RULES = {  # key of deploy.json -> does it fit, and what would; older exports lack some
    "task": (lambda value, _: value in (None, *TASKS.values()), f"one of {list(TASKS.values())}"),
    "problem": (lambda value, _: value in (None, *PROBLEMS), f"one of {list(PROBLEMS)}"),
    "labels": (_are_names, "a list of different names"),
    "thresholds": (_are_shares, "a number from 0 to 1 for each label of a multi_label model"),
    "max_length": (
        lambda value, _: value is None or (type(value) is int and value >= 3),
        "a whole number of at least 3",
    ),
    "pad_token_id": (lambda value, _: type(value) is int and value >= 0, "a whole number"),
    "files": (_are_records, "bytes and sha256 of each file"),
}


def record(directory: Path, temporary: Path, old: Sequence[Path] = ()) -> None:
    """Write size and hash of each new model file or vocabulary into deploy.json beside them.

    The records of other files in `directory` stay, but for those of `old` ones, which go; those
    that a copied deploy.json brings along are of files elsewhere, and go, too.
    """
    try:
        before = describe(directory / "any")
    except InputError:  # it is replaced now
        before = {}
    description = describe(temporary / "any") or before
    if not description:
        return
    kept = before.get("files", {})
    stay = [name for name in kept if (directory / name).is_file() and directory / name not in old]
    description["files"] = {name: kept[name] for name in stay}
    for file in sorted(temporary.iterdir()):
        if file.suffix in (PROGRAM, WEIGHTS, ONNX) or file.name in VOCABULARIES:
            description["files"][file.name] = describe_file(file)
    text = json.dumps(description, ensure_ascii=False, indent=1)
    (temporary / DESCRIPTION).write_text(text + "\n", encoding="utf-8")


def check_file(file: Path, description: dict) -> None:
    """Refuse a model file of another size or hash than deploy.json has of it.

    A file that it says nothing of is let pass: older exports have no such record.

    Raises:
        InputError: the file is cut off or another one.
    """
    record = description.get("files", {}).get(file.name)
    if record is None:
        return
    verify_file(file, record, "the file that was exported with it", DESCRIPTION)


def copy_companions(prefix: Path, directory: Path) -> None:
    """Copy deploy.json and the tokenizer's files that lie beside a program.

    Raises:
        InputError: one of them is not as it was exported; its copy's record would hide that.
    """
    copy_tokenizer(prefix, directory)
    if (prefix.parent / DESCRIPTION).is_file():
        shutil.copyfile(prefix.parent / DESCRIPTION, directory / DESCRIPTION)


def copy_tokenizer(prefix: Path, directory: Path) -> None:
    """Copy the tokenizer's files that lie beside a program.

    Raises:
        InputError: one of them is not as it was exported.
    """
    description = describe(prefix)
    for name in VOCABULARIES:
        if (prefix.parent / name).is_file():
            check_file(prefix.parent / name, description)
            shutil.copyfile(prefix.parent / name, directory / name)
