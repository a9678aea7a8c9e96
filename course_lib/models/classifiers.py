"""A small classifier that starts from random weights: a text CNN.

It reads ids of words or characters, padded on the right, and gives the same logits however much
padding a batch has. `fit`, `evaluate` and `predict` take it as they take a transformer.
"""

from collections.abc import Sequence

import paddle
from paddle import nn
from paddlenlp.transformers import PretrainedConfig

EMBEDDING, FILTERS, WIDTHS = 128, 64, (2, 3, 4)  # filters of each width; tokens that one sees
LEARNING_RATE, DROPOUT = 1e-3, 0.5


class TextCNN(nn.Layer):
    """Convolutions over the embeddings, the maximum over time, one linear layer.

    After Yoon Kim, "Convolutional Neural Networks for Sentence Classification", EMNLP 2014
    (https://aclanthology.org/D14-1181/), with one channel of embeddings that are trained.

    Args:
        vocab_size: number of ids.
        num_classes: number of classes.
        pad_id: the id of the padding.
        label_list: names of the classes for `predict`.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int = 2,
        pad_id: int = 0,
        label_list: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.config = PretrainedConfig(  # what `predict` and `suggested_learning_rate` read
            num_labels=num_classes, pad_token_id=pad_id, suggested_learning_rate=LEARNING_RATE
        )
        if label_list is not None:
            self.config.id2label = dict(enumerate(label_list))
        self.embedding = nn.Embedding(vocab_size, EMBEDDING)
        self.convolutions = nn.LayerList(
            nn.Conv1D(EMBEDDING, FILTERS, width, padding=width // 2) for width in WIDTHS
        )
        self.dropout = nn.Dropout(DROPOUT)
        self.classifier = nn.Linear(FILTERS * len(WIDTHS), num_classes)

    def forward(
        self, input_ids: paddle.Tensor, token_type_ids: paddle.Tensor | None = None
    ) -> paddle.Tensor:
        """Give logits [batch_size, num_classes] for ids [batch_size, length], padded on the right.

        Loaders give token_type_ids; they are not used.
        """
        mask = (input_ids != self.config.pad_token_id).astype("float32").unsqueeze(-1)  # [N, L, 1]
        # A zero vector is what a convolution sees beyond the edges, so padding is beyond the edge.
        embedded = (self.embedding(input_ids) * mask).transpose([0, 2, 1])  # [N, E, L]
        outside = (1 - mask).transpose([0, 2, 1]) * -1e9
        pooled = []
        for convolution in self.convolutions:
            features = convolution(embedded)[:, :, : input_ids.shape[1]]  # even widths give L + 1
            pooled.append(nn.functional.relu((features + outside).max(axis=-1)))
        return self.classifier(self.dropout(paddle.concat(pooled, axis=-1)))
