"""What the shipped backbone is worth: one JSON line a task, means over three seeds on the CPU.

    python benchmarks/backbone.py [--tasks reviews_2000,entities] [--seeds 42,43] [--split dev]

reviews_2000 and reviews_all fine-tune it on labelled reviews beside TF-IDF (character 1-3-grams)
and a LinearSVC on the same texts. entities tags persons, places and organisations in People's
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
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

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
from course_lib.runtime import seed_everything, select_device
from course_lib.tasks.search import BiEncoder, encode
from course_lib.training import (
    TASKS,
    answer_f1,
    evaluate,
    fit,
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
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

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
    args = parser.parse_args()
    select_device("cpu")
    seeds = [int(seed) for seed in args.seeds.split(",")]
    known = (*INSIDE, *OUTSIDE) if args.texts else INSIDE
    outside = read_outside(args.texts) if args.texts else None
    for task in args.tasks.split(","):
        if task not in known:
            parser.error(f"no task {task!r}; there are {', '.join(known)}")
        if task == "cloze":
            result = cloze(args.backbone, seeds, args.split)
        elif task == "halves":
            texts = [example["text"] for example in load_reviews(args.split)]
            result = search(args.backbone, text_halves(texts))
        elif task == "headings":
            result = search(args.backbone, outside.headings)
        elif task in OUTSIDE:
            result = classify(task, args.backbone, seeds, args.split, outside)
        elif task == "entities":
            result = entities(args.backbone, seeds, args.split)
        elif task == "masked":
            result = masked(args.backbone, args.split)
        else:
            result = reviews(task, args.backbone, seeds, args.split)
        print(json.dumps({"task": task, "split": args.split, **result}), flush=True)


def reviews(task: str, backbone: Path, seeds: Sequence[int], split: str) -> dict:
    """Sentiment: the backbone against TF-IDF and LinearSVC."""
    recipe = RECIPES[task]
    scored = load_reviews(split)
    hits, linear_hits, seconds = [], [], []
    for seed in seeds:
        train = load_reviews("train", recipe["examples"], seed)
        own, took = fine_tuned_hits(backbone, train, scored, recipe, seed)
        hits.append(own)
        seconds.append(took)
        linear_hits.append(linear_hits_of(train, scored))
    own, other = np.mean(hits, axis=0), np.mean(linear_hits, axis=0)
    return {
        "examples": len(train),
        "test_examples": len(scored),
        "test_accuracy": round(float(own.mean()), 4),
        "baseline": round(float(other.mean()), 4),
        "difference": _rounded(paired_bootstrap(own, other)),
        "by_seed": [round(float(np.mean(each)), 4) for each in hits],
        "fine_tuning_seconds": [round(value) for value in seconds],
        "recipe": recipe,
        "seeds": list(seeds),
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


def linear_hits_of(train: Sequence[dict], scored: Sequence[dict]) -> np.ndarray:
    """Which texts TF-IDF and LinearSVC label right."""
    linear = make_pipeline(
        TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True), LinearSVC()
    )
    linear.fit([e["text"] for e in train], [e["label"] for e in train])
    return linear.predict([e["text"] for e in scored]) == [e["label"] for e in scored]


def dropout(rate: float) -> dict[str, float]:
    """The configuration of a model that drops so much while it is trained."""
    return {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}


def entities(backbone: Path, seeds: Sequence[int], split: str) -> dict:
    """Named entities: the backbone against random weights and a dictionary."""
    recipe = RECIPES["entities"]
    tokenizer = AutoTokenizer.from_pretrained(str(backbone))
    scored = load_people_daily(split, SENTENCES)
    found: dict[str, list] = {"backbone": [], "random": [], "dictionary": []}
    seconds = []
    for seed in seeds:
        train = load_people_daily("train", recipe["examples"], seed)
        names = training_names(train)
        for kind in ("backbone", "random"):
            seed_everything(seed)
            if kind == "backbone":
                tagger = AutoModelForTokenClassification.from_pretrained(
                    str(backbone), num_classes=len(LABELS), **dropout(recipe["dropout"])
                )
            else:
                config = ErnieConfig.from_pretrained(
                    str(backbone), num_labels=len(LABELS), **dropout(recipe["dropout"])
                )
                tagger = ErnieForTokenClassification(config)
            begun = time.perf_counter()
            tag(tagger, train, tokenizer, recipe, seed)
            if kind == "backbone":
                seconds.append(time.perf_counter() - begun)
            found[kind].append(count(scored, read_tags(tagger, scored, tokenizer), names))
        found["dictionary"].append(count(scored, look_up(scored, names), names))
    counts = {kind: np.sum(each, axis=0) for kind, each in found.items()}  # sums over seeds
    result: dict = {
        "examples": len(train),
        "test_examples": len(scored),
        "span_f1": _f1(counts["backbone"][:, 0]),
        "baseline": {kind: _f1(counts[kind][:, 0]) for kind in ("random", "dictionary")},
    }
    for column, name in ((1, "seen"), (2, "unseen")):
        result[name] = {kind: _f1(each[:, column]) for kind, each in counts.items()}
    result["difference"] = {
        kind: _rounded(paired_bootstrap_f1(counts["backbone"][:, 0], counts[kind][:, 0]))
        for kind in ("random", "dictionary")
    }
    result["fine_tuning_seconds"] = [round(value) for value in seconds]
    return {**result, "recipe": recipe, "seeds": list(seeds)}


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


def cloze(backbone: Path, seeds: Sequence[int], split: str) -> dict:
    """Questions with a gap: the backbone against the most frequent name of the right type."""
    recipe, reading = RECIPES["cloze"], TASKS["qa"]
    tokenizer, length = AutoTokenizer.from_pretrained(str(backbone)), recipe["max_seq_length"]
    scored = load_cloze(split, QUESTIONS)
    gold = [example["answers"] for example in scored]
    names = {question.id: candidates(question) for question in frozen(split)}
    rule = [
        Counter(mention.name for mention in names[example["id"]]).most_common(1)[0][0]
        for example in scored
    ]
    baseline = np.array(list(map(answer_f1, rule, gold)))
    own, seconds = [], []
    collate = reading.collator(tokenizer)
    for seed in seeds:
        seed_everything(seed)
        reader = AutoModelForQuestionAnswering.from_pretrained(
            str(backbone), num_classes=2, **dropout(recipe["dropout"])
        )
        features = reading.features(
            load_cloze("train", recipe["examples"], seed), tokenizer, length
        )
        windows = [window for window in features if window["start_positions"] > 0]
        batches = list(_batches(len(windows), recipe["batch_size"], recipe["epochs"], seed))

        def loss(batch, reader=reader, windows=windows):
            arrays = collate([windows[index] for index in batch])
            tensors = {name: paddle.to_tensor(array) for name, array in arrays.items()}
            places = [tensors.pop(f"{name}_positions") for name in ("start", "end")]
            pairs = zip(reader(**tensors), places, strict=True)
            return sum(paddle.nn.functional.cross_entropy(*pair) for pair in pairs) / 2

        begun = time.perf_counter()
        train_steps(reader, batches, loss, len(batches), recipe["learning_rate"], seed=seed)
        seconds.append(time.perf_counter() - begun)
        answers = predict(reader, scored, tokenizer, max_seq_length=length)
        answers = [answer["answer"] for answer in answers]
        own.append(np.array(list(map(answer_f1, answers, gold))))
    return {
        "examples": recipe["examples"],
        "test_examples": len(scored),
        "f1": round(float(np.mean(own)), 4),
        "baseline": round(float(baseline.mean()), 4),
        "difference": _rounded(paired_bootstrap(np.mean(own, axis=0), baseline)),
        "by_seed": [round(float(np.mean(each)), 4) for each in own],
        "fine_tuning_seconds": [round(value) for value in seconds],
        "recipe": recipe,
        "seeds": list(seeds),
    }


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
        "difference": _rounded(paired_bootstrap(hits["own"], hits["baseline"])),
    }


def read_outside(texts: Path):
    """The out-of-domain tasks."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools/backbone"))
    from outside import load_outside

    return load_outside(texts)


def classify(task: str, backbone: Path, seeds: Sequence[int], split: str, outside) -> dict:
    """Authors or sources: the backbone against TF-IDF and LinearSVC, on all training passages."""
    recipe = RECIPES["outside"]
    train, scored = (
        MapDataset(
            [{"text": text, "label": label} for text, label in outside.rows[task, part]],
            label_list=outside.classes[task],
        )
        for part in ("train", split)
    )
    baseline = linear_hits_of(train, scored)
    hits = [fine_tuned_hits(backbone, train, scored, recipe, seed)[0] for seed in seeds]
    own = np.mean(hits, axis=0)
    return {
        "examples": len(train),
        "test_examples": len(scored),
        "test_accuracy": round(float(own.mean()), 4),
        "baseline": round(float(baseline.mean()), 4),
        "difference": _rounded(paired_bootstrap(own, baseline)),
        "by_seed": [round(float(np.mean(each)), 4) for each in hits],
        "recipe": recipe,
        "seeds": list(seeds),
    }


def _rounded(values: dict) -> dict:
    return {name: round(float(value), 4) for name, value in values.items()}


if __name__ == "__main__":
    main()
