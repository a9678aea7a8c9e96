"""A tiny task and a tiny model that the training tests share."""

import hashlib

from course_lib.data import create_dataloader
from course_lib.models import load_backbone
from course_lib.runtime import seed_everything
from course_lib.training import fit

import numpy as np
import paddle
from paddlenlp.datasets import MapDataset

LABELS = ["negative", "positive"]


def dataset(size: int, seed: int = 0) -> MapDataset:
    """Texts of 3 to 30 characters in which two characters give the label away."""
    random = np.random.RandomState(seed)
    examples = []
    for _ in range(size):
        label = int(random.randint(2))
        filler = "".join(random.choice(list("今天房间书本电脑的了是我看"), random.randint(3, 28)))
        hint = "".join(random.choice(list("好棒赞美" if label else "坏差糟烂"), 2))
        examples.append({"text": filler + hint, "label": label})
    return MapDataset(examples, label_list=LABELS)


def model_and_tokenizer(seed: int = 1, **config):
    seed_everything(seed)
    settings = {
        "num_hidden_layers": 2,
        "hidden_size": 24,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
    }
    texts = [example["text"] for example in dataset(60)]
    return load_backbone("fresh", vocab_texts=texts, label_list=LABELS, **{**settings, **config})


def loaders(tokenizer, train_size: int = 60, batch_size: int = 8, **options):
    """The training loader, with `options` of `create_dataloader`, and the dev loader."""
    loader = create_dataloader(dataset(train_size), tokenizer, "train", batch_size, 32, **options)
    if "max_tokens" in options:
        loader.batch_sampler.pool_batches = 2  # one pool of all would give equally long epochs
    return loader, create_dataloader(dataset(21, seed=1), tokenizer, "dev", batch_size, 32)


def train(
    train_size: int = 60,
    batch_size: int = 8,
    config: dict | None = None,
    loader: dict | None = None,
    **settings,
):
    """Train the tiny model; returns it and its history."""
    model, tokenizer = model_and_tokenizer(**(config or {}))
    train_loader, dev_loader = loaders(tokenizer, train_size, batch_size, **(loader or {}))
    settings = {"epochs": 3, "learning_rate": 3e-3, "progress": False, **settings}
    return model, fit(model, train_loader, dev_loader, **settings)


def trained_pair():
    """A tiny model that has learned the two characters that give the label away."""
    model, tokenizer = model_and_tokenizer()
    train_loader, _ = loaders(tokenizer, 200)
    fit(model, train_loader, epochs=6, learning_rate=3e-3, progress=False)
    return model, tokenizer


def weights_digest(model: paddle.nn.Layer) -> str:
    """One string that differs as soon as one bit of one weight does."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()
