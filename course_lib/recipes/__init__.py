"""One tested function for each answer to a frequent question that deserves code.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME: dict[str, str] = {}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
