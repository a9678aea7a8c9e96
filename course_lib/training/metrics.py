"""Counts behind the figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


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
