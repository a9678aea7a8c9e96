"""Answers about why a model says what it says: what each token of a text speaks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from course_lib.data import convert_example
from course_lib.runtime import InputError
from course_lib.runtime.errors import finite, whole
from course_lib.runtime.visible import is_blank
from course_lib.training.prediction import check_scores, inference_mode

import numpy as np
import paddle
from paddlenlp.transformers import PretrainedModel
from sklearn.linear_model import Ridge


@dataclass(frozen=True)
class Attribution:
    """What each token of a text adds to the score of a label.

    The score is the log-odds of the label's probability, log(p / (1 - p)): it is a sum of parts
    where a probability is not, and does not level off where the model is sure.

    Attributes:
        tokens: of the text, [CLS] and [SEP] left out.
        scores: one a token; above 0 speaks for the label. Units: log-odds.
        label: the index of the label that is explained.
        score: the log-odds of the text.
        base: the log-odds of the text with every token masked.
        error: LIME: 1 - R² of the linear model on its samples. Otherwise the difference between the
            sum of the scores and score - base, as a share of the latter.
        ids: of the whole text, [CLS] and [SEP] included.
    """

    tokens: list[str]
    scores: np.ndarray
    label: int
    score: float
    base: float
    error: float
    ids: list[int]

    @property
    def probability(self) -> float:
        """The model's probability of the label."""
        return 1 / (1 + math.exp(-self.score))


def occlusion(
    model: PretrainedModel,
    tokenizer,
    text: str,
    label: int | None = None,
    max_seq_length: int = 128,
    batch_size: int = 64,
) -> Attribution:
    """Explain a prediction by masking one token at a time: what the score loses is the token's.

    As many model runs as tokens. Where either of two tokens is enough both get nothing.

    Args:
        label: the class to explain; None: the most probable one.

    Raises:
        InputError: an empty text, a label that is none.

    Source: Li et al., "Understanding Neural Networks through Representation Erasure", 2016.
    """
    asked = _Question(model, tokenizer, text, label, max_seq_length, batch_size)
    count = len(asked.tokens)
    kept = np.concatenate([np.ones((1, count), dtype=bool), ~np.eye(count, dtype=bool)])
    values = asked.scores(kept)
    return asked.answer(values[0] - values[1:])


def lime(
    model: PretrainedModel,
    tokenizer,
    text: str,
    label: int | None = None,
    samples: int = 300,
    width: float = 0.25,
    seed: int = 42,
    max_seq_length: int = 128,
    batch_size: int = 64,
) -> Attribution:
    """Explain a prediction by a linear model of what happens when tokens are masked at random.

    For each sample a random number of random tokens becomes [MASK]; ridge regression on which
    tokens are left gives each one's weight. Samples near the text count more.

    Args:
        label: the class to explain; None: the most probable one.
        samples: model runs; more give steadier weights.
        width: of the kernel exp(-d² / width²), d the cosine distance to the unmasked text.

    Raises:
        InputError: an empty text, a label that is none, too few samples.

    Source: Ribeiro et al., "Why Should I Trust You?", KDD 2016.
    """
    samples = whole("samples", samples, 10)
    width, seed = finite("width", width, 0), whole("seed", seed, 0, 2**32 - 1)
    asked = _Question(model, tokenizer, text, label, max_seq_length, batch_size)
    draw, count = np.random.RandomState(seed), len(asked.tokens)
    kept = np.ones((samples, count), dtype=bool)
    for row in kept[1:]:  # the first is the text itself
        row[draw.choice(count, draw.randint(1, count + 1), replace=False)] = False
    values = asked.scores(kept)
    distance = 1 - np.sqrt(kept.mean(axis=1))  # cosine of a 0/1 vector to the vector of ones
    near = np.exp(-((distance / width) ** 2))
    linear = Ridge(alpha=1.0).fit(kept, values, sample_weight=near)
    error = 1 - linear.score(kept, values, sample_weight=near)
    return asked.answer(linear.coef_, error)


