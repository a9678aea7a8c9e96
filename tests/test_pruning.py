"""Pruning: importance against finite differences, cut models against masked ones; distillation."""

import json
import shutil

from course_lib.compression import (
    cut,
    importance,
    load_pruned,
    masks,
    narrow,
    narrowed,
    prune,
    reorder,
    soft_cross_entropy,
)
from course_lib.compression.distillation import DistillTrainer, _hidden_error
from course_lib.models import freeze_layers, load_backbone, save_model
from course_lib.runtime import InputError, seed_everything

import compression_tasks as tasks
import numpy as np
import paddle
import paddlenlp.transformers as transformers
import pytest
import training_runs as runs
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.trainer import TrainingArguments
from scipy.special import log_softmax, softmax

# ---- pruning: importance against finite differences, cut models against masked ones


LAYERS, HEADS, NEURONS, LENGTH = 2, 4, 12, 9
KINDS = [
    f"{family}For{task}"
    for family in ("Ernie", "Bert")
    for task in ("SequenceClassification", "TokenClassification", "QuestionAnswering")
]
OTHERS = ["RobertaForSequenceClassification", "ElectraForTokenClassification"]
HIDDEN = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": NEURONS,
    "max_position_embeddings": 32,
    "initializer_range": 0.4,  # large, so that masking a part changes the output visibly
}


def build(kind: str = "ErnieForSequenceClassification", **config):
    seed_everything(3)
    cls = getattr(transformers, kind)
    labels = {} if "Question" in kind else {"num_labels": 3}
    model = cls(cls.config_class(**{**HIDDEN, **labels, **config}))
    for parameter in model.parameters():  # biases and norms too: zeros would hide mistakes
        parameter.set_value(parameter + paddle.normal(std=0.1, shape=parameter.shape))
    model.eval()
    return model


def batch(kind: str = "ErnieForSequenceClassification", rows: int = 4, seed: int = 0) -> dict:
    random = np.random.RandomState(seed)
    ids = random.randint(1, 40, [rows, LENGTH])
    ids[1, 6:] = 0
    features = {"input_ids": ids, "token_type_ids": np.zeros_like(ids)}
    if "Question" in kind:
        for name in ("start_positions", "end_positions"):
            features[name] = random.randint(0, 6, [rows])
    else:
        features["labels"] = random.randint(0, 3, ids.shape if "Token" in kind else [rows])
    return {name: paddle.to_tensor(value) for name, value in features.items()}


def outputs(model, kind: str) -> list[np.ndarray]:
    inputs = {k: v for k, v in batch(kind).items() if k in ("input_ids", "token_type_ids")}
    with paddle.no_grad():
        result = model(**inputs)
    return [one.numpy() for one in (result if isinstance(result, tuple) else (result,))]


