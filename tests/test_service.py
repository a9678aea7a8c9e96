"""The HTTP service: batches, limits, refusals, a graceful stop, and its page."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import shutil
import signal
import socket
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import course_lib  # noqa: F401
from course_lib.chapters.ch11 import running
from course_lib.cli import commands as cli
from course_lib.deploy import Predictor, export_model
from course_lib.deploy.batcher import Batcher, Limits, Refused
from course_lib.deploy.service import PAGE, listen, make_app
from course_lib.notebook import visual_logs
from course_lib.runtime import InputError

import numpy as np
import pytest
import tiny
from fastapi.testclient import TestClient

TEXTS = ["房间很干净，服务很好", "太差了", "书很好看", "电脑坏了，客服不理人，再也不来了"]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    model, tokenizer = tiny.classifier(TEXTS, ["坏 <b>&", "好"])
    model.classifier.weight.set_value(model.classifier.weight * 30)
    return export_model(model, tmp_path_factory.mktemp("model"), tokenizer, 64).parent


@pytest.fixture(scope="module")
def predictor(exported):
    return Predictor(exported, threads=1)


@pytest.fixture(scope="module")
def client(predictor):
    limits = Limits(max_texts=5, max_characters=100, max_body=4000, queue=8)
    with local(make_app(predictor, limits)) as client:
        yield client


def local(app) -> TestClient:
    return TestClient(app, base_url="http://localhost", raise_server_exceptions=False)


def same(answer: dict, expected: dict) -> bool:
    both = [list(row["probabilities"].values()) for row in (answer, expected)]
    return answer["label"] == expected["label"] and np.allclose(*both, atol=1e-4)


# what is answered


def test_one_text_and_many_are_answered_as_by_the_predictor(client, predictor):
    expected = predictor.classify(TEXTS)
    one = client.post("/predict", json={"text": TEXTS[0]})
    assert one.status_code == 200 and same(one.json(), expected[0])
    many = client.post("/predict", json={"texts": TEXTS}).json()
    assert list(many) == ["results"]
    assert all(map(same, many["results"], expected))
    kept = client.post("/predict", content='{"text": "a\\tb\\r\\n"}', headers=JSON)
    assert kept.status_code == 200


def test_health_counts(client):
    before = client.get("/health").json()
    client.post("/predict", json={"texts": TEXTS[:3]})
    after = client.get("/health").json()
    assert after["status"] == "ok" and after["labels"] == ["坏 <b>&", "好"]
    assert (after["backend"], after["int8"], after["problem"]) == ("paddle", False, "single_label")
    for key, more in (("accepted", 3), ("answered", 3), ("batches", 1)):
        assert after[key] - before[key] == more
    assert after["busy"] == 0
    head = client.head("/health")
    assert head.status_code == 200 and not head.content


# what is refused

WRONG = [
    (400, b""),
    (400, b"nonsense"),
    (400, b"\xff\xfe{}"),
    (400, '{"text": "好"}'.encode("gb18030")),
    (400, b'{"text": "a\x00b"}'),  # a raw control character is not JSON
    (400, b"[" * 3900),
    (400, b'{"text":' * 400 + b"1" + b"}" * 400),
    (422, b'{"text": ' + b"9" * 3900 + b"}"),
    (422, b"{}"),
    (422, b'{"text": "\\u200b"}'),
    (422, b'{"text": 5}'),
    (422, b'{"text": " \\n\\u3000"}'),
    (422, b'{"text": "a", "texts": ["a"]}'),
    (422, b'{"texts": []}'),
    (422, b'{"texts": ["a", 1]}'),
    (422, b'{"texts": ["1", "2", "3", "4", "5", "6"]}'),
    (422, b'{"text": "' + b"a" * 101 + b'"}'),
    (422, b'{"text": "a\\u0000b"}'),
    (422, b'{"text": "\\ud800"}'),
    (413, b'{"text": "' + b"a" * 5000 + b'"}'),
    (413, b" " * 100_000),
]


@pytest.mark.parametrize(("status", "body"), WRONG, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("chunked", [False, True], ids=["", "chunked"])
def test_what_does_not_fit_is_refused_in_words(client, status, body, chunked):
    pieces = (body[start : start + 999] for start in range(0, len(body), 999))
    got = client.post("/predict", content=pieces if chunked else body, headers=JSON)
    deep = body.startswith((b"[[", b'{"text":{')) and status == 400
    assert got.status_code == status or (deep and got.status_code == 422)
    assert list(got.json()) == ["error"] and len(got.json()["error"]) > 10
    assert client.post("/predict", json={"text": "书"}).status_code == 200


def test_other_refusals(client):
    for kind in ("text/plain", "application/x-www-form-urlencoded", None):
        got = client.post(
            "/predict", content=b'{"text": "a"}', headers={"Content-Type": kind or ""}
        )
        assert got.status_code == 415 and "application/json" in got.json()["error"]
    assert client.get("/predict").status_code == 405
    assert client.get("/docs").status_code == 404
    assert client.get("/nothing").json() == {"error": "Not Found"}


@pytest.mark.parametrize(
    ("host", "served"),
    [
        *[
            (name, True)
            for name in ("localhost:80", "LOCALHOST.", "10.0.0.7", "[::1]:80", "my.name")
        ],
        *[(name, False) for name in ("evil.example", "evil.example:80", "localhost.evil", "::x")],
    ],
)
def test_only_its_own_names_are_served(predictor, host, served):
    with TestClient(make_app(predictor, allow_hosts=["My.Name:8000"])) as client:
        got = client.get("/health", headers={"Host": host})
    assert got.status_code == (200 if served else 421)
    assert served or ("--allow_host" in got.json()["error"] and host in got.json()["error"])


def test_a_failure_of_the_model_is_500_for_its_request_alone(predictor, monkeypatch):
    real = predictor.classify

    def breaks(texts, *rest):
        if "坏" in texts:
            raise RuntimeError("secret")
        return real(texts, *rest)

    limits = Limits(max_wait_ms=300, max_batch=3)
    with local(make_app(predictor, limits)) as client:
        monkeypatch.setattr(predictor, "classify", breaks)
        with ThreadPoolExecutor(3) as pool:
            sent = [{"text": text} for text in ("书", "坏", "太差了")]
            got = list(pool.map(lambda body: client.post("/predict", json=body), sent))
        assert [response.status_code for response in got] == [200, 500, 200]
        assert "secret" not in got[1].text and got[1].json()["error"]
        assert client.get("/health").json()["batches"] == 1


def test_models_that_cannot_be_served_are_refused_before(predictor, tmp_path, capsys):
    shutil.copytree(predictor.path.parent, tmp_path / "bare")
    (tmp_path / "bare" / "tokenizer_config.json").unlink()
    with pytest.raises(InputError, match="has no tokenizer"):
        make_app(Predictor(tmp_path / "bare"))
    for words, message in (
        ([str(tmp_path / "none")], "holds no model; expected what"),
        ([str(predictor.path), "--queue", "3"], "queue: is 3; expected at least max_texts, 64"),
        ([str(predictor.path), "--backend", "onnx"], "expected what deploy.onnx.convert wrote"),
    ):
        assert cli.main(["serve", *words, "--port", "0"]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli.main(["serve", str(predictor.path), "--port", "70000"])
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(InputError, match="cannot be used"):
            listen("127.0.0.1", taken.getsockname()[1])
    for host in ("x" * 300, "a..b"):
        with pytest.raises(InputError, match="cannot be used"):
            listen(host, 0)


# batches


class Slow:
    """A predictor that notes its batches, and takes as long as it is told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.go = threading.Event()

    def classify(self, texts, batch_size=32):
        self.batches.append(list(texts))
        assert self.go.wait(600)
        return [{"labels": [text], "probabilities": {}} for text in texts]


