"""What chapter 02 says about PaddleNLP's data set classes. A failure here may be good news.

When upstream mends one of these, correct the chapter and drop the test.
"""

import course_lib  # noqa: F401  (before paddle)

import pytest
from paddlenlp.datasets import DatasetBuilder, IterDataset, MapDataset, load_dataset

pytestmark = pytest.mark.upstream


def test_filter_of_an_iterable_data_set_never_sees_the_example():
    seen = []
    kept = IterDataset(lambda: iter([1, 2])).filter(lambda example: seen.append(example) or True)
    assert [example for example in kept] == [1, 2]
    assert all(isinstance(each, list) for each in seen)


def test_list_of_an_iterable_data_set_fails():
    with pytest.raises(RuntimeError, match="__len__"):
        list(IterDataset(lambda: iter([1])))


def test_a_lazy_map_runs_after_filter_and_takes_a_slice_whole():
    numbers = MapDataset([1, 2]).map(lambda number: 10 * number).filter(lambda number: number < 10)
    assert [numbers[index] for index in range(len(numbers))] == [10, 20]
    assert MapDataset([1, 2]).map(len)[0:2] == 2


def test_a_first_label_of_zero_is_taken_for_none():
    class Labels(DatasetBuilder):
        def _read(self, filename):
            yield from ({"label": label} for label in filename)

        def get_labels(self):
            return [0, 5]

    assert [e["label"] for e in Labels().read([5, 0])] == [1, 0]
    assert [e["label"] for e in Labels().read([0, 5])] == [0, 5]


def test_an_unknown_argument_of_a_read_function_is_dropped():
    def read(path):
        yield {"path": path}

    assert load_dataset(read, path="here", pth="there", lazy=False)[0] == {"path": "here"}
