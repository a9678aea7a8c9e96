"""CompressTrainer: DynaBERT, the functions of the user, what is obeyed and what is refused."""

from __future__ import annotations

import course_lib  # noqa: F401
from course_lib.compression import load_pruned
from course_lib.compression.evaluation import metric_for
from course_lib.deploy import Predictor, export_model
from course_lib.models import freeze_layers, save_model
from course_lib.runtime import InputError

import compression_tasks as tasks
import numpy as np
import paddle
import paddlenlp.transformers as transformers
import pytest
import training_runs as runs
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.datasets import MapDataset
from paddlenlp.transformers import AutoTokenizer

pytestmark = pytest.mark.slow


def test_dynabert_of_two_widths(tmp_path):
    trainer = tasks.compressor(tmp_path, width_mult_list=[0.75, "1/4"], max_steps=12, save_steps=7)
    before = runs.weights_digest(trainer.model)
    frame = trainer.compress()
    assert runs.weights_digest(trainer.model) == before
    assert frame["width"].tolist()[1:] == [0.75, 0.25]
    places = [str(path.parent.relative_to(tmp_path)) for path in frame["path"]]
    assert places == [".", "width_mult_0.75", "width_mult_0.25"]
    assert frame["score"].iloc[0] == 1.0 and frame["score"].min() > 0.9
    assert frame["megabytes"].is_monotonic_decreasing
    loaded = load_pruned(tmp_path / "width_mult_0.25")
    assert loaded.config.heads_per_layer == [1, 1]
    assert trainer._score(loaded) == frame["score"].iloc[2]
    AutoTokenizer.from_pretrained(str(tmp_path / "width_mult_0.25"))


def test_dynabert_twice_gives_the_same_bits(tmp_path):
    digests = set()
    for run in range(2):
        tasks.compressor(tmp_path / str(run), task=tasks.sequence_task()).compress()
        digests.add(runs.weights_digest(load_pruned(tmp_path / str(run) / "width_mult_0.5")))
    assert len(digests) == 1


@pytest.mark.parametrize("task", [tasks.token_task, tasks.answer_task])
def test_dynabert_of_other_tasks(task, tmp_path):
    trainer = tasks.compressor(tmp_path, "dynabert", task())
    frame = trainer.compress()
    assert frame["score"].between(0, 1).all() and len(frame) == 2
    loaded = load_pruned(tmp_path / "width_mult_0.5")
    assert type(loaded) is type(trainer.model)
    assert trainer._score(loaded) == frame["score"].iloc[1]


class Oracle(paddle.nn.Layer):
    """Gives the right answer to the first `right` rows, and to the others that of row 0."""

    def __init__(self, rows, right: int) -> None:
        super().__init__()
        self.rows, self.right, self.place = list(rows), right, 0

    def forward(self, input_ids, token_type_ids):
        places = range(self.place, self.place + len(input_ids))
        self.place += len(input_ids)
        rows = [self.rows[place if place < self.right else 0] for place in places]
        one_hot, length = paddle.nn.functional.one_hot, input_ids.shape[1]
        if "labels" in rows[0]:
            labels = [np.maximum(row["labels"], 0) for row in rows]
            padded = [np.pad(row, (0, length))[:length] for row in labels]
            return one_hot(paddle.to_tensor(np.stack(padded)), 5)
        ends = [[row[f"{name}_positions"] for row in rows] for name in ("start", "end")]
        return tuple(one_hot(paddle.to_tensor(end), length) for end in ends)


def score(trainer, model) -> float:
    rows = trainer._rows(trainer.eval_dataset)
    return metric_for(trainer)(trainer, model, trainer._loader(rows))


