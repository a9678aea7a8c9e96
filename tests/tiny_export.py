"""Tiny classifiers whose answers differ from text to text, for the tests of what serves them."""

from pathlib import Path

from course_lib.deploy import export_model
from course_lib.models import load_backbone

import paddle

SIZES = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64}
TEXTS = ["房间很干净，服务很好", "太差了", "书很好看，nice", "电脑坏了，客服不理人，再也不来了" * 3]
LABELS = ["差", "好, 很好", 'a "b" \\']
THRESHOLDS = dict(zip(LABELS, [0.5, 0.7, 0.95], strict=True))


def classifier(labels: list[str] = LABELS, **config):
    """A model with random weights, and its tokenizer."""
    paddle.seed(0)
    sizes = SIZES | config
    model, tokenizer = load_backbone("fresh", vocab_texts=TEXTS * 3, label_list=labels, **sizes)
    for weight in model.parameters():
        if weight.ndim == 2:
            weight.set_value(paddle.randn(weight.shape) * 0.5)  # so that texts differ
    return model, tokenizer


def export(directory: Path, several: bool = False, onnx: bool = False) -> Path:
    """Export a classifier of LABELS; `several` is one that may give a text several of them."""
    problem = "multi_label" if several else "single_label"
    model, tokenizer = classifier(problem_type=f"{problem}_classification")
    thresholds = THRESHOLDS if several else None
    return export_model(model, directory, tokenizer, 32, thresholds=thresholds, onnx=onnx)


def rows() -> list[dict]:
    """Rows to calibrate a quantization with."""
    return [{"input_ids": list(range(1, 9)), "token_type_ids": [0] * 8}] * 4
