"""What students learn from a teacher, in reviews and entities; data/results/distillation.json.

    python benchmarks/distillation.py --work outputs/distillation     about an hour of one core

teacher: the backbone, fine-tuned on 2,000 reviews, gives its logits for 6,000. bilstm: a Bi-LSTM of
characters learns from labels, from logits of the 2,000, or from logits of all; with "vectors" its
embeddings start from word2vec of the characters of the 6,000. layers: two of the teacher's four
layers learn on the 2,000, with each part of the loss. scratch: two layers that start at random do
the same, on all 6,000; "rates" chooses their learning rate on dev. depth: the teacher learns to
compute with a part of its width and of its layers. silver: a tagger of People's Daily learns from
2,000 sentences of gold, from LAC's labels of 2,000 others, or from both, one after the other.

All are scored on test, which nothing was chosen by. "lead" is over the labels alone (scratch too;
entities: over gold; depth: over the teacher), "over" over other arms. They are in points, with a
95% interval of a paired bootstrap over the test examples, of the mean over the seeds that both have
(of F1: of the counts of these seeds together). Each unit of work is kept below --work, the result
is written after each, and a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from course_lib.chapters.ch12 import WORD2VEC
from course_lib.compression import importance, reorder, soft_cross_entropy
from course_lib.compression.pruning import narrowed
from course_lib.data import load_people_daily, load_reviews
from course_lib.data.spans import bio_spans, look_up, training_names
from course_lib.deploy import Predictor, export_model
from course_lib.models import encoder_of, freeze_layers, load_backbone, save_model
from course_lib.runtime import atomic_file, data_dir, machine, seed_everything, select_device
from course_lib.tasks.labels import tfidf_learner
from course_lib.tasks.tagging import BackboneTagger, LacTagger, predict_tags, train_tagger
from course_lib.training import paired_bootstrap, paired_bootstrap_f1, span_counts

import numpy as np
import paddle
from gensim.models import Word2Vec
from paddle.nn import functional
from paddlenlp.data import Pad
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
    "vectors, labels": ("labels", "labeled", 8),
    "vectors, all texts, MSE": ("mse", "all", 5),
}
PARTS_OF_RUN = ("fine-tuning", "teacher", "rates", "scratch", "depth", "bilstm", "silver", "layers")
AGAIN = ("labels", "all texts, MSE")  # with the other seeds
VECTORS = ("vectors, labels", "vectors, all texts, MSE")
LAYER_ARMS = {
    "labels": None,
    "logits": (),
    **{f"logits, {p}": (p,) for p in PARTS},
    "all": tuple(PARTS),
}
RATES = (5e-4, 1e-3)  # of "scratch"
SCRATCH = {"epochs": 1, "batch_size": 16}  # over the 6,000
SHAPES = {  # of "depth": share of the width, layers; all four learn in each step
    "whole": (1.0, (0, 1, 2, 3)),
    "3/4 wide": (0.75, (0, 1, 2, 3)),
    "1/2 deep": (1.0, (1, 3)),
    "3/4 wide, 1/2 deep": (0.75, (1, 3)),
}
DEPTH_STEPS = 300
SILVER = ("gold", "gold, 3 epochs", "silver", "silver, then gold")
OVER = {  # what else an arm is compared with
    **{f"scratch {name}": ("scratch logits",) for name, parts in LAYER_ARMS.items() if parts},
    "bilstm vectors, labels": ("TF-IDF",),
    "bilstm vectors, all texts, MSE": ("bilstm vectors, labels", "bilstm all texts, MSE", "TF-IDF"),
    "depth 3/4 wide": ("depth whole",),
    "depth 1/2 deep": ("depth whole", "layers logits"),
    "depth 3/4 wide, 1/2 deep": ("depth 1/2 deep",),
    "silver, then gold": ("gold, 3 epochs",),
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
    for name in (*AGAIN, *VECTORS):
        yield f"bilstm {name} {first}", partial(bilstm, args, name, first)
    yield "rates", partial(rates, args)
    for name in LAYER_ARMS:
        yield f"scratch {name} 42", partial(scratch, args, name)
    yield "depth 42", partial(depth, args)
    for name in (*SILVER, "LAC", "dictionary"):
        yield f"silver {name} 42", partial(silver, args, name, 42)
    for seed in others:
        for name in SILVER[1:]:
            yield f"silver {name} {seed}", partial(silver, args, name, seed)
    for name in LAYER_ARMS:
        yield f"layers {name} 42", partial(layers, args, name)
    for name in ARMS:
        if name not in AGAIN + VECTORS:
            yield f"bilstm {name} {first}", partial(bilstm, args, name, first)
    for seed in others:
        for name in AGAIN:
            yield f"bilstm {name} {seed}", partial(bilstm, args, name, seed)


# ---- reviews


def reviews(name: str, tokenizer, tokens: int = TOKENS) -> tuple[list[list[int]], np.ndarray]:
    """Ids and labels of a split, or of the labeled part of train."""
    count = {"labeled": LABELED, "train": TEXTS}.get(name)
    split = load_reviews("train" if name == "labeled" else name, max_examples=count)
    return text_ids(split, tokenizer, tokens), np.array([example["label"] for example in split])


def scored(model, tokenizer, split: str = "test") -> dict:
    rows, labels = reviews(split, tokenizer)
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


def student_loss(
    model, target: str, labels: np.ndarray, logits: np.ndarray, temperature: float = 2.0
) -> Callable:
    def loss_on(ids: paddle.Tensor, chosen: np.ndarray) -> paddle.Tensor:
        said, wanted = model(ids), paddle.to_tensor(logits[chosen])
        if target == "mse":
            return functional.mse_loss(said, wanted)
        return soft_cross_entropy(said, wanted, temperature)

    return hard(model, labels) if target == "labels" else loss_on


def bilstm(args: argparse.Namespace, name: str, seed: int) -> dict:
    target, texts, epochs = ARMS[name]
    tokenizer = load_backbone(args.work / "model")[1]
    rows, labels = reviews("labeled" if texts == "labeled" else "train", tokenizer)
    logits = np.load(args.work / ("labeled.npy" if texts == "labeled" else "train.npy"))
    seed_everything(seed)
    model = BiLstmForSequenceClassification(len(tokenizer), ("negative", "positive"))
    if name in VECTORS:
        start_from_vectors(model.embedding.weight, reviews("train", tokenizer, tokens=512)[0])
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


def start_from_vectors(weight: paddle.Tensor, rows: list[list[int]]) -> None:
    """Put word2vec of the characters into an embedding; rare ones keep their random vectors."""
    vectors = Word2Vec([[str(number) for number in row[1:-1]] for row in rows], **WORD2VEC).wv
    known = [int(number) for number in vectors.index_to_key]
    whole = weight.numpy()
    whole[known] = vectors.vectors
    weight.set_value(whole)


def new_student(whole) -> paddle.nn.Layer:
    """Two layers of the teacher's size, all weights random."""
    seed_everything(42)
    config = copy.deepcopy(whole.config)
    config.num_hidden_layers = 2
    return type(whole)(config)


