"""The device to compute on: the best one on which a kernel really runs.

A wheel can import, list a card and still hold no machine code for it: paddlepaddle-gpu 2.6.2 has
code for compute capability 6.1 to 8.6 and no PTX. The first kernel on a newer card then ends the
process. So one is launched in a subprocess first, and its end is put into words.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.runtime import machine
from course_lib.runtime.errors import InputError

OLDEST, NEWEST = (6, 1), (8, 9)  # 8.9 (Ada) runs the code for 8.6
DRIVER = "450.80"  # what NVIDIA demands for CUDA 11; 520 is the one that came with 11.8

_PROBE = """
import json, sys
import course_lib
import numpy as np
import paddle
if not paddle.is_compiled_with_cuda():
    print("PROBE " + json.dumps({"status": "cpu_wheel"}))
    raise SystemExit
count = paddle.device.cuda.device_count()
index = int(sys.argv[1])
if index >= count:
    print("PROBE " + json.dumps({"status": "absent", "count": count}))
    raise SystemExit
found = {
    "name": paddle.device.cuda.get_device_name(index),
    "capability": list(paddle.device.cuda.get_device_capability(index)),
}
print("CARD " + json.dumps(found), flush=True)
paddle.set_device(f"gpu:{index}")
x = np.arange(64, dtype="float32").reshape(8, 8) / 64
layer = paddle.nn.LayerNorm(8)
y = layer(paddle.matmul(paddle.to_tensor(x), paddle.to_tensor(x)))
y.sum().backward()
z = x @ x
z = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5)
status = "ok" if np.allclose(y.numpy(), z, atol=1e-3) else "wrong"
print("PROBE " + json.dumps({"status": status, **found}))
"""


@dataclass(frozen=True)
class Probe:
    """What became of a small computation on one card.

    Attributes:
        status: ok, absent, cpu_wheel, no_kernel, driver, library, hung, crashed, wrong or error.
        problem: one sentence; empty when the card is usable.
        fix: what to do about it; empty when the card is usable.
        name, capability: the card, where it could be asked.
    """

    status: str
    problem: str = ""
    fix: str = ""
    name: str = ""
    capability: tuple[int, int] | None = None

    @property
    def usable(self) -> bool:
        return self.status == "ok"


def _explain(status: str, output: str, name: str, capability: tuple[int, int] | None) -> Probe:
    """Put the end of a probe into words."""
    card = name or "the GPU"
    if capability:
        card += f" (compute capability {capability[0]}.{capability[1]})"

    def probe(status: str, problem: str, fix: str) -> Probe:
        return Probe(status, problem, fix, name, capability)

    to_cpu = "or run on the CPU, which the course has chosen"
    if status in ("ok", "absent", "cpu_wheel"):
        if status == "absent":
            return probe(status, "paddle sees no such GPU", "set COURSE_DEVICE=cpu")
        if status == "cpu_wheel":
            return probe(
                status,
                "the installed paddle is the CPU build",
                "run `make LOCK=gpu-cu118 env` for cards of compute capability 6.1 to 8.9",
            )
        return probe("ok", "", "")
    if status != "hung" and capability and capability > NEWEST:
        return probe(
            "no_kernel",
            f"{card} is newer than this paddle: the wheel holds code for 6.1 to 8.6 and no PTX",
            f"use the CUDA 12 build from Paddle's own index, {to_cpu}",
        )
    if status != "hung" and capability and capability < OLDEST:
        return probe(
            "no_kernel",
            f"{card} is older than this paddle: the wheel holds code for 6.1 to 8.6",
            f"use a card of compute capability 6.1 or later, {to_cpu}",
        )
    if re.search(r"error\(209\)|no kernel image", output, re.IGNORECASE):
        return probe(
            "no_kernel",
            f"the installed paddle holds no machine code for {card}",
            f"use the build for this card from Paddle's own index, {to_cpu}",
        )
    if re.search(r"error\((35|803)\)|driver version is insufficient", output, re.IGNORECASE):
        return probe(
            "driver",
            f"the NVIDIA driver is too old for CUDA 11.8 on {card}",
            f"install driver {DRIVER} or later (520 or later is best), {to_cpu}",
        )
    library = re.search(
        r"lib(cudnn|cublas|cudart|cufft|curand|cusolver|cusparse|nccl|nvrtc)\w*\.so|"
        r"(?<=dynamic library )\S*|Cannot load \w+ shared library",
        output,
    )
    if library:
        return probe(
            "library",
            f"paddle does not find a CUDA library on this machine ({library.group(0)})",
            f"run `make LOCK=gpu-cu118 env`, which installs them, {to_cpu}",
        )
    what = {
        "hung": f"a first computation on {card} did not end",
        "wrong": f"a first computation on {card} gave wrong numbers",
        "crashed": f"a first computation on {card} ended the process ({_last_line(output)})",
    }.get(status, f"a first computation on {card} failed ({_last_line(output)})")
    return probe(status, what, f"restart the machine or update its NVIDIA driver, {to_cpu}")


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "without a message"


def probe_gpu(index: int = 0, command: Sequence[str] | None = None, timeout: float = 180) -> Probe:
    """Compute something small on GPU `index` in a subprocess and say how it went.

    Args:
        index: the card, as paddle counts them.
        command: what to run instead of the built-in probe; it prints the same lines. `CARD {...}`
            before and `PROBE {"status": ...}` after the computation.
        timeout: seconds after which the probe counts as hung; a first CUDA start can take a minute.

    Never raises because of what the probe does.
    """
    command = list(command) if command else [sys.executable, "-c", _PROBE, str(index)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=machine.child_environment(),
        )
        output, code = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as error:
        output, code = _text(error.stdout) + _text(error.stderr), None
    except OSError as error:
        return Probe("error", f"the GPU probe cannot start ({error.strerror})", "set COURSE_DEVICE")
    found: dict = {}
    for line in output.splitlines():
        if line.startswith(("CARD ", "PROBE ")):
            found.update(json.loads(line.split(" ", 1)[1]))
    capability = tuple(found["capability"]) if found.get("capability") else None
    if code is None:
        status = "hung"
    elif code < 0:
        status = "crashed"
        output += f"\nsignal {-code}"
    else:
        status = found.get("status", "error") if code == 0 else "error"
    name = found.get("name", "")
    if capability is None and status not in ("ok", "absent", "cpu_wheel"):
        cards = machine.gpus()  # the probe ended before it could say what it ran on
        if index < len(cards):
            name, capability = cards[index].name, cards[index].capability
    return _explain(status, output, name, capability)


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


@functools.cache
def _cached_probe(index: int) -> Probe:
    return probe_gpu(index)


def parse_device(name: str, where: str) -> tuple[str, int]:
    """Split "cpu", "auto" or "gpu:N" into kind and index; raise InputError about `where`."""
    match = re.fullmatch(r"(auto|cpu|(?:gpu|cuda)(?::(\d+))?)", name.strip().lower())
    if not match:
        raise InputError(where, f"is {name!r}", "cpu, gpu, gpu:N or auto")
    kind = match.group(1).partition(":")[0]
    return "gpu" if kind == "cuda" else kind, int(match.group(2) or 0)


def select_device(name: str | None = None) -> str:
    """Choose the device, make it paddle's current one and return its name: "cpu" or "gpu:N".

    Args:
        name: "cpu", "gpu", "gpu:N" or "auto"; None means the variable COURSE_DEVICE, else "auto",
            the first GPU if a kernel runs on it and otherwise the CPU.

    A GPU that cannot be used leads to one warning with the remedy and to the CPU, never to a crash.

    Raises:
        InputError: the name is none of these.
    """
    where = "device" if name is not None else "COURSE_DEVICE"
    kind, index = parse_device(name or os.environ.get("COURSE_DEVICE") or "auto", where)
    import paddle

    if kind == "auto" and not (paddle.is_compiled_with_cuda() and machine.gpus()):
        kind = "cpu"
    if kind == "cpu":
        return _use("cpu")
    probe = _cached_probe(index)
    if probe.usable:
        return _use(f"gpu:{index}")
    warnings.warn(f"computing on the CPU: {probe.problem}; {probe.fix}", stacklevel=2)
    return _use("cpu")


def _use(name: str) -> str:
    import paddle

    paddle.set_device(name)
    return name
