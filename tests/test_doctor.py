"""The doctor: every finding that is not fine names its fix, and it works where paddle does not."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import course_lib
from course_lib.runtime import doctor, machine
from course_lib.runtime.doctor import BROKEN, NOTICE, OK

import pytest

ROOT = Path(__file__).parents[1]


def levels(findings) -> list[str]:
    findings = list(findings)
    for finding in findings:
        assert finding.level in (OK, NOTICE, BROKEN)
        assert finding.level == OK or finding.fix, f"{finding} names no fix"
        assert "\n" not in finding.message + finding.fix
    return [finding.level for finding in findings]


def test_the_command_line_reports_this_environment():
    done = subprocess.run(
        [sys.executable, "-m", "course_lib", "doctor", "--json"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )
    report = json.loads(done.stdout)
    findings = [doctor._Finding(**finding) for finding in report["findings"]]
    found = levels(findings)
    assert done.returncode == (1 if BROKEN in found else 0) == int(report["status"] == BROKEN)
    by_name = {finding.name: finding for finding in findings}
    assert by_name["imports"].level == OK
    assert {"python", "packages", "pins", "threads", "cpu", "memory", "disk"} <= set(by_name)
    assert any(name.startswith("gpu") for name in by_name)
    assert report["tuning"] == {**course_lib.runtime.applied(), **report["tuning"]}


def test_without_paddle_the_doctor_still_speaks(tmp_path):
    """A bare Python, with no package but this one in sight."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    done = subprocess.run(
        [tmp_path / "bare" / "bin" / "python", "-m", "course_lib", "doctor"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        env={"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "paddle cannot be imported" in done.stdout
    assert (
        "! pins" in done.stdout
        and "fix: delete the environment" in done.stdout
        and "stack" in done.stdout
    )


@pytest.mark.parametrize(
    ("version", "level"),
    [((3, 9, 18), BROKEN), ((3, 10, 0), OK), ((3, 12, 9), OK), ((3, 13, 0), BROKEN)],
)
def test_python_version(version, level):
    assert levels([doctor._python(version)]) == [level]


def test_what_differs_from_the_lock_is_named_with_its_fix(tmp_path):
    assert "all packages of" in doctor._pins().message  # as locked, or the tests mean little
    here = doctor.stack.version("tornado")
    for pin, found in (
        ("tornado==5.0", f"tornado is {here} instead of"),
        ("no-such==1", "missing"),
    ):
        (tmp_path / f"{doctor.stack.LOCK}.txt").write_text(
            f"numpy=={doctor.stack.version('numpy')}\n{pin}\n"
        )
        pins = doctor._pins(tmp_path)
        assert levels([pins]) == [NOTICE] and found in pins.message
        assert f"make LOCK={doctor.stack.LOCK} env" in pins.fix


def test_both_builds_of_paddle_at_once_are_broken(monkeypatch):
    monkeypatch.setattr(doctor.stack, "version", lambda name: "2.6.2" if "paddlep" in name else "")
    assert levels([doctor._packages()]) == [BROKEN]


@pytest.mark.parametrize(
    ("last_words", "fix"),
    [
        ("sys.exit('ImportError: libgomp.so.1: cannot open shared object file')", "libgomp1"),
        ("sys.exit(\"ImportError: cannot import name 'download' from 'aistudio'\")", "LOCK="),
        ("os.kill(os.getpid(), 4)", "AVX"),
        ("os.kill(os.getpid(), 11)", "LOCK="),
        ("time.sleep(60)", "try again"),
    ],
)
def test_a_failing_import_is_named_with_its_fix(last_words, fix):
    code = f"import os, sys, time; print('IMPORTING paddle', flush=True); {last_words}"
    timeout = 2 if "sleep" in last_words else 600
    finding = doctor._imports(code=code, timeout=timeout)
    assert levels([finding]) == [BROKEN]
    assert "paddle" in finding.message and fix in finding.fix


def test_a_missing_package_is_named():
    finding = doctor._imports(["json", "a_package_that_does_not_exist"])
    assert levels([finding]) == [BROKEN]
    assert finding.message.startswith("a_package_that_does_not_exist cannot be imported")
    assert doctor._imports(["json"]).level == OK


def test_threads(monkeypatch):
    monkeypatch.setattr(machine, "usable_cores", lambda: 4)
    for threads, level in (("2", NOTICE), ("4", OK), ("8", NOTICE)):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found = [item for item in doctor._tuning() if item.name == "threads"]
        assert levels(found) == [level]
    state = {"applied": False, "detail": "switched off by COURSE_TUNING"}
    monkeypatch.setattr(doctor.tuning, "applied", lambda: {"mkl": state})
    assert levels(doctor._tuning())[0] == NOTICE


@pytest.mark.parametrize(
    ("flags", "architecture", "level", "text"),
    [
        ("avx avx2 avx512f avx512_vnni", "x86_64", OK, "AVX, AVX2, AVX-512, VNNI"),
        ("avx avx2 avx_vnni", "x86_64", OK, "AVX, AVX2, VNNI"),
        ("avx avx2", "x86_64", NOTICE, "without VNNI"),
        ("sse4_2", "x86_64", BROKEN, "no AVX"),
        ("", "AMD64", OK, "unknown"),
        ("asimd", "aarch64", NOTICE, "x86-64"),
    ],
)
def test_instruction_sets(flags, architecture, level, text, monkeypatch):
    monkeypatch.setattr(machine, "cpu", lambda: machine.CPU("V", "M", frozenset(flags.split())))
    finding = doctor._cpu(architecture)
    assert levels([finding]) == [level] and text in finding.message


def test_memory_and_both_disks_where_there_are_two(tmp_path, monkeypatch):
    free, devices = {ROOT: 9 << 30, str(tmp_path): 1 << 30}, {ROOT: 1, str(tmp_path): 1}
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=free[place]))
    monkeypatch.setattr(
        doctor, "os", SimpleNamespace(stat=lambda place: SimpleNamespace(st_dev=devices[place]))
    )
    for memory, level in ((2, NOTICE), (8, OK)):
        monkeypatch.setattr(machine, "usable_memory", lambda memory=memory: memory << 30)
        found = list(doctor._space())
        assert [one.name for one in found] == ["memory", "disk"] and levels(found) == [level, OK]
    devices[str(tmp_path)] = 2
    *_, disk, temporary = doctor._space()
    assert disk.level == OK and temporary.level == NOTICE
    assert str(tmp_path) in temporary.message and "TMPDIR" in temporary.fix


