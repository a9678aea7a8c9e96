"""The doctor: what this machine and environment can do, what is broken, and how to fix it.

    python -m course_lib doctor [--json]

It needs nothing but the standard library, so that it also works where paddle cannot be imported:
paddle is imported, and a GPU is tried, in subprocesses whose end it puts into words. The exit
status is 1 when something is broken and 0 otherwise; a notice breaks nothing.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from course_lib.runtime import machine, tuning
from course_lib.runtime.device import parse_device, probe_gpu
from course_lib.runtime.errors import InputError
from course_lib.runtime.settings import data_dir, profile

OK, NOTICE, BROKEN = "ok", "notice", "broken"
ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ((3, 10), (3, 12))
REINSTALL = "delete .venv and run `make env`"
SHOWN = ("paddlenlp", "paddleslim", "visualdl", "jupyterlab", "ipywidgets", "nbval", "matplotlib")
SHOWN += ("numpy", "snownlp")

_IMPORTS = """
import sys
import course_lib
for name in sys.argv[1:]:
    print("IMPORTING", name, flush=True)
    __import__(name)
print("IMPORTED", flush=True)
"""

# What an import's last words mean. The first match counts.
_IMPORT_FIXES = (
    (r"libgomp\.so\.1", "install the OpenMP library: apt-get install libgomp1"),
    (r"libGL\.so\.1", "install the OpenGL library: apt-get install libgl1"),
    (r"libstdc\+\+\.so\.6", "install a newer C++ library: apt-get install libstdc++6"),
    (r"signal 4\b", "use a machine with AVX, which paddle's wheel needs"),
    (r"signal 9\b", "give this machine or container at least 4 GiB of memory"),
    (r"did not end", f"look for a slow disk or a busy machine and try again, else {REINSTALL}"),
)


@dataclass(frozen=True)
class _Finding:
    """One line of the report; `fix` is empty only where nothing needs one (level "ok")."""

    level: str
    name: str
    message: str
    fix: str = ""


def _check_python(version: tuple[int, int, int] = sys.version_info[:3]) -> _Finding:
    text = ".".join(map(str, version))
    if PYTHONS[0] <= version[:2] <= PYTHONS[1]:
        return _Finding(OK, "python", f"{text} in {sys.prefix}")
    problem = f"{text}, but paddle 2.6.2 and the locks are for 3.10 to 3.12"
    fix = "install one of these and run `make PYTHON=/path/to/it env`"
    return _Finding(BROKEN, "python", problem, fix)


def _version(name: str) -> str:
    """Return which version of a package is installed; empty where it is not."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _check_packages() -> Iterator[_Finding]:
    """Report the packages that people ask about first, and whether both builds are installed."""
    builds = [name for name in ("paddlepaddle", "paddlepaddle-gpu") if _version(name)]
    shown = [f"{name} {_version(name)}" for name in (*builds, *SHOWN) if _version(name)]
    yield _Finding(OK, "packages", ", ".join(shown) or "none of the course's")
    if len(builds) == 2:
        problem = f"{' and '.join(builds)} are both installed and overwrite each other"
        yield _Finding(BROKEN, "packages", problem, REINSTALL)


def _check_pins(requirements: Path = ROOT / "requirements") -> _Finding:
    """Let pip say, without a network, whether what is installed is what the lock demands.

    A difference breaks nothing by itself: what does is found by importing it.
    """
    lock = requirements / ("gpu-cu118.txt" if _version("paddlepaddle-gpu") else "cpu.txt")
    if not lock.is_file():
        problem, fix = f"not compared: there is no {lock}", "run the doctor in a checkout"
        return _Finding(NOTICE, "pins", problem, f"{fix} of the course")
    pip = [sys.executable, *["-m", "pip", "--disable-pip-version-check", "--quiet", "install"]]
    options = [*["--dry-run", "--no-index", "--no-deps", "-r"], str(lock)]
    code, _, errors = machine.run([*pip, *options], 300)
    if code == 0:
        return _Finding(OK, "pins", f"all packages of {lock.name} as locked")
    problem = f"not compared: {(errors.splitlines() or ['pip did not end'])[-1]}"
    if first := re.search(r"requirement (\S+)==(\S+)", errors):
        problem = f"{first[1]} is {_version(first[1]) or 'missing'} instead of {first[2]}"
        problem += f" in {lock.name}; others may differ, too"
    return _Finding(NOTICE, "pins", problem, f"run `make LOCK={lock.stem} env`")


