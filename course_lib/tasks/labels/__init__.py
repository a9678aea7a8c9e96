"""Few, unbalanced and augmented labels. Names load on first use."""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_MODULES = {
    "augmentation": ("FillWords", "augment"),
    "few_labels": ("Finetune", "FrozenBackbone", "tfidf_learner"),
    "imbalance": (
        "FocalLoss",
        "best_threshold",
        "labelled_subset",
        "make_imbalanced",
        "over_sample",
        "under_sample",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
