"""One classifier for all labels: a sigmoid each, trained, loaded, used and exported."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from course_lib.compression import load_pruned
from course_lib.compression.pruning import HEADS, multi_label
from course_lib.data import batchify_fn, convert_example
from course_lib.deploy import Predictor, export_model
from course_lib.deploy.files import PROGRAM
from course_lib.models import load_backbone, suggested_learning_rate
from course_lib.models.backbone import MULTI_LABEL, check_same_labels
from course_lib.models.files import (
    WEIGHT_FILES,
    check_weights,
    load_tokenizer,
    read_config,
    read_weights,
    save_pretrained,
    shapes_of,
)
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError, seed_everything, select_device
from course_lib.runtime.errors import whole
from course_lib.runtime.files import temporary_in
from course_lib.runtime.outputs import CHECKPOINT_DIR, LOG_DIR, check_output_dir, claim, read_marker
from course_lib.runtime.visible import is_blank
from course_lib.tasks.hierarchical.reports import averages
from course_lib.tasks.hierarchical.taxonomy import Taxonomy
from course_lib.tasks.hierarchical.thresholds import (
    THRESHOLDS,
    as_array,
    decode,
    load_thresholds,
    save_thresholds,
    tune,
)
from course_lib.training import CourseTrainer
from course_lib.training.prediction import check_scores, inference_mode
from course_lib.training.trainer import SEAL

import numpy as np
import paddle
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.datasets import MapDataset
from paddlenlp.trainer import EarlyStoppingCallback, EvalPrediction, TrainingArguments
from scipy.special import expit

# The head begins at random, and most of its labels are rare: at the backbone's own rate a few
# epochs teach it no more than the upper levels.
HEAD_RATE = 25
NEWEST = "newest"
WHOLE = f"{CHECKPOINT_DIR}/checkpoint-*/{SEAL}"  # checkpoints to go on from


class Classifier:
    """A trained model and what its labels mean.

    Args:
        model: a multi-label sequence classifier whose configuration names the labels, or a
            Predictor of one.
        tokenizer: of the model; a Predictor has its own.
        thresholds: by label; 0.5 by default.
        max_seq_length: tokens of a text; longer ones are cut.

    Attributes:
        taxonomy: made of the labels, in the order of the model's outputs.
        thresholds, max_seq_length: as they are.

    Raises:
        InputError: a model of another kind, thresholds that do not fit.
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
            several, names = model.problem == "multi_label", model.labels
            most = model.max_length
            given = thresholds or dict(zip(names or (), model.thresholds or (), strict=False))
        else:
            several, names = multi_label(model), model.config.id2label
            names = [names[index] for index in range(len(names))]
            most, given = model.config.max_position_embeddings, thresholds
        if not several or not names:
            problem = "gives each text one class" if names else "names no labels"
            raise InputError("model", problem, "one trained for several labels a text")
        self.taxonomy = Taxonomy(names)
        self.thresholds = dict(given or dict.fromkeys(names, 0.5))
        as_array(self.thresholds, self.taxonomy)  # do they fit?
        trained = getattr(getattr(model, "config", None), "max_seq_length", None)
        length = max_seq_length or trained or min(128, most)
        self.max_seq_length = whole("max_seq_length", length, 3, most)

    @classmethod
    def load(cls, directory: str | os.PathLike, max_seq_length: int | None = None) -> Classifier:
        """Load what `train` or `prune` left, or an export (also by the path of its files).

        Raises:
            InputError: it holds no such model, or one that is damaged.
        """
        directory = Path(directory)
        if not holds_weights(directory):
            programs = directory.glob(f"*{PROGRAM}") if directory.is_dir() else ()
            named = directory.with_name(directory.name + PROGRAM)  # the path that export prints
            if not any(programs) and not named.is_file() and directory.suffix != PROGRAM:
                raise InputError(directory, "holds no model", "what train, prune or export wrote")
            predictor = Predictor(directory)
            most = predictor.max_length
            if max_seq_length is not None and most is not None and max_seq_length != most:
                problem = f"is {max_seq_length}"
                raise InputError("max_seq_length", problem, f"{most}, as it was exported")
            return cls(predictor)
        if read_config(directory / "config.json").get(HEADS) is not None:
            model = load_pruned(directory)
            with quiet_paddlenlp():
                tokenizer = load_tokenizer(directory)
        else:
            model, tokenizer = load_backbone(directory, trained=True)
        model.eval()
        made = cls(model, tokenizer, max_seq_length=max_seq_length)
        made.thresholds = load_thresholds(directory, made.taxonomy)
        return made

    def probabilities(self, texts: Sequence[str], batch_size: int = 32) -> np.ndarray:
        """Each label's probability, float32 [texts, labels]; texts of like length share a batch.

        Raises:
            InputError: a text that is empty or none; scores that are no finite numbers.
        """
        if isinstance(texts, str):
            raise InputError("texts", "is one string", "a list of texts")
        for number, text in enumerate(texts):
            if not isinstance(text, str) or is_blank(text):
                raise InputError(f"texts[{number}]", "is empty or no text", "a text")
        batch_size = whole("batch_size", batch_size, 1)
        if isinstance(self.model, Predictor):
            return self.model.predict(texts, batch_size)
        rows = [
            convert_example({"text": text}, self.tokenizer, self.max_seq_length, is_test=True)
            for text in texts
        ]
        batchify = batchify_fn(self.tokenizer, is_test=True)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row][0]))
        result = np.zeros((len(rows), len(self.taxonomy)), "float32")
        with inference_mode(self.model):
            for first in range(0, len(order), batch_size):
                chosen = order[first : first + batch_size]
                batch = batchify([rows[row] for row in chosen])
                logits = self.model(*map(paddle.to_tensor, batch)).numpy()
                check_scores(logits)
                result[chosen] = expit(logits)
        return result

    def predict(
        self,
        texts: Sequence[str],
        batch_size: int = 32,
        consistent: bool = True,
        one_child: bool | Collection[int] = False,
    ) -> list[list[str]]:
        """Each text's labels; the options are those of `decode`."""
        probabilities = self.probabilities(texts, batch_size)
        chosen = decode(probabilities, self.taxonomy, self.thresholds, consistent, one_child)
        return self.taxonomy.names(chosen)

    def save(self, directory: str | os.PathLike) -> None:
        """Write weights, configuration, vocabulary and thresholds for `load`.

        Other files in the directory stay.

        Raises:
            InputError: the directory cannot be written.
        """
        directory = Path(directory)
        with temporary_in(directory) as temporary, quiet_paddlenlp():
            self.model.config.max_seq_length = self.max_seq_length
            save_thresholds(temporary, self.thresholds)
            save_pretrained(temporary, self.model, self.tokenizer, [THRESHOLDS])
            # the configuration last: without it there is no model
            for file in sorted(temporary.iterdir(), key=lambda one: one.name == "config.json"):
                os.replace(file, directory / file.name)

    def export(self, directory: str | os.PathLike, name: str = "float32") -> Path:
        """Write a static model with its tokenizer, labels, thresholds and length for `Predictor`.

        Raises:
            InputError: the model is an export already; the directory cannot be written.
        """
        if isinstance(self.model, Predictor):
            raise InputError(self.model.path, "is an export already", "what train or prune wrote")
        with quiet_paddlenlp():
            return export_model(
                self.model,
                directory,
                self.tokenizer,
                self.max_seq_length,
                name=name,
                thresholds=self.thresholds,
            )


