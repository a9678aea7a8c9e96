"""Whether pickles may run the code that they hold (see `course_lib.models.pickles`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

TRUSTED: ContextVar[bool] = ContextVar("trust_pickles", default=False)


@contextmanager
def trust_pickles(trust: bool = True) -> Iterator[None]:
    """Let pickles run the code that they hold, for all that the course reads inside the block.

    Args:
        trust: False changes nothing: an outer block may trust them.
    """
    token = TRUSTED.set(trust or TRUSTED.get())
    try:
        yield
    finally:
        TRUSTED.reset(token)
