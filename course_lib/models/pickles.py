"""Reading pickles without running the code that they may hold.

`paddle.save` writes pickles (`.pdparams`, `.pdopt`), and unpickling can call any function. Here an
unpickler reads them that knows arrays, dicts, lists, numbers and texts, and refuses everything
else, unless the caller trusts the file. `course_lib.models.patches` has PaddleNLP use it.
"""

import io
import pickle
import re
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from ..runtime import InputError
from ..runtime.settings import TRUSTED

import numpy as np
import paddle

TRUST = "--trust_pickle or course_lib.models.trust_pickles() if you trust its author"
paddle_load = paddle.load  # `patches` replaces paddle.load for a while


def read_pickle(path, **options) -> object:
    """Read what `paddle.save` wrote; code that the file may hold runs only inside `trust_pickles`.

    Args:
        **options: those of `paddle.load`; arrays stay NumPy's unless `return_numpy=False`.

    Raises:
        InputError: no such file, a damaged one, or a pickle that names something else than arrays,
            dicts, lists, numbers and texts.
    """
    options = {"return_numpy": True, **options}
    with damage_named(path, "a file that paddle.save wrote"):
        content = Path(path).read_bytes()
        if not TRUSTED.get():
            loaded = _Unpickler(io.BytesIO(content), path).load()
            content = pickle.dumps(_unwrapped(loaded, [len(content)]), 4)
        return paddle_load(io.BytesIO(content), **options)


@contextmanager
def damage_named(path, expected: str) -> Iterator[None]:
    """Turn whatever reading a file raises inside the block into an InputError about the file."""
    with failure_named(path, "is damaged", expected):
        if not Path(path).is_file():
            raise InputError(path, "does not exist", expected)
        yield


@contextmanager
def failure_named(where, problem: str, expected: str) -> Iterator[None]:
    """Turn whatever a library raises inside the block into an InputError, the reason in it."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # a cut pickle, Paddle or PaddleNLP can raise nearly anything
        reason = " ".join(str(error).rpartition("Error Message Summary:")[2].split())
        reason = reason.lstrip("- ")[:200] or type(error).__name__
        raise InputError(where, f"{problem} ({reason})", expected) from error


class _Dtype:
    """Replaces numpy.dtype, whose __setstate__ does not check what a file contains."""

    def __init__(self, code: str, *_) -> None:
        if not re.fullmatch(r"[<>|=]?(b1|[iu][1248]|f[248]|c8|c16)", code):
            raise ValueError(f"an array of type {code}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Replaces an array until its numbers have been read."""

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
    """Python's unpickler in Python: the one in C allocates what a file asks for before it reads."""

    dispatch: ClassVar = dict(pickle._Unpickler.dispatch)
    del dispatch[pickle.BYTEARRAY8[0]]  # the only one that takes it here

    def __init__(self, file, path) -> None:
        super().__init__(file, encoding="latin1")
        self.path = path

    def find_class(self, module: str, name: str) -> object:
        modern = module.replace("__builtin__", "builtins").replace("numpy._core", "numpy.core")
        if (modern, name) not in _KNOWN:
            problem = f"is a pickle that may run code: it names {module}.{name}"
            raise InputError(self.path, problem, f".safetensors, or arrays and numbers; or {TRUST}")
        return _KNOWN[modern, name]

    def load_build(self) -> None:
        stack: list = self.stack  # type: ignore[attr-defined]
        state = stack.pop()
        if isinstance(stack[-1], (_Array, _Dtype)):  # nothing else may get attributes
            stack[-1].__setstate__(state)

    dispatch[pickle.BUILD[0]] = load_build  # type: ignore[assignment]


def _unwrapped(value: Any, room: list[int]) -> object:
    """Turn what was read into plain objects and arrays.

    `room` is how many there may be: each takes a byte of the file, but for lists in lists that the
    file names many times, and that would fill the memory.
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
