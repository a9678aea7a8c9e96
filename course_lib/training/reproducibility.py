"""The same result every time: seeds, switches, and the proof in processes of their own."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from course_lib.runtime import InputError, seed_everything
from course_lib.runtime.machine import child_environment

import numpy as np
import paddle

SWITCHES = {
    "FLAGS_cudnn_deterministic": "1",  # convolutions on a GPU
    "FLAGS_embedding_deterministic": "1",  # gradients of embeddings on a GPU
    "CUBLAS_WORKSPACE_CONFIG": ":4096:2",  # matrix products and recurrent layers on a GPU
}


def seed_step(seed: int, step: int) -> None:
    """Seed Python, NumPy and paddle for one step (costs about 40 microseconds).

    A saved paddle random state holds only device, seed and offset, and dropout masks differ after
    it is loaded again. Seeding from (seed, step) makes each step's masks depend on nothing before
    it, so a run can be resumed anywhere.
    """
    digest = hashlib.blake2b(f"{seed}/{step}".encode(), digest_size=4).digest()
    number = int.from_bytes(digest, "little")
    random.seed(number)
    np.random.seed(number)
    paddle.seed(number)


def reproducible(seed: int = 42) -> dict[str, str]:
    """Seed everything and set the switches of the GPU libraries; on a CPU these change nothing.

    The variables are read when Paddle starts on the GPU: call this first, or start the process
    with them. Dropout is switched off for evaluation by `model.eval()`.

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


def repeat_in_processes(
    function: str,
    arguments: Mapping[str, object] | None = None,
    times: int = 2,
    environment: Mapping[str, str] | None = None,
    timeout: float = 600,
) -> list:
    """Call a function in new processes, one after another, and return what each gave.

    Args:
        function: "package.module:name", to be imported there.
        arguments, results: JSON values.
        environment: variables on top of this process's, such as `SWITCHES`.
        timeout: seconds for each process.

    Raises:
        InputError: the function cannot be imported, or it raised.
        subprocess.TimeoutExpired: it took too long.
    """
    module, _, name = function.partition(":")
    call = (
        "import importlib, json, sys; import course_lib; "
        "function = getattr(importlib.import_module(sys.argv[1]), sys.argv[2]); "
        "result = function(**json.loads(sys.argv[3])); "
        "open(sys.argv[4], 'w').write(json.dumps(result))"
    )
    results = []
    with tempfile.TemporaryDirectory(prefix="repeat-") as directory:
        file = Path(directory, "result.json")
        command = [sys.executable, "-c", call, module, name, json.dumps(dict(arguments or {}))]
        command.append(str(file))
        variables = {**child_environment(), **(environment or {})}
        for _ in range(times):
            process = subprocess.run(
                command, env=variables, capture_output=True, text=True, timeout=timeout
            )
            if process.returncode:
                reason = (process.stderr.strip().splitlines() or ["no message"])[-1][:200]
                raise InputError(function, f"failed: {reason}", "a function that runs")
            results.append(json.loads(file.read_text()))
    return results
