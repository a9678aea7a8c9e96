"""How much of a batch is padding, and what that costs in training: one JSON line.

    python benchmarks/data_pipeline.py

Four ways to make batches of the same reviews (at most 256 tokens):

- max_length: shuffled, 32 examples a batch, every row as long as 256 tokens, which is what
  PaddleNLP's `padding="max_length"` gives;
- plain: shuffled, 32 a batch, padded to the longest of its batch;
- grouped: 32 a batch of like length (`LengthGroupedBatchSampler`);
- tokens: as many rows as fit into a budget of padded tokens (`TokenBudgetBatchSampler`), by
  default the tokens of 32 examples of mean length, so that all have about as many steps.

`real_per_padded` is real tokens per padded token over one epoch of all training reviews.
`tokens_per_second` is real tokens per second of training the shipped backbone with `fit` on a part
of them; the four take turns in one process, other batches each round, after a step that warms the
libraries up. `ratio` is the faster of grouped and tokens over plain.

`tokenizing` is rows per second of `convert_example` on all training reviews, by PaddleNLP's
tokenizer and from what the course remembers of it (`COURSE_TOKENIZER`), in turns; `ratio` is the
second over the first. With `make peers`, also that of Hugging Face's `tokenizers` with the same
vocabulary (one text a call, and all in one call, which uses all cores), and the share of texts to
which it gives other ids.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.data import batching, convert_example, create_dataloader, load_reviews
from course_lib.models import load_backbone
from course_lib.runtime import seed_everything, select_device
from course_lib.training import fit

from paddlenlp.data import Pad, Stack, Tuple

BATCH_SIZE, MAX_SEQ_LENGTH, SEED = 32, 256, 42
ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".venv-peers/bin/python"
VARIANTS = ("max_length", "plain", "grouped", "tokens")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=640, help="to train on; %(default)s")
    parser.add_argument("--rounds", type=int, default=2, help="default %(default)s")
    parser.add_argument("--max-tokens", type=int, help="default 32 x mean tokens of a review")
    args = parser.parse_args()

    select_device("cpu")
    seed_everything(SEED)
    model, tokenizer = load_backbone(num_classes=2)
    whole = load_reviews("train")
    reference = make_loader("plain", whole, tokenizer, None, SEED)
    lengths = [len(feature[0]) for feature in reference.dataset]
    max_tokens = args.max_tokens or BATCH_SIZE * round(sum(lengths) / len(lengths))
    shares, steps = {}, {}
    for name in VARIANTS:
        batches = make_sampler(name, lengths, max_tokens).batches()
        padded = sum(len(b) * longest(name, lengths, b) for b in batches)
        shares[name], steps[name] = sum(lengths) / padded, len(batches)

    part = load_reviews("train", args.examples, seed=SEED)
    train(model, make_loader("plain", part, tokenizer, None, SEED), max_steps=1)
    tokens: dict[str, list[int]] = {name: [] for name in VARIANTS}
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for number in range(args.rounds):
        for name in VARIANTS:
            loader = make_loader(name, part, tokenizer, max_tokens, SEED + number)
            tokens[name].append(sum(len(feature[0]) for feature in loader.dataset))
            seconds[name].append(train(model, loader))
            speed = tokens[name][-1] / seconds[name][-1]
            print(f"round {number + 1}, {name}: {speed:.0f} tokens/s", file=sys.stderr)
    speeds = {name: sum(tokens[name]) / sum(seconds[name]) for name in VARIANTS}
    best = max(("grouped", "tokens"), key=speeds.get)
    result = {
        "task": "padding and training speed by batching, reviews",
        "real_per_padded": {name: round(share, 3) for name, share in shares.items()},
        "tokens_per_second": {name: round(speed, 1) for name, speed in speeds.items()},
        "ratio": round(speeds[best] / speeds["plain"], 2),
        "best": best,
        "over_plain": {name: round(speeds[name] / speeds["plain"], 2) for name in VARIANTS},
        "ratio_by_round": [
            round(plain / mine, 2)
            for plain, mine in zip(seconds["plain"], seconds[best], strict=True)
        ],
        "tokenizing": tokenizing(list(whole), tokenizer),
        "steps_an_epoch": steps,
        "examples": len(part),
        "mean_tokens": round(sum(lengths) / len(lengths), 1),
        "batch_size": BATCH_SIZE,
        "max_seq_length": MAX_SEQ_LENGTH,
        "max_tokens": max_tokens,
        "rounds": args.rounds,
        "cores": len(os.sched_getaffinity(0)),
    }
    print(json.dumps(result))


def tokenizing(rows: list[dict], tokenizer) -> dict:
    """Rows per second of both ways of the course, and of the peer's library where it is there."""
    seconds, ids = {"paddlenlp": 0.0, "course": 0.0}, {}
    convert_example(rows[0], tokenizer)
    for _ in range(2):
        for name in seconds:
            os.environ["COURSE_TOKENIZER"] = name
            start = time.perf_counter()
            ids[name] = [convert_example(row, tokenizer, MAX_SEQ_LENGTH) for row in rows]
            seconds[name] += time.perf_counter() - start
    assert ids["course"] == ids["paddlenlp"]
    result = {f"{name}_rows_per_second": round(2 * len(rows) / seconds[name]) for name in seconds}
    result["ratio"] = round(seconds["paddlenlp"] / seconds["course"], 2)
    if PEERS.exists():
        with tempfile.TemporaryDirectory() as directory:
            job = Path(directory, "job.json")
            texts = [row["text"] for row in rows]
            vocab = tokenizer.vocab.token_to_idx
            job.write_text(json.dumps({"texts": texts, "vocab": dict(vocab)}), encoding="utf-8")
            command = [PEERS, ROOT / "benchmarks/peers/hugging_face.py", "tokenize", job]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        peer = json.loads(done.stdout)
        own = [tokenizer(text)["input_ids"][1:-1] for text in texts]
        other = sum(a != b for a, b in zip(own, peer["ids"], strict=True))
        result |= {
            f"tokenizers_{name}_rows_per_second": round(each)
            for name, each in peer["rates"].items()
        }
        result |= {"tokenizers_other_ids": round(other / len(own), 4), **peer["versions"]}
    else:
        print("tokenizers is left out: `make peers` makes its environment", file=sys.stderr)
    return result


