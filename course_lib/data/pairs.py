"""Pairs of Chinese sentences: do they say (or ask) the same?

Written for this course, after the manner of LCQMC, and shipped as data/pairs/pairs.tsv;
data/README.md tells how. `python -m course_lib.data.pairs stats` prints its figures.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib import runtime
from course_lib.data.readers import decode, read_bytes
from course_lib.data.reporting import corpus_command, markdown_table, read_audit, wilson
from course_lib.data.splits import SPLITS, balanced, wanted
from course_lib.runtime import InputError

import numpy as np

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

LABELS = ["different", "same"]
COLUMNS = ("id", "group", "sentence1", "sentence2", "label", "kind")
SAME_KINDS = ("paraphrase", "reorder", "wording")
DIFFERENT_KINDS = (
    *("role", "object", "time", "place", "number", "quantity", "comparison"),
    *("negation", "condition", "order", "cause", "topic"),
)
SEED = 42
SHARE = 0.2  # of a domain's groups, for dev and for test each
AUDITED = 200
VERDICTS = ("agree", "reader's slip", "wrong label", "cannot tell")

_NOT_WORD = re.compile(r"[\W_]+")


def pairs_path() -> Path:
    """Where the pairs lie."""
    return runtime.data_dir() / "pairs" / "pairs.tsv"


def load_pairs(
    splits: str | Sequence[str] = SPLITS, max_examples: int | None = None, seed: int = 42
) -> MapDataset | list[MapDataset]:
    """Load splits of the sentence pairs, as paddlenlp's `load_dataset` would.

    Args:
        splits: "train", "dev" or "test" for one MapDataset; a list or tuple of them for a list.
        max_examples: at most so many of each split, half of them different, half the same, drawn
            with `seed`. None gives all.
        seed: of that draw only. The splits and their order are fixed.

    Returns:
        MapDatasets of `{"sentence1": str, "sentence2": str, "label": 0 | 1, "id": "travel-2-4"}`
        with `label_list` ["different", "same"], in a mixed, fixed order.

    Raises:
        InputError: the file is missing or damaged; with its line.
        ValueError: an unknown split, or a max_examples below 1.
    """
    from paddlenlp.datasets import MapDataset

    names = wanted(splits, max_examples, seed)
    dealt = split_rows()
    datasets = []
    for name in names:
        chosen = [
            {
                "sentence1": row["sentence1"],
                "sentence2": row["sentence2"],
                "label": LABELS.index(row["label"]),
                "id": row["id"],
            }
            for row in dealt[name]
        ]
        random.Random(name).shuffle(chosen)
        if max_examples is not None:
            chosen = balanced(chosen, max_examples, seed)
        datasets.append(MapDataset(chosen, label_list=list(LABELS)))
    return datasets[0] if isinstance(splits, str) else datasets


def read_rows(path: Path | None = None) -> list[dict[str, str]]:
    """The rows of data/pairs/pairs.tsv, in its order, by the names of its columns.

    Raises:
        InputError: the file is missing or a line is not as it should be; with that line.
    """
    path = path or pairs_path()
    lines = decode(read_bytes(path), path).replace("\r\n", "\n").removesuffix("\n").split("\n")
    if tuple(lines[0].split("\t")) != COLUMNS:
        raise InputError(path, "another header", f"the columns {', '.join(COLUMNS)}", 1)
    rows: list[dict[str, str]] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines[1:], 2):
        fields = line.split("\t")
        if len(fields) != len(COLUMNS):
            problem = f"{len(fields)} field{'s' * (len(fields) != 1)}"
            raise InputError(path, problem, f"{len(COLUMNS)}, with tabs between", number)
        row = dict(zip(COLUMNS, fields, strict=True))
        for name, value in row.items():
            if not value or value != value.strip():
                problem = f"{name} is empty or has white space around it"
                raise InputError(path, problem, "a value", number)
        if row["label"] not in LABELS:
            raise InputError(path, f"unknown label {row['label']!r}", " or ".join(LABELS), number)
        kinds = SAME_KINDS if row["label"] == "same" else DIFFERENT_KINDS
        if row["kind"] not in kinds:
            problem = f"kind {row['kind']!r} for label {row['label']!r}"
            raise InputError(path, problem, f"one of {', '.join(kinds)}", number)
        if not re.fullmatch(r"[a-z]+-\d+", row["group"]):
            raise InputError(path, f"group {row['group']!r}", "one like travel-2", number)
        if not re.fullmatch(re.escape(row["group"]) + r"-\d+", row["id"]):
            problem = f"id {row['id']!r} in group {row['group']!r}"
            raise InputError(path, problem, "the group and a number", number)
        first = seen.setdefault(row["id"], number)
        if first != number:
            problem = f"id {row['id']!r} again (first in line {first})"
            raise InputError(path, problem, "each id once", number)
        rows.append(row)
    if not rows:
        raise InputError(path, "holds no pair", "at least one line below the header")
    return rows


def split_rows() -> dict[str, list[dict[str, str]]]:
    """The rows of each split. Whole groups are dealt, domain by domain: 60, 20 and 20 percent."""
    rows = read_rows()
    groups: dict[str, list[str]] = defaultdict(list)
    for group in dict.fromkeys(row["group"] for row in rows):
        groups[group.rpartition("-")[0]].append(group)
    split_of: dict[str, str] = {}
    rng = random.Random(SEED)
    for domain in sorted(groups):
        names = groups[domain]
        rng.shuffle(names)
        share = round(len(names) * SHARE)
        split_of.update(dict.fromkeys(names, "train"))
        split_of.update(dict.fromkeys(names[:share], "dev"))
        split_of.update(dict.fromkeys(names[share : 2 * share], "test"))
    found: dict[str, list[dict[str, str]]] = {name: [] for name in SPLITS}
    for row in rows:
        found[split_of[row["group"]]].append(row)
    return found


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
    from sklearn.model_selection import GroupKFold, cross_val_predict
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
        return make_pipeline(TfidfVectorizer(analyzer="char", ngram_range=(1, 3)), LinearSVC())

    models = {
        "first sentence alone": (linear, [one for one, _ in texts]),
        "second sentence alone": (linear, [other for _, other in texts]),
        "both, as one text": (linear, [f"{one}\n{other}" for one, other in texts]),
        "forest on the four measures": (
            lambda: RandomForestClassifier(200, min_samples_leaf=5, random_state=SEED),
            measures,
        ),
    }
    groups = [row["group"] for row in rows]
    for name, (make, inputs) in models.items():
        held_out = make().fit(inputs[:train], labels[:train]).predict(inputs[train:])
        folds = cross_val_predict(make(), inputs, labels, groups=groups, cv=GroupKFold(5))
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
    return random.Random(42).sample(sorted(row["id"] for row in read_rows()), AUDITED)


def report() -> str:
    """The tables of data/README.md, as Markdown."""
    return "\n\n".join((_splits(), _kinds(), _baselines(), _audit())) + "\n"


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
        low, high = wilson(counts[verdict], total)
        share = f"{counts[verdict] / total:.1%}"
        rows.append([verdict, counts[verdict], share, f"{abs(low):.1%} to {high:.1%}"])
    return markdown_table(["verdict", "pairs", "share", "95% interval (Wilson)"], rows)


def main(arguments: list[str] | None = None) -> int:
    """Run one command: see `corpus_command`."""
    return corpus_command("pairs", __doc__, arguments, stats=report)


if __name__ == "__main__":
    sys.exit(main())
