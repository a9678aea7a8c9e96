"""What paddlenlp's own Trainer.compress() does here, beside the course's; one JSON line.

    python benchmarks/upstream_compress.py

Both get the same small ERNIE classifier, fine-tuned on the course's reviews, the same data and the
same CompressionArguments, in a process of their own for each strategy. Told is whether it ends,
with which error, what it has written, and how accurate the smallest result is on the dev reviews.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import course_lib  # noqa: F401 - before paddle

STRATEGIES = ("ptq", "qat", "dynabert", "dynabert+ptq", "dynabert+qat", "dynabert+ptq+embeddings")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--examples", type=int, default=600, help="reviews to train on; %(default)s")
    add("--dev_examples", type=int, default=300, help="to measure on; %(default)s")
    add("--strategies", nargs="+", default=STRATEGIES, help="default: %(default)s")
    add("--limit", type=int, default=600, help="seconds of one run; %(default)s")
    add("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(compress(**json.loads(args.worker))))
        return

    table = {}
    with tempfile.TemporaryDirectory(prefix="upstream-") as work:
        model = str(Path(work, "model"))
        task = {"model": model, "examples": args.examples, "dev_examples": args.dev_examples}
        trained = run({**task, "kind": None, "strategy": None, "output": work}, args.limit)
        for strategy in args.strategies:
            for kind in ("upstream", "course"):
                output = str(Path(work, f"{kind}-{strategy}"))
                row = run(
                    {**task, "kind": kind, "strategy": strategy, "output": output}, args.limit
                )
                table.setdefault(strategy, {})[kind] = row
                print(f"{strategy:<24} {kind:<9} {json.dumps(row)}", file=sys.stderr, flush=True)
    result = {
        "task": "compress() of paddlenlp and of the course: which strategies end, and with what",
        "runs": {
            kind: [s for s in table if table[s][kind]["ends"]] for kind in ("upstream", "course")
        },
        "uncompressed": trained,
        "strategies": table,
        "examples": args.examples,
        "dev_examples": args.dev_examples,
    }
    print(json.dumps(result, ensure_ascii=False))


def run(task: dict, limit: int) -> dict:
    """The worker's answer, or how it ended without one."""
    command = [sys.executable, __file__, "--worker", json.dumps(task)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"ends": False, "error": f"not done after {limit} s"}
    if done.returncode == 0:
        return json.loads(done.stdout.strip().splitlines()[-1])
    lines = [
        line for line in done.stderr.splitlines() if re.match(r"\w+(\.\w+)*(Error|Exception)", line)
    ]
    return {"ends": False, "error": (lines or [f"exit status {done.returncode}"])[-1][:200]}


def compress(kind, strategy, model, output, examples, dev_examples) -> dict:
    """Train the model (no kind), or compress it in one of the two ways."""
    from course_lib.chapters.ch06 import int8_operators
    from course_lib.compression import CompressTrainer
    from course_lib.data import convert_example, load_reviews
    from course_lib.deploy import Predictor
    from course_lib.models import load_backbone, save_model
    from course_lib.runtime import seed_everything, select_device
    from course_lib.training import CourseTrainer

    import numpy as np
    import paddle
    from paddlenlp.data import DataCollatorWithPadding
    from paddlenlp.datasets import MapDataset
    from paddlenlp.trainer import CompressionArguments, Trainer

    select_device("cpu")
    seed_everything(42)
    splits = [
        load_reviews("train", max_examples=examples),
        load_reviews("dev", max_examples=dev_examples),
    ]
    network, tokenizer = load_backbone(
        model if kind else "fresh",
        label_list=splits[0].label_list,
        vocab_texts=[example["text"] for example in splits[0]],
        trained=bool(kind),
    )
    train, dev = (
        MapDataset(
            [convert_example(e, tokenizer, 64, return_dict=True) for e in split],
            label_list=split.label_list,
        )
        for split in splits
    )
    args = CompressionArguments(
        output_dir=output,
        strategy=strategy or "ptq",
        num_train_epochs=1 if kind else 4,
        learning_rate=1e-4 if kind else 1e-3,
        per_device_train_batch_size=32,
        per_device_eval_batch_size=32,
        width_mult_list=["0.75"],  # upstream compares texts with texts
        algo_list=["abs_max"],
        batch_size_list=[8],
        device="cpu",
        disable_tqdm=True,
        report_to=[],
        save_strategy="no",
    )
    way = {None: CourseTrainer, "upstream": Trainer, "course": CompressTrainer}[kind]
    trainer = way(
        model=network,
        args=args,
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=train,
        eval_dataset=dev,
        criterion=paddle.nn.CrossEntropyLoss(),
        tokenizer=tokenizer,
    )
    if kind is None:
        trainer.train()
        save_model(network, tokenizer, model)
        network.eval()
        batch = DataCollatorWithPadding(tokenizer)(list(dev))
        with paddle.no_grad():
            logits = network(batch["input_ids"], batch["token_type_ids"]).numpy()
        return {"accuracy": round(float((logits.argmax(-1) == batch["labels"].numpy()).mean()), 4)}
    trainer.compress()
    files = sorted(Path(output).rglob("*.pdiparams"), key=lambda path: path.stat().st_size)
    smallest = files[0].with_suffix("")
    predictor = Predictor(smallest)
    batch = DataCollatorWithPadding(tokenizer, return_tensors="np")(list(dev))
    logits = predictor.run({name: batch[name] for name in predictor.input_names if name in batch})[
        0
    ]
    return {
        "ends": True,
        "accuracy": round(float((logits.argmax(-1) == np.asarray(batch["labels"])).mean()), 4),
        "smallest": os.path.relpath(smallest, output),
        "megabytes": round(files[0].stat().st_size / 1e6, 2),
        "int8_operators": int8_operators(predictor) if predictor.quantized else {},
    }


if __name__ == "__main__":
    main()
