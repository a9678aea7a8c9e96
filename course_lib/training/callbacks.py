"""Callbacks of a Trainer: tokens per second, one bar and one figure, and exact steps."""

import logging
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data import ResumableBatchSampler
from .reproducibility import seed_step

from paddlenlp.trainer import TrainerCallback
from paddlenlp.trainer.integrations import VisualDLCallback
from paddlenlp.trainer.trainer_callback import TrainerState
from tqdm.auto import tqdm


class ExactSteps(TrainerCallback):
    """Make each epoch's order and each step's dropout depend on their numbers alone."""

    def __init__(self, trainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args, state, control, **kwargs):
        resumed = self.trainer.resumed
        self.trainer.restore_losses(state.global_step)
        if resumed is None:
            return
        for callback in self.trainer.callback_handler.callbacks:
            if isinstance(callback, VisualDLCallback):  # whose page shows the newest file only
                for logs in state.log_history:
                    then = replace(state, global_step=logs["step"])
                    values = {name: value for name, value in logs.items() if name != "step"}
                    callback.on_log(args, then, control, logs=values)
        best = state.best_model_checkpoint
        if best is not None and not Path(best).is_dir():
            problem = f"{best} was the best checkpoint and is gone: the best is chosen from here on"
            warnings.warn(problem, stacklevel=2)
            state.best_model_checkpoint = state.best_metric = None

    def on_epoch_begin(self, args, state, control, train_dataloader=None, optimizer=None, **kwargs):
        # Batches that do not fill the last accumulation of an epoch leave a gradient behind, which
        # upstream adds to the next step, and no checkpoint holds.
        optimizer.clear_grad()
        self.trainer.batch_losses = 0.0
        sampler = getattr(train_dataloader, "batch_sampler", None)
        if isinstance(sampler, ResumableBatchSampler):  # upstream skips the used batches itself
            updates = max(len(train_dataloader) // args.gradient_accumulation_steps, 1)
            sampler.set_epoch(state.global_step // updates)

    def on_step_begin(self, args, state, control, **kwargs):
        seed_step(args.seed + 1_000_003 * args.dataset_rank, state.global_step)

    def on_step_end(self, args, state, control, **kwargs):
        self.trainer.unlogged_loss = self.trainer.unlogged_loss + self.trainer.batch_losses
        self.trainer.batch_losses = 0.0


class ThroughputCallback(TrainerCallback):
    """Count the real tokens, the padding and the seconds of the batches that were trained on.

    Tokens are counted by a two-dimensional "attention_mask", or by the tokenizer's `pad_token_id`.
    A batch that a resume skips does not count, nor does the time of evaluating, logging and saving.
    Every log of a training loss gets "tokens_per_second" and "padding_share" (0 to 1).

    Attributes:
        real_tokens, padded_tokens: counts so far, in this process; the second is rows x longest.
        seconds: of wall time.
    """

    def __init__(self) -> None:
        self.on_train_begin(None, None, None)

    def on_train_begin(self, args, state, control, **kwargs):
        self.real_tokens = self.padded_tokens = 0
        self.seconds = 0.0
        self._loaded: Any = None  # real tokens and all, of the batch that is at work
        self._since = time.perf_counter()

    @property
    def tokens_per_second(self) -> float:
        return self.real_tokens / self.seconds if self.seconds else 0.0

    @property
    def padding_share(self) -> float:
        return 1 - self.real_tokens / self.padded_tokens if self.padded_tokens else 0.0

    def on_load_data_end(self, args, state, control, inputs=None, model=None, **kwargs):
        if self._loaded is not None:  # the batch before was skipped
            self._since = time.perf_counter()
        mask = inputs.get("attention_mask")
        if mask is None or mask.ndim != 2:
            owner = kwargs.get("tokenizer") or model.config
            mask = inputs["input_ids"] != owner.pad_token_id
        self._loaded = int((mask != 0).sum()), int(mask.size)

    def on_substep_end(self, args, state, control, **kwargs):
        now = time.perf_counter()
        self.seconds += now - self._since
        self._since = now
        self.real_tokens += self._loaded[0]
        self.padded_tokens += self._loaded[1]
        self._loaded = None

    on_step_end = on_substep_end

    def _pause(self, *args, **kwargs):
        self._since = time.perf_counter()

    on_epoch_begin = on_evaluate = on_save = _pause

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs is not None and ("loss" in logs or "train_loss" in logs):
            rates = {"tokens_per_second": round(self.tokens_per_second, 1)}
            rates["padding_share"] = round(self.padding_share, 4)
            logs.update(rates)
            state.log_history[-1].update(rates)
        self._pause()


class NotebookProgressCallback(TrainerCallback):
    """One progress bar, and at the end one figure (`figure`); paddlenlp logs warnings only.

    Args:
        chance: accuracy of guessing, a line in the figure.
    """

    def __init__(self, chance: float | None = None) -> None:
        self.chance, self.figure, self.bar = chance, None, None

    def on_init_end(self, args, state, control, **kwargs):
        logging.getLogger("PaddleNLP").setLevel(logging.WARNING)

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            self.bar = tqdm(total=state.max_steps, initial=state.global_step, unit="step")

    def on_step_end(self, args, state, control, **kwargs):
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)

    def on_log(self, args, state, control, logs=None, **kwargs):
        shown = {k: v for k, v in logs.items() if k in ("loss", "eval_loss", "eval_accuracy")}
        if self.bar is not None and shown:
            self.bar.set_postfix(shown)

    def on_train_end(self, args, state, control, **kwargs):
        if self.bar is None:
            return
        self.bar.close()
        self.bar = None
        history = trainer_history(state)
        if history["loss"]:
            from ..notebook.figures import learning_curves  # slow to import

            from IPython import get_ipython
            from IPython.display import display

            self.figure = learning_curves(history, self.chance)
            if get_ipython() is not None:
                display(self.figure)


def trainer_history(state: TrainerState) -> dict[str, list[float]]:
    """What a Trainer has logged, in the form of `fit`'s history.

    A logged loss is a mean over `logging_steps` steps; it is repeated for each of them. Accuracies
    are there when every evaluation has one.
    """
    losses: list[float] = []
    evaluations = {}
    for entry in state.log_history:
        if "loss" in entry:
            losses += [entry["loss"]] * (entry["step"] - len(losses))
        if "eval_loss" in entry:
            evaluations[entry["step"]] = entry
    history = {
        "loss": losses,
        "epoch_step": list(evaluations),
        "dev_loss": [entry["eval_loss"] for entry in evaluations.values()],
    }
    accuracies = [e["eval_accuracy"] for e in evaluations.values() if "eval_accuracy" in e]
    history["dev_accuracy"] = accuracies if len(accuracies) == len(evaluations) else []
    return history
