"""Cut a trained classifier to a share of its width, as the guide's prune does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.compression import CompressTrainer
from course_lib.deploy import Predictor
from course_lib.deploy.files import DESCRIPTION
from course_lib.models.files import list_files
from course_lib.runtime import InputError, atomic_file
from course_lib.runtime.files import read_json
from course_lib.tasks.hierarchical.model import (
    Classifier,
    brief,
    holds_weights,
    multi_label_features,
)
from course_lib.tasks.hierarchical.thresholds import THRESHOLDS, decode, save_thresholds, tune

import paddle
import pandas as pd
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.trainer import CompressionArguments


@dataclass
class PruneArguments(CompressionArguments):
    """PaddleNLP's arguments of training and compression, with the guide's defaults."""

    strategy: str = field(default="dynabert", metadata={"help": 'also "dynabert+ptq": and INT8'})
    per_device_train_batch_size: int = field(default=32, metadata={"help": "texts a step"})
    per_device_eval_batch_size: int = field(default=32, metadata={"help": "texts"})
    learning_rate: float = field(default=3e-5, metadata={"help": "the highest"})
    num_train_epochs: float = field(default=10.0, metadata={"help": "of distillation"})
    logging_steps: int = field(default=5, metadata={"help": "steps between two lines"})
    save_steps: int = field(default=100, metadata={"help": "steps between two looks at dev"})
    seed: int = field(default=3, metadata={"help": "of everything random"})


@dataclass
class DataArguments:
    """What is read."""

    dataset_dir: str = field(default=None, metadata={"help": "with train.txt, dev.txt, label.txt"})  # type: ignore[assignment]
    max_seq_length: int = field(default=None, metadata={"help": "tokens; default: as in training"})  # type: ignore[assignment]
    train_file: str = field(default="train.txt", metadata={"help": "in dataset_dir"})
    dev_file: str = field(default="dev.txt", metadata={"help": "in dataset_dir"})
    label_file: str = field(default="label.txt", metadata={"help": "in dataset_dir"})
    complete_labels: bool = field(default=False, metadata={"help": "add missing ancestors"})


@dataclass
class ModelArguments:
    """What is cut, and how narrow."""

    params_dir: str = field(default="./checkpoint/", metadata={"help": "what train wrote"})
    width_mult: str = field(
        default="2/3", metadata={"help": "share of the width to keep; several: 3/4,1/2"}
    )
    trust_pickle: bool = field(
        default=False, metadata={"help": "let a foreign .pdparams run the code that it may hold"}
    )


def prune(
    classifier: Classifier,
    train_examples: Sequence[Mapping],
    dev_examples: Sequence[Mapping],
    args: CompressionArguments,
    callbacks: Sequence = (),
) -> pd.DataFrame:
    """Compress by `args`, and tune each model's thresholds on dev.

    Importance is measured on a part of the training texts, and the whole model teaches the cut one
    its probabilities. Below `args.output_dir` stands what `CompressTrainer.compress` writes; in
    each `width_mult_*/` a model for `Classifier.load`, with thresholds and an export.

    Returns:
        The frame of `compress`, with columns "accuracy", "micro_f1" and "macro_f1" on dev, with
        tuned thresholds. Its "score" is the micro F1 at 0.5.

    Raises:
        InputError: as `CompressTrainer.compress`; the classifier is an export.
    """
    if isinstance(classifier.model, Predictor):
        raise InputError(classifier.model.path, "is an export", "what train wrote")
    taxonomy = classifier.taxonomy
    features = [
        multi_label_features(rows, classifier.tokenizer, taxonomy, classifier.max_seq_length)
        for rows in (train_examples, dev_examples)
    ]
    classifier.model.config.max_seq_length = classifier.max_seq_length
    frame = CompressTrainer(
        model=classifier.model,
        args=args,
        data_collator=DataCollatorWithPadding(classifier.tokenizer),
        train_dataset=features[0],
        eval_dataset=features[1],
        criterion=paddle.nn.BCEWithLogitsLoss(),
        tokenizer=classifier.tokenizer,
        callbacks=list(callbacks),
        group_by_length=True,
    ).compress()
    texts = [example["text"] for example in dev_examples]
    true = taxonomy.indicators([example["labels"] for example in dev_examples])
    rows = []
    for path in map(Path, frame["path"]):
        probabilities = Predictor(path).predict(texts)
        thresholds = tune(probabilities, true, taxonomy)
        _describe(path.parent / DESCRIPTION, [thresholds[label] for label in taxonomy.labels])
        if holds_weights(path.parent):
            save_thresholds(path.parent, thresholds)
            list_files(path.parent, [THRESHOLDS])
        rows.append(brief(true, decode(probabilities, taxonomy, thresholds)))
    return frame.assign(**pd.DataFrame(rows))


def _describe(path: Path, thresholds: list[float]) -> None:
    """Put thresholds into a deploy.json; several models of one directory share it."""
    description = read_json(path, "what export_model wrote")
    with atomic_file(path) as file:
        json.dump({**description, "thresholds": thresholds}, file, ensure_ascii=False, indent=1)
