"""docs/taskflow.md says of each task what the installed package does."""

import course_lib  # noqa: F401, before paddle
from tools import taskflow

import pytest
from paddlenlp import Taskflow
from paddlenlp.taskflow import task as upstream
from paddlenlp.transformers import AutoTokenizer

pytestmark = pytest.mark.upstream
ROWS = taskflow.variants()


def test_the_page_is_up_to_date_and_describes_every_task(capsys):
    assert taskflow.main(["generate", "--check"]) == 0, capsys.readouterr()
    assert {row.task for row in ROWS} == taskflow.DESCRIPTIONS.keys()
    assert [row.names for row in ROWS if row.download == "no"] == [["fast"]]
    assert sum(bool(row.default) for row in ROWS) == len(taskflow.DESCRIPTIONS)


@pytest.mark.parametrize(
    ("task", "model", "status"),
    [
        ("lexical_analysis", "lac", "yes"),
        ("information_extraction", "uie-base", "yes"),
        ("zero_shot_text_classification", "utc-base", "yes"),
        ("text_correction", "ernie-csc", "weights only"),
        ("feature_extraction", "moka-ai/m3e-base", "no"),
    ],
)
def test_what_is_asked_for_first(task, model, status, tmp_path, monkeypatch):
    assert next(r for r in ROWS if r.task == task and model in r.names).task_path == status

    def asked(*names, **options):
        raise LookupError(names[0])

    monkeypatch.setattr(upstream, "download_file", asked)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", asked)
    with pytest.raises((LookupError, FileNotFoundError)) as caught:
        Taskflow(task, model=model, task_path=str(tmp_path))
    assert (model if status == "no" else str(tmp_path)) in str(caught.value)
