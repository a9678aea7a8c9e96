"""A tokenizer's own tokens, and where each of them is in the text.

The tokens always are those of `tokenizer.tokenize`, with added words and special tokens: the
tokenizer itself cuts the text, and only the places are found here. PaddleNLP 2.8.1's
`get_offset_mapping` searches for each token in what is left of the text: of neighboring words that
are [UNK], the first gets one character and the next all the rest, and some texts stop it with
IndexError.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from course_lib.runtime import InputError

from paddlenlp.transformers.bert.tokenizer import BasicTokenizer, WordpieceTokenizer

Span = tuple[int, int]  # (first, end): the characters text[first:end]

_sizes_of: WeakKeyDictionary = WeakKeyDictionary()  # BasicTokenizer -> character -> how many it is


def tokenize_with_offsets(text: str, tokenizer) -> tuple[list[str], list[Span]]:
    """The tokens of `tokenizer.tokenize(text)` and where each is in the text.

    Args:
        tokenizer: a WordPiece tokenizer with a BasicTokenizer (ErnieTokenizer, BertTokenizer).

    Returns:
        Tokens, and for each (first, end): it was made of `text[first:end]`. A token of a word that
        is [UNK] as a whole covers the whole word. Spans rise and do not overlap, except where
        one character became several tokens, which then share it. White space, control characters
        and accents alone (where letters are lowered) belong to no token but an added one.

    Raises:
        InputError: another kind of tokenizer.
    """
    words = list(words_with_offsets(text, tokenizer))
    tokens = [token for pieces, _ in words for token in pieces]
    return tokens, [span for _, spans in words for span in spans]


def words_with_offsets(text: str, tokenizer) -> Iterator[tuple[list[str], list[Span]]]:
    """What `tokenize_with_offsets` gives, word by word.

    Yields:
        Tokens and their spans: of an added or special token, or the pieces of one word. Chinese
        characters are words.
    """
    basic = getattr(tokenizer, "basic_tokenizer", None)
    wordpiece = getattr(tokenizer, "wordpiece_tokenizer", None)
    if not isinstance(basic, BasicTokenizer) or not isinstance(wordpiece, WordpieceTokenizer):
        raise InputError("tokenizer", type(tokenizer).__name__, "a WordPiece tokenizer")
    lowered, places = _lower(text, tokenizer)
    sizes = _sizes_of.setdefault(basic, {})
    at = 0
    ahead: list[int] = []  # the places of what a character becomes after the end of a word
    for word in _words(text, tokenizer):
        if not isinstance(word, _Word):
            at = lowered.index(word, at)
            yield [word], [(places[at], places[at + len(word) - 1] + 1)]
            at += len(word)
            continue
        while len(ahead) < len(word):
            character = lowered[at]
            if character not in sizes:
                sizes[character] = len("".join(basic.tokenize(character)))
            ahead += [places[at]] * sizes[character]
            at += 1
        places_in_word, ahead = ahead[: len(word)], ahead[len(word) :]
        pieces = wordpiece.tokenize(word)
        if len(pieces) == 1:  # the word, or [UNK] for all of it
            yield pieces, [(places_in_word[0], places_in_word[-1] + 1)]
            continue
        begin, spans = 0, []
        for piece in pieces:
            end = begin + len(piece) - 2 * (begin > 0)  # without the ## of a continuation
            spans.append((places_in_word[begin], places_in_word[end - 1] + 1))
            begin = end
        yield pieces, spans


class _Word(str):
    """A word that WordPiece will cut, unlike an added or special token."""


class _Uncut:
    """Takes WordPiece's place, and leaves words whole."""

    def tokenize(self, word: str) -> list[str]:
        return [_Word(word)]


def _words(text: str, tokenizer) -> list[str]:
    """What `tokenizer.tokenize` finds before WordPiece cuts: `_Word`s, and tokens kept whole."""
    uncut = copy.copy(tokenizer)
    uncut.wordpiece_tokenizer = _Uncut()
    return uncut.tokenize(text)


def _lower(text: str, tokenizer) -> tuple[str, list[int]]:
    """The text as `tokenize` looks for added words in it, and the place of each character."""
    if not getattr(tokenizer, "do_lower_case", False):
        return text, list(range(len(text)))
    kept = map(re.escape, [*tokenizer.unique_no_split_tokens, *tokenizer.all_special_tokens])
    lowered: list[str] = []
    for number, part in enumerate(re.split(f"({'|'.join(kept)})", text)):
        lowered += part if number % 2 else map(str.lower, part)  # İ becomes two characters
    return "".join(lowered), [place for place, made in enumerate(lowered) for _ in made]
