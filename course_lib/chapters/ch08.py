"""Chapter 08: text pairs made of reviews, a model for them, and one way through three tasks."""

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from course_lib import training
from course_lib.compression import CompressTrainer
from course_lib.data import load_cloze, load_people_daily, load_reviews
from course_lib.data.kinds import HEADS
from course_lib.data.spans import bio_spans, bio_types
from course_lib.deploy import Predictor
from course_lib.models import freeze_layers, load_backbone, suggested_learning_rate

import numpy as np
import paddle
from paddle.nn import functional
from paddlenlp.datasets import MapDataset
from paddlenlp.trainer import CompressionArguments, TrainingArguments
from paddlenlp.transformers import ErnieModel, ErniePretrainedModel
from scipy.optimize import linear_sum_assignment
from sklearn.feature_extraction.text import TfidfVectorizer

LENGTHS = {"tokens": 96, "qa": 192, "pair": 80}  # tokens of a feature
PAIR_LABELS = ["other", "same"]  # is the second part of another review, or of the same one?
SHORTEST, LONGEST = 10, 120  # characters of a part, and of a review
ROWS = ("FP32", "INT8", "pruned FP32", "pruned INT8")


def halves(text: str) -> tuple[str, str] | None:
    """A text cut at the punctuation nearest to its middle; None where a part would be too short."""
    text = text[:LONGEST]
    ends = [match.end() for match in re.finditer(r"[。！？!?；;，,、~…]+", text)]
    ends = [end for end in ends if SHORTEST <= end <= len(text) - SHORTEST]
    if not ends:
        return None
    middle = min(ends, key=lambda end: abs(end - len(text) / 2))
    return text[:middle], text[middle:]


def review_pairs(
    split: str, max_examples: int | None = None, seed: int = 42, pool: int = 12
) -> MapDataset:
    """Pairs of the parts of reviews: both of one review, or of two reviews of the same domain.

    Each part is in one pair of either label, so that a part alone says nothing. For "other", the
    reviews of a domain are dealt into groups of `pool`; within a group every first part gets the
    second part of another review so that the sum of their similarities is the largest one. Splits
    are those of the reviews, so no part is in two of them.
    """
    rng, rows = random.Random(seed), []
    reviews = load_reviews(split)
    for domain in ("book", "hotel", "computer"):
        found = [(row["id"], halves(row["text"])) for row in reviews if row["domain"] == domain]
        kept = [(name, parts) for name, parts in found if parts]
        rng.shuffle(kept)
        first, second = zip(*(parts for _, parts in kept), strict=True)
        vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 2)).fit(first + second)
        left, right = vectors.transform(first), vectors.transform(second)
        for start in range(0, len(kept) - pool + 1, pool):
            group = slice(start, start + pool)
            alike = (left[group] @ right[group].T).toarray()
            np.fill_diagonal(alike, -1)
            for one, other in zip(*linear_sum_assignment(-alike), strict=True):
                for label, partner in ((1, start + one), (0, start + other)):
                    texts = {"sentence1": first[start + one], "sentence2": second[partner]}
                    name = f"{kept[start + one][0]}+{kept[partner][0]}"
                    rows.append({**texts, "label": label, "id": name})
    rng.shuffle(rows)
    return MapDataset(rows[:max_examples], label_list=PAIR_LABELS)


def ngram_cosine(pairs: Sequence[Mapping], train: Sequence[Mapping]) -> np.ndarray:
    """How alike the two texts of each pair are: cosine of TF-IDF of 1 to 3 characters."""
    sides = ("sentence1", "sentence2")
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 3))
    vectors.fit([pair[side] for pair in train for side in sides])
    first, second = (vectors.transform([pair[side] for pair in pairs]) for side in sides)
    return np.asarray(first.multiply(second).sum(axis=1)).ravel()


class ErnieMeansForSequenceClassification(ErniePretrainedModel):
    """Are two texts alike? Each is read by itself; the cosine of their mean vectors decides."""

    def __init__(self, config) -> None:
        super().__init__(config)
        self.ernie = ErnieModel(config)
        start = paddle.nn.initializer.Constant(0.7)
        self.threshold = self.create_parameter([1], default_initializer=start)

    def forward(self, input_ids, token_type_ids):
        real = (input_ids != self.config.pad_token_id).astype("float32")
        second = token_type_ids.astype("float32") * real
        first = real - second
        side = first + 2 * second
        apart = (side.unsqueeze(1) != side.unsqueeze(2)).astype("float32").unsqueeze(1)
        before = first.sum(axis=1, keepdim=True).astype("int64") * token_type_ids
        places = paddle.cumsum(paddle.ones_like(input_ids), axis=1) - 1 - before
        kinds = paddle.zeros_like(input_ids)
        states = self.ernie(input_ids, kinds, places, -1e4 * apart)[0]
        cosine = functional.cosine_similarity(_mean(states, first), _mean(states, second))
        score = 10 * (cosine.unsqueeze(-1) - self.threshold)
        return paddle.concat([-score, score], axis=-1)


