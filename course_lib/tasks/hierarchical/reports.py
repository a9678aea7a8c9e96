"""How good predicted sets of labels are: the guide's report, in scikit-learn's metrics."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...runtime import InputError, atomic_file
from .files import BAD_CASES
from .taxonomy import Taxonomy

import numpy as np
from sklearn.metrics import precision_recall_fscore_support

Rows = Sequence[Sequence[str]] | np.ndarray


def brief(true: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """ "accuracy", "micro_f1" and "macro_f1" of booleans [texts, labels], as `report` has them."""
    scores = _averages(true, predicted)
    f1 = {f"{kind}_f1": scores[kind]["f1"] for kind in ("micro", "macro")}
    return {"accuracy": scores["accuracy"], **f1}


def report(true: Rows, predicted: Rows, taxonomy: Taxonomy, train: Rows | None = None) -> dict:
    """All the numbers of the guide's report, 0 to 1.

    Micro counts all decisions together, so frequent labels weigh most. Macro is the mean over
    labels, each weighing the same, those without an example among `true` included, with F1 0.

    Args:
        true, predicted: one row per text, lists of labels or booleans [texts, labels].
        train: the training texts' labels, for their numbers and shares.

    Returns:
        {"examples", "accuracy": all labels of a text right, "macro", "micro": {"precision",
        "recall", "f1"}, "orphans": texts with a predicted label but not its parent, "levels":
        [{"level", "macro_f1", "micro_f1", "accuracy"}], of the labels of that level alone,
        "classes": {label: {"precision", "recall", "f1", "count", "share", "train_count",
        "train_share"}}}; the last two only with `train`. A share is of the texts.

    Raises:
        InputError: an array that is not of booleans [texts, labels].
    """
    true, predicted = _matrix(true, taxonomy), _matrix(predicted, taxonomy)
    result = {"examples": len(true), **_averages(true, predicted), "levels": []}
    orphan = np.zeros(len(predicted), dtype=bool)
    for column, label in enumerate(taxonomy.labels):
        parent = taxonomy.parent(label)
        if parent is not None:
            orphan |= predicted[:, column] & ~predicted[:, taxonomy.ids[parent]]
    result["orphans"] = int(orphan.sum())
    for level, labels in enumerate(taxonomy.levels, 1):
        columns = [taxonomy.ids[label] for label in labels]
        part = brief(true[:, columns], predicted[:, columns])
        result["levels"].append({"level": level, **part})
    columns = {**_scores(true, predicted), **_frequencies(true)}
    if train is not None:
        frequencies = _frequencies(_matrix(train, taxonomy))
        columns |= {f"train_{name}": values for name, values in frequencies.items()}
    result["classes"] = {
        label: {name: values[column].item() for name, values in columns.items()}
        for column, label in enumerate(taxonomy.labels)
    }
    return result


def report_lines(dev: Mapping, train: Mapping | None = None, split: str = "dev") -> list[str]:
    """The reports of a split and of the training texts, as the guide prints them, in percent."""

    def three(row: Mapping) -> str:
        values = [100 * row[name] for name in ("precision", "recall", "f1")]
        return "precision: {:.2f} | recall: {:.2f} | F1 score {:.2f}".format(*values)

    def examples(split: str, count: int, share: float, *more: str) -> str:
        figures = " | ".join([f"{count}({share:.1%})", *more])
        return f"Evaluation examples in {split} dataset: {figures}"

    lines = [] if train is None else [f"Train dataset size: {train['examples']}"]
    lines += [
        f"{split.capitalize()} dataset size: {dev['examples']}",
        f"Accuracy in {split} dataset: {100 * dev['accuracy']:.2f}%",
        f"Macro avg in {split} dataset: {three(dev['macro'])}",
        f"Micro avg in {split} dataset: {three(dev['micro'])}",
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
            lines.append(examples("train", there["count"], there["share"], three(there)))
        elif "train_count" in row:
            lines.append(examples("train", row["train_count"], row["train_share"]))
        lines += [examples(split, row["count"], row["share"], three(row)), "-" * 28]
    return lines


def write_bad_cases(
    path: str | os.PathLike, examples: Sequence[Mapping], predicted: Sequence[Sequence[str]]
) -> int:
    """Write the examples {"text", "labels"} whose labels are not exactly right; give their number.

    A line holds the predicted labels, the right ones and the text, with tabs between them.
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


def _scores(true: np.ndarray, predicted: np.ndarray, average: str | None = None) -> dict:
    """Precision, recall and F1 of booleans [texts, labels]; 0 where nothing is there to divide."""
    labels = None if true.shape[1] > 1 else [True]  # scikit-learn sees two classes in one column
    options: Any = {"labels": labels, "average": average, "zero_division": 0}
    scores = precision_recall_fscore_support(true, predicted, **options)
    return dict(zip(("precision", "recall", "f1"), scores[:3], strict=True))


def _averages(true: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    scores = {kind: _scores(true, predicted, kind) for kind in ("macro", "micro")}
    return {"accuracy": float((true == predicted).all(axis=1).mean()), **scores}


def _frequencies(rows: np.ndarray) -> dict[str, np.ndarray]:
    return {"count": rows.sum(axis=0), "share": rows.mean(axis=0)}


def _matrix(rows: Rows, taxonomy: Taxonomy) -> np.ndarray:
    if not isinstance(rows, np.ndarray):
        return taxonomy.indicators(rows)
    if rows.dtype != bool or rows.shape[1:] != (len(taxonomy),):  # more columns would be ignored
        problem = f"is of {rows.dtype} with the shape {rows.shape}"
        raise InputError("matrix", problem, f"booleans, with {len(taxonomy)} columns")
    return rows
