"""Figures and experiments of chapter 17."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence

from course_lib.notebook.style import (
    COLORS,
    MUTED,
    CourseFigure,
    course_style,
    direct_label,
    finish,
)
from course_lib.runtime import seed_everything
from course_lib.training import accumulated_step, reproducible
from course_lib.training.checkpoint import model_arrays
from course_lib.training.prediction import forward, inference_mode, training_mode
from course_lib.training.reproducibility import digest
from course_lib.training.steps import Batch, accumulate, loss_of, pieces_of, recomputing

import numpy as np
import paddle
import pandas as pd
from matplotlib.ticker import MaxNLocator
from paddlenlp.transformers import ErnieConfig, ErnieForSequenceClassification

MB = 2**20


def batch_peaks(
    tried: Sequence[tuple[int, int | None]], budget: int, counted: Mapping[int, int]
) -> CourseFigure:
    """Show the memory of training on batches of several sizes, and which were too large.

    Args:
        tried: (examples, peak bytes; None where the process ran out of its memory).
        budget: bytes that a process may take.
        counted: bytes by examples that an estimate gives, drawn as a line.
    """
    peaks = {size: peak for size, peak in tried if peak is not None}
    failed = sorted({size for size, peak in tried if peak is None})
    with course_style():
        figure = CourseFigure(figsize=(6.8, 3.9))
        axes = figure.subplots()
        for values, style in (
            (peaks, {"color": COLORS[0], "label": "peak of the process"}),
            (
                dict.fromkeys(failed, budget),
                {"color": COLORS[1], "marker": "X", "linestyle": "", "label": "did not fit"},
            ),
            (counted, {"color": COLORS[2], "linestyle": "--", "marker": "", "label": "counted"}),
        ):
            if values:
                sizes, numbers = np.array(sorted(values.items()), dtype=float).T
                axes.plot(sizes, numbers / MB, **style)
        axes.axhline(budget / MB, color=MUTED, linewidth=1, linestyle=":", marker="")
        place = {"xytext": (0, 4), "va": "bottom"}
        direct_label(axes, 0, budget / MB, f"  budget {budget / MB:,.0f} MB", MUTED, **place)
        axes.set(xlabel="examples per batch", ylabel="MB", xlim=(0, 1.08 * max([*peaks, *failed])))
        axes.set_ylim(0, 1.15 * max(budget, *peaks.values()) / MB)
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        figure.legend(loc="outside upper center", ncols=3)
        listed = ", ".join(f"{size}: {peak / MB:.0f}" for size, peak in sorted(peaks.items()))
        alt = f"Peak memory in MB by examples per batch: {listed}. Budget {budget / MB:.0f} MB."
        if failed:
            alt += f" Too large: {', '.join(map(str, failed))}."
        return finish(figure, alt)


def memory_price(frame: pd.DataFrame) -> CourseFigure:
    """Show what accumulation and recompute save in memory, and what they cost in time.

    Args:
        frame: what `price_of_memory` returns.
    """
    names = [
        f"{parts} piece{'s' if parts > 1 else ''}{', recompute' if again else ''}"
        for parts, again in frame.index
    ]
    colors = [COLORS[1] if again else COLORS[0] for _, again in frame.index]
    with course_style():
        figure = CourseFigure(figsize=(7.6, 0.9 + 0.36 * len(names)))
        panels = {"activations": "activations, MB", "milliseconds": "forward and backward, ms"}
        grid = figure.subplots(1, 2, sharey=True)
        for axes, (key, title) in zip(grid, panels.items(), strict=True):
            bars = axes.barh(names, frame[key], color=colors, height=0.62)
            axes.bar_label(bars, [f"{value:,.0f}" for value in frame[key]], padding=3)
            axes.set(title=title, xlim=(0, 1.18 * frame[key].max()))
            axes.xaxis.set_visible(False)
            axes.spines["bottom"].set_visible(False)
        grid[0].invert_yaxis()
        listed = "; ".join(
            f"{name}: {row.activations:.0f} MB, {row.milliseconds:.0f} ms"
            for name, row in zip(names, frame.itertuples(), strict=True)
        )
        return finish(figure, f"Memory of the activations, and time. {listed}.")


def moved_weights(model: paddle.nn.Layer, train: Callable[[], object]) -> pd.DataFrame:
    """Call `train` and compare every weight with what it was before.

    Returns:
        One row per weight or buffer, by structured name: "numbers" (how many it holds) and "moved"
        (how many of them differ in any bit).
    """
    before = model_arrays(model)
    train()
    rows = {
        name: {"numbers": after.size, "moved": int((after != before[name]).sum())}
        for name, after in model_arrays(model).items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def kept_bytes(model: paddle.nn.Layer, batch: Batch) -> int:
    """Bytes that autograd keeps from the forward pass of a training step for the backward pass."""
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: paddle.Tensor) -> paddle.Tensor:
        if tensor.data_ptr() not in weights:
            kept[tensor.data_ptr()] = tensor.size * tensor.element_size()
        return tensor

    hooks = paddle.autograd.saved_tensors_hooks(keep, lambda tensor: tensor)
    with training_mode(model), hooks:
        loss = loss_of(model, batch)
    del loss  # alive until here, so that no address was used twice
    return sum(kept.values())


def price_of_memory(
    model: paddle.nn.Layer, batch: Batch, parts: Sequence[int] = (1, 2, 4), rounds: int = 3
) -> pd.DataFrame:
    """What accumulation and recompute save in memory, and cost in time; no weight is changed.

    Args:
        parts: pieces of the batch, each without and with recompute. The variants take turns, and
            the fastest of the rounds counts.

    Returns:
        A row per variant (index "parts", "recompute"): "activations" in MB (kept between the passes
        for the largest piece), "milliseconds" of forward and backward pass, "loss", and
        "difference" (the largest difference of a gradient from the first variant's, as a share of
        the largest gradient).
    """
    rows: dict[tuple[int, bool], dict] = {}
    first: list | None = None
    for count, again in [(count, again) for again in (False, True) for count in parts] * rounds:
        with recomputing(model) if again else contextlib.nullcontext(), training_mode(model):
            seed_everything(42)
            model.clear_gradients()
            start = time.perf_counter()
            loss = accumulate(model, batch, count)
            spent = 1000 * (time.perf_counter() - start)
            if (count, again) in rows:
                row = rows[count, again]
                row["milliseconds"] = min(spent, row["milliseconds"])
                continue
            grads = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
            first = grads if first is None else first
            apart = max(np.abs(a - b).max() for a, b in zip(grads, first, strict=True))
            rows[count, again] = {
                "activations": kept_bytes(model, next(pieces_of(batch, count))[0]) / MB,
                "milliseconds": spent,
                "loss": loss,
                "difference": float(apart / max(np.abs(grad).max() for grad in first)),
            }
    model.clear_gradients()
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.rename_axis(["parts", "recompute"])


def digests(model: paddle.nn.Layer, batch: Batch, evaluating: bool = True) -> dict[str, str]:
    """SHA-256 of a model's weights and of its logits; `evaluating` False leaves dropout on."""
    with (inference_mode if evaluating else training_mode)(model), paddle.no_grad():
        logits = forward(model, batch)[0].numpy()
    return {"weights": digest(model), "predictions": hashlib.sha256(logits.tobytes()).hexdigest()}


def tiny_training(seed: int | None = 42, evaluating: bool = True) -> dict[str, str]:
    """Train a tiny ERNIE on random ids for four steps and return its `digests`; None: no seed."""
    if seed is not None:
        reproducible(seed)
    shape = {"vocab_size": 100, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = ErnieForSequenceClassification(
        ErnieConfig(intermediate_size=32, max_position_embeddings=32, **shape)
    )
    draw = np.random.RandomState(0)  # the data are the same whatever the seed
    ids = paddle.to_tensor(draw.randint(1, 100, [16, 12]))
    batch = [ids, paddle.zeros_like(ids), paddle.to_tensor(draw.randint(0, 2, [16]))]
    optimizer = paddle.optimizer.AdamW(1e-2, parameters=model.parameters())
    for _ in range(4):
        accumulated_step(model, batch, 1, optimizer)
    return digests(model, batch, evaluating)
