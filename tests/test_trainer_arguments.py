"""What every argument of the reference's table does, as docs/trainer_arguments.md says it.

A test names the arguments that it is about and the status that it shows: `@shows("seen", ...)`. A
fixture makes sure that it has set each of them, a test compares all statuses with the page's.
"""

import contextlib
import inspect
import itertools
import math
import os
import re
import sys
from pathlib import Path

from course_lib.models.files import read_weights
from course_lib.runtime import InputError
from course_lib.training import CourseTrainer
from tools import trainer_arguments as page

import datasets
import numpy as np
import paddle
import pytest
import tiny_trainer
import training_runs as runs
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.trainer import Trainer, TrainerCallback, TrainingArguments, trainer_callback
from paddlenlp.trainer.integrations import VisualDLCallback
from processes import python
from tiny_trainer import ROWS, losses

pytestmark = [pytest.mark.upstream, pytest.mark.usefixtures("one_thread", "quiet")]

CONFIG = {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16}
SOURCES = {  # of what a Trainer does, without its arguments' own set-up
    Trainer: [sys.modules[Trainer.__module__], trainer_callback, VisualDLCallback],
    CourseTrainer: [sys.modules[CourseTrainer.__module__]],
}

TESTED: dict[str, str] = {}
SET: set[str] = set()  # the arguments that the running test has set so far

both = pytest.mark.parametrize("kind", [Trainer, CourseTrainer])
on_a_cpu = pytest.mark.skipif(paddle.get_device() != "cpu", reason="tells what happens on a CPU")


def shows(status, *names):
    """Mark a test as one that shows the status of arguments."""

    def register(test):
        for name in names:
            assert TESTED.setdefault(name, status) == status
        test.arguments = [*getattr(test, "arguments", ()), *names]
        return test

    return register


@pytest.fixture(autouse=True)
def _every_argument_is_set(request):
    SET.clear()
    yield
    missing = set(getattr(request.function, "arguments", ())) - SET
    assert not missing, "not set by the test that is about them"


def build(directory, kind=Trainer, **options):
    """A Trainer of one layer without dropout that saves nothing unless it is told to."""
    SET.update(options, ["output_dir"])
    settings = {"dropout": 0.0, "save_strategy": "no", "max_steps": 2, "config": CONFIG, **options}
    return tiny_trainer.build(directory, kind, **settings)


def arguments(directory, **options):
    SET.update(options, ["output_dir"])
    return TrainingArguments(output_dir=str(directory), **options)


def trained(directory, kind=Trainer, **options):
    trainer = build(directory, kind, **options)
    trainer.train()
    return trainer


def weights(trainer) -> dict[str, np.ndarray]:
    """As they are now: state_dict's tensors change with the model."""
    return {name: value.numpy().copy() for name, value in trainer.model.named_parameters()}


def steps(trainer, key: str) -> list[int]:
    """The steps of the log entries that have the key."""
    return [entry["step"] for entry in trainer.state.log_history if key in entry]


def checkpoints(directory) -> list[str]:
    return sorted(path.name for path in Path(directory).glob("checkpoint-*"))


class Watch(TrainerCallback):
    """The learning rate of each step, and the rows of each batch, as they come."""

    def __init__(self) -> None:
        self.rates, self.batches, self.evaluated = [], [], 0

    def on_step_begin(self, args, state, control, optimizer=None, **kwargs):
        self.rates.append(optimizer.get_lr())

    def on_load_data_end(self, args, state, control, inputs=None, **kwargs):
        self.batches.append(inputs["input_ids"].numpy())

    def on_prediction_step(self, args, state, control, **kwargs):
        self.evaluated += 1


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return tiny_trainer.build(tmp_path_factory.mktemp("rows"), config=CONFIG).train_dataset


@pytest.fixture(scope="module")
def plain(tmp_path_factory, one_thread, quiet):
    """The weights and losses of two steps without anything special, by class of Trainer."""
    found = {}
    for kind in (Trainer, CourseTrainer):
        trainer = trained(tmp_path_factory.mktemp("plain"), kind)
        found[kind] = runs.weights_digest(trainer.model), losses(trainer)
    return found


