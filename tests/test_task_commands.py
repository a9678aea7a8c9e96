"""Every task on the command line: from files as they come to answers."""

import json
from pathlib import Path

import course_lib  # noqa: F401, before anything that may import paddle
from course_lib.cli import commands as cli
from course_lib.data.kinds import HEADS
from course_lib.deploy import Predictor
from course_lib.deploy.service import make_app
from course_lib.models import load_backbone, save_model
from course_lib.training import TASKS

import numpy as np
import pytest
from fastapi.testclient import TestClient

PEOPLE, PLACES = ["王明", "李红", "张三"], ["北京", "上海", "广州"]
SENTENCES = [(person, place) for person in PEOPLE for place in PLACES] * 3


def bioes() -> str:
    tags = ["B-PER", "E-PER", "O", "B-LOC", "E-LOC", "O"]
    texts = [zip(f"{person}在{place}。", tags, strict=True) for person, place in SENTENCES]
    return "\n".join("".join(f"{token} {tag}\n" for token, tag in text) for text in texts)


def questions() -> str:
    """As CMRC has them: an offset of -1, and a question without text."""
    paragraphs = []
    for number, (person, place) in enumerate(SENTENCES):
        answers = [{"text": place, "answer_start": -1 if number == 1 else 3}]
        asks = [{"id": f"q{number}", "question": "在哪里？", "answers": answers}]
        asks += [{"id": "blank", "question": "", "answers": answers}] if number == 2 else []
        paragraphs.append({"context": f"{person}在{place}。", "qas": asks})
    return json.dumps({"data": [{"paragraphs": paragraphs}]}, ensure_ascii=False, indent=1)


def pairs() -> str:
    rows = ["q1\tq2\tlabel"]
    for person, place in SENTENCES:
        rows.append(f"{person}在哪里？\t{person}在{place}吗？\t不同")
        rows.append(f"{person}在{place}。\t{place}有{person}。\t相同")
    return "\n".join(rows) + "\n"


FILES = {"tokens": ("a.bio", bioes), "qa": ("a.json", questions), "pair": ("a.tsv", pairs)}
OPTIONS = {"tokens": [], "qa": ["--policy", "repair"]}
OPTIONS["pair"] = ["--text_column", "q1", "--text_pair_column", "q2"]
INPUTS = {
    "tokens": ("new.txt", "王明在上海。\n"),
    "qa": ("new.jsonl", '{"question": "在哪里？", "context": "张三在北京。"}\n'),
    "pair": ("new.tsv", "q1\tq2\n王明在哪里？\t王明在北京吗？\n"),
}


@pytest.fixture(scope="module", params=list(FILES))
def training(request, tmp_path_factory):
    """A task, its labeled file, and the directory of its training."""
    task = request.param
    directory = tmp_path_factory.mktemp(task)
    name, content = FILES[task]
    (directory / name).write_text(content(), encoding="utf-8")
    model, tokenizer = load_backbone(
        "fresh", vocab_texts=[bioes(), questions(), pairs()] * 3, head=HEADS[task],
        num_hidden_layers=1, hidden_size=48, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=64, suggested_learning_rate=3e-3,
    )  # fmt: skip
    start = save_model(model, tokenizer, directory / "start")
    arguments = ["train", "--task", task, "--train_file", str(directory / name), *OPTIONS[task]]
    arguments += ["--dev_file", str(directory / name), "--output_dir", str(directory / "out")]
    arguments += ["--model_name_or_path", str(start), "--batch_size", "4", "--epochs", "6"]
    assert cli.main([*arguments, "--device", "cpu"]) == 0
    return task, directory / name, directory / "out"


