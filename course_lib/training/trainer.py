"""PaddleNLP's Trainer with exact resumption, batches of similar length and clear errors.

Everything else is upstream's: arguments, evaluation, logs, prediction, early stopping. Line numbers
in comments are those of paddlenlp 2.8.1's trainer/trainer.py.
"""

from __future__ import annotations

import json
import logging
import math
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.data import LengthGroupedBatchSampler
from course_lib.models.backbone import check_same_labels
from course_lib.models.files import (
    WEIGHT_FILES,
    check_weights,
    read_weights,
    save_pretrained,
    shapes_of,
    weight_shapes,
    write_weights,
)
from course_lib.models.patches import checked_pickles
from course_lib.runtime import InputError, atomic_file, check_writable
from course_lib.runtime.files import read_json
from course_lib.runtime.manifest import COMPLETE, check_described, describe_files, verify_files
from course_lib.training.callbacks import ExactSteps, NotebookProgressCallback
from course_lib.training.checkpoint import (
    find_checkpoints,
    model_arrays,
    optimizer_arrays,
    remove_checkpoint,
    restore_optimizer,
)
from course_lib.training.checks import (
    POSITIONS,
    check_arguments,
    check_data,
    check_metric,
    check_rows,
    known_columns,
)
from course_lib.training.loop import check_trainable
from course_lib.training.prediction import NO_NUMBERS

import paddle
from paddlenlp.peft import LoRAModel, PrefixModelForCausalLM
from paddlenlp.trainer import EarlyStoppingCallback, Trainer
from paddlenlp.trainer.trainer import TRAINER_STATE_NAME
from paddlenlp.trainer.trainer_callback import PrinterCallback, ProgressCallback, TrainerState
from paddlenlp.trainer.trainer_utils import has_length
from paddlenlp.transformers import PretrainedModel

