"""Locks, environment.yml, Makefile and bootstrap notebook say the same, and say it correctly."""

import ast
import importlib.metadata
import json
import os
import re
import shutil
import sys
from pathlib import Path

from course_lib.runtime import stack

import nbformat
import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.version import Version
from processes import run

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
COURSE_LOCKS = ("cpu", "gpu-cu118", "cpu-paddle3")
LOCKS = (*COURSE_LOCKS, "nbgrader", "book")
PYTHONS = ("3.10", "3.11", "3.12")
MISSION = "paddlepaddle-gpu paddlenlp paddleslim jupyterlab nbval matplotlib visualdl ipywidgets"


def entries(lock: str) -> list[tuple[str, str, str, list[str]]]:
    """[(name, version, marker or "", hashes)] of a lock."""
    found = []
    for block in re.split(r"\n(?=[a-z0-9])", (REQUIREMENTS / f"{lock}.txt").read_text()):
        head = re.match(r"([a-z0-9._-]+)==([^\s;]+)(?: ; (.*?))? \\\n", block)
        assert head, block
        found.append((*head.groups(default=""), re.findall(r"--hash=(sha256:[0-9a-f]{64})", block)))
    return found


def pins(lock: str, python: str, platform: str = "linux") -> dict[str, str]:
    """{name: version} that a lock demands of one Python on one platform."""
    system = {"linux": "Linux", "win32": "Windows", "darwin": "Darwin"}[platform]
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": platform,
        "platform_system": system,
        "os_name": "nt" if platform == "win32" else "posix",
    }
    found: dict[str, str] = {}
    for name, version, marker, _ in entries(lock):
        if not marker or Marker(marker).evaluate(environment):
            assert name not in found, f"{lock} demands {name} twice of Python {python}"
            found[name] = version
    return found


def direct(name: str, python: str = "3.10", platform: str = "linux") -> list[Requirement]:
    """What an .in file asks for, the files that it includes as well."""
    found = []
    for line in (REQUIREMENTS / name).read_text().splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("-r "):
            found += direct(line[3:].strip(), python, platform)
        elif line:
            requirement = Requirement(line)
            variables = {"python_version": python, "sys_platform": platform}
            if requirement.marker is None or requirement.marker.evaluate(variables):
                found.append(requirement)
    return found


# --- locks


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_version_is_exact_and_has_hashes(lock):
    found = entries(lock)
    assert len(found) > 50
    for name, version, _, hashes in found:
        assert hashes, name
        assert not Version(version).is_prerelease or Version(version).is_postrelease, name


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_covers_what_is_asked_for_within_its_bounds(lock, python):
    locked = pins(lock, python)
    overrides = direct("overrides.txt", python) if lock in COURSE_LOCKS else []
    for requirement in [*direct(f"{lock}.in", python), *overrides]:
        version = locked[requirement.name.lower()]
        assert version in requirement.specifier, f"{requirement} against {version}"
    assert not {"paddlepaddle", "paddlepaddle-gpu"} <= set(locked)


def test_the_locks_are_complete():
    """Everything that an installed package requires here is in the lock of the environment."""
    locked = pins(stack.LOCK, f"{sys.version_info[0]}.{sys.version_info[1]}", sys.platform)
    for name in locked:
        for text in importlib.metadata.requires(name) or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed = requirement.name.lower().replace("_", "-").replace(".", "-")
                assert needed in locked, f"{name} needs {needed}"


def test_the_peers_have_a_lock_without_cuda():
    locked = pins("peers", "3.11")
    assert not [name for name in locked if name.startswith(("nvidia-", "cuda-", "triton", "torch"))]
    assert all(locked[each.name] in each.specifier for each in direct("peers.in")[1:])


def test_paddle_3_has_the_same_versions_of_all_but_paddle_and_what_it_needs():
    first, second = pins("cpu", "3.11"), pins("cpu-paddle3", "3.11")
    differ = {name for name in {*first, *second} if first.get(name) != second.get(name)}
    assert differ == {"paddlepaddle", "astor", "networkx"}
    del second["paddlepaddle"]  # it comes from the index that PADDLE_INDEX names
    assert pins("gpu-paddle3", "3.11") == second


