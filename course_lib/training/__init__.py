"""Training, evaluation and prediction, in the open."""

from course_lib.training.checkpoint import find_checkpoints
from course_lib.training.loop import History, create_optimizer, fit
from course_lib.training.metrics import confusion_matrix, paired_bootstrap
from course_lib.training.prediction import evaluate, predict

__all__ = [
    "History",
    "confusion_matrix",
    "create_optimizer",
    "evaluate",
    "find_checkpoints",
    "fit",
    "paired_bootstrap",
    "predict",
]
