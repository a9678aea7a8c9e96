"""Chapter 03: a picture of padding, batches and batchify functions to judge, a word tokenizer."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.data import convert_tokens_example
from course_lib.notebook.style import COLORS, CourseFigure
from course_lib.runtime import InputError
from course_lib.runtime.visible import is_blank

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from paddlenlp.data import DataCollatorForTokenClassification, JiebaTokenizer, Pad, Tuple, Vocab

_PADDED = "#F6BE93"  # far lighter than the tokens beside it


def padding_map(strategies: Mapping[str, Sequence[Sequence[int]]], rows: int = 160) -> CourseFigure:
    """Show how much of each batch is padding: one row per sequence, padded cells in another color.

    Args:
        strategies: the batches of each way to make them, by its name; a batch is the lengths of
            its sequences in tokens. The share printed is that of all batches.
        rows: draw the first batches, up to so many sequences.
    """
    widest = max(max(map(max, batches)) for batches in strategies.values())
    tallest = 0
    pictures, shares, lines = {}, {}, {}
    for name, batches in strategies.items():
        padded = sum(max(batch) * len(batch) for batch in batches)
        shares[name] = 1 - sum(map(sum, batches)) / padded
        kinds: list = []
        edges = [0]
        for batch in batches:
            if kinds and len(kinds) + len(batch) > rows:
                break
            for length in batch:
                kinds.append([1] * length + [2] * (max(batch) - length))
            edges.append(len(kinds))
        pictures[name] = np.zeros((len(kinds), widest), dtype=int)
        for row, kind in zip(pictures[name], kinds, strict=True):
            row[: len(kind)] = kind
        lines[name] = edges
        tallest = max(tallest, len(kinds))
    colors = ListedColormap(["white", COLORS[0], _PADDED])
    with CourseFigure(figsize=(max(4.6, 2.35 * len(strategies)), 3.9)) as figure:
        grid = figure.subplots(1, len(strategies), squeeze=False, sharex=True, sharey=True)[0]
        for axes, (name, picture) in zip(grid, pictures.items(), strict=True):
            extent = (0, widest, len(picture), 0)
            axes.imshow(
                picture, cmap=colors, vmin=0, vmax=2, aspect="auto", extent=extent,
                interpolation="nearest",
            )  # fmt: skip
            for edge in lines[name][1:-1]:
                axes.axhline(edge, color="white", linewidth=1.5, marker="")
            axes.set(ylim=(tallest, 0), xlabel="position", yticks=[])
            axes.set_title(f"{name}\n{shares[name]:.0%} padding")
            axes.spines["left"].set_visible(False)
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        grid[0].set_ylabel("one row per sequence, batches apart")
        handles = [Patch(facecolor=COLORS[0]), Patch(facecolor=_PADDED)]
        figure.legend(handles, ["tokens", "padding"], loc="outside lower center", ncols=2)
        summary = "; ".join(f"{name}: {share:.0%}" for name, share in shares.items())
        return figure.finish(f"Rows of tokens and of padding. Share of padding: {summary}.")


def faulty_batches(
    examples: Sequence[Mapping[str, Any]], tokenizer: Any
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Build four batches of tagged examples: (ids, labels) by letter. C is right.

    In A the labels are one place too early, in B padded with 0, in D the ids were cut before they
    were padded, so that [SEP] is missing.
    """
    rows = [convert_tokens_example(each, tokenizer, return_dict=True) for each in examples]
    cut = [{name: values[:-1] for name, values in row.items()} for row in rows]
    early = [{**row, "labels": [*row["labels"][1:], -100]} for row in rows]
    batches = {}
    for letter, (samples, padding) in {
        "A": (early, -100), "B": (rows, 0), "C": (rows, -100), "D": (cut, -100),
    }.items():  # fmt: skip
        collate = DataCollatorForTokenClassification(tokenizer, label_pad_token_id=padding)
        batch = collate(samples)
        batches[letter] = batch["input_ids"].numpy(), batch["labels"].numpy()
    return batches


Batchify = Callable[[list[tuple[list[int], list[int]]]], Sequence[np.ndarray]]


