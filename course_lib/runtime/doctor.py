"""The doctor: what this machine and environment can do, what is broken, and how to fix it.

    python -m course_lib doctor [--json]

It needs nothing but the standard library, so that it also works where paddle cannot be imported:
paddle is imported, and a GPU is tried, in subprocesses whose end it puts into words. The exit
status is 1 when something is broken and 0 otherwise; a notice breaks nothing.
"""

import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from . import machine, stack, tuning
from .device import chosen_device, probe_gpu
from .errors import InputError
from .settings import data_dir, profile

OK, NOTICE, BROKEN = "ok", "notice", "broken"
MARKS = {OK: "✓", NOTICE: "!", BROKEN: "✗"}
ROOT = Path(__file__).resolve().parents[2]
REINSTALL = f"delete the environment and run `make LOCK={stack.LOCK} env`"
PACKAGES = ("paddle", "paddlenlp", "paddleslim")
SHOWN = ("paddlenlp", "paddleslim", "visualdl", "jupyterlab", "ipywidgets", "nbval", "matplotlib")
SHOWN += ("numpy", "snownlp")

_IMPORTS = """
import sys
import PACKAGE
for name in sys.argv[1:]:
    print("IMPORTING", name, flush=True)
    __import__(name)
""".replace("PACKAGE", machine.PACKAGE)

# What an import's last words mean. The first match counts.
_IMPORT_FIXES = (
    (r"libgomp\.so\.1", "install the OpenMP library: apt-get install libgomp1"),
    (r"libGL\.so\.1", "install the OpenGL library: apt-get install libgl1"),
    (r"libstdc\+\+\.so\.6", "install a newer C++ library: apt-get install libstdc++6"),
    (r"signal 4\b", "use a machine with AVX, which paddle's wheel needs"),
    (r"signal 9\b", "give this machine or container at least 4 GiB of memory"),
    (r"did not end", f"look for a slow disk or a busy machine and try again, else {REINSTALL}"),
    (r"", REINSTALL),
)


@dataclass(frozen=True)
class _Finding:
    """One line of the report; `fix` is empty only where nothing needs one (level "ok")."""

    level: str
    name: str
    message: str
    fix: str = ""


def _python(version: Sequence[int] = sys.version_info[:3]) -> _Finding:
    text = ".".join(map(str, version))
    if (3, 10) <= tuple(version[:2]) <= (3, 12):
        return _Finding(OK, "python", f"{text} in {sys.prefix}")
    problem = f"{text}, but Paddle and the locks are for 3.10 to 3.12"
    fix = "install one of these and run `make PYTHON=/path/to/it env`"
    return _Finding(BROKEN, "python", problem, fix)


def _packages() -> _Finding:
    """Report the packages that people ask about first, or that both builds are installed."""
    builds = [name for name in ("paddlepaddle", "paddlepaddle-gpu") if stack.version(name)]
    if len(builds) == 2:
        problem = f"{' and '.join(builds)} are both installed and overwrite each other"
        return _Finding(BROKEN, "packages", problem, REINSTALL)
    shown = [f"{name} {stack.version(name)}" for name in (*builds, *SHOWN) if stack.version(name)]
    return _Finding(OK, "packages", ", ".join(shown) or "none of the course's")


def _stack() -> _Finding:
    about, problem = stack.described()
    return _Finding(NOTICE if problem else OK, "stack", problem or about, problem and REINSTALL)


def _pins(requirements: Path = ROOT / "requirements") -> _Finding:
    """Let pip say, without a network, whether what is installed is what the lock demands.

    A difference breaks nothing by itself: what does is found by importing it.
    """
    lock = requirements / f"{stack.LOCK}.txt"
    pip = [sys.executable, *["-m", "pip", "--disable-pip-version-check", "--quiet", "install"]]
    options = [*["--dry-run", "--no-index", "--no-deps", "-r"], str(lock)]
    status, output, end = machine.run([*pip, *options], 300)
    if status == 0:
        return _Finding(OK, "pins", f"all packages of {lock.name} as locked")
    problem = f"not compared: pip {end}"
    if first := re.search(r"requirement (\S+)==(\S+)", output):
        problem = f"{first[1]} is {stack.version(first[1]) or 'missing'} instead of {first[2]}"
        problem += f" in {lock.name}; others may differ, too"
    fix = f"run `make LOCK={lock.stem} env` in a checkout of the course"
    return _Finding(NOTICE, "pins", problem, fix)


def _imports(
    names: Sequence[str] = PACKAGES, code: str = _IMPORTS, timeout: float = 300
) -> _Finding:
    """Import the packages in a subprocess, so that a crash of theirs is not the doctor's."""
    status, output, reason = machine.run([sys.executable, "-c", code, *names], timeout)
    if status == 0:
        return _Finding(OK, "imports", f"{', '.join(names)} can be imported")
    begun = [machine.PACKAGE, *re.findall(r"^IMPORTING (\S+)", output, re.MULTILINE)]
    fix = next(fix for pattern, fix in _IMPORT_FIXES if re.search(pattern, reason))
    return _Finding(BROKEN, "imports", f"{begun[-1]} cannot be imported: {reason}", fix)


def _variables() -> Iterator[_Finding]:
    """Look at the variables that the notebooks read, before one of them stops at its first cell."""
    for name, read in (
        ("COURSE_PROFILE", lambda: profile().name),
        ("COURSE_DEVICE", lambda: chosen_device()[0]),
        ("COURSE_DATA", lambda: str(data_dir())),
    ):
        try:
            yield _Finding(OK, name.removeprefix("COURSE_").lower(), read())
        except InputError as error:
            yield _Finding(BROKEN, name, str(error), f"unset {name}, or set what is expected")


