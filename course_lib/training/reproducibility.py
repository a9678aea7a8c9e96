"""The same result every time: seeds, switches, and the proof in processes of their own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from course_lib.runtime import InputError, seed_everything
from course_lib.runtime.errors import whole
from course_lib.runtime.machine import child_environment
from course_lib.training.finetune import digest
from course_lib.training.prediction import forward, inference_mode, training_mode
from course_lib.training.steps import Batch, accumulated_step

import numpy as np
import paddle

SWITCHES = {
    "FLAGS_cudnn_deterministic": "1",  # convolutions on a GPU
    "FLAGS_embedding_deterministic": "1",  # gradients of embeddings on a GPU
    "CUBLAS_WORKSPACE_CONFIG": ":4096:2",  # matrix products and recurrent layers on a GPU
}


def reproducible(seed: int = 42) -> dict[str, str]:
    """Seed everything and set the switches of the GPU libraries; on a CPU these change nothing.

    The variables are read when Paddle starts on the GPU: call this first, or start the process
    with them. What else decides on the bits and cannot be set now is returned, too: threads,
    Paddle's version, the device. Dropout off for evaluation is `model.eval()`.

    Returns:
        What a run must share with another to give the same bits.

    Source: FAQ Q3.7.
    """
    seed = seed_everything(seed)
    os.environ.update(SWITCHES)
    if paddle.is_compiled_with_cuda():
        paddle.set_flags({name: True for name in SWITCHES if name.startswith("FLAGS_")})
    return {
        "seed": str(seed),
        **SWITCHES,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "MKL_DEBUG_CPU_TYPE": os.environ.get("MKL_DEBUG_CPU_TYPE", "unset"),
        "paddle": paddle.__version__,
        "device": paddle.get_device(),
    }


def digests(
    model: paddle.nn.Layer, batches: Iterable[Batch], evaluating: bool = True
) -> dict[str, str]:
    """SHA-256 of a model's weights and of its logits on labelled batches.

    Args:
        evaluating: False leaves dropout on, as one does by forgetting `model.eval()`.

    Returns:
        {"weights", "predictions"}: two models of which both agree are equal bit for bit.
    """
    sha, mode = hashlib.sha256(), inference_mode if evaluating else training_mode
    with mode(model), paddle.no_grad():
        for batch in batches:
            sha.update(np.ascontiguousarray(forward(model, batch)[0].numpy()).tobytes())
    return {"weights": digest(model), "predictions": sha.hexdigest()}


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
        arguments: keyword arguments that JSON can hold.
        times: how many processes.
        environment: variables on top of this process's, such as `SWITCHES`.
        timeout: seconds a process.

    Returns:
        The results, which must be JSON values.

    Raises:
        InputError: no such function, it raised, or took too long.
    """
    module, _, name = function.partition(":")
    if not module or not name:
        raise InputError("function", f"is {function!r}", "package.module:name")
    whole("times", times, 1)
    call = (
        "import importlib, json, sys; import course_lib; "
        "f = getattr(importlib.import_module(sys.argv[1]), sys.argv[2]); "
        "r = f(**json.loads(sys.argv[3])); open(sys.argv[4], 'w').write(json.dumps(r))"
    )
    results = []
    with tempfile.TemporaryDirectory(prefix="repeat-") as directory:
        result = Path(directory, "result.json")
        command = [
            sys.executable,
            "-c",
            call,
            module,
            name,
            json.dumps(dict(arguments or {})),
            result,
        ]
        for _ in range(times):
            try:
                subprocess.run(
                    list(map(str, command)),
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=timeout,
                    env={**child_environment(), **(environment or {})},
                )
            except subprocess.CalledProcessError as error:
                reason = (error.stderr.strip().splitlines() or ["no word"])[-1][:200]
                raise InputError(function, f"failed: {reason}", "a function that runs") from None
            except subprocess.TimeoutExpired:
                raise InputError(function, f"took over {timeout:g} s", "a shorter one") from None
            results.append(json.loads(result.read_text()))
            result.unlink()
    return results


def tiny_training(
    seed: int | None = 42, evaluating: bool = True, steps: int = 4, dropout: float = 0.1
) -> dict[str, str]:
    """Train a tiny fresh ERNIE on random ids and give its `digests`: a run to be repeated.

    Args:
        seed: None seeds nothing.
        evaluating: as of `digests`.
    """
    from paddlenlp.transformers import ErnieConfig, ErnieForSequenceClassification

    if seed is not None:
        reproducible(seed)
    shape = {"vocab_size": 100, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    model = ErnieForSequenceClassification(
        ErnieConfig(intermediate_size=32, max_position_embeddings=32, **shape, **rates)
    )
    draw = np.random.RandomState(0)  # the data are the same whatever the seed
    ids = paddle.to_tensor(draw.randint(1, 100, [16, 12]))
    batch = [ids, paddle.zeros_like(ids), paddle.to_tensor(draw.randint(0, 2, [16]))]
    optimizer = paddle.optimizer.AdamW(1e-2, parameters=model.parameters())
    model.train()
    for _ in range(whole("steps", steps, 1)):
        accumulated_step(model, batch, 1, optimizer)
    return digests(model, [batch], evaluating)
