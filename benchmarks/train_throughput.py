"""The course's training path against PaddleNLP's Trainer and Hugging Face's: one JSON line.

    python benchmarks/train_throughput.py

Both train the same model (4 layers x 312) for one epoch over the same real reviews, batches of 32,
at most 128 tokens, each in a process of its own, taking turns. "Stock" is paddlenlp.trainer.Trainer
with its default settings and collator in a process where nothing but the zlib import order has been
touched. What counts is real (unpadded) tokens per second of the training steps: start-up,
tokenization and a first step that warms the libraries up are outside.

"Hugging Face" is its Trainer on PyTorch with `group_by_length`, a BertForSequenceClassification of
the same shapes and the same ids, in FP32 and in bf16: a peer that groups by length as the course
does. It needs `make peers` and is left out without. `ratio` is course over stock,
`ratio_to_hugging_face` course over Hugging Face in FP32; `--dropout` is that of all of them.

Then each setting alone: threads, MKL and allocator with the stock Trainer, grouping by length with
the course's loop (the Trainer has no such option) and no other setting. `alone` holds their speed
over the stock one's.
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

import course_lib  # noqa: F401
from course_lib.runtime.tuning import VARIABLES

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".venv-peers/bin/python"
MODEL = {
    "num_hidden_layers": 4,
    "hidden_size": 312,
    "num_attention_heads": 12,
    "intermediate_size": 1248,
}
BATCH_SIZE, MAX_SEQ_LENGTH, SEED, LEARNING_RATE = 32, 128, 42, 5e-5
ONLY_IMPORT_ORDER = "zlib"
TUNING = {"stock": ONLY_IMPORT_ORDER, "course": "1"}
ALONE = {
    "threads": ("stock", "zlib,threads"),
    "mkl": ("stock", "zlib,mkl"),
    "malloc": ("stock", "zlib,malloc"),
    "grouping": ("course", ONLY_IMPORT_ORDER),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=400, help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=2, help="default %(default)s")
    parser.add_argument("--dropout", type=float, default=0.1, help="default %(default)s")
    parser.add_argument("--worker", choices=["stock", "course", "job"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker = {"stock": run_stock, "course": run_course, "job": peers_job}[args.worker]
        print(json.dumps(worker(args.examples, args.dropout)))
        return

    job = None
    if PEERS.exists():
        job = measure("job", ONLY_IMPORT_ORDER, args)
    else:
        print("Hugging Face is left out: `make peers` makes its environment", file=sys.stderr)
    rounds: dict[str, list[dict]] = {"stock": [], "course": []}
    if job is not None:
        rounds |= {"hugging_face": [], "hugging_face_bf16": []}
    for number in range(args.rounds):
        for path, results in rounds.items():
            if path.startswith("hugging_face"):
                results.append(measure_peer(job | {"bf16": path.endswith("bf16")}))
            else:
                results.append(measure(path, TUNING[path], args))
            report(f"round {number + 1}, {path}", results[-1])
    speeds = {path: rate(results) for path, results in rounds.items()}
    stock, course = speeds["stock"], speeds["course"]
    peer: dict = {}
    if job is not None:
        peer = {
            "ratio_to_hugging_face": round(course / speeds["hugging_face"], 2),
            "ratio_to_hugging_face_bf16": round(course / speeds["hugging_face_bf16"], 2),
            "hugging_face_versions": rounds["hugging_face"][0]["versions"],
        }
    alone = {}
    for name, (path, tuning) in ALONE.items():
        result = measure(path, tuning, args)
        report(f"{name} alone", result)
        alone[name] = round(rate([result]) / stock, 2)
    result = {
        "task": "training throughput, real tokens per second",
        **{f"{path}_tokens_per_second": round(speed, 1) for path, speed in speeds.items()},
        "ratio": round(course / stock, 2),
        **peer,
        **{
            f"{path}_peak_mib": max(r["peak_mib"] for r in results)
            for path, results in rounds.items()
        },
        "alone": alone,
        "ratio_by_round": [
            round(rate([c]) / rate([s]), 2)
            for s, c in zip(rounds["stock"], rounds["course"], strict=True)
        ],
        "tokens": rounds["stock"][0]["tokens"],
        "steps": rounds["stock"][0]["steps"],
        "rounds": args.rounds,
        "batch_size": BATCH_SIZE,
        "dropout": args.dropout,
        "cores": len(os.sched_getaffinity(0)),
    }
    print(json.dumps(result))


def measure(path: str, tuning: str, args: argparse.Namespace) -> dict:
    """Run one worker in a process that inherits none of this one's settings."""
    env = clean() | {"COURSE_TUNING": tuning, "COURSE_DEVICE": "cpu", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, __file__, "--worker", path]
    command += ["--examples", str(args.examples), "--dropout", str(args.dropout)]
    return run(command, env, path)


