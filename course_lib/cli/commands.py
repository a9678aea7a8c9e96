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
import time
from collections import Counter
from pathlib import Path
from typing import Any

from course_lib.cli.shared import (
    MODEL_DIR,
    check_model_dir,
    checked_length,
    print_json,
    split_columns,
)
from course_lib.runtime import InputError, atomic_file, check_writable
from course_lib.runtime.commands import exit_status, positive, whole
from course_lib.runtime.outputs import (
    CHECKPOINT_DIR,
    LOCK,
    LOG_DIR,
    MARKER,
    check_output_dir,
    claim,
)
from course_lib.runtime.trust import trust_pickles

CHECKPOINTS = f"{CHECKPOINT_DIR}/checkpoint-*"  # each of them is whole
MOST_CLASSES = 100  # whose probabilities predict writes; of more, the most probable ones
FEW_STEPS = 50  # of training; with fewer a classifier has hardly left its start
TASK = "text_classification"
SENTENCES = {
    "房间很大，早餐也不错，下次还会住。": "big room, decent breakfast, will stay again",
    "屏幕有亮点，打电话给客服也没人管。": "a dead pixel, and customer service does not care",
    "故事很老套，看了一半就扔下了。": "a trite story, dropped it half way",
    "文笔优美，读完让人感动。": "beautifully written, moving to the end",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit status: 0 done, 1 broken, 2 wrong input."""
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser().parse_args(argv[:1] if argv[:1] == ["compress"] else argv)

    def run() -> int | None:
        if sys.stdout is None:
            raise InputError("standard output", "is closed", "somewhere to write results to")
        if args.command is None:  # its hundred arguments are PaddleNLP's, which is slow to import
            from course_lib.cli.compress import main as compress

            compress(argv[1:])
            return 0
        with trust_pickles(getattr(args, "trust_pickle", False)):
            return args.command(args)

    return exit_status(run)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib", description=__doc__.splitlines()[0]
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, function, text, *parents):
        made = commands.add_parser(
            name, help=text, description=text, parents=list(parents), allow_abbrev=False
        )
        made.set_defaults(command=function)
        return made

    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--max_seq_length",
        type=whole(3),
        help="tokens; longer texts are cut (default: 128, or as in training)",
    )
    shared.add_argument(
        "--batch_size", type=whole(1), default=32, help="texts (default %(default)s)"
    )
    shared.add_argument("--device", help="default: COURSE_DEVICE, else the best usable one")
    shared.add_argument(
        "--columns", help="names of the columns of files that have no header, such as label,text"
    )
    shared.add_argument(
        "--encoding", default="utf-8-sig", help="of the files (default %(default)s)"
    )

    trust = argparse.ArgumentParser(add_help=False)
    trust.add_argument(
        "--trust_pickle",
        action="store_true",
        help="let a foreign .pdparams run the code that it may hold",
    )

    train = command(
        "train", run_train, "fine-tune a classifier on files with text and label", shared, trust
    )
    train.add_argument("--train_file", required=True, help="TSV, CSV or JSONL with text and label")
    train.add_argument("--dev_file", required=True, help="the same, to measure on after each epoch")
    train.add_argument("--test_file", help="the same, measured once at the end")
    train.add_argument("--output_dir", required=True, help="a new directory for everything written")
    train.add_argument(
        "--model_name_or_path",
        help="a directory, a name on the hub such as ernie-3.0-medium-zh, or fresh; "
        "default: COURSE_BACKBONE, else the backbone that ships with the course, else fresh",
    )
    train.add_argument(
        "--learning_rate", type=positive, help="peak (default: what suits the model)"
    )
    train.add_argument("--epochs", type=whole(1), default=3, help="default %(default)s")
    train.add_argument("--seed", type=whole(0, 2**32 - 1), default=42, help="default %(default)s")
    train.add_argument(
        "--resume",
        nargs="?",
        const=True,
        default=False,
        metavar="CHECKPOINT",
        help="go on with the training in --output_dir, from its newest checkpoint or the one named",
    )

    evaluate = command(
        "evaluate", run_evaluate, "measure a trained model on a labelled file", shared, trust
    )
    evaluate.add_argument("--model_dir", required=True, help=f"the {MODEL_DIR}/ that train wrote")
    evaluate.add_argument(
        "--test_file", required=True, help="TSV, CSV or JSONL with text and label"
    )

    text = "label texts; writes one JSON object a line"
    predict = command("predict", run_predict, text, shared, trust)
    predict.add_argument("--model_dir", required=True, help=f"the {MODEL_DIR}/ that train wrote")
    predict.add_argument(
        "--input_file", default="-", help="TXT, TSV, CSV or JSONL; - (default) reads lines of text"
    )
    predict.add_argument("--output_file", default="-", help="JSONL; - (default) is standard output")

    quick = command(
        "quickstart", run_quickstart, "train on the course's reviews and show the result", trust
    )
    quick.add_argument("--output_dir", default="outputs/quickstart", help="default %(default)s")
    quick.add_argument("--seed", type=whole(0, 2**32 - 1), default=42, help="default %(default)s")

    text = "write a trained classifier as a static model, to serve"
    export = command("export", run_export, text, trust)
    export.add_argument("--model_dir", required=True, help=f"the {MODEL_DIR}/ that train wrote")
    export.add_argument("--output_dir", required=True, help="a new directory")
    export.add_argument("--onnx", action="store_true", help="also for ONNX Runtime")

    command("compress", None, "make a trained classifier smaller and faster (compress --help)")

    serving = command("serve", run_serve, "answer HTTP requests with an exported classifier")
    serving.add_argument("model_dir", help="the directory that export or compress wrote")
    add = serving.add_argument
    add("--host", default="127.0.0.1", help="default %(default)s: this machine alone")
    add("--port", type=whole(0, 65535), default=8000, help="0: a free one (default %(default)s)")
    add("--allow_host", nargs="+", default=[], help="names that requests may use for this machine")
    add("--backend", choices=("paddle", "onnx"), default="paddle", help="default %(default)s")
    add("--threads", type=whole(1), help="of the model (default: all cores but one)")
    add("--max_batch", type=whole(1), help="texts of one run of the model; 1: no batching")
    add("--max_wait_ms", type=whole(0), help="milliseconds that a batch waits for more texts")
    add("--queue", type=whole(1), help="texts that may wait; more are refused with status 503")
    add("--max_texts", type=whole(1), help="texts of one request")
    add("--max_characters", type=whole(1), help="characters of one text")
    add("--max_body", type=whole(1), help="bytes of one request")

    doctor = command("doctor", run_doctor, "check this machine and environment, and name each fix")
    doctor.add_argument("--json", action="store_true", help="for machines")
    return parser


def run_train(args: argparse.Namespace) -> None:
    from course_lib.data import read_examples

    output_dir = Path(args.output_dir)
    place: dict[str, Any] = {"command": "train", "go_on": bool(args.resume), "keep": CHECKPOINTS}
    check_output_dir(output_dir, **place)
    reading = {"columns": split_columns(args.columns), "encoding": args.encoding}
    splits = {"train": read_examples(args.train_file, **reading)}
    for name, path in (("dev", args.dev_file), ("test", args.test_file)):
        if path is not None:
            splits[name] = read_examples(path, splits["train"].label_list, **reading)
    with claim(output_dir, **place):
        _, _, metrics = train(
            splits,
            output_dir,
            model_name_or_path=args.model_name_or_path,
            learning_rate=args.learning_rate,
            epochs=args.epochs,
            batch_size=args.batch_size,
            max_seq_length=args.max_seq_length,
            seed=args.seed,
            device=args.device,
            resume=args.resume,
        )
    python = os.path.relpath(sys.executable) if "VIRTUAL_ENV" not in os.environ else "python"
    next_step = f"{python} -m course_lib predict --model_dir {output_dir / MODEL_DIR}"
    print(f"now try: {next_step}", file=sys.stderr)
    print_json(metrics)


def train(
    splits: dict,
    output_dir: Path,
    *,
    model_name_or_path: str | None = None,
    learning_rate: float | None = None,
    epochs: int = 3,
    batch_size: int = 32,
    max_seq_length: int | None = None,
    seed: int = 42,
    device: str | None = None,
    resume: bool | str = False,
    max_steps: int | None = None,
):
    """Fine-tune on splits["train"] and save the model.

    Args:
        splits: MapDatasets "train", "dev" and perhaps "test", sharing one label_list.
        output_dir: gets checkpoints/, logs/ (VisualDL), model/ and metrics.json.

    Returns:
        The model, its tokenizer and the figures for the command's JSON line.
    """
    started = time.perf_counter()
    from course_lib.data import create_dataloader
    from course_lib.models import load_backbone, save_model, suggested_learning_rate
    from course_lib.runtime import seed_everything, select_device
    from course_lib.training import evaluate, fit

    device = select_device(device)
    seed_everything(seed)
    train_ds = splits["train"]
    model, tokenizer = load_backbone(
        model_name_or_path,
        label_list=train_ds.label_list,
        vocab_texts=[example["text"] for example in train_ds],
        problem_type="single_label_classification",
    )
    max_seq_length = checked_length(max_seq_length, model)
    model.config.max_seq_length = max_seq_length  # so that predict cuts texts where training did
    learning_rate = learning_rate or suggested_learning_rate(model)
    print(
        f"{len(train_ds)} examples, {len(train_ds.label_list)} labels, device {device}, "
        f"seed {seed}, learning rate {learning_rate:g}",
        file=sys.stderr,
    )
    loaders = {
        name: create_dataloader(split, tokenizer, name, batch_size, max_seq_length, seed=seed)
        for name, split in splits.items()
    }
    steps = min(len(loaders["train"]) * epochs, max_steps or sys.maxsize)
    if steps < FEW_STEPS and max_steps is None:
        print(
            f"only {steps} steps of training: more --epochs or a smaller --batch_size teach more",
            file=sys.stderr,
        )
    history = fit(
        model,
        loaders["train"],
        loaders["dev"],
        epochs=epochs,
        learning_rate=learning_rate,
        max_steps=max_steps,
        seed=seed,
        output_dir=output_dir / CHECKPOINT_DIR,
        resume=resume,
        log_dir=output_dir / LOG_DIR,
    )
    save_model(model, tokenizer, output_dir / MODEL_DIR)
    metrics = {
        "task": TASK,
        "train_examples": len(train_ds),
        "dev_accuracy": round(history["dev_accuracy"][-1], 4),
    }
    if "test" in loaders:
        metrics["test_accuracy"] = round(evaluate(model, loaders["test"])["accuracy"], 4)
    metrics |= {"seed": seed, "device": device, "seconds": round(time.perf_counter() - started, 1)}
    with atomic_file(output_dir / "metrics.json") as file:
        json.dump({**metrics, "history": history}, file, ensure_ascii=False, indent=1)
    return model, tokenizer, metrics


def run_evaluate(args: argparse.Namespace) -> None:
    from course_lib.data import read_examples
    from course_lib.training import predict

    check_model_dir(Path(args.model_dir))
    model, tokenizer, settings = load_trained(args)
    names = model.config.id2label
    labels = [names[index] for index in range(len(names))]
    test_ds = read_examples(
        args.test_file, labels, columns=split_columns(args.columns), encoding=args.encoding
    )
    results = predict(model, test_ds, tokenizer, **settings)
    pairs = Counter(
        (labels[example["label"]], result["label"])
        for example, result in zip(test_ds, results, strict=True)
    )
    right = sum(count for (true, predicted), count in pairs.items() if true == predicted)
    print_json(
        {
            "task": TASK,
            "test_examples": len(test_ds),
            "test_accuracy": round(right / len(test_ds), 4),
            "labels": labels,
            # pairs that occur, the most frequent first: a whole matrix of 7,000 classes is 149 MB
            "confusion": [
                {"label": true, "predicted": predicted, "count": count}
                for (true, predicted), count in pairs.most_common()
            ],
        }
    )


def run_predict(args: argparse.Namespace) -> None:
    from course_lib.data import read_texts
    from course_lib.training import predict

    check_model_dir(Path(args.model_dir))
    if args.input_file == "-":
        if sys.stdin is None:
            raise InputError("standard input", "is closed", "--input_file, or lines of text")
        if args.columns is not None:
            raise InputError("--columns", "has no meaning for standard input", "--input_file")
        if sys.stdin.isatty():
            print("type one text a line, then end with Ctrl-D", file=sys.stderr)
    if args.output_file != "-":
        output_file = Path(args.output_file)
        check_writable(output_file.parent)
        if output_file.exists() and os.path.realpath(output_file) == os.path.realpath(
            args.input_file
        ):
            raise InputError(output_file, "is the input file", "another file for the results")
    texts = read_texts(
        sys.stdin if args.input_file == "-" else args.input_file,
        columns=split_columns(args.columns),
        encoding=args.encoding,
    )
    model, tokenizer, settings = load_trained(args)
    results = predict(model, texts, tokenizer, **settings)
    for result in results:
        if len(result["probabilities"]) > MOST_CLASSES:
            best = sorted(result["probabilities"].items(), key=lambda one: -one[1])
            result["probabilities"] = dict(best[:MOST_CLASSES])
    if args.output_file == "-":
        for result in results:
            print_json(result)
    else:
        with atomic_file(args.output_file) as file:
            file.writelines(json.dumps(result, ensure_ascii=False) + "\n" for result in results)


def run_quickstart(args: argparse.Namespace) -> None:
    from course_lib.data import load_reviews
    from course_lib.runtime import profile
    from course_lib.training import predict

    output_dir = Path(args.output_dir)
    check_output_dir(output_dir, "quickstart", again=True)
    sizes = profile()
    print(sizes, file=sys.stderr)
    splits = {
        name: load_reviews(name, max_examples=count)
        for name, count in (
            ("train", sizes.train_examples),
            ("dev", sizes.dev_examples),
            ("test", sizes.test_examples),
        )
    }
    with claim(output_dir, "quickstart", again=True):
        shutil.rmtree(output_dir / LOG_DIR, ignore_errors=True)  # VisualDL would draw both runs
        model, tokenizer, metrics = train(
            splits,
            output_dir,
            epochs=sizes.epochs,
            batch_size=sizes.batch_size,
            max_seq_length=sizes.max_seq_length,
            max_steps=sizes.max_steps,
            seed=args.seed,
        )
    print("\nWhat it learned, on sentences that it has never seen:", file=sys.stderr)
    for result in predict(model, list(SENTENCES), tokenizer):
        gloss = SENTENCES[result["text"]]
        print(
            f"  {result['label']:<9}{result['probability']:.2f}  {result['text']}  ({gloss})",
            file=sys.stderr,
        )
    print_json(metrics)


def run_export(args: argparse.Namespace) -> None:
    from course_lib.deploy import export_model
    from course_lib.models import load_backbone

    check_model_dir(Path(args.model_dir))
    if Path(args.model_dir, "thresholds.json").is_file():  # they would be left behind
        expected = "python -m course_lib.hierarchical export"
        raise InputError(args.model_dir, "is a model with thresholds", expected)
    output_dir = Path(args.output_dir)
    check_output_dir(output_dir, "export")
    model, tokenizer = load_backbone(args.model_dir, trained=True)
    length = checked_length(getattr(model.config, "max_seq_length", None), model)
    with claim(output_dir, "export"):
        export_model(model, output_dir, tokenizer, length, onnx=args.onnx)
    files = sorted(file.name for file in output_dir.iterdir() if file.name not in (MARKER, LOCK))
    print_json({"task": "export", "output_dir": str(output_dir), "files": files})


def run_serve(args: argparse.Namespace) -> None:
    from course_lib.deploy import Predictor
    from course_lib.deploy.service import Limits, listen, make_app, serve
    from course_lib.runtime import machine

    asked = {name: getattr(args, name) for name in vars(Limits())}
    limits = Limits(**{name: value for name, value in asked.items() if value is not None})
    with listen(args.host, args.port) as listener:
        # the event loop needs a core, too
        threads = args.threads or max(1, machine.usable_cores() - 1)
        predictor = Predictor(args.model_dir, args.backend, threads=threads)
        if not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
            print("others can reach this service, which asks nobody who they are", file=sys.stderr)
        serve(make_app(predictor, limits, [args.host, *args.allow_host]), listener)


def run_doctor(args: argparse.Namespace) -> int:
    from course_lib.runtime import doctor

    return doctor.report(args.json)


def load_trained(args: argparse.Namespace):
    """Load what `train` wrote; return the model, its tokenizer and the settings for `predict`."""
    from course_lib.models import load_backbone
    from course_lib.runtime import select_device

    select_device(args.device)
    model, tokenizer = load_backbone(args.model_dir, trained=True)
    trained_with = getattr(model.config, "max_seq_length", None)
    max_seq_length = checked_length(args.max_seq_length or trained_with, model)
    return model, tokenizer, {"batch_size": args.batch_size, "max_seq_length": max_seq_length}
