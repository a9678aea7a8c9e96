"""Taggers of characters, with a CRF or without: one interface, training and prediction for all.

FAQ: is a pretrained model with a CRF on top the way to extract entities, and how is it done?
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.data import LengthGroupedBatchSampler, convert_tokens_example
from course_lib.data.spans import bio_ids, bio_types
from course_lib.models import freeze_layers, suggested_learning_rate
from course_lib.models.backbone import check_head
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError, seed_everything
from course_lib.runtime.errors import finite, whole
from course_lib.tasks.tagging.crf import Crf
from course_lib.training import span_counts, span_scores
from course_lib.training.prediction import check_scores, inference_mode
from course_lib.training.steps import train_steps

import numpy as np
import paddle
import pandas as pd
from paddle import nn
from paddlenlp.data import Pad
from paddlenlp.datasets import MapDataset
from paddlenlp.transformers import AutoModelForTokenClassification, AutoTokenizer


class Tagger(nn.Layer):
    """What every tagger here is: ids in, one score a token and label out, then a CRF or none.

    A subclass gives `encode` and `emissions`.

    Args:
        label_list: names of the labels in the order of their ids.
        crf: over the emissions; None decides each token by itself.
        longest: tokens that a sentence may have; None when there is no bound.
    """

    pad_id = 0

    def __init__(
        self, label_list: Sequence[str], crf: Crf | None, longest: int | None = None
    ) -> None:
        super().__init__()
        if isinstance(label_list, str) or len(set(label_list)) != len(label_list):
            raise InputError("label_list", f"is {label_list!r:.60}", "names, each once")
        if crf is not None and crf.num_tags != len(label_list):
            problem = f"has {crf.num_tags} labels"
            raise InputError("crf", problem, f"{len(label_list)}, those of label_list")
        self.label_list = list(label_list)
        self.longest = longest
        self.crf = crf

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """The ids that `emissions` reads, for the tokens of one sentence."""
        raise NotImplementedError

    def emissions(self, input_ids: paddle.Tensor, lengths: paddle.Tensor) -> paddle.Tensor:
        """Scores float32 [N, L, K] of padded ids; row i has `lengths[i]` tokens, L the most."""
        raise NotImplementedError

    def forward(
        self,
        input_ids: paddle.Tensor,
        lengths: paddle.Tensor,
        labels: paddle.Tensor | None = None,
    ) -> paddle.Tensor:
        """Emissions, or with labels the loss.

        Args:
            input_ids: int64 [N, ids of the longest sentence], rows of `encode`, padded.
            lengths: int64 [N], tokens of each sentence.
            labels: int64 [N, L], 0 where padded.

        Returns:
            float32 [N, L, K]; with labels the loss in nats a token, with a CRF and without, so that
            one learning rate fits both.
        """
        emissions = self.emissions(input_ids, lengths)
        if labels is None:
            return emissions
        if self.crf is not None:
            return self.crf.loss(emissions, lengths, labels).sum() / lengths.sum().astype("float32")
        real = (paddle.arange(labels.shape[1]).unsqueeze(0) < lengths.unsqueeze(1)).flatten()
        losses = nn.functional.cross_entropy(
            emissions.flatten(0, 1), labels.flatten(), reduction="none"
        ).flatten()
        return (losses * real.astype("float32")).sum() / lengths.sum().astype("float32")

    def decode(self, emissions: paddle.Tensor, lengths: paddle.Tensor) -> list[list[int]]:
        """Label ids of each sentence: the best row for a CRF, else the best label of each token."""
        if self.crf is None:
            best = emissions.argmax(axis=-1)
        else:
            best = self.crf.decode(emissions, lengths)
        return [row[:length] for row, length in zip(best.tolist(), lengths.tolist(), strict=True)]


class BackboneTagger(Tagger):
    """A pretrained encoder with a linear layer, and a CRF over it when asked for.

    Args:
        model: a PaddleNLP model for token classification, which gives logits [N, L, K]; such as
            `AutoModelForTokenClassification.from_pretrained(directory, num_classes=K)`.
        tokenizer: the model's.
        label_list: names of the K labels.
        crf: put a CRF on top.
        crf_lr: the transitions begin at 0, an encoder's learning rate is too small for them.

    Raises:
        InputError: another number of labels than the model has.
    """

    def __init__(
        self,
        model: nn.Layer,
        tokenizer,
        label_list: Sequence[str],
        crf: bool = True,
        crf_lr: float = 30.0,
    ) -> None:
        if model.config.num_labels != len(label_list):
            problem = f"has {len(label_list)} names"
            raise InputError("label_list", problem, f"{model.config.num_labels}, as the model")
        longest = model.config.max_position_embeddings - 2
        super().__init__(label_list, Crf(len(label_list), crf_lr) if crf else None, longest)
        self.model = model
        self.tokenizer = tokenizer
        self.pad_id = tokenizer.pad_token_id

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """[CLS], an id a token, [SEP]."""
        example = {"tokens": list(tokens)}
        return convert_tokens_example(example, self.tokenizer, len(tokens) + 2, is_test=True)[0]

    def emissions(self, input_ids: paddle.Tensor, lengths: paddle.Tensor) -> paddle.Tensor:
        """As for `Tagger`. A CRF that saw [CLS] and [SEP] would need labels for them."""
        return self.model(input_ids)[:, 1:-1]


def train_tagger(
    tagger: Tagger,
    dataset: Sequence[Mapping[str, Any]],
    epochs: int = 1,
    batch_size: int = 16,
    learning_rate: float = 3e-4,
    max_length: int = 128,
    max_steps: int | None = None,
    weight_decay: float = 0.01,
    seed: int = 42,
    progress: bool = False,
) -> list[float]:
    """Train a tagger, and go on training one that has been trained.

    Args:
        dataset: examples `{"tokens": list[str], "labels": list[int]}`, ids of `tagger.label_list`.
        epochs, batch_size: sentences of like length share a batch.
        learning_rate: AdamW's at its peak, after a tenth of the steps; then it falls to 0.
        max_length: tokens; what is longer is cut at its end.
        max_steps: stop after so many.
        seed: of the order and of dropout.
        progress: show a bar.

    Returns:
        The loss of each step, in nats a token.

    Raises:
        InputError: no examples, or one without tokens, with another number of labels than of
            tokens or a label that there is not; an argument out of bounds; the loss becomes
            infinite.
    """
    epochs, batch_size = whole("epochs", epochs, 1), whole("batch_size", batch_size, 1)
    max_length = whole("max_length", max_length, 1)
    learning_rate = finite("learning_rate", learning_rate, 0)
    weight_decay = finite("weight_decay", weight_decay)
    if weight_decay < 0:
        raise InputError("weight_decay", f"is {weight_decay}", "at least 0")
    seed = whole("seed", seed, 0, 2**32 - 1)
    rows = _labelled_rows(tagger, dataset, min(max_length, tagger.longest or max_length))
    sampler = LengthGroupedBatchSampler(
        [len(labels) for _, labels in rows], batch_size, shuffle=True, seed=seed
    )
    steps = len(sampler) * epochs
    if max_steps is not None:
        steps = min(steps, whole("max_steps", max_steps, 1))

    def batches() -> Iterator[list[int]]:
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            yield from sampler

    def loss_of(chosen: list[int]) -> paddle.Tensor:
        return tagger(*_batch(tagger, [rows[index] for index in chosen]))

    return train_steps(
        tagger, batches(), loss_of, steps, learning_rate, weight_decay, seed, progress
    )


def predict_tags(
    tagger: Tagger, sentences: Sequence[Sequence[str]], batch_size: int = 32
) -> list[list[int]]:
    """Label ids of each token.

    Args:
        sentences: a text, or a list of tokens, each; sentences of like length share a batch.

    Returns:
        A row for each sentence in the order given, one id a token; no ids for an empty one.

    Raises:
        InputError: `sentences` is one text, holds something else, or one is longer than the model
            reads; a batch_size below 1.
    """
    batch_size = whole("batch_size", batch_size, 1)
    if isinstance(sentences, (str, bytes)):
        raise InputError("sentences", "is one text", "a list of texts")
    if not isinstance(sentences, Iterable) or isinstance(sentences, Mapping):
        raise InputError("sentences", f"is a {type(sentences).__name__}", "a list of texts")
    sentences = list(sentences)
    for place, sentence in enumerate(sentences, start=1):
        if not isinstance(sentence, (str, list, tuple)):
            problem = f"number {place} is of type {type(sentence).__name__}"
            raise InputError("sentences", problem, "a text or a list of tokens")
        if tagger.longest is not None and len(sentence) > tagger.longest:
            problem = f"number {place} has {len(sentence)} tokens"
            raise InputError("sentences", problem, f"at most {tagger.longest}")
    order = sorted((i for i, row in enumerate(sentences) if row), key=lambda i: len(sentences[i]))
    results: list[list[int]] = [[] for _ in sentences]
    with inference_mode(tagger):
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            rows = [(tagger.encode(sentences[i]), [0] * len(sentences[i])) for i in chosen]
            input_ids, lengths, _ = _batch(tagger, rows)
            emissions = tagger(input_ids, lengths)
            check_scores(emissions)
            found = tagger.decode(emissions, lengths)
            for index, labels in zip(chosen, found, strict=True):
                results[index] = labels
    return results


def entity_scores(
    tagger: Tagger, dataset: Sequence[Mapping[str, Any]], batch_size: int = 32
) -> dict[str, dict[str, float]]:
    """`span_scores` of a tagger with labels O, B-X, I-X, ..., and how many labels make no sense.

    Returns:
        What `course_lib.training.span_scores` gives, with `scores["all"]["broken"]`: the labels I-X
        that continue no X. A CRF learns that there are none; each token by itself cannot know.

    Raises:
        InputError: as for `predict_tags`; labels that are not BIO.
    """
    bio_types(tagger.label_list)
    dataset = _checked("dataset", dataset, len(tagger.label_list), unlabelled=True)
    found = predict_tags(tagger, [example["tokens"] for example in dataset], batch_size)
    scores = span_scores([example["labels"] for example in dataset], found, tagger.label_list)
    scores["all"]["broken"] = sum(broken_labels(row, tagger.label_list) for row in found)
    return scores


def broken_labels(labels: Sequence[int], label_list: Sequence[str] | None = None) -> int:
    """How many I- of a row of BIO ids continue nothing; `label_list` as for `bio_spans`.

    An I- after one that continues nothing continues that one.
    """
    labels = labels if label_list is None else bio_ids(labels, label_list).tolist()
    pairs = zip([0, *labels], labels, strict=False)
    return sum(here > 0 and here % 2 == 0 and last not in (here - 1, here) for last, here in pairs)


def bio_rules(label_list: Sequence[str]) -> np.ndarray:
    """Transitions for a `Crf` that learns nothing, and decodes so that no I- is without its B-.

    Returns:
        float32 [labels, labels]: 0, but -10,000 from a label to an I-X that is neither B-X nor I-X.
        (The first label of a sentence has no label before it: it may still be an I-.)

    Raises:
        InputError: as for `entity_scores`.
    """
    bio_types(label_list)
    inside = np.array([label.startswith("I-") for label in label_list])
    same = np.array([[before[1:] == after[1:] for after in label_list] for before in label_list])
    return np.where(inside & ~same, -1e4, 0).astype("float32")


@dataclass(frozen=True)
class CrfComparison:
    """What `compare_crf` found; the keys are "without" and "with" a CRF.

    Attributes:
        scores: a row each, with the columns precision, recall, f1, right, found, true, broken.
        counts: int64 [sentences, 3] each, right, found and true entities of each sentence of dev,
            as `paired_bootstrap_f1` takes them; those of several seeds may be added.
        losses: of each training step, in nats a token.
        taggers: as trained.
    """

    scores: pd.DataFrame
    counts: dict[str, np.ndarray]
    losses: dict[str, list[float]]
    taggers: dict[str, BackboneTagger]


def compare_crf(
    train: Sequence[Mapping[str, Any]],
    dev: Sequence[Mapping[str, Any]],
    label_list: Sequence[str],
    backbone: str | os.PathLike,
    seed: int = 42,
    learning_rate: float | None = None,
    frozen_layers: int = 0,
    **settings: Any,
) -> CrfComparison:
    """Train a pretrained encoder twice from the same seed, without a CRF and with one, and score.

    Both begin with the same random weights of the head, and see the same sentences in the same
    order with the same dropout; the transitions begin at 0. So nothing differs but the CRF.

    Args:
        train, dev: examples `{"tokens": list[str], "labels": list[int]}`.
        label_list: names of the labels: O, B-X, I-X, B-Y, ... in any order.
        backbone: a directory or a name of PaddleNLP's hub.
        learning_rate: None takes the one that the backbone suggests.
        frozen_layers: of the encoder, from below; see `freeze_layers`.
        settings: others of `train_tagger`, such as epochs, batch_size, max_length, max_steps.

    Raises:
        InputError: as for `train_tagger` and `entity_scores`; an empty dev; no such backbone.
    """
    bio_types(label_list)
    seed = whole("seed", seed, 0, 2**32 - 1)
    train = _checked("train", train, len(label_list))
    dev = _checked("dev", dev, len(label_list), unlabelled=True)
    if not dev:
        raise InputError("dev", "is empty", "at least one example")
    gold = [example["labels"] for example in dev]
    rows, counts, losses, taggers = {}, {}, {}, {}
    for name, crf in (("without", False), ("with", True)):
        seed_everything(seed)  # the head's weights
        try:
            with quiet_paddlenlp():
                model = AutoModelForTokenClassification.from_pretrained(
                    str(backbone), num_classes=len(label_list), ignore_mismatched_sizes=True
                )
                tokenizer = AutoTokenizer.from_pretrained(str(backbone))
            check_head(model, backbone, label_list)
        except OSError as error:
            problem = f"cannot be loaded ({str(error).splitlines()[0]:.80})"
            raise InputError(backbone, problem, "a directory or a hub's name") from None
        freeze_layers(model, frozen_layers)
        tagger = BackboneTagger(model, tokenizer, label_list, crf)
        rate = suggested_learning_rate(model) if learning_rate is None else learning_rate
        losses[name] = train_tagger(tagger, train, learning_rate=rate, seed=seed, **settings)
        found = predict_tags(tagger, [example["tokens"] for example in dev])
        broken = sum(broken_labels(row, label_list) for row in found)
        rows[name] = span_scores(gold, found, label_list)["all"] | {"broken": broken}
        counts[name] = span_counts(gold, found, label_list).sum(axis=1)
        taggers[name] = tagger
    return CrfComparison(pd.DataFrame(rows).T, counts, losses, taggers)


def _labelled_rows(
    tagger: Tagger, dataset: Sequence[Mapping[str, Any]], longest: int
) -> list[tuple[list[int], list[int]]]:
    """Ids and labels of each example, checked before anything is computed."""
    dataset = _checked("dataset", dataset, len(tagger.label_list))
    if not dataset:
        raise InputError("dataset", "is empty", "at least one example")
    return [
        (tagger.encode(example["tokens"][:longest]), example["labels"][:longest])
        for example in dataset
    ]


def _checked(
    name: str, dataset: Iterable[Mapping[str, Any]], num_labels: int, unlabelled: bool = False
) -> list[dict[str, list]]:
    """Tokens and labels of each example as lists; `unlabelled` lets labels below 0 pass."""
    if not isinstance(dataset, Iterable | MapDataset):  # a MapDataset has no __iter__
        raise InputError(name, f"is a {type(dataset).__name__}", "a list of examples")
    rows = []
    for place, example in enumerate(dataset, start=1):
        where = f"{name}, example {place}"
        row = {}
        for key in ("tokens", "labels"):
            value = example.get(key) if isinstance(example, Mapping) else None
            if not isinstance(value, Iterable) or (key == "labels" and isinstance(value, str)):
                raise InputError(where, f"has no list of {key}", "a dict with tokens and labels")
            row[key] = list(value)
        if not row["tokens"] or len(row["tokens"]) != len(row["labels"]):
            problem = f"has {len(row['tokens'])} tokens and {len(row['labels'])} labels"
            raise InputError(where, problem, "a label for each token, one at least")
        least = -math.inf if unlabelled else 0
        row["labels"] = [
            whole(f"{where}: label", label, least, num_labels - 1) for label in row["labels"]
        ]
        rows.append(row)
    return rows


def _batch(
    tagger: Tagger, rows: Sequence[tuple[list[int], list[int]]]
) -> tuple[paddle.Tensor, paddle.Tensor, paddle.Tensor]:
    ids = Pad(pad_val=tagger.pad_id, dtype="int64")([ids for ids, _ in rows])
    labels = Pad(pad_val=0, dtype="int64")([labels for _, labels in rows])
    lengths = np.array([len(labels) for _, labels in rows], dtype="int64")
    return paddle.to_tensor(ids), paddle.to_tensor(lengths), paddle.to_tensor(labels)
