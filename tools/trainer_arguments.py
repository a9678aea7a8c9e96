"""docs/trainer_arguments.md: what every argument of PaddleNLP's Trainer does in this version.

    python tools/trainer_arguments.py generate [--check]   write (or compare) the page

Names, types and defaults are those of the installed classes. The defaults that the documents give
stand here, so that the page computes where the two differ. What an argument does was seen by the
test that tests/test_trainer_arguments.py has for it; that test has the status which stands here.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.runtime import atomic_file  # noqa: E402

import paddlenlp  # noqa: E402
from paddlenlp.trainer import CompressionArguments, TrainingArguments  # noqa: E402
from paddlenlp.utils.log import logger  # noqa: E402

PAGE = ROOT / "docs" / "trainer_arguments.md"
REQUIRED = "required"

STATUSES = {
    "seen": "its effect was seen on a CPU, in one process",
    "course only": "the stock Trainer pays no heed to it, this course's `CourseTrainer` does",
    "your script": "the Trainer pays no heed to it: it is there for the script around the Trainer",
    "no effect": "nothing in the Trainer changes, whatever its value",
    "several processes": "nothing changes in one process; what it is for needs several",
    "GPU": "what it is for needs a GPU; what happens on a CPU was seen",
    "fails": "training stops with it",
}


@dataclasses.dataclass(frozen=True)
class Argument:
    """What the documents say of an argument, and what its test has shown.

    Attributes:
        documented: the default in the documents.
        status: a key of STATUSES.
        effect: what the test observes.
        differs: what is not as the documents have it, beyond the default; "" when nothing is.
    """

    documented: object
    status: str
    effect: str
    differs: str = ""


GROUPS: dict[str, dict[str, Argument]] = {
    "Directories and tasks": {
        "output_dir": Argument(
            REQUIRED,
            "seen",
            "Made when the Trainer is built; `checkpoint-STEP` directories appear in it.",
        ),
        "overwrite_output_dir": Argument(
            False,
            "course only",
            "`CourseTrainer` refuses a directory with foreign files or with checkpoints of an "
            "earlier run unless this is True, and then deletes those checkpoints.",
            "The stock Trainer never reads it: it writes into a used directory with either value "
            "and deletes nothing.",
        ),
        "do_train": Argument(False, "your script", "Read by nobody but your script."),
        "do_eval": Argument(
            False,
            "seen",
            "True turns `evaluation_strategy` from `no` to `steps`; a strategy other than `no` "
            "turns `do_eval` to True.",
            "The documents call it the script's own, without effect on the Trainer. But True alone "
            "makes the Trainer evaluate while it trains.",
        ),
        "do_predict": Argument(False, "your script", "Read by nobody but your script."),
        "do_export": Argument(False, "your script", "Read by nobody but your script."),
        "resume_from_checkpoint": Argument(
            None,
            "your script",
            "Read by nobody: give the path to `trainer.train(resume_from_checkpoint=...)`.",
            "As an argument it resumes nothing, and a path that does not exist goes unnoticed. "
            "`train(resume_from_checkpoint=True)` stops in the stock Trainer with a TypeError; "
            "`CourseTrainer` takes the newest checkpoint that is whole.",
        ),
        "run_name": Argument(
            None,
            "no effect",
            "Becomes `output_dir` when it is not given. VisualDL's reporter does not ask for it.",
        ),
        "seed": Argument(
            42,
            "seen",
            "Set when the Trainer is built: another seed gives another order of the examples and "
            "other dropout, the same one the same losses.",
            "A model built before the Trainer does not get its first weights from this seed.",
        ),
        "ignore_data_skip": Argument(
            False,
            "seen",
            "True: a resumed run does not read past the batches that its epoch has used already, "
            "but begins that epoch afresh; the number of steps stays the same.",
        ),
    },
    "Batches and data": {
        "per_device_train_batch_size": Argument(
            8, "seen", "Half the size, twice the batches in an epoch."
        ),
        "per_device_eval_batch_size": Argument(
            8, "seen", "The rows of a batch when it evaluates and predicts; the results are equal."
        ),
        "gradient_accumulation_steps": Argument(
            1,
            "seen",
            "One update for so many batches. Batches that are left over at the end of an epoch "
            "give no update of their own.",
        ),
        "dataloader_drop_last": Argument(
            False,
            "seen",
            "The last, smaller batch of a training epoch is left out; evaluation never drops one.",
            "With True, `predict()` stops in an AssertionError of the DataLoader.",
        ),
        "dataloader_num_workers": Argument(
            0,
            "seen",
            "Batches are made in so many other processes, in the same order in `CourseTrainer`. "
            "On a CPU it demands a collator that returns NumPy arrays "
            '(`return_tensors="np"`): Paddle tensors made in a worker end it by a segmentation '
            "fault.",
            "In the stock Trainer the same seed gives another order with workers than without.",
        ),
        "remove_unused_columns": Argument(
            True,
            "seen",
            "Columns that the model's `forward` does not take are removed from a "
            "`datasets.Dataset`; False keeps them.",
            "A list, a `MapDataset` or any other dataset of Paddle keeps all its columns with "
            "either value.",
        ),
        "label_names": Argument(
            None,
            "seen",
            "The columns that are labels, `labels` by default. Where one of them is missing, an "
            "evaluation gives no loss; `CourseTrainer` names the missing column.",
        ),
    },
    "Optimiser": {
        "optim": Argument(
            "adamw",
            "seen",
            "`adamw` gives Paddle's AdamW.",
            "`adafactor` is accepted too, and stops with a ValueError when the optimiser is made. "
            "There is only one choice.",
        ),
        "learning_rate": Argument(
            5e-5,
            "seen",
            "The rate of the first step after the warm-up.",
            "The `learning_rate` in a log is not that of the step just made but of the next one.",
        ),
        "weight_decay": Argument(
            0.0,
            "seen",
            "A step takes rate x decay x weight away, from all but biases and LayerNorm.",
            "Which weights are spared goes by their names (`bias`, `norm`), not by the kind of "
            "layer: a LayerNorm of another name decays.",
        ),
        "adam_beta1": Argument(
            0.9, "seen", "The first moment after one step is (1 - beta1) x gradient."
        ),
        "adam_beta2": Argument(
            0.999, "seen", "The second moment after one step is (1 - beta2) x gradient squared."
        ),
        "adam_epsilon": Argument(
            1e-8, "seen", "So large an epsilon that it rules the divisor makes steps tiny."
        ),
        "max_grad_norm": Argument(
            1.0,
            "seen",
            "Gradients that are longer together are cut to this length; 0 turns that off.",
        ),
    },
    "Length and learning rate": {
        "num_train_epochs": Argument(
            3.0, "seen", "Steps = batches of an epoch x epochs, rounded down; parts are allowed."
        ),
        "max_steps": Argument(
            -1, "seen", "The number of steps, whatever `num_train_epochs` says; -1 leaves it that."
        ),
        "lr_scheduler_type": Argument(
            "linear",
            "seen",
            "The rates of all steps follow the formula of `linear`, `cosine`, `constant` and "
            "`constant_with_warmup`.",
            "`polynomial` is there too: a straight line as well, but for its field `power`.",
        ),
        "warmup_ratio": Argument(
            0.0,
            "seen",
            "The first int(ratio x steps) steps climb from rate 0; the first of them changes no "
            "weight.",
            "`CompressionArguments` has another default. `get_warmup_steps` rounds up, the "
            "Trainer rounds down.",
        ),
        "warmup_steps": Argument(
            0, "seen", "The same as a number of steps; when above 0, the ratio does not count."
        ),
    },
    "Evaluation and the best model": {
        "evaluation_strategy": Argument(
            "no", "seen", "Never, every `eval_steps` steps, or at the end of each epoch."
        ),
        "eval_steps": Argument(
            None, "seen", "Steps from one evaluation to the next; becomes `logging_steps` if None."
        ),
        "minimum_eval_times": Argument(
            None,
            "seen",
            "When `eval_steps` gives fewer evaluations, `eval_steps` becomes smaller.",
            "The new `eval_steps` is rounded down to tens and never under 10: 20 steps with a "
            "minimum of 5 are evaluated twice. With `evaluation_strategy` `no` it stops with a "
            "TypeError.",
        ),
        "prediction_loss_only": Argument(
            False,
            "seen",
            "True: no predictions and no metrics, the loss alone.",
            "Without `compute_metrics` that is so with False as well: `predict()` returns None for "
            "the predictions.",
        ),
        "load_best_model_at_end": Argument(
            False,
            "seen",
            "The weights of the best checkpoint come back at the end. Both strategies must be "
            "alike, and `save_steps` a multiple of `eval_steps`.",
            "With both strategies `no` it is accepted and does nothing.",
        ),
        "metric_for_best_model": Argument(
            None,
            "seen",
            "Which figure of the evaluation decides; `loss` if None and the best model is asked "
            "for.",
        ),
        "greater_is_better": Argument(
            None,
            "seen",
            "Whether the highest or the lowest figure wins. None: the lowest for `loss` and "
            "`eval_loss`, the highest for every other name.",
            "That includes losses of other names, such as `dev_loss` where several datasets are "
            "evaluated: say False, or the worst model is kept.",
        ),
    },
    "Logs": {
        "logging_strategy": Argument(
            "steps", "seen", "Never, every `logging_steps` steps, or at the end of each epoch."
        ),
        "logging_steps": Argument(
            500, "seen", "Steps from one log to the next; a log is the mean since the last one."
        ),
        "logging_first_step": Argument(
            False,
            "seen",
            "The first step is logged as well.",
            "The documents say that it is evaluated too; it is not.",
        ),
        "logging_dir": Argument(
            None,
            "seen",
            "VisualDL's file lies there; `output_dir`/runs/DATE_HOST if None.",
        ),
        "report_to": Argument(
            None,
            "seen",
            "`visualdl` writes a file of logs; `none` or an empty list writes nothing.",
            "None is `visualdl` alone and not all that is installed; that is `all`.",
        ),
        "log_on_each_node": Argument(
            True,
            "no effect",
            "Changes the property `should_log` of the first process of a second machine.",
            "Nothing in the Trainer asks for that property.",
        ),
        "disable_tqdm": Argument(
            None,
            "seen",
            "True: no progress bar. None becomes False.",
        ),
        "skip_memory_metrics": Argument(
            True,
            "seen",
            "False adds the memory of the process to the logs, in MiB.",
        ),
    },
    "Checkpoints": {
        "save_strategy": Argument(
            "steps", "seen", "Never, every `save_steps` steps, or at the end of each epoch."
        ),
        "save_steps": Argument(
            500, "seen", "Steps from one checkpoint to the next; 0 saves none, without a word."
        ),
        "save_total_limit": Argument(
            None,
            "course only",
            "`CourseTrainer` keeps so many checkpoints, the newest.",
            "The stock Trainer deletes none in a single process.",
        ),
        "save_on_each_node": Argument(
            False,
            "several processes",
            "True: the first process of every machine saves, and not only the first of all.",
        ),
    },
    "Device and precision": {
        "device": Argument(
            "gpu",
            "your script",
            "The Trainer runs on the device that Paddle is set to: call "
            "`paddle.set_device(args.device)` yourself.",
            "The default `gpu` trains on a CPU without a word, where `paddle.set_device('gpu')` "
            "stops.",
        ),
        "no_cuda": Argument(
            False,
            "no effect",
            "Read nowhere.",
            "It keeps no GPU out of use: call `paddle.set_device('cpu')`.",
        ),
        "fp16": Argument(
            False,
            "GPU",
            "On a CPU the first step stops with an AttributeError (`GradScaler` has no `_scale`).",
            "Nothing says beforehand that a CPU has no such training.",
        ),
        "bf16": Argument(
            False,
            "GPU",
            "On a CPU Paddle warns that it makes no effect; the weights equal those of FP32 bit "
            "for bit.",
        ),
        "fp16_opt_level": Argument(
            "O1",
            "GPU",
            "On a CPU O2 trains to the same bits as O1. A level that does not exist is refused "
            "once `bf16` or `fp16` is on.",
            "`O2` without `fp16` or `bf16` is not without effect: the optimiser is made with "
            "`multi_precision`.",
        ),
        "scale_loss": Argument(
            32768, "GPU", "On a CPU the scaler is off and the weights are the same."
        ),
        "recompute": Argument(
            False,
            "seen",
            "Each layer of the encoder runs a second time in the backward pass; the losses are "
            "the same.",
        ),
    },
    "Several processes": {
        "local_rank": Argument(
            -1,
            "several processes",
            "Set by the launcher. Set by hand in one process, training stops with a RuntimeError.",
        ),
        "sharding": Argument(
            "",
            "several processes",
            "In one process it is emptied, without a word, and the weights are the same.",
        ),
        "sharding_degree": Argument(
            -1,
            "several processes",
            "Reads -1 afterwards, whatever was given.",
            "Its own help text calls it deprecated, for `sharding_parallel_degree`.",
        ),
    },
    "Model": {
        "past_index": Argument(
            -1,
            "fails",
            "From 0 on, `train()` stops with an AttributeError (`_past`). In `CourseTrainer`, or "
            "after an evaluation, it is a TypeError: the model is given `mems`, which it does not "
            "take.",
            "No model of this course can use it.",
        ),
    },
}
ARGUMENTS = {name: argument for group in GROUPS.values() for name, argument in group.items()}

# Defaults of CompressionArguments in the documents; where the documents differ, all of them.
COMPRESSION: dict[str, tuple] = {
    "strategy": ("dynabert+ptq",),
    "input_infer_model_path": (None,),
    "width_mult_list": (["3/4"],),
    "num_train_epochs": (3.0,),
    "logging_steps": (500,),
    "save_steps": (100, 500),
    "warmup_ratio": (0.0,),
    "algo_list": (["mse", "KL"],),
    "batch_num_list": ([1],),
    "batch_size_list": ([4],),
    "activation_quantize_type": ("range_abs_max",),
    "round_type": ("round",),
    "bias_correction": (False,),
    "weight_quantize_type": (),  # described, without a default
    "use_pact": (True,),
    "moving_rate": (0.9,),
}


def default(field: dataclasses.Field) -> object:
    """The default of a dataclass's field; REQUIRED for one without."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED


