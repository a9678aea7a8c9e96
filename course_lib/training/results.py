"""What a classifier's answers are worth: for each class, and beside a linear baseline."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..data.examples import TEXTS
from ..data.splits import drawn
from .metrics import paired_bootstrap

import numpy as np
import pandas as pd
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import precision_recall_fscore_support
from sklearn.svm import LinearSVC

BASELINE_TEXTS, BASELINE_CHARACTERS = 20_000, 500  # of each text: more would take minutes
MOST_CLASSES = 100  # of the baseline, for the same reason


def classifier_results(
    examples: Sequence[Mapping],
    answers: Sequence[Mapping],
    labels: Sequence[str],
    train: Iterable[Mapping] | None = None,
    seed: int = 42,
) -> dict[str, Any]:
    """Scores of a classifier, 0 to 1, rounded, of each class and of a baseline.

    Args:
        examples: {"text", "label"}, or two texts and "label": a place in `labels`.
        answers: what `predict` gives for them, with the name of a class as "label".
        train: examples to train the baseline on, a linear classifier on TF-IDF of 1 to 3
            characters. At most `BASELINE_TEXTS` of them are drawn, with `seed`.

    Returns:
        {"accuracy", "macro_f1", "classes": {name: {"precision", "recall", "f1", "support": its
        examples}} for classes that occur, "confusion": [{"label", "predicted", "count"}], pairs
        that occur, most frequent first}. A score with nothing to divide by is 0. With `train` also
        "baseline": {"accuracy", "difference": the model's accuracy minus the baseline's, "low",
        "high": its 95% interval}, unless there are under two examples or classes, or over
        `MOST_CLASSES` classes.
    """
    true, given = [labels[row["label"]] for row in examples], [row["label"] for row in answers]
    names = [name for name in labels if name in {*true, *given}]
    scores = precision_recall_fscore_support(true, given, labels=names, zero_division=0)
    columns = dict(zip(("precision", "recall", "f1", "support"), scores, strict=True))
    frame = pd.DataFrame(columns, index=names).round(4)
    # a whole matrix of 7,000 classes would be 149 MB
    pairs = Counter(zip(true, given, strict=True)).most_common()
    right = [one == other for one, other in zip(true, given, strict=True)]
    results = {
        "accuracy": round(sum(right) / len(true), 4),
        "macro_f1": round(float(scores[2].mean()), 4),
        "classes": {str(name): row for name, row in frame.to_dict("index").items()},
        "confusion": [{"label": a, "predicted": b, "count": count} for (a, b), count in pairs],
    }
    rows = drawn(list(train or ()), BASELINE_TEXTS, seed)
    if len(examples) > 1 and 2 <= len({row["label"] for row in rows}) <= MOST_CLASSES:
        hits = linear_hits(rows, examples, seed)
        found = {"accuracy": hits.mean(), **paired_bootstrap(right, hits)}
        results["baseline"] = {name: round(float(value), 4) for name, value in found.items()}
    return results


def linear_hits(train: Sequence[Mapping], examples: Sequence[Mapping], seed: int) -> np.ndarray:
    """Whether a linear classifier on TF-IDF of 1 to 3 characters is right about each example.

    It reads `BASELINE_CHARACTERS` of a text; of a pair, how the TF-IDFs differ and what both have.
    """
    names = [name for name in TEXTS if name in train[0]]  # an id can give the class away

    def texts(rows: Sequence[Mapping], name: str) -> list[str]:
        return [row[name][:BASELINE_CHARACTERS] for row in rows]

    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True)
    vectorizer.fit([text for name in names for text in texts(train, name)])

    def features(rows: Sequence[Mapping]) -> Any:
        first, *others = (vectorizer.transform(texts(rows, name)) for name in names)
        pairs = [(abs(first - second), first.multiply(second)) for second in others]
        return hstack([part for pair in pairs for part in pair]) if pairs else first

    baseline = LinearSVC(random_state=seed).fit(features(train), [row["label"] for row in train])
    return baseline.predict(features(examples)) == [row["label"] for row in examples]
