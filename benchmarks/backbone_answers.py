"""The labels that tools/backbone/choose.py kept, scored as benchmarks/backbone.py scores its own.

    python tools/backbone/choose.py --split test --answers answers.npz ... RUN      on a GPU
    python benchmarks/backbone_answers.py --answers answers.npz --random random.npz \\
        --texts TEXTS --machine "one NVIDIA H200" --output data/results/backbone.json

Where the hours of a CPU are too many. The baselines are computed here. random.npz comes from
choose.py --random --recipes entities. The sentences of entities are the first 1,000 of the split.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import date
from pathlib import Path

from course_lib import runtime
from course_lib.data import load_people_daily, load_reviews
from course_lib.data.spans import bio_spans, look_up, training_names
from course_lib.training import linear_hits

import backbone as benchmark
import numpy as np

SEEDS = (42, 43, 44)
TASKS = ("entities", "reviews_2000", "reviews_all", "authors", "sources")
LINEAR: dict[tuple, np.ndarray] = {}  # what the baseline is right about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("answers", "random", "output"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--texts", type=Path, help="for authors and sources")
    parser.add_argument("--machine", required=True)
    parser.add_argument("--tasks", default=",".join(TASKS), help="default %(default)s")
    options = parser.parse_args()
    given, fresh = np.load(options.answers), np.load(options.random)
    outside = benchmark.read_outside(options.texts) if options.texts else None
    with tempfile.TemporaryDirectory(prefix="answers-") as work:
        args = argparse.Namespace(
            work=Path(work), split="test", backbone=runtime.data_dir() / "backbone"
        )
        for task in options.tasks.split(","):
            recipe = benchmark.RECIPES["outside" if task in benchmark.OUTSIDE else task]
            for seed in SEEDS:
                arrays = converted(task, recipe, seed, given, fresh, outside)
                benchmark.remembered(args, task, recipe, seed, lambda _, own=arrays: own)
            result = benchmark.measure(task, args, SEEDS, outside)
            del result["fine_tuning_seconds"]
            add(options, task, result)


def converted(task: str, recipe: dict, seed: int, given, fresh, outside) -> dict:
    """The arrays that the benchmark keeps of a seed."""
    answers = given[f"{task}-{seed}"]
    if task == "entities":
        sentences = load_people_daily("test")
        scored = [sentences[index] for index in range(benchmark.SENTENCES)]
        train = load_people_daily("train")
        order = np.random.default_rng(seed).permutation(len(train))  # as choose.py draws
        names = training_names([train[int(index)] for index in order[: recipe["examples"]]])
        tags = {"backbone": answers, "random": fresh[f"{task}-{seed}"]}
        found = {kind: spans(each, scored) for kind, each in tags.items()}
        found["dictionary"] = look_up(scored, names)
        counts = {kind: benchmark.count(scored, each, names) for kind, each in found.items()}
        return {**counts, "seconds": 0}
    if task in benchmark.OUTSIDE:
        train, scored = (
            [{"text": text, "label": label} for text, label in outside.rows[task, part]]
            for part in ("train", "test")
        )
    else:
        scored = load_reviews("test")
        train = load_reviews("train", recipe["examples"], seed)
    own = answers == np.array([row["label"] for row in scored])
    drawn = (task, seed if recipe.get("examples") else None)  # else all seeds learn from the same
    if drawn not in LINEAR:
        LINEAR[drawn] = linear_hits(train, scored, seed)
    return {"own": own, "linear": LINEAR[drawn], "seconds": 0}


def spans(tags: np.ndarray, sentences: list[dict]) -> list[set]:
    """The entities of each sentence: a tag a token, with [CLS] and [SEP] around."""
    ends = np.cumsum([len(sentence["tokens"]) + 2 for sentence in sentences])
    return [bio_spans(own[1:-1]) for own in np.split(tags, ends)[:-1]]


def add(options: argparse.Namespace, task: str, result: dict) -> None:
    """Put a result into the file of results, with where it comes from."""
    entry = {
        "task": task,
        "split": "test",
        "command": f"python tools/backbone/choose.py --split test --recipes {task} "
        "--answers answers.npz ...; python benchmarks/backbone_answers.py ...",
        "date": date.today().isoformat(),
        "machine": options.machine,
        **result,
    }
    benchmark.record(options.output, entry)


if __name__ == "__main__":
    main()
