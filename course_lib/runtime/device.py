"""The device to compute on: the best one on which a kernel really runs.

A wheel can import, list a card and still hold no machine code for it (see `runtime.stack`). The
first kernel then ends the process. So a small computation is tried in a subprocess first, and its
end is put into words.
"""

import functools
import os
import re
import sys
import warnings

from . import machine, stack
from .errors import InputError

_PROBE = """
import sys
import PACKAGE
import numpy as np
import paddle
index, cuda = int(sys.argv[1]), paddle.is_compiled_with_cuda()
if not cuda or index >= paddle.device.cuda.device_count():
    print("PROBE", "absent" if cuda else "cpu_wheel")
    raise SystemExit
paddle.set_device(f"gpu:{index}")
x = np.arange(64, dtype="float32").reshape(8, 8) / 64
layer = paddle.nn.LayerNorm(8)
y = layer(paddle.matmul(paddle.to_tensor(x), paddle.to_tensor(x)))
y.sum().backward()
z = x @ x
z = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5)
print("PROBE", "ok" if np.allclose(y.numpy(), z, atol=1e-3) else "wrong")
""".replace("PACKAGE", machine.PACKAGE)

# What the output of a failed computation means: a pattern, the problem and the fix.
_FAILURES = (
    (
        r"error\(209\)|no kernel image",
        "the installed paddle holds no machine code for {card}",
        "use the build for this card from Paddle's own index",
    ),
    (
        r"error\((35|803)\)|driver version is insufficient",
        f"the NVIDIA driver is too old for {stack.CUDA} on {{card}}",
        f"install {stack.DRIVER}",
    ),
    (
        r"lib(cudnn|cublas|cudart|cufft|curand|cusolver|cusparse|nccl|nvrtc)\w*\.so|"
        r"(?<=dynamic library )\S*|Cannot load \w+ shared library",
        "paddle does not find a CUDA library on this machine ({match})",
        f"run {stack.INSTALL_GPU}, which installs them",
    ),
)


@functools.cache
def probe_gpu(index: int = 0, code: str = _PROBE, timeout: float = 180) -> tuple[str, str]:
    """Compute something small on GPU `index` in a subprocess, once, and say how it went.

    Args:
        code: the Python program; it prints PROBE and a word.
        timeout: seconds after which the probe counts as hung; a first CUDA start can take a minute.

    Returns:
        The problem in one sentence, and what to do about it; both are empty when the card computes.
    """
    exit_status, output, end = machine.run([sys.executable, "-c", code, str(index)], timeout)
    found = re.search(r"^PROBE (\w+)$", output, re.MULTILINE) if exit_status == 0 else None
    status = found[1] if found else ""
    if status == "ok":
        return "", ""
    if status == "absent":
        return "paddle sees no such GPU", "set COURSE_DEVICE=cpu"
    card = dict(enumerate(machine.gpus())).get(index, machine.GPU("the GPU", ()))
    if exit_status is not None:
        end = "gave wrong numbers" if status == "wrong" else f"failed ({end})"
    problem, fix = _explain(card, status, end, output)
    return problem, f"{fix}, or run on the CPU, which the course has chosen"


def _explain(card: machine.GPU, status: str, end: str, output: str) -> tuple[str, str]:
    """Put a failed probe into words: the problem and the fix."""
    old, new = () < card.capability < stack.OLDEST, card.capability > stack.NEWEST
    fix = f"use Paddle 3: {stack.INSTALL_3}"
    fix = "use a card of compute capability 6.1 or later" if old else fix
    if status == "cpu_wheel":
        install = f"run {stack.INSTALL_GPU} ({stack.DRIVER})"
        return "the installed paddle is the CPU build", fix if old or new else install
    if (old or new) and not end.startswith("did not end"):
        age = "newer" if new else "older"
        return f"{card} is {age} than this paddle, which has code for 6.1 to 8.6 and no PTX", fix
    for pattern, problem, remedy in _FAILURES:
        if match := re.search(pattern, output, re.IGNORECASE):
            return problem.format(card=card, match=match[0]), remedy
    return f"a first computation on {card} {end}", "restart the machine or update its NVIDIA driver"


def chosen_device(name: str | None = None) -> tuple[str, int]:
    """Return kind ("cpu", "gpu" or "auto") and index of what `name` or COURSE_DEVICE asks for."""
    where = "device" if name is not None else "COURSE_DEVICE"
    name = name or os.environ.get("COURSE_DEVICE") or "auto"
    match = re.fullmatch(r"(auto|cpu|(?:gpu|cuda)(?::(\d+))?)", name.strip().lower())
    if not match:
        raise InputError(where, f"is {name!r}", "cpu, gpu, gpu:N or auto")
    kind = match.group(1).partition(":")[0].replace("cuda", "gpu")
    return kind, int(match.group(2) or 0)


def select_device(name: str | None = None) -> str:
    """Choose the device, make it paddle's current one and return its name: "cpu" or "gpu:N".

    Args:
        name: "cpu", "gpu", "gpu:N" or "auto"; None means the variable COURSE_DEVICE, else "auto",
            the first GPU if a kernel runs on it and otherwise the CPU.

    A GPU that cannot be used leads to one warning with the remedy and to the CPU, never to a crash.

    Raises:
        InputError: the name is none of these.
    """
    kind, index = chosen_device(name)
    import paddle

    device = "cpu"
    if kind == "gpu" or (kind == "auto" and paddle.is_compiled_with_cuda() and machine.gpus()):
        problem, fix = probe_gpu(index)
        device = "cpu" if problem else f"gpu:{index}"
        if problem:
            warnings.warn(f"computing on the CPU: {problem}; {fix}", stacklevel=2)
    paddle.set_device(device)
    return device
