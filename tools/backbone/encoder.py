"""A BERT-style encoder in PyTorch that computes what PaddleNLP's ErnieModel computes.

Weights carry Hugging Face's BERT names, so `course_lib.models.convert` can read them. Post-layer
normalization, exact GELU, layer_norm_eps 1e-12, a tanh pooler, tied masked-LM decoder.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, CLS, SEP, MASK, UNK = range(5)
SPECIAL = 5  # ids below are special tokens


@dataclass
class Shape:
    """Sizes of an encoder."""

    vocab_size: int
    num_hidden_layers: int = 4
    hidden_size: int = 384
    num_attention_heads: int = 12
    intermediate_size: int = 1536
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    dropout: float = 0.0

    asdict = asdict


def _linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


def _embedding(rows: int, width: int) -> nn.Embedding:
    layer = nn.Embedding(rows, width)
    nn.init.normal_(layer.weight, std=0.02)
    return layer


class _Embeddings(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.word_embeddings = _embedding(shape.vocab_size, shape.hidden_size)
        self.position_embeddings = _embedding(shape.max_position_embeddings, shape.hidden_size)
        self.token_type_embeddings = _embedding(shape.type_vocab_size, shape.hidden_size)
        self.LayerNorm = nn.LayerNorm(shape.hidden_size, eps=1e-12)
        self.dropout = shape.dropout

    def forward(self, ids: Tensor, types: Tensor | None) -> Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device)
        hidden = self.word_embeddings(ids) + self.position_embeddings(positions)
        if types is None:
            hidden = hidden + self.token_type_embeddings.weight[0]
        else:
            hidden = hidden + self.token_type_embeddings(types)
        return F.dropout(self.LayerNorm(hidden), self.dropout, self.training)


class _SelfAttention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        for name in ("query", "key", "value"):
            self.add_module(name, _linear(shape.hidden_size, shape.hidden_size))
        self.heads, self.dropout = shape.num_attention_heads, shape.dropout

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = hidden.shape
        three = (self.query, self.key, self.value)
        weight = torch.cat([layer.weight for layer in three])
        bias = torch.cat([layer.bias for layer in three])
        joined = F.linear(hidden, weight, bias).view(batch, length, 3, self.heads, -1)
        query, key, value = joined.permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, mask, dropout)
        return context.transpose(1, 2).reshape(batch, length, width)


class _Output(nn.Module):
    def __init__(self, inputs: int, shape: Shape) -> None:
        super().__init__()
        self.dense = _linear(inputs, shape.hidden_size)
        self.LayerNorm = nn.LayerNorm(shape.hidden_size, eps=1e-12)
        self.dropout = shape.dropout

    def forward(self, new: Tensor, residual: Tensor) -> Tensor:
        new = F.dropout(self.dense(new), self.dropout, self.training)
        return self.LayerNorm(residual + new)


class _Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {"self": _SelfAttention(shape), "output": _Output(shape.hidden_size, shape)}
        )
        self.intermediate = nn.ModuleDict(
            {"dense": _linear(shape.hidden_size, shape.intermediate_size)}
        )
        self.output = _Output(shape.intermediate_size, shape)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        hidden = self.attention["output"](self.attention["self"](hidden, mask), hidden)
        return self.output(F.gelu(self.intermediate["dense"](hidden)), hidden)


class Encoder(nn.Module):
    """Embeddings, layers and pooler."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embeddings = _Embeddings(shape)
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList(_Layer(shape) for _ in range(shape.num_hidden_layers))}
        )
        self.pooler = nn.ModuleDict({"dense": _linear(shape.hidden_size, shape.hidden_size)})

    def forward(self, ids: Tensor, types: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(sequence_output [B, T, H], pooled_output [B, H]); padding is masked out."""
        mask = (ids != PAD)[:, None, None, :]
        hidden = self.embeddings(ids, types)
        for layer in self.encoder["layer"]:
            hidden = layer(hidden, mask)
        return hidden, torch.tanh(self.pooler["dense"](hidden[:, 0]))


class MaskedLM(nn.Module):
    """An encoder with BERT's masked-LM head; the decoder shares the word embeddings."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.bert = Encoder(shape)
        transform = {
            "dense": _linear(shape.hidden_size, shape.hidden_size),
            "LayerNorm": nn.LayerNorm(shape.hidden_size, eps=1e-12),
        }
        self.cls = nn.ModuleDict(
            {"predictions": nn.ModuleDict({"transform": nn.ModuleDict(transform)})}
        )
        self.cls["predictions"].register_parameter(
            "bias", nn.Parameter(torch.zeros(shape.vocab_size))
        )

    def scores(self, hidden: Tensor) -> Tensor:
        """Scores [N, vocab_size] of hidden states [N, H]."""
        head = self.cls["predictions"]
        hidden = head["transform"]["LayerNorm"](F.gelu(head["transform"]["dense"](hidden)))
        return F.linear(hidden, self.bert.embeddings.word_embeddings.weight, head.bias)


class Head(nn.Module):
    """A classifier on the pooled output (one label a text) or on every token."""

    def __init__(self, encoder: Encoder, width: int, classes: int, tokens: bool) -> None:
        super().__init__()
        self.bert, self.tokens, self.dropout = encoder, tokens, 0.0
        self.classifier = _linear(width, classes)

    def forward(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        sequence, pooled = self.bert(ids, types)
        hidden = F.dropout(sequence if self.tokens else pooled, self.dropout, self.training)
        return self.classifier(hidden)


def set_dropout(module: nn.Module, rate: float) -> None:
    """Change the dropout rate of every part."""
    for part in module.modules():
        if hasattr(part, "dropout"):
            part.dropout = rate
