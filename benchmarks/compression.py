"""How much faster, smaller and worse compressed models are; one JSON line.

    python benchmarks/compression.py                       everything: hours on two cores
    python benchmarks/compression.py --skip accuracy       speed and size alone: minutes
    python benchmarks/compression.py --work outputs/bench  go on where the last run was stopped

Speed: a review classifier on the shipped backbone (4 layers of 384), and one of random weights with
6 layers of 384, in Paddle Inference on the CPU. A batch is 32 rows of 128 tokens, without padding;
the models of one shape take turns in each round, and a `ratio` is the median time of the unpruned
FP32 model, with oneDNN or without, whichever is faster, over that of the compressed one.

Accuracy: for each seed the backbone is fine-tuned on the reviews and compressed by each strategy,
with training data alone for calibration, importance and further training, and with the dev split to
choose the best step of a training and the best calibration of several. Then test, once: points lost
against the model it was made from, mean over seeds, with a 95% interval of a paired bootstrap over
the test reviews.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.chapters.ch06 import int8_operators
from course_lib.compression import (
    CompressTrainer,
    export_quantized,
    importance,
    prune,
    quantize_aware,
    quantize_embeddings,
    quantize_static,
)
from course_lib.data import convert_example, load_reviews
from course_lib.deploy import Predictor, export_model
from course_lib.models import freeze_layers, load_backbone, suggested_learning_rate
from course_lib.runtime import atomic_file, seed_everything, select_device
from course_lib.training import CourseTrainer, paired_bootstrap

import numpy as np
import paddle
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.datasets import MapDataset
from paddlenlp.trainer import CompressionArguments, TrainingArguments
from paddlenlp.utils.log import logger

BATCH, LENGTH, WIDTH = 32, 128, 0.75
SIX_LAYERS = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12}
SIX_LAYERS |= {"intermediate_size": 1536, "max_position_embeddings": 256}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rounds", type=int, default=25, help="timed calls of each model; %(default)s")
    add("--threads", type=int, default=2, help="%(default)s")
    add("--examples", type=int, default=2000, help="reviews to fine-tune on; %(default)s")
    add("--dev_examples", type=int, default=800, help="to choose steps by; %(default)s")
    add("--test_examples", type=int, help="default: all")
    add("--epochs", type=int, default=2, help="of fine-tuning; %(default)s")
    add("--width_epochs", type=int, default=2, help="of DynaBERT; %(default)s")
    add("--width_learning_rate", type=float, default=1e-4, help="of DynaBERT; %(default)s")
    add("--qat_epochs", type=int, default=1, help="%(default)s")
    add("--qat_learning_rate", type=float, default=2e-5, help="%(default)s")
    add("--algo", default="hist", help="of static quantisation, for speed; %(default)s")
    add("--algos", nargs="+", default=["hist", "mse"], help="to search; %(default)s")
    add("--batches", type=int, nargs="+", default=[16], help="to search; %(default)s")
    add("--seeds", type=int, nargs="+", default=[42, 43, 44], help="%(default)s")
    add("--jobs", type=int, default=1, help="models trained at the same time; %(default)s")
    add("--work", help="a directory that keeps trained models for the next run")
    add("--worker", nargs=2, metavar=("SEED", "STEP"), help=argparse.SUPPRESS)
    add("--skip", choices=("speed", "accuracy"), help="leave one part out")
    args = parser.parse_args()
    logger.set_level("ERROR")
    select_device("cpu")
    if args.worker:
        one_step(args, int(args.worker[0]), args.worker[1])
        return
    result = {
        "task": "compressed review classifiers in Paddle Inference: speed, size, accuracy",
        "cores": len(os.sched_getaffinity(0)),
    }
    with tempfile.TemporaryDirectory(prefix="compression-") as work:
        if args.skip != "speed":
            result["speed"] = speed(args, Path(work))
        if args.skip != "accuracy":
            result["accuracy"] = accuracy(args, Path(args.work or work))
    print(json.dumps(result))


def report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def features(split: MapDataset, tokenizer) -> MapDataset:
    rows = [convert_example(example, tokenizer, LENGTH, return_dict=True) for example in split]
    return MapDataset(rows, label_list=split.label_list)


# ---- speed


def speed(args: argparse.Namespace, work: Path) -> dict:
    reviews = load_reviews("train", max_examples=64)
    texts = [example["text"] for example in reviews]
    result = {}
    for name, (backbone, config) in {
        "4 layers (backbone)": (None, {}),
        "6 layers (random)": ("fresh", SIX_LAYERS),
    }.items():
        seed_everything(42)
        model, tokenizer = load_backbone(
            backbone, label_list=reviews.label_list, vocab_texts=texts, **config
        )
        directory = work / name.split()[0]
        paths = variants(args, model, tokenizer, features(reviews, tokenizer), directory)
        result[name] = timings(args, paths, len(tokenizer))
        report(f"{name}: {json.dumps(result[name]['ratio'])}")
    return result | {
        "batch": BATCH,
        "tokens": LENGTH,
        "threads": args.threads,
        "rounds": args.rounds,
        "algo": args.algo,
    }


def variants(args, model, tokenizer, rows: MapDataset, directory: Path) -> dict[str, Path]:
    """One file for each strategy. Speed does not depend on the weights, so nothing is trained."""
    model.classifier.bias.set_value(np.array([0.01, -0.01], "float32"))  # as a trained head has
    model.eval()
    rows = list(rows)
    batches = [DataCollatorWithPadding(tokenizer)(rows[i : i + 16]) for i in range(0, 32, 16)]
    cut = prune(model, WIDTH, *importance(model, batches))
    options = {"algo": args.algo, "batch_size": 8, "batch_nums": 2}
    paths = {"fp32": export_model(model, directory / "fp32", tokenizer)}
    paths["dynabert"] = export_model(cut, directory / "dynabert", tokenizer)
    paths["ptq"] = quantize_static(paths["fp32"], directory / "ptq", rows, **options)
    paths["dynabert+ptq"] = quantize_static(paths["dynabert"], directory / "both", rows, **options)
    quantised = quantize_aware(model)
    quantised.train()  # a look at some batches sets its scales
    for batch in batches:
        quantised(batch["input_ids"], batch["token_type_ids"])
    quantised.eval()
    paths["qat"] = export_quantized(quantised, directory / "qat", rows, tokenizer=tokenizer)
    paths["dynabert+ptq+embeddings"] = quantize_embeddings(
        paths["dynabert+ptq"], directory / "all" / "model"
    )
    return paths


def timings(args: argparse.Namespace, paths: dict[str, Path], words: int) -> dict:
    predictors = {name: Predictor(path, threads=args.threads) for name, path in paths.items()}
    predictors["fp32 without oneDNN"] = Predictor(paths["fp32"], threads=args.threads, mkldnn=False)
    ids = np.random.RandomState(0).randint(5, words, size=[BATCH, LENGTH])
    batch = {"input_ids": ids, "token_type_ids": np.zeros_like(ids)}
    seconds: dict[str, list[float]] = {name: [] for name in predictors}
    for number in range(args.rounds + 3):
        for name, predictor in predictors.items():
            started = time.perf_counter()
            predictor.run(batch)
            if number >= 3:  # the first calls prepare
                seconds[name].append(time.perf_counter() - started)
    median = {name: float(np.median(values)) for name, values in seconds.items()}
    base = min(median["fp32"], median["fp32 without oneDNN"])
    size = {name: megabytes(path) for name, path in paths.items()}
    return {
        "ms_a_row": {name: round(value * 1000 / BATCH, 3) for name, value in median.items()},
        "p95_ms_a_row": {
            name: round(float(np.percentile(values, 95)) * 1000 / BATCH, 3)
            for name, values in seconds.items()
        },
        "ratio": {name: round(base / median[name], 2) for name in paths if name != "fp32"},
        "megabytes": size,
        "size_of_fp32": {n: round(s / size["fp32"], 3) for n, s in size.items() if n != "fp32"},
        "int8_operators": {name: int8_operators(predictors[name]) for name in ("ptq", "qat")},
    }


def megabytes(path: Path) -> float:
    files = [path.with_name(path.name + ending) for ending in (".pdmodel", ".pdiparams")]
    return round(sum(file.stat().st_size for file in files) / 1e6, 2)


# ---- accuracy

STEPS = ("fine-tuning", "dynabert+ptq+embeddings", "qat")


def accuracy(args: argparse.Namespace, work: Path) -> dict:
    runs = []  # a seed's {model: right or wrong, a test review}
    with ThreadPoolExecutor(args.jobs) as pool:
        for step in STEPS[:1], STEPS[1:]:
            wanted = [(seed, name) for seed in args.seeds for name in step]
            list(pool.map(lambda task: in_a_process(args, work, *task), wanted))
    for seed in args.seeds:
        files = [work / str(seed) / step / "right.json" for step in STEPS]
        runs.append({k: v for file in files for k, v in json.loads(file.read_text()).items()})
    right = {name: np.array([one[name] for one in runs]) for name in runs[0]}  # [seeds, reviews]
    lost = {}
    for name in right:
        if name != "fp32":
            difference = paired_bootstrap(right["fp32"].mean(axis=0), right[name].mean(axis=0))
            lost[name] = {key: round(100 * value, 2) for key, value in difference.items()}
    return {
        "test_accuracy": {name: round(float(v.mean()), 4) for name, v in right.items()},
        "by_seed": {name: v.mean(axis=1).round(4).tolist() for name, v in right.items()},
        "points_lost": lost,
        "examples": args.examples,
        "test_examples": right["fp32"].shape[1],
        "seeds": args.seeds,
        "algos": args.algos,
        "batches": args.batches,
    }


def in_a_process(args: argparse.Namespace, work: Path, seed: int, step: str) -> None:
    """One step of one seed, so that none depends on what ran before; not done twice."""
    if (work / str(seed) / step / "right.json").is_file():
        return
    started = time.perf_counter()
    threads = max(1, len(os.sched_getaffinity(0)) // args.jobs)
    command = [sys.executable, __file__, *sys.argv[1:]]
    command += ["--work", str(work), "--worker", str(seed), step]
    subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, check=True)
    report(f"seed {seed}: {step} in {time.perf_counter() - started:.0f} s")


def one_step(args: argparse.Namespace, seed: int, step: str) -> None:
    """Train a model, and write for each test review 1.0 where it is right.

    Steps other than "fine-tuning" begin with the model that it has left.
    """
    work = Path(args.work, str(seed), step)
    splits = {"train": load_reviews("train", max_examples=args.examples)}
    splits["dev"] = load_reviews("dev", max_examples=args.dev_examples)
    splits["test"] = load_reviews("test", max_examples=args.test_examples)
    seed_everything(seed)
    source = None if step == "fine-tuning" else str(work.with_name("fine-tuning") / "model")
    model, tokenizer = load_backbone(source, label_list=splits["train"].label_list)
    rows = {name: features(split, tokenizer) for name, split in splits.items()}
    if step == "fine-tuning":
        fine_tune(args, model, tokenizer, rows, seed, work)
    paths = compress(args, model, tokenizer, rows, seed, step, work)
    collator = DataCollatorWithPadding(tokenizer)
    right = {name: correct(path, rows["test"], collator).tolist() for name, path in paths.items()}
    shares = {name: round(float(np.mean(values)), 4) for name, values in right.items()}
    report(f"seed {seed}: test accuracy {json.dumps(shares)}")
    with atomic_file(work / "right.json") as file:
        json.dump(right, file)


def fine_tune(args: argparse.Namespace, model, tokenizer, rows: dict, seed: int, work: Path):
    """As data/backbone/README.md says; the model goes into `work`/model."""
    freeze_layers(model, 2)
    rate = suggested_learning_rate(model)
    train(CourseTrainer, model, tokenizer, rows["train"], args.epochs, rate, seed, work)
    model.save_pretrained(str(work / "model"))
    tokenizer.save_pretrained(str(work / "model"))


def train(
    kind: type[CourseTrainer],
    model,
    tokenizer,
    rows,
    epochs,
    rate,
    seed: int,
    work: Path,
    **options,
) -> None:
    """Train on rows of features by one of the course's trainers; nothing stays frozen."""
    training = TrainingArguments(
        output_dir=str(work / "training"),
        num_train_epochs=epochs,
        learning_rate=rate,
        per_device_train_batch_size=16,
        warmup_ratio=0.1,
        weight_decay=0.01,
        save_strategy="no",
        seed=seed,
        **quiet(),
    )
    kind(
        model=model,
        args=training,
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=rows,
        tokenizer=tokenizer,
        group_by_length=True,
        **options,
    ).train()
    freeze_layers(model, 0)


