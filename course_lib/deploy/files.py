"""The files of an export: where they are, what deploy.json says of them, and writing them whole.

deploy.json says what the outputs mean, and keeps the size and SHA-256 of each file, because Paddle
loads weights that are cut off, or another model's, without a word; and so does a tokenizer with its
vocabulary.
"""

from __future__ import annotations

import copy
import filecmp
import json
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from ..models.files import VOCABULARIES
from ..runtime import InputError
from ..runtime.files import read_json, temporary_in, writing
from ..runtime.manifest import MANIFEST, describe_files, read_manifest, verify_files, write_manifest

import paddle
from google.protobuf.message import DecodeError
from paddle.base.proto import framework_pb2
from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator

PROGRAM, WEIGHTS, ONNX, DESCRIPTION = ".pdmodel", ".pdiparams", ".onnx", "deploy.json"
MULTI_LABEL = "multi_label"


def file_of(prefix: Path, ending: str) -> Path:
    """The file of a model with this ending; a name may hold dots itself."""
    return Path(f"{prefix}{ending}")  # with_name stops at "."


def find_files(path: str | os.PathLike, endings: Sequence[str] = (PROGRAM, WEIGHTS)) -> Path:
    """The common path of a model's files, from it, from one of them or from their directory.

    Args:
        endings: of the files that are needed; the first one's names are looked for.
    """
    path, first = Path(path), endings[0]
    expected = f"what {'deploy.onnx.convert' if first == ONNX else 'export_model'} wrote"
    if path.suffix in (PROGRAM, WEIGHTS, ONNX) and not path.is_dir():
        path = path.with_suffix("")
    if path.is_dir() and not file_of(path, first).is_file():
        names = sorted(file.name[: -len(first)] for file in path.glob(f"*{first}"))
        if "model" not in names and len(names) > 1:
            raise InputError(path, f"holds {', '.join(names)}", f"one of them: {path / names[0]}")
        if not names and first == PROGRAM and (path / "config.json").is_file():
            expected = "what `export` of course_lib or course_lib.hierarchical writes"
            raise InputError(path, "holds a trained model that is not exported", expected)
        if not names:
            raise InputError(path, f"holds no *{first}", expected)
        path = path / ("model" if "model" in names else names[0])
    for ending in endings:
        if not file_of(path, ending).is_file():
            raise InputError(path, f"has no {path.name}{ending}", expected)
    return path


# ---- deploy.json


class _Record(BaseModel, strict=True):
    bytes: int
    sha256: str


class _Description(BaseModel, strict=True):
    """What deploy.json may say; older exports lack some keys, and others may be there, too."""

    task: str | None = None
    problem: Literal["single_label", "multi_label"] | None = None
    labels: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None = None
    thresholds: list[Annotated[float, Field(ge=0, le=1)]] | None = None
    max_length: Annotated[int, Field(ge=3)] | None = None
    pad_token_id: Annotated[int, Field(ge=0)] = 0
    files: dict[str, _Record] = {}

    @field_validator("labels")
    @classmethod
    def _all_different(cls, labels: list[str] | None) -> list[str] | None:
        if labels is not None and len(set(labels)) < len(labels):
            raise ValueError("a list of different names")
        return labels

    @field_validator("thresholds")
    @classmethod
    def _one_each(cls, thresholds: list | None, info: ValidationInfo) -> list | None:
        labels = info.data.get("labels") if info.data.get("problem") == MULTI_LABEL else None
        if thresholds is not None and len(thresholds) != len(labels or ()):
            raise ValueError("one for each label of a multi_label model, else none")
        return thresholds


def describe(prefix: Path) -> dict:
    """What deploy.json says beside a program; empty where there is none."""
    file = prefix.parent / DESCRIPTION
    if not file.is_file():
        return {}
    description = read_json(file, "what export_model wrote")
    if not isinstance(description, dict):
        raise InputError(file, "is no JSON object", "what export_model wrote")
    _check(file, description)
    return description


def write_description(directory: Path, description: dict) -> None:
    """Write deploy.json; what it cannot say is an InputError that names the key."""
    _check("export_model", description)
    text = json.dumps(description, ensure_ascii=False, indent=1)
    (directory / DESCRIPTION).write_text(text + "\n", encoding="utf-8")


def _check(where: str | os.PathLike, description: dict) -> None:
    try:
        _Description.model_validate(description)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = first["loc"][0]
        expected = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        raise InputError(where, f"{key} is {description[key]!r:.60}", expected) from None


