"""Answers about the vocabulary: finding words, keeping them whole, adding them to a model.

FAQ: how are words of one's own brought into a pretrained model, and does its tokenizer keep them?

    words = find_words(texts)["word"]
    ids = add_words(model, tokenizer, words)  # both grow; a word's vector is that of its characters
    save_with_words(model, tokenizer, "directory")
    model, tokenizer = load_with_words("directory", AutoModelForMaskedLM)
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from course_lib.models import encoder_of
from course_lib.models.files import (
    check_saved,
    check_sizes,
    check_vocabulary,
    find_weights,
    read_config,
    save_pretrained,
    weight_shapes,
)
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError, atomic_directory
from course_lib.runtime.errors import finite, whole
from course_lib.training.prediction import inference_mode

import jieba
import numpy as np
import paddle
import pandas as pd
from paddlenlp.transformers import AutoTokenizer, PretrainedModel
from paddlenlp.transformers.tokenizer_utils import Trie

Cut = Callable[[str], list[str]]
VECTORS = ("mean", "random", "zero")
BATCH = 16
CHINESE = re.compile("[\u4e00-\u9fff]+")

# ---- finding words


def find_words(
    texts: Iterable[str],
    most: int = 200,
    min_count: int = 30,
    min_pmi: float = 5.0,
    max_neighbour: float = 0.5,
    min_surprise: float = 2.0,
    longest: int = 4,
) -> pd.DataFrame:
    """Choose words of two or more Chinese characters from texts, by four rules and no dictionary.

    Args:
        texts: of the training split; words chosen by the test would know it.
        most: at most so many, the most frequent ones.
        min_count: how often a word occurs.
        min_pmi: pointwise mutual information in bits, of the two halves where the word falls apart
            most easily: how much oftener they stand together than chance puts them there.
        max_neighbour: the share of the occurrences that may have one and the same character before
            them, or after: 价比 always follows 性, so it is a piece of a word.
        min_surprise: how much oftener than in general Chinese, in bits, by jieba's frequencies (a
            word that jieba does not know counts as seen once).
        longest: characters a word.

    Returns:
        Columns "word", "count", "pmi", "neighbour", "surprise"; by falling count.

    Raises:
        InputError: `texts` is one text or holds something else; an argument is out of bounds; no
            word passes.
    """
    texts = _texts("texts", texts)
    most, min_count = whole("most", most, 1), whole("min_count", min_count, 1)
    longest = whole("longest", longest, 2, 8)
    limits = {"min_pmi": min_pmi, "max_neighbour": max_neighbour, "min_surprise": min_surprise}
    min_pmi, max_neighbour, min_surprise = (finite(*limit) for limit in limits.items())
    counts: Counter[str] = Counter()
    for text in texts:
        for run in CHINESE.findall(text):
            for size in range(1, longest + 2):
                counts.update(run[i : i + size] for i in range(len(run) - size + 1))
    characters = sum(count for word, count in counts.items() if len(word) == 1)
    neighbour: dict[str, int] = {}
    for word, count in counts.items():
        for part in (word[1:], word[:-1]):
            neighbour[part] = max(count, neighbour.get(part, 0))
    jieba.setLogLevel(logging.WARNING)
    jieba.initialize()
    rows = []
    for word, count in counts.items():
        if count < min_count or not 2 <= len(word) <= longest:
            continue
        halves = ((word[:i], word[i:]) for i in range(1, len(word)))
        chance = max(counts[one] * counts[other] for one, other in halves)
        pmi = math.log2(count * characters / chance)
        general = (jieba.dt.FREQ.get(word, 0) + 1) / jieba.dt.total
        surprise = math.log2(count / characters / general)
        rows.append((word, count, pmi, neighbour[word] / count, surprise))
    frame = pd.DataFrame(rows, columns=["word", "count", "pmi", "neighbour", "surprise"])
    kept = frame[
        (frame["pmi"] >= min_pmi)
        & (frame["neighbour"] <= max_neighbour)
        & (frame["surprise"] >= min_surprise)
    ].sort_values(["count", "word"], ascending=[False, True])
    if kept.empty:
        raise InputError("texts", "have no word that passes", "more texts, or smaller limits")
    return kept.head(most).reset_index(drop=True)


# ---- keeping words whole


def cutter(words: Collection[str], by: str = "longest") -> Cut:
    """A function that cuts a text into the words, whole, and what stands between them.

    Upper and lower case are the same, as they are to a tokenizer that lowers letters.

    Args:
        words: that shall stay whole.
        by: "longest" takes from left to right the longest word that fits, as PaddleNLP's tokenizer
            does with added tokens. "jieba" gives the words to jieba, which looks for the likeliest
            cut of the whole sentence: with 研究生 in the dictionary, 研究生命 is 研究 and 生命.

    Returns:
        Text -> pieces, which joined are the text.

    Raises:
        InputError: no words, or one of them is empty, has white space or is no text.
    """
    words = dict.fromkeys(map(lower, _words(words)))
    if by == "longest":
        most = max(map(len, words))

        def split(text: str) -> list[str]:
            return longest_match(text, words, most)

    elif by == "jieba":
        split = _likeliest(words)
    else:
        raise InputError("by", f"is {by!r}", '"longest" or "jieba"')

    def cut(text: str) -> list[str]:
        # İ is two characters in lower case
        places = [place for place, one in enumerate(text) for _ in one.lower()] + [len(text)]
        ends = accumulate(map(len, split(lower(text))), initial=0)
        pieces = (text[places[begin] : places[end]] for begin, end in pairwise(ends))
        return [piece for piece in pieces if piece]

    return cut


def _likeliest(words: Collection[str]) -> Cut:
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()  # jieba's own stays as it is
    tokenizer.initialize()
    capitals = {word: count for word, count in tokenizer.FREQ.items() if word != word.lower()}
    for word, count in capitals.items():  # IP电话, T恤: the text will be in lower case
        tokenizer.FREQ[lower(word)] = max(count, tokenizer.FREQ.get(lower(word), 0))
    for word in words:
        tokenizer.add_word(word)

    def split(text: str) -> list[str]:
        # What `tokenizer.cut` does; but that leaves no word whole that has a symbol (冯·诺依曼).
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


def _in_case_of(tokenizer, texts: Iterable[str]) -> list[str]:
    return [lower(text) if getattr(tokenizer, "do_lower_case", False) else text for text in texts]


def longest_match(text: str, words: Collection[str], most: int) -> list[str]:
    """Cut by the longest word first; `most` is the number of characters of the longest."""
    pieces, start, place = [], 0, 0
    while place < len(text):
        ends = range(min(place + most, len(text)), place, -1)
        end = next((end for end in ends if text[place:end] in words), None)
        if end is None:
            place += 1
            continue
        pieces += [text[start:place], text[place:end]]
        start = place = end
    return [piece for piece in [*pieces, text[start:]] if piece]


def cut_first(tokenizer, cut: Cut) -> None:
    """Let a tokenizer cut texts by `cut` before everything else, instead of by its own trie.

    Pieces that are added tokens stay whole; the others it spells as before. The cut is not saved
    with the tokenizer, and adding words takes it away: call this again afterwards.

    Args:
        tokenizer: a BERT or ERNIE tokenizer of PaddleNLP, with the words added.
        cut: such as `cutter` makes. It gets the text in the tokenizer's case, in lower case mostly.
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


