"""Reading pickles without running the code that they may hold.

`paddle.save` writes pickles (`.pdparams`, `.pdopt`), and unpickling can call any function. Here an
unpickler that knows arrays, dicts, lists, numbers and texts goes through them first, and refuses
everything else, unless the caller trusts the file. `course_lib.models.patches` has PaddleNLP use
it.
"""

import io
import pickle
import re
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..runtime import InputError
from ..runtime.settings import TRUSTED

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
            try:
                _Check(io.BytesIO(content), path).load()
            except MemoryError:
                raise ValueError("it asks for more memory than there is") from None
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
    """Stands for numpy.dtype, whose __setstate__ believes whatever a file contains."""

    def __new__(cls, code: str, *_) -> "_Dtype":
        if not re.fullmatch(r"[<>|=]?(b1|[iu][1248]|f[248]|c8|c16)", code):
            raise ValueError(f"an array of type {code}")
        return super().__new__(cls)

    def __setstate__(self, state: tuple) -> None:
        if tuple(state[2:]) != (None, None, None, -1, -1, 0):
            raise ValueError("an array of a type with parts")


class _Array:
    """Stands for an array: NumPy itself checks its shape and its numbers."""

    def __init__(self, *_) -> None: ...

    def __setstate__(self, state: tuple) -> None: ...


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
    ("numpy.core.multiarray", "scalar"): lambda kind, data: 0,
}


class _Check(pickle.Unpickler):
    """Takes the steps that unpickling will take, with stand-ins for what they make.

    No step depends on a value, so `paddle.load` then takes no other ones.
    """

    def __init__(self, file, path) -> None:
        super().__init__(file, encoding="latin1")
        self.path = path

    def find_class(self, module: str, name: str) -> object:
        modern = module.replace("__builtin__", "builtins").replace("numpy._core", "numpy.core")
        if (modern, name) not in _KNOWN:
            problem = f"is a pickle that may run code: it names {module}.{name}"
            raise InputError(self.path, problem, f".safetensors, or arrays and numbers; or {TRUST}")
        return _KNOWN[modern, name]
