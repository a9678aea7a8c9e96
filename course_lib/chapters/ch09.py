"""Chapter 09: a Bi-LSTM, a shallow Transformer taught from inside, and silver labels."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

from course_lib.compression import soft_cross_entropy
from course_lib.data import LengthGroupedBatchSampler, convert_example
from course_lib.data.batching import map_by_length
from course_lib.deploy import Predictor
from course_lib.models import encoder_of
from course_lib.tasks.tagging import LacTagger, cut_words
from course_lib.training.prediction import inference_mode
from course_lib.training.steps import train_steps

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional
from paddlenlp.data import Pad

Ids = Sequence[list[int]]
Layer = Mapping[str, paddle.Tensor]  # "query", "key", "value" and "output" [batch, length, hidden]
PARTS = {"hidden": 1.0, "attention": 0.1, "relations": 1.0}  # of a loss inside, and their weights


class BiLstmForSequenceClassification(nn.Layer):
    """Embeddings, one LSTM in each direction, the largest value over time, a linear layer.

    It reads the ids of a tokenizer of the course, so `export_model` and the service take it.
    Id 0 is padding.
    """

    def __init__(self, vocab_size: int, label_list: Sequence[str], size: int = 128) -> None:
        super().__init__()
        names = dict(enumerate(label_list))
        self.config = SimpleNamespace(id2label=names, pad_token_id=0, task="text")
        self.embedding = nn.Embedding(vocab_size, size, padding_idx=0)
        self.lstm = nn.LSTM(size, size, direction="bidirect")
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(2 * size, len(names))

    def forward(self, input_ids: paddle.Tensor) -> paddle.Tensor:
        """Logits [batch_size, classes] of ids [batch_size, seq_len]."""
        real = input_ids != 0
        lengths = real.astype("int32").sum(axis=-1)
        states, _ = self.lstm(self.dropout(self.embedding(input_ids)), sequence_length=lengths)
        padding = (1 - real.astype("float32")).unsqueeze(-1)
        return self.classifier(self.dropout((states - 1e4 * padding).max(axis=1)))


def text_ids(examples: Sequence[Mapping[str, Any]], tokenizer, max_length: int) -> list[list[int]]:
    """The ids of each text, [CLS] and [SEP] included."""
    return [convert_example(one, tokenizer, max_length, is_test=True)[0] for one in examples]


def _padded(rows: Ids) -> paddle.Tensor:
    return paddle.to_tensor(Pad(pad_val=0, dtype="int64")(list(rows)))


def logits_of(model: nn.Layer | Predictor, rows: Ids, batch_size: int = 64) -> np.ndarray:
    """The logits of a classifier, float32 [texts, classes]; a Predictor is faster."""

    def run(some: list[list[int]]) -> np.ndarray:
        if isinstance(model, Predictor):
            return model.run({"input_ids": _padded(some).numpy()})[0]
        with inference_mode(model):
            return model(_padded(some)).numpy()

    return np.array(map_by_length(run, rows, batch_size), "float32")


def train_on(
    model: nn.Layer,
    rows: Ids,
    loss_on: Callable[[paddle.Tensor, np.ndarray], paddle.Tensor],
    epochs: int,
    learning_rate: float,
    batch_size: int = 32,
    max_steps: int | None = None,
    seed: int = 42,
) -> list[float]:
    """Train on batches of similar length and return the losses.

    Args:
        loss_on: from the padded ids of a batch and its places in `rows` to its loss.
    """
    sampler = LengthGroupedBatchSampler([len(row) for row in rows], batch_size, seed=seed)
    batches = (batch for _ in range(epochs) for batch in sampler)
    steps = min(epochs * len(sampler), max_steps or 10**9)

    def loss_of(chosen: list[int]) -> paddle.Tensor:
        return loss_on(_padded([rows[index] for index in chosen]), np.array(chosen))

    return train_steps(model, batches, loss_of, steps, learning_rate, seed=seed)


def shallow(model: nn.Layer, layers: Sequence[int]) -> nn.Layer:
    """A copy of a Transformer with some of its layers only, in the given order."""
    student = copy.deepcopy(model)
    encoder = encoder_of(student).encoder
    encoder.layers = nn.LayerList([encoder.layers[index] for index in layers])
    encoder.num_layers = student.config.num_hidden_layers = len(layers)
    return student


@contextmanager
def inside(model: nn.Layer) -> Iterator[Sequence[Layer]]:
    """Collect, inside the block, query, key, value and output of each layer of the encoder."""
    seen: list[dict[str, paddle.Tensor]] = []

    def keep(values: dict[str, paddle.Tensor], name: str) -> Callable:
        return lambda layer, inputs, output: values.update({name: output})

    with ExitStack() as stack:
        for layer in encoder_of(model).encoder.layers:
            seen.append({})
            attention = layer.self_attn
            parts = {"query": attention.q_proj, "key": attention.k_proj, "value": attention.v_proj}
            for name, part in (parts | {"output": layer}).items():
                stack.callback(part.register_forward_post_hook(keep(seen[-1], name)).remove)
        yield seen


def relations(first: paddle.Tensor, second: paddle.Tensor, heads: int) -> paddle.Tensor:
    """Scaled products of all pairs of tokens, [batch_size, heads, seq_len, seq_len].

    Query and key give attention scores, and twice the same gives a relation of MiniLM.
    """
    parts = [x.reshape([0, 0, heads, -1]).transpose([0, 2, 1, 3]) for x in (first, second)]
    return paddle.matmul(*parts, transpose_y=True) / parts[0].shape[-1] ** 0.5


def part_loss(
    part: str, student: Layer, teacher: Layer, mask: paddle.Tensor, heads: int
) -> paddle.Tensor:
    """One of `PARTS` for a layer of the student and one of the teacher; padding does not count.

    "hidden" (TinyBERT) is the mean squared difference of the outputs, "attention" (TinyBERT) that
    of the attention scores, "relations" (MiniLM) how far query, key and value relations are apart
    (KL divergence in nats). Only "hidden" needs layers of one width. `mask` is 1.0 for tokens.
    """
    keys = mask.unsqueeze([1, 2])
    if part == "hidden":
        rows = ((student["output"] - teacher["output"]) ** 2).mean(axis=-1)
    elif part == "attention":
        mine, other = (relations(one["query"], one["key"], heads) for one in (student, teacher))
        rows = (((mine - other) ** 2 * keys).sum(axis=-1) / keys.sum(axis=-1)).mean(axis=1)
    else:
        rows = paddle.zeros(mask.shape)
        for name in ("query", "key", "value"):
            both = [relations(each[name], each[name], heads) for each in (student, teacher)]
            mine, other = (functional.log_softmax(one + (keys - 1) * 1e4) for one in both)
            rows = rows + (other.exp() * (other - mine)).sum(axis=-1).mean(axis=1) / 3
    return (rows * mask).sum() / mask.sum()


def layer_loss(
    student: nn.Layer, teacher: nn.Layer, parts: Iterable[str], pairs: Sequence[int]
) -> Callable[[paddle.Tensor, np.ndarray], paddle.Tensor]:
    """A loss for `train_on`: soft cross entropy of the logits, and parts, each a mean over layers.

    Args:
        pairs: for each layer of the student the number of the teacher's; relations compare only
            the last pair, as MiniLM does.
    """
    heads = teacher.config.num_attention_heads

    def loss_on(ids: paddle.Tensor, chosen: np.ndarray) -> paddle.Tensor:
        mask = (ids != 0).astype("float32")
        with paddle.no_grad(), inside(teacher) as known:
            wanted = teacher(ids)
        with inside(student) as seen:
            loss = soft_cross_entropy(student(ids), wanted)
        matched = [(mine, known[index]) for mine, index in zip(seen, pairs, strict=True)]
        for part in parts:
            used = matched[-1:] if part == "relations" else matched
            found = sum(part_loss(part, *pair, mask, heads) for pair in used) / len(used)
            loss += PARTS[part] * found
        return loss

    return loss_on


def silver_examples(
    lac: LacTagger, sentences: Sequence[Sequence[str]], label_list: Sequence[str]
) -> list[dict[str, Any]]:
    """What LAC calls PER, LOC or ORG, as BIO labels of each character."""
    examples = []
    texts = ["".join(tokens) for tokens in sentences]
    for tokens, words in zip(sentences, cut_words(lac, texts), strict=True):
        labels: list[int] = []
        for word, kind in words:
            begin = label_list.index(f"B-{kind}") if f"B-{kind}" in label_list else 0
            labels += [begin, *[begin + 1 if begin else 0] * (len(word) - 1)]
        examples.append({"tokens": list(tokens), "labels": labels})
    return examples