# ---- adding words to a model


def add_words(
    model: PretrainedModel,
    tokenizer,
    words: Iterable[str],
    vectors: str = "mean",
    seed: int = 42,
) -> list[int]:
    """Add words to a tokenizer and rows to a model's embedding matrix, in place.

    What the model gives for texts without these words does not change. PaddleNLP's
    `resize_token_embeddings` leaves the masked-LM head with an old bias beside the new one, and
    what is saved then cannot be loaded again; here both grow. Make the optimizer afterwards: the
    embedding matrix is another parameter now.

    Args:
        model: a PaddleNLP model with a word embedding, with any head or none.
        tokenizer: its own; it splits off added words before it cuts Chinese into characters.
        words: new ones, each once; Latin letters are taken as lower case where the tokenizer does
            so, and are found inside longer words, too.
        vectors: "mean" of the tokens that a word has been until now; "random", normal with the
            standard deviation of fresh weights; "zero". The output bias of a masked-LM head is the
            mean as well, or 0.
        seed: of "random".

    Returns:
        The ids of the words, in their order.

    Raises:
        InputError: a word is no text, has white space, comes twice or is a token already; another
            kind of vectors; the tokenizer has more tokens than the model has rows.

    Source: FAQ Q3.1.
    """
    if vectors not in VECTORS:
        raise InputError("vectors", f"is {vectors!r}", f"one of {', '.join(VECTORS)}")
    words = _words(words)
    known = [word for word in words if word in tokenizer.all_special_tokens]
    words = _in_case_of(tokenizer, words)
    unknown = tokenizer.unk_token_id
    known += [word for word in words if tokenizer.convert_tokens_to_ids(word) != unknown]
    if known or len(set(words)) < len(words):
        twice = known or [word for word, count in Counter(words).items() if count > 1]
        raise InputError("words", f"{twice[0]} is a token already, or twice", "new words, once")
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        problem = f"has {len(tokenizer)} tokens"
        raise InputError("tokenizer", problem, f"at most {rows}, the rows of the embedding")
    seed = whole("seed", seed, 0)
    for word in words:
        if any(token.lower() in word.lower() for token in tokenizer.all_special_tokens):
            raise InputError("words", f"{word} holds a special token", "words without any")
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