SEAL = "course.json"  # written last into a checkpoint: without it, or another, it is not complete
WEIGHTS, OPTIMIZER, SCHEDULER = WEIGHT_FILES[0], "optimizer.safetensors", "scheduler.json"
BATCHES = (  # settings that decide which batches a run reads
    "seed",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "dataloader_drop_last",
    "dataset_world_size",
)
_OURS = re.compile(  # what a Trainer, a tokenizer, an export or VisualDL writes
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
    - `resume_from_checkpoint=True` takes the newest complete checkpoint; a kill while one is
      written does no harm.
    - The losses of a resumed run, their mean and VisualDL's page are those of the whole run, its
      speeds those of this process; a run that had ended, or stopped early, trains no further.
    - It writes safetensors and JSON instead of pickles, which can run code when they are loaded
      (except with AMP, PEFT and several forms of parallelism, whose formats are upstream's). A
      stock Trainer's checkpoint is not resumed: load its weights into the model instead.
    - `save_total_limit` is obeyed in a single process too.
    - Data, arguments and loss are checked before the first step (see `train`).

    A collator that draws random numbers (masked words) must seed them itself, by example.

    Args:
        group_by_length: batches of examples of similar length (`LengthGroupedBatchSampler`); the
            features need "input_ids".

    Attributes:
        resumed: the checkpoint that the training goes on from.
        batch_losses, unlogged_loss: sums of losses: of batches since the last step, and of steps
            since the last log.

    Raises:
        InputError: the output directory cannot be written.
    """

    def __init__(self, *args, group_by_length: bool = False, **kwargs) -> None:
        arguments = kwargs.get("args", args[2] if len(args) > 2 else None)
        if arguments is not None and arguments.should_save:
            check_writable(arguments.output_dir)
        super().__init__(*args, **kwargs)
        self.group_by_length = group_by_length
        # upstream looks for "QusetionAnswering" (389): a real question-answering model would be
        # evaluated without its labels, so without a loss
        if self.args.label_names is None and "QuestionAnswering" in type(self.model).__name__:
            self.label_names = list(POSITIONS)
        self.resumed: Path | None = None
        self.batch_losses: paddle.Tensor | float = 0.0
        self.add_callback(ExactSteps(self))
        if any(isinstance(c, NotebookProgressCallback) for c in self.callback_handler.callbacks):
            self.remove_callback(ProgressCallback)
            self.remove_callback(PrinterCallback)

    def train(self, resume_from_checkpoint=None, ignore_keys_for_eval=None):
        """Check everything that can be checked, then train as upstream does.

        Args:
            resume_from_checkpoint: a checkpoint's path, or True for the newest complete one in
                `output_dir` (upstream documents True, and stops in os.path.join when it gets it).

        Raises:
            InputError: an argument makes no sense; a column is missing, unknown to the model or
                holds something other than numbers; a label is out of range; an evaluation does not
                return `metric_for_best_model`; the loss of the first rows is not one number that
                depends on the weights; the output directory holds foreign files, or, without a
                resume and without overwrite_output_dir, checkpoints of an earlier run; the
                checkpoint is incomplete or belongs to another model; a loss is infinite or NaN.
        """
        check_arguments(self.args)
        check_trainable(self.model)
        self.resumed = self._find_checkpoint(resume_from_checkpoint)
        self._check_output_dir()
        if has_length(self.train_dataset):  # a stream is not read twice
            check_data(self)
        check_metric(self)
        if self.resumed is not None:
            self._check_fits(self.resumed)
            # upstream's early stopping would begin to count its patience anew
            patience = read_seal(self.resumed)["patience"]
            for callback, counter in zip(self._early_stopping(), patience, strict=False):
                callback.early_stopping_patience_counter = counter
        elif self.args.should_save:  # with overwrite_output_dir: True must not find them later
            for path in find_checkpoints(self.args.output_dir, r"\d+"):
                remove_checkpoint(path)
        logger = logging.getLogger("PaddleNLP")
        logger.addFilter(_finds_no_pickle)
        try:
            with checked_pickles():  # upstream's formats
                path = None if self.resumed is None else str(self.resumed)
                result = super().train(path, ignore_keys_for_eval)
        finally:
            logger.removeFilter(_finds_no_pickle)
        return result._replace(training_loss=result.metrics["train_loss"])  # see `log`

    def _inner_training_loop(self, args, model, loader, length, max_steps, epochs, updates, *rest):
        if self.resumed is not None and not args.ignore_load_lr_and_optim:
            # from the end within an epoch, or after stopping early, upstream trains one more step
            state = TrainerState.load_from_json(str(self.resumed / TRAINER_STATE_NAME))
            stopped = any(
                callback.early_stopping_patience_counter >= callback.early_stopping_patience
                for callback in self._early_stopping()
            )
            if stopped or state.global_step >= max_steps:
                epochs = state.global_step // updates  # none left
        rest = (loader, length, max_steps, epochs, updates, *rest)
        return super()._inner_training_loop(args, model, *rest)

    def _early_stopping(self) -> list[EarlyStoppingCallback]:
        callbacks = self.callback_handler.callbacks
        return [callback for callback in callbacks if isinstance(callback, EarlyStoppingCallback)]

    # ---- losses and speeds

    def restore_losses(self, step: int) -> None:
        """Go on counting losses where the checkpoint ends."""
        losses = {"logged": 0.0, "unlogged": 0.0, "last_log": 0}
        if self.resumed is not None:
            losses = read_seal(self.resumed)["losses"]
        self._started = step
        self._logged_loss, self._last_log = losses["logged"], losses["last_log"]
        self.unlogged_loss = paddle.to_tensor(losses["unlogged"], "float32")
        self.batch_losses = 0.0

    def training_step(self, model, inputs):
        loss = super().training_step(model, inputs)
        self.batch_losses = self.batch_losses + loss
        return loss

    def _mean_unlogged(self) -> float:
        """The sum of the losses since the last log, as a mean over processes."""
        return float(self._nested_gather(self.unlogged_loss).mean())

    def log(self, logs: dict[str, float], **kwargs) -> None:
        """Log the mean loss of all steps, also after a resume, and the speed of this process.

        Upstream divides the loss since the resume by all steps, and all planned steps by the time
        since the resume (1145), even where the training stops early.

        Raises:
            InputError: a loss that is not finite; upstream trains on, saves such weights, and
                metrics take NaN for the best score.
        """
        step = self.state.global_step
        if "loss" in logs:
            unlogged = self._mean_unlogged()
            logs["loss"] = round(unlogged / (step - self._last_log), 8)
            self._logged_loss, self._last_log = self._logged_loss + unlogged, step
            self.unlogged_loss = paddle.zeros([])
        if "train_loss" in logs:  # the training has ended
            self._load_best()
            total = self._logged_loss + self._mean_unlogged()
            logs["train_loss"] = total / max(1, step)
            for name in logs:
                if "_per_second" in name:
                    share = (step - self._started) / self.state.max_steps
                    logs[name] = round(logs[name] * share, 4)
        for name, value in logs.items():
            if name.endswith("loss") and not math.isfinite(value):
                raise InputError("model", f"its {name} is {value} at step {step}", NO_NUMBERS)
        super().log(logs, **kwargs)

    def _load_best(self) -> None:
        """Load the best weights; upstream looks for a pickle, and goes on when there is none."""
        best = self.state.best_model_checkpoint
        if self.args.load_best_model_at_end and best and Path(best, WEIGHTS).is_file():
            verify_files(Path(best), read_seal(Path(best))["files"])
            self.model.set_state_dict(read_weights(Path(best, WEIGHTS)))

    # ---- batches

    def _get_train_sampler(self) -> paddle.io.BatchSampler | None:
        dataset = self.train_dataset
        if not has_length(dataset):
            return None
        # Upstream's sampler shuffles with NumPy's global state: after a resume in the second epoch
        # it draws the first epoch's order again, and some examples are read twice, others never.
        lengths = [0] * len(dataset)  # all equal: a plain shuffle
        if self.group_by_length:
            lengths = [len(dataset[row]["input_ids"]) for row in range(len(dataset))]
        return LengthGroupedBatchSampler(
            lengths,
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
        known = known_columns(self)
        columns = [name for name in dataset[0] if name in known] if len(dataset) else []
        check_rows(where, dataset, columns, self.label_names)

    # ---- checkpoints

    def _save_checkpoint(self, model, metrics=None) -> None:
        directory = Path(self.args.output_dir, f"checkpoint-{self.state.global_step}")
        (directory / SEAL).unlink(missing_ok=True)  # of an earlier run that came as far
        self._unlogged = self._mean_unlogged()
        finite = [paddle.isfinite(weight).all() for weight in model.parameters()]
        if not math.isfinite(self._unlogged) or not all(map(bool, finite)):
            problem = (
                f"its loss or a weight is not a finite number at step {self.state.global_step}"
            )
            raise InputError("model", problem, NO_NUMBERS)
        args, ignored = self.args, self.args.ignore_save_lr_and_optim
        if args.should_save and not ignored and not self._upstream_format():
            write_weights(directory / OPTIMIZER, optimizer_arrays(self.optimizer, self.model))
            with atomic_file(directory / SCHEDULER) as file:
                json.dump(self.lr_scheduler.state_dict(), file, default=float)
        args.ignore_save_lr_and_optim = ignored or not self._upstream_format()  # no pickles
        try:
            super()._save_checkpoint(model, metrics)
        finally:
            args.ignore_save_lr_and_optim = ignored
        # upstream deletes old checkpoints in processes of local rank 0 only; alone it is -1 (2288)
        if self.args.should_save and self.args.local_rank == -1:
            self._rotate_checkpoints(output_dir=self.args.output_dir)

    def _rotate_checkpoints(self, use_mtime: bool = False, output_dir: Any = None) -> None:
        """Seal the new checkpoint, and only then delete old ones.

        By number, not by time: upstream's search by time takes every "checkpoint-*" for one of its
        own and would delete "checkpoint-of-my-thesis" as well (2320).
        """
        directory = Path(output_dir, f"checkpoint-{self.state.global_step}")
        for file in directory.glob("rng_state*.pth"):  # pickles; each step seeds its own
            file.unlink()
        seal = {
            "files": describe_files(directory),
            "batches": self._describe_batches(),
            "losses": {
                "logged": self._logged_loss,
                "unlogged": self._unlogged,
                "last_log": self._last_log,
            },
            "patience": [one.early_stopping_patience_counter for one in self._early_stopping()],
        }
        with atomic_file(directory / SEAL) as file:
            json.dump(seal, file, indent=1)
        super()._rotate_checkpoints(use_mtime=False, output_dir=output_dir)

    def _upstream_format(self) -> bool:
        """Whether parallelism, AMP or PEFT need upstream's own files."""
        args = self.args
        special = args.use_hybrid_parallel or args.unified_checkpoint or args.fp16 or args.bf16
        return special or isinstance(self.model, (LoRAModel, PrefixModelForCausalLM))

    def _save(self, output_dir=None, state_dict=None, merge_tensor_parallel=False) -> None:
        """As upstream does, without its pickles: the weights, and the arguments beside them."""
        if self._upstream_format():
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
        """Nothing: `ExactSteps` seeds each step. Upstream would unpickle random states."""

    def _load_from_checkpoint(self, resume_from_checkpoint=None) -> None:
        if resume_from_checkpoint is None or self._upstream_format():
            super()._load_from_checkpoint(resume_from_checkpoint)
        else:
            self.model.set_state_dict(read_weights(Path(resume_from_checkpoint, WEIGHTS)))

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
        if checkpoint is None or self._upstream_format():
            super()._load_optimizer_and_scheduler(checkpoint)
        elif not self.args.ignore_load_lr_and_optim:
            # Upstream looks moments up by names such as linear_7.w_0_moment1_0 (2519), whose
            # numbers count the layers and optimizers that the process has built.
            arrays = read_weights(Path(checkpoint, OPTIMIZER))
            restore_optimizer(self.optimizer, self.model, arrays)
            state = read_json(Path(checkpoint, SCHEDULER), COMPLETE)
            self.lr_scheduler.set_state_dict(state)

    def _describe_batches(self) -> dict:
        examples = len(self.train_dataset) if has_length(self.train_dataset) else None
        own = {"group_by_length": self.group_by_length, "examples": examples}
        return {**{name: getattr(self.args, name) for name in BATCHES}, **own}

    def _find_checkpoint(self, resume: bool | str | None) -> Path | None:
        """The checkpoint to go on from, after comparing its files with its seal."""
        if not resume:
            return None
        if resume is not True:
            verify_files(Path(resume), read_seal(Path(resume))["files"])
            return Path(resume)
        problem = "holds no complete checkpoint"
        for path in reversed(find_checkpoints(self.args.output_dir, r"\d+")):
            try:
                verify_files(path, read_seal(path)["files"])
                return path
            except InputError as error:
                problem += f" ({error.where} {error.problem})"
        raise InputError(self.args.output_dir, problem, "one, or training without resume")

    def _check_output_dir(self) -> None:
        """Refuse a directory with files of somebody else, or with an earlier run."""
        directory = Path(self.args.output_dir)
        if self.args.overwrite_output_dir or not self.args.should_save or not directory.is_dir():
            return
        foreign = sorted(p.name for p in directory.iterdir() if not _OURS.fullmatch(p.name))
        if foreign:
            problem = f"holds what no Trainer wrote: {', '.join(foreign[:3])}"
            raise InputError(directory, problem, "a directory of its own for each run")
        earlier = [path for path in find_checkpoints(directory, r"\d+") if not _is_unfinished(path)]
        if self.resumed is None and earlier:
            raise InputError(
                directory,
                f"holds {earlier[-1].name} of an earlier run",
                "another directory, resume_from_checkpoint=True or overwrite_output_dir=True",
            )

    def _check_fits(self, checkpoint: Path) -> None:
        """Refuse a checkpoint of another model, and warn of other batches."""
        if not self._upstream_format():  # else upstream checks
            # upstream ignores weights that are missing, surplus or of another shape (1224)
            shapes = weight_shapes(checkpoint / WEIGHTS)
            check_weights(checkpoint, shapes, shapes_of(self.model), "a checkpoint of this model")
        check_same_labels(self.model, checkpoint)
        now = self._describe_batches()
        for name, value in read_seal(checkpoint)["batches"].items():
            if now.get(name) != value:
                warnings.warn(
                    f"{checkpoint} was made with {name} {value}, now it is {now.get(name)}: the "
                    "run goes on, but with other batches than the unbroken one",
                    stacklevel=3,
                )


def read_seal(checkpoint: Path) -> dict:
    """What a CourseTrainer noted when a checkpoint was complete.

    Raises:
        InputError: there is no seal, as in a checkpoint of a stock Trainer or of a run that was
            killed, or it is damaged.
    """
    file = checkpoint / SEAL
    if not checkpoint.is_dir():
        raise InputError(checkpoint, "does not exist", "a checkpoint directory")
    if not file.is_file():
        raise InputError(file, "is missing", "a complete checkpoint of a CourseTrainer")
    try:
        seal = read_json(file, COMPLETE)
        if not check_described(seal["files"]) or not isinstance(seal["patience"], list):
            raise ValueError
        sum(map(float, seal["losses"].values())), dict(seal["batches"].items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise InputError(file, "is damaged", COMPLETE) from None
    return seal


def _is_unfinished(checkpoint: Path) -> bool:
    """Whether a CourseTrainer was killed while it wrote it, so that nobody can use it."""
    names = {path.name for path in checkpoint.iterdir() if not path.name.startswith(".")}
    return SEAL not in names and (not names or OPTIMIZER in names)  # which is written first


def _finds_no_pickle(record: logging.LogRecord) -> bool:
    """Upstream warns that the best weights are no pickle (1141); `_load_best` loads them."""
    return "Could not locate the best model" not in record.getMessage()
