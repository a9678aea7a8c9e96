"""Train, evaluate, predict, export and prune a tiny classifier of seven labels."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from course_lib.cli import hierarchical as cli
from course_lib.cli.shared import _make_parser
from course_lib.compression import load_pruned, soft_cross_entropy
from course_lib.compression.pruning import cross_entropy
from course_lib.deploy import Predictor
from course_lib.hierarchical import __main__ as script
from course_lib.models import read_weights, suggested_learning_rate
from course_lib.runtime import InputError
from course_lib.runtime.outputs import LOCK, MARKER, OutputDir
from course_lib.tasks.hierarchical import (
    Classifier,
    brief,
    decode,
    prune,
    read_dataset,
    train,
    write_dataset,
)
from course_lib.tasks.hierarchical.model import HEAD_RATE

import hierarchical_task as task
import numpy as np
import paddle
import pytest
import training_runs as runs
from paddlenlp.trainer import TrainerCallback
from scipy.special import expit, log_expit
from sklearn.metrics import f1_score

FLAGS = ["--epochs", "6", "--batch_size", "8", "--learning_rate", "5e-3", "--device", "cpu"]
FLAGS += ["--warmup", "--warmup_steps", "20"]
ROOT = Path(__file__).parents[1]
CALM = ["--epochs", 3, "--learning_rate", "5e-3", "--device", "cpu", "--logging_steps", 1]
TWICE = {"epochs": 3, "batch_size": 16, "learning_rate": 5e-3, "warmup_steps": 2, "seed": 7}
KILLED = """
import json, os, sys
from course_lib.tasks.hierarchical import read_dataset, train
from tiny_trainer import Killer
import hierarchical_task as task
path, options = sys.argv[1], json.loads(sys.argv[2])
data = [read_dataset(f"{path}/data/{name}.txt", task.TAXONOMY) for name in ("train", "dev")]
for name, step in (("early", 3), ("killed", 20)):
    if os.fork() == 0:
        out = f"{path}/{name}"
        train(*data, task.TAXONOMY, out, f"{path}/tiny", callbacks=[Killer(step)], **options)
    assert os.wait()[1] == 9