def rates(args: argparse.Namespace) -> dict:
    """Accuracy on dev of a scratch student that learns the logits, at each learning rate."""
    found = {}
    for rate in RATES:
        found[str(rate)] = scored(*learned(args, (), rate), split="dev")["score"]
    return {"dev": found, "score": max(found.values())}


def scratch(args: argparse.Namespace, name: str) -> dict:
    dev = json.loads((args.work / "rates.json").read_text())["dev"]
    return scored(*learned(args, LAYER_ARMS[name], float(max(dev, key=dev.get))))


def learned(args: argparse.Namespace, parts: tuple | None, rate: float) -> tuple:
    """A scratch student and its tokenizer; labels get as many steps, in more passes."""
    whole, tokenizer = load_backbone(args.work / "model")
    whole.eval()
    model, epochs, kept = new_student(whole), SCRATCH["epochs"], None
    if parts is None:
        rows, labels = reviews("labeled", tokenizer)
        loss, epochs = hard(model, labels), epochs * TEXTS // LABELED
    else:
        rows, labels = reviews("train", tokenizer)
        loss = layer_loss(model, whole, parts, pairs=(1, 3))
    if parts == ():  # its logits are known already, and `rates` keeps what learned them
        logits, kept = np.load(args.work / "train.npy"), args.work / f"scratch {rate}.pdparams"
        loss = student_loss(model, "soft", labels, logits, temperature=1.0)
    if kept and kept.is_file():
        model.set_state_dict(paddle.load(str(kept)))
    else:
        train_on(model, rows, loss, epochs, rate, batch_size=SCRATCH["batch_size"])
    if kept:
        paddle.save(model.state_dict(), str(kept))
    path = export_model(model, args.work / "scratch", tokenizer)
    return Predictor(path, threads=1), tokenizer


@contextmanager
def part_of(model, width: float, layers: Sequence[int]) -> Iterator[None]:
    """Compute, inside the block, with a share of the width, and with these layers only."""
    encoder = encoder_of(model).encoder
    every_layer = encoder.layers
    with narrowed(model, width):
        encoder.layers = paddle.nn.LayerList([every_layer[index] for index in layers])
        try:
            yield
        finally:
            encoder.layers = every_layer


def depth(args: argparse.Namespace) -> dict:
    """All shapes of one model learn from the teacher's logits of the 6,000 together."""
    whole, tokenizer = load_backbone(args.work / "model")
    rows, labels = reviews("labeled", tokenizer)
    batches = []
    for chosen in np.arange(64).reshape(4, 16):  # importance needs labels
        ids = Pad(pad_val=0, dtype="int64")([rows[place] for place in chosen])
        batch = {"input_ids": paddle.to_tensor(ids), "labels": paddle.to_tensor(labels[chosen])}
        batches.append(batch)
    model = reorder(whole, *importance(whole, batches))
    logits = np.load(args.work / "train.npy")

    def loss_on(ids: paddle.Tensor, chosen: np.ndarray) -> paddle.Tensor:
        wanted, losses = paddle.to_tensor(logits[chosen]), []
        for shape in SHAPES.values():
            with part_of(model, *shape):
                losses.append(soft_cross_entropy(model(ids), wanted))
        return sum(losses) / len(losses)

    before = rights(model, tokenizer)
    texts = reviews("train", tokenizer)[0]
    train_on(model, texts, loss_on, 1, 2e-4, batch_size=16, max_steps=DEPTH_STEPS)
    after = rights(model, tokenizer)
    return {"before": before, "after": after, "score": float(np.mean(after["1/2 deep"]))}


