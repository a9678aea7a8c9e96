"""Score pretrained encoders: one JSON line for each, means over seeds.

    python tools/backbone/choose.py --tasks tasks.npz --outside outside.npz RUN [RUN ...]
    python tools/backbone/choose.py ... --recipes reviews:200:2e-4:8:128:2 RUN

A recipe is a name of RECIPES, or TASK:LABELS:RATE:EPOCHS:LENGTH:FROZEN (0 labels: all of them).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from encoder import MaskedLM, Shape
from finetune import (
    Recipe,
    Task,
    accuracy,
    finetune,
    finetune_reader,
    masked_accuracy,
    read_questions,
    read_task,
    recall,
    span_f1,
)
from pretrain import load

# name: task, labeled examples (0: all), recipe; those of benchmarks/backbone.py
RECIPES = {
    "reviews_2000": ("reviews", 2000, Recipe(3e-4, 2, frozen=2)),
    "reviews_all": ("reviews", 0, Recipe(2e-4, 1, 256, frozen=1)),
    "entities": ("news", 2000, Recipe(5e-4, 3)),
    "cloze": ("cloze", 0, Recipe(3e-4, 2, 256)),
    "authors": ("authors", 0, Recipe(2e-4, 4, dropout=0.1)),
    "sources": ("sources", 0, Recipe(2e-4, 4, dropout=0.1)),
}
CLASSES = {"reviews": 2, "news": 7, "authors": 5, "sources": 7}
SEEDS = (42, 43, 44)
NEWS = 1000  # sentences that are scored
SHORT = 32  # tokens of a short review, with [CLS] and [SEP]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--outside", type=Path, required=True)
    parser.add_argument("--recipes", default=",".join(RECIPES), help="default %(default)s")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--split", choices=("dev", "test"), default="dev", help="to score on")
    parser.add_argument("--random", action="store_true", help="random weights in this shape")
    parser.add_argument("--answers", type=Path, help="keeps all labels that were given, an .npz")
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data, outside = np.load(options.tasks), np.load(options.outside)
    scorer = Scorer(data, outside, options.split, SEEDS[: options.seeds])
    for path in options.runs:
        begun = time.time()
        model = load(path, device)
        if options.random:
            torch.manual_seed(0)
            model = MaskedLM(Shape(**model.shape.asdict())).to(device)
        result: dict = {"run": path.name, "split": options.split}
        if not options.random:
            result.update(scorer.without_labels(model))
        for name in options.recipes.split(","):
            scores = scorer.fine_tuned(model, name)
            result[name] = [round(statistics.mean(scores), 4), [round(s, 4) for s in scores]]
        result["seconds"] = round(time.time() - begun)
        print(json.dumps(result), flush=True)
    if options.answers:
        np.savez_compressed(options.answers, **scorer.answers)


class Scorer:
    """Knows the tasks; keeps the labels that were given in `answers`."""

    def __init__(self, data, outside, split: str, seeds: tuple[int, ...]) -> None:
        self.data, self.split, self.seeds = data, split, seeds
        self.answers: dict[str, np.ndarray] = {}
        self.tasks = {}
        for name in CLASSES:
            for part in ("train", split):
                source = outside if name in ("authors", "sources") else data
                self.tasks[name, part] = read_task(source, f"{name}_{part}")
        news = self.tasks["news", split]
        self.tasks["news", split] = _part(news, range(min(NEWS, len(news.ids))))
        for part in ("train", split):  # as reviews, but only the short ones
            task = self.tasks["reviews", part]
            chosen = [index for index, ids in enumerate(task.ids) if len(ids) <= SHORT]
            self.tasks["short", part] = _part(task, chosen)
        self.pairs = {
            "headings": (read_task(outside, "headings"), read_task(outside, "paragraphs")),
            "halves": (read_task(data, "first"), read_task(data, "second")),
        }

    def without_labels(self, model: MaskedLM) -> dict[str, float]:
        """Hidden characters, and recall@10 of mean vectors (halves of dev reviews)."""
        result = {
            f"mlm_{name}": round(masked_accuracy(model, self.tasks[name, self.split]), 4)
            for name in ("reviews", "news")
        }
        for name, (queries, texts) in self.pairs.items():
            result[name] = round(recall(model.bert, queries, texts), 4)
        return result

    def fine_tuned(self, model: MaskedLM, name: str) -> list[float]:
        """The score for each seed: accuracy, F1 of entities or of answers."""
        if name in RECIPES:
            task, size, recipe = RECIPES[name]
        else:
            task, *numbers = name.split(":")
            size, rate, epochs, length, frozen = map(float, numbers)
            recipe = Recipe(rate, int(epochs), int(length), int(frozen))
        return [self._score(model, name, task, int(size), recipe, seed) for seed in self.seeds]

    def _score(
        self, model: MaskedLM, name: str, task: str, size: int, recipe: Recipe, seed: int
    ) -> float:
        encoder, width = model.bert, model.shape.hidden_size
        if task == "cloze":
            train = read_questions(self.data, f"cloze_train_{seed}")
            held_out = read_questions(self.data, f"cloze_{self.split}")
            return finetune_reader(encoder, width, train, held_out, recipe, seed)
        train, held_out = self.tasks[task, "train"], self.tasks[task, self.split]
        drawn = f"{task}_train_{size}_{seed}"
        if drawn in self.data:
            train = _part(train, self.data[drawn])
        elif size:
            order = np.random.default_rng(seed).permutation(len(train.ids))
            train = _part(train, order[:size])
        tokens, classes = task == "news", CLASSES.get(task, 2)
        answers = finetune(
            encoder, width, train, held_out, recipe, classes=classes, tokens=tokens, seed=seed
        )
        self.answers[f"{name}-{seed}"] = np.hstack(answers).astype(np.int8)
        return (span_f1 if tokens else accuracy)(answers, held_out)


def _part(task: Task, chosen) -> Task:
    return Task(*([rows[i] for i in chosen] for rows in (task.ids, task.labels, task.starts)))


if __name__ == "__main__":
    main()