def in_a_loop(limits: Limits, work) -> Slow:
    """Run `work(batcher, slow)` with a Batcher that is started and, in the end, stopped."""
    slow = Slow()

    async def main():
        batcher = Batcher(slow, limits)
        batcher.start()
        try:
            await asyncio.wait_for(work(batcher, slow), 600)
        finally:
            slow.go.set()
            await asyncio.to_thread(batcher.stop)
        assert batcher.accepted == batcher.answered and batcher.busy == 0

    asyncio.run(main())
    return slow


async def until(condition) -> None:
    while not condition():  # `in_a_loop` ends what never comes to that
        await asyncio.sleep(0.005)


def test_a_batch_gathers_while_the_model_works():
    async def work(batcher, slow):
        first = asyncio.create_task(batcher.classify(["0"]))
        await until(lambda: slow.batches)
        rest = [asyncio.create_task(batcher.classify([str(n)])) for n in range(1, 8)]
        many = asyncio.create_task(batcher.classify(["a", "b", "c"]))
        await until(lambda: batcher.busy == 11)
        slow.go.set()
        answers = await asyncio.gather(first, *rest, many)
        assert [row["labels"] for rows in answers for row in rows] == [[x] for x in "01234567abc"]

    slow = in_a_loop(Limits(max_batch=4, max_wait_ms=0), work)
    assert slow.batches == [["0"], ["1", "2", "3", "4"], ["5", "6", "7"], ["a", "b", "c"]]


