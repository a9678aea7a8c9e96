"""The command line on a user's own files: what works, and what is refused in one line."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from course_lib.cli import commands as cli
from course_lib.deploy import Predictor
from course_lib.models import load_backbone, save_model
from course_lib.runtime import InputError, seed_everything
from course_lib.runtime.outputs import MARKER, OutputDir
from course_lib.training import predict

import pytest
from processes import python, run

GOOD = ["房间很干净", "早餐丰富，服务好", "屏幕清晰", "故事感人"]
BAD = ["房间太小", "早餐很差，服务慢", "屏幕有坏点", "故事老套"]
ROWS = [(text, "好") for text in GOOD] + [(text, "差") for text in BAD]


def write_tsv(path: Path, rows, header: str | None = "text\tlabel") -> Path:
    lines = ([] if header is None else [header]) + ["\t".join(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """A model of a few thousand weights, to start every training from."""
    seed_everything(1)
    sizes = {"num_hidden_layers": 1, "hidden_size": 24, "num_attention_heads": 2}
    model, tokenizer = load_backbone(
        "fresh",
        vocab_texts=GOOD * 3 + BAD * 3,
        label_list=sorted(["好", "差"]),
        intermediate_size=48,
        max_position_embeddings=64,
        suggested_learning_rate=1e-3,
        **sizes,
    )
    return save_model(model, tokenizer, tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    return {
        "train": write_tsv(tmp_path / "train.tsv", ROWS * 4),
        "dev": write_tsv(tmp_path / "dev.tsv", ROWS),
        "out": tmp_path / "out",
    }


def train_arguments(files, tiny, *more: str) -> list[str]:
    return [
        "train",
        *("--train_file", str(files["train"]), "--dev_file", str(files["dev"])),
        *("--output_dir", str(files["out"]), "--model_name_or_path", str(tiny)),
        *("--batch_size", "4", "--epochs", "2", "--device", "cpu", "--max_seq_length", "32"),
        *more,
    ]


def last_json(text: str) -> dict:
    return json.loads(text.strip().splitlines()[-1])


def refused(capsys, arguments: list[str]) -> str:
    """Run a command that has to be refused; return its one line."""
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "Traceback" not in err, err
    assert "expected" in errors[0]
    return errors[0]


def test_train_evaluate_predict(files, tiny, capsys, monkeypatch):
    arguments = train_arguments(files, tiny, "--test_file", str(files["dev"]))
    assert cli.main(arguments) == 0
    out, err = capsys.readouterr()
    figures = last_json(out)
    assert figures["train_examples"] == 32
    baseline = figures["baseline"]
    assert (
        baseline["split"] == "test"
        and "on test: a linear baseline on TF-IDF has accuracy 1.000" in err
    )
    assert baseline["difference"] == pytest.approx(figures["test_accuracy"] - 1)
    assert 0 <= figures["dev_accuracy"] <= 1 and figures["test_accuracy"] == figures["dev_accuracy"]
    written = {path.name for path in files["out"].iterdir()}
    assert written == {"checkpoints", "logs", "metrics.json", "model", "run.json", ".lock"}

    model_dir = str(files["out"] / "model")
    assert cli.main(["evaluate", "--model_dir", model_dir, "--test_file", str(files["dev"])]) == 0
    scores = last_json(capsys.readouterr().out)
    assert scores["labels"] == sorted(["好", "差"])
    assert scores["test_accuracy"] == figures["dev_accuracy"]
    assert sum(cell["count"] for cell in scores["confusion"]) == len(ROWS)
    hits = [one["count"] for one in scores["confusion"] if one["label"] == one["predicted"]]
    assert sum(hits) / len(ROWS) == scores["test_accuracy"]
    assert "baseline" not in scores
    mistakes = files["out"].parent / "mistakes.jsonl"
    wrong = write_tsv(mistakes.with_name("wrong.tsv"), [(GOOD[0], "差"), *ROWS])
    words = ["evaluate", "--model_dir", model_dir, "--test_file", str(wrong)]
    words += ["--train_file", str(files["train"]), "--mistakes_file", str(mistakes)]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["precision", "recall", "f1", "support"] and len(lines) > 6
    assert cli.main([*words, "--json"]) == 0
    scores = last_json(capsys.readouterr().out)
    told = [json.loads(line) for line in mistakes.read_text(encoding="utf-8").splitlines()]
    assert len(told) == sum(c["count"] for c in scores["confusion"] if c["label"] != c["predicted"])
    assert GOOD[0] in {row["text"] for row in told} and told[0]["label"] != told[0]["predicted"]
    assert [row["probability"] for row in told] == sorted(r["probability"] for r in told)[::-1]
    assert scores["baseline"] == {**scores["baseline"], "accuracy": round(8 / 9, 4)}
    assert f"accuracy {scores['test_accuracy']:.3f}, macro F1 {scores['macro_f1']:.3f}" in lines
    assert "is read by this command" in refused(capsys, [*words[:-1], str(wrong)])

    output = files["out"].parent / "predictions.jsonl"
    arguments = ["predict", "--model_dir", model_dir, "--input_file", str(files["dev"])]
    assert cli.main([*arguments, "--output_file", str(output)]) == 0
    results = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [result["text"] for result in results] == [text for text, _ in ROWS]
    right = sum(r["label"] == label for r, (_, label) in zip(results, ROWS, strict=True))
    assert right / len(ROWS) == figures["dev_accuracy"]
    assert all(r["probability"] == max(r["probabilities"].values()) for r in results)


def test_a_sorted_csv_with_other_columns_needs_no_dev_file(files, tiny, tmp_path, capsys):
    rows = [f"{int(label == '好')},{text}{n}" for text, label in ROWS for n in "甲乙丙丁戊"]
    path = tmp_path / "reviews.csv"
    path.write_text("\n".join(["label,review", *rows, "1,"]), encoding="utf-8")
    (tmp_path / "names.txt").write_text("差\n好\n", encoding="utf-8")
    layout = ["--text_column", "review", "--label_names", str(tmp_path / "names.txt")]
    arguments = train_arguments(files | {"train": path}, tiny, *layout)
    arguments = [word for word in arguments if word not in ("--dev_file", str(files["dev"]))]
    assert "reviews.csv, line 42: empty text in 'review'" in refused(capsys, arguments)
    assert not files["out"].exists()
    assert "--dev_share: is given beside" in refused(
        capsys, train_arguments(files, tiny, "--dev_share", "0.2")
    )
    assert cli.main([*arguments, "--skip_empty", "--dev_share", "0.25"]) == 0
    out, err = capsys.readouterr()
    assert "warning: " in err and "are left out: 1 (lines 42)" in err
    assert "10 of 40 examples are held out as dev (--dev_share 0.25" in err
    assert last_json(out)["train_examples"] == 30
    model = ["--model_dir", str(files["out"] / "model")]
    tested = ["evaluate", *model, "--test_file", str(path), *layout, "--skip_empty"]
    assert cli.main(tested) == 0
    assert last_json(capsys.readouterr().out)["labels"] == ["差", "好"]
    assert "'label', 'review'" in refused(capsys, ["predict", *model, "--input_file", str(path)])


def test_thousands_of_classes_fit_on_a_line(files, tmp_path, capsys):
    names = [f"类{number}" for number in range(3000)]
    model, tokenizer = load_backbone(
        "fresh", vocab_texts=GOOD * 3, label_list=names, num_hidden_layers=1, hidden_size=8,
        num_attention_heads=1, intermediate_size=8, max_position_embeddings=64,
    )  # fmt: skip
    where = ["--model_dir", str(save_model(model, tokenizer, tmp_path / "model"))]
    tested = write_tsv(tmp_path / "test.tsv", [(text, "类2999") for text in GOOD])
    assert cli.main(["evaluate", *where, "--test_file", str(tested)]) == 0
    assert len(last_json(capsys.readouterr().out)["confusion"]) <= len(GOOD)
    assert cli.main(["predict", *where, "--input_file", str(tested)]) == 0
    for line in capsys.readouterr().out.splitlines():
        result = json.loads(line)
        assert len(line) < 5000 and len(result["probabilities"]) == cli.MOST_CLASSES
        assert next(iter(result["probabilities"])) == result["label"]


def test_a_trained_model_is_exported_and_answers_alike(tiny, tmp_path, capsys, monkeypatch):
    target = tmp_path / "exported"
    arguments = ["export", "--model_dir", str(tiny), "--output_dir", str(target)]
    message = refused(capsys, ["serve", str(tiny), "--port", "0"])
    assert "not exported" in message and "what `export` of course_lib" in message
    assert cli.main([*arguments, "--onnx"]) == 0
    told = last_json(capsys.readouterr().out)
    assert {"model.pdmodel", "model.pdiparams", "model.onnx", "deploy.json"} <= set(told["files"])
    texts = ["房间很干净", "屏幕有坏点"]
    model, tokenizer = load_backbone(tiny, trained=True)
    expected = [row["probabilities"] for row in predict(model, texts, tokenizer)]
    for backend in ("paddle", "onnx"):
        rows = Predictor(target, backend).classify(texts)
        for row, wanted in zip(rows, expected, strict=True):
            assert row["probabilities"] == pytest.approx(wanted, abs=1e-5)
    assert "holds a run of export" in refused(capsys, arguments)
    (tmp_path / "texts.txt").write_text("房间很干净\n", encoding="utf-8")
    here = ["predict", "--model_dir", ".", "--input_file", str(tmp_path / "texts.txt")]
    for place in (target, tiny):  # a path without a name
        monkeypatch.chdir(place)
        assert cli.main(here) == 0 and last_json(capsys.readouterr().out)["text"]
    monkeypatch.chdir(tmp_path)
    assert ".: holds no model" in refused(capsys, here)
    nothing = ["export", "--model_dir", str(tmp_path), "--output_dir", str(tmp_path / "x")]
    assert "holds no model" in refused(capsys, nothing)
    tuned = tmp_path / "tuned"
    shutil.copytree(tiny, tuned)
    (tuned / "thresholds.json").write_text("{}")
    other = ["export", "--model_dir", str(tuned), "--output_dir", str(tmp_path / "x")]
    assert "course_lib.hierarchical export" in refused(capsys, other)


def test_an_output_directory_that_cannot_be_written_is_refused_first(files, tiny, capsys):
    (files["out"].parent / "file").write_text("mine")
    files["out"] = files["out"].parent / "file" / "out"
    files["train"] = Path("is-not-even-read.tsv")
    assert "cannot be written" in refused(capsys, train_arguments(files, tiny))


@pytest.mark.parametrize("command", ["train", "resume", "quickstart"])
@pytest.mark.parametrize("name", ["thesis.txt", "model/precious", "logs/precious"])
def test_what_no_command_of_ours_wrote_is_left_alone(command, name, files, tiny, capsys):
    (files["out"] / name).parent.mkdir(parents=True)
    (files["out"] / name).write_text("mine")
    arguments = train_arguments(files, tiny, *(["--resume"] if command == "resume" else []))
    if command == "quickstart":
        arguments = ["quickstart", "--output_dir", str(files["out"])]
    assert "is not empty" in refused(capsys, arguments)
    left = [path for path in files["out"].rglob("*") if path.is_file()]
    assert left == [files["out"] / name] and left[0].read_text() == "mine"


def test_a_resume_that_does_not_fit_is_refused(files, tiny, capsys):
    arguments = train_arguments(files, tiny)
    assert "holds no training" in refused(capsys, [*arguments, "--resume"])
    assert cli.main(arguments) == 0
    assert "only 16 steps of training" in capsys.readouterr().err
    assert "seed" in refused(capsys, [*arguments, "--seed", "7", "--resume"])
    newest = sorted((files["out"] / "checkpoints").iterdir())[-1] / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    model = (files["out"] / "model" / "model.safetensors").read_bytes()
    message = refused(capsys, [*arguments, "--resume"])
    assert "model.safetensors" in message and "damaged" in message
    assert (files["out"] / "model" / "model.safetensors").read_bytes() == model


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--model_dir", "no/such/model", "holds no model"),
        ("--output_file", "ABOVE", "is a directory"),
        ("--output_file", "INPUT", "is read by this command"),
        ("--output_file", "LINK", "is read by this command"),
        ("--max_seq_length", "65", "from 3 to 64"),
        ("--device", "abacus", "abacus"),
    ],
)
def test_a_bad_option_of_predict_is_refused(option, value, words, tiny, tmp_path, capsys):
    texts = tmp_path / "texts.txt"
    texts.write_text("房间很干净\n", encoding="utf-8")
    (tmp_path / "link").symlink_to(texts)
    places = {"ABOVE": tiny.parent, "INPUT": texts, "LINK": tmp_path / "link"}
    arguments = {"--model_dir": str(tiny), "--input_file": str(texts)}
    arguments[option] = str(places.get(value, value))
    told = refused(capsys, ["predict", *[part for pair in arguments.items() for part in pair]])
    assert words.format(above=tiny.parent) in told
    assert texts.read_text(encoding="utf-8") == "房间很干净\n"


def test_quickstart_prints_one_json_line(tmp_path):
    environment = {**os.environ, "COURSE_PROFILE": "smoke", "COURSE_DEVICE": "cpu"}
    command = ["-m", "course_lib", "quickstart", "--output_dir", tmp_path / "q"]
    figures = []
    for _ in range(2):  # a second run replaces the first
        done = python(*command, env=environment)
        assert done.returncode == 0, done.stderr
        figures.append(json.loads(done.stdout))  # exactly one line, and nothing else
    for figure in figures:
        assert {"task", "train_examples", "dev_accuracy", "test_accuracy"} < set(figure)
        assert figure.pop("seconds") > 0
    assert figures[0] == figures[1]


EARLY = """
train --train_file {bad} --output_dir {new}
train --train_file {good} --output_dir {new} --device abacus
train --train_file {good} --output_dir {new} --model_name_or_path ./no/model
evaluate --model_dir {model} --test_file {bad}
predict --model_dir {model} --input_file {bad}
predict --model_dir {model} --input_file {good} --max_seq_length 65
export --model_dir {new} --output_dir {new}
compress --model_name_or_path {model} --train_file {bad} --output_dir {new}
compress --model_name_or_path {model} --train_file {good} --output_dir {model}
serve {model}
hierarchical train --dataset_dir {new}
hierarchical evaluate --dataset_dir {new}
hierarchical export --params_path {new}
hierarchical prune --dataset_dir {new} --output_dir {new}
"""
RUN_EARLY = """
import sys
from course_lib.cli import commands, hierarchical
for line in sys.argv[1].splitlines():
    words = line.split()
    group = hierarchical if words[0] == "hierarchical" else commands
    assert group.main(words[group is hierarchical :]) == 2, line
    assert "paddle" not in sys.modules and "sklearn" not in sys.modules, line
