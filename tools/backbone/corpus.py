"""Draws sequences from the prepared corpus and hides words, all on the GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from encoder import CLS, MASK, PAD, SEP, SPECIAL
from label import NONE
from torch import Tensor

REVIEWS, LITERATURE = "reviews", "literature"
SHORTEST_PAIR = 24  # tokens of a paragraph that is cut into two
SHORTEST_QUERY, LONGEST_QUERY = 5, 16  # tokens of a query that is taken from a paragraph
HEADING = 20  # tokens at most; one is followed by a paragraph of twice as many
HALVES, QUERIES, HEADINGS = 0.5, 0.4, 0.1  # shares of the kinds of pairs
GAP = "【？】"  # as in course_lib.data.cloze
WORD = range(2, 7)  # tokens of a word that a gap hides
FAR = 140  # tokens between a gap and its answer
PER_WORD = 200  # gaps of one word
AROUND = 24  # tokens of a question on either side of its gap


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
        self.device = device
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
        sizes = np.bincount(self.source, lengths, len(self.names))
        shares = np.sqrt(
            [self.mix[name] * size for name, size in zip(self.names, sizes, strict=True)]
        )
        self.shares = shares / shares.sum()
        self.headings = self._headings()
        self._find_words(stream, begins, data["tokens"])
        self.stream = torch.tensor(stream, device=device)
        self.begins = torch.tensor(begins, device=device)
        self.tags = torch.tensor(labels, device=device)

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

    def _headings(self) -> np.ndarray:
        """Paragraphs that are short and stand above a long one, in the documentation and laws."""
        lengths = self.paragraphs[:, 1] - self.paragraphs[:, 0] - 1
        novel = [self.names.index(name) for name in (REVIEWS, LITERATURE) if name in self.names]
        usable = ~np.isin(self.source, novel)
        short = (lengths >= 3) & (lengths <= HEADING) & usable
        follows = np.append(
            (lengths[1:] >= 2 * HEADING) & (np.diff(self.source.astype(int)) == 0), False
        )
        return np.flatnonzero(short & follows)

    def pairs(self, count: int, length: int, rng: np.random.Generator) -> Tensor:
        """ids [2 * count, length]: row i and row count + i belong together.

        They are the two halves of a paragraph, a few words of a paragraph and the whole of it, or a
        heading and the paragraph below. All are of one source, chosen by the square root of what an
        epoch reads of it, so that the other rows of a batch are hard negatives.
        """
        lengths = self.paragraphs[:, 1] - self.paragraphs[:, 0] - 1
        kind = rng.choice(3, p=(HALVES, QUERIES, HEADINGS))
        if kind == 2:
            rows = rng.choice(self.headings, count, replace=len(self.headings) < count)
            windows = np.stack([self.paragraphs[rows], self.paragraphs[rows + 1]])
            windows[..., 1] -= 1  # without [SEP]
        else:
            number = rng.choice(len(self.names), p=self.shares)
            rows = np.flatnonzero((self.source == number) & (lengths >= SHORTEST_PAIR))
            rows = rng.choice(rows, count, replace=len(rows) < count)
            start, size = self.paragraphs[rows, 0], lengths[rows]
            cut = (size * rng.uniform(0.3, 0.7, count)).astype(np.int64)
            room = rng.integers(SHORTEST_PAIR // 2, length - 2, count)
            first = np.stack([start + np.maximum(cut - room, 0), start + cut], 1)
            second = np.stack([start + cut, start + np.minimum(cut + room, size)], 1)
            if kind == 1:  # a query; in one of two cases its words are in the passage, too
                size = rng.integers(SHORTEST_QUERY, LONGEST_QUERY + 1, count)
                begin = first[:, 0] + (
                    rng.uniform(size=count) * np.maximum(first[:, 1] - first[:, 0] - size, 1)
                ).astype(np.int64)
                query = np.stack([begin, np.minimum(begin + size, first[:, 1])], 1)
                inside = rng.uniform(size=count) < 0.5
                second[inside] = first[inside]
                first = query
            windows = np.stack([first, second])
        windows[..., 1] = np.minimum(windows[..., 1], windows[..., 0] + length - 2)
        windows = windows.reshape(-1, 2)
        ids, *_ = self.batch(windows, length)
        ends = torch.tensor(windows[:, 1] - windows[:, 0] + 1, device=self.device)
        return ids.scatter(1, ends[:, None], SEP)

    def _find_words(self, stream: np.ndarray, begins: np.ndarray, tokens: np.ndarray) -> None:
        """Find the words that stand twice within FAR tokens: what `gaps` hides one of."""
        at = np.flatnonzero(begins)
        size = np.diff(at, append=len(stream))
        chosen = np.isin(size, WORD) & (stream[at] != SEP)
        at, size = at[chosen], size[chosen]
        code = size.astype(np.int64)
        for offset in WORD:
            code = code * 8191 + np.where(
                size >= offset, stream[np.minimum(at + offset - 1, len(stream) - 1)], 0
            )
        code = code * 8191 + stream[at]
        order = np.lexsort((at, code))
        at, size, code = at[order], size[order], code[order]
        near = (code[1:] == code[:-1]) & (np.diff(at) <= FAR) & (np.diff(at) > size[:-1] + 4)
        left = np.flatnonzero(near)
        rng = np.random.default_rng(0)
        left = rng.permutation(left)
        left = left[np.argsort(code[left], kind="stable")]
        _, first, counts = np.unique(code[left], return_index=True, return_counts=True)
        rank = np.arange(len(left)) - np.repeat(first, counts)
        left = left[rank < PER_WORD]
        device = self.device
        twice = np.stack([at[left], at[left + 1], size[left]], 1)
        source = self.source[np.searchsorted(self.paragraphs[:, 0], at[left], side="right") - 1]
        self.twice = [
            torch.tensor(twice[source == number], device=device)
            for number in range(len(self.names))
        ]
        words = np.zeros(len(stream), dtype=np.int64)
        words[at] = code
        self.words = torch.tensor(words, device=device)
        stops = np.isin(stream, [SEP, *np.flatnonzero(np.isin(tokens, list("。！？；")))])
        index = np.arange(len(stream))
        before = np.maximum.accumulate(np.where(stops, index + 1, 0))
        after = np.minimum.accumulate(np.where(stops, index, len(stream) - 1)[::-1])[::-1]
        self.sentence = torch.tensor(np.stack([np.append(0, before[:-1]), after], 1), device=device)
        places = {token: number for number, token in enumerate(tokens)}
        self.gap = torch.tensor([places[token] for token in GAP], device=device)

    def gaps(
        self, count: int, length: int, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Questions with a gap, each with a passage that holds the missing word.

        After the recurring span selection of Ram et al., arXiv:2101.00438.

        Returns:
            ids and token types [count, length] ([CLS] question [SEP] passage [SEP]), and where the
            word begins and ends in the passage, bool [count, length].
        """
        device = self.device
        words = self.twice[rng.choice(len(self.names), p=self.shares)]
        rows = words[torch.randint(len(words), (3 * count,), device=device)]
        early, late, size = rows.T
        swap = torch.rand(len(rows), device=device) < 0.5
        hidden, other = torch.where(swap, early, late), torch.where(swap, late, early)
        start, end = self.sentence[hidden].T
        before = (hidden - start).clamp(max=AROUND)
        after = (end - hidden - size).clamp(0, AROUND)
        question = 4 + before + after  # [CLS], the gap
        room = length - question - 2
        first = torch.where(other > hidden, end + 1, start - room)
        good = (other >= first) & (other + size <= first + room) & (first > 0)
        good &= (first + room < len(self.stream)) & (before + after >= 4)
        keep = good.nonzero().squeeze(1)
        keep = keep[torch.arange(count, device=device) % len(keep)]
        hidden, other, size, before, question, room, first = (
            each[keep, None] for each in (hidden, other, size, before, question, room, first)
        )
        column = torch.arange(length, device=device)[None].expand(count, -1)
        in_passage = (column > question) & (column < length - 1)
        source = torch.where(
            column <= before, hidden - before + column - 1, hidden + size + column - before - 4
        )
        source = torch.where(in_passage, first + column - question - 1, source)
        source = source.clamp(0, len(self.stream) - 1)
        ids = self.stream[source]
        inside = column - before - 1
        ids = torch.where((inside >= 0) & (inside < 3), self.gap[inside.clamp(0, 2)], ids)
        ids = torch.where(column == 0, CLS, ids)
        ids = torch.where((column == question) | (column == length - 1), SEP, ids)
        types = (column > question).long()
        begins = in_passage & (self.words[source] == self.words[hidden])
        begins &= column + size <= length - 1
        ends = torch.zeros_like(begins)
        row, place = begins.nonzero().T
        ends[row, place + size[row, 0] - 1] = True
        return ids, types, begins, ends

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