def type_name(field: dataclasses.Field) -> str:
    """The type as words: "str or None", "list of str", or the values of an enumeration."""

    def words(kind) -> str:
        parts = typing.get_args(kind)
        if typing.get_origin(kind) is typing.Union:
            return " or ".join("None" if part is type(None) else words(part) for part in parts)
        if typing.get_origin(kind) is list:
            return f"list of {words(parts[0])}"
        if hasattr(kind, "__members__"):
            return ", ".join(member.value for member in kind)
        return kind.__name__

    return words(field.type)


def fields(cls: type) -> dict[str, dataclasses.Field]:
    return {field.name: field for field in dataclasses.fields(cls)}


def other_defaults(cls: type = TrainingArguments) -> dict[str, tuple[object, tuple]]:
    """Name -> (the default here, the documented ones), where the first is none of the second."""
    table = COMPRESSION if cls is CompressionArguments else _documented()
    here = {name: default(field) for name, field in fields(cls).items()}
    return {
        name: (here[name], there)
        for name, there in table.items()
        if there and here[name] not in there
    }


def _documented() -> dict[str, tuple]:
    return {name: (argument.documented,) for name, argument in ARGUMENTS.items()}


def filled_in() -> dict[str, object]:
    """What `print_config` puts in the place of None in CompressionArguments."""
    level = logger.logger.level
    logger.set_level("ERROR")
    try:
        with tempfile.TemporaryDirectory() as directory:
            arguments = CompressionArguments(output_dir=directory)
            before = {name: getattr(arguments, name) for name in fields(CompressionArguments)}
            arguments.print_config()
    finally:
        logger.logger.setLevel(level)
    return {
        name: getattr(arguments, name)
        for name, value in before.items()
        if value is None and getattr(arguments, name) is not None
    }


