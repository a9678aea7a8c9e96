"""Taggers of characters, with a CRF or without: one interface, training and prediction for all.

FAQ: should a CRF go on top of a pretrained model to extract entities, and how?
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...data import LengthGroupedBatchSampler, convert_tokens_example
from ...data.batching import map_by_length
from ...data.spans import bio_ids
from ...runtime import InputError
from ...runtime.errors import positive
from ...training import span_scores
from ...training.prediction import check_scores, inference_mode
from ...training.steps import train_steps
from .crf import Crf

import numpy as np
import paddle
from paddle import nn
from paddlenlp.data import Pad


class Tagger(nn.Layer):
    """The interface of every tagger: ids in, a score per token and label out, then a CRF or none.

    A subclass implements `encode` and `emissions`.

    Args:
        label_list: names of the labels in the order of their ids.
        crf: over the emissions; None decides each token by itself.
        max_tokens: of a sentence; None when there is no limit.
    """

    pad_id = 0

    def __init__(
        self, label_list: Sequence[str], crf: Crf | None, max_tokens: int | None = None
    ) -> None:
        super().__init__()
        self.label_list = list(label_list)
        self.max_tokens = max_tokens
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
            float32 [N, L, K]; with labels the loss in nats per token, with and without a CRF, so
            that one learning rate fits both.
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
        """Label ids of each sentence: the best sequence; without a CRF each token's best label."""
        if self.crf is None:
            best = emissions.argmax(axis=-1)
        else:
            best = self.crf.decode(emissions, lengths)
        return [row[:length] for row, length in zip(best.tolist(), lengths.tolist(), strict=True)]


class BackboneTagger(Tagger):
    """A pretrained encoder with a linear layer, and optionally a CRF on top.

    Args:
        model: a PaddleNLP model for token classification with logits [N, L, K], such as
            `AutoModelForTokenClassification.from_pretrained(directory, num_classes=K)`.
        tokenizer: the model's.
        label_list: names of the K labels.
        crf: put a CRF on top.
        crf_lr: of the CRF; its transitions start at 0, and an encoder's learning rate is too small
            for them.
    """

    def __init__(
        self,
        model: nn.Layer,
        tokenizer,
        label_list: Sequence[str],
        crf: bool = True,
        crf_lr: float = 30.0,
    ) -> None:
        if len(label_list) != model.config.num_labels:
            expected = f"{model.config.num_labels}, as the model has"
            raise InputError("label_list", f"holds {len(label_list)} labels", expected)
        max_tokens = model.config.max_position_embeddings - 2  # [CLS] and [SEP]
        super().__init__(label_list, Crf(len(label_list), crf_lr) if crf else None, max_tokens)
        self.model = model
        self.tokenizer = tokenizer
        self.pad_id = tokenizer.pad_token_id

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """[CLS], one id per token, [SEP]."""
        example = {"tokens": list(tokens)}
        return convert_tokens_example(example, self.tokenizer, len(tokens) + 2, is_test=True)[0]

    def emissions(self, input_ids: paddle.Tensor, lengths: paddle.Tensor) -> paddle.Tensor:
        """As for `Tagger`, without [CLS] and [SEP], which have no labels."""
        return self.model(input_ids)[:, 1:-1]


def train_tagger(
    tagger: Tagger,
    dataset: Sequence[Mapping[str, Any]],
    epochs: int = 1,
    batch_size: int = 16,
    learning_rate: float = 3e-4,
    max_length: int = 128,
    max_steps: int | None = None,
    seed: int = 42,
    progress: bool = False,
) -> list[float]:
    """Train a tagger, or continue training one.

    Args:
        dataset: examples `{"tokens": list[str], "labels": list[int]}`, ids of `tagger.label_list`.
        batch_size: sentences of similar length share a batch.
        learning_rate: AdamW's peak, after a tenth of the steps; then it falls to 0.
        max_length: tokens; longer sentences are cut.
        max_steps: stop after this many.
        seed: of the order and of dropout.

    Returns:
        The loss of each step, in nats per token.

    Raises:
        InputError: an example whose numbers of tokens and labels differ or are 0, or with an
            unknown label (Paddle would compute something all the same); a dataset with another
            `label_list`; a number of epochs, steps or sentences below 1; the loss is no longer
            finite.
    """
    _check_labels(tagger, dataset)
    positive(epochs=epochs, batch_size=batch_size, max_steps=max_steps, max_length=max_length)
    longest = min(max_length, tagger.max_tokens or max_length)
    rows = []
    for number, example in enumerate(dataset, start=1):
        tokens, labels = example["tokens"], example["labels"]
        if not 0 < len(tokens) == len(labels):
            problem = f"has {len(tokens)} tokens and {len(labels)} labels"
            raise InputError(f"dataset, example {number}", problem, "one label per token")
        if not 0 <= min(labels) <= max(labels) < len(tagger.label_list):
            problem = f"has labels from {min(labels)} to {max(labels)}"
            expected = f"0 to {len(tagger.label_list) - 1}"
            raise InputError(f"dataset, example {number}", problem, expected)
        rows.append((tagger.encode(tokens[:longest]), labels[:longest]))
    sampler = LengthGroupedBatchSampler(
        [len(labels) for _, labels in rows], batch_size, shuffle=True, seed=seed
    )
    steps = len(sampler) * epochs
    steps = min(steps, max_steps or steps)

    def batches() -> Iterator[list[int]]:
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            yield from sampler

    def loss_of(chosen: list[int]) -> paddle.Tensor:
        return tagger(*_batch(tagger, [rows[index] for index in chosen]))

    return train_steps(
        tagger, batches(), loss_of, steps, learning_rate, seed=seed, progress=progress
    )


