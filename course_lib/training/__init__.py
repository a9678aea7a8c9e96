"""Training, evaluation and prediction, in the open. Names load on first use."""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "accumulated_step": "steps",
    "BatchSearch": "batch_size",
    "compare_freezing": "freezing",
    "digests": "reproducibility",
    "estimate_memory": "memory",
    "fit_explicit": "epochs",
    "fit_high_level": "epochs",
    "largest_batch": "batch_size",
    "load_plain": "saving",
    "load_state": "saving",
    "MeanLoss": "epochs",
    "MemoryEstimate": "memory",
    "moved_weights": "freezing",
    "no_grad_around": "freezing",
    "parameters_without": "freezing",
    "price_of_memory": "memory",
    "recomputing": "memory",
    "repeat_in_processes": "reproducibility",
    "reproducible": "reproducibility",
    "save_plain": "saving",
    "save_state": "saving",
    "stopped_outputs": "freezing",
    "SWITCHES": "reproducibility",
    "tiny_training": "reproducibility",
    "watch_hang": "hangs",
    "Answer": "answers",
    "answer_f1": "answers",
    "decode_answers": "answers",
    "exact_match": "answers",
    "normalize_answer": "answers",
    "find_checkpoints": "checkpoint",
    "History": "run",
    "create_optimizer": "loop",
    "fit": "loop",
    "confusion_matrix": "metrics",
    "paired_bootstrap": "metrics",
    "paired_bootstrap_f1": "metrics",
    "span_counts": "metrics",
    "span_scores": "metrics",
    "evaluate": "prediction",
    "predict": "prediction",
    "CourseTrainer": "trainer",
    "NotebookProgressCallback": "callbacks",
    "ThroughputCallback": "callbacks",
    "trainer_history": "callbacks",
    "read_scalars": "visual_logs",
    "screenshot": "visual_logs",
    "visualdl_page": "visual_logs",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
