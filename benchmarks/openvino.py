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
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.compression import quantize_static
from course_lib.data import load_reviews
from course_lib.deploy import Predictor, export_model
from course_lib.models import load_backbone
from course_lib.runtime import machine, seed_everything, stack

import numpy as np
from int8_speed import WANTED
from paddle import inference
from paddlenlp.utils.log import logger

BATCH, LENGTH = 32, 64


def engine(path: Path, threads: int, switch_on) -> inference.Predictor:
    config = inference.Config(f"{path}.pdmodel", f"{path}.pdiparams")
    config.disable_gpu()
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(threads)
    switch_on(config)
    return inference.create_predictor(config)


def runner(made: inference.Predictor, ids: np.ndarray):
    def run() -> np.ndarray:
        for name in made.get_input_names():
            made.get_input_handle(name).copy_from_cpu(ids if name == "input_ids" else ids * 0)
        made.run()
        return made.get_output_handle(made.get_output_names()[0]).copy_to_cpu()

    return run


def bf16(config: inference.Config) -> None:
    config.enable_mkldnn()
    config.enable_mkldnn_bfloat16()


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
            "oneDNN FP32": lambda: engine(fp32, args.threads, lambda c: c.enable_mkldnn()),
            "oneDNN bf16": lambda: engine(fp32, args.threads, bf16),
            "OpenVINO FP32": lambda: engine(
                fp32, args.threads, lambda c: c.enable_openvino_engine(precisions.Float32)
            ),
            "OpenVINO bf16": lambda: engine(
                fp32, args.threads, lambda c: c.enable_openvino_engine(precisions.Bfloat16)
            ),
            "OpenVINO INT8": lambda: engine(
                int8, args.threads, lambda c: c.enable_openvino_engine(precisions.Float32)
            ),
        }
        runs, errors = {}, {}
        for name, make in variants.items():
            try:
                runs[name] = runner(make(), ids)
                runs[name]()
            except (RuntimeError, ValueError, OSError) as error:
                runs.pop(name, None)
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
        base = statistics.median(seconds["oneDNN FP32"])
        print(
            json.dumps(
                {
                    "paddle": stack.VERSION,
                    "machine": f"{machine.cpu().model}, threads {args.threads}",
                    "instructions": [flag for flag in WANTED if flag in machine.cpu().flags],
                    "milliseconds": {
                        name: round(1e3 * statistics.median(s), 1) for name, s in seconds.items()
                    },
                    "speedup": {
                        name: round(base / statistics.median(s), 2) for name, s in seconds.items()
                    },
                    "difference": {
                        name: float(f"{np.abs(run() - exact).max():.1g}")
                        for name, run in runs.items()
                    },
                    "errors": errors,
                }
            )
        )


if __name__ == "__main__":
    main()
