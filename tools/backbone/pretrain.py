"""Pretrain an encoder on the prepared corpus, alone or taught by a larger one.

    python tools/backbone/pretrain.py --corpus corpus.npz --output run/student \\
        --layers 4 --width 384 --steps 15000 [--teacher run/teacher]

Writes OUTPUT/model.pt (weights in float16 and the shape) and OUTPUT/log.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from corpus import Corpus, hide_words
from encoder import SPECIAL, MaskedLM, Shape, set_dropout

LONG = 512  # one step in LONG_EVERY reads sequences of this length, for the late positions
LONG_EVERY = 24


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--inner", type=int, default=0, help="feed-forward width; 0: 4 x width")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0, help="instead of --steps: what fits")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--weight_decay", type=float, default=0.01)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--mask", type=float, default=0.15)
    parser.add_argument("--reviews", type=int, default=4, help="passes over the reviews per epoch")
    parser.add_argument("--bag", type=float, default=0.0, help="weight of the pooled bag of words")
    parser.add_argument(
        "--replaced",
        type=float,
        default=0.0,
        help="weight of telling real tokens from guessed ones",
    )
    parser.add_argument("--init", type=Path, help="go on from this run's weights")
    parser.add_argument("--teacher", type=Path)
    parser.add_argument("--distil", type=float, default=0.7, help="weight of the teacher's scores")
    parser.add_argument("--hidden", type=float, default=0.0, help="weight of the hidden states")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--no_compile", action="store_true")
    return parser.parse_args()


class Objective(torch.nn.Module):
    """The loss of one batch: hidden words, the pooled bag of words, and the teacher's view."""

    def __init__(self, model: MaskedLM, teacher: MaskedLM | None, frequency, options) -> None:
        super().__init__()
        self.model, self.teacher = model, teacher
        self.bag, self.distil, self.hidden = options.bag, options.distil, options.hidden
        self.replaced = options.replaced
        width = model.shape.hidden_size
        # rare tokens say more about a text than 的 does: word2vec's subsampling weights
        rarity = (1e-3 / frequency.clamp(min=1e-9)).sqrt().clamp(max=1.0)
        rarity[:SPECIAL] = 0.0
        self.register_buffer("rarity", rarity)
        if self.bag:
            self.bag_head = torch.nn.Linear(width, model.shape.vocab_size)
        if self.replaced:
            self.real_head = torch.nn.Sequential(
                torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.Linear(width, 1)
            )
        if teacher is not None and self.hidden:
            self.lift = torch.nn.Linear(width, teacher.shape.hidden_size)

    def forward(self, ids, read, places, targets):
        """places: [K] flat positions of hidden tokens; targets: [K], -100 where it is padding."""
        sequence, pooled = self.model.bert(read)
        flat = sequence.reshape(-1, sequence.shape[-1])
        scores = self.model.scores(flat[places]).float()
        masked = F.cross_entropy(scores, targets)
        loss = masked
        if self.teacher is not None:
            with torch.no_grad():
                taught, _ = self.teacher.bert(read)
                taught = taught.reshape(-1, taught.shape[-1])
                wanted = self.teacher.scores(taught[places]).float().softmax(-1)
            counted = (targets >= 0).float()
            soft = -(wanted * scores.log_softmax(-1)).sum(-1)
            soft = (soft * counted).sum() / counted.sum()
            loss = (1 - self.distil) * masked + self.distil * soft
            if self.hidden:
                real = (read != 0).reshape(-1, 1).float()
                gap = (self.lift(flat).float() - taught.float()).pow(2).mean(-1, keepdim=True)
                loss = loss + self.hidden * (gap * real).sum() / real.sum()
        if self.replaced:
            loss = loss + self.replaced * self._replaced_loss(ids, places, targets, scores)
        if self.bag:
            guess = self.bag_head(pooled).float().log_softmax(-1)
            weight = self.rarity[ids]
            loss = loss - self.bag * (guess.gather(1, ids) * weight).sum() / weight.sum()
        return loss, masked

    def _replaced_loss(self, ids, places, targets, scores):
        """ELECTRA's objective: which tokens of a text are the model's own guesses?

        Clark et al. 2020, https://arxiv.org/abs/2003.10555; here one encoder guesses and judges.
        """
        noise = -torch.empty_like(scores).exponential_().log()  # argmax with it draws a sample
        flat = ids.reshape(-1)
        drawn = torch.where(targets >= 0, (scores.detach() + noise).argmax(-1), flat[places])
        read = flat.scatter(0, places, drawn)
        sequence, _ = self.model.bert(read.view_as(ids))
        judged = self.real_head(sequence).float().reshape(-1)
        wrong = F.binary_cross_entropy_with_logits(judged, (read != flat).float(), reduction="none")
        counted = (flat >= SPECIAL).float()
        return (wrong * counted).sum() / counted.sum()


