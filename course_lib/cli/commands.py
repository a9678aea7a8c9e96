"""The command line: train, evaluate and predict on your own files without writing Python.

Whatever the user gave that is not right ends in one line on standard error and exit status 2.
Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import compression, data, deploy, runtime, training
from ..data.kinds import HEADS
from ..runtime import InputError, atomic_file
from ..runtime.commands import whole
from ..runtime.machine import PACKAGE
from ..runtime.outputs import CHECKPOINT_DIR, LOCK, LOG_DIR, MARKER, OutputDir
from . import shared
from .shared import MODEL_DIR, Commands, Table, argument, positive, switch

CHECKPOINTS = f"{CHECKPOINT_DIR}/checkpoint-*"  # each of them is whole
MOST_PAIRS = 10  # of confused classes that evaluate shows
MOST_CLASSES = 100  # whose probabilities predict writes; of more, the most probable ones
SENTENCES = {
    "房间很大，早餐也不错，下次还会住。": "big room, decent breakfast, will stay again",
    "屏幕有亮点，打电话给客服也没人管。": "a dead pixel, and customer service does not care",
    "故事很老套，看了一半就扔下了。": "a trite story, dropped it half way",
    "文笔优美，读完让人感动。": "beautifully written, moving to the end",
}


TRAINED: Table = {
    "--model_dir": argument("what train, export or compress wrote", required=True),
}
TRAINING: Table = {
    **shared.RUN,
    "--model_name_or_path": argument(
        "a directory, a name on the hub such as ernie-3.0-medium-zh, or fresh; default: "
        "COURSE_BACKBONE, else the backbone that ships with the course, else fresh"
    ),
    "--learning_rate": argument("peak (default: what suits the model)", type=positive),
    "--epochs": argument("passes over the training file", 3, type=whole(1)),
    "--max_steps": argument("stop after so many steps", type=whole(1)),
    "--seed": argument("of everything random", 42, type=shared.SEED),
    "--resume": argument(
        "go on with the training in --output_dir, from its newest checkpoint or the one named",
        False,
        nargs="?",
        const=True,
        metavar="CHECKPOINT",
    ),
}
TRAIN: Table = {
    "--train_file": argument(shared.LABELED, required=True),
    **shared.DEV,
    "--test_file": argument("the same, measured once at the end"),
    **shared.OUTPUT,
    **TRAINING,
    **shared.READING,
}
TESTED: Table = {"--test_file": argument(shared.LABELED, required=True)}
EVALUATE: Table = {
    **TRAINED,
    **TESTED,
    "--train_file": argument("of the model: trains a linear baseline on it, to compare with"),
    "--mistakes_file": argument("JSONL, gets what is wrong, the surest mistakes first"),
    "--json": switch("as JSON; by default a table, on a terminal"),
    **shared.RUN,
    **shared.READING,
}
PREDICT: Table = {
    **TRAINED,
    "--input_file": argument("TXT, TSV, CSV or JSONL; - (default) reads lines of text", "-"),
    "--output_file": argument("JSONL; - (default) is standard output", "-"),
    **shared.RUN,
    **shared.READING,
}
QUICKSTART: Table = {
    "--output_dir": argument("for everything written", "outputs/quickstart"),
    "--seed": argument("of everything random", 42, type=shared.SEED),
    **shared.TRUST,
}
EXPORT: Table = {
    **TRAINED,
    "--output_dir": argument("a new directory", required=True),
    "--onnx": switch("also for ONNX Runtime"),
    "--task": shared.READING["--task"],
    **shared.TRUST,
}
SERVE: Table = {
    "model_dir": argument("the directory that export or compress wrote"),
    "--host": argument("by default this machine alone can reach it", "127.0.0.1"),
    "--port": argument("0: a free one", 8000, type=whole(0, 65535)),
    "--allow_host": argument("names that requests may use for this machine", nargs="+"),
    "--task": shared.READING["--task"],
    "--backend": argument("what runs the model", "paddle", choices=("paddle", "onnx")),
    "--threads": argument("of the model (default: all cores but one)", type=whole(1)),
    "--max_batch": argument("texts of one run of the model; 1: no batching", type=whole(1)),
    "--max_wait_ms": argument("milliseconds that a batch waits for more texts", type=whole(0)),
    "--queue": argument("texts that may wait; more are refused with status 503", type=whole(1)),
    "--max_texts": argument("texts of one request", type=whole(1)),
    "--max_characters": argument("characters of one text", type=whole(1)),
    "--max_body": argument("bytes of one request", type=whole(1)),
}
COMPRESS: Table = {
    "--model_name_or_path": argument("the model/ that train or quickstart wrote", required=True),
    **shared.OUTPUT,
    "--train_file": argument(f"{shared.LABELED}; default: the course's reviews"),
    **shared.DEV,
    "--test_file": argument("the same, to measure each model once: it chooses nothing"),
    "--max_examples": argument("of each of the course's splits, at most so many", type=whole(1)),
    **shared.LENGTH,
    **shared.READING,
    **shared.TRUST,
}
DOCTOR: Table = {"--json": switch("for machines")}


def _train(args: argparse.Namespace) -> None:
    output_dir = Path(args.output_dir)
    output = OutputDir(output_dir, "train", go_on=bool(args.resume), keep=CHECKPOINTS)
    splits = shared.read_files(args)
    from ..tasks.finetuning import fine_tune  # loads Paddle

    with output.claim():
        metrics = fine_tune(splits, output_dir, baseline=True, **shared.values(args, TRAINING))[2]
    if baseline := metrics.get("baseline"):
        print(f"on {baseline['split']}: {_baseline_line(baseline)}", file=sys.stderr)
    python = os.path.relpath(sys.executable) if "VIRTUAL_ENV" not in os.environ else "python"
    next_step = f"{python} -m {PACKAGE} predict --model_dir {output_dir / MODEL_DIR}"
    print(f"now try: {next_step}", file=sys.stderr)
    shared.print_json(metrics)


def _evaluate(args: argparse.Namespace) -> None:
    config = shared.trained_config(args.model_dir, args.task)
    labels = config["labels"]
    for name in ("mistakes_file", "train_file") if config["task"] not in ("text", "pair") else ():
        if getattr(args, name):
            problem = f"has no meaning for --task {config['task']}"
            raise InputError(f"--{name}", problem, "a model of texts or pairs")
    if args.mistakes_file:
        shared.check_output(args.mistakes_file, args.test_file, args.train_file or args.test_file)
    splits = shared.read_files(args, config)
    test_ds = splits["test"]
    runtime.select_device(args.device)
    answers, task = _answer(config, test_ds, args), training.TASKS[config["task"]]
    results = task.scores(test_ds, answers, labels, splits.get("train"))
    if args.mistakes_file:
        mistakes = [
            {**e, "label": label, "predicted": p["label"], "probability": p["probability"]}
            for e, p in zip(test_ds, answers, strict=True)
            if (label := labels[e["label"]]) != p["label"]
        ]
        mistakes.sort(key=lambda row: -row["probability"])
        shared.write_results(mistakes, args.mistakes_file)
    if sys.stdout.isatty() and not args.json:
        print(*_result_lines(results), sep="\n")
        return
    about = {"task": task.name, "test_examples": len(test_ds), "labels": labels}
    scores = {f"test_{name}": results.pop(name) for name in task.measures}
    shared.print_json(about | scores | results)


def _result_lines(results: dict[str, Any]) -> list[str]:
    """A table and sentences; of many classes those with the lowest F1."""
    import pandas as pd

    frame = pd.DataFrame.from_dict(results.get("classes", {}), orient="index")
    if len(frame) > MOST_CLASSES:
        frame = frame.nsmallest(MOST_CLASSES, "f1")
    with pd.option_context("display.unicode.east_asian_width", True):
        lines = frame.to_string(float_format="{:.3f}".format).splitlines() if len(frame) else []
    single = {name: value for name, value in results.items() if isinstance(value, float)}
    told = [f"{name.replace('_', ' ')} {value:.3f}" for name, value in single.items()]
    lines.append(", ".join(told).replace("f1", "F1"))
    wrong = [pair for pair in results.get("confusion", ()) if pair["label"] != pair["predicted"]]
    lines += ["most often confused:"] * bool(wrong)
    for pair in wrong[:MOST_PAIRS]:
        lines.append(f"{pair['count']:6}  {pair['label']} taken for {pair['predicted']}")
    return lines + ([_baseline_line(results["baseline"])] if "baseline" in results else [])


def _baseline_line(baseline: dict[str, float]) -> str:
    verdict = "these texts do not tell which is better"
    if not baseline["low"] <= 0 <= baseline["high"]:
        verdict = f"the {'model' if baseline['low'] > 0 else 'baseline'} is better"
    interval = "{difference:+.3f} (95% interval {low:+.3f} to {high:+.3f})".format(**baseline)
    told = f"a linear baseline on TF-IDF has accuracy {baseline['accuracy']:.3f}"
    return f"{told}; the model minus the baseline: {interval}: {verdict}"


def _predict(args: argparse.Namespace) -> None:
    config = shared.trained_config(args.model_dir, args.task)
    if args.input_file == "-":
        if sys.stdin is None:
            raise InputError("standard input", "is closed", "--input_file, or lines of text")
        if sys.stdin.isatty():
            print("type one text per line, then end with Ctrl-D", file=sys.stderr)
    if args.output_file != "-":
        shared.check_output(args.output_file, args.input_file)
    examples = shared.read_files(args, config)["input"]
    runtime.select_device(args.device)
    results = _answer(config, examples, args)
    for result in results:
        if len(result.get("probabilities", ())) > MOST_CLASSES:
            best = sorted(result["probabilities"].items(), key=lambda one: -one[1])
            result["probabilities"] = dict(best[:MOST_CLASSES])
    shared.write_results(results, args.output_file)


def _quickstart(args: argparse.Namespace) -> None:
    from ..tasks.finetuning import fine_tune

    output_dir = Path(args.output_dir)
    sizes = runtime.profile()
    print(sizes, file=sys.stderr)
    splits = {
        name: data.load_reviews(name, max_examples=getattr(sizes, f"{name}_examples"))
        for name in ("train", "dev", "test")
    }
    with OutputDir(output_dir, "quickstart", again=True).claim():
        shutil.rmtree(output_dir / LOG_DIR, ignore_errors=True)  # VisualDL would draw both runs
        model, tokenizer, metrics = fine_tune(
            splits,
            output_dir,
            epochs=sizes.epochs,
            batch_size=sizes.batch_size,
            max_seq_length=sizes.max_seq_length,
            max_steps=sizes.max_steps,
            seed=args.seed,
            frozen_layers=2,
        )
    print("\nWhat it learned, on sentences that it has never seen:", file=sys.stderr)
    for result in training.predict(model, list(SENTENCES), tokenizer):
        told = f"  {result['label']:<9}{result['probability']:.2f}  {result['text']}"
        print(f"{told}  ({SENTENCES[result['text']]})", file=sys.stderr)
    shared.print_json(metrics)


def _export(args: argparse.Namespace) -> None:
    config = shared.trained_config(args.model_dir, args.task)
    if (config["path"] / "thresholds.json").is_file():  # they would be left behind
        expected = f"python -m {PACKAGE}.hierarchical export"
        raise InputError(config["path"], "is a model with thresholds", expected)
    output_dir = Path(args.output_dir)
    output = OutputDir(output_dir, "export")
    model, tokenizer, length = _load(config)
    with output.claim():
        path = deploy.export_model(model, output_dir, tokenizer, length)
        if args.onnx:
            deploy.convert(path)
    files = sorted(file.name for file in output_dir.iterdir() if file.name not in (MARKER, LOCK))
    shared.print_json({"task": "export", "output_dir": str(output_dir), "files": files})


def _compress(words: Sequence[str]) -> None:
    """Print a JSON line a model, the uncompressed one first; compression.json holds the same."""
    prog = f"python -m {PACKAGE} compress"
    options, parse_theirs = shared.parse_arguments(
        words, COMPRESS, prog, lambda: import_module("paddlenlp.trainer").CompressionArguments
    )
    config = shared.trained_config(options.model_name_or_path, options.task)
    names = config["labels"]
    if options.dev_file and not options.train_file:
        raise InputError("--dev_file", "is given without --train_file", "both, or neither")
    output = OutputDir(options.output_dir, "compress")
    splits = shared.read_files(options, config) if options.train_file else {}

    from ..data.readers import listed
    from ..models import suggested_learning_rate

    import paddle

    task = training.TASKS[config["task"]]
    args = parse_theirs()
    runtime.select_device(args.device if "--device" in options.given else None)
    args.device = paddle.get_device().split(":")[0]
    model, tokenizer, length = _load(config, options.max_seq_length, options.trust_pickle)
    if not splits:
        for name in ("train", "dev"):
            splits[name] = data.load_reviews(name, max_examples=options.max_examples)
        if task.name != "text" or names != splits["train"].label_list:
            problem = f"has the labels {listed(names)}, the course's reviews have others"
            raise InputError(options.model_name_or_path, problem, "--train_file and --dev_file")
    if "--learning_rate" not in options.given:
        args.learning_rate = suggested_learning_rate(model)
    runtime.seed_everything(args.seed)
    with output.claim():
        trainer = compression.CompressTrainer(
            model=model,
            args=args,
            group_by_length=True,
            **task.for_trainer(splits, tokenizer, length),
        )
        rows = shared.frame_rows(trainer.compress())
        for row in rows if "test" in splits else ():
            answers = _answer(shared.trained_config(row["path"]), splits["test"])
            scores = task.scores(splits["test"], answers, names)
            row[f"test_{task.measures[0]}"] = round(scores[task.measures[0]], 4)
        with atomic_file(Path(args.output_dir, "compression.json")) as file:
            json.dump(rows, file, ensure_ascii=False, indent=1)
    print(f"{len(splits['dev'])} examples to compare on, up to {length} tokens", file=sys.stderr)
    for row in rows:
        shared.print_json(row)


def _serve(args: argparse.Namespace) -> None:
    if args.backend == "paddle" and not shared.trained_config(args.model_dir)["static"]:
        problem = "holds a trained model that is not exported"
        raise InputError(args.model_dir, problem, "what `export` of course_lib writes")
    from ..deploy.service import Limits, listen, make_app, serve
    from ..runtime import machine

    values = {name: getattr(args, name) for name in vars(Limits())}
    limits = Limits(**{name: value for name, value in values.items() if value is not None})
    with listen(args.host, args.port) as listener:
        # the event loop needs a core, too
        threads = args.threads or max(1, machine.usable_cores() - 1)
        predictor = deploy.Predictor(args.model_dir, args.backend, threads=threads)
        if args.task not in (None, predictor.task.name):
            raise InputError("--task", f"is {args.task}", f"{predictor.task.name}, as exported")
        if not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
            print("others can reach this service, which asks nobody who they are", file=sys.stderr)
        serve(make_app(predictor, limits, [args.host, *(args.allow_host or ())]), listener)


def _doctor(args: argparse.Namespace) -> int:
    from ..runtime import doctor

    return doctor.report(args.json)


def _load(config: dict[str, Any], max_seq_length: int | None = None, trust: bool = False):
    """Load what `train` or a pruning wrote: the model, its tokenizer, and the tokens to cut at."""
    from .. import models
    from ..models.backbone import CUT
    from ..models.files import WEIGHT_FILES, load_tokenizer, read_config

    path = config["path"]
    if config["static"] and not any((path / name).is_file() for name in WEIGHT_FILES):
        raise InputError(path, "is a static model", f"the {MODEL_DIR}/ that train wrote")
    if CUT[0] in read_config(path / "config.json"):
        model, tokenizer = compression.load_pruned(path), load_tokenizer(path)
    else:
        options: Any = {"trained": True, "trust_pickle": trust, "head": HEADS[config["task"]]}
        model, tokenizer = models.load_backbone(path, **options)
    length = max_seq_length or getattr(model.config, "max_seq_length", None)
    return model, tokenizer, training.TASKS[config["task"]].cut_at(length, model)


def _answer(config: dict[str, Any], examples: Sequence, args: Any = None) -> list[dict[str, Any]]:
    """Answer examples with a model of any form."""
    batch_size, max_seq_length = (args.batch_size, args.max_seq_length) if args else (32, None)
    if not config["static"]:
        model, tokenizer, length = _load(config, max_seq_length)
        return training.predict(model, examples, tokenizer, batch_size, length)
    predictor = deploy.Predictor(config["path"])
    if max_seq_length not in (None, predictor.max_length):
        expected = f"{predictor.max_length}, as it was exported"
        raise InputError("--max_seq_length", f"is {max_seq_length}", expected)
    return predictor.classify(examples, batch_size)


COMMANDS: Commands = {
    "train": (_train, "fine-tune a classifier on files with text and label", TRAIN),
    "evaluate": (_evaluate, "measure a trained model on a labeled file", EVALUATE),
    "predict": (_predict, "label texts; writes one JSON object a line", PREDICT),
    "quickstart": (_quickstart, "train on the course's reviews and show it", QUICKSTART),
    "export": (_export, "write a trained classifier as a static model, to serve", EXPORT),
    "compress": (_compress, "make a trained classifier smaller and faster", None),
    "serve": (_serve, "answer HTTP requests with an exported classifier", SERVE),
    "doctor": (_doctor, "check this machine and environment, and name each fix", DOCTOR),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 done, 1 broken, 2 wrong input."""
    return shared.run_command(f"python -m {PACKAGE}", __doc__.splitlines()[0], COMMANDS, argv)
