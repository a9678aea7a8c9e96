"""A small classifier that starts from random weights: a text CNN.

It reads ids of words or characters, padded on the right, and gives the same logits however much
padding a batch has. `fit`, `evaluate` and `predict` take it as they take a transformer.
"""

from __future__ import annotations

from collections.abc import Sequence

import paddle
from paddle import nn
from paddlenlp.transformers import PretrainedConfig

LEARNING_RATE = 1e-3


class TextCNN(nn.Layer):
    """Convolutions over the embeddings, the maximum over time, one linear layer.

    After Yoon Kim, "Convolutional Neural Networks for Sentence Classification", EMNLP 2014
    (https://aclanthology.org/D14-1181/), with one channel of embeddings that are trained.

    Args:
        vocab_size: number of ids.
        num_classes: number of classes.
        pad_id: the id of the padding.
        embedding_size: width of the embeddings.
        num_filters: filters of each width.
        filter_widths: how many tokens a filter sees.
        dropout: before the linear layer.
        label_list: names of the classes for `predict`.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int = 2,
        pad_id: int = 0,
        embedding_size: int = 128,
        num_filters: int = 64,
        filter_widths: Sequence[int] = (2, 3, 4),
        dropout: float = 0.5,
        label_list: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.config = PretrainedConfig(  # what `predict` and `suggested_learning_rate` read
            num_labels=num_classes, pad_token_id=pad_id, suggested_learning_rate=LEARNING_RATE
        )
        if label_list is not None:
            self.config.id2label = dict(enumerate(label_list))
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        self.convolutions = nn.LayerList(
            nn.Conv1D(embedding_size, num_filters, width, padding=width // 2)
            for width in filter_widths
        )
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(num_filters * len(filter_widths), num_classes)

    def forward(
        self, input_ids: paddle.Tensor, token_type_ids: paddle.Tensor | None = None
    ) -> paddle.Tensor:
        """Classify a batch.

        Args:
            input_ids: int64 of shape [batch_size, seq_len], padded on the right.
            token_type_ids: not used; loaders give them.

        Returns:
            Logits of shape [batch_size, num_classes].
        """
        mask = _mask(input_ids, self.config.pad_token_id)  # [N, L, 1]
        # A zero vector is what a convolution sees beyond the edges, so padding is beyond the edge.
        embedded = (self.embedding(input_ids) * mask).transpose([0, 2, 1])  # [N, E, L]
        outside = (1 - mask).transpose([0, 2, 1]) * -1e9
        pooled = []
        for convolution in self.convolutions:
            features = convolution(embedded)[:, :, : input_ids.shape[1]]  # even widths give L + 1
            pooled.append(nn.functional.relu((features + outside).max(axis=-1)))
        return self.classifier(self.dropout(paddle.concat(pooled, axis=-1)))


def _mask(input_ids: paddle.Tensor, pad_id: int) -> paddle.Tensor:
    """1.0 for tokens and 0.0 for padding; a row of padding alone counts as one token of it."""
    real = (input_ids != pad_id).astype("float32")
    first = paddle.zeros_like(real)
    first[:, 0] = 1.0
    return paddle.maximum(real, first).unsqueeze(-1)
