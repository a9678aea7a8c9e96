"""How good the hierarchical classifier is, pruned and not, and how fast; one JSON line.

    python benchmarks/hierarchical.py --work outputs/hierarchical    everything: hours on two cores
    python benchmarks/hierarchical.py --skip latency                 accuracy alone

Accuracy: for each seed the backbone is fine-tuned on the review tree (weak labels by rules), and
pruned to several widths by DynaBERT, each also as INT8. The baseline is TF-IDF of characters and a
logistic regression a label, its strength chosen on dev. All have thresholds tuned on dev and
labels chosen by `decode`; then test, once, and the reviews of test that were labeled by reading.
Differences are points of micro F1 over all seeds, with a 95% interval of a paired bootstrap over
the texts.

Latency: batches of 32 rows of 128 tokens without padding, with the same threads in one process
tuned as the course tunes all; dynamic, static, pruned and INT8 models take turns in each round.
`ratio` is the median time of the dynamic model over that of the pruned INT8 one.

With --work a run that was stopped goes on with the steps, and the epochs, that it had not finished.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.chapters.ch06 import int8_operators
from course_lib.compression import quantize_static
from course_lib.data import load_review_tree
from course_lib.deploy import Predictor
from course_lib.runtime import atomic_file, seed_everything, select_device
from course_lib.tasks.hierarchical import (
    Classifier,
    PruneArguments,
    Taxonomy,
    brief,
    decode,
    prune,
    report,
    train,
    tune,
)
from course_lib.training import paired_bootstrap_f1
from course_lib.training.prediction import inference_mode

import numpy as np
import paddle
from paddlenlp.utils.log import logger
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

BATCH, LENGTH, ALGO = 32, 128, "hist"
WIDTHS = {"3/4": 0.75, "2/3": 2 / 3, "1/2": 0.5}
STRENGTHS = (3, 10, 30)  # of the baseline, the inverse of its regularization
PREDICTIONS = "predictions.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--examples", type=int, default=3000, help="training texts, 0: all; %(default)s")
    add("--dev_examples", type=int, default=800, help="%(default)s")
    add("--test_examples", type=int, help="default: all")
    add("--epochs", type=int, default=4, help="of fine-tuning; %(default)s")
    add("--prune_epochs", type=int, default=2, help="of DynaBERT; %(default)s")
    add("--prune_learning_rate", type=float, default=2e-4, help="%(default)s")
    add("--model_name", help="default: the backbone of the course")
    add("--seeds", type=int, nargs="+", default=[42, 43], help="%(default)s")
    add("--rounds", type=int, default=25, help="timed batches a model; %(default)s")
    add("--threads", type=int, default=2, help="%(default)s")
    add("--work", help="a directory that keeps what is done for the next run")
    add("--worker", nargs=2, metavar=("SEED", "STEP"), help=argparse.SUPPRESS)
    add("--skip", choices=("latency", "accuracy"), help="leave one part out")
    args = parser.parse_args()
    logger.set_level("ERROR")
    select_device("cpu")
    if args.worker:
        STEPS[args.worker[1]](args, int(args.worker[0]), Path(args.work, *args.worker))
        return
    with tempfile.TemporaryDirectory(prefix="hierarchical-") as temporary:
        work = Path(args.work or temporary)
        for seed in args.seeds:
            in_a_process(args, work, seed, "train")
            in_a_process(args, work, seed, "prune")
        result = {
            "task": "reviews as a tree of labels: backbone, baseline, pruned and INT8",
            "cores": len(os.sched_getaffinity(0)),
        }
        if args.skip != "accuracy":
            in_a_process(args, work, args.seeds[0], "baseline")
            result |= accuracy(args, work)
        if args.skip != "latency":
            in_a_process(args, work, args.seeds[0], "latency")
            result["latency"] = json.loads(
                (work / str(args.seeds[0]) / "latency" / PREDICTIONS).read_text("utf-8")
            )
        print(json.dumps(result, ensure_ascii=False))


def in_a_process(args: argparse.Namespace, work: Path, seed: int, step: str) -> None:
    """One step of one seed, so that none depends on what ran before; not done twice."""
    if (work / str(seed) / step / PREDICTIONS).is_file():
        return
    started = time.perf_counter()
    command = [sys.executable, __file__, *sys.argv[1:]]
    command += ["--work", str(work), "--worker", str(seed), step]
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    subprocess.run(command, env=environment, check=True)
    say(f"seed {seed}: {step} in {time.perf_counter() - started:.0f} s")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- the steps; each leaves its results, whole, in PREDICTIONS


def splits(args: argparse.Namespace) -> tuple[Taxonomy, dict[str, list[dict]]]:
    counts = {"train": args.examples, "dev": args.dev_examples, "test": args.test_examples}
    data = {name: load_review_tree(name, max_examples=n or None) for name, n in counts.items()}
    data["gold"] = load_review_tree("gold")
    return Taxonomy(data["train"].label_list), {name: list(rows) for name, rows in data.items()}


def texts(rows: list[dict]) -> list[str]:
    return [row["text"] for row in rows]


def true(rows: list[dict], taxonomy: Taxonomy) -> np.ndarray:
    return taxonomy.indicators([row["labels"] for row in rows])


def save_predictions(directory: Path, models: dict[str, Classifier], args) -> None:
    """Labels (their ids) of test and gold by each model."""
    taxonomy, data = splits(args)
    result = {}
    for name, model in models.items():
        result[name] = {}
        for part in ("test", "gold"):
            labels = model.predict(texts(data[part]))
            result[name][part] = [[taxonomy.ids[label] for label in row] for row in labels]
    write(directory, result)


def write(directory: Path, result: dict) -> None:
    with atomic_file(directory / PREDICTIONS) as file:
        json.dump(result, file, ensure_ascii=False)


def train_step(args: argparse.Namespace, seed: int, directory: Path) -> None:
    taxonomy, data = splits(args)
    model_dir = directory / "model"
    goes_on = any(model_dir.glob("checkpoints/checkpoint-*/course.json"))
    if not goes_on:
        shutil.rmtree(model_dir, ignore_errors=True)
    classifier, figures = train(
        data["train"],
        data["dev"],
        taxonomy,
        model_dir,
        model_name=args.model_name,
        max_seq_length=LENGTH,
        epochs=args.epochs,
        warmup_steps=len(data["train"]) // 32 * args.epochs // 10,
        weight_decay=0.01,
        logging_steps=50,
        init_from_ckpt="newest" if goes_on else None,
        seed=seed,
        device="cpu",
    )
    say(f"seed {seed}: dev {json.dumps(figures['dev_tuned'])}")
    source = classifier.export(directory / "static")
    rows = classifier.features(data["train"])
    int8 = quantize_static(
        source, directory / "int8", rows, algo=ALGO, batch_size=16, batch_nums=4, seed=seed
    )
    quantised = Classifier(Predictor(int8))
    retune(quantised, data["dev"])
    save_predictions(directory, {"backbone": classifier, "backbone INT8": quantised}, args)
    shutil.rmtree(model_dir / "checkpoints")


def prune_step(args: argparse.Namespace, seed: int, directory: Path) -> None:
    _, data = splits(args)
    shutil.rmtree(directory, ignore_errors=True)
    seed_everything(seed)
    compression = PruneArguments(
        output_dir=str(directory),
        strategy="dynabert+ptq",
        width_mult_list=list(WIDTHS),
        algo_list=[ALGO],
        batch_size_list=[16],
        batch_num_list=[4],
        num_train_epochs=args.prune_epochs,
        learning_rate=args.prune_learning_rate,
        warmup_ratio=0.1,
        per_device_eval_batch_size=64,
        save_steps=200,
        logging_steps=1000,
        seed=seed,
        disable_tqdm=True,
        report_to=[],
        device="cpu",
    )
    whole = Classifier.load(directory.with_name("train") / "model")
    frame = prune(whole, data["train"], data["dev"], compression)
    models = {}
    for path, width, algo in zip(frame["path"], frame["width"], frame["algo"], strict=True):
        name = next((one for one, value in WIDTHS.items() if abs(value - (width or 0)) < 1e-6), "")
        if not name:
            continue  # the uncut one
        quantised = isinstance(algo, str)
        key = f"{name} INT8" if quantised else name
        models[key] = Classifier(Predictor(path)) if quantised else Classifier.load(path.parent)
    save_predictions(directory, models, args)
    with atomic_file(directory / "paths.json") as file:
        json.dump(
            {name: str(one) for name, one in zip(models, frame["path"][1:], strict=True)}, file
        )


def baseline_step(args: argparse.Namespace, seed: int, directory: Path) -> None:
    taxonomy, data = splits(args)
    goal = true(data["train"], taxonomy).astype(int)
    best = (-1.0, None, None)
    for strength in STRENGTHS:
        regression = LogisticRegression(C=strength, solver="liblinear", random_state=seed)
        model = make_pipeline(
            TfidfVectorizer(analyzer="char", ngram_range=(1, 3), min_df=2, sublinear_tf=True),
            OneVsRestClassifier(regression, n_jobs=args.threads),
        ).fit(texts(data["train"]), goal)
        found = model.predict_proba(texts(data["dev"]))
        thresholds = tune(found, true(data["dev"], taxonomy), taxonomy)
        f1 = brief(true(data["dev"], taxonomy), decode(found, taxonomy, thresholds))
        if f1["micro_f1"] > best[0]:
            best = f1["micro_f1"], model, thresholds
    result = {}
    for part in ("test", "gold"):
        chosen = decode(best[1].predict_proba(texts(data[part])), taxonomy, best[2])
        result[part] = [np.flatnonzero(row).tolist() for row in chosen]
    write(directory, {"TF-IDF": result})


def retune(classifier: Classifier, dev: list[dict]) -> None:
    probabilities = classifier.probabilities(texts(dev))
    classifier.thresholds = tune(probabilities, true(dev, classifier.taxonomy), classifier.taxonomy)


# ---- figures


def accuracy(args: argparse.Namespace, work: Path) -> dict:
    taxonomy, data = splits(args)
    found: dict[str, dict[str, list[np.ndarray]]] = {}  # by part and model, one array a seed
    for seed in args.seeds:
        for step in ("train", "prune", "baseline"):
            file = work / str(seed) / step / PREDICTIONS
            if not file.is_file():  # the baseline has one seed: nothing in it is random
                continue
            for name, parts in json.loads(file.read_text("utf-8")).items():
                for part, rows in parts.items():
                    matrix = np.zeros((len(rows), len(taxonomy)), dtype=bool)
                    for row, ids in enumerate(rows):
                        matrix[row, ids] = True
                    found.setdefault(part, {}).setdefault(name, []).append(matrix)
    rules = {row["id"]: row["labels"] for row in load_review_tree("test")}
    by_rule = taxonomy.indicators([rules[row["id"]] for row in data["gold"]])
    found["gold"]["rules"] = [by_rule]
    result = {}
    for part, models in found.items():
        goal = true(data[part], taxonomy)
        figures = {name: [brief(goal, one) for one in each] for name, each in models.items()}
        result[part] = {"texts": len(goal)}
        for kind in ("micro", "macro"):
            result[part][f"{kind}_f1"] = {
                name: round(float(np.mean([one[f"{kind}_f1"] for one in each])), 4)
                for name, each in figures.items()
            }
        result[part]["micro_f1_by_seed"] = {
            name: [round(one["micro_f1"], 4) for one in each] for name, each in figures.items()
        }
        result[part]["levels"] = {
            name: [round(row["micro_f1"], 4) for row in report(goal, each[0], taxonomy)["levels"]]
            for name, each in models.items()
        }
        result[part]["points_lost"] = {
            name: lost(goal, models["backbone"], each)
            for name, each in models.items()
            if name != "backbone"
        }
    micro = result["test"]["points_lost"]["3/4"]
    return {
        **result,
        "three_quarters_within_bound": micro["difference"] <= 0.3 or micro["low"] <= 0,
        "examples": len(data["train"]),
        "labels": len(taxonomy),
        "seeds": args.seeds,
        "algo": ALGO,
    }


def counts(goal: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Right, found and true labels of each text, [texts, 3]."""
    return np.stack([part.sum(axis=1) for part in (goal & found, found, goal)], axis=1)


