"""Two models of meaning: one reads texts apart and can be indexed, one reads them together.

FAQ: what is the difference between semantic indexing and semantic matching?

Indexing has to find a few texts among many, so each text is read once, beforehand, and becomes a
vector (`BiEncoder`; `course_lib.tasks.search.index` searches them). Matching has to judge a
few pairs well, so each pair is read anew, one text in sight of the other (`CrossEncoder`). Both
are trained from pairs of texts that belong together; other texts of the batch, or those that the
index wrongly found, are what does not belong.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from course_lib.data import batchify_fn, convert_example, convert_pair_example
from course_lib.deploy import Predictor
from course_lib.models import encoder_of
from course_lib.runtime import InputError
from course_lib.runtime.errors import finite, numbers_in, whole
from course_lib.runtime.visible import is_blank
from course_lib.training.prediction import check_scores, inference_mode
from course_lib.training.steps import train_steps

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

STEP = 8  # batches are padded to lengths that it divides: a static model tunes itself to each shape
POOLING = ("mean", "cls")
UNIT = 1e-3  # how far a vector's length may be from 1
_SENTENCE = re.compile(r"[^。！？!?；;…~～]+[。！？!?；;…~～]*")


def text_halves(texts: Sequence[str], least: int = 12, most: int = 30) -> list[tuple[str, str]]:
    """Pairs that belong together, without anyone's labels: two parts of one text.

    A text is cut where a sentence ends, as near to its middle as can be (the inverse cloze task;
    Lee et al., 2019). Texts of one sentence, or with too short a part, give no pair.

    Args:
        least, most: characters of a part; of a longer first part the end is kept, of a longer
            second one the beginning, so that they are neighbours.

    Raises:
        InputError: a text that is none, `most` below `least`.
    """
    least, most = whole("least", least, 1), whole("most", most, whole("least", least, 1))
    pairs = []
    for text in _texts("texts", texts):
        ends = np.array([found.end() for found in _SENTENCE.finditer(text)][:-1])
        if len(ends):
            cut = int(ends[np.abs(ends - len(text) / 2).argmin()])
            first, second = text[:cut].strip(), text[cut:].strip()
            if min(len(first), len(second)) >= least:
                pairs.append((first[-most:].strip(), second[:most].strip()))
    return pairs


# --- the models -----------------------------------------------------------------------------------


class BiEncoder(nn.Layer):
    """A text's vector, of length 1, so that the product of two is their cosine.

    Args:
        encoder: a PaddleNLP encoder (`ErnieModel`), or a model with a head, whose encoder is taken.
        tokenizer: the model's.
        max_length: tokens of a text; longer ones are cut.
        pooling: "mean" of all tokens, or "cls", the first token alone.
    """

    def __init__(
        self, encoder: nn.Layer, tokenizer, max_length: int = 32, pooling: str = "mean"
    ) -> None:
        super().__init__()
        if pooling not in POOLING:
            raise InputError("pooling", f"is {pooling!r}", " or ".join(POOLING))
        self.encoder = encoder_of(encoder)
        self.tokenizer = tokenizer
        self.max_length = whole("max_length", max_length, 3, _positions(self.encoder))
        self.pooling = pooling

    def forward(
        self, input_ids: paddle.Tensor, token_type_ids: paddle.Tensor | None = None
    ) -> paddle.Tensor:
        """float32 [N, hidden_size] of ids int64 [N, L], padded with the tokenizer's id."""
        states = self.encoder(input_ids, token_type_ids)[0]
        if self.pooling == "cls":
            return F.normalize(states[:, 0], axis=-1)
        real = (input_ids != self.tokenizer.pad_token_id).astype("float32")
        return F.normalize(_mean(states, real), axis=-1)


