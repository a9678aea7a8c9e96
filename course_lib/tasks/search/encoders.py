"""Two models of meaning: one reads texts separately and can be indexed, one reads them together.

FAQ: what is the difference between semantic indexing and semantic matching?

Indexing has to find a few texts among many, so each text is read once, in advance, and becomes a
vector (`BiEncoder`; `course_lib.tasks.search.index` searches the vectors). Matching has to judge a
few pairs well, so each pair is read together (`CrossEncoder`, the reranker). Both are trained from
pairs of texts that belong together; the negatives are the other texts of the batch, or texts that
the index wrongly found.
"""

from collections.abc import Sequence

from ...data import batchify_fn, convert_example
from ...data.batching import map_by_length
from ...deploy import Predictor
from ...models import encoder_of
from ...runtime import InputError
from ...runtime.errors import positive
from ...training.prediction import check_scores, check_texts, inference_mode
from ...training.steps import train_steps

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

STEP = 8  # batches are padded to multiples of it: a static model tunes itself to each new shape


class BiEncoder(nn.Layer):
    """Turns a text into a vector of length 1, so that the product of two vectors is their cosine.

    It is the mean of the states of all tokens.

    Args:
        encoder: a PaddleNLP encoder (`ErnieModel`), or a model with a head, whose encoder is taken.
        tokenizer: the model's.
        max_length: tokens of a text; longer ones are cut.
    """

    def __init__(self, encoder: nn.Layer, tokenizer, max_length: int = 32) -> None:
        super().__init__()
        self.encoder, self.tokenizer = encoder_of(encoder), tokenizer
        self.max_length = max_length

    def forward(
        self, input_ids: paddle.Tensor, token_type_ids: paddle.Tensor | None = None
    ) -> paddle.Tensor:
        """float32 [N, hidden_size] of ids int64 [N, L], padded with the tokenizer's id."""
        states = self.encoder(input_ids, token_type_ids)[0]
        real = (input_ids != self.tokenizer.pad_token_id).astype("float32")
        return _direction(states, real)


class CrossEncoder(nn.Layer):
    """Scores how well two texts belong together; each token is read in sight of both texts.

    The score is a weighted sum over the products of the two texts' mean states, of length 1. With
    its initial weights it is their cosine / 0.05, so the model only has to learn what to look at.
    (The usual linear layer over [CLS] has to learn to compare as well.)

    Args:
        encoder, tokenizer: as for `BiEncoder`; a trained BiEncoder's is a good start.
        max_length: tokens of both texts; the longer one is cut first.
    """

    def __init__(self, encoder: nn.Layer, tokenizer, max_length: int = 64) -> None:
        super().__init__()
        self.encoder, self.tokenizer = encoder_of(encoder), tokenizer
        self.max_length = max_length
        even = nn.initializer.Constant(20.0)
        size = self.encoder.config.hidden_size
        self.score = nn.Linear(size, 1, paddle.ParamAttr(initializer=even), bias_attr=False)

    def forward(self, input_ids: paddle.Tensor, token_type_ids: paddle.Tensor) -> paddle.Tensor:
        """float32 [N], higher is better; of ids int64 [N, L], types 0 and 1 for the two texts."""
        states = self.encoder(input_ids, token_type_ids)[0]
        second = token_type_ids.astype("float32")
        real = (input_ids != self.tokenizer.pad_token_id).astype("float32")
        one, other = (
            _direction(states, weights) for weights in (real * (1 - second), real * second)
        )
        return self.score(one * other).squeeze(-1)


def _direction(states: paddle.Tensor, weights: paddle.Tensor) -> paddle.Tensor:
    """The mean state, of length 1."""
    weights = weights.unsqueeze(-1)
    return F.normalize((states * weights).sum(axis=1) / weights.sum(axis=1), axis=-1)


