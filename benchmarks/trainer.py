"""The course's way to use the Trainer against a stock one: speed and accuracy, one JSON line.

    python benchmarks/trainer.py

Both fine-tune the shipped backbone on the same reviews: batches of 32, at most 256 tokens, the same
seeds, epochs, learning rate and tokenizer (PaddleNLP's ErnieTokenizer: the lock has no faster one).
A plain shuffle pads the more the longer the longest rows may be, so with `--max_seq_length 128` the
course gains less.

- stock: `paddlenlp.trainer.Trainer`, which shuffles plainly and pads each batch to its longest row,
  in a process in which nothing but the order of importing zlib has been touched;
- course: `import course_lib` and all that it tunes, and `CourseTrainer(group_by_length=True)`.

Speed: each run in a process of its own, the two taking turns. Counted are real (unpadded) tokens of
the training reviews per second of tokenizing and training, with making the Trainer, its checks and
its logs, after one step that warms the libraries up. `ratio` is course over stock.

Accuracy on dev, for each seed (which draws the head and the order of the examples): here the stock
recipe runs with the tuned libraries as well, which change its results by rounding alone and make it
affordable. `accuracy_difference` is course minus stock, the mean over seeds, with a 95% interval of
a paired bootstrap over the dev reviews; `equal_within_noise` says that it holds 0.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.runtime.tuning import VARIABLES

BATCH_SIZE = 32
ALL, ONLY_IMPORT_ORDER = "1", "zlib"  # values of COURSE_TUNING


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--examples", type=int, default=400, help="reviews of a speed run; %(default)s")
    add("--rounds", type=int, default=2, help="speed runs of each; %(default)s")
    add("--accuracy_examples", type=int, default=1200, help="to train on; %(default)s")
    add("--dev_examples", type=int, default=1000, help="to measure accuracy on; %(default)s")
    add("--epochs", type=int, default=2, help="of an accuracy run; %(default)s")
    add("--max_seq_length", type=int, default=256, help="tokens; %(default)s")
    add("--seeds", type=int, nargs="+", default=[42, 43, 44], help="of the accuracy runs")
    add("--skip_accuracy", action="store_true", help="measure the speed alone")
    add("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(train(**json.loads(args.worker))))
        return

    result = speed(args)
    if not args.skip_accuracy:
        result |= accuracy(args)
    result |= {"batch_size": BATCH_SIZE, "max_seq_length": args.max_seq_length}
    print(json.dumps({**result, "cores": len(os.sched_getaffinity(0))}))


def speed(args: argparse.Namespace) -> dict:
    runs: dict[str, list[dict]] = {"stock": [], "course": []}
    for number in range(args.rounds):
        for path, tuning in (("stock", ONLY_IMPORT_ORDER), ("course", ALL)):
            options = {"examples": args.examples, "epochs": 1, "seed": args.seeds[0]}
            runs[path].append(measure(path, tuning, args.max_seq_length, **options))
            report(f"round {number + 1}, {path}: {rate(runs[path][-1:]):.0f} tokens/s")
    stock, course = rate(runs["stock"]), rate(runs["course"])
    rounds = zip(runs["stock"], runs["course"], strict=True)
    return {
        "task": "fine-tuning with the Trainer, real tokens per second and accuracy",
        "stock_tokens_per_second": round(stock, 1),
        "course_tokens_per_second": round(course, 1),
        "ratio": round(course / stock, 2),
        "ratio_by_round": [round(rate([c]) / rate([s]), 2) for s, c in rounds],
        "tokenizing_seconds": {p: [round(r["tokenizing"], 2) for r in runs[p]] for p in runs},
        "peak_mib": {path: max(run["peak_mib"] for run in runs[path]) for path in runs},
        "examples": args.examples,
        "tokens": runs["stock"][0]["tokens"],
        "steps": runs["stock"][0]["steps"],
        "rounds": args.rounds,
    }


def accuracy(args: argparse.Namespace) -> dict:
    from course_lib.training import paired_bootstrap

    import numpy as np

    right: dict[str, list[list[bool]]] = {"stock": [], "course": []}  # by seed and dev review
    for seed in args.seeds:
        for path in right:
            options = {"examples": args.accuracy_examples, "epochs": args.epochs, "seed": seed}
            options["dev_examples"] = args.dev_examples
            run = measure(path, ALL, args.max_seq_length, **options)
            right[path].append(run["right"])
            report(f"seed {seed}, {path}: accuracy {np.mean(run['right']):.4f}")
    by_seed = {path: np.mean(rows, axis=1) for path, rows in right.items()}
    reviews = {path: np.mean(rows, axis=0) for path, rows in right.items()}  # a share of the seeds
    difference = paired_bootstrap(reviews["course"], reviews["stock"])
    return {
        "accuracy": {path: round(float(rows.mean()), 4) for path, rows in by_seed.items()},
        "accuracy_by_seed": {path: rows.round(4).tolist() for path, rows in by_seed.items()},
        "difference_by_seed": (by_seed["course"] - by_seed["stock"]).round(4).tolist(),
        "accuracy_difference": {name: round(value, 4) for name, value in difference.items()},
        "equal_within_noise": difference["low"] <= 0 <= difference["high"],
        "accuracy_libraries": "tuned for both, which changes the stock recipe's rounding alone",
        "accuracy_examples": args.accuracy_examples,
        "dev_examples": reviews["stock"].size,
        "epochs": args.epochs,
        "seeds": args.seeds,
    }


def measure(path: str, tuning: str, max_seq_length: int, **options) -> dict:
    """Run one worker in a process that inherits none of this one's settings."""
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    env |= {"COURSE_TUNING": tuning, "COURSE_DEVICE": "cpu"}
    env["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    told = json.dumps({"path": path, "max_seq_length": max_seq_length, **options})
    command = [sys.executable, __file__, "--worker", told]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the {path} process failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def rate(runs: list[dict]) -> float:
    return sum(run["tokens"] for run in runs) / sum(run["seconds"] for run in runs)


def report(line: str) -> None:
    print(line, file=sys.stderr)


def train(
    path: str, max_seq_length: int, examples: int, epochs: int, seed: int, dev_examples: int = 0
) -> dict:
    """One run of a worker: what it took, and which dev reviews it gets right."""
    from course_lib.data import load_reviews
    from course_lib.models import load_backbone, suggested_learning_rate
    from course_lib.runtime import seed_everything, select_device
    from course_lib.training import CourseTrainer

    import paddle
    from paddlenlp.data import DataCollatorWithPadding
    from paddlenlp.trainer import Trainer, TrainingArguments

    select_device("cpu")
    reviews = load_reviews("train", examples, seed=42)
    seed_everything(seed)  # of the head, which the checkpoint does not have
    model, tokenizer = load_backbone(label_list=reviews.label_list)
    ids = paddle.ones([BATCH_SIZE, max_seq_length], dtype="int64")
    model(ids).sum().backward()
    model.clear_gradients()

    def convert(example: dict) -> dict:
        encoded = tokenizer(example["text"], max_length=max_seq_length, truncation=True)
        return {**encoded, "labels": example["label"]}

    with tempfile.TemporaryDirectory() as directory:
        start = time.perf_counter()
        rows = [convert(example) for example in reviews]
        tokenizing = time.perf_counter() - start
        trainer = (CourseTrainer if path == "course" else Trainer)(
            model=model,
            args=TrainingArguments(
                output_dir=directory,
                per_device_train_batch_size=BATCH_SIZE,
                per_device_eval_batch_size=BATCH_SIZE,
                num_train_epochs=epochs,
                learning_rate=suggested_learning_rate(model),
                seed=seed,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=rows,
            data_collator=DataCollatorWithPadding(tokenizer),  # what the Trainer takes by default
            tokenizer=tokenizer,
            compute_metrics=lambda prediction: {},  # without one, predict gives the loss alone
            **({"group_by_length": True} if path == "course" else {}),
        )
        trainer.train()
        seconds = time.perf_counter() - start
        result = {
            "tokens": epochs * sum(len(row["input_ids"]) for row in rows),
            "seconds": seconds,
            "tokenizing": tokenizing,
            "steps": trainer.state.global_step,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }
        if dev_examples:
            dev = [convert(example) for example in load_reviews("dev", dev_examples, seed=42)]
            found = trainer.predict(dev)
            result["right"] = (found.predictions.argmax(-1) == found.label_ids).tolist()
    return result


if __name__ == "__main__":
    main()