def make_sampler(name: str, lengths: list[int], max_tokens: int):
    if name == "tokens":
        return batching.TokenBudgetBatchSampler(lengths, max_tokens, seed=SEED)
    if name == "grouped":
        return batching.LengthGroupedBatchSampler(lengths, BATCH_SIZE, seed=SEED)
    return batching.LengthGroupedBatchSampler([0] * len(lengths), BATCH_SIZE, seed=SEED)


def longest(name: str, lengths: list[int], batch: list[int]) -> int:
    return MAX_SEQ_LENGTH if name == "max_length" else max(lengths[index] for index in batch)


def make_loader(name: str, dataset, tokenizer, max_tokens: int | None, seed: int):
    kind = "plain" if name == "max_length" else name
    loader = create_dataloader(
        dataset,
        tokenizer,
        "train",
        BATCH_SIZE,
        MAX_SEQ_LENGTH,
        batching=kind,
        max_tokens=max_tokens if kind == "tokens" else None,
        seed=seed,
    )
    if name == "max_length":
        full = [0] * MAX_SEQ_LENGTH
        pad = Tuple(Pad(pad_val=tokenizer.pad_token_id, dtype="int64"), Pad(dtype="int64"), Stack())

        def collate(rows):
            # a row of full length, padded with the others and then left out
            ids, types, _ = pad([*rows, (full, full, 0)])
            return ids[:-1], types[:-1], Stack(dtype="int64")([label for _, _, label in rows])

        loader.collate_fn = collate
    return loader


def train(model, loader, max_steps: int | None = None) -> float:
    """Seconds of one epoch."""
    start = time.perf_counter()
    fit(model, loader, learning_rate=2e-4, max_steps=max_steps, seed=SEED, progress=False)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
