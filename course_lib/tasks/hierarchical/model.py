"""One classifier for all labels: a sigmoid each, trained, loaded, used and exported."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...compression import CompressTrainer, load_pruned
from ...compression.pruning import HEADS
from ...data import convert_example
from ...deploy import Predictor, export_model
from ...deploy.files import DESCRIPTION, PROGRAM, file_of
from ...models import load_backbone, suggested_learning_rate
from ...models.backbone import MULTI_LABEL, check_same_labels
from ...models.files import WEIGHT_FILES, load_tokenizer, read_config, save_pretrained
from ...models.patches import quiet_paddlenlp
from ...runtime import InputError, atomic_file, seed_everything, select_device
from ...runtime.errors import whole
from ...runtime.files import read_json, temporary_in
from ...runtime.manifest import describe_files, read_manifest, write_manifest
from ...runtime.outputs import CHECKPOINT_DIR, LOG_DIR, OutputDir
from ...training import CourseTrainer, load_plain
from ...training.task import predict
from ...training.trainer import SEAL
from .reports import brief
from .taxonomy import Taxonomy
from .thresholds import DEFAULT, decode, tune

import numpy as np
import paddle
import pandas as pd
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.datasets import MapDataset
from paddlenlp.trainer import (
    CompressionArguments,
    EarlyStoppingCallback,
    TrainerCallback,
    TrainingArguments,
)

# The head begins at random, and most of its labels are rare: at the backbone's own rate a few
# epochs teach it no more than the upper levels.
HEAD_RATE = 25
NEWEST = "newest"
THRESHOLDS = "thresholds.json"
WHOLE = f"{CHECKPOINT_DIR}/checkpoint-*/{SEAL}"  # checkpoints to go on from
EACH_EPOCH: dict[str, Any] = {
    "disable_tqdm": True,
    "report_to": ["visualdl"],
    "evaluation_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 2,
    "load_best_model_at_end": True,
    "metric_for_best_model": "micro_f1",  # macro F1 would jump with every example of a rare label
}


class Classifier:
    """A trained model and what its labels mean.

    Args:
        model: a multi-label sequence classifier whose configuration names the labels, or a
            Predictor of one.
        tokenizer: of the model; a Predictor has its own.
        thresholds: by label; 0.5 by default.
        max_seq_length: tokens of a text; longer ones are cut. A Predictor has its own.

    Attributes:
        taxonomy: made of the labels, in the order of the model's outputs.

    Raises:
        InputError: a model of another kind, or one that takes fewer tokens.
    """

    def __init__(
        self,
        model: paddle.nn.Layer | Predictor,
        tokenizer=None,
        thresholds: Mapping[str, float] | None = None,
        max_seq_length: int | None = None,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        if isinstance(model, Predictor):
            several, names = model.problem == "multi_label", list(model.labels or ())
            thresholds = thresholds or dict(zip(names, model.thresholds or (), strict=False))
            self.max_seq_length = model.max_length
        else:
            config = model.config
            several = model.config.problem_type == "multi_label_classification"
            names = [name for _, name in sorted(config.id2label.items())]
            length = max_seq_length or getattr(config, "max_seq_length", None)
            length = length or min(128, config.max_position_embeddings)
            self.max_seq_length = whole("max_seq_length", length, 3, config.max_position_embeddings)
        if not several or not names:
            problem = "gives each text one class" if names else "names no labels"
            raise InputError("model", problem, "one trained for several labels per text")
        self.taxonomy = Taxonomy(names)
        self.thresholds = dict(thresholds or dict.fromkeys(names, DEFAULT))

    @classmethod
    def load(cls, directory: str | os.PathLike, max_seq_length: int | None = None) -> Classifier:
        """Load what `train` or `prune` left, or an export (also by the path of its files).

        Raises:
            InputError: it holds no such model, or one that is damaged.
        """
        directory = Path(directory)
        if not _holds_weights(directory):
            named = file_of(directory, PROGRAM).is_file()  # the path that export prints
            if not (named or directory.suffix == PROGRAM or any(directory.glob(f"*{PROGRAM}"))):
                raise InputError(directory, "holds no model", "what train, prune or export wrote")
            predictor = Predictor(directory)
            if predictor.max_length not in (None, max_seq_length or predictor.max_length):
                expected = f"{predictor.max_length}, as it was exported"
                raise InputError("max_seq_length", f"is {max_seq_length}", expected)
            return cls(predictor)
        if read_config(directory / "config.json").get(HEADS) is not None:
            model = load_pruned(directory)
            with quiet_paddlenlp():
                tokenizer = load_tokenizer(directory)
        else:
            model, tokenizer = load_backbone(directory, trained=True)
        model.eval()
        made = cls(model, tokenizer, max_seq_length=max_seq_length)
        made.thresholds = _load_thresholds(directory / THRESHOLDS, made.taxonomy)
        return made

    def features(self, examples: Sequence[Mapping]) -> MapDataset:
        """What the model reads of {"text", "labels"}: ids, and a 0.0 or 1.0 for each label."""
        targets = self.taxonomy.indicators([example["labels"] for example in examples])
        options = {"max_seq_length": self.max_seq_length, "is_test": True, "return_dict": True}
        rows = [
            {**convert_example(example, self.tokenizer, **options), "labels": target}
            for example, target in zip(examples, targets.astype("float32"), strict=True)
        ]
        return MapDataset(rows, label_list=list(self.taxonomy.labels))

    def probabilities(self, texts: Sequence[str], batch_size: int = 32) -> np.ndarray:
        """Each label's probability, float32 [texts, labels].

        Raises:
            InputError: a text is empty, or a score is not a finite number.
        """
        if isinstance(self.model, Predictor):
            return self.model.predict(texts, batch_size)
        rows = predict(self.model, texts, self.tokenizer, batch_size, self.max_seq_length)
        found = np.array([list(row["probabilities"].values()) for row in rows], "float32")
        return found.reshape(len(rows), len(self.taxonomy))

    def predict(self, texts: Sequence[str], batch_size: int = 32, **options) -> list[list[str]]:
        """Each text's labels; the options are `consistent` and `one_child` of `decode`."""
        probabilities = self.probabilities(texts, batch_size)
        chosen = decode(probabilities, self.taxonomy, self.thresholds, **options)
        return self.taxonomy.names(chosen)

    def save(self, directory: str | os.PathLike) -> None:
        """Write weights, configuration, vocabulary and thresholds; other files there stay."""
        directory = Path(directory)
        with temporary_in(directory) as temporary, quiet_paddlenlp():
            self.model.config.max_seq_length = self.max_seq_length
            _save_thresholds(temporary, self.thresholds)
            save_pretrained(temporary, self.model, self.tokenizer, [THRESHOLDS])
            # the configuration last: without it there is no model
            for file in sorted(temporary.iterdir(), key=lambda one: one.name == "config.json"):
                os.replace(file, directory / file.name)

    def export(self, directory: str | os.PathLike) -> Path:
        """Write a static model with its tokenizer, labels, thresholds and length for `Predictor`.

        Raises:
            InputError: the model is an export already; the directory cannot be written.
        """
        if isinstance(self.model, Predictor):
            raise InputError(self.model.path, "is an export already", "what train or prune wrote")
        options = {"name": "float32", "thresholds": self.thresholds}
        with quiet_paddlenlp():
            return export_model(
                self.model, directory, self.tokenizer, self.max_seq_length, **options
            )


