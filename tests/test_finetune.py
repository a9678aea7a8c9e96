"""The script that chapter 05 starts, kills, resumes and launches."""

import json
import shutil

from course_lib.chapters import ch05
from course_lib.chapters.ch05 import main
from course_lib.runtime import InputError
from course_lib.runtime.files import lock_directory

import pytest
import training_runs as runs

pytestmark = pytest.mark.slow

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
    assert len(whole["loss"]) == 6 and (output / "model.safetensors").is_file()
    shutil.copytree(output / "checkpoint-4", tmp_path / "run" / "checkpoint-4")
    words = ["--output_dir", str(tmp_path / "run"), "--resume_from_checkpoint", "newest"]
    resumed = main([str(experiment), *words])
    assert resumed["weights"] == whole["weights"] and resumed["loss"] == whole["loss"]
    other = main([str(experiment), "--output_dir", str(tmp_path / "other"), "--seed", "7"])
    assert other["weights"] != whole["weights"], "the command line wins over the file"
    with pytest.raises(InputError, match="of an earlier run"):
        main([str(experiment), *words[:2]])
    with lock_directory(tmp_path / "held"), pytest.raises(InputError, match="held: is in use"):
        main([str(experiment), "--output_dir", str(tmp_path / "held")])


def test_what_is_wrong_is_said_before_anything_is_read(experiment, tmp_path):
    with pytest.raises(InputError, match=r"none\.json: does not exist"):
        main([str(tmp_path / "none.json")])
    tiny = experiment.parent / "tiny"
    before = {path.name: path.read_bytes() for path in tiny.iterdir()}
    for output in (tiny, f"{tiny}/../tiny", tiny.parent):  # also where it would delete it
        with pytest.raises(InputError, match="holds the model that is trained"):
            main([str(experiment), "--output_dir", str(output), "--overwrite_output_dir"])
    assert {path.name: path.read_bytes() for path in tiny.iterdir()} == before
    for words, message in (
        (["--max_len", "3"], "--max_len"),
        (["--learning_rate", "nan"], "learning_rate: is nan"),
        (["--train_examples", "0"], "train_examples: is 0; expected a whole number of at least 1"),
        (["--dropout", "1"], "dropout: is 1.0"),
        (["--evaluation_strategy", "steps", "--logging_steps", "0"], "requires either non-zero"),
        (["--max_seq_length", "65"], "max_seq_length: is 65; expected a whole number from 3 to 64"),
    ):
        with pytest.raises(InputError, match=message):
            main([str(experiment), *words])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "holds a list; expected an object"),
        ('{"output_dir": null}', "its output_dir is null; .* or no output_dir"),
        ('{"learningrate": 1}', "cannot be used .*--learningrate=1.* of --help"),
        ('{"learning_rate": "fast"}', "cannot be used .*--learning_rate: invalid float.*fast"),
        ('{"seed": {"a": 1}}', 'its seed is {"a": 1}; expected a number'),
    ],
)
def test_a_file_of_arguments_that_is_wrong_is_named_with_its_key(text, message, tmp_path):
    file = tmp_path / "run.json"
    file.write_text(text)
    with pytest.raises(InputError, match=rf"run\.json: {message}"):
        main([str(file), "--output_dir", str(tmp_path / "out")])
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_file_may_name_the_device(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(ch05, "select_device", asked.append)
    file = tmp_path / "experiment.json"
    for settings in ({"device": "cpu"}, {}):
        file.write_text(json.dumps({"output_dir": str(tmp_path), **settings}))
        ch05.read_arguments([str(file)])
    assert asked == ["cpu", None]
