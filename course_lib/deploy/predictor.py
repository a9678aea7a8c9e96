"""One call over three engines: Paddle Inference in FP32 or in INT8, and ONNX Runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from course_lib.data import batchify_fn, convert_example
from course_lib.data.batching import map_by_length
from course_lib.deploy.files import (
    DESCRIPTION,
    MULTI_LABEL,
    ONNX,
    PROGRAM,
    SEQUENCES,
    WEIGHTS,
    check_file,
    describe,
    file_of,
    find_files,
)
from course_lib.deploy.paddle_engine import PaddleEngine
from course_lib.deploy.program import check_inputs
from course_lib.models.files import VOCABULARIES, load_tokenizer
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError, machine
from course_lib.runtime.files import read_unmixed
from course_lib.training.prediction import check_texts

import numpy as np
from scipy.special import expit, softmax

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
        int8: run quantized operators in INT8. None means where the file has some. False runs a
            quantized file without INT8 kernels, which is far slower than FP32.
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
            from course_lib.deploy.onnx import OnnxEngine  # a library that Paddle's users may lack

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
        """The tokenizer that lies beside the model.

        Raises:
            InputError: there is none, or its files are damaged or not those of the export.
        """
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

    def predict(self, texts: Sequence[str], batch_size: int = 32) -> np.ndarray:
        """Classify texts; those of similar length share a batch.

        Returns:
            Probabilities of shape [texts, num_classes], classes in the order of `labels`; for a
            "multi_label" problem each by itself, otherwise with sum 1.

        Raises:
            InputError: not a classifier of sequences, one whose labels are not as many as its
                outputs, no tokenizer, a text that is empty or not a string.
        """
        task = self.description.get("task")
        if task != SEQUENCES or not self.labels:
            problem = f"is for {task}" if self.labels else "has no labels"
            raise InputError(self.path, problem, "a sequence classifier; others: run()")
        check_texts(texts)
        tokenizer, classes = self.tokenizer, len(self.labels)
        length = self.max_length or 128
        rows = [convert_example({"text": text}, tokenizer, length, is_test=True) for text in texts]
        batchify = batchify_fn(tokenizer, is_test=True)

        def run(batch: list[tuple]) -> np.ndarray:
            ids, types = batchify(batch)
            room = ((0, 0), (0, self._room(ids.shape[1])))
            padded = np.pad(ids, room, constant_values=tokenizer.pad_token_id)
            logits = self.run({"input_ids": padded, "token_type_ids": np.pad(types, room)})[0]
            if logits.shape[1:] != (classes,):
                problem = f"names {classes} labels of outputs {list(logits.shape[1:])}"
                raise InputError(self.path.parent / DESCRIPTION, problem, "a label for each output")
            return expit(logits) if self.problem == MULTI_LABEL else softmax(logits, axis=-1)

        results = map_by_length(run, rows, batch_size, length=lambda row: len(row[0]))
        return np.array(results, "float32").reshape(-1, classes)

    def _room(self, length: int) -> int:
        """Columns to add, so that there are few shapes: each new one costs time and memory."""
        return min(-length % _STEP, (self._engine.positions or length + _STEP) - length)

    def classify(self, texts: Sequence[str], batch_size: int = 32) -> list[dict]:
        """Label texts.

        Returns:
            {"labels": [...], "probabilities": {label: probability, ...}} for each text. The labels
            are the most probable one; for a "multi_label" problem all that reach their threshold
            (0.5 where the export has none), which may be none.

        Raises:
            InputError: as `predict`.
        """
        probabilities = self.predict(texts, batch_size)
        if self.problem == MULTI_LABEL:
            chosen = probabilities >= np.array(self.thresholds or 0.5, "float32")
        else:
            chosen = np.arange(len(self.labels)) == probabilities.argmax(axis=1)[:, None]
        return [
            {
                "labels": [self.labels[number] for number in np.flatnonzero(marks)],
                "probabilities": dict(zip(self.labels, row.tolist(), strict=True)),
            }
            for marks, row in zip(chosen, probabilities, strict=True)
        ]
