"""Tagging: a CRF, a tagger on the backbone, LAC with labels of your own, a term tree.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "add_label": "lac",
    "BackboneTagger": "tagger",
    "bio_rules": "tagger",
    "bioes_labels": "term_tree",
    "bioes_spans": "term_tree",
    "Crf": "crf",
    "cut_words": "lac",
    "entity_scores": "tagger",
    "LacTagger": "lac",
    "load_lac": "lac",
    "match": "term_tree",
    "Mention": "term_tree",
    "predict_tags": "tagger",
    "relabel": "lac",
    "Tagger": "tagger",
    "Term": "term_tree",
    "TermTree": "term_tree",
    "train_tagger": "tagger",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
