"""Data augmentation: copies in which some words are changed, or filled in again."""

import re
from collections.abc import Callable

from ...data import tokenize_with_offsets
from ...models.patches import quiet_paddlenlp
from ...runtime import data_dir
from ...runtime.errors import real
from ...runtime.visible import is_blank
from ...training.prediction import inference_mode
from ...training.pretraining import WordEncoder

import numpy as np
import paddle
from paddlenlp.datasets import MapDataset
from paddlenlp.transformers import AutoModelForMaskedLM, AutoTokenizer
from scipy.special import softmax

Change = Callable[[str, np.random.RandomState], str]
_CHINESE = re.compile("[\u4e00-\u9fff]")


def augment(dataset: MapDataset, change: Change, copies: int = 1, seed: int = 42) -> MapDataset:
    """Append changed copies of the examples, each with the label of its original.

    Nothing checks that the label is still right: read some copies. Augment after splitting.

    Args:
        dataset: examples with a key "text".
        change: `FillWords`, or any function of a text and a random state that returns a text.
        copies: per example. One that is empty or equals its original is drawn again, up to five
            times; after that it is left out.

    Returns:
        The examples, then the copies with the additional key "made_from", the original's index.
    """
    random = np.random.RandomState(seed)
    made = []
    for _ in range(copies):
        for index, example in enumerate(dataset):
            for _ in range(5):
                text = change(example["text"], random)
                if text != example["text"] and not is_blank(text):
                    made.append({**example, "text": text, "made_from": index})
                    break
    rows = [*(dict(row) for row in dataset), *made]
    return MapDataset(rows, label_list=dataset.label_list)


class FillWords:
    """Hide whole words and let a masked language model write something else there.

    Each hidden character is drawn by itself from the model's `top` most likely ones, except the
    original. The model does not know the label: after 房间很 (the room is very) both 干净 (clean)
    and 一般 (so-so) are likely.

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
        self.rate = real("rate", rate, lambda one: 0 <= one <= 1, "a share from 0 to 1")
        self.top, self.max_seq_length = top, max_seq_length
        if model is None:
            with quiet_paddlenlp():
                model = AutoModelForMaskedLM.from_pretrained(str(data_dir() / "backbone"))
                tokenizer = AutoTokenizer.from_pretrained(str(data_dir() / "backbone"))
        self.model, self.tokenizer = model, tokenizer
        self.encoder = WordEncoder(tokenizer)
        self.tokens = np.array(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))
        # single characters: no pieces of Latin words, no punctuation, no special or added tokens
        self.chinese = np.array([bool(_CHINESE.fullmatch(token)) for token in self.tokens])

    def __call__(self, text: str, random: np.random.RandomState) -> str:
        ids, starts = self.encoder(text)
        _, offsets = tokenize_with_offsets(text, self.tokenizer)
        ids = np.array(ids[: self.max_seq_length - 2], "int64")
        fits = self.chinese[ids]
        if not fits.any():
            return text
        word = np.cumsum(starts)[: len(ids)]
        words = np.unique(word[fits])
        chosen = words[random.rand(len(words)) < self.rate]
        chosen = chosen if len(chosen) else words[[random.randint(len(words))]]
        hidden = np.flatnonzero(fits & np.isin(word, chosen))
        read = np.array([self.tokenizer.cls_token_id, *ids, self.tokenizer.sep_token_id])
        read[hidden + 1] = self.tokenizer.mask_token_id
        with inference_mode(self.model):
            places = paddle.to_tensor(hidden + 1)
            scores = self.model(paddle.to_tensor(read[None]), masked_positions=places)
        # published ERNIEs have rows to spare, which are no tokens
        rows = scores.numpy().astype("float64")[:, : len(self.tokens)]
        rows[:, self.tokenizer.all_special_ids] = -np.inf
        characters = list(text)
        for place, row in zip(hidden, rows, strict=True):
            row[ids[place]] = -np.inf
            best = np.argsort(-row, kind="stable")[: 4 * self.top]
            best = best[self.chinese[best]][: self.top]
            if len(best):
                drawn = random.choice(best, p=softmax(row[best]))
                characters[offsets[place][0]] = self.tokens[drawn]
        return "".join(characters)
