"""Sizes of a run (`COURSE_PROFILE`), the place of the data (`COURSE_DATA`), seed and trust."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from .errors import InputError

# Whether pickles may run the code that they hold: see `course_lib.models.pickles`.
TRUSTED: ContextVar[bool] = ContextVar("trust_pickles", default=False)


@dataclass(frozen=True)
class Profile:
    """How much of everything a notebook uses; it changes sizes, never code."""

    name: str
    train_examples: int | None  # at most so many, None means all; also of the next two
    dev_examples: int | None
    test_examples: int | None
    epochs: int
    batch_size: int
    max_seq_length: int  # tokens per example, [CLS] and [SEP] included
    max_steps: int | None  # of the optimizer, after which training stops
    note: str

    def __str__(self) -> str:
        def size(value: int | None) -> str:
            return "all" if value is None else f"{value:,}"

        steps = "" if self.max_steps is None else f", at most {self.max_steps} steps"
        return (
            f"profile {self.name}: {size(self.train_examples)} training, "
            f"{size(self.dev_examples)} dev and {size(self.test_examples)} test examples, "
            f"{self.epochs} epoch{'s' if self.epochs != 1 else ''}{steps}, "
            f"batches of {self.batch_size}, up to {self.max_seq_length} tokens. {self.note}"
        )


PROFILES = {
    "cpu": Profile(
        "cpu", 1200, 400, 600, 2, 16, 128, None, "Made for two CPU cores: minutes, on real data."
    ),
    "gpu": Profile(
        "gpu", None, None, None, 3, 32, 256, None, "Made for one GPU: the whole data set."
    ),
    "smoke": Profile(
        "smoke", 64, 32, 32, 1, 8, 64, 4, "Proves that the cells run; its numbers mean nothing."
    ),
    # For the tests: what only the gpu profile does, in two steps and without a GPU.
    "rehearsal": Profile(
        "gpu", 64, 32, 32, 1, 8, 64, 2, "Rehearses the gpu profile; its numbers mean nothing."
    ),
}


def profile() -> Profile:
    """The profile that `COURSE_PROFILE` names: cpu (the default), gpu, smoke or rehearsal."""
    name = os.environ.get("COURSE_PROFILE", "").strip() or "cpu"
    if name not in PROFILES:
        raise InputError("COURSE_PROFILE", f"is {name!r}", f"one of {', '.join(PROFILES)}")
    return PROFILES[name]


def data_dir() -> Path:
    """Return the repository's data/ directory, or what `COURSE_DATA` names instead."""
    named = os.environ.get("COURSE_DATA")
    if not named:
        return Path(__file__).resolve().parents[2] / "data"
    path = Path(named).expanduser()
    if not path.is_dir():
        raise InputError("COURSE_DATA", f"{named} is not a directory", "an existing directory")
    return path


def seed_everything(seed: int = 42) -> int:
    """Seed Python's, NumPy's and Paddle's generators and return the seed.

    CPU training is then reproducible to the bit at a fixed number of threads: other thread counts
    and another MKL code path add the same numbers in another order.
    """
    import numpy as np
    import paddle

    np.random.seed(seed)
    random.seed(int(seed))
    paddle.seed(int(seed))
    return int(seed)


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
