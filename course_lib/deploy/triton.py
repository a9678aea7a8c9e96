"""A model repository for NVIDIA's Triton Inference Server, written from an export and checked.

Four models: NAME_tokenizer (texts to ids, Triton's Python backend), NAME_model (ids to logits, ONNX
Runtime or Paddle), NAME_postprocess (logits to labels, Python), and NAME, the ensemble that passes
the tensors of each on to the next. A client sends TEXT to NAME and gets LABELS and PROBABILITIES.

    python -m course_lib.deploy.triton EXPORT_DIR REPOSITORY_DIR [--name NAME] [--backend BACKEND]

Sources: the server's guide, docs/user_guide (model_repository.md, model_configuration.md,
ensemble_models.md), and the Python backend's README.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from course_lib.deploy import generated
from course_lib.deploy.export import ONNX, PROGRAM, WEIGHTS, check_file, describe, find_files
from course_lib.runtime import InputError, atomic_directory
from course_lib.runtime.errors import whole

import paddle

BACKENDS = {"onnxruntime": (ONNX,), "paddle": (PROGRAM, WEIGHTS)}  # and the files each reads
FILES = Path(generated.__file__).parent
TENSOR = tuple[str, str, list[int]]  # name, type, dimensions without the batch's


def write_repository(
    source: str | os.PathLike,
    directory: str | os.PathLike,
    name: str = "classifier",
    backend: str | None = None,
    max_batch_size: int = 64,
) -> Path:
    """Write a model repository for `tritonserver --model-repository=DIRECTORY`.

    Args:
        source: what `export_model` wrote of a sequence classifier, with its tokenizer.
        directory: new, or empty; it appears whole or not at all.
        name: the ensemble's, and the start of the other models' names.
        backend: "onnxruntime" reads model.onnx of `deploy.onnx.convert`; "paddle" reads the export
            itself, but is in none of NVIDIA's images. None means the first where there is such a
            file.
        max_batch_size: texts in one request, and in one batch that Triton makes of several.

    Returns:
        The directory.

    Raises:
        InputError: the export is no sequence classifier, lacks labels, tokenizer or model.onnx, or
            is quantised and for the Paddle backend, which has no INT8 kernels for a CPU; the name
            has other characters than letters, digits, "_" and "-"; the directory holds something.
    """
    prefix, description = read_classifier(source)
    max_batch_size = whole("max_batch_size", max_batch_size, 1, 2**31 - 1)
    # the parts' names are longer, and a file's name may have 255 characters
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{,99}", name):
        raise InputError("name", f"is {name!r}", "at most 100 of letters, digits, _ and -")
    onnx_file = prefix.with_name(prefix.name + ONNX)
    backend = backend or ("onnxruntime" if onnx_file.is_file() else "paddle")
    if backend not in BACKENDS:
        raise InputError("backend", f"is {backend!r}", " or ".join(BACKENDS))
    inputs, outputs, quantised = interface(prefix.with_name(prefix.name + PROGRAM))
    if backend == "onnxruntime" and not onnx_file.is_file():
        raise InputError(prefix.parent, f"has no {onnx_file.name}", "deploy.onnx.convert first")
    if backend == "paddle" and quantised:
        problem = "is quantised, and Triton's Paddle backend has no INT8 kernels for a CPU"
        raise InputError(prefix.with_name(prefix.name + PROGRAM), problem, "FP32, or model.onnx")
    directory = new_directory(directory)
    labels = description["labels"]
    text: TENSOR = ("TEXT", "TYPE_STRING", [1])
    ids: list[TENSOR] = [(one, "TYPE_INT64", [-1]) for one in inputs]
    logits: TENSOR = (outputs[0], "TYPE_FP32", [len(labels)])
    answer: list[TENSOR] = [
        ("LABELS", "TYPE_STRING", [1]),
        ("PROBABILITIES", "TYPE_FP32", [len(labels)]),
    ]
    thresholds = description.get("thresholds") or [0.5] * len(labels)
    cpu = "instance_group [ { count: 1 kind: KIND_CPU } ]\n"
    configs = {
        f"{name}_tokenizer": (
            'backend: "python"\n',
            ([text], ids),
            cpu + _parameters({"max_length": description.get("max_length") or 128}),
        ),
        f"{name}_model": (
            f'backend: "{backend}"\n',
            (ids, [logits]),
            "# requests that come within 2 ms and have equal shapes share a batch\n"
            "dynamic_batching { max_queue_delay_microseconds: 2000 }\n",
        ),
        f"{name}_postprocess": (
            'backend: "python"\n',
            ([("LOGITS", *logits[1:])], answer),
            cpu
            + _parameters(
                {
                    "problem": description.get("problem") or "single_label",
                    "thresholds": json.dumps(thresholds),
                }
            ),
        ),
        name: ('platform: "ensemble"\n', ([text], answer), _steps(name, ids, logits[0])),
    }
    with atomic_directory(directory) as temporary:
        for model, (head, tensors, tail) in configs.items():
            (temporary / model / "1").mkdir(parents=True)
            config = f'name: "{model}"\n{head}max_batch_size: {max_batch_size}\n'
            config += _tensors("input", tensors[0]) + _tensors("output", tensors[1]) + tail
            write_text(temporary / model / "config.pbtxt", config)
        tokenizer, post = temporary / f"{name}_tokenizer", temporary / f"{name}_postprocess"
        shutil.copyfile(FILES / "triton_tokenizer.py", tokenizer / "1" / "model.py")
        shutil.copyfile(FILES / "triton_postprocess.py", post / "1" / "model.py")
        copy_tokenizer(prefix, tokenizer / "1")
        write_text(post / "labels.txt", "".join(f"{label}\n" for label in labels))
        for ending in BACKENDS[backend]:
            file = prefix.with_name(prefix.name + ending)
            shutil.copyfile(file, temporary / f"{name}_model" / "1" / f"model{ending}")
        # an ensemble's version is an empty directory, which git and object stores would leave out
        (temporary / name / "1" / ".keep").touch()
        readme = _README.format(name=name, backend=backend, paddlenlp=version("paddlenlp"))
        write_text(temporary / "README.md", readme)
    return directory


def read_classifier(source: str | os.PathLike) -> tuple[Path, dict]:
    """The common path of an export's files and its deploy.json, both as a server needs them.

    Raises:
        InputError: a file is missing or not the exported one; no sequence classifier; no labels, or
            one with a line break; no tokenizer.
    """
    prefix = find_files(source)
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
    for ending in (PROGRAM, WEIGHTS):
        check_file(prefix.with_name(prefix.name + ending), description)
    return prefix, description


def interface(program: Path) -> tuple[list[str], list[str], bool]:
    """Names of a .pdmodel's inputs and outputs, and whether it is quantised.

    Raises:
        InputError: it is damaged, or has other inputs than int64 ones named as the tokenizer's.
    """
    try:
        described = paddle.base.core.ProgramDesc(program.read_bytes())
        block = described.block(0)
        operators = [block.op(index) for index in range(block.op_size())]
        inputs = [one.output("Out")[0] for one in operators if one.type() == "feed"]
        outputs = [one.input("X")[0] for one in operators if one.type() == "fetch"]
        types = {str(block.find_var(one.encode()).dtype()).lower() for one in inputs}
        if not inputs or not outputs:
            raise ValueError("no inputs or outputs")
    except Exception:  # paddle's own kinds, with pages of C++ in them
        raise InputError(program, "is damaged or no program", "what export_model wrote") from None
    if not set(inputs) <= {"input_ids", "token_type_ids"} or not all(
        one.endswith("int64") for one in types
    ):
        problem = f"its inputs are {', '.join(inputs)} ({', '.join(sorted(types))})"
        raise InputError(program, problem, "input_ids and token_type_ids, int64")
    quantised = any("quantize_linear" in one.type() for one in operators)
    quantised |= any(one.type().startswith("fake_quantize") for one in operators)
    return sorted(inputs), outputs, quantised


def new_directory(directory: str | os.PathLike) -> Path:
    """Refuse a directory that holds something already."""
    directory = Path(directory)
    if directory.is_dir() and any(directory.iterdir()):
        raise InputError(directory, "exists and is not empty", "the name of a new directory")
    return directory


def copy_tokenizer(prefix: Path, directory: Path) -> None:
    """Copy the tokenizer's files that lie beside a program."""
    for pattern in ("vocab.txt", "*token*.json", "sentencepiece.bpe.model", "spiece.model"):
        for file in prefix.parent.glob(pattern):
            shutil.copyfile(file, directory / file.name)


