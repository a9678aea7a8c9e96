"""The guide's commands on its files: check, train, evaluate, predict, export, prune, and doccano.

    python -m course_lib.hierarchical check data
    python -m course_lib.hierarchical train --dataset_dir data --save_dir checkpoint --early_stop
    python -m course_lib.hierarchical evaluate --dataset_dir data --params_path checkpoint
    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo \\
        course_lib/hierarchical/__main__.py train --dataset_dir data --device cpu

Results go to standard output, everything else to standard error. Exit status: 0 done, 2 wrong
input, which is named in one line, with its file and line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import runtime
from ..runtime import InputError, atomic_file, errors
from ..runtime.commands import whole
from ..runtime.machine import PACKAGE
from ..runtime.outputs import OutputDir
from ..runtime.settings import trust_pickles
from ..tasks import hierarchical as tree
from ..tasks.hierarchical.files import BAD_CASES, DATA, LABELS, SPLITS
from . import shared
from .shared import Commands, Table, argument, positive, switch

PROG = f"python -m {PACKAGE}.hierarchical"
PATIENCE = 10  # epochs, in the guide


COMPLETE: Table = {"--complete_labels": switch("add ancestors that a line does not name")}
LABEL_FILE: Table = {"--label_file": argument("all labels, in dataset_dir", LABELS)}
DATASET: Table = {"--dataset_dir": argument("where the data is", required=True), **LABEL_FILE}
SPLIT_FILES: Table = {
    "--train_file": argument("in dataset_dir", SPLITS[0]),
    "--dev_file": argument("in dataset_dir", SPLITS[1]),
}
LABELED: Table = {**DATASET, **SPLIT_FILES, **COMPLETE}
CHECK: Table = {
    "dataset_dir": argument("the directory of the data"),
    **SPLIT_FILES,
    "--test_file": argument("in dataset_dir; may be missing", SPLITS[2]),
    **LABEL_FILE,
    "--data_file": argument("in dataset_dir; may be missing", DATA),
    **COMPLETE,
}
TRAINING: Table = {
    **shared.RUN,
    "--save_dir": argument("a new directory for the best model", "./checkpoint"),
    "--model_name": argument("a directory or a hub's name (default: the backbone of the course)"),
    "--learning_rate": argument("peak; the head's is 25 times it (default: fits)", type=positive),
    "--epochs": argument("passes over train_file", 10, type=whole(1)),
    "--early_stop": switch("end when dev is no longer improving"),
    "--early_stop_nums": argument("epochs with no better micro F1", PATIENCE, type=whole(1)),
    "--logging_steps": argument("steps between two lines", 5, type=whole(1)),
    "--weight_decay": argument("of AdamW", 0.0, type=float),
    "--warmup": switch("the learning rate rises first, then falls to 0"),
    "--warmup_steps": argument("steps in which it rises", 0, type=whole(0)),
    "--init_from_ckpt": argument("a weight file, or newest: to go on"),
    "--seed": argument("of everything random", 3, type=shared.SEED),
}
CHOICE: Table = {
    "--one_child": argument(
        "at most one label under the same parent: at all levels, or at those given, from 1",
        False,
        nargs="*",
        type=int,
        metavar="LEVEL",
    ),
    "--independent": switch("each label that reaches its threshold, whatever its parents do"),
}
TRAINED: Table = {"--params_path": argument("what train or prune wrote", "./checkpoint/")}
EVALUATE: Table = {
    **LABELED,
    **shared.RUN,
    **TRAINED,
    **CHOICE,
    "--test_file": argument("in dataset_dir, to measure on; dev chose epoch and thresholds"),
    "--bad_case_path": argument("gets the texts with wrong labels", "./bad_case.txt"),
    "--report_path": argument("gets the numbers as JSON"),
    "--skip_train": switch("do not run the model on train_file too"),
}
PREDICT: Table = {
    **DATASET,
    "--data_file": argument("one text per line, in dataset_dir", DATA),
    "--output_path": argument("JSONL as doccano imports it; -: standard output", "-"),
    **shared.RUN,
    **TRAINED,
    **CHOICE,
}
EXPORTED: Table = {"--output_path": argument("program, weights and deploy.json", "./export")}
PRUNE: Table = {
    **LABELED,
    **shared.LENGTH,
    **shared.OUTPUT,
    "--params_dir": argument("what train wrote", "./checkpoint/"),
    "--width_mult": argument("share of the width to keep; several: 3/4,1/2", "2/3"),
    **shared.TRUST,
}
FROM_DOCCANO: Table = {
    "--doccano_file": argument("JSONL with text and label", required=True),
    "--save_dir": argument("a new directory", "./data"),
    "--splits": argument("train, dev and test", [0.8, 0.1, 0.1], nargs="+", type=float),
    "--separator": argument("between the parts of a label in the export", "##"),
    "--seed": argument("of the split", 1000, type=shared.SEED),
    **COMPLETE,
}
TO_DOCCANO: Table = {
    **DATASET,
    "--file": argument("in dataset_dir", SPLITS[0]),
    "--output_path": argument("a .jsonl file", required=True),
    **COMPLETE,
}


def _check(args: argparse.Namespace) -> int:
    files = shared.values(args, CHECK)
    findings = tree.validate(args.dataset_dir, files.pop("complete_labels"), **files)
    for severity, fault in findings:
        print(f"{severity}: {fault}")
    faults = sum(severity == "error" for severity, _ in findings)
    print(f"{faults} errors, {len(findings) - faults} warnings", file=sys.stderr)
    return 2 if faults else 0


def _load_splits(args):
    """The taxonomy and both files' examples, after everything has passed what `check` looks at."""
    directory = Path(args.dataset_dir)
    names = ("train_file", "dev_file", "test_file", "label_file")
    files = {name: getattr(args, name) for name in names if name in args}
    findings = tree.validate(directory, args.complete_labels, **files)
    faults = [fault for severity, fault in findings if severity == "error"]
    if len(faults) > 1:
        print(*faults[:20], sep="\n", file=sys.stderr)
        problem = f"has {len(faults)} faults, the first {min(20, len(faults))} above"
        raise InputError(directory, problem, "none: see the command check")
    if faults:
        raise faults[0]
    taxonomy = tree.read_labels(directory / args.label_file, args.complete_labels)
    return taxonomy, *(
        tree.read_dataset(directory / name, taxonomy, args.complete_labels)
        for name in (args.train_file, args.dev_file)
    )


