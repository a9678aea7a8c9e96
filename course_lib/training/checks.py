"""What a Trainer checks before its first step, where Paddle would hang or compute nonsense."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..runtime import InputError
from ..runtime.errors import real, whole

import numpy as np
import paddle
from paddlenlp.trainer import TrainingArguments
from paddlenlp.trainer.trainer_utils import IntervalStrategy, has_length

if TYPE_CHECKING:
    from .trainer import CourseTrainer

Columns = tuple[dict[str, list[np.ndarray]], list[int]]  # labels by column, lengths of input_ids
POSITIONS = ("start_positions", "end_positions")
IGNORED = -100
_COUNTS = {  # the smallest that makes sense
    "per_device_train_batch_size": 1,
    "per_device_eval_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "dataloader_num_workers": 0,
    "warmup_steps": 0,
    "seed": 0,
}
_STEPS = {  # 0 saves nothing
    "logging_strategy": ("logging_steps", 1),
    "save_strategy": ("save_steps", 0),
    "evaluation_strategy": ("eval_steps", 1),
}
_REALS: dict[str, tuple[Callable[[float], bool], str]] = {
    "learning_rate": (lambda value: value >= 0, "0 or more"),
    "weight_decay": (lambda value: value >= 0, "0 or more"),
    "max_grad_norm": (lambda value: value >= 0, "0 (gradients are not clipped) or more"),
    "warmup_ratio": (lambda value: 0 <= value <= 1, "from 0 to 1"),
}


def check_arguments(args: TrainingArguments) -> None:
    """Refuse numbers at which a training would stop, or go on and learn nothing."""
    steps = [pair for name, pair in _STEPS.items() if getattr(args, name) == IntervalStrategy.STEPS]
    for name, minimum in {**_COUNTS, **dict(steps)}.items():
        whole(name, getattr(args, name), minimum)
    reals = dict(_REALS)
    if args.max_steps == -1:
        reals["num_train_epochs"] = (lambda value: value > 0, "above 0")
    else:
        whole("max_steps", args.max_steps, 1)  # -1: num_train_epochs counts
    for name, (fits, expected) in reals.items():
        real(name, getattr(args, name), fits, expected)


def check_metric(trainer: CourseTrainer) -> None:
    """Refuse a `metric_for_best_model` that an evaluation of two rows does not return."""
    args, dataset = trainer.args, trainer.eval_dataset
    wanted = (args.metric_for_best_model or "loss").removeprefix("eval_")
    evaluates = args.evaluation_strategy != IntervalStrategy.NO and has_length(dataset)
    if wanted == "loss" or not evaluates or isinstance(dataset, Mapping):
        return
    loader = trainer.get_eval_dataloader([dataset[row] for row in range(min(2, len(dataset)))])
    found = trainer.evaluation_loop(loader, "check", metric_key_prefix="eval").metrics
    if f"eval_{wanted}" not in found:
        known = ", ".join(sorted(name.removeprefix("eval_") for name in found))
        problem = f"is {wanted!r}, which an evaluation does not return"
        raise InputError("metric_for_best_model", problem, f"one of {known}")


def check_rows(where: str, dataset, columns: Iterable[str], labels: Sequence[str] = ()) -> Columns:
    """Read every row once, and refuse what would stop Paddle's loader, or leave it waiting.

    Args:
        where: the dataset's name, for the message.
        columns: those that each row, a dict, must have, filled with numbers.
        labels: those of them whose values must have one shape; they are returned.

    Returns:
        The labels' values, one array per row, by column; and the number of "input_ids" of each row.
    """
    if len(dataset) == 0:
        raise InputError(where, "is empty", "at least one example")
    values: dict[str, list[np.ndarray]] = {name: [] for name in labels if name in columns}
    lengths: list[int] = []
    for row in range(len(dataset)):  # iterating over a paddle Dataset need not stop at its end
        feature = dataset[row]
        if not isinstance(feature, Mapping):
            raise InputError(where, f"row {row} is a {type(feature).__name__}", "a dict of columns")
        for name in columns:
            if name not in feature:
                problem = f"row {row} has no column {name!r}"
                raise InputError(where, problem, f"the columns {', '.join(columns)}")
            value = _numbers(feature[name])
            if value is None or (name == "input_ids" and (not value.ndim or _is_float(value))):
                problem = f"row {row} has {name} {_short(feature[name])}"
                raise InputError(where, problem, "numbers")
            if name == "input_ids":
                lengths.append(len(value))
            if name in values:
                values[name].append(value)
                first = values[name][0]
                if (first.ndim, _is_float(first)) != (value.ndim, _is_float(value)):
                    problem = f"row {row} has {name} {_short(feature[name])}"
                    raise InputError(where, problem, f"the form of row 0: {_short(first)}")
    return values, lengths


def _numbers(value) -> np.ndarray | None:
    """The value as an array; None where it is not finite numbers in rows of one length."""
    try:
        array = np.asarray(value)
        return array if array.dtype.kind in "iub" or np.isfinite(array).all() else None
    except (TypeError, ValueError):
        return None


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


def _short(value) -> str:
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def check_labels(
    where: str,
    labels: Mapping[str, list[np.ndarray]],
    lengths: Sequence[int],
    logits: Any,
    ignored: int = IGNORED,
) -> None:
    """Compare the labels that `check_rows` read with the shape of a model's output.

    Args:
        logits: their shape, [batch_size, classes] or [batch_size, seq_len, classes]; None where a
            label cannot be compared with the output, except for positions of answers.
    """
    positions = set(labels) == set(POSITIONS)
    if not positions and (logits is None or logits[-1] == 1):
        return
    by_token = not positions and len(logits) == 3
    for name, rows in labels.items():
        single = rows[0].ndim == 0 or rows[0].shape == (1,)
        if not positions and (rows[0].ndim > 1 or (single and by_token)):
            continue
        for row, value in enumerate(rows):
            count = lengths[row] if by_token else None if positions or single else logits[-1]
            if count is not None and len(value) != count:
                problem = f"row {row} has {len(value)} {name} for {count} "
                problem += "tokens" if by_token else "classes"
                raise InputError(where, problem, "one for each")
            if _is_float(value) or not (
                single or by_token or positions
            ):  # each a choice of its own
                continue
            limit = lengths[row] if positions else logits[-1]
            wrong = value[((value < 0) | (value >= limit)) & (value != ignored)]
            if wrong.size:
                what = "tokens in the row" if positions else "classes in the model's head"
                problem = f"row {row} has {name} {wrong[0]} for {limit} {what}"
                raise InputError(where, problem, f"0 to {limit - 1}")


def known_columns(trainer: CourseTrainer) -> set[str]:
    """What the model takes, and labels."""
    return {*inspect.signature(trainer.model.forward).parameters, *trainer.label_names}


def check_dataset(
    trainer: CourseTrainer, where: str, dataset, labeled: bool = False
) -> Columns | None:
    """`check_rows` with what the model takes, and with labels; None for what is read only once."""
    if dataset is None or isinstance(dataset, Mapping) or not has_length(dataset):
        return None
    known, first = known_columns(trainer), dataset[0] if len(dataset) else ()
    columns = dict.fromkeys(name for name in first if name in known)
    if labeled:
        columns |= dict.fromkeys(trainer.label_names)
    return check_rows(where, dataset, list(columns), trainer.label_names)


def check_data(trainer: CourseTrainer) -> None:
    """Read the rows that a training and its evaluations will read, and compute the first loss."""
    if len(trainer.train_dataset) == 0:
        raise InputError("train_dataset", "is empty", "at least one example")
    loader, evaluated = trainer.get_train_dataloader(), trainer.eval_dataset
    evaluated = evaluated if isinstance(evaluated, dict) else {"eval_dataset": evaluated}
    evaluates = trainer.args.evaluation_strategy != IntervalStrategy.NO
    read = {"train_dataset": check_dataset(trainer, "train_dataset", loader.dataset, True)}
    for where, dataset in evaluated.items():
        read[where] = check_dataset(trainer, where, dataset, evaluates)
    rows = [loader.dataset[row] for row in range(min(2, len(loader.dataset)))]
    batch = dict(loader.collate_fn(rows))
    # once this process has computed on several threads, a fork of it cannot
    forks = paddle.get_device() == "cpu" and trainer.args.dataloader_num_workers > 0
    if forks and any(isinstance(value, paddle.Tensor) for value in batch.values()):
        problem = "makes Paddle tensors, which on a CPU crash the dataloader's workers"
        expected = 'return_tensors="np" or dataloader_num_workers=0'
        raise InputError("data_collator", problem, expected)
    parameters = inspect.signature(trainer.model.forward).parameters.values()
    for name in sorted(batch.keys() - known_columns(trainer)):
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
            problem = f"has a column {name!r}, which the model does not take"
            raise InputError("train_dataset", problem, "features without it")
    for name, value in batch.items():  # a loader makes tensors of arrays
        if isinstance(value, np.ndarray):
            batch[name] = paddle.to_tensor(value)
    _check_loss(trainer, batch, read)


def _check_loss(trainer: CourseTrainer, batch: Mapping, read: Mapping[str, Columns | None]) -> None:
    where = "the model's own loss" if trainer.criterion is None else "criterion"
    training = trainer.model.training
    trainer.model.eval()
    try:
        inputs = {name: value for name, value in batch.items() if name not in trainer.label_names}
        with trainer.autocast_smart_context_manager():
            with paddle.no_grad():
                outputs = trainer.model(**inputs)
            logits = outputs.shape if isinstance(outputs, paddle.Tensor) else None
            for name, columns in read.items():
                ignored = getattr(trainer.criterion, "ignore_index", IGNORED)
                if columns is not None:
                    check_labels(name, *columns, logits, ignored)
            loss = trainer.compute_loss(trainer.model, dict(batch))
    except InputError:
        raise
    except Exception as error:
        problem = f"fails on the first rows: {_summary(error)}"
        raise InputError(where, problem, "a loss of the model's output") from error
    finally:
        if training:
            trainer.model.train()
    if not isinstance(loss, paddle.Tensor) or loss.size != 1:
        what = f"shape {[*loss.shape]}" if isinstance(loss, paddle.Tensor) else type(loss).__name__
        raise InputError(where, f"gives a result of {what}", "one number per batch")
    if loss.stop_gradient:
        problem = "gives a result that does not depend on the weights"
        raise InputError(where, problem, "a differentiable function of the model's output")


def _summary(error: Exception) -> str:
    """The line of an error that explains it; paddle's begin with a C++ stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"\(?\w*\)?\s*\w*Error:", line)] or lines[:1]
    return f"{type(error).__name__}: {errors[0][:200]}" if errors else type(error).__name__
