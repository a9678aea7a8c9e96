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

from course_lib.cli.shared import print_json
from course_lib.runtime import InputError, atomic_file, check_writable, errors
from course_lib.runtime.commands import exit_status, positive, whole
from course_lib.runtime.outputs import check_output_dir, claim
from course_lib.runtime.trust import trust_pickles
from course_lib.tasks.hierarchical.files import (
    DATA,
    LABELS,
    SPLITS,
    read_dataset,
    read_labels,
    read_texts,
    validate,
    write_dataset,
)

PATIENCE = 10  # epochs, in the guide


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(words[:1] if words[:1] == ["prune"] else words)
    if args.command is run_prune:  # its arguments are PaddleNLP's, which is slow to import
        return exit_status(lambda: run_prune(words[1:]))

    def run() -> int | None:
        with trust_pickles(getattr(args, "trust_pickle", False)):
            return args.command(args)

    return exit_status(run)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.hierarchical", description=__doc__.splitlines()[0]
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, function, text, *parents):
        made = commands.add_parser(
            name,
            help=text,
            description=text,
            parents=list(parents),
            allow_abbrev=False,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        made.set_defaults(command=function)
        return made.add_argument

    def part() -> argparse.ArgumentParser:
        return argparse.ArgumentParser(add_help=False)

    complete = part()
    complete.add_argument(
        "--complete_labels", action="store_true", help="add ancestors that a line does not name"
    )
    data = part()
    data.add_argument("--dataset_dir", required=True, help="the directory of the data")
    data.add_argument("--label_file", default=LABELS, help="all labels, in dataset_dir")
    splits = part()
    splits.add_argument("--train_file", default=SPLITS[0], help="in dataset_dir")
    splits.add_argument("--dev_file", default=SPLITS[1], help="in dataset_dir")
    trust = part()
    trust.add_argument(
        "--trust_pickle",
        action="store_true",
        help="let a foreign .pdparams run the code that it may hold",
    )
    run = part()
    run.add_argument("--device", help="cpu or gpu (None: the best usable one)")
    run.add_argument(
        "--max_seq_length", type=whole(3), help="tokens (None: 128, or as in training)"
    )
    run.add_argument("--batch_size", type=whole(1), default=32, help="texts, of one process")
    model = argparse.ArgumentParser(add_help=False, parents=[trust])
    model.add_argument("--params_path", default="./checkpoint/", help="what train or prune wrote")

    add = command("check", run_check, "name every fault of a directory", complete)
    add("dataset_dir", help="the directory of the data")
    add("--train_file", default=SPLITS[0], help="in the directory")
    add("--dev_file", default=SPLITS[1], help="in the directory")
    add("--test_file", default=SPLITS[2], help="in the directory; may be missing")
    add("--label_file", default=LABELS, help="in the directory")
    add("--data_file", default=DATA, help="in the directory; may be missing")

    parts = (data, splits, complete, run, trust)
    add = command("train", run_train, "fine-tune a model on train.txt", *parts)
    add("--save_dir", default="./checkpoint", help="a new directory for the best model")
    add("--model_name", help="a directory or a hub's name (None: the backbone of the course)")
    add(
        "--learning_rate",
        type=positive,
        help="the highest of the backbone; the head's is 25 times it (None: what suits it)",
    )
    add("--epochs", type=whole(1), default=10, help="passes over train.txt")
    add("--early_stop", action="store_true", help="end when dev is no longer improving")
    add("--early_stop_nums", type=whole(1), default=PATIENCE, help="epochs with no better micro F1")
    add("--logging_steps", type=whole(1), default=5, help="steps between two lines")
    add("--weight_decay", type=share, default=0.0, help="of AdamW")
    add("--warmup", action="store_true", help="the learning rate rises first, then falls to 0")
    add("--warmup_steps", type=whole(0), default=0, help="steps in which it rises")
    add("--init_from_ckpt", help="a weight file, a checkpoint directory, or newest: to go on")
    add("--seed", type=whole(0, 2**32 - 1), default=3, help="of everything random")

    add = command("evaluate", run_evaluate, "the report", data, splits, complete, run, model)
    add("--bad_case_path", default="./bad_case.txt", help="gets the texts with wrong labels")
    add("--report_path", help="gets the figures as JSON")
    add("--skip_train", action="store_true", help="do not run the model on train.txt too")
    labels_chosen(add)

    add = command("predict", run_predict, "label the texts of data.txt", data, run, model)
    add("--data_file", default=DATA, help="one text a line, in dataset_dir")
    add("--output_path", default="-", help="JSONL as doccano imports it; -: standard output")
    labels_chosen(add)

    add = command("export", run_export, "write a static model for inference", model)
    add("--output_path", default="./export", help="gets the program, its weights and deploy.json")

    commands.add_parser(
        "prune", add_help=False, help="cut a model to a share of its width (prune --help)"
    ).set_defaults(command=run_prune)

    add = command("from_doccano", run_from_doccano, "make a dataset of an export", complete)
    add("--doccano_file", required=True, help="JSONL with text and label")
    add("--save_dir", default="./data", help="a new directory")
    add("--splits", type=float, nargs="+", default=[0.8, 0.1, 0.1], help="train, dev and test")
    add("--separator", default="##", help="between the parts of a label in the export")
    add("--seed", type=whole(0, 2**32 - 1), default=1000, help="of the shuffle")

    add = command("to_doccano", run_to_doccano, "make JSONL for doccano's import", data, complete)
    add("--file", default=SPLITS[0], help="in dataset_dir")
    add("--output_path", required=True, help="a .jsonl file")
    return parser


class _OneChild(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None) -> None:
        setattr(namespace, self.dest, tuple(values) or True)


def labels_chosen(add) -> None:
    add(
        "--one_child",
        action=_OneChild,
        nargs="*",
        type=int,
        default=False,
        metavar="LEVEL",
        help="at most one label under the same parent: at all levels, or at those given, from 1",
    )
    add(
        "--independent",
        action="store_true",
        help="each label that reaches its threshold, without a look at the hierarchy",
    )


def share(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to below 1")
    return value


def check_output(path: str, *inputs: Path) -> None:
    """Refuse, before anything is computed, a place that cannot be written or that is read from."""
    target = Path(path)
    if target.is_dir():
        raise InputError(path, "is a directory", "the name of a file to write")
    for other in inputs:
        if target.exists() and other.exists() and target.samefile(other):
            raise InputError(path, "is read by this command", "a file of its own for the output")
    if not target.exists() or target.is_file():
        check_writable(target.absolute().parent)


def run_check(args: argparse.Namespace) -> int:
    names = ("train_file", "dev_file", "test_file", "label_file", "data_file")
    findings = validate(
        args.dataset_dir, args.complete_labels, **{name: getattr(args, name) for name in names}
    )
    for finding in findings:
        print(finding)
    errors = sum(finding.severity == "error" for finding in findings)
    print(f"{errors} errors, {len(findings) - errors} warnings", file=sys.stderr)
    return 2 if errors else 0


def load_splits(args):
    """The taxonomy and both files' examples, after everything has passed what `check` looks at."""
    directory = Path(args.dataset_dir)
    files = {name: getattr(args, name) for name in ("train_file", "dev_file", "label_file")}
    findings = validate(directory, args.complete_labels, **files)
    errors = [finding for finding in findings if finding.severity == "error"]
    if len(errors) == 1:
        errors[0].refuse()
    if errors:
        for finding in errors[:20]:
            print(finding, file=sys.stderr)
        problem = f"has {len(errors)} faults, the first {min(20, len(errors))} above"
        raise InputError(directory, problem, "none: see the command check")
    taxonomy = read_labels(directory / args.label_file, args.complete_labels)
    return taxonomy, *(
        read_dataset(directory / name, taxonomy, args.complete_labels)
        for name in (args.train_file, args.dev_file)
    )


def check_one_child(args, taxonomy) -> None:
    """Refuse, before anything is computed, levels that there are not."""
    if args.one_child and args.independent:
        raise InputError("--one_child", "is given with --independent", "one of the two")
    if args.one_child is not True:
        for level in args.one_child or ():
            errors.whole("--one_child", level, 1, len(taxonomy.levels))


def run_train(args: argparse.Namespace) -> None:
    if args.warmup_steps and not args.warmup:
        raise InputError("--warmup_steps", "is given without --warmup", "both, or neither")
    if args.early_stop_nums != PATIENCE and not args.early_stop:
        raise InputError("--early_stop_nums", "is given without --early_stop", "both, or neither")
    taxonomy, train_examples, dev_examples = load_splits(args)
    from course_lib.tasks.hierarchical.model import train
    from course_lib.tasks.hierarchical.progress import Lines

    classifier, figures = train(
        train_examples,
        dev_examples,
        taxonomy,
        args.save_dir,
        model_name=args.model_name,
        max_seq_length=args.max_seq_length,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        epochs=args.epochs,
        early_stop=args.early_stop_nums if args.early_stop else None,
        logging_steps=args.logging_steps,
        weight_decay=args.weight_decay,
        warmup_steps=args.warmup_steps if args.warmup else None,
        init_from_ckpt=args.init_from_ckpt,
        seed=args.seed,
        device=args.device,
        callbacks=[Lines()],
    )
    if classifier is not None:
        figures.pop("history")
        sizes = {"train_examples": len(train_examples), "dev_examples": len(dev_examples)}
        print_json({**sizes, "labels": len(taxonomy), **figures})


def run_evaluate(args: argparse.Namespace) -> None:
    from course_lib.tasks.hierarchical.reports import (
        check_bad_cases,
        report,
        report_lines,
        write_bad_cases,
    )

    names = (args.train_file, args.dev_file, args.label_file)
    for path in filter(None, (args.bad_case_path, args.report_path)):
        check_output(path, *(Path(args.dataset_dir, name) for name in names))
    check_bad_cases(args.bad_case_path)
    taxonomy, train_examples, dev_examples = load_splits(args)
    check_one_child(args, taxonomy)
    classifier = load_classifier(args, taxonomy)
    ours = classifier.taxonomy  # the same labels, in the order of the model

    def predicted(rows: list[dict]) -> list[list[str]]:
        texts = [row["text"] for row in rows]
        return classifier.predict(texts, args.batch_size, not args.independent, args.one_child)

    labels = predicted(dev_examples)
    trained_on = [row["labels"] for row in train_examples]
    dev = report([row["labels"] for row in dev_examples], labels, ours, trained_on)
    train = None
    if not args.skip_train:
        train = report(trained_on, predicted(train_examples), ours)
    print("\n".join(report_lines(dev, train)))
    wrong = write_bad_cases(args.bad_case_path, dev_examples, labels)
    print(f"{wrong} texts with wrong labels: {args.bad_case_path}", file=sys.stderr)
    if args.report_path:
        with atomic_file(args.report_path) as file:
            json.dump({"dev": dev, "train": train}, file, ensure_ascii=False, indent=1)


def run_predict(args: argparse.Namespace) -> None:
    directory = Path(args.dataset_dir)
    if args.output_path != "-":
        names = (args.data_file, args.label_file)
        check_output(args.output_path, *(directory / name for name in names))
    texts = read_texts(directory / args.data_file)
    taxonomy = read_labels(directory / args.label_file)
    check_one_child(args, taxonomy)
    classifier = load_classifier(args, taxonomy)
    from course_lib.tasks.hierarchical.thresholds import decode

    probabilities = classifier.probabilities(texts, args.batch_size)
    chosen = decode(
        probabilities,
        classifier.taxonomy,
        classifier.thresholds,
        not args.independent,
        args.one_child,
    )
    ids = classifier.taxonomy.ids
    results = [
        {
            "text": text,
            "label": labels,
            "probabilities": {label: round(float(row[ids[label]]), 4) for label in labels},
        }
        for text, labels, row in zip(
            texts, classifier.taxonomy.names(chosen), probabilities, strict=True
        )
    ]
    if args.output_path == "-":
        for result in results:
            print_json(result)
        return
    with atomic_file(args.output_path) as file:
        file.writelines(json.dumps(result, ensure_ascii=False) + "\n" for result in results)


def load_classifier(args: argparse.Namespace, taxonomy):
    from course_lib.runtime import select_device
    from course_lib.tasks.hierarchical.model import Classifier

    select_device(args.device)
    classifier = Classifier.load(args.params_path, args.max_seq_length)
    different = set(taxonomy.labels) ^ set(classifier.taxonomy.labels)
    if different:
        example = next(label for label in sorted(different))
        owner = "the model" if example in classifier.taxonomy else args.label_file
        problem = f"its labels are not those of {args.label_file}: only {owner} has {example!r}"
        raise InputError(args.params_path, problem, "the labels that it was trained with")
    return classifier


def run_export(args: argparse.Namespace) -> None:
    from course_lib.runtime import select_device
    from course_lib.tasks.hierarchical.model import Classifier

    check_output_dir(args.output_path, "hierarchical export")
    select_device("cpu")
    classifier = Classifier.load(args.params_path)
    with claim(args.output_path, "hierarchical export"):
        path = classifier.export(args.output_path)
    print_json({"path": str(path)})


def run_prune(words: Sequence[str]) -> int:
    from course_lib.runtime import seed_everything
    from course_lib.tasks.hierarchical.progress import Lines
    from course_lib.tasks.hierarchical.pruning import (
        DataArguments,
        ModelArguments,
        PruneArguments,
        prune,
    )

    import paddle
    from paddlenlp.trainer import PdArgumentParser

    lines = Lines()
    parser = PdArgumentParser(
        (PruneArguments, DataArguments, ModelArguments),
        prog="python -m course_lib.hierarchical prune",
        description="cut a model to a share of its width",
        allow_abbrev=False,
    )
    args, data, model, unknown = parser.parse_args_into_dataclasses(
        list(words), return_remaining_strings=True, look_for_args_file=False
    )
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if data.dataset_dir is None:
        parser.error("--dataset_dir is required")
    if "--width_mult_list" in words:
        parser.error("--width_mult, not --width_mult_list, says how narrow")
    errors.whole("seed", args.seed, 0, 2**32 - 1)
    check_output_dir(args.output_dir, "prune")
    taxonomy, train_examples, dev_examples = load_splits(data)
    data.params_path, data.device = model.params_dir, args.device if "--device" in words else None
    with trust_pickles(model.trust_pickle):
        classifier = load_classifier(data, taxonomy)
    args.device = paddle.get_device().split(":")[0]
    args.width_mult_list = model.width_mult.split(",")
    args.disable_tqdm = True
    seed_everything(args.seed)
    with claim(args.output_dir, "prune"):
        frame = prune(classifier, train_examples, dev_examples, args, callbacks=[lines])
    frame["path"] = [str(path) for path in frame["path"]]
    for row in json.loads(frame.convert_dtypes().to_json(orient="records", double_precision=4)):
        print_json({name: value for name, value in row.items() if value is not None})
    return 0


def run_from_doccano(args: argparse.Namespace) -> None:
    from course_lib.tasks.hierarchical.doccano import read_doccano, split_examples

    check_output_dir(args.save_dir, "from_doccano")
    examples, texts, taxonomy = read_doccano(
        args.doccano_file, args.complete_labels, args.separator
    )
    parts = split_examples(examples, args.splits, args.seed)
    with claim(args.save_dir, "from_doccano"):
        write_dataset(args.save_dir, parts, taxonomy.labels, texts)
    counts = {name: len(rows) for name, rows in parts.items()}
    print_json({**counts, "unlabelled": len(texts), "labels": len(taxonomy)})


def run_to_doccano(args: argparse.Namespace) -> None:
    from course_lib.tasks.hierarchical.doccano import write_doccano

    directory = Path(args.dataset_dir)
    check_output(args.output_path, directory / args.file, directory / args.label_file)
    taxonomy = read_labels(directory / args.label_file, args.complete_labels)
    write_doccano(
        args.output_path, read_dataset(directory / args.file, taxonomy, args.complete_labels)
    )
