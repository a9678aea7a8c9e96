"""Checkpoints: exact resumption, kills at any moment, damage and other settings in words."""

import os
import pickle
import shutil
import signal
import sys
from types import SimpleNamespace

from course_lib.runtime import InputError
from course_lib.runtime.files import clear_leftovers, discard
from course_lib.training import create_optimizer, find_checkpoints, fit
from course_lib.training.checkpoint import Checkpoint
from course_lib.training.run import describe

import numpy as np
import paddle
import pytest
import recipe_runs
import training_runs as runs


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A run of 24 steps with early stopping that kept all its checkpoints."""
    directory = tmp_path_factory.mktemp("unbroken")
    model, history = runs.train(
        output_dir=directory, checkpoint_every=3, keep_checkpoints=99, early_stopping=2
    )
    return directory, runs.weights_digest(model), history


def test_checkpoints_are_named_by_step_and_complete(unbroken):
    directory, _, _ = unbroken
    steps = [int(path.name.split("-")[1]) for path in find_checkpoints(directory)]
    assert steps == [3, 6, 8, 9, 12, 15, 16, 18, 21, 24]
    for path in find_checkpoints(directory):
        Checkpoint.load(path)
        assert not list(path.glob("*.pd*")) and not list(path.glob("*.pkl"))


@pytest.mark.parametrize("step", [3, 8, 15, 24])
def test_resuming_gives_the_bits_of_the_unbroken_run(unbroken, step):
    directory, digest, history = unbroken
    paddle.nn.Linear(3, 3)  # shifts every name that paddle generates from here on
    model, resumed = runs.train(resume=directory / f"checkpoint-{step:08d}", early_stopping=2)
    assert resumed == history
    assert runs.weights_digest(model) == digest


def test_a_plain_sampler_resumes_exactly_too(tmp_path):
    def train(**settings):
        model, tokenizer = runs.model_and_tokenizer()
        loader, _ = runs.loaders(tokenizer)
        sampler = paddle.io.BatchSampler(loader.dataset, batch_size=8, shuffle=True)
        plain = paddle.io.DataLoader(
            loader.dataset, batch_sampler=sampler, collate_fn=loader.collate_fn
        )
        history = fit(model, plain, epochs=2, learning_rate=1e-3, progress=False, **settings)
        return runs.weights_digest(model), history

    whole = train(output_dir=tmp_path, checkpoint_every=3, keep_checkpoints=99)
    assert train(resume=tmp_path / "checkpoint-00000012") == whole


def test_only_the_newest_are_kept_and_a_new_run_replaces_the_old(tmp_path):
    (tmp_path / "checkpoint-40").mkdir()  # of a Trainer
    runs.train(output_dir=tmp_path, keep_checkpoints=2)
    assert [path.name[-2:] for path in find_checkpoints(tmp_path)] == ["16", "24"]
    runs.train(output_dir=tmp_path, keep_checkpoints=2, epochs=1, seed=7)
    assert [path.name[-2:] for path in find_checkpoints(tmp_path)] == ["08"]
    assert (tmp_path / "checkpoint-40").is_dir()


def arrays(step: int) -> Checkpoint:
    weights = {"w": np.full((4, 4), step, "float32")}
    return Checkpoint(weights, {"w|moment1": weights["w"]}, {"step": step}, best=weights)


def test_a_kill_before_any_file_operation_leaves_a_complete_checkpoint(tmp_path, monkeypatch):
    """Kills the writer before its 1st, 2nd, ... file operation, until it gets through."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # slow, and a kill is no power failure
    for number in range(1, 500):
        directory = tmp_path / str(number)
        for step in (1, 2):
            arrays(step).save(directory, step)
        child = os.fork()
        if child == 0:
            count = 0

            def hook(event: str, _args) -> None:
                nonlocal count
                if event == "open" or event.startswith(("os.", "shutil.")):
                    count += 1
                    if count == number:  # noqa: B023
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(hook)
            try:
                arrays(2).save(directory, 2)  # replaces one
                arrays(3).save(directory, 3)
                discard(directory / "checkpoint-00000001")
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        clear_leftovers(directory)
        remaining = find_checkpoints(directory)
        for path in remaining:
            Checkpoint.load(path)
        assert Checkpoint.load(remaining[-1]).state["step"] >= 2
        assert {path.name for path in directory.iterdir()} == {path.name for path in remaining}
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            assert [path.name[-1] for path in remaining] == ["2", "3"]
            break
    assert number > 20, "the hook saw hardly any file operation"


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("model.safetensors", lambda data: data[: len(data) // 2], "bytes instead of"),
        ("optimizer.safetensors", lambda data: data[:-1] + bytes([data[-1] ^ 1]), "SHA-256"),
        ("state.json", lambda data: b"", "bytes instead of"),
        ("manifest.json", lambda data: data[: len(data) // 2], "missing or damaged"),
        ("best.safetensors", None, "is missing"),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_name(tmp_path, unbroken, name, change, problem):
    for path in find_checkpoints(unbroken[0])[-2:]:
        shutil.copytree(path, tmp_path / path.name)
    older, newest = find_checkpoints(tmp_path)
    file = newest / name
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    with pytest.raises(InputError) as error:
        runs.train(output_dir=tmp_path, resume=True, early_stopping=2)
    message = str(error.value)
    assert str(file) in message and problem in message and str(older) in message
    assert "\n" not in message

    shutil.rmtree(older)
    with pytest.raises(InputError, match="none is left"):
        runs.train(output_dir=tmp_path, resume=True, early_stopping=2)
    assert newest.exists()


@pytest.mark.parametrize(
    ("split", "field", "row"),
    [("training", "text", 0), ("training", "label", -1), ("dev", "text", -1)],
)
def test_one_changed_example_is_refused(unbroken, monkeypatch, split, field, row):
    def change(size, seed=0):
        data = whole(size, seed)
        if (split == "dev") is (seed == 1):
            one = data.data[row]
            one[field] = 1 - one["label"] if field == "label" else one["text"][:-1] + "是"
        return data

    whole = runs.dataset
    monkeypatch.setattr(runs, "dataset", change)
    newest = find_checkpoints(unbroken[0])[-1]
    with pytest.raises(InputError, match=f"was made with other {split} data: the file"):
        runs.train(resume=newest, early_stopping=2)


def test_the_digest_covers_every_number_of_every_kind_of_row():
    def digest(*rows):
        loader = SimpleNamespace(dataset=list(rows), batch_sampler=None)
        return describe(paddle.nn.Linear(1, 1), loader, None)["train_data"]

    long, other = np.zeros((2, 5000), "int64")
    other[2500] = 1
    seen = [
        digest((long, 1)),
        digest((other, 1)),
        digest(([1, 2], [3])),
        digest(([1], [2, 3])),
        digest({"input_ids": [1, 2], "labels": 0}),
        digest({"input_ids": [1, 2], "labels": 1}),
        digest({"input_ids": paddle.to_tensor([1, 2])}),
        digest(["好", "坏"]),
        digest(["好坏"]),
    ]
    assert len(set(seen)) == len(seen)
    assert digest((long, 1)) == seen[0]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"seed": 1}, "seed"),
        ({"batch_size": 4}, "batch_size"),
        ({"max_steps": 20}, "total_steps"),
        ({"train_size": 59}, "train_examples"),
        ({"config": {"num_hidden_layers": 1}}, "model"),
        ({"loader": {"batching": "plain"}}, "other batches: batching, or the seed"),
        ({"loader": {"seed": 7}}, "other batches: batching, or the seed"),
    ],
)
def test_other_settings_are_refused_in_words(unbroken, settings, name):
    directory, _, _ = unbroken
    with pytest.raises(InputError, match=f"was made with {name} .*same settings"):
        runs.train(**{"output_dir": directory, "resume": True, "early_stopping": 2, **settings})


