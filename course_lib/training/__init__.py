"""Training, evaluation and prediction, in the open. Names load on first use."""

from __future__ import annotations

from ..runtime.lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    answers="Answer answer_f1 decode_answers exact_match",
    callbacks="NotebookProgressCallback ThroughputCallback trainer_history",
    checkpoint="Checkpoint find_checkpoints load_plain save_plain",
    loop="create_optimizer fit",
    metrics="paired_bootstrap paired_bootstrap_f1 span_counts span_scores",
    prediction="evaluate",
    reproducibility="SWITCHES reproducible",
    results="classifier_results linear_hits",
    task="TASKS Task predict",
    trainer="CourseTrainer",
)
