"""A tiny tree, texts in which characters give the labels away, and a tiny model for the tests."""

from pathlib import Path

from course_lib.models import load_backbone, save_model
from course_lib.runtime import seed_everything
from course_lib.tasks.hierarchical import Taxonomy, write_dataset

import numpy as np

HINTS = {
    "书": "书页纸",
    "书##好": "好棒赞",
    "书##差": "坏差糟",
    "店": "店床房",
    "店##好": "好棒赞",
    "店##好##位置": "近路站",
    "店##差": "坏差糟",
}
LABELS = list(HINTS)
TAXONOMY = Taxonomy(LABELS)
TINY = {
    "num_hidden_layers": 2,
    "hidden_size": 24,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "initializer_range": 0.1,
}


def examples(size: int, seed: int = 0) -> list[dict]:
    """Rows of {"text", "labels"}, no two texts alike."""
    random = np.random.RandomState(seed)
    leaves = ["书##好", "书##差", "店##好", "店##好##位置", "店##差"]
    rows: dict[str, list[str]] = {}
    while len(rows) < size:
        labels = TAXONOMY.complete([leaves[random.randint(len(leaves))]])
        hints = "".join(random.choice(list(HINTS[label])) for label in labels)
        filler = "".join(random.choice(list("今天我了是的看在有一"), random.randint(3, 12)))
        rows[filler + hints] = labels
    return [{"text": text, "labels": labels} for text, labels in rows.items()]


def directory(path, train: int = 60, dev: int = 30) -> Path:
    """The guide's files."""
    rows = examples(train + dev + 6)
    splits = {"train": rows[:train], "dev": rows[train : train + dev]}
    return write_dataset(path, splits, LABELS, [row["text"] for row in rows[train + dev :]])


def tiny_model(path, **config) -> Path:
    """An untrained tiny model that `model_name` can name."""
    seed_everything(1)
    texts = [row["text"] for row in examples(200)]
    config = {"problem_type": "multi_label_classification", **TINY, **config}
    model, tokenizer = load_backbone("fresh", vocab_texts=texts, label_list=LABELS, **config)
    return save_model(model, tokenizer, path)