def _choice(args: argparse.Namespace, taxonomy: tree.Taxonomy) -> dict[str, Any]:
    """The options of `tree.decode`; refused, before anything is computed, where they do not fit."""
    if args.one_child is not False and args.independent:
        raise InputError("--one_child", "is given with --independent", "one of the two")
    for level in args.one_child or ():
        errors.whole("--one_child", level, 1, len(taxonomy.levels))
    return {"consistent": not args.independent, "one_child": args.one_child == [] or args.one_child}


def _train(args: argparse.Namespace) -> None:
    if args.warmup_steps and not args.warmup:
        raise InputError("--warmup_steps", "is given without --warmup", "both, or neither")
    if args.early_stop_nums != PATIENCE and not args.early_stop:
        raise InputError("--early_stop_nums", "is given without --early_stop", "both, or neither")
    taxonomy, train_examples, dev_examples = _load_splits(args)
    settings = shared.values(args, TRAINING)
    if not settings.pop("warmup"):
        settings["warmup_steps"] = None
    patience = settings.pop("early_stop_nums")
    settings["early_stop"] = patience if args.early_stop else None
    classifier, results = tree.train(train_examples, dev_examples, taxonomy, lines=True, **settings)
    if classifier is not None:
        sizes = {"train_examples": len(train_examples), "dev_examples": len(dev_examples)}
        on_dev = {
            kind: {name: round(value, 4) for name, value in results[kind].items()}
            for kind in ("dev", "dev_tuned")
        }
        labels = {"labels": len(taxonomy), "best_step": results["best_step"]}
        shared.print_json({**sizes, **labels, **on_dev})


def _evaluate(args: argparse.Namespace) -> None:
    directory, split = Path(args.dataset_dir), "test"
    if args.test_file in (None, args.dev_file):
        split, args.test_file = "dev", args.dev_file
    names = (args.train_file, args.dev_file, args.test_file, args.label_file)
    for path in filter(None, (args.bad_case_path, args.report_path)):
        shared.check_output(path, *(directory / name for name in names))
    before = Path(args.bad_case_path)  # the default name may find somebody's file
    content = before.read_bytes() if before.is_file() else b""
    if content and not content.startswith(BAD_CASES.encode()):
        problem = "holds something else than bad cases, which would be lost"
        raise InputError(before, problem, "another --bad_case_path")
    taxonomy, train_examples, _ = _load_splits(args)
    examples = tree.read_dataset(directory / args.test_file, taxonomy, args.complete_labels)
    options = _choice(args, taxonomy)
    classifier = _load_classifier(args, taxonomy)
    ours = classifier.taxonomy  # the same labels, in the order of the model

    def predicted(rows: list[dict]) -> list[list[str]]:
        texts = [row["text"] for row in rows]
        return classifier.predict(texts, args.batch_size, **options)

    labels = predicted(examples)
    trained_on = [row["labels"] for row in train_examples]
    figures = tree.report([row["labels"] for row in examples], labels, ours, trained_on)
    train = None if args.skip_train else tree.report(trained_on, predicted(train_examples), ours)
    print("\n".join(tree.report_lines(figures, train, split)))
    if split == "dev":
        warning = f"{args.dev_file} chose epoch and thresholds, so its scores are too good"
        print(f"warning: {warning}; --test_file measures on other texts", file=sys.stderr)
    wrong = tree.write_bad_cases(args.bad_case_path, examples, labels)
    print(f"{wrong} texts with wrong labels: {args.bad_case_path}", file=sys.stderr)
    if args.report_path:
        with atomic_file(args.report_path) as file:
            json.dump({split: figures, "train": train}, file, ensure_ascii=False, indent=1)


