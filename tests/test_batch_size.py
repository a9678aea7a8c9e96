"""The largest batch: found below the budget, whatever ends the child."""

from __future__ import annotations

from course_lib.runtime import InputError
from course_lib.training import batch_size

import paddle
import pytest
import recipe_runs as runs


def test_the_largest_batch_is_tried_in_a_child_that_may_die():
    model = runs.build(hidden_size=48, max_position_embeddings=128)
    roomy = batch_size.largest_batch(model, 128, 8 * 2**30, most=2)
    assert roomy.largest == 2 and [size for size, _ in roomy.tried] == [1, 2]
    budget = roomy.tried[-1][1] + 60 * batch_size.MB
    found = batch_size.largest_batch(model, 128, budget)
    peaks = dict(found.tried)
    assert 8 < found.largest < 1000 and peaks[found.largest] <= budget
    too_large = [size for size, peak in found.tried if peak is None or peak > budget]
    assert found.largest < min(too_large) <= found.largest * 1.125 + 1


@pytest.mark.parametrize("limit", [0, 1, 7, 100, 4096])
def test_the_search_ends_just_below_the_limit(monkeypatch, limit):
    def peak(self, size):
        return 100 + size if size <= limit else None

    monkeypatch.setattr(batch_size._Child, "peak", peak)
    found = batch_size.largest_batch(runs.build(), 8, 10**9)
    assert limit - max(1, limit // 8) < found.largest <= limit and len(found.tried) < 20


def test_a_budget_below_what_paddle_takes_is_refused(monkeypatch):
    monkeypatch.setattr(batch_size._Child, "answer", lambda self: {"resident": 500 * batch_size.MB})
    with pytest.raises(InputError, match="is 100 MB; expected more than 500 MB"):
        batch_size.largest_batch(runs.build(), 8, 100 * batch_size.MB)


def test_the_search_of_the_largest_batch_refuses_what_makes_no_sense():
    model = runs.build()
    for given, words in (
        ((paddle.nn.Linear(2, 2), 8, 2**30), "classifier"),
        ((model, 65, 2**30), "from 1 to 64"),
        ((model, 8, 0), "budget"),
    ):
        with pytest.raises(InputError, match=words):
            batch_size.largest_batch(*given)


@pytest.mark.parametrize("end, words", [
    ("os.kill(os.getpid(), 9)", None),
    ("raise MemoryError", None),
    ("raise RuntimeError('ResourceExhaustedError: Fail to alloc memory')", None),
    ("raise TypeError('no sum of a tuple')", "cannot be trained .*no sum of a tuple"),
    ("time.sleep(60)", "timeout: of 2 s has passed"),
])  # fmt: skip
def test_how_a_child_ends_is_told_apart(monkeypatch, end, words):
    code = "import os, sys, time; sys.stdin.readline(); print('{\"resident\": 1}', flush=True)"
    monkeypatch.setattr(batch_size._Child, "CODE", f"{code}; sys.stdin.readline(); {end}")
    timeout = 2 if "sleep" in end else 600
    if words is None:
        found = batch_size.largest_batch(runs.build(), 8, 2**30, timeout=timeout)
        assert found == batch_size.BatchSearch(0, [(1, None)])
    else:
        with pytest.raises(InputError, match=words):
            batch_size.largest_batch(runs.build(), 8, 2**30, timeout=timeout)


@pytest.mark.parametrize("known, bounds, size", [
    ([(1, 100)], (1, 50), 2),  # nothing to draw a line through
    ([(1, 100), (2, 110)], (2, 50), 8),  # the line says 11, but not more than four times as much
    ([(1, 100), (8, 170)], (8, 50), 11),
    ([(1, 100), (8, 199)], (8, 50), 9),  # a step at least
    ([(1, 100), (8, 120), (32, None)], (8, 32), 20),
])  # fmt: skip
def test_the_next_size_follows_the_peaks(known, bounds, size):
    assert batch_size._next_size(known, *bounds, 200) == size
