"""Few, unbalanced and augmented labels. Names load on first use."""

from ...runtime.lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    augmentation="FillWords augment",
    few_labels="Finetune FrozenBackbone tfidf_learner",
    imbalance="FocalLoss best_threshold labeled_subset make_imbalanced over_sample under_sample",
)
