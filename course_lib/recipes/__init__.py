"""One tested function for each answer to a frequent question that deserves code.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME: dict[str, str] = {
    "accumulated_step": "training",
    "add_label": "lac",
    "attention_maps": "inside",
    "Attribution": "inside",
    "BackboneTagger": "tagging",
    "BatchSearch": "training",
    "bioes_labels": "term_tree",
    "bioes_spans": "term_tree",
    "compare_freezing": "training",
    "create_parameter": "inside",
    "Crf": "crf",
    "cut_words": "lac",
    "deletion_curve": "inside",
    "digests": "training",
    "encoder_layers": "inside",
    "entity_scores": "tagging",
    "estimate_memory": "training",
    "fit_explicit": "training",
    "fit_high_level": "training",
    "hidden_states": "inside",
    "integrated_gradients": "inside",
    "LacTagger": "lac",
    "largest_batch": "training",
    "lime": "inside",
    "load_lac": "lac",
    "load_plain": "training",
    "load_state": "training",
    "log_graph": "inside",
    "log_scalars": "inside",
    "match": "term_tree",
    "MeanLoss": "training",
    "MemoryEstimate": "training",
    "Mention": "term_tree",
    "moved_weights": "training",
    "no_grad_around": "training",
    "parameters_without": "training",
    "predict_tags": "tagging",
    "price_of_memory": "training",
    "recomputing": "training",
    "recorded": "inside",
    "relabel": "lac",
    "repeat_in_processes": "training",
    "reproducible": "training",
    "save_plain": "training",
    "save_state": "training",
    "set_parameter": "inside",
    "static_agreement": "inside",
    "stopped_outputs": "training",
    "SWITCHES": "training",
    "Tagger": "tagging",
    "Term": "term_tree",
    "TermTree": "term_tree",
    "train_tagger": "tagging",
    "watch_hang": "training",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
