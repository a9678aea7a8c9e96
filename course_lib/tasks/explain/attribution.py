"""Why a model predicts a label: what each token of a text contributes to its score."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...data import convert_example
from ...runtime import InputError
from ...runtime.errors import whole
from ...training.prediction import check_scores, check_texts, inference_mode

import numpy as np
import paddle
from paddlenlp.transformers import PretrainedModel
from sklearn.linear_model import Ridge

BATCH = 64  # texts per model run
KERNEL = 0.25  # LIME's: a sample counts exp(-d² / KERNEL²), d its cosine distance to the text


@dataclass(frozen=True)
class Attribution:
    """What each token of a text contributes to the score of a label.

    The score is the log-odds of the label's probability, log(p / (1 - p)): unlike a probability it
    is a sum of parts, and it does not level off where the model is sure.

    Attributes:
        tokens: of the text, [CLS] and [SEP] left out.
        scores: one per token; above 0 supports the label. Units: log-odds.
        label: the index of the explained label.
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
) -> Attribution:
    """Explain a prediction by masking one token at a time; the loss of score is the token's part.

    As many model runs as tokens. Where either of two tokens is enough, both get nothing.

    Args:
        label: the class to explain; None: the most probable one.

    Raises:
        InputError: the text is empty, or has more tokens than the model has positions; the model
            has no such class.

    Source: Li et al., "Understanding Neural Networks through Representation Erasure", 2016.
    """
    question = _Question.of_text(model, tokenizer, text, label, max_seq_length)
    count = len(question.tokens)
    kept = np.concatenate([np.ones((1, count), dtype=bool), ~np.eye(count, dtype=bool)])
    values = question.scores(kept)
    return question.answer(values[0] - values[1:])


def lime(
    model: PretrainedModel,
    tokenizer,
    text: str,
    label: int | None = None,
    samples: int = 300,
    seed: int = 42,
    max_seq_length: int = 128,
) -> Attribution:
    """Explain a prediction by a linear model of what happens when tokens are masked at random.

    In each sample a random number of random tokens becomes [MASK]; ridge regression on which tokens
    are left gives each token's weight. Samples close to the text count more.

    Args:
        samples: model runs; more give more stable weights.
        Others and errors as for `occlusion`.

    Source: Ribeiro et al., "Why Should I Trust You?", KDD 2016.
    """
    question = _Question.of_text(model, tokenizer, text, label, max_seq_length)
    draw, count = np.random.RandomState(seed), len(question.tokens)
    kept = np.ones((samples, count), dtype=bool)
    for row in kept[1:]:  # the first is the text itself
        row[draw.choice(count, draw.randint(1, count + 1), replace=False)] = False
    values = question.scores(kept)
    distance = 1 - np.sqrt(kept.mean(axis=1))  # cosine of a 0/1 vector to the vector of ones
    near = np.exp(-((distance / KERNEL) ** 2))
    linear = Ridge(alpha=1.0).fit(kept, values, sample_weight=near)
    error = 1 - linear.score(kept, values, sample_weight=near)
    return question.answer(linear.coef_, error)


