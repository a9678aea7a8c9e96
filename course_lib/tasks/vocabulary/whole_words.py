"""Answers about the vocabulary: second pretraining that hides whole words of a dictionary.

FAQ: the other way to bring a dictionary into a pretrained model. Tokens stay as they are; in a
second pretraining all characters of a word are hidden together. `compare_vocabulary` measures what
this, and adding the words as tokens, gives a classifier of reviews.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from itertools import pairwise

from course_lib.data import create_dataloader, load_reviews
from course_lib.models import load_backbone, save_model
from course_lib.models.backbone import default_backbone
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError, seed_everything
from course_lib.runtime.errors import whole
from course_lib.tasks.vocabulary.added_words import _texts, _words, add_words, cutter, lower
from course_lib.training import fit, paired_bootstrap, predict
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
from paddlenlp.datasets import MapDataset
from paddlenlp.transformers import AutoModelForMaskedLM, AutoTokenizer, PretrainedModel
from sklearn.metrics import f1_score

METHODS = (
    "do nothing",
    "words added, mean vectors",
    "words added, random vectors",
    "second pretraining, whole words",
    "second pretraining, characters",
)
RESTS = ("jieba", "characters")


class DictionaryEncoder(WordEncoder):
    """A `WordEncoder` for which each word of a dictionary is one word, whatever jieba thinks.

    jieba weighs a user's words against its own and may cut another way. Here the longest word that
    fits always wins.

    Args:
        tokenizer: a BERT or ERNIE tokenizer of PaddleNLP, without added words.
        words: the dictionary; none is allowed.
        rest: what stands between the words is cut by "jieba", or each token is by itself
            ("characters").

    Raises:
        InputError: as for `cutter`; another `rest`; the tokenizer has added words, which are one
            token and cannot be hidden in parts anyway.
    """

    def __init__(self, tokenizer, words: Collection[str], rest: str = "jieba") -> None:
        if rest not in RESTS:
            raise InputError("rest", f"is {rest!r}", " or ".join(RESTS))
        if tokenizer.added_tokens_encoder:
            problem = f"has {len(tokenizer.added_tokens_encoder)} added words"
            raise InputError("tokenizer", problem, "the plain one")
        super().__init__(tokenizer)
        # none is allowed; the letters of one word are no dictionary
        words = [] if isinstance(words, Sized) and not len(words) else _words(words)
        self._words = frozenset(map(lower, words))
        self._cut = cutter(words) if words else lambda text: [text]
        self._jieba = self.cutter if rest == "jieba" else None
        self.cutter = self  # whose `tokenize` says where words begin

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
    texts: Iterable[str],
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
    """Go on pretraining a masked-LM model, in place; a word of the dictionary is hidden whole.

    `course_lib.training.pretraining.pretrain` does the same with files and checkpoints, and leaves
    the last word on where words begin to jieba.

    Args:
        words, rest: as for `DictionaryEncoder`; no words and rest "characters" hide each token by
            itself, as the first BERT did.
        mask_rate: the share of the words that is hidden.
        **options: of `fit`, such as `max_steps` or `progress`.

    Returns:
        The history of `fit`; its accuracies count hidden tokens.

    Raises:
        InputError: as for `DictionaryEncoder` and `fit`; there is no text.

    Source: FAQ Q3.1, second way.
    """
    encoder = DictionaryEncoder(tokenizer, words, rest)
    max_seq_length = whole("max_seq_length", max_seq_length, 3)
    sequences = make_sequences(_texts("texts", texts), encoder, max_seq_length)
    _check_length(model, sequences)
    loader = create_pretraining_dataloader(
        sequences, tokenizer, "train", batch_size, mask_rate, seed
    )
    return fit(model, loader, epochs=epochs, learning_rate=learning_rate, seed=seed, **options)


def restore_words(
    model: PretrainedModel,
    tokenizer,
    texts: Iterable[str],
    words: Collection[str],
    max_seq_length: int = 128,
    batch_size: int = 32,
    seed: int = 42,
) -> pd.DataFrame:
    """Hide one whole word of the dictionary in each text, and let the model fill it in.

    Of a text too long for one sequence the beginning is read.

    Args:
        model: a masked-LM model whose tokenizer has no added words.
        texts: those without a word of the dictionary are left out.
        seed: of which word is hidden, so two models get the same questions.

    Returns:
        A row a text: "word", "guess", "right" (all of its tokens) and "loss" (nats a token).

    Raises:
        InputError: no text has a word of the dictionary.
    """
    encoder = DictionaryEncoder(tokenizer, words, "characters")
    spelled = {tuple(encoder(word)[0]) for word in words}
    batch_size, seed = whole("batch_size", batch_size, 1), whole("seed", seed, 0)
    max_seq_length = whole("max_seq_length", max_seq_length, 3)
    random = np.random.default_rng(seed)
    questions = []
    for text in _texts("texts", texts):
        ids, starts = next(iter(make_sequences([text], encoder, max_seq_length)), ([], []))
        begins = [*np.flatnonzero(starts), len(ids)]
        spans = [
            (begin, end)
            for begin, end in pairwise(begins)
            if tuple(ids[begin:end].tolist()) in spelled
            and tokenizer.unk_token_id not in ids[begin:end]
        ]
        if spans:
            questions.append((ids, *spans[random.integers(len(spans))]))
    if not questions:
        raise InputError("texts", "have no word of the dictionary", "texts with the words")
    _check_length(model, questions)
    order = sorted(range(len(questions)), key=lambda i: len(questions[i][0]))
    rows: list[tuple] = [()] * len(questions)
    pad = Pad(pad_val=tokenizer.pad_token_id, dtype="int64")
    with inference_mode(model):
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            hidden = []
            for index in chosen:
                ids, begin, end = questions[index]
                hidden.append(
                    np.r_[ids[:begin], [tokenizer.mask_token_id] * (end - begin), ids[end:]]
                )
            read = pad(hidden)
            places = [
                row * read.shape[1] + place
                for row, index in enumerate(chosen)
                for place in range(*questions[index][1:])
            ]
            scores = model(
                input_ids=paddle.to_tensor(read), masked_positions=paddle.to_tensor(places)
            )
            losses = -paddle.nn.functional.log_softmax(scores, axis=-1).numpy()
            losses = losses[:, : len(tokenizer)]  # published ERNIEs have rows to spare
            done = 0
            for index in chosen:
                ids, begin, end = questions[index]
                gold, own = ids[begin:end], losses[done : done + end - begin]
                done += end - begin
                best = own.argmin(axis=-1)
                pieces = (tokenizer.convert_ids_to_tokens(part.tolist()) for part in (gold, best))
                word, guess = ("".join(one.removeprefix("##") for one in part) for part in pieces)
                loss = float(own[np.arange(len(gold)), gold].mean())
                rows[index] = (word, guess, bool((best == gold).all()), loss)
    return pd.DataFrame(rows, columns=["word", "guess", "right", "loss"])


def _check_length(model: PretrainedModel, sequences: Sequence[tuple]) -> None:
    most, longest = (
        model.config.max_position_embeddings,
        max((len(one[0]) for one in sequences), default=0),
    )
    if longest > most:
        problem = f"lets {longest} tokens pass"
        raise InputError("max_seq_length", problem, f"at most {most}, the model's positions")


# ---- what it gives a classifier


def compare_vocabulary(
    seed: int,
    words: Sequence[str],
    methods: Sequence[str] = METHODS,
    *,
    train_examples: int = 600,
    test_examples: int | None = 600,
    pretraining_texts: int = 1500,
    max_seq_length: int = 64,
    batch_size: int = 16,
    epochs: int = 2,
    pretraining_epochs: int = 1,
    learning_rate: float = 2e-4,
    pretraining_rate: float = 1e-4,
    split: str = "test",
    backbone: str | os.PathLike | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Train a classifier of reviews in each of several ways that bring words into the backbone.

    Args:
        seed: of the labelled reviews that are drawn, the new head, the batches, the random vectors
            and the hidden words. All methods share them.
        words: such as `find_words` finds in the training split.
        methods: some of METHODS. A second pretraining reads training reviews without labels; the
            one that hides single characters shows what is due to the reading alone.
        split: where the classifiers are judged.
        backbone: a masked-LM model's directory; None is the one of the course.

    Returns:
        A row for each review of the split: "label", and a column for each method with the class
        that it predicts. `attrs["tokens"]` is the mean number of tokens of a labelled training
        review, by method, before long ones are cut.

    Raises:
        InputError: an unknown method; a backbone that is not on this machine; as for `add_words`.
    """
    unknown = [method for method in methods if method not in METHODS]
    if unknown or not methods or isinstance(methods, str):
        raise InputError("methods", f"is {methods!r}", f"some of {', '.join(METHODS)}")
    train_examples = whole("train_examples", train_examples, 2)
    pretraining_texts = whole("pretraining_texts", pretraining_texts, 1)
    source = str(backbone or default_backbone())
    train, judged = load_reviews("train"), load_reviews(split, max_examples=test_examples)
    random = np.random.default_rng(seed)
    drawn = random.permutation(len(train))
    if train_examples > len(train):
        raise InputError("train_examples", f"is {train_examples}", f"at most {len(train)}")
    labelled = MapDataset(
        [train[int(i)] for i in drawn[:train_examples]], label_list=train.label_list
    )
    unlabelled = [train[int(i)]["text"] for i in drawn[:pretraining_texts]]
    answers = {"label": [example["label"] for example in judged]}
    tokens = {}
    for method in methods:
        with tempfile.TemporaryDirectory() as directory:
            start = source
            if method.startswith("second"):
                start = directory
                with quiet_paddlenlp():
                    masked = AutoModelForMaskedLM.from_pretrained(source)
                    plain = AutoTokenizer.from_pretrained(source)
                by_character = method.endswith("characters")
                pretrain_words(
                    masked,
                    plain,
                    unlabelled,
                    () if by_character else words,
                    rest="characters" if by_character else "jieba",
                    max_seq_length=max_seq_length,
                    batch_size=batch_size,
                    learning_rate=pretraining_rate,
                    epochs=pretraining_epochs,
                    seed=seed,
                    progress=progress,
                )
                save_model(masked, plain, directory)
            seed_everything(seed)  # the same new head for all
            model, tokenizer = load_backbone(start, label_list=train.label_list)
        if method.startswith("words added"):
            add_words(model, tokenizer, words, method.split()[-2], seed)
        sizes = {"max_seq_length": max_seq_length, "batch_size": batch_size}
        loader = create_dataloader(labelled, tokenizer, "train", seed=seed, **sizes)
        fit(
            model,
            loader,
            epochs=epochs,
            learning_rate=learning_rate,
            seed=seed,
            progress=progress,
        )
        found = predict(model, judged, tokenizer, **sizes)
        answers[method] = [train.label_list.index(row["label"]) for row in found]
        lengths = [len(tokenizer(example["text"])["input_ids"]) for example in labelled]
        tokens[method] = float(np.mean(lengths))
    frame = pd.DataFrame(answers)
    frame.attrs["tokens"] = tokens
    return frame


