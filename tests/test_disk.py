"""No writer is silent about a full disk: a limit on the size of files stands in for one."""

import os
import re
import resource
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

from course_lib.cli import commands as cli
from course_lib.cli.hierarchical import main as guide
from course_lib.compression import quantize_static
from course_lib.compression.quantization import quantize_embeddings
from course_lib.deploy import export_model
from course_lib.deploy.onnx import convert
from course_lib.models import load_backbone, save_model
from course_lib.runtime import InputError
from course_lib.tasks.search.index import SentenceIndex
from course_lib.training.checkpoint import Checkpoint, model_arrays, save_checkpoint
from course_lib.training.saving import save_plain, save_state

import numpy as np
import paddle
import pytest

TEXTS = ["房间很干净，服务很好", "太差了", "书很好看", "电脑坏了，客服不理人，再也不来了"]


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
    "checkpoint": lambda model, tokenizer, made, to: save_checkpoint(
        to, 1, Checkpoint(model_arrays(model), {}, {})
    ),
    "plain": lambda model, tokenizer, made, to: save_plain(model, to),
    "state": lambda model, tokenizer, made, to: save_state(to, model, *optimizers(model), 1),
    "index": lambda model, tokenizer, made, to: index(2000).save(to),
}


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("size", [0.3, 0.9])
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
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)]
    if os.getuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk, and not everywhere")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("name", ["export", "model", "index", "checkpoint"])
def test_a_disk_that_is_full_is_an_error_that_says_so(name, model, exported, small_disk):
    with pytest.raises(InputError, match=r"(No space left on device|cut off); 0.\d MB are free"):
        WRITERS[name](*model, exported, small_disk / "to")
    assert not contents(small_disk)


COMMANDS = {
    "train": (cli.main, "train --train_file {0}/a.tsv --dev_file {0}/a.tsv --output_dir {0}/out "
              "--model_name_or_path {0}/model --epochs 2 --batch_size 4"),
    "export": (cli.main, "export --model_dir {0}/model --output_dir {0}/out"),
    "compress": (cli.main, "compress --model_name_or_path {0}/model --output_dir {0}/out "
                 "--device cpu --train_file {0}/a.tsv --dev_file {0}/a.tsv "
                 "--strategy dynabert+ptq "
                 "--width_mult_list 0.75 --num_train_epochs 1 --batch_num_list 1"),
    "predict": (cli.main, "predict --model_dir {0}/model --input_file {0}/many.txt "
                "--output_file {0}/out.jsonl"),
    "hierarchical": (guide, "train --dataset_dir {0}/guide --save_dir {0}/out --device cpu "
                     "--model_name {0}/model --epochs 1 --batch_size 4 --max_seq_length 16"),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Files for each command, and a tiny model."""
    place = tmp_path_factory.mktemp("place")
    sizes = {"num_hidden_layers": 1, "hidden_size": 24, "num_attention_heads": 2}
    model, tokenizer = load_backbone(
        "fresh", vocab_texts=TEXTS * 3, label_list=["a", "b"], intermediate_size=48, **sizes
    )
    save_model(model, tokenizer, place / "model")
    rows = [f"{text}\t{label}" for text in TEXTS for label in "ab"]
    (place / "a.tsv").write_text("\n".join(["text\tlabel", *rows, ""]))
    (place / "many.txt").write_text("\n".join(TEXTS * 50) + "\n")
    (place / "guide").mkdir()
    for name in ("train", "dev"):
        lines = [f"{text}{name}\t{label}" for text, label in zip(TEXTS, "aabb", strict=True)]
        (place / "guide" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (place / "guide" / "label.txt").write_text("a\nb\n")
    return place


@pytest.mark.parametrize("limit", [60, 4_000])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_finds_no_room_says_where_in_one_line(name, limit, place, capsys):
    main, words = COMMANDS[name]
    out = place / ("out.jsonl" if name == "predict" else "out")
    try:
        with file_limit(limit):
            status = main(words.format(place).split())
        told = [line for line in capsys.readouterr().err.splitlines() if "error" in line.lower()]
        assert status == 2 and len(told) == 1, told
        assert told[0].startswith(f"error: {out}") and "MB are free there" in told[0]
        assert ".tmp-" not in told[0]
    finally:
        shutil.rmtree(out, ignore_errors=True)


def test_what_a_killed_command_was_writing_goes_with_the_next(place, monkeypatch, capsys):
    """`run.json` half-written was a directory "not empty" to all that came after."""
    main, words = COMMANDS["train"]
    names = (
        ".run.json.tmp-71140737353217984",
        ".model.tmp-71140737353217984/a",
        "model/.new.tmp-12345678901/b",
    )
    for name in names:
        (place / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "out" / name).write_text("{")
    (place / "out" / ".own.tmp-1").write_text("")
    assert main(words.format(place).split()) == 2  # model/ and a name that is not ours
    assert (place / "out" / names[1]).exists()
    shutil.rmtree(place / "out" / "model")
    (place / "out" / ".own.tmp-1").unlink()
    assert main(words.format(place).split()) == 0
    (place / "out" / names[2]).parent.mkdir(parents=True, exist_ok=True)
    (place / "out" / names[2]).write_text("{")
    assert main([*words.format(place).split(), "--resume"]) == 0
    assert not list((place / "out").rglob(".*.tmp-*"))
