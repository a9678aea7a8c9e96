"""Spans of BIO labels and the dictionary baseline."""

from __future__ import annotations

import course_lib  # noqa: F401
from course_lib.data.spans import bio_spans, bio_types, look_up, training_names
from course_lib.runtime import InputError

import numpy as np
import pytest
from paddlenlp.datasets import MapDataset


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([], set()),
        ([0, 0], set()),
        ([1, 2, 2], {(0, 3, 0)}),
        ([1, 2, 1, 2], {(0, 2, 0), (2, 4, 0)}),  # adjacent names of one type
        ([1, 2, 3, 4, 0, 5], {(0, 2, 0), (2, 4, 1), (5, 6, 2)}),
        ([0, 2, 2, 0], {(1, 3, 0)}),  # an I- that continues nothing opens one
        ([1, 4, 4], {(0, 1, 0), (1, 3, 1)}),  # and so does one of another type
        ([-100, 1, 2, -100], {(1, 3, 0)}),
        ([1, -100, 2], {(0, 1, 0), (2, 3, 0)}),
    ],
)
def test_bio_spans(labels, expected):
    assert bio_spans(labels) == expected
    assert bio_spans(np.array(labels, dtype="int64")) == expected


def test_the_order_of_the_labels_is_that_of_their_list():
    last, mixed = ["B-P", "I-P", "B-L", "I-L", "O"], ["I-L", "B-P", "O", "B-L", "I-P"]
    assert bio_types(last) == ["P", "L"] and bio_types(mixed) == ["L", "P"]
    assert bio_spans([0, 1, 4, 2, 3, -100], last) == {(0, 2, 0), (3, 5, 1)}
    assert bio_spans([1, 4, 2, 3, 0, -100], mixed) == {(0, 2, 1), (3, 5, 0)}
    rows = [{"tokens": list("王明到北京"), "labels": [0, 1, 4, 2, 3]}]
    assert training_names(MapDataset(rows, label_list=last)) == {"王明": 0, "北京": 1}
    for wrong in (["O", "B-P"], ["B-P", "I-P"], ["O", "O"], ["O", "P"], ["O", 1], [*last, "O"]):
        with pytest.raises(InputError, match=r"label_list: is .* O and, for each type X, B-X and"):
            bio_spans([0], wrong)


def _row(text, labels):
    return {"tokens": list(text), "labels": labels}


def test_a_dictionary_of_names():
    train = [
        _row("北京和北京站", [3, 4, 0, 3, 4, 4]),
        _row("高山高高", [1, 0, 0, 0]),  # a name in one of three places: left out
        _row("王明", [1, 2]),
    ]
    names = training_names(train)
    assert names == {"北京": 1, "北京站": 1, "王明": 0}
    found = look_up([_row("王明王明在北京站", [0] * 8), _row("高山", [0, 0])], names)
    assert found == [{(0, 2, 0), (2, 4, 0), (5, 8, 1)}, set()]  # the longest, from the left
    assert look_up([_row("北京", [3, 4])], {}) == [set()]