# ---- the page


def test_every_argument_of_the_documents_has_a_test_of_the_status_on_the_page():
    assert len(page.ARGUMENTS) == sum(map(len, page.GROUPS.values())) == 59
    on_the_page = {name: argument.status for name, argument in page.ARGUMENTS.items()}
    assert on_the_page == TESTED
    assert set(TESTED.values()) == set(page.STATUSES)
    assert set(page.ARGUMENTS) <= set(page.fields(TrainingArguments))


def test_the_page_is_up_to_date():
    # in a process of its own: what other tests do to the classes is not what is installed
    done = python(page.__file__, "generate", "--check")
    assert done.returncode == 0, f"run tools/trainer_arguments.py generate: {done.stdout}"


# ---- what nobody reads


def asked(kind) -> set[str]:
    """The arguments that training, saving, evaluating and predicting ask for."""
    code = "".join(map(inspect.getsource, SOURCES[kind] + SOURCES[Trainer]))
    return set(re.findall(r"\bargs\.(\w+)", code))


UNREAD = {
    "do_train": True,
    "do_predict": True,
    "do_export": True,
    "resume_from_checkpoint": "no/such/directory",
    "device": "cpu",
    "run_name": "a name",
    "no_cuda": True,
    "log_on_each_node": False,
}


@both
@shows("your script", "do_train", "do_predict", "do_export", "resume_from_checkpoint", "device")
@shows("no effect", "run_name", "no_cuda", "log_on_each_node")
def test_not_read_by_the_trainer(plain, tmp_path, kind):
    trainer = trained(tmp_path, kind, **UNREAD)
    assert {name: getattr(trainer.args, name) for name in UNREAD} == UNREAD
    assert (runs.weights_digest(trainer.model), losses(trainer)) == plain[kind]
    assert {"max_steps", "seed", "save_steps", "past_index", "logging_dir"} <= asked(kind)
    assert asked(kind) & set(UNREAD) == {"device"}  # compared with "npu", and that is all
    assert arguments(tmp_path).run_name == str(tmp_path)


@shows("several processes", "save_on_each_node")
def test_the_first_process_of_a_second_machine(tmp_path, monkeypatch):
    trained(tmp_path, save_on_each_node=True, save_strategy="steps", save_steps=2)
    assert checkpoints(tmp_path) == ["checkpoint-2"]  # as without, in one process
    monkeypatch.setattr(paddle.distributed, "get_rank", lambda: 8)
    for each in (True, False):
        args = arguments(tmp_path, save_on_each_node=each, log_on_each_node=each)
        args.local_rank = 0
        assert args.should_save is args.should_log is each
    assert "should_log" not in asked(Trainer) and "should_save" in asked(Trainer)


# ---- directories and tasks


CADENCE = [  # options, then the steps after which there are checkpoints, evaluations and logs
    ({"save_strategy": "no", "logging_strategy": "no"}, [], [], []),
    ({"save_strategy": "steps", "save_steps": 2, "logging_steps": 2}, [2, 4], [], [2, 4]),
    ({"save_strategy": "steps", "save_steps": 0, "logging_strategy": "epoch"}, [], [], [3, 5]),
    ({"save_strategy": "epoch", "logging_strategy": "steps"}, [3, 5], [], [1, 2, 3, 4, 5]),
    ({"evaluation_strategy": "no", "eval_steps": 2}, [], [], [1, 2, 3, 4, 5]),
    ({"evaluation_strategy": "steps", "eval_steps": 2}, [], [2, 4], [1, 2, 3, 4, 5]),
    ({"evaluation_strategy": "steps", "logging_steps": 3}, [], [3], [3]),
    ({"evaluation_strategy": "epoch"}, [], [3, 5], [1, 2, 3, 4, 5]),
    (  # the first step is logged, but not evaluated
        {"evaluation_strategy": "steps", "eval_steps": 9, "logging_steps": 2}
        | {"logging_first_step": True},
        [], [], [1, 2, 4],
    ),
]  # fmt: skip


