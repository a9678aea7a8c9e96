"""What a model looks at: attributions, hidden states, attention.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "attention_maps": "hooks",
    "Attribution": "attribution",
    "create_parameter": "hooks",
    "deletion_curve": "attribution",
    "hidden_states": "hooks",
    "integrated_gradients": "attribution",
    "lime": "attribution",
    "log_graph": "hooks",
    "occlusion": "attribution",
    "recorded": "hooks",
    "set_parameter": "hooks",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