def _mean(states: paddle.Tensor, part: paddle.Tensor) -> paddle.Tensor:
    return (states * part.unsqueeze(-1)).sum(axis=1) / part.sum(axis=1, keepdim=True).clip(min=1)


def task_splits(name: str, seed: int = 42, **sizes: int | None) -> dict[str, MapDataset]:
    """The splits of a task with at most `sizes` examples, such as train=100; seed: of train."""
    load = {"pair": review_pairs, "tokens": load_people_daily, "qa": load_cloze}[name]
    seeds = {"train": seed}
    return {split: load(split, size, seeds.get(split, 42)) for split, size in sizes.items()}


def quiet(directory: Path, **options) -> dict[str, Any]:
    """What all runs of this chapter tell a Trainer, and one of them besides."""
    device = paddle.get_device().partition(":")[0]
    told = {"disable_tqdm": True, "report_to": [], "device": device, "logging_steps": 10_000}
    told |= {"per_device_eval_batch_size": 32, "save_strategy": "no", "warmup_ratio": 0.1}
    return {"output_dir": str(directory), **told, "weight_decay": 0.01, **options}


def fine_tuned(
    name: str, splits: Mapping[str, MapDataset], directory: Path, seed: int = 42, **options
) -> tuple[Any, dict[str, Any]]:
    """Fine-tune the backbone; gives the model, and what a Trainer of the task needs besides.

    `own_class=False` takes PaddleNLP's class for pairs, too; other options are a Trainer's.
    """
    task, labels = training.TASKS[name], splits["train"].label_list
    model, tokenizer = load_backbone(label_list=labels, head=HEADS[name])
    if options.pop("own_class", True) and name == "pair":
        whole, model = model, ErnieMeansForSequenceClassification(model.config)
        model.ernie.set_state_dict(whole.ernie.state_dict())
    model.config.task, model.config.max_seq_length = name, LENGTHS[name]
    made = task.for_trainer(splits, tokenizer, LENGTHS[name])
    if name == "qa":  # a window without the answer teaches little, and costs as much
        rows = [row for row in made["train_dataset"] if row["start_positions"] > 0]
        made["train_dataset"] = MapDataset(rows)
    own = {key: value for key, value in made.items() if key != "eval_examples"}
    freeze_layers(model, 2)
    rate = {"tokens": 2.5, "qa": 2, "pair": 1}[name] * suggested_learning_rate(model)
    args = TrainingArguments(**quiet(directory, learning_rate=rate, seed=seed, **options))
    training.CourseTrainer(model=model, args=args, group_by_length=True, **own).train()
    for parameter in model.parameters():
        parameter.stop_gradient = False
    model.eval()
    return model, made


def compressed(
    model, made: Mapping[str, Any], directory: Path, strategy: str, **options
) -> dict[str, Path]:
    """The static models of a strategy, by the names of `ROWS`; QAT's is "INT8"."""
    told: dict[str, Any] = {"strategy": strategy, "width_mult_list": ["3/4"]}
    told |= {"algo_list": ["hist"], "save_steps": 10_000}
    told |= {"batch_size_list": [16], "batch_num_list": [1]}
    args = CompressionArguments(**quiet(directory, **{**told, **options}))
    frame = CompressTrainer(model=model, args=args, group_by_length=True, **made).compress()
    rows = frame.to_dict("records")
    cut = ["pruned " * bool(row["width"] == row["width"]) for row in rows]
    kinds = ["INT8" if row["path"].name == "int8" else "FP32" for row in rows]
    return {c + kind: row["path"] for c, kind, row in zip(cut, kinds, rows, strict=True)}


def example_scores(name: str, model: Predictor, examples: MapDataset) -> np.ndarray:
    """Right or wrong for each example (questions: exact match); for tokens counts of entities."""
    results = model.classify(list(examples))
    if name == "qa":
        answers = [result["answer"] for result in results]
        return np.array([*map(training.exact_match, answers, [one["answers"] for one in examples])])
    labels = examples.label_list
    if name == "pair":
        right = [labels.index(result["label"]) for result in results]
        return np.array(right) == [example["label"] for example in examples]
    types = bio_types(labels)
    found = [
        {(one["start"], one["end"], types.index(one["type"])) for one in result["entities"]}
        for result in results
    ]
    true = [bio_spans(example["labels"], labels) for example in examples]
    return training.span_counts(true, found, types).sum(axis=1)


def score(scores: np.ndarray) -> float:
    """One number of `example_scores`: a mean, or the F1 of counts."""
    if scores.ndim == 1:
        return float(scores.mean())
    right, found, true = scores.sum(axis=0)
    return float(2 * right / max(1, found + true))


def difference(scores: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """`score` of the first minus that of the other, with the interval of a paired bootstrap."""
    bootstrap = training.paired_bootstrap if scores.ndim == 1 else training.paired_bootstrap_f1
    return bootstrap(*(np.asarray(each, "float64") for each in (scores, other)), resamples=2000)
