"""Chapter 16: what first vectors are worth, and what a dictionary gives a classifier."""

import math
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.data import create_dataloader, load_reviews
from course_lib.models import encoder_of, load_backbone, save_model
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import data_dir, seed_everything
from course_lib.tasks.vocabulary import add_words, cutter, pretrain_words
from course_lib.tasks.vocabulary.added_words import VECTORS
from course_lib.tasks.vocabulary.cutting import lower
from course_lib.training import fit, paired_bootstrap, predict
from course_lib.training.prediction import inference_mode

import numpy as np
import paddle
import pandas as pd
from paddlenlp.datasets import MapDataset
from paddlenlp.transformers import AutoModelForMaskedLM, AutoTokenizer, PretrainedModel
from scipy.special import log_softmax
from sklearn.metrics import f1_score

METHODS = (
    "do nothing",
    "words added, mean vectors",
    "words added, random vectors",
    "second pretraining, whole words",
    "second pretraining, characters",
)


def vector_effect(
    load: Callable[[], tuple[PretrainedModel, Any]],
    words: Sequence[str],
    texts: Sequence[str],
    hidden: float = 0.15,
    seed: int = 42,
) -> pd.DataFrame:
    """Read texts with added words before any training, with each kind of first vector.

    The same characters, none of them in an added word, are compared in all readings.

    Args:
        load: returns a masked-LM model and its tokenizer, the same at each call.
        texts: those without a word, and those longer than 100 characters, are left out.
        hidden: share of the characters between the words that are hidden.

    Returns:
        One row for "characters" (no word added) and one per kind of vector: "loss" (nats per hidden
        character), "distance" (1 - cosine of a character's last hidden state to the first reading,
        the mean) and "word found" (one word per text is hidden: how often the right one scores
        highest of all added words). `attrs` has the numbers of "texts" and "hidden" characters.
    """
    _, plain = load()
    cut, random, chosen = cutter(words), np.random.default_rng(seed), []
    words = [lower(word) for word in words]
    for text in map(lower, texts):
        pieces = cut(text)
        places = [i for i, piece in enumerate(pieces) if piece in words]
        if places and len(pieces) > 1 and len(text) <= 100:
            masks = [random.random(len(plain.tokenize(piece))) < hidden for piece in pieces]
            chosen.append((pieces, set(places), int(random.choice(places)), masks))
    rows, first = {}, None
    for name in ("characters", *VECTORS):
        model, tokenizer = load()
        added = [] if name == "characters" else add_words(model, tokenizer, words, name, seed)
        losses, states, found = [], [], []
        with inference_mode(model):
            for question in chosen:
                ids, between, masked, word = _spell(tokenizer, *question)
                states.append(encoder_of(model)(paddle.to_tensor([ids]))[0].numpy()[0, between])
                scores = model(paddle.to_tensor([_hide(tokenizer, ids, masked)])).numpy()[0]
                losses.extend(
                    -log_softmax(scores[masked], axis=-1)[range(len(masked)), ids[masked]]
                )
                if added:
                    scores = model(paddle.to_tensor([_hide(tokenizer, ids, [word])])).numpy()[0]
                    found.append(added[int(scores[word, added].argmax())] == ids[word])
        states = np.concatenate(states)
        states /= np.linalg.norm(states, axis=1, keepdims=True)
        first = states if first is None else first
        distance = 1 - (states * first).sum(axis=1).mean()
        shares = {"word found": np.mean(found) if found else math.nan}
        rows[name] = {"loss": np.mean(losses), "distance": distance, **shares}
    frame = pd.DataFrame(rows).T.astype("float64")
    frame.attrs |= {"texts": len(chosen), "hidden": len(losses)}
    return frame


def _spell(tokenizer, pieces, words, guessed, masks) -> tuple:
    """Ids, the places of the tokens between the words, the hidden ones, the word to guess."""
    ids, word = [tokenizer.cls_token_id], 0
    between: list[int] = []
    masked: list[int] = []
    for number, (piece, mask) in enumerate(zip(pieces, masks, strict=True)):
        tokens = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(piece))
        word = len(ids) if number == guessed else word
        if number not in words:
            places = np.arange(len(ids), len(ids) + len(tokens))
            between.extend(places)
            masked.extend(places[mask])
        ids.extend(tokens)
    return np.array([*ids, tokenizer.sep_token_id]), between, masked, word


