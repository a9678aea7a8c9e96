"""Tagging, question answering and text pairs, compressed: scores on test, and speed.

    python benchmarks/compress_tasks.py [--work DIR] [--tasks tokens qa pair]

It fine-tunes the backbone for each task, compresses it by ptq, dynabert+ptq and qat, and answers
the test examples with every model, once: no choice depends on them. Settings were chosen on dev,
with the first seed. `pair` uses the model of chapter 08, `pair_cls` PaddleNLP's own class.

INT8 is static quantization with a correction of what Paddle Inference does with it: large weights
are not cut off (`for_onednn`). "pruned INT8, uncorrected" is the model as `compress()` writes it;
qat is not corrected either.

Differences from the model that was compressed have a 95% interval of a paired bootstrap over the
test examples; of several seeds, scores are averaged first (counts of entities are added up).
Speeds are those of the first seed's models, beside the fastest FP32, on all cores: the machine has
to be idle for them. They differ between processes, so each is the median of several. `--parts
scores` leaves them for a later call. A call on another machine, or with another limit for oneDNN
(the variable ONEDNN_MAX_CPU_ISA), adds its speeds to those that are there.

The result goes to data/results/compress_tasks.json, beside the tasks that other runs have left
there. What a task and a seed have given stays in --work, so that a stopped run goes on.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import time
from datetime import date
from multiprocessing import get_context
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.chapters import ch08
from course_lib.chapters.ch06 import int8_operators
from course_lib.compression import compare, load_pruned, quantize_static
from course_lib.deploy import Predictor, export_model
from course_lib.runtime import atomic_file, data_dir, machine, seed_everything, select_device

import numpy as np
import paddle
import pandas as pd
from int8_speed import INSTRUCTIONS
from paddlenlp.utils.log import logger

OUT = data_dir() / "results" / "compress_tasks.json"
TASKS = {  # examples, epochs and batches of the training; steps of dynabert and of qat
    "tokens": {
        "train": 1500,
        "dev": 100,
        "test": 1000,
        "epochs": 6,
        "batch": 16,
        "steps": [300, 20],
    },
    "qa": {"train": 960, "dev": 60, "test": 343, "epochs": 2, "batch": 8, "steps": [360, 10]},
    "pair": {"train": 2400, "dev": 100, "test": 1200, "epochs": 1, "batch": 16, "steps": [60, 20]},
    "pair_cls": {
        "train": 1200,
        "dev": 100,
        "test": 800,
        "epochs": 1,
        "batch": 16,
        "steps": [20, 8],
    },
}
RATES = {"dynabert+ptq": 2e-4, "qat": 2e-5}
PTQ = {"algo": "hist", "batch_size": 16, "batch_nums": 4}
SEEDS = [42, 43, 44]
BATCH, ROUNDS, PROCESSES = 16, 20, 5  # of the speeds
LIMIT = "ONEDNN_MAX_CPU_ISA"
UNCORRECTED = "pruned INT8, uncorrected"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", default="outputs/compress_tasks", help="keeps models and scores")
    parser.add_argument("--tasks", nargs="+", default=[*TASKS][:3], choices=TASKS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--parts", nargs="+", default=["scores", "speed"], help="%(default)s")
    parser.add_argument("--share", type=float, default=1.0, help="below 1: not saved")
    args = parser.parse_args()
    logger.set_level("ERROR")
    select_device("cpu")
    for name in args.tasks:
        if "scores" in args.parts:
            for seed in args.seeds:
                train(args, name, seed)
    for name in args.tasks:
        save(args, name)


def save(args: argparse.Namespace, name: str) -> None:
    """Write a task's result, with where it comes from."""
    runs = [json.loads(scores_file(args, name, seed).read_text()) for seed in args.seeds]
    found = {"seeds": args.seeds, "cpu_seconds": sum(run["cpu_seconds"] for run in runs)}
    found |= {"settings": TASKS[name], **result(args, name, runs)}
    tasks = json.loads(OUT.read_text("utf-8")) if OUT.is_file() else {}
    found["speeds"] = tasks.get(name, {}).get("speeds", [])
    if "speed" in args.parts:
        own = speeds(name, runs[0]["paths"])
        others = [one for one in found["speeds"] if place(one) != place(own)]
        found["speeds"] = [*others, own]
    print(name, json.dumps(found, indent=1), flush=True)
    seeds = "" if args.seeds == SEEDS else f" --seeds {' '.join(map(str, args.seeds))}"
    told = {
        "command": f"python benchmarks/compress_tasks.py --tasks {name}{seeds}",
        **here(),
    }
    if args.share == 1:
        with atomic_file(OUT) as out:
            json.dump({**tasks, name: {**told, **found}}, out, indent=1)


