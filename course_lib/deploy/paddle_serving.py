"""A directory for Paddle Serving's pipeline web service, written from an export.

    python -m course_lib.deploy.paddle_serving EXPORT_DIR DIRECTORY [--name NAME] [--http_port PORT]

Paddle Serving's last release, 0.9.0, goes up to Python 3.9 and wants gRPC and Flask of the year
2020: it cannot be installed beside the course, so nothing here has been run in it. The README.md
that is written says so.

Sources: PaddlePaddle/Serving, doc (Python Pipeline) and examples/Pipeline/PaddleNLP; the code of
paddle-serving-server 0.9.0 (pipeline/operator.py, pipeline_server.py).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from course_lib.deploy.export import PROGRAM, WEIGHTS
from course_lib.deploy.triton import (
    FILES,
    copy_tokenizer,
    interface,
    new_directory,
    read_classifier,
    write_text,
)
from course_lib.runtime import InputError, atomic_directory
from course_lib.runtime.errors import whole

import yaml


def write_serving(
    source: str | os.PathLike,
    directory: str | os.PathLike,
    name: str = "classifier",
    http_port: int = 18080,
    concurrency: int = 1,
    threads: int = 2,
) -> Path:
    """Write config.yml, service.py, client.py, their settings, the tokenizer and the model.

    Args:
        source: what `export_model` wrote of a sequence classifier, with its tokenizer.
        directory: new, or empty; it appears whole or not at all.
        name: the service's: requests go to /NAME/prediction.
        http_port: the next one is gRPC's.
        concurrency: processes that each hold the model.
        threads: of one prediction.

    Returns:
        The directory.

    Raises:
        InputError: the export is no sequence classifier, lacks labels or tokenizer, or is
            quantised; the name has other characters than letters, digits and "_"; a number is out
            of range; the directory holds something.
    """
    prefix, description = read_classifier(source)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise InputError("name", f"is {name!r}", "letters, digits and _ only")
    http_port = whole("http_port", http_port, 1024, 65534)
    program = prefix.with_name(prefix.name + PROGRAM)
    inputs, outputs, quantised = interface(program)
    if quantised:
        raise InputError(program, "is quantised: not tried in Paddle Serving", "the FP32 export")
    labels = description["labels"]
    settings = {
        "name": name,
        "http_port": http_port,
        "inputs": inputs,
        "output": outputs[0],
        "labels": labels,
        "problem": description.get("problem") or "single_label",
        "thresholds": description.get("thresholds") or [0.5] * len(labels),
        "max_length": description.get("max_length") or 128,
    }
    config = {
        "http_port": http_port,
        "rpc_port": http_port + 1,
        "worker_num": whole("concurrency", concurrency, 1) * 4,  # requests that wait at once
        "build_dag_each_worker": False,
        "dag": {"is_thread_op": False, "retry": 1},
        "op": {
            name: {
                "concurrency": concurrency,
                "timeout": 10_000,  # ms
                "local_service_conf": {
                    "client_type": "local_predictor",
                    "model_config": "serving_server",
                    "fetch_list": outputs[:1],
                    "device_type": 0,  # a CPU
                    "devices": "",
                    "thread_num": whole("threads", threads, 1),
                    "use_mkldnn": True,
                    "mem_optim": True,
                    "ir_optim": True,
                },
            }
        },
    }
    directory = new_directory(directory)
    with atomic_directory(directory) as temporary:
        for folder in ("model", "tokenizer"):
            (temporary / folder).mkdir()
        for ending in (PROGRAM, WEIGHTS):
            file = prefix.with_name(prefix.name + ending)
            shutil.copyfile(file, temporary / "model" / f"model{ending}")
        copy_tokenizer(prefix, temporary / "tokenizer")
        shutil.copyfile(FILES / "serving_service.py", temporary / "service.py")
        shutil.copyfile(FILES / "serving_client.py", temporary / "client.py")
        write_text(temporary / "config.yml", yaml.safe_dump(config, sort_keys=False))
        text = json.dumps(settings, ensure_ascii=False, indent=1)
        write_text(temporary / "settings.json", text + "\n")
        write_text(temporary / "README.md", _README.format(name=name, port=http_port))
    return directory


def check_serving(directory: str | os.PathLike) -> None:
    """Check that the files of such a directory fit each other.

    Raises:
        InputError: the first fault, with the file.
    """
    directory = Path(directory)
    for name in ("service.py", "client.py", "tokenizer/tokenizer_config.json"):
        if not (directory / name).is_file():
            raise InputError(directory, f"has no {name}", "what write_serving wrote")
    config = _read(directory / "config.yml", yaml.safe_load)
    settings = _read(directory / "settings.json", json.loads)
    inputs, outputs, _ = interface(directory / "model" / f"model{PROGRAM}")
    file = directory / "config.yml"
    operators = config.get("op")
    if not isinstance(operators, Mapping) or list(operators) != [settings.get("name")]:
        problem = f"its op is {operators!r:.60}"
        raise InputError(file, problem, f"{settings.get('name')!r}, the name in settings.json")
    operator = operators[settings["name"]]
    local = operator.get("local_service_conf") if isinstance(operator, Mapping) else None
    local = local if isinstance(local, Mapping) else {}
    for place, found, expected in (
        (file, ("http_port", config.get("http_port")), settings.get("http_port")),
        (file, ("client_type", local.get("client_type")), "local_predictor"),
        (file, ("model_config", local.get("model_config")), "serving_server"),
        (file, ("fetch_list", local.get("fetch_list")), outputs[:1]),
        (directory / "settings.json", ("inputs", settings.get("inputs")), inputs),
        (directory / "settings.json", ("output", settings.get("output")), outputs[0]),
    ):
        if found[1] != expected:
            raise InputError(place, f"{found[0]} is {found[1]!r}", repr(expected))
    for name, found in (("http_port", config["http_port"]), ("rpc_port", config.get("rpc_port"))):
        whole(f"{file}: {name}", found, 1024, 65535)
    if config["rpc_port"] == config["http_port"]:
        raise InputError(file, "rpc_port and http_port are the same", "two ports")


def _read(file: Path, parse) -> dict:
    try:
        value = parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InputError(file, f"cannot be read ({reason})", "what write_serving wrote") from None
    if not isinstance(value, dict):
        raise InputError(file, f"is a {type(value).__name__}", "what write_serving wrote")
    return value


_README = """# A Paddle Serving pipeline

