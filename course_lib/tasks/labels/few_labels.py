"""Answers about labels: what learns from them, and how many are enough.

A *learner* is a function `(training examples, loss, seed) -> classifier`, a *classifier* a function
`examples -> probabilities [N, classes]`. `Finetune`, `FrozenBackbone`, `tfidf_learner` are three;
the functions that compare take any other just as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from course_lib.data import (
    LengthGroupedBatchSampler,
    batchify_fn,
    convert_example,
    create_dataloader,
)
from course_lib.models import encoder_of, freeze_layers, load_backbone, suggested_learning_rate
from course_lib.runtime import InputError, seed_everything
from course_lib.runtime.errors import finite, whole
from course_lib.training.loop import fit
from course_lib.training.prediction import inference_mode, predict

import numpy as np
import paddle
import paddle.nn.functional as F
import pandas as pd
from paddle.io import DataLoader
from paddlenlp.datasets import MapDataset
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

Loss = Callable[[paddle.Tensor, paddle.Tensor], paddle.Tensor]
Classifier = Callable[[Sequence[Mapping]], np.ndarray]
Learner = Callable[[MapDataset, Loss | None, int], Classifier]

# ---- learners


@dataclass(frozen=True)
class Finetune:
    """A learner that fine-tunes the backbone for a fixed number of steps, however many examples.

    So two training sets of different size cost the same, and a small one is read more often.

    Args:
        steps: of the optimizer, each with `batch_size` examples.
        frozen: the embeddings and so many of the lowest layers do not learn; see `freeze_layers`.
        learning_rate: None takes the model's own suggestion.
        source: as for `load_backbone`: None is the course's backbone, "fresh" random weights.
    """

    steps: int = 100
    batch_size: int = 16
    max_seq_length: int = 64
    frozen: int = 0
    learning_rate: float | None = None
    source: str | os.PathLike | None = None

    def __call__(
        self, train: MapDataset, criterion: Loss | None = None, seed: int = 42
    ) -> Classifier:
        classes = 1 + max(max(labels_of(train)), len(train.label_list or ()) - 1)
        seed_everything(seed)  # before the model: its head is random
        model, tokenizer = load_backbone(
            self.source, num_classes=classes, vocab_texts=texts_of(train, "train")
        )
        if self.frozen:
            freeze_layers(model, self.frozen)
        loader = create_dataloader(
            train, tokenizer, "train", self.batch_size, self.max_seq_length, seed=seed
        )
        fit(
            model,
            loader,
            epochs=-(-whole("steps", self.steps, 1) // len(loader)),
            max_steps=self.steps,
            learning_rate=self.learning_rate or suggested_learning_rate(model),
            seed=seed,
            criterion=criterion,
            progress=False,
        )

        def classify(examples: Sequence[Mapping]) -> np.ndarray:
            names = range(classes)
            rows = predict(model, examples, tokenizer, names, 32, self.max_seq_length)
            return np.array([list(row["probabilities"].values()) for row in rows])

        return classify


class FrozenBackbone:
    """A learner that never changes the backbone: it trains one linear layer on its features.

    The features of a text are the mean of its tokens' last hidden states. They are always the
    same, so they are computed once and kept; after that a training costs a second. Fine-tuning is
    better where there are enough labels, and dearer.

    Args:
        source: as for `load_backbone`.
        max_seq_length: tokens; longer texts are cut.
        steps, batch_size, learning_rate: of the linear layer.

    Raises:
        InputError: as `load_backbone`.
    """

    def __init__(
        self,
        source: str | os.PathLike | None = None,
        max_seq_length: int = 64,
        steps: int = 100,
        batch_size: int = 32,
        learning_rate: float = 0.05,
    ) -> None:
        self.steps, self.learning_rate = whole("steps", steps, 1), learning_rate
        self.max_seq_length, self.batch_size = max_seq_length, batch_size
        model, self.tokenizer = load_backbone(source)
        self.encoder = encoder_of(model)
        self._known: dict[str, np.ndarray] = {}

    def features(self, examples: Sequence[Mapping]) -> np.ndarray:
        """float32 [N, hidden size], one row an example, in their order."""
        texts = texts_of(examples, "examples")
        new = sorted(set(texts) - set(self._known), key=len)
        batchify = batchify_fn(self.tokenizer, is_test=True)
        with inference_mode(self.encoder):
            for start in range(0, len(new), 32):  # texts of like length, so little padding
                batch = new[start : start + 32]
                rows = [
                    convert_example({"text": one}, self.tokenizer, self.max_seq_length, True)
                    for one in batch
                ]
                ids, types = (paddle.to_tensor(part) for part in batchify(rows))
                states, _ = self.encoder(ids, types)
                real = (ids != self.tokenizer.pad_token_id).astype("float32").unsqueeze(-1)
                means = (states * real).sum(axis=1) / real.sum(axis=1)
                self._known.update(zip(batch, means.numpy(), strict=True))
        return np.stack([self._known[text] for text in texts])

    def __call__(
        self, train: MapDataset, criterion: Loss | None = None, seed: int = 42
    ) -> Classifier:
        labels = labels_of(train)
        classes = 1 + max(max(labels), len(train.label_list or ()) - 1)
        values = self.features(train)
        # Rows of length 1 or so: else the many weights run away before the bias, which alone can
        # say how frequent the classes are, has moved.
        middle, spread = values.mean(axis=0), values.std(axis=0) + 1e-6
        spread = spread * np.sqrt(values.shape[1], dtype="float32")
        pairs = list(zip((values - middle) / spread, np.array(labels, "int64"), strict=True))
        # From 0 on: random weights on so many features would be noise that steps must first undo.
        zero = paddle.nn.initializer.Constant(0.0)
        head = paddle.nn.Linear(values.shape[1], classes, weight_attr=zero, bias_attr=zero)
        batches = LengthGroupedBatchSampler([0] * len(pairs), self.batch_size, seed=seed)
        loader = DataLoader(pairs, batch_sampler=batches, return_list=True)
        fit(
            head,
            loader,
            epochs=-(-self.steps // len(loader)),
            max_steps=self.steps,
            learning_rate=self.learning_rate,
            seed=seed,
            criterion=criterion,
            progress=False,
        )

        def classify(examples: Sequence[Mapping]) -> np.ndarray:
            with inference_mode(head):
                rows = (self.features(examples) - middle) / spread
                return F.softmax(head(paddle.to_tensor(rows)), axis=-1).numpy()

        return classify


def tfidf_learner(train: MapDataset, criterion: Loss | None = None, seed: int = 42) -> Classifier:
    """A learner without a backbone: TF-IDF of 1 to 3 characters and a logistic regression.

    Raises:
        InputError: a `criterion` other than None: this model has its own loss; fewer than two
            classes among the examples.
    """
    if criterion is not None:
        raise InputError("criterion", "is given", "None: a logistic regression has its own loss")
    seed = whole("seed", seed, 0, 2**32 - 1)
    if len(by_class(train, "train")) < 2:
        raise InputError("train", "has one class", "examples of two at least")
    model = make_pipeline(
        TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True),
        LogisticRegression(C=10.0, max_iter=1000, random_state=seed),
    )
    model.fit(texts_of(train, "train"), labels_of(train))
    known = model[-1].classes_
    classes = 1 + max(known.max(), len(getattr(train, "label_list", None) or ()) - 1)

    def classify(examples: Sequence[Mapping]) -> np.ndarray:
        found = np.zeros((len(examples), classes))  # a class without examples has probability 0
        if len(examples):
            found[:, known] = model.predict_proba(texts_of(examples, "examples"))
        return found

    return classify


# ---- how many labels


def labelled_subset(dataset: MapDataset, size: int, seed: int = 42) -> MapDataset:
    """`size` examples, as many of each class as can be; a larger subset holds the smaller ones.

    Raises:
        InputError: fewer examples than asked for, or less than one for each class.
    """
    groups = by_class(dataset)
    size = whole("size", size, len(groups), len(dataset))
    random = np.random.RandomState(whole("seed", seed, 0, 2**32 - 1))
    places = np.full(len(dataset), len(dataset))
    for rows in groups.values():
        places[random.permutation(rows)] = np.arange(len(rows))
    chosen = np.argsort(places, kind="stable")[:size]
    return take(dataset, np.sort(chosen))


def learning_curve(
    learners: Mapping[str, Learner],
    train: MapDataset,
    test: MapDataset,
    sizes: Sequence[int],
    seed: int = 42,
    progress: Callable[[str], object] | None = None,
) -> pd.DataFrame:
    """Train each learner on subsets of rising size, and look at the same test examples each time.

    Args:
        learners: by name.
        sizes: examples of `train`; each subset is balanced and holds the smaller ones.
        seed: of the draw and of the training.
        progress: called with the name and the size before each training.

    Returns:
        Booleans, a row for each (learner, size) and a column a test example: whether it was
        right. `curve_points` makes points of them; two rows go into `paired_bootstrap`.

    Raises:
        InputError: no learner, no size, or one that `labelled_subset` refuses.
    """
    if not isinstance(learners, Mapping) or not learners:
        raise InputError("learners", "are none", "functions by name")
    sizes = list(sizes) if isinstance(sizes, Iterable) else []
    if not sizes:
        raise InputError("sizes", "are none", "numbers of examples, one at least")
    labels = np.array(labels_of(test, "test"))
    subsets = {int(size): labelled_subset(train, size, seed) for size in sizes}
    right = {}
    for size, subset in subsets.items():
        for name, learner in learners.items():
            if progress is not None:
                progress(f"{name}, {size}")
            answers = learner(subset, None, seed)(test).argmax(axis=1)
            right[name, size] = answers == labels
    frame = pd.DataFrame(right).T
    frame.index = pd.MultiIndex.from_tuples(frame.index, names=["learner", "examples"])
    return frame


def curve_points(
    runs: pd.DataFrame | Sequence[pd.DataFrame], confidence: float = 0.95, resamples: int = 2000
) -> pd.DataFrame:
    """Accuracy with an interval, from what `learning_curve` gave, for one seed or several.

    Test examples are drawn with replacement, each with all its seeds. The interval says how sure
    the test examples make the mean over these seeds.

    Returns:
        By (learner, examples): "accuracy", "low", "high".

    Raises:
        InputError: nothing, or runs that do not fit each other.
    """
    confidence = finite("confidence", confidence, 0, 1)
    resamples = whole("resamples", resamples, 1)
    runs = [runs] if isinstance(runs, pd.DataFrame) else list(runs or ())
    fit = all(isinstance(one, pd.DataFrame) and one.size for one in runs) and all(
        one.shape == runs[0].shape and one.index.equals(runs[0].index) for one in runs
    )
    if not runs or not fit:
        raise InputError("runs", "are none or do not fit each other", "results of learning_curve")
    right = np.mean([one.to_numpy("float64") for one in runs], axis=0)
    random = np.random.RandomState(42)
    count = right.shape[1]
    drawn = random.multinomial(count, np.full(count, 1 / count), resamples)
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile(drawn @ right.T / count, ends, axis=0)
    values = {"accuracy": right.mean(axis=1), "low": low, "high": high}
    return pd.DataFrame(values, index=runs[0].index)


# ---- shared


def labels_of(dataset: Sequence[Mapping], name: str = "dataset") -> list[int]:
    """The labels of examples, each a whole number from 0 on."""
    if not hasattr(dataset, "__len__") or not len(dataset):
        raise InputError(name, "is empty or no list", "one example at least")
    for place, row in enumerate(dataset):
        if not isinstance(row, Mapping):
            raise InputError(f"{name}[{place}]", f"is a {type(row).__name__}", "a dict an example")
    return [whole(f"{name}: label", row.get("label"), 0) for row in dataset]


def texts_of(dataset: Sequence[Mapping], name: str = "dataset") -> list[str]:
    """The texts of examples."""
    if not hasattr(dataset, "__len__") or not len(dataset):
        raise InputError(name, "is empty or no list", "one example at least")
    texts = []
    for place, row in enumerate(dataset):
        texts.append(row.get("text") if isinstance(row, Mapping) else None)
        if not isinstance(texts[-1], str):
            problem = f"has no text ({row!r:.60})"
            raise InputError(f"{name}[{place}]", problem, 'a dict an example, with a key "text"')
    return texts


def by_class(dataset: Sequence[Mapping], name: str = "dataset") -> dict[int, np.ndarray]:
    """Places of the examples of each class that there is, by class."""
    labels = np.array(labels_of(dataset, name))
    return {int(one): np.flatnonzero(labels == one) for one in np.unique(labels)}


def take(dataset: MapDataset, rows: Iterable[int]) -> MapDataset:
    """The examples at these places, as a dataset with the same label_list."""
    label_list = getattr(dataset, "label_list", None)
    return MapDataset([dataset[int(row)] for row in rows], label_list=label_list)
