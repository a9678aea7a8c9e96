"""What a model looks at: attributions, hidden states, attention.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_NAMES = {
    "attribution": "Attribution deletion_curve integrated_gradients lime occlusion",
    "hooks": "attention_maps hidden_states recorded",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