def test_the_metrics_of_entities_and_answers(tmp_path):
    task = tasks.token_task()
    trainer = tasks.compressor(tmp_path, task=task)
    assert score(trainer, Oracle(task[2], len(task[2]))) == 1
    assert 0 < score(trainer, Oracle(task[2], 20)) < 0.9

    nameless = (*task[:2], MapDataset(task[2].data), task[3])  # its labels are called LABEL_0, ...
    with pytest.raises(InputError, match=r"label_list: is \['LABEL_0'.* O and"):
        tasks.compressor(tmp_path / "nameless", task=nameless).compress()
    assert not (tmp_path / "nameless" / "width_mult_0.5").exists()

    *task, examples = tasks.answer_task()
    data = task[2]
    trainer = tasks.compressor(tmp_path, task=task)  # without the examples: positions are compared
    names = ("start_positions", "end_positions")
    expected = np.mean([all(row[name] == data[0][name] for name in names) for row in data])
    assert score(trainer, Oracle(data, 0)) == pytest.approx(expected)
    assert score(trainer, Oracle(data, len(data))) == 1
    trainer = tasks.compressor(tmp_path, task=[*task, examples])
    assert score(trainer, Oracle(data, len(data))) == 1
    assert score(trainer, Oracle(data, 5)) < 1


def test_functions_of_the_user(tmp_path):
    calls = []

    def evaluate(trainer, model, data_loader):
        calls.append((trainer, model.training))
        for batch in data_loader:
            labels = batch.pop("labels")
            assert model(**batch).shape == [len(labels), 2]
        model.train()
        return len(calls)

    trainer = tasks.compressor(
        tmp_path / "new", task=tasks.sequence_task(), max_steps=4, save_steps=2
    )
    frame = trainer.compress(custom_evaluate=evaluate)
    assert frame["score"].tolist() == [1, len(calls)] and len(calls) == 4
    assert all(call == (trainer, False) for call in calls)

    def old_evaluate(model, data_loader):
        for batch in data_loader:
            model(batch["input_ids"], batch["token_type_ids"], attention_mask=[None, None])
        return 0.25

    def calc_loss(loss_fct, model, batch, head_mask):
        calls.append("loss")
        logits = model(
            batch["input_ids"], batch["token_type_ids"], attention_mask=[None, head_mask]
        )
        return loss_fct(logits, batch["labels"])

    options = {"task": tasks.sequence_task(), "criterion": paddle.nn.CrossEntropyLoss()}
    trainer = tasks.compressor(tmp_path / "old", **options)
    frame = trainer.compress(
        custom_dynabert_evaluate=old_evaluate, custom_dynabert_calc_loss=calc_loss
    )
    assert frame["score"].tolist() == [0.25, 0.25] and "loss" in calls
    tasks.compressor(tmp_path / "plain", **options).compress(old_evaluate)
    old, plain = (load_pruned(tmp_path / name / "width_mult_0.5") for name in ("old", "plain"))
    assert runs.weights_digest(old) == runs.weights_digest(plain)  # as loss and importance are


