"""Size, speed and accuracy of several static models, measured side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from course_lib.compression.quantization import Pad, one_number
from course_lib.data import convert_example
from course_lib.deploy import Predictor
from course_lib.deploy.export import PROGRAM, WEIGHTS
from course_lib.runtime import InputError
from course_lib.runtime.errors import whole
from course_lib.runtime.visible import is_blank
from course_lib.training.metrics import paired_bootstrap

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
    """Measure every model on the same examples; the first model is what the others are held to.

    Times are those of full batches: `batch_size` rows of exactly `max_length` real tokens, taken
    from the examples. The models take turns, batch by batch, so that whatever else the machine does
    meanwhile hits all of them alike; the order changes from round to round.

    Args:
        models: by name, a Predictor or a path of static files.
        examples: texts, for which the first model needs its tokenizer beside it, or features
            (dicts with "input_ids").
        labels: what `score` holds an example's outputs against, one an example.
        batch_size, max_length: of the timed batches; longer examples are cut.
        threads: of models given as paths; None means all cores that this process may use.
        rounds: timed batches a model.
        score: (outputs of one example, its label) -> a number, higher is better; outputs without
            the batch's axis, padded as their batch was. By default whether the largest of the first
            output is the label: accuracy of classification.

    Returns:
        A row a model, in the order given, with columns "megabytes" (10^6 bytes on disk),
        "median_ms" and "p95_ms" (of a batch), "examples_per_second" (by the median), "speedup"
        (median of the first model / own), "score" (mean), and "difference", "low", "high": score
        minus that of the first model, with its paired 95% bootstrap interval. `frame.attrs` holds
        "batch_size", "max_length", "threads" and "rounds".

    Raises:
        InputError: no model, no examples or fewer than two, labels of another number; Predictors
            of different numbers of threads.
    """
    if not isinstance(models, Mapping) or not models:
        problem = f"is {'empty' if isinstance(models, Mapping) else type(models).__name__}"
        raise InputError("models", problem, "at least one model by name")
    for name, given in (("examples", examples), ("labels", labels)):
        if not hasattr(given, "__len__") or isinstance(given, (str, Mapping)):
            raise InputError(name, f"is {type(given).__name__}", "a list, one for each example")
    if len(examples) < 2 or len(labels) != len(examples):
        problem = f"are {len(examples)}, with {len(labels)} labels"
        raise InputError("examples", problem, "two or more, with one label each")
    if score is not None and not callable(score):
        raise InputError("score", f"is {score!r}", "a function of outputs and label")
    batch_size, rounds = whole("batch_size", batch_size, 1), whole("rounds", rounds, 1)
    max_length = whole("max_length", max_length, 3)
    ready = {
        name: model if isinstance(model, Predictor) else Predictor(model, threads=threads)
        for name, model in models.items()
    }
    counts = {predictor.threads for predictor in ready.values()}
    if len(counts) > 1:
        problem = f"run on {' and '.join(map(str, sorted(counts)))} threads"
        raise InputError("models", problem, "one number of threads for all")
    first = next(iter(ready.values()))
    _check_one_task(ready)
    if score is None:
        _check_classes(first, labels)
    features = [_feature(first, example, max_length) for example in examples]
    times = _times(ready, _full_batch(features, batch_size, max_length), rounds)
    scores = {
        name: _scores(predictor, features, labels, batch_size, score or _is_right)
        for name, predictor in ready.items()
    }
    reference = next(iter(ready))
    median = {name: float(np.median(values)) for name, values in times.items()}
    table = {}
    for name, predictor in ready.items():
        difference = paired_bootstrap(scores[name], scores[reference])
        files = [predictor.path.with_name(predictor.path.name + end) for end in (PROGRAM, WEIGHTS)]
        table[name] = {
            "megabytes": sum(file.stat().st_size for file in files) / 1e6,
            "median_ms": median[name],
            "p95_ms": float(np.percentile(times[name], 95)),
            "examples_per_second": 1000 * batch_size / median[name],
            "speedup": median[reference] / median[name],
            "score": float(np.mean(scores[name])),
            **difference,
        }
    frame = pd.DataFrame.from_dict(table, orient="index")
    frame.attrs = {
        "batch_size": batch_size,
        "max_length": max_length,
        "threads": first.threads,
        "rounds": rounds,
    }
    return frame


def _check_one_task(ready: Mapping[str, Predictor]) -> None:
    first, *others = ready
    for key in ("task", "problem", "labels"):
        known = {name: ready[name].description.get(key) for name in ready}
        for name in others:
            if None not in (known[first], known[name]) and known[name] != known[first]:
                problem = f"{name} has {key} {known[name]}, {first} has {known[first]}"
                raise InputError("models", problem, "models of one task and its classes")


def _check_classes(predictor: Predictor, labels: Sequence) -> None:
    """Labels for `_is_right`: a class each."""
    task, problem = (predictor.description.get(key) for key in ("task", "problem"))
    if task not in (None, "sequence classification") or problem == "multi_label":
        problem = f"is none, and the models are for {problem or task}"
        raise InputError("score", problem, "a function of outputs and label")
    most = len(predictor.labels) - 1 if predictor.labels else np.inf
    for row, label in enumerate(labels):
        whole(f"labels, row {row}", label, 0, most)


def _feature(predictor: Predictor, example: str | Mapping, max_length: int) -> dict:
    if isinstance(example, str) and not is_blank(example):
        ids, types = convert_example(
            {"text": example}, predictor.tokenizer, max_seq_length=max_length, is_test=True
        )[:2]
        return {"input_ids": ids, "token_type_ids": types}
    if isinstance(example, str) or not isinstance(example, Mapping):
        problem = (
            "hold an empty text" if isinstance(example, str) else f"hold {type(example).__name__}"
        )
        raise InputError("examples", problem, "texts, or features with 'input_ids'")
    arrays = Pad(predictor.input_names, 0, "examples")([example])
    return {name: value[0, :max_length] for name, value in arrays.items()}


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
    """One score an example, in their order."""
    order = sorted(range(len(features)), key=lambda index: len(features[index]["input_ids"]))
    scores = np.zeros(len(features))
    pad = Pad(predictor.input_names, predictor.description.get("pad_token_id", 0), "examples")
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        outputs = predictor.run(pad([features[index] for index in chosen]))
        for place, index in enumerate(chosen):
            number = score([output[place] for output in outputs], labels[index])
            scores[index] = one_number("score", number)
    return scores


def _is_right(outputs: list[np.ndarray], label: object) -> float:
    return float(outputs[0].argmax() == label)
