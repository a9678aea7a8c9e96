"""Every command of docs/your_own_data.md, on files of the shapes that the page describes."""

import json
import re
import shlex
from pathlib import Path

import course_lib  # noqa: F401
from course_lib.cli import commands as cli
from course_lib.deploy import service
from tools.example_files import write_files

import pytest
from fastapi.testclient import TestClient

PAGE = Path(__file__).parents[1] / "docs" / "your_own_data.md"
SECTIONS = re.split(r"^## (?=\d )", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
FEW_STEPS = {
    "train": ["--max_steps", "10", "--batch_size", "16", "--max_seq_length", "32"],
    "compress": ["--max_steps", "2", "--save_steps", "2", "--max_seq_length", "32"],
}
ANSWERS = {"5": "entities", "6": "answer"}  # by recipe; the others give a label


@pytest.mark.parametrize(
    "rows", [pytest.param(120, marks=pytest.mark.quick), pytest.param(500, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("section", SECTIONS, ids=lambda text: text.split("\n")[0])
def test_the_commands_of_a_recipe(section, rows, tmp_path, monkeypatch, capsys):
    """From raw to served, without a socket; with few rows in few steps."""
    write_files(tmp_path, rows)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outputs").mkdir()
    apps = []
    monkeypatch.setattr(service, "serve", lambda app, listener: apps.append(app))
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = [shlex.split(line) for line in block.splitlines()]
    assert 2 <= len(lines) <= 4
    for line in lines:
        if line[0] == "curl":
            with TestClient(apps[-1], base_url="http://localhost") as client:
                answer = client.post("/predict", json=json.loads(line[-1])).json()
            assert ANSWERS.get(section[0], "label") in answer, answer
            continue
        assert line[:3] == ["python", "-m", "course_lib"]
        more = FEW_STEPS.get(line[3], []) if rows < 500 else []
        more += ["--port", "0"] if line[3] == "serve" else []
        assert cli.main([*line[3:], *more]) == 0, capsys.readouterr().err
        if line[3] == "train" and rows >= 500:
            scores = json.loads(capsys.readouterr().out)
            dev = [value for name, value in scores.items() if name.startswith("dev_")]
            assert dev[0] > 0.6 and ("baseline" in scores) == (section[0] not in ANSWERS)
