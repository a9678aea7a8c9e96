"""Figures and experiments of chapter 17."""

import hashlib
import pickle
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from course_lib.notebook.style import BESIDE, COLORS, MUTED, CourseFigure
from course_lib.runtime import InputError
from course_lib.runtime.machine import child_environment
from course_lib.training import reproducible
from course_lib.training.prediction import forward, inference_mode, training_mode
from course_lib.training.reproducibility import digest
from course_lib.training.steps import Batch, accumulate

import numpy as np
import paddle
import pandas as pd
from matplotlib.ticker import MaxNLocator
from paddlenlp.transformers import ErnieConfig, ErnieForSequenceClassification, PretrainedModel

MB = 2**20


def batch_peaks(
    tried: Mapping[int, int | None], budget: int, counted: Mapping[int, float]
) -> CourseFigure:
    """Show the memory of training on batches of several sizes, and which were too large.

    Args:
        tried: peak bytes by examples; None where the process ran out of its memory.
        budget: bytes that a process may take.
        counted: bytes by examples that an estimate gives, drawn as a line.
    """
    peaks = {size: peak for size, peak in tried.items() if peak is not None}
    failed = sorted({size for size, peak in tried.items() if peak is None})
    crosses = {"marker": "X", "linestyle": "", "label": "did not fit"}
    with CourseFigure(figsize=(6.8, 3.9)) as figure:
        axes = figure.subplots()
        for values, look in (
            (peaks, {"color": COLORS[0], "label": "peak of the process"}),
            (dict.fromkeys(failed, budget), {"color": COLORS[1], **crosses}),
            (counted, {"color": COLORS[2], "linestyle": "--", "marker": "", "label": "counted"}),
        ):
            if values:
                sizes, numbers = np.array(sorted(values.items()), dtype=float).T
                axes.plot(sizes, numbers / MB, **look)
        axes.axhline(budget / MB, color=MUTED, linewidth=1, linestyle=":", marker="")
        place = {**BESIDE, "color": MUTED, "xytext": (0, 4), "va": "bottom"}
        axes.annotate(f"  budget {budget / MB:,.0f} MB", (0, budget / MB), **place)
        axes.set(xlabel="examples per batch", ylabel="MB", xlim=(0, 1.08 * max([*peaks, *failed])))
        axes.set_ylim(0, 1.15 * max(budget, *peaks.values()) / MB)
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        figure.legend(loc="outside upper center", ncols=3)
        listed = ", ".join(f"{size}: {peak / MB:.0f}" for size, peak in sorted(peaks.items()))
        alt = f"Peak memory in MB by examples per batch: {listed}. Budget {budget / MB:.0f} MB."
        if failed:
            alt += f" Too large: {', '.join(map(str, failed))}."
        return figure.finish(alt)


def memory_price(frame: pd.DataFrame) -> CourseFigure:
    """Show what accumulation and recompute save in memory, and what they cost in time.

    Args:
        frame: "activations" (MB) and "milliseconds" by pieces and whether it recomputes.
    """
    names = [
        f"{parts} piece{'s' if parts > 1 else ''}{', recompute' if again else ''}"
        for parts, again in frame.index
    ]
    colors = [COLORS[1] if again else COLORS[0] for _, again in frame.index]
    with CourseFigure(figsize=(7.6, 0.9 + 0.36 * len(names))) as figure:
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
        return figure.finish(f"Memory of the activations, and time. {listed}.")


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
        logits, labels = forward(model, batch)
        loss = paddle.nn.functional.cross_entropy(logits, labels)
    del loss  # alive until here, so that no address was used twice
    return sum(kept.values())


def largest_batch(
    model: PretrainedModel, length: int, budget: int, max_size: int = 4096
) -> tuple[int, dict[int, int | None]]:
    """Find by training on the CPU which batch of 1, 2, 4, ... examples stays within a budget.

    A child process of limited memory builds the same model with random weights and takes AdamW
    steps on random ids, so that running out of memory ends the child and not the notebook.

    Args:
        length: tokens per example.
        budget: bytes of the whole process, which holds Paddle (some 500 MB) as well.
        max_size: no larger batch is tried.

    Returns:
        The largest size that fits, 0 when none does, and the peak bytes of the process by size, up
        to the first that does not fit, which has None.

    Raises:
        InputError: the child cannot build or train the model, or the system has no /proc.
    """
    sizes = [2**power for power in range(max_size.bit_length())]
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import train_child; train_child()"],
        input=pickle.dumps((type(model), model.config, length, budget, sizes)),
        capture_output=True,
        env={**child_environment(), "CUDA_VISIBLE_DEVICES": ""},
    )
    lines = [int(line) for line in done.stdout.split() if line.isdigit()]
    peaks: dict[int, int | None] = dict(zip(sizes, lines, strict=False))
    reason = " ".join(done.stderr.decode(errors="replace").split())[-300:]
    if done.returncode > 0 and not re.search("memory|alloc", reason.lower()):
        raise InputError("model", f"cannot be trained in a child: {reason}", "a classifier")
    return max(peaks, default=0), peaks | ({sizes[len(peaks)]: None} if done.returncode else {})


def train_child() -> None:
    """The child of `largest_batch`: prints the peak of each size, up to the budget."""
    import resource  # not on Windows

    Path("/proc/self/oom_score_adj").write_text("1000")  # rather this one than the notebook
    kind, config, length, budget, sizes = pickle.load(sys.stdin.buffer)
    model = kind(config)
    optimizer = paddle.optimizer.AdamW(0.0, parameters=model.parameters())
    limit = _bytes("VmData") + max(0, budget - _bytes("VmRSS")) + 1024 * MB  # not all is used
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    for size in sizes:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        for _ in range(2):
            model(paddle.randint(1, config.vocab_size, [size, length])).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
        if _bytes("VmHWM") > budget:
            raise MemoryError
        print(_bytes("VmHWM"), flush=True)


def _bytes(name: str) -> int:
    return 1024 * int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0])


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
        accumulate(model, batch, 1)
        optimizer.step()
        optimizer.clear_grad()
    return digests(model, batch, evaluating)
