"""Backbones and their heads."""

from course_lib.models import patches
from course_lib.models.backbone import FRESH, load_backbone, save_model
from course_lib.models.classifiers import TextCNN
from course_lib.models.encoder import encoder_of, freeze_layers, suggested_learning_rate
from course_lib.models.files import read_weights, write_weights
from course_lib.models.vocabulary import SPECIAL_TOKENS, build_vocabulary
from course_lib.runtime.settings import trust_pickles

patches.apply()
