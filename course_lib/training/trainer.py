"""PaddleNLP's Trainer with exact resumption, batches of like length and errors in words.

Everything else is upstream's: arguments, evaluation, logs, prediction, early stopping. Line numbers
in comments are those of paddlenlp 2.8.1's trainer/trainer.py.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
import numbers
import os
import re
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from course_lib.data import LengthGroupedBatchSampler, ResumableBatchSampler
from course_lib.models.backbone import check_same_labels
from course_lib.models.files import (
    WEIGHT_FILES,
    check_weights,
    find_weights,
    read_weights,
    save_pretrained,
    shapes_of,
    weight_shapes,
    write_weights,
)
from course_lib.models.patches import checked_pickles, quiet_paddlenlp
from course_lib.models.pickles import read_pickle
from course_lib.runtime import InputError, atomic_file, check_writable
from course_lib.runtime.errors import whole
from course_lib.runtime.manifest import check_described, describe_files, verify_files
from course_lib.training.checkpoint import model_arrays, optimizer_arrays, restore_optimizer
from course_lib.training.loop import seed_step
from course_lib.training.prediction import NO_NUMBERS

import numpy as np
import paddle
from paddlenlp.peft import LoRAModel, PrefixModelForCausalLM
from paddlenlp.trainer import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from paddlenlp.trainer.integrations import VisualDLCallback
from paddlenlp.trainer.trainer import TRAINER_STATE_NAME
from paddlenlp.trainer.trainer_callback import PrinterCallback, ProgressCallback, TrainerState
from paddlenlp.trainer.trainer_utils import IntervalStrategy, has_length
from paddlenlp.transformers import PretrainedModel
from tqdm.auto import tqdm

Columns = tuple[dict[str, list[np.ndarray]], list[int]]  # labels by column, lengths of input_ids
POSITIONS = ("start_positions", "end_positions")
SEAL = "course.json"  # written last into a checkpoint: what lacks it, or differs, is not whole
WEIGHTS, OPTIMIZER, SCHEDULER = "model.safetensors", "optimizer.safetensors", "scheduler.json"
PICKLES = ("model_state.pdparams", "optimizer.pdopt", "scheduler.pdparams")  # of a stock Trainer
IGNORED = -100
_NAMED = inspect.Parameter.POSITIONAL_OR_KEYWORD
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_OWN = re.compile(  # what a Trainer, a tokenizer, an export or VisualDL writes
    r"runs|(manifest|scheduler|run)\.json|checkpoint-\d+|\..*|(.*_)?(config|state|map|results|tokens|args)\.json|vocab\.(txt|json)"
    r"|.*\.(pdparams|pdopt|pdmodel|pdiparams|pdiparams\.info|safetensors|pth)|training_args\.bin"
    r"|sentencepiece\..*|spiece\.model|merges\.txt|tokenizer\.json"
)


class CourseTrainer(Trainer):
    """A Trainer whose killed runs, resumed, end with the same bits as unbroken ones.

    It takes the arguments of `paddlenlp.trainer.Trainer`, in the same order. What differs:

    - The order of the examples is a function of (seed, epoch) and dropout masks are one of (seed,
      step). Upstream draws both from global random states, which a resume does not bring back.
    - Adam's moments are found again by the structure of the model and not by generated names, so
      it does not matter which layers a process built before it resumes.
    - `resume_from_checkpoint=True` takes the newest checkpoint that is whole; a kill while one is
      written does no harm.
    - The totals of a resumed run (losses, their mean, VisualDL's page) are those of the whole run,
      its speeds those of this process; a run that had ended, or stopped early, trains no further.
    - It writes safetensors and JSON and no pickles, which can run code when they are loaded (but
      with AMP and several forms of parallelism, whose formats are upstream's). Those of a stock
      Trainer are read as `course_lib.models.files` reads them.
    - `save_total_limit` is obeyed in a single process too.
    - What does not fit is said before the first step (see `train`).

    A collator that draws random numbers (masked words) must seed them itself, by example.

    Args:
        group_by_length: batches of examples of like length (`LengthGroupedBatchSampler`); the
            features need "input_ids".

    Raises:
        InputError: the output directory cannot be written; `group_by_length` with features that
            have no "input_ids".
    """

    def __init__(self, *args, group_by_length: bool = False, **kwargs) -> None:
        given = kwargs.get("args", args[2] if len(args) > 2 else None)
        if given is not None and given.should_save:
            check_writable(given.output_dir)
        super().__init__(*args, **kwargs)
        self.group_by_length = group_by_length
        # upstream looks for "QusetionAnswering" (389): a real question-answering model would be
        # evaluated without its labels, so without a loss
        if self.args.label_names is None and "QuestionAnswering" in type(self.model).__name__:
            self.label_names = list(POSITIONS)
        self._steps = _ExactSteps(self)
        self.add_callback(self._steps)
        if any(isinstance(c, NotebookProgressCallback) for c in self.callback_handler.callbacks):
            self.remove_callback(ProgressCallback)
            self.remove_callback(PrinterCallback)
        self._lengths: list[int] | None = None
        if group_by_length and self.train_dataset is not None:
            if not has_length(self.train_dataset):
                raise InputError("group_by_length", "is on for a stream", "a dataset with a length")
            self._lengths = check_rows("train_dataset", self.train_dataset, ["input_ids"])[1]

    def train(self, resume_from_checkpoint=None, ignore_keys_for_eval=None):
        """Check everything that can be checked, then train as upstream does.

        Args:
            resume_from_checkpoint: a checkpoint's path, or True for the newest whole one in
                `output_dir` (upstream documents True, and stops in os.path.join when it gets it).

        Raises:
            InputError: a number among the arguments makes no sense; a column is missing or unknown
                to the model, or a row holds something else than numbers; a label is out of the
                range of the model's head; an evaluation does not give `metric_for_best_model`; the
                loss of the first rows is not one finite number that depends on the weights; the
                output directory holds foreign files, or, without a resume and without
                overwrite_output_dir, checkpoints of an earlier run; the checkpoint is not whole or
                is one of another model.
        """
        check_arguments(self.args)
        check_trainable(self.model)
        self._steps.resumed = checkpoint = self._checkpoint(resume_from_checkpoint)
        self._loss_sum, self._carried, self._unknown = None, 0.0, 0
        self._check_output_dir(checkpoint)
        self._check_data()
        self._check_metric(ignore_keys_for_eval)
        if checkpoint is not None:
            self._check_weights(checkpoint)
            self._restore_callbacks(checkpoint)
        elif self.args.should_save:  # with overwrite_output_dir: True must not find them later
            for path in _checkpoints(self.args.output_dir):
                shutil.rmtree(path)
        path = None if checkpoint is None else str(checkpoint)
        logger = logging.getLogger("PaddleNLP")
        logger.addFilter(_finds_no_pickle)
        try:
            with checked_pickles():  # the best weights, where a stock Trainer wrote them
                result = super().train(path, ignore_keys_for_eval)
        finally:
            logger.removeFilter(_finds_no_pickle)
        return result._replace(training_loss=result.metrics["train_loss"])  # see `log`

    def _inner_training_loop(self, args, model, loader, length, max_steps, epochs, updates, *rest):
        if self._steps.resumed is not None and not args.ignore_load_lr_and_optim:
            early = self._early()
            # from the end within an epoch, or after stopping early, upstream trains one more step
            state = TrainerState.load_from_json(str(self._steps.resumed / TRAINER_STATE_NAME))
            patient = [c.early_stopping_patience - c.early_stopping_patience_counter for c in early]
            if min(patient, default=1) <= 0 or state.global_step >= max_steps:
                epochs = state.global_step // updates  # none left
        rest = (loader, length, max_steps, epochs, updates, *rest)
        return super()._inner_training_loop(args, model, *rest)

    # ---- totals

    def take_up(self, state: TrainerState) -> None:
        """Begin to count where the checkpoint of this state ends."""
        seal = _read_seal(self._steps.resumed)
        self._carried = seal.get("unlogged_loss", 0.0)  # of its steps after the last log
        if "unlogged_loss" not in seal:
            self._unknown = state.global_step - _logged_loss(state)[1]
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, VisualDLCallback):  # whose page shows the newest file only
                for logs in state.log_history:
                    then = replace(state, global_step=logs["step"])
                    told = {name: value for name, value in logs.items() if name != "step"}
                    callback.on_log(self.args, then, self.control, logs=told)

    def training_step(self, model, inputs):
        loss = super().training_step(model, inputs)
        self._steps.pending = loss + self._steps.pending
        if self._carried:  # upstream has set its sum to 0
            self._globalstep_last_logged = _logged_loss(self.state)[1]
            loss, self._carried = loss + self._carried, 0.0
        return loss

    def _maybe_log_save_evaluate(self, tr_loss, *args, **kwargs):
        if isinstance(self._steps.pending, paddle.Tensor):  # of an epoch's last batches
            tr_loss.subtract_(self._steps.pending)
            self._steps.pending = 0.0
        self._loss_sum = tr_loss
        super()._maybe_log_save_evaluate(tr_loss, *args, **kwargs)

    def log(self, logs: dict[str, float], **kwargs) -> None:
        """Log, after a resume, the mean loss of all steps, and always the speed of those done here.

        Upstream divides the loss since the resume by all steps, and all planned steps by the time
        since the resume (1145), even where the training stops early.

        Raises:
            InputError: a loss that is not finite; upstream trains on, saves such weights, and
                metrics take NaN for the best score.
        """
        for name, value in logs.items():
            if name.endswith("loss") and not math.isfinite(value):
                problem = f"its {name} is {value} at step {self.state.global_step}"
                raise InputError("model", problem, NO_NUMBERS)
        start, now = self._steps.started, self.state.global_step
        share, (total, last) = 1.0, _logged_loss(self.state)
        unknown = self._unknown if last < start else 0  # else taken to be like the ones after them
        if "train_loss" in logs:  # the training has ended
            self._load_best()
            share = (now - start) / self.state.max_steps
            if start:
                rest = 0.0 if self._loss_sum is None else float(self._loss_sum)
                logs["train_loss"] = (total + self._carried + rest) / max(1, now - unknown)
        elif "loss" in logs and last < start:
            share = (now - start) / (now - last - unknown)
        for name in logs:
            if "_per_second" in name:
                logs[name] = round(logs[name] * share, 4)
        super().log(logs, **kwargs)

    def _load_best(self) -> None:
        """Load the best weights; upstream looks for a pickle, and goes on when there is none."""
        best = self.state.best_model_checkpoint
        if self.args.load_best_model_at_end and best and Path(best, WEIGHTS).is_file():
            _check_files(Path(best))
            self.model.set_state_dict(read_weights(Path(best, WEIGHTS)))

    # ---- batches

    def _get_train_sampler(self) -> paddle.io.BatchSampler | None:
        if not has_length(self.train_dataset):
            return None
        # Upstream's sampler shuffles with NumPy's global state: after a resume in the second epoch
        # it draws the first epoch's order again, and some examples are read twice, others never.
        return LengthGroupedBatchSampler(
            self._lengths or [0] * len(self.train_dataset),  # all alike: a plain shuffle
            self.args.per_device_train_batch_size,
            seed=self.args.seed,
            drop_last=self.args.dataloader_drop_last,
            num_replicas=self.args.dataset_world_size,
            rank=self.args.dataset_rank,
        )

    def get_eval_dataloader(self, eval_dataset=None) -> paddle.io.DataLoader:
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        self._check_loadable("eval_dataset", dataset)
        return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset) -> paddle.io.DataLoader:
        self._check_loadable("test_dataset", test_dataset)
        return super().get_test_dataloader(test_dataset)

    def _check_loadable(self, where: str, dataset) -> None:
        """Refuse a row that Paddle's loader would wait for; streams are not read twice."""
        if dataset is None or isinstance(dataset, Mapping) or not has_length(dataset):
            return
        if len(dataset) == 0:
            raise InputError(where, "is empty", "at least one example")
        columns = [name for name in dataset[0] if name in self._known_columns()]
        check_rows(where, dataset, columns, self.label_names)

    def _known_columns(self) -> set[str]:
        """What the model takes, and labels."""
        return {*inspect.signature(self.model.forward).parameters, *self.label_names}

    # ---- checkpoints

    def _save_checkpoint(self, model, metrics=None) -> None:
        directory = Path(self.args.output_dir, f"checkpoint-{self.state.global_step}")
        (directory / SEAL).unlink(missing_ok=True)  # of an earlier run that came as far
        self._unlogged = float(self._nested_gather(self._loss_sum).mean())
        args, ignored = self.args, self.args.ignore_save_lr_and_optim
        if args.should_save and not ignored and not self._special():
            write_weights(directory / OPTIMIZER, optimizer_arrays(self.optimizer, self.model))
            with atomic_file(directory / SCHEDULER) as file:
                json.dump(self.lr_scheduler.state_dict(), file, default=float)
        args.ignore_save_lr_and_optim = ignored or not self._special()  # else it writes pickles
        try:
            super()._save_checkpoint(model, metrics)
        finally:
            args.ignore_save_lr_and_optim = ignored
        # upstream deletes old checkpoints in processes of local rank 0 only; alone it is -1 (2288)
        if self.args.should_save and self.args.local_rank == -1:
            self._rotate_checkpoints(output_dir=self.args.output_dir)

    def _rotate_checkpoints(self, use_mtime: bool = False, output_dir: str | None = None) -> None:
        """Seal the new checkpoint, and only then delete old ones.

        By number, not by time: upstream's search by time takes every "checkpoint-*" for one of its
        own and would delete "checkpoint-of-my-thesis" as well (2320).
        """
        directory = Path(output_dir, f"checkpoint-{self.state.global_step}")
        left = [] if self._special() else [directory / name for name in PICKLES]
        for file in (*left, *directory.glob("rng_state*.pth")):  # each step seeds its own
            file.unlink(missing_ok=True)
        seal = {
            "files": describe_files(directory),
            "parameters": {name: p.name for name, p in self.model.named_parameters()},
            "batches": self._describe_batches(),
            "unlogged_loss": self._unlogged,
            "patience": [callback.early_stopping_patience_counter for callback in self._early()],
        }
        with atomic_file(directory / SEAL) as file:
            json.dump(seal, file, indent=1)
        super()._rotate_checkpoints(use_mtime=False, output_dir=output_dir)

    def _special(self) -> bool:
        """Whether upstream's own formats are needed: of several forms of parallelism, of AMP."""
        args = self.args
        special = args.use_hybrid_parallel or args.unified_checkpoint or args.fp16 or args.bf16
        return special or isinstance(self.model, (LoRAModel, PrefixModelForCausalLM))

    def _save(self, output_dir=None, state_dict=None, merge_tensor_parallel=False) -> None:
        """As upstream does, without its pickles: the weights, and the arguments beside them."""
        if self._special():
            super()._save(output_dir, state_dict, merge_tensor_parallel)
            return
        directory = Path(output_dir or self.args.output_dir)
        directory.mkdir(parents=True, exist_ok=True)
        if not self.args.should_save:
            return
        with atomic_file(directory / "training_args.json") as file:
            file.write(self.args.to_json_string())
        if isinstance(self.model, PretrainedModel):
            save_pretrained(directory, self.model, self.tokenizer)
        else:
            write_weights(directory / WEIGHTS, model_arrays(self.model))

    def _load_rng_state(self, checkpoint) -> None:
        """Nothing: `_ExactSteps` seeds each step. Upstream would unpickle random states."""

    def _load_from_checkpoint(self, resume_from_checkpoint=None) -> None:
        if resume_from_checkpoint is None or self._special():
            with checked_pickles():
                super()._load_from_checkpoint(resume_from_checkpoint)
            return
        self.model.set_state_dict(read_weights(find_weights(Path(resume_from_checkpoint))))

    def _sorted_checkpoints(self, output_dir=None, *args, **kwargs) -> list[str]:
        best = self.state.best_model_checkpoint
        if best is not None and Path(best).parent != Path(output_dir):
            # that of a checkpoint elsewhere: upstream searches it here and stops (2334)
            self.state.best_model_checkpoint = None
        try:
            return super()._sorted_checkpoints(output_dir, *args, **kwargs)
        finally:
            self.state.best_model_checkpoint = best

    def _load_optimizer_and_scheduler(self, checkpoint) -> None:
        seal = {} if checkpoint is None else _read_seal(Path(checkpoint))
        args = self.args
        files = seal.get("files", ())
        if OPTIMIZER in files and not self._special():
            if not args.ignore_load_lr_and_optim:
                arrays = read_weights(Path(checkpoint, OPTIMIZER))
                restore_optimizer(self.optimizer, self.model, arrays)
                state = json.loads(Path(checkpoint, SCHEDULER).read_text(encoding="utf-8"))
                self.lr_scheduler.set_state_dict(state)
            return
        special = self._special() or PICKLES[1] not in files
        if not seal or special or args.ignore_load_lr_and_optim:
            with checked_pickles():
                super()._load_optimizer_and_scheduler(checkpoint)
            return
        # a checkpoint of this course from before it wrote safetensors
        # Upstream looks moments up by names such as linear_7.w_0_moment1_0 (2519). Their first
        # number counts the layers that the process has built, their last the optimizers.
        structured = {generated: name for name, generated in seal["parameters"].items()}
        arrays = {}
        state = _load(Path(checkpoint, PICKLES[1]))
        for key, value in state.items():
            owners = [name for name in structured if key.startswith(f"{name}_")]
            if owners:
                owner = max(owners, key=len)
                accumulator = key[len(owner) + 1 :].rpartition("_")[0]
                arrays[f"{structured[owner]}|{accumulator}"] = value
        restore_optimizer(self.optimizer, self.model, arrays)
        self.lr_scheduler.set_state_dict(_load(Path(checkpoint, PICKLES[2])))

    def _restore_callbacks(self, checkpoint: Path) -> None:
        """Upstream's early stopping would begin to count its patience anew."""
        patience = _read_seal(checkpoint).get("patience", [])
        for callback, counter in zip(self._early(), patience, strict=False):
            callback.early_stopping_patience_counter = counter

    def _early(self) -> list[EarlyStoppingCallback]:
        callbacks = self.callback_handler.callbacks
        return [callback for callback in callbacks if isinstance(callback, EarlyStoppingCallback)]

    def _describe_batches(self) -> dict:
        return {
            "seed": self.args.seed,
            "per_device_train_batch_size": self.args.per_device_train_batch_size,
            "gradient_accumulation_steps": self.args.gradient_accumulation_steps,
            "dataloader_drop_last": self.args.dataloader_drop_last,
            "processes": self.args.dataset_world_size,
            "group_by_length": self.group_by_length,
            "examples": len(self.train_dataset) if has_length(self.train_dataset) else None,
        }

    # ---- checks

    def _checkpoint(self, resume: bool | str | None) -> Path | None:
        if resume is None or resume is False:
            return None
        if resume is True:
            problem = "holds no checkpoint that is whole"
            for path in reversed(_checkpoints(self.args.output_dir)):
                try:
                    if _read_seal(path):
                        _check_files(path)
                        return path
                except InputError as error:
                    problem += f" ({error.where} {error.problem})"
            raise InputError(self.args.output_dir, problem, "one, or training without resume")
        if not isinstance(resume, (str, os.PathLike)):
            expected = "True, or a checkpoint's path"
            raise InputError("resume_from_checkpoint", f"is {resume!r}", expected)
        path = Path(resume)
        if not path.is_dir():
            raise InputError(path, "does not exist", "a checkpoint directory")
        _check_files(path)
        return path

    def _check_output_dir(self, checkpoint: Path | None) -> None:
        directory = Path(self.args.output_dir)
        if not self.args.should_save or not directory.is_dir():
            return
        foreign = sorted(p.name for p in directory.iterdir() if not _OWN.fullmatch(p.name))
        if foreign and not self.args.overwrite_output_dir:
            problem = f"holds what no Trainer wrote: {', '.join(foreign[:3])}"
            raise InputError(directory, problem, "a directory of its own for each run")
        earlier = [path for path in _checkpoints(directory) if not _is_unfinished(path)]
        if checkpoint is None and earlier and not self.args.overwrite_output_dir:
            raise InputError(
                directory,
                f"holds {earlier[-1].name} of an earlier run",
                "another directory, resume_from_checkpoint=True or overwrite_output_dir=True",
            )

    def _check_data(self) -> None:
        if not has_length(self.train_dataset):  # a stream is not read twice; None: upstream
            return
        if len(self.train_dataset) == 0:
            raise InputError("train_dataset", "is empty", "at least one example")
        loader = self.get_train_dataloader()
        rows = [loader.dataset[row] for row in range(min(2, len(loader.dataset)))]
        datasets = {"train_dataset": loader.dataset}
        if self.eval_dataset is not None:
            several = isinstance(self.eval_dataset, dict)
            evals = self.eval_dataset if several else {"eval_dataset": self.eval_dataset}
            datasets |= {name: data for name, data in evals.items() if has_length(data)}
        parameters = inspect.signature(self.model.forward).parameters
        columns = [name for name, p in parameters.items() if p.default is p.empty]
        columns = [name for name in columns if parameters[name].kind is _NAMED]
        if "input_ids" in parameters and "inputs_embeds" not in rows[0]:
            columns.append("input_ids")  # paddlenlp's models take it as one that may be None
        columns = list(dict.fromkeys([*columns, *self.label_names]))
        read = {}
        for where, dataset in datasets.items():
            if len(dataset) == 0:
                raise InputError(where, "is empty", "at least one example")
            asked = columns
            if where != "train_dataset" and self.args.evaluation_strategy.value == "no":
                asked = []  # train() does not evaluate on it
            known = [name for name in dataset[0] if name in self._known_columns()]
            asked = list(dict.fromkeys([*asked, *known]))
            read[where] = check_rows(where, dataset, asked, self.label_names)
        batch = dict(loader.collate_fn(rows))
        tensors = any(isinstance(value, paddle.Tensor) for value in batch.values())
        # once this process has computed on several threads, a fork of it cannot
        if tensors and self.args.dataloader_num_workers > 0 and paddle.get_device() == "cpu":
            problem = "makes Paddle tensors, which on a CPU crash the dataloader's workers"
            expected = 'return_tensors="np" or dataloader_num_workers=0'
            raise InputError("data_collator", problem, expected)
        for name, value in batch.items():  # a loader makes tensors of arrays
            if isinstance(value, np.ndarray):
                batch[name] = paddle.to_tensor(value)
        if all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
            for name in batch:
                if name not in parameters and name not in self.label_names:
                    problem = f"has a column {name!r}, which the model does not take"
                    raise InputError("train_dataset", problem, "features without it")
        self._check_loss(batch, read)

    def _check_metric(self, ignore_keys) -> None:
        """Look for the metric that chooses the best model; upstream stops after the first epoch."""
        data, wanted, prefix = self.eval_dataset, self.args.metric_for_best_model, "eval"
        if wanted is None or not data or self.args.evaluation_strategy == IntervalStrategy.NO:
            return
        if isinstance(data, dict):  # upstream chooses by the last one
            prefix, data = f"eval_{list(data)[-1]}", list(data.values())[-1]
        wanted = wanted if wanted.startswith("eval_") else f"eval_{wanted}"
        if wanted == f"{prefix}_loss" or not has_length(data):
            return
        few = [data[row] for row in range(min(len(data), 2 * self.args.world_size))]
        callbacks, self.callback_handler.callbacks = self.callback_handler.callbacks, []
        try:
            for rows in (few, data):  # some metrics need all rows, or names that come later
                try:
                    loader = self.get_eval_dataloader(rows)
                    with quiet_paddlenlp():
                        loop = self.evaluation_loop(
                            loader, "Metrics", ignore_keys=ignore_keys, metric_key_prefix=prefix
                        )
                except Exception:
                    if rows is data:
                        raise
                    continue
                if wanted in loop.metrics:
                    return
        finally:
            self.callback_handler.callbacks = callbacks
        known = ", ".join(sorted(name.removeprefix("eval_") for name in loop.metrics))
        problem = f"is {self.args.metric_for_best_model!r}, which an evaluation does not give"
        raise InputError("metric_for_best_model", problem, f"one of {known or 'none'}")

    def _check_loss(self, batch: Mapping, read: dict[str, Columns]) -> None:
        mode = self.model.training
        self.model.eval()
        try:
            inputs = {name: value for name, value in batch.items() if name not in self.label_names}
            with paddle.no_grad(), self.autocast_smart_context_manager():
                outputs = self.model(**inputs)
            logits = outputs.shape if isinstance(outputs, paddle.Tensor) else None
            ignored = getattr(self.criterion, "ignore_index", IGNORED)
            for where, columns in read.items():
                check_labels(where, *columns, logits, ignored)
            with self.autocast_smart_context_manager():
                loss = self.compute_loss(self.model, dict(batch))
        except InputError:
            raise
        except Exception as error:
            problem = f"fails on the first rows: {_summary(error)}"
            raise InputError(self._loss_name(), problem, "a loss of the model's output") from error
        finally:
            if mode:
                self.model.train()
        if not isinstance(loss, paddle.Tensor) or loss.size != 1:
            what = f"shape {loss.shape}" if isinstance(loss, paddle.Tensor) else type(loss).__name__
            raise InputError(self._loss_name(), f"gives a result of {what}", "one number a batch")
        if loss.stop_gradient:
            problem = "gives a result that does not depend on the weights"
            raise InputError(self._loss_name(), problem, "something that can be derived")
        if not np.isfinite(float(loss)):
            raise InputError(self._loss_name(), f"gives {float(loss)} at first", "a finite number")

    def _loss_name(self) -> str:
        return "the model's own loss" if self.criterion is None else "criterion"

    def _check_weights(self, checkpoint: Path) -> None:
        if self._special() and not any((checkpoint / name).is_file() for name in WEIGHT_FILES):
            return  # another of upstream's formats, which it checks itself
        # upstream passes over what is missing, over what is too much and over other shapes (1224)
        shapes = weight_shapes(find_weights(checkpoint))
        check_weights(checkpoint, shapes, shapes_of(self.model), "a checkpoint of this model")
        check_same_labels(self.model, checkpoint)
        for name, value in _read_seal(checkpoint).get("batches", {}).items():
            now = self._describe_batches().get(name)
            if now != value:
                warnings.warn(
                    f"{checkpoint} was made with {name} {value}, now it is {now}: the run goes on, "
                    "but with other batches than the unbroken one",
                    stacklevel=3,
                )


def _finds_no_pickle(record: logging.LogRecord) -> bool:
    """Upstream warns that the best weights are no pickle (1141); `_load_best` loads them."""
    return "Could not locate the best model" not in record.getMessage()


class _ExactSteps(TrainerCallback):
    """Let each epoch's order and each step's dropout depend on their numbers alone."""

    def __init__(self, trainer: CourseTrainer) -> None:
        self.trainer = trainer
        self.resumed: Path | None = None  # the checkpoint
        self.started = 0  # the step that the training goes on from
        self.pending: paddle.Tensor | float = 0.0  # losses of batches that have made no step yet

    def on_train_begin(self, args, state, control, **kwargs):
        """Find the best checkpoint where it is now: the state has its path of then."""
        self.started = state.global_step
        if self.started:
            self.trainer.take_up(state)
        if self.resumed is None or state.best_model_checkpoint is None:
            return
        before = Path(state.best_model_checkpoint)
        for path in (self.resumed.parent / before.name, before):
            if path.is_dir():
                own = Path(args.output_dir)
                inside = own.is_dir() and own.samefile(path.parent)
                # in upstream's words for its own directory, or it would not be known there again
                state.best_model_checkpoint = str(own / path.name if inside else path)
                return
        state.best_model_checkpoint = state.best_metric = None
        warnings.warn(
            f"{before} was the best checkpoint and is gone: the best is chosen from here on",
            stacklevel=3,
        )

    def on_epoch_begin(self, args, state, control, train_dataloader=None, optimizer=None, **kwargs):
        # Batches that do not fill the last accumulation of an epoch leave a gradient behind that
        # upstream adds to the next epoch's first step, and that no checkpoint holds. (Their losses
        # would be logged as the last step's.)
        optimizer.clear_grad()
        sampler = getattr(train_dataloader, "batch_sampler", None)
        if isinstance(sampler, ResumableBatchSampler):  # upstream passes over used batches itself
            updates = max(len(train_dataloader) // args.gradient_accumulation_steps, 1)
            sampler.set_epoch(state.global_step // updates)

    def on_step_end(self, args, state, control, **kwargs):
        self.pending = 0.0

    def on_step_begin(self, args, state, control, **kwargs):
        seed_step(args.seed + 1_000_003 * args.dataset_rank, state.global_step)


class ThroughputCallback(TrainerCallback):
    """Count the real tokens, the padding and the seconds of the batches that were trained on.

    Batches are looked at when they have been loaded, before the loss takes their labels out, and
    counted when their step is over: those that a resume passes over are not. The time is that of
    loading and training, without evaluating, logging and saving. Every log of a training loss gets
    "tokens_per_second" and "padding_share" (0 to 1), and so does `state.log_history`.

    Args:
        pad_token_id: of "input_ids"; by default that of the tokenizer or of the model's config.
            A batch with a two-dimensional "attention_mask" is counted by that.

    Attributes:
        real_tokens, padded_tokens: counts so far, in this process; the second is rows x longest.
        seconds: of wall time.
    """

    def __init__(self, pad_token_id: int | None = None) -> None:
        self.pad_token_id = pad_token_id
        self._reset()

    def _reset(self) -> None:
        self.real_tokens = self.padded_tokens = 0
        self.seconds = 0.0
        self._loaded: tuple[int, int] | None = None
        self._since = time.perf_counter()

    @property
    def tokens_per_second(self) -> float:
        """Real tokens a second."""
        return self.real_tokens / self.seconds if self.seconds else 0.0

    @property
    def padding_share(self) -> float:
        """The share of what the model read that was padding."""
        return 1 - self.real_tokens / self.padded_tokens if self.padded_tokens else 0.0

    def on_train_begin(self, args, state, control, **kwargs):
        self._reset()

    def on_load_data_end(self, args, state, control, inputs=None, **kwargs):
        if self._loaded is not None:  # the batch before was passed over
            self._since = time.perf_counter()
        mask = inputs.get("attention_mask")
        if mask is not None and mask.ndim == 2:
            self._loaded = int((mask != 0).sum()), int(mask.size)
            return
        if "input_ids" not in inputs:
            problem = "has neither 'input_ids' nor 'attention_mask'"
            raise InputError("the batch", problem, "one of them, to count tokens")
        ids = inputs["input_ids"].numpy()
        self._loaded = int((ids != self._padding(**kwargs)).sum()), ids.size

    def _padding(self, tokenizer=None, model=None, **kwargs) -> int:
        owners = (tokenizer, getattr(model, "config", None))
        choices = [self.pad_token_id, *(getattr(owner, "pad_token_id", None) for owner in owners)]
        for choice in choices:
            if choice is not None:
                return choice
        raise InputError("pad_token_id", "is not known from tokenizer or model", "a number")

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
            rates = {
                "tokens_per_second": round(self.tokens_per_second, 1),
                "padding_share": round(self.padding_share, 4),
            }
            logs.update(rates)
            state.log_history[-1].update(rates)
        self._pause()


class NotebookProgressCallback(TrainerCallback):
    """One progress bar, and at the end one figure.

    paddlenlp's log is kept to warnings from the making of the Trainer on; `CourseTrainer` takes
    upstream's bars away when this callback is there.

    Args:
        chance: accuracy of guessing, a line in the figure.

    Attributes:
        figure: the learning curves, after training with at least one logged loss.
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
        if self.bar is not None:
            shown = {k: v for k, v in logs.items() if k in ("loss", "eval_loss", "eval_accuracy")}
            if shown:
                self.bar.set_postfix(shown)

    def on_train_end(self, args, state, control, **kwargs):
        if self.bar is None:
            return
        self.bar.close()
        self.bar = None
        history = trainer_history(state)
        if history["loss"]:
            from course_lib.notebook.figures import (
                learning_curves,
            )  # a figure, only for those who want it

            self.figure = learning_curves(history, self.chance)
            _show(self.figure)


def trainer_history(state: TrainerState) -> dict[str, list[float]]:
    """What a Trainer has logged, in the form of `course_lib.training.fit`'s history.

    Returns:
        "loss": one value a step (nats): a Trainer logs means over `logging_steps` steps, and each
        stands here for all steps of its interval. "epoch_step", "dev_loss", "dev_accuracy": one
        value an evaluation; the last only when every evaluation has an accuracy.
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


def _logged_loss(state: TrainerState) -> tuple[float, int]:
    """The sum of the losses of the steps that have been logged, and the last of these steps."""
    losses = trainer_history(state)["loss"]
    return sum(losses), len(losses)


def check_trainable(model: paddle.nn.Layer) -> None:
    """Refuse a model of which no parameter can learn.

    Raises:
        InputError: all are frozen (`stop_gradient`), or there is none.
    """
    if all(parameter.stop_gradient for parameter in model.parameters()):
        problem = "has no parameter that learns: all are frozen"
        raise InputError(type(model).__name__, problem, "stop_gradient=False for some of them")


_NUMBERS: dict[str, tuple[Callable[[float], bool], str]] = {  # arguments that are no counts
    "learning_rate": (lambda value: value >= 0, "0 or more"),
    "weight_decay": (lambda value: value >= 0, "0 or more"),
    "max_grad_norm": (lambda value: value >= 0, "0 (gradients are not cut) or more"),
    "adam_beta1": (lambda value: 0 <= value < 1, "0 or more and below 1"),
    "adam_beta2": (lambda value: 0 <= value < 1, "0 or more and below 1"),
    "adam_epsilon": (lambda value: value > 0, "above 0"),
    "warmup_ratio": (lambda value: 0 <= value <= 1, "from 0 to 1"),
}


def check_arguments(args: TrainingArguments) -> None:
    """Refuse numbers that a training would stop at, or go on with and learn nothing.

    Raises:
        InputError: it names the argument.
    """
    least = {
        "per_device_train_batch_size": 1,
        "per_device_eval_batch_size": 1,
        "gradient_accumulation_steps": 1,
        "dataloader_num_workers": 0,
        "warmup_steps": 0,
        "seed": 0,
    }
    for name, strategy in (
        ("logging_steps", args.logging_strategy),
        ("save_steps", args.save_strategy),
        ("eval_steps", args.evaluation_strategy),
    ):
        if strategy == IntervalStrategy.STEPS:
            least[name] = int(name != "save_steps")  # 0: nothing is saved
    for name, count in least.items():
        whole(name, getattr(args, name), count)
    reals = dict(_NUMBERS)
    if args.max_steps == -1:
        reals["num_train_epochs"] = (lambda value: value > 0, "above 0")
    elif type(args.max_steps) is not int or args.max_steps < 1:
        expected = "-1, so that num_train_epochs counts, or 1 at least"
        raise InputError("max_steps", f"is {args.max_steps!r}", expected)
    for name, (fits, expected) in reals.items():
        value = getattr(args, name)
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not real or not math.isfinite(value) or not fits(value):
            raise InputError(name, f"is {value!r}", expected)


def check_rows(where: str, dataset, columns: Sequence[str], labels: Sequence[str] = ()) -> Columns:
    """Read every row once, and refuse what would stop Paddle's loader, or leave it waiting.

    Args:
        where: the dataset's name, for the message.
        dataset: of dicts, with a length.
        columns: those that each row must have, filled with numbers.
        labels: those of them whose values must be of one form, and are given back.

    Returns:
        The labels' values, an array a row, by column; and the rows' numbers of "input_ids".

    Raises:
        InputError: it names the first row that is not right.
    """
    found: dict[str, list[np.ndarray]] = {name: [] for name in labels if name in columns}
    lengths: list[int] = []
    for row, feature in _rows(dataset):
        if not isinstance(feature, Mapping):
            raise InputError(where, f"row {row} is a {type(feature).__name__}", "a dict of columns")
        for name in columns:
            if name not in feature:
                problem = f"row {row} has no column {name!r}"
                raise InputError(where, problem, f"the columns {', '.join(columns)}")
            try:
                value = np.asarray(feature[name])
                fits = value.dtype.kind in "iub" or bool(np.isfinite(value).all())
            except (TypeError, ValueError):  # no numbers, or lists of several lengths
                fits = False
            if name == "input_ids" and fits:
                fits = value.ndim > 0 and value.dtype.kind in "iu"
            if not fits:
                problem = f"row {row} has {name} {_short(feature[name])}"
                raise InputError(where, problem, "numbers")
            if name == "input_ids":
                lengths.append(len(value))
            if name in found:
                found[name].append(value)
                first = found[name][0]
                forms = {(one.ndim, one.dtype.kind == "f") for one in (first, value)}
                if len(forms) > 1:
                    problem = f"row {row} has {name} {_short(feature[name])}"
                    raise InputError(where, problem, f"the form of row 0: {_short(first)}")
    return found, lengths


def check_labels(
    where: str,
    labels: Mapping[str, list[np.ndarray]],
    lengths: Sequence[int],
    logits: Sequence[int] | None,
    ignored: int = IGNORED,
) -> None:
    """Compare what `check_rows` read with what a model gives out.

    Args:
        logits: their shape, [batch_size, classes] or [batch_size, seq_len, classes]; None where
            the output is none that a label can be held against, but for positions of answers.

    Raises:
        InputError: a class or a position that there is not, or another number of labels than there
            are tokens or classes in a row; it names the first row.
    """
    spans = set(labels) == set(POSITIONS)
    if not spans and (logits is None or logits[-1] == 1):
        return
    for name, values in labels.items():
        form = np.ndim(values[0])
        wanted: Sequence[int] | None = None  # how many labels a row has
        if spans:
            limits, what = lengths, "tokens in the row"
        else:
            limits, what = [logits[-1]] * len(values), "classes in the model's head"
            if len(logits) == 3 and form == 1:
                wanted, things = lengths, "tokens"
            elif len(logits) == 2 and form == 1 and len(values[0]) != 1:  # zeros and ones
                wanted, things, limits = limits, "classes", None
            elif form + 1 not in (len(logits) - 1, len(logits)) or form == 2:
                continue
        for row, count in enumerate(wanted or ()):
            if len(values[row]) != count:
                problem = f"row {row} has {len(values[row])} {name} for {count} {things}"
                raise InputError(where, problem, "one for each")
        flat = np.concatenate([value.reshape(-1) for value in values])
        if limits is None or flat.dtype.kind not in "iu":
            continue
        rows = np.repeat(np.arange(len(values)), [value.size for value in values])
        most = np.asarray(limits)[rows]
        wrong = np.flatnonzero(((flat < 0) | (flat >= most)) & (flat != ignored))
        if wrong.size:
            first = wrong[0]
            problem = f"row {rows[first]} has {name} {flat[first]} for {most[first]} {what}"
            raise InputError(where, problem, f"0 to {most[first] - 1}")


def _short(value) -> str:
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _rows(dataset) -> Iterator[tuple[int, Mapping]]:
    """By number: iterating over a paddle Dataset need not stop at its end."""
    return ((row, dataset[row]) for row in range(len(dataset)))


def _show(figure) -> None:
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return
    if get_ipython() is not None:
        display(figure)


def _is_unfinished(checkpoint: Path) -> bool:
    """Whether a CourseTrainer was killed while it wrote it, so that nobody can use it."""
    names = {path.name for path in checkpoint.iterdir() if not path.name.startswith(".")}
    begun = not names or OPTIMIZER in names  # is written first
    return begun and not names & {SEAL, *PICKLES}


def _checkpoints(directory: str | Path) -> list[Path]:
    """The directories called checkpoint-NUMBER, by number."""
    directory = Path(directory)
    if not directory.is_dir():
        return []
    found = [p for p in directory.iterdir() if _CHECKPOINT.fullmatch(p.name) and p.is_dir()]
    return sorted(found, key=lambda path: int(path.name.split("-")[1]))


def _read_seal(checkpoint: Path) -> dict:
    """What the seal of a checkpoint says; {} when there is none, as in a stock Trainer's.

    Raises:
        InputError: it is damaged.
    """
    file = checkpoint / SEAL
    if not file.exists():
        return {}
    try:
        seal = json.loads(file.read_text(encoding="utf-8"))
        check_described(seal["files"])
        if not seal["files"] or not isinstance(seal["patience"], list):
            raise ValueError
        dict(seal["parameters"].items()), dict(seal["batches"].items())
        float(seal.get("unlogged_loss", 0.0))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise InputError(file, "is damaged", "a complete checkpoint") from None
    return seal


def _check_files(checkpoint: Path) -> None:
    """Compare a checkpoint's files with its seal; without one, see whether they can be read.

    Raises:
        InputError: naming the first file that is damaged or missing.
    """
    seal = _read_seal(checkpoint)
    if seal:
        verify_files(checkpoint, seal["files"])
        return
    if (checkpoint / OPTIMIZER).is_file():  # no stock Trainer's, and not finished
        raise InputError(checkpoint / SEAL, "is missing", "a complete checkpoint")
    state = checkpoint / TRAINER_STATE_NAME
    try:
        if type(json.loads(state.read_text(encoding="utf-8"))["global_step"]) is not int:
            raise ValueError
    except FileNotFoundError:  # upstream would train from the first step, without a word
        raise InputError(state, "is missing", "a complete checkpoint") from None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise InputError(state, "is damaged", "a complete checkpoint") from None
    for name in PICKLES[1:]:
        if (checkpoint / name).is_file():
            _load(checkpoint / name)


def _load(file: Path) -> dict:
    state = read_pickle(file)
    if not isinstance(state, dict):
        raise InputError(file, f"holds a {type(state).__name__}", "a whole file")
    return state


def _summary(error: Exception) -> str:
    """The one line of an error that says something; paddle's begin with a C++ stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if re.match(r"\(?\w*\)?\s*\w*Error:", line)] or lines[:1]
    return f"{type(error).__name__}: {told[0][:200]}" if told else type(error).__name__
