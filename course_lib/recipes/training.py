"""Answers about training: freezing, memory, epochs, saving, repeating, and programs that hang."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import hashlib
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.models.backbone import _quiet
from course_lib.runtime import InputError, atomic_directory, atomic_file, seed_everything
from course_lib.runtime.errors import whole
from course_lib.runtime.machine import child_environment
from course_lib.training.checkpoint import model_arrays, optimizer_arrays, restore_optimizer
from course_lib.training.finetune import digest
from course_lib.training.loop import History, create_optimizer, fit, seed_step
from course_lib.training.prediction import forward, inference_mode

import numpy as np
import paddle
import pandas as pd
from paddlenlp.transformers import PretrainedModel

Batch = Sequence[paddle.Tensor] | Mapping[str, paddle.Tensor]  # as `training.fit` takes them
Loss = Callable[[paddle.Tensor, paddle.Tensor], paddle.Tensor]
MB = 2**20

# ---- freezing


@contextlib.contextmanager
def no_grad_around(part: paddle.nn.Layer) -> Iterator[None]:
    """Run `part` without recording gradients inside the block: the fastest way to freeze it.

    Nothing below the part's outputs learns, and what its backward pass would need is not kept.
    Dropout stays on while the model trains: `part.eval()` turns it off, after `model.train()`.

    Args:
        part: a layer of the model, such as `model.ernie`.

    Raises:
        InputError: `part` is no layer, or its forward has been replaced already.

    Source: FAQ Q3.4, first way, without a change in PaddleNLP's code.
    """
    _check_layer("part", part)
    if "forward" in vars(part):
        raise InputError(
            "part", "has a forward of its own already", "one way of freezing at a time"
        )
    part.forward = paddle.no_grad()(part.forward)
    try:
        yield
    finally:
        del part.forward  # the class's forward shows again


@contextlib.contextmanager
def stopped_outputs(part: paddle.nn.Layer) -> Iterator[None]:
    """Stop gradients at the outputs of `part`, by a forward post hook, inside the block.

    The FAQ's hook sets `output.stop_gradient`; ERNIE's encoder returns a tuple, for which that
    raises AttributeError. This one walks through tuples, lists and dictionaries.

    Raises:
        InputError: `part` is no layer.

    Source: FAQ Q3.4, second way.
    """
    _check_layer("part", part)

    def stop(layer, inputs, outputs) -> None:
        for tensor in paddle.utils.flatten(outputs):
            if isinstance(tensor, paddle.Tensor):
                tensor.stop_gradient = True

    hook = part.register_forward_post_hook(stop)
    try:
        yield
    finally:
        hook.remove()


def parameters_without(
    model: paddle.nn.Layer, frozen: Callable[[str], bool]
) -> list[paddle.Tensor]:
    """The parameters for an optimizer that leaves some alone.

    The FAQ filters by `p.name` ("linear_7.w_0"), which depends on what else the process has built.
    Here `frozen` gets the structured name ("ernie.pooler.dense.weight"). Gradients are computed for
    all: this way saves the moments' memory and no time. And `optimizer.clear_grad()` clears only
    its own: call `model.clear_gradients()`, or the others' gradients add up.

    Args:
        frozen: says of a structured name whether that parameter is left out.

    Raises:
        InputError: none is left out, or all are.

    Source: FAQ Q3.4, third way.
    """
    named = list(model.named_parameters())
    kept = [parameter for name, parameter in named if not frozen(name)]
    if not kept or len(kept) == len(named):
        problem = f"leaves out {len(named) - len(kept)} of {len(named)} parameters"
        raise InputError("frozen", problem, f"some of them; the first is {named[0][0]}")
    return kept


def moved_weights(model: paddle.nn.Layer, train: Callable[[], object]) -> pd.DataFrame:
    """Call `train` and compare every weight with what it was before.

    Returns:
        One row a weight or buffer, by structured name: "numbers" (how many it holds), "moved" (how
        many of them differ in any bit) and "largest" (the largest change; not a number where
        training made one).
    """
    before = model_arrays(model)
    train()
    rows = []
    for name, after in model_arrays(model).items():
        change = np.abs(after.astype("float64") - before[name].astype("float64"))
        moved = int((after != before[name]).sum())
        rows.append((name, after.size, moved, float(change.max(initial=0.0))))
    return pd.DataFrame(rows, columns=["name", "numbers", "moved", "largest"]).set_index("name")


def compare_freezing(
    build: Callable[[], paddle.nn.Layer],
    batch: Batch,
    learning_rate: float = 1e-3,
    steps: int = 2,
    criterion: Loss | None = None,
) -> pd.DataFrame:
    """Freeze the encoder of a fresh model in each of the three ways, train, and say what moved.

    Args:
        build: makes a PaddleNLP model with a head; called for each way, so the same weights each
            time when it seeds.
        batch: one batch of a loader, read in every step.

    Returns:
        A row a way ("nothing frozen", "no_grad", "hook", "optimizer"): "encoder moved" and
        "head moved" (share of the weights' tensors), "gradients" (tensors of the encoder that had a
        gradient after the last step) and "milliseconds" of the fastest step.
    """
    whole("steps", steps, 1)
    ways = {
        "nothing frozen": contextlib.nullcontext,
        "no_grad": no_grad_around,
        "hook": stopped_outputs,
        "optimizer": contextlib.nullcontext,
    }
    rows = {}
    for name, freezing in ways.items():
        model = build()
        encoder, prefix = _encoder(model)
        parameters = model.parameters()
        if name == "optimizer":
            parameters = parameters_without(model, lambda one: one.startswith(prefix))  # noqa: B023
        optimizer = paddle.optimizer.AdamW(learning_rate, parameters=parameters)
        times, model = [], model.train() or model

        def train(model=model, optimizer=optimizer, times=times) -> None:
            for _ in range(steps):
                model.clear_gradients()
                start = time.perf_counter()
                _loss(model, batch, criterion).backward()
                optimizer.step()
                times.append(1000 * (time.perf_counter() - start))

        with freezing(encoder):
            moved = moved_weights(model, train)["moved"] > 0
        inside = moved.index.str.startswith(prefix)
        rows[name] = {
            "encoder moved": float(moved[inside].mean()),
            "head moved": float(moved[~inside].mean()),
            "gradients": sum(p.grad is not None for p in encoder.parameters()),
            "milliseconds": min(times),
        }
    return pd.DataFrame(rows).T.astype({"gradients": int})


def _encoder(model: paddle.nn.Layer) -> tuple[paddle.nn.Layer, str]:
    prefix = getattr(model, "base_model_prefix", "")
    encoder = getattr(model, prefix, None) if prefix else None
    if not isinstance(encoder, paddle.nn.Layer):
        raise InputError(
            "model", f"{type(model).__name__} has no head", "a PaddleNLP model with one"
        )
    return encoder, f"{prefix}."


def _check_layer(name: str, value: object) -> None:
    if not isinstance(value, paddle.nn.Layer):
        raise InputError(name, f"is a {type(value).__name__}", "a paddle.nn.Layer")


def _loss(model: paddle.nn.Layer, batch: Batch, criterion: Loss | None) -> paddle.Tensor:
    logits, labels = forward(model, batch)
    return (criterion or paddle.nn.functional.cross_entropy)(logits, labels)


# ---- memory


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of a training step, by what holds them.

    Attributes:
        parameters: the weights, and buffers.
        gradients: one a trained number.
        optimizer: the moments, two a trained number for Adam.
        activations: what the backward pass needs of one example of the measured length.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: float

    @property
    def fixed(self) -> int:
        """Bytes that do not depend on the batch."""
        return self.parameters + self.gradients + self.optimizer

    def total(self, batch_size: int) -> int:
        """Bytes of a step with `batch_size` examples."""
        return self.fixed + round(whole("batch_size", batch_size, 1) * self.activations)

    def largest(self, budget: int) -> int:
        """Examples that fit into `budget` bytes; 0 when not even the weights do."""
        return max(0, int((budget - self.fixed) // self.activations))


def estimate_memory(
    model: paddle.nn.Layer, batch: Batch, criterion: Loss | None = None, moments: int = 2
) -> MemoryEstimate:
    """Count what a training step must hold, from one small batch.

    Activations are the tensors that Paddle's autograd keeps between the forward and the backward
    pass, each counted once, on `batch`; they grow with its rows in proportion, and with the length
    faster than that. Not counted: the program itself (Paddle alone is some 500 MB) and what lives
    for a moment only, so a real step needs more: see `largest_batch`, which tries.

    Args:
        batch: as `training.fit` takes it, padded to the length that counts.
        moments: numbers that the optimizer keeps a trained number: 2 for Adam and AdamW, 1 for
            Momentum, 0 for SGD.

    Raises:
        InputError: nothing in the model is trained.
    """
    moments = whole("moments", moments, 0)
    parameters = list(model.parameters())
    trained = sum(_bytes(p) for p in parameters if not p.stop_gradient)
    if not trained:
        raise InputError("model", "has nothing to train", "a parameter with stop_gradient False")
    return MemoryEstimate(
        parameters=sum(_bytes(p) for p in [*parameters, *model.buffers()]),
        gradients=trained,
        optimizer=moments * trained,
        activations=_kept_bytes(model, batch, criterion) / _rows(batch),
    )


def _kept_bytes(model: paddle.nn.Layer, batch: Batch, criterion: Loss | None) -> int:
    """Bytes that autograd keeps from the forward pass of a training step for the backward pass."""
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    kept = {}

    def keep(tensor: paddle.Tensor) -> paddle.Tensor:
        if tensor.data_ptr() not in weights:
            kept[tensor.data_ptr()] = _bytes(tensor)
        return tensor

    was_training = model.training
    model.train()
    with paddle.autograd.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = _loss(model, batch, criterion)
    if not was_training:
        model.eval()
    del loss  # alive until here, so that no address was used twice
    return sum(kept.values())


def _bytes(tensor: paddle.Tensor) -> int:
    return int(tensor.size) * tensor.element_size()


def _tensors(batch: Batch) -> list[paddle.Tensor]:
    return list(batch.values() if isinstance(batch, Mapping) else batch)


def _rows(batch: Batch) -> int:
    tensors = _tensors(batch)
    if not tensors or not tensors[0].shape[0]:
        raise InputError("batch", "has no rows", "at least one example")
    return tensors[0].shape[0]


@dataclass(frozen=True)
class BatchSearch:
    """What `largest_batch` found.

    Attributes:
        largest: the largest batch that was trained on within the budget; 0 when not even one
            example fits.
        tried: (examples, peak bytes of the process) in the order of trying; the peak is None where
            the process ran out of its memory.
    """

    largest: int
    tried: list[tuple[int, int | None]]


def largest_batch(
    model: PretrainedModel,
    length: int,
    budget: int,
    most: int = 4096,
    timeout: float = 300,
) -> BatchSearch:
    """Find the largest batch whose training steps stay within `budget`, by training on it.

    A child process of limited memory builds the same model with random weights and takes AdamW
    steps on random ids, on the CPU, so that an out-of-memory ends the child and not the notebook.
    Sizes grow, guided by the peaks so far, until one does not fit; the answer is within an eighth
    of the true limit. On a GPU read `paddle.device.cuda.max_memory_allocated()` after a step.

    Args:
        model: a PaddleNLP classifier; its class and configuration are what is used.
        length: tokens an example.
        budget: bytes of the whole process, which holds Paddle (some 500 MB) as well.
        most: no larger batch is tried.
        timeout: seconds for one size, and for the start.

    Raises:
        InputError: another model, a length that it has no positions for, a budget that Paddle and
            the model alone exceed, a system without /proc, or a child that cannot build or train
            the model, or not in time.
    """
    kind = type(model)
    if not isinstance(model, PretrainedModel) or not hasattr(model.config, "num_labels"):
        raise InputError("model", f"is a {kind.__name__}", "a PaddleNLP classifier")
    positions = getattr(model.config, "max_position_embeddings", None)
    length = whole("length", length, 1, positions or float("inf"))
    budget, most = whole("budget", budget, 1), whole("most", most, 1)
    if not Path("/proc/self/status").exists():
        raise InputError("largest_batch", "needs Linux's /proc", "a Linux machine")
    tried: list[tuple[int, int | None]] = []
    low, high, size = 0, most + 1, 1
    with tempfile.TemporaryDirectory(prefix="largest-batch-") as directory:
        with _quiet():
            model.config.save_pretrained(directory)
        job = {"class": [kind.__module__, kind.__name__], "config": directory}
        child = _Child({**job, "length": length, "budget": budget}, timeout)
        try:
            while high - low > max(1, low // 8):
                peak = child.peak(size)
                tried.append((size, peak))
                fits = peak is not None and peak <= budget
                low, high = (size, high) if fits else (low, size)
                size = _next_size(tried, low, high, budget)
        finally:
            child.end()
    return BatchSearch(low, tried)


def _next_size(tried: list[tuple[int, int | None]], low: int, high: int, budget: int) -> int:
    """Where the line through the two largest peaks meets the budget, within bounds."""
    known = sorted({(size, peak) for size, peak in tried if peak is not None and peak <= budget})
    guess = 2 * low
    if len(known) > 1 and known[-1][1] > known[-2][1]:
        slope = (known[-1][1] - known[-2][1]) / (known[-1][0] - known[-2][0])
        guess = min(4 * low, low + int((budget - known[-1][1]) / slope))
    guess = max(guess, low + max(1, low // 8))
    if guess >= high:
        failed = any(size == high for size, _ in tried)
        guess = (low + high) // 2 if failed else high - 1
    return max(guess, low + 1)


class _Child:
    """A process that trains on batches of the sizes it is told; begun anew when one ends it."""

    CODE = "from course_lib.recipes.training import _train; _train()"

    def __init__(self, job: dict, timeout: float) -> None:
        self.job, self.timeout, self.process = job, timeout, None

    def peak(self, size: int) -> int | None:
        """Peak bytes of the process while it trained on `size` examples; None: it ended."""
        if self.process is None:
            self.begin()
        with contextlib.suppress(BrokenPipeError):  # it ended before it was asked
            self.process.stdin.write(f"{size}\n")
            self.process.stdin.flush()
        answer = self.answer()
        if answer is not None:
            return answer["peak"]
        status, reason = self.process.wait(), self.reason()
        self.end()
        if status == 1 and not any(word in reason.lower() for word in ("memory", "alloc")):
            raise InputError("model", f"cannot be trained in a child: {reason}", "a classifier")
        return None

    def begin(self) -> None:
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed by end()
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
            env={**child_environment(), "CUDA_VISIBLE_DEVICES": ""},
            start_new_session=True,
        )
        self.process.stdin.write(json.dumps(self.job) + "\n")
        self.process.stdin.flush()
        ready = self.answer()
        if ready is None:
            self.process.wait()
            reason = self.reason()
            self.end()
            raise InputError("model", f"cannot be built in a child: {reason}", "a class to import")
        if ready["resident"] >= self.job["budget"]:
            self.end()
            problem = f"is {self.job['budget'] / MB:.0f} MB"
            needed = f"more than {ready['resident'] / MB:.0f} MB, what Paddle and the model take"
            raise InputError("budget", problem, needed)

    def answer(self) -> dict | None:
        """The child's next line of JSON; None when it ends."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self.process.kill()

        clock = threading.Timer(self.timeout, stop)
        clock.start()
        try:
            for line in self.process.stdout:  # Paddle may say something, too
                if line.startswith("{"):
                    return json.loads(line)
        finally:
            clock.cancel()
        if late.is_set():
            self.end()
            raise InputError("timeout", f"of {self.timeout:g} s has passed", "a longer one")
        return None

    def reason(self) -> str:
        """The end of what the child has said of its end."""
        self.said.seek(0)
        return " ".join(self.said.read().split())[-300:]

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.said):
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
            self.process = None