@both
@shows("seen", "output_dir", "save_strategy", "save_steps", "evaluation_strategy", "eval_steps")
@shows("seen", "logging_strategy", "logging_steps", "logging_first_step")
def test_checkpoints_evaluations_and_logs_come_when_the_arguments_say(tmp_path, rows, kind):
    every = losses(trained(tmp_path / "every", kind, max_steps=5))
    for number, (options, saved, evaluated, logged) in enumerate(CADENCE):
        directory = tmp_path / str(number)
        trainer = build(directory, kind, max_steps=5, eval_dataset=rows[:8], **options)
        assert directory.is_dir()
        trainer.train()
        assert checkpoints(directory) == [f"checkpoint-{step}" for step in saved]
        assert steps(trainer, "eval_loss") == evaluated
        assert steps(trainer, "loss") == logged
        for first, last, loss in zip([0, *logged], logged, losses(trainer), strict=False):
            assert loss == pytest.approx(np.mean(every[first:last]), abs=1e-6)
    with pytest.raises(ValueError, match="non-zero --logging_steps"):
        arguments(tmp_path, logging_steps=0)


@shows("course only", "overwrite_output_dir")
def test_a_used_directory(plain, tmp_path):
    (tmp_path / "checkpoint-7").mkdir()
    (tmp_path / "checkpoint-7" / "model_state.pdparams").touch()
    for answer in (False, True):
        trainer = trained(tmp_path, overwrite_output_dir=answer)
        assert runs.weights_digest(trainer.model) == plain[Trainer][0]
        assert checkpoints(tmp_path) == ["checkpoint-7"]
    assert "overwrite_output_dir" not in asked(Trainer)
    with pytest.raises(InputError, match="checkpoint-7 of an earlier run"):
        trained(tmp_path, CourseTrainer)
    trained(tmp_path, CourseTrainer, overwrite_output_dir=True)
    assert checkpoints(tmp_path) == []


@shows("course only", "save_total_limit")
def test_checkpoints_beyond_the_limit(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 1, "max_steps": 3}
    trained(tmp_path / "stock", **options)
    assert len(checkpoints(tmp_path / "stock")) == 3
    for name in ("checkpoint-40", "checkpoint-of-mine"):  # of an earlier run, and of none
        (tmp_path / "course" / name).mkdir(parents=True)
    trained(tmp_path / "course", CourseTrainer, overwrite_output_dir=True, **options)
    assert checkpoints(tmp_path / "course") == ["checkpoint-3", "checkpoint-of-mine"]


@both
@shows("seen", "do_eval")
def test_do_eval_alone_evaluates(tmp_path, rows, kind):
    args = arguments(tmp_path, evaluation_strategy="epoch")
    assert args.do_eval is True
    trainer = trained(tmp_path, kind, eval_dataset=rows, do_eval=True)
    assert steps(trainer, "eval_loss") == [1, 2]  # with every log
    assert steps(trained(tmp_path, kind, eval_dataset=rows), "eval_loss") == []


@both
@shows("seen", "seed")
def test_seed_is_that_of_order_and_dropout(tmp_path, kind):
    def run(seed, **options):
        watch = Watch()
        trainer = build(tmp_path, kind, seed=seed, callbacks=[watch], **options)
        first = runs.weights_digest(trainer.model)
        trainer.train()
        return first, [batch.tolist() for batch in watch.batches], losses(trainer)

    one, again, other = (run(seed) for seed in (1, 1, 2))
    assert one == again
    assert one[0] == other[0]  # the model was there before the Trainer
    assert one[1] != other[1]
    for dropout in (0.0, 0.5):  # all rows in one batch, so that their order makes no difference
        (one,), (other,) = (run(s, rows=8, max_steps=1, dropout=dropout)[2] for s in (1, 2))
        assert (abs(one - other) < 1e-6) is (dropout == 0)


