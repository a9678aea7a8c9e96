"""What the commands share: tables of arguments, how a command runs, its model and its JSON lines.

A table holds the arguments of a command, or a part of them, by flag.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.examples import FORMATS, PAIR_COLUMNS, Layout
from ..data.kinds import HEADS, KINDS, find_task
from ..data.readers import POLICIES, read_lines
from ..data.splits import SPLITS, split_dev
from ..runtime import InputError, atomic_file, check_writable, errors
from ..runtime.commands import exit_status, whole
from ..runtime.device import chosen_device
from ..runtime.files import read_json
from ..runtime.outputs import MODEL_DIR
from ..runtime.settings import trust_pickles

if TYPE_CHECKING:
    import pandas as pd
    from paddlenlp.datasets import MapDataset

Argument = dict[str, Any]
Table = dict[str, Argument]
# By name: the function that runs it, what it does, and its arguments. Without a table the function
# gets the words: the arguments are PaddleNLP's, which is slow to import.
Commands = dict[str, tuple[Callable[[Any], "int | None"], str, "Table | None"]]
Words = Sequence[str]


def positive(text: str, below: float = float("inf")) -> float:
    """An argparse type: a number above 0 and below a limit."""
    value = float(text)
    if not 0 < value < below:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {below:g}")
    return value


def _share(text: str) -> float:
    return positive(text, 1)


def argument(text: str, default: Any = None, **keywords) -> Argument:
    """An argument with its help, which also names the default."""
    shown = default is not None and default is not False and "default" not in text
    text += " (default: %(default)s)" if shown else ""
    return {"help": text, "default": default, **keywords}


def switch(text: str) -> Argument:
    """An argument without a value."""
    return {"help": text, "action": "store_true"}


SEED = whole(0, 2**32 - 1)  # what NumPy and Paddle take
LABELED = "TSV, CSV or JSONL with text and label"
COLUMNS: dict[str, dict[str, Any]] = {  # by default, where a row is more than a text and its label
    "pair": PAIR_COLUMNS,
    "qa": {"text_column": "question", "text_pair_column": "context"},
}
DEV_SHARE = 0.1
TRUST: Table = {
    "--trust_pickle": switch("let a foreign .pdparams run the code that it may hold"),
}
OUTPUT: Table = {"--output_dir": argument("a new directory for everything written", required=True)}
LENGTH: Table = {
    "--max_seq_length": argument("tokens of a text (default: 128, or as trained)", type=whole(3)),
}
RUN: Table = {
    **LENGTH,
    "--batch_size": argument("texts, of one process", 32, type=whole(1)),
    "--device": argument("cpu or gpu (default: COURSE_DEVICE, else the best usable one)"),
    **TRUST,
}
DEV: Table = {
    "--dev_file": argument("the same, to measure on (default: a share of the training file)"),
    "--dev_share": argument(f"of the training file to measure on ({DEV_SHARE})", type=_share),
}
READING: Table = {
    "--task": argument(
        "what an example is: a text, a pair of texts, tokens with BIO labels, or a question on a "
        "passage in the JSON of SQuAD (default: as trained, else text, or pair where "
        "--text_pair_column is given)",
        choices=tuple(HEADS),
    ),
    "--policy": argument(
        "repair what is wrong in files of tokens or qa, and say how often and where",
        POLICIES[0],
        choices=POLICIES,
    ),
    "--text_column": argument("of the header (default: text; of pairs, sentence1)"),
    "--text_pair_column": argument("with the second text of a pair (default: sentence2)"),
    "--label_column": argument("of the header", "label"),
    "--label_names": argument("a file with the name of class 0, 1, 2, ... in each line"),
    "--columns": argument("names of the columns of files without a header, such as label,text"),
    "--format": argument("of the files (default: by their suffix)", choices=FORMATS),
    "--encoding": argument("of the files", "utf-8-sig"),
    "--skip_empty": switch("leave out rows without text or label, and say how many"),
}


def _make_parser(prog: str, description: str, commands: Commands) -> argparse.ArgumentParser:
    """A parser with a subcommand for each command; `command` in what it gives is the function."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (function, text, table) in commands.items():
        more = f" ({name} --help)" if table is None else ""
        command = subparsers.add_parser(
            name, help=text + more, description=text, allow_abbrev=False
        )
        command.set_defaults(command=function)
        for flag, keywords in (table or {}).items():
            command.add_argument(flag, **keywords)
    return parser


def run_command(prog: str, description: str, commands: Commands, argv: Words | None) -> int:
    """Run one command (by default the process's); give its exit status, as `exit_status` does."""
    words = list(sys.argv[1:] if argv is None else argv)
    os.environ.setdefault("GLOG_minloglevel", "1")  # of Paddle's C++: warnings, no notes
    nothing: Any = (None, "", {})
    function, _, table = commands.get(words[0] if words else "", nothing)
    own = table is None
    args: Any = words[1:] if own else _make_parser(prog, description, commands).parse_args(words)
    trust = not own and vars(args).pop("trust_pickle", False)

    def run() -> int | None:
        if sys.stdout is None:
            raise InputError("standard output", "is closed", "somewhere to write results to")
        getattr(sys.stdout, "reconfigure", dict)(errors="backslashreplace")
        if not own:
            _check_early(args)
        with trust_pickles(trust):
            return function(args)

    return exit_status(run)


