"""Chapter 15a: classifiers from a prompt, pseudo-labels, and the chapter's figures."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.data import batchify_fn, convert_example, create_dataloader
from course_lib.data.batching import map_by_length
from course_lib.models import freeze_layers
from course_lib.models.patches import quiet_paddlenlp
from course_lib.notebook.style import MUTED, SERIES, CourseFigure, drawable
from course_lib.runtime import InputError, data_dir, seed_everything
from course_lib.training import fit
from course_lib.training.prediction import inference_mode

import numpy as np
import paddle
import paddle.nn.functional as F
import pandas as pd
from matplotlib.ticker import PercentFormatter
from paddlenlp.datasets import MapDataset
from paddlenlp.transformers import AutoModelForMaskedLM, AutoTokenizer

MASK = "[MASK]"


class PromptClassifier(paddle.nn.Layer):
    """A masked language model that classifies by what it writes at [MASK].

    Args:
        masked_lm, tokenizer: ERNIE or BERT with its masked language model head.
        words: for each class its label words, each a single character, equally many per class.
        shift: is subtracted from the scores, one number per class; None: 0.

    Shapes: input_ids int64 [batch, tokens], one [MASK] in each row; the result, [batch, classes],
    is the mean over a class's words of their log-probabilities among all label words, as
    PaddleNLP's ManualVerbalizer computes it.

    Raises:
        InputError: a row has no [MASK], or more than one.
    """

    def __init__(
        self, masked_lm: paddle.nn.Layer, tokenizer, words: Sequence[str], shift=None
    ) -> None:
        super().__init__()
        self.masked_lm, self.mask = masked_lm, tokenizer.mask_token_id
        self.words = np.array([tokenizer.convert_tokens_to_ids(list(group)) for group in words])
        self.shift = paddle.zeros([len(words)]) if shift is None else paddle.to_tensor(shift)

    def forward(self, input_ids: paddle.Tensor, token_type_ids=None) -> paddle.Tensor:
        places = paddle.nonzero(input_ids.reshape([-1]) == self.mask).squeeze(1)
        if len(places) != len(input_ids):
            problem = f"hold {len(places)} [MASK] in {len(input_ids)} rows"
            raise InputError("input_ids", problem, "one in each row, which truncation leaves there")
        scores = self.masked_lm(input_ids, token_type_ids, masked_positions=places)
        chosen = scores.index_select(paddle.to_tensor(self.words.reshape(-1)), axis=1)
        logs = F.log_softmax(chosen, axis=1)
        return logs.reshape([len(input_ids), *self.words.shape]).mean(axis=2) - self.shift


@dataclass(frozen=True)
class PromptLearner:
    """A learner, as `course_lib.tasks.labels.few_labels` describes it, that trains a prompt.

    Args:
        template: [MASK] and, behind it, {} where the text goes, whose end is cut off.
        words, shift: as for `PromptClassifier`.
        steps: of the optimizer, each with `batch_size` examples.
        frozen: how many of the lowest layers, with the embeddings, do not learn.
        source: a directory or a hub's name; None is `COURSE_BACKBONE`, else the course's backbone.
    """

    template: str
    words: tuple[str, ...]
    shift: tuple[float, ...] | None = None
    steps: int = 20
    batch_size: int = 16
    max_seq_length: int = 64
    frozen: int = 2
    learning_rate: float = 5e-5
    source: str | None = None

    def __call__(
        self, train: Sequence[Mapping] = (), criterion=None, seed: int = 42
    ) -> Callable[[Sequence[Mapping]], np.ndarray]:
        """Return a classifier; without examples it is the untrained prompt (zero-shot)."""
        if not 0 <= self.template.find(MASK) < self.template.find("{}"):
            raise InputError("template", f"is {self.template!r}", f"{MASK} and {{}} behind it")
        seed_everything(seed)
        with quiet_paddlenlp():
            named = self.source or os.environ.get("COURSE_BACKBONE")
            source = named or str(data_dir() / "backbone")
            masked_lm = AutoModelForMaskedLM.from_pretrained(source)
            tokenizer = AutoTokenizer.from_pretrained(source)
        model = PromptClassifier(masked_lm, tokenizer, self.words, self.shift)
        if len(train):
            freeze_layers(masked_lm, self.frozen)
            rows = MapDataset([{**row, "text": self.template.format(row["text"])} for row in train])
            loader = create_dataloader(
                rows, tokenizer, "train", self.batch_size, self.max_seq_length, seed=seed
            )
            options: dict[str, Any] = {
                "max_steps": self.steps,
                "epochs": -(-self.steps // len(loader)),
            }
            options |= {"learning_rate": self.learning_rate, "seed": seed, "progress": False}
            fit(model, loader, criterion=criterion, **options)

        def answer(rows: list[tuple]) -> np.ndarray:
            ids, types = map(paddle.to_tensor, batchify_fn(tokenizer, is_test=True)(rows))
            return F.softmax(model(ids, types), axis=-1).numpy()

        def classify(examples: Sequence[Mapping]) -> np.ndarray:
            texts = [self.template.format(row["text"]) for row in examples]
            rows = [
                convert_example({"text": text}, tokenizer, self.max_seq_length, True)
                for text in texts
            ]
            with inference_mode(model):
                found = map_by_length(answer, rows, 32, length=lambda row: len(row[0]))
            return np.stack(found)

        return classify


def log_odds(probabilities: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)) of class 1, [N], of probabilities [N, 2]."""
    return np.log(probabilities[:, 1] + 1e-12) - np.log(probabilities[:, 0] + 1e-12)


