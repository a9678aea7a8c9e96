"""Where PaddleNLP 2.8.1 fails to load what it should, mended.

A file of float16 weights is half as large, and PaddleNLP casts it to the model's float32 while it
loads. But it compares names before it has taken the prefix (`ernie.`) off them, so loading the bare
encoder (`AutoModel`) out of a file of a model with a head finds nothing to cast and stops with
"Variable dtype not match". Importing `course_lib.models` puts the two steps in the right order.
"""

from __future__ import annotations

from paddlenlp.transformers import model_utils

_load = model_utils._load_state_dict_into_model


def _load_without_prefix(model_to_load, state_dict: dict, start_prefix: str):
    """Take the prefix off first; the rest is PaddleNLP's."""
    if start_prefix:
        for name in list(state_dict):
            if name.startswith(start_prefix):
                state_dict[name.removeprefix(start_prefix)] = state_dict.pop(name)
    return _load(model_to_load, state_dict, "")


def apply() -> None:
    """Mend PaddleNLP in this process; more than once does no harm."""
    model_utils._load_state_dict_into_model = _load_without_prefix