def check_file(file: Path, description: dict) -> None:
    """Refuse a model file of another size or hash than deploy.json has of it.

    A file that it says nothing of is let pass: older exports have no such record.
    """
    record = description.get("files", {}).get(file.name)
    if record is not None:
        expected = f"the file that was exported, as {DESCRIPTION} has it"
        verify_files(file.parent, {file.name: record}, expected)


def copy_companions(prefix: Path, directory: Path) -> None:
    """Copy deploy.json and the tokenizer's files that lie beside a program."""
    description = describe(prefix)
    for name in (*VOCABULARIES, DESCRIPTION):
        if (prefix.parent / name).is_file():
            check_file(prefix.parent / name, description)
            shutil.copyfile(prefix.parent / name, directory / name)


# ---- writing


@contextmanager
def new_files(
    directory: str | os.PathLike, name: str, endings: Sequence[str] = (PROGRAM, ONNX)
) -> Iterator[Path]:
    """Yield a temporary directory whose files then go into `directory`, the program last.

    Older files `name` with one of these endings go first. What deploy.json says of the files beside
    it is made to fit those that are there then. What Paddle wrote is read back: it does not report
    a full disk.

    Raises:
        InputError: `directory` is a file, cannot be written, or holds another model, whose
            configuration or vocabulary would be replaced; the disk is full.
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
            described = framework_pb2.ProgramDesc()
            try:
                described.ParseFromString(program.read_bytes())
                if not _are_whole(described, program.with_suffix(WEIGHTS)):
                    raise DecodeError
            except DecodeError:
                with writing(directory / program.name):
                    raise OSError("what was written is cut off") from None
            program.write_bytes(_without_traces(described))
        old = [directory / (name + ending) for ending in endings]
        _record(directory, temporary, old)
        if (directory / MANIFEST).is_file():  # of a trained model, whose files are replaced
            listed = read_manifest(directory, "the manifest of the model that is there")
            names = [file.name for file in temporary.iterdir() if file.name in listed]
            write_manifest(temporary, listed | describe_files(temporary, names))
        for file in old:
            file.unlink(missing_ok=True)
        for file in sorted(temporary.iterdir(), key=lambda file: file.suffix in (PROGRAM, ONNX)):
            os.replace(file, directory / file.name)


def _record(directory: Path, temporary: Path, old: Sequence[Path]) -> None:
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
    description["files"] = {
        name: size_and_hash
        for name, size_and_hash in before.get("files", {}).items()
        if (directory / name).is_file() and directory / name not in old
    }
    made, models = [file.name for file in temporary.iterdir()], (PROGRAM, WEIGHTS, ONNX)
    names = [name for name in made if name.endswith(models) or name in VOCABULARIES]
    description["files"] |= describe_files(temporary, names)
    write_description(temporary, description)


def _without_traces(described: framework_pb2.ProgramDesc) -> bytes:
    """A program as the same bytes wherever it is written.

    Paddle notes with each operator the lines of code that made it, with their whole paths, and
    writes attributes in an order that depends on addresses in memory.
    """
    for block in described.blocks:
        for operator in block.ops:
            attributes = [copy.copy(one) for one in operator.attrs if one.name != "op_callstack"]
            del operator.attrs[:]
            operator.attrs.extend(sorted(attributes, key=lambda one: one.name))
    return described.SerializeToString(deterministic=True)


def _are_whole(program: framework_pb2.ProgramDesc, file: Path) -> bool:
    """Whether a program's file of weights holds all of them, which Paddle's writer does not ask.

    A tensor is a version, levels of detail, a description of its type and sizes, and its numbers.
    """
    names = {value.name for value in program.blocks[0].vars if value.persistable}
    size = file.stat().st_size if file.is_file() else 0
    with open(file, "rb") as handle:
        for _ in names - {"feed", "fetch"}:
            levels = handle.read(12)[4:]
            for _ in range(int.from_bytes(levels, "little")):
                handle.seek(int.from_bytes(handle.read(8), "little"), os.SEEK_CUR)
            length = handle.read(8)[4:]
            if len(length) < 4:
                return False
            description = handle.read(int.from_bytes(length, "little"))
            tensor = framework_pb2.VarType.TensorDesc.FromString(description)
            kind = paddle.base.core.VarDesc.VarType(tensor.data_type)
            each = paddle.base.core.size_of_dtype(kind)
            if handle.seek(math.prod(tensor.dims) * each, os.SEEK_CUR) > size:
                return False
        return handle.tell() == size