def _hide(tokenizer, ids: np.ndarray, places: Sequence[int]) -> np.ndarray:
    hidden = ids.copy()
    hidden[list(places)] = tokenizer.mask_token_id
    return hidden


def compare_vocabulary(
    seed: int,
    words: Sequence[str],
    methods: Sequence[str] = METHODS,
    *,
    train_examples: int = 600,
    test_examples: int | None = 600,
    pretraining_texts: int = 1500,
    max_seq_length: int = 64,
    batch_size: int = 16,
    epochs: int = 2,
    learning_rate: float = 2e-4,
    backbone: str | os.PathLike | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Train a classifier of reviews in each of several ways to bring words into the backbone.

    Args:
        seed: of the labeled reviews that are drawn, the new head, the batches, the random vectors
            and the hidden words. All methods share them.
        methods: some of METHODS. A second pretraining reads training reviews without labels; the
            one that hides single characters shows the effect of the reading alone.
        backbone: a masked-LM model's directory; None is the course's.

    Returns:
        One row per test review: "label", and the class that each method predicts.
        `attrs["tokens"]` is the mean number of tokens of a training review, by method.
    """
    source = str(backbone or os.environ.get("COURSE_BACKBONE") or data_dir() / "backbone")
    train, test = load_reviews("train"), load_reviews("test", max_examples=test_examples)
    drawn = [train[int(i)] for i in np.random.default_rng(seed).permutation(len(train))]
    labeled = MapDataset(drawn[:train_examples], label_list=train.label_list)
    texts = [row["text"] for row in drawn[:pretraining_texts]]
    sizes = {"max_seq_length": max_seq_length, "batch_size": batch_size}
    answers, tokens = {"label": [row["label"] for row in test]}, {}
    for method in methods:
        with tempfile.TemporaryDirectory() as directory:
            if method.startswith("second"):
                with quiet_paddlenlp():
                    masked = AutoModelForMaskedLM.from_pretrained(source)
                    plain = AutoTokenizer.from_pretrained(source)
                ways = {"whole words": (words, "jieba"), "characters": ((), "characters")}
                dictionary, rest = ways[method.split(", ")[1]]
                options = {**sizes, "learning_rate": 1e-4, "seed": seed, "progress": progress}
                pretrain_words(masked, plain, texts, dictionary, rest=rest, **options)
                save_model(masked, plain, directory)
            seed_everything(seed)  # the same new head for all
            start = directory if method.startswith("second") else source
            model, tokenizer = load_backbone(start, label_list=train.label_list)
        if method.startswith("words added"):
            add_words(model, tokenizer, words, method.split()[-2], seed)
        loader = create_dataloader(labeled, tokenizer, "train", seed=seed, **sizes)
        options = {"learning_rate": learning_rate, "seed": seed, "progress": progress}
        fit(model, loader, epochs=epochs, **options)
        predicted = predict(model, test, tokenizer, **sizes)
        answers[method] = [train.label_list.index(row["label"]) for row in predicted]
        tokens[method] = np.mean([len(tokenizer(row["text"])["input_ids"]) for row in labeled])
    frame = pd.DataFrame(answers)
    frame.attrs["tokens"] = tokens
    return frame


def vocabulary_table(runs: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Compare the methods of `compare_vocabulary`, run with one seed or several.

    Returns:
        One row per method: "accuracy", "macro F1" and "tokens" (means over the runs), "difference"
        of the accuracy to the first method's, with "low" and "high", the 95% bootstrap interval
        over the reviews.
    """
    right = [run.drop(columns="label").eq(run["label"], axis=0) for run in runs]
    mean = sum(right) / len(runs)
    rows = {}
    for method in mean:
        f1 = [f1_score(run["label"], run[method], average="macro") for run in runs]
        tokens = [run.attrs["tokens"][method] for run in runs]
        values = (mean[method].mean(), np.mean(f1), np.mean(tokens))
        rows[method] = dict(zip(("accuracy", "macro F1", "tokens"), values, strict=True))
        if len(rows) > 1:
            rows[method] |= paired_bootstrap(mean[method], mean.iloc[:, 0])
    return pd.DataFrame(rows).T
