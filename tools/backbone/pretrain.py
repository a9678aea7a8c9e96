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
from encoder import MaskedLM, Shape, set_dropout

LONG = 512  # one step in LONG_EVERY reads sequences of this length, for the late positions
LONG_EVERY = 24
TAGS = 59  # LAC's
PAIRS, PAIR_LENGTH, PAIRS_EVERY = 512, 64, 3
GAPS, GAP_LENGTH = 128, 192  # questions with a gap, one step in PAIRS_EVERY, after the pairs
TEMPERATURE = 0.05


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
    parser.add_argument("--mix", default="reviews=4", help="passes per epoch: SOURCE=N,SOURCE=N")
    parser.add_argument("--tags", type=Path, help="LAC's tags, from label.py")
    parser.add_argument("--tag", type=float, default=0.0, help="weight of LAC's tags")
    parser.add_argument("--contrast", type=float, default=0.0, help="weight of the pairs")
    parser.add_argument("--gaps", type=float, default=0.0, help="weight of the questions")
    parser.add_argument("--init", type=Path, help="go on from this run's weights")
    parser.add_argument("--stack", type=int, default=1, help="copies of the layers of --init")
    parser.add_argument("--teacher", type=Path)
    parser.add_argument("--distil", type=float, default=0.7, help="weight of the teacher's scores")
    parser.add_argument("--hidden", type=float, default=0.0, help="weight of the hidden states")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--no_compile", action="store_true")
    return parser.parse_args()


class Objective(torch.nn.Module):
    """The loss of one batch: hidden words, LAC's tags and the teacher's view."""

    def __init__(self, model: MaskedLM, teacher: MaskedLM | None, options) -> None:
        super().__init__()
        self.model, self.teacher = model, teacher
        self.distil, self.hidden, self.tag = options.distil, options.hidden, options.tag
        width = model.shape.hidden_size
        if self.tag:
            self.tag_head = torch.nn.Linear(width, TAGS)
        if teacher is not None and self.hidden:
            self.lift = torch.nn.Linear(width, teacher.shape.hidden_size)

    def forward(self, read, tags, places, targets):
        """places: [K] flat positions of hidden tokens; targets: [K], -100 where it is padding."""
        sequence, _ = self.model.bert(read)
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
        if self.tag:
            guess = self.tag_head(flat).float()
            loss = loss + self.tag * F.cross_entropy(guess, tags.reshape(-1))
        return loss, masked