train(*data, task.TAXONOMY, f"{path}/whole", f"{path}/tiny", **options)
"""
# of processes whose bits are compared: in this one, after all other tests, they came out different
ALONE = os.environ | {"OMP_NUM_THREADS": "1"}
ALONE["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def elsewhere():
    """Processes that `work` has started."""
    processes = {}
    yield processes
    for process in processes.values():
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture(scope="module")
def work(tmp_path_factory, elsewhere, one_thread):
    """data/, an untrained tiny/, and checkpoint/, which the command has trained.

    Other processes, which take long to import Paddle, begin now too: see `elsewhere`.
    """
    path = tmp_path_factory.mktemp("hierarchical")
    task.directory(path / "data", 240, 60)
    task.tiny_model(path / "tiny")
    task.tiny_model(path / "calm" / "tiny", hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    task.directory(path / "calm" / "data", 48, 21)  # odd: one process has a row more
    killed = [sys.executable, "-c", KILLED, str(path), json.dumps({**TWICE, "device": "cpu"})]
    launch = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", "2"]
    launch += ["--backend", "gloo", "--log_dir", str(path / "logs"), script.__file__]
    flags = ["--save_dir", path / "calm" / "two", "--batch_size", 4, *CALM]
    launch += words(path / "calm", "train", *flags)
    for name, command in (("killed", killed), ("launched", launch)):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=path, env=ALONE, **pipes)
        elsewhere[name] = process
    assert cli.main(words(path, "train", "--save_dir", path / "checkpoint", *FLAGS)) == 0
    return path


@pytest.fixture
def trained(work) -> Classifier:
    return Classifier.load(work / "checkpoint")


def words(path, command, *more) -> list[str]:
    model = ["--model_name", str(path / "tiny")] if command == "train" else []
    return [command, "--dataset_dir", str(path / "data"), *model, *map(str, more)]


def dev(work) -> tuple[list[str], np.ndarray]:
    rows = read_dataset(work / "data" / "dev.txt", task.TAXONOMY)
    return [row["text"] for row in rows], task.TAXONOMY.indicators([row["labels"] for row in rows])


def run(arguments, capsys) -> tuple[int, str, str]:
    capsys.readouterr()
    status = cli.main([str(word) for word in arguments])
    return status, *capsys.readouterr()


# ---- training


def test_training_leaves_the_best_model_with_its_thresholds(work, trained):
    assert trained.taxonomy.labels == tuple(task.LABELS) and trained.max_seq_length == 64
    texts, true = dev(work)
    probabilities = trained.probabilities(texts)
    assert brief(true, probabilities >= 0.5)["micro_f1"] > 0.9
    saved = json.loads((work / "checkpoint" / "thresholds.json").read_text("utf-8"))
    assert saved == trained.thresholds and list(saved) == task.LABELS
    config = json.loads((work / "checkpoint" / "config.json").read_text("utf-8"))
    assert config["problem_type"] == "multi_label_classification"
    # the best epoch's model, and not the last one's
    states = [json.loads(p.read_text()) for p in work.glob("checkpoint/checkpoints/*/*state.json")]
    last = max(states, key=lambda state: state["global_step"])
    epochs = {e["step"]: e["eval_micro_f1"] for e in last["log_history"] if "eval_micro_f1" in e}
    assert len(epochs) == 6
    got = brief(true, probabilities >= 0.5)["micro_f1"]
    assert got == pytest.approx(max(epochs.values()), abs=1e-6)
    # each text's own figures, whatever else is in its batch
    assert np.allclose(trained.probabilities(texts[:3], batch_size=1), probabilities[:3], atol=1e-5)


def test_predictions_respect_the_hierarchy(work, trained):
    texts, _ = dev(work)
    trained.thresholds = {**trained.thresholds, "店": 0.999999}
    free = trained.predict(texts, consistent=False)
    assert any(task.TAXONOMY.missing(labels) for labels in free)
    assert not any(task.TAXONOMY.missing(labels) for labels in trained.predict(texts))
    trained.thresholds = dict.fromkeys(task.LABELS, 0.001)
    several = trained.predict(texts)
    single = trained.predict(texts, one_child=True)
    assert max(map(len, several)) > 3 >= max(map(len, single))
    assert all(len({label.count("##") for label in row}) == len(row) for row in single)


def test_killed_moved_and_resumed_it_ends_with_the_same_bits(work, elsewhere, tmp_path):
    said = elsewhere["killed"].communicate(timeout=600)[1]
    assert elsewhere["killed"].returncode == 0, said
    (work / "killed").rename(tmp_path / "moved")
    (work / "early").rename(tmp_path / "early")
    assert [path.name for path in (tmp_path / "moved/checkpoints").iterdir()] == ["checkpoint-15"]
    # killed before, or while, the first checkpoint was written: both ways lead to the end
    assert not list((tmp_path / "early").glob("checkpoints/checkpoint-*"))
    shutil.copytree(
        tmp_path / "moved/checkpoints", tmp_path / "early/checkpoints", dirs_exist_ok=True
    )
    (tmp_path / "early/checkpoints/checkpoint-15/course.json").unlink()
    shutil.copytree(tmp_path / "early", tmp_path / "again")
    flags = [f"--{name}={value}" for name, value in TWICE.items()] + ["--device=cpu", "--warmup"]
    for name, first in (("moved", 20), ("early", 5), ("again", 5)):
        resume = [] if name == "again" else ["--init_from_ckpt", "newest"]
        train_again = words(work, "train", "--save_dir", tmp_path / name, *resume, *flags)
        command = [sys.executable, script.__file__, *train_again]
        done = subprocess.run(command, env=ALONE, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        steps = re.findall(r"step (\d+)/45", done.stderr)
        assert int(steps[0]) == first and steps[-1] == "45", (name, steps)
        digests = [
            runs.weights_digest(Classifier.load(path).model)
            for path in (work / "whole", tmp_path / name)
        ]
        assert digests[0] == digests[1], name


@pytest.mark.parametrize("command", ["train", "export", "prune"])
def test_directories_of_others_stay_and_one_process_writes_to_each(command, work, tmp_path, capsys):
    foreign = shutil.copytree(work / "tiny", tmp_path / "foreign")
    before = {path.name: path.read_bytes() for path in foreign.iterdir()}
    place, other = {
        "train": ("--save_dir", words(work, "train", "--device", "cpu")),
        "export": ("--output_path", ["export", "--params_path", work / "checkpoint"]),
        "prune": (
            "--output_dir",
            [*words(work, "prune", "--device", "cpu"), "--params_dir", work / "checkpoint"],
        ),
    }[command]
    status, _, err = run([*other, place, foreign], capsys)
    assert status == 2 and "is not empty" in err
    assert {path.name: path.read_bytes() for path in foreign.iterdir()} == before
    with OutputDir(tmp_path / "held", "train").claim():
        status, _, err = run([*other, place, tmp_path / "held"], capsys)
    assert status == 2 and f"{tmp_path / 'held'}: is in use" in err


def test_early_stopping(work, tmp_path, capsys):
    # nothing is learnt without a learning rate, and patience ends after one more epoch
    flags = ["--epochs", 9, "--learning_rate", "1e-12", "--early_stop", "--early_stop_nums", 1]
    status, out, _ = run(words(work, "train", "--save_dir", tmp_path / "c", *flags), capsys)
    assert status == 0 and json.loads(out)["best_step"] == 8  # 240 texts in batches of 32
    steps = {p.name for p in (tmp_path / "c" / "checkpoints").glob("checkpoint-*")}
    assert steps == {"checkpoint-8", "checkpoint-16"}


def test_a_training_may_begin_with_weights_of_another(work, tmp_path, capsys):
    flags = ["--epochs", 1, "--learning_rate", "5e-3", "--device", "cpu"]
    weights = work / "checkpoint" / "model.safetensors"
    flags += ["--save_dir", tmp_path / "a", "--init_from_ckpt", weights]
    status, out, _ = run(words(work, "train", *flags), capsys)
    assert status == 0 and json.loads(out)["dev"]["micro_f1"] > 0.9
    old = tmp_path / "old.pdparams"
    paddle.save(read_weights(weights), str(old))
    flags[-3:] = [tmp_path / "b", "--init_from_ckpt", old]
    assert run(words(work, "train", *flags), capsys)[0] == 0
    task.tiny_model(tmp_path / "other", hidden_size=32)
    other_order = shutil.copytree(work / "checkpoint", tmp_path / "order")
    config = json.loads((other_order / "config.json").read_text(encoding="utf-8"))
    names = list(config["id2label"].values())
    config["id2label"] = dict(enumerate(names[::-1]))
    (other_order / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for path, said in (
        (other_order / "model.safetensors", "in this order"),
        (tmp_path / "none.pdparams", "is no file"),
        (tmp_path / "other" / "model.safetensors", "is of another model"),
        (work / "data" / "label.txt", "is damaged"),
    ):
        flags[-3:] = [tmp_path / "c", "--init_from_ckpt", path]
        status, _, err = run(words(work, "train", *flags), capsys)
        assert status == 2 and said in err and not (tmp_path / "c").exists()
    output = OutputDir(tmp_path / "c", "hierarchical train")
    with output.claim(weights=str(weights)):  # and killed early
        pass
    flags[-1] = "newest"  # begins with the same weights
    status, out, _ = run(words(work, "train", *flags), capsys)
    assert status == 0 and json.loads(out)["dev"]["micro_f1"] > 0.9


def test_two_processes_train_as_one_does(work, elsewhere, capsys):
    """paddle.distributed.launch with gloo; without dropout the figures are the same."""
    path = work / "calm"
    more = ["--save_dir", path / "one", "--batch_size", 8, *CALM]
    status, one, _ = run(words(path, "train", *more), capsys)
    assert status == 0
    out, err = elsewhere["launched"].communicate(timeout=600)
    assert elsewhere["launched"].returncode == 0, err[-2000:]
    two = next(line for line in out.splitlines() if line.startswith("{"))
    assert json.loads(one) == json.loads(two)
    figures = {}
    for name in ("one", "two"):
        (state,) = (path / name).glob("checkpoints/checkpoint-18/trainer_state.json")
        logs = json.loads(state.read_text())["log_history"]
        for figure in ("loss", "eval_micro_f1"):
            figures[name, figure] = [entry[figure] for entry in logs if figure in entry]
        model = Classifier.load(path / name)
        texts = [row["text"] for row in task.examples(9, 5)]
        figures[name, "probabilities"] = model.probabilities(texts)
    assert len(figures["one", "loss"]) == 18 and len(figures["one", "eval_micro_f1"]) == 3
    assert max(figures["one", "eval_micro_f1"]) > 0
    for figure in ("loss", "eval_micro_f1", "probabilities"):
        assert np.allclose(figures["one", figure], figures["two", figure], atol=1e-4), figure


# ---- the other commands


def test_evaluate_writes_the_report_and_the_bad_cases(work, trained, tmp_path, capsys):
    trained.thresholds = {**trained.thresholds, "书": 0.999999}
    trained.save(tmp_path / "worse")
    flags = ["--params_path", tmp_path / "worse", "--bad_case_path", tmp_path / "bad.txt"]
    flags += ["--report_path", tmp_path / "report.json"]
    status, out, err = run(words(work, "evaluate", *flags), capsys)
    assert status == 0 and out.startswith("Train dataset size: 240\nDev dataset size: 60\n")
    assert "Class name: 店##好##位置\nEvaluation examples in train dataset: " in out
    figures = json.loads((tmp_path / "report.json").read_text("utf-8"))
    texts, true = dev(work)
    predicted = decode(trained.probabilities(texts), trained.taxonomy, trained.thresholds)
    assert figures["dev"]["micro"]["f1"] == brief(true, predicted)["micro_f1"]
    lines = (tmp_path / "bad.txt").read_text("utf-8").splitlines()
    wrong = int((true != predicted).any(axis=1).sum())
    assert len(lines) == wrong + 1 > 1 and f"{wrong} texts with wrong labels" in err
    status, out, _ = run(words(work, "evaluate", *flags, "--skip_train"), capsys)
    assert status == 0 and out.startswith("Dev dataset size: 60")
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["train"] is None
    assert "warning: dev.txt chose epoch and thresholds" in err
    data = shutil.copytree(work / "data", tmp_path / "data")
    rows = [{**row, "text": row["text"] + "新"} for row in task.examples(40, 9)]
    others = write_dataset(tmp_path / "more", {"test": rows}, task.LABELS)
    shutil.copy(others / "test.txt", data / "unseen.txt")
    tested = ["evaluate", "--dataset_dir", data, *flags, "--test_file", "unseen.txt"]
    status, out, err = run(tested, capsys)
    assert status == 0 and "\nTest dataset size: 40\n" in out and "warning" not in err
    figures = json.loads((tmp_path / "report.json").read_text("utf-8"))["test"]
    true = task.TAXONOMY.indicators([row["labels"] for row in rows])
    probabilities = trained.probabilities([row["text"] for row in rows])
    predicted = decode(probabilities, trained.taxonomy, trained.thresholds)
    assert figures["macro"]["f1"] == pytest.approx(f1_score(true, predicted, average="macro"))
    assert "is the train file and another one" in run([*tested[:-1], "train.txt"], capsys)[2]
    assert "does not exist" in run([*tested[:-1], "none.txt"], capsys)[2]


def test_an_export_predicts_what_its_model_does(work, trained, tmp_path, capsys):
    flags = ["--params_path", work / "checkpoint", "--output_path", tmp_path / "export"]
    status, out, _ = run(["export", *flags], capsys)
    assert status == 0
    assert json.loads(out) == {"path": str(tmp_path / "export" / "float32")}
    assert {"float32.pdmodel", "float32.pdiparams"} <= set(os.listdir(tmp_path / "export"))
    texts, _ = dev(work)
    predictor = Predictor(tmp_path / "export")
    assert predictor.max_length == 64 and predictor.problem == "multi_label"
    assert predictor.thresholds == list(trained.thresholds.values())
    assert np.allclose(predictor.predict(texts), trained.probabilities(texts), atol=1e-5)
    flags = ["--params_path", work / "checkpoint"]
    status, dynamic, _ = run(words(work, "predict", *flags), capsys)
    printed = json.loads(out)["path"]
    flags = ["--params_path", printed, "--output_path", tmp_path / "out.jsonl"]
    assert status == run(words(work, "predict", *flags), capsys)[0] == 0
    rows = [json.loads(line) for line in dynamic.splitlines()]
    static = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == 6
    for one, other in zip(rows, static, strict=True):
        assert (one["text"], one["label"]) == (other["text"], other["label"])
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=2e-4)
        assert list(one["probabilities"]) == one["label"]
    with pytest.raises(InputError, match="is an export already"):
        Classifier.load(tmp_path / "export").export(tmp_path / "again")
    with pytest.raises(InputError, match="as it was exported"):
        Classifier.load(tmp_path / "export", max_seq_length=32)


def test_prune_leaves_models_that_load_and_export(work, trained, tmp_path, capsys, monkeypatch):
    rates = []

    class Watch(TrainerCallback):
        def on_train_begin(self, args, state, control, **kwargs):
            rates.append(args.learning_rate)

    monkeypatch.setattr(cli.tree, "prune", partial(prune, callbacks=[Watch()]))
    flags = ["--params_dir", work / "checkpoint", "--output_dir", tmp_path / "small"]
    flags += ["--width_mult", "3/4,1/2", "--num_train_epochs", 3]
    flags += ["--per_device_train_batch_size", 16, "--device", "cpu", "--report_to", "none"]
    before = runs.weights_digest(trained.model)
    status, out, err = run(words(work, "prune", *flags), capsys)
    assert status == 0 and "loss" in err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row.get("width") for row in rows] == [None, 0.75, 0.5]
    assert set(rates) == {suggested_learning_rate(trained.model)} == {1e-3}
    assert rows[0]["megabytes"] > rows[1]["megabytes"] > rows[2]["megabytes"]
    assert rows[1]["micro_f1"] > 0.9 and {"accuracy", "macro_f1", "score"} <= set(rows[1])
    texts, true = dev(work)
    for name, heads in (("width_mult_0.75", 3), ("width_mult_0.5", 2)):
        small = Classifier.load(tmp_path / "small" / name)
        assert small.model.config.heads_per_layer == [heads, heads]
        assert load_pruned(tmp_path / "small" / name).config.neurons_per_layer == [8 * heads] * 2
        static = Predictor(tmp_path / "small" / name)
        assert static.thresholds == list(small.thresholds.values())
        assert np.allclose(static.predict(texts), small.probabilities(texts), atol=1e-5)
        chosen = decode(small.probabilities(texts), small.taxonomy, small.thresholds)
        row = next(row for row in rows if name in row["path"])
        assert brief(true, chosen)["micro_f1"] == pytest.approx(row["micro_f1"], abs=1e-4)
        at_half = brief(true, static.predict(texts) >= 0.5)["micro_f1"]
        assert at_half == pytest.approx(row["score"], abs=1e-4)
        small.export(tmp_path / "export" / name)
        exported = Predictor(tmp_path / "export" / name).predict(texts[:5])
        assert np.allclose(exported, small.probabilities(texts[:5]), atol=1e-5)
    assert runs.weights_digest(Classifier.load(work / "checkpoint").model) == before


GUIDE = {  # the flags of each command in the guide, and the defaults that are the guide's here too
    "train": (
        "device dataset_dir max_seq_length model_name learning_rate init_from_ckpt",
        {"save_dir": "./checkpoint", "batch_size": 32, "epochs": 10, "early_stop": False,
         "early_stop_nums": 10, "logging_steps": 5, "weight_decay": 0.0, "warmup": False,
         "warmup_steps": 0, "seed": 3, "train_file": "train.txt", "dev_file": "dev.txt",
         "label_file": "label.txt"},
    ),
    "evaluate": (
        "device dataset_dir max_seq_length",
        {"params_path": "./checkpoint/", "batch_size": 32, "bad_case_path": "./bad_case.txt"},
    ),
    "predict": (
        "device dataset_dir max_seq_length",
        {"params_path": "./checkpoint/", "batch_size": 32, "data_file": "data.txt",
         "label_file": "label.txt"},
    ),
    "export": ("", {"params_path": "./checkpoint/", "output_path": "./export"}),
}  # fmt: skip


@pytest.mark.parametrize("command", GUIDE)
def test_the_flags_and_their_defaults_are_the_guides(command):
    names, defaults = GUIDE[command]
    data = [] if command == "export" else ["--dataset_dir", "data"]
    args = vars(_make_parser("", "", cli.COMMANDS).parse_args([command, *data]))
    assert {name: args[name] for name in defaults} == defaults
    assert set(names.split()) <= args.keys()


# ---- what is refused


def test_wrong_input_ends_in_one_line(work, tmp_path, capsys):
    broken = tmp_path / "broken"
    shutil.copytree(work / "data", broken)
    with open(broken / "dev.txt", "a", encoding="utf-8") as file:
        file.write("孤儿\t书##好\n")
    checkpoint, new = work / "checkpoint", tmp_path / "new"
    ok = ["--dataset_dir", work / "data"]
    model = ["--params_path", checkpoint]
    other = tmp_path / "other"
    shutil.copytree(work / "data", other)
    (other / "label.txt").write_text("狗\n", "utf-8")
    for arguments, said in (
        (["train", "--dataset_dir", broken, "--save_dir", new], "dev.txt, line 61: a label"),
        (["train", *ok, "--save_dir", checkpoint], "init_from_ckpt newest"),
        (["train", *ok, "--save_dir", new, "--warmup_steps", 5], "without --warmup"),
        (["train", *ok, "--save_dir", new, "--early_stop_nums", 5], "without --early_stop"),
        (["train", *ok, "--save_dir", new, "--model_name", tmp_path / "x"], "does not exist"),
        (["train", *ok, "--save_dir", new, "--init_from_ckpt", checkpoint], "is no file"),
        (["train", *ok, "--save_dir", new, "--max_seq_length", 5000], "max_seq_length"),
        (["train", *ok, "--save_dir", new, "--init_from_ckpt", "newest"], "no training"),
        (["evaluate", *ok, "--params_path", work / "data"], "holds no model"),
        (["predict", "--dataset_dir", other, *model], "its labels are not those of label.txt"),
        (["predict", *ok, *model, "--data_file", "none.txt"], "does not exist"),
        (["predict", *ok, *model, "--one_child", "--independent"], "one_child"),
        (["prune", *ok, "--params_dir", new, "--output_dir", new], "does not exist"),
        (["prune", *ok, "--params_dir", checkpoint, "--output_dir", work], "is not empty"),
        (["prune", *ok, "--params_dir", checkpoint, "--output_dir", new, "--width_mult", "2"],
         "above 0 and at most 1"),
        (["prune", *ok, "--params_dir", checkpoint, "--output_dir", new, "--width_mult", "1/8"],
         "leaves none"),
        (["check", tmp_path / "x"], "is no directory"),
    ):  # fmt: skip
        status, out, err = run(arguments, capsys)
        last = err.splitlines()[-1]
        assert status == 2 and out == "" and last.startswith("error: ") and said in last, arguments
        written = {path.name for path in new.rglob("*") if path.is_file()}
        assert written <= {LOCK, MARKER}, arguments


def test_models_of_another_kind_are_refused(work, tmp_path):
    model, tokenizer = runs.model_and_tokenizer()
    model.save_pretrained(str(tmp_path / "single"))
    tokenizer.save_pretrained(str(tmp_path / "single"))
    with pytest.raises(InputError, match="gives each text one class"):
        Classifier.load(tmp_path / "single")
    trained = Classifier.load(work / "checkpoint")
    with pytest.raises(InputError, match="text 1 is empty"):
        trained.predict([""])
    assert trained.predict([]) == []
    with pytest.raises(InputError, match="max_seq_length"):
        Classifier.load(work / "checkpoint", max_seq_length=65)
    broken = shutil.copytree(work / "checkpoint", tmp_path / "broken")
    (broken / "manifest.json").unlink()
    for text in ("[]", "{", '{"书": 0.5}', json.dumps({**trained.thresholds, "书": 2})):
        (broken / "thresholds.json").write_text(text)
        with pytest.raises(InputError, match=r"thresholds\.json"):
            Classifier.load(broken)
    (broken / "thresholds.json").unlink()
    assert set(Classifier.load(broken).thresholds.values()) == {0.5}


def test_a_new_head_begins_with_the_shares_of_the_labels_and_learns_faster(work, tmp_path):
    rows = task.examples(40)
    options = {"epochs": 1, "learning_rate": 1e-12, "device": "cpu"}
    shares = (task.TAXONOMY.indicators([row["labels"] for row in rows]).sum(axis=0) + 1) / 42
    name = str(work / "tiny")
    new, _ = train(rows, rows, task.TAXONOMY, tmp_path / "a", model_name=name, **options)
    assert np.allclose(expit(new.model.classifier.bias.numpy()), shares, atol=1e-5)
    # one step of AdamW moves a weight by the learning rate, which is higher for the head
    step = {**options, "batch_size": 40, "learning_rate": 1e-3, "model_name": name}
    after, _ = train(rows, rows, task.TAXONOMY, tmp_path / "c", **step)
    for layer, rate in (("classifier", HEAD_RATE * 1e-3), ("ernie.pooler.dense", 1e-3)):
        old, moved = (one.model.state_dict()[f"{layer}.weight"] for one in (new, after))
        assert float((moved - old).abs().max()) == pytest.approx(rate, rel=0.01)
    name = str(work / "checkpoint")
    old, _ = train(rows, rows, task.TAXONOMY, tmp_path / "b", model_name=name, **options)
    trained = Classifier.load(name).model.classifier.bias.numpy()
    assert np.allclose(old.model.classifier.bias.numpy(), trained, atol=1e-5)
    assert not np.allclose(expit(trained), shares, atol=0.05)


# ---- compression of several labels a text


def test_the_losses_are_what_numpy_says():
    random = np.random.RandomState(0)
    student, teacher = random.randn(2, 5, 7).astype("float32")
    for temperature in (1.0, 3.0):
        one, other = student / temperature, expit(teacher / temperature)
        expected = -(other * log_expit(one) + (1 - other) * log_expit(-one)).sum(axis=1).mean()
        got = soft_cross_entropy(
            *map(paddle.to_tensor, (student, teacher)), temperature, several=True
        )
        assert float(got) == pytest.approx(temperature**2 * expected, rel=1e-5)
    labels = (random.rand(5, 7) < 0.5).astype("float32")
    expected = -(labels * log_expit(student) + (1 - labels) * log_expit(-student)).mean()
    got = cross_entropy(*map(paddle.to_tensor, (student, labels)))
    assert float(got) == pytest.approx(expected, rel=1e-5)
