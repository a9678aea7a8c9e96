"""Draws sequences from the prepared corpus and hides words, all on the GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from encoder import CLS, MASK, PAD, SEP, SPECIAL
from torch import Tensor

REVIEWS = "reviews"


class Corpus:
    """The prepared paragraphs as one stream with [SEP] after each.

    Args:
        path: an .npz that prepare.py wrote.
        repeat: how often the reviews are seen for every time that the rest is.
    """

    def __init__(self, path: Path, device: str, repeat: int = 1) -> None:
        data = np.load(path)
        ids = data["ids"].astype(np.int64)
        ends = data["ends"]
        starts = np.unpackbits(data["starts"], count=len(ids)).astype(bool)
        lengths = np.diff(ends, prepend=0)
        # every paragraph grows by its [SEP]
        stream = np.full(len(ids) + len(ends), SEP, dtype=np.int64)
        begins = np.ones(len(stream), dtype=bool)
        place = np.arange(len(ids)) + np.repeat(np.arange(len(ends)), lengths)
        stream[place], begins[place] = ids, starts
        stop = ends + np.arange(1, len(ends) + 1)
        self.paragraphs = np.stack([stop - lengths - 1, stop], axis=1)
        names = list(data["sources"])
        self.source = data["source"]
        self.is_review = (
            self.source == names.index(REVIEWS) if REVIEWS in names else self.source < 0
        )
        self.repeat = repeat
        self.vocab_size = int(data["vocab_size"])
        self.stream = torch.tensor(stream, device=device)
        self.begins = torch.tensor(begins, device=device)
        self.device = device

    def epoch(self, length: int, rng: np.random.Generator, packed: bool = False) -> np.ndarray:
        """Windows (start, end) of one pass, mixed.

        A review is a sequence of its own (cut when it is longer); the other texts are cut into
        windows of equal size at a random phase. With `packed` the reviews are, too.
        """
        room = length - 1  # [CLS]
        own = self.is_review & (not packed)
        found = []
        for source in np.unique(self.source[~own]):
            span = self.paragraphs[(self.source == source) & ~own]
            for start in range(span[0, 0] - rng.integers(room), span[-1, 1], room):
                found.append((max(start, span[0, 0]), min(start + room, span[-1, 1])))
        for _ in range(self.repeat if own.any() else 0):
            for start, end in self.paragraphs[own]:
                found.extend((s, min(s + room, end)) for s in range(start, end, room))
        windows = np.array(found, dtype=np.int64)
        windows = windows[windows[:, 1] - windows[:, 0] >= 2]
        return windows[rng.permutation(len(windows))]

    def batch(self, windows: np.ndarray, length: int) -> tuple[Tensor, Tensor]:
        """ids [B, length] with [CLS] and padding, and where words begin."""
        bounds = torch.tensor(windows, device=self.device)
        at = bounds[:, :1] + torch.arange(length - 1, device=self.device)
        inside = at < bounds[:, 1:]
        at = at.clamp(max=len(self.stream) - 1)
        ids = torch.where(inside, self.stream[at], PAD)
        begins = self.begins[at] | ~inside
        first = torch.full((len(windows), 1), CLS, device=self.device)
        begins = torch.cat([torch.ones_like(first, dtype=torch.bool), begins], dim=1)
        begins[:, 1] = True
        return torch.cat([first, ids], dim=1), begins


def hide_words(
    ids: Tensor, begins: Tensor, vocab_size: int, rate: float = 0.15
) -> tuple[Tensor, Tensor]:
    """Hide whole words: 80% become [MASK], 10% a random token, 10% stay.

    Returns:
        The ids to read, and the ids to predict where a word was hidden, -100 elsewhere.
    """
    word = begins.cumsum(1) - 1
    draw = torch.rand(ids.shape, device=ids.device).gather(1, word)
    hidden = (draw < rate) & (ids >= SPECIAL)
    how = torch.rand(ids.shape, device=ids.device)
    noise = torch.randint(SPECIAL, vocab_size, ids.shape, device=ids.device)
    read = torch.where(hidden & (how < 0.8), MASK, ids)
    read = torch.where(hidden & (how >= 0.9), noise, read)
    return read, torch.where(hidden, ids, -100)
