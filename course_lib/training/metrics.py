"""Counts and intervals behind the figures."""

from __future__ import annotations

from collections.abc import Container, Sequence

from course_lib.data.spans import Span, bio_spans, bio_types
from course_lib.runtime import InputError

import numpy as np
from scipy.stats import bootstrap


def confusion_matrix(
    labels: Sequence[int], predictions: Sequence[int], num_classes: int
) -> np.ndarray:
    """Count how often each true class was predicted as each class.

    Returns:
        int64 array of shape [num_classes, num_classes]: rows are true classes, columns predicted.

    Raises:
        ValueError: a class below 0 or beyond the last.
    """
    pairs = np.asarray(labels, "int64"), np.asarray(predictions, "int64")
    cells = np.ravel_multi_index(pairs, (num_classes, num_classes))
    return np.bincount(cells, minlength=num_classes**2).reshape(num_classes, num_classes)


def span_counts(
    gold: Sequence[Sequence[int] | set[Span]],
    predicted: Sequence[Sequence[int] | set[Span]],
    types: int | Sequence[str],
) -> np.ndarray:
    """Count entities sentence by sentence; one is right when both ends and the type are.

    Args:
        gold, predicted: a row a sentence, either BIO label ids or spans. Where both are ids,
            predictions are left out wherever gold is negative (the -100 of special tokens and
            padding).
        types: names of the labels in the order of their ids, such as a dataset's `label_list`;
            types are counted in the order in which it first names them. Names of types alone, or
            their number, will do where ids have the order that `bio_spans` takes by default.

    Returns:
        int64 array of shape [sentences, types, 3]: right, found and true entities.

    Raises:
        InputError: rows that do not fit each other, a label or a type that there is not.
    """
    names, labels = _types(types)
    gold, predicted = _as_spans(gold, predicted, labels)
    num_types = len(names)
    counts = np.zeros((len(gold), num_types, 3), dtype="int64")
    for row, (true, found) in enumerate(zip(gold, predicted, strict=True)):
        for column, spans in enumerate((true & found, found, true)):
            for _, _, kind in spans:
                if not 0 <= kind < num_types:
                    problem = f"row {row} has an entity of type {kind}"
                    raise InputError("labels", problem, f"types from 0 to {num_types - 1}")
                counts[row, kind, column] += 1
    return counts


