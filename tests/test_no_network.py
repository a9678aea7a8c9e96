"""Nothing in the course connects beyond this machine, and the guard that says so works."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from processes import python

OFFLINE = Path(__file__).parent / "offline"

# What a learner's first session does, without the training: import everything, build a tokenizer
# and a model, encode, run, save, load, and open a Taskflow (which reports its use to a server).
FLOW = """
import sys, course_lib
from pathlib import Path
from course_lib.runtime import seed_everything, select_device
import paddle, paddlenlp, paddleslim, visualdl
from paddlenlp.transformers import ErnieConfig, ErnieForSequenceClassification, ErnieTokenizer
here = Path(sys.argv[1])
vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "很", "好"]
(here / "vocab.txt").write_text("\\n".join(vocabulary))
select_device(); seed_everything()
tokenizer = ErnieTokenizer(vocab_file=str(here / "vocab.txt"))
model = ErnieForSequenceClassification(ErnieConfig(
    vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=8, num_labels=2))
model.save_pretrained(str(here / "model")); tokenizer.save_pretrained(str(here / "model"))
model = ErnieForSequenceClassification.from_pretrained(str(here / "model"))
model.eval()
ids = paddle.to_tensor([tokenizer("很好")["input_ids"]])
print(model(ids).shape)
words = paddlenlp.Taskflow("word_segmentation", mode="fast")("房间很大")
print(words)
"""


def run(code: str, log: Path, *args):
    return python("-c", code, *args, env={**os.environ, "COURSE_NETWORK_LOG": str(log)})


def records(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket().connect_ex(('192.0.2.1', 80))",
        "import socket; socket.getaddrinfo('192.0.2.1.example.org', 80)",
        "import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 9))",
        "import requests; requests.get('http://192.0.2.1/')",
        "import asyncio; asyncio.run(asyncio.open_connection('192.0.2.1', 80))",
    ],
)
def test_a_connection_is_refused_and_recorded_in_a_subprocess(code, tmp_path):
    done = run(code, tmp_path / "log")
    assert done.returncode != 0
    assert "the tests run offline" in done.stderr
    assert any("192.0.2.1" in record["target"] for record in records(tmp_path / "log"))


def test_a_connection_is_refused_in_this_process(tmp_path, monkeypatch):
    import socket

    monkeypatch.setenv("COURSE_NETWORK_LOG", str(tmp_path / "log"))
    with pytest.raises(ConnectionRefusedError, match="the tests run offline"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    assert "192.0.2.1" in records(tmp_path / "log")[0]["target"]


def test_loopback_and_unix_sockets_are_allowed(tmp_path):
    code = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
socket.getaddrinfo("localhost", 80)
unix = socket.socket(socket.AF_UNIX); unix.bind(sys.argv[1]); unix.listen()
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""
    done = run(code, tmp_path / "log", tmp_path / "s")
    assert done.returncode == 0, done.stderr
    assert not records(tmp_path / "log")


def test_a_session_of_the_course_connects_to_nothing(tmp_path):
    done = run(FLOW, tmp_path / "log", tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "[1, 2]" in done.stdout and "房间" in done.stdout
    assert records(tmp_path / "log") == []


@pytest.mark.upstream
def test_paddlenlp_would_report_its_use_without_course_lib(tmp_path):
    """The reason for runtime.imports; when this fails, upstream has stopped and so may we."""
    code = """
import zlib; zlib.compress(b"")
import paddlenlp
paddlenlp.Taskflow("word_segmentation", mode="fast")
"""
    run(code, tmp_path / "log")
    assert any("paddlepaddle.org" in record["target"] for record in records(tmp_path / "log"))
