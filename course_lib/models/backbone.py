"""One way to get a classifier: from a directory, from the hub, or fresh."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from course_lib import runtime
from course_lib.models.vocabulary import build_vocabulary
from course_lib.runtime import InputError, atomic_directory

import paddle
from paddlenlp.transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    ErnieConfig,
    ErnieForSequenceClassification,
    ErnieTokenizer,
)
from safetensors import SafetensorError, safe_open

FRESH: dict[str, float | int] = {
    "num_hidden_layers": 2,
    "hidden_size": 192,
    "num_attention_heads": 4,
    "intermediate_size": 384,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "suggested_learning_rate": 1e-3,
}
"""The configuration of a model that starts from random weights.

From scratch on some ten thousand reviews, four layers of 312 are no better than two of 192 and
several times slower; reading 256 tokens instead of 128 gives more than any size does.
"""

FRESH_LEARNING_RATE = 1e-3
"""Peak learning rate for `FRESH`: 5e-4 is as good with many steps, and worse with few."""

HEAD_PREFIXES = ("classifier.",)
WEIGHT_FILES = ("model.safetensors", "model_state.pdparams")


def load_backbone(
    name_or_path: str | os.PathLike | None = None,
    num_classes: int | None = None,
    vocab_texts: Iterable[str] | None = None,
    label_list: Sequence[str] | None = None,
    **config,
) -> tuple[paddle.nn.Layer, ErnieTokenizer]:
    """Load a sequence classifier and its tokenizer.

    Args:
        name_or_path: a directory that `save_model` or `save_pretrained` wrote; a name of the hub
            such as `"ernie-3.0-medium-zh"`; or `"fresh"`, the small configuration `FRESH` with
            random weights. None means the variable `COURSE_BACKBONE` when it is set, else the
            backbone that the course ships (`data/backbone`) when it is there, else `"fresh"`.
        num_classes: how many classes. None means as many as `label_list`, else as many as the
            directory's head has, else 2.
        vocab_texts: training texts from which a fresh model's vocabulary is built.
        label_list: names of the classes in the order of their ids; kept in the configuration
            (`model.config.id2label`), so that they are known after saving and loading.
        **config: changes to the configuration, for example `hidden_dropout_prob=0.2`.

    Returns:
        The model, in training mode, whose `model(input_ids, token_type_ids)` gives logits of shape
        [batch_size, num_classes], and the tokenizer.

    Raises:
        InputError: the directory lacks a file, a weight file is damaged or does not fit the
            configuration, or a hub name cannot be fetched.

    Random weights come from paddle's generator: call `seed_everything` before, for the same twice.
    """
    name = str(name_or_path or os.environ.get("COURSE_BACKBONE") or _default_name())
    if label_list is not None:
        if num_classes not in (None, len(label_list)):
            raise InputError(
                "num_classes", f"is {num_classes}", f"{len(label_list)}, the length of label_list"
            )
        num_classes = len(label_list)
    with _quiet():
        if name == "fresh":
            model, tokenizer = _fresh(vocab_texts, num_classes or 2, config)
        elif Path(name).is_dir():
            model, tokenizer = _from_directory(Path(name), num_classes, config)
        else:
            model, tokenizer = _from_hub(name, num_classes or 2, config)
    if label_list is not None:
        model.config.id2label = dict(enumerate(label_list))
        model.config.label2id = {label: index for index, label in enumerate(label_list)}
    model.train()
    return model, tokenizer


def suggested_learning_rate(model: paddle.nn.Layer) -> float:
    """The peak learning rate to fine-tune a model with when nobody has measured a better one.

    A model that knows one carries it in its configuration (`suggested_learning_rate` in
    config.json): fresh ones and the backbone of the course do. For others it is 5e-5, usual for
    ERNIE and BERT.
    """
    return getattr(model.config, "suggested_learning_rate", 5e-5)


def save_model(
    model: paddle.nn.Layer,
    tokenizer: ErnieTokenizer,
    directory: str | os.PathLike,
    label_list: Sequence[str] | None = None,
) -> Path:
    """Write weights (safetensors, so loading runs no pickled code), configuration and vocabulary.

    The directory appears whole or not at all, replaces an older one, and can be loaded by
    `load_backbone`, `AutoModelForSequenceClassification` and `AutoTokenizer` with no network.

    Args:
        label_list: names of the classes; kept in config.json as id2label.

    Returns:
        The directory.
    """
    directory = Path(directory)
    if label_list is not None:
        model.config.id2label = dict(enumerate(label_list))
        model.config.label2id = {label: index for index, label in enumerate(label_list)}
    with atomic_directory(directory) as temporary, _quiet():
        model.save_pretrained(str(temporary), safe_serialization=True)
        tokenizer.save_pretrained(str(temporary))
    return directory


def _default_name() -> str:
    shipped = runtime.data_dir() / "backbone"
    return str(shipped) if shipped.is_dir() else "fresh"


def _fresh(texts: Iterable[str] | None, num_classes: int, config: dict):
    if texts is None:
        raise InputError(
            "load_backbone", "a fresh model has no vocabulary", "vocab_texts, the training texts"
        )
    vocabulary = build_vocabulary(texts)
    # saving a tokenizer copies the file it was built from, so the file must live as long as it
    directory = tempfile.mkdtemp(prefix="vocabulary-")
    vocab_file = Path(directory) / "vocab.txt"
    vocab_file.write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    tokenizer = ErnieTokenizer(str(vocab_file), do_lower_case=True)
    weakref.finalize(tokenizer, shutil.rmtree, directory, ignore_errors=True)
    settings = {**FRESH, "suggested_learning_rate": FRESH_LEARNING_RATE, **config}
    model = ErnieForSequenceClassification(
        ErnieConfig(
            vocab_size=len(vocabulary),
            pad_token_id=tokenizer.pad_token_id,
            num_labels=num_classes,
            **settings,
        )
    )
    return model, tokenizer


def _from_directory(directory: Path, num_classes: int | None, config: dict):
    settings = _read_config(directory)
    weights = _weight_file(directory)
    if not (directory / "vocab.txt").is_file():
        raise InputError(directory, "has no vocab.txt", "a directory written by save_model")
    shapes = _weight_shapes(weights)
    head = next((shape[-1] for name, shape in shapes.items() if _is_head(name)), None)
    saved_classes = len(settings["id2label"]) if "id2label" in settings else head
    if head is not None and num_classes not in (None, head):
        raise InputError(directory, f"has {head} classes, not {num_classes}", f"num_classes={head}")
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            str(directory), num_classes=num_classes or saved_classes or 2, **config
        )
        tokenizer = AutoTokenizer.from_pretrained(str(directory))
    except InputError:
        raise
    except Exception as error:  # paddlenlp raises anything from AttributeError to RuntimeError here
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            weights, f"does not fit {directory / 'config.json'} ({reason})", "matching weights"
        ) from error
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    missing = [
        name
        for name in expected
        if name not in shapes and _without_prefix(name, model) not in shapes and not _is_head(name)
    ]
    if missing:  # paddlenlp only warns and leaves them random
        raise InputError(
            weights,
            f"lacks {len(missing)} of the weights that config.json asks for, first {missing[0]}",
            "all weights of the encoder",
        )
    return model, tokenizer


def _from_hub(name: str, num_classes: int, config: dict):
    if os.sep in name and (name.startswith((".", os.sep, "~")) or Path(name).parent.is_dir()):
        raise InputError(name, "does not exist", "a directory written by save_model")
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            name, num_classes=num_classes, **config
        )
        tokenizer = AutoTokenizer.from_pretrained(name)
    except Exception as error:
        raise InputError(
            name,
            "is no directory here and cannot be fetched from the hub (no network, or no such name)",
            'a directory that exists, "fresh", or a name of the hub and a network',
        ) from error
    return model, tokenizer


def _read_config(directory: Path) -> dict:
    path = directory / "config.json"
    if not path.is_file():
        raise InputError(directory, "has no config.json", "a directory written by save_model")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(path, f"is not JSON ({error})", "the file that save_model wrote") from None


def _weight_file(directory: Path) -> Path:
    for name in WEIGHT_FILES:
        if (directory / name).is_file():
            return directory / name
    raise InputError(directory, "has no weights", " or ".join(WEIGHT_FILES))


def _weight_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes in a weight file; finds out on the way whether the file is whole."""
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="np") as file:
                return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        return {name: tuple(value.shape) for name, value in paddle.load(str(path)).items()}
    except (SafetensorError, OSError, ValueError, EOFError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(path, f"is damaged ({reason})", "a complete weight file") from None
    except Exception as error:  # a cut pickle can raise nearly anything
        raise InputError(path, f"is damaged ({error})", "a complete weight file") from None


def _is_head(name: str) -> bool:
    return name.startswith(HEAD_PREFIXES)


def _without_prefix(name: str, model: paddle.nn.Layer) -> str:
    return name.removeprefix(f"{model.base_model_prefix}.")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep paddlenlp from printing a line for every file it reads or writes."""
    logger = logging.getLogger("PaddleNLP")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
