"""Smaller and faster models: pruning, distillation, quantisation. Names load on first use."""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "DistillTrainer": "distillation",
    "narrow": "distillation",
    "narrowed": "distillation",
    "soft_cross_entropy": "distillation",
    "CompressTrainer": "trainer",
    "export_quantized": "qat",
    "quantize_aware": "qat",
    "quantize_embeddings": "quantization",
    "quantize_static": "quantization",
    "search": "quantization",
    "compare": "comparison",
    "cut": "pruning",
    "importance": "pruning",
    "load_pruned": "pruning",
    "masks": "pruning",
    "prune": "pruning",
    "reorder": "pruning",
}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
