"""Weight files: reading them runs no code, writing them leaves no pickle.

The course writes safetensors and JSON, which hold names and numbers only. `paddle.save` writes
pickles (`.pdparams`, `.pdopt`), and unpickling can call any function. Here a pickle is read by an
unpickler that knows arrays, dicts, lists, numbers and texts, and refuses everything else, unless
the caller trusts it.

PaddleNLP reads pickles by itself in `from_pretrained` and in its Trainer. Inside
`checked_pickles()`, and only there, `paddle.load` is replaced by the reader of this module.
"""

from __future__ import annotations

import io
import pickle
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

from course_lib.runtime import InputError, atomic_file
from course_lib.runtime.manifest import describe_file, verify_model, write_manifest
from course_lib.runtime.trust import trusts_pickles

import numpy as np
import paddle
from paddlenlp.transformers.ernie import tokenizer as ernie_tokenizer
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

Arrays = Mapping[str, np.ndarray]

WEIGHT_FILES = ("model.safetensors", "model_state.pdparams")
SHARDS = tuple(f"{name}.index.json" for name in WEIGHT_FILES)
VOCABULARIES = ("vocab.txt", "added_tokens.json", "tokenizer.json", "tokenizer_config.json")
VOCABULARIES += ("special_tokens_map.json", "sentencepiece.bpe.model", "spiece.model")
VOCABULARIES += ("dict.wordseg.pickle",)
SIZES = ("hidden_size", "intermediate_size", "vocab_size")
SIZES += ("max_position_embeddings", "type_vocab_size", "task_type_vocab_size")
TRUST = "--trust_pickle or course_lib.models.trust_pickles() if you trust whoever made it"
_paddle_load = paddle.load
_lock, _open = threading.Lock(), [0]


def read_weights(path, trust_pickle: bool = False) -> dict[str, np.ndarray]:
    """Read a weight file: safetensors, or what `paddle.save` wrote of a state dict.

    Args:
        path: the file; a name that ends in `.safetensors` tells the kind.
        trust_pickle: let a pickle run the code that it holds.

    Raises:
        InputError: no such file, a damaged one, a pickle that would run code, or one that holds
            something else than arrays by name.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        state = read_pickle(path, trust_pickle)
        if not isinstance(state, dict):
            raise InputError(path, f"holds a {type(state).__name__}", "arrays by name")
        for name, value in state.items():
            if not isinstance(name, str) or not isinstance(value, np.ndarray):
                problem = f"holds a {type(value).__name__} called {name!r:.80}"
                raise InputError(path, problem, "arrays by name")
        return state
    with _damage(path, "a .safetensors file"):
        return load_file(path)


def write_weights(path, weights: Arrays, framework: str = "np") -> None:
    """Write a .safetensors file, whole or not at all.

    Args:
        framework: what the metadata shall say: PaddleNLP reads "np", Hugging Face "pt", only.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    with atomic_file(path, "wb") as handle:
        handle.write(save(arrays, metadata={"format": framework}))


def weight_shapes(path) -> dict[str, tuple[int, ...]]:
    """Names and shapes in a weight file; finds out on the way whether the file is whole.

    Raises:
        InputError: as `read_weights`.
    """
    if Path(path).suffix != ".safetensors":
        return {name: value.shape for name, value in read_weights(path).items()}
    with _damage(path, "a .safetensors file"), safe_open(path, framework="np") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def read_pickle(path, trust_pickle: bool = False, **options) -> object:
    """Read what `paddle.save` wrote, without running code that the file may hold.

    Args:
        trust_pickle: let it run that code; so does `trust_pickles`.
        **options: those of `paddle.load`; arrays stay NumPy's unless `return_numpy=False`.

    Raises:
        InputError: no such file, a damaged one, or a pickle that names something else than arrays,
            dicts, lists, numbers and texts.
    """
    options = {"return_numpy": True, **options}
    with _damage(path, "a file that paddle.save wrote"):
        content = Path(path).read_bytes()
        if not (trust_pickle or trusts_pickles()):
            loaded = _Unpickler(io.BytesIO(content), path).load()
            content = pickle.dumps(_unwrapped(loaded, [len(content)]), 4)
        return _paddle_load(io.BytesIO(content), **options)


def find_weights(directory: Path) -> Path:
    """The weight file of a model's directory.

    Raises:
        InputError: there is none, or weights in several files, which PaddleNLP would prefer.
    """
    for name in SHARDS:
        if (directory / name).is_file():
            raise InputError(directory / name, "is of weights in several files", "one weight file")
    for name in WEIGHT_FILES:
        if (directory / name).is_file():
            return directory / name
    expected = " or ".join(WEIGHT_FILES)
    if (directory / "deploy.json").is_file():
        raise InputError(directory, "is an export, to be served", f"a trained model, {expected}")
    raise InputError(directory, "has no weights", expected)


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
    list_files(directory, more)


def save_tokenizer(directory: Path, tokenizer) -> None:
    """Write the vocabulary and settings, the same bytes wherever the tokenizer was read from."""
    tokenizer.init_kwargs.pop("special_tokens_map_file", None)  # PaddleNLP notes the path here
    tokenizer.save_pretrained(str(directory))


def list_files(directory: Path, more: Iterable[str] = ()) -> None:
    """Write the manifest of a model's files that have just been written."""
    names = sorted({"config.json", *WEIGHT_FILES, *VOCABULARIES, *more})
    files = {name: directory / name for name in names if (directory / name).is_file()}
    write_manifest(directory, {name: describe_file(file) for name, file in files.items()})


def check_saved(directory: Path) -> None:
    """Refuse a model's directory in which a file has changed since `save_pretrained`.

    Raises:
        InputError: naming the file, and how to accept the change.
    """
    verify_model(directory, (*WEIGHT_FILES, *VOCABULARIES))


