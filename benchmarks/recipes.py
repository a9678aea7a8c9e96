"""Which recipes of the FAQ help, and by how much: tables over three seeds, and one JSON line.

    python benchmarks/recipes.py [--parts imbalance,labels,vocabulary,crf] [--seeds 42,43,44]
    python benchmarks/recipes.py --parts imbalance,labels --finetune    an hour on two cores

imbalance: reviews at 20:1; each remedy against doing nothing, on balanced test reviews that are
weighted back to 20:1. labels: accuracy by the number of labeled reviews, the backbone against
TF-IDF and a linear model. vocabulary: words of the reviews, added as tokens or hidden whole in a
second pretraining, against doing nothing. crf: entities of People's Daily without a CRF, with one,
and without one but decoded by the rules of BIO.

All are scored on test, whose examples nothing was chosen by. Differences have a 95% interval of a
paired bootstrap over the test examples, of the mean over the seeds; "helps" is yes or no where it
leaves 0 out, and otherwise says that it cannot be told.

With --work a run that was stopped goes on with the seeds that it had not finished.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from course_lib import runtime
from course_lib.chapters.ch15 import compare_imbalance, imbalance_table
from course_lib.chapters.ch16 import compare_vocabulary, vocabulary_table
from course_lib.chapters.ch19 import compare_crf, rule_crf
from course_lib.data import load_people_daily, load_reviews
from course_lib.runtime import atomic_file, select_device
from course_lib.tasks.labels import (
    Finetune,
    FrozenBackbone,
    labeled_subset,
    make_imbalanced,
    tfidf_learner,
)
from course_lib.tasks.labels.few_labels import Learner
from course_lib.tasks.tagging import entity_scores, predict_tags
from course_lib.tasks.vocabulary import find_words
from course_lib.training import paired_bootstrap, paired_bootstrap_f1, span_counts

import numpy as np
import pandas as pd
from paddlenlp.utils.log import logger

RATIO, RARE = 20, 0  # complaints are the rare class
SIZES = (50, 200, 800, 3200)  # labeled reviews
SENTENCES = {"train": 800, "test": 500}  # of People's Daily
WORD_SIZES = {"train_examples": 400, "pretraining_texts": 300, "max_seq_length": 48, "epochs": 1}
WHOLE = Finetune(steps=200, batch_size=16, max_seq_length=64)  # about a minute a training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="default: %(default)s")
    parser.add_argument("--seeds", default="42,43,44", help="default: %(default)s")
    parser.add_argument(
        "--finetune",
        action="store_true",
        help="imbalance and labels: train the whole backbone; default: a layer on its features",
    )
    parser.add_argument("--work", help="a directory that keeps what is done for the next run")
    args = parser.parse_args()
    select_device("cpu")
    logger.set_level("ERROR")
    parts, seeds = args.parts.split(","), [int(seed) for seed in args.seeds.split(",")]
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    learner = WHOLE if args.finetune else FrozenBackbone(max_seq_length=64)
    result = {"backbone": "fine-tuned" if args.finetune else "frozen"}
    with tempfile.TemporaryDirectory(prefix="recipes-") as temporary:
        for part in parts:
            run, table = PARTS[part]
            work = Path(args.work or temporary, result["backbone"])
            runs = [remembered(work, part, seed, partial(run, learner)) for seed in seeds]
            frame = table(runs).round(4)
            print(f"\n{part}\n{frame.to_string()}", file=sys.stderr, flush=True)
            result[part] = json.loads(frame.reset_index().to_json(orient="records"))
    told = {"task": "recipes of the FAQ against doing nothing", "seeds": seeds}
    print(json.dumps({**told, **result, "cores": len(os.sched_getaffinity(0))}))


def remembered(work: Path, part: str, seed: int, run: Callable[[int], dict]) -> dict:
    """What `run` gives for a seed: arrays or lists, by name."""
    file = work / part / f"{seed}.json"
    if not file.is_file():
        started = time.perf_counter()
        found = run(seed)
        with atomic_file(file) as out:
            json.dump(found, out)
        print(
            f"{part}, seed {seed}: {time.perf_counter() - started:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    return json.loads(file.read_text("utf-8"))


def say(name: str) -> None:
    print(f"  {name}", file=sys.stderr, flush=True)


def helps(low: float, high: float) -> str:
    if np.isnan(low):
        return ""
    return "yes" if low > 0 else "no, it harms" if high < 0 else "not told apart"


# ---- classes of uneven size


def imbalance(learner: Learner, seed: int) -> dict:
    train, dev = (
        make_imbalanced(load_reviews(name), RATIO, RARE, seed) for name in ("train", "dev")
    )
    answers = compare_imbalance(learner, train, dev, load_reviews("test"), RARE, seed, say)
    return {name: one.tolist() for name, one in answers.items()}


def imbalance_result(runs: list[dict]) -> pd.DataFrame:
    answers = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    table = imbalance_table([row["label"] for row in load_reviews("test")], answers, RARE, RATIO)
    table.insert(7, "helps", [helps(*ends) for ends in table[["gain low", "gain high"]].values])
    table.loc[table.index[0], "helps"] = ""
    return table


# ---- how many labels


def labels(learner: Learner, seed: int) -> dict:
    learners = {"backbone": learner, "TF-IDF": tfidf_learner}
    test, right = load_reviews("test"), {}
    goal = np.array([row["label"] for row in test])
    for size in SIZES:
        subset = labeled_subset(load_reviews("train"), size, seed)
        for name, one in learners.items():
            say(f"{name}, {size}")
            answers = one(subset, None, seed)(test).argmax(axis=1)
            right[f"{name}/{size}"] = (answers == goal).astype(int).tolist()
    return right


def labels_result(runs: list[dict]) -> pd.DataFrame:
    right = {key: np.mean([run[key] for run in runs], axis=0) for key in runs[0]}
    points = {}
    for key, row in right.items():
        name, size = key.split("/")
        found = paired_bootstrap(row, 0 * row, resamples=2000)
        point = {"accuracy": found.pop("difference"), **found}
        if name == "backbone":
            found = paired_bootstrap(row, right[f"TF-IDF/{size}"])
            point["difference"] = found.pop("difference")
            point |= {f"difference {end}": value for end, value in found.items()}
        points[name, int(size)] = point
    return pd.DataFrame(points).T.rename_axis(["learner", "examples"])


# ---- words of one's own


def vocabulary(_: Learner, seed: int) -> dict:
    words = find_words([row["text"] for row in load_reviews("train")])
    frame = compare_vocabulary(seed, list(words["word"]), **WORD_SIZES)
    return {"answers": frame.to_dict("list"), "tokens": frame.attrs["tokens"]}


def vocabulary_result(runs: list[dict]) -> pd.DataFrame:
    frames = [pd.DataFrame(run["answers"]) for run in runs]
    for frame, run in zip(frames, runs, strict=True):
        frame.attrs["tokens"] = run["tokens"]
    table = vocabulary_table(frames)
    table["helps"] = [helps(*ends) for ends in table[["low", "high"]].values]
    return table


# ---- a CRF


def crf(_: Learner, seed: int) -> dict:
    train, test = (
        load_people_daily(split, max_examples=count, seed=seed if split == "train" else 42)
        for split, count in SENTENCES.items()
    )
    labels, backbone = train.label_list, runtime.data_dir() / "backbone"
    found = compare_crf(train, test, labels, backbone, seed, epochs=2)
    ruled = found.taggers["without"]
    ruled.crf = rule_crf(labels)
    tags = predict_tags(ruled, [row["tokens"] for row in test])
    counts = span_counts([row["labels"] for row in test], tags, labels).sum(axis=1)
    rules = entity_scores(ruled, test, tags)["all"]
    scores = found.scores.to_dict("index") | {"rules": rules}
    return {
        "scores": scores,
        "counts": {name: one.tolist() for name, one in (found.counts | {"rules": counts}).items()},
    }


def crf_result(runs: list[dict]) -> pd.DataFrame:
    scores = [pd.DataFrame(run["scores"]).T for run in runs]
    table = sum(scores) / len(scores)
    counts = {name: np.sum([run["counts"][name] for run in runs], axis=0) for name in table.index}
    for name in ("rules", "with"):
        found = paired_bootstrap_f1(counts[name], counts["without"])
        for column in ("difference", "low", "high"):
            table.loc[name, column] = found[column]
        table.loc[name, "helps"] = helps(found["low"], found["high"])
    return table


PARTS = {
    "imbalance": (imbalance, imbalance_result),
    "labels": (labels, labels_result),
    "vocabulary": (vocabulary, vocabulary_result),
    "crf": (crf, crf_result),
}

if __name__ == "__main__":
    main()