def train(
    train_examples: Sequence[Mapping],
    dev_examples: Sequence[Mapping],
    taxonomy: Taxonomy,
    save_dir: str | os.PathLike,
    model_name: str | None = None,
    max_seq_length: int | None = None,
    batch_size: int = 32,
    learning_rate: float | None = None,
    epochs: int = 10,
    early_stop: int | None = None,
    logging_steps: int = 5,
    weight_decay: float = 0.0,
    warmup_steps: int | None = None,
    init_from_ckpt: str | os.PathLike | None = None,
    seed: int = 3,
    device: str | None = None,
    callbacks: Sequence = (),
    lines: bool = False,
) -> tuple[Classifier | None, dict]:
    """Fine-tune a backbone, keep the epoch with the best micro F1 on dev, and tune thresholds.

    Under paddle.distributed.launch each process calls it; batch sizes are those of one process.

    Args:
        train_examples, dev_examples: {"text", "labels"}, ancestors among the labels.
        save_dir: gets the model, and checkpoints/ and logs/ (VisualDL) below.
        model_name, max_seq_length: as for `load_backbone` and `Classifier`.
        learning_rate: the highest, of the backbone; by default what suits it. The head's is
            `HEAD_RATE` times as high.
        early_stop: end after so many epochs without a better micro F1.
        warmup_steps: steps in which the learning rate rises from 0, to fall to 0 again until the
            end. None keeps it as it is, as the guide does without warm-up.
        init_from_ckpt: a weight file to begin with; or "newest", to go on with the training of
            `save_dir` from its newest whole checkpoint to the same bits (from the start when it was
            killed before the first).
        lines: print a line to standard error at each log.

    Returns:
        The best model, its thresholds tuned on dev, and {"best_step", "dev": the Trainer's numbers
        at 0.5, "dev_tuned": "accuracy", "micro_f1" and "macro_f1" with thresholds and `decode`,
        "history": a Trainer's log}. In a launch all but the first process return None and {}.

    Raises:
        InputError: `save_dir` holds files of something else, or another process writes to it; as
            `load_backbone` and `CourseTrainer.train`.
    """
    save_dir, first = Path(save_dir), paddle.distributed.get_rank() == 0
    if paddle.distributed.get_world_size() == 1:  # a launch has chosen each process's device
        select_device(device)
        device = paddle.get_device().split(":")[0]
    go_on = init_from_ckpt == NEWEST
    # the other processes see the first one's files
    output = OutputDir(save_dir, "hierarchical train", go_on, keep=WHOLE) if first else None
    goes_on, weights = _beginning(init_from_ckpt, save_dir)
    seed_everything(seed)  # before the model: its new head is random
    classifier = _untrained(train_examples, taxonomy, model_name, max_seq_length, weights)
    arguments = TrainingArguments(
        output_dir=str(save_dir / CHECKPOINT_DIR),
        logging_dir=str(save_dir / LOG_DIR),
        num_train_epochs=epochs,
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=batch_size,
        learning_rate=learning_rate or suggested_learning_rate(classifier.model),
        lr_scheduler_type="constant" if warmup_steps is None else "linear",
        warmup_steps=warmup_steps or 0,
        weight_decay=weight_decay,
        logging_steps=logging_steps,
        seed=seed,
        **EACH_EPOCH,
        **({} if device is None else {"device": device}),
    )
    watchers = [*callbacks, *([_Lines()] if lines else [])]
    if early_stop is not None:
        watchers.append(EarlyStoppingCallback(early_stop))
    notes: Any = {} if weights is None else {"weights": str(weights)}
    with output.claim(**notes) if output else nullcontext():
        trainer = CourseTrainer(
            args=arguments,
            compute_metrics=lambda logits: brief(logits.label_ids > 0.5, logits.predictions >= 0),
            callbacks=watchers,
            **_trainer_inputs(classifier, train_examples, dev_examples),
        )
        trainer.train(resume_from_checkpoint=goes_on or None)
        return _finish(trainer, classifier, dev_examples, save_dir) if first else (None, {})


