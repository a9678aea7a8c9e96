"""From examples to a saved model, for every task: what `python -m course_lib train` does."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .. import models, runtime
from ..data import LengthGroupedBatchSampler
from ..data.kinds import HEADS
from ..runtime import atomic_file
from ..runtime.outputs import CHECKPOINT_DIR, LOG_DIR, MODEL_DIR
from ..training.loop import fit
from ..training.task import TASKS, predict

import paddle
from paddle.io import DataLoader

TELLING = {"sentence1": "pair", "tokens": "tokens", "question": "qa"}  # keys of an example
FIRST_STEPS = 10  # of training, whose time tells how long it will take
FEW_STEPS = 50  # of training; with fewer a model has hardly left its start


def fine_tune(
    splits: Mapping[str, Any],
    output_dir: Path,
    *,
    model_name_or_path: str | None = None,
    learning_rate: float | None = None,
    epochs: int = 3,
    batch_size: int = 32,
    max_seq_length: int | None = None,
    seed: int = 42,
    device: str | None = None,
    resume: bool | str = False,
    max_steps: int | None = None,
    baseline: bool = False,
    frozen_layers: int = 0,
) -> tuple[paddle.nn.Layer, Any, dict[str, Any]]:
    """Fine-tune on splits["train"] and save the model.

    Args:
        splits: MapDatasets "train", "dev" and perhaps "test" of one task, as the readers of
            `course_lib.data` give them, sharing one label_list.
        output_dir: gets checkpoints/, logs/ (VisualDL), model/ and metrics.json.
        max_seq_length: tokens; by default what suits task and model.
        model_name_or_path, learning_rate: by default the course's backbone, and its own.
        baseline: also compare a classifier with a linear one on the last of dev and test.
        frozen_layers: the lowest stay as they are, with the embeddings; the last is always trained.

    Returns:
        The model, its tokenizer and the scores for the command's JSON line.
    """
    started, train_ds = time.perf_counter(), splits["train"]
    device = runtime.select_device(device)
    runtime.seed_everything(seed)
    task = TASKS[next((TELLING[key] for key in TELLING if key in train_ds[0]), "text")]
    model, tokenizer = models.load_backbone(
        model_name_or_path,
        label_list=train_ds.label_list,
        vocab_texts=[text for example in train_ds for text in task.texts(example)],
        head=HEADS[task.name],
        problem_type="single_label_classification",
    )
    if frozen_layers:
        models.freeze_layers(model, min(frozen_layers, model.config.num_hidden_layers - 1))
    length = task.cut_at(max_seq_length, model)
    # so that predict cuts texts where training did, and knows what they are
    model.config.max_seq_length, model.config.task = length, task.name
    learning_rate = learning_rate or models.suggested_learning_rate(model)
    made = task.for_trainer(splits, tokenizer, length)
    train_loader, dev_loader = (_loader(made, of, batch_size, seed) for of in ("train", "eval"))
    about = f"{len(train_ds)} examples, {len(train_ds.label_list or ())} labels, device {device}"
    print(f"{about}, seed {seed}, learning rate {learning_rate:g}", file=sys.stderr)
    steps = len(train_loader) * epochs
    if steps < FEW_STEPS and not max_steps:
        advice = "more --epochs or a smaller --batch_size teach more"
        print(f"only {steps} steps of training: {advice}", file=sys.stderr)
    schedule: dict = {"epochs": epochs, "max_steps": max_steps, "learning_rate": learning_rate}
    places = {"output_dir": output_dir / CHECKPOINT_DIR, "log_dir": output_dir / LOG_DIR}
    progress = True if sys.stderr.isatty() else _estimate([])
    schedule |= {"seed": seed, "resume": resume, "progress": progress, **places}
    history = fit(model, train_loader, dev_loader, **schedule)
    models.save_model(model, tokenizer, output_dir / MODEL_DIR)
    metrics: dict[str, Any] = {"task": task.name, "train_examples": len(train_ds)}
    last = "test" if "test" in splits else "dev"
    for name in dict.fromkeys(("dev", last)):
        results = predict(model, splits[name], tokenizer, batch_size, length)
        train = train_ds if baseline and name == last else None
        scores = task.scores(splits[name], results, train_ds.label_list, train, seed)
        metrics |= {f"{name}_{key}": scores[key] for key in task.measures}
    if "baseline" in scores:
        metrics["baseline"] = {"split": last, **scores["baseline"]}
    metrics |= {"seed": seed, "device": device, "seconds": round(time.perf_counter() - started, 1)}
    with atomic_file(output_dir / "metrics.json") as file:
        json.dump({**metrics, "history": history}, file, ensure_ascii=False, indent=1)
    return model, tokenizer, metrics


def _loader(made: Mapping[str, Any], of: str, batch_size: int, seed: int) -> DataLoader:
    dataset, collate = made[f"{of}_dataset"], made["data_collator"]
    lengths = [len(row["input_ids"]) for row in dataset]
    sampler = LengthGroupedBatchSampler(lengths, batch_size, of == "train", seed)
    return DataLoader(dataset, batch_sampler=sampler, collate_fn=collate, return_list=True)


def _estimate(times: list[float]) -> Callable[[int, int], None]:
    """Say once how long the training will take, where no bar says it."""

    def after(step: int, total: int) -> None:
        times.append(time.perf_counter())
        if len(times) == FIRST_STEPS + 1:
            left = (times[-1] - times[0]) / FIRST_STEPS * (total - step)
            about = f"{left:.0f} seconds" if left < 100 else f"{left / 60:.0f} minutes"
            print(f"step {step} of {total}, about {about} left", file=sys.stderr)

    return after
