"""One way to get a classifier: from a directory, from the hub, or fresh."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from .. import runtime
from ..runtime import InputError, atomic_directory
from ..runtime.files import read_unmixed
from ..runtime.settings import trust_pickles
from .files import (
    FITTING,
    SAVED,
    check_weights,
    load_tokenizer,
    read_config,
    read_saved,
    save_pretrained,
    shapes_of,
)
from .patches import quiet_paddlenlp
from .pickles import failure_named
from .vocabulary import build_vocabulary

import paddle
from paddlenlp import transformers
from paddlenlp.transformers import AutoTokenizer, ErnieConfig, ErnieTokenizer

FRESH: dict[str, float | int] = {
    "num_hidden_layers": 2,
    "hidden_size": 192,
    "num_attention_heads": 4,
    "intermediate_size": 384,
    "type_vocab_size": 2,
    "suggested_learning_rate": 1e-3,
}
"""The configuration of a model that starts from random weights.

From scratch on some ten thousand reviews, four layers of 312 are no better and several times
slower; reading 256 tokens instead of 128 gives more than any size does.
"""

HEAD_PREFIX = "classifier."
CLASSIFIER = "SequenceClassification"
MULTI_LABEL = "multi_label_classification"
CUT = ("heads_per_layer", "neurons_per_layer")  # in the configuration of a pruned model


def load_backbone(
    name_or_path: str | os.PathLike | None = None,
    num_classes: int | None = None,
    vocab_texts: Iterable[str] | None = None,
    label_list: Sequence[str] | None = None,
    trained: bool = False,
    trust_pickle: bool = False,
    head: str = CLASSIFIER,
    **config,
) -> tuple[paddle.nn.Layer, ErnieTokenizer]:
    """Load an encoder with a head for a task, and its tokenizer.

    Args:
        name_or_path: a directory that `save_model` or `save_pretrained` wrote; a name of the hub
            such as `"ernie-3.0-medium-zh"`; or `"fresh"`, the small configuration `FRESH` with
            random weights. None means the variable `COURSE_BACKBONE` when it is set, else the
            backbone that the course ships (`data/backbone`) when it is there, else `"fresh"`.
        num_classes: how many classes. None means as many as `label_list`, else as many as the
            directory's head has, else 2.
        vocab_texts: training texts from which a fresh model's vocabulary is built.
        label_list: names of the classes in the order of their ids; kept in the configuration
            (`model.config.id2label`). A directory whose head was trained for other names, or
            another `num_classes`, gets a new head of random weights, and a warning says so.
        trained: refuse what is not a directory with a whole head and the names of its classes.
        trust_pickle: let a foreign `model_state.pdparams` run the code that it may hold; without,
            one that holds more than arrays is refused.
        head: how the model's class ends after "For": "SequenceClassification",
            "TokenClassification" or "QuestionAnswering".
        **config: changes to the configuration, for example `hidden_dropout_prob=0.2`.

    Returns:
        The model, in training mode, and the tokenizer. `model(input_ids, token_type_ids)` gives
        logits [batch_size, num_classes] (of tokens, [batch_size, length, num_classes]; of answers,
        start and end, each [batch_size, length]). Random weights come from paddle's generator.

    Raises:
        InputError: the directory lacks a file, or one is damaged or does not fit the others; it
            holds a model for another task, a pruned one, or no trained one; a hub name cannot be
            fetched.
    """
    if name_or_path == "":  # often a shell variable that is not set
        raise InputError("name_or_path", "is empty", "a directory, a hub's name, or None")
    name = str(name_or_path or _default_backbone())
    if label_list is not None:
        if num_classes not in (None, len(label_list)):
            expected = f"{len(label_list)}, as many as label_list has names"
            raise InputError("num_classes", f"is {num_classes}", expected)
        if len(set(label_list)) < len(label_list):
            raise InputError("label_list", f"repeats a name ({list(label_list)})", "each name once")
        num_classes = len(label_list)
    with trust_pickles(trust_pickle), quiet_paddlenlp():
        if Path(name).is_dir() and name != "fresh":
            options = Path(name), num_classes, label_list, config, trained, head
            model, tokenizer = read_unmixed(name, lambda: _from_directory(*options))
        elif Path(name).is_file():
            raise InputError(name, "is a file", SAVED)
        elif trained:
            raise InputError(name, "is not a directory", SAVED)
        elif name == "fresh":
            model, tokenizer = _fresh(vocab_texts, num_classes or 2, config, head)
        else:
            model, tokenizer = _from_hub(name, num_classes or 2, config, head)
    if label_list is not None:
        model.config.id2label = dict(enumerate(label_list))
        model.config.label2id = {label: index for index, label in enumerate(label_list)}
    model.train()
    return model, tokenizer


def save_model(
    model: paddle.nn.Layer, tokenizer: ErnieTokenizer, directory: str | os.PathLike
) -> Path:
    """Write weights (safetensors), configuration, vocabulary, and a manifest of their hashes.

    The directory appears whole or not at all, replaces an older one, and can be loaded by
    `load_backbone`, which refuses a file that has changed since until manifest.json is deleted, and
    by `AutoModelForSequenceClassification` and `AutoTokenizer`.
    """
    directory = Path(directory)
    with atomic_directory(directory, "config.json") as temporary, quiet_paddlenlp():
        save_pretrained(temporary, model, tokenizer)
    return directory


def _default_backbone() -> str:
    """The name that `load_backbone` takes when none is given: COURSE_BACKBONE, or what is there."""
    shipped = runtime.data_dir() / "backbone"
    default = str(shipped) if shipped.is_dir() else "fresh"
    return os.environ.get("COURSE_BACKBONE") or default


def _fresh(texts: Iterable[str] | None, num_classes: int, config: dict, head: str):
    if texts is None:
        problem = "a fresh model has no vocabulary"
        raise InputError("load_backbone", problem, "vocab_texts, the training texts")
    vocabulary = build_vocabulary(texts)
    with tempfile.TemporaryDirectory(prefix="vocabulary-") as directory:
        _write_vocabulary(vocabulary, directory)
        tokenizer = ErnieTokenizer(str(Path(directory) / "vocab.txt"), do_lower_case=True)
    # saving a tokenizer would copy the file it was built from, which is no longer there
    tokenizer.save_resources = partial(_write_vocabulary, vocabulary)
    model = getattr(transformers, f"ErnieFor{head}")(
        ErnieConfig(
            vocab_size=len(vocabulary),
            pad_token_id=tokenizer.pad_token_id,
            num_labels=num_classes,
            **{**FRESH, **config},
        )
    )
    return model, tokenizer


def _write_vocabulary(vocabulary: list[str], directory: str | os.PathLike) -> None:
    text = "\n".join(vocabulary) + "\n"
    (Path(directory) / "vocab.txt").write_text(text, encoding="utf-8", newline="\n")


def _from_directory(
    directory: Path,
    num_classes: int | None,
    label_list: Sequence[str] | None,
    config: dict,
    trained: bool,
    kind: str,
):
    settings, weights, shapes = read_saved(directory)
    config_file = directory / "config.json"
    if any(settings.get(key) is not None for key in CUT):
        problem = "holds a pruned model, whose layers have shapes of their own"
        raise InputError(directory, problem, "course_lib.compression.load_pruned to load it")
    if not (directory / "vocab.txt").is_file():
        raise InputError(directory, "has no vocab.txt", SAVED)
    heads = [shape for name, shape in shapes.items() if name.startswith(HEAD_PREFIX) and shape]
    names, head = _class_names(config_file, settings), heads[0][-1] if heads else None
    _check_task(config_file, settings, names, head, trained, kind)
    named = [] if _are_defaults(names) else names
    other_names = label_list is not None and named not in ([], list(label_list))
    change = head is not None and (num_classes not in (None, head) or other_names)
    before, now = _classes(named, head), _classes(label_list, num_classes)
    if change and trained:
        raise InputError(directory, f"was trained for {before}", f"one for {now}")
    if change:
        config = {"problem_type": None, **config}
    with failure_named(weights, f"does not fit {config_file}", "matching weights"):
        model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(
            str(directory),
            num_classes=num_classes or len(names) or head or 2,
            ignore_mismatched_sizes=change,
            **config,
        )
    tokenizer = load_tokenizer(directory)
    # The file may be of a bare encoder, without the prefix, or of another head, which is left out.
    body, with_head = f"{model.base_model_prefix}.", head is not None and not change
    there = {
        name if name.startswith((body, HEAD_PREFIX)) else f"{body}{name}": shape
        for name, shape in shapes.items()
    }
    wanted = shapes_of(model).items()
    wanted = {name: s for name, s in wanted if with_head or not name.startswith(HEAD_PREFIX)}
    check_weights(weights, there, wanted, FITTING, within=f"{body}encoder.")
    if change:
        _renew_head(model)
        kept = "its encoder is kept, and its head starts again from random weights"
        warnings.warn(f"{directory} was trained for {before}, not for {now}: {kept}", stacklevel=5)
    return model, tokenizer


def _check_task(
    config_file: Path, settings: dict, names: list[str], head: int | None, trained: bool, kind: str
) -> None:
    """Refuse a model of another task, one whose head does not fit, or an untrained one."""
    classes = settings.get("architectures") or []
    if (trained or head is not None) and classes and not classes[0].endswith(kind):
        raise InputError(config_file, f"is of {classes[0]}", f"a class that ends in For{kind}")
    if trained and not (head and classes and (names or kind == "QuestionAnswering")):
        lacks = "no classifier head" if not head else "no id2label" if not names else "no task"
        problem = f"is not a trained classifier: it has {lacks}"
        raise InputError(config_file.parent, problem, "what save_model wrote")
    if head is not None and names and len(names) != head:
        problem = f"names {len(names)} classes in id2label, but the weights have {head}"
        raise InputError(config_file, problem, "one name per class")


def check_same_labels(model: paddle.nn.Layer, directory: str | os.PathLike) -> None:
    """Refuse weights whose configuration beside them names other classes than the model."""
    ours = getattr(getattr(model, "config", None), "id2label", None) or {}
    ours = [ours[index] for index in sorted(ours)]
    file = Path(directory, "config.json")
    theirs = _class_names(file, read_config(file)) if file.is_file() else []
    if theirs and ours and ours != theirs and not _are_defaults(theirs):
        problem = f"is of a model for {_classes(theirs, 0)}"
        raise InputError(directory, problem, f"one for {_classes(ours, 0)}, in this order")


def _renew_head(model: paddle.nn.Layer) -> None:
    for name, layer in model.named_sublayers():
        if f"{name}.".startswith(HEAD_PREFIX):
            model._init_weights(layer)
            if getattr(layer, "bias", None) is not None:
                layer.bias.set_value(paddle.zeros_like(layer.bias))


def _classes(names: Sequence[str] | None, count: int | str | None) -> str:
    if not names:
        return f"{count} classes"
    return ", ".join(names[:5]) + (f", ... ({len(names)} classes)" if len(names) > 5 else "")


def _from_hub(name: str, num_classes: int, config: dict, head: str):
    if os.sep in name and (name.startswith((".", os.sep, "~")) or Path(name).parent.is_dir()):
        raise InputError(name, "does not exist", SAVED)
    problem = "is not a directory, and the hub has no such name, or there is no network"
    expected = 'a directory that exists, "fresh", or a name of the hub and a network'
    with failure_named(name, problem, expected):
        kind = getattr(transformers, f"AutoModelFor{head}")
        model = kind.from_pretrained(name, num_classes=num_classes, **config)
        return model, AutoTokenizer.from_pretrained(name)


def _class_names(path: Path, settings: Mapping) -> list[str]:
    """The names in a configuration's id2label by id; empty where it has none."""
    mapping = settings.get("id2label")
    if not mapping:
        return []
    ids = [str(index) for index in range(len(mapping))] if isinstance(mapping, Mapping) else []
    names = [mapping.get(index) for index in ids]
    named = all(isinstance(name, str) and name.strip() for name in names)
    if not ids or mapping.keys() != set(ids) or not named or len(set(names)) < len(names):
        problem = f"its id2label is {json.dumps(mapping, ensure_ascii=False):.80}"
        expected = 'a name of its own for each id, such as {"0": "negative", "1": "positive"}'
        raise InputError(path, problem, expected)
    return names


def _are_defaults(names: Sequence[str]) -> bool:
    """Whether the names of classes are those that PaddleNLP gives by itself."""
    return names == [f"LABEL_{number}" for number in range(len(names))]