@both
@shows("seen", "ignore_data_skip")
def test_ignore_data_skip_begins_the_epoch_afresh(tmp_path, kind):
    options = {"max_steps": 4, "save_steps": 2, "save_strategy": "steps"}

    def run(directory, resume=None, **more):
        watch = Watch()
        with paddle.utils.unique_name.guard():  # a stock resume wants the names of a new process
            trainer = build(directory, kind, callbacks=[watch], **options, **more)
            trainer.train(resume)
        assert trainer.state.global_step == 4
        return len(watch.batches)

    run(tmp_path / "a")
    checkpoint = str(tmp_path / "a" / "checkpoint-2")
    loaded = {
        ignore: run(tmp_path / str(ignore), checkpoint, ignore_data_skip=ignore)
        for ignore in (False, True)
    }
    assert loaded == {False: 2 + 2, True: 2}  # two are passed over; none are


# ---- batches and data


@both
@shows("seen", "num_train_epochs", "max_steps", "per_device_train_batch_size")
@shows("seen", "gradient_accumulation_steps")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"num_train_epochs": 1}, 3),
        ({"num_train_epochs": 1.5}, 4),
        ({"num_train_epochs": 2, "per_device_train_batch_size": 4}, 10),
        ({"num_train_epochs": 2, "gradient_accumulation_steps": 2}, 2),
        ({"num_train_epochs": 2, "dataloader_drop_last": True}, 4),
        ({"num_train_epochs": 2, "max_steps": 1}, 1),
    ],
)
def test_number_of_steps(tmp_path, kind, options, expected):
    watch, sizes = Watch(), {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
    options = {"max_steps": -1, **sizes, **options}
    assert trained(tmp_path, kind, callbacks=[watch], **options).state.global_step == expected
    assert len(watch.batches[0]) == options["per_device_train_batch_size"]


@both
@shows("seen", "dataloader_drop_last")
def test_the_last_batch_is_dropped_from_training_only(tmp_path, rows, kind):
    watch, metrics = Watch(), lambda prediction: {"rows": len(prediction.predictions)}
    options = {"eval_dataset": rows, "compute_metrics": metrics, "callbacks": [watch]}
    trainer = trained(tmp_path, kind, max_steps=4, dataloader_drop_last=True, **options)
    assert [len(batch) for batch in watch.batches] == [8, 8, 8, 8]
    assert trainer.evaluate()["eval_rows"] == ROWS
    with pytest.raises(AssertionError, match="should not be set when batch_sampler is given"):
        trainer.predict(rows)


@both
@shows("seen", "per_device_eval_batch_size")
def test_sizes_of_batches_that_are_evaluated(tmp_path, rows, kind):
    found = {}
    for size, batches in ((8, 3), (5, 4)):
        watch = Watch()
        trainer = build(tmp_path, kind, per_device_eval_batch_size=size, callbacks=[watch])
        found[size] = trainer.evaluate(rows)["eval_loss"]
        assert watch.evaluated == batches
        trainer.predict(rows)
        assert watch.evaluated == 2 * batches
    assert found[8] == pytest.approx(found[5], rel=1e-5)


@shows("seen", "dataloader_num_workers")
def test_workers_make_the_batches(tmp_path, rows):
    numbered = [{"input_ids": [row]} for row in range(ROWS)]

    def collate(features):  # arrays: Paddle tensors made in a worker can crash it
        rows = np.array([feature["input_ids"][0] for feature in features])
        return {"row": rows, "process": np.full(len(rows), os.getpid())}

    orders, processes = {}, {}
    for kind, workers in itertools.product((Trainer, CourseTrainer), (0, 2)):
        trainer = build(
            tmp_path, kind, features=numbered, data_collator=collate, dataloader_num_workers=workers
        )
        batches = list(trainer.get_train_dataloader())
        orders[kind, workers] = [int(row) for batch in batches for row in batch["row"]]
        processes[workers] = {int(batch["process"][0]) for batch in batches}
        assert sorted(orders[kind, workers]) == list(range(ROWS))
    assert processes[0] == {os.getpid()}
    assert len(processes[2]) == 2 and os.getpid() not in processes[2]
    assert orders[CourseTrainer, 0] == orders[CourseTrainer, 2]
    assert orders[Trainer, 0] != orders[Trainer, 2]


@both
def test_training_with_a_worker(tmp_path, plain, kind):
    _, tokenizer = runs.model_and_tokenizer(**CONFIG)
    collator = DataCollatorWithPadding(tokenizer, return_tensors="np")
    trainer = trained(tmp_path, kind, data_collator=collator, dataloader_num_workers=1)
    assert (losses(trainer) == plain[kind][1]) is (kind is CourseTrainer)
    if kind is CourseTrainer and paddle.get_device() == "cpu":  # the stock one's worker crashes
        with pytest.raises(InputError, match="data_collator: makes Paddle tensors"):
            trained(tmp_path, kind, dataloader_num_workers=1)


@both
@shows("seen", "remove_unused_columns")
def test_columns_that_the_model_does_not_take(tmp_path, rows, kind):
    with_text = [
        {"input_ids": list(map(int, row["input_ids"])), "labels": int(row["labels"]), "length": 3}
        for row in rows
    ]
    table = datasets.Dataset.from_list(with_text)
    for data, remove, expected in (
        (table, True, False),
        (table, False, True),
        (with_text, True, True),
    ):
        trainer = build(tmp_path, kind, features=data, remove_unused_columns=remove)
        batch = next(iter(trainer.get_train_dataloader()))
        assert ("length" in batch) is expected
    trained(tmp_path, kind, features=table, remove_unused_columns=True)


@both
@shows("seen", "label_names")
def test_without_its_labels_there_is_no_loss(tmp_path, rows, kind):
    metrics = build(tmp_path, kind, label_names=["labels"]).evaluate(rows)
    assert "eval_loss" in metrics
    trainer = build(tmp_path, kind, label_names=["labels", "second_labels"])
    assert "eval_loss" not in trainer.evaluate(rows)
    context = contextlib.nullcontext()
    if kind is CourseTrainer:
        context = pytest.raises(InputError, match="row 0 has no column 'second_labels'")
    with context:
        trainer.train()


# ---- optimizer and learning rate


@shows("seen", "optim")
def test_adamw_is_the_only_optimiser(tmp_path):
    assert type(trained(tmp_path, optim="adamw").optimizer) is paddle.optimizer.AdamW
    with pytest.raises(ValueError, match=r"unsupported optimizer: .*ADAFACTOR"):
        trained(tmp_path, optim="adafactor")
    with pytest.raises(ValueError, match="sgd is not a valid"):
        arguments(tmp_path, optim="sgd")


def adamw(directory, steps, beta1=0.9, beta2=0.999, epsilon=1e-3, decay=0.0, limit=0.1):
    """The weights after steps of AdamW by hand, with all rows in a batch at a rate of 0.01."""
    trainer = build(directory)
    batch, values = trainer.data_collator(trainer.train_dataset), weights(trainer)
    first, second = dict.fromkeys(values, 0.0), dict.fromkeys(values, 0.0)
    for step in range(1, steps + 1):
        trainer.compute_loss(trainer.model, batch).backward()
        layers = dict(trainer.model.named_parameters())
        gradients = {name: layers[name].grad.numpy() for name in values}
        length = math.sqrt(sum(float((each**2).sum()) for each in gradients.values()))
        for name, gradient in gradients.items():
            gradient = gradient * (min(1, limit / length) if limit else 1)
            first[name] = beta1 * first[name] + (1 - beta1) * gradient
            second[name] = beta2 * second[name] + (1 - beta2) * gradient**2
            spared = "bias" in name or "norm" in name
            values[name] = values[name] * (1 - (0 if spared else 0.01 * decay))
            root = np.sqrt(second[name] / (1 - beta2**step))
            values[name] -= 0.01 * first[name] / (1 - beta1**step) / (root + epsilon)
            layers[name].set_value(values[name].astype("float32"))
        trainer.model.clear_gradients()
    return values


@both
@shows("seen", "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm", "weight_decay")
@pytest.mark.parametrize(
    ("name", "value", "by_hand"),
    [
        ("adam_beta1", 0.5, "beta1"),
        ("adam_beta2", 0.9, "beta2"),
        ("adam_epsilon", 0.1, "epsilon"),
        ("max_grad_norm", 0.01, "limit"),
        ("max_grad_norm", 0.0, "limit"),
        ("weight_decay", 0.5, "decay"),
    ],
)
def test_two_steps_are_those_of_adamw_by_hand(tmp_path, kind, name, value, by_hand):
    settings = {"adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-3}
    settings |= {"max_grad_norm": 0.1, "weight_decay": 0.0, name: value}
    constant = {"learning_rate": 0.01, "lr_scheduler_type": "constant"}
    size = {"per_device_train_batch_size": ROWS}
    found = weights(trained(tmp_path, kind, **settings, **constant, **size))
    expected, plain = adamw(tmp_path, 2, **{by_hand: value}), adamw(tmp_path, 2)
    for layer, each in found.items():
        np.testing.assert_allclose(each, expected[layer], atol=2e-6)
    assert max(np.abs(found[layer] - plain[layer]).max() for layer in plain) > 1e-4


def test_decay_goes_by_name(tmp_path):
    trainer = build(tmp_path, weight_decay=0.5)
    trainer.model.ln = paddle.nn.LayerNorm(4)
    trainer.lr_scheduler = 0.01
    decays = trainer.create_optimizer(0.01)._apply_decay_param_fun
    assert decays(trainer.model.ln.weight.name)
    assert not decays(trainer.model.ernie.encoder.layers[0].norm1.weight.name)


def expected_rates(schedule, warmup, count, rate) -> list[float]:
    def share(step):
        if step < warmup and schedule != "constant":
            return step / warmup
        progress = (step - warmup) / (count - warmup)
        return {
            "linear": 1 - progress,
            "polynomial": 1 - progress,  # down to its lr_end of 1e-7
            "cosine": 0.5 * (1 + math.cos(math.pi * progress)),
        }.get(schedule, 1.0)

    return [rate * share(step) for step in range(count)]


@both
@shows("seen", "learning_rate", "lr_scheduler_type")
@pytest.mark.parametrize(
    ("schedule", "warmup", "steps_of_warmup"),
    [
        ("linear", {}, 0),
        ("linear", {"warmup_ratio": 0.3}, 2),  # int(0.3 x 8)
        ("cosine", {"warmup_steps": 3, "warmup_ratio": 0.9}, 3),
        ("constant", {"warmup_steps": 3}, 0),
        ("constant_with_warmup", {"warmup_steps": 3}, 3),
        ("polynomial", {"warmup_steps": 3}, 3),
    ],
)
def test_rates_of_all_steps(tmp_path, kind, schedule, warmup, steps_of_warmup):
    watch = Watch()
    options = {"max_steps": 8, "learning_rate": 0.01, "lr_scheduler_type": schedule}
    trainer = trained(tmp_path, kind, callbacks=[watch], **options, **warmup)
    wanted = expected_rates(schedule, steps_of_warmup, 8, 0.01)
    np.testing.assert_allclose(watch.rates, wanted, atol=2e-7)
    logged = [entry["learning_rate"] for entry in trainer.state.log_history if "loss" in entry]
    np.testing.assert_allclose(logged[:-1], watch.rates[1:], atol=1e-5)  # that of the next step


@shows("seen", "warmup_ratio", "warmup_steps")
def test_the_first_step_of_a_warm_up_changes_nothing(tmp_path):
    for warmup in ({"warmup_steps": 1}, {"warmup_ratio": 1.0}):
        trainer = build(tmp_path, max_steps=1, **warmup)
        before = runs.weights_digest(trainer.model)
        trainer.train()
        assert runs.weights_digest(trainer.model) == before
    assert arguments(tmp_path, warmup_ratio=0.3).get_warmup_steps(8) == 3  # the Trainer takes 2


# ---- evaluation and the best model


@both
@shows("seen", "minimum_eval_times")
def test_minimum_of_evaluations(tmp_path, rows, kind):
    options = {"max_steps": 20, "eval_dataset": rows[:4], "per_device_train_batch_size": 4}
    options |= {"evaluation_strategy": "steps", "eval_steps": 20}
    for least, found in ((1, [20]), (2, [10, 20]), (5, [10, 20])):  # never under ten steps
        trainer = trained(tmp_path, kind, minimum_eval_times=least, **options)
        assert steps(trainer, "eval_loss") == found
    with pytest.raises(TypeError, match="unsupported operand"):
        trained(tmp_path, kind, minimum_eval_times=2)


@both
@shows("seen", "prediction_loss_only")
def test_predictions_or_the_loss_alone(tmp_path, rows, kind):
    seen = []

    def metrics(prediction):
        seen.append(prediction.predictions.shape)
        return {"accuracy": 1.0}

    for metric, only, given in ((metrics, False, True), (metrics, True, False), (None, False, 0)):
        options = {"compute_metrics": metric, "prediction_loss_only": only}
        output = build(tmp_path, kind, **options).predict(rows)
        assert (output.predictions is not None) == bool(given)
        assert ("test_accuracy" in output.metrics) == bool(given)
        assert "test_loss" in output.metrics
    assert seen == [(ROWS, 2)]


@both
@shows("seen", "load_best_model_at_end", "metric_for_best_model", "greater_is_better")
@pytest.mark.parametrize(
    ("metric", "greater", "best"),
    [
        ("score", None, 2),
        ("score", True, 2),
        ("score", False, 3),
        ("eval_score", None, 2),
        ("dev_loss", None, 2),  # the highest loss
    ],
)
def test_the_best_model_comes_back(tmp_path, rows, kind, metric, greater, best):
    scores = iter([0.5, 0.9, 0.1, 0.4])
    name = metric.removeprefix("eval_")
    options = {"evaluation_strategy": "steps", "eval_steps": 1, "eval_dataset": rows[:4]}
    options |= {"save_strategy": "steps", "save_steps": 1, "max_steps": 4}
    trainer = trained(
        tmp_path,
        kind,
        compute_metrics=lambda p: {name: next(scores) if len(p.label_ids) == 4 else 0},
        load_best_model_at_end=True,
        metric_for_best_model=metric,
        greater_is_better=greater,
        **options,
    )
    assert Path(trainer.state.best_model_checkpoint).name == f"checkpoint-{best}"
    file = "model.safetensors" if kind is CourseTrainer else "model_state.pdparams"
    saved = read_weights(tmp_path / f"checkpoint-{best}" / file)
    for key, value in trainer.model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), saved[key])


