"""examples/gpu: these scripts were never run on a GPU; their dry runs have to end well."""

import subprocess
import sys
from pathlib import Path

from course_lib.runtime import machine

import pytest
from tiny import export

SCRIPTS = Path(__file__).parents[1] / "examples" / "gpu"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mixed_precision", "16 bits need a GPU"),
        ("tensorrt", "shapes collected: True"),
        ("fast_generation", "FasterGPT was not compiled"),
    ],
)
def test_a_dry_run_ends_well_and_says_what_was_not_run(name, said, tmp_path):
    more = [str(export(tmp_path).parent)] if name == "tensorrt" else []
    command = [sys.executable, str(SCRIPTS / f"{name}.py"), *more, "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, env=machine.child_environment())
    assert done.returncode == 0, done.stderr[-2000:]
    assert said in done.stdout and "dry run" in done.stdout
