"""All that the course replaces in paddle 2.6.2 and PaddleNLP 2.8.1, and why.

`apply`, which importing `course_lib.models` calls, replaces for the whole process:

- `paddle.nn.LayerNorm.forward`: on the CPU, paddle's layer_norm gives a wrong derivative by its
  input, without a message, where its scale is frozen. `course_lib.models.kernels` has a right and
  faster one; where that does not apply, the scale is multiplied outside.
- `paddle.nn.MultiHeadAttention.forward`, `functional.dropout`, `gelu` and `linear`, because those
  of `course_lib.models.kernels` are faster on a CPU; not if COURSE_TUNING leaves `kernels` out.
- `paddlenlp.transformers.model_utils._load_state_dict_into_model`: PaddleNLP casts float16 weights
  before it has removed the prefix (`ernie.`), so that a bare encoder (`AutoModel`) stops with
  "Variable dtype not match". The prefix is removed first.

`quiet_paddlenlp` replaces, inside its block only, `paddle.load` and the `pickle` of PaddleNLP's
ERNIE tokenizer, with which PaddleNLP would run what a model's files hold.

What has to happen before paddle is imported is in `course_lib.runtime.tuning` and `imports`.
"""

import contextlib
import logging
import pickle
import threading
from collections.abc import Iterator
from types import SimpleNamespace

from ..runtime import applied, stack
from . import kernels
from .pickles import paddle_load, read_pickle

import paddle
from paddle.nn import functional
from paddlenlp.transformers import model_utils
from paddlenlp.transformers.ernie import tokenizer as ernie_tokenizer

upstream_load_state = model_utils._load_state_dict_into_model
upstream_layer_norm = paddle.nn.LayerNorm.forward
_lock, _open = threading.Lock(), [0]


def apply() -> None:
    """Replace the functions in this process; calling it again does no harm."""
    stack.restore_operators()
    stack.correct_layers()
    model_utils._load_state_dict_into_model = _load_without_prefix
    paddle.nn.LayerNorm.forward = _normalize_then_scale
    if applied()["kernels"]["applied"]:
        paddle.nn.LayerNorm.forward = _layer_norm
        paddle.nn.MultiHeadAttention.forward, functional.linear = kernels.attention, kernels.linear
        functional.dropout, functional.gelu = kernels.dropout, kernels.gelu


def _load_without_prefix(model_to_load, state_dict: dict, start_prefix: str):
    if start_prefix:
        for name in list(state_dict):
            if name.startswith(start_prefix):
                state_dict[name.removeprefix(start_prefix)] = state_dict.pop(name)
    return upstream_load_state(model_to_load, state_dict, "")


def _layer_norm(self: paddle.nn.LayerNorm, input: paddle.Tensor) -> paddle.Tensor:
    whole = len(self._normalized_shape) == 1 and self.weight is not None and self.bias is not None
    if whole and kernels.trains(input) and self.weight.dtype == self.bias.dtype == input.dtype:
        return kernels.layer_norm(input, self.weight, self.bias, self._epsilon)
    return _normalize_then_scale(self, input)


def _normalize_then_scale(self: paddle.nn.LayerNorm, input: paddle.Tensor) -> paddle.Tensor:
    derives = paddle.in_dynamic_mode() and paddle.is_grad_enabled() and not input.stop_gradient
    if self.weight is None or not self.weight.stop_gradient or not derives:
        return upstream_layer_norm(self, input)
    output = functional.layer_norm(input, self._normalized_shape, epsilon=self._epsilon)
    output = output * self.weight.reshape(self._normalized_shape)
    return output if self.bias is None else output + self.bias.reshape(self._normalized_shape)


@contextlib.contextmanager
def quiet_paddlenlp() -> Iterator[None]:
    """Call PaddleNLP without its line of log per file, and without running pickles.

    Everything that loads or saves through PaddleNLP's own functions does so in this block.
    """
    logger = logging.getLogger("PaddleNLP")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with checked_pickles():
        try:
            yield
        finally:
            logger.setLevel(level)


@contextlib.contextmanager
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
                paddle.load, ernie_tokenizer.pickle = paddle_load, pickle


def _load(path, **options) -> object:
    if hasattr(path, "read"):  # an object in memory, not a file
        return paddle_load(path, **options)
    return read_pickle(path, **{"return_numpy": False, **options})


def _load_open(file) -> object:
    """For ErnieTinyTokenizer, which unpickles its list of words."""
    with file:
        return read_pickle(file.name)
