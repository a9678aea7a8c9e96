"""Every compression strategy of PaddleNLP behind PaddleNLP's own interface.

`Trainer.compress()` of paddlenlp 2.8.1 stops with an error for every strategy but "qat"; this one
takes the same arguments and runs all of them.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from course_lib.compression.distillation import DistillTrainer, narrow, narrowed
from course_lib.compression.pruning import (
    cross_entropy,
    encoder_layers,
    importance,
    kept,
    multi_label,
    parse_width,
    reorder,
    shape_of,
)
from course_lib.compression.quantization import (
    check_lists,
    one_number,
    quantize_embeddings,
    search,
)
from course_lib.deploy import Predictor, export_model
from course_lib.models.files import WEIGHT_FILES, save_pretrained
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError
from course_lib.training import decode_answers, exact_match
from course_lib.training.callbacks import ExactSteps
from course_lib.training.checks import (
    IGNORED,
    check_arguments,
    check_labels,
    check_rows,
    check_trainable,
    known_columns,
)
from course_lib.training.prediction import inference_mode
from course_lib.training.trainer import CourseTrainer

import numpy as np
import paddle
import pandas as pd
from paddle.io import TensorDataset
from paddlenlp.datasets import MapDataset
from paddlenlp.trainer import CompressionArguments, TrainerCallback
from paddlenlp.trainer.trainer_utils import IntervalStrategy, has_length
from paddlenlp.transformers import PretrainedModel
from seqeval.metrics import f1_score

BASES = ("dynabert", "ptq", "qat", "dynabert+ptq", "dynabert+qat")
STRATEGIES = (*BASES, *(f"{base}+embeddings" for base in BASES))
COLUMNS = (
    "path",
    "width",
    "algo",
    "batch_size",
    "batch_nums",
    "embeddings",
    "score",
    "megabytes",
)
HELD_OUT = 256  # rows, at most, and a tenth of the training data
_DEFAULT_CALLBACKS = (  # where the callbacks live that every Trainer makes for itself
    "paddlenlp.trainer.trainer_callback",
    "paddlenlp.trainer.integrations",
)


class CompressTrainer(CourseTrainer):
    """A Trainer whose `compress()` prunes, quantises and trains with quantisation.

    It takes the arguments of `paddlenlp.trainer.Trainer`; `args` are CompressionArguments. What
    they mean is unchanged. What is done with the data is not:

    - `train_dataset`: a tenth, at most 256 rows, is held out to measure importance on; DynaBERT
      and QAT train on the rest. Quantisation is calibrated on all of it.
    - `eval_dataset`: to compare models, as the name says, and to choose the best step of a
      training. (Upstream measures importance and calibrates on it.) Where there is no
      train_dataset, which only "ptq" allows, calibration reads eval_dataset as upstream does.

    Args:
        eval_examples: the questions that `eval_dataset`'s features were made from
            (`course_lib.data.convert_qa_examples`), to compare answers as texts. Without them a
            feature counts as right when both positions are.
    """

    def __init__(self, *args, eval_examples: Sequence[dict] | None = None, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.eval_examples = eval_examples
        self._evaluate: Any = None  # a function
        self._calc_loss: Callable | None = None

    def compress(
        self,
        custom_evaluate: Callable | None = None,
        custom_dynabert_evaluate: Callable | None = None,
        custom_dynabert_calc_loss: Callable | None = None,
    ) -> pd.DataFrame:
        """Compress the model by `args.strategy`, and compare what came out on `eval_dataset`.

        The model itself stays as it is. Below `args.output_dir` is written, where upstream writes
        it too: `model.pdmodel`, the uncompressed one; `width_mult_0.75/`, a cut model for
        `load_pruned`, with its own `model.pdmodel`; beside either, `hist16_1/int8.pdmodel`
        (algorithm, batch size, batches) of "ptq" or `int8.pdmodel` of "qat"; and in the place of
        what it was made from, `quant_emb.pdmodel` of "embeddings".

        Args:
            custom_evaluate: (trainer, model, data_loader) -> one number, higher is better. By
                default accuracy of sequence classification (micro F1 at 0.5 with several labels a
                text), F1 of entities of token classification, and exact match of question
                answering.
            custom_dynabert_evaluate: the older form, (model, data_loader) -> number; it may pass
                `attention_mask=[None, None]`.
            custom_dynabert_calc_loss: (criterion, model, batch, head_mask) -> the mean loss, for
                the importance of heads and neurons where the criterion is not enough.

        Returns:
            A row a model, the uncompressed one first: "path" (of its static files, without their
            endings), "width", "algo", "batch_size", "batch_nums", "embeddings", "score" and
            "megabytes" (10^6 bytes of the static files).

        Raises:
            InputError: an argument, the data or the model is not as the strategy needs it; it is
                raised before anything is computed.
        """
        if custom_evaluate and custom_dynabert_evaluate:
            problem = "is given, and custom_dynabert_evaluate too"
            raise InputError("custom_evaluate", problem, "one of them")
        for name, given in (
            ("custom_evaluate", custom_evaluate),
            ("custom_dynabert_evaluate", custom_dynabert_evaluate),
            ("custom_dynabert_calc_loss", custom_dynabert_calc_loss),
        ):
            if given is not None and not callable(given):
                raise InputError(name, f"is {given!r}", "a function")
        self._evaluate = _with_trainer(custom_evaluate or custom_dynabert_evaluate)
        self._calc_loss = None
        if custom_dynabert_calc_loss:
            # importance() puts its masks where head_mask would go, so this one is of ones
            self._calc_loss = lambda model, batch: custom_dynabert_calc_loss(
                self.criterion or cross_entropy, _TwoMasks(model), batch, paddle.ones([1, 1])
            )
        parts = self._check_compression()
        self.__dict__.pop("_eval_rows", None)  # of an earlier call
        training = self.model.training
        self.model.eval()
        try:
            return self._compress(parts)
        finally:
            if training:
                self.model.train()

    def _compress(self, parts: frozenset[str]) -> pd.DataFrame:
        args, output = self.args, Path(self.args.output_dir)
        table: list[dict] = []

        def add(path: Path, score: float | None = None, **how) -> None:
            files = [path.with_name(path.name + end) for end in (".pdmodel", ".pdiparams")]
            if score is None:
                score = self._score(self._static(path))
            size = sum(file.stat().st_size for file in files) / 1e6
            table.append({"path": path, "score": score, "megabytes": size, **how})

        given = args.input_infer_model_path
        baseline = self._export(self.model, output) if given is None else Path(given)
        add(baseline)
        sources: list[tuple] = [(None, self.model, baseline)]
        if "dynabert" in parts:
            sources = []
            for width, model in self._dynabert().items():
                path = self._export(model, output / _name(width))
                with quiet_paddlenlp():
                    save_pretrained(path.parent, model)
                add(path, width=width)
                sources.append((width, model, path))
        for width, model, source in sources:
            made: list[tuple[Path, dict]] = [(source, {})]
            directory = output if width is None else source.parent
            if "ptq" in parts:
                made = self._ptq(source, directory)
            elif "qat" in parts:
                made = [(self._qat(model, directory), {})]
            for path, how in made:
                if path != source:
                    add(path, width=width, **how)
                if "embeddings" in parts:
                    smaller = quantize_embeddings(path, path.with_name("quant_emb"))
                    how.pop("score", None)
                    add(smaller, width=width, embeddings=True, **how)
        frame = pd.DataFrame(table, columns=COLUMNS)
        frame["embeddings"] = frame["embeddings"].eq(True)
        return frame

    # ---- the strategies

    def _dynabert(self) -> dict[float, paddle.nn.Layer]:
        """Train all widths together; gives each one's best, cut for real."""
        widths = self._widths()
        held_out, rest = self._split()
        loader = self._loader(held_out)
        tables = importance(self.model, loader, self.criterion, self.label_names, self._calc_loss)
        student = reorder(self.model, *tables)
        best: dict[float, tuple[float, paddle.nn.Layer]] = {}

        def look() -> None:
            for width in widths:
                with narrowed(student, width):
                    score = self._score(student)
                if width not in best or score > best[width][0]:
                    best[width] = score, narrow(student, width)

        self._train(DistillTrainer, student, rest, look, teacher=self.model, widths=widths)
        for _, model in best.values():
            model.eval()
        return {width: best[width][1] for width in widths}

    def _train(self, kind: type[CourseTrainer], model, rows, look: Callable, **own) -> None:
        """Train by the arguments; `look` is called every `save_steps` steps, and at the end."""
        args = copy.copy(self.args)
        args.save_strategy = args.evaluation_strategy = IntervalStrategy.NO
        args.load_best_model_at_end = False
        mine = [
            callback
            for callback in self.callback_handler.callbacks
            if type(callback).__module__ not in _DEFAULT_CALLBACKS
            and not isinstance(callback, ExactSteps)
        ]
        with tempfile.TemporaryDirectory(prefix="compress-") as directory:
            args.output_dir = directory
            trainer = kind(
                model=model,
                criterion=self.criterion or cross_entropy,
                args=args,
                data_collator=self.data_collator,
                train_dataset=MapDataset(rows),
                tokenizer=self.tokenizer,
                callbacks=[*mine, _Look(look)],
                group_by_length=self.group_by_length,
                **own,
            )
            trainer.train()

    def _ptq(self, source: Path, directory: Path) -> list[tuple[Path, dict]]:
        """All the quantised models that the lists ask for, and how each was made."""
        args = self.args
        _, frame = search(
            source,
            directory,
            self._calibration(),
            lambda predictor: self._score(_Static(predictor)),
            seed=args.seed,
            **self._lists(),
            **self._static_options(),
        )
        return [(Path(row.pop("path")), row) for row in frame.to_dict("records")]

    def _qat(self, model: paddle.nn.Layer, directory: Path) -> Path:
        """Train with fake quantisation and write the best state as an INT8 model."""
        from course_lib.compression.qat import export_quantized  # slow to import

        quantised = self._rounded(model)
        best: list[tuple[float, dict]] = []

        def look() -> None:
            score = self._score(quantised)
            if not best or score > best[0][0]:
                state = {name: value.numpy() for name, value in quantised.state_dict().items()}
                best[:] = [(score, state)]

        self._train(CourseTrainer, quantised, self._split()[1], look)
        quantised.set_state_dict(best[0][1])
        quantised.eval()
        return export_quantized(
            quantised,
            directory,
            self._calibration(),
            tokenizer=self.tokenizer,
            seed=self.args.seed,
        )

    def _rounded(self, model: paddle.nn.Layer) -> paddle.nn.Layer:
        """A copy that computes as INT8 would."""
        from course_lib.compression.qat import quantize_aware  # slow to import

        args = self.args
        return quantize_aware(
            model,
            weight_quantize_type=args.weight_quantize_type,
            activation_quantize_type=args.activation_quantize_type,
            use_pact=args.use_pact,
            moving_rate=args.moving_rate,
        )

    def _lists(self) -> dict:
        args = self.args
        return {
            "algo_list": args.algo_list or ["mse", "KL"],
            "batch_num_list": args.batch_num_list or [1],
            "batch_size_list": args.batch_size_list or [4, 8, 16],
        }

    def _static_options(self) -> dict:
        args = self.args
        return {
            "weight_quantize_type": args.weight_quantize_type,
            "activation_quantize_type": args.activation_quantize_type or "range_abs_max",
            "round_type": args.round_type,
            "bias_correction": args.bias_correction,
        }

    def _export(self, model: paddle.nn.Layer, directory: Path) -> Path:
        row = self._eval_rows[0]
        spec = [
            paddle.static.InputSpec([None, None], "int64", name)
            for name in inspect.signature(model.forward).parameters
            if name in row and name not in self.label_names
        ]
        # texts are cut where these features were: longer ones are another task
        longest = max(len(row["input_ids"]) for row in self._eval_rows)
        return export_model(model, directory, self.tokenizer, longest, input_spec=spec)

    def _static(self, path: Path) -> _Static:
        return _Static(Predictor(path))

    # ---- data

    def _split(self) -> tuple[list[dict], list[dict]]:
        """Rows to measure importance on, and rows to train with."""
        rows = _columns(self, self.train_dataset)
        order = np.random.RandomState(self.args.seed).permutation(len(rows))
        count = min(HELD_OUT, max(1, len(rows) // 10))
        return [rows[i] for i in order[:count]], [rows[i] for i in order[count:]]

    def _calibration(self) -> list[dict]:
        dataset = self.eval_dataset if self.train_dataset is None else self.train_dataset
        return _columns(self, dataset)

    @functools.cached_property
    def _eval_rows(self) -> list[dict]:
        return _columns(self, self.eval_dataset)

    def _loader(self, rows: list[dict]) -> paddle.io.DataLoader:
        return self.get_eval_dataloader(MapDataset(rows))

    def _score(self, model: paddle.nn.Layer) -> float:
        """The metric of a model on `eval_dataset`; the model's mode is put back afterwards."""
        training, loader = model.training, self._loader(self._eval_rows)
        try:
            with inference_mode(model):
                score = (self._evaluate or self._built_in())(self, model, loader)
        finally:
            model.train() if training else model.eval()
        return one_number("custom_evaluate", score)

    def _built_in(self) -> Any:
        name = type(self.model).__name__
        if multi_label(self.model):
            return label_f1
        return next((one for part, one in _EVALUATORS.items() if part in name), None)

    def entity_labels(self) -> list[str]:
        """Names of labels, of the train_dataset's `label_list` or the model's configuration.

        Raises:
            InputError: one that seqeval does not know, such as PaddleNLP's default LABEL_0.
        """
        config = self.model.config
        names = getattr(self.train_dataset, "label_list", None)
        names = names or [config.id2label[index] for index in range(config.num_labels)]
        for name in names:
            if not re.fullmatch("O|[BIES]-.+", name):
                problem = f"have the name {name!r}, of which seqeval makes no entities"
                expected = (
                    "O, B-X, I-X, ... in the train_dataset's label_list, or a custom_evaluate"
                )
                raise InputError("labels", problem, expected)
        return names

    # ---- checks

    def _widths(self) -> list[float]:
        widths = [parse_width(width) for width in self.args.width_mult_list or ["3/4"]]
        names = [_name(width) for width in widths]
        if len(set(names)) < len(names):
            problem = f"gives one directory twice: {', '.join(names)}"
            raise InputError("width_mult_list", problem, "widths that differ by 0.01 or more")
        for layer in zip(*shape_of(self.model), strict=True):
            for width in widths:
                kept(width, *layer)
        return widths

    def _check_compression(self) -> frozenset[str]:
        """Find what would stop the run later; gives the parts of the strategy."""
        args, static = self.args, getattr(self.args, "input_infer_model_path", None)
        if not isinstance(args, CompressionArguments):
            raise InputError("args", f"are {type(args).__name__}", "CompressionArguments")
        words = str(args.strategy).split("+")
        parts, known = frozenset(words), [frozenset(one.split("+")) for one in STRATEGIES]
        if len(words) > len(parts) or parts not in known:
            raise InputError("strategy", f"is {args.strategy!r}", f"one of {', '.join(STRATEGIES)}")
        for file in WEIGHT_FILES:  # compress() writes none there, but a vocabulary and a program
            if Path(args.output_dir, file).exists():
                problem = f"holds {file}: it is a model's directory, whose files would be replaced"
                raise InputError(args.output_dir, problem, "an output_dir of its own")
        if paddle.distributed.get_world_size() > 1:
            problem = f"runs in {paddle.distributed.get_world_size()} processes"
            raise InputError("compress()", problem, "one: what it writes and compares is one model")
        if args.prune_embeddings:
            problem = "is on; it takes tokens out of the vocabulary, which is no part of compress()"
            raise InputError(
                "prune_embeddings", problem, "Trainer.cut_embeddings before fine-tuning"
            )
        for name in ("recompute", "to_static"):
            if getattr(args, name) and "dynabert" in parts:
                problem = "is on, and would compute a narrowed model again at its whole width"
                raise InputError(name, problem, "False")
        for name in ("width_mult_list", "algo_list", "batch_size_list", "batch_num_list"):
            given = getattr(args, name)
            if given is not None and not isinstance(given, (list, tuple)):
                raise InputError(name, f"is {given!r}", f"a list, such as [{given!r}]")
        check_arguments(args)
        if args.input_dtype != "int64":
            problem = f"is {args.input_dtype!r}, and calibration and Predictor feed int64"
            raise InputError("input_dtype", problem, "int64")
        if static is not None and parts - {"ptq", "embeddings"}:
            problem = "is given, and a static model cannot be trained"
            raise InputError("input_infer_model_path", problem, 'strategy "ptq", or none')
        if static is not None and not Path(f"{static}.pdmodel").is_file():
            problem = f"there is no {static}.pdmodel"
            raise InputError("input_infer_model_path", problem, "a path without its ending")
        if static is None:
            self._check_model(parts)
        if self._evaluate is None and self._built_in() is None:
            problem = f"there is no metric for {type(self.model).__name__}"
            raise InputError("custom_evaluate", problem, "a function (trainer, model, loader)")
        by_text = self.eval_examples is not None  # then positions are not looked at
        self._check_rows("eval_dataset", self.eval_dataset, not (self._evaluate or by_text))
        trains = bool(parts & {"dynabert", "qat"})
        if self.train_dataset is not None or trains:
            labelled = "qat" in parts or ("dynabert" in parts and self._calc_loss is None)
            self._check_rows("train_dataset", self.train_dataset, labelled, 2 if trains else 1)
        if not args.onnx_format:
            problem = "is off: Paddle Inference finds no INT8 kernels for the older format"
            raise InputError("onnx_format", problem, "True")
        if "dynabert" in parts:
            self._widths()
        if "ptq" in parts:
            check_lists(**self._lists(), **self._static_options())
        if parts & {"dynabert", "qat"}:
            check_trainable(self.model)
        if self._evaluate is None and self._built_in() is entity_f1:
            self.entity_labels()
        if "qat" in parts:
            self._rounded(self.model)
        return parts

    def _check_model(self, parts: frozenset[str]) -> None:
        model = self.model
        if "dynabert" in parts:
            encoder_layers(model)
        elif isinstance(model, PretrainedModel) and isinstance(model, model.base_model_class):
            raise InputError(type(model).__name__, "has no head", "a fine-tuned model")

    def _check_rows(self, name: str, dataset, labelled: bool, least: int = 1) -> None:
        if dataset is None:
            raise InputError(name, "is None", "features of the task")
        if isinstance(dataset, TensorDataset):
            problem = "is a TensorDataset, which has no names for its columns"
            raise InputError(name, problem, "a Dataset whose rows are dicts, such as MapDataset")
        if isinstance(dataset, Mapping) or not has_length(dataset):
            raise InputError(name, f"is a {type(dataset).__name__}", "one dataset with a length")
        if len(dataset) < least:
            raise InputError(name, f"has {len(dataset)} rows", f"at least {least}")
        row = dataset[0]
        if not isinstance(row, Mapping) or "input_ids" not in row:
            raise InputError(name, "its rows have no 'input_ids'", "features of a tokenizer")
        known = known_columns(self)
        columns = dict.fromkeys(["input_ids", *(column for column in row if column in known)])
        if labelled:
            columns |= dict.fromkeys(self.label_names)
        read = check_rows(name, dataset, list(columns), self.label_names)
        classes = getattr(getattr(self.model, "config", None), "num_labels", 1)
        kind = type(self.model).__name__
        logits: list[Any] | None = None
        if "SequenceClassification" in kind or "TokenClassification" in kind:
            logits = [None, classes] if "Sequence" in kind else [None, None, classes]
        check_labels(name, *read, logits, getattr(self.criterion, "ignore_index", IGNORED))


def _columns(trainer: CompressTrainer, dataset) -> list[dict]:
    """A dataset's rows, without what the model does not take, by `remove_unused_columns`."""
    rows = [dict(dataset[row]) for row in range(len(dataset))]
    if not trainer.args.remove_unused_columns:
        return rows
    known = known_columns(trainer)
    return [{name: value for name, value in row.items() if name in known} for row in rows]


def _name(width: float) -> str:
    return f"width_mult_{round(width, 2)}"


def _with_trainer(evaluate: Callable | None) -> Callable | None:
    """A function of (model, loader), the older form, as one of (trainer, model, loader)."""
    if evaluate is None or len(inspect.signature(evaluate).parameters) > 2:
        return evaluate
    return lambda _, model, loader: evaluate(_TwoMasks(model), loader)


class _TwoMasks(paddle.nn.Layer):
    """A model that takes attention_mask as [attention_mask, head_mask], as upstream's do."""

    def __init__(self, model: paddle.nn.Layer) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args, attention_mask=None, **kwargs):
        if isinstance(attention_mask, (list, tuple)):
            attention_mask = attention_mask[0]
        return self.model(*args, attention_mask=attention_mask, **kwargs)


class _Static(paddle.nn.Layer):
    """A static model that is called as the dynamic one is."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor, self.names = predictor, predictor.input_names

    def forward(self, *args, **kwargs):
        given = {**dict(zip(self.names, args, strict=False)), **kwargs}
        outputs = self.predictor.run(
            {name: given[name].numpy() for name in self.names if name in given}
        )
        outputs = tuple(paddle.to_tensor(output) for output in outputs)
        return outputs[0] if len(outputs) == 1 else outputs


class _Look(TrainerCallback):
    """Call something every `save_steps` steps, and after the last one."""

    def __init__(self, look: Callable) -> None:
        self.look = look

    def on_step_end(self, args, state, control, **kwargs):
        due = args.save_steps > 0 and state.global_step % args.save_steps == 0
        if due or state.global_step == state.max_steps:
            self.look()


def _inputs(trainer: CompressTrainer, batch: Mapping) -> dict:
    return {name: value for name, value in batch.items() if name not in trainer.label_names}


def accuracy(trainer: CompressTrainer, model: paddle.nn.Layer, loader) -> float:
    """The share of examples whose class is right."""
    right, count = 0, 0
    for batch in loader:
        predicted = model(**_inputs(trainer, batch)).argmax(axis=-1)
        labels = batch["labels"].reshape([-1])
        right, count = right + int((predicted == labels).sum()), count + len(labels)
    return right / count


def label_f1(trainer: CompressTrainer, model: paddle.nn.Layer, loader) -> float:
    """Micro F1 of all labels whose probability is at least 1/2."""
    right, both = 0, 0
    for batch in loader:
        predicted, labels = model(**_inputs(trainer, batch)) >= 0, batch["labels"] > 0.5
        right += int((predicted & labels).sum())
        both += int(predicted.sum()) + int(labels.sum())
    return 2 * right / max(1, both)


def entity_f1(trainer: CompressTrainer, model: paddle.nn.Layer, loader) -> float:
    """seqeval's F1 of entities."""
    names = trainer.entity_labels()
    gold, found = [], []
    for batch in loader:
        predicted = model(**_inputs(trainer, batch)).argmax(axis=-1).numpy()
        for labels, row in zip(batch["labels"].numpy(), predicted, strict=True):
            counts = labels >= 0
            gold.append([names[label] for label in labels[counts]])
            found.append([names[label] for label in row[counts]])
    return float(f1_score(gold, found, zero_division=0))


def exact_answers(trainer: CompressTrainer, model: paddle.nn.Layer, loader) -> float:
    """The share of questions answered right; without `eval_examples`, of features."""
    right, starts, ends = [], [], []
    for batch in loader:
        start, end = model(**_inputs(trainer, batch))
        starts += list(start.numpy())
        ends += list(end.numpy())
        if trainer.eval_examples is None:
            fits = start.argmax(axis=-1) == batch["start_positions"]
            right += list((fits & (end.argmax(axis=-1) == batch["end_positions"])).numpy())
    if trainer.eval_examples is not None:
        answers = decode_answers(starts, ends, trainer.eval_dataset, trainer.eval_examples)
        pairs = zip(answers, trainer.eval_examples, strict=True)
        right = [exact_match(answer["text"], example["answers"]) for answer, example in pairs]
    return float(np.mean(right))


_EVALUATORS = {
    "SequenceClassification": accuracy,
    "TokenClassification": entity_f1,
    "QuestionAnswering": exact_answers,
}
