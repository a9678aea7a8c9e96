"""What the commands share: tables of arguments, how a command runs, its model and its JSON lines.

A table holds the arguments of a command, or a part of them, by flag.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.runtime import InputError, atomic_file, check_writable
from course_lib.runtime.commands import exit_status, whole
from course_lib.runtime.settings import trust_pickles

if TYPE_CHECKING:
    import pandas as pd

Argument = dict[str, Any]
Table = dict[str, Argument]
# By name: the function that runs it, what it does, and its arguments. Without a table the function
# gets the words: the arguments are PaddleNLP's, which is slow to import.
Commands = dict[str, tuple[Callable[[Any], "int | None"], str, "Table | None"]]
Words = Sequence[str]


def positive(text: str) -> float:
    """An argparse type: a finite number above 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def argument(text: str, default: Any = None, **keywords) -> Argument:
    """An argument with its help, which also names the default."""
    shown = default is not None and default is not False and "default" not in text
    text += " (default: %(default)s)" if shown else ""
    return {"help": text, "default": default, **keywords}


def switch(text: str) -> Argument:
    """An argument without a value."""
    return {"help": text, "action": "store_true"}


SEED = whole(0, 2**32 - 1)  # what NumPy and Paddle take
LABELLED = "TSV, CSV or JSONL with text and label"
TRUST: Table = {
    "--trust_pickle": switch("let a foreign .pdparams run the code that it may hold"),
}
LENGTH: Table = {
    "--max_seq_length": argument("tokens of a text (default: 128, or as trained)", type=whole(3)),
}
RUN: Table = {
    **LENGTH,
    "--batch_size": argument("texts, of one process", 32, type=whole(1)),
    "--device": argument("cpu or gpu (default: COURSE_DEVICE, else the best usable one)"),
    **TRUST,
}
READING: Table = {
    "--columns": argument("names of the columns of files without a header, such as label,text"),
    "--encoding": argument("of the files", "utf-8-sig"),
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
    nothing: Any = (None, "", {})
    function, _, table = commands.get(words[0] if words else "", nothing)
    own = table is None
    args: Any = words[1:] if own else _make_parser(prog, description, commands).parse_args(words)
    trust = not own and vars(args).pop("trust_pickle", False)

    def run() -> int | None:
        if sys.stdout is None:
            raise InputError("standard output", "is closed", "somewhere to write results to")
        with trust_pickles(trust):
            return function(args)

    return exit_status(run)


def parse_arguments(
    words: Words, trainer_arguments: type, table: Table, prog: str
) -> tuple[Any, argparse.Namespace, argparse.ArgumentParser]:
    """Parse PaddleNLP's arguments of a Trainer (a dataclass) and our own; give the parser too.

    Ours have `given`, too: the flags that are among the words, as "--flag value" or "--flag=value".
    """
    from paddlenlp.trainer import PdArgumentParser

    parser = PdArgumentParser((trainer_arguments,), prog=prog, allow_abbrev=False)
    for flag, keywords in table.items():
        parser.add_argument(flag, **keywords)
    trainer, args, unknown = parser.parse_args_into_dataclasses(
        list(words), return_remaining_strings=True, look_for_args_file=False
    )
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    args.given = {word.partition("=")[0] for word in words}
    return trainer, args, parser


def values(args: argparse.Namespace, table: Table) -> dict[str, Any]:
    """The values of a table's arguments, by name."""
    return {name: value for name, value in vars(args).items() if f"--{name}" in table}


def check_output(path: str, *inputs: str | Path) -> None:
    """Refuse, before anything is computed, a place that cannot be written or that is read from.

    Raises:
        InputError: it is a directory, one of the inputs, or its directory cannot be written.
    """
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
