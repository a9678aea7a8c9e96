"""What of PaddleNLP's compression runs here: docs/compression_state.md, by running it.

    python tools/compression_state.py generate      some minutes: each row is a run on a tiny model,
                                                    but for the two of ERNIE 3.0's real sizes

A row says "runs" when compress() ended, every model it made was loaded by Paddle Inference, and the
quantized ones executed INT8 operators where the processor can; else it quotes the error.
"""

# ruff: noqa: E402 - the tasks are the tests' own

from __future__ import annotations

import argparse
import logging
import os
import resource
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from course_lib.chapters.ch06 import int8_operators
from course_lib.compression import compare, quantize_static
from course_lib.compression.static import ACTIVATION_TYPES, ALGORITHMS, WEIGHT_TYPES
from course_lib.compression.trainer import BASES, STRATEGIES
from course_lib.deploy import Predictor, export_model
from course_lib.runtime import InputError, atomic_file, machine, select_device

import compression_tasks as tasks
import numpy as np
from paddlenlp.transformers import ErnieConfig, ErnieForSequenceClassification

PAGE = ROOT / "docs" / "compression_state.md"
TASKS = {
    "ERNIE, sequence classification": None,
    "BERT, sequence classification": lambda: tasks.sequence_task("Bert"),
    "ERNIE, token classification": tasks.token_task,
    "BERT, question answering": tasks.answer_task,
    "ERNIE, question answering": lambda: tasks.answer_task("Ernie"),
}
FAMILIES = ["Ernie", "Bert", "Roberta", "Electra", "ErnieM", "ErnieGram", "PPMiniLM", "TinyBert"]
LAYERS = {"ernie-3.0-medium-zh": 6, "ernie-3.0-base-zh": 12}  # of ERNIE 3.0, 768 wide
OPTIONS = {  # each beside its default, in strategy "ptq", or "qat" where only that reads it
    "ptq": {
        "algo_list": [[algo] for algo in (*ALGORITHMS, "min_max")],
        "weight_quantize_type": WEIGHT_TYPES,
        "activation_quantize_type": ACTIVATION_TYPES,
        "round_type": ("round", "adaround"),
        "bias_correction": (False, True),
        "onnx_format": (True, False),
        "prune_embeddings": (False, True),
        "input_dtype": ("int64", "int32"),
    },
    "qat": {
        "weight_quantize_type": WEIGHT_TYPES,
        "activation_quantize_type": (*ACTIVATION_TYPES, None),
        "use_pact": (True, False),
        "moving_rate": (0.9, 0.5),
    },
    "dynabert": {"width_mult_list": (["3/4"], ["0.5"], [0.5, "3/4"], ["0.1"])},
}


def outcome(strategy: str, task, **options) -> str:
    with tempfile.TemporaryDirectory() as work:
        try:
            made = tasks.compressor(work, strategy, task and task(), **options).compress()
            for path in made["path"]:
                predictor = Predictor(path)
                if predictor.quantized and "embeddings" not in strategy:
                    done = int8_operators(predictor)
                    if not sum(int8 for int8, _ in done.values()):
                        return "runs, but nothing of it in INT8"
            return "runs"
        except InputError as error:
            return f"refused: {error.problem}"
        except Exception as error:
            return f"**fails**: {type(error).__name__}: {str(error).strip().splitlines()[-1][:120]}"


def rows() -> list[str]:
    lines = ["| strategy | " + " | ".join(TASKS) + " |", "| --- " * (len(TASKS) + 1) + "|"]
    for strategy in STRATEGIES:
        cells = [outcome(strategy, task) for task in TASKS.values()]
        lines.append(f"| {strategy} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    lines += ["", *families(), "", "| option | with strategy | outcome |", "| --- | --- | --- |"]
    for strategy, options in OPTIONS.items():
        for name, values in options.items():
            for value in values:
                result = outcome(strategy, None, **{name: value})
                lines.append(f"| `{name}={value!r}` | {strategy} | {result} |")
                print(lines[-1], file=sys.stderr, flush=True)
    return lines


def families() -> list[str]:
    """A table of the sequence classifiers that PaddleNLP's documentation names."""
    lines = [f"| sequence classifier | {' | '.join(BASES)} |", "| --- " * (len(BASES) + 1) + "|"]
    for family in FAMILIES:
        cells = [outcome(base, partial(tasks.sequence_task, family)) for base in BASES]
        lines.append(f"| {family} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def instructions() -> str:
    known = ("avx512_vnni", "avx_vnni", "avx512f", "avx2")
    return next((flag for flag in known if flag in machine.cpu().flags), "no AVX2")


def real_sizes() -> list[str]:
    """A table of ERNIE 3.0's real sizes with random weights: seconds, size and speed."""
    lines = [
        "| model | millions of parameters | FP32, MB | INT8, MB | export, s | INT8, s "
        "| FP32, ms a row | INT8, ms a row | memory of the process at most, GiB |",
        "| --- " * 9 + "|",
    ]
    rows = [{"input_ids": list(range(1, 129)), "token_type_ids": [0] * 128}] * 8
    shape = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
    for name, layers in LAYERS.items():
        config = ErnieConfig(vocab_size=40000, num_hidden_layers=layers, **shape, num_labels=2)
        model = ErnieForSequenceClassification(config)
        millions = sum(one.size for one in model.parameters()) / 1e6
        with tempfile.TemporaryDirectory() as work:
            clock = [time.perf_counter()]
            fp32 = export_model(model, Path(work, "fp32"), max_length=128)
            clock.append(time.perf_counter())
            int8 = quantize_static(fp32, Path(work, "int8"), rows, algo="abs_max")
            clock.append(time.perf_counter())
            table = compare({"FP32": fp32, "INT8": int8}, rows, [0] * 8, batch_size=8, rounds=5)
        export, quantize = np.diff(clock)
        size, per_row = table["megabytes"], table["median_ms"] / 8
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        numbers = f"{millions:.0f} | {size['FP32']:.0f} | {size['INT8']:.0f} | {export:.1f} "
        numbers += f"| {quantize:.1f} | {per_row['FP32']:.1f} | {per_row['INT8']:.1f} "
        numbers += f"| {memory:.1f}"
        lines.append(f"| {name} | {numbers} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["generate"])
    parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("PaddleNLP").setLevel(logging.ERROR)
    select_device("cpu")
    text = "\n".join(
        [
            "<!-- Written by tools/compression_state.py; do not edit it here. -->",
            "",
            "# Which compression options work",
            "",
            "Each result is one run of the course's `CompressTrainer.compress()` on a tiny model.",
            "",
            "- *runs*: the run ended without an error, and Paddle Inference loaded and ran every",
            "  model that it wrote, the quantized ones with INT8 operators.",
            "- *refused*: `compress()` raises an error that says why the option does not work.",
            "",
            *rows(),
            "",
            "## ERNIE 3.0's real sizes",
            "",
            "Published shapes and a vocabulary of 40,000, but random weights, so this shows size",
            "and speed, not accuracy: one export, one calibration, batches of 8 x 128 tokens.",
            f"{machine.cpu().model} ({instructions()}); threads: {len(os.sched_getaffinity(0))}.",
            "",
            *real_sizes(),
            "",
        ]
    )
    with atomic_file(PAGE) as file:
        file.write(text)


if __name__ == "__main__":
    main()
