"""No writer is silent about a full disk: a limit on the size of files stands in for one."""

import os
import re
import resource
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

from course_lib.compression import quantize_static
from course_lib.compression.embeddings import quantize_embeddings
from course_lib.deploy import export_model
from course_lib.deploy.onnx import convert
from course_lib.models import load_backbone, save_model
from course_lib.runtime import InputError
from course_lib.tasks.search.index import SentenceIndex
from course_lib.training.checkpoint import save_plain, save_state

import numpy as np
import paddle
import pytest
from workshop import ALL, COMMANDS, FIGURES, TEXTS, contents, run


@contextmanager
def file_limit(size):
    """Python ignores the signal, so that writing more than `size` bytes is an error of the disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def model():
    paddle.seed(0)
    model, tokenizer = load_backbone(
        "fresh", vocab_texts=TEXTS * 3, label_list=["negative", "positive"], num_hidden_layers=1
    )
    model.eval()
    return model, tokenizer


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    return export_model(model[0], tmp_path_factory.mktemp("model"), model[1], 64)


def index(count):
    vectors = np.random.RandomState(0).normal(size=(count, 64)).astype("float32")
    made = SentenceIndex(64, "flat")
    made.add(vectors / np.linalg.norm(vectors, axis=1)[:, None], [str(n) for n in range(count)])
    return made


def optimizers(model):
    schedule = paddle.optimizer.lr.LinearWarmup(0.1, 2, 0.0, 0.1)
    return paddle.optimizer.SGD(schedule, parameters=model.parameters()), schedule


WRITERS = {  # what they write has one file of more than a megabyte or so at least
    "export": lambda model, tokenizer, made, to: export_model(model, to, tokenizer, 64),
    "quantize": lambda model, tokenizer, made, to: quantize_static(
        made, to, [dict(tokenizer(text)) for text in TEXTS]
    ),
    "embeddings": lambda model, tokenizer, made, to: quantize_embeddings(made, to),
    "onnx": lambda model, tokenizer, made, to: convert(made),
    "model": lambda model, tokenizer, made, to: save_model(model, tokenizer, to),
    "plain": lambda model, tokenizer, made, to: save_plain(model, to),
    "state": lambda model, tokenizer, made, to: save_state(to, model, *optimizers(model), 1),
    "index": lambda model, tokenizer, made, to: index(2000).save(to),
}


@pytest.mark.parametrize("size", [0.3, 0.9] if ALL else [0.7])
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_cut_off_is_an_error_and_replaces_nothing(
    name, size, model, exported, tmp_path
):
    """Paddle's and faiss's writers say nothing, and what is cut off loads, and answers."""
    to = tmp_path / "to"
    WRITERS[name](*model, exported, to)
    where = exported.parent if name == "onnx" else tmp_path
    before = contents(where)
    sizes = [
        len(content) for path, content in before.items() if name != "onnx" or path.suffix == ".onnx"
    ]
    with file_limit(int(max(sizes) * size)), pytest.raises(InputError) as error:
        WRITERS[name](*model, exported, to)
    assert re.search(r"cannot be written \(.*; [\d,.]+ MB are free there\)", error.value.problem)
    assert Path(error.value.where).is_relative_to(where)
    assert ".tmp-" not in error.value.where and ".new." not in error.value.where
    assert before == contents(where)


@pytest.fixture
def full_disk(tmp_path):
    """A function that leaves only so many bytes of room on a small disk, which it makes first."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=30m", "tmpfs", str(disk)]
    if os.getuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk, and not everywhere")

    def fill(room: int) -> None:
        with open(disk / "filler", "ab") as filler:
            filler.write(b"0" * (shutil.disk_usage(disk).free - room))

    yield disk, fill
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("name", WRITERS if ALL else ["export", "model", "index", "checkpoint"])
def test_a_disk_that_is_full_is_an_error_and_replaces_nothing(name, model, exported, full_disk):
    disk, fill = full_disk
    made = Path(shutil.copytree(exported.parent, disk / "made"), exported.name)
    WRITERS[name](*model, made, disk / "to")
    before = contents(disk)
    fill(100_000)
    with pytest.raises(InputError, match=r"(No space left on device|cut off); 0.\d MB are free"):
        WRITERS[name](*model, made, disk / "to")
    (disk / "filler").unlink()
    assert contents(disk) == before


def refused_for_room(words, capsys):
    capsys.readouterr()
    status = run(words)
    told = [line for line in capsys.readouterr().err.splitlines() if "error" in line.lower()]
    assert status == 2 and len(told) == 1, told
    assert told[0].startswith(f"error: {words[-1]}") and "MB are free there" in told[0], told
    assert ".tmp-" not in told[0]
    FIGURES["commands without room"] += 1


@pytest.mark.parametrize("share", [0, 0.4, 0.8] if ALL else [0])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_whose_files_are_cut_off_says_where(name, share, place, monkeypatch, capsys):
    words, biggest, cwd = COMMANDS[name].split(), 0, place / f"{name} {share}"
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    if share:
        assert run(words) == 0
        biggest = max(map(len, contents(cwd).values()))
        shutil.move(words[-1], "earlier")
    with file_limit(max(20, int(biggest * share))):
        refused_for_room(words, capsys)


@pytest.mark.parametrize("name", COMMANDS if ALL else ["train", "hierarchical predict"])
def test_a_command_on_a_full_disk_says_where(name, place, full_disk, monkeypatch, capsys):
    disk, fill = full_disk
    shutil.copytree(place, disk, dirs_exist_ok=True)
    (disk / "cwd").mkdir()
    monkeypatch.chdir(disk / "cwd")
    fill(0)
    refused_for_room(COMMANDS[name].split(), capsys)
    monkeypatch.undo()  # a disk in use cannot be unmounted


def test_what_a_killed_command_was_writing_goes_with_the_next(place, monkeypatch):
    """`run.json` half-written was a directory "not empty" to all that came after."""
    (place / "leftovers").mkdir()
    monkeypatch.chdir(place / "leftovers")
    words, out = COMMANDS["train"].split(), Path("out")
    names = (
        ".run.json.tmp-71140737353217984",
        ".model.tmp-71140737353217984/a",
        "model/.new.tmp-12345678901/b",
    )
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("{")
    (out / ".own.tmp-1").write_text("")
    assert run(words) == 2  # model/ and a name that is not ours
    assert (out / names[1]).exists()
    shutil.rmtree(out / "model")
    (out / ".own.tmp-1").unlink()
    assert run(words) == 0
    (out / names[2]).parent.mkdir(parents=True, exist_ok=True)
    (out / names[2]).write_text("{")
    assert run([*words, "--resume"]) == 0
    assert not list(out.rglob(".*.tmp-*"))
