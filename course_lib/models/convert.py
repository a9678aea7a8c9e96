"""Weights of BERT and ERNIE from PyTorch (Hugging Face's names) to PaddleNLP, and back.

The two libraries hold the same numbers under different names, and a Linear keeps its matrix the
other way round: [outputs, inputs] in PyTorch, [inputs, outputs] in Paddle. Embeddings, layer norms
and the masked-LM decoder (which shares the embeddings) are equal in both.

    python -m course_lib.models.convert to_paddle model.safetensors converted.safetensors
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from course_lib.models.files import (
    Arrays,
    check_sizes,
    check_weights,
    read_config,
    read_weights,
    shapes_of,
    write_weights,
)
from course_lib.runtime import InputError, atomic_directory
from course_lib.runtime.manifest import write_manifest

import numpy as np
from paddlenlp.transformers import BertConfig, BertModel, ErnieConfig, ErnieModel

MODELS = {"bert": (BertConfig, BertModel), "ernie": (ErnieConfig, ErnieModel)}

# PyTorch name, Paddle name, both without the model's prefix; {n} is a layer, {p} weight or bias.
# The third item tells whether the matrix is transposed.
_ENCODER = (
    ("embeddings.word_embeddings.weight", "embeddings.word_embeddings.weight", False),
    ("embeddings.position_embeddings.weight", "embeddings.position_embeddings.weight", False),
    ("embeddings.token_type_embeddings.weight", "embeddings.token_type_embeddings.weight", False),
    ("embeddings.task_type_embeddings.weight", "embeddings.task_type_embeddings.weight", False),
    ("embeddings.LayerNorm.{p}", "embeddings.layer_norm.{p}", False),
    ("encoder.layer.{n}.attention.self.query.{p}", "encoder.layers.{n}.self_attn.q_proj.{p}", True),
    ("encoder.layer.{n}.attention.self.key.{p}", "encoder.layers.{n}.self_attn.k_proj.{p}", True),
    ("encoder.layer.{n}.attention.self.value.{p}", "encoder.layers.{n}.self_attn.v_proj.{p}", True),
    (
        "encoder.layer.{n}.attention.output.dense.{p}",
        "encoder.layers.{n}.self_attn.out_proj.{p}",
        True,
    ),
    ("encoder.layer.{n}.attention.output.LayerNorm.{p}", "encoder.layers.{n}.norm1.{p}", False),
    ("encoder.layer.{n}.intermediate.dense.{p}", "encoder.layers.{n}.linear1.{p}", True),
    ("encoder.layer.{n}.output.dense.{p}", "encoder.layers.{n}.linear2.{p}", True),
    ("encoder.layer.{n}.output.LayerNorm.{p}", "encoder.layers.{n}.norm2.{p}", False),
    ("pooler.dense.{p}", "pooler.dense.{p}", True),
)
_HEADS = (
    ("cls.predictions.transform.dense.{p}", "cls.predictions.transform.{p}", True),
    ("cls.predictions.transform.LayerNorm.{p}", "cls.predictions.layer_norm.{p}", False),
    ("cls.predictions.decoder.weight", "cls.predictions.decoder.weight", False),
    ("cls.predictions.bias", "cls.predictions.decoder_bias", False),
    ("cls.predictions.decoder.bias", "cls.predictions.decoder.bias", False),
    ("classifier.{p}", "classifier.{p}", True),
    ("qa_outputs.{p}", "classifier.{p}", True),
)
# PyTorch keeps index tables among the weights; they hold 0, 1, 2, ... and Paddle makes its own.
_TABLES = re.compile(r"(.*\.)?embeddings\.(position_ids|token_type_ids)")


def to_paddle(weights: Arrays, model: str = "ernie") -> dict[str, np.ndarray]:
    """Rename and turn the weights of a PyTorch model for PaddleNLP.

    Args:
        weights: a state dict as NumPy arrays, names as Hugging Face's BERT or ERNIE have them, with
            or without the prefix `bert.` or `ernie.` before the encoder's.
        model: the prefix that the PaddleNLP class expects, "ernie" or "bert".

    Returns:
        The state dict for PaddleNLP. A masked-LM bias is there under both names that PaddleNLP has
        for it.

    Raises:
        InputError: a weight that BERT and ERNIE do not have, or one whose shape cannot be right.
    """
    converted = _convert(weights, model, to_torch=False)
    for one, other in (("decoder_bias", "decoder.bias"), ("decoder.bias", "decoder_bias")):
        if f"cls.predictions.{one}" in converted:
            converted.setdefault(f"cls.predictions.{other}", converted[f"cls.predictions.{one}"])
    return converted


def to_torch(
    weights: Arrays, model: str = "bert", question_answering: bool = False
) -> dict[str, np.ndarray]:
    """Rename and turn the weights of a PaddleNLP model for PyTorch.

    Args:
        weights: a state dict as NumPy arrays, names as PaddleNLP's BERT or ERNIE have them.
        model: the prefix of the PyTorch class, "bert" or "ernie".
        question_answering: the head is one of question answering, called qa_outputs in PyTorch;
            PaddleNLP calls every head classifier, so the names alone do not tell.

    Raises:
        InputError: as for `to_paddle`.
    """
    return _convert(weights, model, to_torch=True, question_answering=question_answering)


def convert_directory(
    source: str | os.PathLike,
    target: str | os.PathLike,
    vocab_file: str | os.PathLike | None = None,
    model: str = "ernie",
) -> Path:
    """Make a PaddleNLP directory out of a Hugging Face one.

    `AutoModel` and `AutoTokenizer` of PaddleNLP load the result. The source holds config.json,
    model.safetensors and, unless `vocab_file` is given, vocab.txt. Of the configuration the sizes
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
    _check_encoder(file, weights, source / "config.json", config, model)
    config |= {"model_type": model, "architectures": [f"{model.capitalize()}ForMaskedLM"]}
    vocabulary = Path(vocab_file or source / "vocab.txt")
    if not vocabulary.is_file():
        raise InputError(vocabulary, "does not exist", "the vocabulary, one token per line")
    tokenizer = {"do_lower_case": True, "tokenizer_class": f"{model.capitalize()}Tokenizer"}
    target = Path(target)
    with atomic_directory(target, "config.json") as temporary:
        write_weights(temporary / "model.safetensors", weights, "np")
        (temporary / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        (temporary / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2) + "\n")
        (temporary / "vocab.txt").write_bytes(vocabulary.read_bytes())
        write_manifest(temporary)
    return target


