"""Fine-tune an encoder on the train split of a task and score it on dev, to choose a recipe.

The same recipe as course_lib.training's fit: AdamW, linear warm-up and decay, batches of similar
length, dropout 0.1, the last weights.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from corpus import hide_words
from encoder import PAD, Head, MaskedLM, set_dropout
from torch import Tensor


@dataclass
class Task:
    """Examples of one split: ids and labels by example."""

    ids: list[np.ndarray]
    labels: list[np.ndarray]
    starts: list[np.ndarray]


def read_task(data: np.lib.npyio.NpzFile, name: str) -> Task:
    """Read what finetune_data.py wrote."""
    ends = data[f"{name}_ends"]
    labels = data[f"{name}_labels"]
    tokens = len(labels) != len(ends)
    return Task(
        np.split(data[f"{name}_ids"].astype(np.int64), ends[:-1]),
        np.split(labels.astype(np.int64), ends[:-1]) if tokens else list(labels.astype(np.int64)),
        np.split(data[f"{name}_starts"], ends[:-1]),
    )


def finetune(
    encoder: torch.nn.Module,
    width: int,
    train: Task,
    dev: Task,
    *,
    classes: int,
    tokens: bool,
    seed: int,
    learning_rate: float,
    epochs: int,
    batch_size: int,
    length: int,
    freeze: int = 0,
) -> dict[str, float]:
    """Train a head and the encoder; accuracy on dev, or span F1 when `tokens`.

    Args:
        freeze: layers that stay as they are, with the embeddings (0: everything is trained).
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    device = next(encoder.parameters()).device
    model = Head(copy.deepcopy(encoder), width, classes, tokens).to(device)
    set_dropout(model, 0.1)
    if freeze:
        for part in (model.bert.embeddings, *model.bert.encoder["layer"][:freeze]):
            part.requires_grad_(False)
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    plain = [p for n, p in named if "bias" in n or "LayerNorm" in n]
    decayed = [p for n, p in named if not ("bias" in n or "LayerNorm" in n)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=learning_rate,
        fused=device.type == "cuda",
    )
    steps = epochs * math.ceil(len(train.ids) / batch_size)
    warm = max(1, int(0.1 * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: s / warm if s < warm else max(0.0, (steps - s) / (steps - warm))
    )
    padded = 0
    model.train()
    for _ in range(epochs):
        for chosen in _grouped(train, batch_size, rng):
            ids, labels = _pad(train, chosen, length, tokens, device)
            padded += ids.numel()
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                scores = model(ids)
            loss = F.cross_entropy(scores.float().reshape(-1, classes), labels.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    model.eval()
    predicted: dict[int, np.ndarray] = {}
    order = np.argsort([len(row) for row in dev.ids], kind="stable")
    with torch.no_grad():
        for start in range(0, len(order), 128):
            chosen = order[start : start + 128]
            ids, _ = _pad(dev, chosen, length, tokens, device)
            best = model(ids).argmax(-1).cpu().numpy()
            predicted.update(zip(chosen, best, strict=True))
    if not tokens:
        right = [predicted[i] == label for i, label in enumerate(dev.labels)]
        return {"score": float(np.mean(right)), "tokens": padded}
    found = gold = hits = 0
    for index, labels in enumerate(dev.labels):
        own = spans(predicted[index][1 : len(labels) - 1])
        true = spans(labels[1:-1])
        found, gold, hits = found + len(own), gold + len(true), hits + len(own & true)
    return {"score": 2 * hits / max(1, found + gold), "tokens": padded}


def spans(labels) -> set[tuple[int, int, int]]:
    """(start, end, type) of the entities in labels O, B-X, I-X, B-Y, ...; a stray I-X opens one."""
    result, start, kind = set(), 0, -1
    for position, label in enumerate([*labels, 0]):
        here = -1 if label <= 0 else (label - 1) // 2
        if kind >= 0 and (here != kind or label % 2 == 1):
            result.add((start, position, kind))
            kind = -1
        if here >= 0 and kind < 0:
            start, kind = position, here
    return result


def masked_accuracy(model: MaskedLM, task: Task, length: int = 128, seed: int = 0) -> float:
    """Share of hidden characters (15%, whole words) that are guessed, over a split."""
    device = next(model.parameters()).device
    torch.manual_seed(seed)
    right = total = 0
    model.eval()
    with torch.no_grad():
        for start in range(0, len(task.ids), 128):
            rows = range(start, min(start + 128, len(task.ids)))
            ids, _ = _pad(task, rows, length, True, device)
            begins = torch.ones_like(ids, dtype=torch.bool)
            for row, index in enumerate(rows):
                own = task.starts[index][:length]
                begins[row, : len(own)] = torch.tensor(own, device=device)
            read, labels = hide_words(ids, begins, model.shape.vocab_size)
            sequence, _ = model.bert(read)
            where = labels >= 0
            best = model.scores(sequence[where]).argmax(-1)
            right += (best == labels[where]).sum().item()
            total += where.sum().item()
    model.train()
    return right / total


def recall(encoder: torch.nn.Module, queries: Task, texts: Task, count: int = 10) -> float:
    """Share of queries whose own text is among the nearest `count`, by mean vectors."""
    near = _vectors(encoder, queries) @ _vectors(encoder, texts).T
    place = (near > near.diagonal()[:, None]).sum(1)
    return (place < count).float().mean().item()


def _vectors(encoder: torch.nn.Module, task: Task) -> Tensor:
    device = next(encoder.parameters()).device
    rows = []
    encoder.eval()
    with torch.no_grad():
        for start in range(0, len(task.ids), 128):
            chosen = range(start, min(start + 128, len(task.ids)))
            ids, _ = _pad(task, chosen, 128, False, device)
            real = (ids != PAD)[:, :, None].float()
            rows.append((encoder(ids)[0] * real).sum(1) / real.sum(1))
    return F.normalize(torch.cat(rows), dim=-1)


def _grouped(task: Task, batch_size: int, rng: np.random.Generator) -> list[np.ndarray]:
    lengths = np.array([len(row) for row in task.ids])
    order = rng.permutation(len(lengths))
    batches = []
    for start in range(0, len(order), 50 * batch_size):
        pool = order[start : start + 50 * batch_size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    return [batches[index] for index in rng.permutation(len(batches))]


def _pad(task: Task, chosen, length: int, tokens: bool, device) -> tuple[Tensor, Tensor]:
    rows = [task.ids[index] for index in chosen]
    width = min(length, max(len(row) for row in rows))
    ids = np.full((len(rows), width), PAD)
    labels = np.full((len(rows), width), -100)
    for row, index in enumerate(chosen):
        own = task.ids[index]
        kept = min(width, len(own))
        ids[row, :kept] = own[:kept]
        if kept < len(own):
            ids[row, kept - 1] = own[-1]
        if tokens and np.ndim(task.labels[index]):
            labels[row, :kept] = task.labels[index][:kept]
    if not tokens:
        labels = np.array([task.labels[index] for index in chosen])
    return torch.tensor(ids, device=device), torch.tensor(labels, device=device)


__all__ = ["Task", "finetune", "masked_accuracy", "read_task", "recall", "spans"]