def _beginning(
    init_from_ckpt: str | os.PathLike | None, save_dir: Path
) -> tuple[bool, Path | None]:
    """Whether to go on from a checkpoint, and the weight file to begin with."""
    if init_from_ckpt != NEWEST:
        return False, None if init_from_ckpt is None else Path(init_from_ckpt)
    if any(save_dir.glob(WHOLE)) or (save_dir / "config.json").is_file():
        return True, None
    weights = OutputDir.notes(save_dir).get("weights")  # killed before the first checkpoint: again
    return False, Path(weights) if weights else None


def _untrained(
    train_examples: Sequence[Mapping],
    taxonomy: Taxonomy,
    model_name: str | None,
    max_seq_length: int | None,
    weights: Path | None,
) -> Classifier:
    """A classifier to train: with the weights of a file, or with a head that knows the shares.

    A new head begins with each label's share of the training texts as its probability. From one
    half it would take hundreds of steps to learn that most are rare.
    """
    texts = [example["text"] for example in train_examples]
    model, tokenizer = load_backbone(
        model_name, label_list=taxonomy.labels, vocab_texts=texts, problem_type=MULTI_LABEL
    )
    model.config.problem_type = MULTI_LABEL  # a hub's own configuration may have left it out
    for name, parameter in model.named_parameters():
        if not name.startswith(f"{model.base_model_prefix}."):
            parameter.optimize_attr["learning_rate"] = HEAD_RATE
    classifier = Classifier(model, tokenizer, max_seq_length=max_seq_length)
    bias = getattr(getattr(model, "classifier", None), "bias", None)
    if weights is not None:
        if not weights.is_file():
            raise InputError(weights, "is no file", f'a weight file, or "{NEWEST}" to go on')
        check_same_labels(model, weights.parent)
        load_plain(model, weights)
    elif bias is not None and not bool((bias != 0).any()):
        true = taxonomy.indicators([example["labels"] for example in train_examples])
        shares = (true.sum(axis=0) + 1) / (len(true) + 2)
        bias.set_value((np.log(shares) - np.log1p(-shares)).astype("float32"))
    return classifier


def _finish(
    trainer: CourseTrainer, classifier: Classifier, dev_examples: Sequence[Mapping], save_dir: Path
) -> tuple[Classifier, dict]:
    """Tune the thresholds of the best epoch's model, save it, and measure it on dev."""
    classifier.model.eval()
    taxonomy, size = classifier.taxonomy, trainer.args.per_device_eval_batch_size
    probabilities = classifier.probabilities([example["text"] for example in dev_examples], size)
    true = taxonomy.indicators([example["labels"] for example in dev_examples])
    classifier.thresholds = tune(probabilities, true, taxonomy)
    classifier.save(save_dir)
    best = str(trainer.state.best_model_checkpoint or "").rpartition("-")[2]
    return classifier, {
        "best_step": int(best) if best.isdigit() else None,
        "dev": brief(true, probabilities >= DEFAULT),
        "dev_tuned": brief(true, decode(probabilities, taxonomy, classifier.thresholds)),
        "history": trainer.state.log_history,
    }


