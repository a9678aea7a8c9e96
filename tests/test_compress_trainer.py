"""Distillation of several widths, and CompressTrainer's strategies on tiny models."""

from __future__ import annotations

import copy
import functools

import course_lib  # noqa: F401
from course_lib.compression import CompressTrainer, importance, load_pruned, prune, reorder
from course_lib.compression.distillation import (
    DistillTrainer,
    hidden_error,
    narrow,
    narrowed,
    soft_cross_entropy,
)
from course_lib.data import convert_example, convert_qa_examples
from course_lib.deploy import Predictor, export_model
from course_lib.runtime import InputError

import numpy as np
import paddle
import paddlenlp.transformers as transformers
import pytest
import training_runs as runs
from paddle.io import TensorDataset
from paddlenlp.data import DataCollatorForTokenClassification, DataCollatorWithPadding
from paddlenlp.datasets import MapDataset
from paddlenlp.trainer import CompressionArguments, TrainerCallback, TrainingArguments
from paddlenlp.transformers import AutoTokenizer
from scipy.special import log_softmax, softmax

CONFIG = {"num_attention_heads": 4, "intermediate_size": 32}


@functools.cache
def _trained():
    model, tokenizer = runs.model_and_tokenizer(1, **CONFIG, initializer_range=0.1)
    loader, _ = runs.loaders(tokenizer, 200)
    runs.fit(model, loader, epochs=4, learning_rate=3e-3, progress=False)
    return model, tokenizer


def trained():
    """A tiny classifier that has learnt its task, and its tokenizer."""
    model, tokenizer = _trained()
    return copy.deepcopy(model), tokenizer


def features(tokenizer, rows: int = 40, seed: int = 0) -> MapDataset:
    data = runs.dataset(rows, seed)
    examples = [convert_example(row, tokenizer, 32, return_dict=True) for row in data]
    return MapDataset(examples, label_list=data.label_list)


def distil(directory, student, teacher, tokenizer, widths, steps=6, **options):
    args = TrainingArguments(
        str(directory),
        per_device_train_batch_size=8,
        max_steps=steps,
        learning_rate=3e-3,
        save_strategy="no",
        disable_tqdm=True,
        report_to=[],
    )
    trainer = DistillTrainer(
        model=student,
        args=args,
        train_dataset=features(tokenizer),
        data_collator=DataCollatorWithPadding(tokenizer),
        teacher=teacher,
        widths=widths,
        **options,
    )
    trainer.train()
    return trainer


def test_the_losses_are_what_numpy_says():
    random = np.random.RandomState(0)
    student, teacher = random.randn(2, 3, 5, 4).astype("float32")
    mask = np.array([[1, 1, 1, 0, 0]] * 3, "float32")
    for temperature in (1.0, 4.0):
        rows = -(softmax(teacher / temperature, -1) * log_softmax(student / temperature, -1)).sum(
            -1
        )
        tensors = [paddle.to_tensor(value) for value in (student, teacher)]
        whole = soft_cross_entropy(*tensors, temperature)
        assert float(whole) == pytest.approx(temperature**2 * rows.mean(), rel=1e-5)
        masked = soft_cross_entropy(*tensors, temperature, paddle.to_tensor(mask))
        assert float(masked) == pytest.approx(temperature**2 * rows[:, :3].mean(), rel=1e-5)
    error = hidden_error([tensors[0]] * 2, [tensors[1]] * 2, paddle.to_tensor(mask))
    expected = ((student - teacher) ** 2)[:, :3].mean()
    assert float(error) == pytest.approx(expected, rel=1e-5)
    assert float(hidden_error(tensors[:1], tensors[:1], paddle.to_tensor(mask))) == 0


def test_a_narrowed_model_is_the_cut_one_and_trains_the_whole_ones_weights():
    model, tokenizer = runs.model_and_tokenizer(**CONFIG, initializer_range=0.3)
    model.eval()
    batch = next(iter(runs.loaders(tokenizer)[1]))
    heads, neurons = importance(model, [batch])
    ordered = reorder(model, heads, neurons)
    before = ordered(*batch[:2]).numpy()
    with narrowed(ordered, 0.5):
        logits = ordered(*batch[:2])
    np.testing.assert_allclose(ordered(*batch[:2]).numpy(), before)  # whole again
    for small in (narrow(ordered, 0.5), prune(model, 0.5, heads, neurons)):
        np.testing.assert_allclose(logits.numpy(), small(*batch[:2]).numpy(), atol=1e-5)
    assert np.abs(logits.numpy() - before).max() > 1e-3
    logits.sum().backward()
    slope = ordered.ernie.encoder.layers[0].linear1.weight.grad.numpy()
    assert (slope[:, :16] != 0).any() and (slope[:, 16:] == 0).all()
    assert len(list(ordered.parameters())) == len(list(model.parameters()))