def test_a_batch_is_the_oldest_text_and_those_of_its_length():
    async def work(batcher, slow):
        texts = ["first", "aaaa", "b", "cccc", "d", "eeeee", "f"]
        tasks = [asyncio.create_task(batcher.classify(texts[:1]))]
        await until(lambda: slow.batches)
        tasks += [asyncio.create_task(batcher.classify([text])) for text in texts[1:]]
        await until(lambda: batcher.busy == len(texts))
        slow.go.set()
        answers = await asyncio.gather(*tasks)
        assert [rows[0]["labels"] for rows in answers] == [[text] for text in texts]

    slow = in_a_loop(Limits(max_batch=3, max_wait_ms=0), work)
    assert slow.batches == [["first"], ["aaaa", "cccc", "eeeee"], ["b", "d", "f"]]


def test_a_request_larger_than_a_batch_goes_alone_and_one_turns_batching_off():
    async def work(batcher, slow):
        slow.go.set()
        tasks = [asyncio.create_task(batcher.classify(x)) for x in (["a", "b", "c"], ["d"], ["e"])]
        await asyncio.gather(*tasks)

    slow = in_a_loop(Limits(max_batch=1), work)
    assert slow.batches == [["a", "b", "c"], ["d"], ["e"]]


def test_an_incomplete_batch_waits_but_not_for_ever():
    async def work(batcher, slow):
        slow.go.set()
        one = asyncio.create_task(batcher.classify(["a"]))
        await asyncio.sleep(0.05)
        two = asyncio.create_task(batcher.classify(["b"]))
        await asyncio.gather(one, two)

    assert in_a_loop(Limits(max_batch=9, max_wait_ms=2000), work).batches == [["a", "b"]]


def test_a_full_queue_refuses_and_a_stopping_one_answers_what_it_has():
    async def work(batcher, slow):
        tasks = [asyncio.create_task(batcher.classify([str(n)])) for n in range(4)]
        await until(lambda: batcher.busy == 4)
        with pytest.raises(Refused, match="too many texts are waiting"):
            await batcher.classify(["x"])
        batcher.stopping = True
        with pytest.raises(Refused, match="stopping"):
            await batcher.classify(["x"])
        slow.go.set()
        await asyncio.gather(*tasks)

    slow = in_a_loop(Limits(max_batch=1, max_texts=4, queue=4), work)
    assert slow.batches == [["0"], ["1"], ["2"], ["3"]]


def test_a_full_queue_is_status_503_with_a_time_to_retry(predictor, monkeypatch):
    slow, limits = Slow(), Limits(max_texts=2, queue=2)
    app = make_app(predictor, limits)
    monkeypatch.setattr(app.state.batcher, "predictor", slow)
    with local(app) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.post, "/predict", json={"texts": ["a", "b"]})
        while not slow.batches and not waiting.done():
            time.sleep(0.005)
        full = client.post("/predict", json={"text": "c"})
        slow.go.set()
        assert full.status_code == 503 and full.headers["Retry-After"] == "1"
        assert "waiting" in full.json()["error"]
        assert waiting.result().status_code == 200
        assert client.post("/predict", json={"text": "c"}).status_code == 200


