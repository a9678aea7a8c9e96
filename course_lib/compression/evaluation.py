"""The metrics that `CompressTrainer` compares models by, for each task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..data.spans import bio_types
from ..runtime import InputError
from ..training import decode_answers, exact_match, span_scores
from ..training.trainer import CourseTrainer

import numpy as np
import paddle

Metric = Callable[[CourseTrainer, paddle.nn.Layer, paddle.io.DataLoader], float]


def metric_for(trainer: CourseTrainer) -> Metric:
    """The metric of the task of a trainer's model: (trainer, model, loader) -> a number."""
    config = getattr(trainer.model, "config", None)
    if getattr(config, "problem_type", None) == "multi_label_classification":
        return _label_f1
    name = type(trainer.model).__name__
    for part, metric in _METRICS.items():
        if part in name:
            if metric is _entity_f1:
                bio_types(_entity_labels(trainer))
            return metric
    problem = f"there is no metric for {name}"
    raise InputError("custom_evaluate", problem, "a function (trainer, model, loader)")


def _entity_labels(trainer: CourseTrainer) -> list[str]:
    """Names of labels, from the train_dataset's `label_list` or the model's configuration."""
    names = trainer.model.config.id2label
    return getattr(trainer.train_dataset, "label_list", None) or [names[i] for i in sorted(names)]


def _answers(trainer: CourseTrainer, model, loader) -> Iterator[tuple[Any, Mapping]]:
    """A model's outputs for each batch, and the batch."""
    for batch in loader:
        yield model(**{n: v for n, v in batch.items() if n not in trainer.label_names}), batch


def _accuracy(trainer: CourseTrainer, model, loader) -> float:
    """The share of examples whose class is right."""
    right = []
    for logits, batch in _answers(trainer, model, loader):
        right += (logits.argmax(axis=-1) == batch["labels"].reshape([-1])).tolist()
    return float(np.mean(right))


def _label_f1(trainer: CourseTrainer, model, loader) -> float:
    """Micro F1 of all labels whose probability is at least 1/2."""
    right, both = 0, 0
    for logits, batch in _answers(trainer, model, loader):
        predicted, labels = logits >= 0, batch["labels"] > 0.5
        right += int((predicted & labels).sum())
        both += int(predicted.sum()) + int(labels.sum())
    return 2 * right / max(1, both)


def _entity_f1(trainer: CourseTrainer, model, loader) -> float:
    """F1 of entities."""
    gold, predicted = [], []
    for logits, batch in _answers(trainer, model, loader):
        gold += list(batch["labels"].numpy())
        predicted += list(logits.argmax(axis=-1).numpy())
    return span_scores(gold, predicted, _entity_labels(trainer))["all"]["f1"]


def _exact_match(trainer: CourseTrainer, model, loader) -> float:
    """The share of questions answered right; without `eval_examples`, of features."""
    right, starts, ends = [], [], []
    for (start, end), batch in _answers(trainer, model, loader):
        starts += list(start.numpy())
        ends += list(end.numpy())
        if trainer.eval_examples is None:
            fits = start.argmax(axis=-1) == batch["start_positions"]
            right += (fits & (end.argmax(axis=-1) == batch["end_positions"])).tolist()
    if trainer.eval_examples is not None:
        answers = decode_answers(starts, ends, trainer.eval_dataset, trainer.eval_examples)
        pairs = zip(answers, trainer.eval_examples, strict=True)
        right = [exact_match(answer["text"], example["answers"]) for answer, example in pairs]
    return float(np.mean(right))


_METRICS = {
    "SequenceClassification": _accuracy,
    "TokenClassification": _entity_f1,
    "QuestionAnswering": _exact_match,
}