def integrated_gradients(
    model: PretrainedModel,
    tokenizer,
    text: str,
    label: int | None = None,
    steps: int = 64,
    max_seq_length: int = 128,
    batch_size: int = 16,
) -> Attribution:
    """Explain a prediction by gradients along the way from a masked text to the text.

    The word vectors go in a straight line from those of [MASK] to the text's own; the gradient of
    the score, summed up over the way and multiplied by the way, is a token's part. The parts sum up
    to the difference of the two scores (completeness): `error` says how far this is missed. A sure
    model changes its mind within a small stretch of the way, so points are set where it does.

    Gradients that the model's parameters have are cleared.

    Args:
        label: the class to explain; None: the most probable one.
        steps: points on the way, two in each of steps / 2 stretches; more make `error` smaller.

    Raises:
        InputError: an empty text, a label that is none, fewer than 2 steps.

    Source: Sundararajan et al., "Axiomatic Attribution for Deep Networks", ICML 2017.
    """
    steps = whole("steps", steps, 2)
    asked = _Question(model, tokenizer, text, label, max_seq_length, batch_size)
    table = model.get_input_embeddings()
    everything = np.ones((1, len(asked.tokens)), dtype=bool)
    ids = asked.ids_of(everything)
    with paddle.no_grad():
        base = table(paddle.to_tensor(asked.ids_of(~everything)))  # [1, L, H]
        way = table(paddle.to_tensor(ids)) - base

    def score(points: np.ndarray) -> tuple[paddle.Tensor, paddle.Tensor]:
        """The scores at points from 0 to 1, and the word vectors there."""
        vectors = base + paddle.to_tensor(points.astype("float32").reshape([-1, 1, 1])) * way
        vectors.stop_gradient = False
        # in place of what the table looks up, so the model itself is asked as always
        hook = table.register_forward_post_hook(lambda *_: vectors)
        try:
            return asked.run(np.repeat(ids, len(points), axis=0)), vectors
        finally:
            hook.remove()

    def values(points: np.ndarray) -> np.ndarray:
        parts = range(0, len(points), batch_size)
        with paddle.no_grad():
            return np.concatenate([score(points[i : i + batch_size])[0].numpy() for i in parts])

    was_training, total = model.training, np.zeros(way.shape[1])
    model.eval()
    try:
        edges = _edges(values, steps // 2)
        middles, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        points = np.concatenate([middles - halves / 3**0.5, middles + halves / 3**0.5])  # Gauss
        weights = np.concatenate([halves, halves])
        for start in range(0, len(points), batch_size):
            chosen = slice(start, start + batch_size)
            with paddle.enable_grad():
                found, vectors = score(points[chosen])
                # not paddle.grad(found, vectors): without a gradient of its scale, layer_norm's
                # derivative is wrong on the CPU (see models/patches.py)
                found.sum().backward()
            total += weights[chosen] @ (vectors.grad * way).sum(axis=-1).numpy()
    finally:
        model.clear_gradients()
        if was_training:
            model.train()
    return asked.answer(total[asked.places])


def _edges(values: Callable[[np.ndarray], np.ndarray], stretches: int) -> np.ndarray:
    """Cut the way from 0 to 1 into stretches, in halves wherever the values change most."""
    edges = np.linspace(0, 1, max(1, stretches // 4) + 1)
    found = values(edges)
    while len(edges) - 1 < stretches:
        change = np.abs(np.diff(found))
        count = min(stretches + 1 - len(edges), max(1, len(change) // 4))
        # where nothing changes the longest stretch is halved
        most = np.lexsort((-np.diff(edges), -change))[:count]
        fresh = (edges[most] + edges[most + 1]) / 2
        edges, found = np.append(edges, fresh), np.append(found, values(fresh))
        order = np.argsort(edges)
        edges, found = edges[order], found[order]
    return edges


def deletion_curve(
    model: PretrainedModel,
    tokenizer,
    attribution: Attribution,
    order: str = "for",
    draws: int = 10,
    seed: int = 42,
    batch_size: int = 64,
) -> np.ndarray:
    """The probability of the label while tokens are masked one after another.

    A good explanation falls fast in the order "for" and rises, or holds, in the order "against";
    compare with "random", the mean of some random orders.

    Args:
        order: "for" (what speaks most for the label first), "against" or "random".
        draws: how many random orders.

    Returns:
        Probabilities [tokens + 1], from the whole text to none of it.

    Raises:
        InputError: an unknown order, no draws.

    Source: the area under such a curve: Petsiuk et al., "RISE", BMVC 2018; for text, DeYoung et
    al., "ERASER", ACL 2020 (comprehensiveness).
    """
    count, draws = len(attribution.tokens), whole("draws", draws, 1)
    seed = whole("seed", seed, 0, 2**32 - 1)
    ranked = np.argsort(-attribution.scores, kind="stable")
    draw = np.random.RandomState(seed)
    orders = {
        "for": [ranked],
        "against": [ranked[::-1]],
        "random": [draw.permutation(count) for _ in range(draws)],
    }
    if order not in list(orders):
        raise InputError("order", f"is {order!r}", ", ".join(orders))
    asked = _Question(model, tokenizer, None, attribution.label, None, batch_size, attribution.ids)
    curves = []
    for places in orders[order]:
        kept = np.ones((count + 1, count), dtype=bool)
        for step, place in enumerate(places, start=1):
            kept[step:, place] = False
        curves.append(1 / (1 + np.exp(-asked.scores(kept))))
    return np.mean(curves, axis=0)


class _Question:
    """A model, a text and a label: asked again and again with some of the tokens masked."""

    def __init__(self, model, tokenizer, text, label, max_seq_length, batch_size, ids=None) -> None:
        self.batch_size = whole("batch_size", batch_size, 1)
        if ids is None:
            if not isinstance(text, str) or is_blank(text):
                problem = "is empty" if isinstance(text, str) else f"is {type(text).__name__}"
                raise InputError("text", problem, "a text to explain")
            row = convert_example({"text": text}, tokenizer, max_seq_length, is_test=True)
            ids = row[0]
        if tokenizer.mask_token_id is None:
            raise InputError("tokenizer", "has no [MASK]", "a tokenizer with a mask token")
        self.model, self.mask = model, tokenizer.mask_token_id
        self.ids = np.asarray(ids, dtype="int64")
        if len(self.ids) < 3:
            raise InputError("text", "has no token that the model reads", "a text to explain")
        most = model.config.max_position_embeddings
        if len(self.ids) > most:
            problem = f"lets {len(self.ids)} tokens pass"
            raise InputError("max_seq_length", problem, f"at most {most}, the model's positions")
        self.places = np.arange(1, len(self.ids) - 1)  # between [CLS] and [SEP]
        self.tokens = tokenizer.convert_ids_to_tokens(self.ids[self.places].tolist())
        logits = self._logits(self.ids[None])
        classes = logits.shape[-1]
        if label is None:
            label = int(logits.argmax())
        self.label = whole("label", label, 0, classes - 1)

    def ids_of(self, kept: np.ndarray) -> np.ndarray:
        """Ids [rows, length] of the text, masked where kept [rows, tokens] is False."""
        ids = np.repeat(self.ids[None], len(kept), axis=0)
        ids[:, self.places] = np.where(kept, ids[:, self.places], self.mask)
        return ids

    def scores(self, kept: np.ndarray) -> np.ndarray:
        """Log-odds of the label [rows] for kept [rows, tokens]."""
        ids = self.ids_of(kept)
        starts = range(0, len(ids), self.batch_size)
        with inference_mode(self.model):
            parts = [self.run(ids[start : start + self.batch_size]).numpy() for start in starts]
        return np.concatenate(parts).astype("float64")

    def run(self, ids: np.ndarray) -> paddle.Tensor:
        logits = self.model(paddle.to_tensor(ids), paddle.zeros(ids.shape, dtype="int64"))
        others = [index for index in range(logits.shape[-1]) if index != self.label]
        # log(p / (1 - p)) = own logit - log of the sum of exp of the others'
        return logits[:, self.label] - paddle.logsumexp(
            paddle.index_select(logits, paddle.to_tensor(others), axis=1), axis=-1
        )

    def _logits(self, ids: np.ndarray) -> np.ndarray:
        with inference_mode(self.model):
            logits = self.model(paddle.to_tensor(ids), paddle.zeros(ids.shape, dtype="int64"))
        if not isinstance(logits, paddle.Tensor) or logits.ndim != 2 or logits.shape[-1] < 2:
            raise InputError("model", "gives no logits of two or more classes", "a classifier")
        check_scores(logits)
        return logits.numpy()

    def answer(self, scores: np.ndarray, error: float | None = None) -> Attribution:
        """Scores of tokens as an Attribution; `error` None is what their sum misses."""
        whole_text = np.ones((1, len(self.tokens)), dtype=bool)
        score, base = self.scores(np.concatenate([whole_text, ~whole_text]))
        if error is None:
            error = abs(scores.sum() - (score - base)) / max(abs(score - base), 1e-6)
        return Attribution(
            self.tokens,
            np.asarray(scores, dtype="float64"),
            self.label,
            float(score),
            float(base),
            float(error),
            self.ids.tolist(),
        )
