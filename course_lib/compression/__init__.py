"""Smaller and faster models: pruning, distillation, quantization. Names load on first use."""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "DistillTrainer": "distillation",
    "narrow": "pruning",
    "narrowed": "pruning",
    "soft_cross_entropy": "distillation",
    "CompressTrainer": "trainer",
    "export_quantized": "qat",
    "quantize_aware": "qat",
    "quantize_embeddings": "embeddings",
    "quantize_static": "static",
    "compare": "comparison",
    "cut": "pruning",
    "importance": "pruning",
    "load_pruned": "pruning",
    "masks": "pruning",
    "prune": "pruning",
    "reorder": "pruning",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
