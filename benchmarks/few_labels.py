"""What helps with 16, 32 and 64 labeled reviews, or none: data/results/few_labels.json.

    python benchmarks/few_labels.py --work outputs/few_labels [--minutes 5] [--only prompt]

TF-IDF with a logistic regression, a linear layer on the frozen backbone, fine-tuning, and a prompt
of the masked language model without training, whose limit the labels place. Then TF-IDF and the
prompt are trained on pseudo-labels, too: the surest answers of the prompt without labels to
unlabeled reviews. Three draws of the labels, all scored on the same test reviews; every setting was
chosen on dev. Accuracies and differences have a 95% interval of a paired bootstrap over the test
reviews, of the mean over the draws. Templates are compared on dev.

With --minutes the run ends after the piece that goes beyond them; the same command goes on.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import course_lib  # noqa: F401  (before paddle)
from course_lib.chapters.ch15a import PromptLearner, log_odds, pseudo_label
from course_lib.data import load_reviews
from course_lib.runtime import atomic_file, machine, select_device
from course_lib.tasks.labels import Finetune, FrozenBackbone, labeled_subset, tfidf_learner
from course_lib.training import paired_bootstrap

import numpy as np
from paddlenlp.datasets import MapDataset
from paddlenlp.utils.log import logger

ROOT = Path(__file__).resolve().parents[1]
SEEDS, LABELS = (42, 43, 44), (16, 32, 64)  # labels: of both classes together
DEV, TEST, UNLABELED = 300, 600, 600
PLAIN = PromptLearner("感觉很[MASK]！{}", ("烂", "棒"))
STEPS = {"few": 20, "pseudo-labels": 40}
FINETUNE = Finetune(batch_size=16, max_seq_length=64, frozen=2, learning_rate=1e-4)
SHARE = 0.5  # of the unlabeled reviews, those with the surest answers
PLUS = " + pseudo-labels"
METHODS = {
    "TF-IDF": LABELS,
    "linear probe": LABELS,
    "fine-tuned": LABELS,
    f"prompt{PLUS}": (0,),
    f"TF-IDF{PLUS}": (0, *LABELS),
}
TEMPLATES = (
    "感觉很[MASK]！{}",
    "很[MASK]。{}",
    "真[MASK]！{}",
    "总体来说很[MASK]。{}",
    "[MASK]评：{}",
)
WORDS = {"差/好": ([0], [2]), "烂/棒": ([1], [3]), "差烂/好棒": ([0, 1], [2, 3])}


@cache
def reviews(name: str) -> MapDataset:
    split, size, seed = {
        "test": ("test", TEST, 42),
        "dev": ("dev", DEV, 42),
        "train": ("train", None, 42),
        "unlabeled": ("train", UNLABELED, 7),
    }[name]
    return load_reviews(split, size, seed=seed)


@cache
def probe() -> FrozenBackbone:
    return FrozenBackbone(max_seq_length=64)


def labels_of(examples: MapDataset) -> np.ndarray:
    return np.array([row["label"] for row in examples])


def drawn(count: int, seed: int) -> MapDataset:
    return labeled_subset(reviews("train"), count, seed)


def odds_of(classify, rows: MapDataset) -> list[float]:
    return log_odds(classify(rows)).tolist()


def zero_shot(_: Path) -> dict:
    """The untrained prompt's answers to all that is asked without training."""
    ask = PLAIN()
    made = {name: odds_of(ask, reviews(name)) for name in ("test", "unlabeled")}
    for seed in SEEDS:
        rows = drawn(LABELS[-1], seed)
        made[f"few {seed}"] = dict(zip(rows_ids(rows), odds_of(ask, rows), strict=True))
    return made


def rows_ids(rows: MapDataset) -> list[str]:
    return [row["id"] for row in rows]


def templates(_: Path) -> dict:
    dev, four = reviews("dev"), ("差", "烂", "好", "棒")
    rows, true = [], labels_of(dev) == 1
    for template in TEMPLATES:
        logs = np.log(PromptLearner(template, four)()(dev) + 1e-12)  # of each word among the four
        for name, (bad, good) in WORDS.items():
            odds = logs[:, good].mean(axis=1) - logs[:, bad].mean(axis=1)
            row = {"template": template, "words": name, "plain": np.mean((odds > 0) == true)}
            rows.append(row | {"centered": np.mean((odds > np.median(odds)) == true)})
    return {"rows": rows}


def pseudo_labels(work: Path) -> tuple[MapDataset, np.ndarray]:
    """The surest answers of the prompt without labels, centered, to the unlabeled reviews."""
    odds = np.array(read(work, "zero-shot")["unlabeled"])
    chance = 1 / (1 + np.exp(np.median(odds) - odds))
    return pseudo_label(reviews("unlabeled"), np.stack([1 - chance, chance], axis=1), SHARE)


