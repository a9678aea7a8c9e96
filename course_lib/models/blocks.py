"""Work on a tensor's own memory with NumPy, block by block, shared among threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import paddle

BLOCK = 1 << 16  # numbers: 256 KiB, so that a block and its intermediate results stay in the cache
f32 = np.float32
_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # a forked child has no threads of its parent


class _Memory:
    """What NumPy asks for to see a tensor's memory; its arrays keep it, and so the tensor."""

    def __init__(self, tensor: paddle.Tensor) -> None:
        self.tensor = tensor if tensor.is_contiguous() else tensor.contiguous()
        place = {"data": (self.tensor.data_ptr(), False), "shape": tuple(tensor.shape)}
        self.__array_interface__ = {"version": 3, "typestr": "<f4", **place}


def array(tensor: paddle.Tensor) -> np.ndarray:
    """A float32 tensor on the CPU as an array: its memory, or a copy if that is not in order."""
    return np.asarray(_Memory(tensor))


def new(shape: Sequence[int]) -> tuple[paddle.Tensor, np.ndarray]:
    """A float32 tensor to be filled, and its memory."""
    tensor = paddle.empty(shape, "float32")
    return tensor, array(tensor)


def blocks(rows: int, width: int = 1) -> list[slice]:
    """Cut rows of `width` numbers into blocks; where, depends on nothing else."""
    step = max(1, BLOCK // width)
    return [slice(start, start + step) for start in range(0, rows, step)]


def share(function: Callable, items: Sequence) -> None:
    """Call function(number, item) for each item, on as many threads as paddle may use."""
    allowed = os.environ.get("OMP_NUM_THREADS", "1")
    count = min(int(allowed) if allowed.isdigit() else 1, len(items))

    def work(first: int) -> None:
        for number in range(first, len(items), max(1, count)):
            function(number, items[number])

    if count > 1 and count not in _pools:
        _pools[count] = ThreadPoolExecutor(count - 1, "kernels")
    others = [_pools[count].submit(work, first) for first in range(1, count)]
    work(0)
    for other in others:
        other.result()


def sums(values: np.ndarray, factors: np.ndarray | None = None) -> np.ndarray:
    """Sums over the last axis (of products), which stays with length 1."""
    if factors is None:
        return np.einsum("...i->...", values)[..., None]
    return np.einsum("...i,...i->...", values, factors)[..., None]