def _check_imports(
    names: Sequence[str] = ("paddle", "paddlenlp", "paddleslim"),
    command: Sequence[str] | None = None,
    timeout: float = 300,
) -> _Finding:
    """Import the packages in a subprocess, so that a crash of theirs is not the doctor's."""
    command = command or (sys.executable, "-c", _IMPORTS)
    code, output, errors = machine.run([*command, *names], timeout)
    if code == 0 and "IMPORTED" in output.split():
        return _Finding(OK, "imports", f"{', '.join(names)} can be imported")
    begun = ["course_lib", *re.findall(r"^IMPORTING (\S+)", output, re.MULTILINE)]
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    reason = lines[-1][:300] if lines else ""
    if code is None:
        reason = f"it did not end within {timeout:g} s"
    elif code < 0:
        reason = f"ended by signal {-code}" + (f"; {reason}" if reason else "")
    fix = next((fix for pattern, fix in _IMPORT_FIXES if re.search(pattern, reason)), REINSTALL)
    problem = f"{begun[-1]} cannot be imported: {reason or 'no message'}"
    return _Finding(BROKEN, "imports", problem, fix)


def _check_variables() -> Iterator[_Finding]:
    """Look at the variables that the notebooks read, before one of them stops at its first cell."""
    device = os.environ.get("COURSE_DEVICE") or "auto"
    for name, read in (
        ("COURSE_PROFILE", lambda: profile().name),
        ("COURSE_DEVICE", lambda: parse_device(device, "COURSE_DEVICE")[0]),
        ("COURSE_DATA", lambda: str(data_dir())),
    ):
        try:
            yield _Finding(OK, name.removeprefix("COURSE_").lower(), read())
        except InputError as error:
            yield _Finding(BROKEN, name, str(error), f"unset {name}, or set what is expected")


def _check_tuning(cores: int | None = None) -> Iterator[_Finding]:
    """Report the steps of runtime.prepare, then threads that were set lower or higher than best."""
    for name, state in tuning.applied().items():
        yield _Finding(OK, f"tuning.{name}", ("" if state["applied"] else "-: ") + state["detail"])
    setting = os.environ.get("COURSE_TUNING", "1")
    if setting not in ("", "1"):
        problem = f"COURSE_TUNING={setting} switches some of it off"
        yield _Finding(NOTICE, "tuning", problem, "unset COURSE_TUNING")
    cores = cores or machine.usable_cores()
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    if not threads.isdigit() or int(threads) == cores:
        yield _Finding(OK, "threads", f"{threads} for {cores} usable cores")
        return
    problem = f"OMP_NUM_THREADS={threads}, but {cores} cores may be used"
    fix = "unset OMP_NUM_THREADS, unless other processes need the cores"
    yield _Finding(NOTICE, "threads", problem, fix)


