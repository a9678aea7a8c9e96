"""A tokenizer's own tokens and ids, faster, and where each token is in the text.

What a WordPiece tokenizer makes of a character depends on this character alone, and how it cuts a
word on this word. PaddleNLP 2.8.1 finds both out in Python for each text. Here it is asked
once and its answers are remembered, so the ids are the same. The tokenizer itself still cuts a text
that may hold an added or special token, or a mark that normalization would move; with
COURSE_TOKENIZER=paddlenlp it cuts every text.

PaddleNLP's `get_offset_mapping` searches for each token in what is left of the text: of neighboring
words that are [UNK], the first gets one character and the next all the rest, and some texts stop it
with IndexError. Here each character is followed into its token.
"""

import copy
import os
import re
import unicodedata
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

from ..runtime import InputError

from paddlenlp.transformers import BertTokenizer, ErnieTokenizer
from paddlenlp.transformers.bert.tokenizer import BasicTokenizer, WordpieceTokenizer

Span = tuple[int, int]  # (first, end): the characters text[first:end]
Pieces = tuple[list[str], list[int]]  # the tokens of a word and their ids

MOST = 100_000  # characters or words remembered, then learned anew: a service must not grow
_ASK = "\0"  # stands for a character that only the tokenizer itself can judge

_memories: WeakKeyDictionary = WeakKeyDictionary()  # a tokenizer's trie, new with each added word


def token_ids(text: str, tokenizer) -> list[int]:
    """What `tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))` gives."""
    ids = remembered_ids(text, tokenizer)
    return tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) if ids is None else ids


def remembered_ids(text: str, tokenizer) -> list[int] | None:
    """`token_ids` from what is remembered; None where the tokenizer must be asked."""
    memory = _memory(tokenizer)
    words = None if memory is None else memory.words(text)
    if memory is None or words is None:
        return None
    return [one for _, ids in memory.cut(words, tokenizer) for one in ids]


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
    words, offsets = words_with_offsets(text, tokenizer)
    return [token for pieces, _ in words for token in pieces], offsets


def words_with_offsets(text: str, tokenizer) -> tuple[list[Pieces], list[Span]]:
    """What `tokenize_with_offsets` gives, with the tokens and ids of each word together.

    A word is an added or special token, a Chinese character, or another word of the text.
    """
    memory = _memory(tokenizer)
    if memory is None:
        raise InputError("tokenizer", type(tokenizer).__name__, "a WordPiece tokenizer")
    words = memory.words(text)
    if words is None:
        return _asked(text, tokenizer, memory)
    places: list[int] = []  # of each character of the words
    for place, character in enumerate(text):
        if memory.sizes[character] == 1:  # nearly all
            places.append(place)
        else:
            places += [place] * memory.sizes[character]
    found, at = memory.cut(words, tokenizer), 0
    offsets: list[Span] = []
    for word, (pieces, _) in zip(words, found, strict=True):
        if len(word) == 1:  # most Chinese ones
            offsets.append((places[at], places[at] + 1))
        else:
            offsets += _spans(pieces, places[at : at + len(word)])
        at += len(word)
    return found, offsets


def _asked(text: str, tokenizer, memory: "_Memory") -> tuple[list[Pieces], list[Span]]:
    """`words_with_offsets` of a text that the tokenizer itself cuts."""
    found: list[Pieces] = []
    offsets: list[Span] = []
    lowered, places = _lower(text, tokenizer)
    at = 0
    ahead: list[int] = []  # the places of what a character becomes after the end of a word
    for word in _words(text, tokenizer):
        if not isinstance(word, _Word):
            at = lowered.index(word, at)
            found.append(([word], [tokenizer.convert_tokens_to_ids(word)]))
            offsets.append((places[at], places[at + len(word) - 1] + 1))
            at += len(word)
            continue
        while len(ahead) < len(word):
            ahead += [places[at]] * memory.sizes[lowered[at]]
            at += 1
        found += memory.cut([str(word)], tokenizer)
        offsets += _spans(found[-1][0], ahead[: len(word)])
        ahead = ahead[len(word) :]
    return found, offsets


