"""What the shipped backbone is worth: one JSON line a task, means over three seeds on the CPU.

    python benchmarks/backbone.py [--tasks reviews_2000,entities] [--seeds 42,43] [--split dev]
    python benchmarks/backbone.py --texts TEXTS --output data/results/backbone.json

With --work a run that was stopped goes on with the seeds that it had not finished; --output adds
the results of the tasks to a file.

reviews_2000 and reviews_all fine-tune it on labeled reviews beside TF-IDF (character 1-3-grams)
and a LinearSVC on the same texts. entities tags persons, places and organizations in People's
Daily, beside the same architecture from random weights and a dictionary of the training names.
masked lets it guess hidden characters. cloze answers questions about a passage, beside the most
frequent name of the right type. halves finds the second half of a review by the mean of the last
states, without any fine-tuning, beside TF-IDF of characters. authors, sources and headings are the
out-of-domain tasks of tools/backbone/outside.py; they need --texts, the directory of texts that the
backbone was pretrained on, and read only paragraphs that were held out. The recipes were chosen on
dev; the test split is for the final results.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from zlib import crc32

from course_lib import runtime
from course_lib.chapters.ch04 import candidates
from course_lib.chapters.ch20 import text_halves
from course_lib.data import (
    create_dataloader,
    load_cloze,
    load_reviews,
    people_daily,
)
from course_lib.data.cloze import frozen
from course_lib.data.people_daily import LABELS, load_people_daily
from course_lib.data.spans import Span, bio_spans, look_up, training_names
from course_lib.models import freeze_layers, load_backbone
from course_lib.runtime import atomic_file, seed_everything, select_device
from course_lib.runtime.machine import cpu
from course_lib.tasks.search import BiEncoder, encode
from course_lib.training import (
    TASKS,
    answer_f1,
    evaluate,
    fit,
    linear_hits,
    paired_bootstrap,
    paired_bootstrap_f1,
    predict,
)
from course_lib.training.prediction import inference_mode
from course_lib.training.pretraining import (
    WordEncoder,
    create_pretraining_dataloader,
    make_sequences,
)
from course_lib.training.steps import train_steps

import numpy as np
import paddle
from paddle.io import DataLoader
from paddlenlp.data import Pad, Tuple
from paddlenlp.datasets import MapDataset
from paddlenlp.transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForTokenClassification,
    AutoTokenizer,
    ErnieConfig,
    ErnieForTokenClassification,
)
from sklearn.feature_extraction.text import TfidfVectorizer

INSIDE = ("reviews_2000", "reviews_all", "entities", "masked", "cloze", "halves")
OUTSIDE = ("authors", "sources", "headings")
# Chosen on dev. frozen: the embeddings and so many of the lowest layers keep their weights.
# No dropout: these trainings see an example once to three times.
RECIPES = {
    "reviews_2000": {
        "examples": 2000,
        "learning_rate": 3e-4,
        "epochs": 2,
        "batch_size": 16,
        "max_seq_length": 128,
        "frozen": 2,
        "dropout": 0.0,
    },
    "reviews_all": {
        "examples": None,
        "learning_rate": 2e-4,
        "epochs": 1,
        "batch_size": 16,
        "max_seq_length": 256,
        "frozen": 1,
        "dropout": 0.0,
    },
    "entities": {
        "examples": 2000,
        "learning_rate": 5e-4,
        "epochs": 3,
        "batch_size": 16,
        "max_seq_length": 128,
        "dropout": 0.0,
    },
    "cloze": {
        "examples": 400,
        "learning_rate": 3e-4,
        "epochs": 2,
        "batch_size": 16,
        "max_seq_length": 256,
        "dropout": 0.0,
    },
    "outside": {
        "learning_rate": 2e-4,
        "epochs": 4,
        "batch_size": 16,
        "max_seq_length": 128,
        "dropout": 0.1,
    },
}
FOUND = 10  # texts of a search
READ = 256  # tokens at test time
SENTENCES = 1000  # of the news split that is scored
QUESTIONS = 400  # of the cloze split that is scored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=",".join(INSIDE), help="default %(default)s")
    parser.add_argument("--seeds", default="42,43,44", help="default %(default)s")
    parser.add_argument("--split", choices=("dev", "test"), default="test", help="to score on")
    parser.add_argument("--backbone", type=Path, default=runtime.data_dir() / "backbone")
    parser.add_argument("--texts", type=Path, help="of pretraining, for " + ", ".join(OUTSIDE))
    parser.add_argument("--work", type=Path, help="keeps what is done of --backbone for later")
    parser.add_argument("--output", type=Path, help="a JSON file to add the results to")
    args = parser.parse_args()
    select_device("cpu")
    seeds = [int(seed) for seed in args.seeds.split(",")]
    known = (*INSIDE, *OUTSIDE) if args.texts else INSIDE
    outside = read_outside(args.texts) if args.texts else None
    for task in args.tasks.split(","):
        if task not in known:
            parser.error(f"no task {task!r}; there are {', '.join(known)}")
    with tempfile.TemporaryDirectory(prefix="backbone-") as temporary:
        args.work = args.work or Path(temporary)
        for task in args.tasks.split(","):
            begun = time.process_time()
            found = {"task": task, "split": args.split, **measure(task, args, seeds, outside)}
            text = json.dumps(found)
            result = json.loads(text, parse_float=lambda digits: round(float(digits), 4))
            print(json.dumps(result), flush=True)
            if args.output:
                add(result, args, time.process_time() - begun)


def measure(task: str, args: argparse.Namespace, seeds: Sequence[int], outside) -> dict:
    """The result of one task."""
    if task == "cloze":
        return cloze(args, seeds)
    if task == "halves":
        texts = [example["text"] for example in load_reviews(args.split)]
        return search(args.backbone, text_halves(texts))
    if task == "headings":
        return search(args.backbone, outside.headings)
    if task in OUTSIDE:
        return classify(task, args, seeds, outside)
    if task == "entities":
        return entities(args, seeds)
    if task == "masked":
        return masked(args.backbone, args.split)
    return reviews(task, args, seeds)


def add(result: dict, args: argparse.Namespace, seconds: float) -> None:
    """Put a result into the file of results, with where it comes from."""
    texts = " --texts TEXTS" if result["task"] in OUTSIDE else ""
    entry = {
        "command": f"python benchmarks/backbone.py --tasks {result['task']}{texts}",
        "date": date.today().isoformat(),
        "machine": f"{cpu().model}, {os.environ.get('OMP_NUM_THREADS', 'all')} threads, shared",
        "cpu_seconds": round(seconds),
        **result,
    }
    record(args.output, entry)


def record(file: Path, entry: dict) -> None:
    """Put the result of one task into a file that may hold others."""
    found = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    found[entry["task"]] = entry
    with atomic_file(file) as out:
        json.dump(found, out, indent=1)
        out.write("\n")


def remembered(
    args: argparse.Namespace, task: str, recipe: dict, seed: int, run: Callable[[int], dict]
) -> dict[str, np.ndarray]:
    """The arrays that `run` gives for a seed: those of an earlier run, where it was the same."""
    weights = (args.backbone / "model.safetensors").read_bytes()
    same = crc32(repr(sorted(recipe.items())).encode(), crc32(weights))
    file = args.work / f"{task}-{args.split}-{seed}-{same:08x}.npz"
    if not file.is_file():
        begun = time.perf_counter()
        found = run(seed)
        with atomic_file(file, "wb") as out:
            np.savez_compressed(out, **found)
        took = f"{task}, seed {seed}: {time.perf_counter() - begun:.0f} s"
        print(took, file=sys.stderr, flush=True)
    return dict(np.load(file))


def reviews(task: str, args: argparse.Namespace, seeds: Sequence[int]) -> dict:
    """Sentiment: the backbone against TF-IDF and LinearSVC."""
    recipe = RECIPES[task]
    scored = load_reviews(args.split)

    def run(seed: int) -> dict:
        train = load_reviews("train", recipe["examples"], seed)
        own, seconds = fine_tuned_hits(args.backbone, train, scored, recipe, seed)
        return {"own": own, "linear": linear_hits(train, scored, seed), "seconds": seconds}

    found = [remembered(args, task, recipe, seed, run) for seed in seeds]
    labeled = len(load_reviews("train", recipe["examples"]))
    return {"examples": labeled, **against_linear(found), "recipe": recipe, "seeds": list(seeds)}


def against_linear(found: Sequence[dict[str, np.ndarray]]) -> dict:
    """Means over the seeds, and the interval of their difference."""
    own, linear = (np.mean([each[name] for each in found], axis=0) for name in ("own", "linear"))
    return {
        "test_examples": len(own),
        "test_accuracy": round(float(own.mean()), 4),
        "baseline": round(float(linear.mean()), 4),
        "difference": paired_bootstrap(own, linear),
        "by_seed": [round(float(each["own"].mean()), 4) for each in found],
        "fine_tuning_seconds": [round(float(each["seconds"])) for each in found],
    }


def fine_tuned_hits(
    backbone: Path, train, scored: Sequence[dict], recipe: dict, seed: int
) -> tuple[np.ndarray, float]:
    """Which texts a fine-tuned classifier labels right, and the seconds of the fine-tuning."""
    seed_everything(seed)
    names = train.label_list
    model, tokenizer = load_backbone(backbone, label_list=names, **dropout(recipe["dropout"]))
    if "frozen" in recipe:
        freeze_layers(model, recipe["frozen"])
    loader = create_dataloader(
        train, tokenizer, "train", recipe["batch_size"], recipe["max_seq_length"], seed=seed
    )
    begun = time.perf_counter()
    schedule = {name: recipe[name] for name in ("epochs", "learning_rate")}
    fit(model, loader, **schedule, seed=seed, progress=False)
    seconds = time.perf_counter() - begun
    answers = predict(model, scored, tokenizer, max_seq_length=READ)
    right = [names[row["label"]] == a["label"] for row, a in zip(scored, answers, strict=True)]
    return np.array(right), seconds


def dropout(rate: float) -> dict[str, float]:
    """The configuration of a model that drops so much while it is trained."""
    return {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}


def entities(args: argparse.Namespace, seeds: Sequence[int]) -> dict:
    """Named entities: the backbone against random weights and a dictionary."""
    recipe = RECIPES["entities"]
    tokenizer = AutoTokenizer.from_pretrained(str(args.backbone))
    scored = load_people_daily(args.split, SENTENCES)

    def run(seed: int) -> dict:
        train = load_people_daily("train", recipe["examples"], seed)
        names = training_names(train)
        found = {"dictionary": count(scored, look_up(scored, names), names)}
        for kind in ("random", "backbone"):
            seed_everything(seed)
            tagger = (fresh_tagger if kind == "random" else load_tagger)(args.backbone, recipe)
            begun = time.perf_counter()
            tag(tagger, train, tokenizer, recipe, seed)
            found["seconds"] = time.perf_counter() - begun  # of the backbone, in the end
            found[kind] = count(scored, read_tags(tagger, scored, tokenizer), names)
        return found

    found = [remembered(args, "entities", recipe, seed, run) for seed in seeds]
    kinds = ("backbone", "random", "dictionary")
    counts = {kind: np.sum([each[kind] for each in found], axis=0) for kind in kinds}
    result: dict = {
        "examples": recipe["examples"],
        "test_examples": len(scored),
        "span_f1": _f1(counts["backbone"][:, 0]),
        "baseline": {kind: _f1(counts[kind][:, 0]) for kind in kinds[1:]},
    }
    for column, name in ((1, "seen"), (2, "unseen")):
        result[name] = {kind: _f1(each[:, column]) for kind, each in counts.items()}
    result["difference"] = {
        kind: paired_bootstrap_f1(counts["backbone"][:, 0], counts[kind][:, 0])
        for kind in kinds[1:]
    }
    result["by_seed"] = [_f1(each["backbone"][:, 0]) for each in found]
    result["fine_tuning_seconds"] = [round(float(each["seconds"])) for each in found]
    return {**result, "recipe": recipe, "seeds": list(seeds)}


def load_tagger(backbone: Path, recipe: dict):
    """The backbone with a new head."""
    return AutoModelForTokenClassification.from_pretrained(
        str(backbone), num_classes=len(LABELS), **dropout(recipe["dropout"])
    )


def fresh_tagger(backbone: Path, recipe: dict):
    """The same shape with random weights."""
    config = ErnieConfig.from_pretrained(
        str(backbone), num_labels=len(LABELS), **dropout(recipe["dropout"])
    )
    return ErnieForTokenClassification(config)


class _Flat(paddle.nn.Layer):
    """A tagger whose scores have shape [tokens, labels], as `fit` counts them."""

    def __init__(self, tagger: paddle.nn.Layer) -> None:
        super().__init__()
        self.tagger = tagger

    def forward(self, input_ids):
        scores = self.tagger(input_ids)
        return scores.reshape([-1, scores.shape[-1]])


def tag(tagger, dataset, tokenizer, recipe: dict, seed: int) -> None:
    """Train a tagger in place."""
    rows = [_encode(example, tokenizer, recipe["max_seq_length"]) for example in dataset]
    loader = DataLoader(
        rows,
        batch_sampler=_grouped(rows, recipe["batch_size"], seed),
        collate_fn=Tuple(Pad(pad_val=tokenizer.pad_token_id), Pad(pad_val=-100)),
        return_list=True,
    )
    cross_entropy = paddle.nn.CrossEntropyLoss(ignore_index=-100)
    fit(
        _Flat(tagger),
        loader,
        epochs=recipe["epochs"],
        learning_rate=recipe["learning_rate"],
        seed=seed,
        criterion=lambda scores, labels: cross_entropy(scores, labels.reshape([-1])),
        progress=False,
    )


def read_tags(tagger, dataset, tokenizer) -> list[set[Span]]:
    """The entities that a tagger finds in each example."""
    rows = [_encode(example, tokenizer, people_daily.LONGEST + 2) for example in dataset]
    order = np.argsort([len(ids) for ids, _ in rows], kind="stable")
    found: list[set[Span]] = [set() for _ in rows]
    with inference_mode(tagger):
        for start in range(0, len(order), 32):
            chosen = order[start : start + 32]
            ids = Pad(pad_val=tokenizer.pad_token_id)([rows[index][0] for index in chosen])
            tags = tagger(paddle.to_tensor(ids)).argmax(-1).numpy()
            for index, row in zip(chosen, tags, strict=True):
                found[index] = bio_spans(row[1 : len(rows[index][0]) - 1])
    return found


def _encode(example: dict, tokenizer, length: int) -> tuple[np.ndarray, np.ndarray]:
    tokens = [token.lower() for token in example["tokens"][: length - 2]]
    ids = [tokenizer.cls_token_id, *tokenizer.convert_tokens_to_ids(tokens), tokenizer.sep_token_id]
    labels = [-100, *example["labels"][: length - 2], -100]
    return np.array(ids, dtype="int64"), np.array(labels, dtype="int64")


def _grouped(rows: list, batch_size: int, seed: int):
    from course_lib.data import LengthGroupedBatchSampler

    return LengthGroupedBatchSampler([len(ids) for ids, _ in rows], batch_size, seed=seed)


def count(dataset, found: list[set[Span]], names: dict[str, int]) -> np.ndarray:
    """Per sentence, for all, seen and unseen names: right, found and true. [sentences, 3, 3]."""
    table = np.zeros((len(dataset), 3, 3), dtype=np.int64)
    for row, (example, own) in enumerate(zip(dataset, found, strict=True)):
        true = bio_spans(example["labels"])
        for column, members in enumerate((own & true, own, true)):
            for start, end, _ in members:
                seen = "".join(example["tokens"][start:end]) in names
                table[row, 0, column] += 1
                table[row, 1 if seen else 2, column] += 1
    return table


def _f1(counts: np.ndarray) -> float:
    right, found, true = counts.sum(axis=0)
    return round(float(2 * right / max(1, found + true)), 4)


def masked(backbone: Path, split: str) -> dict:
    """Hidden characters (15%, whole words) that the masked-LM head guesses."""
    tokenizer = AutoTokenizer.from_pretrained(str(backbone))
    model = AutoModelForMaskedLM.from_pretrained(str(backbone))
    encoder = WordEncoder(tokenizer)
    result: dict = {"examples": 0, "test_accuracy": {}, "baseline": {}, "hidden": {}}
    for name, texts in (
        ("reviews", [example["text"] for example in load_reviews(split)]),
        ("news", [people_daily.text(line) for line in people_daily.split_lines()[split]]),
    ):
        sequences = make_sequences(texts, encoder, 128)
        loader = create_pretraining_dataloader(sequences, tokenizer, "dev")
        labels = np.concatenate([batch["labels"].numpy() for batch in loader])
        result["test_accuracy"][name] = round(evaluate(model, loader)["accuracy"], 4)
        # always the commonest: no constant guess is better
        result["baseline"][name] = round(float(np.bincount(labels).max() / len(labels)), 4)
        result["hidden"][name] = len(labels)
        result["examples"] += len(texts)
    return result


def cloze(args: argparse.Namespace, seeds: Sequence[int]) -> dict:
    """Questions with a gap: the backbone against the most frequent name of the right type."""
    recipe = RECIPES["cloze"]
    scored = load_cloze(args.split, QUESTIONS)
    gold = [example["answers"] for example in scored]
    names = {question.id: candidates(question) for question in frozen(args.split)}
    rule = [
        Counter(mention.name for mention in names[example["id"]]).most_common(1)[0][0]
        for example in scored
    ]
    baseline = np.array(list(map(answer_f1, rule, gold)))

    def run(seed: int) -> dict:
        answers, seconds = read_answers(args.backbone, scored, recipe, seed)
        return {"own": np.array(list(map(answer_f1, answers, gold))), "seconds": seconds}

    found = [remembered(args, "cloze", recipe, seed, run) for seed in seeds]
    own = np.mean([each["own"] for each in found], axis=0)
    return {
        "examples": recipe["examples"],
        "test_examples": len(scored),
        "f1": round(float(own.mean()), 4),
        "baseline": round(float(baseline.mean()), 4),
        "difference": paired_bootstrap(own, baseline),
        "by_seed": [round(float(each["own"].mean()), 4) for each in found],
        "fine_tuning_seconds": [round(float(each["seconds"])) for each in found],
        "recipe": recipe,
        "seeds": list(seeds),
    }


def read_answers(
    backbone: Path, scored: Sequence[dict], recipe: dict, seed: int
) -> tuple[list[str], float]:
    """What a fine-tuned reader answers, and the seconds of the fine-tuning."""
    reading, length = TASKS["qa"], recipe["max_seq_length"]
    tokenizer = AutoTokenizer.from_pretrained(str(backbone))
    collate = reading.collator(tokenizer)
    seed_everything(seed)
    reader = AutoModelForQuestionAnswering.from_pretrained(
        str(backbone), num_classes=2, **dropout(recipe["dropout"])
    )
    features = reading.features(load_cloze("train", recipe["examples"], seed), tokenizer, length)
    windows = [window for window in features if window["start_positions"] > 0]
    batches = list(_batches(len(windows), recipe["batch_size"], recipe["epochs"], seed))

    def loss(batch):
        arrays = collate([windows[index] for index in batch])
        tensors = {name: paddle.to_tensor(array) for name, array in arrays.items()}
        places = [tensors.pop(f"{name}_positions") for name in ("start", "end")]
        pairs = zip(reader(**tensors), places, strict=True)
        return sum(paddle.nn.functional.cross_entropy(*pair) for pair in pairs) / 2

    begun = time.perf_counter()
    train_steps(reader, batches, loss, len(batches), recipe["learning_rate"], seed=seed)
    seconds = time.perf_counter() - begun
    answers = predict(reader, scored, tokenizer, max_seq_length=length)
    return [answer["answer"] for answer in answers], seconds


def _batches(count: int, batch_size: int, epochs: int, seed: int):
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        order = rng.permutation(count)
        yield from (order[i : i + batch_size] for i in range(0, count, batch_size))


def search(backbone: Path, pairs: list[tuple[str, str]]) -> dict:
    """Find the second text of a pair by the first: mean vectors against TF-IDF of characters."""
    queries, texts = zip(*pairs, strict=True)
    model, tokenizer = load_backbone(backbone)
    encoder = BiEncoder(model, tokenizer, max_length=128)
    near = {"own": encode(encoder, queries) @ encode(encoder, texts).T}
    index = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True)
    right = index.fit_transform(texts)
    near["baseline"] = (index.transform(queries) @ right.T).toarray()
    hits = {
        name: (scores > scores.diagonal()[:, None]).sum(axis=1) < FOUND
        for name, scores in near.items()
    }
    return {
        "pairs": len(pairs),
        f"recall_at_{FOUND}": round(float(hits["own"].mean()), 4),
        "baseline": round(float(hits["baseline"].mean()), 4),
        "difference": paired_bootstrap(hits["own"], hits["baseline"]),
    }


def read_outside(texts: Path):
    """The out-of-domain tasks."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools/backbone"))
    from outside import load_outside

    return load_outside(texts)


def classify(task: str, args: argparse.Namespace, seeds: Sequence[int], outside) -> dict:
    """Authors or sources: the backbone against TF-IDF and LinearSVC, on all training passages."""
    recipe = RECIPES["outside"]
    train, scored = (
        MapDataset(
            [{"text": text, "label": label} for text, label in outside.rows[task, part]],
            label_list=outside.classes[task],
        )
        for part in ("train", args.split)
    )

    def run(seed: int) -> dict:
        own, seconds = fine_tuned_hits(args.backbone, train, scored, recipe, seed)
        return {"own": own, "linear": linear_hits(train, scored, seed), "seconds": seconds}

    found = [remembered(args, task, recipe, seed, run) for seed in seeds]
    return {"examples": len(train), **against_linear(found), "recipe": recipe, "seeds": list(seeds)}


if __name__ == "__main__":
    main()
