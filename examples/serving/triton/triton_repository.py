"""A model repository for NVIDIA's Triton Inference Server, written from an export and checked.

Four models: NAME_tokenizer (texts to ids, Triton's Python backend), NAME_model (ids to logits, ONNX
Runtime), NAME_postprocess (logits to labels, Python), and NAME, the ensemble that passes the
tensors of each on to the next. A client sends TEXT to NAME and gets LABELS and PROBABILITIES.

    python examples/serving/triton/triton_repository.py EXPORT_DIR REPOSITORY_DIR [--name NAME]

Both writing and checking use Triton's own protobuf definitions, from tritonclient[grpc], a package
for Linux. The files in models/ are copied as they are: they run in the server's own environment,
without course_lib.

Sources: the server's guide, docs/user_guide (model_repository.md, model_configuration.md,
ensemble_models.md), and the Python backend's README.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from course_lib.deploy.files import ONNX, check_file, describe, file_of, find_files
from course_lib.models.files import VOCABULARIES
from course_lib.runtime import InputError, atomic_directory
from course_lib.runtime.commands import exit_status, whole

import onnx
from google.protobuf import json_format, text_format
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

MODELS = Path(__file__).with_name("models")


def write_repository(
    source: str | os.PathLike,
    directory: str | os.PathLike,
    name: str = "classifier",
    max_batch_size: int = 64,
) -> Path:
    """Write a model repository for `tritonserver --model-repository=DIRECTORY`.

    Args:
        source: what `export_model` wrote of a sequence classifier, with its tokenizer and the ONNX
            file of `deploy.onnx.convert`.
        directory: new, or empty; it appears whole or not at all.
        name: the ensemble's, and the start of the other models' names.
        max_batch_size: texts in one request, and in one batch that Triton makes of several.

    Returns:
        The directory.

    Raises:
        InputError: the export is no sequence classifier, or lacks labels, tokenizer or ONNX file;
            the name has other characters than letters, digits, "_" and "-"; the directory holds
            something.
    """
    prefix, description = _read_classifier(source)
    # the parts' names are longer, and a file's name may have 255 characters
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{,99}", name):
        raise InputError("name", f"is {name!r}", "at most 100 of letters, digits, _ and -")
    inputs, outputs = _tensors(file_of(prefix, ONNX))
    directory = Path(directory)
    if directory.is_dir() and any(directory.iterdir()):
        raise InputError(directory, "exists and is not empty", "the name of a new directory")
    with atomic_directory(directory) as temporary:
        configurations = _configurations(name, inputs, outputs[0], description)
        for model, config in configurations.items():
            (temporary / model / "1").mkdir(parents=True)
            message = ModelConfig(name=model, max_batch_size=max_batch_size)
            text = text_format.MessageToString(json_format.ParseDict(config, message), as_utf8=True)
            _write(temporary / model / "config.pbtxt", text)
        for part in ("tokenizer", "postprocess"):
            model = temporary / f"{name}_{part}"
            shutil.copyfile(MODELS / f"{part}.py", model / "1" / "model.py")
        for file in (prefix.with_name(vocabulary) for vocabulary in VOCABULARIES):
            if file.is_file():
                check_file(file, description)
                shutil.copyfile(file, temporary / f"{name}_tokenizer" / "1" / file.name)
        labels = "".join(f"{label}\n" for label in description["labels"])
        _write(temporary / f"{name}_postprocess" / "labels.txt", labels)
        shutil.copyfile(file_of(prefix, ONNX), temporary / f"{name}_model" / "1" / "model.onnx")
        # an ensemble's version is an empty directory, which git and object stores would leave out
        (temporary / name / "1" / ".keep").touch()
        readme = (MODELS / "README.md").read_text(encoding="utf-8")
        words = {"name": name, "paddlenlp": version("paddlenlp")}
        _write(temporary / "README.md", readme.format(**words))
    return directory


def _read_classifier(source: str | os.PathLike) -> tuple[Path, dict]:
    """The common path of an export's files and its deploy.json, both as a server needs them."""
    prefix = find_files(source, (ONNX,))
    description = describe(prefix)
    task, labels = description.get("task"), description.get("labels")
    if task != "sequence classification":
        problem = f"is for {task or 'a task that no deploy.json names'}"
        raise InputError(prefix, problem, "a sequence classifier")
    if not labels:
        raise InputError(prefix.parent, "its deploy.json names no labels", "one for each class")
    broken = [label for label in labels if label.splitlines() != [label]]
    if broken:
        raise InputError(prefix.parent, f"its label {broken[0]!r} breaks the line", "one line each")
    if not (prefix.parent / "tokenizer_config.json").is_file():
        raise InputError(prefix.parent, "has no tokenizer", "export_model with a tokenizer")
    check_file(file_of(prefix, ONNX), description)
    return prefix, description


