"""Facts about the machine, read with the standard library alone: cores, memory, CPU, GPUs."""

import math
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

PACKAGE = (__package__ or "").removesuffix(".runtime")  # the library's name, where it was copied to
QUERY = "--query-gpu=name,compute_cap,driver_version,memory.total"


VNNI = frozenset({"avx512_vnni", "avx_vnni"})  # instructions that multiply INT8 four at a time


class CPU(NamedTuple):
    """vendor as CPUID spells it ("AuthenticAMD", "GenuineIntel") and the flags of /proc/cpuinfo."""

    vendor: str
    model: str
    flags: frozenset[str]

    @property
    def vnni(self) -> bool:
        return bool(self.flags & VNNI)


class GPU(NamedTuple):
    """One card as the driver describes it; capability is (major, minor), if the driver knows it."""

    name: str
    capability: tuple[int, ...]
    driver: str = ""
    memory: str = ""

    def __str__(self) -> str:
        known = f" (compute capability {'.'.join(map(str, self.capability))})"
        return self.name + (known if self.capability else "")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def cpu() -> CPU:
    """Return vendor, model and instruction sets; empty strings and sets where unknown."""
    first = _read(Path("/proc/cpuinfo")).partition("\n\n")[0]
    known = dict(re.findall(r"^(\w[\w ]*\w)\s*: (.*)$", first, re.MULTILINE))
    other = platform.processor()  # Windows spells the vendor at its end
    vendor = known.get("vendor_id", other.rpartition(" ")[2])
    return CPU(vendor, known.get("model name", other), frozenset(known.get("flags", "").split()))


def _cgroups(root: Path) -> Iterator[Path]:
    """Yield this process's cgroups (version 2), innermost first.

    Inside a container the path may be the host's; then only the mount itself exists.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        if line.startswith("0::/"):
            inside = root / "sys/fs/cgroup" / line[4:]
            yield from (inside, *inside.parents[: line.count("/") - 1])
    yield root / "sys/fs/cgroup"


def _cpu_quota(root: Path) -> float:
    """Return the tightest cgroup CPU quota in cores; infinity where there is none."""
    version_1 = root / "sys/fs/cgroup/cpu"
    quotas = [_read(version_1 / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    rows = [quotas, *(_read(group / "cpu.max").split() for group in _cgroups(root))]
    limits = [row for row in rows if len(row) == 2 and row[0].isdigit()]  # not "max 100000", "-1"
    return min((int(limit) / int(period) for limit, period in limits), default=math.inf)


def usable_cores(root: Path = Path("/")) -> int:
    """Return how many cores this process may use: CPU affinity, then cgroup quota; at least 1."""
    affinity = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
    return max(1, int(min(len(affinity(0)), _cpu_quota(root))))


def usable_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes of memory this process may use, cgroup limits included; None if unknown."""
    total = re.search(r"MemTotal: *(\d+)", _read(root / "proc/meminfo"))
    limits = [_read(group / "memory.max") for group in _cgroups(root)]
    limits.append(_read(root / "sys/fs/cgroup/memory/memory.limit_in_bytes"))  # version 1
    sizes = [int(limit) for limit in limits if limit.isdigit()]
    return min([*sizes, *([int(total[1]) * 1024] if total else [])], default=None)


def child_environment() -> dict[str, str]:
    """Return this process's environment for a child that imports PACKAGE.

    The child finds it even where it is neither installed nor in the child's working directory.
    """
    root = str(Path(__file__).resolve().parents[__name__.count(".")])
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root}


def run(
    command: Sequence[str], timeout: float | None = None, **variables: str
) -> tuple[int | None, str, str]:
    """Run a command that may crash or hang, in a child that can import PACKAGE.

    Args:
        variables: of its environment.

    Returns:
        Its exit status, None where it did not end within `timeout` seconds; all that it printed;
        and its last words in one line: how it ended, if not by itself, and its last line of errors.
    """
    code, end = None, f"did not end within {timeout:g} s"
    try:
        environment = {**child_environment(), **variables}
        done = subprocess.run(command, capture_output=True, timeout=timeout, env=environment)
        streams, code = (done.stdout, done.stderr), done.returncode
        end = f"ended by signal {-code}" if code < 0 else ""
    except subprocess.TimeoutExpired as error:
        streams = (error.stdout or b"", error.stderr or b"")
    output, errors = (stream.decode(errors="replace") for stream in streams)
    lines = errors.strip().splitlines()[-1:]
    return code, output + errors, "; ".join(filter(None, [end, *lines]))[:300] or "no message"


def gpus(command: Sequence[str] = ("nvidia-smi", QUERY, "--format=csv,noheader")) -> list[GPU]:
    """Ask the NVIDIA driver for its cards; an empty list where there is none, or no driver."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in done.stdout.splitlines()]
    return [
        GPU(name, tuple(map(int, re.findall(r"\d+", capability))), driver, memory)
        for name, capability, driver, memory in (row for row in rows if len(row) == 4)
    ]
