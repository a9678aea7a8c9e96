"""Tuning, device, profiles, seeding; each import order and tuning in a process of its own."""

import json
import os
import platform
import random
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

from course_lib import runtime
from course_lib.runtime import device, machine, stack, tuning

import numpy as np
import pytest
from processes import two_writers

BARE = {
    key: value
    for key, value in os.environ.items()
    if key not in (*tuning.VARIABLES, "COURSE_TUNING", "COURSE_DEVICE", "COURSE_PROFILE")
}


def python(code: str, *options: str, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**BARE, **variables},
        capture_output=True,
        text=True,
        timeout=600,
    )


def applied(before: str = "", **variables: str) -> dict:
    code = f"{before}\nimport course_lib, json; print(json.dumps(course_lib.runtime.applied()))"
    done = python(code, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# --- what must happen before paddle loads


@pytest.mark.parametrize(
    "names",
    [
        "paddle scipy.stats sklearn.linear_model aiohttp pyarrow paddlenlp",
        "paddlenlp pyarrow paddle aiohttp scipy.stats sklearn.linear_model",
    ],
)
def test_importing_the_stack_in_a_plain_process_survives(names):
    imports = "\n".join(f"import {name}" for name in names.split())
    code = f"""
import course_lib
{imports}
import gzip, zlib
assert zlib.decompress(zlib.compress(b"course" * 1000)) == b"course" * 1000
assert gzip.decompress(gzip.compress(b"course")) == b"course"
print("survived")
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("survived\n")
    assert "OMP_NUM_THREADS" not in done.stderr, "paddle's banner belongs in no notebook"
    assert "distutils" not in done.stderr


def test_a_logger_and_a_handler_of_sigterm_outlive_the_import_of_paddle():
    code = """
import course_lib, logging, os, signal
signal.signal(signal.SIGTERM, lambda *_: print("handled", flush=True))
import paddle
logging.getLogger("paddle.base.io").warning("logged")  # it was made during the import
os.kill(os.getpid(), signal.SIGTERM)
"""
    for steps in ("1", "0"):
        done = python(code, COURSE_TUNING=steps)
        assert done.returncode == 0 and done.stdout == "handled\n" and "logged" in done.stderr


def test_importing_course_lib_imports_neither_paddle_nor_numpy():
    done = python("import sys, course_lib; print({'paddle', 'numpy'} & set(sys.modules))")
    assert done.stdout.strip() == "set()"


def test_every_step_is_reported_and_prepare_is_idempotent():
    first = runtime.applied()
    assert list(first) == list(tuning.STEPS)
    runtime.prepare()
    assert runtime.applied() == first
    first["zlib"]["detail"] = "changed"
    assert runtime.applied()["zlib"]["detail"] != "changed"


def test_what_the_user_has_set_wins():
    state = applied(OMP_NUM_THREADS="1", MKL_DEBUG_CPU_TYPE="4", MALLOC_TOP_PAD_="1000000")
    assert state["threads"] == {"applied": False, "detail": "OMP_NUM_THREADS=1 was set already"}
    assert not state["mkl"]["applied"]
    assert state["zlib"]["applied"]
    if platform.libc_ver()[0] == "glibc":
        assert state["malloc"]["detail"] == "MALLOC_TOP_PAD_=1000000 was set already"
        assert "M_MMAP_THRESHOLD=32 MiB" in applied()["malloc"]["detail"]


def test_one_variable_switches_it_off_or_chooses_steps():
    off = applied(COURSE_TUNING="0")
    assert not any(state["applied"] for state in off.values())
    some = applied(COURSE_TUNING="zlib,threads")
    assert {name for name, state in some.items() if state["applied"]} == {"zlib", "threads"}
    show = "import course_lib, os; print(os.environ.get('OMP_NUM_THREADS'))"
    assert python(show, COURSE_TUNING="0").stdout.strip() == "None"
    assert python(show).stdout.strip() == str(machine.usable_cores())
    done = python(show, COURSE_TUNING="zlib,turbo")
    assert "COURSE_TUNING: is 'zlib,turbo'; expected 0, 1 or some of zlib" in done.stderr


def test_paddle_before_course_lib_warns_and_names_the_fix():
    done = python("import zlib; zlib.compress(b'')\nimport paddle\nimport course_lib")
    assert done.returncode == 0
    assert "put `import course_lib` above" in done.stderr


@pytest.mark.parametrize(
    ("vendor", "flags", "expected"),
    [
        ("AuthenticAMD", {"avx2"}, "MKL_DEBUG_CPU_TYPE=5 (AVX2)"),
        ("AuthenticAMD", {"avx2", *tuning.AVX512}, "MKL_DEBUG_CPU_TYPE=7 (AVX-512)"),
        ("AuthenticAMD", {"avx2", "avx512f"}, "MKL_DEBUG_CPU_TYPE=5 (AVX2)"),
        ("AuthenticAMD", {"avx"}, "this processor has no AVX2"),
        ("GenuineIntel", {"avx2", *tuning.AVX512}, "not an AMD processor"),
        ("", set(), "not an AMD processor"),
    ],
)
def test_mkl_is_set_on_amd_with_avx2_or_avx512(vendor, flags, expected, monkeypatch):
    monkeypatch.setattr(machine, "cpu", lambda: machine.CPU(vendor, "", frozenset(flags)))
    monkeypatch.setattr(tuning.sys, "modules", {})
    monkeypatch.delenv("MKL_DEBUG_CPU_TYPE", raising=False)
    try:
        detail = tuning._mkl()
    except tuning._Skipped as reason:
        detail = str(reason)
    finally:
        os.environ.pop("MKL_DEBUG_CPU_TYPE", None)  # monkeypatch restores what was there before
    assert detail == expected


def test_map_with_workers_survives():
    """paddlenlp's own bound, dill < 0.3.5, makes this crash on Python 3.11 and 3.12."""
    code = """
import course_lib
from paddlenlp.datasets import MapDataset
offset = 10
data = MapDataset(list(range(6))).map(lambda x: x + offset, lazy=False, num_workers=2)
print(list(data))
"""
    done = python(code)
    assert done.returncode == 0, done.stderr[-1500:]
    assert done.stdout.splitlines()[-1] == "[10, 11, 12, 13, 14, 15]"


def test_cuda_libraries_of_pip_are_linked_beside_paddle(tmp_path, monkeypatch):
    libs = tmp_path / "paddle" / "libs"
    libs.mkdir(parents=True)
    (tmp_path / "paddle" / "__init__.py").touch()
    for name in (
        "cublas/lib/libcublas.so.11",
        "cudnn/lib/libcudnn_ops_infer.so.8",
        "nccl/lib/libnccl.so.2",
        "cublas/lib/libcublas.so.12",  # of another framework
    ):
        (tmp_path / "nvidia" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "nvidia" / name).write_text(name)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    for _ in range(2):  # the second time nothing is left to do
        assert applied(code)["cuda"]["detail"].startswith("3 CUDA libraries linked")
    assert (libs / "libcublas.so").read_text() == "cublas/lib/libcublas.so.11"
    assert (libs / "libcublas.so.11").exists() and (libs / "libcudnn_ops_infer.so").exists()
    assert (libs / "libnccl.so").read_text() == "nccl/lib/libnccl.so.2"
    assert not (libs / "libcublas.so.12").exists()


# --- the machine


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V1 = "sys/fs/cgroup/cpu/cpu.cfs_"


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        (None, {}, 8),
        ("0::/", {"sys/fs/cgroup/cpu.max": "max 100000"}, 8),
        ("0::/", {"sys/fs/cgroup/cpu.max": "250000 100000"}, 2),
        ("0::/", {"sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        (  # the tightest of the nested groups
            "0::/a/b",
            {"sys/fs/cgroup/a/cpu.max": "300000 100000", "sys/fs/cgroup/a/b/cpu.max": "max 100000"},
            3,
        ),
        (  # version 1, inside a container: the path is the host's
            "4:cpu,cpuacct:/docker/abc",
            {f"{V1}quota_us": "400000", f"{V1}period_us": "100000"},
            4,
        ),
        ("4:cpu:/", {f"{V1}quota_us": "-1", f"{V1}period_us": "100000"}, 8),
    ],
)
def test_usable_cores_honour_affinity_and_cgroups(groups, files, cores, tmp_path, monkeypatch):
    if groups is not None:
        files = {**files, "proc/self/cgroup": f"{groups}\n"}
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert machine.usable_cores(tree(tmp_path, files)) == cores


