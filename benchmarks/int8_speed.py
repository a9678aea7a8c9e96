"""INT8 and a narrower model on this processor, for chapter 14; data/results/int8_speed.json.

    python benchmarks/int8_speed.py             about two minutes on two cores

The backbone, fine-tuned on 400 reviews, and the same model cut to 3/4 of its width, each in FP32
and in INT8, in Paddle Inference: batches of 32 rows of 64 real tokens, in turns. Accuracy is on 400
reviews of dev, with the 95% interval of the difference to the first (paired bootstrap). The speeds
mean something on a processor whose `instructions` name a VNNI or AMX.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.chapters.ch09 import text_ids, train_on
from course_lib.compression import compare, importance, prune, quantize_static
from course_lib.data import load_reviews
from course_lib.deploy import export_model
from course_lib.models import freeze_layers, load_backbone
from course_lib.runtime import atomic_file, data_dir, machine, seed_everything, select_device

import numpy as np
import paddle
from paddle.nn import functional
from paddlenlp.data import Pad
from paddlenlp.utils.log import logger

LENGTH = 64
WANTED = ("amx_int8", "avx512_bf16", "avx512_vnni", "avx_vnni", "avx512f", "avx2")
INSTRUCTIONS = [flag for flag in WANTED if flag in machine.cpu().flags]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="batches per model; %(default)s")
    parser.add_argument("--threads", type=int, default=machine.usable_cores())
    parser.add_argument("--output", type=Path, default=data_dir() / "results" / "int8_speed.json")
    args = parser.parse_args()
    select_device("cpu")
    logger.set_level("ERROR")
    seed_everything(42)
    begin = time.perf_counter()
    train, dev = load_reviews("train", max_examples=464), load_reviews("dev", max_examples=400)
    model, tokenizer = load_backbone(label_list=train.label_list)
    rows, labels = text_ids(train, tokenizer, LENGTH), np.array([one["label"] for one in train])
    freeze_layers(model, 2)

    def loss_on(ids: paddle.Tensor, places: np.ndarray) -> paddle.Tensor:
        return functional.cross_entropy(model(ids), paddle.to_tensor(labels[places]))

    train_on(model, rows[:400], loss_on, 2, 3e-4, batch_size=16)
    freeze_layers(model, 0)
    held_out = [
        {
            "input_ids": paddle.to_tensor(Pad(pad_val=0, dtype="int64")(rows[i : i + 16])),
            "labels": paddle.to_tensor(labels[i : i + 16]),
        }
        for i in range(400, 464, 16)
    ]
    narrow = prune(model, "3/4", *importance(model, held_out))
    some = [{"input_ids": row, "token_type_ids": [0] * len(row)} for row in rows[:32]]
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, one in (("FP32", model), ("3/4 of the width", narrow)):
            path = Path(folder, f"model{len(paths)}")
            paths[name] = export_model(one, path, tokenizer, LENGTH)
            options = {"batch_size": 16, "batch_nums": 2}
            int8 = quantize_static(paths[name], f"{path}-int8", some, **options)
            paths["INT8" if name == "FP32" else f"{name}, INT8"] = int8
        texts, gold = [one["text"] for one in dev], [one["label"] for one in dev]
        options = {"max_length": LENGTH, "threads": args.threads, "rounds": args.rounds}
        table = compare(paths, texts, gold, **options)
    shown = ["megabytes", "median_ms", "speedup", "score", "difference", "low", "high"]
    result = {
        "command": " ".join(["python", *sys.argv]),
        "date": date.today().isoformat(),
        "machine": f"{machine.cpu().model}, {len(os.sched_getaffinity(0))} cores",
        "instructions": INSTRUCTIONS,
        "threads": args.threads,
        "seconds": round(time.perf_counter() - begin),
        "models": table[shown].round(3).to_dict("index"),
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(args.output) as target:
        json.dump(result, target, indent=1)
        target.write("\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