class CrossEncoder(nn.Layer):
    """How well two texts belong together, each token of one read in sight of those of the other.

    The score is a weighted sum over the products of the two texts' mean states, of length 1. With
    the weights it begins with, that is their cosine / 0.05: a judge who compares already, and has
    to learn only what to look at. (A linear layer over [CLS], as is usual, has to learn both.)

    Args:
        encoder, tokenizer: as for `BiEncoder`; a trained BiEncoder's is a good beginning.
        max_length: tokens of both texts; the longer one is cut first.
    """

    def __init__(self, encoder: nn.Layer, tokenizer, max_length: int = 64) -> None:
        super().__init__()
        self.encoder = encoder_of(encoder)
        self.tokenizer = tokenizer
        self.max_length = whole("max_length", max_length, 5, _positions(self.encoder))
        even = nn.initializer.Constant(20.0)
        size = self.encoder.config.hidden_size
        self.score = nn.Linear(size, 1, paddle.ParamAttr(initializer=even), bias_attr=False)

    def forward(self, input_ids: paddle.Tensor, token_type_ids: paddle.Tensor) -> paddle.Tensor:
        """float32 [N], higher is better; of ids int64 [N, L], types 0 and 1 for the two texts."""
        states = self.encoder(input_ids, token_type_ids)[0]
        second = token_type_ids.astype("float32")
        real = (input_ids != self.tokenizer.pad_token_id).astype("float32")
        one, other = (
            F.normalize(_mean(states, weights), axis=-1)
            for weights in (real * (1 - second), real * second)
        )
        return self.score(one * other).squeeze(-1)


def _positions(encoder: nn.Layer) -> int:
    return encoder.config.max_position_embeddings


def _mean(states: paddle.Tensor, weights: paddle.Tensor) -> paddle.Tensor:
    weights = weights.unsqueeze(-1)
    return (states * weights).sum(axis=1) / weights.sum(axis=1)


def encode(model: BiEncoder | Predictor, texts: Sequence[str], batch_size: int = 64) -> np.ndarray:
    """Vectors of texts; those of similar length share a batch.

    Args:
        model: a BiEncoder, or a Predictor of its export, with its tokenizer and max_length.

    Returns:
        float32 [texts, hidden_size].

    Raises:
        InputError: a text that is empty or none, or no text at all; another model.
    """
    _check_model(model, BiEncoder, Predictor)
    rows = _text_rows(model, texts)
    return _outputs(model, rows, batch_size)


def score_pairs(
    model: CrossEncoder | Predictor, pairs: Sequence[tuple[str, str]], batch_size: int = 64
) -> np.ndarray:
    """A score for each pair of texts, float32 [pairs]; arguments and errors as for `encode`."""
    _check_model(model, CrossEncoder, Predictor)
    firsts, seconds = _columns("pairs", pairs)
    rows = _pair_rows(model, list(zip(firsts, seconds, strict=True)))
    return _outputs(model, rows, batch_size).reshape(len(rows))


def rerank(
    model: CrossEncoder | Predictor,
    queries: Sequence[str],
    sentences: Sequence[str],
    places: np.ndarray,
    batch_size: int = 64,
) -> np.ndarray:
    """Put what an index found into the order of a cross-encoder.

    Args:
        places: int [queries, found] into `sentences`; -1 where less was found.

    Returns:
        int64 of the same shape; in each row the same places, best first, -1 last.

    Raises:
        InputError: as `encode`; places of another shape, or of sentences that are not there.
    """
    _check_model(model, CrossEncoder, Predictor)
    queries, sentences = _texts("queries", queries), _texts("sentences", sentences)
    places = _places(places, len(queries), len(sentences))
    rows, columns = np.nonzero(places >= 0)
    scores = np.full(places.shape, -np.inf)
    if len(rows):
        pairs = [(queries[r], sentences[places[r, c]]) for r, c in zip(rows, columns, strict=True)]
        scores[rows, columns] = score_pairs(model, pairs, batch_size)
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)


def hard_negatives(
    places: np.ndarray, texts: Sequence[str], wanted: Sequence[str], count: int
) -> list[list[str]]:
    """What an index found first, and should not have: negatives that are worth learning from.

    Args:
        places: int [queries, found] into `texts`, best first.
        wanted: the right text of each query; equal ones are left out.
        count: negatives a query.

    Raises:
        InputError: a row that holds fewer others than `count`.
    """
    count = whole("count", count, 1)
    texts, wanted = _texts("texts", texts), _texts("wanted", wanted)
    places = _places(places, len(wanted), len(texts))
    negatives = []
    for number, (row, right) in enumerate(zip(places, wanted, strict=True)):
        others = dict.fromkeys(texts[place] for place in row if place >= 0)
        others.pop(right, None)
        if len(others) < count:
            problem = f"row {number} holds {len(others)} wrong texts"
            raise InputError("places", problem, f"{count} at least: search for more")
        negatives.append(list(others)[:count])
    return negatives


# --- training -------------------------------------------------------------------------------------


