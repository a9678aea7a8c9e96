"""Every compression strategy of PaddleNLP behind PaddleNLP's own interface.

`Trainer.compress()` of paddlenlp 2.8.1 stops with an error for every strategy but "qat"; this one
takes the same arguments and runs all of them.
"""

import copy
import inspect
import itertools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..deploy import Predictor, export_model
from ..models.files import WEIGHT_FILES, save_pretrained
from ..models.patches import quiet_paddlenlp
from ..runtime import InputError
from ..training.checks import IGNORED, check_arguments, check_labels, check_rows, known_columns
from ..training.loop import check_trainable
from ..training.prediction import inference_mode
from ..training.trainer import CourseTrainer
from .distillation import DistillTrainer
from .embeddings import quantize_embeddings
from .evaluation import Metric, metric_for
from .pruning import cross_entropy, importance, kept, narrow, narrowed, parse_width, reorder
from .static import check_options, quantize_static

import numpy as np
import paddle
import pandas as pd
from paddlenlp.datasets import MapDataset
from paddlenlp.trainer import TrainerCallback
from paddlenlp.trainer.trainer_utils import IntervalStrategy

BASES = ("dynabert", "ptq", "qat", "dynabert+ptq", "dynabert+qat")
STRATEGIES = (*BASES, *(f"{base}+embeddings" for base in BASES))
COLUMNS = ("path", "width", "algo", "batch_size", "batch_nums", "embeddings", "score", "megabytes")
HELD_OUT = 256  # rows at most, and at most a tenth of the training data