def printed(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_task_is_trained_measured_and_used(training, capsys):
    task, file, out = training
    measure = TASKS[task].measures[0]
    figures = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert figures["task"] == task and figures[f"dev_{measure}"] > 0.8
    tested = ["--model_dir", str(out), "--test_file", str(file), *OPTIONS[task]]
    assert cli.main(["evaluate", *tested]) == 0
    (scores,) = printed(capsys)
    assert scores["task"] == task
    assert scores[f"test_{measure}"] == pytest.approx(figures[f"dev_{measure}"])
    (answer,) = predicted(out, task, capsys)
    if task == "tokens":
        assert answer["entities"] == [
            {"type": "PER", "start": 0, "end": 2, "text": "王明"},
            {"type": "LOC", "start": 3, "end": 5, "text": "上海"},
        ]
    elif task == "qa":
        assert (answer["answer"], answer["start"], answer["end"]) == ("北京", 3, 5)
    else:
        assert answer["label"] == "不同" and set(answer["probabilities"]) == {"不同", "相同"}


def test_a_task_is_exported_compressed_and_served(training, tmp_path, capsys):
    task, file, out = training
    measure = f"test_{TASKS[task].measures[0]}"
    small, whole = tmp_path / "small", tmp_path / "whole"
    assert cli.main(["export", "--model_dir", str(out), "--output_dir", str(whole)]) == 0
    files = ["--train_file", str(file), "--dev_file", str(file), "--test_file", str(file)]
    options = ["--algo_list", "abs_max", "--batch_size_list", "4", "--batch_num_list", "2"]
    options += ["--strategy", "dynabert+ptq", "--width_mult_list", "1/2", "--max_steps", "20"]
    options += ["--device", "cpu", "--disable_tqdm", "True", "--output_dir", str(small)]
    arguments = ["compress", "--model_name_or_path", str(out), *files, *options, *OPTIONS[task]]
    capsys.readouterr()
    assert cli.main(arguments) == 0
    rows = printed(capsys)
    assert len(rows) == 3 and all(row[measure] == pytest.approx(row["score"]) for row in rows)
    for row in rows:
        tested = ["--model_dir", row["path"], "--test_file", str(file), *OPTIONS[task]]
        assert cli.main(["evaluate", *tested]) == 0
        assert printed(capsys)[0][measure] == row[measure]
    (expected,) = predicted(out, task, capsys)
    (static,) = predicted(whole, task, capsys)
    assert static.keys() == expected.keys()
    example = {field: expected.get(field, "张三在北京。") for field in TASKS[task].fields}
    several = {"texts": [example["text"]] * 2} if task == "tokens" else {"examples": [example] * 2}
    with TestClient(make_app(Predictor(whole)), base_url="http://localhost") as client:
        assert client.post("/predict", json=example).json() == static
        results = client.post("/predict", json=several).json()["results"]
        assert [result.keys() for result in results] == [static.keys()] * 2
        wrong = client.post("/predict", json={"txt": "好"})
        assert wrong.status_code == 422 and f'"{next(iter(several))}"' in wrong.json()["error"]


def test_another_task_or_option_is_refused(training, tmp_path, capsys):
    task, file, out = training
    assert cli.main(["predict", "--model_dir", str(out), "--task", "text"]) == 2
    assert f"--task: is text; expected {task}" in capsys.readouterr().err
    option = ["--columns", "a,b"] if task != "pair" else ["--policy", "repair"]
    tested = ["evaluate", "--model_dir", str(out), "--test_file", str(file)]
    assert cli.main([*tested, *option]) == 2
    assert f"error: {option[0]}: has no meaning for" in capsys.readouterr().err


def test_entities_of_texts_have_no_white_space_at_their_ends():
    text, names = "  王 明\u3000去北京\u200b", ["O", "B-PER", "I-PER"]
    outputs = [[np.eye(3)[[0, 1, 1, 2, 2, 2, 2, 0, 1, 2, 1, 0]]]] * 2
    features = [{"input_ids": range(12), "example": number} for number in (0, 1)]
    examples = [{"text": text}, {"text": text, "labels": [0] * 10}]
    found = TASKS["tokens"]._answers(outputs, features, examples, names, None)
    spans = [[(one["start"], one["end"]) for one in answer["entities"]] for answer in found]
    assert spans == [[(2, 5), (7, 9)], [(0, 1), (1, 6), (7, 9), (9, 10)]]


def predicted(model, task: str, capsys) -> list[dict]:
    name, content = INPUTS[task]
    file = Path(model).parent / name
    file.write_text(content, encoding="utf-8")
    words = ["predict", "--model_dir", str(model), "--input_file", str(file), *OPTIONS[task]]
    assert cli.main(words) == 0
    return printed(capsys)
