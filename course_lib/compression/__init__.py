"""Smaller and faster models: pruning, distillation, quantization. Names load on first use."""

from ..runtime.lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    comparison="compare",
    distillation="DistillTrainer soft_cross_entropy",
    embeddings="quantize_embeddings",
    pruning="cut importance load_pruned masks narrow narrowed prune reorder",
    qat="export_quantized quantize_aware",
    static="quantize_static",
    trainer="CompressTrainer",
)
