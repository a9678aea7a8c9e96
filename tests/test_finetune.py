"""The script that chapter 05 starts, kills, resumes and launches."""

from __future__ import annotations

import json
import shutil

import course_lib  # noqa: F401
from course_lib.runtime import InputError
from course_lib.training.finetune import main

import pytest
import training_runs as runs

SMALL = {
    "train_examples": 24,
    "dev_examples": 8,
    "max_seq_length": 16,
    "per_device_train_batch_size": 8,
    "num_train_epochs": 2,
    "learning_rate": 1e-3,
    "logging_steps": 1,
    "save_steps": 2,
    "dropout": 0.1,
    "device": "cpu",
    "disable_tqdm": True,
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """A JSON file of arguments with a tiny model."""
    directory = tmp_path_factory.mktemp("finetune")
    model, tokenizer = runs.model_and_tokenizer()
    model.save_pretrained(str(directory / "tiny"))
    tokenizer.save_pretrained(str(directory / "tiny"))
    file = directory / "experiment.json"
    settings = {**SMALL, "model_name_or_path": str(directory / "tiny")}
    file.write_text(json.dumps({**settings, "output_dir": str(directory / "whole")}))
    return file


def test_a_file_of_arguments_trains_and_a_resume_ends_alike(experiment, tmp_path, caplog):
    caplog.set_level("ERROR")
    whole = main([str(experiment)])
    output = experiment.parent / "whole"
    assert json.loads((output / "all_results.json").read_text()) == whole
    assert len(whole["loss"]) == 6 and (output / "model_state.pdparams").is_file()
    shutil.copytree(output / "checkpoint-4", tmp_path / "run" / "checkpoint-4")
    words = ["--output_dir", str(tmp_path / "run"), "--resume_from_checkpoint", "newest"]
    resumed = main([str(experiment), *words])
    assert resumed["weights"] == whole["weights"] and resumed["loss"] == whole["loss"]
    other = main([str(experiment), "--output_dir", str(tmp_path / "other"), "--seed", "7"])
    assert other["weights"] != whole["weights"], "the command line wins over the file"


def test_what_is_wrong_is_said_before_anything_is_read(experiment, tmp_path):
    with pytest.raises(InputError, match=r"none\.json: does not exist"):
        main([str(tmp_path / "none.json")])
    tiny = experiment.parent / "tiny"
    before = {path.name: path.read_bytes() for path in tiny.iterdir()}
    for output in (tiny, f"{tiny}/../tiny", tiny.parent):  # also where it would delete it
        with pytest.raises(InputError, match="holds the model that is trained"):
            main([str(experiment), "--output_dir", str(output), "--overwrite_output_dir"])
    assert {path.name: path.read_bytes() for path in tiny.iterdir()} == before
    with pytest.raises(ValueError, match="--max_len"):
        main([str(experiment), "--max_len", "3"])
