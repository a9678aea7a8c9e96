"""Turn what export.py wrote into a PaddleNLP directory, and check that Paddle computes the same.

python tools/backbone/ship.py --exported exported --tokenizer tokenizer --output data/backbone
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import course_lib  # noqa: F401  before paddle
from course_lib.models.convert import convert_directory
from course_lib.runtime import InputError, atomic_file
from course_lib.runtime.manifest import describe_files, read_manifest, write_manifest

import numpy as np
import paddle
from paddlenlp.transformers import AutoModelForMaskedLM

TOLERANCE = 1e-4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--exported", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--learning_rate", type=float, default=2e-4, help="to suggest")
    options = parser.parse_args()
    try:
        shutil.copy(options.tokenizer / "vocab.txt", options.exported)
        convert_directory(options.exported, options.output)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    path = options.output / "config.json"
    config = json.loads(path.read_text()) | {"suggested_learning_rate": options.learning_rate}
    with atomic_file(path) as handle:
        handle.write(json.dumps(config, indent=2) + "\n")
    write_manifest(options.output, describe_files(options.output, read_manifest(options.output)))
    gaps = compare(options.output, options.exported / "states.npz")
    print(json.dumps(gaps))
    return 0 if max(gaps.values()) < TOLERANCE else 1


def compare(directory: Path, states: Path) -> dict[str, float]:
    """Largest absolute differences between Paddle's outputs and the saved ones of PyTorch."""
    saved = np.load(states)
    model = AutoModelForMaskedLM.from_pretrained(str(directory))
    model.eval()
    ids, types = paddle.to_tensor(saved["ids"]), paddle.to_tensor(saved["types"])
    with paddle.no_grad():
        sequence, pooled = model.ernie(ids, types)
        scores = model.cls(sequence[:1])[0]
    real = saved["ids"] != 0
    return {
        "sequence": float(np.abs(sequence.numpy() - saved["sequence"])[real].max()),
        "pooled": float(np.abs(pooled.numpy() - saved["pooled"]).max()),
        "scores": float(np.abs(scores.numpy() - saved["scores"])[real[0]].max()),
    }


if __name__ == "__main__":
    sys.exit(main())
