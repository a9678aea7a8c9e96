"""The decoder of chapter 14, trained for longer, and what it writes; data/results/decoder.json.

    python benchmarks/decoder.py [--steps 3000]     about four minutes on one quiet core

Trains on all train reviews, and gives the perplexity on 600 dev reviews beside that of a model of
three characters. Then it writes reviews by each way of decoding, that begin with "positive" or
"negative": one of each by search, two of each by sampling.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import date
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.chapters import ch14
from course_lib.chapters.ch09 import train_on
from course_lib.data import load_reviews
from course_lib.runtime import atomic_file, data_dir, machine, seed_everything, select_device

import paddle
from paddlenlp.utils.log import logger

WAYS = {
    "greedy": {"decode_strategy": "greedy_search"},
    "beam, 4": {"decode_strategy": "beam_search", "num_beams": 4},
    "top-k, 10": {"decode_strategy": "sampling", "top_k": 10},
    "top-p, 0.7": {"decode_strategy": "sampling", "top_k": 0, "top_p": 0.7},
    "temperature 0.7": {"decode_strategy": "sampling", "top_k": 0, "temperature": 0.7},
    "temperature 1": {"decode_strategy": "sampling", "top_k": 0},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--steps", type=int, default=3000, help="of 8 reviews; %(default)s")
    add("--learning_rate", type=float, default=3e-3, help="%(default)s")
    add("--machine", default=machine.cpu().model, help="in the result; %(default)s")
    add("--output", type=Path, default=data_dir() / "results" / "decoder.json")
    args = parser.parse_args()
    select_device("cpu")
    logger.set_level("ERROR")
    seed_everything(42)
    train, dev = load_reviews("train"), load_reviews("dev", max_examples=600)
    names = ch14.alphabet(train)
    rows, dev_rows = (ch14.review_rows(part, names) for part in (train, dev))
    model = ch14.new_decoder(names)
    begun = time.process_time()
    losses = train_on(
        model, rows, ch14.next_loss(model), 1 + 8 * args.steps // len(rows), args.learning_rate,
        batch_size=8, max_steps=args.steps,
    )  # fmt: skip
    seconds = time.process_time() - begun
    result = {
        "command": " ".join(["python", *sys.argv]),
        "date": date.today().isoformat(),
        "machine": args.machine,
        "cpu_seconds": round(seconds),
        "steps": len(losses),
        "parameters": sum(parameter.size for parameter in model.parameters()),
        "alphabet": len(names),
        "perplexity": round(ch14.perplexity(model, dev_rows), 1),
        "trigram_perplexity": round(ch14.trigram_perplexity(rows, dev_rows, len(names)), 1),
        "samples": {},
    }
    prompts = paddle.to_tensor([[label] for label in (4, 4, 3, 3)])
    for way, options in WAYS.items():
        seed_everything(42)
        begin = prompts if "sampl" in options["decode_strategy"] else prompts[::2]
        ids, _ = model.generate(begin, max_new_tokens=ch14.CHARACTERS, **options)
        result["samples"][way] = [ch14.written(row, names) for row in ids.tolist()]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(args.output) as target:
        json.dump(result, target, ensure_ascii=False, indent=1)
        target.write("\n")
    print(json.dumps(result, ensure_ascii=False))


if __name__ == "__main__":
    main()
