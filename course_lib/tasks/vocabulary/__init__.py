"""Words of your own in the vocabulary of a pretrained model.

Names load on first use.
"""

from __future__ import annotations

from course_lib.runtime.lazy import lazy

_HOME = {
    "add_words": "added_words",
    "compare_vocabulary": "whole_words",
    "cut_first": "added_words",
    "cutter": "added_words",
    "DictionaryEncoder": "whole_words",
    "find_words": "added_words",
    "load_with_words": "added_words",
    "pretrain_words": "whole_words",
    "restore_words": "whole_words",
    "save_with_words": "added_words",
    "vector_effect": "added_words",
    "vocabulary_table": "whole_words",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy(__name__, _HOME)
