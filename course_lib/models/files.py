"""A model's directory: reading, checking and writing its weights, configuration and vocabulary.

The course writes safetensors and JSON, which hold names and numbers only, so loading them runs no
code. The pickles of others are read by `course_lib.models.pickles`.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..runtime import InputError, atomic_file
from ..runtime.files import read_json
from ..runtime.manifest import MANIFEST, describe_files, read_manifest, verify_files, write_manifest
from .pickles import damage_named, failure_named, read_pickle

import numpy as np
import paddle
from paddlenlp.transformers import AutoTokenizer
from safetensors import safe_open
from safetensors.numpy import load_file, save

Arrays = Mapping[str, np.ndarray]
Shapes = Mapping[str, tuple[int, ...]]

WEIGHT_FILES = ("model.safetensors", "model_state.pdparams")
VOCABULARIES = ("vocab.txt", "added_tokens.json", "tokenizer.json", "tokenizer_config.json")
VOCABULARIES += ("special_tokens_map.json", "sentencepiece.bpe.model", "spiece.model")
VOCABULARIES += ("dict.wordseg.pickle",)
SAVED = "a directory written by save_model"
FITTING = "the weights that belong to config.json"


# ---- weights


def read_weights(path) -> dict[str, np.ndarray]:
    """Read a weight file: safetensors, or what `paddle.save` wrote of a state dict.

    Raises:
        InputError: no such file, a damaged one, a pickle that would run code, or one that holds
            something else than arrays by name.
    """
    path = Path(path)
    if path.suffix == ".safetensors":
        weight_shapes(path)
        with damage_named(path, "a .safetensors file"):
            return load_file(path)
    state = read_pickle(path)
    if not isinstance(state, dict):
        raise InputError(path, f"holds a {type(state).__name__}", "arrays by name")
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, np.ndarray):
            problem = f"holds a {type(value).__name__} called {name!r:.80}"
            raise InputError(path, problem, "arrays by name")
    return state


def write_weights(path, weights: Arrays, framework: str = "np") -> None:
    """Write a .safetensors file, whole or not at all.

    Args:
        framework: the format in its metadata: PaddleNLP reads only "np", Hugging Face only "pt".
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    with atomic_file(path, "wb") as handle:
        handle.write(save(arrays, metadata={"format": framework}))


def weight_shapes(path) -> dict[str, tuple[int, ...]]:
    """Read names and shapes of weights, which shows whether the file is whole and can be read."""
    if Path(path).suffix != ".safetensors":
        return {name: value.shape for name, value in read_weights(path).items()}
    with damage_named(path, "a .safetensors file"), safe_open(path, framework="np") as file:
        weights = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        for name, weight in weights.items():
            if weight.get_dtype().startswith(("BF", "F8")):  # NumPy lacks them
                problem = f"{name} is in {weight.get_dtype()}, which is not read here"
                raise InputError(path, problem, "weights converted to F32 or F16")
        return {name: tuple(weight.get_shape()) for name, weight in weights.items()}


def shapes_of(layer: paddle.nn.Layer) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a layer's weights, for `check_weights`."""
    return {name: tuple(value.shape) for name, value in layer.state_dict().items()}


def check_weights(where, shapes: Shapes, wanted: Shapes, expected: str, within: str = "") -> None:
    """Refuse weights whose names and shapes are not exactly those that a model has.

    PaddleNLP only warns of a missing weight and leaves it random, and ignores one too many.

    Args:
        where, expected: for the message: the file or directory, and what would be right.
        shapes: of the weights in the file, by name.
        wanted: of the model's weights, by name (`shapes_of`).
        within: weights too many are let pass where their names do not begin with this.
    """
    names = sorted(wanted.keys() | {name for name in shapes if name.startswith(within)})
    differing = [name for name in names if shapes.get(name) != wanted.get(name)]
    if differing:
        there, here = (
            list(side[differing[0]]) if differing[0] in side else "absent"
            for side in (shapes, wanted)
        )
        more = f", and {len(differing) - 1} more weights differ" if differing[1:] else ""
        problem = f"is of another model: {differing[0]} is {there} there and {here} here{more}"
        raise InputError(where, problem, expected)


def _find_weights(directory: Path) -> Path:
    """Find the weight file, and refuse weights in several files, which PaddleNLP would prefer."""
    for name in WEIGHT_FILES:
        index = directory / f"{name}.index.json"
        if index.is_file():
            raise InputError(index, "is of weights in several files", "one weight file")
    for name in WEIGHT_FILES:
        if (directory / name).is_file():
            return directory / name
    expected = " or ".join(WEIGHT_FILES)
    if (directory / "deploy.json").is_file():
        raise InputError(directory, "is an export, to be served", f"a trained model, {expected}")
    raise InputError(directory, "has no weights", expected)


