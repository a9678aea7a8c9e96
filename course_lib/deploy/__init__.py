"""Models as files that run without their Python code, and what serves them.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "convert": "onnx",
    "export_model": "export",
    "Predictor": "predictor",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