def write_text(file: Path, text: str) -> None:
    """Write UTF-8 with LF line ends, whatever the system: it is for a server on Linux."""
    file.write_text(text, encoding="utf-8", newline="\n")


def _tensors(kind: str, tensors: Sequence[TENSOR]) -> str:
    lines = []
    for name, data_type, dims in tensors:
        labels = ' label_filename: "labels.txt"' if name == "PROBABILITIES" else ""
        lines.append(f'  {{ name: "{name}" data_type: {data_type} dims: {dims}{labels} }}')
    return f"{kind} [\n" + ",\n".join(lines) + "\n]\n"


def _parameters(values: Mapping[str, object]) -> str:
    return "".join(
        f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
        for key, value in values.items()
    )


def _steps(name: str, ids: Sequence[TENSOR], logits: str) -> str:
    """The ensemble's plan: for each model, which tensor goes where."""
    same = {tensor[0]: tensor[0] for tensor in ids}
    steps = [
        ("tokenizer", {"TEXT": "TEXT"}, same),
        ("model", same, {logits: "logits"}),
        ("postprocess", {"LOGITS": "logits"}, {one: one for one in ("LABELS", "PROBABILITIES")}),
    ]
    parts = []
    for model, inputs, outputs in steps:
        lines = [f'      model_name: "{name}_{model}"', "      model_version: -1"]
        for kind, mapping in (("input_map", inputs), ("output_map", outputs)):
            lines += [
                f'      {kind} {{ key: "{key}" value: "{value}" }}'
                for key, value in mapping.items()
            ]
        parts.append("    {\n" + "\n".join(lines) + "\n    }")
    return "ensemble_scheduling {\n  step [\n" + ",\n".join(parts) + "\n  ]\n}\n"


