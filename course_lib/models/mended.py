"""Where PaddleNLP 2.8.1 and paddle 2.6.2 fail at what a fine-tuning needs, mended.

**Loading float16.** A file of float16 weights is half as large, and PaddleNLP casts it to the
model's float32 while it loads. But it compares names before it has taken the prefix (`ernie.`) off
them, so loading the bare encoder (`AutoModel`) out of a file of a model with a head finds nothing
to cast and stops with "Variable dtype not match".

**Frozen layer norms.** On the CPU, paddle's layer_norm gives a wrong derivative by its input,
without a word, where its scale does not ask for one of its own. So training that freezes one above
parts that learn (biases only, adapters) goes astray. Without a scale the derivative is right, and
then multiplying by it is done outside.

Importing `course_lib.models` mends both.
"""

from __future__ import annotations

import paddle
from paddle.nn import functional
from paddlenlp.transformers import model_utils

_load = model_utils._load_state_dict_into_model
_normalize = paddle.nn.LayerNorm.forward


def _load_without_prefix(model_to_load, state_dict: dict, start_prefix: str):
    """Take the prefix off first; the rest is PaddleNLP's."""
    if start_prefix:
        for name in list(state_dict):
            if name.startswith(start_prefix):
                state_dict[name.removeprefix(start_prefix)] = state_dict.pop(name)
    return _load(model_to_load, state_dict, "")


def _normalize_then_scale(self: paddle.nn.LayerNorm, input: paddle.Tensor) -> paddle.Tensor:
    derives = paddle.in_dynamic_mode() and paddle.is_grad_enabled() and not input.stop_gradient
    if self.weight is None or not self.weight.stop_gradient or not derives:
        return _normalize(self, input)
    output = functional.layer_norm(input, self._normalized_shape, epsilon=self._epsilon)
    output = output * self.weight.reshape(self._normalized_shape)
    return output if self.bias is None else output + self.bias.reshape(self._normalized_shape)


def apply() -> None:
    """Mend both in this process; more than once does no harm."""
    model_utils._load_state_dict_into_model = _load_without_prefix
    paddle.nn.LayerNorm.forward = _normalize_then_scale