def _tensors(file: Path) -> tuple[list[str], list[str]]:
    """Names of an ONNX file's inputs and outputs."""
    try:
        graph = onnx.load(str(file), load_external_data=False).graph
    except Exception as error:  # protobuf's and onnx's own kinds
        raise InputError(file, f"is no ONNX file ({error})", "what convert wrote") from None
    return [each.name for each in graph.input], [each.name for each in graph.output]


def _write(file: Path, text: str) -> None:
    """Write UTF-8 with LF line ends, whatever the system: it is for a server on Linux."""
    file.write_text(text, encoding="utf-8", newline="\n")


def _configurations(name: str, inputs: list[str], output: str, description: Mapping) -> dict:
    """The fields of each model's ModelConfig but for its name and batch size, by model."""
    classes = len(description["labels"])

    def tensor(name: str, data_type: str, size: int, **more) -> dict:  # size: without the batch's
        return {"name": name, "data_type": data_type, "dims": [size], **more}

    def python(inputs: list, outputs: list, **parameters) -> dict:
        return {
            "backend": "python",
            "input": inputs,
            "output": outputs,
            "instance_group": [{"count": 1, "kind": "KIND_CPU"}],
            "parameters": {key: {"string_value": str(each)} for key, each in parameters.items()},
        }

    def step(part: str, inputs: dict, outputs: dict) -> dict:
        maps = {"input_map": inputs, "output_map": outputs}
        return {"model_name": f"{name}_{part}", "model_version": -1, **maps}

    text = tensor("TEXT", "TYPE_STRING", 1)
    ids = [tensor(name, "TYPE_INT64", -1) for name in inputs]
    logits = tensor(output, "TYPE_FP32", classes)
    answer = [
        tensor("LABELS", "TYPE_STRING", 1),
        tensor("PROBABILITIES", "TYPE_FP32", classes, label_filename="labels.txt"),
    ]
    same_ids = {name: name for name in inputs}
    same_answer = {one["name"]: one["name"] for one in answer}
    steps = [
        step("tokenizer", {"TEXT": "TEXT"}, same_ids),
        step("model", same_ids, {logits["name"]: "logits"}),
        step("postprocess", {"LOGITS": "logits"}, same_answer),
    ]
    return {
        f"{name}_tokenizer": python([text], ids, max_length=description.get("max_length") or 128),
        f"{name}_model": {
            "backend": "onnxruntime",
            "input": ids,
            "output": [logits],
            # requests that come within 2 ms and have equal shapes share a batch
            "dynamic_batching": {"max_queue_delay_microseconds": 2000},
        },
        f"{name}_postprocess": python(
            [{**logits, "name": "LOGITS"}],
            answer,
            problem=description.get("problem") or "single_label",
            thresholds=json.dumps(description.get("thresholds") or [0.5] * classes),
        ),
        name: {
            "platform": "ensemble",
            "input": [text],
            "output": answer,
            "ensemble_scheduling": {"step": steps},
        },
    }


# ---- checking


