"""One tested function for each answer to a frequent question that deserves code.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME: dict[str, str] = {
    "accumulated_step": "steps",
    "add_label": "lac",
    "attention_maps": "inside",
    "Attribution": "attribution",
    "BackboneTagger": "tagging",
    "BatchSearch": "batch_size",
    "bioes_labels": "term_tree",
    "bioes_spans": "term_tree",
    "compare_freezing": "freezing",
    "create_parameter": "inside",
    "Crf": "crf",
    "cut_words": "lac",
    "deletion_curve": "attribution",
    "digests": "repeating",
    "encoder_layers": "inside",
    "entity_scores": "tagging",
    "estimate_memory": "memory",
    "fit_explicit": "epochs",
    "fit_high_level": "epochs",
    "hidden_states": "inside",
    "integrated_gradients": "attribution",
    "LacTagger": "lac",
    "largest_batch": "batch_size",
    "lime": "attribution",
    "load_lac": "lac",
    "load_plain": "saving",
    "load_state": "saving",
    "log_graph": "inside",
    "log_scalars": "inside",
    "match": "term_tree",
    "MeanLoss": "epochs",
    "MemoryEstimate": "memory",
    "Mention": "term_tree",
    "moved_weights": "freezing",
    "no_grad_around": "freezing",
    "occlusion": "attribution",
    "parameters_without": "freezing",
    "predict_tags": "tagging",
    "price_of_memory": "memory",
    "recomputing": "memory",
    "recorded": "inside",
    "relabel": "lac",
    "repeat_in_processes": "repeating",
    "reproducible": "repeating",
    "save_plain": "saving",
    "save_state": "saving",
    "set_parameter": "inside",
    "static_agreement": "inside",
    "stopped_outputs": "freezing",
    "SWITCHES": "repeating",
    "Tagger": "tagging",
    "Term": "term_tree",
    "TermTree": "term_tree",
    "tiny_training": "repeating",
    "train_tagger": "tagging",
    "watch_hang": "hangs",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