def _grow(model: PretrainedModel, rows: int) -> None:
    """`resize_token_embeddings`, mended, and without drawing from paddle's generator."""
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


def save_with_words(model: PretrainedModel, tokenizer, directory: str | os.PathLike) -> Path:
    """Write model and tokenizer, whole or not at all; the words are in added_tokens.json.

    Returns:
        The directory.

    Raises:
        InputError: the tokenizer has ids that the model has no rows for, or the model more rows
            than the tokenizer has tokens (published ERNIEs have up to 99 more); the directory
            holds something else than a model.
    """
    rows, tokens = model.get_input_embeddings().weight.shape[0], len(tokenizer)
    if not (rows == tokens or (rows % 1000 == 0 and 0 < rows - tokens < 100)):
        problem = f"has {tokens} tokens"
        raise InputError("tokenizer", problem, f"{rows}, the rows of the model's embedding")
    directory = Path(directory)
    with atomic_directory(directory, "config.json") as temporary, quiet_paddlenlp():
        save_pretrained(temporary, model, tokenizer)
    return directory


def load_with_words(
    directory: str | os.PathLike, model_class: type, **config
) -> tuple[PretrainedModel, object]:
    """Load what `save_with_words` wrote, and check that the two fit each other.

    Args:
        model_class: `AutoModelForMaskedLM`, `AutoModelForTokenClassification`, ...
        **config: changes to the configuration, such as `num_classes=3` for a new head.

    Returns:
        The model, as `from_pretrained` gives it, and the tokenizer.

    Raises:
        InputError: a file is missing or damaged, or tokens and rows differ in number. The commonest
            reason is a forgotten added_tokens.json: the tokenizer would spell the words again.
    """
    directory = Path(directory)
    settings = read_config(directory / "config.json")
    check_vocabulary(directory / "vocab.txt", settings.get("vocab_size"))
    check_sizes(directory / "config.json", settings, weight_shapes(find_weights(directory)))
    check_saved(directory)
    try:
        with quiet_paddlenlp():
            model = model_class.from_pretrained(str(directory), **config)
            tokenizer = AutoTokenizer.from_pretrained(str(directory))
    except InputError:
        raise
    except Exception as error:  # paddlenlp raises anything
        reason = " ".join(str(error).split())[:200]
        raise InputError(directory, f"cannot be loaded ({reason})", "what was saved") from error
    return model, tokenizer


# ---- what the first vectors are worth