def compress(
    args: argparse.Namespace, model, tokenizer, rows: dict, seed: int, step: str, work: Path
) -> dict[str, Path]:
    """The files of each strategy of a step; where there were several, the best on dev."""
    compression = CompressionArguments(
        output_dir=str(work),
        strategy="ptq" if step == "fine-tuning" else step,
        width_mult_list=[str(WIDTH)],
        algo_list=args.algos,
        batch_size_list=[16],
        batch_num_list=args.batches,
        num_train_epochs=args.qat_epochs if step == "qat" else args.width_epochs,
        learning_rate=args.qat_learning_rate if step == "qat" else args.width_learning_rate,
        warmup_ratio=0.1,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=64,
        save_steps=100,
        seed=seed,
        **quiet(),
    )
    trainer = CompressTrainer(
        model=model,
        args=compression,
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=rows["train"],
        eval_dataset=rows["dev"],
        tokenizer=tokenizer,
        group_by_length=True,
    )
    frame = trainer.compress()
    names = {"model": "dynabert", "int8": "dynabert+ptq", "quant_emb": "dynabert+ptq+embeddings"}
    if step == "fine-tuning":
        names = {"model": "fp32", "int8": "ptq"}
    elif step == "qat":
        names = {"int8": "qat"}
    else:
        frame = frame[frame["width"].notna()]
    best: dict[str, Path] = {}
    for row in frame.sort_values("score", ascending=False, kind="stable").to_dict("records"):
        name = names.get(row["path"].name)
        report(f"seed {seed}, dev: {name} {row['score']:.4f} {row['path'].relative_to(work)}")
        if name:
            best.setdefault(name, row["path"])
    return best


def quiet() -> dict:
    return {"disable_tqdm": True, "report_to": [], "device": "cpu", "logging_steps": 1000}


def correct(path: Path, rows: MapDataset, collator) -> np.ndarray:
    """For each row 1.0 where the static model's class is right."""
    predictor = Predictor(path)
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]["input_ids"]))
    right = np.zeros(len(rows))
    with paddle.no_grad():
        for first in range(0, len(order), 64):
            chosen = order[first : first + 64]
            batch = collator([rows[row] for row in chosen])
            logits = predictor.run({name: batch[name].numpy() for name in predictor.input_names})[0]
            right[chosen] = logits.argmax(-1) == batch["labels"].numpy().reshape(-1)
    return right


if __name__ == "__main__":
    main()