def _train() -> None:
    """The child of `largest_batch`: reads a job (JSON), then sizes; answers each on a line."""
    import resource

    job = json.loads(sys.stdin.readline())
    Path("/proc/self/oom_score_adj").write_text("1000")  # rather this one than the notebook
    kind = getattr(importlib.import_module(job["class"][0]), job["class"][1])
    with _quiet():
        model = kind(kind.config_class.from_pretrained(job["config"]))
    model.train()
    optimizer = paddle.optimizer.AdamW(0.0, parameters=model.parameters())
    budget, libc = job["budget"], ctypes.CDLL(None)

    def step(size: int) -> None:
        ids = paddle.randint(1, model.config.vocab_size, [size, job["length"]])
        model(ids).sum().backward()
        optimizer.step()
        optimizer.clear_grad()

    print(json.dumps({"resident": _status("VmRSS")}), flush=True)
    step(1)  # makes the moments
    # Reserved memory is not all used, so the hard limit leaves room; the watch keeps the budget.
    limit = _status("VmData") + max(0, budget - _status("VmRSS")) + 1024 * MB
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def watch() -> None:
        while _status("VmRSS") <= budget:
            time.sleep(0.002)
        os._exit(os.EX_UNAVAILABLE)

    threading.Thread(target=watch, daemon=True).start()
    for line in sys.stdin:
        gc.collect()
        if hasattr(libc, "malloc_trim"):
            libc.malloc_trim(0)  # what an earlier size has left is not this one's
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        for _ in range(2):
            step(int(line))
        print(json.dumps({"peak": _status("VmHWM")}), flush=True)


