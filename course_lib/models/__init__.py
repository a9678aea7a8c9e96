"""Backbones and their heads."""

from course_lib.models import mended
from course_lib.models.backbone import FRESH, load_backbone, save_model, suggested_learning_rate
from course_lib.models.vocabulary import SPECIAL_TOKENS, build_vocabulary

__all__ = [
    "FRESH",
    "SPECIAL_TOKENS",
    "build_vocabulary",
    "load_backbone",
    "save_model",
    "suggested_learning_rate",
]

mended.apply()
