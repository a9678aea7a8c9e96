"""The same result every time: seeds, switches, and digests to prove it."""

import hashlib
import os
import random

from ..runtime import seed_everything

import numpy as np
import paddle

SWITCHES = {  # on a GPU
    "FLAGS_cudnn_deterministic": "1",  # convolutions
    "FLAGS_embedding_deterministic": "1",  # gradients of embeddings
    "CUBLAS_WORKSPACE_CONFIG": ":4096:2",  # matrix products and recurrent layers
}


def seed_step(seed: int, step: int) -> None:
    """Seed Python, NumPy and paddle for one step, so that its dropout masks need no step before it.

    (paddle's saved random state does not bring them back.)
    """
    digest = hashlib.blake2b(f"{seed}/{step}".encode(), digest_size=4).digest()
    number = int.from_bytes(digest, "little")
    random.seed(number)
    np.random.seed(number)
    paddle.seed(number)


def reproducible(seed: int = 42) -> dict[str, str]:
    """Seed everything and set the switches of the GPU libraries; on a CPU these change nothing.

    The variables are read when Paddle starts on the GPU: call this first.

    Returns:
        What a run must share with another to give the same bits.
    """
    seed_everything(seed)
    os.environ.update(SWITCHES)
    if paddle.is_compiled_with_cuda():
        paddle.set_flags({name: True for name in SWITCHES if name.startswith("FLAGS_")})
    return {"seed": str(seed), **SWITCHES, **environment()}


def environment() -> dict[str, str]:
    """What changes the last bits of a sum although all settings are the same."""
    return {
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "MKL_DEBUG_CPU_TYPE": os.environ.get("MKL_DEBUG_CPU_TYPE", "unset"),
        "paddle": paddle.__version__,
        "device": paddle.get_device(),
    }


def digest(model: paddle.nn.Layer) -> str:
    """SHA-256 of all weights: two models with one digest are equal bit for bit."""
    sha = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        sha.update(name.encode() + value.numpy().tobytes())
    return sha.hexdigest()