def batchify_functions() -> dict[str, Batchify]:
    """Return functions that batch (ids, labels): two right ones, and one for each fault by name."""

    def padded(rows: list[list[int]], value: int, length: int | None = None) -> np.ndarray:
        length = length or max(map(len, rows))
        return np.array([(row + [value] * length)[:length] for row in rows])

    def both(samples, padding=-100, length=None):
        ids, labels = map(list, zip(*samples, strict=True))
        return padded(ids, 0, length), padded(labels, padding, length)

    def reversed_rows(samples):
        flipped = [(ids[::-1], labels[::-1]) for ids, labels in samples]
        return tuple(array[:, ::-1] for array in both(flipped))

    def in_place(samples):
        longest = max(len(ids) for ids, _ in samples)
        for ids, labels in samples:
            labels += [-100] * (longest - len(ids))
            ids += [0] * (longest - len(ids))
        return both(samples)

    def without_0(samples):
        ids, labels = both(samples)
        return ids, np.where(labels == 0, -100, labels)

    return {
        "right": both,
        "right, from PaddleNLP": Tuple(Pad(pad_val=0), Pad(pad_val=-100)),
        "labels first": lambda samples: both(samples)[::-1],
        "labels padded with 0": lambda samples: both(samples, padding=0),
        "as long as the first": lambda samples: both(samples, length=len(samples[0][0])),
        "as long as the last": lambda samples: both(samples, length=len(samples[-1][0])),
        "padded on the left": reversed_rows,
        "label 0 lost": without_0,
        "samples changed": in_place,
    }


class WordTokenizer:
    """PaddleNLP's JiebaTokenizer, corrected, in the shape that the course's functions expect.

    `create_dataloader`, `fit`, `evaluate` and `predict` take it as they take ErnieTokenizer. There
    is no [CLS] and no [SEP]; white space is dropped.

    jieba finds a word only when all beginnings of it are in its dictionary, too (笔 and 笔记 for
    笔记本), with the frequency 0 when they are no words; JiebaTokenizer leaves them out. jieba's
    hidden Markov model glues unknown characters together into words that are not in the
    vocabulary; it is switched off. A word with a symbol other than +#&._%- is never found.

    Args:
        vocabulary: with a pad_token and an unk_token.

    Raises:
        InputError: the vocabulary lacks one of the two, or its ids are not 0, 1, 2, ...
    """

    pad_token_type_id = 0

    def __init__(self, vocabulary: Vocab) -> None:
        for name in ("pad_token", "unk_token"):
            if getattr(vocabulary, name, None) is None:
                raise InputError("vocabulary", f"has no {name}", f'{name}="..." when it is made')
        if set(vocabulary.token_to_idx.values()) != set(range(len(vocabulary.token_to_idx))):
            problem = "its ids leave numbers out (a file that repeats a token, say)"
            raise InputError("vocabulary", problem, "each token once, ids 0, 1, 2, ...")
        self.vocabulary = vocabulary
        self.vocab_size = len(vocabulary)
        self.pad_token_id = vocabulary[vocabulary.pad_token]
        self.unk_token_id = vocabulary[vocabulary.unk_token]
        self._jieba = JiebaTokenizer(vocabulary)
        frequencies = self._jieba.tokenizer.FREQ
        for word in list(frequencies):
            for end in range(1, len(word)):
                frequencies.setdefault(word[:end], 0)

    def tokenize(self, text: str) -> list[str]:
        """Cut a text into words, known or not."""
        return [word for word in self._jieba.cut(text, use_hmm=False) if not is_blank(word)]

    def __call__(
        self,
        text: str,
        max_length: int | None = None,
        truncation: bool = False,
        return_token_type_ids: bool = True,
    ) -> dict[str, list[int]]:
        """Encode one text.

        Args:
            max_length: of the ids, when `truncation`.

        Returns:
            `{"input_ids", "token_type_ids"}`, two lists of one length, at least 1: a text without
            any word is [UNK]. The types are all 0.
        """
        ids = self.vocabulary.to_indices(self.tokenize(text)) or [self.unk_token_id]
        if truncation and max_length is not None:
            ids = ids[:max_length]
        encoded = {"input_ids": ids}
        if return_token_type_ids:
            encoded["token_type_ids"] = [0] * len(ids)
        return encoded