def worth(seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    return random.rand(LAYERS, HEADS), random.rand(LAYERS, NEURONS)


def ones() -> list[np.ndarray]:
    return [np.ones([LAYERS, count], "float32") for count in (HEADS, NEURONS)]


def test_importance_is_the_derivative_by_a_mask():
    model, data = build(), batch()
    tables = importance(model, [data])
    inputs = {name: data[name] for name in ("input_ids", "token_type_ids")}

    def losses(part: int, layer: int, index: int, value: float) -> np.ndarray:
        given = ones()
        given[part][layer, index] = value
        with paddle.no_grad(), masks(model, *given):
            logits = model(**inputs)
        return paddle.nn.functional.cross_entropy(logits, data["labels"], reduction="none").numpy()

    step = 1e-2
    for part, table in enumerate(tables):
        assert (table > 0).all()
        for layer, index in np.ndindex(table.shape):
            up, down = (losses(part, layer, index, 1 + sign * step) for sign in (1, -1))
            expected = np.abs((up - down) / (2 * step)).sum()
            assert table[layer, index] == pytest.approx(expected, rel=2e-2, abs=2e-3)


def test_importance_does_not_depend_on_the_batches_and_leaves_the_model_alone():
    model, data = build(hidden_dropout_prob=0.5), batch(rows=6)
    model.train()
    model.classifier.weight.stop_gradient = True
    freeze_layers(model, 1)
    before = runs.weights_digest(model)
    whole = importance(model, [data])
    halves = [{name: v[first : first + 3] for name, v in data.items()} for first in (0, 3)]
    halved = importance(model, halves)
    for one, other in zip(whole, halved, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert runs.weights_digest(model) == before
    assert model.ernie.encoder.layers[0].norm1.weight.stop_gradient
    assert model.training and model.classifier.weight.stop_gradient
    assert not model.ernie.pooler.dense.weight.stop_gradient
    assert all(parameter.grad is None for parameter in model.parameters())
    tuples = importance(model, [tuple(data.values())])
    np.testing.assert_array_equal(tuples[0], whole[0])


def test_importance_takes_a_loss_of_the_user_and_all_heads():
    for kind in KINDS:
        heads, neurons = importance(build(kind), [batch(kind)])
        assert heads.shape == (LAYERS, HEADS) and neurons.shape == (LAYERS, NEURONS)
        assert (heads > 0).all()
    kind = "ErnieForQuestionAnswering"

    def criterion(outputs, labels):
        first, second = map(paddle.nn.functional.cross_entropy, outputs, labels)
        return first + 0.01 * second

    other = importance(build(kind), [batch(kind)], criterion)
    assert not np.allclose(other[0], importance(build(kind), [batch(kind)])[0], rtol=0.1)


@pytest.mark.parametrize("kind", KINDS + OTHERS)  # built of the same encoder
@pytest.mark.parametrize("width", [0.75, "1/4"])
def test_a_pruned_model_gives_what_the_masked_one_gives(kind, width, tmp_path):
    model, (heads, neurons) = build(kind), worth()
    before = runs.weights_digest(model)
    pruned = prune(model, width, heads, neurons)
    assert type(pruned) is type(model) and runs.weights_digest(model) == before
    share = 0.75 if width == 0.75 else 0.25
    assert pruned.config.heads_per_layer == [int(HEADS * share)] * LAYERS
    assert pruned.config.neurons_per_layer == [int(NEURONS * share)] * LAYERS
    layer = pruned.base_model.encoder.layers[1]
    head_dim = 16 // HEADS
    assert layer.self_attn.head_dim == head_dim
    assert layer.self_attn.q_proj.weight.shape == [16, int(HEADS * share) * head_dim]
    assert layer.linear2.weight.shape == [int(NEURONS * share), 16]

    given = ones()
    for mask, table in zip(given, (heads, neurons), strict=True):
        drop = table.shape[1] - int(table.shape[1] * share)
        for row, values in zip(mask, table, strict=True):
            row[np.argsort(values)[:drop]] = 0
    with masks(model, *given):
        masked = outputs(model, kind)
    result = outputs(pruned, kind)
    for one, other in zip(result, masked, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert (
        max(np.abs(a - b).max() for a, b in zip(result, outputs(model, kind), strict=True)) > 0.01
    )

    pruned.save_pretrained(str(tmp_path))
    loaded = load_pruned(tmp_path)
    assert type(loaded) is type(model) and loaded.config.heads_per_layer is not None
    for one, other in zip(result, outputs(loaded, kind), strict=True):
        np.testing.assert_array_equal(one, other)


def test_reordering_changes_nothing_and_puts_the_best_first():
    model, (heads, neurons) = build(), worth()
    ordered = reorder(model, heads, neurons)
    np.testing.assert_allclose(outputs(ordered, "")[0], outputs(model, "")[0], atol=1e-5)
    first = cut(ordered, [range(2)] * LAYERS, [range(6)] * LAYERS)
    np.testing.assert_allclose(
        outputs(first, "")[0], outputs(prune(model, 0.5, heads, neurons), "")[0], atol=1e-5
    )


def test_layers_of_different_sizes_are_saved_and_loaded(tmp_path):
    model = cut(build(), [[3], [0, 2]], [range(5), [11]])
    model.save_pretrained(str(tmp_path))
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings["heads_per_layer"] == [1, 2] and settings["neurons_per_layer"] == [5, 1]
    assert settings["num_attention_heads"] == HEADS  # which says how wide a head is
    np.testing.assert_array_equal(outputs(load_pruned(tmp_path), ""), outputs(model, ""))


def test_a_pruned_model_trains_on(tmp_path):
    model, tokenizer = runs.model_and_tokenizer()
    random = np.random.RandomState(0)
    pruned = prune(model, 0.5, random.rand(2, 2), random.rand(2, 32))
    train_loader, _ = runs.loaders(tokenizer)
    inputs = next(iter(train_loader))
    pruned.train()
    paddle.nn.functional.cross_entropy(pruned(*inputs[:2]), inputs[2]).backward()
    unused = ("k_proj.bias",)  # a constant on all keys: softmax does not see it
    for name, parameter in pruned.named_parameters():
        assert parameter.grad is not None, name
        assert name.endswith(unused) or float(parameter.grad.abs().max()) > 0, name
    pruned.clear_gradients()
    history = runs.fit(pruned, train_loader, epochs=10, learning_rate=1e-2, progress=False)
    assert np.mean(history["loss"][-5:]) < np.mean(history["loss"][:5]) - 0.1

    save_model(pruned, tokenizer, tmp_path / "small")
    with pytest.raises(InputError, match=r"small: holds a pruned model.*load_pruned"):
        load_backbone(tmp_path / "small")
    loaded = load_pruned(tmp_path / "small")
    assert runs.weights_digest(loaded) == runs.weights_digest(pruned)
    assert loaded.config.id2label == {0: "negative", 1: "positive"}
    assert transformers.AutoTokenizer.from_pretrained(str(tmp_path / "small"))("好")
    again = prune(loaded, 1, np.ones([2, 1]), np.ones([2, 16]))  # a cut one is cut as any other
    assert runs.weights_digest(again) == runs.weights_digest(loaded)


def test_widths_that_keep_nothing_are_refused():
    model, (heads, neurons) = build(), worth()
    for width in (0, -1, 1.5, "3/0", float("nan")):
        with pytest.raises(InputError, match=r"width: is .*above 0 and at most 1"):
            prune(model, width, heads, neurons)
    with pytest.raises(InputError, match=r"0\.2 of 4 heads leaves none"):
        prune(model, 0.2, heads, neurons)


def test_models_that_cannot_be_pruned_are_refused():
    for model, message in (
        (build().ernie, "ErnieModel: is a bare encoder"),
        (paddle.nn.Linear(2, 2), r"Linear: has no encoder\.layers"),
    ):
        with pytest.raises(InputError, match=message):
            prune(model, 0.5, *worth())


def test_importance_of_nothing_is_refused():
    model, data = build(), batch()
    with pytest.raises(InputError, match="at least one batch"):
        importance(model, [])
    with pytest.raises(InputError, match="is nan on a batch"):
        importance(model, [data], lambda logits, labels: logits.mean() * float("nan"))
    del data["labels"]
    with pytest.raises(InputError, match="has the columns input_ids, token_type_ids only"):
        importance(model, [data])


def test_directories_that_do_not_fit_are_refused(tmp_path):
    good = tmp_path / "good"
    prune(build(), 0.5, *worth()).save_pretrained(str(good))

    def broken(name: str, **changes):
        directory = tmp_path / name
        shutil.copytree(good, directory)
        settings = json.loads((directory / "config.json").read_text())
        (directory / "config.json").write_text(json.dumps({**settings, **changes}))
        return directory

    with pytest.raises(InputError, match=r"config\.json: no ErnieFor\w+ can be built of it"):
        load_pruned(broken("a", heads_per_layer=[2]))
    with pytest.raises(InputError, match=r"neurons: are \[0, 1"):
        load_pruned(broken("b", neurons_per_layer=[6, 99]))
    with pytest.raises(InputError, match=r"k_proj.* is .* there and"):
        load_pruned(broken("c", heads_per_layer=[3, 2]))
    with pytest.raises(InputError, match="names the class 'MyOwn'"):
        load_pruned(broken("d", architectures=["MyOwn"]))
    with pytest.raises(InputError, match=r"has no config\.json"):
        load_pruned(tmp_path)
    (good / "model_state.pdparams").unlink()
    with pytest.raises(InputError, match="has no weights"):
        load_pruned(good)


# ---- distillation: its losses by NumPy, narrowed models against cut ones, several widths at once


def distil(directory, student, teacher, tokenizer, widths, steps=6, **options):
    settings = {"per_device_train_batch_size": 8, "max_steps": steps, "learning_rate": 3e-3}
    settings |= {"save_strategy": "no", "disable_tqdm": True, "report_to": []}
    trainer = DistillTrainer(
        model=student,
        args=TrainingArguments(str(directory), **settings),
        train_dataset=tasks.features(tokenizer),
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
    error = _hidden_error([tensors[0]] * 2, [tensors[1]] * 2, paddle.to_tensor(mask))
    expected = ((student - teacher) ** 2)[:, :3].mean()
    assert float(error) == pytest.approx(expected, rel=1e-5)
    assert float(_hidden_error(tensors[:1], tensors[:1], paddle.to_tensor(mask))) == 0


def test_a_narrowed_model_is_the_cut_one_and_trains_the_whole_ones_weights():
    model, tokenizer = runs.model_and_tokenizer(**tasks.CONFIG, initializer_range=0.3)
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
    teacher, tokenizer = tasks.trained()
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
        teacher, tokenizer = runs.model_and_tokenizer(**tasks.CONFIG)  # with dropout
        paddle.rand([run + 1])  # another global state
        student = reorder(teacher, np.ones([2, 4]), np.ones([2, 32]))
        distil(tmp_path / str(run), student, teacher, tokenizer, [1, 0.5], steps=4)
        digests.append(runs.weights_digest(student))
    assert digests[0] == digests[1] != runs.weights_digest(teacher)


def test_teachers_that_do_not_fit_are_refused(tmp_path):
    student, tokenizer = runs.model_and_tokenizer(**tasks.CONFIG)
    other, _ = runs.model_and_tokenizer(**tasks.CONFIG, num_hidden_layers=1)
    with pytest.raises(InputError, match="teacher: has 1 layers of 24 for 2 of 24"):
        distil(tmp_path, student, other, tokenizer, [1])
    distil(tmp_path, student, other, tokenizer, [1], steps=1, hidden_weight=0)