def measure_peer(job: dict) -> dict:
    """Run Hugging Face's Trainer in its own environment, on ids that the course has made."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "job.json")
        path.write_text(json.dumps(job), encoding="utf-8")
        script = ROOT / "benchmarks/peers/hugging_face.py"
        return run([PEERS, script, "train", path], clean(), "Hugging Face")


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in VARIABLES}


def run(command: list, env: dict[str, str], name: str) -> dict:
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the {name} process failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def rate(results: list[dict]) -> float:
    return sum(r["tokens"] for r in results) / sum(r["seconds"] for r in results)


def report(name: str, result: dict) -> None:
    print(f"{name}: {rate([result]):.0f} tokens/s, {result['peak_mib']} MiB", file=sys.stderr)


def prepare(examples: int, dropout: float):
    """The same model, tokenizer and reviews for both; the libraries warmed up by one step."""
    from course_lib.data import load_reviews
    from course_lib.models import load_backbone
    from course_lib.runtime import seed_everything, select_device

    import paddle

    select_device("cpu")
    seed_everything(SEED)
    dataset = load_reviews("train", examples, seed=SEED)
    texts = [example["text"] for example in load_reviews("train")]
    shape = MODEL | {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    warm_up, tokenizer = load_backbone("fresh", vocab_texts=texts, **shape)
    ids = paddle.ones([BATCH_SIZE, MAX_SEQ_LENGTH], dtype="int64")
    warm_up(ids).sum().backward()
    del warm_up
    model, tokenizer = load_backbone("fresh", vocab_texts=texts, **shape)
    return model, tokenizer, dataset


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def peers_job(examples: int, dropout: float) -> dict:
    """What the peer trains on: the ids of the same reviews, and a model of the same shapes."""
    model, tokenizer, dataset = prepare(examples, dropout)
    from course_lib.data import convert_example

    shape = MODEL | {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    sizes = ("vocab_size", "max_position_embeddings", "type_vocab_size")
    rows = [convert_example(example, tokenizer, MAX_SEQ_LENGTH) for example in dataset]
    return {
        "rows": [{"input_ids": ids, "labels": int(label)} for ids, _, label in rows],
        "config": shape | {name: getattr(model.ernie.config, name) for name in sizes},
        "batch_size": BATCH_SIZE,
        "tokens": MAX_SEQ_LENGTH,
        "learning_rate": LEARNING_RATE,
        "seed": SEED,
    }


def run_course(examples: int, dropout: float) -> dict:
    model, tokenizer, dataset = prepare(examples, dropout)
    from course_lib.data import create_dataloader
    from course_lib.training import fit

    loader = create_dataloader(dataset, tokenizer, "train", BATCH_SIZE, MAX_SEQ_LENGTH, seed=SEED)
    tokens = sum(len(feature[0]) for feature in loader.dataset)
    start = time.perf_counter()
    history = fit(model, loader, epochs=1, learning_rate=LEARNING_RATE, seed=SEED, progress=False)
    seconds = time.perf_counter() - start
    return {
        "tokens": tokens,
        "seconds": seconds,
        "steps": len(history["step"]),
        "peak_mib": peak_mib(),
    }


def run_stock(examples: int, dropout: float) -> dict:
    model, tokenizer, dataset = prepare(examples, dropout)
    from paddlenlp.data import DataCollatorWithPadding
    from paddlenlp.trainer import Trainer, TrainerCallback, TrainingArguments

    def convert(example):
        encoded = tokenizer(example["text"], max_length=MAX_SEQ_LENGTH, truncation=True)
        return {**encoded, "labels": example["label"]}

    rows = dataset.map(convert, lazy=False)

    class Clock(TrainerCallback):
        start = end = None

        def on_step_begin(self, *_, **__):
            self.start = self.start or time.perf_counter()

        def on_step_end(self, *_, **__):
            self.end = time.perf_counter()

    clock = Clock()
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory,
            per_device_train_batch_size=BATCH_SIZE,
            num_train_epochs=1,
            seed=SEED,
        )
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            tokenizer=tokenizer,
            callbacks=[clock],
        )
        assert isinstance(trainer.data_collator, DataCollatorWithPadding)  # the default
        trainer.train()
    return {
        "tokens": sum(len(row["input_ids"]) for row in rows),
        "seconds": clock.end - clock.start,
        "steps": trainer.state.global_step,
        "peak_mib": peak_mib(),
    }


if __name__ == "__main__":
    main()