def holds_weights(directory: Path) -> bool:
    """Whether a directory holds a model in Python's form; a tokenizer leaves a config.json too."""
    return any((directory / name).is_file() for name in WEIGHT_FILES)


def multi_label_features(
    examples: Sequence[Mapping], tokenizer, taxonomy: Taxonomy, max_seq_length: int = 128
) -> MapDataset:
    """What a model reads of examples {"text", "labels"}: ids, and a 0.0 or 1.0 for each label."""
    targets = taxonomy.indicators([example["labels"] for example in examples]).astype("float32")
    rows = []
    for example, target in zip(examples, targets, strict=True):
        ids, types = convert_example(example, tokenizer, max_seq_length, is_test=True)
        rows.append({"input_ids": ids, "token_type_ids": types, "labels": target})
    return MapDataset(rows, label_list=list(taxonomy.labels))


def micro_macro(prediction: EvalPrediction) -> dict[str, float]:
    """Figures at a threshold of 0.5 of logits and labels [texts, labels], for a Trainer."""
    figures = averages(prediction.label_ids > 0.5, prediction.predictions >= 0)
    return {
        "accuracy": figures["accuracy"],
        "micro_f1": figures["micro"]["f1"],
        "macro_f1": figures["macro"]["f1"],
    }


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
) -> tuple[Classifier | None, dict]:
    """Fine-tune a backbone, keep the epoch with the best micro F1 on dev, and tune thresholds.

    Under paddle.distributed.launch each process calls it; batch sizes are those of one process.

    Args:
        train_examples, dev_examples: {"text", "labels"}, ancestors among the labels.
        save_dir: gets the model, and checkpoints/ and logs/ (VisualDL) below.
        model_name: as `load_backbone`'s name.
        max_seq_length: tokens of a text; 128 by default, or as many as the model takes.
        learning_rate: the highest, of the backbone; by default what suits it. The head's is
            `HEAD_RATE` times as high.
        early_stop: end after so many epochs without a better micro F1.
        warmup_steps: steps in which the learning rate rises from 0, to fall to 0 again until the
            end. None keeps it as it is, as the guide does without warm-up.
        init_from_ckpt: a weight file to begin with; a checkpoint directory, or "newest" for the
            newest whole one of `save_dir`, to go on with its training to the same bits (from the
            start when the training was killed before the first).

    Returns:
        The best model, its thresholds tuned on dev, and {"best_step", "dev": the Trainer's figures
        at 0.5, "dev_tuned": "accuracy", "micro_f1" and "macro_f1" with thresholds and `decode`,
        "history": a Trainer's log}. In a launch all but the first process return None and {}.

    Raises:
        InputError: `save_dir` holds files of something else, or another process writes to it; as
            `load_backbone` and `CourseTrainer.train`.
    """
    save_dir = Path(save_dir)
    seed = whole("seed", seed, 0, 2**32 - 1)
    if paddle.distributed.get_world_size() == 1:  # a launch has chosen each process's device
        select_device(device)
        device = paddle.get_device().split(":")[0]
    checkpoint = None
    if init_from_ckpt is not None and (init_from_ckpt == NEWEST or Path(init_from_ckpt).is_dir()):
        checkpoint = True if init_from_ckpt == NEWEST else str(init_from_ckpt)
        if isinstance(checkpoint, str) and (Path(checkpoint) / CHECKPOINT_DIR).is_dir():
            problem = "is what a training left, and no checkpoint"
            expected = f'its weight file, to begin with; "{NEWEST}", to go on; or one of '
            raise InputError(init_from_ckpt, problem, f"{expected}{CHECKPOINT_DIR}/")
    schedule = {"lr_scheduler_type": "constant"}
    if warmup_steps is not None:
        schedule = {"lr_scheduler_type": "linear", "warmup_steps": warmup_steps}
    first = paddle.distributed.get_rank() == 0  # the others see its files
    place: dict[str, Any] = {
        "command": "hierarchical train",
        "go_on": checkpoint is True,
        "keep": WHOLE,
    }
    if isinstance(checkpoint, str):  # it may lie there
        place |= {"again": True, "keep": None}
    if first:
        check_output_dir(save_dir, **place)
    if checkpoint is True:
        begun = read_marker(save_dir).get("weights")
        if begun is not None and not any(save_dir.glob(WHOLE)):
            problem = f"was to begin with {begun}, and has no whole checkpoint"
            raise InputError(save_dir, problem, "that file as init_from_ckpt, to start again")
    seed_everything(seed)  # before the model: its new head is random
    model, tokenizer = load_backbone(
        model_name,
        label_list=taxonomy.labels,
        vocab_texts=[example["text"] for example in train_examples],
        problem_type=MULTI_LABEL,
    )
    model.config.problem_type = MULTI_LABEL  # a hub's own configuration may have left it out
    for name, parameter in model.named_parameters():
        if not name.startswith(f"{model.base_model_prefix}."):
            parameter.optimize_attr["learning_rate"] = HEAD_RATE
    classifier = Classifier(model, tokenizer, max_seq_length=max_seq_length)
    if init_from_ckpt is not None and checkpoint is None:
        _load_weights(model, Path(init_from_ckpt))
    else:
        _start_at_shares(model, taxonomy.indicators([row["labels"] for row in train_examples]))
    arguments = TrainingArguments(
        output_dir=str(save_dir / CHECKPOINT_DIR),
        logging_dir=str(save_dir / LOG_DIR),
        num_train_epochs=whole("epochs", epochs, 1),
        per_device_train_batch_size=whole("batch_size", batch_size, 1),
        per_device_eval_batch_size=batch_size,
        learning_rate=learning_rate or suggested_learning_rate(model),
        weight_decay=weight_decay,
        evaluation_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=2,
        load_best_model_at_end=True,
        # macro F1 would jump with every example of a rare label
        metric_for_best_model="micro_f1",
        logging_steps=logging_steps,
        seed=seed,
        disable_tqdm=True,
        report_to=["visualdl"],
        **schedule,
        **({} if device is None else {"device": device}),
    )
    callbacks = list(callbacks)
    if early_stop is not None:
        callbacks.append(EarlyStoppingCallback(whole("early_stop", early_stop, 1)))
    features = [
        multi_label_features(examples, tokenizer, taxonomy, classifier.max_seq_length)
        for examples in (train_examples, dev_examples)
    ]
    began: dict[str, Any] = (
        {} if init_from_ckpt is None or checkpoint else {"weights": str(init_from_ckpt)}
    )
    with claim(save_dir, **place, **began) if first else nullcontext():
        trainer = CourseTrainer(
            model=model,
            criterion=paddle.nn.BCEWithLogitsLoss(),
            args=arguments,
            data_collator=DataCollatorWithPadding(tokenizer),
            train_dataset=features[0],
            eval_dataset=features[1],
            tokenizer=tokenizer,
            compute_metrics=micro_macro,
            callbacks=callbacks,
            group_by_length=True,
        )
        if checkpoint is True and not (save_dir / "config.json").is_file():
            # killed before the first one: from the start
            checkpoint = any(save_dir.glob(WHOLE)) or None
        trainer.train(resume_from_checkpoint=checkpoint)
        if not arguments.should_save:
            return None, {}
        model.eval()
        texts = [example["text"] for example in dev_examples]
        true = taxonomy.indicators([example["labels"] for example in dev_examples])
        probabilities = classifier.probabilities(texts, batch_size)
        classifier.thresholds = tune(probabilities, true, taxonomy)
        classifier.save(save_dir)
    tuned = decode(probabilities, taxonomy, classifier.thresholds)
    best = str(trainer.state.best_model_checkpoint or "").rpartition("-")[2]
    return classifier, {
        "best_step": int(best) if best.isdigit() else None,
        "dev": brief(true, probabilities >= 0.5),
        "dev_tuned": brief(true, tuned),
        "history": trainer.state.log_history,
    }


