"""A tiny model, a batch and some steps that the tests of the recipes about training share."""

from course_lib.training.loop import seed_step
from course_lib.training.steps import accumulate

import training_runs as task

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def build(**config):
    return task.model_and_tokenizer(**config)[0]


def tokenizer():
    return task.model_and_tokenizer()[1]


def batch(rows: int = 8):
    return next(iter(task.loaders(tokenizer(), rows)[0]))


def some_steps(model, batch, optimizer, steps=1, schedule=None, first=0):
    for step in range(first, first + steps):
        seed_step(3, step)
        accumulate(model, batch, 1)
        optimizer.step()
        optimizer.clear_grad()
        if schedule is not None:
            schedule.step()