def train_bi_encoder(
    model: BiEncoder,
    pairs: Sequence[tuple[str, str]],
    epochs: int = 1,
    batch_size: int = 32,
    learning_rate: float = 3e-4,
    temperature: float = 0.05,
    max_steps: int | None = None,
    seed: int = 42,
    progress: bool = False,
) -> list[float]:
    """Train with in-batch negatives: of all second texts of a batch, which one is the first's?

    The loss is the mean of both directions (first to second, second to first). A text that stands
    in the batch twice is no negative of itself.

    Args:
        pairs: texts that belong together.
        epochs, batch_size: a larger batch asks harder questions.
        learning_rate: AdamW's at its peak, after a tenth of the steps; then it falls to 0.
        temperature: cosines are divided by it before the softmax.
        max_steps: stop after so many.
        seed: of the order and of dropout.
        progress: show a bar.

    Returns:
        The loss of each step, in nats; log(batch_size) is chance.

    Raises:
        InputError: another model; fewer than two pairs, one of other things than texts, an argument
            out of bounds; the loss becomes infinite.
    """
    _check_model(model, BiEncoder)
    firsts, seconds = _columns("pairs", pairs)
    if len(firsts) < 2:
        raise InputError("pairs", f"are {len(firsts)}", "two at least: others are the negatives")
    batch_size = whole("batch_size", batch_size, 2)
    temperature = finite("temperature", temperature, 0)
    rows = [_text_rows(model, column) for column in (firsts, seconds)]

    def loss(chosen: list[int]) -> paddle.Tensor:
        one, two = (model(*_padded(model, [column[i] for i in chosen])) for column in rows)
        twins = _twins([firsts[i] for i in chosen]) | _twins([seconds[i] for i in chosen])
        scores = one.matmul(two.T) / temperature - 1e4 * paddle.to_tensor(twins.astype("float32"))
        right = paddle.arange(len(chosen))
        return (_cross_entropy(scores, right) + _cross_entropy(scores.T, right)) / 2

    return _train(
        model, loss, len(firsts), epochs, batch_size, learning_rate, max_steps, seed, progress, 2
    )


def first_layers(model: BiEncoder, count: int) -> BiEncoder:
    """A smaller encoder to begin with: a copy of the embeddings and the first `count` layers.

    Raises:
        InputError: another model, or one with fewer layers.
    """
    _check_model(model, BiEncoder)
    config = copy.deepcopy(model.encoder.config)
    config.num_hidden_layers = whole("count", count, 1, config.num_hidden_layers)
    generator = paddle.get_rng_state()
    smaller = type(model.encoder)(config)  # draws weights that are not kept
    paddle.set_rng_state(generator)
    state = model.encoder.state_dict()
    smaller.set_state_dict({name: state[name].clone() for name in smaller.state_dict()})
    smaller.eval()
    return BiEncoder(smaller, model.tokenizer, model.max_length, model.pooling)


def distil_encoder(
    student: BiEncoder,
    texts: Sequence[str],
    vectors: np.ndarray,
    epochs: int = 1,
    batch_size: int = 32,
    learning_rate: float = 3e-4,
    max_steps: int | None = None,
    seed: int = 42,
    progress: bool = False,
) -> list[float]:
    """Teach a smaller encoder the vectors of a larger one, so that its index can stay.

    Args:
        vectors: float [texts, hidden_size] of the teacher, of length 1.
        Others as for `train_bi_encoder`.

    Returns:
        The loss of each step: 1 - the mean cosine between teacher and student.

    Raises:
        InputError: as `train_bi_encoder`; vectors of another number or size, not finite or not of
            length 1.
    """
    _check_model(student, BiEncoder)
    rows = _text_rows(student, texts)
    vectors = _vectors(vectors, student.encoder.config.hidden_size, len(rows))

    def loss(chosen: list[int]) -> paddle.Tensor:
        own = student(*_padded(student, [rows[i] for i in chosen]))
        return 1 - (own * paddle.to_tensor(vectors[chosen])).sum(axis=-1).mean()

    return _train(
        student, loss, len(rows), epochs, batch_size, learning_rate, max_steps, seed, progress
    )


