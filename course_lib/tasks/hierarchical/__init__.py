"""Texts with labels in a tree or a DAG. Names load on first use."""

from ...runtime.lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    doccano="read_doccano split_examples",
    files="read_dataset read_labels read_texts validate write_dataset",
    model="Classifier PruneArguments prune train",
    reports="brief report report_lines write_bad_cases",
    taxonomy="Taxonomy",
    thresholds="decode tune",
)
