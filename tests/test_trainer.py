"""CourseTrainer: exact resumption, its callbacks, errors in words, and what upstream does."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from course_lib.models.files import read_weights, write_weights
from course_lib.notebook.visual_logs import read_scalars
from course_lib.runtime import InputError
from course_lib.runtime.manifest import describe_files
from course_lib.training import NotebookProgressCallback, ThroughputCallback, trainer_history
from course_lib.training.checks import check_data

import numpy as np
import paddle
import pytest
import tiny_trainer
import training_runs as runs
from paddlenlp.data import DataCollatorForTokenClassification
from paddlenlp.trainer import EarlyStoppingCallback, Trainer
from paddlenlp.trainer.trainer_callback import TrainerState
from paddlenlp.trainer.trainer_utils import IntervalStrategy
from paddlenlp.transformers import ErnieForQuestionAnswering, ErnieForTokenClassification
from tiny_trainer import BATCH, STEPS, build, losses

ROOT = Path(__file__).resolve().parents[1]
TWO = {"max_steps": 4, "dropout": 0.0, "save_steps": 2, "save_total_limit": 1}


pytestmark = pytest.mark.usefixtures("one_thread", "quiet")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory, one_thread, quiet):
    """A run of 8 steps with a checkpoint after every second."""
    directory = tmp_path_factory.mktemp("trainer") / "unbroken"
    trainer = build(directory, group_by_length=True)
    trainer.train()
    return directory, runs.weights_digest(trainer.model), losses(trainer)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Runs in other processes, begun at once: most of their time is spent on importing Paddle.

    One is killed after a random step and resumed, one consists of two processes.
    """
    directory = tmp_path_factory.mktemp("elsewhere")
    step = random.SystemRandom().randint(3, STEPS - 1)
    half = json.dumps({**TWO, "per_device_train_batch_size": BATCH // 2})
    launch = ["-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--backend", "gloo"]
    launch += ["--log_dir", str(directory / "logs"), tiny_trainer.__file__]
    commands = {
        "killed": [tiny_trainer.__file__, str(directory / "killed"), json.dumps({"kill": step})],
        "two": [*launch, str(directory / "two"), half],
    }
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}  # threads as in this process
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    options = {"env": env, "start_new_session": True, **pipes}
    started = {
        name: subprocess.Popen([sys.executable, *command], **options)
        for name, command in commands.items()
    }
    yield directory, step, started
    for process in started.values():
        if process.poll() is None:  # its test has failed or was not asked for
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# ---- resumption


def test_killed_after_a_random_step_and_resumed_ends_with_the_same_bits(elsewhere, unbroken):
    _, step, started = elsewhere
    output, _ = started["killed"].communicate(timeout=600)
    assert started["killed"].returncode == 0, output
    whole = [f"checkpoint-{number}" for number in (2, 4, 6) if number < step]
    assert f"killed by {int(signal.SIGKILL)} with {whole}" in output
    assert output.split()[-1] == unbroken[1], f"killed after step {step}"


@pytest.mark.parametrize("step", [2, 4, 6])  # within the first epoch, the second, at an end
def test_resume_in_a_process_that_built_other_layers(unbroken, tmp_path, step):
    directory, weights, whole = unbroken
    trainer = build(tmp_path, group_by_length=True, extra_layers=2, save_steps=100)
    trainer.train(str(directory / f"checkpoint-{step}"))
    assert losses(trainer) == whole
    assert runs.weights_digest(trainer.model) == weights


@pytest.fixture(scope="module")
def totals(tmp_path_factory, one_thread):
    """A Trainer that logs every third of its 8 steps, and what its training gave."""
    trainer = build(tmp_path_factory.mktemp("totals"), logging_steps=3)
    return trainer, trainer.train()


def untimed(trainer) -> list[dict]:
    parts = ("second", "runtime")
    logs = trainer.state.log_history
    return [{k: v for k, v in e.items() if not any(part in k for part in parts)} for e in logs]


@pytest.mark.parametrize("step", [2, 4, 6, 8])
def test_totals_of_a_resumed_run_are_those_of_the_unbroken_one(totals, tmp_path, step):
    unbroken, whole = totals
    options = {"report_to": ["visualdl"], "logging_dir": str(tmp_path / "runs")}
    trainer = build(tmp_path, logging_steps=3, **options)
    part = trainer.train(f"{unbroken.args.output_dir}/checkpoint-{step}")
    assert runs.weights_digest(trainer.model) == runs.weights_digest(unbroken.model)
    for entry, expected in zip(untimed(trainer), untimed(unbroken), strict=True):
        assert entry == pytest.approx(expected, rel=1e-6)
    assert part.training_loss == part.metrics["train_loss"]
    assert part.training_loss == pytest.approx(whole.training_loss, rel=1e-6)

    # speeds count what this process did: 20 rows make 3 steps, so 8 steps read 52 rows
    last, own = trainer.state.log_history[-1], [e["step"] for e in trainer.state.log_history[:-1]]
    assert last["train_steps_per_second"] * last["train_runtime"] == pytest.approx(8 - step, 0.05)
    rows = 8 * BATCH * (8 - step) / 8  # upstream takes all batches for full ones
    assert last["train_samples_per_second"] * last["train_runtime"] == pytest.approx(rows, 0.05)
    for entry, since in zip(trainer.state.log_history[:-1], [0, *own], strict=False):
        if entry["step"] > step:
            steps = entry["interval_steps_per_second"] * entry["interval_runtime"]
            assert steps == pytest.approx(entry["step"] - max(step, since), 0.05)

    # and VisualDL's page shows the whole run
    table = read_scalars(tmp_path / "runs")
    assert table[table.tag == "train/loss"].step.tolist() == [3, 6]
    assert table[table.tag == "train/train_loss"].step.tolist() == [8]


def test_gradients_left_over_at_the_end_of_an_epoch_do_not_spoil_a_resume(tmp_path):
    options = {"gradient_accumulation_steps": 2, "max_steps": 2, "save_steps": 1}
    trainer = build(tmp_path / "a", **options)  # 3 batches: 1 too many for an epoch's one step
    trainer.train()
    resumed = build(tmp_path / "b", extra_layers=1, **options)
    resumed.train(str(tmp_path / "a" / "checkpoint-1"))
    assert runs.weights_digest(resumed.model) == runs.weights_digest(trainer.model)


def test_the_loss_of_a_batch_without_a_step_is_not_logged(tmp_path):
    options = {"gradient_accumulation_steps": 2, "learning_rate": 0, "dropout": 0.0}
    trainer = build(tmp_path, max_steps=3, **options)
    trainer.train()
    sampler = trainer.get_train_dataloader().batch_sampler
    rows, collate = trainer.train_dataset, trainer.data_collator
    for epoch, logged in enumerate(losses(trainer)):
        batches = [collate([rows[i] for i in batch]) for batch in sampler.batches(epoch)[:2]]
        expected = np.mean([float(trainer.compute_loss(trainer.model, one)) for one in batches])
        assert logged == pytest.approx(expected, rel=1e-5)
    assert trainer.state.log_history[-1]["train_loss"] == pytest.approx(np.mean(losses(trainer)))


@pytest.mark.parametrize("logging_steps", [1, 1000])
def test_a_loss_that_is_no_number_ends_the_training_and_the_evaluation(logging_steps, tmp_path):
    trainer = build(tmp_path, learning_rate=1e30, save_steps=3, logging_steps=logging_steps)
    told = "loss is (nan|inf)" if logging_steps == 1 else "loss or a weight is not a finite number"
    with pytest.raises(InputError, match=f"model: its {told} at step [1-3]; expected f"):
        trainer.train()
    assert not list(tmp_path.glob("checkpoint-*/*"))
    with pytest.raises(InputError, match="model: its eval_loss is nan"):
        trainer.evaluate(trainer.train_dataset)


def test_a_checkpoint_that_is_not_whole_is_passed_over(unbroken, tmp_path):
    source, weights, _ = unbroken
    for step in (4, 6, 8):
        shutil.copytree(source / f"checkpoint-{step}", tmp_path / f"checkpoint-{step}")
    (tmp_path / "checkpoint-8" / "course.json").unlink()  # killed before the end
    optimizer = tmp_path / "checkpoint-6" / "optimizer.safetensors"
    optimizer.write_bytes(optimizer.read_bytes()[:100])
    damaged = r"checkpoint-6/optimizer.safetensors: is damaged.*: 100 bytes"
    with pytest.raises(InputError, match=damaged):
        build(tmp_path, group_by_length=True).train(str(tmp_path / "checkpoint-6"))
    throughput = ThroughputCallback()
    trainer = build(tmp_path, group_by_length=True, callbacks=[throughput])
    trainer.train(resume_from_checkpoint=True)
    assert runs.weights_digest(trainer.model) == weights

    # and the throughput callback has counted what was trained on, not what was passed over
    sampler = trainer.get_train_dataloader().batch_sampler
    batches = [*sampler.batches(1)[1:], *sampler.batches(2)[:2]]  # steps 5 to 8
    lengths = [[len(trainer.train_dataset[row]["input_ids"]) for row in rows] for rows in batches]
    assert throughput.real_tokens == sum(map(sum, lengths))
    assert throughput.padded_tokens == sum(len(rows) * max(rows) for rows in lengths)
    last = trainer.state.log_history[-1]
    assert last["padding_share"] == round(throughput.padding_share, 4) > 0
    assert last["tokens_per_second"] == round(throughput.real_tokens / throughput.seconds, 1)
    assert 0 < throughput.seconds < last["train_runtime"]  # without the time of saving


@pytest.mark.parametrize("text", ["", '{"files": '])
def test_a_seal_that_is_damaged(unbroken, tmp_path, text):
    checkpoint = shutil.copytree(unbroken[0] / "checkpoint-4", tmp_path / "checkpoint-4")
    (checkpoint / "course.json").write_text(text)
    with pytest.raises(InputError, match=r"course\.json:? is (empty|not JSON)"):
        build(tmp_path, group_by_length=True).train(True)


@pytest.mark.parametrize("name", ["scheduler.json", "model.safetensors"])
def test_damage_that_leaves_the_size_is_found_and_named(unbroken, tmp_path, name):
    source = unbroken[0]
    for step in (6, 8):
        shutil.copytree(source / f"checkpoint-{step}", tmp_path / f"checkpoint-{step}")
    file = tmp_path / "checkpoint-8" / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    trainer = build(tmp_path, group_by_length=True)
    with pytest.raises(InputError, match=f"checkpoint-8/{name}: is damaged.*: its SHA-256"):
        trainer.train(str(file.parent))
    assert trainer._find_checkpoint(True).name == "checkpoint-6"
    shutil.rmtree(tmp_path / "checkpoint-6")
    with pytest.raises(InputError, match=rf"no complete checkpoint \(.*{name} is damaged"):
        trainer.train(True)


def test_a_best_checkpoint_that_is_gone_is_warned_of_and_that_of_elsewhere_is_kept(tmp_path):
    tokenizer = runs.model_and_tokenizer()[1]
    rows = tiny_trainer.features(tokenizer, 8)
    options = {**EVALUATED, "eval_dataset": rows, "features": rows, "save_total_limit": 2}
    options["compute_metrics"] = Scripted(0.1, 0.9, 0.5, 0.4, 0.05)
    old = tmp_path / "old"
    build(old, max_steps=3, **options).train()
    kept = {"checkpoint-2", "checkpoint-3"}
    assert {path.name for path in old.iterdir()} == kept
    elsewhere = build(tmp_path / "other", max_steps=4, **options)
    elsewhere.train(str(old / "checkpoint-3"))
    assert {path.name for path in old.iterdir()} == kept
    assert elsewhere.state.best_model_checkpoint == str(old / "checkpoint-2")
    best = read_weights(old / "checkpoint-2/model.safetensors")
    weights = elsewhere.model.state_dict()
    assert all((weights[key].numpy() == value).all() for key, value in best.items())
    shutil.rmtree(old / "checkpoint-2")
    lost = build(old, max_steps=4, **options)
    with pytest.warns(UserWarning, match="old/checkpoint-2 was the best checkpoint and is gone"):
        lost.train(resume_from_checkpoint=True)
    assert lost.state.best_model_checkpoint == str(old / "checkpoint-4")


def test_other_batches_than_the_checkpoint_s_are_warned_of(unbroken, tmp_path):
    trainer = build(tmp_path, per_device_train_batch_size=4, max_steps=7, group_by_length=True)
    with pytest.warns(UserWarning, match="per_device_train_batch_size 8, now it is 4"):
        trainer.train(str(unbroken[0] / "checkpoint-6"))


def test_two_processes_read_what_one_reads_with_twice_the_batch(elsewhere, tmp_path):
    directory, _, started = elsewhere
    output, _ = started["two"].communicate(timeout=600)
    logs = [path.read_text() for path in sorted((directory / "logs").glob("workerlog.*"))]
    assert started["two"].returncode == 0 and len(logs) == 2, (output, logs)
    one = build(tmp_path, group_by_length=True, **TWO)
    one.train()
    for log in logs:
        found = json.loads(re.search(r"^losses (.*)$", log, re.MULTILINE)[1])
        np.testing.assert_allclose(found, losses(one), rtol=0, atol=1e-5)
    for path in (tmp_path, directory / "two"):
        assert [checkpoint.name for checkpoint in path.iterdir()] == ["checkpoint-4"]


# ---- callbacks


class Scripted:
    """A metric whose values are known beforehand."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def __call__(self, prediction) -> dict[str, float]:
        trial = len(prediction.label_ids) == 2  # before the training, to see what it is called
        return {"accuracy": 0.0 if trial else self.values.pop(0)}


EVALUATED = {
    "evaluation_strategy": "steps",
    "eval_steps": 1,
    "save_steps": 1,
    "load_best_model_at_end": True,
    "metric_for_best_model": "accuracy",
    "greater_is_better": True,
}


def test_a_metric_that_an_evaluation_does_not_return_is_named(tmp_path):
    rows = build(tmp_path).train_dataset[:4]
    options = {**EVALUATED, "metric_for_best_model": "f1", "max_steps": 1}
    trainer = build(tmp_path, eval_dataset=rows, compute_metrics=Scripted(0.5), **options)
    with pytest.raises(InputError, match=r"^metric_for_best_model: is 'f1'.* one of accuracy,"):
        trainer.train()
    assert trainer.state.global_step == 0


def early(directory, *values):
    rows = build(directory).train_dataset[:4]
    callbacks = [EarlyStoppingCallback(2), NotebookProgressCallback(chance=0.5)]
    metric = Scripted(*values)
    options = {"eval_dataset": rows, "callbacks": callbacks, "compute_metrics": metric}
    return build(directory, **options, **EVALUATED), callbacks[1]


def test_early_stopping_ends_with_the_best_weights_and_resumes_its_patience(
    tmp_path, capfd, monkeypatch
):
    shown = []
    monkeypatch.setattr("IPython.get_ipython", lambda: "a notebook")
    monkeypatch.setattr("IPython.display.display", shown.append)
    trainer, notebook = early(tmp_path / "a", 0.1, 0.9, 0.5, 0.4, 0.3)
    capfd.readouterr()
    whole = trainer.train()
    assert trainer.state.global_step == 4
    speed = whole.metrics["train_steps_per_second"] * whole.metrics["train_runtime"]
    assert speed == pytest.approx(4, 0.05)  # and not 8, which it did not come to
    best = read_weights(tmp_path / "a" / "checkpoint-2" / "model.safetensors")
    for name, value in trainer.model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), best[name])

    # one bar and one figure, no flood
    printed = capfd.readouterr()
    assert "INFO" not in printed.out + printed.err
    assert len([line for line in re.split(r"[\n\r]", printed.out) if line.strip()]) == 0
    assert "4/8" in printed.err
    assert shown == [notebook.figure]
    assert "4 steps" in notebook.figure.alt and "dev loss" in notebook.figure.alt
    history = trainer_history(trainer.state)
    assert history["dev_accuracy"] == [0.1, 0.9, 0.5, 0.4]
    assert history["epoch_step"] == [1, 2, 3, 4] and len(history["loss"]) == 4

    for step in (3, 4):  # one evaluation without gain is behind it, and all of them
        resumed, _ = early(tmp_path / f"b{step}", 0.4, 0.3)
        result = resumed.train(str(tmp_path / "a" / f"checkpoint-{step}"))
        assert resumed.state.global_step == 4
        assert result.training_loss == pytest.approx(whole.training_loss, rel=1e-6)
        speed = result.metrics["train_steps_per_second"] * result.metrics["train_runtime"]
        assert speed == pytest.approx(4 - step, 0.05)


def test_history_of_losses_logged_every_few_steps():
    logs = [
        {"loss": 2.0, "step": 2},
        {"eval_loss": 1.5, "step": 2},
        {"loss": 1.0, "step": 4},
        {"train_loss": 1.5, "step": 4},
    ]
    history = trainer_history(TrainerState(log_history=logs))
    assert history["loss"] == [2.0, 2.0, 1.0, 1.0]
    assert history["epoch_step"] == [2] and history["dev_loss"] == [1.5]
    assert history["dev_accuracy"] == []


def test_tokens_are_counted_by_the_mask_or_by_the_pad_id():
    callback = ThroughputCallback()
    ids = paddle.to_tensor([[5, 6, 0], [7, 0, 0]])

    owner = SimpleNamespace(pad_token_id=7)
    for mask, real in (({"attention_mask": paddle.ones([2, 3])}, 6), ({}, 5)):
        callback.on_train_begin(None, None, None)
        callback.on_load_data_end(
            None, None, None, inputs={"input_ids": ids, **mask}, tokenizer=owner
        )
        callback.on_step_end(None, None, None)
        assert (callback.real_tokens, callback.padded_tokens) == (real, 6)


# ---- errors in words, before the first step


def changed(rows, row, **columns):
    """The rows with columns of one of them changed, or taken out where the value is None."""
    rows = [dict(feature) for feature in rows]
    rows[row] |= columns
    rows[row] = {name: value for name, value in rows[row].items() if value is not None}
    return rows


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return build(tmp_path_factory.mktemp("rows")).train_dataset


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.int64(2)}, "row 7 has labels 2 for 2 classes in the model's head"),
        ({"labels": np.int64(-1)}, "row 7 has labels -1 for 2 classes"),
        ({"labels": None}, "row 7 has no column 'labels'; expected the columns input_ids, token"),
        ({"labels": "good"}, "row 7 has labels 'good'; expected numbers"),
        ({"labels": 1.0}, "row 7 has labels 1.0; expected the form of row 0: "),
        ({"input_ids": [1, None]}, "row 7 has input_ids [1, None]; expected numbers"),
    ],
)
def test_rows_that_do_not_fit(rows, tmp_path, change, message):
    for dataset in ("train_dataset", "eval_dataset"):
        options = {"features": rows, "eval_dataset": rows, "evaluation_strategy": "steps"}
        options["features" if dataset == "train_dataset" else dataset] = changed(rows, 7, **change)
        trainer = build(tmp_path, **options)
        with pytest.raises(InputError, match=re.escape(f"{dataset}: {message}")):
            trainer.train()
        assert not list(tmp_path.iterdir()), "something was written"
    ignored = changed(rows, 7, labels=np.int64(-100))
    check_data(build(tmp_path, features=ignored))


def test_a_column_that_holds_none(rows, tmp_path):
    """Paddle's loader would wait for ever for the batch with that row."""
    none = [dict(row) for row in rows]
    none[7]["labels"] = None
    trainer = build(tmp_path, features=rows, eval_dataset=none)
    for dataset, use in (
        ("train", build(tmp_path, features=none).train),
        ("eval", trainer.evaluate),
        ("test", lambda: trainer.predict(none)),
    ):
        with pytest.raises(InputError, match=f"{dataset}_dataset: row 7 has labels None"):
            use()
    bare = [{"input_ids": row["input_ids"]} for row in rows]
    check_data(build(tmp_path, features=rows, eval_dataset=bare))  # train() does not evaluate
    assert trainer.predict(bare[:4]).label_ids is None


@pytest.mark.parametrize(
    ("criterion", "message"),
    [
        (paddle.nn.CrossEntropyLoss(reduction="none"), r"gives a result of shape \[2\]"),
        (lambda logits, labels: {"loss": logits.sum()}, "gives a result of dict"),
        (
            lambda logits, labels: (logits.argmax(-1) == labels).mean(),
            "gives .* does not depend on",
        ),
        (lambda logits, labels: paddle.ones([]), "gives a result that does not depend on"),
        (paddle.nn.MSELoss(), "fails on the first rows"),
    ],
)
def test_a_criterion_that_does_not_fit(rows, tmp_path, criterion, message):
    with pytest.raises(InputError, match=f"^criterion: {message}") as caught:
        build(tmp_path, features=rows, criterion=criterion).train()
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_labels_of_tokens_and_of_answers(rows, tmp_path):
    model, tokenizer = runs.model_and_tokenizer()
    bare = [{"input_ids": row["input_ids"]} for row in rows]
    tagged = [row | {"labels": [-100] + [1] * (len(row["input_ids"]) - 1)} for row in bare]
    options = {
        "model": ErnieForTokenClassification(model.config),
        "data_collator": DataCollatorForTokenClassification(tokenizer),
    }
    check_data(build(tmp_path, features=tagged, **options))
    tagged[5]["labels"][1] = 2
    with pytest.raises(InputError, match="row 5 has labels 2 for 2 classes"):
        build(tmp_path, features=tagged, **options).train()

    del tagged[5]["labels"][1]
    tokens = len(tagged[5]["input_ids"])
    with pytest.raises(InputError, match=f"row 5 has {tokens - 1} labels for {tokens} tokens"):
        build(tmp_path, features=tagged, **options).train()

    several = [row | {"labels": [0.0, 1.0]} for row in bare]
    options = {"criterion": paddle.nn.BCEWithLogitsLoss()}
    check_data(build(tmp_path, features=several, **options))
    several[4]["labels"] = [1.0]
    with pytest.raises(InputError, match="row 4 has 1 labels for 2 classes"):
        build(tmp_path, features=several, **options).train()

    asked = [row | {"start_positions": 1, "end_positions": 2} for row in bare]
    options = {"model": ErnieForQuestionAnswering(model.config), "criterion": answer_loss}
    trainer = build(tmp_path, features=asked, **options)
    assert trainer.label_names == ["start_positions", "end_positions"]  # upstream's: ["labels"]
    check_data(trainer)
    asked[5]["end_positions"] = length = len(asked[5]["input_ids"])
    message = f"row 5 has end_positions {length} for {length} tokens in the row"
    with pytest.raises(InputError, match=message):
        build(tmp_path, features=asked, **options).train()


def answer_loss(outputs, labels):
    cross_entropy = paddle.nn.functional.cross_entropy
    return sum(cross_entropy(logits, at) for logits, at in zip(outputs, labels, strict=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learning_rate": float("nan")}, "learning_rate: is nan; expected 0 or more"),
        ({"max_steps": 0}, "max_steps: is 0"),
        ({"max_steps": -1, "num_train_epochs": 0}, "num_train_epochs: is 0"),
        ({"evaluation_strategy": "steps", "eval_steps": -2}, "eval_steps: is -2"),
    ],
)
def test_numbers_that_make_no_sense(rows, tmp_path, arguments, message):
    trainer = build(tmp_path, features=rows)
    for name, value in arguments.items():  # as a notebook does, after the Trainer has been made
        is_strategy = name.endswith("strategy")
        setattr(trainer.args, name, IntervalStrategy(value) if is_strategy else value)
    with pytest.raises(InputError, match=message):
        trainer.train()


def test_an_output_directory_that_is_a_file(rows, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        build(tmp_path / "file", features=rows).train()


def test_a_checkpoint_of_another_model(unbroken, rows, tmp_path):
    other = shutil.copytree(unbroken[0] / "checkpoint-2", tmp_path / "checkpoint-2")
    name = "classifier.weight"
    weights = {**read_weights(other / "model.safetensors"), name: np.zeros([24, 3], "float32")}
    write_weights(other / "model.safetensors", weights)
    seal = json.loads((other / "course.json").read_text())
    (other / "course.json").unlink()
    (other / "course.json").write_text(json.dumps({**seal, "files": describe_files(other)}))
    message = rf"is of another model: {name} is \[24, 3\] there and \[24, 2\] here"
    with pytest.raises(InputError, match=message):
        build(tmp_path, features=rows).train(str(other))


# ---- what upstream does


def stock(directory, resume=None, kind=Trainer, **options) -> list[float]:
    """The losses of a stock Trainer in what is, by its generated names, a new process."""
    with paddle.utils.unique_name.guard():
        trainer = build(directory, kind, **options)
        trainer.train(resume)
    return losses(trainer)


@pytest.fixture(scope="module")
def stock_run(tmp_path_factory, quiet):
    """A stock run without dropout, told to keep one checkpoint."""
    directory = tmp_path_factory.mktemp("stock")
    return directory, stock(directory, dropout=0.0, save_total_limit=1)


# When one of these fails, upstream has mended something, and CourseTrainer need not any longer.


@pytest.mark.upstream
def test_upstream_a_resume_is_exact_in_the_first_epoch_without_dropout_only(stock_run, tmp_path):
    """The order is NumPy's global one (1206); at an epoch's end no random state is loaded (927)."""
    directory, whole = stock_run
    exact = {}
    for step in (2, 4, 6):
        checkpoint = str(directory / f"checkpoint-{step}")
        exact[step] = stock(tmp_path, checkpoint, dropout=0.0, save_steps=100) == whole
    assert exact == {2: True, 4: False, 6: False}


@pytest.mark.upstream
def test_upstream_a_resume_draws_other_dropout_masks(tmp_path):
    """A pickled random state holds device, seed and offset only."""
    whole = stock(tmp_path / "a", max_steps=3)
    resumed = stock(tmp_path / "b", str(tmp_path / "a" / "checkpoint-2"), max_steps=3)
    assert resumed[:2] == whole[:2] and resumed[2] != whole[2]


@pytest.mark.upstream
def test_upstream_a_resume_after_building_another_layer_stops(stock_run, tmp_path):
    """Moments are looked up by generated names, paddle/optimizer/optimizer.py 891."""
    with pytest.raises(AssertionError, match=r"Shape not match|should in state dict"):
        stock(tmp_path, str(stock_run[0] / "checkpoint-2"), dropout=0.0, extra_layers=1)


@pytest.mark.upstream
def test_upstream_true_finds_no_checkpoint(stock_run):
    with pytest.raises(TypeError, match="not bool"):
        stock(stock_run[0], True, dropout=0.0)


@pytest.mark.upstream
def test_upstream_misspells_question_answering(rows, tmp_path):
    """So such a model is taken to have "labels" and is evaluated without a loss (389)."""
    model, _ = runs.model_and_tokenizer()
    trainer = build(tmp_path, Trainer, features=rows, model=ErnieForQuestionAnswering(model.config))
    assert trainer.label_names == ["labels"]


@pytest.mark.upstream
def test_upstream_a_half_written_checkpoint_starts_from_the_first_step(stock_run, tmp_path):
    """Without a word, with the trained weights, when trainer_state.json is not there yet (811)."""
    directory, whole = stock_run
    half = shutil.copytree(directory / "checkpoint-6", tmp_path / "checkpoint-6")
    (half / "trainer_state.json").unlink()
    resumed = stock(tmp_path, str(half), dropout=0.0, save_steps=100)
    assert len(resumed) == len(whole) and resumed[0] != whole[0]