def rights(model, tokenizer) -> dict[str, list[int]]:
    found = {}
    for name, shape in SHAPES.items():
        with part_of(model, *shape):
            found[name] = scored(model, tokenizer)["right"]
    return found


# ---- entities


def silver(args: argparse.Namespace, name: str, seed: int) -> dict:
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
        tagger = new_tagger(labels, seed)
        if name == "silver":
            known = silver_examples(LacTagger(), [row["tokens"] for row in others], labels)
            learn(tagger, known, 1, seed)
            paddle.save(tagger.state_dict(), str(args.work / f"silver {seed}.pdparams"))
        else:
            if name == "silver, then gold":
                tagger.set_state_dict(paddle.load(str(args.work / f"silver {seed}.pdparams")))
            learn(tagger, gold, 3 if name == "gold, 3 epochs" else 2, seed)
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


def new_tagger(labels: list[str], seed: int) -> BackboneTagger:
    seed_everything(seed)
    shipped = data_dir() / "backbone"
    model, tokenizer = load_backbone(shipped, label_list=labels, head="TokenClassification")
    freeze_layers(model, 2)
    return BackboneTagger(model, tokenizer, labels, crf=False)


def learn(tagger: BackboneTagger, rows: list[dict], epochs: int, seed: int) -> None:
    train_tagger(tagger, rows, epochs=epochs, batch_size=16, learning_rate=5e-4, seed=seed)


# ---- the file


def write(args: argparse.Namespace) -> None:
    """Put what is done so far into one JSON file."""
    names = sorted((name for name, _ in units(args)), key=lambda name: "vectors" in name)
    done = {name: args.work / f"{name}.json" for name in names}
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
        "scratch": SCRATCH | {"rates on dev": found.get("rates", {}).get("dev")},
        "depth": {"shapes": SHAPES, "steps": DEPTH_STEPS},
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
    runs: dict[str, dict[str, list[int]]] = {}  # of each arm, by seed
    before = {}
    for name, each in found.items():
        arm, _, seed = name.rpartition(" ")
        if "right" in each:
            runs.setdefault(arm or name, {})[seed if arm else "42"] = each["right"]
        if "tfidf" in each:
            runs["TF-IDF"] = {"42": each["tfidf"]}
        for shape, right in each.get("after", {}).items():
            runs[f"depth {shape}"] = {seed: right}
            before[f"depth {shape}"] = float(np.mean(each["before"][shape]))
    table = {}
    for name, by_seed in runs.items():
        each = {seed: round(float(np.mean(run)), 4) for seed, run in by_seed.items()}
        mean = float(np.mean(list(by_seed.values())))
        row: dict = {"accuracy": round(mean, 4), "by_seed": list(each.values())}
        if name in before:
            row["before training"] = round(before[name], 4)
        kind = name.partition(" ")[0]
        start = "teacher" if kind == "depth" else f"{kind} labels"
        table[name] = row | leads(name, runs, start, accuracy_lead)
    return table


def entity_table(found: dict) -> dict:
    runs: dict[str, dict[str, dict]] = {}
    for name, each in found.items():
        if "counts" in each:
            arm, _, seed = name.removeprefix("silver ").rpartition(" ")
            runs.setdefault(arm, {})[seed] = each
    table = {}
    for name, by_seed in runs.items():
        f1 = [each["f1"] for each in by_seed.values()]
        mean = {part: round(float(np.mean([each[part] for each in f1])), 4) for part in f1[0]}
        row = {"f1": mean, "by_seed": [each["all"] for each in f1]}
        table[name] = row | leads(name, runs, "gold", f1_lead)
    return table


def leads(name: str, runs: dict, start: str, compare: Callable) -> dict:
    """An arm against the one with the labels alone, and against others, with the same seeds."""
    found: dict = {}
    for other in (start, *OVER.get(name, ())):
        seeds = sorted(runs[name].keys() & runs.get(other, {}).keys())
        if not seeds or other == name:
            continue
        lead = points(compare(*([runs[arm][seed] for seed in seeds] for arm in (name, other))))
        if other == start:
            found["lead"] = lead
        else:
            found.setdefault("over", {})[other] = lead
    return found


def accuracy_lead(first: list, second: list) -> dict[str, float]:
    return paired_bootstrap(np.mean(first, axis=0), np.mean(second, axis=0))


def f1_lead(first: list, second: list) -> dict[str, float]:
    both = (np.sum([each["counts"] for each in runs], axis=0) for runs in (first, second))
    return paired_bootstrap_f1(*both)


def points(difference: dict[str, float]) -> dict[str, float]:
    return {key: round(100 * value, 2) for key, value in difference.items()}


if __name__ == "__main__":
    main()
