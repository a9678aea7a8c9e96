"""Figures of the course: one style, one font with Chinese glyphs, plain data in, a Figure out.

Every function returns a figure of its own (nothing is kept in pyplot), drawn in the course's style
whatever the surrounding settings are. A notebook shows it sharp on dense screens and with a text
alternative, which is also its attribute `alt`. `use_course_style` is for figures drawn by hand.
Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "COLORS": "style",
    "FONT": "style",
    "FONT_FILE": "style",
    "GRID": "style",
    "INK": "style",
    "MARKERS": "style",
    "MUTED": "style",
    "NEGATIVE": "style",
    "POSITIVE": "style",
    "CourseFigure": "style",
    "use_course_style": "style",
    "length_histogram": "data",
    "pipeline_flow": "data",
    "padding_map": "data",
    "window_map": "data",
    "entity_text": "data",
    "learning_curves": "training",
    "batch_peaks": "training",
    "memory_price": "training",
    "share_panels": "training",
    "accuracy_by_size": "training",
    "confusion_matrix": "predictions",
    "probability_bars": "predictions",
    "confident_mistakes": "predictions",
    "answer_positions": "predictions",
    "threshold_tradeoff": "predictions",
    "precision_recall": "predictions",
    "taxonomy_tree": "predictions",
    "size_comparison": "comparison",
    "method_differences": "comparison",
    "gain_intervals": "comparison",
    "vector_effects": "comparison",
    "recall_against_time": "comparison",
    "latency_curves": "comparison",
    "speed_accuracy": "compression",
    "head_importance": "compression",
    "width_tradeoff": "compression",
    "limit_costs": "compression",
    "token_attributions": "inside",
    "deletion_curves": "inside",
    "attention_map": "inside",
    "attention_grid": "inside",
    "layer_scatter": "inside",
    "transition_map": "inside",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
