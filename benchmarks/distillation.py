"""What students learn from a teacher, in reviews and entities; data/results/distillation.json.

    python benchmarks/distillation.py --work outputs/distillation     20 to 40 minutes of one core

teacher: the backbone, fine-tuned on 2,000 reviews, gives its logits for 6,000. bilstm: a Bi-LSTM of
characters learns from labels, from logits of the 2,000, or from logits of all. layers: two of the
teacher's four layers learn on the 2,000, with each part of the loss. silver: a tagger of People's
Daily learns from 2,000 sentences of gold, from LAC's labels of 2,000 others, or from both, one
after the other.

All are scored on test, which nothing was chosen by. Differences are in points, with a 95% interval
of a paired bootstrap over the test examples, of the mean over the seeds. Each unit of work is kept
below --work, the result is written after each, and a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.chapters.ch04 import seen_and_unseen
from course_lib.chapters.ch09 import (
    PARTS,
    BiLstmForSequenceClassification,
    layer_loss,
    logits_of,
    shallow,
    silver_examples,
    text_ids,
    train_on,
)
from course_lib.compression import soft_cross_entropy
from course_lib.data import load_people_daily, load_reviews
from course_lib.data.spans import bio_spans, look_up, training_names
from course_lib.deploy import Predictor, export_model
from course_lib.models import freeze_layers, load_backbone, save_model
from course_lib.runtime import atomic_file, data_dir, machine, seed_everything, select_device
from course_lib.tasks.labels import tfidf_learner
from course_lib.tasks.tagging import BackboneTagger, LacTagger, predict_tags, train_tagger
from course_lib.training import paired_bootstrap, paired_bootstrap_f1, span_counts

import numpy as np
import paddle
from paddle.nn import functional
from paddlenlp.utils.log import logger

TOKENS, LABELED, TEXTS = 96, 2000, 6000
SENTENCES = {"gold": 2000, "silver": 2000}  # of People's Daily
TEST_SENTENCES, CHARACTERS = 1000, 48  # of each sentence the first so many
ARMS = {  # of the Bi-LSTM: its target, from which texts, epochs
    "labels": ("labels", "labeled", 8),
    "logits, MSE": ("mse", "labeled", 8),
    "logits, soft": ("soft", "labeled", 8),
    "all texts, MSE": ("mse", "all", 5),
    "all texts, soft": ("soft", "all", 5),
}
PARTS_OF_RUN = ("fine-tuning", "teacher", "bilstm", "silver", "layers")
AGAIN = ("labels", "all texts, MSE")  # with the other seeds
LAYER_ARMS = {
    "labels": None,
    "logits": (),
    **{f"logits, {p}": (p,) for p in PARTS},
    "all": tuple(PARTS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--work", required=True, type=Path, help="a directory that keeps what is done")
    add("--seeds", type=int, nargs="+", default=[42, 43, 44], help="of the Bi-LSTM; %(default)s")
    add("--parts", nargs="+", default=PARTS_OF_RUN, help="to do now; default: all")
    add("--machine", default=machine.cpu().model, help="in the result; %(default)s")
    add("--output", type=Path, default=data_dir() / "results" / "distillation.json")
    args = parser.parse_args()
    select_device("cpu")
    logger.set_level("ERROR")
    args.work.mkdir(parents=True, exist_ok=True)
    for name, unit in list(units(args)):
        file = args.work / f"{name}.json"
        if file.is_file() or name.partition(" ")[0] not in args.parts:
            continue
        started = time.process_time()
        found = unit()
        found["seconds"] = round(time.process_time() - started, 1)
        with atomic_file(file) as target:
            json.dump(found, target)
        print(name, {key: found[key] for key in ("score", "seconds")}, file=sys.stderr, flush=True)
        write(args)


def units(args: argparse.Namespace) -> Iterator[tuple[str, Callable[[], dict]]]:
    """Names and functions in the order in which they have to run."""
    yield "fine-tuning", partial(fine_tuned, args)
    yield "teacher", partial(teacher, args)
    first, *others = args.seeds
    names = sorted(ARMS, key=lambda name: name not in AGAIN)
    for name in names[: len(AGAIN)]:
        yield f"bilstm {name} {first}", partial(bilstm, args, name, first)
    for name in ("gold", "silver", "silver, then gold", "LAC", "dictionary"):
        yield f"silver {name} 42", partial(silver, args, name)
    for name in LAYER_ARMS:
        yield f"layers {name} 42", partial(layers, args, name)
    for name in names[len(AGAIN) :]:
        yield f"bilstm {name} {first}", partial(bilstm, args, name, first)
    for seed in others:
        for name in AGAIN:
            yield f"bilstm {name} {seed}", partial(bilstm, args, name, seed)


# ---- reviews


def reviews(name: str, tokenizer) -> tuple[list[list[int]], np.ndarray]:
    """Ids and labels of a split, or of the labeled part of train."""
    count = {"labeled": LABELED, "train": TEXTS}.get(name)
    split = load_reviews("train" if name == "labeled" else name, max_examples=count)
    return text_ids(split, tokenizer, TOKENS), np.array([example["label"] for example in split])


def scored(model, tokenizer) -> dict:
    rows, labels = reviews("test", tokenizer)
    right = logits_of(model, rows).argmax(axis=-1) == labels
    return {"right": right.astype(int).tolist(), "score": float(right.mean())}


def fine_tuned(args: argparse.Namespace) -> dict:
    seed_everything(42)
    names = load_reviews("train", max_examples=2).label_list
    model, tokenizer = load_backbone(label_list=names)
    freeze_layers(model, 2)
    rows, labels = reviews("labeled", tokenizer)
    train_on(model, rows, hard(model, labels), epochs=2, learning_rate=3e-4, batch_size=16)
    freeze_layers(model, 0)
    save_model(model, tokenizer, args.work / "model")
    return {"score": None}


def teacher(args: argparse.Namespace) -> dict:
    model, tokenizer = load_backbone(args.work / "model")
    fast = Predictor(export_model(model, args.work / "static", tokenizer, TOKENS), threads=1)
    for name in ("labeled", "train"):
        np.save(args.work / f"{name}.npy", logits_of(fast, reviews(name, tokenizer)[0]))
    train, test = load_reviews("train", max_examples=LABELED), load_reviews("test")
    linear = tfidf_learner(train)(test).argmax(axis=-1) == np.array([row["label"] for row in test])
    return scored(fast, tokenizer) | {"tfidf": linear.astype(int).tolist()}


def hard(model, labels: np.ndarray) -> Callable:
    return lambda ids, chosen: functional.cross_entropy(
        model(ids), paddle.to_tensor(labels[chosen])
    )


def student_loss(model, target: str, labels: np.ndarray, logits: np.ndarray) -> Callable:
    def loss_on(ids: paddle.Tensor, chosen: np.ndarray) -> paddle.Tensor:
        said, wanted = model(ids), paddle.to_tensor(logits[chosen])
        if target == "mse":
            return functional.mse_loss(said, wanted)
        return soft_cross_entropy(said, wanted, temperature=2.0)

    return hard(model, labels) if target == "labels" else loss_on


def bilstm(args: argparse.Namespace, name: str, seed: int) -> dict:
    target, texts, epochs = ARMS[name]
    tokenizer = load_backbone(args.work / "model")[1]
    rows, labels = reviews("labeled" if texts == "labeled" else "train", tokenizer)
    logits = np.load(args.work / ("labeled.npy" if texts == "labeled" else "train.npy"))
    seed_everything(seed)
    model = BiLstmForSequenceClassification(len(tokenizer), ("negative", "positive"))
    loss = student_loss(model, target, labels, logits)
    train_on(model, rows, loss, epochs, learning_rate=2e-3, batch_size=64, seed=seed)
    return scored(model, tokenizer)


def layers(args: argparse.Namespace, name: str) -> dict:
    whole, tokenizer = load_backbone(args.work / "model")
    whole.eval()
    rows, labels = reviews("labeled", tokenizer)
    model = shallow(whole, (0, 2))
    parts = LAYER_ARMS[name]
    loss = hard(model, labels) if parts is None else layer_loss(model, whole, parts, pairs=(1, 3))
    train_on(model, rows, loss, epochs=1, learning_rate=3e-4, batch_size=16)
    return scored(Predictor(export_model(model, args.work / name), threads=1), tokenizer)


# ---- entities


def silver(args: argparse.Namespace, name: str) -> dict:
    """Counts of right, found and true entities of each test sentence, and F1 by seen or unseen."""
    both = load_people_daily("train", max_examples=sum(SENTENCES.values()))
    rows = [cut(example) for example in both]
    gold, others = rows[: SENTENCES["gold"]], rows[SENTENCES["gold"] :]
    test = [cut(row) for row in load_people_daily("test", max_examples=TEST_SENTENCES)]
    tokens, labels = [row["tokens"] for row in test], both.label_list
    types = [label[2:] for label in labels if label.startswith("B-")]
    names = training_names(gold)
    if name == "dictionary":
        spans = look_up(test, names)
    elif name == "LAC":
        silvered = silver_examples(LacTagger(), tokens, labels)
        spans = [bio_spans(row["labels"]) for row in silvered]
    else:
        path = args.work / f"{name}.pdparams"
        tagger = new_tagger(labels)
        if name == "silver":
            known = silver_examples(LacTagger(), [row["tokens"] for row in others], labels)
            learn(tagger, known, epochs=1)
        else:
            if name == "silver, then gold":
                tagger.set_state_dict(paddle.load(str(args.work / "silver.pdparams")))
            learn(tagger, gold, epochs=2)
        paddle.save(tagger.state_dict(), str(path))
        spans = [bio_spans(row) for row in predict_tags(tagger, tokens)]
    truth = [bio_spans(row["labels"]) for row in test]
    table = seen_and_unseen(truth, spans, types, tokens, names)
    return {
        "counts": span_counts(truth, spans, types).sum(axis=1).tolist(),
        "f1": {part: round(values["f1"], 4) for part, values in table.items()},
        "score": table["all"]["f1"],
    }


def cut(example: dict) -> dict:
    return {key: example[key][:CHARACTERS] for key in ("tokens", "labels")}


def new_tagger(labels: list[str]) -> BackboneTagger:
    seed_everything(42)
    shipped = data_dir() / "backbone"
    model, tokenizer = load_backbone(shipped, label_list=labels, head="TokenClassification")
    freeze_layers(model, 2)
    return BackboneTagger(model, tokenizer, labels, crf=False)


def learn(tagger: BackboneTagger, rows: list[dict], epochs: int) -> None:
    train_tagger(tagger, rows, epochs=epochs, batch_size=16, learning_rate=5e-4)


# ---- the file


def write(args: argparse.Namespace) -> None:
    """Put what is done so far into one JSON file."""
    done = {name: args.work / f"{name}.json" for name, _ in units(args)}
    found = {name: json.loads(file.read_text()) for name, file in done.items() if file.is_file()}
    result = {
        "command": "python benchmarks/distillation.py --work outputs/distillation",
        "date": date.today().isoformat(),
        "machine": args.machine,
        "cpu_minutes": round(sum(each["seconds"] for each in found.values()) / 60),
        "units": sorted(found),
        "seeds": sorted({int(name.split()[-1]) for name in found if " " in name}),
        "tokens": TOKENS,
        "labeled": LABELED,
        "texts": TEXTS,
        "sentences": {**SENTENCES, "test": TEST_SENTENCES, "characters": CHARACTERS},
        "reviews": review_table(found),
        "entities": entity_table(found),
    }
    args.output.parent.mkdir(exist_ok=True)
    with atomic_file(args.output) as file:
        json.dump(result, file, ensure_ascii=False, indent=1)
        file.write("\n")


def review_table(found: dict) -> dict:
    """Accuracy of each model, and its lead over the one with the labels alone."""
    groups: dict[str, list[list[int]]] = {}
    for name, each in found.items():
        if "right" in each:
            groups.setdefault(name.rpartition(" ")[0] or name, []).append(each["right"])
            if "tfidf" in each:
                groups["TF-IDF"] = [each["tfidf"]]
    right = {name: np.mean(runs, axis=0) for name, runs in groups.items()}
    table = {}
    for name, hits in right.items():
        row: dict = {"accuracy": round(float(hits.mean()), 4)}
        row["by_seed"] = [round(float(np.mean(run)), 4) for run in groups[name]]
        start = f"{name.partition(' ')[0]} labels"
        if start in right and name != start:
            row["lead"] = points(paired_bootstrap(hits, right[start]))
        table[name] = row
    return table


def entity_table(found: dict) -> dict:
    rows = {name[7:-3]: each for name, each in found.items() if "counts" in each}
    table = {}
    for name, each in rows.items():
        table[name] = {"f1": each["f1"]}
        if "gold" in rows and name != "gold":
            both = (np.array(one["counts"]) for one in (each, rows["gold"]))
            table[name]["lead"] = points(paired_bootstrap_f1(*both))
    return table


def points(difference: dict[str, float]) -> dict[str, float]:
    return {key: round(100 * value, 2) for key, value in difference.items()}


if __name__ == "__main__":
    main()
