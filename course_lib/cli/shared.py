"""What the commands share: the directory of a model, columns of files, JSON lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from course_lib.runtime import InputError

MODEL_DIR = "model"


def check_model_dir(model_dir: Path) -> None:
    """Refuse, before anything is read or loaded, a directory without a model."""
    if not (model_dir / "config.json").is_file():
        inside = model_dir / MODEL_DIR
        expected = str(inside) if inside.is_dir() else f"the {MODEL_DIR}/ that train wrote"
        raise InputError(model_dir, "holds no model", expected)


def checked_length(max_seq_length: int | None, model) -> int:
    """The tokens to cut at: what was asked for, else 128, or fewer where the model takes fewer."""
    most = model.config.max_position_embeddings
    if max_seq_length is None:
        return min(128, most)
    if max_seq_length > most:
        raise InputError("--max_seq_length", f"is {max_seq_length}", f"at most {most}, the model's")
    return max_seq_length


def split_columns(columns: str | None) -> list[str] | None:
    return None if columns is None else [name.strip() for name in columns.split(",")]


def print_json(value: dict) -> None:
    # In a C locale Chinese text becomes \u escapes, which are the same JSON.
    escape = (sys.stdout.encoding or "ascii").lower() != "utf-8"
    print(json.dumps(value, ensure_ascii=escape, allow_nan=False), flush=True)