def test_distillation_brings_every_width_nearer_to_its_teacher(tmp_path):
    teacher, tokenizer = trained()
    batch = next(iter(runs.loaders(tokenizer)[1]))
    student = reorder(teacher, *importance(teacher, [batch]))
    widths = [0.5, 0.25]

    def distance(width: float) -> float:
        with paddle.no_grad():
            small, whole = narrow(student, width), teacher
            small.eval(), whole.eval()
            return float(soft_cross_entropy(small(*batch[:2]), whole(*batch[:2])))

    before, digest = [distance(width) for width in widths], runs.weights_digest(teacher)
    distil(tmp_path, student, teacher, tokenizer, widths, steps=30)
    after = [distance(width) for width in widths]
    assert all(late < early for late, early in zip(after, before, strict=True))
    assert runs.weights_digest(teacher) == digest


def test_distillation_twice_gives_the_same_bits(tmp_path):
    digests = []
    for run in range(2):
        teacher, tokenizer = runs.model_and_tokenizer(**CONFIG)  # with dropout
        paddle.rand([run + 1])  # another global state
        student = reorder(teacher, np.ones([2, 4]), np.ones([2, 32]))
        distil(tmp_path / str(run), student, teacher, tokenizer, [1, 0.5], steps=4)
        digests.append(runs.weights_digest(student))
    assert digests[0] == digests[1] != runs.weights_digest(teacher)


def test_teachers_that_do_not_fit_are_refused(tmp_path):
    student, tokenizer = runs.model_and_tokenizer(**CONFIG)
    other, _ = runs.model_and_tokenizer(**CONFIG, num_hidden_layers=1)
    with pytest.raises(InputError, match="teacher: has 1 layers of 24 for 2 of 24"):
        distil(tmp_path, student, other, tokenizer, [1])
    distil(tmp_path, student, other, tokenizer, [1], steps=1, hidden_weight=0)
    with pytest.raises(InputError, match="leaves none"):
        distil(tmp_path, student, student, tokenizer, ["1/8"])


