"""Entity scores, and intervals for the difference between two models."""

from collections.abc import Callable, Sequence

from ..data.spans import Span, bio_spans, bio_types

import numpy as np
from scipy.stats import bootstrap

Rows = Sequence[Sequence[int] | set[Span]]


def span_counts(gold: Rows, predicted: Rows, types: Sequence[str]) -> np.ndarray:
    """Count entities sentence by sentence; one is right when both ends and the type are.

    Args:
        gold, predicted: one row per sentence, either BIO label ids or spans. Where both are ids,
            predictions are left out wherever gold is negative (special tokens and padding).
        types: a dataset's `label_list`, or names of types where ids have the order that `bio_spans`
            takes by default.

    Returns:
        int64 array of shape [sentences, types, 3]: right, found and true entities.

    Raises:
        InputError, ValueError, IndexError: a label or type that is not there; rows that differ.
    """
    names, gold_spans, predicted_spans = _as_spans(gold, predicted, types)
    counts = np.zeros((len(gold_spans), len(names), 3), dtype="int64")
    for row, (true, found) in enumerate(zip(gold_spans, predicted_spans, strict=True)):
        for column, spans in enumerate((true & found, found, true)):
            for _, _, kind in spans:
                counts[row, kind, column] += 1
    return counts


def span_scores(
    gold: Rows,
    predicted: Rows,
    types: Sequence[str],
) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of entities, over all types together (micro) and for each.

    The scores are those of seqeval's default mode (conlleval's rule): an I- that continues nothing
    of its type opens an entity. (mode="strict" with scheme=IOB2 leaves such an entity out.)

    Args:
        gold, predicted, types: as for `span_counts`.

    Returns:
        {"all": scores, each type: scores}; scores are {"precision", "recall", "f1", "right",
        "found", "true"}, the first three 0 where nothing is found or true, the others numbers.
    """
    kinds, gold_spans, predicted_spans = _as_spans(gold, predicted, types)
    counts = span_counts(gold_spans, predicted_spans, kinds).sum(axis=0)
    result = {"all": _scores(counts.sum(axis=0))}
    return result | {name: _scores(counts[index]) for index, name in enumerate(kinds)}


def _as_spans(
    gold: Rows, predicted: Rows, types: Sequence[str]
) -> tuple[list[str], list[set[Span]], list[set[Span]]]:
    """Names of the types, and both sides as spans."""
    label_list = types if "O" in types else None
    names = bio_types(types) if "O" in types else list(types)
    sides: tuple[list[set[Span]], list[set[Span]]] = ([], [])
    for true, found in zip(gold, predicted, strict=True):
        if not isinstance(true, set) and not isinstance(found, set):
            true, found = np.asarray(true, "int64"), np.asarray(found, "int64")
            if true.shape != found.shape:  # NumPy would broadcast
                raise ValueError(f"{len(true)} labels and {len(found)} predictions in a sentence")
            found = np.where(true < 0, true, found)
        for side, row in zip(sides, (true, found), strict=True):
            side.append(row if isinstance(row, set) else bio_spans(row, label_list))
    return names, *sides


def _scores(counts: np.ndarray) -> dict[str, float]:
    right, found, true = map(int, counts)
    return {
        "precision": right / max(1, found),
        "recall": right / max(1, true),
        "f1": 2 * right / max(1, found + true),
        "right": right,
        "found": found,
        "true": true,
    }


def paired_bootstrap(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    resamples: int = 10_000,
) -> dict[str, float]:
    """The difference of two models' mean scores, with its 95% interval (Efron, 1979).

    Examples are drawn with replacement, each with both models' scores. An interval that holds 0
    says that these examples do not tell the models apart.

    Args:
        first, second: a score per example, in the same order; for accuracy, whether it was right.

    Returns:
        {"difference": mean of first - second, "low", "high": ends of the interval}.
    """
    pair = [np.asarray(scores, "float64") for scores in (first, second)]
    if pair[0].shape != pair[1].shape or pair[0].ndim != 1:  # NumPy would broadcast
        shapes = f"{pair[0].shape} and {pair[1].shape}"
        raise ValueError(f"scores have shapes {shapes}; expected one score per example for both")
    differences = pair[0] - pair[1]
    if not np.isfinite(differences).all():
        raise ValueError("a score is NaN or infinite; expected finite numbers")

    def difference(rows: np.ndarray, axis: int) -> np.ndarray:
        return differences[rows].mean(axis=axis)

    return _interval(difference, len(differences), resamples)


def paired_bootstrap_f1(
    first_counts: Sequence[Sequence[int]] | np.ndarray,
    second_counts: Sequence[Sequence[int]] | np.ndarray,
    resamples: int = 10_000,
) -> dict[str, float]:
    """`paired_bootstrap` for an F1 of sums over a corpus, which is no mean of sentences' F1.

    Args:
        first_counts, second_counts: shape [sentences, 3], right, found and true per sentence, in
            the same order, such as `span_counts(...).sum(axis=1)`.

    Returns:
        {"difference": F1 of first - F1 of second, "low", "high": ends of the interval}.
    """
    both = np.stack([np.asarray(counts) for counts in (first_counts, second_counts)], axis=1)

    def difference(rows: np.ndarray, axis: int) -> np.ndarray:
        sums = both[rows].sum(axis=axis - 2)  # sentences are axis -1 of rows, then two axes follow
        right, found, true = np.moveaxis(sums, -1, 0)
        f1 = 2 * right / np.maximum(1, found + true)
        return f1[..., 0] - f1[..., 1]

    return _interval(difference, len(both), resamples)


def _interval(
    difference: Callable[..., np.ndarray], count: int, resamples: int
) -> dict[str, float]:
    """The difference of all rows, with a percentile interval from rows drawn with replacement."""
    indices = np.arange(count)
    low, high = bootstrap(
        (indices,),
        difference,
        n_resamples=resamples,
        batch=100,  # memory: batch x rows numbers at a time
        vectorized=True,
        confidence_level=0.95,
        method="percentile",
        random_state=42,
    ).confidence_interval
    return {"difference": float(difference(indices, -1)), "low": float(low), "high": float(high)}