def _spans(pieces: Sequence[str], places: list[int]) -> list[Span]:
    """The span of each piece of a word that was made of the characters at `places`."""
    if len(pieces) == 1:  # the word, or [UNK] for all of it
        return [(places[0], places[-1] + 1)]
    begin, spans = 0, []
    for piece in pieces:
        end = begin + len(piece) - 2 * (begin > 0)  # without the ## of a continuation
        spans.append((places[begin], places[end - 1] + 1))
        begin = end
    return spans


class _Remembered(dict):
    """The answers of a function."""

    def __init__(self, ask: Callable) -> None:
        self.ask = ask

    def __missing__(self, key):
        if len(self) >= MOST:
            self.clear()
        self[key] = answer = self.ask(key)
        return answer


def _between_letters(character: str, basic: BasicTokenizer) -> str:
    """What a character becomes, with the spaces that separate it from letters beside it."""
    for each in unicodedata.normalize("NFD", character.lower()):
        if unicodedata.combining(each) and unicodedata.category(each) != "Mn":
            return _ASK  # normalization sorts such marks
    # what a capital sigma becomes depends on its place in the word
    return _ASK if character == "Σ" else " ".join(basic.tokenize(f"x{character}x"))[1:-1]


class _Memory:
    """What a WordPiece tokenizer does with the characters and words that it has been asked for."""

    def __init__(self, tokenizer, basic: BasicTokenizer, wordpiece: WordpieceTokenizer) -> None:
        self.wordpiece = wordpiece
        self.known: dict[str, Pieces] = {}
        self.characters = _Remembered(lambda point: _between_letters(chr(point), basic))
        self.sizes = _Remembered(lambda character: len("".join(basic.tokenize(character))))
        # others cut differently: with jieba first, for example
        self.local = type(tokenizer) in (ErnieTokenizer, BertTokenizer) and (
            basic.do_lower_case or not getattr(tokenizer, "do_lower_case", False)
        )
        kept = {*tokenizer.unique_no_split_tokens, *tokenizer.all_special_tokens}
        kept |= basic.never_split
        letters = ["".join(token.translate(self.characters).split()) for token in kept]
        self.kept = re.compile("|".join(map(re.escape, letters)))

    def words(self, text: str) -> list[str] | None:
        """The words that WordPiece will cut; None where only the tokenizer itself can tell."""
        if not self.local or os.environ.get("COURSE_TOKENIZER") == "paddlenlp":
            return None
        made = text.translate(self.characters)
        words = made.split()
        return None if _ASK in made or self.kept.search("".join(words)) else words

    def cut(self, words: list[str], tokenizer) -> list[Pieces]:
        """The pieces of each word and their ids."""
        return [self.known.get(word) or self._learn(word, tokenizer) for word in words]

    def _learn(self, word: str, tokenizer) -> Pieces:
        if len(self.known) >= MOST:
            self.known.clear()
        pieces = self.wordpiece.tokenize(word)
        found = pieces, tokenizer.convert_tokens_to_ids(pieces)
        if len(word) <= self.wordpiece.max_input_chars_per_word:
            self.known[word] = found
        return found


def _memory(tokenizer) -> _Memory | None:
    """The memory of a WordPiece tokenizer; None for another kind."""
    trie = getattr(tokenizer, "tokens_trie", None)
    memory = None if trie is None else _memories.get(trie)
    if memory is None:
        basic = getattr(tokenizer, "basic_tokenizer", None)
        wordpiece = getattr(tokenizer, "wordpiece_tokenizer", None)
        if isinstance(basic, BasicTokenizer) and isinstance(wordpiece, WordpieceTokenizer):
            memory = _memories[trie] = _Memory(tokenizer, basic, wordpiece)
    return memory


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