Written by course_lib.deploy.paddle_serving, whose check_serving compares its files with each other.
The course's tests run service.py with an imitation of paddle_serving_server. **It has not been run
in Paddle Serving**, whose last release goes up to Python 3.9; nor have the commands below.
service.py needs PaddleNLP in the same environment.

    pip install paddle-serving-server==0.9.0 paddle-serving-client==0.9.0 paddle-serving-app==0.9.0
    # writes serving_server/ (the model and its description) and serving_client/
    python -m paddle_serving_client.convert --dirname model \\
        --model_filename model.pdmodel --params_filename model.pdiparams
    python service.py
    python client.py 房间很干净

- config.yml: ports, processes, threads, and `fetch_list`, the output as the converted model's
  serving_server_conf.prototxt calls it (`alias_name`). Compare the two after converting.
- settings.json: what service.py and client.py must know: labels, problem, thresholds, lengths.
- The answers are at http://HOST:{port}/{name}/prediction. The gateway asks for no password, and old
  releases run `eval` on what they receive (0.9.0 does not): keep it behind a firewall.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write such a directory and check it; the exit status is 2 for input not as expected."""
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.deploy.paddle_serving",
        description="Write a directory for Paddle Serving.",
    )
    parser.add_argument("source", help="directory of export_model")
    parser.add_argument("directory", help="new directory to write")
    parser.add_argument("--name", default="classifier", help="of the service (%(default)s)")
    parser.add_argument("--http_port", type=int, default=18080, help="(%(default)s)")
    parser.add_argument("--concurrency", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="of one prediction (%(default)s)")
    options = parser.parse_args(arguments)
    try:
        directory = write_serving(**vars(options))
        check_serving(directory)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{directory}: written and checked; not run, see its README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
