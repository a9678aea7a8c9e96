"""Counts and intervals behind the figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import bootstrap


def confusion_matrix(
    labels: Sequence[int], predictions: Sequence[int], num_classes: int
) -> np.ndarray:
    """Count how often each true class was predicted as each class.

    Returns:
        int64 array of shape [num_classes, num_classes]: rows are true classes, columns predicted.
    """
    matrix = np.zeros((num_classes, num_classes), dtype="int64")
    np.add.at(matrix, (np.asarray(labels, "int64"), np.asarray(predictions, "int64")), 1)
    return matrix


def paired_bootstrap(
    first: Sequence[float],
    second: Sequence[float],
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 42,
) -> dict[str, float]:
    """How sure is it that one model is better than another on the same examples?

    Examples are drawn with replacement, each with both models' scores (Efron, 1979). An interval
    that holds 0 says that these examples do not tell the models apart.

    Args:
        first, second: a score an example, in the same order; for accuracy, whether it was right.
        confidence: share of the resampled differences that the interval covers.

    Returns:
        {"difference": mean of first - second, "low", "high": ends of the interval}.
    """
    differences = np.asarray(first, "float64") - np.asarray(second, "float64")
    if differences.ndim != 1 or len(differences) < 2:
        raise ValueError(
            f"scores have shape {differences.shape}; expected one score an example, two at least"
        )
    low, high = bootstrap(
        (differences,),
        np.mean,
        n_resamples=resamples,
        batch=100,  # memory: batch x examples numbers at a time
        confidence_level=confidence,
        method="percentile",
        random_state=seed,
    ).confidence_interval
    return {"difference": float(differences.mean()), "low": float(low), "high": float(high)}