def vector_effect(
    load: Callable[[], tuple[PretrainedModel, object]],
    words: Sequence[str],
    texts: Iterable[str],
    hidden: float = 0.15,
    max_characters: int = 100,
    seed: int = 42,
) -> pd.DataFrame:
    """Read texts with added words before any training, with each kind of vector.

    The same characters, none of them in an added word, are compared in all readings.

    Args:
        load: gives a masked-LM model and its tokenizer, the same at each call.
        texts: those without a word, and longer ones than `max_characters`, are left out.
        hidden: share of the characters between the words that are hidden.

    Returns:
        A row for "characters" (no word added) and for each of VECTORS: "loss" (nats a hidden
        character), "distance" (1 - cosine of the last hidden state of a character to what it is
        in the first reading, the mean over all) and "word found" (each text has one word hidden:
        how often the right one has the highest score of all added words; not a number in the first
        row). `attrs` has the numbers of "texts" and of "hidden" characters.

    Raises:
        InputError: no text has a word and something beside it.
    """
    hidden = finite("hidden", hidden, 0, 1)
    max_characters, seed = whole("max_characters", max_characters, 1), whole("seed", seed, 0)
    texts = _texts("texts", texts)
    model, plain = load()
    words = _in_case_of(plain, _words(words))
    cut = cutter(words)
    random = np.random.default_rng(seed)
    chosen = []
    for text in _in_case_of(plain, texts):
        pieces = cut(text)
        places = [i for i, piece in enumerate(pieces) if piece in words]
        if places and len(pieces) > 1 and len(text) <= max_characters:
            chosen.append((pieces, set(places), random.choice(places)))
    if not chosen:
        raise InputError("texts", "have no word and text beside it", "texts with the words")
    chosen.sort(key=lambda row: sum(map(len, row[0])))  # batches of like length
    masks = [
        [
            None if i in places else random.random(len(plain.tokenize(piece))) < hidden
            for i, piece in enumerate(pieces)
        ]
        for pieces, places, _ in chosen
    ]
    if not any(mask.any() for row in masks for mask in row if mask is not None):
        raise InputError("hidden", f"is {hidden}, which hides nothing here", "more texts, or more")
    rows, before = {}, None
    for name in ("characters", *VECTORS):
        model, tokenizer = load()
        added = [] if name == "characters" else add_words(model, tokenizer, words, name, seed)
        read = [_read(tokenizer, row, mask) for row, mask in zip(chosen, masks, strict=True)]
        losses, states, found = [], [], []
        encoder = encoder_of(model)
        with inference_mode(model):
            for start in range(0, len(read), BATCH):
                rows_read = read[start : start + BATCH]
                asked = [masked for _, _, masked, _ in rows_read]
                hidden_states = encoder(_padded(tokenizer, rows_read))[0].numpy()
                scores = model(_padded(tokenizer, rows_read, asked)).numpy()
                for (ids, between, masked, _), state, score in zip(
                    rows_read, hidden_states, scores, strict=True
                ):
                    states.append(state[between])
                    own = score[masked] - _logsumexp(score[masked])
                    losses.extend(-own[np.arange(len(masked)), ids[masked]])
                if added:
                    asked = [[word] for *_, word in rows_read]
                    scores = model(_padded(tokenizer, rows_read, asked)).numpy()
                    for (ids, _, _, word), score in zip(rows_read, scores, strict=True):
                        found.append(added[int(score[word, added].argmax())] == ids[word])
        states = np.concatenate(states)
        states /= np.linalg.norm(states, axis=1, keepdims=True)
        before = states if before is None else before
        rows[name] = {
            "loss": float(np.mean(losses)),
            "distance": float(1 - (states * before).sum(axis=1).mean()),
            "word found": float(np.mean(found)) if found else math.nan,
        }
    frame = pd.DataFrame(rows).T
    frame.attrs |= {"texts": len(chosen), "hidden": len(losses)}
    return frame


def _read(tokenizer, row, mask) -> tuple[np.ndarray, list[int], list[int], int]:
    """Ids, the places of the tokens between the words, the hidden ones, the word to be guessed."""
    pieces, _, guessed = row
    ids, between, masked, word = [tokenizer.cls_token_id], [], [], 0
    for number, (piece, hide) in enumerate(zip(pieces, mask, strict=True)):
        own = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(piece))
        if number == guessed:
            word = len(ids)
        if hide is not None:
            places = range(len(ids), len(ids) + len(own))
            between.extend(places)
            masked.extend(np.array(places)[hide].tolist())
        ids.extend(own)
    return np.array([*ids, tokenizer.sep_token_id]), between, masked, word


def _padded(tokenizer, rows, hidden: Sequence[list[int]] = ()) -> paddle.Tensor:
    """Ids int64 [rows, longest] of what `_read` gives, [MASK] at the hidden places."""
    width = max(len(ids) for ids, *_ in rows)
    padded = np.full((len(rows), width), tokenizer.pad_token_id, dtype="int64")
    for number, (ids, *_) in enumerate(rows):
        padded[number, : len(ids)] = ids
    for number, places in enumerate(hidden):
        padded[number, places] = tokenizer.mask_token_id
    return paddle.to_tensor(padded)


def _logsumexp(scores: np.ndarray) -> np.ndarray:
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    return top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))


# ---- checks


def _texts(name: str, texts: Iterable[str]) -> list[str]:
    if isinstance(texts, (str, bytes)):
        raise InputError(name, "is one text", "a list of texts")
    if not isinstance(texts, Iterable) or isinstance(texts, (Mapping, pd.DataFrame)):
        problem = f"is a {type(texts).__name__}"  # a table's elements are its columns' names
        raise InputError(name, problem, "a list of texts, such as a table's column")
    texts = list(texts)
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(name, f"number {number} is a {type(text).__name__}", "a text")
    if not texts:
        raise InputError(name, "is empty", "at least one text")
    return texts


def _words(words: Iterable[str]) -> list[str]:
    words = _texts("words", words)
    for number, word in enumerate(words, start=1):
        # what cannot be seen (a byte order mark, half a character) the tokenizer drops
        if not word or not word.isprintable() or any(map(str.isspace, word)):
            expected = "characters to be seen, no white space"
            raise InputError("words", f"number {number} is {word!r}", expected)
    return words