def test_a_criterion_gets_all_labels_of_an_example(tmp_path):
    def criterion(outputs, labels):
        seen.append(len(labels))
        losses = map(paddle.nn.functional.cross_entropy, outputs, labels)
        return sum(losses) / 2

    seen = []
    tasks.compressor(tmp_path, task=tasks.answer_task(), criterion=criterion).compress()
    assert seen and set(seen) == {2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategy": "prune"}, "strategy: is 'prune'; expected one of dynabert, ptq"),
        ({"width_mult_list": ["1/8"]}, "of 4 heads leaves none"),
        ({"width_mult_list": ["3/4", "0.75"]}, "gives one directory twice"),
        ({"per_device_eval_batch_size": 0}, "per_device_eval_batch_size: is 0"),
        ({"eval_dataset": None}, "eval_dataset: is None"),
        ({"train_dataset": [[1, 2], [3, 4]]}, "train_dataset: row 0 is a list"),
        ({"strategy": "ptq", "algo_list": ["best"]}, "algo: is 'best'"),
        ({"strategy": "ptq", "batch_size_list": [0]}, "batch_size_list: has 0"),
        ({"strategy": "qat", "moving_rate": 2.0}, "moving_rate: is 2.0"),
        ({"recompute": True}, "recompute: is True, and would compute"),
        ({"prune_embeddings": True}, "prune_embeddings: True does not work here"),
        ({"input_infer_model_path": "a/b"}, "a static model cannot be trained"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_done(changes, message, tmp_path):
    trainer = tasks.compressor(tmp_path, **changes)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=message):
        trainer.compress()
    assert sorted(tmp_path.iterdir()) == before


def test_labels_that_nobody_reads_may_be_absent(tmp_path):
    _, tokenizer = tasks.trained()
    names = ("input_ids", "token_type_ids")
    bare = MapDataset([{name: row[name] for name in names} for row in tasks.features(tokenizer)])
    with pytest.raises(InputError, match="eval_dataset: row 0 has no column 'labels'"):
        tasks.compressor(tmp_path, "ptq", eval_dataset=bare).compress()
    trainer = tasks.compressor(tmp_path, "ptq", eval_dataset=bare, train_dataset=bare)
    assert len(trainer.compress(lambda trainer, model, loader: 1.0)) == 2


def test_a_model_s_own_directory_is_not_written_into(tmp_path):
    model, tokenizer = tasks.trained()
    save_model(model, tokenizer, tmp_path / "model")
    export_model(model, tmp_path / "model", tokenizer)
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    for strategy in ("dynabert", "ptq", "qat"):
        with pytest.raises(InputError, match="it is a model's directory"):
            tasks.compressor(tmp_path / "model", strategy).compress()
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before


def test_models_that_cannot_be_compressed_are_refused(tmp_path):
    model, tokenizer = tasks.trained()
    data, collator = tasks.features(tokenizer), DataCollatorWithPadding(tokenizer)
    bare = tasks.compressor(tmp_path, task=(model.ernie, tokenizer, data, collator))
    with pytest.raises(InputError, match="ErnieModel: is a bare encoder"):
        bare.compress(lambda trainer, model, loader: 1.0)
    masked = transformers.ErnieForMaskedLM(tasks.small(tokenizer))
    trainer = tasks.compressor(tmp_path, "ptq", (masked, tokenizer, data, collator))
    with pytest.raises(InputError, match="there is no metric for ErnieForMaskedLM"):
        trainer.compress()


@pytest.mark.parametrize("name", ["train_dataset", "eval_dataset"])
def test_every_row_is_looked_at_before_anything_is_done(name, tmp_path):
    _, tokenizer = tasks.trained()
    rows = [dict(feature) for feature in tasks.features(tokenizer)]
    rows[7]["labels"] = 2
    for strategy in ("ptq", "qat"):
        trainer = tasks.compressor(tmp_path, strategy, **{name: MapDataset(rows)})
        with pytest.raises(InputError, match=f"{name}: row 7 has labels 2 for 2 classes"):
            trainer.compress()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("strategy", ["dynabert", "qat"])
def test_models_with_frozen_parameters(strategy, tmp_path):
    model, tokenizer = tasks.trained()
    task = model, tokenizer, tasks.features(tokenizer), DataCollatorWithPadding(tokenizer)
    freeze_layers(model, 1)
    assert len(tasks.compressor(tmp_path / "some", strategy, task).compress()) == 2
    for parameter in model.parameters():
        parameter.stop_gradient = True
    with pytest.raises(InputError, match="no parameter that learns: all are frozen"):
        tasks.compressor(tmp_path / "all", strategy, task).compress()


@pytest.mark.parametrize("strategy", ["ptq", "qat"])
def test_the_static_model_cuts_texts_as_its_features_were_cut(strategy, tmp_path):
    trainer = tasks.compressor(tmp_path, strategy)
    path = trainer.compress()["path"].iloc[-1]
    longest = max(len(row["input_ids"]) for row in trainer.eval_dataset)
    assert Predictor(path).max_length == longest < 64