def predict_tags(
    tagger: Tagger, sentences: Sequence[Sequence[str]], batch_size: int = 32
) -> list[list[int]]:
    """Label ids of each token, one list per sentence; no ids for an empty one.

    Args:
        sentences: texts, or lists of tokens; those of similar length share a batch.

    Raises:
        InputError: a sentence is longer than the model reads; one text instead of several.
    """
    if isinstance(sentences, str):  # its characters would be tagged one by one
        raise InputError("sentences", "are one text", "a list of texts")
    sentences = list(sentences)
    for number, sentence in enumerate(sentences, start=1):
        if tagger.max_tokens is not None and len(sentence) > tagger.max_tokens:
            problem = f"number {number} has {len(sentence)} tokens"
            raise InputError("sentences", problem, f"at most {tagger.max_tokens}")

    def run(batch: list[Sequence[str]]) -> list[list[int]]:
        rows = [(tagger.encode(sentence), [0] * len(sentence)) for sentence in batch]
        input_ids, lengths, _ = _batch(tagger, rows)
        emissions = tagger(input_ids, lengths)
        check_scores(emissions)
        return tagger.decode(emissions, lengths)

    with inference_mode(tagger):
        labels = iter(map_by_length(run, [row for row in sentences if row], batch_size))
    return [next(labels) if sentence else [] for sentence in sentences]


def entity_scores(
    tagger: Tagger,
    dataset: Sequence[Mapping[str, Any]],
    predicted: Sequence[Sequence[int]] | None = None,
) -> dict[str, dict[str, float]]:
    """`span_scores` of a tagger with BIO labels, and how many labels make no sense.

    Args:
        predicted: what `predict_tags` returned for the dataset; None predicts.

    Returns:
        What `course_lib.training.span_scores` returns, with `scores["all"]["broken"]`: the number
        of labels I-X that continue no X. A CRF learns to avoid them; a tagger that decides each
        token by itself cannot.
    """
    _check_labels(tagger, dataset)
    if predicted is None:
        predicted = predict_tags(tagger, [example["tokens"] for example in dataset])
    scores = span_scores([example["labels"] for example in dataset], predicted, tagger.label_list)
    rows = (bio_ids(row, tagger.label_list).tolist() for row in predicted)
    scores["all"]["broken"] = sum(_broken(row) for row in rows)
    return scores


def _check_labels(tagger: Tagger, dataset: Sequence[Mapping[str, Any]]) -> None:
    label_list = getattr(dataset, "label_list", None) or tagger.label_list
    if list(label_list) != tagger.label_list:  # the ids mean other labels
        expected = f"the tagger's, {tagger.label_list!r:.60}"
        raise InputError("dataset", f"has the label_list {label_list!r:.60}", expected)


def _broken(labels: Sequence[int]) -> int:
    """How many I- of a row of BIO ids, in the order of `bio_ids`, continue nothing."""
    pairs = zip([0, *labels], labels, strict=False)
    return sum(here > 0 and here % 2 == 0 and last not in (here - 1, here) for last, here in pairs)


def _batch(
    tagger: Tagger, rows: Sequence[tuple[list[int], list[int]]]
) -> tuple[paddle.Tensor, paddle.Tensor, paddle.Tensor]:
    ids = Pad(pad_val=tagger.pad_id, dtype="int64")([ids for ids, _ in rows])
    labels = Pad(pad_val=0, dtype="int64")([labels for _, labels in rows])
    lengths = np.array([len(labels) for _, labels in rows], dtype="int64")
    return paddle.to_tensor(ids), paddle.to_tensor(lengths), paddle.to_tensor(labels)
