"""Words of your own in the vocabulary of a pretrained model.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "add_words": "added_words",
    "cut_first": "added_words",
    "cutter": "cutting",
    "DictionaryEncoder": "whole_words",
    "find_words": "cutting",
    "load_with_words": "added_words",
    "pretrain_words": "whole_words",
    "restore_words": "whole_words",
    "save_with_words": "added_words",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