def span_scores(
    gold: Sequence[Sequence[int] | set[Span]],
    predicted: Sequence[Sequence[int] | set[Span]],
    types: Sequence[str],
    tokens: Sequence[Sequence[str]] | None = None,
    names: Container[str] = (),
) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of entities, over all types together (micro) and for each.

    The figures are those of seqeval's default mode (conlleval's rule): an I- that continues nothing
    of its type opens an entity. With mode="strict" and scheme=IOB2, seqeval leaves such an entity
    out, so a tagger that forgets a B- finds less, and mostly scores less, there.

    Args:
        gold, predicted: as for `span_counts`.
        types: as for `span_counts`, names.
        tokens: the characters of each sentence, to score names apart that training has shown.
        names: those names, such as `training_names` gives.

    Returns:
        {"all": scores, each type: scores}, and with `tokens` "seen" and "unseen", over all types;
        scores are {"precision", "recall", "f1", "right", "found", "true"}, the first three 0 where
        nothing is found or true, the others numbers of entities.

    Raises:
        InputError: as for `span_counts`; a number of `tokens` rows that is not that of `gold`.
    """
    types, labels = _types(types)
    gold, predicted = _as_spans(gold, predicted, labels)
    counts = span_counts(gold, predicted, len(types)).sum(axis=0)
    result = {"all": _scores(counts.sum(axis=0))}
    result |= {name: _scores(counts[index]) for index, name in enumerate(types)}
    if tokens is None:
        return result
    if len(tokens) != len(gold):
        raise InputError("tokens", f"{len(tokens)} rows for {len(gold)}", "one row a sentence")
    parts: dict[str, tuple[list, list]] = {"seen": ([], []), "unseen": ([], [])}
    for row, true, found in zip(tokens, gold, predicted, strict=True):
        both = true | found
        known = {span for span in both if "".join(row[span[0] : span[1]]) in names}
        for part, members in (("seen", known), ("unseen", both - known)):
            parts[part][0].append(true & members)
            parts[part][1].append(found & members)
    for part, rows in parts.items():
        result[part] = _scores(span_counts(*rows, len(types)).sum(axis=(0, 1)))
    return result


def _types(types: int | Sequence[str]) -> tuple[list, Sequence[str] | None]:
    """Names of the types and, where they were given, of the labels."""
    if isinstance(types, int):
        return list(range(types)), None
    return (bio_types(types), types) if "O" in types else (list(types), None)


def _as_spans(
    gold: Sequence[Sequence[int] | set[Span]],
    predicted: Sequence[Sequence[int] | set[Span]],
    label_list: Sequence[str] | None,
) -> tuple[list[set[Span]], list[set[Span]]]:
    if len(gold) != len(predicted):
        problem = f"{len(predicted)} rows for {len(gold)} of gold"
        raise InputError("predicted", problem, "one row a sentence")
    rows: tuple[list[set[Span]], list[set[Span]]] = ([], [])
    for index, (true, found) in enumerate(zip(gold, predicted, strict=True)):
        if not isinstance(true, set) and not isinstance(found, set):
            true, found = np.asarray(true, "int64"), np.asarray(found, "int64")
            if true.shape != found.shape or true.ndim != 1:
                problem = f"row {index} has shape {found.shape} for {true.shape}"
                raise InputError("predicted", problem, "one label id for each one of gold")
            found = np.where(true < 0, true, found)
        for part, row in zip(rows, (true, found), strict=True):
            part.append(row if isinstance(row, set) else bio_spans(row, label_list))
    return rows


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
    pair = [np.asarray(scores, "float64") for scores in (first, second)]
    if pair[0].shape != pair[1].shape or pair[0].ndim != 1 or len(pair[0]) < 2:
        raise ValueError(
            f"scores have shapes {pair[0].shape} and {pair[1].shape}; expected one score an "
            "example for both, two at least"
        )
    differences = pair[0] - pair[1]
    if not np.isfinite(differences).all():
        raise ValueError("a score is NaN or infinite; expected finite numbers")
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


def paired_bootstrap_f1(
    first_counts: Sequence[Sequence[int]],
    second_counts: Sequence[Sequence[int]],
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 42,
) -> dict[str, float]:
    """`paired_bootstrap` for an F1 of sums over a corpus, which is no mean of sentences' F1.

    Sentences are drawn with replacement, each with both models' counts.

    Args:
        first_counts, second_counts: shape [sentences, 3], right, found and true a sentence, in the
            same order, such as `span_counts(...).sum(axis=1)`; sums over several seeds too.
        confidence: share of the resampled differences that the interval covers.

    Returns:
        {"difference": F1 of first - F1 of second, "low", "high": ends of the interval}.
    """
    both = np.stack([np.asarray(counts) for counts in (first_counts, second_counts)], axis=1)
    if both.ndim != 3 or both.shape[2] != 3 or len(both) < 2:
        raise ValueError(
            f"counts have shape {both.shape[:1] + both.shape[2:]}; expected [sentences, 3], with "
            "two sentences at least"
        )

    def difference(rows: np.ndarray, axis: int) -> np.ndarray:
        sums = both[rows].sum(axis=axis - 2)  # sentences are axis -1 of rows, then two axes follow
        right, found, true = np.moveaxis(sums, -1, 0)
        f1 = 2 * right / np.maximum(1, found + true)
        return f1[..., 0] - f1[..., 1]

    indices = np.arange(len(both))
    low, high = bootstrap(
        (indices,),
        difference,
        n_resamples=resamples,
        batch=100,
        vectorized=True,
        confidence_level=confidence,
        method="percentile",
        random_state=seed,
    ).confidence_interval
    value = difference(indices, -1)
    return {"difference": float(value), "low": float(low), "high": float(high)}