def _status(name: str) -> int:
    """A figure of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def accumulated_step(
    model: paddle.nn.Layer,
    batch: Batch,
    parts: int,
    optimizer: paddle.optimizer.Optimizer,
    criterion: Loss | None = None,
) -> float:
    """One optimizer step on a batch that goes through the model in `parts` pieces.

    Each piece's mean loss counts by its share of the rows, so the gradients are those of the whole
    batch, but for rounding and for dropout's masks. Activations shrink with the pieces.

    Args:
        criterion: a mean over the rows of (logits, labels); cross entropy when None.

    Returns:
        The loss of the whole batch.

    Raises:
        InputError: more parts than rows.
    """
    loss = _accumulate(model, batch, parts, criterion)
    optimizer.step()
    optimizer.clear_grad()
    return loss


def _accumulate(model, batch: Batch, parts: int, criterion: Loss | None) -> float:
    total = 0.0
    for piece, share in _pieces(batch, parts):
        loss = _loss(model, piece, criterion) * share
        loss.backward()
        total += float(loss)
    return total


def _pieces(batch: Batch, parts: int) -> Iterator[tuple[Batch, float]]:
    rows = _rows(batch)
    parts = whole("parts", parts, 1, rows)
    for chosen in np.array_split(np.arange(rows), parts):
        low, high = int(chosen[0]), int(chosen[-1]) + 1
        if isinstance(batch, Mapping):
            piece = {name: tensor[low:high] for name, tensor in batch.items()}
        else:
            piece = [tensor[low:high] for tensor in batch]
        yield piece, (high - low) / rows


@contextlib.contextmanager
def recomputing(model: PretrainedModel) -> Iterator[None]:
    """Keep only the inputs of each encoder layer inside the block; compute the rest a second time.

    PaddleNLP's own switch (`model.recompute_enable()`), put back afterwards. The gradients are the
    same to the bit, dropout's masks included.

    Raises:
        InputError: no layer of the model has the switch.

    Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
    """
    layers = [layer for layer in model.sublayers(True) if hasattr(layer, "enable_recompute")]
    if not layers:
        raise InputError("model", f"{type(model).__name__} cannot recompute", "a PaddleNLP encoder")
    before = [layer.enable_recompute for layer in layers]
    for layer in layers:
        layer.enable_recompute = True
    try:
        yield
    finally:
        for layer, value in zip(layers, before, strict=True):
            layer.enable_recompute = value


def price_of_memory(
    model: PretrainedModel,
    batch: Batch,
    parts: Sequence[int] = (1, 2, 4),
    rounds: int = 3,
    criterion: Loss | None = None,
    seed: int = 42,
) -> pd.DataFrame:
    """What accumulation and recompute save in memory, and cost in time; no weight is changed.

    The arms take turns, and the fastest of the rounds counts. A batch in pieces draws other
    dropout masks: switch dropout off to see that the gradients are the same.

    Args:
        parts: pieces of the batch, an arm each, without and with recompute.

    Returns:
        A row an arm (index "parts", "recompute"): "activations" in MB (kept between the passes, of
        the largest piece; recompute needs one layer's more for a moment), "milliseconds" of forward
        and backward pass, "loss", and "difference" (the largest difference of a gradient from those
        of the first arm, as a share of the largest gradient).
    """
    whole("rounds", rounds, 1)
    arms = [(count, again) for again in (False, True) for count in parts]
    best, rows, first = dict.fromkeys(arms, float("inf")), {}, None
    model.train()
    for turn in range(rounds):
        for count, again in arms:
            with recomputing(model) if again else contextlib.nullcontext():
                seed_everything(seed)
                model.clear_gradients()
                start = time.perf_counter()
                loss = _accumulate(model, batch, count, criterion)
                seconds = time.perf_counter() - start
                best[count, again] = min(best[count, again], 1000 * seconds)
                if turn:
                    continue
                grads = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
                first = grads if first is None else first
                scale = max(np.abs(grad).max() for grad in first)
                apart = max(np.abs(a - b).max() for a, b in zip(grads, first, strict=True))
                piece = next(_pieces(batch, count))[0]
                rows[count, again] = {
                    "activations": _kept_bytes(model, piece, criterion) / MB,
                    "loss": loss,
                    "difference": float(apart / scale),
                }
    model.clear_gradients()
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame.insert(1, "milliseconds", [best[arm] for arm in rows])
    frame.index = pd.MultiIndex.from_tuples(rows, names=["parts", "recompute"])
    return frame


# ---- evaluating and saving every epoch


class MeanLoss(paddle.metric.Metric):
    """The mean cross entropy of all examples, for `paddle.Model.prepare(metrics=...)`.

    What `paddle.Model` calls the loss of an evaluation is that of its last batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def reset(self) -> None:
        self.total, self.count = 0.0, 0

    def compute(self, logits: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
        return paddle.nn.functional.cross_entropy(logits, labels, reduction="none")

    def update(self, losses: np.ndarray) -> float:
        self.total += float(np.sum(losses, dtype="float64"))
        self.count += int(np.size(losses))
        return self.accumulate()

    def accumulate(self) -> float:
        return self.total / max(self.count, 1)

    def name(self) -> str:
        return "mean_loss"


def fit_high_level(
    model: PretrainedModel,
    train_loader: paddle.io.DataLoader,
    dev_loader: paddle.io.DataLoader,
    directory: str | os.PathLike,
    *,
    epochs: int = 1,
    learning_rate: float = 5e-5,
    warmup: float = 0.1,
    weight_decay: float = 0.01,
    seed: int = 42,
) -> History:
    """`paddle.Model.fit` with an evaluation and a file of weights after every epoch.

    With the same arguments it ends with the same bits as `training.fit`: what the explicit loop
    does in its lines, a callback does here (the order of the batches, the seed of each step). Into
    `directory` go EPOCH.pdparams and EPOCH.pdopt, from 0, and final.pdparams and final.pdopt.

    Args:
        train_loader, dev_loader: batches of [input_ids, token_type_ids, labels].

    Returns:
        As of `training.fit`: a list entry a step ("loss", "learning_rate"), and one an epoch, here
        "epoch", "epoch_step", "dev_loss" (of all examples) and "dev_accuracy".

    Raises:
        InputError: a number out of bounds; the directory is a file.

    Source: FAQ Q3.5, first way. The second way is `training.fit(..., output_dir=...)`.
    """
    whole("epochs", epochs, 1)
    directory = Path(directory)
    if directory.is_file():
        raise InputError(directory, "is a file", "the name of a directory to write")
    steps = epochs * len(train_loader)
    optimizer, _ = create_optimizer(model, learning_rate, steps, warmup, weight_decay)
    spec = paddle.static.InputSpec
    wrapped = paddle.Model(
        model,
        inputs=[spec([None, None], "int64", n) for n in ("input_ids", "token_type_ids")],
        labels=[spec([None], "int64", "labels")],
    )
    metrics = [paddle.metric.Accuracy(), MeanLoss()]
    wrapped.prepare(optimizer, paddle.nn.CrossEntropyLoss(), metrics)
    follow = _Follow(optimizer, train_loader, seed)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # it names files
        wrapped.fit(
            train_loader,
            dev_loader,
            epochs=epochs,
            eval_freq=1,
            save_freq=1,
            save_dir=str(directory),
            callbacks=[follow],
            verbose=0,
        )
    return follow.history


class _Follow(paddle.callbacks.Callback):
    """Make a run of paddle.Model the same as one of `training.fit`, and write down what happens."""

    def __init__(self, optimizer, loader: paddle.io.DataLoader, seed: int) -> None:
        super().__init__()
        self.optimizer, self.loader, self.seed = optimizer, loader, seed
        self.history, self.step = History(), 0

    def on_epoch_begin(self, epoch=None, logs=None) -> None:
        self.epoch = epoch
        seed_step(self.seed, -1 - epoch)
        if hasattr(self.loader.batch_sampler, "set_epoch"):  # else every epoch has one order
            self.loader.batch_sampler.set_epoch(epoch)

    def on_train_batch_begin(self, step, logs=None) -> None:
        seed_step(self.seed, self.step)
        self.rate = self.optimizer.get_lr()

    def on_train_batch_end(self, step, logs=None) -> None:
        self.step += 1
        loss = float(np.ravel(logs["loss"])[0])
        self.history.add(step=self.step, loss=loss, learning_rate=self.rate)

    def on_eval_end(self, logs=None) -> None:
        scores = {"dev_loss": logs["mean_loss"], "dev_accuracy": float(np.ravel(logs["acc"])[0])}
        self.history.add(epoch=self.epoch + 1, epoch_step=self.step, **scores)


def fit_explicit(
    model: paddle.nn.Layer,
    train_loader: paddle.io.DataLoader,
    dev_loader: paddle.io.DataLoader,
    directory: str | os.PathLike,
    *,
    epochs: int = 1,
    **settings,
) -> History:
    """The explicit loop with an evaluation and a checkpoint after every epoch, all of them kept.

    Args:
        settings: others of `training.fit`.

    Source: FAQ Q3.5, second way.
    """
    return fit(
        model,
        train_loader,
        dev_loader,
        epochs=epochs,
        output_dir=directory,
        keep_checkpoints=epochs,
        **settings,
    )


# ---- saving and loading


def save_plain(layer: paddle.nn.Layer, file: str | os.PathLike) -> Path:
    """Save any layer's weights with `paddle.save`, whole or not at all.

    A PaddleNLP model with its configuration and tokenizer: `course_lib.models.save_model`.

    Raises:
        InputError: the file cannot be written.

    Source: FAQ Q1.3, second part.
    """
    _check_layer("layer", layer)
    buffer = io.BytesIO()  # paddle.save takes a name or a BytesIO, and no open file
    paddle.save(layer.state_dict(), buffer)
    with atomic_file(file, "wb") as opened:
        opened.write(buffer.getbuffer())
    return Path(file)


def load_plain(layer: paddle.nn.Layer, file: str | os.PathLike) -> None:
    """Fill a layer with what `save_plain` or `paddle.save` wrote, all of it or nothing.

    `set_state_dict` alone only warns of a name that is missing and leaves that weight random. The
    file is a pickle, which can run code: load files of people you trust.

    Raises:
        InputError: no such file, a damaged one, or one whose names or shapes are not the layer's;
            the layer is then as before.

    Source: FAQ Q1.3, second part.
    """
    _check_layer("layer", layer)
    state = _read(Path(file))
    own = layer.state_dict()
    problems = [f"lacks {name}" for name in own if name not in state]
    problems += [f"has {name}, which the layer has not" for name in state if name not in own]
    problems += [
        f"has {name} of shape {list(np.shape(state[name]))} for {list(own[name].shape)}"
        for name in own
        if name in state and list(np.shape(state[name])) != list(own[name].shape)
    ]
    if problems:
        more = f" and {len(problems) - 1} more" if problems[1:] else ""
        raise InputError(file, f"{problems[0]}{more}", "the weights of a layer that is built alike")
    layer.set_state_dict(state)


def _read(file: Path) -> dict:
    if not file.is_file():
        raise InputError(file, "does not exist", "a file that paddle.save wrote")
    try:
        state = paddle.load(str(file))
        if not isinstance(state, dict):
            raise ValueError(f"a {type(state).__name__}")
    except Exception as error:  # of a pickle that is cut off nearly anything
        reason = " ".join(str(error).split())[:100]
        raise InputError(file, f"is damaged ({reason})", "a file that paddle.save wrote") from error
    return state


STATE_FILES = ("model.pdparams", "optimizer.pdopt", "schedule.pdlr", "step.json")


def save_state(
    directory: str | os.PathLike,
    model: paddle.nn.Layer,
    optimizer: paddle.optimizer.Optimizer,
    schedule: paddle.optimizer.lr.LRScheduler,
    step: int,
) -> Path:
    """Save all that a warm restart needs with `paddle.save`: model, optimizer, schedule and step.

    As in the FAQ, but for the moments' names: `optimizer.state_dict()` files them under generated
    ones (linear_7.w_0_moment1_0), under which another process may not find them again.

    Source: FAQ Q3.3. Whole runs: `training.fit(..., output_dir=..., resume=True)`, `CourseTrainer`.
    """
    step = whole("step", step, 0)
    with atomic_directory(directory) as temporary:
        paddle.save(model.state_dict(), str(temporary / STATE_FILES[0]))
        paddle.save(optimizer_arrays(optimizer, model), str(temporary / STATE_FILES[1]))
        paddle.save(schedule.state_dict(), str(temporary / STATE_FILES[2]))
        (temporary / STATE_FILES[3]).write_text(json.dumps({"step": step}))
    return Path(directory)


def load_state(
    directory: str | os.PathLike,
    model: paddle.nn.Layer,
    optimizer: paddle.optimizer.Optimizer,
    schedule: paddle.optimizer.lr.LRScheduler,
) -> int:
    """Put back what `save_state` saved, into pieces that are built alike; return the step.

    The next step is then the same to the bit as without a stop, if it gets the same batch and,
    with dropout, the same seed: `training.loop.seed_step(seed, step)` before each step.

    Raises:
        InputError: a file is missing, damaged, or of another model.
    """
    directory = Path(directory)
    missing = [name for name in STATE_FILES if not (directory / name).is_file()]
    if missing:
        raise InputError(directory, f"lacks {missing[0]}", "a directory that save_state wrote")
    moments = {
        name: value.numpy() if isinstance(value, paddle.Tensor) else np.asarray(value)
        for name, value in _read(directory / STATE_FILES[1]).items()
    }
    settings = _read(directory / STATE_FILES[2])
    load_plain(model, directory / STATE_FILES[0])
    restore_optimizer(optimizer, model, moments)
    schedule.set_state_dict(settings)
    return int(json.loads((directory / STATE_FILES[3]).read_text())["step"])


# ---- the same result every time

SWITCHES = {
    "FLAGS_cudnn_deterministic": "1",  # convolutions on a GPU
    "FLAGS_embedding_deterministic": "1",  # gradients of embeddings on a GPU
    "CUBLAS_WORKSPACE_CONFIG": ":4096:2",  # matrix products and recurrent layers on a GPU
}


def reproducible(seed: int = 42) -> dict[str, str]:
    """Seed everything and set the switches of the GPU libraries; on a CPU these change nothing.

    The variables are read when Paddle starts on the GPU: call this first, or start the process
    with them. What else decides on the bits and cannot be set now is returned, too: threads,
    Paddle's version, the device. Dropout off for evaluation is `model.eval()`.

    Returns:
        What a run must share with another to give the same bits.

    Source: FAQ Q3.7.
    """
    seed = seed_everything(seed)
    os.environ.update(SWITCHES)
    if paddle.is_compiled_with_cuda():
        paddle.set_flags({name: True for name in SWITCHES if name.startswith("FLAGS_")})
    return {
        "seed": str(seed),
        **SWITCHES,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "MKL_DEBUG_CPU_TYPE": os.environ.get("MKL_DEBUG_CPU_TYPE", "unset"),
        "paddle": paddle.__version__,
        "device": paddle.get_device(),
    }


def digests(
    model: paddle.nn.Layer, batches: Iterable[Batch], evaluating: bool = True
) -> dict[str, str]:
    """SHA-256 of a model's weights and of its logits on labelled batches.

    Args:
        evaluating: False leaves dropout on, as one does by forgetting `model.eval()`.

    Returns:
        {"weights", "predictions"}: two models of which both agree are equal bit for bit.
    """
    sha, was_training = hashlib.sha256(), model.training
    with inference_mode(model):
        if not evaluating:
            model.train()
        for batch in batches:
            sha.update(np.ascontiguousarray(forward(model, batch)[0].numpy()).tobytes())
    if not was_training:
        model.eval()
    return {"weights": digest(model), "predictions": sha.hexdigest()}


def repeat_in_processes(
    function: str,
    arguments: Mapping[str, object] | None = None,
    times: int = 2,
    environment: Mapping[str, str] | None = None,
    timeout: float = 600,
) -> list:
    """Call a function in new processes, one after another, and return what each gave.

    Args:
        function: "package.module:name", to be imported there.
        arguments: keyword arguments that JSON can hold.
        times: how many processes.
        environment: variables on top of this process's, such as `SWITCHES`.
        timeout: seconds a process.

    Returns:
        The results, which must be JSON values.

    Raises:
        InputError: no such function, it raised, or took too long.
    """
    module, _, name = function.partition(":")
    if not module or not name:
        raise InputError("function", f"is {function!r}", "package.module:name")
    whole("times", times, 1)
    call = (
        "import importlib, json, sys; import course_lib; "
        "f = getattr(importlib.import_module(sys.argv[1]), sys.argv[2]); "
        "r = f(**json.loads(sys.argv[3])); open(sys.argv[4], 'w').write(json.dumps(r))"
    )
    results = []
    with tempfile.TemporaryDirectory(prefix="repeat-") as directory:
        result = Path(directory, "result.json")
        command = [
            sys.executable,
            "-c",
            call,
            module,
            name,
            json.dumps(dict(arguments or {})),
            result,
        ]
        for _ in range(times):
            try:
                subprocess.run(
                    command,
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=timeout,
                    env={**child_environment(), **(environment or {})},
                )
            except subprocess.CalledProcessError as error:
                reason = (error.stderr.strip().splitlines() or ["no word"])[-1][:200]
                raise InputError(function, f"failed: {reason}", "a function that runs") from None
            except subprocess.TimeoutExpired:
                raise InputError(function, f"took over {timeout:g} s", "a shorter one") from None
            results.append(json.loads(result.read_text()))
            result.unlink()
    return results


def tiny_training(
    seed: int | None = 42, evaluating: bool = True, steps: int = 4, dropout: float = 0.1
) -> dict[str, str]:
    """Train a tiny fresh ERNIE on random ids and give its `digests`: a run to be repeated.

    Args:
        seed: None seeds nothing.
        evaluating: as of `digests`.
    """
    from paddlenlp.transformers import ErnieConfig, ErnieForSequenceClassification

    if seed is not None:
        reproducible(seed)
    shape = {"vocab_size": 100, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    model = ErnieForSequenceClassification(
        ErnieConfig(intermediate_size=32, max_position_embeddings=32, **shape, **rates)
    )
    draw = np.random.RandomState(0)  # the data are the same whatever the seed
    ids = paddle.to_tensor(draw.randint(1, 100, [16, 12]))
    batch = [ids, paddle.zeros_like(ids), paddle.to_tensor(draw.randint(0, 2, [16]))]
    optimizer = paddle.optimizer.AdamW(1e-2, parameters=model.parameters())
    model.train()
    for _ in range(whole("steps", steps, 1)):
        accumulated_step(model, batch, 1, optimizer)
    return digests(model, [batch], evaluating)


# ---- programs that hang


@contextlib.contextmanager
def watch_hang(seconds: float, file: str | os.PathLike) -> Iterator[Path]:
    """Write down where the program stands when the block takes longer than `seconds`.

    The stack of every thread of this process goes into `file`, even when the interpreter itself is
    stuck in native code, then the stacks of its child processes (the workers of a DataLoader that
    were started inside the block). The program goes on: nothing is ended. Linux and macOS; the
    children on Linux only.

    Args:
        seconds: how long the block may take.
        file: is emptied at the beginning and stays empty when all goes well.

    Raises:
        InputError: `seconds` is not above 0, or the file cannot be written.

    Source: FAQ Q3.6, and Python's faulthandler.
    """
    if not isinstance(seconds, (int, float)) or not 0 < seconds < threading.TIMEOUT_MAX:
        raise InputError("seconds", f"is {seconds!r}", "a number above 0")
    try:
        report = open(file, "w", encoding="utf-8")  # noqa: SIM115, closed below
    except OSError as error:
        raise InputError(
            file, f"cannot be written ({error.strerror})", "a writable place"
        ) from None
    # forked children inherit the handler and the file; the signal is sent to nobody without it
    faulthandler.register(signal.SIGUSR1, report, all_threads=True)
    faulthandler.dump_traceback_later(seconds, file=report)
    clock = threading.Timer(seconds + 0.2, _ask_children, [report])
    clock.daemon = True
    clock.start()
    try:
        yield Path(file)
    finally:
        clock.cancel()
        clock.join()
        faulthandler.cancel_dump_traceback_later()
        faulthandler.unregister(signal.SIGUSR1)
        report.close()


def _ask_children(report) -> None:
    for child in _children(os.getpid()):
        os.write(report.fileno(), f"\nChild process {child}:\n".encode())
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGUSR1)
        time.sleep(0.1)  # one after another


def _children(parent: int) -> list[int]:
    """Children that catch SIGUSR1; any other one would be ended by it."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            fields = dict(
                line.split(":", 1) for line in status.read_text().splitlines() if ":" in line
            )
            caught = int(fields["SigCgt"], 16) >> (signal.SIGUSR1 - 1) & 1
            if int(fields["PPid"]) == parent and caught:
                found.append(int(status.parent.name))
    return sorted(found)