def train_cross_encoder(
    model: CrossEncoder,
    pairs: Sequence[tuple[str, str]],
    negatives: Sequence[Sequence[str]],
    epochs: int = 1,
    batch_size: int = 8,
    learning_rate: float = 2e-4,
    max_steps: int | None = None,
    seed: int = 42,
    progress: bool = False,
) -> list[float]:
    """Train to tell each pair's second text from wrong ones, by a softmax over their scores.

    Args:
        negatives: wrong second texts of each pair, as many for each (`hard_negatives`).
        batch_size: pairs; a step reads as many times 1 + the number of negatives.
        Others as for `train_bi_encoder`.

    Returns:
        The loss of each step, in nats; log(1 + negatives) is chance.

    Raises:
        InputError: as `train_bi_encoder`; negatives of another number than pairs, none, or not the
            same number for each.
    """
    _check_model(model, CrossEncoder)
    firsts, seconds = _columns("pairs", pairs)
    if isinstance(negatives, (str, bytes)) or not hasattr(negatives, "__len__"):
        raise InputError("negatives", f"is a {type(negatives).__name__}", "a list of texts a pair")
    counts = {len(_texts(f"negatives[{i}]", row)) for i, row in enumerate(negatives)}
    if len(negatives) != len(firsts) or len(counts) != 1:
        problem = f"are {len(negatives)} lists of {sorted(counts)} texts"
        raise InputError("negatives", problem, f"{len(firsts)} lists of one length")
    each = 1 + counts.pop()
    rows = _pair_rows(
        model,
        [
            (first, text)
            for first, second, wrong in zip(firsts, seconds, negatives, strict=True)
            for text in (second, *wrong)
        ],
    )

    def loss(chosen: list[int]) -> paddle.Tensor:
        batch = [rows[i * each + j] for i in chosen for j in range(each)]
        scores = model(*_padded(model, batch)).reshape([len(chosen), each])
        return _cross_entropy(scores, paddle.zeros([len(chosen)], "int64"))

    return _train(
        model, loss, len(firsts), epochs, batch_size, learning_rate, max_steps, seed, progress
    )


def _train(
    model: nn.Layer,
    loss_of: Callable[[list[int]], paddle.Tensor],
    examples: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    max_steps: int | None,
    seed: int,
    progress: bool,
    least: int = 1,
) -> list[float]:
    """The order of all three; a last batch of fewer than `least` examples is left out."""
    epochs, batch_size = whole("epochs", epochs, 1), whole("batch_size", batch_size, 1)
    learning_rate = finite("learning_rate", learning_rate, 0)
    order = np.random.RandomState(whole("seed", seed, 0, 2**32 - 1))
    per_epoch = examples // batch_size + (examples % batch_size >= least)
    steps = per_epoch * epochs
    if max_steps is not None:
        steps = min(steps, whole("max_steps", max_steps, 1))

    def batches() -> Iterator[list[int]]:
        for _ in range(epochs):
            mixed = order.permutation(examples)
            for number in range(per_epoch):
                yield mixed[number * batch_size : (number + 1) * batch_size].tolist()

    return train_steps(
        model, batches(), loss_of, steps, learning_rate, seed=seed, progress=progress
    )


def _cross_entropy(scores: paddle.Tensor, right: paddle.Tensor) -> paddle.Tensor:
    """In nats; NaN where a score is: Paddle's softmax makes equal shares of a row of NaN."""
    return F.cross_entropy(scores, right) + 0 * scores.sum()


def _twins(texts: Sequence[str]) -> np.ndarray:
    """Whether two different places hold the same text, bool [N, N]."""
    same = np.array([[one == other for other in texts] for one in texts])
    np.fill_diagonal(same, False)
    return same


# --- ids and batches ------------------------------------------------------------------------------


def _text_rows(model: BiEncoder | Predictor, texts: Sequence[str]) -> list[tuple]:
    length = _length(model)
    return [
        convert_example({"text": text}, model.tokenizer, length, is_test=True)
        for text in _texts("texts", texts)
    ]


def _pair_rows(model: CrossEncoder | Predictor, pairs: Sequence[tuple[str, str]]) -> list[tuple]:
    length = _length(model)
    return [
        convert_pair_example(
            {"sentence1": first, "sentence2": second}, model.tokenizer, length, is_test=True
        )
        for first, second in pairs
    ]


def _length(model: BiEncoder | CrossEncoder | Predictor) -> int:
    return model.max_length or 64


def _padded(model, rows: Sequence[tuple]) -> list[paddle.Tensor]:
    return [paddle.to_tensor(array) for array in batchify_fn(model.tokenizer, True)(list(rows))]


