"""examples/serving: SimpleServer runs; of Paddle Serving's pipeline, the Python with a stand-in."""

import http.client
import io
import json
import shutil
import subprocess
import sys
import types
import urllib.parse
import urllib.request
from pathlib import Path

from course_lib.deploy import Predictor
from course_lib.runtime import machine

import numpy as np
import pytest
import yaml
from tiny import TEXTS, export, load_module

EXAMPLES = Path(__file__).parents[1] / "examples" / "serving"


@pytest.fixture(scope="module", params=["single_label", "multi_label"])
def exported(request, tmp_path_factory):
    return export(tmp_path_factory.mktemp("model"), request.param == "multi_label").parent


@pytest.fixture()
def service(exported, tmp_path, monkeypatch):
    """service.py, with what Paddle Serving's documentation says of Op and WebService."""
    module = types.ModuleType("paddle_serving_server.web_service")

    class Op:
        def __init__(self, name=None, input_ops=()):
            self.name, self.input_ops = name, input_ops

    class WebService:
        def __init__(self, name="default_service"):
            self.name = name

    module.Op, module.WebService = Op, WebService
    monkeypatch.setitem(sys.modules, "paddle_serving_server", types.ModuleType("package"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    directory = shutil.copytree(EXAMPLES / "paddle_serving", tmp_path / "serving")
    shutil.copytree(exported, directory / "export")
    return load_module(directory / "service.py")


def answer(service, run, request):
    """What the pipeline does with a request: preprocess, the model, postprocess."""
    op = service.ClassifierService("reviews").get_pipeline_response("read")
    config = yaml.safe_load((service.HERE / "config.yml").read_text("utf-8"))
    assert list(config["op"]) == [op.name] and op.input_ops == ["read"]
    assert f":{config['http_port']}/{op.name}/" in load_module(service.HERE / "client.py").URL
    op.init_op()
    feed, skip, code, message = op.preprocess({"@DAGExecutor": request}, 0, 0)
    if code is not None:
        assert skip
        return code, message
    names = config["op"][op.name]["local_service_conf"]["fetch_list"]
    result, code, message = op.postprocess(feed, dict(zip(names, run(feed), strict=True)), 0, 0)
    if code is not None:
        return code, message
    assert all(isinstance(value, str) for value in result.values())
    return result


def test_the_pipeline_and_its_client_answer_as_the_predictor_does(exported, service, monkeypatch):
    predictor = Predictor(exported)

    def urlopen(url, data, timeout):  # the gateway: keys and values, all strings
        body = json.loads(data)
        assert all(isinstance(value, str) for value in body["value"])
        request = dict(zip(body["key"], body["value"], strict=True))
        result = answer(service, predictor.run, request)
        reply = {"err_no": 0, "err_msg": "", "key": list(result), "value": list(result.values())}
        return io.BytesIO(json.dumps(reply).encode())

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    got = load_module(service.HERE / "client.py").ask(TEXTS)
    expected = predictor.classify(TEXTS)
    assert got["labels"] == [np.atleast_1d(one["label"]).tolist() for one in expected]
    for row, one in zip(got["probabilities"], expected, strict=True):
        assert row == pytest.approx(list(one["probabilities"].values()), abs=1e-5)


@pytest.mark.parametrize(
    "request_",
    [{}, {"texts": "好"}, {"texts": "[]"}, {"texts": '["好", "\\u200b"]'}, {"texts": "[1]"}],
)
def test_a_bad_request_is_answered_with_an_error(service, request_):
    code, message = answer(service, None, request_)
    assert code == 400 and message.startswith("texts: ")
    code, message = answer(service, lambda _: [np.array([[0.1, np.nan, 0]])], {"texts": '["好"]'})
    assert code == 500 and "not finite" in message


@pytest.mark.upstream
@pytest.mark.parametrize("exported", ["single_label"], indirect=True)
def test_simple_server_is_as_its_file_says(exported):
    command = [sys.executable, str(EXAMPLES / "simple_server.py"), str(exported)]
    env = machine.child_environment()
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True, "env": env}
    with subprocess.Popen(command, **quiet) as server:
        try:
            url = next(line for line in server.stdout if "serving at" in line).split()[-1]
            host = urllib.parse.urlsplit(url).netloc

            def status(data, parameters: dict | None = None, body: bytes | None = None):
                request = {"data": data, "parameters": parameters or {}}
                connection = http.client.HTTPConnection(host, timeout=600)
                headers = {"Content-Type": "application/json"}
                connection.request("POST", "/classify", body or json.dumps(request), headers)
                response = connection.getresponse()
                return response.status, response.read()

            both = {"max_seq_len": 128, "batch_size": 1}
            code, content = status({"text": TEXTS[:3]}, both)
            result = json.loads(content)["result"]
            expected = Predictor(exported, threads=1).predict(TEXTS[:3])
            assert code == 200 and result["label"] == expected.argmax(axis=1).tolist()
            assert result["confidence"] == pytest.approx(expected.max(axis=1).tolist(), abs=1e-4)
            assert status({"text": TEXTS[:3]}, {**both, "max_seq_len": 3})[1] == content, "not read"
            assert status({"text": TEXTS[:3]})[0] == 500, "upstream is fixed: say so"
            assert status({"text": 5}, both)[0] == 500
            assert status({"text": "\ud800"}, both)[0] == 200
            assert status(None, body=b"{")[0] == 422
        finally:
            server.terminate()
