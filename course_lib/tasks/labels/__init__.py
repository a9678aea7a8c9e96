"""Few, unbalanced and augmented labels.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "apply_threshold": "imbalance",
    "augment": "augmentation",
    "best_threshold": "imbalance",
    "class_weights": "imbalance",
    "curve_points": "few_labels",
    "DeleteWords": "augmentation",
    "FillWords": "augmentation",
    "Finetune": "few_labels",
    "FocalLoss": "imbalance",
    "FrozenBackbone": "few_labels",
    "labelled_subset": "few_labels",
    "learning_curve": "few_labels",
    "make_imbalanced": "imbalance",
    "over_sample": "imbalance",
    "SwapWords": "augmentation",
    "tfidf_learner": "few_labels",
    "under_sample": "imbalance",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