def _outputs(model, rows: Sequence[tuple], batch_size: int) -> np.ndarray:
    """The model's first output for each row, in their order."""
    batch_size = whole("batch_size", batch_size, 1)
    batchify, length = batchify_fn(model.tokenizer, is_test=True), _length(model)
    order = sorted(range(len(rows)), key=lambda index: len(rows[index][0]))
    found: list = [None] * len(rows)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        ids, types = batchify([rows[index] for index in chosen])
        room = ((0, 0), (0, min(-ids.shape[1] % STEP, max(0, length - ids.shape[1]))))
        ids = np.pad(ids, room, constant_values=model.tokenizer.pad_token_id)
        types = np.pad(types, room)
        if isinstance(model, Predictor):
            outputs = model.run({"input_ids": ids, "token_type_ids": types})[0]
        else:
            with inference_mode(model):
                outputs = model(paddle.to_tensor(ids), paddle.to_tensor(types)).numpy()
        check_scores(outputs)
        for index, output in zip(chosen, outputs, strict=True):
            found[index] = output
    return np.stack(found)


# --- checks ---------------------------------------------------------------------------------------


def _check_model(model: Any, kind: type, *others: type) -> None:
    """Refuse what is neither a model of this kind nor, where it is allowed, a Predictor of one."""
    is_export = isinstance(model, Predictor)
    name = model.description.get("class") if is_export else type(model).__name__
    if not isinstance(model, (kind, *others)) or (is_export and name != kind.__name__):
        problem = f"is a {'Predictor of a ' * is_export}{name}"
        expected = f"a {kind.__name__}{', or a Predictor of one' * bool(others)}"
        raise InputError("model", problem, expected)


def _texts(name: str, texts: Sequence[str]) -> list[str]:
    if isinstance(texts, (str, bytes)) or not hasattr(texts, "__len__"):
        raise InputError(name, f"is one {type(texts).__name__}", "a list of texts")
    texts = list(texts)
    if not texts:
        raise InputError(name, "are none", "one text at least")
    for number, text in enumerate(texts):
        if not isinstance(text, str) or is_blank(text):
            problem = "is empty" if isinstance(text, str) else f"is {type(text).__name__}"
            raise InputError(f"{name}[{number}]", problem, "a text")
    return texts


def _columns(name: str, pairs: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    if isinstance(pairs, (str, bytes)) or not hasattr(pairs, "__len__") or not len(pairs):
        raise InputError(name, "hold no pair", "a list of pairs of texts")
    for number, pair in enumerate(pairs):
        if isinstance(pair, (str, bytes)) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise InputError(f"{name}[{number}]", f"is {pair!r:.60}", "two texts")
        _texts(f"{name}[{number}]", pair)
    first, second = zip(*pairs, strict=True)
    return list(first), list(second)


def _vectors(vectors: np.ndarray, size: int, rows: int | None = None) -> np.ndarray:
    vectors = np.ascontiguousarray(numbers_in("vectors", vectors), "float32")
    wanted = f"{'any' if rows is None else rows} rows of {size} numbers"
    if vectors.ndim != 2 or vectors.shape[1] != size or not len(vectors):
        raise InputError("vectors", f"have shape {list(vectors.shape)}", wanted)
    if rows is not None and len(vectors) != rows:
        raise InputError("vectors", f"are {len(vectors)}", f"{rows}, one a text")
    if not np.isfinite(vectors).all():
        row = int(np.nonzero(~np.isfinite(vectors).all(axis=1))[0][0])
        raise InputError("vectors", f"row {row} holds NaN or infinity", "finite numbers")
    lengths = np.linalg.norm(vectors, axis=1)
    if np.abs(lengths - 1).max() > UNIT:
        row = int(np.abs(lengths - 1).argmax())
        problem = f"row {row} has length {lengths[row]:.4g}"
        raise InputError("vectors", problem, "length 1: products are cosines then")
    return vectors


def _places(places: np.ndarray, rows: int, sentences: int) -> np.ndarray:
    places = numbers_in("places", places, "int64")
    fits = places.ndim == 2 and len(places) == rows and places.dtype.kind in "iu" and places.size
    if not fits:
        problem = f"hold {places.dtype} of shape {list(places.shape)}"
        raise InputError("places", problem, f"whole numbers, {rows} rows: what a search gives")
    if places.min() < -1 or places.max() >= sentences:
        problem = f"reach from {places.min()} to {places.max()}"
        raise InputError("places", problem, f"-1 to {sentences - 1}, the last sentence")
    return places.astype("int64")
