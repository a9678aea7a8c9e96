"""Words of your own in the vocabulary of a pretrained model. Names load on first use."""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_MODULES = {
    "added_words": ("add_words", "cut_first", "load_with_words"),
    "cutting": ("cutter", "find_words"),
    "whole_words": ("DictionaryEncoder", "pretrain_words"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
