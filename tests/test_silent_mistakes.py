"""Mistakes that would give a wrong result without a word, and are refused by name."""

from __future__ import annotations

import course_lib  # noqa: F401
from course_lib.compression import cut, reorder
from course_lib.runtime import InputError
from course_lib.training import create_optimizer, decode_answers, evaluate, exact_match, fit
from course_lib.training.metrics import span_counts
from course_lib.training.pretraining import create_pretraining_dataloader
from course_lib.training.steps import train_steps

import numpy as np
import paddle
import pytest
import training_runs as runs

# ---- training


@pytest.fixture(scope="module")
def parts():
    model, tokenizer = runs.model_and_tokenizer(num_hidden_layers=1)
    return model, *runs.loaders(tokenizer, 16)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs: is 0; expected a whole number of at least 1"),
        ({"epochs": 1.5}, "epochs: is 1.5"),
        ({"max_steps": 0}, "max_steps: is 0"),
        ({"keep_checkpoints": 0}, "keep_checkpoints: is 0"),
        ({"checkpoint_every": -1}, "checkpoint_every: is -1"),
        ({"early_stopping": 0}, "early_stopping: is 0"),
        ({"early_stopping": 1, "dev": False}, "early_stopping: has nothing to watch"),
        ({"monitor": "dev_f1"}, "monitor: is 'dev_f1'; expected one of dev_accuracy, dev_loss"),
        ({"warmup": 100.0}, "warmup: is 100.0; expected a share from 0 to 1, or steps"),
        ({"warmup": -0.1}, "warmup: is -0.1"),
        ({"warmup": -3}, "warmup: is -3"),
    ],
)
def test_settings_of_a_training(parts, settings, message):
    model, train, dev = parts
    dev = dev if settings.pop("dev", True) else None
    with pytest.raises(InputError, match=message):
        fit(model, train, dev, progress=False, **settings)


def frozen():
    layer = paddle.nn.Linear(2, 2)
    for parameter in layer.parameters():
        parameter.stop_gradient = True
    return layer


FEATURES = [{"example": 0, "offset_mapping": [None, (0, 1), None]}]
LOGITS = np.zeros((1, 3))
SEQUENCES = [(np.arange(5), np.ones(5, bool))]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda model: create_optimizer(frozen(), 1e-3, 10),
            "Linear: has no parameter",
        ),
        (lambda model: train_steps(frozen(), [], len, 1, 1e-3), "has no parameter that learns"),
        (
            lambda model: decode_answers(LOGITS, LOGITS, FEATURES, [{"context": "天"}], 0),
            "max_answer_length: is 0",
        ),
        (
            lambda model: decode_answers(LOGITS, LOGITS, FEATURES, [{"context": "天"}], n_best=0),
            "n_best: is 0",
        ),
        (lambda model: exact_match("", []), r"answers: is \[\]"),
        (lambda model: span_counts([[1]], [[1, 2, 2]], 1), "1 labels and 3 predictions"),
        (
            lambda model: create_pretraining_dataloader(SEQUENCES, None, mask_rate=0),
            "mask_rate: is",
        ),
        (lambda model: create_pretraining_dataloader(SEQUENCES, None, mask_rate=1.5), "mask_rate"),
        (lambda model: create_pretraining_dataloader(SEQUENCES, None, mask_rate="x"), "mask_rate"),
        (
            lambda model: cut(model, [[0, -1]], [range(32)]),
            r"heads: are \[0, -1\]; expected",
        ),
        (lambda model: cut(model, [[0, 2]], [range(32)]), "heads: are .* numbers from 0 to 1"),
        (lambda model: cut(model, [[0]], [[3, 3]]), r"neurons: are \[3, 3\]"),
        (lambda model: reorder(model, np.ones((1, 1)), np.ones((1, 32))), "heads: have an import"),
    ],
)
def test_values_that_make_no_sense(parts, call, message):
    with pytest.raises(ValueError, match=message):
        call(parts[0])


def test_scores_of_tokens_are_not_those_of_a_row():
    model = paddle.nn.Embedding(9, 3)  # scores [N, L, 3]
    with pytest.raises(ValueError):
        evaluate(model, [[paddle.zeros([2, 4], "int64"), paddle.to_tensor([5, 7])]])