# --- environment.yml


def test_environment_yml_agrees_with_the_lock_and_names_the_eight_packages():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert "python=3.10" in conda
    locked = pins("gpu-cu118", "3.10")
    assert f"pip={locked['pip']}" in conda
    named = dict(re.sub(r"\[.*\]", "", entry).split("==") for entry in pip if "==" in entry)
    assert named == {name: locked[name] for name in named}
    assert set(MISSION.split()) <= set(named)
    asked = {requirement.name for requirement in direct("gpu-cu118.in")}
    assert asked - {"pip"} == set(named), "a direct requirement is missing here, or gone there"
    assert "--editable ." in pip


def test_binder_and_the_dev_container_agree_with_the_lock():
    locked = pins("cpu", "3.10")
    lines = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
    named = dict(line.lower().replace("_", "-").split("==") for line in lines if "==" in line)
    assert named == {name: locked[name] for name in named}
    post, start = ROOT / "binder" / "postBuild", ROOT / ".devcontainer" / "devcontainer.json"
    assert os.access(post, os.X_OK) and (ROOT / "binder" / "runtime.txt").exists()
    container = json.loads(start.read_text())
    for text in (post.read_text(), container["updateContentCommand"]):
        assert re.search(r"\bmake (LOCK=cpu )?env\b", text)
    packages = set((ROOT / "binder" / "apt.txt").read_text().split()) - {"make"}
    assert packages <= set(container["onCreateCommand"].split())
    assert packages <= set((ROOT / ".ci" / "run").read_text().split())


# --- course_lib comes before paddle


def imported(tree: ast.AST) -> list[str]:
    """Top-level names of packages in the order of the lines that import them."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name.split(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append((node.lineno, node.module.split(".")[0]))
    return [name for _, name in sorted(found, key=lambda item: item[0])]


def code_of(path: Path) -> str:
    if path.suffix == ".py":
        return path.read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return re.sub(r"^\s*[%!].*$", "", code, flags=re.MULTILINE)  # magics and shell are no Python


def comes_too_late(code: str) -> bool:
    for name in imported(ast.parse(code)):
        if name == "course_lib":
            return False
        if name in ("paddle", "paddlenlp", "paddleslim", "visualdl"):
            return True
    return False


def test_course_lib_is_imported_before_paddle():
    late = []
    for folder in ("solutions", "notebooks", "bootstrap", "benchmarks", "tools", "tests"):
        for path in [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).glob("*.ipynb")]:
            if comes_too_late(code_of(path)):
                late.append(path.relative_to(ROOT).as_posix())
    assert late == [], "put `import course_lib` above the first import of paddle"
    assert comes_too_late("import paddle\nimport course_lib")
    assert comes_too_late("from paddlenlp.datasets import MapDataset")
    assert comes_too_late("def f():\n    import paddle.nn\n\nimport course_lib")
    assert not comes_too_late("from course_lib import data\nimport paddle")


def private_names(path: Path) -> list[str]:
    """What a module takes of others although their names begin with an underscore."""
    tree, taken, found = ast.parse(path.read_text(encoding="utf-8")), set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course_lib"):
            taken |= {alias.asname or alias.name for alias in node.names}
            found += [alias.name for alias in node.names if alias.name.startswith("_")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            found += [f"{node.value.id}.{node.attr}"] * (private and node.value.id in taken)
    return found


def test_no_module_takes_private_names_of_another():
    names = {path.as_posix(): private_names(path) for path in (ROOT / "course_lib").rglob("*.py")}
    assert {path: found for path, found in names.items() if found} == {}


# --- make

# `make LOCK=... test` hands its variables on to the tests.
OURS = re.compile("MAKE(FLAGS|LEVEL|OVERRIDES)|MFLAGS|PADDLE_INDEX|LOCK|DEVICE|PYTHON")
OUTSIDE = {key: value for key, value in os.environ.items() if not OURS.fullmatch(key)}


@pytest.fixture
def checkout(tmp_path):
    """The Makefile with a Python that only notes what it is asked to install."""
    named = ("Makefile", "pyproject.toml", "requirements/cpu.txt", "requirements/cpu-paddle3.in")
    for name in named:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for other in ("gpu-cu118", "gpu-paddle3"):
        shutil.copy(tmp_path / "requirements/cpu.txt", tmp_path / f"requirements/{other}.txt")
    commands = tmp_path / "bin"
    commands.mkdir()
    # It must never run a real Python: that one would install into the environment of the tests.
    script = f"""#!/bin/sh