def test_what_the_best_model_is_without_more_words(tmp_path, rows):
    steps_of_one = {"evaluation_strategy": "steps", "eval_steps": 2, "save_strategy": "steps"}
    args = arguments(tmp_path, load_best_model_at_end=True, save_steps=2, **steps_of_one)
    assert args.metric_for_best_model == "loss" and args.greater_is_better is False
    with pytest.raises(ValueError, match="strategy to match"):
        arguments(tmp_path, load_best_model_at_end=True, evaluation_strategy="epoch")
    with pytest.raises(ValueError, match="round multiple"):
        arguments(tmp_path, load_best_model_at_end=True, save_steps=3, **steps_of_one)
    trainer = trained(tmp_path, load_best_model_at_end=True, eval_dataset=rows)  # "no" and "no"
    assert trainer.state.best_model_checkpoint is None


# ---- logs


@shows("seen", "report_to", "logging_dir")
def test_a_file_for_visualdl_where_it_was_asked_for(tmp_path, monkeypatch):
    for told, where in ((None, "a"), (["visualdl"], "b"), ("none", "c"), ([], "d")):
        directory, logs = tmp_path / where, tmp_path / f"{where}-logs"
        trained(directory, report_to=told, logging_dir=str(logs))
        assert logs.exists() is (where in "ab")
        assert not (directory / "runs").exists()
    args = arguments(tmp_path, report_to=None)
    assert args.report_to == ["visualdl"]
    installed = "paddlenlp.trainer.integrations.get_available_reporting_integrations"
    monkeypatch.setattr(installed, lambda: ["visualdl", "wandb"])
    assert arguments(tmp_path, report_to=None).report_to == ["visualdl"]
    assert arguments(tmp_path, report_to="all").report_to == ["visualdl", "wandb"]
    assert Path(args.logging_dir).parent == tmp_path / "runs"


