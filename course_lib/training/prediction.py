"""A trained model at work: on a labelled loader, and on plain texts."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from course_lib.data import batchify_fn, convert_example
from course_lib.data.batching import map_by_length
from course_lib.data.examples import TEXTS
from course_lib.data.features import IGNORED
from course_lib.runtime import InputError
from course_lib.runtime.visible import is_blank

import numpy as np
import paddle
import paddle.nn.functional as F

NO_NUMBERS = "finite weights: train again with a lower learning_rate, or take another checkpoint"


def forward(model: paddle.nn.Layer, batch) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Logits [batch_size, num_classes] and labels [batch_size] of one batch of a loader.

    Args:
        batch: [input_ids, token_type_ids, labels], or a dict with a key "labels"; ids have shape
            [batch_size, seq_len].
    """
    if isinstance(batch, Mapping):
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        return model(**inputs), batch["labels"]
    *inputs, labels = batch
    return model(*inputs), labels


@contextlib.contextmanager
def inference_mode(model: paddle.nn.Layer) -> Iterator[None]:
    """No dropout and no gradients inside the block; each layer's mode is put back afterwards."""
    with training_mode(model, False), paddle.no_grad():
        yield


@contextlib.contextmanager
def training_mode(model: paddle.nn.Layer, training: bool = True) -> Iterator[None]:
    """Dropout inside the block; each layer's mode is put back afterwards, also after an error."""
    modes = [(layer, layer.training) for layer in model.sublayers(include_self=True)]
    (model.train if training else model.eval)()
    try:
        yield
    finally:
        (model.train if modes[0][1] else model.eval)()
        for layer, before in modes:
            layer.training = before


def check_scores(scores: paddle.Tensor | np.ndarray) -> None:
    """Refuse scores that are not finite: argmax takes NaN for the best one."""
    if not bool(np.isfinite(np.asarray(scores)).all()):
        raise InputError("model", "its scores are infinite or no numbers", NO_NUMBERS)


def evaluate(model: paddle.nn.Layer, loader: paddle.io.DataLoader) -> dict[str, float]:
    """Loss and accuracy over a loader, each example counting the same, also in a short last batch.

    Labels may be those of tokens, [N, L]; where they are -100 nothing is counted.

    Returns:
        {"loss": mean cross entropy in nats, "accuracy": share of right predictions}.

    Raises:
        InputError: the loader is empty, or the loss is not a finite number.
    """
    loss_sum, correct, count = 0.0, 0, 0
    with inference_mode(model):
        for batch in loader:
            logits, labels = forward(model, batch)
            labels = labels.reshape([-1])
            logits = logits.reshape([-1, logits.shape[-1]])
            loss_sum += float(F.cross_entropy(logits, labels, reduction="sum"))
            correct += int((logits.argmax(axis=-1) == labels).sum())
            count += int((labels != IGNORED).sum())
    if count == 0:
        raise InputError("evaluate", "the loader has no examples", "at least one")
    if not math.isfinite(loss_sum):
        raise InputError("model", f"its loss is {loss_sum}", NO_NUMBERS)
    return {"loss": loss_sum / count, "accuracy": correct / count}


def predict(
    model: paddle.nn.Layer,
    data: Iterable[str | Mapping],
    tokenizer,
    batch_size: int = 32,
    max_seq_length: int = 128,
) -> list[dict]:
    """Classify texts; those of similar length share a batch.

    Args:
        data: texts, or examples with a key "text", or pairs with "sentence1" and "sentence2" (a
            MapDataset is such an iterable).

    Returns:
        One dict per text, in the order given: "text" (or the two of a pair), "label" (its name in
        the model's configuration), "probability" (of that label) and "probabilities" (all classes
        by name).

    Raises:
        InputError: a text is empty, `data` is one text, or a score is not a finite number.
    """
    names = model.config.id2label
    if isinstance(data, (str, bytes, Mapping)):
        raise InputError("data", f"is one {type(data).__name__}", "a list of texts or examples")
    examples = [item if isinstance(item, Mapping) else {"text": item} for item in data]
    scores = text_scores(model, tokenizer, examples, batch_size, max_seq_length)
    results = []
    probabilities = F.softmax(paddle.to_tensor(scores), axis=-1).numpy()
    for example, row in zip(examples, probabilities, strict=True):
        best = int(row.argmax())
        results.append(
            {
                **{key: example[key] for key in TEXTS if key in example},
                "label": names[best],
                "probability": float(row[best]),
                "probabilities": {names[i]: float(p) for i, p in enumerate(row)},
            }
        )
    return results


def text_scores(
    model: paddle.nn.Layer,
    tokenizer,
    texts: Sequence[str | Mapping],
    batch_size: int = 32,
    max_seq_length: int = 128,
) -> np.ndarray:
    """A classifier's logits of texts or pairs, float32 [texts, classes], in the order given."""
    examples = [text if isinstance(text, Mapping) else {"text": text} for text in texts]
    check_texts([example[key] for example in examples for key in TEXTS if key in example])
    rows = [convert_example(one, tokenizer, max_seq_length, is_test=True) for one in examples]
    batchify = batchify_fn(tokenizer, is_test=True)

    def run(batch: list[tuple]) -> np.ndarray:
        logits = model(*map(paddle.to_tensor, batchify(batch)))
        check_scores(logits)
        return logits.numpy()

    with inference_mode(model):
        results = map_by_length(run, rows, batch_size, length=lambda row: len(row[0]))
    classes = len(model.config.id2label)
    return np.stack(results) if results else np.zeros((0, classes), "float32")


def check_texts(texts: Sequence[str], name: str = "texts") -> None:
    """Refuse what is not a list of texts with something in each; a model answers blanks as well."""
    if isinstance(texts, (str, bytes)):
        raise InputError(name, "is one text", "a list of texts")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str) or is_blank(text):
            raise InputError(name, f"text {number} is empty or not a string", "a non-empty text")
