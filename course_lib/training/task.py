"""The tasks that a model is trained for, and all that differs between them.

`TASKS` has one of each by name: a label for a text or for a pair of texts, entities among tokens,
and answers to questions on a passage. Training, compression, export and service ask it for what
they need, so that none of them knows a task by itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..data import convert_example, convert_qa_examples, convert_tokens_example
from ..data.batching import map_by_length, padded_columns
from ..data.features import IGNORED
from ..data.kinds import find_task
from ..data.spans import Span, bio_spans, bio_types
from ..runtime import InputError, errors
from ..runtime.visible import is_blank
from .answers import answer_f1, decode_answers, exact_match
from .metrics import span_scores
from .prediction import check_scores, check_texts, cross_entropy, inference_mode
from .results import classifier_results

import numpy as np
import paddle
from paddlenlp.data import Pad, Stack
from paddlenlp.datasets import MapDataset
from scipy.special import expit, softmax

Arrays = dict[str, np.ndarray]
Examples = Sequence[Mapping[str, Any]]
Outputs = Sequence[Sequence[np.ndarray]]  # of each feature, all outputs of the model


class Task:
    """A label for a text, or several where the model has thresholds; the other tasks differ.

    Attributes:
        name: what `--task` takes.
        fields: the texts of an example that is not labeled.
        measures: its scores; models are compared by the first.
        length: tokens of a feature where nothing else is asked for.
    """

    name = "text"
    fields: tuple[str, ...] = ("text",)
    measures: tuple[str, ...] = ("accuracy",)
    length = 128

    def texts(self, example: Mapping[str, Any]) -> list[str]:
        """All text of an example."""
        return [example.get(field, "") for field in self.fields]

    def cut_at(self, max_seq_length: int | None, model: paddle.nn.Layer) -> int:
        """The tokens that were asked for, else `length`, or fewer, as the model takes."""
        longest = model.config.max_position_embeddings
        if max_seq_length is None:
            return min(self.length, longest)
        return errors.whole("--max_seq_length", max_seq_length, 3, longest)

    # ---- batches

    def features(
        self, examples: Examples, tokenizer, max_seq_length: int = 128, is_test: bool = False
    ) -> list[dict[str, Any]]:
        """What a model reads of the examples; one may give several features, in order."""
        options = {"is_test": is_test, "return_dict": True}
        return [convert_example(one, tokenizer, max_seq_length, **options) for one in examples]

    def _labels(self) -> dict[str, Callable]:
        """What batches the labels, by column."""
        return {"labels": Stack(dtype="int64")}

    def collator(self, tokenizer, is_test: bool = False) -> Callable[[Sequence[Mapping]], Arrays]:
        """Make the function that batches features: each column padded, as an array by its name."""
        columns = padded_columns(tokenizer) | ({} if is_test else self._labels())

        def collate(rows: Sequence[Mapping]) -> Arrays:
            return {name: pad([row[name] for row in rows]) for name, pad in columns.items()}

        return collate

    def for_trainer(
        self, splits: Mapping[str, MapDataset], tokenizer, max_seq_length: int
    ) -> dict[str, Any]:
        """What of a Trainer's arguments depends on the task; `splits` has "train" and "dev"."""
        train, dev = (
            MapDataset(self.features(split, tokenizer, max_seq_length), label_list=split.label_list)
            for split in (splits["train"], splits["dev"])
        )
        made = {"train_dataset": train, "eval_dataset": dev, "criterion": cross_entropy}
        return {**made, "data_collator": self.collator(tokenizer), "tokenizer": tokenizer}

    # ---- answers

    def predict(
        self,
        run: Callable[[Arrays], Sequence[np.ndarray]],
        data: Iterable[str | Mapping],
        tokenizer,
        labels: Sequence[str] = (),
        max_seq_length: int = 128,
        batch_size: int = 32,
        thresholds: Sequence[float] | None = None,
    ) -> list[dict[str, Any]]:
        """Answer examples, in the order given.

        Args:
            run: arrays of a batch -> a model's outputs, such as `Predictor.run`.
            data: examples, or texts.
            labels: names of the model's classes.
            thresholds: of a model that gives a text any number of labels, one for each of them.

        Returns:
            A dict per example: its texts, "label", its "probability" and all "probabilities" by
            name (with thresholds "label" is a list); of tokens "entities", each {"type", "start",
            "end", "text"} counted in tokens, which are the characters of a text, without white
            space at the ends (but as the model has it where an example has labels); of questions
            "answer", "start", "end" (characters of the context) and "score".
        """
        if isinstance(data, (str, bytes, Mapping)):
            raise InputError("data", f"is one {type(data).__name__}", "a list of texts or examples")
        examples = [item if isinstance(item, Mapping) else {"text": item} for item in data]
        check_texts([text for one in examples for text in self.texts(one)], ", ".join(self.fields))
        features = self.features(examples, tokenizer, max_seq_length, is_test=True)
        collate = self.collator(tokenizer, is_test=True)

        def outputs_of(rows: list[Mapping]) -> list[tuple]:  # of each row
            return list(zip(*run(collate(rows)), strict=True))

        outputs = map_by_length(outputs_of, features, batch_size, lambda row: len(row["input_ids"]))
        return self._answers(outputs, features, examples, labels, thresholds)

    def _answers(
        self, outputs: Outputs, features, examples: Examples, labels: Sequence[str], thresholds
    ) -> list[dict[str, Any]]:
        results = []
        for example, (logits,) in zip(examples, outputs, strict=True):
            result = {field: example[field] for field in self.fields}
            shares = softmax(logits) if thresholds is None else expit(logits)
            if thresholds is None:
                best = int(shares.argmax())
                result |= {"label": labels[best], "probability": float(shares[best])}
            else:
                chosen = np.flatnonzero(shares >= np.array(thresholds, "float32"))
                result["label"] = [labels[number] for number in chosen]
            result["probabilities"] = dict(zip(labels, shares.tolist(), strict=True))
            results.append(result)
        return results

    def scores(
        self,
        examples: Examples,
        results: Sequence[Mapping],
        labels: Sequence[str],
        train: Examples | None = None,
        seed: int = 42,
    ) -> dict[str, Any]:
        """Scores of `predict`'s results on labeled examples, rounded: `measures`, and details.

        Args:
            train, seed: of a baseline, for a single label of texts (see `classifier_results`).
        """
        return classifier_results(examples, results, labels, train, seed)


