"""Distillation: its losses by NumPy, narrowed models against cut ones, several widths at once."""

import course_lib  # noqa: F401
from course_lib.compression import importance, narrow, narrowed, prune, reorder, soft_cross_entropy
from course_lib.compression.distillation import DistillTrainer, _hidden_error
from course_lib.runtime import InputError

import compression_tasks as tasks
import numpy as np
import paddle
import pytest
import training_runs as runs
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.trainer import TrainingArguments
from scipy.special import log_softmax, softmax


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
