"""The course's kernel: for programs that look for kernels themselves, and forked in one second."""

import atexit
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from pathlib import Path
from threading import Thread
from unittest.mock import patch

from tools import notebooks

# It imports this once; what it forks has computed nothing yet.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["course_lib", "paddlenlp", "ipykernel.kernelapp", "tools.notebooks"])
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # two kernels with two threads on two cores mostly wait


@contextmanager
def course_kernel(**variables: str) -> Iterator[dict[str, str]]:
    """Yield an environment whose first kernel "python3" is this Python and finds course_lib."""
    with tempfile.TemporaryDirectory(prefix="course-kernel-") as directory:
        folder = Path(directory, "kernels", "python3")
        folder.mkdir(parents=True)
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        specification = {"argv": argv, **notebooks.METADATA["kernelspec"]}
        folder.joinpath("kernel.json").write_text(json.dumps(specification), encoding="utf-8")
        paths = filter(None, [directory, os.environ.get("JUPYTER_PATH")])
        variables = {"JUPYTER_PATH": os.pathsep.join(paths), **ONE_THREAD, **variables}
        yield notebooks.kernel_environment(**variables)


def _serve(arguments: list[str], environment: dict[str, str], place: str, quiet: bool) -> None:
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    if quiet:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    Thread(target=lambda: (parent_process().join(), os._exit(1)), daemon=True).start()
    multiprocessing.set_start_method(None, force=True)  # the platform's own, not this one's
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(place)
    IPKernelApp.launch_instance(arguments)
    atexit._run_exitfuncs()  # which a process of multiprocessing does not


def fork(command: list[str], env: dict[str, str], cwd: str, stderr=None, **_):
    """A forked kernel, with what jupyter_client asks of a subprocess.Popen."""
    quiet = stderr is not None  # nbval gives it /dev/null
    process = FORKS.Process(target=_serve, args=(command[3:], env, cwd, quiet))
    process.start()
    while os.getpgid(process.pid) != process.pid:  # a signal to its group must reach nobody else
        time.sleep(0.01)
    process.poll = lambda: process.exitcode
    process.wait = lambda: process.join() or process.exitcode
    process.send_signal = lambda number: None  # its group has got it, or has ended
    process.stdin = process.stdout = process.stderr = None
    return process


def forked_kernels():
    """A patch with which the kernels that this process starts are forked."""
    return patch("jupyter_client.provisioning.local_provisioner.launch_kernel", fork)


def run_forked(path: Path, left_out: str, **variables: str) -> None:
    """Run a notebook, but for cells with the tag `left_out`, in a kernel that starts at once."""
    options = {"timeout": 1800, "skip_cells_with_tag": left_out}
    with forked_kernels():
        client = notebooks.client_of(notebooks.read(path), path.parent, **options)
        client.extra_arguments.append("--IPKernelApp.extensions=exercise_runner")
        environment = notebooks.kernel_environment(**ONE_THREAD, **variables)
        client.execute(cleanup_kc=True, env=environment)