def _check_early(args: argparse.Namespace) -> None:
    """Refuse what would be refused seconds later; PATH.pdmodel is an export called PATH."""
    if getattr(args, "device", None):
        chosen_device(args.device)
    for name in ("model_name_or_path", "params_path", "params_dir"):
        path = getattr(args, name, None) or ""
        local = name != "model_name_or_path" or path.startswith((".", os.sep, "~"))
        if path and local and not (os.path.exists(path) or os.path.exists(f"{path}.pdmodel")):
            raise InputError(path, "does not exist", "a directory that holds a model")


def parse_arguments(
    words: Words, table: Table, prog: str, load: Callable[[], type]
) -> tuple[argparse.Namespace, Callable[[], Any]]:
    """Parse our own arguments beside those of PaddleNLP's Trainer, whose import is slow.

    Args:
        table: ours, among them --output_dir, which theirs have, too.
        load: imports the dataclass of theirs.

    Returns:
        Ours, with `given`: the flags that are among the words, as "--flag value" or "--flag=value";
        and what parses theirs. It is called once all files have been read.
    """

    def parse_theirs() -> Any:
        from paddlenlp.trainer import PdArgumentParser
        from paddlenlp.utils.log import logger

        logger.set_level("WARNING")  # else it lists all arguments
        options: Any = {"prog": prog, "allow_abbrev": False, "conflict_handler": "resolve"}
        parser = PdArgumentParser((load(),), **options)
        for flag, keywords in table.items():  # for the help
            parser.add_argument(flag, **{**keywords, "required": False})
        try:
            trainer, _, unknown = parser.parse_args_into_dataclasses(
                rest, return_remaining_strings=True, look_for_args_file=False
            )
        except ValueError as error:
            raise InputError("arguments", f"do not fit ({error})", "what --help says") from None
        if unknown:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        errors.whole("--seed", trainer.seed, 0, 2**32 - 1)
        trainer.disable_tqdm = trainer.disable_tqdm or not sys.stderr.isatty()
        return trainer

    rest = ["--help"]
    if {"-h", "--help"} & set(words):
        parse_theirs()
    parser = argparse.ArgumentParser(prog=prog, allow_abbrev=False, add_help=False)
    for flag, keywords in table.items():
        parser.add_argument(flag, **keywords)
    args, rest = parser.parse_known_args(list(words))
    _check_early(args)
    rest += ["--output_dir", args.output_dir]
    args.given = {word.partition("=")[0] for word in words}
    return args, parse_theirs


def values(args: argparse.Namespace, table: Table) -> dict[str, Any]:
    """The values of a table's arguments, by name."""
    return {name: value for name, value in vars(args).items() if f"--{name}" in table}


def _layout(args: argparse.Namespace, trained: dict[str, Any] | None) -> tuple[str, Layout]:
    """The task, and how tables of its examples are laid out, as the options say.

    Args:
        trained: the configuration of the model that will read them.
    """
    task = trained["task"] if trained else args.task
    task = task or ("pair" if args.text_pair_column else "text")
    if args.text_pair_column and task not in COLUMNS:
        raise InputError("--text_pair_column", f"is given for --task {task}", "--task pair")
    fields = {name: getattr(args, name) for name in vars(Layout()) if getattr(args, name)}
    if args.columns is not None:
        fields["columns"] = [name.strip() for name in args.columns.split(",")]
    if args.label_names is not None:
        fields["label_names"] = [line.strip() for line in read_lines(args.label_names)]
    if args.policy != POLICIES[0] and task in ("text", "pair"):
        raise InputError("--policy", f"has no meaning for --task {task}", "--skip_empty")
    return task, Layout(**COLUMNS.get(task, {}) | fields)


def _read(
    task: str, how: Layout, policy: str, source: Any, labels: list[str] | None, labeled: bool
) -> tuple[list[dict[str, Any]], list[str] | None]:
    """The examples of a file, and their labels; tokens to label are a table's texts."""
    json_file = str(source).endswith(".json")
    if not ((labeled and task in ("tokens", "qa")) or (task == "qa" and json_file)):
        rows, labels = how.read(source, labels, require_label=labeled)
        if task == "qa":
            rows = [{"question": row["sentence1"], "context": row["sentence2"]} for row in rows]
        return rows, labels
    for name, value in vars(Layout(**COLUMNS.get(task, {}))).items():
        if name != "encoding" and getattr(how, name) != value:
            raise InputError(f"--{name}", f"has no meaning for --task {task}", "--encoding alone")
    from ..data import read_bio, read_squad

    if task == "tokens":
        dataset = read_bio(source, labels, how.encoding, policy)
    else:
        dataset = read_squad(source, how.encoding, labeled, policy)
    return list(dataset), dataset.label_list


