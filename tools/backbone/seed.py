"""Turn a shipped directory back into a run, to score it or to go on from it (needs Paddle).

python tools/backbone/seed.py --backbone data/backbone --output RUN
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import course_lib  # noqa: F401  before paddle
from course_lib.models.convert import to_torch
from course_lib.models.files import read_config, read_weights
from course_lib.runtime import atomic_file

import numpy as np

SHAPE = ("vocab_size", "num_hidden_layers", "hidden_size", "num_attention_heads")
SHAPE += ("intermediate_size", "max_position_embeddings", "type_vocab_size")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backbone", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    config = read_config(options.backbone / "config.json")
    weights = to_torch(read_weights(options.backbone / "model.safetensors"))
    weights.pop("cls.predictions.decoder.bias", None)  # the same numbers as cls.predictions.bias
    options.output.mkdir(parents=True, exist_ok=True)
    with atomic_file(options.output / "weights.npz", "wb") as handle:
        np.savez(handle, shape=json.dumps({name: config[name] for name in SHAPE}), **weights)


if __name__ == "__main__":
    main()
