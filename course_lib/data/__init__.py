"""Getting texts in and batches out. Names load on first use, so importing this is cheap."""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "load_cloze": "cloze",
    "convert_pair_example": "features",
    "convert_tokens_example": "features",
    "convert_qa_examples": "features",
    "tokens_batchify_fn": "features",
    "qa_batchify_fn": "features",
    "tokenize_with_offsets": "tokens",
    "read_bio": "annotated",
    "read_squad": "annotated",
    "materialize": "formats",
    "normalize": "chinese",
    "original_span": "chinese",
    "unknown_tokens": "chinese",
    "load_pairs": "pairs",
    "load_people_daily": "people_daily",
    "load_review_tree": "review_tree",
    "load_reviews": "reviews",
    "read_examples": "readers",
    "read_pairs": "readers",
    "read_texts": "readers",
    "LengthGroupedBatchSampler": "batching",
    "ResumableBatchSampler": "batching",
    "TokenBudgetBatchSampler": "batching",
    "batchify_fn": "batching",
    "convert_example": "batching",
    "create_dataloader": "batching",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
