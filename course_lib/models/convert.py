"""Weights of BERT and ERNIE from PyTorch (Hugging Face's names) to PaddleNLP, and back.

The two libraries hold the same numbers under different names, and a Linear keeps its matrix the
other way round: [outputs, inputs] in PyTorch, [inputs, outputs] in Paddle. Embeddings, layer norms
and the masked-LM decoder (which shares the embeddings) are equal in both.
"""

import json
import os
import re
from pathlib import Path

from ..runtime import InputError, atomic_directory
from ..runtime.files import read_bytes
from ..runtime.manifest import write_manifest
from .files import (
    FITTING,
    Arrays,
    check_weights,
    read_config,
    read_weights,
    shapes_of,
    write_weights,
)

import numpy as np
from paddlenlp.transformers import BertConfig, BertModel, ErnieConfig, ErnieModel

MODELS = {"bert": (BertConfig, BertModel), "ernie": (ErnieConfig, ErnieModel)}

# What PyTorch calls a part, and what Paddle calls it. The first that a name holds is replaced.
_PARTS = (
    ("attention.self.query.", "self_attn.q_proj."),
    ("attention.self.key.", "self_attn.k_proj."),
    ("attention.self.value.", "self_attn.v_proj."),
    ("attention.output.dense.", "self_attn.out_proj."),
    ("attention.output.LayerNorm.", "norm1."),
    ("intermediate.dense.", "linear1."),
    ("output.dense.", "linear2."),
    ("output.LayerNorm.", "norm2."),
    ("embeddings.LayerNorm.", "embeddings.layer_norm."),
    ("transform.dense.", "transform."),
    ("transform.LayerNorm.", "layer_norm."),
    ("predictions.bias", "predictions.decoder_bias"),
    ("qa_outputs.", "classifier."),
)
# Paddle's names.
_KNOWN = re.compile(
    r"(embeddings\.(\w+_embeddings|layer_norm)|pooler\.dense|classifier"
    r"|encoder\.layers\.\d+\.(self_attn\.(q|k|v|out)_proj|linear[12]|norm[12])"
    r"|cls\.predictions\.(transform|layer_norm|decoder))\.(weight|bias)"
    r"|cls\.predictions\.decoder_bias"
)
_ALIKE = re.compile(r"embeddings\.|cls\.predictions\.decoder\.")  # not the other way round
# PyTorch keeps index tables among the weights; they hold 0, 1, 2, ... and Paddle makes its own.
_TABLES = re.compile(r"(.*\.)?embeddings\.(position_ids|token_type_ids)")


def to_paddle(weights: Arrays, model: str = "ernie") -> dict[str, np.ndarray]:
    """Rename and turn the weights of a PyTorch model for PaddleNLP.

    Args:
        weights: by the names of Hugging Face's BERT or ERNIE, with or without the model's prefix.
        model: the prefix that the PaddleNLP class expects, "ernie" or "bert".

    Returns:
        The state dict. A masked-LM bias is there under both names that PaddleNLP has for it.

    Raises:
        InputError: a weight that BERT and ERNIE do not have, or one whose shape cannot be right.
    """
    converted = {}
    for name, array in weights.items():
        if not _TABLES.fullmatch(name):
            bare = _bare(name).replace("encoder.layer.", "encoder.layers.")
            renamed = next((bare.replace(*pair) for pair in _PARTS if pair[0] in bare), bare)
            converted[_with_prefix(renamed, model)] = _turned(renamed, array, name)
    for one, other in (("decoder_bias", "decoder.bias"), ("decoder.bias", "decoder_bias")):
        if f"cls.predictions.{one}" in converted:
            converted.setdefault(f"cls.predictions.{other}", converted[f"cls.predictions.{one}"])
    return converted


def to_torch(weights: Arrays, model: str = "bert") -> dict[str, np.ndarray]:
    """Rename and turn the weights of a PaddleNLP model for PyTorch.

    PyTorch calls a head of question answering qa_outputs; here it stays classifier.

    Args:
        weights: by the names of PaddleNLP's BERT or ERNIE.
        model: the prefix of the PyTorch class, "bert" or "ernie".
    """
    converted = {}
    for name, array in weights.items():
        bare = _bare(name)
        pairs = [(ours, theirs) for theirs, ours in _PARTS if ours != "classifier."]
        renamed = next((bare.replace(*pair) for pair in pairs if pair[0] in bare), bare)
        renamed = renamed.replace("encoder.layers.", "encoder.layer.")
        converted[_with_prefix(renamed, model)] = _turned(bare, array, name)
    return converted


def _bare(name: str) -> str:
    """A weight's name without the model's prefix."""
    return name.partition(".")[2] if name.startswith(("bert.", "ernie.")) else name


def _with_prefix(name: str, model: str) -> str:
    return f"{model}.{name}" if name.startswith(("embeddings", "encoder", "pooler")) else name


def _turned(name: str, array: np.ndarray, named: str) -> np.ndarray:
    """The array under Paddle's `name` as the other library keeps it; errors say `named`."""
    if not _KNOWN.fullmatch(name):
        raise InputError(named, "is not a weight of BERT or ERNIE", "one of their weights")
    if not name.endswith("weight") or "norm" in name or _ALIKE.match(name):
        return array
    if array.ndim != 2:
        raise InputError(named, f"has shape {list(array.shape)}", "a matrix")
    return np.ascontiguousarray(array.T)


def convert_directory(
    source: str | os.PathLike, target: str | os.PathLike, model: str = "ernie"
) -> Path:
    """Make a PaddleNLP directory out of a Hugging Face one.

    The source holds config.json, model.safetensors and vocab.txt. Of the configuration the sizes
    and rates that both libraries know are kept.

    Raises:
        InputError: a file is missing or damaged, weights and configuration do not fit, or the
            target holds something else than a model.
    """
    source = Path(source)
    theirs = read_config(source / "config.json")
    file = source / "model.safetensors"
    weights = to_paddle(read_weights(file), model)
    config = {name: theirs[name] for name in _CONFIG if name in theirs}
    shapes = {name.removeprefix(f"{model}."): array.shape for name, array in weights.items()}
    config_class, encoder_class = MODELS[model]
    wanted = shapes_of(encoder_class(config_class(**config)))
    check_weights(file, shapes, wanted, FITTING, within="encoder.")
    config |= {"model_type": model, "architectures": [f"{model.capitalize()}ForMaskedLM"]}
    vocabulary = read_bytes(source / "vocab.txt")
    tokenizer = {"do_lower_case": True, "tokenizer_class": f"{model.capitalize()}Tokenizer"}
    target = Path(target)
    with atomic_directory(target, "config.json") as temporary:
        write_weights(temporary / "model.safetensors", weights, "np")
        (temporary / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        (temporary / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2) + "\n")
        (temporary / "vocab.txt").write_bytes(vocabulary)
        write_manifest(temporary)
    return target


_CONFIG = ("attention_probs_dropout_prob", "hidden_act", "hidden_dropout_prob", "hidden_size")
_CONFIG += ("initializer_range", "intermediate_size", "max_position_embeddings")
_CONFIG += ("num_attention_heads", "num_hidden_layers", "pad_token_id")
_CONFIG += ("type_vocab_size", "vocab_size")
