"""Write a run as Hugging Face has it, and what it computes, for ship.py (needs PyTorch only).

python tools/backbone/export.py --run RUN --tasks tasks.npz --output exported
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from encoder import SPECIAL
from pretrain import load
from safetensors.torch import save_file

SHOWN = 8  # sequences whose hidden states are compared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    model = load(options.run, "cpu").eval()
    options.output.mkdir(parents=True, exist_ok=True)
    weights = {name: value.half() for name, value in model.state_dict().items()}
    save_file(weights, options.output / "model.safetensors", metadata={"format": "pt"})
    shape = model.shape.asdict()
    del shape["dropout"]
    # Dropout 0: fine-tuning for minutes learns more without (the table in the model card).
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.02,
        "pad_token_id": 0,
        **shape,
    }
    (options.output / "config.json").write_text(json.dumps(config, indent=2))
    data = np.load(options.tasks)
    ends = data["reviews_train_ends"][:SHOWN]
    rows = np.split(data["reviews_train_ids"].astype(np.int64), ends)[:SHOWN]
    ids = np.zeros((SHOWN, max(len(row) for row in rows)), dtype=np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
    types = np.zeros_like(ids)
    types[:, ids.shape[1] // 2 :] = 1  # both kinds
    types[ids < SPECIAL] = 0
    with torch.no_grad():
        sequence, pooled = model.bert(torch.tensor(ids), torch.tensor(types))
        scores = model.scores(sequence[0])
    np.savez(
        options.output / "states.npz",
        ids=ids,
        types=types,
        sequence=sequence.numpy(),
        pooled=pooled.numpy(),
        scores=scores.numpy(),
    )


if __name__ == "__main__":
    main()
