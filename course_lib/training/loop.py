"""The training loop: one function that fits on two screens and hides nothing."""

import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any

from ..data import ResumableBatchSampler
from ..runtime import InputError
from ..runtime.errors import one_of, positive, real, whole
from .prediction import evaluate, forward, training_mode
from .reproducibility import seed_step
from .run import Run, describe

import paddle
import paddle.nn.functional as F
from paddlenlp.transformers import LinearDecayWithWarmup
from tqdm.auto import tqdm


def check_trainable(model: paddle.nn.Layer) -> None:
    """Refuse a model whose parameters are all frozen (`stop_gradient`): it would learn nothing."""
    if all(parameter.stop_gradient for parameter in model.parameters()):
        problem = "has no parameter that learns: all are frozen"
        raise InputError(type(model).__name__, problem, "stop_gradient=False for some of them")


def create_optimizer(
    model: paddle.nn.Layer,
    learning_rate: float,
    num_training_steps: int,
    warmup: float = 0.1,
    weight_decay: float = 0.01,
) -> tuple[paddle.optimizer.AdamW, LinearDecayWithWarmup]:
    """AdamW whose learning rate rises during the warm-up and then falls to 0 in a straight line.

    Args:
        learning_rate: the peak.
        num_training_steps: steps from the first to where the learning rate is 0.
        warmup: share of the steps (a float up to 1) or number of steps (an int) of the warm-up.
        weight_decay: decoupled decay, of all but biases and layer norms.

    Gradients whose global norm is above 1 are scaled down to it.

    Raises:
        InputError: a warm-up that is no share and no number of steps; as `check_trainable`.
    """
    check_trainable(model)
    if isinstance(warmup, int):
        whole("warmup", warmup, 0)
    else:
        real("warmup", warmup, lambda share: 0 <= share <= 1, "a share from 0 to 1, or steps")
    scheduler = LinearDecayWithWarmup(learning_rate, num_training_steps, warmup)
    decayed = {
        parameter.name
        for name, parameter in model.named_parameters()
        if not any(word in name for word in ("bias", "norm"))
    }
    optimizer = paddle.optimizer.AdamW(
        learning_rate=scheduler,
        parameters=model.parameters(),
        weight_decay=weight_decay,
        apply_decay_param_fun=lambda name: name in decayed,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0),
    )
    return optimizer, scheduler


