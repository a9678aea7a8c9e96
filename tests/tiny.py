"""Sizes of tiny models, and the one that tests of exports and services share."""

import importlib.util
from pathlib import Path

from course_lib.deploy import convert, export_model
from course_lib.models import load_backbone

import paddle

SIZES = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64}
CONFIG = {
    **SIZES,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
TEXTS = ["房间很干净，服务很好", "太差了", "书很好看，nice", "电脑坏了，客服不理人，再也不来了" * 3]
LABELS = ["差", "好, 很好", 'a "b" \\']


def classifier(texts, labels=("negative", "positive"), seed: int = 0, **config):
    """A fresh classifier of one layer, and a tokenizer that knows the characters of the texts."""
    paddle.seed(seed)
    names = {"label_list": list(labels), **SIZES, **config}
    return load_backbone("fresh", vocab_texts=list(texts) * 3, **names)


def export(directory: Path, several: bool = False, onnx: bool = False) -> Path:
    """Export a classifier of TEXTS by LABELS; `several` is one that may give several of them."""
    problem = "multi_label" if several else "single_label"
    model, tokenizer = classifier(TEXTS, LABELS, problem_type=f"{problem}_classification")
    for weight in model.parameters():
        if weight.ndim == 2:
            weight.set_value(paddle.randn(weight.shape) * 0.5)  # so that texts differ
    thresholds = dict(zip(LABELS, [0.5, 0.7, 0.95], strict=True)) if several else None
    path = export_model(model, directory, tokenizer, 32, thresholds=thresholds)
    if onnx:
        convert(path)
    return path


def rows() -> list[dict]:
    """Rows to calibrate a quantization with."""
    return [{"input_ids": list(range(1, 9)), "token_type_ids": [0] * 8}] * 4


def load_module(file: Path):
    """Run a script that is in no package, and give its module."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