"""


def test_input_errors_do_not_wait_for_paddle(tiny, tmp_path):
    places = {"model": tiny, "new": tmp_path / "new"}
    places["good"] = write_tsv(tmp_path / "good.tsv", ROWS * 4)
    places["bad"] = write_tsv(tmp_path / "bad.tsv", ROWS, "label\treview")
    done = python("-c", RUN_EARLY, EARLY.format(**places).strip())
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == len(EARLY.split("\n")) - 2


def test_a_second_run_in_the_same_directory_is_refused(files, tiny, capsys):
    out = files["out"]
    late = OutputDir(out, "export")
    with OutputDir(out, "train").claim():
        for arguments in (
            train_arguments(files, tiny),
            train_arguments(files, tiny, "--resume"),
            ["export", "--model_dir", str(tiny), "--output_dir", str(out)],
            ["compress", "--model_name_or_path", str(tiny), "--output_dir", str(out)],
            ["quickstart", "--output_dir", str(out)],
        ):
            message = refused(capsys, arguments)
            assert f"{out}: is in use: another process is writing to it" in message
        with pytest.raises(InputError, match="in use"), late.claim():
            pass
        assert json.loads((out / MARKER).read_text()) == {"command": "train"}
        (out / "model.pdmodel").write_text("of the first")
    # passed the check before the other one claimed the directory, and got the lock after
    with pytest.raises(InputError, match="holds a run of train"), late.claim():
        pass


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_a_training_killed_before_its_first_checkpoint_starts_again(resume, files, tiny, capsys):
    with OutputDir(files["out"], "train").claim():
        for name in ("logs/vdlrecords.log", ".run.json.tmp-1234567890", ".model.tmp-1234567890/x"):
            (files["out"] / name).parent.mkdir(exist_ok=True)
            (files["out"] / name).write_text("left")
    assert cli.main(train_arguments(files, tiny, *resume)) == 0
    assert not list(files["out"].rglob("*tmp-*"))
    assert "left" not in {p.read_bytes()[:4].decode("latin1") for p in files["out"].glob("logs/*")}


def test_a_command_ends_quietly_when_it_is_told_to():
    for module in ("math", "paddle"):
        code = "import os, signal; from course_lib.runtime.commands import exit_status\n"
        code += f"def run():\n import {module}\n os.kill(os.getpid(), signal.SIGTERM)\n"
        code += " import time; time.sleep(60)\nraise SystemExit(exit_status(run))"
        done = python("-c", code)
        assert done.returncode == 143 and done.stderr == "", (module, done.stderr)


@pytest.mark.parametrize(
    ("redirection", "words"),
    [("<&-", "standard input: is closed"), (">&-", "standard output: is closed")],
)
def test_a_closed_stream_is_refused(redirection, words, tiny):
    command = f"{sys.executable} -m course_lib predict --model_dir {tiny} {redirection}"
    done = run("/bin/sh", "-c", command)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_a_bad_tuning_is_refused_by_the_command_line():
    done = python("-m", "course_lib", "doctor", env={**os.environ, "COURSE_TUNING": "magic"})
    assert done.returncode == 2 and done.stderr.startswith("error: COURSE_TUNING")
    assert len(done.stderr.splitlines()) == 1


def test_predictions_survive_a_terminal_without_chinese(tiny):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    settings = {"input": "房间很干净\n".encode(), "env": environment, "text": False}
    done = python("-m", "course_lib", "predict", "--model_dir", tiny, **settings)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode("ascii"))["text"] == "房间很干净"


def test_findings_survive_a_terminal_without_their_characters(tmp_path):
    (tmp_path / "label.txt").write_text("好😀,\n", encoding="utf-8")
    settings = {"env": {**os.environ, "PYTHONIOENCODING": "gbk"}, "text": False}
    done = python("-m", "course_lib.hierarchical", "check", tmp_path, **settings)
    assert done.returncode == 2 and rb"\U0001f600" in done.stdout, done.stderr


# ---- compress


@pytest.fixture(scope="module")
def trained(tiny, tmp_path_factory) -> Path:
    """A model that `train` wrote."""
    directory = tmp_path_factory.mktemp("trained")
    files = {"train": write_tsv(directory / "t.tsv", ROWS * 4)}
    files |= {"dev": write_tsv(directory / "d.tsv", ROWS), "out": directory / "out"}
    assert cli.main(train_arguments(files, tiny)) == 0
    return directory / "out" / "model"


def compress_arguments(files, trained, *more: str) -> list[str]:
    return [
        *("compress", "--model_name_or_path", str(trained), "--output_dir", str(files["out"])),
        *("--train_file", str(files["train"]), "--dev_file", str(files["dev"])),
        *("--device", "cpu", "--disable_tqdm", "True", "--num_train_epochs", "1"),
        *("--algo_list", "abs_max", "--batch_size_list", "4", "--batch_num_list", "2"),
        *more,
    ]


def test_compress(files, trained, capsys):
    strategy = ("--strategy", "dynabert+ptq+embeddings", "--width_mult_list", "1/2")
    assert cli.main(compress_arguments(files, trained, *strategy)) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == json.loads((files["out"] / "compression.json").read_text(encoding="utf-8"))
    whole, cut, int8, embeddings = rows
    assert set(whole) == {"path", "embeddings", "score", "megabytes"}
    assert cut["width"] == int8["width"] == 0.5 and int8["batch_size"] == 4
    assert embeddings["embeddings"] and embeddings["path"].endswith("quant_emb")
    for row in rows:
        assert Path(row["path"] + ".pdmodel").is_file() and 0 <= row["score"] <= 1
    assert "holds a run of compress" in refused(capsys, compress_arguments(files, trained))


def test_other_labels_get_a_new_head_which_is_said_in_one_line(files, trained, capsys):
    for names in (("差", "好", "一般"), ("1", "0")):
        renamed = dict(zip(("差", "好"), names, strict=False))
        rows = [(text, renamed[label]) for text, label in ROWS * 4]
        rows += [("一般的房间", names[-1])] * 2
        write_tsv(files["train"], rows)
        write_tsv(files["dev"], rows)
        files["out"] = files["out"].with_name(f"of {len(names)}")
        assert cli.main(train_arguments(files, trained)) == 0
        (said,) = [li for li in capsys.readouterr().err.splitlines() if "starts again" in li]
        assert said.startswith(f"warning: {trained} was trained for 好, 差, not for ")
    tested = ["--model_dir", str(files["out"] / "model"), "--test_file", str(files["dev"])]
    assert cli.main(["evaluate", *tested]) == 0


def test_compress_refuses(files, trained, capsys):
    words = ["compress", "--model_name_or_path", str(trained), "--output_dir", str(files["out"])]
    told = refused(capsys, words)
    assert "labels '好', '差', the course's reviews have others" in told
    with pytest.raises(SystemExit, match="2"):
        cli.main(compress_arguments(files, trained, "--unknown", "1"))
    assert "unrecognized arguments: --unknown 1" in capsys.readouterr().err
    error = refused(capsys, compress_arguments(files, trained, "--strategy", "ptqq"))
    assert "strategy: is 'ptqq'" in error
    for option, value in (("--seed", "-1"), ("--logging_steps", "0"), ("--warmup_ratio", "5")):
        error = refused(capsys, compress_arguments(files, trained, option, value))
        assert option.strip("-") in error
    files["dev"].write_text("text\tlabel\n房间\t一般\n", encoding="utf-8")
    assert "line 2" in refused(capsys, compress_arguments(files, trained))
    assert not files["out"].exists() or not list(files["out"].glob("*.pdmodel"))