def read_files(
    args: argparse.Namespace, trained: dict[str, Any] | None = None
) -> dict[str, MapDataset]:
    """Read the files that the options name, those of --input_file without labels.

    A command that takes --dev_share holds that out of the training file if no --dev_file is named.

    Args:
        trained: the configuration of the model, whose labels these are; None collects them.
    """
    task, how = _layout(args, trained)
    if trained is not None and args.max_seq_length is not None:
        longest = trained.get("max_position_embeddings", args.max_seq_length)
        errors.whole("--max_seq_length", args.max_seq_length, 3, longest)
    labels, rows = None if trained is None else trained["labels"], {}
    for name in (*SPLITS, "input"):
        path = getattr(args, f"{name}_file", None)
        if path is not None:
            source = sys.stdin if path == "-" else path
            rows[name], labels = _read(task, how, args.policy, source, labels, name != "input")
    if "dev" in rows and args.dev_share is not None:
        raise InputError("--dev_share", "is given beside --dev_file", "one of them")
    if "train" in rows and "dev" not in rows and "dev_share" in args:
        share, count = args.dev_share or DEV_SHARE, len(rows["train"])
        rows["train"], rows["dev"] = split_dev(rows["train"], share)
        told = f"no --dev_file: {len(rows['dev'])} of {count} examples are held out as dev"
        print(f"{told} (--dev_share {share:g}, by label, copies together)", file=sys.stderr)
    from paddlenlp.datasets import MapDataset

    return {name: MapDataset(split, label_list=labels) for name, split in rows.items()}


def trained_config(model_dir: str, wanted: str | None = None) -> dict[str, Any]:
    """What a trained, pruned, exported or quantized model is for, read without Paddle.

    Args:
        model_dir: the directory of one or of a training, or the common path of static files.
        wanted: the task that `--task` names.

    Returns:
        Its configuration, and "path", "static" (whether it is a program), "task", "labels".
    """
    path = Path(model_dir)
    static = any(path.glob("*.pdmodel")) or path.suffix == ".pdmodel"
    static = static or Path(f"{path}.pdmodel").is_file()
    if not static and not (path / "config.json").is_file():
        path = path / MODEL_DIR
    file = (path if path.is_dir() else path.parent) / ("deploy.json" if static else "config.json")
    if not file.is_file():
        raise InputError(model_dir, "holds no model", "what train, export or compress wrote")
    config = read_json(file, "the configuration of a model")
    try:
        if static:
            task = next((name for name in KINDS if KINDS[name] == config["task"]), None)
            labels = config["labels"]
        else:
            task = find_task(config["architectures"][0], config.get("task"))
            names = config.get("id2label") or {}
            labels = [names[str(number)] for number in range(len(names))]
    except (TypeError, LookupError, AttributeError):
        raise InputError(file, "is not complete", "what train, export or compress wrote") from None
    if task is None or not (labels or task == "qa"):
        problem = "names no labels" if task else "is of no task that the course knows"
        raise InputError(file, problem, f"a model of --task {', '.join(HEADS)}")
    if wanted not in (None, task):
        raise InputError("--task", f"is {wanted}", f"{task}, which the model was trained for")
    return {**config, "path": path, "static": static, "task": task, "labels": labels}


def check_output(path: str, *inputs: str | Path) -> None:
    """Refuse, before anything is computed, a place that cannot be written or that is read from."""
    target = Path(path)
    if target.is_dir():
        raise InputError(path, "is a directory", "the name of a file to write")
    for other in map(Path, inputs):
        if target.exists() and other.exists() and target.samefile(other):
            raise InputError(path, "is read by this command", "a file of its own for the output")
    if not target.exists() or target.is_file():
        check_writable(target.absolute().parent)


def frame_rows(frame: pd.DataFrame) -> list[dict]:
    """What a compression made, one dictionary a model, without the columns that are empty."""
    frame["path"] = [str(path) for path in frame["path"]]
    rows = json.loads(frame.convert_dtypes().to_json(orient="records", double_precision=4))
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def write_results(results: Sequence[dict], path: str) -> None:
    """Write a JSON object a line to a file, whole or not at all, or ("-") to standard output."""
    if path == "-":
        for result in results:
            print_json(result)
        return
    with atomic_file(path) as file:
        file.writelines(json.dumps(result, ensure_ascii=False) + "\n" for result in results)


def print_json(value: dict) -> None:
    """Print one line of JSON."""
    # In a C locale Chinese text becomes \u escapes, which are the same JSON.
    escape = (sys.stdout.encoding or "ascii").lower() != "utf-8"
    print(json.dumps(value, ensure_ascii=escape, allow_nan=False), flush=True)