def test_a_loop_of_one_s_own_goes_on_to_the_same_bits(tmp_path):
    batch = recipe_runs.batch()

    def pieces(seed=1):
        model = recipe_runs.build(seed=seed)
        return (model, *create_optimizer(model, 1e-2, 6))

    unbroken, optimizer, schedule = pieces()
    recipe_runs.some_steps(unbroken, batch, optimizer, 3, schedule)
    path = Checkpoint.of(unbroken, optimizer, schedule, step=3).save(tmp_path, 3)
    rate = optimizer.get_lr()
    recipe_runs.some_steps(unbroken, batch, optimizer, 3, schedule, first=3)
    paddle.nn.Linear(2, 2)  # shifts the generated names of what is built next
    model, optimizer, schedule = pieces(seed=2)
    checkpoint = Checkpoint.load(path)
    checkpoint.restore(model, optimizer, schedule)
    assert checkpoint.state["step"] == 3 and optimizer.get_lr() == rate > 0
    recipe_runs.some_steps(model, batch, optimizer, 3, schedule, first=3)
    assert runs.weights_digest(model) == runs.weights_digest(unbroken)
    other = recipe_runs.build(num_hidden_layers=1)
    with pytest.raises(InputError, match="is of another model"):
        checkpoint.restore(other, *create_optimizer(other, 1e-2, 6))