def brief(true: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Accuracy, micro F1 and macro F1, rounded for a JSON line."""
    figures = averages(true, predicted)
    return {
        "accuracy": round(figures["accuracy"], 4),
        "micro_f1": round(figures["micro"]["f1"], 4),
        "macro_f1": round(figures["macro"]["f1"], 4),
    }


def _start_at_shares(model: paddle.nn.Layer, true: np.ndarray) -> None:
    """Let a new head begin with each label's share of the training texts as its probability.

    A bias of 0 begins with one half for all, and the first hundreds of steps are spent on learning
    that most labels are rare. A head that has been trained stays as it is.
    """
    bias = getattr(getattr(model, "classifier", None), "bias", None)
    if bias is not None and not bool((bias != 0).any()):
        shares = (true.sum(axis=0) + 1) / (len(true) + 2)
        bias.set_value((np.log(shares) - np.log1p(-shares)).astype("float32"))


def _load_weights(model: paddle.nn.Layer, path: Path) -> None:
    """Begin with a file's weights; all of them must fit."""
    if not path.is_file():
        expected = f'a weight file, a checkpoint directory or "{NEWEST}"'
        raise InputError(path, "does not exist", expected)
    state = read_weights(path)
    shapes = {name: value.shape for name, value in state.items()}
    check_weights(path, shapes, shapes_of(model), "weights of this model with these labels")
    check_same_labels(model, path.parent)
    model.set_state_dict(state)