def test_usable_memory_is_the_tighter_of_machine_and_cgroup(tmp_path):
    files = {"proc/meminfo": "MemTotal:  8388608 kB\n", "proc/self/cgroup": "0::/\n"}
    assert machine.usable_memory(tree(tmp_path, files)) == 8 << 30
    files["sys/fs/cgroup/memory.max"] = str(2 << 30)
    assert machine.usable_memory(tree(tmp_path, files)) == 2 << 30


def test_the_driver_is_asked_for_its_cards():
    lines = "Tesla P40, 6.1, 535.54.03, 23040 MiB\nOdd Card, [N/A], 470.1, [N/A]"
    first, second = machine.gpus([sys.executable, "-c", f"print({lines!r})"])
    assert first == ("Tesla P40", (6, 1), "535.54.03", "23040 MiB")
    assert second == ("Odd Card", (), "470.1", "[N/A]")
    assert machine.gpus(["a-command-that-does-not-exist"]) == []
    assert machine.gpus([sys.executable, "-c", "raise SystemExit(9)"]) == []


# --- device


CARDS = {"A10": (8, 6), "H100": (9, 0), "M60": (5, 2)}
ERROR_209 = "sys.exit('CUDA error(209), no kernel image is available for execution')"
ERROR_35 = "sys.exit('CUDA error(35), CUDA driver version is insufficient')"
NO_CUDNN = "sys.exit('PreconditionNotMet: libcudnn.so.8: cannot open shared object')"
SEGFAULT = "os.kill(os.getpid(), 11)"