def here() -> dict:
    cpu = f"{len(os.sched_getaffinity(0))} cores, {machine.cpu().model}"
    return {"date": date.today().isoformat(), "machine": cpu, "instructions": INSTRUCTIONS}


def place(speed: dict) -> tuple:
    return speed["machine"], speed["instructions"], speed[LIMIT]


def scores_file(args: argparse.Namespace, name: str, seed: int) -> Path:
    return Path(args.work, name, str(seed), "scores.json")


def splits_of(args: argparse.Namespace, name: str, seed: int) -> dict:
    sizes = {split: TASKS[name][split] for split in ("train", "dev", "test")}
    sizes = {split: max(8, round(size * args.share)) for split, size in sizes.items()}
    return ch08.task_splits(kind(name), seed, **sizes)


def kind(name: str) -> str:
    return name.removesuffix("_cls")


# ---- training


def train(args: argparse.Namespace, name: str, seed: int) -> None:
    file = scores_file(args, name, seed)
    if file.is_file():
        return
    started = time.process_time()
    seed_everything(seed)
    run = one_run(args, name, seed)
    run["cpu_seconds"] = round(time.process_time() - started)
    with atomic_file(file) as out:
        json.dump(run, out)


def one_run(args: argparse.Namespace, name: str, seed: int) -> dict:
    splits, directory = splits_of(args, name, seed), scores_file(args, name, seed).parent
    own, batch = TASKS[name], {"per_device_train_batch_size": TASKS[name]["batch"]}
    model, made = ch08.fine_tuned(
        kind(name),
        {key: splits[key] for key in ("train", "dev")},
        directory / "training",
        seed,
        own_class=name == "pair",
        num_train_epochs=own["epochs"],
        **batch,
    )
    print(f"{name}, seed {seed}: fine-tuned, {time.process_time():.0f} s", flush=True)
    paths: dict[str, Path] = {}
    for strategy, steps in zip(RATES, own["steps"], strict=True):
        told = {"learning_rate": RATES[strategy], "seed": seed, **batch}
        told["max_steps"] = max(2, round(steps * args.share))
        made_of = ch08.compressed(
            model, made, directory / strategy, strategy, batch_num_list=[PTQ["batch_nums"]], **told
        )
        others = {"pruned INT8": UNCORRECTED, "INT8": "QAT INT8"}
        paths |= {others.get(key, key): path for key, path in made_of.items()}
        print(f"{name}, seed {seed}: {strategy}, {time.process_time():.0f} s", flush=True)
    narrow = load_pruned(paths["pruned FP32"].parent, type(model))
    length, rows = ch08.LENGTHS[kind(name)], [dict(row) for row in made["train_dataset"]]
    for key, wide in {"INT8": model, "pruned INT8": narrow}.items():
        source = export_model(for_onednn(wide), directory / key / "FP32", made["tokenizer"], length)
        paths[key] = quantize_static(source, directory / key, rows, seed=seed, **PTQ)
    print(f"{name}, seed {seed}: quantized, {time.process_time():.0f} s", flush=True)
    models = {key: Predictor(paths[key]) for key in (*ch08.ROWS, UNCORRECTED, "QAT INT8")}
    run = {"paths": {key: str(path) for key, path in paths.items()}}
    run["scores"] = {
        key: ch08.example_scores(kind(name), each, splits["test"]).tolist()
        for key, each in models.items()
    }
    run["operators"] = {key: int8_operators(models[key]) for key in models if "INT8" in key}
    return run


