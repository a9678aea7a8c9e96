"""Cut a trained classifier to a share of its width, as the guide's prune does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.compression import CompressTrainer
from course_lib.deploy import Predictor
from course_lib.deploy.files import DESCRIPTION
from course_lib.runtime import InputError, atomic_file
from course_lib.runtime.files import read_json
from course_lib.runtime.manifest import describe_files, read_manifest, write_manifest
from course_lib.tasks.hierarchical.model import (
    Classifier,
    brief,
    holds_weights,
    trainer_inputs,
)
from course_lib.tasks.hierarchical.thresholds import THRESHOLDS, decode, save_thresholds, tune

import pandas as pd
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
    classifier.model.config.max_seq_length = classifier.max_seq_length
    inputs = trainer_inputs(classifier, train_examples, dev_examples)
    frame = CompressTrainer(args=args, callbacks=list(callbacks), **inputs).compress()
    taxonomy = classifier.taxonomy
    texts = [example["text"] for example in dev_examples]
    true = taxonomy.indicators([example["labels"] for example in dev_examples])
    rows = []
    for path in map(Path, frame["path"]):
        probabilities = Predictor(path).predict(texts)
        thresholds = tune(probabilities, true, taxonomy)
        description = read_json(path.parent / DESCRIPTION, "what export_model wrote")
        description["thresholds"] = [thresholds[label] for label in taxonomy.labels]
        with atomic_file(path.parent / DESCRIPTION) as file:  # shared by all models of a directory
            json.dump(description, file, ensure_ascii=False, indent=1)
        if holds_weights(path.parent):
            save_thresholds(path.parent, thresholds)
            files = describe_files(path.parent, [THRESHOLDS])
            write_manifest(path.parent, read_manifest(path.parent) | files)
        rows.append(brief(true, decode(probabilities, taxonomy, thresholds)))
    return frame.assign(**pd.DataFrame(rows))