def check_sizes(where, config: Mapping, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse, before memory is gone, a configuration of sizes that its weights cannot have.

    Args:
        where: the configuration's file, for the message.
        shapes: of the weights by name.

    Raises:
        InputError: more layers than there are weights, a size above all of the weights', or an old
            form that may hide such sizes.
    """
    if "init_args" in config:  # PaddleNLP takes sizes from there, too
        expected = "its settings at the top, as save_pretrained writes them"
        raise InputError(where, "has init_args, as older versions of PaddleNLP wrote", expected)
    filled = [shape for shape in shapes.values() if 0 not in shape]  # others have any other size
    largest = max((size for shape in filled for size in shape), default=0)
    most = dict.fromkeys(SIZES, largest)
    if config.get("neurons_per_layer") is not None:  # of a pruned model, which was larger once
        most["intermediate_size"] = max(largest, 1 << 14)
    for name, limit in {**most, "num_hidden_layers": len(filled)}.items():
        size = config.get(name)
        if name in config and (type(size) is not int or not 0 <= size <= limit):
            problem = f"its {name} is {size!r:.40}"
            raise InputError(where, problem, f"a whole number, at most {limit} by the weights")


@contextmanager
def checked_pickles() -> Iterator[None]:
    """Have PaddleNLP read pickles as `read_pickle` does, in this block (and in other threads)."""
    with _lock:
        _open[0] += 1
        paddle.load, ernie_tokenizer.pickle = _load, SimpleNamespace(load=_load_open)
    try:
        yield
    finally:
        with _lock:
            _open[0] -= 1
            if not _open[0]:
                paddle.load, ernie_tokenizer.pickle = _paddle_load, pickle


def _load(path, **options) -> object:
    if hasattr(path, "read"):  # in memory: nobody's file
        return _paddle_load(path, **options)
    return read_pickle(path, **{"return_numpy": False, **options})


def _load_open(file) -> object:
    """For ErnieTinyTokenizer, which unpickles its list of words."""
    with file:
        return read_pickle(file.name)


class _Refused(InputError):
    pass


class _Dtype:
    """Stands for numpy.dtype, whose own __setstate__ believes whatever a file says of it."""

    def __init__(self, code: str, *_) -> None:
        if not re.fullmatch(r"[<>|=]?(b1|[iu][1248]|f[248]|c8|c16)", code):
            raise ValueError(f"an array of type {code}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Stands for an array until its numbers have been read."""

    def __init__(self, *_) -> None:
        self.value = np.zeros(0)

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, fortran, data = state
        data = data.encode("latin1") if isinstance(data, str) else data
        flat = np.frombuffer(data, kind.dtype)
        self.value = flat.reshape(shape, order="F" if fortran else "C").copy()


def _scalar(kind: _Dtype, data: bytes) -> object:
    return np.frombuffer(data, kind.dtype)[0].item()


def _latin1(text: str, encoding: str) -> bytes:
    """How a protocol of before Python 3 writes bytes."""
    if encoding != "latin1":
        raise ValueError(f"bytes as {encoding}")
    return text.encode("latin1")


_KNOWN = {
    ("builtins", "bytes"): lambda: b"",  # and not as many as a file asks for
    ("builtins", "set"): set,
    ("builtins", "tuple"): tuple,  # (name, array): a tensor
    ("collections", "OrderedDict"): OrderedDict,
    ("_codecs", "encode"): _latin1,
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.multiarray", "scalar"): _scalar,
}


class _Unpickler(pickle._Unpickler):
    """Python's own, as the one in C takes the memory that a file asks for, before it reads on."""

    dispatch: ClassVar = dict(pickle._Unpickler.dispatch)
    del dispatch[pickle.BYTEARRAY8[0]]  # the only one that takes it here

    def __init__(self, file, path) -> None:
        super().__init__(file, encoding="latin1")
        self.path = path

    def find_class(self, module: str, name: str) -> object:
        modern = module.replace("__builtin__", "builtins").replace("numpy._core", "numpy.core")
        if (modern, name) not in _KNOWN:
            problem = f"is a pickle that may run code: it names {module}.{name}"
            raise _Refused(self.path, problem, f".safetensors, or arrays and numbers; or {TRUST}")
        return _KNOWN[modern, name]

    def load_build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], (_Array, _Dtype)):  # nothing else may get attributes
            self.stack[-1].__setstate__(state)

    dispatch[pickle.BUILD[0]] = load_build


def _unwrapped(value: object, room: list[int]) -> object:
    """Plain objects; what stood for an array is one now.

    Args:
        room: how many objects there may be: each takes a byte of the file, but for lists in lists
            that the file names many times, and that would fill the memory.
    """
    room[0] -= 1
    if room[0] < 0:
        raise ValueError("it holds itself, or a part of it many times")
    if isinstance(value, _Array):
        return value.value
    if isinstance(value, dict):
        pairs = value.items()
        return {_unwrapped(key, room): _unwrapped(one, room) for key, one in pairs}
    if type(value) in (list, tuple, set):
        return type(value)(_unwrapped(one, room) for one in value)
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return value
    raise ValueError(f"a {type(value).__name__} by itself")


@contextmanager
def _damage(path, expected: str) -> Iterator[None]:
    try:
        if not Path(path).is_file():
            raise InputError(path, "does not exist", expected)
        yield
    except InputError:
        raise
    except SafetensorError as error:
        raise InputError(path, f"is damaged ({_short(error)})", expected) from None
    except MemoryError:
        raise
    except Exception as error:  # a cut pickle can raise nearly anything
        raise InputError(path, f"is damaged ({_short(error)})", expected) from error


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
