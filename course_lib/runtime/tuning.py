"""What must be set before paddle loads, and why it cannot be set later.

paddle 2.6 exports its own copy of zlib, reads OMP_NUM_THREADS (and sets it to 1 when it is not
set) and loads an MKL that reads MKL_DEBUG_CPU_TYPE, all while `import paddle` runs. So
`import course_lib` calls `prepare` and has to come first. `COURSE_TUNING` chooses the steps: unset
or "1" for all, "0" for none, or a comma-separated list of their names. The variables that the user
has set are never overridden.
"""

import contextlib
import importlib.util
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from . import imports, machine, stack
from .errors import InputError

# Children inherit these, so a process that compares tuned with untuned runs has to remove them
# from the environment that it gives to a child.
VARIABLES = ("OMP_NUM_THREADS", "MKL_DEBUG_CPU_TYPE")

# What MKL's code for AVX-512 uses.
AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"})

# mallopt parameters: name and number (malloc.h), and our value in MiB. 32 MiB is the largest
# threshold that glibc accepts on 64-bit systems.
MALLOPT = (("MMAP_THRESHOLD", -3, 32), ("TRIM_THRESHOLD", -1, 1024), ("TOP_PAD", -2, 64))

# The CUDA 11.8 libraries as NVIDIA's pip packages name them. Packages of CUDA 12, which another
# framework may have put into the same directories, do not match.
CUDA_LIBRARIES = re.compile(
    r"lib(cublas|cublasLt|cusolver|cusparse)\.so\.11|lib(cufft|curand)\.so\.10|"
    r"libcudnn\w*\.so\.8|libnvrtc\.so\.11\.2|libnvrtc-builtins\.so\.11\.8|"
    r"libcupti\.so\.11\.8|libnccl\.so\.2"
)

_applied: dict[str, dict] = {}


class _Skipped(Exception):
    """A step has nothing to do here; the message says why."""


def _before_paddle() -> None:
    if "paddle" in sys.modules:
        raise _Skipped("paddle was imported first")


def _unless_set(variable: str) -> None:
    if os.environ.get(variable):
        raise _Skipped(f"{variable}={os.environ[variable]} was set already")


def _zlib() -> str:
    """Bind Python's zlib to the system's library before paddle offers its own.

    Without it every extension module that unpacks zlib data while it is imported (scipy >= 1.16,
    aiohttp >= 3.14, scikit-learn, pyarrow) crashes after paddle: a segmentation fault, a double
    free, or "zlib.error: inconsistent stream state".
    """
    _before_paddle()
    import zlib

    zlib.decompress(zlib.compress(b"course"))
    return "bound before paddle"


def _threads() -> str:
    """Let OpenMP and MKL use the cores that this process may use; paddle's default is one."""
    _before_paddle()
    _unless_set("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(machine.usable_cores())
    return f"OMP_NUM_THREADS={os.environ['OMP_NUM_THREADS']}"


def _mkl() -> str:
    """Give MKL's code for AVX-512 or AVX2 to AMD processors; MKL itself gives them its slowest.

    AVX-512 is type 7; type 6 is for other instructions, and crashes.
    """
    cpu = machine.cpu()
    if cpu.vendor != "AuthenticAMD":
        raise _Skipped("not an AMD processor")
    if cpu.flags and "avx2" not in cpu.flags:
        raise _Skipped("this processor has no AVX2")
    _before_paddle()
    _unless_set("MKL_DEBUG_CPU_TYPE")
    number, name = ("7", "AVX-512") if cpu.flags >= AVX512 else ("5", "AVX2")
    os.environ["MKL_DEBUG_CPU_TYPE"] = number
    return f"MKL_DEBUG_CPU_TYPE={number} ({name})"


def _malloc() -> str:
    """Keep freed pages for the next tensor instead of returning them to the system each time."""
    if platform.libc_ver()[0] != "glibc":
        raise _Skipped("not the GNU C library")
    for variable in ("GLIBC_TUNABLES", *(f"MALLOC_{name}_" for name, _, _ in MALLOPT)):
        _unless_set(variable)
    import ctypes

    libc = ctypes.CDLL(None)
    done = [f"M_{name}={size} MiB" for name, key, size in MALLOPT if libc.mallopt(key, size << 20)]
    return ", ".join(done)


def _cuda() -> str:
    """Make the CUDA libraries that pip installed visible to paddlepaddle-gpu.

    It opens them by names without a version (`libcublas.so`), which pip's packages do not have, and
    looks only where LD_LIBRARY_PATH points and beside its own libraries. So links are put beside
    those, once per environment; libraries found through LD_LIBRARY_PATH still come first.
    """
    paddle = importlib.util.find_spec("paddle")
    if paddle is None or paddle.origin is None:
        raise _Skipped("paddle is not installed")
    libs = Path(paddle.origin).parent / "libs"
    places = sorted(libs.parents[1].glob("nvidia/*/lib/lib*.so*"))
    libraries = [path for path in places if CUDA_LIBRARIES.fullmatch(path.name)]
    if not libraries:
        raise _Skipped("no CUDA 11.8 libraries from pip")
    try:
        for library in libraries:
            for name in (library.name, library.name.partition(".so")[0] + ".so"):
                with contextlib.suppress(FileExistsError):
                    (libs / name).symlink_to(os.path.relpath(library, libs))
    except OSError as error:
        raise _Skipped(f"cannot link the CUDA libraries into {libs} ({error.strerror})") from None
    return f"{len(libraries)} CUDA libraries linked into {libs}"


def _kernels() -> str:
    """`course_lib.models.patches` asks for this one: see `course_lib.models.kernels`."""
    return "with course_lib.models: faster training on a CPU"


STEPS: dict[str, Callable[[], str]] = {
    step.__name__.removeprefix("_"): step
    for step in (_zlib, _threads, _mkl, _malloc, _cuda, _kernels)
}


def _wanted() -> set[str]:
    value = os.environ.get("COURSE_TUNING", "").strip()
    if value in ("", "0", "1"):
        return set() if value == "0" else set(STEPS)
    names = {name.strip() for name in value.split(",") if name.strip()}
    if names - set(STEPS):
        raise InputError("COURSE_TUNING", f"is {value!r}", f"0, 1 or some of {','.join(STEPS)}")
    return names


def prepare() -> None:
    """Take every step that `COURSE_TUNING` asks for, once per process.

    A step that does not apply here is skipped; `applied` says why. When paddle has been imported
    already, a warning names the remedy, because the import is what the steps have to precede.
    """
    if _applied:
        return
    wanted = _wanted()
    stack.before_paddle()
    if wanted & {"zlib", "threads", "mkl"} and "paddle" in sys.modules:
        warnings.warn(
            "paddle was imported before course_lib, so its thread and MKL settings are fixed and "
            "scipy, scikit-learn or pyarrow may crash; restart and put `import course_lib` above "
            "the first import of paddle or paddlenlp",
            stacklevel=3,
        )
    for name, step in STEPS.items():
        try:
            if name not in wanted:
                raise _Skipped("switched off by COURSE_TUNING")
            _applied[name] = {"applied": True, "detail": step()}
        except _Skipped as reason:
            _applied[name] = {"applied": False, "detail": str(reason)}
    imports.install()


def applied() -> dict[str, dict]:
    """Return for every step {"applied": bool, "detail": str}; empty before `prepare`."""
    return {name: dict(state) for name, state in _applied.items()}