class _Pair(Task):
    """A label for two texts."""

    name = "pair"
    fields = ("sentence1", "sentence2")


class _Tokens(Task):
    """Entities: a BIO label for each token. What is longer than a feature is cut into several."""

    name, measures = "tokens", ("f1", "precision", "recall")

    def _labels(self):
        return {"labels": Pad(pad_val=IGNORED, dtype="int64")}

    def texts(self, example):
        return ["".join(_tokens(example))]

    def features(self, examples, tokenizer, max_seq_length=128, is_test=False):
        rows, room = [], max_seq_length - 2
        for number, example in enumerate(examples):
            columns = {"tokens": _tokens(example)}
            columns |= {} if is_test else {"labels": example["labels"]}
            for first in range(0, len(columns["tokens"]), room):
                part = {name: each[first : first + room] for name, each in columns.items()}
                part["id"] = example.get("id", number + 1)
                options = {"is_test": is_test, "return_dict": True}
                row = convert_tokens_example(part, tokenizer, max_seq_length, **options)
                rows.append({**row, "example": number})
        return rows

    def _answers(self, outputs, features, examples, labels, thresholds):
        found: list[list[int]] = [[] for _ in examples]
        for (logits,), feature in zip(outputs, features, strict=True):
            ids = logits[1 : len(feature["input_ids"]) - 1].argmax(axis=-1)
            found[feature["example"]] += ids.tolist()
        types, results = bio_types(labels), []
        for example, ids in zip(examples, found, strict=True):
            tokens = _tokens(example)
            spans = sorted(bio_spans(ids, labels))
            if "labels" not in example:  # scores count the spans as the model has them
                spans = list(_visible(tokens, spans))
            entities = [
                {"type": types[kind], "start": a, "end": b, "text": "".join(tokens[a:b])}
                for a, b, kind in spans
            ]
            results.append({"text": "".join(tokens), "entities": entities})
        return results

    def scores(self, examples, results, labels, train=None, seed=42):
        types = bio_types(labels)
        found = [
            {(one["start"], one["end"], types.index(one["type"])) for one in result["entities"]}
            for result in results
        ]
        true = [bio_spans(example["labels"], labels) for example in examples]
        rows = {
            name: {key: round(row[key], 4) for key in ("precision", "recall", "f1")}
            | {"support": row["true"]}
            for name, row in span_scores(true, found, types).items()
        }
        total = rows.pop("all")
        return {key: total[key] for key in self.measures} | {"classes": rows}


