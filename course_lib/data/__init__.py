"""Getting texts in and batches out. Names load on first use, so importing this is cheap."""

from __future__ import annotations

from ..runtime.lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    annotated="read_bio read_squad",
    batching=(
        "LengthGroupedBatchSampler ResumableBatchSampler TokenBudgetBatchSampler batchify_fn "
        "convert_example create_dataloader"
    ),
    chinese="normalize original_span unknown_tokens",
    cloze="load_cloze",
    examples="read_examples",
    features="convert_qa_examples convert_tokens_example",
    pairs="load_pairs",
    people_daily="load_people_daily",
    review_tree="load_review_tree",
    reviews="load_reviews",
    tokens="tokenize_with_offsets",
)