# the process


def test_a_terminated_service_answers_what_it_has_accepted(exported, predictor):
    """Clients send as fast as they can; the signal comes in the middle."""
    expected = predictor.classify(TEXTS)
    answered, refused = [], []
    with running(exported, "--max_wait_ms", "20") as (url, process):
        host = urllib.parse.urlsplit(url).netloc
        assert host.startswith("127.0.0.1:")

        def work(number: int) -> None:
            connection = http.client.HTTPConnection(host, timeout=600)
            try:
                for turn in range(10_000):
                    which = (number + turn) % len(TEXTS)
                    body = json.dumps({"text": TEXTS[which]})
                    connection.request("POST", "/predict", body, JSON)
                    response = connection.getresponse()
                    content = json.loads(response.read())  # whole, or it raises
                    if response.status != 200:
                        return refused.append(response.status)
                    assert same(content, expected[which])
                    answered.append(number)
            except (ConnectionError, http.client.BadStatusLine):  # closed before it was accepted
                refused.append(0)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        while len(answered) < 50:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(600)
        assert process.wait(600) == 0
        told = json.loads(process.stdout.readline())
    assert len(refused) == 8 and set(refused) <= {0, 503}
    assert told["accepted"] == told["answered"] == len(answered)
    with socket.socket() as probe:
        address = urllib.parse.urlsplit(url)
        assert probe.connect_ex((address.hostname, address.port)) != 0


def exchange(address: tuple[str, int], *parts: bytes) -> bytes:
    """All that the service sends for these bytes until it closes the connection."""
    with socket.create_connection(address, timeout=30) as connection:
        answer = b""
        for part in parts:
            connection.sendall(part)
        while got := connection.recv(65536):
            answer += got
        return answer


POST = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_a_limit_above_what_is_dropped_is_a_limit(predictor, monkeypatch):
    monkeypatch.setattr("course_lib.deploy.service.MAX_DROPPED", 100)
    with local(make_app(predictor, Limits(max_body=1000, max_characters=900))) as client:
        assert client.post("/predict", json={"text": "书" * 50}).status_code == 200
        assert client.post("/predict", json={"text": "a" * 1001}).status_code == 413


def test_who_sends_far_too_much_still_gets_the_answer(exported):
    body = b" " * 20_000_000
    size = f"Content-Length: {len(body)}\r\n\r\n".encode()
    chunks = [b"100000\r\n" + b" " * 2**20 + b"\r\n"] * 20
    ways = ([size, body], [b"Transfer-Encoding: chunked\r\n\r\n", *chunks, b"0\r\n\r\n"])
    with running(exported) as (url, _):
        address = urllib.parse.urlsplit(url)
        for parts in ways:
            got = exchange((address.hostname, address.port), POST, *parts)
            assert b" 413 " in got and b"the body has more than" in got


# the page


def test_the_page_needs_nothing_from_elsewhere(client):
    got = client.get("/")
    assert got.text == PAGE.read_text(encoding="utf-8")
    assert "frame-ancestors 'none'" in got.headers["Content-Security-Policy"]
    assert "default-src 'none'" in got.headers["Content-Security-Policy"]
    assert not re.search(r"https?:|src=|@import|url\(", got.text)
    assert "innerHTML" not in got.text


@pytest.mark.browser
def test_the_page_shows_labels_and_bars_in_a_browser(exported, predictor):
    (expected,) = predictor.classify(TEXTS[3:])
    with running(exported) as (url, _):
        pages = (f"{url}/?text={urllib.parse.quote(text)}" for text in (TEXTS[3], "\1"))
        shown, refused = (visual_logs._browse(page, "--dump-dom") for page in pages)
    if shown is None or refused is None:
        pytest.skip("no browser shows it here")
    for label, share in expected["probabilities"].items():
        escaped = label.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        assert f">{escaped}</span>" in shown, "a label is text, never HTML"
        assert f">{share:.3f}<" in shown
        assert f"width: {100 * share:.2f}"[:9] in shown
    assert shown.count('class="row given"') == 1
    assert "2 labels; Paddle Inference, FP32." in shown
    assert "holds a control character, U+0001" in refused