# ---- writing a directory


def save_pretrained(directory: Path, model, tokenizer=None, more: Iterable[str] = ()) -> None:
    """Write weights, configuration, vocabulary and a manifest of them.

    Args:
        more: names of files of the model that are there already.
    """
    # PaddleNLP's own way to safetensors gives the file mode 0600 and other errors on a full disk
    model.save_pretrained(
        str(directory),
        save_function=lambda state, _: write_weights(directory / WEIGHT_FILES[0], state),
        max_shard_size="1000GB",
    )
    if tokenizer is not None:
        save_tokenizer(directory, tokenizer)
    names = {"config.json", *WEIGHT_FILES, *VOCABULARIES, *more}
    names = {name for name in names if (directory / name).is_file()}
    write_manifest(directory, describe_files(directory, names))


def save_tokenizer(directory: Path, tokenizer) -> None:
    """Write the vocabulary and settings, the same bytes wherever the tokenizer was read from."""
    tokenizer.init_kwargs.pop("special_tokens_map_file", None)  # PaddleNLP notes the path here
    tokenizer.save_pretrained(str(directory))


# ---- reading and checking a directory


def read_saved(directory: Path) -> tuple[dict, Path, Shapes]:
    """Read and check what a model's directory holds, before PaddleNLP loads it.

    Returns:
        Its configuration, its weight file, and the shapes of the weights by name.

    Raises:
        InputError: a file is missing, damaged, or has changed since `save_pretrained` listed it in
            a manifest; configuration, weights and vocabulary do not fit each other.
    """
    config_file = directory / "config.json"
    settings = read_config(config_file)
    weights = _find_weights(directory)
    shapes = weight_shapes(weights)
    if (directory / "vocab.txt").is_file():
        _check_vocabulary(directory / "vocab.txt", settings.get("vocab_size"))
    if (directory / MANIFEST).is_file():
        _check_unchanged(directory)
    return settings, weights, shapes


def _check_unchanged(directory: Path) -> None:
    """Compare files with the manifest; the error says how to accept a change."""
    expected = f"the model as it was saved; to accept the change, delete {MANIFEST} beside it"
    files = read_manifest(directory, expected)
    verify_files(directory, files, expected)
    for name in (*WEIGHT_FILES, *VOCABULARIES):
        if name not in files and (directory / name).is_file():
            raise InputError(directory / name, "was added after the model was saved", expected)


def read_config(path: Path) -> dict:
    """Read a model's config.json."""
    expected = "the file that save_model wrote"
    if not path.is_file():
        raise InputError(path.parent, "has no config.json", SAVED)
    with failure_named(path, "is not JSON", expected):
        settings = read_json(path, expected)
        json.dumps(settings, ensure_ascii=False).encode()  # fails on half a surrogate pair
    if not isinstance(settings, dict):
        raise InputError(path, f"is a JSON {type(settings).__name__}, not an object", expected)
    return settings


def _check_vocabulary(path: Path, vocab_size: object) -> None:
    """Compare the tokens of vocab.txt and added_tokens.json with the rows of the embedding.

    A missing token would shift the ids of all that follow it. The published ERNIEs have a few rows
    more than tokens, rounded up to whole thousands.
    """
    if not isinstance(vocab_size, int):  # left to the class's default, which nothing can compare
        return
    expected = "one token per line, UTF-8"
    with failure_named(path, "cannot be read", expected), path.open(encoding="utf-8") as lines:
        tokens = sum(1 for _ in lines)  # the lines that the tokenizer will count
    added, expected = path.with_name("added_tokens.json"), "tokens and their ids"
    if added.is_file():  # what `add_tokens` has added
        with failure_named(added, "is not a JSON object", expected):
            tokens += len(read_json(added, expected))
    rounded_up = vocab_size % 1000 == 0 and 0 < vocab_size - tokens < 100
    if tokens != vocab_size and not rounded_up:
        expected = f"{vocab_size}, the vocab_size in config.json"
        raise InputError(path, f"has {tokens} tokens", expected)


def load_tokenizer(directory: Path):
    """Load the tokenizer of a saved model or an export, with AutoTokenizer.

    Raises:
        InputError: its files are damaged, or lack a special token.
    """
    with failure_named(directory, "its tokenizer cannot be loaded", "the files of save_model"):
        tokenizer = AutoTokenizer.from_pretrained(str(directory))
    for token in tokenizer.all_special_tokens:
        if token in tokenizer.added_tokens_encoder:  # paddlenlp gives it a new id by itself
            raise InputError(directory / "vocab.txt", f"lacks {token}", "all special tokens")
    return tokenizer