class Contrast(torch.nn.Module):
    """Two parts of one paragraph have nearer vectors than parts of others (InfoNCE).

    The vectors are the mean of the last states, and the pooled output. After van den Oord, Li and
    Vinyals, arXiv:1807.03748, and the inverse cloze task of Lee, Chang and Toutanova,
    arXiv:1906.00300.
    """

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids):
        """ids: [2N, T]; row i belongs to row N + i."""
        sequence, pooled = self.encoder(ids)
        real = (ids != 0)[:, :, None].float()
        mean = (sequence.float() * real).sum(1) / real.sum(1)
        target = torch.arange(len(ids) // 2, device=ids.device)
        loss = 0.0
        for vectors in (mean, pooled.float()):
            left, right = F.normalize(vectors, dim=-1).chunk(2)
            scores = left @ right.T / TEMPERATURE
            loss = loss + F.cross_entropy(scores, target) + F.cross_entropy(scores.T, target)
        return loss / 4


class Gaps(torch.nn.Module):
    """Where does the word that the question lacks stand in the passage? (`Corpus.gaps`)"""

    def __init__(self, encoder: torch.nn.Module, width: int) -> None:
        super().__init__()
        self.encoder, self.head = encoder, torch.nn.Linear(width, 2)

    def forward(self, ids, types, begins, ends):
        """Loss of the sum of the probabilities of all right places."""
        sequence, _ = self.encoder(ids, types)
        scores = self.head(sequence).float().masked_fill((types == 0)[:, :, None], -1e4)
        loss = 0.0
        for score, right in zip(scores.unbind(-1), (begins, ends), strict=True):
            good = score.masked_fill(~right, -1e4).logsumexp(1)
            loss = loss + (score.logsumexp(1) - good).mean()
        return loss / 2


def stacked(model: MaskedLM, copies: int) -> dict[str, torch.Tensor]:
    """Weights of a model of `copies` times as many layers: each layer stands there so often.

    After Gong et al., "Efficient Training of BERT by Progressively Stacking", 2019, who put the
    copies of all layers on top of each other; in this order the loss begins lower.
    """
    weights = {}
    for name, value in model.state_dict().items():
        head, found, rest = name.partition("encoder.layer.")
        number, _, part = rest.partition(".")
        for copy in range(copies if found else 1):
            place = f"{int(number) * copies + copy}.{part}" if found else ""
            weights[head + found + place] = value
    return weights


def load(path: Path, device: str) -> MaskedLM:
    """A model that `main` or seed.py wrote."""
    if (path / "weights.npz").exists():
        arrays = dict(np.load(path / "weights.npz"))
        shape = json.loads(str(arrays.pop("shape")))
        weights = {name: torch.tensor(array) for name, array in arrays.items()}
    else:
        saved = torch.load(path / "model.pt", map_location="cpu", weights_only=True)
        shape, weights = saved["shape"], saved["weights"]
    model = MaskedLM(Shape(**shape))
    model.load_state_dict({name: value.float() for name, value in weights.items()})
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
    mix = dict(part.split("=") for part in options.mix.split(",") if part)
    corpus = Corpus(options.corpus, device, {k: float(v) for k, v in mix.items()}, options.tags)
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
        model.load_state_dict(stacked(load(options.init, device), options.stack))
    teacher = None
    if options.teacher:
        teacher = load(options.teacher, device).eval().requires_grad_(False)
        set_dropout(teacher, 0.0)
    objective = Objective(model, teacher, options).to(device)
    objective.train()
    if teacher is not None:
        teacher.eval()
    contrast = Contrast(model.bert)
    gaps = Gaps(model.bert, options.width).to(device)
    step_loss, pair_loss, gap_loss = objective, contrast, gaps
    if not options.no_compile:
        step_loss, pair_loss, gap_loss = (
            torch.compile(each, dynamic=False) for each in (objective, contrast, gaps)
        )
    named = [(n, p) for n, p in objective.named_parameters() if p.requires_grad]
    named += list(gaps.head.named_parameters())
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
    masked_sum, paired_sum, gap_sum = torch.zeros(3, device=device).unbind()
    since = 0
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
        ids, begins, tags = corpus.batch(next(streams[length]), length)
        read, labels = hide_words(ids, begins, corpus.vocab_size, options.mask)
        flat = labels.reshape(-1)
        places = torch.nonzero(flat >= 0).squeeze(1)[:capacity]
        targets = flat[places]
        free = capacity - len(places)
        places, targets = F.pad(places, (0, free)), F.pad(targets, (0, free), value=-100)
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * _schedule(step, total or 10**9)
        with torch.autocast(device, torch.bfloat16):
            loss, masked = step_loss(read, tags, places, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if options.contrast and step % PAIRS_EVERY == 0:
            with torch.autocast(device, torch.bfloat16):
                paired = pair_loss(corpus.pairs(PAIRS, PAIR_LENGTH, rng))
            (options.contrast * paired).backward()
            paired_sum += paired.detach()
        if options.gaps and step % PAIRS_EVERY == 1:
            with torch.autocast(device, torch.bfloat16):
                missing = gap_loss(*corpus.gaps(GAPS, GAP_LENGTH, rng))
            (options.gaps * missing).backward()
            gap_sum += missing.detach()
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        optimizer.step()
        masked_sum += masked.detach()
        since, step = since + 1, step + 1
        if step % 500 == 0 or step == total:
            value = masked_sum.item() / since
            entry = {"step": step, "loss": round(value, 4), "seconds": round(time.time() - begun)}
            if options.contrast:
                entry["pairs"] = round(paired_sum.item() * PAIRS_EVERY / since, 4)
            if options.gaps:
                entry["gaps"] = round(gap_sum.item() * PAIRS_EVERY / since, 4)
            log.append(entry)
            print(f"{options.output.name}: {log[-1]} of {total}", flush=True)
            masked_sum.zero_()
            paired_sum.zero_()
            gap_sum.zero_()
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
