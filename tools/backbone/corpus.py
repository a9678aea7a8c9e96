"""Draws sequences from the prepared corpus and hides words, all on the GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from encoder import CLS, MASK, PAD, SEP, SPECIAL
from label import NONE
from torch import Tensor

REVIEWS = "reviews"
SHORTEST_PAIR = 24  # tokens of a paragraph that is cut into two


class Corpus:
    """The prepared paragraphs as one stream with [SEP] after each.

    Args:
        path: an .npz that prepare.py wrote.
        mix: source -> passes over it per epoch (1 where it is not named; 0.5 reads half of it).
        tags: a .npy that label.py wrote; without it every tag is -100.
    """

    def __init__(
        self, path: Path, device: str, mix: dict[str, float], tags: Path | None = None
    ) -> None:
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
        labels = np.full(len(stream), -100, dtype=np.int64)
        if tags:
            given = np.load(tags).astype(np.int64)
            labels[place] = np.where(given == NONE, -100, given)
        self.names = [str(name) for name in data["sources"]]
        self.source = data["source"]
        if set(mix) - set(self.names):
            raise SystemExit(f"--mix names {set(mix) - set(self.names)}; there are {self.names}")
        self.mix = {name: mix.get(name, 1.0) for name in self.names}
        self.vocab_size = int(data["vocab_size"])
        self.stream = torch.tensor(stream, device=device)
        self.begins = torch.tensor(begins, device=device)
        self.tags = torch.tensor(labels, device=device)
        self.device = device

    def epoch(self, length: int, rng: np.random.Generator, packed: bool = False) -> np.ndarray:
        """Windows (start, end) of one pass by `mix`, shuffled.

        A review is a sequence of its own (cut when it is longer); the other texts are cut into
        windows of equal size at a random phase. With `packed` the reviews are, too.
        """
        room = length - 1  # [CLS]
        found = []
        for number, name in enumerate(self.names):
            span = self.paragraphs[self.source == number]
            whole, part = divmod(self.mix[name], 1)
            for share in [1.0] * int(whole) + [part] * (part > 0):
                if name == REVIEWS and not packed:
                    windows = [
                        (s, min(s + room, end))
                        for start, end in span
                        for s in range(start, end, room)
                    ]
                else:
                    low, high = span[0, 0], span[-1, 1]
                    begins = range(low - rng.integers(room), high, room)
                    windows = [(max(s, low), min(s + room, high)) for s in begins]
                chosen = rng.permutation(len(windows))[: round(share * len(windows))]
                found.append(np.array(windows, dtype=np.int64)[chosen])
        windows = np.concatenate(found)
        windows = windows[windows[:, 1] - windows[:, 0] >= 2]
        return windows[rng.permutation(len(windows))]

    def pairs(self, count: int, length: int, rng: np.random.Generator) -> Tensor:
        """ids [2 * count, length]: row i and row count + i are two parts of one paragraph.

        All are of one source, chosen by the square root of what an epoch reads of it, so that the
        other rows of a batch are hard negatives.
        """
        lengths = self.paragraphs[:, 1] - self.paragraphs[:, 0] - 1
        weights = np.array(
            [
                self.mix[name] * lengths[self.source == number].sum()
                for number, name in enumerate(self.names)
            ]
        )
        number = rng.choice(len(self.names), p=np.sqrt(weights) / np.sqrt(weights).sum())
        rows = np.flatnonzero((self.source == number) & (lengths >= SHORTEST_PAIR))
        rows = rng.choice(rows, count, replace=len(rows) < count)
        start, size = self.paragraphs[rows, 0], lengths[rows]
        cut = (size * rng.uniform(0.3, 0.7, count)).astype(np.int64)
        room = rng.integers(SHORTEST_PAIR // 2, length - 2, count)
        first = np.stack([start + np.maximum(cut - room, 0), start + cut], 1)
        second = np.stack([start + cut, start + np.minimum(cut + room, size)], 1)
        windows = np.concatenate([first, second])
        ids, *_ = self.batch(windows, length)
        ends = torch.tensor(windows[:, 1] - windows[:, 0] + 1, device=self.device)
        return ids.scatter(1, ends[:, None], SEP)

    def batch(self, windows: np.ndarray, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """ids [B, length] with [CLS] and padding, where words begin, and LAC's tags or -100."""
        bounds = torch.tensor(windows, device=self.device)
        at = bounds[:, :1] + torch.arange(length - 1, device=self.device)
        inside = at < bounds[:, 1:]
        at = at.clamp(max=len(self.stream) - 1)
        ids = torch.where(inside, self.stream[at], PAD)
        begins = self.begins[at] | ~inside
        first = torch.full((len(windows), 1), CLS, device=self.device)
        begins = torch.cat([torch.ones_like(first, dtype=torch.bool), begins], dim=1)
        begins[:, 1] = True
        tags = torch.where(inside, self.tags[at], -100)
        tags = torch.cat([torch.full_like(first, -100), tags], dim=1)
        return torch.cat([first, ids], dim=1), begins, tags


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