def says(word: str) -> str:
    return f"print('PROBE {word}')"


@pytest.mark.parametrize(
    ("card", "code", "problem", "fix"),
    [
        ("A10", says("ok"), "", ""),
        ("H100", ERROR_209, "H100 (compute capability 9.0) is newer", "LOCK=gpu-paddle3"),
        ("H100", SEGFAULT, "6.1 to 8.6 and no PTX", "LOCK=gpu-paddle3"),
        ("M60", ERROR_209, "M60 (compute capability 5.2) is old", "or later"),
        ("A10", ERROR_209, "holds no machine code for A10", "own index"),
        ("A10", ERROR_35, f"too old for {stack.CUDA}", f"install {stack.DRIVER}"),
        ("A10", NO_CUDNN, "this machine (libcudnn.so)", stack.INSTALL_GPU),
        ("A10", SEGFAULT, "failed (ended by signal 11)", "driver"),
        ("H100", "time.sleep(60)", "did not end", "restart the machine"),
        ("A10", says("wrong"), "wrong numbers", "driver"),
        ("A10", "sys.exit('no memory')", "failed (no memory)", "run on the CPU"),
        (None, SEGFAULT, "on the GPU failed", "driver"),
        (None, says("absent"), "no such GPU", "COURSE_DEVICE=cpu"),
        (None, says("cpu_wheel"), "CPU build", f"{stack.INSTALL_GPU} ({stack.DRIVER})"),
        ("H100", says("cpu_wheel"), "CPU build", "LOCK=gpu-paddle3"),
        ("M60", says("cpu_wheel"), "CPU build", "6.1 or later, or run on the CPU"),
    ],
)
def test_every_end_of_a_probe_is_put_into_words(card, code, problem, fix, monkeypatch):
    cards = [machine.GPU(card, CARDS[card])] if card else []
    monkeypatch.setattr(machine, "gpus", lambda: cards)
    monkeypatch.setattr(stack, "OLDEST", (6, 1))  # those of the wheel of 2.6
    monkeypatch.setattr(stack, "NEWEST", (8, 9))
    timeout = 2 if "sleep" in code else 600
    device.probe_gpu.cache_clear()
    found = device.probe_gpu(code=f"import os, sys, time\n{code}", timeout=timeout)
    assert problem in found[0] and fix in found[1]
    assert bool(problem) == bool(found[0]) == bool(found[1]) and "\n" not in "".join(found)