def token_task():
    """Characters, of which some are entities of two kinds."""
    _, tokenizer = trained()
    random = np.random.RandomState(0)
    rows = []
    for example in runs.dataset(40):
        ids = tokenizer(example["text"][:12])["input_ids"]
        labels = [-100, *random.randint(0, 5, len(ids) - 2).tolist(), -100]
        rows.append({"input_ids": ids, "token_type_ids": [0] * len(ids), "labels": labels})
    data = MapDataset(rows, label_list=["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    model = transformers.ErnieForTokenClassification(small(tokenizer, num_labels=5))
    return model, tokenizer, data, DataCollatorForTokenClassification(tokenizer)


def answer_task(kind: str = "Bert"):
    """Questions with their answers, in windows."""
    _, tokenizer = trained()
    texts = [example["text"] for example in runs.dataset(20)]
    examples = [
        {
            "question": "今天",
            "context": text,
            "answers": [text[row % 4 :][:2]],
            "answer_starts": [row % 4],
        }
        for row, text in enumerate(texts)
    ]
    data = MapDataset(convert_qa_examples(examples, tokenizer, 24, 8, 4))
    config = small(tokenizer, getattr(transformers, f"{kind}Config"))
    model = getattr(transformers, f"{kind}ForQuestionAnswering")(config)
    return model, tokenizer, data, DataCollatorWithPadding(tokenizer), examples


def small(tokenizer, kind=transformers.ErnieConfig, **config):
    runs.seed_everything(1)
    return kind(
        vocab_size=tokenizer.vocab_size,
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=64,
        **config,
    )


def compressor(directory, strategy="dynabert", task=None, **options) -> CompressTrainer:
    if task is None:
        model, tokenizer = trained()
        task = model, tokenizer, features(tokenizer), DataCollatorWithPadding(tokenizer)
    model, tokenizer, data, collator, *examples = task
    own = {
        name: options.pop(name)
        for name in ("model", "train_dataset", "eval_dataset", "criterion", "callbacks")
        if name in options
    }
    settings = {
        "strategy": strategy,
        "width_mult_list": ["1/2"],
        "algo_list": ["abs_max"],
        "batch_num_list": [2],
        "batch_size_list": [4],
        "max_steps": 3,
        "per_device_train_batch_size": 8,
        "learning_rate": 1e-3,
        "device": "cpu",
        "disable_tqdm": True,
        "report_to": [],
        **options,
    }
    own = {"model": model, "train_dataset": data, "eval_dataset": data, **own}
    if examples:
        own["eval_examples"] = examples[0]
    args = CompressionArguments(str(directory), **settings)
    return CompressTrainer(args=args, data_collator=collator, tokenizer=tokenizer, **own)


def test_dynabert_of_two_widths(tmp_path):
    trainer = compressor(tmp_path, width_mult_list=[0.75, "1/4"], max_steps=20, save_steps=7)
    before = runs.weights_digest(trainer.model)
    frame = trainer.compress()
    assert runs.weights_digest(trainer.model) == before
    assert frame["width"].tolist()[1:] == [0.75, 0.25]
    assert [str(path.relative_to(tmp_path)) for path in frame["path"]] == [
        "model",
        "width_mult_0.75/model",
        "width_mult_0.25/model",
    ]
    assert frame["score"].iloc[0] == 1.0 and frame["score"].min() > 0.9
    assert frame["megabytes"].is_monotonic_decreasing
    loaded = load_pruned(tmp_path / "width_mult_0.25")
    assert loaded.config.heads_per_layer == [1, 1]
    assert trainer._score(loaded) == frame["score"].iloc[2]
    AutoTokenizer.from_pretrained(str(tmp_path / "width_mult_0.25"))


def test_dynabert_twice_gives_the_same_bits(tmp_path):
    digests = set()
    for run in range(2):
        compressor(tmp_path / str(run)).compress()
        digests.add(runs.weights_digest(load_pruned(tmp_path / str(run) / "width_mult_0.5")))
    assert len(digests) == 1


@pytest.mark.parametrize("task", [token_task, answer_task])
def test_dynabert_of_other_tasks(task, tmp_path):
    trainer = compressor(tmp_path, "dynabert", task())
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


def test_the_metrics_of_entities_and_answers(tmp_path):
    task = token_task()
    trainer = compressor(tmp_path, task=task)
    assert trainer._score(Oracle(task[2], len(task[2]))) == 1
    assert 0 < trainer._score(Oracle(task[2], 20)) < 0.9

    *task, examples = answer_task()
    data = task[2]
    trainer = compressor(tmp_path, task=task)  # without the examples: positions are compared
    expected = np.mean(
        [
            all(row[name] == data[0][name] for name in ("start_positions", "end_positions"))
            for row in data
        ]
    )
    assert trainer._score(Oracle(data, 0)) == pytest.approx(expected)
    assert trainer._score(Oracle(data, len(data))) == 1
    trainer = compressor(tmp_path, task=[*task, examples])
    assert trainer._score(Oracle(data, len(data))) == 1
    assert trainer._score(Oracle(data, 5)) < 1


def sequence_task():
    _, tokenizer = trained()
    model = transformers.BertForSequenceClassification(small(tokenizer, transformers.BertConfig))
    return model, tokenizer, features(tokenizer), DataCollatorWithPadding(tokenizer)


FILES = {  # what each strategy leaves below output_dir, beside model
    "ptq": ["abs_max4_2/int8"],
    "qat": ["int8"],
    "ptq+embeddings": ["abs_max4_2/int8", "abs_max4_2/quant_emb"],
    "qat+embeddings": ["int8", "quant_emb"],
    "dynabert+embeddings": ["width_mult_0.5/model", "width_mult_0.5/quant_emb"],
    "dynabert+ptq": ["width_mult_0.5/model", "width_mult_0.5/abs_max4_2/int8"],
    "dynabert+qat": ["width_mult_0.5/model", "width_mult_0.5/int8"],
    "dynabert+ptq+embeddings": [
        "width_mult_0.5/model",
        "width_mult_0.5/abs_max4_2/int8",
        "width_mult_0.5/abs_max4_2/quant_emb",
    ],
    "dynabert+qat+embeddings": [
        "width_mult_0.5/model",
        "width_mult_0.5/int8",
        "width_mult_0.5/quant_emb",
    ],
}


@pytest.mark.parametrize("strategy", FILES)
def test_every_strategy(strategy, tmp_path):
    trainer = compressor(tmp_path, strategy, sequence_task())
    before = runs.weights_digest(trainer.model)
    frame = trainer.compress()
    assert runs.weights_digest(trainer.model) == before and trainer.model.training
    paths = [str(path.relative_to(tmp_path)) for path in frame["path"]]
    assert paths == ["model", *FILES[strategy]]
    assert frame["embeddings"].tolist() == ["quant_emb" in path for path in paths]
    assert (frame["megabytes"] > 0).all()
    batch = next(iter(trainer._loader(list(trainer.eval_dataset))))
    inputs = {name: batch[name].numpy() for name in ("input_ids", "token_type_ids")}
    outputs = [Predictor(path).run(inputs)[0] for path in frame["path"]]
    for path, output in zip(paths, outputs, strict=True):
        quantised = "int8" in path or ("emb" in path and strategy != "dynabert+embeddings")
        assert Predictor(tmp_path / path).quantised == quantised
        if "width" not in path and "qat" not in strategy:
            np.testing.assert_allclose(output, outputs[0], atol=0.05)


@pytest.mark.parametrize("task", [token_task, answer_task])
def test_quantisation_of_other_tasks(task, tmp_path):
    frame = compressor(tmp_path, "ptq", task()).compress()
    assert frame["score"].between(0, 1).all()
    assert Predictor(frame["path"].iloc[1]).quantised


def test_all_combinations_of_the_lists_are_tried(tmp_path):
    frame = compressor(
        tmp_path,
        "ptq",
        sequence_task(),
        algo_list=["abs_max", "avg"],
        batch_num_list=[1, None],
        batch_size_list=[4],
    ).compress()
    made = frame.iloc[1:]
    assert len(made) == 4 and set(made["algo"]) == {"abs_max", "avg"}
    assert all(path.with_name("int8.pdmodel").is_file() for path in made["path"])


def test_a_static_model_is_quantised(tmp_path):
    task = sequence_task()
    first = export_model(task[0], tmp_path / "given", name="my")
    trainer = compressor(
        tmp_path / "out", "ptq", task, input_infer_model_path=str(first), train_dataset=None
    )
    frame = trainer.compress()
    assert frame["path"].tolist() == [first, tmp_path / "out/abs_max4_2/int8"]
    assert not (tmp_path / "out/model.pdmodel").exists()


def test_functions_of_the_user(tmp_path):
    calls = []

    def evaluate(trainer, model, data_loader):
        calls.append((trainer, model.training))
        for batch in data_loader:
            labels = batch.pop("labels")
            assert model(**batch).shape == [len(labels), 2]
        model.train()
        return len(calls)

    trainer = compressor(tmp_path / "new", max_steps=4, save_steps=2)
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

    trainer = compressor(tmp_path / "old", criterion=paddle.nn.CrossEntropyLoss())
    frame = trainer.compress(
        custom_dynabert_evaluate=old_evaluate, custom_dynabert_calc_loss=calc_loss
    )
    assert frame["score"].tolist() == [0.25, 0.25] and "loss" in calls
    compressor(tmp_path / "plain", criterion=paddle.nn.CrossEntropyLoss()).compress(old_evaluate)
    digests = [
        runs.weights_digest(load_pruned(tmp_path / name / "width_mult_0.5"))
        for name in ("old", "plain")
    ]
    assert digests[0] == digests[1]  # the loss is the same, so the importance is
    with pytest.raises(InputError, match="custom_dynabert_evaluate too"):
        trainer.compress(evaluate, custom_dynabert_evaluate=old_evaluate)
    with pytest.raises(InputError, match="gives NoneType; expected one number"):
        trainer.compress(lambda trainer, model, loader: None)


def test_criteria_as_function_and_as_layer(tmp_path):
    class Squad(paddle.nn.Layer):
        def forward(self, outputs, labels):
            return squad(outputs, labels)

    def squad(outputs, labels):
        seen.append(len(labels))
        losses = [
            paddle.nn.functional.cross_entropy(one, label.unsqueeze(-1))
            for one, label in zip(outputs, labels, strict=True)
        ]
        return sum(losses) / 2

    for number, criterion in enumerate((squad, Squad())):
        seen = []
        trainer = compressor(tmp_path / str(number), task=answer_task(), criterion=criterion)
        trainer.compress()
        assert seen and set(seen) == {2}


def test_training_arguments_are_obeyed(tmp_path):
    class Steps(TrainerCallback):
        def on_train_begin(self, args, state, control, optimizer=None, **kwargs):
            seen.append((state.max_steps, args.per_device_train_batch_size, optimizer))

    seen = []
    compressor(
        tmp_path,
        max_steps=-1,
        num_train_epochs=2,
        weight_decay=0.1,
        max_grad_norm=0.5,
        adam_beta1=0.8,
        callbacks=[Steps()],
    ).compress()
    ((steps, batch, optimizer),) = seen
    assert (steps, batch) == (10, 8)  # 40 rows, of which 4 are held out: 5 batches an epoch
    assert optimizer._beta1 == 0.8 and optimizer._grad_clip.clip_norm == 0.5
    assert not (tmp_path / "checkpoint-10").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategy": "prune"}, "strategy: is 'prune'; expected one of dynabert, ptq"),
        ({"strategy": "ptq+qat"}, "strategy: is 'ptq.qat'"),
        ({"strategy": "embeddings"}, "strategy: is 'embeddings'"),
        ({"width_mult_list": ["1/8"]}, "of 4 heads leaves none"),
        ({"width_mult_list": ["2"]}, "width: is '2'; expected above 0 and at most 1"),
        ({"width_mult_list": ["3/4", "0.75"]}, "gives one directory twice"),
        ({"eval_dataset": None}, "eval_dataset: is None"),
        ({"eval_dataset": MapDataset([])}, "eval_dataset: has 0 rows"),
        ({"train_dataset": None}, "train_dataset: is None"),
        ({"strategy": "qat", "train_dataset": None}, "train_dataset: is None"),
        ({"train_dataset": TensorDataset([paddle.ones([4, 3])])}, "is a TensorDataset"),
        ({"strategy": "ptq", "eval_dataset": TensorDataset([paddle.ones([4, 3])])}, "TensorData"),
        ({"strategy": "ptq", "algo_list": ["best"]}, "algo: is 'best'"),
        ({"strategy": "ptq", "weight_quantize_type": "x"}, "weight_quantize_type: is 'x'"),
        ({"strategy": "ptq", "round_type": "adaround"}, "round_type: 'adaround' does not work"),
        ({"strategy": "ptq", "batch_size_list": [0]}, "batch_size_list: is 0"),
        ({"strategy": "qat", "moving_rate": 2.0}, "moving_rate: is 2.0"),
        ({"strategy": "qat", "activation_quantize_type": "x"}, "activation_quantize_type: is 'x'"),
        ({"onnx_format": False, "strategy": "ptq"}, "onnx_format: is off"),
        ({"recompute": True}, "recompute: is on"),
        ({"prune_embeddings": True}, "prune_embeddings: is on"),
        ({"input_dtype": "int32"}, "input_dtype: is 'int32'"),
        ({"input_infer_model_path": "a/b"}, "a static model cannot be trained"),
        ({"input_infer_model_path": "a/b", "strategy": "ptq"}, "there is no a/b.pdmodel"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_done(changes, message, tmp_path):
    trainer = compressor(tmp_path, **changes)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=message):
        trainer.compress()
    assert sorted(tmp_path.iterdir()) == before


def test_models_that_cannot_be_compressed_are_refused(tmp_path):
    model, tokenizer = trained()
    data, collator = features(tokenizer), DataCollatorWithPadding(tokenizer)
    for strategy in ("dynabert", "ptq", "qat"):
        trainer = compressor(tmp_path, strategy, (model.ernie, tokenizer, data, collator))
        with pytest.raises(InputError, match=r"ErnieModel: .*head"):
            trainer.compress()
    masked = transformers.ErnieForMaskedLM(small(tokenizer))
    trainer = compressor(tmp_path, "ptq", (masked, tokenizer, data, collator))
    with pytest.raises(InputError, match="there is no metric for ErnieForMaskedLM"):
        trainer.compress()
    args = TrainingArguments(str(tmp_path))
    with pytest.raises(InputError, match="args: are TrainingArguments"):
        CompressTrainer(model=model, args=args, eval_dataset=data).compress()