@both
@shows("seen", "disable_tqdm")
def test_bars(tmp_path, kind, capfd):
    assert arguments(tmp_path, disable_tqdm=None).disable_tqdm is False
    for disable in (False, True):
        trained(tmp_path, kind, disable_tqdm=disable)
        assert ("TrainProcess" in capfd.readouterr().err) is not disable


@shows("seen", "skip_memory_metrics")
def test_memory_in_the_logs(tmp_path):
    found = {}
    for skip in (True, False):
        trainer = trained(tmp_path, skip_memory_metrics=skip, max_steps=1)
        found[skip] = [entry.get("cpu_mem_used") for entry in trainer.state.log_history[:-1]]
    assert found[True] == [None] and found[False][0] > 50  # MiB; Paddle alone takes more


# ---- device and precision


def compare_on_a_cpu(directory, plain, **options):
    with pytest.warns(UserWarning, match="makes no effect"):
        trainer = trained(directory, **options)
    assert (runs.weights_digest(trainer.model), losses(trainer)) == plain[Trainer]
    return trainer


@on_a_cpu
@shows("GPU", "bf16", "fp16_opt_level", "scale_loss")
def test_half_precision_on_a_cpu_is_none(tmp_path, plain):
    compare_on_a_cpu(tmp_path, plain, bf16=True)
    compare_on_a_cpu(tmp_path, plain, bf16=True, fp16_opt_level="O2")
    trainer = compare_on_a_cpu(tmp_path, plain, bf16=True, scale_loss=4.0)
    assert trainer.args.scale_loss == 4.0 and not trainer.scaler.is_enable()
    with pytest.raises(ValueError, match="level should be"):
        trained(tmp_path, bf16=True, fp16_opt_level="O7")
    alone = trained(tmp_path, fp16_opt_level="O2")
    assert alone.optimizer._multi_precision
    assert runs.weights_digest(alone.model) == plain[Trainer][0]


