"""Texts with labels that stand in a tree or a DAG. Names load on first use."""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "Taxonomy": "taxonomy",
    "Finding": "files",
    "read_dataset": "files",
    "read_labels": "files",
    "validate": "files",
    "write_dataset": "files",
    "read_doccano": "doccano",
    "write_doccano": "doccano",
    "report": "reports",
    "report_lines": "reports",
    "write_bad_cases": "reports",
    "decode": "thresholds",
    "tune": "thresholds",
    "Classifier": "model",
    "multi_label_features": "model",
    "train": "model",
    "prune": "pruning",
}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