def test_the_built_in_probe_runs_here():
    problem, _ = device.probe_gpu()
    assert machine.gpus() or problem in ("", "the installed paddle is the CPU build")


@pytest.fixture
def on_gpu(monkeypatch):
    """A machine with a card, as far as select_device can see, and no probe made yet."""
    import paddle

    monkeypatch.delenv("COURSE_DEVICE", raising=False)
    monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda: True)
    monkeypatch.setattr(machine, "gpus", lambda: [machine.GPU("X", (9, 0))])
    used: list[str] = []
    monkeypatch.setattr(paddle, "set_device", used.append)
    return used


def test_a_usable_gpu_is_chosen_and_a_useless_one_leads_to_one_sentence(on_gpu, monkeypatch):
    monkeypatch.setattr(device, "probe_gpu", lambda index: ("", ""))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names = [runtime.select_device(name) for name in (None, "gpu:1", "cpu")]
        monkeypatch.setenv("COURSE_DEVICE", "cpu")
        assert [*names, runtime.select_device()] == ["gpu:0", "gpu:1", "cpu", "cpu"] == on_gpu
    monkeypatch.setattr(device, "probe_gpu", lambda index: ("it is too new", "use another build"))
    for name in ("auto", "gpu", "cuda:0"):
        with pytest.warns(UserWarning, match="on the CPU: it is too new; use another build"):
            assert runtime.select_device(name) == "cpu"
    assert on_gpu[4:] == ["cpu"] * 3


@pytest.mark.parametrize("name", ["tpu", "gpu:x", "gpu:-1", "cpu:0"])
def test_an_unknown_device_is_an_input_error(name, monkeypatch):
    with pytest.raises(runtime.InputError, match=r"device: is .*; expected cpu, gpu"):
        runtime.select_device(name)
    monkeypatch.setenv("COURSE_DEVICE", name)
    with pytest.raises(runtime.InputError, match="COURSE_DEVICE: is"):
        runtime.select_device()


# --- profiles, data, seeds


def test_profiles(monkeypatch):
    monkeypatch.delenv("COURSE_PROFILE", raising=False)
    assert runtime.profile().name == "cpu"
    for name, shown in (
        ("gpu", "profile gpu: all training"),
        ("smoke", "at most 4 steps"),
        ("rehearsal", "profile gpu: 64 training"),
    ):
        monkeypatch.setenv("COURSE_PROFILE", name)
        assert shown in str(runtime.profile())
    monkeypatch.setenv("COURSE_PROFILE", "huge")
    with pytest.raises(runtime.InputError, match="COURSE_PROFILE: is 'huge'; expected one of cpu"):
        runtime.profile()


def test_data_dir(monkeypatch, tmp_path):
    monkeypatch.delenv("COURSE_DATA", raising=False)
    assert runtime.data_dir() == Path(__file__).parents[1] / "data"
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    assert runtime.data_dir() == tmp_path
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "none"))
    with pytest.raises(runtime.InputError, match="COURSE_DATA"):
        runtime.data_dir()


def test_seed_everything_seeds_all_generators():
    import paddle

    def draw(seed):
        assert runtime.seed_everything(seed) == seed
        return random.random(), float(np.random.rand()), float(paddle.rand([1]))

    first = draw(7)
    assert draw(7) == first
    assert all(one != other for one, other in zip(first, draw(8), strict=True))


# --- files and errors


