"""Answers about training: each does what it says, and says what is wrong."""

from __future__ import annotations

import os
import time

from course_lib.models import load_backbone, save_model
from course_lib.recipes import training as recipes
from course_lib.runtime import InputError, seed_everything
from course_lib.training import find_checkpoints
from course_lib.training.checkpoint import model_arrays
from course_lib.training.loop import create_optimizer, seed_step

import numpy as np
import paddle
import pytest
import training_runs as runs

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture(scope="module")
def tokenizer():
    return runs.model_and_tokenizer()[1]


@pytest.fixture(scope="module")
def batch(tokenizer):
    return next(iter(runs.loaders(tokenizer, 8)[0]))


def build(**config):
    return runs.model_and_tokenizer(**config)[0]


def some_steps(model, batch, optimizer, steps=1, schedule=None, first=0):
    for step in range(first, first + steps):
        seed_step(3, step)
        recipes.accumulated_step(model, batch, 1, optimizer)
        if schedule is not None:
            schedule.step()


# ---- freezing


@pytest.mark.parametrize("freezing", [recipes.no_grad_around, recipes.stopped_outputs])
def test_a_frozen_part_does_not_move_and_moves_again_afterwards(freezing, batch):
    model = build()
    optimizer = paddle.optimizer.AdamW(1e-2, parameters=model.parameters())

    def train():
        some_steps(model, batch, optimizer, 2)

    with freezing(model.ernie):
        moved = recipes.moved_weights(model, train)
    inside = moved.index.str.startswith("ernie.")
    assert (moved["moved"][inside] == 0).all() and (moved["largest"][inside] == 0).all()
    assert (moved["moved"][~inside] == moved["numbers"][~inside]).all()
    again = recipes.moved_weights(model, train)
    assert again["moved"][inside].astype(bool).mean() > 0.9
    assert "forward" not in vars(model.ernie) and not model.ernie._forward_post_hooks


def test_the_hook_of_the_documents_fails_on_a_tuple(batch):
    model = build()

    def hook(layer, inputs, output):
        output.stop_gradient = True

    model.ernie.register_forward_post_hook(hook)
    with pytest.raises(AttributeError, match="tuple"):
        model(*batch[:2])


def test_an_optimizer_without_some_leaves_gradients_behind(batch):
    model = build()
    kept = recipes.parameters_without(model, lambda name: name.startswith("ernie."))
    assert {id(p) for p in kept} == {id(p) for p in model.classifier.parameters()}
    optimizer = paddle.optimizer.SGD(0.0, parameters=kept)
    left = []
    for _ in range(2):
        some_steps(model, batch, optimizer)
        left.append(float(model.ernie.pooler.dense.weight.grad.abs().sum()))
    assert left[1] > left[0] > 0
    for nothing in (True, False):
        with pytest.raises(InputError, match="leaves out"):
            recipes.parameters_without(model, lambda name, nothing=nothing: nothing)


def test_the_three_ways_side_by_side(batch):
    table = recipes.compare_freezing(build, batch, 1e-2)
    assert table.loc["nothing frozen", "encoder moved"] > 0.9
    assert (table["head moved"] == 1).all()
    assert (table["encoder moved"][1:] == 0).all()
    assert list(table["gradients"] > 0) == [True, False, False, True]
    with pytest.raises(InputError, match="has no head"):
        recipes.compare_freezing(lambda: paddle.nn.Linear(2, 2), batch)


def test_what_is_frozen_must_be_a_layer_and_frozen_once():
    model = build()
    for freezing in (recipes.no_grad_around, recipes.stopped_outputs):
        with pytest.raises(InputError, match=r"paddle\.nn\.Layer"), freezing("ernie"):
            pass
    with (
        recipes.no_grad_around(model.ernie),
        pytest.raises(InputError, match="one way"),
        recipes.no_grad_around(model.ernie),
    ):
        pass


# ---- memory