def lost(goal: np.ndarray, whole: list[np.ndarray], other: list[np.ndarray]) -> dict:
    """Points of micro F1 that the whole model is better, over all seeds."""
    first, second = (sum(counts(goal, one) for one in each) for each in (whole, other))
    if len(other) < len(whole):  # one run stands for all seeds
        second = second * len(whole)
    difference = paired_bootstrap_f1(first, second)
    return {name: round(100 * value, 2) for name, value in difference.items()}


def latency_step(args: argparse.Namespace, seed: int, directory: Path) -> None:
    """Milliseconds a text of every form of one seed's model."""
    seed_dir = directory.parent
    dynamic = Classifier.load(seed_dir / "train" / "model").model
    dynamic.eval()
    paths = {"static": seed_dir / "train" / "static", "static INT8": seed_dir / "train" / "int8"}
    paths |= json.loads((seed_dir / "prune" / "paths.json").read_text("utf-8"))
    predictors = {name: Predictor(path, threads=args.threads) for name, path in paths.items()}
    words = dynamic.config.vocab_size
    ids = np.random.RandomState(0).randint(5, words, size=[BATCH, LENGTH])
    batch = {"input_ids": ids, "token_type_ids": np.zeros_like(ids)}
    tensors = {name: paddle.to_tensor(value) for name, value in batch.items()}

    def run_dynamic() -> None:
        dynamic(**tensors).numpy()

    calls = {"dynamic": run_dynamic}
    calls |= {name: lambda one=one: one.run(batch) for name, one in predictors.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    order = np.random.RandomState(0)
    with inference_mode(dynamic):
        for number in range(args.rounds + 3):
            for name in order.permutation(list(calls)):
                started = time.perf_counter()
                calls[name]()
                if number >= 3:  # the first calls prepare
                    seconds[name].append(time.perf_counter() - started)
    each = {name: 1000 * np.array(values) / BATCH for name, values in seconds.items()}
    median = {name: float(np.median(values)) for name, values in each.items()}
    write(
        directory,
        {
            "ms_a_text": {name: round(value, 3) for name, value in median.items()},
            "p95_ms_a_text": {n: round(float(np.percentile(v, 95)), 3) for n, v in each.items()},
            "times_the_dynamic_model": {
                name: round(median["dynamic"] / value, 2) for name, value in median.items()
            },
            "ratio": round(median["dynamic"] / median["3/4 INT8"], 2),
            "int8_operators": int8_operators(predictors["3/4 INT8"]),
            "batch": BATCH,
            "tokens": LENGTH,
            "threads": args.threads,
            "rounds": args.rounds,
        },
    )


STEPS = {
    "train": train_step,
    "prune": prune_step,
    "baseline": baseline_step,
    "latency": latency_step,
}

if __name__ == "__main__":
    main()
