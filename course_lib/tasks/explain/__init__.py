"""What a model looks at: attributions, hidden states, attention.

Names load on first use.
"""

from ...runtime.lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    attribution="Attribution deletion_curve integrated_gradients lime occlusion",
    hooks="attention_maps hidden_states recorded",
)
