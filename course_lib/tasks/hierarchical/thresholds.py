"""From probabilities to labels: a threshold a label, and sets that the hierarchy allows."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from course_lib.runtime import InputError, atomic_file
from course_lib.runtime.files import read_json
from course_lib.tasks.hierarchical.taxonomy import Taxonomy

import numpy as np

THRESHOLDS = "thresholds.json"
DEFAULT = 0.5
SMALLEST = 1e-6  # a probability of 0 or 1 has no finite log odds


def tune(
    probabilities: np.ndarray, true: np.ndarray, taxonomy: Taxonomy, min_texts: int = 10
) -> dict[str, float]:
    """For each label the threshold with the highest F1 on these texts, which should be dev's.

    Candidates lie half way between neighboring probabilities. Of several best ones the nearest
    to 0.5 is taken. The choice is made on these very texts, so F1 on them is too good afterwards.

    Args:
        probabilities: [texts, labels], 0 to 1.
        true: booleans [texts, labels], as `Taxonomy.indicators` gives them.
        min_texts: a label that fewer texts have keeps 0.5: a threshold chosen on a handful of
            texts says more about them than about the label.

    Raises:
        InputError: a probability outside 0 to 1.
    """
    _check(probabilities)
    thresholds = dict.fromkeys(taxonomy.labels, DEFAULT)
    for column, label in enumerate(taxonomy.labels):
        positives = int(true[:, column].sum())
        if positives < min_texts:
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
        probabilities: [texts, labels], 0 to 1.
        thresholds: by label or in the order of the ids; 0.5 by default.
        consistent: no label without all of its parents.
        one_child: at most one of the labels under the same parent, and of those at the top: in a
            tree, at most one label a level. Or the levels where this holds, from 1 at the top, such
            as (1, 2) where only labels of level 3 go together. Needs `consistent`.

    Returns:
        booleans [texts, labels].

    Raises:
        InputError: a probability outside 0 to 1; `one_child` without `consistent`.
    """
    _check(probabilities)
    limits = np.full(len(taxonomy), DEFAULT)
    if thresholds is not None:
        if isinstance(thresholds, Mapping):
            thresholds = [thresholds[name] for name in taxonomy.labels]
        limits[:] = thresholds
    if not consistent:
        if one_child:  # nothing would come of it
            raise InputError("one_child", "is on without consistent", "both, or neither")
        return probabilities >= limits
    ids = taxonomy.ids
    levels = range(1, len(taxonomy.levels) + 1) if one_child is True else one_child or ()
    single = np.array([taxonomy.level(label) in levels for label in taxonomy.labels])
    gains = _log_odds(probabilities) - _log_odds(limits)
    # what passes exactly counts as passed, as it does without the hierarchy
    gains = np.where((gains <= 0) & (probabilities >= limits), 1e-9, gains)
    shares = np.array([max(1, len(taxonomy.parents(label))) for label in taxonomy.labels])
    downward = [label for level in taxonomy.levels for label in level]
    for label in reversed(downward):
        children = np.array([ids[child] for child in taxonomy.children(label)], "int64")
        hopes = np.maximum(gains[:, children], 0) / shares[children]
        alone = single[children]
        gains[:, ids[label]] += hopes[:, ~alone].sum(axis=1)
        gains[:, ids[label]] += hopes[:, alone].max(axis=1, initial=0)
    chosen = gains > 0
    for label in downward:
        column, parents = ids[label], taxonomy.parents(label)
        for parent in parents:
            chosen[:, column] &= chosen[:, ids[parent]]
        for parent in (parents or (None,)) if single[column] else ():
            siblings = [ids[child] for child in taxonomy.children(parent) if single[ids[child]]]
            best = np.take(siblings, gains[:, siblings].argmax(axis=1))
            chosen[:, column] &= best == column
    return chosen


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
    expected = "a threshold between 0 and 1 for each of the model's labels"
    thresholds = read_json(path, expected)
    if not isinstance(thresholds, dict):
        raise InputError(path, "is no JSON object", expected)
    for label in dict.fromkeys([*taxonomy.labels, *thresholds]):
        value = thresholds.get(label)
        if label not in taxonomy:
            raise InputError(path, f"names {label!r}, which is no label of the model", expected)
        if not isinstance(value, float) or not 0 < value < 1:
            raise InputError(path, f"has {value!r} for {label!r}", expected)
    return {label: thresholds[label] for label in taxonomy.labels}


def _log_odds(probabilities: np.ndarray) -> np.ndarray:
    inside = np.clip(np.asarray(probabilities, "float64"), SMALLEST, 1 - SMALLEST)
    return np.log(inside) - np.log1p(-inside)


def _check(probabilities: np.ndarray) -> None:
    """Refuse logits, which all that follows would take for probabilities."""
    if probabilities.size and not (probabilities.min() >= 0 and probabilities.max() <= 1):
        problem = f"go from {probabilities.min():g} to {probabilities.max():g}"
        raise InputError("probabilities", problem, "numbers from 0 to 1")
