"""Score pretrained encoders on the dev splits: one JSON line for each.

python tools/backbone/choose.py --corpus corpus.npz --tasks tasks.npz RUN [RUN ...]
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
from finetune import Task, finetune, masked_accuracy, read_task, recall
from pretrain import load

# name: task, labelled examples (0: all), learning rate, epochs, batch size, length, frozen layers
RECIPES = {
    "r2k_a": ("reviews", 2000, 2e-4, 3, 16, 128, 0),
    "r2k_b": ("reviews", 2000, 1e-4, 4, 16, 128, 0),
    "r2k_c": ("reviews", 2000, 2e-4, 2, 16, 64, 0),
    "r2k_d": ("reviews", 2000, 3e-4, 2, 32, 96, 0),
    "r2k_f": ("reviews", 2000, 3e-4, 2, 32, 96, 1),
    "r2k_g": ("reviews", 2000, 3e-4, 2, 16, 96, 1),
    "r2k_e": ("reviews", 2000, 2e-4, 3, 16, 96, 2),
    "all_a": ("reviews", 0, 1e-4, 3, 32, 128, 0),
    "all_b": ("reviews", 0, 2e-4, 2, 32, 128, 0),
    "ner_a": ("news", 2000, 3e-4, 4, 16, 128, 0),
    "authors": ("authors", 0, 2e-4, 4, 16, 128, 0),
    "sources": ("sources", 0, 2e-4, 4, 16, 128, 0),
}
CLASSES = {"reviews": 2, "news": 7, "authors": 5, "sources": 7}
SEEDS = (42, 43, 44)
NEWS_DEV = 600  # sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--outside", type=Path, required=True)
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--random", action="store_true", help="score random weights as well")
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data, outside = np.load(options.tasks), np.load(options.outside)
    tasks = {}
    for name in CLASSES:
        for split in ("train", "dev"):
            source = outside if name in ("authors", "sources") else data
            tasks[f"{name}_{split}"] = read_task(source, f"{name}_{split}")
    dev = {name: tasks[f"{name}_dev"] for name in CLASSES}
    dev["news"] = _part(dev["news"], range(min(NEWS_DEV, len(dev["news"].ids))))
    pairs = {
        "headings": (read_task(outside, "headings"), read_task(outside, "paragraphs")),
        "halves": (read_task(data, "first"), read_task(data, "second")),
    }
    for path in options.runs:
        begun = time.time()
        model = load(path, device)
        result = {"run": path.name}
        for split, name in (("reviews", "mlm_reviews"), ("news", "mlm_news")):
            result[name] = round(masked_accuracy(model, tasks[f"{split}_dev"]), 4)
        for name, (queries, texts) in pairs.items():
            result[name] = round(recall(model.bert, queries, texts), 4)
        candidates = [("", model)]
        if options.random:
            torch.manual_seed(0)
            candidates.append(("random_", MaskedLM(Shape(**model.shape.asdict())).to(device)))
        for prefix, candidate in candidates:
            for name in options.recipes.split(","):
                task, size, rate, epochs, batch, length, freeze = RECIPES[name]
                scores = []
                for seed in SEEDS[: options.seeds]:
                    train = tasks[f"{task}_train"]
                    if size and task == "reviews":
                        train = _part(train, data[f"reviews_train_{size}_{seed}"])
                    elif size:
                        rng = np.random.default_rng(seed)
                        train = _part(train, rng.permutation(len(train.ids))[:size])
                    found = finetune(
                        candidate.bert,
                        model.shape.hidden_size,
                        train,
                        dev[task],
                        classes=CLASSES[task],
                        tokens=task == "news",
                        seed=seed,
                        learning_rate=rate,
                        epochs=epochs,
                        batch_size=batch,
                        length=length,
                        freeze=min(freeze, model.shape.num_hidden_layers - 1),
                    )
                    scores.append(found["score"])
                result[prefix + name] = [round(statistics.mean(scores), 4), found["tokens"]]
        result["seconds"] = round(time.time() - begun)
        print(json.dumps(result), flush=True)


def _part(task: Task, chosen) -> Task:
    return Task(*([rows[i] for i in chosen] for rows in (task.ids, task.labels, task.starts)))


if __name__ == "__main__":
    main()