_README = """# A Triton model repository

Written by course_lib.deploy.triton, whose check_repository compares its files with Triton's own
protobuf definitions and with each other. The course's tests run the two model.py files with an
imitation of triton_python_backend_utils. **It has not been run in Triton**: this needs NVIDIA's
container.

| directory | does | backend |
|---|---|---|
| {name}_tokenizer | TEXT to ids | python |
| {name}_model | ids to logits | {backend} |
| {name}_postprocess | logits to LABELS (a JSON list a text) and PROBABILITIES | python |
| {name} | the three in a row | ensemble |

To try it (not run here):

    docker run --rm -it --shm-size=1g -p 127.0.0.1:8000:8000 -v "$PWD:/models" \\
        nvcr.io/nvidia/tritonserver:24.05-py3 bash
    # inside: the tokenizer needs PaddleNLP {paddlenlp}, which only a lock makes importable;
    # copy the course's requirements/cpu.txt here first
    pip install -r /models/cpu.txt
    tritonserver --model-repository=/models

Then ask it:

    curl -s localhost:8000/v2/models/{name}/infer -d '{{"inputs": [
      {{"name": "TEXT", "shape": [1, 1], "datatype": "BYTES", "data": ["房间很干净"]}}]}}'

NVIDIA's images have no Paddle backend; for "paddle" build it from triton-inference-server's
repository paddle_backend (not tried here), or convert the export to ONNX first.
"""


# ---- checking


