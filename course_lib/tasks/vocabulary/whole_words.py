"""A dictionary for a pretrained model, second way: pretraining continues with whole words hidden.

The vocabulary stays as it is; all characters of a word are hidden together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

from course_lib.data.batching import map_by_length
from course_lib.runtime import InputError
from course_lib.tasks.vocabulary.cutting import cutter, lower
from course_lib.training import fit
from course_lib.training.loop import History
from course_lib.training.prediction import inference_mode
from course_lib.training.pretraining import (
    WordEncoder,
    create_pretraining_dataloader,
    make_sequences,
)

import numpy as np
import paddle
import pandas as pd
from paddlenlp.data import Pad
from paddlenlp.transformers import PretrainedModel


class DictionaryEncoder(WordEncoder):
    """A `WordEncoder` for which each word of a dictionary is one word, whatever jieba thinks.

    jieba weighs a user's words against its own and may cut differently. Here the longest word that
    fits always wins.

    Args:
        tokenizer: a BERT or ERNIE tokenizer of PaddleNLP, without added words.
        words: the dictionary; may be empty.
        rest: what is between the words is cut by "jieba", or into single tokens ("characters").

    Raises:
        InputError: the tokenizer has added words: they are one token and are not hidden in parts.
    """

    def __init__(self, tokenizer, words: Collection[str], rest: str = "jieba") -> None:
        if tokenizer.added_tokens_encoder:
            problem = f"has {len(tokenizer.added_tokens_encoder)} added words"
            raise InputError("tokenizer", problem, "the plain one")
        super().__init__(tokenizer)
        self._words = frozenset(map(lower, words))
        self._cut = cutter(words) if self._words else lambda text: [text]
        self._jieba = self.cutter if rest == "jieba" else None
        self.cutter = self  # its `tokenize` says where words begin

    def tokenize(self, text: str) -> Iterator[tuple[str, int, int]]:
        """(word, begin, end) of each word of a text, as jieba's `tokenize` gives them."""
        place = 0
        for piece in self._cut(text):
            if lower(piece) in self._words:
                yield piece, place, place + len(piece)
            elif self._jieba is not None:
                for word, begin, end in self._jieba.tokenize(piece):
                    yield word, place + begin, place + end
            else:
                for offset, character in enumerate(piece, start=place):
                    yield character, offset, offset + 1
            place += len(piece)


def pretrain_words(
    model: PretrainedModel,
    tokenizer,
    texts: Sequence[str],
    words: Collection[str],
    *,
    rest: str = "jieba",
    max_seq_length: int = 128,
    batch_size: int = 32,
    mask_rate: float = 0.15,
    learning_rate: float = 2e-4,
    epochs: int = 1,
    seed: int = 42,
    **options,
) -> History:
    """Continue pretraining a masked-LM model, in place; a dictionary word is hidden whole.

    Args:
        words, rest: as for `DictionaryEncoder`; no words and rest "characters" hide each token by
            itself, as the first BERT did.
        mask_rate: the share of the words that is hidden.
        **options: of `fit`, such as `max_steps`, or `output_dir` and `resume` for checkpoints.

    Returns:
        The history of `fit`; its accuracies count hidden tokens.

    Source: FAQ Q3.1, second way.
    """
    sequences = make_sequences(texts, DictionaryEncoder(tokenizer, words, rest), max_seq_length)
    _check_length(model, sequences)
    loader = create_pretraining_dataloader(
        sequences, tokenizer, "train", batch_size, mask_rate, seed
    )
    return fit(model, loader, epochs=epochs, learning_rate=learning_rate, seed=seed, **options)


def restore_words(
    model: PretrainedModel,
    tokenizer,
    texts: Sequence[str],
    words: Collection[str],
    max_seq_length: int = 128,
    batch_size: int = 32,
    seed: int = 42,
) -> pd.DataFrame:
    """Hide one whole dictionary word in each text and let the model fill it in.

    Only the beginning of a text that is too long is read.

    Args:
        model: a masked-LM model whose tokenizer has no added words.
        texts: those without a dictionary word are left out.
        seed: decides which word is hidden, so two models get the same questions.

    Returns:
        One row per text: "word", "guess", "right" (all of its tokens) and "loss" (nats per token).

    Raises:
        InputError: no text has a word of the dictionary.
    """
    encoder = DictionaryEncoder(tokenizer, words, "characters")
    spelled = {tuple(encoder(word)[0]) for word in words}
    random = np.random.default_rng(seed)
    questions = []
    nothing: tuple[Any, Any] = np.zeros(0, "int64"), []
    for text in texts:
        ids, starts = next(iter(make_sequences([text], encoder, max_seq_length)), nothing)
        spans = [
            (begin, end)
            for begin, end in pairwise([*np.flatnonzero(starts), len(ids)])
            if tuple(ids[begin:end].tolist()) in spelled
            and tokenizer.unk_token_id not in ids[begin:end]
        ]
        if spans:
            questions.append((ids, *spans[random.integers(len(spans))]))
    if not questions:
        raise InputError("texts", "have no word of the dictionary", "texts with the words")
    _check_length(model, questions)
    pad = Pad(pad_val=tokenizer.pad_token_id, dtype="int64")

    def answer(batch: list[tuple]) -> list[dict]:
        hidden = [ids.copy() for ids, _, _ in batch]
        for ids, (_, begin, end) in zip(hidden, batch, strict=True):
            ids[begin:end] = tokenizer.mask_token_id
        read = paddle.to_tensor(pad(hidden))
        places = [
            row * read.shape[1] + place
            for row, (_, begin, end) in enumerate(batch)
            for place in range(begin, end)
        ]
        scores = model(input_ids=read, masked_positions=paddle.to_tensor(places))
        losses = -paddle.nn.functional.log_softmax(scores, axis=-1).numpy()
        losses = losses[:, : len(tokenizer)]  # published ERNIEs have rows to spare
        ends = np.cumsum([end - begin for _, begin, end in batch])
        rows = []
        for (ids, begin, end), own in zip(batch, np.split(losses, ends[:-1]), strict=True):
            true, best = ids[begin:end], own.argmin(axis=-1)
            loss = own[np.arange(len(true)), true].mean()
            word, guess = (_joined(tokenizer, part) for part in (true, best))
            row = {"word": word, "guess": guess, "right": bool((best == true).all())}
            rows.append({**row, "loss": float(loss)})
        return rows

    with inference_mode(model):
        return pd.DataFrame(map_by_length(answer, questions, batch_size, lambda row: len(row[0])))


def _joined(tokenizer, ids: np.ndarray) -> str:
    tokens = tokenizer.convert_ids_to_tokens(ids.tolist())
    return "".join(token.removeprefix("##") for token in tokens)


def _check_length(model: PretrainedModel, sequences: Sequence[tuple]) -> None:
    positions = model.config.max_position_embeddings
    longest = max((len(sequence[0]) for sequence in sequences), default=0)
    if longest > positions:  # Paddle would read beyond the embedding, or crash
        problem = f"lets {longest} tokens pass"
        raise InputError("max_seq_length", problem, f"at most {positions}, the model's positions")