def check_repository(directory: str | os.PathLike) -> dict[str, object]:
    """Check the configurations of a model repository as far as that goes without a server.

    Each config.pbtxt is parsed with Triton's protobuf definitions. Then: the tensors of an ONNX
    file, and for an ensemble that each step gets the tensors it wants, of the same type and
    dimensions. Triton itself reports missing files when it loads the repository.

    Returns:
        The configurations (`ModelConfig` messages) by model.

    Raises:
        InputError: the first fault, with the file; or there are no models.
    """
    directory = Path(directory)
    configs = {}
    for file in sorted(directory.glob("*/config.pbtxt")):
        try:
            text = file.read_text(encoding="utf-8")
            configs[file.parent.name] = text_format.Parse(text, ModelConfig())
        except (text_format.ParseError, UnicodeDecodeError) as error:
            problem = f"is no model configuration ({error})"
            raise InputError(file, problem, "fields of Triton's ModelConfig") from None
    if not configs:
        raise InputError(directory, "holds no */config.pbtxt", "a model repository")
    for name, config in configs.items():
        file = directory / name / "config.pbtxt"
        for model_file in (directory / name).glob("*/model.onnx"):
            for kind, names in zip(("input", "output"), _tensors(model_file), strict=True):
                configured = [tensor.name for tensor in getattr(config, kind)]
                if sorted(configured) != sorted(names):
                    problem = f"its {kind}s are {', '.join(configured)}"
                    raise InputError(file, problem, f"{', '.join(names)}, as in {model_file.name}")
    for name, config in configs.items():
        _check_ensemble(directory / name / "config.pbtxt", config, configs)
    return configs


def _check_ensemble(file: Path, config, configs: Mapping) -> None:
    """Follow the tensors from the ensemble's inputs through its steps to its outputs."""
    if config.platform != "ensemble":
        return
    known = {tensor.name: tensor for tensor in config.input}
    for step in config.ensemble_scheduling.step:
        place = f"step {step.model_name}"
        model = configs.get(step.model_name)
        if model is None:
            others = sorted(set(configs) - {config.name})
            raise InputError(file, f"{place}: no such model", f"one of {', '.join(others)}")
        inputs, outputs = ({one.name: one for one in each} for each in (model.input, model.output))
        if set(step.input_map) != set(inputs) or not set(step.output_map) <= set(outputs):
            problem = f"{place}: maps {', '.join(sorted([*step.input_map, *step.output_map]))}"
            expected = f"its inputs {', '.join(inputs)} and outputs {', '.join(outputs)}"
            raise InputError(file, problem, expected)
        for key, name in sorted(step.input_map.items()):  # a map has no order of its own
            _check_same(file, f"{place}: {key}", inputs[key], name, known.get(name))
        known |= {name: outputs[key] for key, name in step.output_map.items()}
    for tensor in config.output:
        _check_same(file, "an output", tensor, tensor.name, known.get(tensor.name))


def _check_same(file: Path, place: str, wanted, name: str, there) -> None:
    """Refuse a tensor that no step gives, or that has another type or other dimensions."""
    if there is None:
        raise InputError(file, f"{place}: no step before it gives {name!r}", "a tensor's name")
    sides = zip(wanted.dims, there.dims, strict=False)
    fits = len(wanted.dims) == len(there.dims)
    fits &= all(one == other or -1 in (one, other) for one, other in sides)
    if wanted.data_type != there.data_type or not fits:
        one, other = (f"{DataType.Name(each.data_type)} {each.dims}" for each in (wanted, there))
        raise InputError(file, f"{place} is {one}, but {name} is {other}", "the same of both")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a repository and check it; the exit status is 2 when an input is not as expected."""
    parser = argparse.ArgumentParser(description="Write a Triton model repository.")
    parser.add_argument("source", help="directory of export_model, with a .onnx")
    parser.add_argument("directory", help="new directory to write")
    parser.add_argument("--name", default="classifier", help="of the ensemble (%(default)s)")
    parser.add_argument("--max_batch_size", type=whole(1), default=64, help="(%(default)s)")
    options = parser.parse_args(arguments)

    def run() -> None:
        directory = write_repository(**vars(options))
        print(f"{directory}: {', '.join(check_repository(directory))}: written and checked")

    return exit_status(run)


if __name__ == "__main__":
    sys.exit(main())
