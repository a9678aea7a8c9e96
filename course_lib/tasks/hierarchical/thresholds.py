"""From probabilities to labels: a threshold a label, and sets that the hierarchy allows."""

from collections.abc import Collection, Mapping, Sequence

from ...runtime import InputError
from ...runtime.errors import whole
from .taxonomy import Taxonomy

import numpy as np

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
        InputError: a probability outside 0 to 1, or a number of columns that is not that of labels.
    """
    _check("probabilities", probabilities, (len(true), len(taxonomy)))
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
    is without its parent. So a child that the model is sure of brings a parent that just missed
    its threshold, and a child that just passed falls with a parent that the model rejects.

    Args:
        probabilities: [texts, labels], 0 to 1.
        thresholds: by label or in the order of the ids; 0.5 by default.
        consistent: no label without its parent.
        one_child: at most one of the labels under the same parent, and of those at the top, so at
            most one label a level. Or the levels where this holds, from 1 at the top, such as
            (1, 2) where only labels of level 3 go together. Needs `consistent`.

    Returns:
        booleans [texts, labels].

    Raises:
        InputError: a probability or threshold outside 0 to 1; `one_child` without `consistent`, or
            of a level that the taxonomy does not have.
    """
    _check("probabilities", probabilities, (len(probabilities), len(taxonomy)))
    if isinstance(thresholds, Mapping):
        thresholds = [thresholds[name] for name in taxonomy.labels]
    elif thresholds is None:
        thresholds = np.full(len(taxonomy), DEFAULT)
    limits = np.asarray(thresholds, "float64")
    _check("thresholds", limits, (len(taxonomy),))
    if not consistent:
        if one_child:  # nothing would come of it
            raise InputError("one_child", "is on without consistent", "both, or neither")
        return probabilities >= limits
    ids, depth = taxonomy.ids, len(taxonomy.levels)
    levels = range(1, depth + 1) if one_child is True else one_child or ()
    for level in levels:
        whole("one_child", level, 1, depth)
    single = np.array([taxonomy.level(label) in levels for label in taxonomy.labels])
    gains = _log_odds(probabilities) - _log_odds(limits)
    # what passes exactly counts as passed, as it does without the hierarchy
    gains = np.where((gains <= 0) & (probabilities >= limits), 1e-9, gains)
    downward = [label for level in taxonomy.levels for label in level]
    for label in reversed(downward):
        children = np.array([ids[child] for child in taxonomy.children(label)], "int64")
        hopes, alone = np.maximum(gains[:, children], 0), single[children]
        gains[:, ids[label]] += hopes[:, ~alone].sum(axis=1)
        gains[:, ids[label]] += hopes[:, alone].max(axis=1, initial=0)
    chosen = gains > 0
    for label in downward:
        column, parent = ids[label], taxonomy.parent(label)
        if parent is not None:
            chosen[:, column] &= chosen[:, ids[parent]]
        if single[column]:
            siblings = [ids[child] for child in taxonomy.children(parent)]
            best = np.take(siblings, gains[:, siblings].argmax(axis=1))
            chosen[:, column] &= best == column
    return chosen


def _log_odds(probabilities: np.ndarray) -> np.ndarray:
    inside = np.clip(np.asarray(probabilities, "float64"), SMALLEST, 1 - SMALLEST)
    return np.log(inside) - np.log1p(-inside)


def _check(name: str, values: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuse logits, which all that follows would take for probabilities, and other labels."""
    if values.shape != shape:
        raise InputError(name, f"have the shape {values.shape}", f"{shape}: a column per label")
    if values.size and not (values.min() >= 0 and values.max() <= 1):  # nor with nan
        problem = f"go from {values.min():g} to {values.max():g}"
        raise InputError(name, problem, "numbers from 0 to 1")
