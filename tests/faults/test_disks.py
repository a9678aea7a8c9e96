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
from course_lib.training.checkpoint import Checkpoint, save_plain

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
    "state": lambda model, tokenizer, made, to: Checkpoint.of(model, *optimizers(model)).save(
        to, 1
    ),
    "index": lambda model, tokenizer, made, to: index(2000).save(to),
}


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=30m", "tmpfs", str(disk)]
    if os.getuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk, and not everywhere")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@contextmanager
def room(disk, size):
    """Leave only so many bytes of room on a disk."""
    filler = disk / "filler"
    with open(filler, "wb") as file:
        file.write(b"0" * (shutil.disk_usage(disk).free - size))
    yield
    filler.unlink()


@pytest.mark.parametrize("share", [0.3, 0.9, "disk"] if ALL else [0.7])
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_cut_off_is_an_error_and_replaces_nothing(
    name, share, model, exported, tmp_path, request
):
    """Paddle's and faiss's writers say nothing, and what is cut off loads, and answers."""
    where = request.getfixturevalue("small_disk") if share == "disk" else tmp_path
    made = Path(shutil.copytree(exported.parent, where / "made"), exported.name)
    WRITERS[name](*model, made, where / "to")
    before = contents(where)
    sizes = [
        len(content)
        for path, content in before.items()
        if (path.suffix == ".onnx" if name == "onnx" else "made" not in path.parts)
    ]
    limit = room(where, 100_000) if share == "disk" else file_limit(int(max(sizes) * share))
    with limit, pytest.raises(InputError) as error:
        WRITERS[name](*model, made, where / "to")
    assert re.search(r"cannot be written \(.*; [\d,.]+ MB are free there\)", error.value.problem)
    assert share != "disk" or re.search(r"; 0\.\d MB", error.value.problem)
    assert Path(error.value.where).is_relative_to(where)
    assert ".tmp-" not in error.value.where and ".new." not in error.value.where
    assert before == contents(where)
    FIGURES["writers without room"] += 1


@pytest.mark.parametrize("share", [0, 0.4, 0.8, "disk"] if ALL else [0])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_finds_no_room_says_where(
    name, share, place, tmp_path, request, monkeypatch, capsys
):
    where = request.getfixturevalue("small_disk") if share == "disk" else tmp_path
    shutil.copytree(place, where, dirs_exist_ok=True)
    (where / "cwd").mkdir()
    with monkeypatch.context() as context:  # a disk in use cannot be unmounted
        context.chdir(where / "cwd")
        words, biggest = COMMANDS[name].split(), 0
        if share in (0.4, 0.8):
            assert run(words) == 0
            biggest = max(map(len, contents(where / "cwd").values())) * share
            shutil.move(words[-1], "earlier")
        capsys.readouterr()
        with room(where, 0) if share == "disk" else file_limit(max(20, int(biggest))):
            assert run(words) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if "error" in line.lower()]
    assert len(told) == 1 and told[0].startswith(f"error: {words[-1]}"), told
    assert "MB are free there" in told[0] and ".tmp-" not in told[0]
    FIGURES["commands without room"] += 1


@pytest.mark.parametrize("name", [".run.json.tmp-7114073735321798", ".own.tmp-1"])
def test_only_what_killed_commands_were_writing_is_cleared(name, place, monkeypatch):
    ours = "own" not in name
    (place / name / "out").mkdir(parents=True)
    monkeypatch.chdir(place / name)
    Path("out", name).write_text("{")
    assert run(COMMANDS["train"].split()) == (0 if ours else 2)
    assert Path("out", name).exists() != ours
