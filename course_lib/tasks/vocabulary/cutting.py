"""Words of your own: finding them in a corpus, and cutting texts so that they stay whole."""

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate, pairwise

from ...data.spans import longest_matches
from ...runtime.errors import one_of
from ...training.prediction import check_texts

import jieba
import pandas as pd

Cut = Callable[[str], list[str]]
_CHINESE = re.compile("[\u4e00-\u9fff]+")


def find_words(
    texts: Sequence[str],
    max_words: int = 200,
    min_count: int = 30,
    min_pmi: float = 5.0,
    max_neighbor: float = 0.5,
    min_surprise: float = 2.0,
    max_length: int = 4,
) -> pd.DataFrame:
    """Choose words of two or more Chinese characters by four rules, without a dictionary.

    Args:
        texts: of the training split; words chosen from the test split would leak it.
        max_words: at most this many, the most frequent ones.
        min_count: occurrences of a word.
        min_pmi: pointwise mutual information in bits, of the two halves where the word splits most
            easily: how much more often they are adjacent than by chance.
        max_neighbor: the share of the occurrences that may have the same character before them, or
            after: 价比 nearly always follows 性, so it is a piece of a word.
        min_surprise: how much more often than in general Chinese, in bits, by jieba's frequencies
            (a word that jieba does not know counts as seen once).
        max_length: characters per word.

    Returns:
        Columns "word", "count", "pmi", "neighbor", "surprise"; by falling count.
    """
    check_texts(texts)
    counts: Counter[str] = Counter()
    for text in texts:
        for run in _CHINESE.findall(text):
            for size in range(1, max_length + 2):
                counts.update(run[i : i + size] for i in range(len(run) - size + 1))
    characters = sum(count for word, count in counts.items() if len(word) == 1)
    neighbor: dict[str, int] = {}
    for word, count in counts.items():
        for part in (word[1:], word[:-1]):
            neighbor[part] = max(count, neighbor.get(part, 0))
    jieba.setLogLevel(logging.WARNING)
    jieba.initialize()
    rows = []
    for word, count in counts.items():
        if count < min_count or not 2 <= len(word) <= max_length:
            continue
        halves = ((word[:i], word[i:]) for i in range(1, len(word)))
        chance = max(counts[one] * counts[other] for one, other in halves)
        pmi = math.log2(count * characters / chance)
        general = (jieba.dt.FREQ.get(word, 0) + 1) / jieba.dt.total
        surprise = math.log2(count / characters / general)
        rows.append((word, count, pmi, neighbor[word] / count, surprise))
    frame = pd.DataFrame(rows, columns=["word", "count", "pmi", "neighbor", "surprise"])
    kept = frame[
        (frame["pmi"] >= min_pmi)
        & (frame["neighbor"] <= max_neighbor)
        & (frame["surprise"] >= min_surprise)
    ].sort_values(["count", "word"], ascending=[False, True])
    return kept.head(max_words).reset_index(drop=True)


def cutter(words: Sequence[str], by: str = "longest") -> Cut:
    """Make a function that cuts a text into these words, whole, and what is between them.

    Upper and lower case are the same, as for a tokenizer that lowers letters.

    Args:
        by: "longest" takes, from left to right, the longest word that fits, as PaddleNLP's
            tokenizer does with added tokens. "jieba" adds the words to jieba, which looks for the
            most likely cut of the whole sentence: with 研究生 in the dictionary it still cuts
            研究生命 into 研究 and 生命.

    Returns:
        A function: text -> pieces; joined, they are the text.
    """
    check_texts(words, "words")
    words = dict.fromkeys(map(lower, words))
    longest = one_of("by", by, ("longest", "jieba")) == "longest"
    split = _longest_match(words) if longest else _most_likely(words)

    def cut(text: str) -> list[str]:
        # İ is two characters in lower case
        places = [place for place, one in enumerate(text) for _ in one.lower()] + [len(text)]
        ends = accumulate(map(len, split(lower(text))), initial=0)
        pieces = (text[places[begin] : places[end]] for begin, end in pairwise(ends))
        return [piece for piece in pieces if piece]

    return cut


def _longest_match(words: Collection[str]) -> Cut:
    longest = max(map(len, words), default=0)

    def split(text: str) -> list[str]:  # PaddleNLP's Trie gives wrong pieces where words overlap
        pieces, start = [], 0
        for begin, end in longest_matches(text, words, longest):
            pieces += [text[start:begin], text[begin:end]]
            start = end
        return [*pieces, text[start:]]

    return split


def _most_likely(words: Collection[str]) -> Cut:
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()  # jieba's own tokenizer stays as it is
    tokenizer.initialize()
    capitals = {word: count for word, count in tokenizer.FREQ.items() if word != word.lower()}
    for word, count in capitals.items():  # IP电话, T恤: the text will be in lower case
        tokenizer.FREQ[lower(word)] = max(count, tokenizer.FREQ.get(lower(word), 0))
    for word in words:
        tokenizer.add_word(word)

    def split(text: str) -> list[str]:
        # Like `tokenizer.cut`, which would split words that contain a symbol (冯·诺依曼).
        route: dict[int, tuple[float, int]] = {}
        tokenizer.calc(text, tokenizer.get_DAG(text), route)
        pieces: list[str] = []
        begin, between = 0, False
        while begin < len(text):
            end = route[begin][1] + 1
            piece, begin = text[begin:end], end
            if between and piece not in words:
                pieces[-1] += piece
            else:
                pieces.append(piece)
            between = piece not in words
        return pieces

    return split


def lower(text: str) -> str:
    """In lower case as PaddleNLP's tokenizers write it, each character by itself.

    `str.lower` looks around a Σ: at the end of a word it is ς there, and σ to a tokenizer.
    """
    return "".join(map(str.lower, text))
