"""How fast a review classifier can be made on a CPU, and what that costs in accuracy.

    python benchmarks/inference_frontier.py             an hour on two cores
    python benchmarks/inference_frontier.py --stages 1  only the next stage
    python benchmarks/inference_frontier.py --again     time the models once more, when it is quiet

The teacher is the backbone, fine-tuned on all train reviews. Each student is the teacher without
its least important heads and neurons, and learns from the teacher's logits and hidden states on the
texts of train, labels unread. Every model is exported and quantized to INT8; dev chooses how. Then
all are timed together, in Paddle Inference on batches of 32 rows of 64 and of 128 real tokens, in
turns, and read test, once. `speedup` is over the teacher in FP32, with oneDNN or without, whichever
is faster; `lost` are points of accuracy on test, with a 95% interval of a paired bootstrap. Each
stage keeps its files below --work, and is not done twice. INT8 pays where `instructions` names a
VNNI or AMX.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.compression import DistillTrainer, compare, importance, prune, quantize_static
from course_lib.compression.pruning import load_pruned
from course_lib.data import convert_example, load_reviews
from course_lib.deploy import Predictor, export_model
from course_lib.models import freeze_layers, load_backbone, save_model, suggested_learning_rate
from course_lib.models.files import load_tokenizer
from course_lib.runtime import atomic_file, data_dir, machine, seed_everything, select_device
from course_lib.training import CourseTrainer

import numpy as np
import paddle
from compression import train
from int8_speed import INSTRUCTIONS
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.datasets import MapDataset
from paddlenlp.utils.log import logger

LENGTH, BATCH, HELD_OUT, SEED = 128, 32, 512, 42
TIMED = (64, 128)  # tokens of a row
STUDENTS = ["3/4", "2/3", "1/2"]  # of the teacher's width
CALIBRATIONS = [("hist", 16), ("mse", 16), ("abs_max", 16)]  # algo, batches of 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "--work",
        type=Path,
        default=Path("outputs/frontier"),
        help="keeps what is done; %(default)s",
    )
    add("--stages", type=int, default=1000, help="stop after so many; default: do all")
    add("--again", action="store_true", help="time the models again; test is not read again")
    add("--students", nargs="+", default=STUDENTS, choices=STUDENTS)
    add("--examples", type=int, help="of each split, to try it out; default: all")
    add("--epochs", type=int, default=2, help="of the teacher; %(default)s")
    add("--student_epochs", type=int, default=3, help="%(default)s")
    add("--learning_rate", type=float, default=2e-4, help="of the students; %(default)s")
    add("--threads", type=int, nargs="+", default=[1, 2], help="of timed models; %(default)s")
    add("--rounds", type=int, default=20, help="timed batches per model; %(default)s")
    add("--output", type=Path, default=data_dir() / "results" / "inference_frontier.json")
    args = parser.parse_args()
    logger.set_level("ERROR")
    select_device("cpu")
    args.work.mkdir(parents=True, exist_ok=True)
    if args.again:
        (args.work / "speed.json").unlink(missing_ok=True)
    for name, stage in stages(args):
        file = record(args, name)
        if file.is_file():
            continue
        if args.stages <= 0:
            return
        args.stages -= 1
        seed_everything(SEED)
        clock = time.perf_counter(), time.process_time()
        found = stage()
        found["seconds"] = round(time.perf_counter() - clock[0])
        found["cpu_seconds"] = round(time.process_time() - clock[1])
        with atomic_file(file) as target:
            json.dump(found, target)
        print(f"{name}: {json.dumps(found)}", file=sys.stderr, flush=True)
    write(args)


def stages(args: argparse.Namespace) -> Iterator[tuple[str, Callable[[], dict]]]:
    """Names and functions in the order in which they have to run."""
    yield "teacher", partial(teacher, args)
    for name in args.students:
        yield name, partial(student, args, name)
    for name in ("teacher", *args.students):
        yield f"{name} int8", partial(quantized, args, name)
    yield "speed", partial(speed, args)
    yield "test", partial(accuracy, args)


def record(args: argparse.Namespace, name: str) -> Path:
    """Where the numbers of a stage are kept."""
    return args.work / f"{name.replace('/', '_')}.json"


def place(args: argparse.Namespace, name: str) -> Path:
    """Where a model is kept."""
    return args.work / "models" / name.replace("/", "_")


def rows_of(args: argparse.Namespace, split: str, tokenizer) -> list[dict]:
    reviews = load_reviews(split, max_examples=args.examples)
    return [convert_example(one, tokenizer, LENGTH, return_dict=True) for one in reviews]


def labels_of(args: argparse.Namespace, split: str) -> list[int]:
    return [example["label"] for example in load_reviews(split, max_examples=args.examples)]


# ---- training


def finish(args: argparse.Namespace, model, tokenizer, name: str) -> dict:
    """Save and export a model; gives its accuracy on dev."""
    model.eval()
    save_model(model, tokenizer, place(args, name) / "model")
    path = export_model(model, place(args, name) / "fp32", tokenizer, LENGTH)
    return {"dev": dev_scores(args, {name: path}, tokenizer)[name]}


def dev_scores(args: argparse.Namespace, paths: dict, tokenizer) -> dict[str, float]:
    rows, labels = rows_of(args, "dev", tokenizer), labels_of(args, "dev")
    return compare(paths, rows, labels, threads=max(args.threads), rounds=1)["score"].to_dict()


def teacher(args: argparse.Namespace) -> dict:
    """The backbone, fine-tuned as data/backbone/README.md says for many reviews."""
    labels = load_reviews("train", max_examples=2).label_list
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    model, tokenizer = load_backbone(label_list=labels, **dropout)
    freeze_layers(model, 1)
    rate, rows = suggested_learning_rate(model), MapDataset(rows_of(args, "train", tokenizer))
    work = place(args, "teacher")
    train(CourseTrainer, model, tokenizer, rows, args.epochs, rate, SEED, work)
    return finish(args, model, tokenizer, "teacher")


def read_teacher(args: argparse.Namespace) -> tuple[paddle.nn.Layer, object]:
    directory = place(args, "teacher") / "model"
    return load_pruned(directory), load_tokenizer(directory)


def student(args: argparse.Namespace, name: str) -> dict:
    model, tokenizer = read_teacher(args)
    rows = rows_of(args, "train", tokenizer)
    order = np.random.RandomState(SEED).permutation(len(rows))
    held_out = [rows[i] for i in order[: min(HELD_OUT, len(rows) // 4)]]
    collate = DataCollatorWithPadding(tokenizer)
    batches = [collate(held_out[i : i + BATCH]) for i in range(0, len(held_out), BATCH)]
    cut = prune(model, name, *importance(model, batches))
    rest = MapDataset([rows[i] for i in order[len(held_out) :]])
    options = {"teacher": model, "hidden_weight": 0.1}
    rate, work = args.learning_rate, place(args, name)
    train(DistillTrainer, cut, tokenizer, rest, args.student_epochs, rate, SEED, work, **options)
    return finish(args, cut, tokenizer, name)


# ---- static models


def quantized(args: argparse.Namespace, name: str) -> dict:
    """Quantize with each calibration, and keep the one that is best on dev."""
    work = place(args, name)
    tokenizer = load_tokenizer(work / "fp32")
    rows = rows_of(args, "train", tokenizer)
    paths = {}
    for algo, batches in CALIBRATIONS:
        options = {"algo": algo, "batch_size": 16, "batch_nums": batches}
        paths[algo] = quantize_static(work / "fp32", work / algo, rows, name="int8", **options)
    scores = dev_scores(args, paths, tokenizer)
    best = max(scores, key=scores.__getitem__)
    return {"dev": scores[best], "algo": best, "dev_by_algo": scores}


def static_models(args: argparse.Namespace, threads: int) -> dict[str, Predictor]:
    """All models, the teacher first; and the teacher without oneDNN."""
    models = {}
    for name in ("teacher", *args.students):
        kept = json.loads(record(args, f"{name} int8").read_text())
        for title, directory in ((name, "fp32"), (f"{name} int8", kept["algo"])):
            models[title] = Predictor(place(args, name) / directory, threads=threads)
    path = place(args, "teacher") / "fp32"
    models["teacher without oneDNN"] = Predictor(path, threads=threads, mkldnn=False)
    return models


def speed(args: argparse.Namespace) -> dict:
    tokenizer = load_tokenizer(place(args, "teacher") / "fp32")
    some = rows_of(args, "dev", tokenizer)[:BATCH], labels_of(args, "dev")[:BATCH], BATCH
    times = {}
    for threads in args.threads:
        models = static_models(args, threads)
        for tokens in TIMED:
            timed = compare(models, *some, tokens, rounds=args.rounds)
            times[f"{tokens} tokens, {threads} threads"] = timed
    columns = ["median_ms", "p95_ms", "megabytes"]
    return {
        "models": {case: timed[columns].round(2).to_dict("index") for case, timed in times.items()},
        "machine": f"{machine.cpu().model}, {len(os.sched_getaffinity(0))} cores",
        "instructions": INSTRUCTIONS,
        "date": date.today().isoformat(),
    }


def accuracy(args: argparse.Namespace) -> dict:
    """Accuracy on test, read here and nowhere else."""
    models = static_models(args, max(args.threads))
    rows = rows_of(args, "test", models["teacher"].tokenizer)
    frame = compare(models, rows, labels_of(args, "test"), BATCH, LENGTH, rounds=1)
    columns = ["score", "difference", "low", "high"]
    return {"models": frame[columns].to_dict("index"), "examples": len(rows)}


# ---- the result


def write(args: argparse.Namespace) -> None:
    done = {name: json.loads(record(args, name).read_text()) for name, _ in stages(args)}
    times, scores = done["speed"]["models"], done["test"]["models"]
    fp32 = ("teacher", "teacher without oneDNN")
    base = {case: min(timed[one]["median_ms"] for one in fp32) for case, timed in times.items()}
    sizes = next(iter(times.values()))  # the same in every case
    table = {}
    for name, score in scores.items():
        lost = {key: round(0 - 100 * score[key], 2) for key in ("difference", "high", "low")}
        table[name] = {
            "speed": {
                case: {
                    "ms_per_row": round(timed[name]["median_ms"] / BATCH, 3),
                    "p95_ms_per_row": round(timed[name]["p95_ms"] / BATCH, 3),
                    "speedup": round(base[case] / timed[name]["median_ms"], 2),
                }
                for case, timed in times.items()
            },
            "megabytes": sizes[name]["megabytes"],
            "dev": round(done.get(name, {}).get("dev", float("nan")), 4),
            "test": round(score["score"], 4),
            "lost": {"points": lost["difference"], "low": lost["high"], "high": lost["low"]},
        }
    table["teacher without oneDNN"].pop("dev")
    result = {
        "task": "review classifiers in Paddle Inference on a CPU: speed and accuracy",
        "command": "python benchmarks/inference_frontier.py",
        **{key: value for key, value in done["speed"].items() if key not in ("models", "seconds")},
        "seed": SEED,
        "epochs": {"teacher": args.epochs, "students": args.student_epochs},
        "learning_rate": {"students": args.learning_rate},
        "test_examples": done["test"]["examples"],
        "cpu_seconds": {name: one["cpu_seconds"] for name, one in done.items()},
        "calibration": {n: one["algo"] for n, one in done.items() if "algo" in one},
        "models": table,
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(args.output) as target:
        json.dump(result, target, indent=1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
