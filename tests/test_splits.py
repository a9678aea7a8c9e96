"""What every loader refuses, and what it makes of a number."""

from __future__ import annotations

import course_lib  # noqa: F401  (before paddle)
from course_lib.data import (
    load_cloze,
    load_pairs,
    load_people_daily,
    load_review_tree,
    load_reviews,
)

import numpy as np
import pytest

LOADERS = [load_cloze, load_pairs, load_people_daily, load_review_tree, load_reviews]


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("size", [0, -1, 1.5, True, "3"])
def test_a_size_that_is_none_is_refused(load, size):
    with pytest.raises(ValueError, match="max_examples"):
        load("dev", max_examples=size)


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("seed", ["1", 1.5, None, True, -1])
def test_a_seed_that_is_none_is_refused(load, seed):
    with pytest.raises(ValueError, match="seed"):
        load("dev", max_examples=4, seed=seed)


@pytest.mark.parametrize("load", LOADERS)
def test_splits_and_sizes(load):
    assert len(load("dev", max_examples=np.int64(4))) == 4
    assert [len(dataset) for dataset in load(("dev", "test"), max_examples=2)] == [2, 2]
    with pytest.raises(ValueError, match="validation"):
        load("validation")
    for none in (None, 3):
        with pytest.raises(ValueError, match="splits are"):
            load(none)