def integrated_gradients(
    model: PretrainedModel,
    tokenizer,
    text: str,
    label: int | None = None,
    steps: int = 64,
    max_seq_length: int = 128,
    batch_size: int = 16,
) -> Attribution:
    """Explain a prediction by gradients along the path from a masked text to the text.

    The word vectors move in a straight line from those of [MASK] to the text's own. The gradient of
    the score, integrated along the path, is a token's part. The parts add up to the difference of
    the two scores (completeness): `error` says by how much this is missed. The score of a sure
    model changes within a small part of the path, so the points are placed there.

    Gradients of the model's parameters are cleared.

    Args:
        steps: points on the path, two in each of steps / 2 intervals; more make `error` smaller.
        Others and errors as for `occlusion`.

    Source: Sundararajan et al., "Axiomatic Attribution for Deep Networks", ICML 2017.
    """
    question = _Question.of_text(model, tokenizer, text, label, max_seq_length)
    table = model.get_input_embeddings()
    everything = np.ones((1, len(question.tokens)), dtype=bool)
    ids, masked = question.ids_of(everything), question.ids_of(~everything)

    def score(points: np.ndarray) -> tuple[paddle.Tensor, paddle.Tensor]:
        """The scores at points from 0 to 1, and the word vectors there."""
        vectors = base + paddle.to_tensor(points.astype("float32").reshape([-1, 1, 1])) * way
        vectors.stop_gradient = False
        # in place of what the table looks up, so the model itself is asked as always
        hook = table.register_forward_post_hook(lambda *_: vectors)
        try:
            return question.run(np.repeat(ids, len(points), axis=0)), vectors
        finally:
            hook.remove()

    def values(points: np.ndarray) -> np.ndarray:
        return np.concatenate([score(part)[0].numpy() for part in _parts(points, batch_size)])

    try:
        with inference_mode(model):
            base = table(paddle.to_tensor(masked))  # [1, L, H]
            way = table(paddle.to_tensor(ids)) - base
            edges = _edges(values, steps // 2)
            middles, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
            points = np.concatenate([middles - halves / 3**0.5, middles + halves / 3**0.5])  # Gauss
            weights, total = np.concatenate([halves, halves]), np.zeros(way.shape[1])
            for chosen in _parts(np.arange(len(points)), batch_size):
                with paddle.enable_grad():
                    values_there, vectors = score(points[chosen])
                    # not paddle.grad: without a gradient of its scale, layer_norm's
                    # derivative is wrong on the CPU (see models/patches.py)
                    values_there.sum().backward()
                total += weights[chosen] @ (vectors.grad * way).sum(axis=-1).numpy()
    finally:
        model.clear_gradients()
    return question.answer(total[question.places])


def _edges(values: Callable[[np.ndarray], np.ndarray], intervals: int) -> np.ndarray:
    """Cut the path from 0 to 1 into intervals, halving those where the values change most."""
    edges = np.linspace(0, 1, max(1, intervals // 4) + 1)
    scores = values(edges)
    while len(edges) - 1 < intervals:
        change = np.abs(np.diff(scores))
        count = min(intervals + 1 - len(edges), max(1, len(change) // 4))
        # where nothing changes, the longest interval is halved
        widest = np.lexsort((-np.diff(edges), -change))[:count]
        middles = (edges[widest] + edges[widest + 1]) / 2
        edges, scores = np.append(edges, middles), np.append(scores, values(middles))
        order = np.argsort(edges, kind="stable")
        edges, scores = edges[order], scores[order]
    return edges


def deletion_curve(
    model: PretrainedModel, tokenizer, attribution: Attribution, order: str = "for", draws: int = 10
) -> np.ndarray:
    """The probability of the label while tokens are masked one after another.

    With a good explanation it falls fast in the order "for", and rises or holds in the order
    "against"; compare with "random", the mean of some random orders.

    Args:
        order: "for" (the strongest support first), "against" or "random".
        draws: how many random orders.

    Returns:
        Probabilities [tokens + 1], from the whole text to none of it.

    Source: the area under such a curve: Petsiuk et al., "RISE", BMVC 2018; for text, DeYoung et
    al., "ERASER", ACL 2020 (comprehensiveness).
    """
    count = len(attribution.tokens)
    ranked = np.argsort(-attribution.scores, kind="stable")
    draw = np.random.RandomState(42)
    orders = {
        "for": [ranked],
        "against": [ranked[::-1]],
        "random": [draw.permutation(count) for _ in range(draws)],
    }
    question = _Question(model, tokenizer, attribution.ids, attribution.label)
    curves = []
    for places in orders[order]:
        kept = np.ones((count + 1, count), dtype=bool)
        for step, place in enumerate(places, start=1):
            kept[step:, place] = False
        curves.append(1 / (1 + np.exp(-question.scores(kept))))
    return np.mean(curves, axis=0)


class _Question:
    """A model, a text and a label, scored again and again with some of the tokens masked."""

    def __init__(self, model, tokenizer, ids: list[int], label: int | None) -> None:
        self.model, self.mask = model, tokenizer.mask_token_id
        self.ids = np.asarray(ids, dtype="int64")
        positions = model.config.max_position_embeddings
        if not 3 <= len(self.ids) <= positions:
            problem = f"has {len(self.ids)} tokens with [CLS] and [SEP]"
            raise InputError("text", problem, f"3 to {positions}, the model's positions")
        self.places = np.arange(1, len(self.ids) - 1)  # between [CLS] and [SEP]
        self.tokens = tokenizer.convert_ids_to_tokens(self.ids[self.places].tolist())
        with inference_mode(model):
            logits = model(paddle.to_tensor(self.ids[None]))
        check_scores(logits)
        best = int(logits.argmax()) if label is None else label
        self.label = whole("label", best, 0, logits.shape[-1] - 1)  # -1 would give a wrong sum

    @classmethod
    def of_text(cls, model, tokenizer, text: str, label: int | None, max_seq_length: int):
        check_texts([text], "text")
        ids, _ = convert_example({"text": text}, tokenizer, max_seq_length, is_test=True)
        return cls(model, tokenizer, ids, label)

    def ids_of(self, kept: np.ndarray) -> np.ndarray:
        """Ids [rows, length] of the text, masked where kept [rows, tokens] is False."""
        ids = np.repeat(self.ids[None], len(kept), axis=0)
        ids[:, self.places] = np.where(kept, ids[:, self.places], self.mask)
        return ids

    def scores(self, kept: np.ndarray) -> np.ndarray:
        """Log-odds of the label [rows] for kept [rows, tokens]."""
        with inference_mode(self.model):
            rows = [self.run(ids).numpy() for ids in _parts(self.ids_of(kept), BATCH)]
        return np.concatenate(rows).astype("float64")

    def run(self, ids: np.ndarray) -> paddle.Tensor:
        logits = self.model(paddle.to_tensor(ids), paddle.zeros(ids.shape, dtype="int64"))
        others = [index for index in range(logits.shape[-1]) if index != self.label]
        # log(p / (1 - p)) = own logit - log of the sum of exp of the others'
        return logits[:, self.label] - paddle.logsumexp(
            paddle.index_select(logits, paddle.to_tensor(others), axis=1), axis=-1
        )

    def answer(self, scores: np.ndarray, error: float | None = None) -> Attribution:
        """Scores of tokens as an Attribution; `error` None is what their sum misses."""
        whole_text = np.ones((1, len(self.tokens)), dtype=bool)
        score, base = map(float, self.scores(np.concatenate([whole_text, ~whole_text])))
        scores = np.asarray(scores, dtype="float64")
        if error is None:
            error = abs(scores.sum() - (score - base)) / max(abs(score - base), 1e-6)
        return Attribution(
            self.tokens, scores, self.label, score, base, float(error), self.ids.tolist()
        )


def _parts(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (rows[start : start + size] for start in range(0, len(rows), size))