def test_memory_is_counted(batch):
    model = build()
    numbers = sum(p.size for p in model.parameters())
    estimate = recipes.estimate_memory(model, batch)
    assert estimate.parameters == estimate.gradients == 4 * numbers
    assert estimate.optimizer == 8 * numbers
    # the scores of attention alone: layers x heads x length², kept before and after the softmax
    length = batch[0].shape[1]
    assert estimate.activations > 2 * 2 * length * length * 4
    assert estimate.total(8) - estimate.total(4) == pytest.approx(4 * estimate.activations, abs=1)
    assert estimate.largest(estimate.total(10) + 1) == 10 and estimate.largest(5) == 0
    half = [tensor[:4] for tensor in batch]
    assert recipes.estimate_memory(model, half).activations == pytest.approx(
        estimate.activations, rel=0.02
    )
    for parameter in model.ernie.parameters():
        parameter.stop_gradient = True
    frozen = recipes.estimate_memory(model, batch, moments=0)
    assert frozen.optimizer == 0 and frozen.gradients < estimate.gradients / 50
    assert frozen.activations < estimate.activations / 10
    for parameter in model.parameters():
        parameter.stop_gradient = True
    with pytest.raises(InputError, match="nothing to train"):
        recipes.estimate_memory(model, batch)
    with pytest.raises(InputError, match="batch_size"):
        estimate.total(0)


def test_the_largest_batch_is_tried_in_a_child_that_may_die():
    model = build(hidden_size=48, max_position_embeddings=128)
    roomy = recipes.largest_batch(model, 128, 8 * 2**30, most=2)
    assert roomy.largest == 2 and [size for size, _ in roomy.tried] == [1, 2]
    budget = roomy.tried[-1][1] + 60 * recipes.MB
    found = recipes.largest_batch(model, 128, budget)
    peaks = dict(found.tried)
    assert 8 < found.largest < 1000 and peaks[found.largest] <= budget
    too_large = [size for size, peak in found.tried if peak is None or peak > budget]
    assert found.largest < min(too_large) <= found.largest * 1.125 + 1


