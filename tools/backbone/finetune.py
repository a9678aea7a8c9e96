"""Fine-tune an encoder on the train split of a task and score it on dev, to choose a recipe.

As course_lib.training's fit does: AdamW, linear warm-up and decay, batches of similar length, the
last weights.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from corpus import hide_words
from encoder import PAD, Head, MaskedLM, set_dropout
from torch import Tensor

READ = 256  # tokens of a text that is held out
LONGEST_ANSWER = 30  # tokens


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


@dataclass
class Recipe:
    """How to fine-tune.

    Args:
        frozen: layers that stay as they are, with the embeddings (0: everything is trained).
        dropout: everywhere, while it is trained.
    """

    learning_rate: float
    epochs: int
    length: int = 128
    frozen: int = 0
    dropout: float = 0.0
    batch_size: int = 16


def finetune(
    encoder: torch.nn.Module,
    width: int,
    train: Task,
    held_out: Task,
    recipe: Recipe,
    *,
    classes: int,
    tokens: bool,
    seed: int,
) -> list[np.ndarray]:
    """Train a head and the encoder; the labels it gives to what is held out, read at READ tokens.

    With `tokens` there is one label a token, for the special ones as well.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    device = next(encoder.parameters()).device
    model = Head(copy.deepcopy(encoder), width, classes, tokens).to(device)

    def loss(chosen: np.ndarray) -> Tensor:
        ids, labels = _pad(train, chosen, recipe.length, tokens, device)
        return F.cross_entropy(model(ids).reshape(-1, classes), labels.reshape(-1))

    batches = (
        batch for _ in range(recipe.epochs) for batch in _grouped(train, recipe.batch_size, rng)
    )
    _train(model, batches, len(train.ids), recipe, loss)
    order = np.argsort([len(row) for row in held_out.ids], kind="stable")
    answers: list[np.ndarray] = [np.zeros(0)] * len(order)
    with torch.no_grad():
        for start in range(0, len(order), 128):
            chosen = order[start : start + 128]
            ids, _ = _pad(held_out, chosen, READ, tokens, device)
            for index, best in zip(chosen, model(ids).argmax(-1).cpu().numpy(), strict=True):
                answers[index] = best[: len(held_out.ids[index])] if tokens else best
    return answers


def _train(model: Head, batches, examples: int, recipe: Recipe, loss) -> None:
    """Train in place on the batches that `loss` takes, `examples` in each epoch."""
    device = next(model.parameters()).device
    set_dropout(model, recipe.dropout)
    if recipe.frozen:
        for part in (model.bert.embeddings, *model.bert.encoder["layer"][: recipe.frozen]):
            part.requires_grad_(False)
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    plain = [p for n, p in named if "bias" in n or "LayerNorm" in n]
    decayed = [p for n, p in named if not ("bias" in n or "LayerNorm" in n)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        fused=device.type == "cuda",
    )
    steps = recipe.epochs * math.ceil(examples / recipe.batch_size)
    warm = max(1, int(0.1 * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: s / warm if s < warm else max(0.0, (steps - s) / (steps - warm))
    )
    model.train()
    for batch in batches:
        optimizer.zero_grad()
        loss(batch).backward()
        torch.nn.utils.clip_grad_norm_([p for _, p in named], 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


def accuracy(answers: list[np.ndarray], task: Task) -> float:
    """Share of texts with the right label."""
    return float(
        np.mean([answer == label for answer, label in zip(answers, task.labels, strict=True)])
    )


def span_f1(answers: list[np.ndarray], task: Task) -> float:
    """F1 of the entities of all sentences."""
    found = gold = hits = 0
    for answer, labels in zip(answers, task.labels, strict=True):
        own, true = spans(answer[1:-1]), spans(labels[1:-1])
        found, gold, hits = found + len(own), gold + len(true), hits + len(own & true)
    return 2 * hits / max(1, found + gold)


def read_questions(data: np.lib.npyio.NpzFile, name: str) -> dict[str, list[np.ndarray]]:
    """Read the windows that finetune_data.py wrote, a list for each kind of array."""
    ends = data[f"{name}_ends"][:-1]
    rows = {key: np.split(data[f"{name}_{key}"], ends) for key in ("ids", "types", "inside")}
    gold = np.split(data[f"{name}_gold_ids"], data[f"{name}_gold_ends"][:-1])
    return {
        **rows,
        "places": list(data[f"{name}_places"]),
        "example": list(data[f"{name}_example"]),
        "gold": gold,
    }


def finetune_reader(
    encoder: torch.nn.Module, width: int, train: dict, held_out: dict, recipe: Recipe, seed: int
) -> float:
    """Train a head that points at the answer; F1 of the answers' tokens."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    device = next(encoder.parameters()).device
    model = Head(copy.deepcopy(encoder), width, 2, tokens=True).to(device)

    def inputs(rows: dict, chosen) -> list[Tensor]:
        longest = max(len(rows["ids"][index]) for index in chosen)
        return [
            torch.tensor(
                np.stack([_fill(rows[key][index], longest) for index in chosen]), device=device
            )
            for key in ("ids", "types", "inside")
        ]

    def loss(chosen: np.ndarray) -> Tensor:
        ids, types, _ = inputs(train, chosen)
        scores = model(ids, types).masked_fill((ids == PAD)[:, :, None], -1e4)
        places = torch.tensor(np.stack([train["places"][index] for index in chosen]), device=device)
        pairs = zip(scores.unbind(-1), places.unbind(1), strict=True)
        return sum(F.cross_entropy(score, place) for score, place in pairs) / 2

    count, size = len(train["ids"]), recipe.batch_size
    orders = [rng.permutation(count) for _ in range(recipe.epochs)]
    batches = (order[i : i + size] for order in orders for i in range(0, count, size))
    _train(model, batches, count, recipe, loss)
    best: dict[int, tuple[float, list[int]]] = {}
    with torch.no_grad():
        for begin in range(0, len(held_out["ids"]), 64):
            chosen = range(begin, min(begin + 64, len(held_out["ids"])))
            ids, types, inside = inputs(held_out, chosen)
            starts, ends = model(ids, types).masked_fill(~(inside > 0)[:, :, None], -1e4).unbind(-1)
            sums = starts[:, :, None] + ends[:, None, :]
            fits = torch.ones_like(sums, dtype=torch.bool).triu() & ~torch.ones_like(
                sums, dtype=torch.bool
            ).triu(LONGEST_ANSWER)
            value, place = sums.masked_fill(~fits, -1e9).flatten(1).max(1)
            for row, index in enumerate(chosen):
                first, last = divmod(int(place[row]), sums.shape[2])
                answer = (float(value[row]), ids[row, first : last + 1].tolist())
                example = int(held_out["example"][index])
                best[example] = max(best.get(example, answer), answer)
    overlaps = []
    for example, gold in enumerate(held_out["gold"]):
        own, true = Counter(best[example][1]), Counter(gold.tolist())
        overlaps.append(2 * (own & true).total() / (own.total() + true.total()))
    return float(np.mean(overlaps))


def _fill(row: np.ndarray, length: int) -> np.ndarray:
    return np.pad(row.astype(np.int64), (0, length - len(row)))


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
