"""What learns from few labels: with the whole backbone, on its features, or without one.

A *learner* is a function `(training examples, loss, seed) -> classifier`, a *classifier* a function
`examples -> probabilities [N, classes]`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...data import LengthGroupedBatchSampler, batchify_fn, convert_example, create_dataloader
from ...data.batching import map_by_length
from ...models import encoder_of, freeze_layers, load_backbone, suggested_learning_rate
from ...runtime import InputError, seed_everything
from ...training.loop import fit
from ...training.prediction import inference_mode
from ...training.task import predict

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.io import DataLoader
from paddlenlp.datasets import MapDataset
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

Loss = Callable[[paddle.Tensor, paddle.Tensor], paddle.Tensor]
Classifier = Callable[[Sequence[Mapping]], np.ndarray]
Learner = Callable[[MapDataset, Loss | None, int], Classifier]


@dataclass(frozen=True)
class Finetune:
    """A learner that fine-tunes the backbone for a fixed number of steps.

    A small training set is read more often than a large one.

    Args:
        steps: of the optimizer, each with `batch_size` examples.
        frozen: how many of the lowest layers, with the embeddings, do not learn.
        learning_rate: None takes the model's own suggestion.
    """

    steps: int = 100
    batch_size: int = 16
    max_seq_length: int = 64
    frozen: int = 0
    learning_rate: float | None = None

    def __call__(
        self, train: MapDataset, criterion: Loss | None = None, seed: int = 42
    ) -> Classifier:
        classes = _classes_of(train)
        seed_everything(seed)  # before the model: its head is random
        texts = [row["text"] for row in train]
        model, tokenizer = load_backbone(num_classes=classes, vocab_texts=texts)
        if self.frozen:
            freeze_layers(model, self.frozen)
        loader = create_dataloader(
            train, tokenizer, "train", self.batch_size, self.max_seq_length, seed=seed
        )
        rate = self.learning_rate or suggested_learning_rate(model)
        _fit(model, loader, self.steps, rate, criterion, seed)

        def classify(examples: Sequence[Mapping]) -> np.ndarray:
            texts = [row["text"] for row in examples]
            rows = predict(model, texts, tokenizer, max_seq_length=self.max_seq_length)
            return np.array([list(row["probabilities"].values()) for row in rows], "float32")

        return classify


class FrozenBackbone:
    """A learner that never changes the backbone: it trains one linear layer on its features.

    A text's features, the mean of its tokens' last hidden states, are computed once and kept; after
    that a training takes a second.

    Args:
        source: as for `load_backbone`.
        max_seq_length: tokens; longer texts are cut.
        steps: of training the linear layer, each with 32 examples.
    """

    def __init__(
        self, source: str | os.PathLike | None = None, max_seq_length: int = 64, steps: int = 100
    ) -> None:
        self.steps, self.max_seq_length = steps, max_seq_length
        model, self.tokenizer = load_backbone(source)
        self.encoder = encoder_of(model)
        self._known: dict[str, np.ndarray] = {}

    def features(self, examples: Sequence[Mapping]) -> np.ndarray:
        """float32 [N, hidden size], one row per example, in their order."""
        texts = [row["text"] for row in examples]
        new = sorted(set(texts) - set(self._known))
        rows = [
            convert_example({"text": text}, self.tokenizer, self.max_seq_length, True)
            for text in new
        ]
        with inference_mode(self.encoder):
            means = map_by_length(self._means, rows, 32, length=lambda row: len(row[0]))
        self._known.update(zip(new, means, strict=True))
        return np.stack([self._known[text] for text in texts])

    def _means(self, rows: list[tuple]) -> np.ndarray:
        batch = batchify_fn(self.tokenizer, is_test=True)(rows)
        ids, types = map(paddle.to_tensor, batch)
        states, _ = self.encoder(ids, types)
        real = (ids != self.tokenizer.pad_token_id).astype("float32").unsqueeze(-1)
        return ((states * real).sum(axis=1) / real.sum(axis=1)).numpy()

    def __call__(
        self, train: MapDataset, criterion: Loss | None = None, seed: int = 42
    ) -> Classifier:
        classes = _classes_of(train)
        labels = np.array([row["label"] for row in train], "int64")
        values = self.features(train)
        # Rows of length about 1: otherwise the many weights move long before the bias, which holds
        # how frequent the classes are.
        middle, spread = values.mean(axis=0), values.std(axis=0) + 1e-6
        spread = spread * np.sqrt(values.shape[1], dtype="float32")
        pairs = list(zip((values - middle) / spread, labels, strict=True))
        # Start at 0: random weights would be noise that the steps must undo first.
        zero = paddle.nn.initializer.Constant(0.0)
        head = paddle.nn.Linear(values.shape[1], classes, weight_attr=zero, bias_attr=zero)
        batches = LengthGroupedBatchSampler([0] * len(pairs), 32, seed=seed)
        loader = DataLoader(pairs, batch_sampler=batches, return_list=True)
        _fit(head, loader, self.steps, 0.05, criterion, seed)

        def classify(examples: Sequence[Mapping]) -> np.ndarray:
            with inference_mode(head):
                rows = (self.features(examples) - middle) / spread
                return F.softmax(head(paddle.to_tensor(rows)), axis=-1).numpy()

        return classify


def tfidf_learner(train: MapDataset, criterion: Loss | None = None, seed: int = 42) -> Classifier:
    """A learner without a backbone: TF-IDF of 1 to 3 characters and a logistic regression.

    Raises:
        InputError: a `criterion` is given: a logistic regression has its own loss.
    """
    if criterion is not None:
        raise InputError("criterion", "is given", "None: a logistic regression has its own loss")
    model = make_pipeline(
        TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True),
        LogisticRegression(C=10.0, max_iter=1000, random_state=seed),
    )
    model.fit([row["text"] for row in train], [row["label"] for row in train])
    known, classes = model[-1].classes_, _classes_of(train)

    def classify(examples: Sequence[Mapping]) -> np.ndarray:
        # A class without training examples has probability 0.
        probabilities = np.zeros((len(examples), classes))
        probabilities[:, known] = model.predict_proba([row["text"] for row in examples])
        return probabilities

    return classify


def _fit(model, loader, steps: int, rate: float, criterion: Loss | None, seed: int) -> None:
    options: Any = {"max_steps": steps, "learning_rate": rate, "seed": seed, "progress": False}
    fit(model, loader, epochs=-(-steps // len(loader)), criterion=criterion, **options)


def _classes_of(dataset: MapDataset) -> int:
    labels = (row["label"] for row in dataset)
    return max(1 + max(labels), len(getattr(dataset, "label_list", None) or ()))
