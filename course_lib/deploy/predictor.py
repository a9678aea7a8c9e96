"""One call over three engines: Paddle Inference in FP32 or in INT8, and ONNX Runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from ..data.kinds import KINDS
from ..models.files import VOCABULARIES, load_tokenizer
from ..models.patches import quiet_paddlenlp
from ..runtime import InputError, machine
from ..runtime.files import read_unmixed
from ..training.task import TASKS, Task
from .files import (
    DESCRIPTION,
    MULTI_LABEL,
    ONNX,
    PROGRAM,
    WEIGHTS,
    check_file,
    describe,
    file_of,
    find_files,
)
from .paddle_engine import PaddleEngine
from .program import check_inputs

import numpy as np

_STEP = 4  # batches of texts are padded to lengths that it divides
_ENDINGS = {"paddle": (PROGRAM, WEIGHTS), "onnx": (ONNX,)}  # of a backend's files


class Predictor:
    """A static model, ready to run on the CPU.

    Threads may share it; with Paddle they take turns, so let `threads` use the cores instead.

    Args:
        path: a directory of `export_model` or of the quantization, or the common path of its
            files (`out/int8`).
        backend: "paddle" (Paddle Inference), or "onnx" (ONNX Runtime, on the file of
            `course_lib.deploy.onnx.convert`).
        int8: run matrix products in INT8, all else in FP32. None means where the file is quantized.
            False runs a quantized file without INT8 kernels, which is far slower than FP32.
        threads: of one call; None means all cores that this process may use.
        mkldnn: use oneDNN's kernels; INT8 needs them. ONNX Runtime has its own.

    Attributes:
        quantized: whether the file holds quantized operators.
        int8: whether INT8 kernels are switched on.
        input_names, labels, max_length; of a classifier `problem`, `thresholds` (see `classify`).

    Raises:
        InputError: files that are missing or damaged, or not those that deploy.json knows.

    Warns where INT8 cannot pay: the processor has no VNNI, or nothing in the file is quantized.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        backend: str = "paddle",
        int8: bool | None = None,
        threads: int | None = None,
        mkldnn: bool = True,
    ) -> None:
        if backend not in _ENDINGS:
            raise InputError("backend", f"is {backend!r}", f"one of {', '.join(_ENDINGS)}")
        if backend == "onnx" and int8:
            problem = "is on for ONNX Runtime, which the course runs in FP32 only"
            raise InputError("int8", problem, 'backend "paddle"')
        self.backend = backend
        self.threads = threads or machine.usable_cores()
        self.path = find_files(path, _ENDINGS[backend])
        read_unmixed(self.path.parent, lambda: self._load(int8, mkldnn))
        self.quantized, self.int8 = self._engine.quantized, self._engine.int8
        self.input_names: list[str] = self._engine.input_names

    def _load(self, int8: bool | None, mkldnn: bool) -> None:
        self.description = describe(self.path)
        self.labels: Any = self.description.get("labels")
        self.max_length: int | None = self.description.get("max_length")
        self.problem: str = self.description.get("problem") or "single_label"
        self.thresholds: list[float] | None = self.description.get("thresholds")
        for ending in _ENDINGS[self.backend]:
            check_file(file_of(self.path, ending), self.description)
        if self.backend == "paddle":
            self._engine: Any = PaddleEngine(self.path, int8, self.threads, mkldnn)
        else:
            from .onnx import OnnxEngine  # a library that Paddle's users may lack

            self._engine = OnnxEngine(self.path, self.threads)

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Run one batch.

        Args:
            inputs: whole numbers of shape [batch_size, seq_len] for each of `input_names`.
                `token_type_ids` may be absent where they are all 0; other names are not read.

        Returns:
            The model's outputs, float32: logits of shape [batch_size, num_classes] or [batch_size,
            seq_len, num_classes], or start and end logits of shape [batch_size, seq_len].

        Raises:
            InputError: an input is missing, empty or has another shape; it holds a number that the
                model has no embedding for, or more tokens than the model has positions; the model
                gives NaN or infinity, of which argmax would make the first class.
        """
        engine = self._engine
        arrays = check_inputs(inputs, self.input_names, engine.rows, engine.positions)
        arrays = {
            name: value.astype(engine.types[name], copy=False) for name, value in arrays.items()
        }
        outputs = engine.run(arrays)
        if not all(np.isfinite(output).all() for output in outputs):
            problem = "gives scores that are infinite or no numbers"
            raise InputError(self.path, problem, "a model whose weights and scales are finite")
        return outputs

    @cached_property
    def tokenizer(self):
        """The tokenizer that lies beside the model."""
        return read_unmixed(self.path.parent, self._load_tokenizer)

    def _load_tokenizer(self):
        directory = self.path.parent
        if not (directory / "tokenizer_config.json").is_file():
            raise InputError(directory, "has no tokenizer", "export_model with a tokenizer")
        for name in VOCABULARIES:
            if name in self.description.get("files", {}) and not (directory / name).is_file():
                raise InputError(directory, f"has no {name}", "the file that was exported")
            if (directory / name).is_file():
                check_file(directory / name, self.description)
        with quiet_paddlenlp():
            return load_tokenizer(directory)

    @property
    def task(self) -> Task:
        """The task that it was exported for."""
        kind = self.description.get("task")
        task = next((TASKS[name] for name in KINDS if KINDS[name] == kind), None)
        if task is None or not (self.labels or task.name == "qa"):
            problem = f"is for {kind}" if self.labels else "has no labels"
            raise InputError(self.path, problem, f"one of {', '.join(TASKS)}; others: run()")
        return task

    def predict(self, texts: Sequence[str | Mapping], batch_size: int = 32) -> np.ndarray:
        """The probabilities of a classifier, of shape [texts, num_classes], in order of `labels`.

        For a "multi_label" problem each is by itself, otherwise their sum is 1. Errors: `classify`.
        """
        if self.task.name not in ("text", "pair"):
            raise InputError(self.path, f"is for {self.task.name}", "a classifier of texts")
        rows = [list(row["probabilities"].values()) for row in self.classify(texts, batch_size)]
        return np.array(rows, "float32").reshape(-1, len(self.labels))

    def classify(self, data: Sequence[str | Mapping], batch_size: int = 32) -> list[dict[str, Any]]:
        """Answer texts or examples; those of similar length share a batch.

        Returns:
            What `course_lib.training.Task.predict` gives of the model's task. For a "multi_label"
            problem "label" lists all that reach their threshold (0.5 where the export has none).

        Raises:
            InputError: a task that the course does not know, labels that are not as many as the
                model's outputs, no tokenizer, a text that is empty or not a string.
        """
        length, labels, thresholds = self.max_length or 128, self.labels or [], None
        if self.problem == MULTI_LABEL:
            thresholds = self.thresholds or [0.5] * len(labels)
        run = self._run_padded
        return self.task.predict(run, data, self.tokenizer, labels, length, batch_size, thresholds)

    def _run_padded(self, batch: dict[str, np.ndarray]) -> list[np.ndarray]:
        ids, types = batch["input_ids"], batch["token_type_ids"]
        length = ids.shape[1]
        room = ((0, 0), (0, self._room(length)))
        padded = np.pad(ids, room, constant_values=self.tokenizer.pad_token_id)
        outputs = self.run({"input_ids": padded, "token_type_ids": np.pad(types, room)})
        if self.labels and outputs[0].shape[-1] != len(self.labels):
            problem = f"names {len(self.labels)} labels of outputs {list(outputs[0].shape[1:])}"
            raise InputError(self.path.parent / DESCRIPTION, problem, "a label for each output")
        by_token = self.task.name in ("tokens", "qa")
        return [output[:, :length] for output in outputs] if by_token else outputs

    def _room(self, length: int) -> int:
        """Columns to add, so that there are few shapes: each new one costs time and memory."""
        return min(-length % _STEP, (self._engine.positions or length + _STEP) - length)
