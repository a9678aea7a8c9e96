"""A program that hangs says where."""

from __future__ import annotations

import time

from course_lib.runtime import InputError
from course_lib.training import watch_hang

import numpy as np
import paddle
import pytest


class Stuck(paddle.io.Dataset):
    """Gives nothing until the report names it."""

    def __init__(self, report):
        super().__init__()
        self.report, self.end = report, time.monotonic() + 600

    def __len__(self):
        return 1

    def __getitem__(self, index):
        while "_worker_loop" not in self.report.read_text() and time.monotonic() < self.end:
            time.sleep(0.05)
        return np.zeros(1, "float32")


def test_a_hang_in_a_worker_is_named(tmp_path):
    report = tmp_path / "report.txt"
    loader = paddle.io.DataLoader(Stuck(report), batch_size=1, num_workers=1)
    with watch_hang(5, report):  # time enough to start a worker, on a busy machine too
        next(iter(loader))
    text = report.read_text()
    ours, _, workers = text.partition("Child process")
    assert "Timeout" in ours and "test_a_hang_in_a_worker_is_named" in ours
    assert "__getitem__" in workers and "_worker_loop" in workers


def test_no_report_when_all_goes_well_or_is_refused(tmp_path):
    with watch_hang(np.float32(60), tmp_path / "report.txt") as report:
        pass
    assert report.read_text() == ""
    for seconds in (0, -1, "1", float("nan")):
        with pytest.raises(InputError, match="above 0"), watch_hang(seconds, report):
            pass
    with pytest.raises(InputError, match="cannot be written"), watch_hang(1, tmp_path):
        pass