def check_repository(directory: str | os.PathLike) -> dict[str, object]:
    """Check a model repository as far as that goes without a server.

    Each config.pbtxt is parsed with Triton's protobuf definitions. Then: names, version directories
    and model files; the Python of each model.py; label files; the tensors of an ONNX file or a
    Paddle program; and for an ensemble that each step gets the tensors it wants, of the same type
    and dimensions, from the ensemble's inputs or an earlier step.

    Returns:
        The configurations (`ModelConfig` messages) by model.

    Raises:
        InputError: the first fault, with the file; there are no models; or tritonclient, which has
            the definitions, is not installed (it exists for Linux only).
    """
    try:
        from google.protobuf import text_format
        from tritonclient.grpc import model_config_pb2
    except ImportError:
        problem = (
            "cannot be checked: tritonclient[grpc], which has Triton's definitions, is missing"
        )
        raise InputError(directory, problem, "tritonclient[grpc], for Linux only") from None
    directory = Path(directory)
    configs = {}
    for file in sorted(directory.glob("*/config.pbtxt")):
        try:
            text = file.read_text(encoding="utf-8")
            configs[file.parent.name] = text_format.Parse(text, model_config_pb2.ModelConfig())
        except (text_format.ParseError, UnicodeDecodeError) as error:
            problem = f"is no model configuration ({error})"
            raise InputError(file, problem, "fields of Triton's ModelConfig") from None
    if not configs:
        raise InputError(directory, "holds no */config.pbtxt", "a model repository")
    types = model_config_pb2.DataType
    for name, config in configs.items():
        _check_model(directory / name, config)
    for name, config in configs.items():
        if config.platform == "ensemble":
            _check_ensemble(directory / name / "config.pbtxt", config, configs, types)
    return configs


def _check_model(directory: Path, config) -> None:
    file = directory / "config.pbtxt"
    if config.name not in ("", directory.name):  # Triton takes the directory's where it is empty
        raise InputError(file, f"its name is {config.name!r}", f"{directory.name!r}, the directory")
    versions = [one for one in directory.iterdir() if one.is_dir() and one.name.isdigit()]
    if not versions:
        raise InputError(directory, "has no version directory", "one called 1")
    for kind in ("input", "output"):
        tensors = getattr(config, kind)
        if not tensors:
            raise InputError(file, f"names no {kind}", f"at least one {kind}")
        for tensor in tensors:
            if not tensor.name or not tensor.data_type or not tensor.dims:
                problem = f"{kind} {tensor.name!r} lacks a name, a type or dimensions"
                raise InputError(file, problem, "all three")
            if any(size < 1 and size != -1 for size in tensor.dims):
                problem = f"{kind} {tensor.name!r} has dimensions {list(tensor.dims)}"
                raise InputError(file, problem, "1 or more each, or -1 for any")
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise InputError(file, f"repeats the name of an {kind}", "each once")
    for tensor in config.output:
        if tensor.label_filename and config.platform != "ensemble":
            labels = directory / tensor.label_filename
            lines = labels.read_text("utf-8").splitlines() if labels.is_file() else []
            if len(lines) != tensor.dims[-1]:
                problem = f"has {len(lines)} labels"
                raise InputError(labels, problem, f"{tensor.dims[-1]}, one for each of the output")
    for one in versions:
        if config.backend == "python":
            _check_python(one / "model.py")
        elif config.backend in BACKENDS:
            _check_tensors(one, config)
        elif config.platform != "ensemble":
            problem = f"its backend is {config.backend!r}, its platform {config.platform!r}"
            raise InputError(file, problem, f"python, {', '.join(BACKENDS)} or an ensemble")


def _check_python(file: Path) -> None:
    if not file.is_file():
        raise InputError(file, "does not exist", "the model's Python code")
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError) as error:
        raise InputError(file, f"is no Python ({error})", "Python code") from None
    methods = [
        method.name
        for part in tree.body
        if isinstance(part, ast.ClassDef) and part.name == "TritonPythonModel"
        for method in part.body
        if isinstance(method, ast.FunctionDef)
    ]
    if "execute" not in methods:
        raise InputError(file, "has no TritonPythonModel.execute", "what Triton calls")


def _check_tensors(directory: Path, config) -> None:
    """Compare a configuration with the names of the model file's tensors."""
    for ending in BACKENDS[config.backend]:
        if not (directory / f"model{ending}").is_file():
            raise InputError(directory, f"has no model{ending}", f"a file for {config.backend}")
    if config.backend == "paddle":
        file = directory / f"model{PROGRAM}"
        found = interface(file)[:2]
    else:
        import onnx

        file = directory / f"model{ONNX}"
        try:
            graph = onnx.load(str(file), load_external_data=False).graph
        except Exception as error:  # protobuf's and onnx's own kinds
            raise InputError(file, f"is no ONNX file ({error})", "what convert wrote") from None
        constants = {one.name for one in graph.initializer}
        found = (
            [one.name for one in graph.input if one.name not in constants],
            [one.name for one in graph.output],
        )
    for kind, names in zip(("input", "output"), found, strict=True):
        given = [tensor.name for tensor in getattr(config, kind)]
        wrong = set(given) - set(names) or (set(names) - set(given) if kind == "input" else ())
        if wrong:
            problem = f"its {kind}s are {', '.join(given)}"
            expected = f"{', '.join(names)}, as in {file.name}"
            raise InputError(directory.parent / "config.pbtxt", problem, expected)


