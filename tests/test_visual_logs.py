"""VisualDL's logs read back, its page started, fetched and photographed."""

import http.server
import json
import os
import shutil
import socket
import threading
import urllib.parse
import urllib.request

from course_lib.notebook import visual_logs
from course_lib.notebook.visual_logs import read_scalars, screenshot, visualdl_page
from course_lib.runtime import InputError
from course_lib.training import trainer_history

import numpy as np
import pytest
from PIL import Image
from test_trainer import build


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short training with VisualDL's log, and the Trainer that wrote it."""
    directory = tmp_path_factory.mktemp("logged")
    trainer = build(
        directory,
        report_to=["visualdl"],
        logging_dir=str(directory / "runs"),
        evaluation_strategy="steps",
        eval_steps=4,
        eval_dataset=build(directory).train_dataset,
    )
    trainer.train()
    return directory / "runs", trainer


def test_scalars_are_those_of_the_trainer(run):
    directory, trainer = run
    table = read_scalars(directory)
    loss = table[table.tag == "train/loss"]
    np.testing.assert_allclose(loss.value, trainer_history(trainer.state)["loss"], rtol=1e-6)
    assert loss.step.tolist() == list(range(1, 9))
    assert table[table.tag == "eval/loss"].step.tolist() == [4, 8]
    assert set(table.run) == {"."}


def test_the_newest_file_of_every_directory_is_read(run, tmp_path):
    directory, _ = run
    (log,) = directory.iterdir()
    for name in ("a/vdlrecords.2.log", "b/vdlrecords.1.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(log, tmp_path / name)
    (tmp_path / "a/vdlrecords.1.log").write_bytes(log.read_bytes()[:-7])  # of a killed process
    one, all_ = read_scalars(directory), read_scalars(tmp_path)
    assert all_.run.value_counts().to_dict() == {"a": len(one), "b": len(one)}


def test_bad_logs_are_named(run, tmp_path):
    with pytest.raises(InputError, match="holds no VisualDL log"):
        read_scalars(tmp_path)
    with pytest.raises(InputError, match="does not exist"), visualdl_page(tmp_path / "none"):
        pass
    (log,) = run[0].iterdir()
    whole = log.read_bytes()
    for content in (whole[:-7], b"no log at all, but long enough"):
        (tmp_path / "vdlrecords.1.log").write_bytes(content)
        with pytest.raises(InputError, match=r"vdlrecords\.1\.log: is damaged or cut off"):
            read_scalars(tmp_path)


@pytest.mark.browser
def test_the_page_draws_the_same_and_is_gone_afterwards(run, tmp_path):
    directory, trainer = run
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with visualdl_page(directory.parent) as url:

        def api(method: str, **query: str):
            address = f"{url}/api/{method}?{urllib.parse.urlencode(query)}"
            return json.load(direct.open(address, timeout=600))["data"]

        (name,) = api("runs")
        points = api("scalar/list", run=name, tag="train/loss")
        drawn = {step: value for _, step, value in points}
        expected = trainer_history(trainer.state)["loss"]
        np.testing.assert_allclose([drawn[n + 1] for n in range(8)], expected, rtol=1e-6)
        picture = screenshot(f"{url}/scalar?lang=en", tmp_path / "page.png", (900, 600))
    port = urllib.parse.urlsplit(url).port
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    if picture is None:
        pytest.skip("no browser shows it here: the page was fetched, but not looked at")
    pixels = np.asarray(Image.open(picture).convert("RGB")).reshape(-1, 3)
    assert len(np.unique(pixels, axis=0)) > 50, "an empty page"
    blue = (pixels[:, 2] > 150) & (pixels[:, 0] < 80)
    assert 0.05 < blue.mean() < 0.4, "the bar at the top of VisualDL's page is blue"


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("printf half > page; exec sleep 600", "did not end within 0.5 s"),
        ("exit 3", "status 3"),
        ("exit 0", "no picture"),
    ],
)
def test_a_picture_that_cannot_be_taken_is_said_in_words(tmp_path, monkeypatch, does, words):
    program = tmp_path / "chromium"
    program.write_text(f"""#!/bin/sh
for option; do case $option in --screenshot=*) page=${{option#*=}}; esac; done
{does.replace("> page", '> "$page"')}
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(visual_logs, "_PATIENCE", 1.5)
    with pytest.warns(UserWarning, match=words):
        assert screenshot("http://127.0.0.1/", tmp_path / "page.png") is None
    assert [path.name for path in tmp_path.iterdir()] == ["chromium"]


@pytest.mark.browser
def test_the_browser_asks_nothing_but_this_machine(tmp_path):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = tmp_path / "page.html"
        hosts = {"here": "127.0.0.1", "named": "localhost"}  # names stand for what is elsewhere
        links = [f"<img src='http://{h}:{server.server_port}/{p}'>" for p, h in hosts.items()]
        page.write_text("<!doctype html>" + "".join(links))
        picture = screenshot(page.as_uri(), tmp_path / "page.png")
        server.shutdown()
    if picture is None:
        pytest.skip("no browser shows it here")
    assert set(asked) == {"/here"}
