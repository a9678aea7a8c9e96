"""Backbones and their heads."""

from ..runtime.settings import trust_pickles
from . import patches
from .backbone import FRESH, load_backbone, save_model
from .classifiers import TextCNN
from .encoder import encoder_of, freeze_layers, suggested_learning_rate
from .files import read_weights, write_weights
from .vocabulary import SPECIAL_TOKENS, build_vocabulary

patches.apply()