def pseudo_label(
    examples: MapDataset, probabilities: np.ndarray, share: float = 0.5
) -> tuple[MapDataset, np.ndarray]:
    """Give the most confident examples the label that a teacher gives them, equally many per class.

    Args:
        probabilities: of two classes, [N, 2], the teacher's.
        share: of the examples that is kept.

    Returns:
        Copies of the kept examples with "label" replaced, and their indices.
    """
    order = np.argsort(log_odds(probabilities), kind="stable")
    half = max(1, round(len(order) * share / 2))
    kept = np.concatenate([order[:half], order[-half:]])
    labels = np.repeat([0, 1], half)
    rows = [{**examples[int(i)], "label": int(k)} for i, k in zip(kept, labels, strict=True)]
    return MapDataset(rows, label_list=examples.label_list), kept


def accuracy_by_labels(table: pd.DataFrame) -> CourseFigure:
    """Show the accuracy of each method by the number of labels, which may be 0.

    Args:
        table: "method", "labels", "accuracy", "low" and "high", a row per method and number.
    """
    counts = sorted(set(table["labels"]))
    methods = list(dict.fromkeys(table["method"]))
    with CourseFigure(figsize=(7.6, 4.2)) as figure:
        axes = figure.subplots()
        for number, method in enumerate(methods):
            rows = table[table["method"] == method].sort_values("labels")
            places = [counts.index(count) for count in rows["labels"]]
            places = np.array(places) + 0.07 * (number - (len(methods) - 1) / 2)
            value, low, high = rows[["accuracy", "low", "high"]].to_numpy().T
            spread = [value - low, high - value]
            style = {"capsize": 3, "elinewidth": 1.2, **SERIES[number]}
            axes.errorbar(places, value, spread, label=drawable(method), **style)
        axes.axhline(0.5, color=MUTED, linewidth=1, linestyle=":", marker="", label="guessing")
        axes.set(xlabel="labeled examples", ylabel="accuracy on test")
        axes.set_xticks(range(len(counts)), [str(count) for count in counts])
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")
        told = "; ".join(
            f"{r.method} with {r.labels}: {r.accuracy:.1%}" for r in table.itertuples()
        )
        return figure.finish(f"Accuracy by number of labeled examples. {told}.")
