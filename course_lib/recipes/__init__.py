"""One tested function for each answer to a frequent question that deserves code.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME: dict[str, str] = {
    "Crf": "crf",
    "LacTagger": "lac",
    "add_label": "lac",
    "cut_words": "lac",
    "load_lac": "lac",
    "relabel": "lac",
    "BackboneTagger": "tagging",
    "Tagger": "tagging",
    "entity_scores": "tagging",
    "predict_tags": "tagging",
    "train_tagger": "tagging",
    "Mention": "term_tree",
    "Term": "term_tree",
    "TermTree": "term_tree",
    "bioes_labels": "term_tree",
    "bioes_spans": "term_tree",
    "match": "term_tree",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
