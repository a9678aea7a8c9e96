"""PaddleNLP's Trainer with exact resumption, batches of similar length and clear errors.

Everything else is upstream's: arguments, evaluation, logs, prediction, early stopping. Line numbers
in comments are those of paddlenlp 2.8.1's trainer/trainer.py.
"""

import json
import logging
import math
import warnings
from pathlib import Path
from typing import Any

from ..data import LengthGroupedBatchSampler
from ..models.backbone import check_same_labels
from ..models.files import (
    WEIGHT_FILES,
    check_weights,
    read_weights,
    save_pretrained,
    shapes_of,
    weight_shapes,
    write_weights,
)
from ..models.patches import checked_pickles
from ..runtime import InputError, atomic_file, check_writable
from ..runtime.files import discard, read_json
from ..runtime.manifest import COMPLETE, describe_files, verify_files
from .callbacks import ExactSteps, NotebookProgressCallback
from .checkpoint import find_checkpoints, model_arrays, optimizer_arrays, restore_optimizer
from .checks import POSITIONS, check_arguments, check_data, check_dataset, check_metric
from .loop import check_trainable
from .prediction import NO_NUMBERS

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


class CourseTrainer(Trainer):
    """A Trainer whose killed runs, resumed, end with the same bits as unbroken ones.

    It takes the arguments of `paddlenlp.trainer.Trainer`. What differs:

    - The order of the examples is a function of (seed, epoch), dropout masks are one of (seed,
      step), and Adam's moments are found by the structure of the model. Upstream draws from global
      random states, which a resume does not bring back, and files moments under generated names.
    - `resume_from_checkpoint=True` takes the newest complete checkpoint. Losses and VisualDL's page
      are then those of the whole run; a run that had ended, or stopped early, trains no further.
    - It writes safetensors and JSON instead of pickles (except with AMP, PEFT and several forms of
      parallelism). A stock Trainer's checkpoint is not resumed: load its weights instead.
    - `save_total_limit` is obeyed in a single process too.
    - Data, arguments and loss are checked before the first step.

    A collator that draws random numbers (masked words) must seed them itself, by example.

    Args:
        group_by_length: batches of examples of similar length; the features need "input_ids".

    Attributes:
        resumed: the checkpoint that the training goes on from.
        batch_losses, unlogged_loss: sums of losses since the last step, and since the last log.
    """

    def __init__(self, *args, group_by_length: bool = False, **kwargs) -> None:
        arguments = kwargs.get("args", args[2] if len(args) > 2 else None)
        if arguments is not None and arguments.should_save:
            check_writable(arguments.output_dir)
        super().__init__(*args, **kwargs)
        self.group_by_length = group_by_length
        # upstream looks for "QusetionAnswering" (389), and would evaluate without a loss
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
        """
        check_arguments(self.args)
        check_trainable(self.model)
        self.resumed = self._find_checkpoint(resume_from_checkpoint)
        if self.resumed is None:
            self._check_output_dir()
        if has_length(self.train_dataset):  # a stream is not read twice
            check_data(self)
        check_metric(self)
        if self.resumed is not None:
            self._check_fits(self.resumed)
            # upstream's early stopping would begin to count its patience anew
            patience = _read_seal(self.resumed)["patience"]
            for callback, counter in zip(self._early_stopping(), patience, strict=False):
                callback.early_stopping_patience_counter = counter
        elif self.args.should_save:  # with overwrite_output_dir: True must not find them later
            for path in find_checkpoints(self.args.output_dir, r"\d+"):
                discard(path)
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
                one.early_stopping_patience_counter >= one.early_stopping_patience
                for one in self._early_stopping()
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
            losses = _read_seal(self.resumed)["losses"]
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
        since the resume (1145). With a loss that is not finite it trains on and saves the weights.
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
            verify_files(Path(best), _read_seal(Path(best))["files"])
            self.model.set_state_dict(read_weights(Path(best, WEIGHTS)))

    # ---- batches

    def _get_train_sampler(self) -> paddle.io.BatchSampler | None:
        dataset = self.train_dataset
        if not has_length(dataset):
            return None
        # Upstream's sampler shuffles with NumPy's global state, which a resume does not bring back.
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
        check_dataset(self, "eval_dataset", dataset)  # Paddle's loader would wait for a bad row
        return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset) -> paddle.io.DataLoader:
        check_dataset(self, "test_dataset", test_dataset)
        return super().get_test_dataloader(test_dataset)

    # ---- checkpoints

    def _save_checkpoint(self, model, metrics=None) -> None:
        directory = Path(self.args.output_dir, f"checkpoint-{self.state.global_step}")
        (directory / SEAL).unlink(missing_ok=True)  # of an earlier run that came as far
        self._unlogged = self._mean_unlogged()
        finite = [paddle.isfinite(weight).all() for weight in model.parameters()]
        if not math.isfinite(self._unlogged) or not all(map(bool, finite)):
            problem = "its loss or a weight is not a finite number at step "
            raise InputError("model", f"{problem}{self.state.global_step}", NO_NUMBERS)
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

        By number: upstream's search by time would delete "checkpoint-of-my-thesis" as well (2320).
        """
        directory = Path(output_dir, f"checkpoint-{self.state.global_step}")
        for file in directory.glob("rng_state*.pth"):  # pickles; each step seeds its own
            file.unlink()
        losses = {"logged": self._logged_loss, "unlogged": self._unlogged}
        seal = {
            "files": describe_files(directory),
            "batches": self._describe_batches(),
            "losses": {**losses, "last_log": self._last_log},
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
            # upstream looks moments up by generated names (2519)
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
            verify_files(Path(resume), _read_seal(Path(resume))["files"])
            return Path(resume)
        problem = "holds no complete checkpoint"
        for path in reversed(find_checkpoints(self.args.output_dir, r"\d+")):
            try:
                verify_files(path, _read_seal(path)["files"])
                return path
            except InputError as error:
                problem += f" ({error.where} {error.problem})"
        raise InputError(self.args.output_dir, problem, "one, or training without resume")

    def _check_output_dir(self) -> None:
        """Refuse a directory with an earlier run."""
        earlier = find_checkpoints(self.args.output_dir, r"\d+")
        if earlier and self.args.should_save and not self.args.overwrite_output_dir:
            problem = f"holds {earlier[-1].name} of an earlier run"
            expected = "another one, resume_from_checkpoint=True or overwrite_output_dir=True"
            raise InputError(self.args.output_dir, problem, expected)

    def _check_fits(self, checkpoint: Path) -> None:
        """Refuse a checkpoint of another model, and warn of other batches."""
        if not self._upstream_format():  # else upstream checks
            # upstream ignores weights that are missing, surplus or of another shape (1224)
            shapes = weight_shapes(checkpoint / WEIGHTS)
            check_weights(checkpoint, shapes, shapes_of(self.model), "a checkpoint of this model")
        check_same_labels(self.model, checkpoint)
        now = self._describe_batches()
        for name, value in _read_seal(checkpoint)["batches"].items():
            if now.get(name) != value:
                problem = f"{checkpoint} was made with {name} {value}, now it is {now.get(name)}: "
                problem += "the run goes on, but with other batches than the unbroken one"
                warnings.warn(problem, stacklevel=3)


def _read_seal(checkpoint: Path) -> dict:
    """What a CourseTrainer noted when a checkpoint was complete."""
    file = checkpoint / SEAL
    if not checkpoint.is_dir():
        raise InputError(checkpoint, "does not exist", "a checkpoint directory")
    if not file.is_file():
        raise InputError(file, "is missing", "a complete checkpoint of a CourseTrainer")
    return read_json(file, COMPLETE)


def _finds_no_pickle(record: logging.LogRecord) -> bool:
    """Upstream warns that the best weights are no pickle (1141); `_load_best` loads them."""
    return "Could not locate the best model" not in record.getMessage()
