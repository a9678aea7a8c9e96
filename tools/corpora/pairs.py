"""Figures of the sentence pairs: kinds, baselines that do not read, and the audit."""

from __future__ import annotations

import random
import re
from collections import Counter

from course_lib.data.pairs import LABELS, SEED, split_rows
from course_lib.data.splits import SPLITS
from tools.corpora.reporting import interval, markdown_table, read_audit

import numpy as np

SAME_KINDS = ("paraphrase", "reorder", "wording")
DIFFERENT_KINDS = (
    *("role", "object", "time", "place", "number", "quantity", "comparison"),
    *("negation", "condition", "order", "cause", "topic"),
)
AUDITED = 200
VERDICTS = ("agree", "reader's slip", "wrong label", "cannot tell")

_NOT_WORD = re.compile(r"[\W_]+")


# --- trivial baselines ------------------------------------------------------------------------


def overlap(one: str, other: str, size: int = 1) -> float:
    """Jaccard overlap of the character n-grams of two sentences, punctuation left out: 0 to 1."""
    grams = []
    for text in (one, other):
        text = _NOT_WORD.sub("", text)
        grams.append({text[i : i + size] for i in range(len(text) - size + 1)})
    union = grams[0] | grams[1]
    return len(grams[0] & grams[1]) / len(union) if union else 1.0


def edit_distance(one: str, other: str) -> float:
    """Levenshtein distance in characters, as a share of the longer sentence: 0 to 1."""
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        above, row = row, [i]
        for j, right in enumerate(other, 1):
            row.append(min(row[-1] + 1, above[j] + 1, above[j - 1] + (left != right)))
    return row[-1] / max(len(one), len(other), 1)


MEASURES = {
    "overlap of characters": overlap,
    "overlap of bigrams": lambda one, other: overlap(one, other, size=2),
    "edit distance": edit_distance,
    "difference of lengths": lambda one, other: abs(len(one) - len(other)),
}


def baselines() -> dict[str, tuple[float, float]]:
    """What can be had without reading: accuracy of rules and of linear models of characters.

    Returns:
        `{name: (held out, all)}`. Held out: learnt on train, accuracy on dev and test together.
        All: on all pairs; for a threshold the best one in hindsight, which no model that knows only
        this measure can beat; for the others five-fold cross-validation, groups kept whole.
        A threshold is tried in both directions, much or little being the same.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import PredefinedSplit, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    dealt = split_rows()
    rows = [row for name in SPLITS for row in dealt[name]]
    train = len(dealt["train"])
    labels = np.array([LABELS.index(row["label"]) for row in rows])
    texts = [(row["sentence1"], row["sentence2"]) for row in rows]
    majority = np.full(len(rows), np.bincount(labels[:train]).argmax())
    found = {"majority": _shares(majority[train:] == labels[train:], majority == labels)}

    measures = np.array([[m(*pair) for m in MEASURES.values()] for pair in texts])
    for name, values in zip(MEASURES, measures.T, strict=True):
        learnt = _best_threshold(values[:train], labels[:train])
        hindsight = _best_threshold(values, labels)
        found[f"threshold on {name}"] = _shares(
            _apply(values, *learnt)[train:] == labels[train:], _apply(values, *hindsight) == labels
        )

    def linear():
        features = TfidfVectorizer(analyzer="char", ngram_range=(1, 3))
        return make_pipeline(features, LinearSVC(random_state=SEED))

    models = {
        "first sentence alone": (linear, [one for one, _ in texts]),
        "second sentence alone": (linear, [other for _, other in texts]),
        "both, as one text": (linear, [f"{one}\n{other}" for one, other in texts]),
        "forest on the four measures": (
            lambda: RandomForestClassifier(200, min_samples_leaf=5, random_state=SEED),
            measures,
        ),
    }
    # GroupKFold deals groups of one size by an unstable sort: not the same on every processor.
    groups = np.unique([row["group"] for row in rows], return_inverse=True)[1]
    deal = PredefinedSplit(groups % 5)
    for name, (make, inputs) in models.items():
        held_out = make().fit(inputs[:train], labels[:train]).predict(inputs[train:])
        folds = cross_val_predict(make(), inputs, labels, cv=deal)
        found[name] = _shares(held_out == labels[train:], folds == labels)
    return found


def _shares(held_out: np.ndarray, everything: np.ndarray) -> tuple[float, float]:
    return float(held_out.mean()), float(everything.mean())


def _best_threshold(values: np.ndarray, labels: np.ndarray) -> tuple[float, bool]:
    tried = [(float(value), above) for value in np.unique(values) for above in (True, False)]
    return max(tried, key=lambda rule: (_apply(values, *rule) == labels).mean())


def _apply(values: np.ndarray, threshold: float, above: bool) -> np.ndarray:
    return (values >= threshold) == above


# --- audit and figures ------------------------------------------------------------------------


def draw_audit() -> list[str]:
    """The ids of the 200 pairs that were judged, drawn from all with seed 42."""
    ids = [row["id"] for rows in split_rows().values() for row in rows]
    return random.Random(42).sample(sorted(ids), AUDITED)


def report() -> str:
    """The tables of data/README.md, as Markdown."""
    return "\n\n".join((_splits(), _kinds(), _baselines(), _audit()))


def _splits() -> str:
    rows: list[list[object]] = []
    dealt = split_rows()
    for name in (*SPLITS, "all"):
        part = [row for split in SPLITS if name in (split, "all") for row in dealt[split]]
        labels = Counter(row["label"] for row in part)
        sentences = {row[side] for row in part for side in ("sentence1", "sentence2")}
        lengths = sorted(map(len, sentences))
        groups = len({row["group"] for row in part})
        counts = [len(part), groups, labels["different"], labels["same"], len(sentences)]
        rows.append([name, *counts, lengths[len(lengths) // 2], lengths[-1]])
    header = ["split", "pairs", "groups", "different", "same", "distinct sentences"]
    return markdown_table([*header, "median characters", "longest"], rows)


def _kinds() -> str:
    rows: list[list[object]] = []
    dealt = split_rows()
    for label, kinds in (("same", SAME_KINDS), ("different", DIFFERENT_KINDS)):
        for kind in kinds:
            parts = [[row for row in dealt[name] if row["kind"] == kind] for name in SPLITS]
            overlaps = [overlap(r["sentence1"], r["sentence2"]) for part in parts for r in part]
            mean = f"{sum(overlaps) / len(overlaps):.2f}" if overlaps else "-"
            rows.append([kind, label, *map(len, parts), mean])
    return markdown_table(["kind", "label", *SPLITS, "mean overlap of characters"], rows)


def _baselines() -> str:
    found = baselines()
    rows = [[name, f"{held_out:.1%}", f"{all_:.1%}"] for name, (held_out, all_) in found.items()]
    return markdown_table(["baseline", "accuracy on dev and test", "on all pairs"], rows)


def _audit() -> str:
    counts = Counter(row["verdict"] for row in read_audit("pairs"))
    total = sum(counts.values())
    rows: list[list[object]] = []
    for verdict in VERDICTS:
        share = f"{counts[verdict] / total:.1%}"
        rows.append([verdict, counts[verdict], share, interval(counts[verdict], total)])
    return markdown_table(["verdict", "pairs", "share", "95% interval (Wilson)"], rows)
