"""One seed for every source of randomness that the course uses."""

from __future__ import annotations

import random


def seed_everything(seed: int = 42) -> int:
    """Seed Python's, NumPy's and Paddle's generators and return the seed.

    CPU training is then reproducible to the bit at a fixed number of threads: other thread counts
    and another MKL code path add the same numbers in another order.

    Raises:
        ValueError: `seed` is not within 0 .. 2**32 - 1, the range that NumPy accepts.
    """
    import numpy as np
    import paddle

    seed = int(seed)
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed {seed} is out of range; expected 0 .. 2**32 - 1")
    random.seed(seed)
    np.random.seed(seed)
    paddle.seed(seed)
    return seed