@pytest.mark.parametrize("limit", [0, 1, 7, 100, 4096])
def test_the_search_ends_just_below_the_limit(monkeypatch, limit):
    def peak(self, size):
        return 100 + size if size <= limit else None

    monkeypatch.setattr(recipes._Child, "peak", peak)
    found = recipes.largest_batch(build(), 8, 10**9)
    assert limit - max(1, limit // 8) < found.largest <= limit and len(found.tried) < 20


def test_a_budget_below_what_paddle_takes_is_refused(monkeypatch):
    monkeypatch.setattr(recipes._Child, "answer", lambda self: {"resident": 500 * recipes.MB})
    with pytest.raises(InputError, match="is 100 MB; expected more than 500 MB"):
        recipes.largest_batch(build(), 8, 100 * recipes.MB)


def test_the_search_of_the_largest_batch_refuses_what_makes_no_sense():
    model = build()
    for given, words in (
        ((paddle.nn.Linear(2, 2), 8, 2**30), "classifier"),
        ((model, 65, 2**30), "from 1 to 64"),
        ((model, 8, 0), "budget"),
    ):
        with pytest.raises(InputError, match=words):
            recipes.largest_batch(*given)


@pytest.mark.parametrize("end, words", [
    ("os.kill(os.getpid(), 9)", None),
    ("raise MemoryError", None),
    ("raise RuntimeError('ResourceExhaustedError: Fail to alloc memory')", None),
    ("raise TypeError('no sum of a tuple')", "cannot be trained .*no sum of a tuple"),
    ("time.sleep(60)", "timeout: of 2 s has passed"),
])  # fmt: skip
def test_how_a_child_ends_is_told_apart(monkeypatch, end, words):
    code = "import os, sys, time; sys.stdin.readline(); print('{\"resident\": 1}', flush=True)"
    monkeypatch.setattr(recipes._Child, "CODE", f"{code}; sys.stdin.readline(); {end}")
    if words is None:
        found = recipes.largest_batch(build(), 8, 2**30)
        assert found == recipes.BatchSearch(0, [(1, None)])
    else:
        with pytest.raises(InputError, match=words):
            recipes.largest_batch(build(), 8, 2**30, timeout=2)


@pytest.mark.parametrize("known, bounds, size", [
    ([(1, 100)], (1, 50), 2),  # nothing to draw a line through
    ([(1, 100), (2, 110)], (2, 50), 8),  # the line says 11, but not more than four times as much
    ([(1, 100), (8, 170)], (8, 50), 11),
    ([(1, 100), (8, 199)], (8, 50), 9),  # a step at least
    ([(1, 100), (8, 120), (32, None)], (8, 32), 20),
])  # fmt: skip
def test_the_next_size_follows_the_peaks(known, bounds, size):
    assert recipes._next_size(known, *bounds, 200) == size


def test_pieces_give_the_step_of_the_whole_batch(batch):
    weights = []
    for parts in (1, 3):
        model = build(**NO_DROPOUT)
        optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        model.train()
        loss = recipes.accumulated_step(model, batch, parts, optimizer)
        weights.append((loss, model_arrays(model)))
        assert all(p.grad is None or not p.grad.abs().sum() for p in model.parameters())
    assert weights[0][0] == pytest.approx(weights[1][0], abs=1e-6)
    for name, value in weights[0][1].items():
        np.testing.assert_allclose(weights[1][1][name], value, atol=1e-6)
    for parts in (0, 9):
        with pytest.raises(InputError, match="from 1 to 8"):
            recipes.accumulated_step(model, batch, parts, optimizer)


def test_the_price_of_memory(batch):
    model = build(**NO_DROPOUT)
    before = model_arrays(model)
    table = recipes.price_of_memory(model, batch, (1, 2), rounds=1)
    assert all(np.array_equal(before[n], v) for n, v in model_arrays(model).items())
    memory = table["activations"]
    assert memory[2, False] == pytest.approx(memory[1, False] / 2, rel=0.1)
    assert memory[1, True] < memory[1, False] / 3
    assert table["difference"][1, False] == table["difference"][1, True] == 0
    assert 0 < table["difference"][2, False] < 1e-4 and (table["milliseconds"] > 0).all()
    assert not model.ernie.encoder.enable_recompute
    dropped = recipes.price_of_memory(build(), batch, (1,), rounds=1)
    assert dropped["difference"][1, True] == 0, "recompute draws the same masks"
    with (
        pytest.raises(InputError, match="cannot recompute"),
        recipes.recomputing(paddle.nn.Linear(2, 2)),
    ):
        pass


# ---- every epoch


def test_both_ways_evaluate_and_save_every_epoch_and_give_the_same_bits(tmp_path, tokenizer):
    settings = {"epochs": 2, "learning_rate": 3e-3}
    results = {}
    for name, train in (("high", recipes.fit_high_level), ("loop", recipes.fit_explicit)):
        model = build()
        train_loader, dev_loader = runs.loaders(tokenizer, 20)
        options = {"progress": False} if name == "loop" else {}
        history = train(model, train_loader, dev_loader, tmp_path / name, **settings, **options)
        results[name] = (model_arrays(model), history)
    high, loop = results["high"][1], results["loop"][1]
    assert high["loss"] == pytest.approx(loop["loss"], abs=1e-7)
    assert high["learning_rate"] == loop["learning_rate"] and high["epoch_step"] == [3, 6]
    assert high["dev_loss"] == pytest.approx(loop["dev_loss"], abs=1e-6)
    assert high["dev_accuracy"] == pytest.approx(loop["dev_accuracy"], abs=1e-7)
    for name, value in results["loop"][0].items():
        assert np.array_equal(results["high"][0][name], value), name
    assert {p.name for p in (tmp_path / "high").iterdir()} == {
        f"{when}.{kind}" for when in ("0", "1", "final") for kind in ("pdparams", "pdopt")
    }
    assert len(find_checkpoints(tmp_path / "loop")) == 2
    first = paddle.load(str(tmp_path / "high" / "0.pdparams"))
    assert not np.array_equal(first["classifier.weight"], results["loop"][0]["classifier.weight"])
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        recipes.fit_high_level(model, train_loader, dev_loader, tmp_path / "file")


def test_the_loss_of_paddle_model_is_that_of_the_last_batch(tokenizer):
    model = build()
    _, loader = runs.loaders(tokenizer)
    spec = paddle.static.InputSpec
    wrapped = paddle.Model(
        model, [spec([None, None], "int64", n) for n in "ab"], [spec([None], "int64", "c")]
    )
    wrapped.prepare(loss=paddle.nn.CrossEntropyLoss(), metrics=recipes.MeanLoss())
    said = wrapped.evaluate(loader, verbose=0)
    model.eval()
    losses = [
        paddle.nn.functional.cross_entropy(model(a, b), y, reduction="none").numpy().ravel()
        for a, b, y in loader
    ]
    assert said["mean_loss"] == pytest.approx(np.concatenate(losses).mean(), abs=1e-6)
    assert said["loss"][0] == pytest.approx(losses[-1].mean(), abs=1e-6)
    assert abs(said["loss"][0] - said["mean_loss"]) > 1e-5


# ---- saving


def test_plain_weights_come_back_or_nothing_changes(tmp_path):
    layer, other = paddle.nn.Linear(3, 2), paddle.nn.Linear(3, 2)
    file = recipes.save_plain(layer, tmp_path / "linear.pdparams")
    recipes.load_plain(other, file)
    assert np.array_equal(other.weight, layer.weight)
    before = model_arrays(other)
    (tmp_path / "cut").write_bytes(file.read_bytes()[:40])
    paddle.save({"weight": layer.weight}, str(tmp_path / "lacks"))
    paddle.save({**layer.state_dict(), "more": layer.bias}, str(tmp_path / "more"))
    paddle.save(paddle.nn.Linear(4, 2).state_dict(), str(tmp_path / "shape"))
    for name, words in (
        ("none", "does not exist"),
        ("cut", "damaged"),
        ("lacks", "lacks bias"),
        ("more", "has more, which"),
        ("shape", r"weight of shape \[4, 2\] for \[3, 2\]"),
    ):
        with pytest.raises(InputError, match=words):
            recipes.load_plain(other, tmp_path / name)
    assert all(np.array_equal(before[n], v) for n, v in model_arrays(other).items())
    with pytest.raises(InputError, match="Layer"):
        recipes.save_plain({"weight": 1}, tmp_path / "x")


def test_plain_and_pretrained_saving_hold_the_same_weights(tmp_path, tokenizer):
    model = build()
    save_model(model, tokenizer, tmp_path / "pretrained")
    again, _ = load_backbone(tmp_path / "pretrained")
    other = build(seed=2)
    recipes.load_plain(other, recipes.save_plain(model, tmp_path / "plain.pdparams"))
    for name, value in model_arrays(model).items():
        assert np.array_equal(model_arrays(again)[name], value)
        assert np.array_equal(model_arrays(other)[name], value)


def test_a_warm_restart_goes_on_to_the_same_bits(tmp_path, batch):
    def pieces(seed=1):
        model = build(seed=seed)
        return (model, *create_optimizer(model, 1e-2, 6))

    unbroken, optimizer, schedule = pieces()
    some_steps(unbroken, batch, optimizer, 3, schedule)
    recipes.save_state(tmp_path / "state", unbroken, optimizer, schedule, 3)
    rate = optimizer.get_lr()
    some_steps(unbroken, batch, optimizer, 3, schedule, first=3)
    paddle.nn.Linear(2, 2)  # shifts the generated names of what is built next
    model, optimizer, schedule = pieces(seed=2)
    step = recipes.load_state(tmp_path / "state", model, optimizer, schedule)
    assert step == 3 and optimizer.get_lr() == rate > 0
    some_steps(model, batch, optimizer, 3, schedule, first=step)
    after = model_arrays(model)
    assert all(np.array_equal(after[n], v) for n, v in model_arrays(unbroken).items())
    other = build(num_hidden_layers=1)
    with pytest.raises(InputError, match="which the layer has not"):
        recipes.load_state(tmp_path / "state", other, *create_optimizer(other, 1e-2, 6))
    (tmp_path / "state" / "schedule.pdlr").unlink()
    with pytest.raises(InputError, match=r"lacks schedule\.pdlr"):
        recipes.load_state(tmp_path / "state", model, optimizer, schedule)
    with pytest.raises(InputError, match="step"):
        recipes.save_state(tmp_path / "state", model, optimizer, schedule, -1)


# ---- the same every time


def test_two_processes_give_the_same_bits():
    function = "course_lib.recipes.training:tiny_training"
    one, two = recipes.repeat_in_processes(function, {"seed": 5}, environment=recipes.SWITCHES)
    assert one == two and set(one) == {"weights", "predictions"}
    assert recipes.tiny_training(6) != one


def test_what_a_missing_seed_and_a_forgotten_eval_do():
    same = recipes.tiny_training(5)
    assert recipes.tiny_training(5) == same
    unseeded = {recipes.tiny_training(None)["weights"] for _ in range(2)}
    assert len(unseeded) == 2
    forgotten = recipes.tiny_training(5, evaluating=False)
    assert forgotten["weights"] == same["weights"]
    assert forgotten["predictions"] != same["predictions"]


def test_digests_leave_the_model_in_its_mode(batch):
    model = build()
    for training in (True, False):
        model.train() if training else model.eval()
        for evaluating in (True, False):
            recipes.digests(model, [batch], evaluating)
            assert model.training == training


def test_the_switches_are_set_and_named(monkeypatch):
    for name in recipes.SWITCHES:
        monkeypatch.delenv(name, raising=False)
    said = recipes.reproducible(7)
    assert said["seed"] == "7" and said["device"] == "cpu"
    assert {name: os.environ[name] for name in recipes.SWITCHES} == recipes.SWITCHES
    assert {**said, **recipes.SWITCHES} == said
    first = np.random.rand(), float(paddle.rand([1]))
    seed_everything(7)
    assert first == (np.random.rand(), float(paddle.rand([1])))


def test_repeating_says_what_failed(tmp_path):
    for function, words in (
        ("json", "package.module:name"),
        ("json:nothing", "no attribute 'nothing'"),
        ("json:loads", "missing 1 required"),
    ):
        with pytest.raises(InputError, match=words):
            recipes.repeat_in_processes(function, times=1)
    with pytest.raises(InputError, match="times"):
        recipes.repeat_in_processes("json:loads", times=0)
    (tmp_path / "slow_module.py").write_text("import time\n\ndef run():\n    time.sleep(600)\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    with pytest.raises(InputError, match="took over"):
        recipes.repeat_in_processes(
            "slow_module:run", times=1, environment={"PYTHONPATH": path}, timeout=0.2
        )


# ---- hanging


class Stuck(paddle.io.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        time.sleep(2.5)
        return np.zeros(1, "float32")


def test_a_hang_in_a_worker_is_named(tmp_path):
    loader = paddle.io.DataLoader(Stuck(), batch_size=2, num_workers=1)
    with recipes.watch_hang(1.0, tmp_path / "report.txt") as report:
        next(iter(loader))
    text = report.read_text()
    ours, _, workers = text.partition("Child process")
    assert "Timeout" in ours and "test_a_hang_in_a_worker_is_named" in ours
    assert "__getitem__" in workers and "_worker_loop" in workers


def test_no_report_when_all_goes_well_or_is_refused(tmp_path):
    with recipes.watch_hang(60, tmp_path / "report.txt") as report:
        pass
    assert report.read_text() == ""
    for seconds in (0, -1, "1", float("nan")):
        with pytest.raises(InputError, match="above 0"), recipes.watch_hang(seconds, report):
            pass
    with pytest.raises(InputError, match="cannot be written"), recipes.watch_hang(1, tmp_path):
        pass