def page() -> str:
    """The whole page in Markdown."""
    here, compression = fields(TrainingArguments), fields(CompressionArguments)
    changed = other_defaults()
    lines = [
        "<!-- Written by tools/trainer_arguments.py from the installed PaddleNLP; "
        "do not edit it here. -->",
        "",
        "# The arguments of the Trainer",
        "",
        f"The {len(ARGUMENTS)} arguments of `TrainingArguments` that the documents describe, as "
        f"they are in PaddleNLP {paddlenlp.__version__}. Each was set by a test, and what the page "
        "says of it is what that test observes (`tests/test_trainer_arguments.py`). The status "
        "says how much could be seen:",
        "",
        *_table(
            ["Status", "Meaning", "Arguments"],
            [
                [status, meaning, sum(a.status == status for a in ARGUMENTS.values())]
                for status, meaning in STATUSES.items()
            ],
        ),
        "",
    ]
    for title, group in GROUPS.items():
        rows = []
        for name, argument in group.items():
            value = _code(default(here[name]))
            if name in changed:
                value += f" (documents: {_code(argument.documented)})"
            mark = " (*)" if argument.differs else ""
            kind = type_name(here[name])
            rows.append([f"`{name}`", kind, value, argument.status, argument.effect + mark])
        header = ["Argument", "Type", "Default", "Status", "What was seen"]
        lines += [f"## {title}", "", *_table(header, rows), ""]
    lines += [
        "## Where this version differs from the documents",
        "",
        "Arguments marked (*) above, and those with another default.",
        "",
    ]
    for name, argument in ARGUMENTS.items():
        told = [argument.differs] if argument.differs else []
        if name in changed:
            now, (then,) = changed[name]
            told.insert(0, f"The default is {_code(now)}, not {_code(then)}.")
        if told:
            lines.append(f"- `{name}`: {' '.join(told)}")
    others = [name for name in here if name not in ARGUMENTS]
    rows = [[f"`{n}`", type_name(here[n]), _code(default(here[n]))] for n in others]
    lines += [
        "",
        "## Not in the documents",
        "",
        f"The other {len(others)} fields of this version's `TrainingArguments`, most of them for "
        "large models on many devices. They are not tested here.",
        "",
        *_table(["Field", "Type", "Default"], rows),
        "",
        "## CompressionArguments",
        "",
        "The fields that `CompressionArguments` adds. Where the default is None, the next column "
        "is what `print_config()` puts in its place.",
        "",
    ]
    different, filled = other_defaults(CompressionArguments), filled_in()
    rows = []
    for name, field in compression.items():
        if name not in here:
            row = [f"`{name}`", type_name(field), _code(default(field))]
            row.append(_code(filled[name]) if name in filled else "")
            there = COMPRESSION.get(name)
            told = "not described" if there is None else " or ".join(map(_code, there))
            rows.append([*row, told or "no default given"])
    header = ["Field", "Type", "Default", "After `print_config()`", "Documents"]
    lines += [
        *_table(header, rows),
        "",
        "It inherits all fields of `TrainingArguments`. These have another default than there, or "
        "than in the documents on compression:",
        "",
    ]
    rows = []
    for name, field in compression.items():
        if name in here and (default(field) != default(here[name]) or name in different):
            there = " or ".join(map(_code, COMPRESSION[name]))
            parent = _code(default(here[name]))
            rows.append([f"`{name}`", _code(default(field)), parent, there])
    header = ["Field", "Default", "In `TrainingArguments`", "Documents"]
    lines += [*_table(header, rows), ""]
    return "\n".join(lines)


def _code(value: object) -> str:
    return value if value is REQUIRED else f"`{value!r}`"


def _table(header: list[str], rows: list[list]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (header, ["---"] * len(header), *rows)]


def generate(check: bool = False) -> bool:
    """Write the page, or with `check` only compare it; return whether it differed."""
    text = page()
    differs = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text
    if differs and not check:
        PAGE.parent.mkdir(exist_ok=True)
        with atomic_file(PAGE) as file:
            file.write(text)
    return differs


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Generate docs/trainer_arguments.md.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("generate", help="write the page from the installed classes")
    command.add_argument("--check", action="store_true", help="only compare; status 1 if different")
    options = parser.parse_args(arguments)
    differs = generate(options.check)
    if differs:
        verb = "differs from the code" if options.check else "written"
        print(f"{PAGE.relative_to(ROOT)}: {verb}")
    if options.check and differs:
        print("run: python tools/trainer_arguments.py generate", file=sys.stderr)
    return int(options.check and differs)


if __name__ == "__main__":
    sys.exit(main())