def _predict(args: argparse.Namespace) -> None:
    directory = Path(args.dataset_dir)
    if args.output_path != "-":
        names = (args.data_file, args.label_file)
        shared.check_output(args.output_path, *(directory / name for name in names))
    texts = tree.read_texts(directory / args.data_file)
    taxonomy = tree.read_labels(directory / args.label_file)
    options = _choice(args, taxonomy)
    classifier = _load_classifier(args, taxonomy)
    taxonomy = classifier.taxonomy  # the same labels, in the order of the model
    probabilities = classifier.probabilities(texts, args.batch_size)
    chosen = tree.decode(probabilities, taxonomy, classifier.thresholds, **options)
    results = []
    for text, labels, row in zip(texts, taxonomy.names(chosen), probabilities, strict=True):
        values = {label: round(float(row[taxonomy.ids[label]]), 4) for label in labels}
        results.append({"text": text, "label": labels, "probabilities": values})
    shared.write_results(results, args.output_path)


def _load_classifier(args: argparse.Namespace, taxonomy):
    runtime.select_device(args.device)
    classifier = tree.Classifier.load(args.params_path, args.max_seq_length)
    different = set(taxonomy.labels) ^ set(classifier.taxonomy.labels)
    if different:
        example = next(label for label in sorted(different))
        owner = "the model" if example in classifier.taxonomy else args.label_file
        problem = f"its labels are not those of {args.label_file}: only {owner} has {example!r}"
        raise InputError(args.params_path, problem, "the labels that it was trained with")
    return classifier


def _export(args: argparse.Namespace) -> None:
    output = OutputDir(args.output_path, "hierarchical export")
    runtime.select_device("cpu")
    classifier = tree.Classifier.load(args.params_path)
    with output.claim():
        shared.print_json({"path": str(classifier.export(args.output_path))})


def _prune(words: Sequence[str]) -> None:
    arguments = words, PRUNE, f"{PROG} prune", lambda: tree.PruneArguments
    args, parse_theirs = shared.parse_arguments(*arguments)
    if "--width_mult_list" in args.given:
        raise InputError("--width_mult_list", "is set by prune itself", "--width_mult")
    output = OutputDir(args.output_dir, "prune")
    taxonomy, train_examples, dev_examples = _load_splits(args)
    trainer = parse_theirs()
    import paddle

    args.params_path = args.params_dir
    args.device = trainer.device if "--device" in args.given else None
    with trust_pickles(args.trust_pickle):
        classifier = _load_classifier(args, taxonomy)
    trainer.device = paddle.get_device().split(":")[0]
    trainer.width_mult_list = args.width_mult.split(",")
    trainer.disable_tqdm = True
    runtime.seed_everything(trainer.seed)
    with output.claim():
        frame = tree.prune(classifier, train_examples, dev_examples, trainer, lines=True)
    for row in shared.frame_rows(frame):
        shared.print_json(row)


def _from_doccano(args: argparse.Namespace) -> None:
    output = OutputDir(args.save_dir, "from_doccano")
    reading = args.doccano_file, args.complete_labels, args.separator
    examples, texts, taxonomy = tree.read_doccano(*reading)
    parts = tree.split_examples(examples, args.splits, args.seed)
    with output.claim():
        tree.write_dataset(args.save_dir, parts, taxonomy.labels, texts)
    counts = {name: len(rows) for name, rows in parts.items()}
    shared.print_json({**counts, "unlabeled": len(texts), "labels": len(taxonomy)})


def _to_doccano(args: argparse.Namespace) -> None:
    directory = Path(args.dataset_dir)
    shared.check_output(args.output_path, directory / args.file, directory / args.label_file)
    taxonomy = tree.read_labels(directory / args.label_file, args.complete_labels)
    rows = tree.read_dataset(directory / args.file, taxonomy, args.complete_labels)
    results = [{"text": row["text"], "label": row["labels"]} for row in rows]
    shared.write_results(results, args.output_path)


COMMANDS: Commands = {
    "check": (_check, "name every fault of a directory", CHECK),
    "train": (_train, "fine-tune a model on train.txt", LABELED | TRAINING),
    "evaluate": (_evaluate, "the report", EVALUATE),
    "predict": (_predict, "label the texts of data.txt", PREDICT),
    "export": (_export, "write a static model", TRAINED | EXPORTED | shared.TRUST),
    "prune": (_prune, "cut a model to a share of its width", None),
    "from_doccano": (_from_doccano, "make a dataset of an export", FROM_DOCCANO),
    "to_doccano": (_to_doccano, "make JSONL for doccano's import", TO_DOCCANO),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    return shared.run_command(PROG, __doc__.splitlines()[0], COMMANDS, argv)