case "$*" in
    "-m venv "*)
        for directory; do :; done
        mkdir -p "$directory/bin" && cp "$0" "$directory/bin/python" ;;
    *)
        echo "$@" >> {tmp_path}/log
        case "$*" in *"-r requirements"*) [ ! -e {tmp_path}/fail ] ;; esac ;;
esac
"""
    (commands / "python3.11").write_text(script)
    (commands / "python3.11").chmod(0o755)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/find_python.sh").write_text(f"echo {commands / 'python3.11'}\n")

    def make(*arguments: str):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        done = run("make", *arguments, cwd=tmp_path, env=OUTSIDE)
        done.log = log.read_text() if log.exists() else ""
        return done

    return make, tmp_path


def test_a_target_sets_itself_up_once(checkout):
    make, root = checkout
    first = make("LOCK=cpu", "env")
    assert first.returncode == 0, first.stderr
    assert "--no-deps --require-hashes -r requirements/cpu.txt" in first.log
    assert "-e ." in first.log and "ipykernel install" in first.log
    assert (root / ".venv/first.txt").read_text().count("==") == 3
    second = make("LOCK=cpu", "env")
    assert second.returncode == 0 and second.log == ""
    doctor_run = make("LOCK=cpu", "doctor")
    assert doctor_run.log == "-m course_lib doctor\n"
    os.utime(root / "requirements/cpu.txt", (2e9, 2e9))
    assert "requirements/cpu.txt" in make("LOCK=cpu", "env").log, "a new lock is installed"


def test_an_interrupted_install_does_not_count(checkout):
    make, root = checkout
    (root / "fail").touch()
    assert make("LOCK=cpu", "env").returncode != 0
    assert not (root / ".venv/.stamp-cpu").exists()
    (root / ".venv/half").touch()
    (root / "fail").unlink()
    assert make("LOCK=cpu", "env").returncode == 0
    assert not (root / ".venv/half").exists(), "the half-made environment was made afresh"
    assert (root / ".venv/.stamp-cpu").exists()


def test_the_other_lock_gets_an_environment_of_its_own(checkout):
    make, root = checkout
    make("LOCK=cpu", "env")
    (root / ".venv/of-the-cpu").touch()
    done = make("DEVICE=gpu", "env")
    assert "requirements/gpu-cu118.txt" in done.log
    assert not (root / ".venv/of-the-cpu").exists()
    assert sorted(path.name for path in (root / ".venv").glob(".stamp-*")) == [".stamp-gpu-cu118"]


def test_paddle_3_lies_beside_and_its_gpu_build_comes_from_the_index_that_is_named(checkout):
    make, root = checkout
    make("LOCK=cpu", "env")
    refused = make("LOCK=gpu-paddle3", "env")
    assert refused.returncode != 0 and "PADDLE_INDEX is not set" in refused.stderr
    assert not refused.log and not (root / ".venv-paddle3").exists()
    done = make("LOCK=gpu-paddle3", "PADDLE_INDEX=https://paddle.example/cu126", "env")
    assert done.returncode == 0, done.stderr
    from_index = "--index-url https://paddle.example/cu126 -c .venv-paddle3/locked.txt"
    assert f"{from_index} paddlepaddle-gpu==3.3.1" in done.log
    assert "numpy==" in (root / ".venv-paddle3/locked.txt").read_text()
    assert (root / ".venv/.stamp-cpu").exists(), "the other stack stays"
    assert make("doctor").log == "-m course_lib doctor\n", "and is what make goes on with"


@pytest.mark.parametrize(
    ("capabilities", "lock"),
    [
        ("7.5", "gpu-cu118"),
        ("8.9 PADDLE_INDEX=x", "gpu-cu118"),
        ("9.0", "cpu"),
        ("9.0 PADDLE_INDEX=x", "gpu-paddle3"),
        ("5.2", "cpu"),
        ("10.0 PADDLE_INDEX=x", "gpu-paddle3"),
    ],
)
def test_the_lock_follows_the_card(capabilities, lock, tmp_path):
    capabilities, *options = capabilities.split()
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\necho {capabilities}\n")
    smi.chmod(0o755)
    place = shutil.copytree(REQUIREMENTS, tmp_path / "checkout" / "requirements").parent
    environment = {**OUTSIDE, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run("make", "-n", "env", "-f", ROOT / "Makefile", *options, cwd=place, env=environment)
    assert f"requirements/{lock}.txt" in done.stdout + done.stderr or f"stamp-{lock}" in done.stderr


def test_make_alone_lists_the_targets():
    done = run("make", cwd=ROOT, env=OUTSIDE)
    targets = "env lab quickstart test lint doctor execute notebooks bench peers clean lock"
    for target in targets.split():
        assert re.search(rf"^  make {target}\s+\S", done.stdout, re.MULTILINE), target


# --- which Python


def find_python(path: Path, *arguments: str):
    environment = {"PATH": str(path), "HOME": str(path)}
    return run("/bin/sh", ROOT / "tools/find_python.sh", *arguments, env=environment)


def stand_in(path: Path, version: str | None = None, venv: bool = True) -> None:
    """A command that answers as a Python of that version would; None is a shim that fails."""
    if version is None:
        body = 'echo "pyenv: command not found" >&2; exit 127'
    else:
        fits = 0 if version in PYTHONS else 1
        body = f"""case "$*" in
    *"sys.exit("*) exit {fits} ;;
    *"import venv"*) exit {0 if venv else 1} ;;
    *version_info*) echo {version} ;;
    *executable*) echo {path} ;;
    *--version*) echo Python {version}.0 ;;
