"""Texts with labels that stand in a tree or a DAG. Names load on first use."""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "Taxonomy": "taxonomy",
    "Finding": "files",
    "read_dataset": "files",
    "read_labels": "files",
    "validate": "files",
    "write_dataset": "files",
    "read_doccano": "doccano",
    "split_examples": "doccano",
    "write_doccano": "doccano",
    "check_bad_cases": "reports",
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
__getattr__, __dir__ = lazy(__name__, _HOME)
