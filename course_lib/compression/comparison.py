"""Size, speed and accuracy of several static models, measured side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from ..data import convert_example
from ..data.batching import map_by_length
from ..deploy import Predictor
from ..deploy.files import PROGRAM, WEIGHTS, file_of
from ..runtime import InputError
from ..training.metrics import paired_bootstrap
from .static import pad_features

import numpy as np
import pandas as pd

WARM_UP = 2  # batches: the first ones choose kernels and allocate memory


def compare(
    models: Mapping[str, Predictor | str | os.PathLike],
    examples: Sequence[str] | Sequence[Mapping],
    labels: Sequence,
    batch_size: int = 32,
    max_length: int = 128,
    threads: int | None = None,
    rounds: int = 20,
    score: Callable[[list[np.ndarray], object], float] | None = None,
) -> pd.DataFrame:
    """Measure every model on the same examples, and compare all of them with the first one.

    Times are those of full batches: `batch_size` rows of exactly `max_length` real tokens, taken
    from the examples. The models take turns, batch by batch, so that whatever else the machine does
    meanwhile hits all of them alike; the order changes from round to round.

    Args:
        models: by name, a Predictor or a path of static files.
        examples: texts, for which the first model needs its tokenizer beside it, or features
            (dicts with "input_ids").
        labels: what `score` compares an example's outputs with, one for each example.
        batch_size, max_length: of the timed batches; longer examples are cut.
        threads: of models given as paths; None means all cores that this process may use.
        rounds: timed batches per model.
        score: (outputs of one example, its label) -> a number, higher is better; outputs without
            the batch's axis, padded as their batch was. By default whether the largest of the first
            output is the label: accuracy of classification.

    Returns:
        One row per model, in the order given, with columns "megabytes" (10^6 bytes on disk),
        "median_ms" and "p95_ms" (of a batch), "examples_per_second" (by the median), "speedup"
        (median of the first model / own), "score" (mean), and "difference", "low", "high": score
        minus that of the first model, with its paired 95% bootstrap interval. `frame.attrs` holds
        "batch_size", "max_length", "threads" and "rounds".

    Raises:
        InputError: models of different tasks, classes or numbers of threads; labels of another
            number than the examples, or that the default score cannot read.
    """
    if len(labels) != len(examples):
        problem = f"are {len(examples)}, with {len(labels)} labels"
        raise InputError("examples", problem, "one label for each")
    predictors = {
        name: model if isinstance(model, Predictor) else Predictor(model, threads=threads)
        for name, model in models.items()
    }
    reference, first = next(iter(predictors.items()))
    _check_alike(predictors)
    if score is None:
        _check_classes(first, labels)
    features = [_feature(first, example, max_length) for example in examples]
    times = _times(predictors, _full_batch(features, batch_size, max_length), rounds)
    scores = {
        name: _scores(predictor, features, labels, batch_size, score or _is_right)
        for name, predictor in predictors.items()
    }
    table = {}
    for name, predictor in predictors.items():
        files = [file_of(predictor.path, end) for end in (PROGRAM, WEIGHTS)]
        median = float(np.median(times[name]))
        table[name] = {
            "megabytes": sum(file.stat().st_size for file in files) / 1e6,
            "median_ms": median,
            "p95_ms": float(np.percentile(times[name], 95)),
            "examples_per_second": 1000 * batch_size / median,
            "speedup": float(np.median(times[reference])) / median,
            "score": float(np.mean(scores[name])),
            **paired_bootstrap(scores[name], scores[reference]),
        }
    frame = pd.DataFrame.from_dict(table, orient="index")
    frame.attrs = {"batch_size": batch_size, "max_length": max_length, "rounds": rounds}
    frame.attrs["threads"] = first.threads
    return frame


def _check_alike(predictors: Mapping[str, Predictor]) -> None:
    """Refuse a table whose rows would not be about the same thing."""
    first, *others = predictors
    for key in ("task", "problem", "labels", "threads"):
        values = {
            name: one.threads if key == "threads" else one.description.get(key)
            for name, one in predictors.items()
        }
        for name in others:
            if None not in (values[first], values[name]) and values[name] != values[first]:
                problem = f"{name} has {key} {values[name]}, {first} has {values[first]}"
                raise InputError("models", problem, "the same for all models")


def _check_classes(predictor: Predictor, labels: Sequence) -> None:
    """Refuse labels that `_is_right` would count as wrong answers, whatever the model says."""
    task, problem = (predictor.description.get(key) for key in ("task", "problem"))
    of_texts = task in (None, "sequence classification", "pair classification")
    if not of_texts or problem == "multi_label":
        problem = f"is missing, and the models are for {problem or task}"
        raise InputError("score", problem, "a function of outputs and label")
    classes = len(predictor.labels) if predictor.labels else np.inf
    for row, label in enumerate(labels):
        if not 0 <= label < classes:
            raise InputError("labels", f"row {row} is {label!r}", f"a class below {classes}")


def _feature(predictor: Predictor, example: str | Mapping, max_length: int) -> dict:
    if isinstance(example, str):
        ids, types = convert_example(
            {"text": example}, predictor.tokenizer, max_seq_length=max_length, is_test=True
        )
        return {"input_ids": ids, "token_type_ids": types}
    return {name: example[name][:max_length] for name in predictor.input_names if name in example}


def _full_batch(features: list[dict], rows: int, length: int) -> dict[str, np.ndarray]:
    """Real tokens without padding: examples one after another, cut into rows."""
    ids = np.concatenate([feature["input_ids"] for feature in features]).astype("int64")
    return {"input_ids": np.resize(ids, (rows, length))}


def _times(
    predictors: Mapping[str, Predictor], batch: dict[str, np.ndarray], rounds: int
) -> dict[str, list[float]]:
    """Milliseconds of each batch of each model."""
    times: dict[str, list[float]] = {name: [] for name in predictors}
    order = np.random.RandomState(0)
    for number in range(WARM_UP + rounds):
        for name in order.permutation(list(predictors)):
            start = time.perf_counter()
            predictors[name].run(batch)
            if number >= WARM_UP:
                times[name].append(1000 * (time.perf_counter() - start))
    return times


def _scores(
    predictor: Predictor,
    features: list[dict],
    labels: Sequence,
    batch_size: int,
    score: Callable[[list[np.ndarray], object], float],
) -> np.ndarray:
    """One score per example, in the order of the examples."""
    padding = predictor.description.get("pad_token_id", 0)

    def run(pairs: list[tuple[dict, object]]) -> list[float]:
        rows = pad_features([row for row, _ in pairs], predictor.input_names, padding)
        outputs = zip(*predictor.run(rows), strict=True)
        return [score(list(own), label) for own, (_, label) in zip(outputs, pairs, strict=True)]

    pairs = list(zip(features, labels, strict=True))
    return np.array(map_by_length(run, pairs, batch_size, lambda pair: len(pair[0]["input_ids"])))


def _is_right(outputs: list[np.ndarray], label: object) -> float:
    return float(outputs[0].argmax() == label)
