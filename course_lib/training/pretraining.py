"""Masked language modelling with whole words, to go on pretraining on texts of one's own.

ERNIE hides whole words instead of single characters: when only 店 of 酒店 is hidden, the other half
gives it away, and the model learns spelling instead of meaning. jieba says where words begin; with
words of your own, see `course_lib.tasks.vocabulary.pretrain_words`.

    model = AutoModelForMaskedLM.from_pretrained("data/backbone")
    history = pretrain(model, tokenizer, "reviews.txt", output_dir="pretrained", epochs=3)
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from course_lib.data import LengthGroupedBatchSampler, read_texts
from course_lib.data.tokens import words_with_offsets
from course_lib.models import save_model
from course_lib.runtime import InputError
from course_lib.runtime.errors import real
from course_lib.runtime.outputs import lock_directory
from course_lib.training.loop import History, fit

import jieba
import numpy as np
import paddle
from paddle.io import DataLoader

Sequences = list[tuple[np.ndarray, np.ndarray]]  # ids with [CLS] and [SEP]; where words begin


class WordEncoder:
    """Token ids of a text, and which of them begin a word.

    Args:
        tokenizer: a BERT or ERNIE tokenizer of PaddleNLP.
    """

    def __init__(self, tokenizer) -> None:
        self.tokenizer = tokenizer
        jieba.setLogLevel(logging.WARNING)
        self.cutter = jieba.Tokenizer()

    def __call__(self, text: str) -> tuple[list[int], list[bool]]:
        """Encode a text without special tokens.

        Returns:
            `(ids, starts)` of one length: the ids that the tokenizer gives, and True where a word
            begins. The pieces of a Latin word or a number (##) always belong to one word.
        """
        begins = {begin for _, begin, _ in self.cutter.tokenize(text)}
        ids: list[int] = []
        starts: list[bool] = []
        words, offsets = words_with_offsets(text, self.tokenizer)
        last = 0  # the end of the token before; what stands between has no token
        for _, own in words:
            starts.append(not begins.isdisjoint(range(last, offsets[len(ids)][0] + 1)))
            starts += [False] * (len(own) - 1)
            ids += own
            last = offsets[len(ids) - 1][1]
        if starts:
            starts[0] = True
        return ids, starts


def make_sequences(
    texts: Sequence[str], encoder: WordEncoder, max_seq_length: int = 128
) -> Sequences:
    """Encode texts, one after the other; a text too long for one sequence is cut into several.

    Returns:
        `(ids, starts)` of each sequence: int64 with [CLS] and [SEP], and bool, of the same length.
        Texts without any token give none.
    """
    first, last = encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id
    room = max_seq_length - 2
    sequences = []
    for text in texts:
        ids, starts = encoder(text)
        for begin in range(0, len(ids), room):
            window = [first, *ids[begin : begin + room], last]
            words = [True, True, *starts[begin + 1 : begin + room], True]
            sequences.append((np.array(window, dtype="int64"), np.array(words, dtype=bool)))
    return sequences


def hide_words(
    ids: np.ndarray,
    starts: np.ndarray,
    random: np.random.Generator,
    *,
    vocab_size: int,
    mask_id: int,
    special_ids: Sequence[int],
    rate: float = 0.15,
) -> tuple[np.ndarray, np.ndarray]:
    """Hide whole words of one sequence: each with probability `rate`, and at least one.

    Of the hidden tokens 80% become [MASK], 10% a random token and 10% stay, so that the model
    cannot know which of the tokens that it sees are right.

    Args:
        ids, starts: int64 and bool of shape [seq_len], as `make_sequences` gives them.
        special_ids: never hidden.

    Returns:
        `(read, positions)`: the ids to read, [seq_len], and where tokens were hidden, [hidden].
    """
    word = np.cumsum(starts) - 1
    candidate = ~np.isin(ids, special_ids)
    if not candidate.any():
        return ids, np.zeros(0, dtype="int64")
    words = np.unique(word[candidate])
    chosen = words[random.random(len(words)) < rate]
    if len(chosen) == 0:
        chosen = words[[random.integers(len(words))]]
    positions = np.flatnonzero(candidate & np.isin(word, chosen))
    how = random.random(len(positions))
    read = ids.copy()
    read[positions[how < 0.8]] = mask_id
    noisy = positions[how >= 0.9]
    allowed = np.setdiff1d(np.arange(vocab_size), special_ids)
    read[noisy] = random.choice(allowed, size=len(noisy))
    return read, positions


def create_pretraining_dataloader(
    sequences: Sequences,
    tokenizer,
    mode: str = "train",
    batch_size: int = 32,
    mask_rate: float = 0.15,
    seed: int = 42,
) -> DataLoader:
    """Batches of partly hidden sequences for `fit` and `evaluate`.

    In mode "train" other words are hidden in every epoch, as a function of (seed, epoch, sequence)
    alone, so a resumed run reads what an unbroken one reads; in mode "dev" always the same.

    Returns:
        A DataLoader of dicts: "input_ids" [N, L], "masked_positions" [M] (places in the flattened
        ids) and "labels" [M], the hidden tokens. ErnieForMaskedLM gives scores [M, vocab_size].

    Raises:
        InputError: no sequences, or a `mask_rate` (the share of hidden words) that is none.
    """
    real("mask_rate", mask_rate, lambda rate: 0 < rate < 1, "above 0 and below 1")
    if not sequences:
        raise InputError("pretraining", "there is nothing to read", "at least one text")
    sampler = LengthGroupedBatchSampler(
        [len(ids) for ids, _ in sequences], batch_size, shuffle=mode == "train", seed=seed
    )
    settings = {
        "vocab_size": len(tokenizer),  # with added words
        "mask_id": tokenizer.mask_token_id,
        "special_ids": tokenizer.all_special_ids,
        "rate": mask_rate,
    }

    def collate(rows: list[tuple[int, np.ndarray, np.ndarray]]) -> dict[str, np.ndarray]:
        epoch = sampler.epoch if mode == "train" else 0
        width = max(len(ids) for _, ids, _ in rows)
        input_ids = np.full((len(rows), width), tokenizer.pad_token_id, dtype="int64")
        positions, labels = [], []
        for row, (index, ids, starts) in enumerate(rows):
            random = np.random.default_rng((seed, epoch, index))
            read, hidden = hide_words(ids, starts, random, **settings)
            input_ids[row, : len(ids)] = read
            positions.append(row * width + hidden)
            labels.append(ids[hidden])
        return {
            "input_ids": input_ids,
            "masked_positions": np.concatenate(positions),
            "labels": np.concatenate(labels),
        }

    numbered = [(index, ids, starts) for index, (ids, starts) in enumerate(sequences)]
    return DataLoader(
        numbered, batch_sampler=sampler, collate_fn=collate, num_workers=0, return_list=True
    )


def pretrain(
    model: paddle.nn.Layer,
    tokenizer,
    train_file: str | os.PathLike,
    dev_file: str | os.PathLike | None = None,
    *,
    output_dir: str | os.PathLike | None = None,
    max_seq_length: int = 128,
    batch_size: int = 32,
    mask_rate: float = 0.15,
    seed: int = 42,
    **options,
) -> History:
    """Go on pretraining a masked language model on a text file, one text per line.

    Args:
        model: of `AutoModelForMaskedLM` (ERNIE or BERT), trained in place.
        dev_file: texts to measure the loss and the share of correctly guessed tokens on, after
            each epoch ("dev_loss" and "dev_accuracy" of the history).
        output_dir: checkpoints go here, and the model to `output_dir/model`, a directory for
            `load_backbone`.
        **options: of `fit`, for example `epochs`, `learning_rate` (2e-4 by default) or `resume`.

    Returns:
        The history of `fit`; its accuracies count hidden tokens.

    Raises:
        InputError: a file cannot be read or has nothing to learn from; `output_dir/model` holds
            something else than a model; the tokenizer has more tokens than the model has rows.
    """
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        expected = f"at most {rows}, the rows of the model's embedding (add_words makes both grow)"
        raise InputError("tokenizer", f"has {len(tokenizer)} tokens", expected)
    encoder = WordEncoder(tokenizer)

    def loader(path: str | os.PathLike, mode: str) -> DataLoader:
        texts = make_sequences(read_texts(path), encoder, max_seq_length)
        return create_pretraining_dataloader(texts, tokenizer, mode, batch_size, mask_rate, seed)

    train_loader = loader(train_file, "train")
    dev_loader = None if dev_file is None else loader(dev_file, "dev")
    options = {"learning_rate": 2e-4, "seed": seed, "output_dir": output_dir, **options}
    with nullcontext() if output_dir is None else lock_directory(output_dir):
        history = fit(model, train_loader, dev_loader, **options)
        if output_dir is not None:
            save_model(model, tokenizer, Path(output_dir) / "model")
    return history
