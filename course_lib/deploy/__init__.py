"""Models as files that run without their Python code, and what serves them.

Names load on first use.
"""

from ..runtime.lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    export="export_model",
    onnx="convert",
    predictor="Predictor",
)
