"""Tagging: a CRF, a tagger on the backbone, LAC with labels of your own, a term tree.

Names load on first use.
"""

from ...runtime.lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    crf="Crf",
    lac="LacTagger add_label cut_words relabel",
    tagger="BackboneTagger Tagger entity_scores predict_tags train_tagger",
    term_tree="Mention Term TermTree match",
)
