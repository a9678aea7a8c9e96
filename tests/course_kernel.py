"""The course's kernel for programs that look for kernels themselves: nbval and nbgrader."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools import notebooks


@contextmanager
def course_kernel(**variables: str) -> Iterator[dict[str, str]]:
    """Yield an environment whose first kernel "python3" is this Python and finds course_lib.

    One thread, as in `make test`: two kernels with two threads on two cores mostly wait.
    """
    with tempfile.TemporaryDirectory(prefix="course-kernel-") as directory:
        folder = Path(directory, "kernels", "python3")
        folder.mkdir(parents=True)
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        specification = {"argv": argv, **notebooks.METADATA["kernelspec"]}
        folder.joinpath("kernel.json").write_text(json.dumps(specification), encoding="utf-8")
        paths = filter(None, [directory, os.environ.get("JUPYTER_PATH")])
        variables = {"JUPYTER_PATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", **variables}
        yield notebooks.kernel_environment(**variables)