def _check_ensemble(file: Path, config, configs: Mapping, types) -> None:
    if not config.ensemble_scheduling.step:
        raise InputError(file, "its ensemble has no steps", "ensemble_scheduling { step [...] }")
    known = {tensor.name: tensor for tensor in config.input}  # and later what the steps give
    for step in config.ensemble_scheduling.step:
        place = f"step {step.model_name}"
        if step.model_name not in configs:
            problem = f"{place}: no such model"
            raise InputError(
                file, problem, f"one of {', '.join(sorted(set(configs) - {config.name}))}"
            )
        model = configs[step.model_name]
        if step.model_version not in (-1, 0):
            folder = file.parents[1] / step.model_name / str(step.model_version)
            if not folder.is_dir():
                problem = f"{place}: has no version {step.model_version}"
                raise InputError(file, problem, f"-1 (the newest) or a directory {folder}")
        if config.max_batch_size > model.max_batch_size:
            problem = f"max_batch_size is {config.max_batch_size}, {place} takes"
            raise InputError(file, f"{problem} {model.max_batch_size}", "no more than any step")
        inputs = {tensor.name: tensor for tensor in model.input}
        outputs = {tensor.name: tensor for tensor in model.output}
        for kind, mapping, own in (
            ("input", step.input_map, inputs),
            ("output", step.output_map, outputs),
        ):
            unknown = set(mapping) - set(own)
            if unknown:
                problem = f"{place}: {kind}_map has {', '.join(sorted(unknown))}"
                raise InputError(file, problem, f"{kind}s of that model: {', '.join(own)}")
        lacking = {one for one in inputs if not inputs[one].optional} - set(step.input_map)
        if lacking:
            problem = f"{place}: input_map lacks {', '.join(sorted(lacking))}"
            raise InputError(file, problem, "every input of that model")
        for key, tensor in sorted(step.input_map.items()):  # a map has no order of its own
            if tensor not in known:
                problem = f"{place}: nothing before it gives {tensor!r}"
                raise InputError(file, problem, f"one of {', '.join(known)}")
            _check_same(file, f"{place}: {key}", inputs[key], tensor, known[tensor], types)
        for key, tensor in sorted(step.output_map.items()):
            if tensor in known:
                raise InputError(file, f"{place}: gives {tensor!r} again", "a name of its own")
            known[tensor] = outputs[key]
    for output in config.output:
        if output.name not in known:
            problem = f"no step gives its output {output.name!r}"
            raise InputError(file, problem, f"one of {', '.join(known)}")
        _check_same(file, "output", output, output.name, known[output.name], types)


def _check_same(file: Path, place: str, wanted, name: str, given, types) -> None:
    sizes = zip(wanted.dims, given.dims, strict=False)
    fits = len(wanted.dims) == len(given.dims)
    fits &= all(one == other or -1 in (one, other) for one, other in sizes)
    if wanted.data_type != given.data_type or not fits:
        one, other = (
            f"{types.Name(tensor.data_type)} {list(tensor.dims)}" for tensor in (wanted, given)
        )
        raise InputError(file, f"{place} is {one}, but {name} is {other}", "the same of both")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a repository and check it; the exit status is 2 when an input is not as expected."""
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.deploy.triton", description="Write a Triton model repository."
    )
    parser.add_argument("source", help="directory of export_model")
    parser.add_argument("directory", help="new directory to write")
    parser.add_argument("--name", default="classifier", help="of the ensemble (%(default)s)")
    parser.add_argument("--backend", choices=BACKENDS, help="onnxruntime where there is a .onnx")
    parser.add_argument("--max_batch_size", type=int, default=64, help="(%(default)s)")
    options = parser.parse_args(arguments)
    try:
        directory = write_repository(**vars(options))
        print(f"{directory}: {', '.join(check_repository(directory))}: written and checked")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