class _Questions(Task):
    """The piece of a passage that answers a question; a long passage gives several windows."""

    name, length = "qa", 256
    fields = ("question", "context")
    measures = ("exact_match", "f1")

    def _labels(self):
        return dict.fromkeys(("start_positions", "end_positions"), Stack(dtype="int64"))

    def features(self, examples, tokenizer, max_seq_length=256, is_test=False):
        sizes = {"max_seq_length": max_seq_length, "doc_stride": max(1, max_seq_length // 2)}
        sizes["max_question_length"] = min(64, max_seq_length // 3)
        return convert_qa_examples(examples, tokenizer, **sizes, is_test=is_test)

    def for_trainer(self, splits, tokenizer, max_seq_length):
        made = super().for_trainer(splits, tokenizer, max_seq_length)
        return {**made, "eval_examples": list(splits["dev"])}

    def _answers(self, outputs, features, examples, labels, thresholds):
        results = []
        starts, ends = zip(*outputs, strict=True)
        decoded = decode_answers(starts, ends, features, examples)
        for example, answer in zip(examples, decoded, strict=True):
            shown = {name: example[name] for name in ("id", "question") if name in example}
            places = {name: answer[name] for name in ("start", "end", "score")}
            results.append({**shown, "answer": answer["text"], **places})
        return results

    def scores(self, examples, results, labels, train=None, seed=42):
        pairs = [
            (result["answer"], example["answers"] or [""])
            for example, result in zip(examples, results, strict=True)
        ]
        measures = {"exact_match": exact_match, "f1": answer_f1}
        return {
            name: round(float(np.mean([score(*pair) for pair in pairs])), 4)
            for name, score in measures.items()
        }


def _tokens(example: Mapping[str, Any]) -> Sequence[str]:
    return example["tokens"] if "tokens" in example else list(example["text"])


def _visible(tokens: Sequence[str], spans: Iterable[Span]) -> Iterator[Span]:
    """Spans without the white space at their edges; those with nothing to see are left out."""
    for start, end, kind in spans:
        while start < end and tokens[start].isspace():
            start += 1
        while start < end and tokens[end - 1].isspace():
            end -= 1
        if not is_blank("".join(tokens[start:end])):
            yield start, end, kind


TASKS: dict[str, Task] = {task.name: task for task in (Task(), _Pair(), _Tokens(), _Questions())}


def _runner(model: paddle.nn.Layer) -> Callable[[Arrays], list[np.ndarray]]:
    """A model in Python as `Task.predict` runs it."""

    def run(batch: Arrays) -> list[np.ndarray]:
        with inference_mode(model):
            outputs = model(**{name: paddle.to_tensor(value) for name, value in batch.items()})
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        for output in outputs:
            check_scores(output)
        return [output.numpy() for output in outputs]

    return run


def predict(
    model: paddle.nn.Layer,
    data: Iterable[str | Mapping],
    tokenizer,
    batch_size: int = 32,
    max_seq_length: int = 128,
) -> list[dict[str, Any]]:
    """Answer examples with a model in Python; those of similar length share a batch.

    Args:
        data: texts, or examples of the model's task, such as {"text"}, {"sentence1", "sentence2"},
            {"tokens"} or {"question", "context"}; a MapDataset is such an iterable.

    Returns:
        As `Task.predict`; a model for several labels of a text has a threshold of 0.5.

    Raises:
        InputError: a text is empty, `data` is one text, or a score is not a finite number.
    """
    task = TASKS[find_task(type(model).__name__, getattr(model.config, "task", None)) or "text"]
    names = [name for _, name in sorted(model.config.id2label.items())]
    several = getattr(model.config, "problem_type", None) == "multi_label_classification"
    limits = [0.5] * len(names) if several else None
    return task.predict(_runner(model), data, tokenizer, names, max_seq_length, batch_size, limits)