class CompressTrainer(CourseTrainer):
    """A Trainer whose `compress()` prunes, quantizes and trains with quantization.

    It takes the arguments of `paddlenlp.trainer.Trainer`; `args` are CompressionArguments. What
    they mean is unchanged. What is done with the data is not:

    - `train_dataset`: a tenth, at most 256 rows, is held out to measure importance on; DynaBERT
      and QAT train on the rest. Quantization is calibrated on all of it.
    - `eval_dataset`: to compare models, as the name says, and to choose the best step of a
      training. (Upstream measures importance and calibrates on it.) Where there is no
      train_dataset, which only "ptq" allows, calibration reads eval_dataset as upstream does.

    Args:
        eval_examples: the questions that `eval_dataset`'s features were made from
            (`course_lib.data.convert_qa_examples`), to compare answers as texts. Without them a
            feature counts as right when both positions are.
    """

    def __init__(
        self,
        *args,
        callbacks: Sequence[TrainerCallback] | None = None,
        eval_examples: Sequence[dict] | None = None,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._built_in = list(self.callback_handler.callbacks)  # which every Trainer makes
        for callback in callbacks or ():
            self.add_callback(callback)
        self.eval_examples = eval_examples

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
        (algorithm, batch size, batches) of "ptq" or `int8.pdmodel` of "qat"; and instead of
        what it was made from, `quant_emb.pdmodel` of "embeddings".

        Args:
            custom_evaluate: (trainer, model, data_loader) -> one number, higher is better. By
                default accuracy of sequence classification (micro F1 at 0.5 with several labels per
                text), F1 of entities of token classification, and exact match of question
                answering.
            custom_dynabert_evaluate: the older form, (model, data_loader) -> number; it may pass
                `attention_mask=[None, None]`.
            custom_dynabert_calc_loss: (criterion, model, batch, head_mask) -> the mean loss, for
                the importance of heads and neurons where the criterion is not enough.

        Returns:
            One row per model, the uncompressed one first: "path" (of its files, without their
            endings), "width", "algo", "batch_size", "batch_nums", "embeddings", "score" and
            "megabytes" (10^6 bytes of the static files).

        Raises:
            InputError: an argument, the data or the model is not as the strategy needs it; it is
                raised before anything is computed.
        """
        metric = _with_trainer(custom_evaluate or custom_dynabert_evaluate)
        self._evaluate: Metric = metric or metric_for(self)
        self._calc_loss: Any = custom_dynabert_calc_loss
        parts = self._check_strategy()
        self._check_datasets(parts, own_metric=metric is not None)
        self._check_training(parts)
        self._eval_rows = self._rows(self.eval_dataset)
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

        def add(path: Path, **columns) -> None:
            files = [path.with_name(path.name + end) for end in (".pdmodel", ".pdiparams")]
            size = sum(file.stat().st_size for file in files) / 1e6
            score = self._score(_StaticModel(Predictor(path)))
            table.append({"path": path, "score": score, "megabytes": size, **columns})

        static = args.input_infer_model_path
        baseline = self._export(self.model, output) if static is None else Path(static)
        add(baseline)
        sources: list[tuple] = [(None, self.model, baseline)]
        if "dynabert" in parts:
            sources = []
            for width, model in self._dynabert().items():
                path = self._export(model, output / _directory(width))
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
            for path, options in made:
                if path != source:
                    add(path, width=width, **options)
                if "embeddings" in parts:
                    smaller = quantize_embeddings(path, path.with_name("quant_emb"))
                    add(smaller, width=width, embeddings=True, **options)
        frame = pd.DataFrame(table, columns=COLUMNS)
        return frame.assign(embeddings=frame["embeddings"].eq(True))

    # ---- the strategies

    def _dynabert(self) -> dict[float, paddle.nn.Layer]:
        """Train all widths together; gives each one's best, cut for real."""
        widths = self._widths()
        held_out, rest = self._split()
        loader = self._loader(held_out)

        def own_loss(model, batch) -> paddle.Tensor:
            # importance() puts its masks where head_mask would go, so this one is of ones
            criterion, head_mask = self.criterion or cross_entropy, paddle.ones([1, 1])
            return self._calc_loss(criterion, _TwoMasks(model), batch, head_mask)

        calc_loss = None if self._calc_loss is None else own_loss
        tables = importance(self.model, loader, self.criterion, calc_loss, self.label_names)
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

    def _train(self, kind: type[CourseTrainer], model, rows, look: Callable, **options) -> None:
        """Train by the arguments; `look` is called every `save_steps` steps, and at the end."""
        args = copy.copy(self.args)
        args.save_strategy = args.evaluation_strategy = IntervalStrategy.NO
        args.load_best_model_at_end = False
        own = [one for one in self.callback_handler.callbacks if one not in self._built_in]
        with tempfile.TemporaryDirectory(prefix="compress-") as directory:
            args.output_dir = directory
            trainer = kind(
                model=model,
                criterion=self.criterion or cross_entropy,
                args=args,
                data_collator=self.data_collator,
                train_dataset=MapDataset(rows),
                tokenizer=self.tokenizer,
                callbacks=[*own, _Look(look)],
                group_by_length=self.group_by_length,
                **options,
            )
            trainer.train()

    def _ptq(self, source: Path, directory: Path) -> list[tuple[Path, dict]]:
        """Quantize with every combination of the lists; gives each one's path and options."""
        args, made = self.args, []
        for algo, batch_size, batch_nums in itertools.product(
            args.algo_list or ["mse", "KL"],
            args.batch_size_list or [4, 8, 16],
            args.batch_num_list or [1],
        ):
            options = {"algo": algo, "batch_size": batch_size, "batch_nums": batch_nums}
            path = quantize_static(
                source,
                directory / f"{algo}{batch_size}_{batch_nums}",
                self._calibration(),
                **options,
                weight_quantize_type=args.weight_quantize_type,
                activation_quantize_type=args.activation_quantize_type or "range_abs_max",
                seed=args.seed,
                name="int8",
            )
            made.append((path, options))
        return made

    def _qat(self, model: paddle.nn.Layer, directory: Path) -> Path:
        """Train with fake quantization and write the best state as an INT8 model."""
        from .qat import export_quantized  # slow to import

        quantized = self._rounded(model)
        best: list[tuple[float, dict]] = []

        def look() -> None:
            score = self._score(quantized)
            if not best or score > best[0][0]:
                state = {name: value.numpy() for name, value in quantized.state_dict().items()}
                best[:] = [(score, state)]

        self._train(CourseTrainer, quantized, self._split()[1], look)
        quantized.set_state_dict(best[0][1])
        quantized.eval()
        return export_quantized(
            quantized,
            directory,
            self._calibration(),
            tokenizer=self.tokenizer,
            max_length=self._longest(),
            seed=self.args.seed,
        )

    def _rounded(self, model: paddle.nn.Layer) -> paddle.nn.Layer:
        """A copy that computes as INT8 would."""
        from .qat import quantize_aware  # slow to import

        args = self.args
        return quantize_aware(
            model,
            weight_quantize_type=args.weight_quantize_type,
            activation_quantize_type=args.activation_quantize_type or "moving_average_abs_max",
            use_pact=args.use_pact,
            moving_rate=args.moving_rate,
        )

    def _export(self, model: paddle.nn.Layer, directory: Path) -> Path:
        row = self._eval_rows[0]
        spec = [
            paddle.static.InputSpec([None, None], "int64", name)
            for name in inspect.signature(model.forward).parameters
            if name in row and name not in self.label_names
        ]
        return export_model(model, directory, self.tokenizer, self._longest(), input_spec=spec)

    def _longest(self) -> int:
        """Where the features were cut, which is where texts are to be cut in use."""
        return max(len(row["input_ids"]) for row in self._eval_rows)

    # ---- data

    def _rows(self, dataset) -> list[dict]:
        """A dataset's rows, without what the model does not take, by `remove_unused_columns`."""
        rows = [dict(dataset[row]) for row in range(len(dataset))]
        if not self.args.remove_unused_columns:
            return rows
        known = known_columns(self)
        return [{name: row[name] for name in row if name in known} for row in rows]

    def _split(self) -> tuple[list[dict], list[dict]]:
        """Rows to measure importance on, and rows to train with."""
        rows = self._rows(self.train_dataset)
        order = np.random.RandomState(self.args.seed).permutation(len(rows))
        count = min(HELD_OUT, max(1, len(rows) // 10))
        return [rows[i] for i in order[:count]], [rows[i] for i in order[count:]]

    def _calibration(self) -> list[dict]:
        return self._rows(self.eval_dataset if self.train_dataset is None else self.train_dataset)

    def _loader(self, rows: list[dict]) -> paddle.io.DataLoader:
        return self.get_eval_dataloader(MapDataset(rows))

    def _score(self, model: paddle.nn.Layer) -> float:
        """The metric of a model on `eval_dataset`."""
        with inference_mode(model):
            return float(self._evaluate(self, model, self._loader(self._eval_rows)))

    # ---- checks

    def _widths(self) -> list[float]:
        widths = [parse_width(width) for width in self.args.width_mult_list or ["3/4"]]
        names = [_directory(width) for width in widths]
        if len(set(names)) < len(names):
            problem = f"gives one directory twice: {', '.join(names)}"
            raise InputError("width_mult_list", problem, "widths that differ by 0.01 or more")
        for width in widths:
            kept(self.model, width)
        return widths

    def _check_training(self, parts: frozenset[str]) -> None:
        if parts & {"dynabert", "qat"}:
            check_trainable(self.model)
        if "dynabert" in parts:
            self._widths()
        if "qat" in parts:
            self._rounded(self.model)

    def _check_strategy(self) -> frozenset[str]:
        """Check the arguments, which a command line gives."""
        args, static = self.args, self.args.input_infer_model_path
        words = args.strategy.split("+")
        parts, known = frozenset(words), [frozenset(one.split("+")) for one in STRATEGIES]
        if len(words) > len(parts) or parts not in known:
            raise InputError("strategy", f"is {args.strategy!r}", f"one of {', '.join(STRATEGIES)}")
        for file in WEIGHT_FILES:  # compress() writes none there, but a vocabulary and a program
            if Path(args.output_dir, file).exists():
                problem = f"holds {file}: it is a model's directory, whose files would be replaced"
                raise InputError(args.output_dir, problem, "a separate output_dir")
        processes = paddle.distributed.get_world_size()
        if processes > 1:  # all would write the same files
            raise InputError("compress()", f"runs in {processes} processes", "one process")
        for option in ("recompute", "to_static"):
            if getattr(args, option) and "dynabert" in parts:
                problem = "is True, and would compute a narrowed model at its whole width"
                raise InputError(option, problem, "False")
        check_arguments(args)
        self._check_options()
        if static is not None and parts - {"ptq", "embeddings"}:
            problem = "is given, and a static model cannot be trained"
            raise InputError("input_infer_model_path", problem, 'strategy "ptq", or none')
        return parts

    def _check_options(self) -> None:
        args = self.args
        names = ("weight_quantize_type", "round_type", "bias_correction")
        names += ("onnx_format", "input_dtype", "prune_embeddings")
        check_options(**{name: getattr(args, name) for name in names})
        if args.activation_quantize_type is not None:
            check_options(activation_quantize_type=args.activation_quantize_type)
        for algo in args.algo_list or ():
            check_options(algo=algo)
        for option in ("batch_size_list", "batch_num_list"):
            for value in getattr(args, option) or ():
                if value is not None and value < 1:
                    raise InputError(option, f"has {value}", "whole numbers of at least 1")

    def _check_datasets(self, parts: frozenset[str], own_metric: bool) -> None:
        by_text = self.eval_examples is not None  # then positions are not read
        self._check_rows("eval_dataset", self.eval_dataset, not (own_metric or by_text))
        trains = bool(parts & {"dynabert", "qat"})
        if self.train_dataset is not None or trains:
            labeled = "qat" in parts or ("dynabert" in parts and self._calc_loss is None)
            self._check_rows("train_dataset", self.train_dataset, labeled, 2 if trains else 1)

    def _check_rows(self, name: str, dataset, labeled: bool, min_rows: int = 1) -> None:
        """Look at every row: Paddle would crash, or wait for ever, in the middle of the run."""
        if dataset is None or len(dataset) < min_rows:
            problem = "is None" if dataset is None else f"has {len(dataset)} rows"
            raise InputError(name, problem, f"features of the task, at least {min_rows}")
        known = known_columns(self)
        columns = dict.fromkeys(["input_ids", *(name for name in dataset[0] if name in known)])
        if labeled:
            columns |= dict.fromkeys(self.label_names)
        read = check_rows(name, dataset, list(columns), self.label_names)
        classes = getattr(getattr(self.model, "config", None), "num_labels", 1)
        kind = type(self.model).__name__
        logits: list[int | None] | None = None
        if "SequenceClassification" in kind or "TokenClassification" in kind:
            logits = [None, classes] if "Sequence" in kind else [None, None, classes]
        check_labels(name, *read, logits, getattr(self.criterion, "ignore_index", IGNORED))


def _directory(width: float) -> str:
    return f"width_mult_{round(width, 2)}"


class _Look(TrainerCallback):
    """Call something every `save_steps` steps, and after the last one."""

    def __init__(self, look: Callable) -> None:
        self.look = look

    def on_step_end(self, args, state, control, **kwargs):
        due = args.save_steps > 0 and state.global_step % args.save_steps == 0
        if due or state.global_step == state.max_steps:
            self.look()


def _with_trainer(evaluate: Callable | None) -> Metric | None:
    """Turn a function of (model, loader), upstream's older form, into a `Metric`."""
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


class _StaticModel(paddle.nn.Layer):
    """A static model that is called as the dynamic one is."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor, self.names = predictor, predictor.input_names

    def forward(self, *args, **kwargs):
        inputs = {**dict(zip(self.names, args, strict=False)), **kwargs}
        outputs = self.predictor.run(
            {name: inputs[name].numpy() for name in self.names if name in inputs}
        )
        outputs = tuple(paddle.to_tensor(output) for output in outputs)
        return outputs[0] if len(outputs) == 1 else outputs