def _tuning() -> Iterator[_Finding]:
    """Report the steps of runtime.prepare, then threads that were set lower or higher than best."""
    for name, state in tuning.applied().items():
        detail = state["detail"] if state["applied"] else f"-: {state['detail']}"
        off = "unset COURSE_TUNING" if detail.endswith("COURSE_TUNING") else ""
        yield _Finding(NOTICE if off else OK, f"tuning.{name}", detail, off)
    cores, threads = machine.usable_cores(), os.environ.get("OMP_NUM_THREADS", "1")
    fits = not threads.isdigit() or int(threads) == cores
    fix = "unset OMP_NUM_THREADS, unless other processes need the cores"
    message = f"OMP_NUM_THREADS={threads} for {cores} usable cores"
    yield _Finding(OK if fits else NOTICE, "threads", message, "" if fits else fix)


def _cpu(architecture: str = platform.machine()) -> _Finding:
    cpu = machine.cpu()
    labels = {"avx": "AVX", "avx2": "AVX2", "avx512f": "AVX-512"}
    has = [label for flag, label in labels.items() if flag in cpu.flags]
    has += ["VNNI"] * cpu.vnni
    message = f"{cpu.model or architecture}: {', '.join(has) or 'no AVX'}"
    level, fix = OK, ""
    if architecture.lower() not in ("x86_64", "amd64"):
        message = f"{architecture}: the course is tested on x86-64, and INT8 needs it"
        level, fix = NOTICE, "run the chapters on quantization on an x86-64 machine"
    elif not cpu.flags:
        message = f"{cpu.model or architecture}: instruction sets unknown"
    elif "AVX" not in has:
        level, fix = BROKEN, "use a machine with AVX, which paddle's wheel needs"
    elif "VNNI" not in has:
        message += "; without VNNI an INT8 model gains little speed"
        fix = "measure INT8 on a processor with VNNI (Intel since 2019, AMD since Zen 4)"
        level = NOTICE
    return _Finding(level, "cpu", message, fix)


def _space() -> Iterator[_Finding]:
    """Report memory (cgroup limits included) and the room on the disk or disks."""

    def amount(name: str, bytes_: int, state: str, needed: int, fix: str) -> _Finding:
        low, message = bytes_ < needed << 30, f"{bytes_ / 2**30:.1f} GiB {state}"
        return _Finding(NOTICE if low else OK, name, message, fix if low else "")

    fix, temporary = "give it 4 GiB, or use the profile smoke", tempfile.gettempdir()
    if (memory := machine.usable_memory()) is not None:
        yield amount("memory", memory, "may be used", 4, fix)
    fix = "free 3 GiB: `make clean` and `pip cache purge` help"
    yield amount("disk", shutil.disk_usage(ROOT).free, f"free in {ROOT}", 3, fix)
    if os.stat(temporary).st_dev != os.stat(ROOT).st_dev:
        free, fix = shutil.disk_usage(temporary).free, "free 2 GiB, or set TMPDIR to another disk"
        yield amount("disk", free, f"free in {temporary}", 2, fix)


def _gpus(driver_files: Path = Path("/proc/driver/nvidia/version")) -> Iterator[_Finding]:
    """Report every card and whether a kernel really runs on it. A useless card breaks nothing."""
    cards = machine.gpus()
    if not cards and driver_files.exists():
        problem = "an NVIDIA driver is loaded, but nvidia-smi reports no card"
        fix = "run `nvidia-smi` to see why; in a container, start it with `--gpus all`"
        yield _Finding(NOTICE, "gpu", problem, fix)
    elif not cards:
        yield _Finding(OK, "gpu", "none; the course computes on the CPU")
    for index, card in enumerate(cards):
        problem, fix = probe_gpu(index)
        about = f"{card}, driver {card.driver}, {card.memory}"
        message = f"{about}; {problem or 'a kernel runs on it'}"
        yield _Finding(NOTICE if problem else OK, f"gpu:{index}", message, fix)


def _diagnose() -> list[_Finding]:
    """Examine everything; takes as long as importing paddle and trying the GPUs."""
    parts = (_variables(), _tuning(), [_cpu()], _space(), _gpus())
    first = (_python, _stack, _packages, _pins, _imports)
    return [*(part() for part in first), *(one for part in parts for one in part)]


def _render(findings: Sequence[_Finding]) -> str:
    """Return the report for people: aligned lines, a mark, and the fix below what needs one."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{MARKS[finding.level]} {finding.name:{width}}  {finding.message}")
        if finding.fix:
            lines.append(f"  {'':{width}}  fix: {finding.fix}")
    levels = [finding.level for finding in findings]
    broken = f"{levels.count(BROKEN)} broken" if BROKEN in levels else "nothing is broken"
    return "\n".join([*lines, "", f"{broken}, {levels.count(NOTICE)} to notice"])


def report(as_json: bool = False) -> int:
    """Examine everything, print what was found, and return 1 if something is broken, else 0."""
    findings = _diagnose()
    broken = any(finding.level == BROKEN for finding in findings)
    if as_json:
        status, rows = BROKEN if broken else OK, [asdict(finding) for finding in findings]
        content = {"status": status, "tuning": tuning.applied(), "findings": rows}
        print(json.dumps(content, ensure_ascii=False, indent=2))
    else:
        encoding = sys.stdout.encoding or "ascii"
        print(_render(findings).encode(encoding, "replace").decode(encoding))
    return int(broken)
