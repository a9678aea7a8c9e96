"""Classes of very different sizes: subsets, sampling, focal loss and a decision threshold."""

from collections.abc import Iterable, Sequence

from ...runtime import InputError
from ...runtime.errors import real

import numpy as np
import paddle
import paddle.nn.functional as F
from paddlenlp.datasets import MapDataset


def labeled_subset(dataset: MapDataset, size: int, seed: int = 42) -> MapDataset:
    """Draw `size` examples, as balanced as possible; a larger subset contains the smaller ones.

    Raises:
        InputError: fewer examples than `size`, or fewer than one per class.
    """
    groups = _rows_by_class(dataset)
    if not len(groups) <= size <= len(dataset):
        raise InputError("size", f"is {size}", f"{len(groups)} (classes) to {len(dataset)}")
    random = np.random.RandomState(seed)
    places = np.full(len(dataset), len(dataset))
    for rows in groups.values():
        places[random.permutation(rows)] = np.arange(len(rows))
    return _take(dataset, np.sort(np.argsort(places, kind="stable")[:size]))


def under_sample(dataset: MapDataset, seed: int = 42) -> MapDataset:
    """Keep as many examples of each class as the smallest class has (欠采样), in their order."""
    sizes = [len(rows) for rows in _rows_by_class(dataset).values()]
    return labeled_subset(dataset, len(sizes) * min(sizes), seed)


def over_sample(dataset: MapDataset, seed: int = 42) -> MapDataset:
    """Repeat examples until each class has as many as the largest class (过采样).

    Each example is repeated equally often, except for a remainder drawn at random; the copies
    follow the data. Sample only the training examples, after splitting: a copy in dev is a leak.
    """
    groups = _rows_by_class(dataset)
    largest = max(map(len, groups.values()))
    random = np.random.RandomState(seed)
    copies = [np.arange(len(dataset))]
    for rows in groups.values():
        times, rest = divmod(largest - len(rows), len(rows))
        copies += [np.tile(rows, times), random.permutation(rows)[:rest]]
    return _take(dataset, np.concatenate(copies))


def make_imbalanced(
    dataset: MapDataset,
    ratio: int = 20,
    rare: int = 0,
    seed: int = 42,
    max_examples: int | None = None,
) -> MapDataset:
    """Drop examples of one class until every other class has `ratio` times as many.

    Args:
        ratio: examples of the largest other class per example of the rare class.
        rare: the class that becomes rare.
        max_examples: at most this many in total, at the same ratio. None takes all.

    Raises:
        InputError: no example of the rare class would be left, or there are too few of them.
    """
    groups = _rows_by_class(dataset)
    random = np.random.RandomState(seed)
    others = sorted(set(groups) - {rare})
    if max_examples is not None:
        room = max_examples * ratio // (ratio * len(others) + 1)
        groups |= {one: random.permutation(groups[one])[:room] for one in others}
    count = max(len(groups[one]) for one in others) // ratio
    available = len(groups.get(rare, ()))
    if not 1 <= count <= available:
        problem = f"{ratio} leaves {count} of {available} examples of class {rare}"
        raise InputError("ratio", problem, "at least one, and no more than there are")
    groups[rare] = random.permutation(groups[rare])[:count]
    return _take(dataset, np.sort(np.concatenate(list(groups.values()))))


class FocalLoss(paddle.nn.Layer):
    """Cross entropy that ignores what is already right: -(1 - p)^gamma x log p.

    p is the probability of the true class. With gamma 2 an example at p = 0.9 counts 100 times
    less than in cross entropy, one at p = 0.1 hardly less. gamma 0 is cross entropy.

    Weights multiply the loss of each example, and the mean is over the number of examples. Paddle's
    `CrossEntropyLoss(weight=...)` divides by the sum of the batch's weights instead: in a batch of
    one class all weights cancel, and small batches of unbalanced classes often hold one class.

    Args:
        gamma: 0 or more.
        weight: one number per class, such as scikit-learn's `compute_class_weight("balanced", ...)`
            returns; None is 1 for all.

    Shapes: logits [..., classes], labels [...] int64; the loss is a scalar in nats.

    Raises:
        InputError: a negative gamma; when called, another number of weights than of classes.

    Source: Lin et al., Focal Loss for Dense Object Detection, 2017.
    """

    def __init__(self, gamma: float = 2.0, weight: Sequence[float] | None = None) -> None:
        super().__init__()
        self.gamma = real("gamma", gamma, lambda one: one >= 0, "0 or more")
        self.weight = None if weight is None else paddle.to_tensor(weight, "float32")

    def forward(self, logits: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
        classes = logits.shape[-1]
        if self.weight is not None and [*self.weight.shape] != [classes]:
            problem = f"has the shape {[*self.weight.shape]}"
            raise InputError("weight", problem, f"one number for each of {classes} classes")
        logits, labels = logits.reshape([-1, classes]), labels.reshape([-1])
        loss = F.cross_entropy(logits, labels, reduction="none")  # -log p, never log of 0
        if self.gamma:
            # 1 - p, but never 0: for gamma below 1 the derivative of 0 ** gamma is not a number
            missing = paddle.clip(-paddle.expm1(-loss), min=1e-8)
            loss = missing**self.gamma * loss
        if self.weight is not None:
            loss = loss * paddle.gather(self.weight, labels)
        return loss.mean()


def best_threshold(probabilities: Sequence[float], is_rare: Sequence[bool]) -> float:
    """The threshold on the rare class's probability that gives the highest macro F1.

    An example is of the rare class when its probability reaches the threshold. Choose it on dev: on
    the examples it was chosen by, the score is too good. Of several best thresholds the one closest
    to 0.5 wins; candidates lie half way between neighbors.

    Args:
        probabilities: of the rare class, [N].
        is_rare: which examples are of that class, [N].
    """
    values, rare = np.asarray(probabilities), np.asarray(is_rare, bool)
    levels = np.unique(values)
    cuts = np.append((levels[1:] + levels[:-1]) / 2, 0.5)
    flagged = values[None] >= cuts[:, None]
    f1_rare = 2 * (flagged & rare).sum(1) / (flagged.sum(1) + rare.sum())
    f1_rest = 2 * (~flagged & ~rare).sum(1) / ((~flagged).sum(1) + (~rare).sum())
    scores = (f1_rare + f1_rest) / 2
    best = cuts[scores >= scores.max() - 1e-12]
    return float(best[np.abs(best - 0.5).argmin()])


def _rows_by_class(dataset: MapDataset) -> dict[int, np.ndarray]:
    labels = np.array([row["label"] for row in dataset])
    return {int(label): np.flatnonzero(labels == label) for label in np.unique(labels)}


def _take(dataset: MapDataset, rows: Iterable[int]) -> MapDataset:
    return MapDataset([dataset[int(row)] for row in rows], label_list=dataset.label_list)