def trained(work: Path, name: str, count: int, seed: int) -> dict:
    method, more, _ = name.partition(PLUS)
    few = [*(drawn(count, seed) if count else []), *(pseudo_labels(work)[0] if more else [])]
    middle = float(np.median(read(work, "zero-shot")["unlabeled"]))
    steps = STEPS["pseudo-labels" if more else "few"]
    learner = {
        "TF-IDF": lambda: tfidf_learner,
        "linear probe": probe,
        "fine-tuned": lambda: replace(FINETUNE, steps=steps),
        "prompt": lambda: replace(PLAIN, shift=(0.0, middle), steps=steps),
    }[method]()
    rows = MapDataset(few, label_list=reviews("train").label_list)
    return {"test": odds_of(learner(rows, None, seed), reviews("test"))}


def units() -> dict:
    """What is computed, by name; each needs only what stands above it."""
    made = {"zero-shot": zero_shot, "templates": templates}
    for name, counts in METHODS.items():
        for count in counts:
            for seed in SEEDS if count else SEEDS[:1]:  # without labels nothing is drawn
                made[f"{name} {count} {seed}"] = lambda work, n=name, c=count, s=seed: trained(
                    work, n, c, s
                )
    return made


def read(work: Path, unit: str) -> dict:
    return json.loads((work / f"{unit}.json").read_text("utf-8"))


def summary(work: Path, found: dict[str, dict]) -> dict:
    true, zero = labels_of(reviews("test")) == 1, found["zero-shot"]
    odds, middle = np.array(zero["test"]), np.median(zero["unlabeled"])
    right = {
        ("prompt, as it is", 0): [(odds > 0) == true],
        ("prompt", 0): [(odds > middle) == true],
    }
    for seed in SEEDS:
        for count in LABELS:  # the labels are only used to place the limit
            rows = drawn(count, seed)
            each = np.array([zero[f"few {seed}"][one] for one in rows_ids(rows)])
            limit = np.mean([each[labels_of(rows) == label].mean() for label in (0, 1)])
            right.setdefault(("prompt", count), []).append((odds > limit) == true)
    for unit, one in found.items():
        if unit not in ("zero-shot", "templates"):
            name, count, _ = unit.rsplit(" ", 2)
            right.setdefault((name, int(count)), []).append((np.array(one["test"]) > 0) == true)
    means = {key: np.mean(rows, axis=0) for key, rows in right.items()}
    rows, gains = [], []
    for (name, count), row in means.items():
        interval = paired_bootstrap(row, 0 * row)
        one = {"method": name, "labels": count, "accuracy": interval.pop("difference"), **interval}
        rows.append(one | {"by_seed": [float(np.mean(each)) for each in right[name, count]]})
        other = name.partition(PLUS)[0] if PLUS in name and count else "prompt"
        if (other, count) in means and name != other:
            gain = paired_bootstrap(row, means[other, count])
            gains.append({"method": name, "against": other, "labels": count, **gain})
    made, kept = pseudo_labels(work)
    sure = float(np.mean(labels_of(made) == labels_of(reviews("unlabeled"))[kept]))
    told = {"rows": rows, "gains": gains, "pseudo_labels": {"kept": len(kept), "right": sure}}
    told["templates_on_dev"] = found["templates"]["rows"]
    return json.loads(json.dumps(told), parse_float=lambda digits: round(float(digits), 4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=ROOT / "outputs" / "few_labels")
    parser.add_argument("--minutes", type=float, help="end after so many; default: at the end")
    parser.add_argument("--only", default="", help="pieces whose names begin so")
    parser.add_argument("--machine", default=machine.cpu().model, help="in the result; %(default)s")
    parser.add_argument("--output", type=Path, default=ROOT / "data/results/few_labels.json")
    args = parser.parse_args()
    select_device("cpu")
    logger.set_level("ERROR")
    begun, pieces = time.monotonic(), units()
    for name, run in pieces.items():
        file = args.work / f"{name}.json"
        if file.is_file() or not name.startswith(args.only):
            continue
        if args.minutes and time.monotonic() - begun > 60 * args.minutes:
            break
        started = time.process_time()
        result = run(args.work) | {"cpu_seconds": time.process_time() - started}
        with atomic_file(file) as out:
            json.dump(result, out)
        print(f"{name}: {result['cpu_seconds']:.0f} s", flush=True)
    missing = [name for name in pieces if not (args.work / f"{name}.json").is_file()]
    if missing:
        parser.exit(3, f"{len(missing)} of {len(pieces)} pieces are missing: call it again\n")
    found = {name: read(args.work, name) for name in pieces}
    told = {
        "command": "python benchmarks/few_labels.py --work outputs/few_labels",
        "date": datetime.date.today().isoformat(),
        "machine": args.machine,
        "cpu_minutes": round(sum(one["cpu_seconds"] for one in found.values()) / 60),
        "seeds": SEEDS,
        "test_reviews": TEST,
        "unlabeled_reviews": UNLABELED,
        "prompt": {"template": PLAIN.template, "words": PLAIN.words, "tokens": 64},
        "learning_rate": PLAIN.learning_rate,
        "steps": STEPS,
    }
    with atomic_file(args.output) as out:
        json.dump(told | summary(args.work, found), out, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