def load(path: Path, device: str) -> MaskedLM:
    """A model that `main` wrote."""
    saved = torch.load(path / "model.pt", map_location="cpu", weights_only=True)
    model = MaskedLM(Shape(**saved["shape"]))
    model.load_state_dict({name: value.float() for name, value in saved["weights"].items()})
    return model.to(device)


def save(model: MaskedLM, path: Path, log: dict) -> None:
    path.mkdir(parents=True, exist_ok=True)
    weights = {name: value.half().cpu() for name, value in model.state_dict().items()}
    torch.save({"shape": model.shape.asdict(), "weights": weights}, path / "model.pt")
    (path / "log.json").write_text(json.dumps(log, default=str, indent=1))


def main() -> None:
    options = arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    rng = np.random.default_rng(options.seed)
    corpus = Corpus(options.corpus, device, options.reviews)
    shape = Shape(
        vocab_size=corpus.vocab_size,
        num_hidden_layers=options.layers,
        hidden_size=options.width,
        num_attention_heads=options.heads,
        intermediate_size=options.inner or 4 * options.width,
        dropout=options.dropout,
    )
    model = MaskedLM(shape).to(device)
    if options.init:
        model.load_state_dict(load(options.init, device).state_dict())
    teacher = None
    if options.teacher:
        teacher = load(options.teacher, device).eval().requires_grad_(False)
        set_dropout(teacher, 0.0)
    frequency = torch.bincount(corpus.stream, minlength=corpus.vocab_size).float()
    objective = Objective(model, teacher, frequency / frequency.sum(), options).to(device)
    objective.train()
    if teacher is not None:
        teacher.eval()
    step_loss = objective if options.no_compile else torch.compile(objective, dynamic=False)
    named = [(n, p) for n, p in objective.named_parameters() if p.requires_grad]
    plain = [p for n, p in named if p.ndim == 1]
    decayed = [p for n, p in named if p.ndim > 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": options.weight_decay},
            {"params": plain, "weight_decay": 0.0},
        ],
        lr=options.learning_rate,
        betas=(0.9, 0.98),
        eps=1e-6,
        fused=device == "cuda",
    )
    capacity = int(options.batch * options.length * options.mask * 1.15)
    streams = {
        options.length: _windows(corpus, options.length, options.batch, rng, packed=False),
        LONG: _windows(corpus, LONG, options.batch * options.length // LONG, rng, packed=True),
    }
    begun = time.time()
    total, step, log = options.steps, 0, []
    masked_sum, since = torch.zeros((), device=device), 0
    settled = 0.0
    while not total or step < total:
        if step == 60:
            settled = time.time()
        if not total and step == 160:  # by now both lengths are compiled and the pace is known
            _wait(device)
            pace = (time.time() - settled) / 100
            total = step + max(1, int((options.seconds - (time.time() - begun)) / pace))
            print(f"{options.output.name}: {pace * 1000:.1f} ms a step, {total} steps", flush=True)
        length = LONG if step % LONG_EVERY == LONG_EVERY - 1 else options.length
        ids, begins = corpus.batch(next(streams[length]), length)
        read, labels = hide_words(ids, begins, corpus.vocab_size, options.mask)
        flat = labels.reshape(-1)
        places = torch.nonzero(flat >= 0).squeeze(1)[:capacity]
        targets = flat[places]
        missing = capacity - len(places)
        places, targets = F.pad(places, (0, missing)), F.pad(targets, (0, missing), value=-100)
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * _schedule(step, total or 10**9)
        with torch.autocast(device, torch.bfloat16):
            loss, masked = step_loss(ids, read, places, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        optimizer.step()
        masked_sum += masked.detach()
        since, step = since + 1, step + 1
        if step % 500 == 0 or step == total:
            value = masked_sum.item() / since
            log.append(
                {"step": step, "loss": round(value, 4), "seconds": round(time.time() - begun)}
            )
            print(f"{options.output.name}: {log[-1]} of {total}", flush=True)
            masked_sum.zero_()
            since = 0
            if not np.isfinite(value):
                raise SystemExit("the loss is no longer a number")
    summary = {
        "options": vars(options),
        "steps": total,
        "tokens": total * options.batch * options.length,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(time.time() - begun),
        "log": log,
    }
    save(model, options.output, summary)


def _windows(corpus: Corpus, length: int, batch: int, rng: np.random.Generator, packed: bool):
    while True:
        windows = corpus.epoch(length, rng, packed)
        for start in range(0, len(windows) - batch + 1, batch):
            yield windows[start : start + batch]
        if len(windows) < batch:
            yield windows[rng.integers(len(windows), size=batch)]


def _schedule(step: int, total: int, warm: int = 500) -> float:
    if step < warm:
        return (step + 1) / warm
    return max(0.0, (total - step) / (total - warm))


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