_CONFIG = ("attention_probs_dropout_prob", "hidden_act", "hidden_dropout_prob", "hidden_size")
_CONFIG += ("initializer_range", "intermediate_size", "max_position_embeddings")
_CONFIG += ("num_attention_heads", "num_hidden_layers", "pad_token_id")
_CONFIG += ("type_vocab_size", "vocab_size")


def _check_encoder(
    file: Path, weights: Arrays, config_file: Path, config: Mapping, model: str
) -> None:
    """Compare the encoder's weights with an encoder built from the configuration."""
    shapes = {_split_prefix(name)[1]: array.shape for name, array in weights.items()}
    check_sizes(config_file, config, shapes)
    config_class, encoder_class = MODELS[model]
    wanted = shapes_of(encoder_class(config_class(**config)))
    shapes = {name: shape for name, shape in shapes.items() if name in wanted}
    check_weights(file, shapes, wanted, "the weights that belong to config.json")


def _convert(
    weights: Arrays, model: str, to_torch: bool, question_answering: bool = False
) -> dict[str, np.ndarray]:
    unwanted = "classifier" if question_answering else "qa_outputs"
    rows = [row for row in _HEADS if not (to_torch and row[0].startswith(unwanted))]
    converted: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        if not to_torch and _TABLES.fullmatch(name):
            continue
        bare = _split_prefix(name)[1]
        renamed, prefix = _rename(bare, _ENCODER, to_torch), f"{model}."
        if renamed is None:
            renamed, prefix = _rename(bare, rows, to_torch), ""
        if renamed is None:
            side = "PaddleNLP's" if to_torch else "PyTorch's"
            raise InputError(name, f"is not a weight of {side} BERT or ERNIE", "a BERT or ERNIE")
        new, turned = renamed
        if turned and bare.endswith("weight"):
            if array.ndim != 2:
                raise InputError(name, f"has shape {list(array.shape)}", "a matrix")
            array = np.ascontiguousarray(array.T)
        converted[prefix + new] = array
    return converted


def _rename(name: str, table, to_torch: bool) -> tuple[str, bool] | None:
    for torch_name, paddle_name, turned in table:
        old, new = (paddle_name, torch_name) if to_torch else (torch_name, paddle_name)
        pattern = re.escape(old).replace(r"\{n\}", r"(?P<n>\d+)")
        pattern = pattern.replace(r"\{p\}", r"(?P<p>weight|bias)")
        match = re.fullmatch(pattern, name)
        if match:
            return new.format(**match.groupdict()), turned
    return None


def _split_prefix(name: str) -> tuple[str, str]:
    first, _, rest = name.partition(".")
    return (first, rest) if first in MODELS else ("", name)


def main(arguments: list[str] | None = None) -> int:
    """Convert one .safetensors file; the exit status is 2 when an input is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m course_lib.models.convert")
    parser.add_argument("direction", choices=("to_paddle", "to_torch"))
    parser.add_argument("source", type=Path, help=".safetensors to read")
    parser.add_argument("target", type=Path, help=".safetensors to write")
    parser.add_argument("--model", choices=MODELS, help="prefix of the result")
    options = parser.parse_args(arguments)
    try:
        weights = read_weights(options.source)
        if options.direction == "to_paddle":
            write_weights(options.target, to_paddle(weights, options.model or "ernie"), "np")
        else:
            write_weights(options.target, to_torch(weights, options.model or "bert"), "pt")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