def _check_cpu(cpu: machine.CPU | None = None, architecture: str = platform.machine()) -> _Finding:
    cpu = cpu or machine.cpu()
    if architecture.lower() not in ("x86_64", "amd64"):
        problem = f"{architecture}: the course is tested on x86-64, and INT8 needs it"
        fix = "run the chapters on quantization on an x86-64 machine"
        return _Finding(NOTICE, "cpu", problem, fix)
    if not cpu.flags:
        return _Finding(OK, "cpu", f"{cpu.model or architecture}: instruction sets unknown")
    labels = {"avx": "AVX", "avx2": "AVX2", "avx512f": "AVX-512"}
    has = [label for flag, label in labels.items() if flag in cpu.flags]
    has += ["VNNI"] * bool(cpu.flags & {"avx512_vnni", "avx_vnni"})
    level, fix, message = OK, "", f"{cpu.model or architecture}: {', '.join(has) or 'no AVX'}"
    if "AVX" not in has:
        level, fix = BROKEN, "use a machine with AVX, which paddle's wheel needs"
    elif "VNNI" not in has:
        level, message = NOTICE, f"{message}; without VNNI an INT8 model gains little speed"
        fix = "measure INT8 on a processor with VNNI (Intel since 2019, AMD since Zen 4)"
    return _Finding(level, "cpu", message, fix)


def _check_space(
    memory: int | None = None, directory: Path = ROOT, temporary: Path | None = None
) -> Iterator[_Finding]:
    """Report memory (cgroup limits included) and the room on the course's disk, in GiB.

    Where the directory of temporary files, which chapters write to, lies on another disk, that too.
    """
    memory = memory or machine.usable_memory()
    temporary = temporary or Path(tempfile.gettempdir())
    amounts: list[tuple[str, int, str, int, str]] = []
    if memory is not None:
        fix = "give it 4 GiB, or use COURSE_PROFILE=smoke"
        amounts.append(("memory", memory, "may be used", 4, fix))
    places = [(directory, 3, "free 3 GiB: `make clean` and `pip cache purge` help")]
    if temporary.stat().st_dev != directory.stat().st_dev:
        places.append((temporary, 2, "free 2 GiB, or set TMPDIR to a directory with more room"))
    for place, needed, fix in places:
        free = shutil.disk_usage(place).free
        amounts.append(("disk", free, f"free in {place}", needed, fix))
    for name, amount, state, needed, fix in amounts:
        low, text = amount < needed << 30, f"{amount / 2**30:.1f} GiB {state}"
        yield _Finding(NOTICE if low else OK, name, text, fix if low else "")


def _check_gpu(
    cards: Iterable[machine.GPU] | None = None,
    probe: Callable[[int], tuple[str, str]] = probe_gpu,
    driver_files: Path = Path("/proc/driver/nvidia/version"),
) -> Iterator[_Finding]:
    """Report every card and whether a kernel really runs on it. A useless card breaks nothing."""
    cards = machine.gpus() if cards is None else list(cards)
    if not cards and driver_files.exists():
        problem = "an NVIDIA driver is loaded, but nvidia-smi reports no card"
        fix = "run `nvidia-smi` to see why; in a container, start it with `--gpus all`"
        yield _Finding(NOTICE, "gpu", problem, fix)
    elif not cards:
        yield _Finding(OK, "gpu", "none; the course computes on the CPU")
    for index, card in enumerate(cards):
        about = f"{card.name}, driver {card.driver}"
        if card.memory:
            about += f", {card.memory / 1024:.0f} GiB"
        if card.capability:
            about += f", compute capability {card.capability[0]}.{card.capability[1]}"
        problem, fix = probe(index)
        message = f"{about}; {problem or 'a kernel runs on it'}"
        yield _Finding(NOTICE if problem else OK, f"gpu:{index}", message, fix)


def _diagnose() -> list[_Finding]:
    """Examine everything; takes as long as importing paddle and trying the GPUs."""
    return [
        _check_python(),
        *_check_packages(),
        _check_pins(),
        _check_imports(),
        *_check_variables(),
        *_check_tuning(),
        _check_cpu(),
        *_check_space(),
        *_check_gpu(),
    ]


def _render(findings: Sequence[_Finding]) -> str:
    """Return the report for people: aligned lines, a mark, and the fix below what needs one."""
    marks = {OK: "✓", NOTICE: "!", BROKEN: "✗"}
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{marks[finding.level]} {finding.name:{width}}  {finding.message}")
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