def vocabulary_table(runs: pd.DataFrame | Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The table of `compare_vocabulary`, of one run or of several seeds on the same reviews.

    Returns:
        A row a method: "accuracy", "macro F1" and "tokens" (means over the runs), "difference" of
        the accuracy to the first method's, with "low" and "high", the 95% interval of a bootstrap
        over reviews, each with the mean of its runs; not a number for the first. The interval is
        for these seeds and other reviews.

    Raises:
        InputError: no run, or runs of other methods or on other reviews; a table without labels,
            methods or `attrs["tokens"]`.
    """
    runs = [runs] if isinstance(runs, pd.DataFrame) else list(runs or ())
    if not runs:
        raise InputError("runs", "is empty", "at least one run")
    for number, run in enumerate(runs):
        where, expected = f"runs[{number}]", "what compare_vocabulary gave, with its attrs"
        if not isinstance(run, pd.DataFrame):
            raise InputError(where, f"is a {type(run).__name__}", expected)
        if "label" not in run or len(run.columns) < 2 or not len(run):
            columns = ", ".join(map(str, run.columns))
            raise InputError(where, f"has {len(run)} rows of {columns or 'nothing'}", expected)
        tokens = run.attrs.get("tokens")
        lost = [name for name in run if name != "label" and name not in (tokens or ())]
        if lost:
            raise InputError(where, f"has no attrs['tokens'] of {lost[0]!r}", expected)
    first = runs[0]
    for run in runs[1:]:
        if list(run.columns) != list(first.columns) or not run["label"].equals(first["label"]):
            raise InputError("runs", "are of other methods or reviews", "the same in all")
    methods = [name for name in first.columns if name != "label"]
    rows = {}
    right = {
        name: np.mean([(run[name] == run["label"]).to_numpy() for run in runs], axis=0)
        for name in methods
    }
    for name in methods:
        rows[name] = {
            "accuracy": right[name].mean(),
            "macro F1": np.mean(
                [f1_score(run["label"], run[name], average="macro") for run in runs]
            ),
            "tokens": np.mean([run.attrs["tokens"][name] for run in runs]),
        }
        if name != methods[0]:
            rows[name] |= paired_bootstrap(right[name], right[methods[0]])
    return pd.DataFrame(rows).T.reindex(
        columns=["accuracy", "macro F1", "tokens", "difference", "low", "high"]
    )
