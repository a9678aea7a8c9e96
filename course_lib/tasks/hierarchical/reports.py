"""How good predicted sets of labels are: the guide's report, in scikit-learn's figures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from course_lib.runtime import InputError, atomic_file
from course_lib.tasks.hierarchical.taxonomy import Taxonomy

import numpy as np

BAD_CASES = "Prediction\tLabel\tText"  # the first line of their file
Rows = Sequence[Sequence[str]] | np.ndarray


def label_counts(true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Right, predicted and true labels; shape [..., 3] for arrays of booleans of shape [...]."""
    return np.stack([true & predicted, predicted, true], axis=-1).astype("int64")


def _scores(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Precision, recall and F1 of counts [..., 3]; 0 where there is nothing to divide by."""
    right, predicted, true = np.moveaxis(counts, -1, 0)
    return {
        "precision": right / np.maximum(1, predicted),
        "recall": right / np.maximum(1, true),
        "f1": 2 * right / np.maximum(1, predicted + true),
    }


def averages(true: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Accuracy (all labels of a text right), and macro and micro figures.

    Micro counts all decisions together, so frequent labels weigh most. Macro is the mean over
    labels, each weighing the same, those without an example among `true` included, with F1 0.
    """
    counts = label_counts(true, predicted).sum(axis=0)
    return {
        "accuracy": float((true == predicted).all(axis=1).mean()),
        "macro": {name: float(values.mean()) for name, values in _scores(counts).items()},
        "micro": {name: float(value) for name, value in _scores(counts.sum(axis=0)).items()},
    }


def report(true: Rows, predicted: Rows, taxonomy: Taxonomy, train: Rows | None = None) -> dict:
    """All the figures of the guide's report, 0 to 1.

    Args:
        true, predicted: a row a text, lists of labels or booleans [texts, labels].
        train: the training texts' labels, for their numbers and shares.

    Returns:
        {"examples", "accuracy", "macro", "micro": {"precision", "recall", "f1"}, "orphans": rows
        with a predicted label whose parent is not, "levels": [{"level", "macro_f1", "micro_f1",
        "accuracy"}], "classes": {label: {"precision", "recall", "f1", "count", "share",
        "train_count", "train_share"}}}; the last two only with `train`. Levels count the labels of
        that level alone. A share is of the texts.
    """
    true, predicted = _matrix(true, taxonomy), _matrix(predicted, taxonomy)
    result = {"examples": len(true), **averages(true, predicted), "levels": []}
    result["orphans"] = orphans(predicted, taxonomy)
    for level, labels in enumerate(taxonomy.levels, 1):
        columns = [taxonomy.ids[label] for label in labels]
        part = averages(true[:, columns], predicted[:, columns])
        row = {"level": level, "macro_f1": part["macro"]["f1"], "micro_f1": part["micro"]["f1"]}
        result["levels"].append({**row, "accuracy": part["accuracy"]})
    columns = {**_scores(label_counts(true, predicted).sum(axis=0)), **_frequencies(true)}
    if train is not None:
        frequencies = _frequencies(_matrix(train, taxonomy))
        columns |= {f"train_{name}": values for name, values in frequencies.items()}
    result["classes"] = {
        label: {name: values[column].item() for name, values in columns.items()}
        for column, label in enumerate(taxonomy.labels)
    }
    return result


def orphans(predicted: np.ndarray, taxonomy: Taxonomy) -> int:
    """How many rows have a label without one of its parents."""
    lonely = np.zeros(len(predicted), dtype=bool)
    for column, label in enumerate(taxonomy.labels):
        for parent in taxonomy.parents(label):
            lonely |= predicted[:, column] & ~predicted[:, taxonomy.ids[parent]]
    return int(lonely.sum())


def report_lines(dev: Mapping, train: Mapping | None = None) -> list[str]:
    """The report in words, in percent, in the order of the guide.

    Args:
        dev: of `report`.
        train: a report of the training texts themselves, for the lines about them.
    """

    def three(row: Mapping) -> str:
        values = [100 * row[name] for name in ("precision", "recall", "f1")]
        return "precision: {:.2f} | recall: {:.2f} | F1 score {:.2f}".format(*values)

    lines = [] if train is None else [f"Train dataset size: {train['examples']}"]
    lines += [
        f"Dev dataset size: {dev['examples']}",
        f"Accuracy in dev dataset: {100 * dev['accuracy']:.2f}%",
        f"Macro avg in dev dataset: {three(dev['macro'])}",
        f"Micro avg in dev dataset: {three(dev['micro'])}",
        f"Texts with a child but not its parent: {dev['orphans']}",
    ]
    for row in dev["levels"]:
        lines.append(
            f"Level {row['level']} Label Performance: Macro F1 score: {100 * row['macro_f1']:.2f} "
            f"| Micro F1 score: {100 * row['micro_f1']:.2f} | Accuracy: {100 * row['accuracy']:.2f}"
        )
    for label, row in dev["classes"].items():
        lines.append(f"Class name: {label}")
        if train is not None:
            there = train["classes"][label]
            counts = f"{there['count']}({there['share']:.1%}) | {three(there)}"
            lines.append(f"Evaluation examples in train dataset: {counts}")
        elif "train_count" in row:
            counts = f"{row['train_count']}({row['train_share']:.1%})"
            lines.append(f"Evaluation examples in train dataset: {counts}")
        counts = f"{row['count']}({row['share']:.1%}) | {three(row)}"
        lines += [f"Evaluation examples in dev dataset: {counts}", "-" * 28]
    return lines


def check_bad_cases(path: str | os.PathLike) -> None:
    """Refuse a file, which the default name may find, that `write_bad_cases` has not written.

    Raises:
        InputError: such a file.
    """
    if Path(path).is_file() and Path(path).stat().st_size:
        with open(path, "rb") as file:
            if file.readline(80).rstrip() != BAD_CASES.encode():
                problem = "holds something else than bad cases, which would be lost"
                raise InputError(path, problem, "another --bad_case_path")


def write_bad_cases(
    path: str | os.PathLike, examples: Sequence[Mapping], predicted: Sequence[Sequence[str]]
) -> int:
    """Write the texts whose labels are not exactly right: prediction, labels and text, with tabs.

    Args:
        examples: rows of {"text", "labels"}.
        predicted: their predicted labels.

    Returns:
        How many there are.
    """
    wrong = 0
    with atomic_file(path) as file:
        file.write(f"{BAD_CASES}\n")
        for example, labels in zip(examples, predicted, strict=True):
            if set(labels) != set(example["labels"]):
                wrong += 1
                pair = ",".join(labels), ",".join(example["labels"])
                file.write("\t".join((*pair, example["text"])) + "\n")
    return wrong


def _frequencies(rows: np.ndarray) -> dict[str, np.ndarray]:
    return {"count": rows.sum(axis=0), "share": rows.mean(axis=0)}


def _matrix(rows: Rows, taxonomy: Taxonomy) -> np.ndarray:
    return rows if isinstance(rows, np.ndarray) else taxonomy.indicators(rows)
