"""A model from scratch on all training reviews, beside a linear one: one JSON line.

    python benchmarks/quickstart.py

The fresh configuration is trained on the whole train split, the dev split chooses the epoch, and
the test split is used once, at the end. The baseline (character 1-3-gram TF-IDF and a LinearSVC
with their default settings) sees the same training texts and is tested on the same test texts.
"""

from __future__ import annotations

import argparse
import json
import time

import course_lib  # noqa: F401
from course_lib.data import create_dataloader, load_reviews
from course_lib.models import load_backbone, suggested_learning_rate
from course_lib.runtime import seed_everything, select_device
from course_lib.training import fit, paired_bootstrap, predict

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

EPOCHS, BATCH_SIZE, MAX_SEQ_LENGTH = 3, 32, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=42, help="default %(default)s")
    parser.add_argument("--max_train_examples", type=int, help="to try the script; default: all")
    args = parser.parse_args()

    start = time.perf_counter()
    seed_everything(args.seed)
    select_device()
    train_ds = load_reviews("train", args.max_train_examples)
    dev_ds, test_ds = load_reviews(["dev", "test"])
    model, tokenizer = load_backbone(
        "fresh",
        vocab_texts=[example["text"] for example in train_ds],
        label_list=train_ds.label_list,
    )
    history = fit(
        model,
        create_dataloader(train_ds, tokenizer, "train", BATCH_SIZE, MAX_SEQ_LENGTH, seed=args.seed),
        create_dataloader(dev_ds, tokenizer, "dev", BATCH_SIZE, MAX_SEQ_LENGTH),
        epochs=EPOCHS,
        learning_rate=suggested_learning_rate(model),
        early_stopping=EPOCHS,
        seed=args.seed,
    )
    trained = time.perf_counter()
    labels = np.array([example["label"] for example in test_ds])
    answers = predict(
        model, test_ds, tokenizer, batch_size=BATCH_SIZE, max_seq_length=MAX_SEQ_LENGTH
    )
    hits = np.array([answer["label"] for answer in answers]) == np.array(test_ds.label_list)[labels]

    linear = make_pipeline(
        TfidfVectorizer(analyzer="char", ngram_range=(1, 3)), LinearSVC(random_state=0)
    )
    linear.fit([e["text"] for e in train_ds], [e["label"] for e in train_ds])
    linear_hits = linear.predict([e["text"] for e in test_ds]) == labels

    result = {
        "task": "sentiment of reviews, fresh model",
        "train_examples": len(train_ds),
        "dev_examples": len(dev_ds),
        "test_examples": len(test_ds),
        "dev_accuracy": round(max(history["dev_accuracy"]), 4),
        "test_accuracy": round(float(hits.mean()), 4),
        "baseline": round(float(linear_hits.mean()), 4),
        "difference": {
            name: round(value, 4) for name, value in paired_bootstrap(hits, linear_hits).items()
        },
        "parameters": sum(int(np.prod(p.shape)) for p in model.parameters()),
        "epochs": len(history["epoch"]),
        "max_seq_length": MAX_SEQ_LENGTH,
        "seed": args.seed,
        "seconds": round(trained - start, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
