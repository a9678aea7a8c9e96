"""Words of your own as tokens: a tokenizer and a model grow together, and are loaded together.

ids = add_words(model, tokenizer, words)  # a word's vector is the mean of its characters'
save_model(model, tokenizer, "directory")  # of course_lib.models
model, tokenizer = load_with_words("directory", AutoModelForMaskedLM)
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...models.files import load_tokenizer, read_saved
from ...models.patches import quiet_paddlenlp
from ...runtime import InputError
from ...runtime.errors import one_of
from ...training.prediction import check_texts
from .cutting import Cut, lower

import numpy as np
import paddle
from paddlenlp.transformers import PretrainedModel
from paddlenlp.transformers.tokenizer_utils import Trie

VECTORS = ("mean", "random", "zero")


def cut_first(tokenizer, cut: Cut) -> None:
    """Let a tokenizer cut texts by `cut` first, instead of by its own trie.

    Pieces that are added tokens stay whole; the others are tokenized as before. The cut is not
    saved with the tokenizer, and adding words removes it: call this again afterwards.

    Args:
        tokenizer: BERT's or ERNIE's, with the words added.
        cut: such as `cutter` makes. It receives the text in the tokenizer's case.
    """
    tokenizer.tokens_trie = _CutFirst(tokenizer, cut)


class _CutFirst(Trie):
    """Splits off special tokens, as a tokenizer's trie does, and the rest by `cut`."""

    def __init__(self, tokenizer, cut: Cut) -> None:
        super().__init__()
        self._cut, self._whole = cut, frozenset(tokenizer.unique_no_split_tokens)
        for token in self._whole.intersection(tokenizer.all_special_tokens):
            self.add(token)

    def split(self, text: str) -> list[str]:
        pieces: list[str] = []
        for part in super().split(text):
            for piece in [part] if part in self._whole else self._cut(part):
                if pieces and self._whole.isdisjoint((pieces[-1], piece)):
                    pieces[-1] += piece  # neither is a token
                else:
                    pieces.append(piece)
        return pieces


def add_words(
    model: PretrainedModel, tokenizer, words: Sequence[str], vectors: str = "mean", seed: int = 42
) -> list[int]:
    """Add words to a tokenizer and rows to a model's embedding matrix, in place.

    The model's outputs for texts without these words do not change. PaddleNLP's
    `resize_token_embeddings` leaves the masked-LM head with an old bias next to the new one, and
    such a model cannot be loaded again; here both grow. Create the optimizer afterwards: the
    embedding matrix is a new parameter.

    Args:
        model, tokenizer: with any head or none; the model's own.
        words: new ones, each once. Where the tokenizer lowers letters, so does this; Latin words
            are found inside longer words, too.
        vectors: "mean" of the tokens that the word was so far; "random", normal with the standard
            deviation of fresh weights; "zero". The output bias of a masked-LM head is the mean
            as well, or 0.
        seed: of "random".

    Returns:
        The ids of the words, in their order.

    Raises:
        InputError: a word is a token already, comes twice, contains a special token or invisible
            characters, or is nothing to the tokenizer; the tokenizer has more tokens than the model
            has rows; an unknown kind of vectors. Nothing has been changed then.

    Source: FAQ Q3.1.
    """
    one_of("vectors", vectors, VECTORS)
    check_texts(words, "words")
    words = [lower(word) if getattr(tokenizer, "do_lower_case", False) else word for word in words]
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        problem = f"has {len(tokenizer)} tokens"
        raise InputError("tokenizer", problem, f"at most {rows}, the rows of the embedding")
    for word in words:
        _check_word(tokenizer, word, words)
    pieces = [tokenizer.convert_tokens_to_ids(tokenizer.tokenize(word)) for word in words]
    if not all(pieces):
        word = words[pieces.index([])]
        raise InputError("words", f"{word!r} is nothing to the tokenizer", "words that it reads")
    with quiet_paddlenlp():
        tokenizer.add_tokens(words)
    ids = tokenizer.convert_tokens_to_ids(words)
    _grow(model, max(rows, len(tokenizer)))  # published ERNIEs have rows to spare
    head = model.get_output_embeddings()
    tensors = [model.get_input_embeddings().weight]
    if head is not None:
        tensors += [] if head.weight is tensors[0] else [head.weight]
        tensors += [] if head.bias is None else [head.bias]
    random = np.random.default_rng(seed)
    for tensor in tensors:
        values = tensor.numpy()
        for row, parts in zip(ids, pieces, strict=True):
            if vectors == "mean":
                values[row] = values[parts].mean(axis=0)
            elif vectors == "random" and values.ndim == 2:
                values[row] = random.normal(0, model.config.initializer_range, values.shape[1])
            else:
                values[row] = 0
        tensor.set_value(values)
    return ids


def _check_word(tokenizer, word: str, words: list[str]) -> None:
    # The tokenizer drops invisible characters (a byte order mark, half a surrogate) in silence.
    if not word.isprintable() or any(map(str.isspace, word)):
        raise InputError("words", f"{word!r} has invisible characters", "visible ones, no spaces")
    if any(token.lower() in word.lower() for token in tokenizer.all_special_tokens):
        raise InputError("words", f"{word} holds a special token", "words without any")
    known = tokenizer.convert_tokens_to_ids(word) != tokenizer.unk_token_id
    if known or words.count(word) > 1:
        raise InputError("words", f"{word} is a token already, or twice", "new words, once")


def _grow(model: PretrainedModel, rows: int) -> None:
    """`resize_token_embeddings` with its bug fixed, and without drawing from paddle's generator."""
    if rows == model.get_input_embeddings().weight.shape[0]:
        return
    state, frozen = paddle.get_rng_state(), model.get_input_embeddings().weight.stop_gradient
    with quiet_paddlenlp():
        model.resize_token_embeddings(rows)
    model.get_input_embeddings().weight.stop_gradient = frozen
    paddle.set_rng_state(state)
    for layer in model.sublayers():
        bias = getattr(getattr(layer, "decoder", None), "bias", None)
        if bias is not None and hasattr(layer, "decoder_bias"):
            layer.decoder_bias = bias


def load_with_words(
    directory: str | os.PathLike, model_class: Any, **config
) -> tuple[PretrainedModel, object]:
    """Load a model and a tokenizer that `save_model` wrote, and check that they fit each other.

    Args:
        model_class: `AutoModelForMaskedLM`, `AutoModelForTokenClassification`, ...
        **config: changes to the configuration, such as `num_classes=3` for a new head.

    Raises:
        InputError: a file is missing or damaged, or tokens and rows differ in number. The most
            common reason is a forgotten added_tokens.json: the tokenizer would cut the words again.
    """
    directory = Path(directory)
    read_saved(directory)
    with quiet_paddlenlp():
        return model_class.from_pretrained(str(directory), **config), load_tokenizer(directory)
