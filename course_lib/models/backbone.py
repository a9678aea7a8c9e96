"""One way to get a classifier: from a directory, from the hub, or fresh."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from course_lib import runtime
from course_lib.models.files import (
    check_saved,
    check_sizes,
    checked_pickles,
    find_weights,
    save_pretrained,
    weight_shapes,
)
from course_lib.models.vocabulary import build_vocabulary
from course_lib.runtime import InputError, atomic_directory
from course_lib.runtime.trust import trust_pickles

import paddle
from paddlenlp.transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    ErnieConfig,
    ErnieForSequenceClassification,
    ErnieTokenizer,
)

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
several times slower; reading 256 tokens instead of 128 gives more than any size does. A peak
learning rate of 5e-4 is as good with many steps, and worse with few.
"""

HEAD_PREFIXES = ("classifier.",)
CLASSIFIER = "ForSequenceClassification"
MULTI_LABEL = "multi_label_classification"
CUT = ("heads_per_layer", "neurons_per_layer")  # in the configuration of a pruned model


def load_backbone(
    name_or_path: str | os.PathLike | None = None,
    num_classes: int | None = None,
    vocab_texts: Iterable[str] | None = None,
    label_list: Sequence[str] | None = None,
    trained: bool = False,
    trust_pickle: bool = False,
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
            (`model.config.id2label`), so that they are known after saving and loading. A directory
            whose head was trained for other names, or another `num_classes`, gets a new head of
            random weights on its encoder, and a warning says so.
        trained: ask for a classifier that has been trained: a directory with a whole head and the
            names of its classes. A head of random weights is refused.
        trust_pickle: let a foreign `model_state.pdparams` run the code that it may hold; without,
            one that holds more than arrays is refused.
        **config: changes to the configuration, for example `hidden_dropout_prob=0.2`.

    Returns:
        The model, in training mode, whose `model(input_ids, token_type_ids)` gives logits of shape
        [batch_size, num_classes], and the tokenizer.

    Raises:
        InputError: the directory lacks a file, or one is damaged or does not fit the others; it
            holds a model for another task, a pruned one, or no trained one; a hub name cannot be
            fetched.

    Random weights come from paddle's generator: call `seed_everything` before, for the same twice.
    """
    if name_or_path == "":  # often a shell variable that is not set
        raise InputError("name_or_path", "is empty", "a directory, a hub's name, or None")
    name = str(name_or_path or os.environ.get("COURSE_BACKBONE") or _default_name())
    if label_list is not None:
        if num_classes not in (None, len(label_list)):
            raise InputError(
                "num_classes", f"is {num_classes}", f"{len(label_list)}, the length of label_list"
            )
        num_classes = len(label_list)
    with trust_pickles(trust_pickle), _quiet():
        if Path(name).is_dir() and name != "fresh":
            model, tokenizer = _from_directory(Path(name), num_classes, label_list, config, trained)
        elif Path(name).is_file():
            raise InputError(name, "is a file", "a directory written by save_model")
        elif trained:
            raise InputError(name, "is no directory", "a directory written by save_model")
        elif name == "fresh":
            model, tokenizer = _fresh(vocab_texts, num_classes or 2, config)
        else:
            model, tokenizer = _from_hub(name, num_classes or 2, config)
    if label_list is not None:
        _name_classes(model, label_list)
    model.train()
    return model, tokenizer


def suggested_learning_rate(model: paddle.nn.Layer) -> float:
    """The peak learning rate to fine-tune a model with when nobody has measured a better one.

    A model that knows one carries it in its configuration (`suggested_learning_rate` in
    config.json): fresh ones and the backbone of the course do. For others it is 5e-5, usual for
    ERNIE and BERT.
    """
    return getattr(model.config, "suggested_learning_rate", 5e-5)


def freeze_layers(model: paddle.nn.Layer, layers: int) -> None:
    """Keep a pretrained encoder's embeddings and its lowest layers as they are while it is trained.

    Their gradients are then not computed, which saves time: with half of the layers frozen, about
    a third of a training step.

    Args:
        model: a PaddleNLP model with a transformer encoder, with or without a head.
        layers: how many layers, counted from the embeddings; 0 trains everything again.

    Raises:
        InputError: the model has fewer layers, or is not built like an encoder.
    """
    encoder = getattr(model, getattr(model, "base_model_prefix", ""), model)
    if not hasattr(encoder, "embeddings") or not hasattr(encoder, "encoder"):
        raise InputError(type(model).__name__, "has no encoder.layers", "a BERT-like encoder")
    count = len(encoder.encoder.layers)
    if type(layers) is not int or not 0 <= layers <= count:
        raise InputError("layers", f"is {layers!r}", f"a whole number from 0 to {count}")
    parts = [encoder.embeddings, *encoder.encoder.layers]
    for index, part in enumerate(parts):
        for parameter in part.parameters():
            parameter.stop_gradient = bool(layers) and index <= layers


def save_model(
    model: paddle.nn.Layer,
    tokenizer: ErnieTokenizer,
    directory: str | os.PathLike,
    label_list: Sequence[str] | None = None,
) -> Path:
    """Write weights (safetensors, so loading runs no pickled code), configuration and vocabulary.

    The directory appears whole or not at all, replaces an older one, and can be loaded by
    `load_backbone`, `AutoModelForSequenceClassification` and `AutoTokenizer` with no network.
    manifest.json lists the files' hashes: `load_backbone` refuses a file that has changed since,
    until manifest.json is deleted.

    Args:
        label_list: names of the classes; kept in config.json as id2label.

    Returns:
        The directory.

    Raises:
        InputError: `label_list` repeats a name or has another length than the model has classes;
            the directory cannot be written.
    """
    directory = Path(directory)
    if label_list is not None:
        _name_classes(model, label_list)
    with atomic_directory(directory, "config.json") as temporary, _quiet():
        save_pretrained(temporary, model, tokenizer)
    return directory


def _name_classes(model: paddle.nn.Layer, label_list: Sequence[str]) -> None:
    if len(set(label_list)) < len(label_list):
        raise InputError("label_list", f"repeats a name ({list(label_list)})", "each name once")
    if len(label_list) != model.config.num_labels:
        problem = f"has {len(label_list)} names"
        raise InputError(
            "label_list", problem, f"one for each of {model.config.num_labels} classes"
        )
    model.config.id2label = dict(enumerate(label_list))
    model.config.label2id = {label: index for index, label in enumerate(label_list)}


def _default_name() -> str:
    shipped = runtime.data_dir() / "backbone"
    return str(shipped) if shipped.is_dir() else "fresh"


def _fresh(texts: Iterable[str] | None, num_classes: int, config: dict):
    if texts is None:
        raise InputError(
            "load_backbone", "a fresh model has no vocabulary", "vocab_texts, the training texts"
        )
    vocabulary = build_vocabulary(texts)
    with tempfile.TemporaryDirectory(prefix="vocabulary-") as directory:
        _write_vocabulary(vocabulary, directory)
        tokenizer = ErnieTokenizer(str(Path(directory) / "vocab.txt"), do_lower_case=True)
    # saving a tokenizer would copy the file it was built from, which is no longer there
    tokenizer.save_resources = partial(_write_vocabulary, vocabulary)
    model = ErnieForSequenceClassification(
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
):
    config_file = directory / "config.json"
    settings = _read_config(config_file)
    if any(settings.get(key) is not None for key in CUT):
        problem = "holds a pruned model, whose layers have shapes of their own"
        raise InputError(directory, problem, "course_lib.compression.load_pruned to load it")
    weights = find_weights(directory)
    shapes = weight_shapes(weights)
    check_sizes(config_file, settings, shapes)
    vocab_size = config.get("vocab_size", settings.get("vocab_size"))
    _check_vocabulary(directory / "vocab.txt", vocab_size)
    names = _class_names(config_file, settings)
    head = next((shape[-1] for name, shape in shapes.items() if _is_head(name) and shape), None)
    kinds = settings.get("architectures") or []
    if (trained or head is not None) and kinds and not kinds[0].endswith(CLASSIFIER):
        raise InputError(config_file, f"is of {kinds[0]}", f"a model {CLASSIFIER}")
    if trained and not (head and names and kinds):
        lacks = "no classifier head" if not head else "no id2label" if not names else "no task"
        raise InputError(directory, f"is no trained classifier: {lacks}", "what save_model wrote")
    if head is not None and names and len(names) != head:
        problem = f"names {len(names)} classes in id2label, but the weights have {head}"
        raise InputError(config_file, problem, "one name a class")
    saved_classes = len(names) or head
    kind = settings.get("problem_type") == MULTI_LABEL, config.get("problem_type") == MULTI_LABEL
    before = now = ""
    if num_classes not in (None, head) or (
        label_list is not None and saved_labels(directory) not in ([], list(label_list))
    ):
        before, now = _classes(names, head), _classes(label_list, num_classes)
    elif "problem_type" in config and kind[0] != kind[1]:
        before, now = ("one class a text", "several")[:: -1 if kind[0] else 1]
    new_head = head is not None and before != now
    if new_head and trained:
        raise InputError(directory, f"was trained for {before}", f"one for {now}")
    if new_head:
        config = {"problem_type": None, **config}
    check_saved(directory)
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            str(directory),
            num_classes=num_classes or saved_classes or 2,
            ignore_mismatched_sizes=new_head,
            **config,
        )
    except InputError:
        raise
    except Exception as error:  # paddlenlp raises anything from AttributeError to RuntimeError here
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            weights, f"does not fit {config_file} ({reason})", "matching weights"
        ) from error
    tokenizer = _load_tokenizer(directory)
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    missing = [
        name
        for name in expected
        if name not in shapes
        and _without_prefix(name, model) not in shapes
        and not (head is None and _is_head(name))
    ]
    if missing:  # paddlenlp only warns and leaves them random
        raise InputError(
            weights,
            f"lacks {len(missing)} of the weights that config.json asks for, first {missing[0]}",
            "all weights of the encoder, and of the classifier or none",
        )
    surplus = [
        name
        for name in shapes
        if _without_prefix(name, model).startswith("encoder.")
        and f"{model.base_model_prefix}.{_without_prefix(name, model)}" not in expected
    ]
    if surplus:  # paddlenlp leaves them out without a word
        raise InputError(
            weights,
            f"has {len(surplus)} weights that config.json leaves out, first {surplus[0]}",
            "the configuration that belongs to it",
        )
    if new_head:
        _renew_head(model, directory, before, now)
    return model, tokenizer


def saved_labels(directory: str | os.PathLike) -> list[str]:
    """The names of a saved model's classes by id; none where nobody has named them.

    Raises:
        InputError: config.json is missing or damaged.
    """
    file = Path(directory, "config.json")
    names = _class_names(file, _read_config(file))
    return [] if names == [f"LABEL_{number}" for number in range(len(names))] else names


def check_head(
    model: paddle.nn.Layer, directory: str | os.PathLike, label_list: Sequence[str]
) -> None:
    """Let a model that was loaded from a directory keep its head only for the classes it learned.

    Where the head's names are others, or as many but in another order, it gets a new one of random
    weights, and a warning says so. (PaddleNLP would train the old one on under new names.)
    """
    if Path(directory).is_dir():
        shapes = weight_shapes(find_weights(Path(directory)))
        head = next((shape[-1] for name, shape in shapes.items() if _is_head(name) and shape), None)
        other = saved_labels(directory) not in ([], list(label_list)) or head != len(label_list)
        if head is not None and other:
            before = _classes(saved_labels(directory), head)
            _renew_head(model, directory, before, _classes(label_list, None))


def check_same_labels(model: paddle.nn.Layer, directory: str | os.PathLike) -> None:
    """Refuse weights whose configuration beside them names other classes than the model.

    Raises:
        InputError: other names, or the same in another order.
    """
    ours = getattr(getattr(model, "config", None), "id2label", None) or {}
    ours = [ours[index] for index in sorted(ours)]
    theirs = saved_labels(directory) if Path(directory, "config.json").is_file() else []
    if theirs and ours and ours != theirs:
        problem = f"is of a model for {_classes(theirs, 0)}"
        raise InputError(directory, problem, f"one for {_classes(ours, 0)}, in this order")


def _renew_head(model: paddle.nn.Layer, directory, before: str, now: str) -> None:
    for name, layer in model.named_sublayers():
        if _is_head(f"{name}."):
            model._init_weights(layer)
            if getattr(layer, "bias", None) is not None:
                layer.bias.set_value(paddle.zeros_like(layer.bias))
    warnings.warn(
        f"{directory} was trained for {before}, not for {now}: its encoder is kept, "
        "and its head begins anew with random weights",
        stacklevel=4,
    )


def _classes(names: Sequence[str] | None, count: int | str | None) -> str:
    if not names:
        return f"{count} classes"
    return ", ".join(names[:5]) + (f", ... ({len(names)} classes)" if len(names) > 5 else "")


def _from_hub(name: str, num_classes: int, config: dict):
    if os.sep in name and (name.startswith((".", os.sep, "~")) or Path(name).parent.is_dir()):
        raise InputError(name, "does not exist", "a directory written by save_model")
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            name, num_classes=num_classes, **config
        )
        tokenizer = AutoTokenizer.from_pretrained(name)
    except InputError:  # the hub's file is a pickle that would run code
        raise
    except Exception as error:
        raise InputError(
            name,
            "is no directory here and cannot be fetched from the hub (no network, or no such name)",
            'a directory that exists, "fresh", or a name of the hub and a network',
        ) from error
    return model, tokenizer


_NUMBERS = {  # settings that Paddle fails at only when the model runs: types and bounds
    **dict.fromkeys(("attention_probs_dropout_prob", "hidden_dropout_prob"), ((int, float), 0, 1)),
    "max_seq_length": ((int,), 3, 1 << 20),
    "num_attention_heads": ((int,), 1, 1 << 20),
    "pad_token_id": ((int,), 0, 1 << 30),
}


def _read_config(path: Path) -> dict:
    expected = "the file that save_model wrote"
    if not path.is_file():
        raise InputError(path.parent, "has no config.json", "a directory written by save_model")
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(settings, ensure_ascii=False).encode()  # halves of characters are no text
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(path, f"is not JSON ({error})", expected) from None
    if not isinstance(settings, dict):
        raise InputError(path, f"is a JSON {type(settings).__name__}, not an object", expected)
    for name, (kinds, least, most) in _NUMBERS.items():
        value = settings.get(name, least)
        if name == "max_seq_length" and value is None:
            continue
        if type(value) not in kinds or not least <= value <= most:
            kind = "whole number" if kinds == (int,) else "number"
            expected = f"a {kind} from {least} to {most:.0f}"
            raise InputError(path, f"its {name} is {value!r:.40}", expected)
    kinds = settings.get("architectures") or []
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise InputError(path, "its architectures are no list of names", expected)
    return settings


def _class_names(path: Path, settings: dict) -> list[str]:
    """The names in id2label by id; none where the configuration has none."""
    mapping = settings.get("id2label")
    if mapping is None:
        return []
    expected = 'one name for each class, such as {"0": "negative", "1": "positive"}'
    if not isinstance(mapping, Mapping) or not mapping:
        raise InputError(path, "its id2label is no mapping of ids to names", expected)
    if set(mapping) != {str(index) for index in range(len(mapping))}:
        problem = f"the ids in its id2label are {', '.join(mapping)[:60]}"
        raise InputError(path, problem, f"0 to {len(mapping) - 1}, each once")
    names = [mapping[str(index)] for index in range(len(mapping))]
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise InputError(path, "a name in its id2label is empty or no text", expected)
    if len(set(names)) < len(names):
        raise InputError(path, "its id2label repeats a name", expected)
    return names


def _check_vocabulary(path: Path, vocab_size) -> None:
    """Compare the tokens of vocab.txt and added_tokens.json with the rows of the embedding.

    A missing token would shift the ids of all that follow it. The published ERNIEs of 18,000 and
    40,000 rows have a few rows more than tokens, rounded up to whole thousands.
    """
    if not path.is_file():
        raise InputError(path.parent, "has no vocab.txt", "a directory written by save_model")
    if not isinstance(vocab_size, int):  # left to the class's default, which nothing can compare
        return
    try:
        with open(path, encoding="utf-8") as lines:  # the lines that the tokenizer will count
            tokens = sum(1 for _ in lines)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"cannot be read ({error})", "one token a line, UTF-8") from None
    added = path.with_name("added_tokens.json")  # what `add_tokens` has added
    try:
        tokens += len(json.loads(added.read_text(encoding="utf-8"))) if added.is_file() else 0
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(added, f"is not JSON ({error})", "tokens and their ids") from None
    rounded_up = vocab_size % 1000 == 0 and 0 < vocab_size - tokens < 100
    if tokens != vocab_size and not rounded_up:
        expected = f"{vocab_size}, the vocab_size in config.json"
        raise InputError(path, f"has {tokens} tokens", expected)


def _load_tokenizer(directory: Path):
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(directory))
    except InputError:
        raise
    except Exception as error:  # as with models: anything
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            directory, f"its tokenizer cannot be loaded ({reason})", "the files of save_model"
        ) from error
    for token in tokenizer.all_special_tokens:
        if token in tokenizer.added_tokens_encoder:  # paddlenlp gives it a new id by itself
            raise InputError(directory / "vocab.txt", f"lacks {token}", "all special tokens")
    return tokenizer


def _is_head(name: str) -> bool:
    return name.startswith(HEAD_PREFIXES)


def _without_prefix(name: str, model: paddle.nn.Layer) -> str:
    return name.removeprefix(f"{model.base_model_prefix}.")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep paddlenlp from printing a line for every file, and from running what pickles hold."""
    logger = logging.getLogger("PaddleNLP")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with checked_pickles():
            yield
    finally:
        logger.setLevel(level)
