"""Trainers of a tiny ERNIE that the tests of the Trainer share, in this process or in another.

`python tests/tiny_trainer.py DIRECTORY '{"max_steps": 4, ...}'` trains in DIRECTORY. With "kill",
the number of a step, a child of the process is killed after that step, and the process resumes.
"""

import json
import os
import signal
import sys
from pathlib import Path

from course_lib.data import convert_example
from course_lib.training import CourseTrainer

import paddle
import training_runs as runs
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.trainer import TrainerCallback, TrainingArguments

ROWS, BATCH, STEPS = 20, 8, 8  # 3 batches an epoch, the last one smaller: almost three epochs
TRAINERS = (  # options that are a Trainer's own; all others are TrainingArguments
    "model",
    "data_collator",
    "criterion",
    "callbacks",
    "eval_dataset",
    "compute_metrics",
    "group_by_length",
)


def features(tokenizer, rows: int = ROWS) -> list[dict]:
    return [convert_example(row, tokenizer, 32, return_dict=True) for row in runs.dataset(rows)]


def build(
    directory,
    kind=CourseTrainer,
    rows=ROWS,
    features=None,
    extra_layers=0,
    dropout=0.1,
    config=None,
    **options,
):
    """A Trainer of a tiny ERNIE with dropout; `options` go to it or to its arguments."""
    for _ in range(extra_layers):
        paddle.nn.Linear(2, 2)
    model, tokenizer = runs.model_and_tokenizer(
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, **(config or {})
    )
    own = {name: options.pop(name) for name in TRAINERS if name in options}
    settings = {
        "per_device_train_batch_size": BATCH,
        "max_steps": STEPS,
        "learning_rate": 3e-3,
        "logging_steps": 1,
        "save_steps": 2,
        "disable_tqdm": True,
        "report_to": [],
        **options,
    }
    return kind(
        args=TrainingArguments(output_dir=str(directory), **settings),
        train_dataset=globals()["features"](tokenizer, rows) if features is None else features,
        **{"model": model, "data_collator": DataCollatorWithPadding(tokenizer), **own},
    )


def losses(trainer) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


class Killer(TrainerCallback):
    """End the process as a power cut would, when step `step` is over."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    directory, options = sys.argv[1], {"group_by_length": True, **json.loads(sys.argv[2])}
    resume, step = None, options.pop("kill", None)
    if step is not None:
        # Importing Paddle takes most of the time, so both processes share it. Nothing has been
        # computed: a fork of a process that has used several threads could not train.
        child = os.fork()
        if child == 0:
            build(directory, callbacks=[Killer(step)], **options).train()
            os._exit(1)
        died = os.WTERMSIG(os.waitpid(child, 0)[1])
        print("killed by", died, "with", sorted(path.name for path in Path(directory).iterdir()))
        resume, options["extra_layers"] = True, 3
    trainer = build(directory, **options)
    trainer.train(resume)
    print("losses", json.dumps(losses(trainer)))
    print(runs.weights_digest(trainer.model))
