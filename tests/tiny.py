"""The tiny model that tests of exports and services share."""

from __future__ import annotations

from course_lib.models import load_backbone

import paddle

SIZES = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64}


def classifier(texts, labels=("negative", "positive"), seed: int = 0, **config):
    """A fresh classifier of one layer, and a tokenizer that knows the characters of the texts."""
    paddle.seed(seed)
    names = {"label_list": list(labels), **SIZES, **config}
    return load_backbone("fresh", vocab_texts=list(texts) * 3, **names)
