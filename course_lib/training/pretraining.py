"""Masked language modeling with whole words: what the model reads, and what it has to guess.

ERNIE hides whole words instead of single characters: when only 店 of 酒店 is hidden, the other half
gives it away, and the model learns spelling instead of meaning. jieba says where words begin;
`course_lib.tasks.vocabulary.pretrain_words` trains, with words of your own if there are any.
"""

import logging
from collections.abc import Sequence

from ..data import LengthGroupedBatchSampler
from ..data.tokens import words_with_offsets
from ..runtime import InputError
from ..runtime.errors import real

import jieba
import numpy as np
from paddle.io import DataLoader

Sequences = list[tuple[np.ndarray, np.ndarray]]  # ids with [CLS] and [SEP]; where words begin


class WordEncoder:
    """Token ids of a text, of a BERT or ERNIE tokenizer, and which of them begin a word."""

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
    alone; in mode "dev" always the same.

    Returns:
        A DataLoader of dicts: "input_ids" [N, L], "masked_positions" [M] (places in the flattened
        ids) and "labels" [M], the hidden tokens. ErnieForMaskedLM gives scores [M, vocab_size].

    Raises:
        InputError: no sequences, or a `mask_rate` (the share of hidden words) outside (0, 1).
    """
    real("mask_rate", mask_rate, lambda rate: 0 < rate < 1, "above 0 and below 1")
    if not sequences:
        raise InputError("pretraining", "there is nothing to read", "at least one text")
    sampler = LengthGroupedBatchSampler(
        [len(ids) for ids, _ in sequences], batch_size, shuffle=mode == "train", seed=seed
    )
    special = {"mask_id": tokenizer.mask_token_id, "special_ids": tokenizer.all_special_ids}
    settings = {"vocab_size": len(tokenizer), "rate": mask_rate, **special}  # with added words

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
