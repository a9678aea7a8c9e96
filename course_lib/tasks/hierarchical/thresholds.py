"""From probabilities to labels: a threshold a label, and sets that the hierarchy allows."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from course_lib.runtime import InputError, atomic_file
from course_lib.runtime.errors import numbers_in, whole
from course_lib.runtime.files import read_json
from course_lib.tasks.hierarchical.taxonomy import Taxonomy

import numpy as np

THRESHOLDS = "thresholds.json"
DEFAULT = 0.5
SMALLEST = 1e-6  # a probability of 0 or 1 has no finite log odds


def tune(
    probabilities: np.ndarray,
    true: np.ndarray,
    taxonomy: Taxonomy,
    least: int = 10,
) -> dict[str, float]:
    """For each label the threshold with the highest F1 on these texts, which should be dev's.

    Candidates lie half way between neighbouring probabilities. Of several best ones the nearest
    to 0.5 is taken. The choice is made on these very texts, so F1 on them is too good afterwards.

    Args:
        probabilities: [texts, labels].
        true: booleans [texts, labels], as `Taxonomy.indicators` gives them.
        least: a label that fewer texts have keeps 0.5: a threshold chosen on a handful of texts
            says more about them than about the label.

    Raises:
        InputError: arrays that do not fit the taxonomy or each other; a probability outside 0 to 1.
    """
    probabilities = _check(probabilities, taxonomy)
    true = numbers_in("true", true).astype(bool)
    least = whole("least", least, 1)
    if true.shape != probabilities.shape:
        problem = f"has shape {list(true.shape)}"
        raise InputError("true", problem, f"that of the probabilities, {list(probabilities.shape)}")
    thresholds = dict.fromkeys(taxonomy.labels, DEFAULT)
    for column, label in enumerate(taxonomy.labels):
        positives = int(true[:, column].sum())
        if positives < least:
            continue
        order = np.argsort(-probabilities[:, column], kind="stable")
        values = probabilities[order, column]
        right = np.cumsum(true[order, column])
        f1 = 2 * right / (np.arange(1, len(order) + 1) + positives)
        following = np.append(values[1:], 0.0)
        between = (values + following) / 2
        cuts = values > following  # equal probabilities cannot be told apart
        # exactly 0.5 is a candidate too, where it lies in the same gap
        between = np.where((following < DEFAULT) & (values >= DEFAULT), DEFAULT, between)
        if cuts.any():  # else all are 0
            best = np.flatnonzero(cuts & (f1 >= f1[cuts].max() - 1e-12))
            chosen = between[best[np.abs(between[best] - DEFAULT).argmin()]]
            thresholds[label] = float(min(max(chosen, SMALLEST), 1 - SMALLEST))
    return thresholds


def decode(
    probabilities: np.ndarray,
    taxonomy: Taxonomy,
    thresholds: Mapping[str, float] | Sequence[float] | None = None,
    consistent: bool = True,
    one_child: bool | Collection[int] = False,
) -> np.ndarray:
    """Choose each text's labels.

    A label speaks for itself with its log odds minus those of its threshold: above 0 it is in.
    With `consistent`, the set is chosen whose sum is the highest among the sets in which no label
    is without its parents. So a child that the model is sure of brings a parent that just missed
    its threshold, and a child that just passed falls with a parent that the model rejects. In a
    tree this set is found exactly. In a graph a label's gain is dealt out evenly to its parents,
    which allows only sets without orphans too, but need not find the best of them.

    Args:
        probabilities: [texts, labels].
        thresholds: by label or in the order of the ids; 0.5 by default.
        consistent: no label without all of its parents.
        one_child: at most one of the labels under the same parent, and of those at the top: in a
            tree, at most one label a level. Or the levels where this holds, from 1 at the top, such
            as (1, 2) where only labels of level 3 go together. Needs `consistent`.

    Returns:
        booleans [texts, labels].

    Raises:
        InputError: as `tune`; a threshold that is missing or not between 0 and 1; `one_child`
            without `consistent`, or for a level that there is not.
    """
    probabilities = _check(probabilities, taxonomy)
    limits = as_array(thresholds, taxonomy)
    single = _single(one_child, taxonomy)
    if not consistent:
        if single.any():
            raise InputError("one_child", "is on without consistent", "both, or neither")
        return probabilities >= limits
    gains = _log_odds(probabilities) - _log_odds(limits)
    # what passes exactly counts as passed, as it does without the hierarchy
    gains = np.where((gains <= 0) & (probabilities >= limits), 1e-9, gains)
    below: dict[str | None, list[int]] = {label: [] for label in (None, *taxonomy.labels)}
    for label in taxonomy.labels:
        for parent in taxonomy.parents(label) or (None,):
            below[parent].append(taxonomy.ids[label])
    shares = np.array([max(1, len(taxonomy.parents(label))) for label in taxonomy.labels])
    downward = [taxonomy.ids[label] for level in taxonomy.levels for label in level]
    for column in reversed(downward):
        children = np.array(below[taxonomy.labels[column]], "int64")
        hopes = np.maximum(gains[:, children], 0) / shares[children]
        alone = single[children]
        gains[:, column] += hopes[:, ~alone].sum(axis=1) + hopes[:, alone].max(axis=1, initial=0)
    chosen = gains > 0
    for column in downward:
        for parent in taxonomy.parents(taxonomy.labels[column]):
            chosen[:, column] &= chosen[:, taxonomy.ids[parent]]
        if single[column]:
            for parent in taxonomy.parents(taxonomy.labels[column]) or (None,):
                siblings = [sibling for sibling in below[parent] if single[sibling]]
                best = np.take(siblings, gains[:, siblings].argmax(axis=1))
                chosen[:, column] &= best == column
    return chosen


def _single(one_child: bool | Collection[int], taxonomy: Taxonomy) -> np.ndarray:
    """For each label whether it may not stand beside another one under the same parent."""
    if isinstance(one_child, bool):
        return np.full(len(taxonomy), one_child)
    depth = len(taxonomy.levels)
    if not isinstance(one_child, Collection) or isinstance(one_child, str):
        raise InputError("one_child", f"is {one_child!r}", "True, False or levels")
    levels = {whole("one_child", level, 1, depth) for level in one_child}
    return np.array([taxonomy.level(label) in levels for label in taxonomy.labels])


def as_array(
    thresholds: Mapping[str, float] | Sequence[float] | None, taxonomy: Taxonomy
) -> np.ndarray:
    """Thresholds in the order of the ids.

    Raises:
        InputError: one is missing, or not between 0 and 1.
    """
    if thresholds is None:
        return np.full(len(taxonomy), DEFAULT)
    if not isinstance(thresholds, Iterable):
        raise InputError("thresholds", f"are {thresholds!r}", "one for each label")
    if isinstance(thresholds, Mapping):
        missing = [label for label in taxonomy.labels if label not in thresholds]
        if missing or len(thresholds) != len(taxonomy):
            what = f"lack {missing[0]!r}" if missing else "name labels that there are not"
            raise InputError("thresholds", what, "one for each label")
        thresholds = [thresholds[label] for label in taxonomy.labels]
    fits = len(thresholds) == len(taxonomy) and all(
        isinstance(value, (int, float, np.floating))
        and not isinstance(value, bool)
        and 0 < value < 1
        for value in thresholds
    )
    if not fits:
        expected = f"{len(taxonomy)} numbers between 0 and 1"
        raise InputError("thresholds", f"are {list(thresholds)[:5]}", expected)
    return np.asarray(thresholds, dtype="float64")


def save_thresholds(directory: str | os.PathLike, thresholds: Mapping[str, float]) -> None:
    """Keep thresholds beside a model."""
    with atomic_file(Path(directory, THRESHOLDS)) as file:
        json.dump(dict(thresholds), file, ensure_ascii=False, indent=1)


def load_thresholds(directory: str | os.PathLike, taxonomy: Taxonomy) -> dict[str, float]:
    """Thresholds that lie beside a model; 0.5 for all where there are none.

    Raises:
        InputError: the file is damaged or does not fit the labels.
    """
    path = Path(directory, THRESHOLDS)
    if not os.path.lexists(path):
        return dict.fromkeys(taxonomy.labels, DEFAULT)
    expected = "a threshold for each of the model's labels"
    thresholds = read_json(path, expected)
    if not isinstance(thresholds, dict):
        raise InputError(path, "is no JSON object", expected)
    try:
        values = as_array(thresholds, taxonomy)
    except InputError as error:
        raise InputError(path, error.problem, expected) from None
    return dict(zip(taxonomy.labels, map(float, values), strict=True))


def _log_odds(probabilities: np.ndarray) -> np.ndarray:
    inside = np.clip(np.asarray(probabilities, "float64"), SMALLEST, 1 - SMALLEST)
    return np.log(inside) - np.log1p(-inside)


def _check(probabilities: np.ndarray, taxonomy: Taxonomy) -> np.ndarray:
    array = numbers_in("probabilities", probabilities)
    if array.ndim != 2 or array.shape[1] != len(taxonomy):
        problem = f"have shape {list(array.shape)}"
        raise InputError("probabilities", problem, f"[texts, {len(taxonomy)}]")
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        low, high = float(array.min()), float(array.max())
        problem = "hold nan" if math.isnan(low) else f"go from {low:g} to {high:g}"
        raise InputError("probabilities", problem, "numbers from 0 to 1")
    return array
