"""Data augmentation: copies in which some words are deleted, swapped or filled in anew."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from course_lib.data import tokenize_with_offsets
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import data_dir
from course_lib.runtime.visible import is_blank
from course_lib.training.prediction import inference_mode
from course_lib.training.pretraining import WordEncoder

import jieba
import numpy as np
import paddle
from paddlenlp.datasets import MapDataset
from paddlenlp.transformers import AutoModelForMaskedLM, AutoTokenizer

Change = Callable[[str, np.random.RandomState], str]


def augment(
    dataset: MapDataset, change: Change, copies: int = 1, seed: int = 42, tries: int = 5
) -> MapDataset:
    """Append changed copies of the examples, each with the label of its original.

    Nothing checks that the label is still right: read some copies. Augment after splitting.

    Args:
        dataset: examples with a key "text".
        change: `DeleteWords`, `SwapWords`, `FillWords`, or any function of a text and a random
            state that returns a text.
        copies: per example.
        tries: how often a copy that is empty or equals its original is drawn again; after that it
            is left out.

    Returns:
        The examples, then the copies with the additional key "made_from", the original's index.
    """
    random = np.random.RandomState(seed)
    made = []
    for _ in range(copies):
        for index, example in enumerate(dataset):
            for _ in range(tries):
                text = change(example["text"], random)
                if text != example["text"] and not is_blank(text):
                    made.append({**example, "text": text, "made_from": index})
                    break
    rows = [*(dict(row) for row in dataset), *made]
    return MapDataset(rows, label_list=dataset.label_list)


class DeleteWords:
    """Leave out each of jieba's words with probability `rate`, but never all of them.

    Source: Wei and Zou, EDA, 2019.
    """

    def __init__(self, rate: float = 0.15) -> None:
        self.rate = rate

    def __call__(self, text: str, random: np.random.RandomState) -> str:
        words = _cut(text)
        kept = [word for word in words if random.rand() >= self.rate]
        return "".join(kept or words)


class SwapWords:
    """Swap two words of the text, `rate` x words times, at least once.

    Source: Wei and Zou, EDA, 2019.
    """

    def __init__(self, rate: float = 0.15) -> None:
        self.rate = rate

    def __call__(self, text: str, random: np.random.RandomState) -> str:
        words = list(_cut(text))
        if len(words) < 2:
            return text
        for _ in range(max(1, round(self.rate * len(words)))):
            one, other = random.choice(len(words), 2, replace=False)
            words[one], words[other] = words[other], words[one]
        return "".join(words)


class FillWords:
    """Hide whole words and let a masked language model write something else there.

    Each hidden character is drawn from the model's `top` most likely ones, except the original;
    the characters of one word are drawn independently. The model does not know the label: after
    房间很 (the room is very) both 干净 (clean) and 一般 (so-so) are likely.

    Args:
        model, tokenizer: ERNIE or BERT with its masked language model head; None takes the
            course's backbone.
        rate: probability that a word is hidden; at least one is.
        top: characters to draw from.
        max_seq_length: tokens; the text beyond them is left unchanged.

    Source: Kobayashi, Contextual Augmentation, 2018, without its condition on the label.
    """

    def __init__(
        self,
        model=None,
        tokenizer=None,
        rate: float = 0.15,
        top: int = 5,
        max_seq_length: int = 128,
    ) -> None:
        self.rate, self.top, self.max_seq_length = rate, top, max_seq_length
        if model is None:
            with quiet_paddlenlp():
                model = AutoModelForMaskedLM.from_pretrained(str(data_dir() / "backbone"))
                tokenizer = AutoTokenizer.from_pretrained(str(data_dir() / "backbone"))
        self.model, self.tokenizer = model, tokenizer
        self.encoder = WordEncoder(tokenizer)

    def __call__(self, text: str, random: np.random.RandomState) -> str:
        ids, starts = self.encoder(text)
        _, offsets = tokenize_with_offsets(text, self.tokenizer)
        ids = ids[: self.max_seq_length - 2]
        # characters, no pieces of Latin words, no punctuation, nothing unknown
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        fits = np.array(list(map(_is_chinese, tokens)), bool)
        if not fits.any():
            return text
        word = np.cumsum(starts)[: len(ids)]
        words = np.unique(word[fits])
        chosen = words[random.rand(len(words)) < self.rate]
        chosen = chosen if len(chosen) else words[[random.randint(len(words))]]
        hidden = np.flatnonzero(fits & np.isin(word, chosen))
        read = np.array([self.tokenizer.cls_token_id, *ids, self.tokenizer.sep_token_id], "int64")
        read[hidden + 1] = self.tokenizer.mask_token_id
        with inference_mode(self.model):
            places = paddle.to_tensor(hidden + 1)
            scores = self.model(paddle.to_tensor(read[None]), masked_positions=places)
        characters = list(text)
        for place, row in zip(hidden, scores.numpy().astype("float64"), strict=True):
            row[[*self.tokenizer.all_special_ids, ids[place]]] = -np.inf
            row[len(self.tokenizer) :] = -np.inf  # published ERNIEs have rows to spare
            best = np.argsort(-row)[: 4 * self.top]
            names = self.tokenizer.convert_ids_to_tokens(best.tolist())
            best = [i for i, one in zip(best, names, strict=True) if _is_chinese(one)]
            best = best[: self.top]
            if best:
                weights = np.exp(row[best] - row[best].max())
                drawn = random.choice(best, p=weights / weights.sum())
                begin, _ = offsets[place]
                characters[begin] = self.tokenizer.convert_ids_to_tokens(int(drawn))
        return "".join(characters)


def _is_chinese(token: str) -> bool:
    return len(token) == 1 and "\u4e00" <= token <= "\u9fff"


def _cut(text: str) -> Sequence[str]:
    jieba.setLogLevel(logging.WARNING)
    return jieba.lcut(text)
