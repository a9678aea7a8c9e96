"""Size, speed and accuracy of several static models, measured side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from course_lib.compression.quantization import _Pad
from course_lib.data import convert_example
from course_lib.deploy import Predictor
from course_lib.deploy.export import PROGRAM, WEIGHTS
from course_lib.runtime import InputError
from course_lib.runtime.errors import whole
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
    if not models:
        raise InputError("models", "is empty", "at least one model by name")
    if isinstance(examples, (str, Mapping)) or len(examples) < 2 or len(labels) != len(examples):
        problem = f"are {len(examples)}, with {len(labels)} labels"
        raise InputError("examples", problem, "two or more, with one label each")
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


def _feature(predictor: Predictor, example: str | Mapping, max_length: int) -> dict:
    if isinstance(example, str):
        ids, types = convert_example(
            {"text": example}, predictor.tokenizer, max_seq_length=max_length, is_test=True
        )[:2]
        return {"input_ids": ids, "token_type_ids": types}
    return {
        name: list(example[name])[:max_length]
        for name in ("input_ids", "token_type_ids")
        if name in example
    }


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
    pad = _Pad(predictor.input_names, predictor.description.get("pad_token_id", 0))
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        outputs = predictor.run(pad([features[index] for index in chosen]))
        for place, index in enumerate(chosen):
            scores[index] = score([output[place] for output in outputs], labels[index])
    return scores


def _is_right(outputs: list[np.ndarray], label: object) -> float:
    return float(outputs[0].argmax() == label)