def test_an_input_error_is_one_line_and_survives_pickling():
    import pickle

    error = runtime.InputError("a.tsv", "2 fields", "text and label", line=3)
    assert str(error) == "a.tsv, line 3: 2 fields; expected text and label"
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) and copy.line == 3
    half = runtime.InputError("a.json", 'holds {"\ud800": 0.5}', "names")  # no stream takes it
    assert (
        str(half) == 'a.json: holds {"\\ud800": 0.5}; expected names'
        and half.problem[8] == "\ud800"
    )


def test_atomic_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "file.txt"
    with runtime.atomic_file(path) as handle:
        handle.write("好\n")
        assert not path.exists()
    assert path.read_bytes() == "好\n".encode()
    with pytest.raises(RuntimeError), runtime.atomic_file(path) as handle:
        handle.write("half")
        raise RuntimeError
    assert path.read_bytes() == "好\n".encode()
    assert os.listdir(path.parent) == ["file.txt"]
    with pytest.raises(runtime.InputError, match="is a directory"), runtime.atomic_file(tmp_path):
        pass
    with (
        pytest.raises(runtime.InputError, match="cannot be written"),
        runtime.atomic_file(path / "below"),
    ):
        pass


@pytest.fixture(params=["exchange", "two renames"])
def swap(request, monkeypatch):
    if request.param == "two renames":
        monkeypatch.setattr(runtime.files, "_exchange", lambda one, other: False)
    return request.param


def test_atomic_directory_keeps_the_old_one_until_the_new_one_is_complete(tmp_path, swap):
    path = tmp_path / "model"
    with runtime.atomic_directory(path) as new:
        (new / "a").write_text("1")
        assert not path.exists()
    with pytest.raises(RuntimeError), runtime.atomic_directory(path) as new:
        (new / "b").write_text("2")
        raise RuntimeError
    assert os.listdir(tmp_path) == ["model"] and os.listdir(path) == ["a"]
    with runtime.atomic_directory(path) as new:
        (new / "b").write_text("2")
    assert os.listdir(tmp_path) == ["model"] and os.listdir(path) == ["b"]
    with pytest.raises(runtime.InputError, match="is a file"), runtime.atomic_directory(path / "b"):
        pass


class Killed(BaseException):
    pass


def test_a_kill_between_two_renames_loses_nothing(tmp_path, monkeypatch):
    path, rename = tmp_path / "model", Path.rename

    def killed(self, target):
        if ".tmp-" in self.name and os.path.exists(tmp_path / ".model.previous"):
            raise Killed
        return rename(self, target)

    with runtime.atomic_directory(path, "a") as new:
        (new / "a").write_text("1")
    monkeypatch.setattr(Path, "rename", killed)
    monkeypatch.setattr(runtime.files, "_exchange", lambda one, other: False)
    monkeypatch.setattr(runtime.files, "_settle", lambda *_: None)  # as nothing runs after a kill
    with pytest.raises(Killed), runtime.atomic_directory(path, "a") as new:
        (new / "a").write_text("2")
    assert os.listdir(tmp_path) == [".model.previous"]
    monkeypatch.undo()
    shutil.copytree(tmp_path, tmp_path / "copy")
    copy = tmp_path / "copy" / "model"
    with pytest.raises(RuntimeError), runtime.atomic_directory(path, "a"):
        raise RuntimeError
    assert (path / "a").read_text() == "1"
    assert runtime.files.read_unmixed(copy, (copy / "a").read_text) == "1"
    assert os.listdir(copy.parent) == ["model"]


def test_a_foreign_directory_that_appears_meanwhile_stays(tmp_path):
    path = tmp_path / "model"
    refused = pytest.raises(runtime.InputError, match="no mine: all of them would be lost")
    with refused, runtime.atomic_directory(path, "mine") as new:
        (new / "mine").write_text("1")
        path.mkdir()
        (path / "theirs").write_text("2")
    assert os.listdir(tmp_path) == ["model"] and os.listdir(path) == ["theirs"]


