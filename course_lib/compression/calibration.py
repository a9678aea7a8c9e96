"""Calibration: the batches that INT8 scales are read off."""

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
