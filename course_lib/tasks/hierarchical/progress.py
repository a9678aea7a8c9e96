"""What a training says on standard error while it runs."""

from __future__ import annotations

import logging
import sys

import course_lib  # noqa: F401 - before paddle

from paddlenlp.trainer import TrainerCallback


class Lines(TrainerCallback):
    """A line each time the Trainer logs; PaddleNLP's own are kept to warnings from here on."""

    def __init__(self) -> None:
        logging.getLogger("PaddleNLP").setLevel(logging.WARNING)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not state.is_world_process_zero:
            return
        names = ("loss", "eval_loss", "eval_micro_f1", "eval_macro_f1")
        shown = [f"{name} {logs[name]:.4f}" for name in names if name in logs]
        if shown:
            step = f"step {state.global_step}/{state.max_steps}"
            print(f"{step}: {', '.join(shown)}", file=sys.stderr, flush=True)