WRITE = """
import sys
from pathlib import Path
from course_lib.runtime import atomic_directory, files

_, path, name, swap = sys.argv
if swap == "two renames":
    files._exchange = lambda one, other: False
for number in range(50):
    with atomic_directory(path, "a") as new:
        for file in "abc":
            (new / file).write_text(f"{name} {number}")
print("saved")
"""


def test_two_writers_and_a_reader_of_one_directory(tmp_path, swap):
    path, seen, gone = tmp_path / "model", set(), 0

    def read():
        return [(path / file).read_text() for file in "cab"]

    with runtime.atomic_directory(path, "a") as new:
        for file in "abc":
            (new / file).write_text("first")
    with two_writers(WRITE, path, swap) as going:
        while going():
            gone += not path.exists()
            texts = runtime.files.read_unmixed(path, read)
            assert len(set(texts)) == 1, texts
            seen.add(texts[0])
    assert len(seen) > 2 and read()[0].endswith(" 49") and os.listdir(tmp_path) == ["model"]
    assert swap == "two renames" or not gone


def test_atomic_writing_follows_links_keeps_permissions_and_leaves_devices_alone(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    with runtime.atomic_file(link) as handle:
        handle.write("new")
    assert link.is_symlink() and real.read_text() == "new" and real.stat().st_mode & 0o777 == 0o600

    (tmp_path / "directory").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "directory")
    with runtime.atomic_directory(tmp_path / "linked") as new:
        (new / "a").write_text("1")
    assert (tmp_path / "linked").is_symlink() and (tmp_path / "directory" / "a").exists()

    with runtime.atomic_file("/dev/null") as handle:
        handle.write("nothing")
    assert not Path("/dev/null").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"real", "link", "directory", "linked"}


def in_child(code: str, temporary: Path, *options: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code, *options],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


WORK = """
import sys, time
from course_lib import runtime

directory = runtime.scratch_dir("chapter")
(directory / "model.bin").write_bytes(b"0" * 1000)
print(directory, flush=True)
if sys.argv[1:] == ["wait"]:
    time.sleep(600)
"""


def test_a_scratch_directory_goes_with_its_process(tmp_path):
    with in_child(WORK, tmp_path) as process:
        directory = Path(process.stdout.readline().strip())
    assert process.returncode == 0 and directory.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_the_next_call_removes_what_a_killed_process_left_and_nothing_else(tmp_path):
    (tmp_path / "course-mine").mkdir()  # a user's own
    with in_child(WORK, tmp_path, "wait") as killed, in_child(WORK, tmp_path, "wait") as living:
        left, used = (Path(one.stdout.readline().strip()) for one in (killed, living))
        killed.kill()
        killed.wait()
        assert (left / "model.bin").exists()
        shutil.copytree(left, tmp_path / "course-kept")  # by hand
        with in_child(WORK, tmp_path):
            pass
        names = {"course-kept", "course-mine", used.name, f"{used.name}.lock"}
        assert {path.name for path in tmp_path.iterdir()} == names
        assert (used / "model.bin").exists()
        living.kill()


FORK = """
import os, sys
from course_lib import runtime

directory = runtime.scratch_dir("chapter")
if os.fork() == 0:
    sys.exit()
os.wait()
print(directory.exists())
"""
NO_LOCKS = """
import errno, fcntl
from course_lib import runtime

def no_locks(*_):
    raise OSError(errno.ENOLCK, "No locks available")

fcntl.flock = no_locks
first, second = runtime.scratch_dir("one"), runtime.scratch_dir("two")
print(list(first.iterdir()), first.exists(), second.exists())
"""


@pytest.mark.parametrize(("code", "printed"), [(FORK, "True\n"), (NO_LOCKS, "[] True True\n")])
def test_a_scratch_directory_survives_a_fork_that_ends_and_a_disk_without_locks(
    code, printed, tmp_path
):
    with in_child(code, tmp_path) as process:
        assert process.stdout.read() == printed
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_scratch_directory(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("course_lib.runtime.files._hold", full)
    with pytest.raises(runtime.InputError, match="No space left"):
        runtime.scratch_dir("x")
    assert list(tmp_path.iterdir()) == []
