"""Tagging, question answering and text pairs, compressed: size and scores on test.

    python benchmarks/compress_tasks.py [--work DIR] [--tasks tokens qa pair pair_cls] [--seeds 42]

It fine-tunes the backbone for each task, compresses it by ptq, dynabert+ptq and qat, and answers
the test examples with every model, once: no choice depends on them. `pair` uses the model of
chapter 08, `pair_cls` PaddleNLP's own class. Differences from the model that was compressed have a
95% interval of a paired bootstrap over the test examples; of several seeds, scores are averaged
first (counts of entities are added up).

The result goes to data/results/compress_tasks.json, beside the tasks that other runs have left
there. What a task and a seed have given stays in --work, so that a stopped run goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from datetime import date
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.chapters import ch08
from course_lib.chapters.ch06 import int8_operators
from course_lib.deploy import Predictor
from course_lib.runtime import atomic_file, data_dir, machine, seed_everything, select_device

import numpy as np
from paddlenlp.utils.log import logger

OUT = data_dir() / "results" / "compress_tasks.json"
SIZES = {
    "tokens": {"train": 600, "dev": 60, "test": 400},
    "qa": {"train": 300, "dev": 16, "test": 120},
    "pair": {"train": 1200, "dev": 100, "test": 800},
}
SIZES["pair_cls"] = SIZES["pair"]  # the same pairs for PaddleNLP's class, which reads [CLS]
EPOCHS = {"tokens": 2, "qa": 2, "pair": 1, "pair_cls": 1}
STRATEGIES = {"ptq": {}, "dynabert+ptq": {"max_steps": 20}, "qat": {"max_steps": 8}}
RATES = {"dynabert+ptq": 1e-4, "qat": 2e-5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", default="outputs/compress_tasks", help="keeps models and scores")
    parser.add_argument("--tasks", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[42])
    parser.add_argument("--share", type=float, default=1.0, help="below 1: not saved")
    args = parser.parse_args()
    logger.set_level("ERROR")
    select_device("cpu")
    train(args)


def save(name: str, found: dict) -> None:
    """Write a task's result, with where it comes from."""
    seeds = " ".join(map(str, found["seeds"]))
    told = {
        "command": f"python benchmarks/compress_tasks.py --tasks {name} --seeds {seeds}",
        "date": date.today().isoformat(),
        "machine": f"{len(os.sched_getaffinity(0))} cores, {processor()}",
    }
    tasks = json.loads(OUT.read_text("utf-8")) if OUT.is_file() else {}
    with atomic_file(OUT) as file:
        json.dump({**tasks, name: {**told, **found}}, file, indent=1)


def processor() -> str:
    cpu, sets = machine.cpu(), ("amx_int8", "avx512_vnni", "avx_vnni", "avx512f", "avx2")
    return f"{cpu.model} ({next((name for name in sets if name in cpu.flags), 'no AVX')})"


def work(args: argparse.Namespace, name: str, seed: int) -> Path:
    return Path(args.work, name, str(seed))


def splits_of(args: argparse.Namespace, name: str, seed: int) -> dict:
    sizes = {split: max(8, round(size * args.share)) for split, size in SIZES[name].items()}
    return ch08.task_splits(kind(name), seed, **sizes)


def kind(name: str) -> str:
    return name.removesuffix("_cls")


# ---- training


def train(args: argparse.Namespace) -> None:
    for name in args.tasks:
        runs = []
        for seed in args.seeds:
            file = work(args, name, seed) / "scores.json"
            if not file.is_file():
                started = time.process_time()
                seed_everything(seed)
                run = one_run(args, name, seed)
                run["cpu_seconds"] = round(time.process_time() - started)
                with atomic_file(file) as out:
                    json.dump(run, out)
                print(f"{name}, seed {seed}: {run['cpu_seconds']} s", flush=True)
            runs.append(json.loads(file.read_text()))
        seconds = sum(run["cpu_seconds"] for run in runs)
        found = {"seeds": args.seeds, "cpu_seconds": seconds, **result(name, runs)}
        print(name, json.dumps(found["models"], indent=1), flush=True)
        if args.share == 1:
            save(name, {**found, "sizes": SIZES[name], "epochs": EPOCHS[name]})


def one_run(args: argparse.Namespace, name: str, seed: int) -> dict:
    splits, directory = splits_of(args, name, seed), work(args, name, seed)
    model, made = ch08.fine_tuned(
        kind(name),
        {key: splits[key] for key in ("train", "dev")},
        directory / "training",
        seed,
        own_class=name == "pair",
        num_train_epochs=EPOCHS[name],
        per_device_train_batch_size=8 if name == "qa" else 16,
    )
    print(f"{name}, seed {seed}: fine-tuned, {time.process_time():.0f} s", flush=True)
    paths: dict[str, Path] = {}
    for strategy, options in STRATEGIES.items():
        told = {"learning_rate": RATES.get(strategy, 1e-4), "seed": seed, **options}
        told["per_device_train_batch_size"] = 8 if name == "qa" else 16
        own = ch08.compressed(model, made, directory / strategy, strategy, **told)
        names = {"INT8": "QAT INT8"} if strategy == "qat" else {}
        paths = {names.get(key, key): path for key, path in own.items()} | paths
        print(f"{name}, seed {seed}: {strategy}, {time.process_time():.0f} s", flush=True)
    scores = {
        key: ch08.example_scores(kind(name), Predictor(path), splits["test"]).tolist()
        for key, path in paths.items()
    }
    run = {"scores": scores, "paths": {key: str(path) for key, path in paths.items()}}
    run["operators"] = {
        key: {part: list(counts) for part, counts in int8_operators(Predictor(path)).items()}
        for key, path in paths.items()
        if "INT8" in key
    }
    if kind(name) == "pair":
        run["baseline"] = baseline(splits)
    return run


def baseline(splits: dict) -> list[bool]:
    """Right or wrong, by the cosine of character n-grams and the best limit on train."""
    train, test = (list(splits[name]) for name in ("train", "test"))
    known = ch08.ngram_cosine(train, train)
    labels = np.array([pair["label"] for pair in train])
    limit = max(np.unique(known), key=lambda value: ((known >= value) == labels).mean())
    guessed = ch08.ngram_cosine(test, train) >= limit
    return [bool(guess) == bool(pair["label"]) for guess, pair in zip(guessed, test, strict=True)]


def result(name: str, runs: list[dict]) -> dict:
    scores = {}
    for key in runs[0]["scores"]:
        rows = np.array([run["scores"][key] for run in runs], "float64")
        scores[key] = rows.sum(axis=0) if rows.ndim == 3 else rows.mean(axis=0)
    models = {}
    for key, own in scores.items():
        models[key] = {"score": round(100 * ch08.score(own), 2)}
        models[key]["by_seed"] = [
            round(100 * ch08.score(np.array(run["scores"][key])), 2) for run in runs
        ]
        if key != "FP32":
            found = ch08.difference(own, scores["FP32"])
            models[key] |= {end: round(100 * value, 2) for end, value in found.items()}
    told = {"models": models, "operators": runs[0]["operators"]}
    if kind(name) == "pair":
        guessed = np.mean([run["baseline"] for run in runs], axis=0)
        found = ch08.difference(scores["FP32"], guessed)
        told["baseline"] = {"score": round(100 * guessed.mean(), 2)}
        told["baseline"] |= {end: round(100 * value, 2) for end, value in found.items()}
    return told


if __name__ == "__main__":
    main()
