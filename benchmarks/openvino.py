"""OpenVINO's engine in Paddle 3's CPU build beside Paddle's own kernels of oneDNN.

    .venv-paddle3/bin/python benchmarks/openvino.py     a minute on two cores

The backbone with a head for reviews, in batches of 32 rows of 64 real tokens, by Paddle Inference:
each variant in turns, median of `--rounds` batches. `difference` is the largest one of a logit from
oneDNN in FP32. A variant that this build cannot run has its error instead. One JSON line; the other
benchmarks run on either stack, this one on Paddle 3 alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.compression import quantize_static
from course_lib.data import load_reviews
from course_lib.deploy import Predictor, export_model
from course_lib.models import load_backbone
from course_lib.runtime import machine, seed_everything, stack

import numpy as np
from int8_speed import INSTRUCTIONS
from paddle import inference
from paddlenlp.utils.log import logger

BATCH, LENGTH = 32, 64


def runner(path: Path, threads: int, switch_on: Callable, ids: np.ndarray) -> Callable:
    """A function that runs one batch on an engine which `switch_on` chooses in a configuration."""
    config = inference.Config(f"{path}.pdmodel", f"{path}.pdiparams")
    config.disable_gpu()
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(threads)
    switch_on(config)
    made = inference.create_predictor(config)

    def run() -> np.ndarray:
        for name in made.get_input_names():
            made.get_input_handle(name).copy_from_cpu(ids if name == "input_ids" else ids * 0)
        made.run()
        return made.get_output_handle(made.get_output_names()[0]).copy_to_cpu()

    return run


def onednn_bf16(config: inference.Config) -> None:
    config.enable_mkldnn()
    config.enable_mkldnn_bfloat16()


def openvino(precision: inference.PrecisionType) -> Callable:
    return lambda config: config.enable_openvino_engine(precision)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=machine.usable_cores())
    args = parser.parse_args()
    if not hasattr(inference.Config, "enable_openvino_engine"):
        parser.error(
            "this Paddle has no OpenVINO: make LOCK=cpu-paddle3 env, .venv-paddle3/bin/python"
        )
    logger.set_level("ERROR")
    seed_everything(42)
    ids = np.random.RandomState(0).randint(10, 7000, (BATCH, LENGTH))
    rows = [{"input_ids": row.tolist(), "token_type_ids": [0] * LENGTH} for row in ids]
    precisions = inference.PrecisionType
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # OpenVINO keeps what it has compiled in __cache__
        model, tokenizer = load_backbone(label_list=load_reviews("dev", max_examples=1).label_list)
        fp32 = export_model(model, Path("fp32"), tokenizer, LENGTH)
        int8 = quantize_static(fp32, Path("int8"), rows, batch_size=16, batch_nums=2)
        variants = {
            "oneDNN FP32": (fp32, inference.Config.enable_mkldnn),
            "oneDNN bf16": (fp32, onednn_bf16),
            "OpenVINO FP32": (fp32, openvino(precisions.Float32)),
            "OpenVINO bf16": (fp32, openvino(precisions.Bfloat16)),
            "OpenVINO INT8": (int8, openvino(precisions.Float32)),
        }
        runs, errors = {}, {}
        for name, (path, switch_on) in variants.items():
            try:
                run = runner(path, args.threads, switch_on, ids)
                run()
                runs[name] = run
            except (RuntimeError, ValueError, OSError) as error:
                errors[name] = str(error).strip().splitlines()[-1]
        inputs = {"input_ids": ids, "token_type_ids": ids * 0}
        quantized = Predictor(int8, threads=args.threads)
        runs["oneDNN INT8"] = lambda: quantized.run(inputs)[0]
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(args.rounds):
            for name, run in runs.items():
                begin = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - begin)
        exact = runs["oneDNN FP32"]()
        medians = {name: statistics.median(times) for name, times in seconds.items()}
        base = medians["oneDNN FP32"]
        differences = {name: np.abs(run() - exact).max() for name, run in runs.items()}
    result = {
        "paddle": stack.VERSION,
        "machine": f"{machine.cpu().model}, threads {args.threads}",
        "instructions": INSTRUCTIONS,
        "milliseconds": {name: round(1e3 * median, 1) for name, median in medians.items()},
        "speedup": {name: round(base / median, 2) for name, median in medians.items()},
        "difference": {name: float(f"{largest:.1g}") for name, largest in differences.items()},
        "errors": errors,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
