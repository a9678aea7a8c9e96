"""What is read while another process replaces it, and what is no regular file."""

import os
import shutil

from course_lib.chapters.ch05 import read_arguments
from course_lib.deploy import Predictor, export_model, predictor
from course_lib.models import backbone, load_backbone, save_model
from course_lib.runtime import InputError, atomic_directory
from course_lib.runtime.manifest import read_manifest
from course_lib.runtime.outputs import OutputDir
from course_lib.training import checkpoint
from course_lib.training.checkpoint import Checkpoint, model_arrays

import pytest


def build(texts, labels):
    model, tokenizer = load_backbone(
        "fresh", vocab_texts=texts * 3, label_list=labels, num_hidden_layers=1
    )
    model.eval()
    return model, tokenizer


@pytest.fixture(scope="module")
def model():
    return build(["房间很干净，服务很好", "太差了"], ["negative", "positive"])


MIXED = {  # how to write, what is called half way through reading, and how to read
    "export": (
        lambda model, tokenizer, to: export_model(model, to, tokenizer, 64).parent,
        (predictor, "PaddleEngine"),
        lambda directory: Predictor(directory).classify(["天地"]),
    ),
    "model": (
        save_model,
        (backbone, "load_tokenizer"),
        lambda directory: [
            str(load_backbone(directory)[0].config),
            len(load_backbone(directory)[1]),
        ],
    ),
    "checkpoint": (
        lambda model, tokenizer, to: Checkpoint(model_arrays(model), {}, {"of": to.name}).save(
            to, 1
        ),
        (checkpoint, "read_json"),
        lambda directory: (
            Checkpoint.load(directory).state,
            len(Checkpoint.load(directory).model["ernie.embeddings.word_embeddings.weight"]),
        ),
    ),
}


@pytest.mark.parametrize("kind", MIXED)
def test_a_directory_that_is_replaced_while_it_is_read_is_not_mixed(
    kind, model, tmp_path, monkeypatch
):
    """By another process, after the files have been compared with the manifest."""
    write, called, read = MIXED[kind]
    other = build(["天地玄黄"], ["a", "b"])
    old, new = write(*model, tmp_path / "old"), write(*other, tmp_path / "new")
    expected = read(new)
    real, replaced = getattr(*called), []

    def replace(*args, **options):
        if not replaced:
            replaced.append(True)
            with atomic_directory(old) as temporary:
                shutil.copytree(new, temporary, dirs_exist_ok=True)
        return real(*args, **options)

    monkeypatch.setattr(*called, replace)
    assert read(old) == expected and replaced


READERS = {
    "manifest.json": lambda file: read_manifest(file.parent),
    "run.json": lambda file: read_arguments([str(file)]),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_not_waited_for(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match=f"{name}: (is a device or a pipe|is missing or damaged)"):
        READERS[name](tmp_path / name)
    assert OutputDir.notes(tmp_path) == {}