def test_cards_and_a_silent_driver(tmp_path, monkeypatch):
    cards = [machine.GPU("A10", (8, 6), "535.1", "23028 MiB"), machine.GPU("H100", (9, 0), "550")]
    answers = [("", ""), ("too new", "use the CUDA 12 build")]
    monkeypatch.setattr(machine, "gpus", lambda: cards)
    monkeypatch.setattr(doctor, "probe_gpu", lambda index: answers[index])
    fine, useless = doctor._gpus()
    assert levels([fine, useless]) == [OK, NOTICE] and useless.fix == "use the CUDA 12 build"
    assert fine.message.endswith(
        "(compute capability 8.6), driver 535.1, 23028 MiB; a kernel runs on it"
    )
    assert "H100" in useless.message and useless.message.endswith("; too new")
    cards.clear()
    assert levels(doctor._gpus(tmp_path / "none")) == [OK]
    assert levels(doctor._gpus(tmp_path)) == [NOTICE]
    assert levels([doctor._pins(tmp_path)]) == [NOTICE]  # a copy without the locks


def test_the_exit_status_is_1_only_when_something_is_broken(monkeypatch, capsys):
    fine = doctor._Finding(OK, "python", "3.12")
    notice = doctor._Finding(NOTICE, "gpu:0", "H100", "stay on the CPU")
    broken = doctor._Finding(BROKEN, "pins", "numpy is 2.0", "run `make env`")
    for findings, status in (([fine, notice], 0), ([fine, notice, broken], 1)):
        monkeypatch.setattr(doctor, "_diagnose", lambda findings=findings: findings)
        assert doctor.report() == status
        text = capsys.readouterr().out
        assert "! gpu:0   H100\n          fix: stay on the CPU" in text
        assert ("✗ pins" in text) == bool(status)
        assert doctor.report(as_json=True) == status
        assert json.loads(capsys.readouterr().out)["status"] == (BROKEN if status else OK)


@pytest.mark.parametrize(
    ("name", "value"), [("COURSE_PROFILE", "big"), ("COURSE_DEVICE", "foo"), ("COURSE_DATA", "/no")]
)
def test_a_variable_that_would_stop_a_notebook_is_broken(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    found = [finding for finding in doctor._variables() if finding.level == doctor.BROKEN]
    assert [finding.name for finding in found] == [name]
    assert value in found[0].message and name in found[0].fix