def fit(
    model: paddle.nn.Layer,
    train_loader: paddle.io.DataLoader,
    dev_loader: paddle.io.DataLoader | None = None,
    *,
    epochs: int = 1,
    learning_rate: float = 5e-5,
    warmup: float = 0.1,
    weight_decay: float = 0.01,
    max_steps: int | None = None,
    seed: int = 42,
    criterion: Callable[[paddle.Tensor, paddle.Tensor], paddle.Tensor] | None = None,
    early_stopping: int | None = None,
    monitor: str = "dev_accuracy",
    output_dir: str | os.PathLike | None = None,
    checkpoint_every: int | None = None,
    keep_checkpoints: int = 2,
    resume: bool | str | os.PathLike = False,
    log_dir: str | os.PathLike | None = None,
    progress: bool | Callable[[int, int], None] = True,
) -> dict[str, list]:
    """Train a classifier and evaluate it after each epoch.

    All randomness is a function of the seed and the number of the step (see `seed_step`), so a run
    that was killed and resumed gives the same bits as one that was not, on as many threads.

    Args:
        model: gives logits of shape [batch_size, num_classes], or of tokens, [batch_size, seq_len,
            num_classes]; labels of -100 are ignored.
        train_loader: batches of [input_ids, token_type_ids, labels].
        dev_loader: the same; without it nothing is evaluated.
        warmup, weight_decay: as for `create_optimizer`.
        max_steps: stop after this many steps; the learning rate is 0 there.
        criterion: loss of (logits, labels); cross entropy when None.
        early_stopping: stop after this many epochs without a better `monitor`, and end with the
            weights of the best epoch. None trains to the end and keeps the last weights.
        monitor: "dev_accuracy" or "dev_loss".
        output_dir: where `checkpoint-STEP` directories go: one after each epoch, and one after
            every `checkpoint_every` steps. The newest `keep_checkpoints` are kept.
        resume: True goes on from the newest checkpoint in `output_dir` (from the start when there
            is none); a path goes on from that one. Without it, a new run replaces old checkpoints.
        log_dir: where VisualDL scalars go.
        progress: show a bar; or a function, called after each step with its number and the total.

    Returns:
        What happened, as lists. One entry per step: "step" (from 1), "loss" (nats),
        "learning_rate". One entry per epoch: "epoch" (from 1), "epoch_step" (the step at its end),
        "train_loss", "train_accuracy" and, with a dev loader, "dev_loss", "dev_accuracy".

    Raises:
        InputError: an argument makes no sense; all parameters are frozen; a checkpoint is damaged
            or of other settings or data; the loss or a weight is no longer a finite number.
    """
    settings: dict[str, Any] = {"epochs": epochs, "early_stopping": early_stopping}
    counts = {"max_steps": max_steps, "checkpoint_every": checkpoint_every, **settings}
    _check({**counts, "keep_checkpoints": keep_checkpoints}, monitor, dev_loader)
    total_steps = sum(_epoch_steps(train_loader, epoch) for epoch in range(epochs))
    total_steps = total_steps if max_steps is None else min(total_steps, max_steps)
    optimizer, scheduler = create_optimizer(model, learning_rate, total_steps, warmup, weight_decay)
    settings |= {"seed": seed, "learning_rate": learning_rate, "warmup": warmup, "monitor": monitor}
    settings |= {"weight_decay": weight_decay, **describe(model, train_loader, dev_loader)}
    settings["total_steps"] = total_steps
    run = Run(model, optimizer, scheduler, settings, output_dir, keep_checkpoints, log_dir)
    run.restore(resume)
    bar = tqdm(total=total_steps, initial=run.step, unit="step", disable=progress is not True)
    model.clear_gradients()  # an interrupted training may have left some
    with training_mode(model), bar, run:
        while run.step < total_steps and not run.stopped:
            epoch_steps = _epoch_steps(train_loader, run.epoch)  # with a budget of tokens they vary
            for batch in _batches(train_loader, run.epoch, run.batch, seed):
                seed_step(seed, run.step)
                logits, labels = forward(model, batch)
                loss = (criterion or F.cross_entropy)(logits, labels)
                loss.backward()
                optimizer.step()
                optimizer.clear_grad(set_to_zero=False)  # zeros would be added to
                run.end_step(float(loss), logits, labels, optimizer.get_lr())
                scheduler.step()

                _show(bar, progress, run, float(loss), total_steps)
                if run.step == total_steps:
                    break
                within = run.batch < epoch_steps
                if checkpoint_every and run.step % checkpoint_every == 0 and within:
                    run.save()

            run.check_weights()
            run.end_epoch({} if dev_loader is None else evaluate(model, dev_loader))
            run.watch(monitor, early_stopping)
            run.save()
    run.load_best()
    return run.history


def _check(counts: dict[str, int | None], monitor: str, dev_loader) -> None:
    positive(**counts)
    one_of("monitor", monitor, ("dev_accuracy", "dev_loss"))
    if counts["early_stopping"] and dev_loader is None:
        raise InputError("early_stopping", "has nothing to watch", "a dev_loader")


def _show(bar: tqdm, progress, run: Run, loss: float, total: int) -> None:
    bar.update()
    bar.set_postfix(epoch=run.epoch + 1, loss=f"{loss:.4f}", refresh=False)
    if callable(progress):
        progress(run.step, total)


def _epoch_steps(loader: paddle.io.DataLoader, epoch: int) -> int:
    sampler = loader.batch_sampler
    return sampler.count(epoch) if isinstance(sampler, ResumableBatchSampler) else len(loader)


def _batches(loader: paddle.io.DataLoader, epoch: int, start: int, seed: int) -> Iterable:
    """The batches of an epoch (from 0) from number `start` on."""
    seed_step(seed, -1 - epoch)  # for samplers that draw from NumPy's or Python's global generator
    sampler = loader.batch_sampler
    if isinstance(sampler, ResumableBatchSampler):
        sampler.set_epoch(epoch, start_batch=start)
        return loader
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)
    return itertools.islice(loader, start, None)
