"""Words of your own in the vocabulary of a pretrained model. Names load on first use."""

from ...runtime.lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    added_words="add_words cut_first load_with_words",
    cutting="cutter find_words",
    whole_words="DictionaryEncoder pretrain_words",
)
