"""Texts with labels that stand in a tree or a DAG. Names load on first use."""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_MODULES = {
    "doccano": ("read_doccano", "split_examples"),
    "files": ("read_dataset", "read_labels", "read_texts", "validate", "write_dataset"),
    "model": ("Classifier", "PruneArguments", "prune", "train"),
    "reports": ("brief", "report", "report_lines", "write_bad_cases"),
    "taxonomy": ("Taxonomy",),
    "thresholds": ("decode", "tune"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