def encode(model: BiEncoder | Predictor, texts: Sequence[str], batch_size: int = 64) -> np.ndarray:
    """Vectors of texts, float32 [texts, hidden_size].

    Args:
        model: a BiEncoder, or a Predictor of its export, with its tokenizer and max_length.

    Raises:
        InputError: a text that is empty or not a string; an export of another model.
    """
    return _outputs(model, BiEncoder, _text_rows(model, texts), batch_size)


def score_pairs(
    model: CrossEncoder | Predictor, pairs: Sequence[tuple[str, str]], batch_size: int = 64
) -> np.ndarray:
    """A score for each pair of texts, float32 [pairs]; arguments and errors as for `encode`."""
    return _outputs(model, CrossEncoder, _pair_rows(model, pairs), batch_size).reshape(len(pairs))


def rerank(
    model: CrossEncoder | Predictor,
    queries: Sequence[str],
    sentences: Sequence[str],
    places: np.ndarray,
    batch_size: int = 64,
) -> np.ndarray:
    """Sort what an index found by the scores of a cross-encoder.

    Args:
        places: int [queries, K], indices into `sentences`; -1 where fewer were found.

    Returns:
        int64 of the same shape: the same places in each row, best first, -1 last.
    """
    check_texts(queries, "queries")
    rows, columns = np.nonzero(places >= 0)
    scores = np.full(places.shape, -np.inf)
    if len(rows):
        pairs = [(queries[r], sentences[places[r, c]]) for r, c in zip(rows, columns, strict=True)]
        scores[rows, columns] = score_pairs(model, pairs, batch_size)
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)


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
    """Train with in-batch negatives: which of the batch's second texts belongs to the first?

    The loss is the mean of both directions (first to second, second to first). A text that is in
    the batch twice is not a negative of itself.

    Args:
        pairs: texts that belong together.
        batch_size: a larger batch asks harder questions.
        learning_rate: AdamW's peak, after a tenth of the steps; then it falls to 0.
        temperature: cosines are divided by it before the softmax.
        max_steps: stop after this many.
        seed: of the order and of dropout.

    Returns:
        The loss of each step, in nats; log(batch_size) is chance.

    Raises:
        InputError: no pair; a text that is empty or not a string; a number of epochs, steps or
            pairs per batch below 1; the loss is no longer finite.
    """
    firsts, seconds = _sides(pairs)
    rows = [_text_rows(model, column) for column in (firsts, seconds)]

    def loss(batch: list[int]) -> paddle.Tensor:
        one, two = (model(*_padded(model, [column[i] for i in batch])) for column in rows)
        twins = _twins([firsts[i] for i in batch]) | _twins([seconds[i] for i in batch])
        scores = one.matmul(two.T) / temperature - 1e4 * paddle.to_tensor(twins.astype("float32"))
        right = paddle.arange(len(batch))
        return (_cross_entropy(scores, right) + _cross_entropy(scores.T, right)) / 2

    batches = _batches(len(firsts), epochs, batch_size, max_steps, seed, smallest=2)
    return train_steps(
        model, batches, loss, len(batches), learning_rate, seed=seed, progress=progress
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
        negatives: wrong second texts of each pair, equally many for each.
        batch_size: pairs; a step reads 1 + the number of negatives times as many.
        Others and errors as for `train_bi_encoder`.

    Returns:
        The loss of each step, in nats; log(1 + negatives) is chance.
    """
    rows, counts = [], {len(wrong) for wrong in negatives}
    if len(counts) > 1 or 0 in counts:
        raise InputError("negatives", f"hold {sorted(counts)} texts", "equally many for each pair")
    for first, second, wrong in zip(*_sides(pairs), negatives, strict=True):
        check_texts(wrong, "negatives")
        rows.append(_pair_rows(model, [(first, text) for text in (second, *wrong)]))

    def loss(batch: list[int]) -> paddle.Tensor:
        scores = model(*_padded(model, [row for i in batch for row in rows[i]]))
        return _cross_entropy(scores.reshape([len(batch), -1]), paddle.zeros([len(batch)], "int64"))

    batches = _batches(len(rows), epochs, batch_size, max_steps, seed)
    return train_steps(
        model, batches, loss, len(batches), learning_rate, seed=seed, progress=progress
    )


def _batches(
    examples: int, epochs: int, batch_size: int, max_steps: int | None, seed: int, smallest: int = 1
) -> list[list[int]]:
    """Places in a new random order each epoch; a last batch below `smallest` is left out."""
    positive(epochs=epochs, batch_size=batch_size, max_steps=max_steps)
    order, batches = np.random.RandomState(seed), []
    for _ in range(epochs):
        mixed = order.permutation(examples).tolist()
        parts = [mixed[start : start + batch_size] for start in range(0, examples, batch_size)]
        batches += [part for part in parts if len(part) >= smallest]
    if not batches:
        problem = f"{examples} in batches of {batch_size} give no step"
        raise InputError("pairs", problem, f"batches of at least {smallest}")
    return batches[:max_steps]


def _cross_entropy(scores: paddle.Tensor, right: paddle.Tensor) -> paddle.Tensor:
    """In nats; NaN where a score is: Paddle's softmax turns a row of NaN into equal shares."""
    return F.cross_entropy(scores, right) + 0 * scores.sum()


def _twins(texts: Sequence[str]) -> np.ndarray:
    """Whether two different places hold the same text, bool [N, N]."""
    names = np.array(texts, dtype=object)
    return (names[:, None] == names) & ~np.eye(len(names), dtype=bool)


def _text_rows(model: BiEncoder | Predictor, texts: Sequence[str]) -> list[tuple]:
    check_texts(texts)
    length = model.max_length or 64
    return [convert_example({"text": one}, model.tokenizer, length, is_test=True) for one in texts]


def _pair_rows(model: CrossEncoder | Predictor, pairs: Sequence[tuple[str, str]]) -> list[tuple]:
    firsts, seconds = _sides(pairs)
    check_texts([*firsts, *seconds], "pairs")
    examples = (
        {"sentence1": one, "sentence2": two} for one, two in zip(firsts, seconds, strict=True)
    )
    length = model.max_length or 64
    return [convert_example(each, model.tokenizer, length, is_test=True) for each in examples]


def _sides(pairs: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """The first texts and the second ones; a text is a pair of characters to Python."""
    if any(isinstance(pair, str) for pair in pairs):
        raise InputError("pairs", "hold a text", "two texts in each")
    return [first for first, _ in pairs], [second for _, second in pairs]


def _padded(model, rows: list[tuple]) -> list[paddle.Tensor]:
    return [paddle.to_tensor(array) for array in batchify_fn(model.tokenizer, is_test=True)(rows)]


def _outputs(model, kind: type, rows: list[tuple], batch_size: int) -> np.ndarray:
    """The model's first output for each row, in their order."""
    exported = model.description.get("class") if isinstance(model, Predictor) else kind.__name__
    if exported != kind.__name__:  # a classifier's scores would pass for vectors
        raise InputError("model", f"is an export of a {exported}", f"one of a {kind.__name__}")
    batchify, length = batchify_fn(model.tokenizer, is_test=True), model.max_length or 64

    def run(batch: list[tuple]) -> np.ndarray:
        ids, types = batchify(batch)
        room = ((0, 0), (0, min(-ids.shape[1] % STEP, max(0, length - ids.shape[1]))))
        ids = np.pad(ids, room, constant_values=model.tokenizer.pad_token_id)
        types = np.pad(types, room)
        if isinstance(model, Predictor):
            outputs = model.run({"input_ids": ids, "token_type_ids": types})[0]
        else:
            with inference_mode(model):
                outputs = model(paddle.to_tensor(ids), paddle.to_tensor(types)).numpy()
        check_scores(outputs)
        return outputs

    return np.stack(map_by_length(run, rows, batch_size, length=lambda row: len(row[0])))
