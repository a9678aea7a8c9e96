"""Run by tests/test_stack.py on either stack: write models and a checkpoint, or read the other's.

python tests/both_stacks.py write DIRECTORY
python tests/both_stacks.py read DIRECTORY       prints JSON
"""

# ruff: noqa: E402

import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from course_lib.compression import quantize_static
from course_lib.deploy import Predictor
from course_lib.models import load_backbone, save_model
from course_lib.runtime import stack
from course_lib.training import predict

import tiny
import training_runs as runs


def write(directory: Path) -> dict:
    """Write a model, a checkpoint from the middle of its training, an export and an INT8 model."""
    model, history = runs.train(40, epochs=2, output_dir=directory / "run", keep_checkpoints=9)
    save_model(model, runs.model_and_tokenizer()[1], directory / "model")
    quantize_static(tiny.export(directory / "export", onnx=True), directory / "int8", tiny.rows())
    return {**read(directory), "history": history}


def read(directory: Path) -> dict:
    """Answer with each of these models, and train on from the checkpoint."""
    model, tokenizer = load_backbone(directory / "model", trained=True)
    answers = predict(model, tiny.TEXTS, tokenizer)
    found = {"stack": stack.VERSION}
    found["model"] = [[row["label"], row["probability"]] for row in answers]
    for name, form in (("paddle", "export"), ("onnx", "export"), ("int8", "int8")):
        predictor = Predictor(directory / form, backend=name.replace("int8", "paddle"))
        found[name] = predictor.predict(tiny.TEXTS).tolist()
    found["runs in int8"] = predictor.int8
    checkpoint = min((directory / "run").glob("checkpoint-*"))
    _, found["history"] = runs.train(40, epochs=2, resume=checkpoint)
    return found


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
