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

    np.random.seed(seed)
    random.seed(int(seed))
    paddle.seed(int(seed))
    return int(seed)
