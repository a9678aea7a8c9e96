"""Pretrain from one run with all targets, and with all but one, and score each on dev.

    python tools/backbone/ablate.py --corpus corpus.npz --tags tags.npy --tasks tasks.npz \\
        --outside outside.npz --init RUN --steps 2000 --runs DIRECTORY --output DIRECTORY

Every variant takes the same steps. Some are trained and scored side by side, which hides the time
of loading and compiling. A variant's JSON line is in OUTPUT/NAME-SEED.json when it is scored.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIX = "reviews=4,news=5,laws=0.6,literature=0.7"
TARGETS = {  # options of pretrain.py
    "teacher": ["--teacher", "RUN", "--distil", "0.3"],
    "tags": ["--tag", "0.5"],
    "contrast": ["--contrast", "0.3"],
    "gaps": ["--gaps", "0.2"],
}
VARIANTS = {
    "all": list(TARGETS),
    "words": [],  # hidden words alone
    **{f"no_{left}": [name for name in TARGETS if name != left] for left in TARGETS},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("corpus", "tags", "tasks", "outside", "init", "runs", "output"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=43)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--pretrain", default="", help="more options for pretrain.py, in one word")
    parser.add_argument("--choose", default="", help="more options for choose.py, in one word")
    options = parser.parse_args()
    begun, running, failed = time.time(), {}, 0
    options.output.mkdir(parents=True, exist_ok=True)
    waiting = options.variants.split(",")
    while waiting or running:
        while waiting and len(running) < options.jobs:
            variant = waiting.pop(0)
            running[variant] = subprocess.Popen(pretraining(options, variant)), time.time()
        for variant, (process, started) in list(running.items()):
            if process.poll() is None:
                continue
            del running[variant]
            failed += process.returncode
            print(f"{variant}: {time.time() - started:.0f} s, {process.returncode}", flush=True)
            if not process.returncode and not variant.startswith("score "):
                out = options.output / f"{variant}-{options.seed}.json"
                with out.open("w") as file:
                    scored = subprocess.Popen(scoring(options, variant), stdout=file)
                running[f"score {variant}"] = scored, time.time()
        time.sleep(1)
    print(f"{time.time() - begun:.0f} s in all", flush=True)
    return min(failed, 1)


def run_of(options: argparse.Namespace, variant: str) -> Path:
    """Where a variant's weights are."""
    return options.runs / f"{variant}-{options.seed}"


def pretraining(options: argparse.Namespace, variant: str) -> list[str]:
    """The command that pretrains a variant."""
    command = [sys.executable, HERE / "pretrain.py", "--output", run_of(options, variant)]
    command += ["--corpus", options.corpus, "--tags", options.tags, "--mix", MIX]
    command += ["--init", options.init, "--steps", options.steps, "--seed", options.seed]
    command += options.pretrain.split()
    for target in VARIANTS[variant]:
        command += [options.init if word == "RUN" else word for word in TARGETS[target]]
    return list(map(str, command))


def scoring(options: argparse.Namespace, variant: str) -> list[str]:
    """The command that scores a variant on dev."""
    command = [sys.executable, HERE / "choose.py", "--tasks", options.tasks]
    command += ["--outside", options.outside, *options.choose.split(), run_of(options, variant)]
    return list(map(str, command))


if __name__ == "__main__":
    sys.exit(main())
