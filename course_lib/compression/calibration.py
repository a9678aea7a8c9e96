"""Calibration: the batches that scales are read off, and the limits that histograms suggest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from course_lib.runtime import InputError

import numpy as np
import paddle
from paddlenlp.data import Pad


def calibration_batches(
    calibration,
    names: Sequence[str],
    batch_size: int = 4,
    batch_nums: int | None = 1,
    seed: int = 42,
    pad_token_id: int = 0,
) -> list[dict[str, np.ndarray]]:
    """Make batches of a program's inputs.

    Args:
        calibration: features or ready batches, as for `quantize_static`.
        names: of the program's inputs; "token_type_ids" may be absent.
        batch_size, batch_nums, seed: as for `quantize_static`.
        pad_token_id: fills up short rows of "input_ids".

    Raises:
        InputError: there is no data, or its rows have no names.
    """
    expected = f"features or batches with {', '.join(names)}"
    ready = isinstance(calibration, paddle.io.DataLoader)
    items = list(islice(calibration, batch_nums)) if ready else calibration
    if isinstance(items, Mapping) or not len(items) or not isinstance(items[0], Mapping):
        raise InputError("calibration", f"is {_kind(items)}", f"a list of {expected}")
    if names[0] not in items[0]:
        raise InputError("calibration", f"has no column {names[0]!r}", expected)
    if np.ndim(items[0][names[0]]) < 2:  # features: one row each
        order = np.random.RandomState(seed).permutation(len(items))
        if batch_nums is not None:
            order = order[: batch_size * batch_nums]
        chunks = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
        return [
            pad_features([items[int(index)] for index in chunk], names, pad_token_id)
            for chunk in chunks
        ]
    return [items[index] for index in range(min(batch_nums or len(items), len(items)))]


def _kind(items) -> str:
    if isinstance(items, Mapping):
        return "one example"
    return f"a {type(items).__name__} of {type(items[0]).__name__}" if len(items) else "empty"


def pad_features(
    features: Sequence[Mapping], names: Sequence[str], pad_token_id: int
) -> dict[str, np.ndarray]:
    """Pad features to the longest one.

    Returns:
        For each of `names` that the features have, an array of shape [features, longest].
    """
    columns = {name: [row[name] for row in features] for name in names if name in features[0]}
    return {
        name: Pad(pad_val=pad_token_id if name == "input_ids" else 0)([*map(np.asarray, rows)])
        for name, rows in columns.items()
    }


def best_limit(shares: np.ndarray, largest: float, algo: str) -> tuple[float, float]:
    """Find the limit, from 0.3 to 1 times the largest value, where rounding to 8 bits costs least.

    Args:
        shares: histogram of values from -largest to largest, with sum 1.
        algo: "mse", by mean squared error; "emd", by how far mean and standard deviation move.

    Returns:
        The limit and its cost.
    """
    values = ((np.arange(len(shares)) + 0.5) * (2 / len(shares)) - 1) * largest
    limits = largest * np.linspace(0.3, 1, 36)[:, None]
    rounded = np.clip(np.round(values / limits * 127), -128, 127) / 127 * limits
    if algo == "mse":
        costs = (rounded - values) ** 2 @ shares
    else:
        mean, spread = _moments(values[None], shares)
        means, spreads = _moments(rounded, shares)
        costs = abs(means - mean) + abs(spreads - spread)
    best = len(costs) - 1 - costs[::-1].argmin()  # the widest of equals, as Paddle's loop
    return float(limits[best, 0]), float(costs[best])


def _moments(rows: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each row's values."""
    means = rows @ shares
    return means, np.sqrt((rows - means[:, None]) ** 2 @ shares)


def kl_threshold(counts: np.ndarray, bin_width: float, bits: int = 8) -> float:
    """The limit that loses least information: Paddle's `cal_kl_threshold` without its loops.

    For each limit from the middle on, the values above it are counted in the last bin below it
    (P), the bins are merged to 2 ** (bits - 1) - 1 levels (Q), and the limit with the smallest
    Kullback-Leibler divergence of Q from P wins.

    Args:
        counts: histogram of absolute values, beginning at about 0, shape [bins].
        bin_width: of each bin.

    Returns:
        The limit, in the unit of `bin_width`.
    """
    counts = np.asarray(counts, "float64")
    levels, middle = 2 ** (bits - 1) - 1, int((len(counts) - 1) * 0.5)
    limits = np.arange(middle, len(counts))
    limits = limits[(limits >= levels) & (counts[limits - 1] > 0)]
    if not limits.size:
        while middle > 0 and counts[middle] == 0:
            middle -= 1
        return float((middle + 0.5) * bin_width)

    def cumulative(values: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(values)])

    def entropy(values: np.ndarray) -> np.ndarray:
        return values * np.log(np.where(values > 0, values, 1))

    below, total = cumulative(counts), counts.sum()
    edges = np.arange(levels + 1) * (limits // levels)[:, None]
    edges[:, -1] = limits
    merged = np.diff(below[edges], axis=1)
    filled = np.diff(cumulative(counts > 0)[edges], axis=1)  # only these share a level's count
    last = counts[limits - 1]
    above = total - below[limits]
    own = cumulative(entropy(counts))[limits] - entropy(last) + entropy(last + above)
    mean = np.where(filled > 0, merged / np.maximum(filled, 1), 1)
    weight = merged.copy()
    weight[:, -1] += above
    cross = (weight * np.log(mean)).sum(axis=1)
    divergence = (own - cross) / total + np.log(below[limits]) - np.log(total)
    return float((limits[divergence.argmin()] + 0.5) * bin_width)