@on_a_cpu
@both
@shows("GPU", "fp16")
@pytest.mark.filterwarnings("ignore:.*makes no effect")
def test_fp16_on_a_cpu_stops(tmp_path, kind):
    with pytest.raises(AttributeError, match="'GradScaler' object has no attribute '_scale'"):
        trained(tmp_path, kind, fp16=True)
    with pytest.raises(ValueError, match="At most one of fp16 and bf16"):
        arguments(tmp_path, fp16=True, bf16=True)


@both
@shows("seen", "recompute")
def test_recompute_runs_each_layer_again(tmp_path, plain, kind):
    calls = {}
    for again in (False, True):
        trainer = build(tmp_path, kind, recompute=again)
        counted, layer = [], trainer.model.ernie.encoder.layers[0]
        layer.register_forward_pre_hook(lambda *_, calls=counted: calls.append(1))
        trainer.train()
        calls[again] = len(counted)
        assert losses(trainer) == pytest.approx(plain[kind][1], abs=1e-6)
    assert calls[True] == calls[False] + 2  # of two steps; CourseTrainer first tries the loss


# ---- several processes, and what fails


@shows("several processes", "sharding", "sharding_degree")
def test_sharding_is_taken_back_in_one_process(tmp_path, plain):
    trainer = trained(tmp_path, sharding="stage2", sharding_degree=2)
    args = trainer.args
    assert args.sharding == [] and args.sharding_degree == args.sharding_parallel_degree == -1
    told = page.fields(TrainingArguments)["sharding_degree"].metadata["help"]
    assert "deprecated" in told and "sharding_parallel_degree" in told
    assert (runs.weights_digest(trainer.model), losses(trainer)) == plain[Trainer]


@shows("several processes", "local_rank")
def test_local_rank_by_hand_stops(tmp_path):
    assert arguments(tmp_path).local_rank == -1
    with pytest.raises(RuntimeError, match="global group is not initialized"):
        trained(tmp_path, local_rank=0)


@both
@shows("fails", "past_index")
def test_past_index_stops(tmp_path, rows, kind):
    error = AttributeError if kind is Trainer else TypeError  # which comes with the second batch
    with pytest.raises(error, match=r"_past|mems"):
        trained(tmp_path, kind, past_index=0)
    trainer = build(tmp_path, kind, past_index=0, eval_dataset=rows)
    with pytest.raises(TypeError, match="unexpected keyword argument 'mems'"):
        trainer.evaluate()
        trainer.train()
