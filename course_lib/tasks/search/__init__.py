"""Semantic search: bi-encoders, cross-encoders and an index.

Names load on first use.
"""

from ...runtime.lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    encoders=(
        "BiEncoder CrossEncoder encode rerank score_pairs train_bi_encoder train_cross_encoder"
    ),
    index="SentenceIndex fuse",
)
