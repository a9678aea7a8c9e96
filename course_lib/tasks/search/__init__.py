"""Semantic search: bi-encoders, cross-encoders and an index.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "BiEncoder": "encoders",
    "CharacterIndex": "index",
    "CrossEncoder": "encoders",
    "distil_encoder": "encoders",
    "encode": "encoders",
    "first_layers": "encoders",
    "fuse": "index",
    "hard_negatives": "encoders",
    "recall_at_k": "index",
    "rerank": "encoders",
    "score_pairs": "encoders",
    "SentenceIndex": "index",
    "text_halves": "encoders",
    "train_bi_encoder": "encoders",
    "train_cross_encoder": "encoders",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