esac"""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_a_fitting_python_is_found(tmp_path):
    inside = tmp_path / ".pyenv/versions/3.11.7/bin"
    inside.mkdir(parents=True)
    for path, options, expected in (
        ("python3", {"version": "3.9"}, None),
        (".pyenv/versions/3.11.7/bin/python", {"version": "3.11"}, inside / "python"),
        ("python3.12", {}, inside / "python"),  # a shim of a version that is not selected
        ("python3.11", {"version": "3.11", "venv": False}, inside / "python"),
        ("python3.10", {"version": "3.10"}, tmp_path / "python3.10"),
        ("python3", {"version": "3.12"}, tmp_path / "python3"),
    ):
        stand_in(tmp_path / path, **options)
        assert find_python(tmp_path).stdout.strip() == str(expected or "")


def test_otherwise_it_says_what_to_install(tmp_path):
    nothing = find_python(tmp_path)
    assert nothing.returncode == 1 and nothing.stdout == ""
    assert "no working python3" in nothing.stderr
    stand_in(tmp_path / "python3.12", "3.12", venv=False)
    assert "apt-get install python3.12-venv" in find_python(tmp_path).stderr
    stand_in(tmp_path / "python3", "3.12")
    stand_in(tmp_path / "old", "3.8")  # the one that is asked for is the only candidate
    done = find_python(tmp_path, str(tmp_path / "old"))
    assert done.returncode == 1 and "there is Python 3.8.0" in done.stderr


# --- the bootstrap notebook


def test_the_bootstrap_notebook_is_valid_and_runs(tmp_path):
    path = ROOT / "bootstrap" / "bootstrap.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    if Path(sys.prefix) != ROOT / ".venv" or not list((ROOT / ".venv").glob(".stamp-*")):
        pytest.skip("this environment was not made by make; running it would make another one")
    from nbclient import NotebookClient

    client = NotebookClient(notebook, timeout=600, startup_timeout=600, kernel_name="python3")
    variables = {**os.environ, "JUPYTER_DATA_DIR": str(tmp_path), "HOME": str(tmp_path)}
    variables["COURSE_PROFILE"] = "smoke"
    client.execute(cwd=str(path.parent), env=variables)
    text = "".join(
        each.get("text", "") for cell in notebook.cells for each in cell.get("outputs", [])
    )
    assert "The course is in" in text and "nothing is broken" in text and "What it learned" in text
    assert list(tmp_path.rglob("kernels/paddlenlp-course/kernel.json"))