def budget(max_tokens: int) -> dict:
    return {"batching": "tokens", "max_tokens": max_tokens}


@pytest.fixture(scope="module")
def with_a_budget(tmp_path_factory):
    """A run in batches of at most 200 padded tokens; every step has a checkpoint."""
    directory = tmp_path_factory.mktemp("budget")
    model, history = runs.train(
        loader=budget(200), output_dir=directory, checkpoint_every=1, keep_checkpoints=99
    )
    return directory, runs.weights_digest(model), history


@pytest.mark.parametrize("into_epoch", [(0, 3), (1, 1), (2, -1)])
def test_a_budget_of_tokens_resumes_within_an_epoch(with_a_budget, into_epoch):
    directory, digest, history = with_a_budget
    ends = [0, *history["epoch_step"]]
    assert len(set(np.diff(ends))) > 1
    epoch, steps = into_epoch
    step = ends[epoch] + steps if steps > 0 else ends[epoch + 1] + steps
    assert ends[epoch] < step < ends[epoch + 1]
    checkpoint = directory / f"checkpoint-{step:08d}"
    model, resumed = runs.train(loader=budget(200), resume=checkpoint)
    assert resumed == history
    assert runs.weights_digest(model) == digest


def test_another_number_of_threads_is_warned_about(tmp_path, unbroken, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "77")
    with pytest.warns(UserWarning, match="OMP_NUM_THREADS .* 77"):
        runs.train(resume=find_checkpoints(unbroken[0])[-1], early_stopping=2)


@pytest.mark.upstream
def test_upstream_a_pickled_random_state_still_loses_its_place():
    """Why the loop seeds every step. When this fails, paddle can save its random state."""
    dropout, ones = paddle.nn.Dropout(0.5), paddle.ones([64])
    paddle.seed(0)
    dropout(ones)
    state = pickle.dumps(paddle.get_rng_state())
    expected = dropout(ones).numpy()
    paddle.set_rng_state(pickle.loads(state))
    assert (dropout(ones).numpy() != expected).any()


@pytest.mark.upstream
def test_upstream_optimizer_state_is_still_keyed_by_generated_names():
    """Why moments are saved by structured name. When this fails, state_dict() will do."""

    def keys():
        layer = paddle.nn.Linear(2, 2)
        optimizer = paddle.optimizer.AdamW(parameters=layer.parameters())
        layer(paddle.ones([1, 2])).sum().backward()
        optimizer.step()
        return set(optimizer.state_dict())

    assert keys() != keys()