@dataclass
class PruneArguments(CompressionArguments):
    """PaddleNLP's arguments, with the guide's defaults and the learning rate the model suggests."""

    strategy: str = field(default="dynabert", metadata={"help": 'also "dynabert+ptq": and INT8'})
    per_device_train_batch_size: int = field(default=32, metadata={"help": "texts per step"})
    per_device_eval_batch_size: int = field(default=32, metadata={"help": "texts"})
    learning_rate: float = field(default=0.0, metadata={"help": "peak; 0: what suits the model"})
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
    lines: bool = False,
) -> pd.DataFrame:
    """Compress by `args`, and tune each model's thresholds on dev.

    The whole model teaches the cut one its probabilities. `args.output_dir` gets what
    `CompressTrainer.compress` writes; each `width_mult_*/` is a model for `Classifier.load`, with
    thresholds and an export.

    Returns:
        The frame of `compress`, whose "score" is the micro F1 at 0.5, with columns "accuracy",
        "micro_f1" and "macro_f1" on dev, with tuned thresholds.

    Raises:
        InputError: as `CompressTrainer.compress`; the classifier is an export.
    """
    if isinstance(classifier.model, Predictor):
        raise InputError(classifier.model.path, "is an export", "what train wrote")
    classifier.model.config.max_seq_length = classifier.max_seq_length
    args.learning_rate = args.learning_rate or suggested_learning_rate(classifier.model)
    inputs = _trainer_inputs(classifier, train_examples, dev_examples)
    callbacks = [*callbacks, *([_Lines()] if lines else [])]
    frame = CompressTrainer(args=args, callbacks=callbacks, **inputs).compress()
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
        if _holds_weights(path.parent):
            _save_thresholds(path.parent, thresholds)
            files = describe_files(path.parent, [THRESHOLDS])
            write_manifest(path.parent, read_manifest(path.parent) | files)
        rows.append(brief(true, decode(probabilities, taxonomy, thresholds)))
    return frame.assign(**pd.DataFrame(rows))


def _trainer_inputs(
    classifier: Classifier, train_examples: Sequence[Mapping], dev_examples: Sequence[Mapping]
) -> dict[str, Any]:
    """The model, the data and the loss, as a Trainer takes them."""
    return {
        "model": classifier.model,
        "tokenizer": classifier.tokenizer,
        "criterion": paddle.nn.BCEWithLogitsLoss(),
        "data_collator": DataCollatorWithPadding(classifier.tokenizer),
        "train_dataset": classifier.features(train_examples),
        "eval_dataset": classifier.features(dev_examples),
        "group_by_length": True,
    }


class _Lines(TrainerCallback):
    """A line each time the Trainer logs; PaddleNLP's own are kept to warnings from here on."""

    def __init__(self) -> None:
        logging.getLogger("PaddleNLP").setLevel(logging.WARNING)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not state.is_world_process_zero:
            return
        names = ("loss", "eval_loss", "eval_micro_f1", "eval_macro_f1")
        shown = [f"{name} {logs[name]:.4f}" for name in names if name in logs]
        if shown:
            step = f"step {state.global_step}/{state.max_steps}"
            print(f"{step}: {', '.join(shown)}", file=sys.stderr, flush=True)


def _holds_weights(directory: Path) -> bool:
    """Whether a directory holds a model in Python's form; a tokenizer leaves a config.json too."""
    return any((directory / name).is_file() for name in WEIGHT_FILES)


def _save_thresholds(directory: Path, thresholds: Mapping[str, float]) -> None:
    with atomic_file(directory / THRESHOLDS) as file:
        json.dump(dict(thresholds), file, ensure_ascii=False, indent=1)


def _load_thresholds(path: Path, taxonomy: Taxonomy) -> dict[str, float]:
    """Thresholds that lie beside a model; 0.5 for all where there are none."""
    if not os.path.lexists(path):
        return dict.fromkeys(taxonomy.labels, DEFAULT)
    expected = "a threshold between 0 and 1 for each of the model's labels"
    found = read_json(path, expected)
    fits = isinstance(found, dict) and found.keys() == taxonomy.ids.keys()
    if not fits or not all(isinstance(one, float) and 0 < one < 1 for one in found.values()):
        raise InputError(path, f"holds {json.dumps(found, ensure_ascii=False):.80}", expected)
    return {label: found[label] for label in taxonomy.labels}