def for_onednn(model: paddle.nn.Layer) -> paddle.nn.Layer:
    """A copy whose large weights Paddle Inference does not cut off when it runs it in INT8.

    compute_propagate_scales_mkldnn_pass of paddle 2.6.2 takes the scale of output i of a matrix
    [inputs, outputs] from elements i * inputs to (i + 1) * inputs in memory, not from column i.
    Where that slice is smaller than the column, one element of it is raised: the one that the
    scale of its own column cuts back to nearly what it was. In FP32 such a copy is of no use.
    """
    model = copy.deepcopy(model)
    for layer in (one for one in model.sublayers() if isinstance(one, paddle.nn.Linear)):
        weight = layer.weight.numpy()
        inputs, outputs = weight.shape
        largest, slices = np.abs(weight).max(axis=0), weight.reshape(outputs, inputs)
        cut = np.maximum(largest, np.abs(slices).max(axis=1))
        for i, wanted in enumerate(largest):
            own, columns = np.abs(slices[i]), np.arange(i * inputs, (i + 1) * inputs) % outputs
            if own.max() < wanted:
                coarser = inputs * np.maximum(wanted**2 - largest[columns] ** 2, 0) / (127**2 * 12)
                k = ((np.minimum(wanted, cut[columns]) - own) ** 2 + coarser).argmin()
                slices[i, k] = np.copysign(wanted, slices[i, k])
        layer.weight.set_value(weight)
    return model


def speeds(name: str, paths: dict) -> dict:
    """Medians of several processes."""
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        runs = pool.starmap(one_speed, [(name, paths)] * PROCESSES, chunksize=1)
    told = {**here(), LIMIT: os.environ.get(LIMIT), **runs[0].pop("settings")}
    for key, digits in (("examples_per_second", 1), ("speedup", 2)):
        table = pd.DataFrame([run[key] for run in runs])
        told[key] = table.median().round(digits).to_dict()
    told["processes"] = table[ch08.ROWS[-1]].round(2).tolist()  # the narrow model's in INT8
    return told


def one_speed(name: str, paths: dict) -> dict:
    """Examples per second of full batches, and how much faster than the fastest FP32."""
    models = {key: Predictor(path) for key, path in paths.items()}
    length = ch08.LENGTHS[kind(name)]
    plain = {"FP32, no oneDNN": Predictor(paths["FP32"], mkldnn=False)}
    ids = np.random.RandomState(0).randint(10, 7000, (BATCH, length)).tolist()
    rows = [{"input_ids": row} for row in ids]
    timing = {"batch_size": BATCH, "max_length": length, "rounds": ROUNDS}
    table = compare(models | plain, rows, [0] * BATCH, score=lambda *_: 0.0, **timing)
    rates = table["examples_per_second"]
    factors = rates / max(rates["FP32"], rates["FP32, no oneDNN"])
    told = {"settings": table.attrs}
    return {**told, "examples_per_second": rates.to_dict(), "speedup": factors.to_dict()}


def baselines(splits: dict) -> dict[str, np.ndarray]:
    """Right or wrong, by the cosine of character n-grams: above a limit, or outside of two."""
    train, test = (list(splits[name]) for name in ("train", "test"))
    known, cosines = ch08.ngram_cosine(train, train), ch08.ngram_cosine(test, train)
    labels, wanted = (np.array([pair["label"] for pair in pairs]) for pairs in (train, test))

    def right(values: np.ndarray, labels: np.ndarray, low: float, high: float) -> np.ndarray:
        return ((values < low) | (values >= high)) == labels

    some = np.quantile(known, np.linspace(0, 1, 60))
    ranges = {
        "one threshold": [(-1.0, high) for high in np.unique(known)],
        "two thresholds": [*itertools.combinations(some, 2)],
    }
    best = {
        name: max(ends, key=lambda two: right(known, labels, *two).mean())
        for name, ends in ranges.items()
    }
    return {name: right(cosines, wanted, *ends) for name, ends in best.items()}


def result(args: argparse.Namespace, name: str, runs: list[dict]) -> dict:
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
        guesses = [baselines(splits_of(args, name, seed)) for seed in args.seeds]
        told["baselines"] = {}
        for key in guesses[0]:
            guessed = np.mean([each[key] for each in guesses], axis=0)
            found = {"score": guessed.mean(), **ch08.difference(scores["FP32"], guessed)}
            told["baselines"][key] = {
                end: round(100 * float(value), 2) for end, value in found.items()
            }
    return told


if __name__ == "__main__":
    main()
