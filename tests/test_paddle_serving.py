import importlib.util
import io
import json
import shutil
import sys
import types
import urllib.request

from course_lib.compression import quantize_static
from course_lib.deploy import Predictor, export_model
from course_lib.deploy.paddle_serving import check_serving, main, write_serving
from course_lib.models import load_backbone
from course_lib.runtime import InputError

import paddle
import pytest
import yaml

TEXTS = ["房间很干净，服务很好", "太差了", "书很好看，nice", "电脑坏了，客服不理人，再也不来了" * 3]
LABELS = ["差", "好, 很好", 'a "b"']


@pytest.fixture(scope="module", params=["single_label", "multi_label"])
def exported(request, tmp_path_factory):
    paddle.seed(0)
    model, tokenizer = load_backbone(
        "fresh",
        vocab_texts=TEXTS * 3,
        label_list=LABELS,
        num_hidden_layers=1,
        hidden_size=32,
        intermediate_size=64,
        problem_type=f"{request.param}_classification",
    )
    for weight in model.parameters():
        if weight.ndim == 2:
            weight.set_value(paddle.randn(weight.shape) * 0.5)  # so that texts differ
    several = request.param == "multi_label"
    thresholds = dict(zip(LABELS, [0.5, 0.7, 0.95], strict=True)) if several else None
    directory = tmp_path_factory.mktemp("model")
    return export_model(model, directory, tokenizer, 32, thresholds=thresholds)


@pytest.fixture()
def served(exported, tmp_path):
    return write_serving(exported, tmp_path / "serving", name="reviews")


@pytest.fixture()
def service(served, monkeypatch):
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
    return load(served / "service.py")


def load(file):
    spec = importlib.util.spec_from_file_location(f"served_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(service, predictor, request):
    """What the pipeline does with a request: preprocess, the model, postprocess."""
    op = service.ClassifierService("reviews").get_pipeline_response("read")
    assert (op.name, op.input_ops) == ("reviews", ["read"])
    op.init_op()
    feed, skip, code, message = op.preprocess({"@DAGExecutor": request}, 0, 0)
    if code is not None:
        assert skip
        return code, message
    outputs = dict(zip(service_config(service)["fetch_list"], predictor.run(feed), strict=True))
    result, code, _ = op.postprocess(feed, outputs, 0, 0)
    assert code is None and all(isinstance(value, str) for value in result.values())
    return result


def service_config(service):
    config = yaml.safe_load((service.HERE / "config.yml").read_text("utf-8"))
    return config["op"]["reviews"]["local_service_conf"]


def test_the_service_and_its_client_answer_as_the_predictor_does(
    exported, served, service, monkeypatch
):
    check_serving(served)
    predictor = Predictor(exported)
    asked = []

    def urlopen(url, data, timeout):  # the gateway: keys and values, all strings
        asked.append(url)
        body = json.loads(data)
        assert all(isinstance(value, str) for value in body["value"])
        request = dict(zip(body["key"], body["value"], strict=True))
        result = answer(service, predictor, request)
        reply = {"err_no": 0, "err_msg": "", "key": list(result), "value": list(result.values())}
        return io.BytesIO(json.dumps(reply).encode())

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    got = load(served / "client.py").ask(TEXTS)
    assert asked == ["http://127.0.0.1:18080/reviews/prediction"]
    expected = predictor.classify(TEXTS)
    assert got["labels"] == [one["labels"] for one in expected]
    for row, one in zip(got["probabilities"], expected, strict=True):
        assert row == pytest.approx(list(one["probabilities"].values()), abs=1e-5)


@pytest.mark.parametrize(
    "request_",
    [{}, {"texts": "好"}, {"texts": "[]"}, {"texts": '["好", "\\u200b"]'}, {"texts": "[1]"}],
)
def test_a_bad_request_is_answered_with_an_error(service, request_):
    code, message = answer(service, None, request_)
    assert code == 400 and message.startswith("texts: ")


def test_the_client_reports_an_error(served, monkeypatch):
    reply = json.dumps({"err_no": 400, "err_msg": "texts: bad", "key": [], "value": []}).encode()
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: io.BytesIO(reply))
    with pytest.raises(RuntimeError, match="400: texts: bad"):
        load(served / "client.py").ask([""])


def test_the_directory_says_what_was_not_run(served):
    found = sorted(str(one.relative_to(served)) for one in served.rglob("*") if one.is_file())
    assert found == [
        "README.md",
        "client.py",
        "config.yml",
        "model/model.pdiparams",
        "model/model.pdmodel",
        "service.py",
        "settings.json",
        "tokenizer/special_tokens_map.json",
        "tokenizer/tokenizer_config.json",
        "tokenizer/vocab.txt",
    ]
    assert "has not been run\nin Paddle Serving" in (served / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("config.yml", "op:", "op: [", r"config\.yml: cannot be read"),
        ("config.yml", "  reviews:", "  other:", "its op is .*; expected 'reviews', the name in"),
        (
            "config.yml",
            "http_port: 18080",
            "http_port: 18090",
            "http_port is 18090; expected 18080",
        ),
        ("config.yml", "rpc_port: 18081", "rpc_port: 18080", "are the same"),
        ("config.yml", "rpc_port: 18081", "rpc_port: 81", "rpc_port: is 81"),
        ("config.yml", "local_predictor", "brpc", "client_type is 'brpc'"),
        ("config.yml", "- save_infer", "- infer", "fetch_list is"),
        ("settings.json", '"input_ids",', "", r"inputs is \['token_type_ids'\]"),
        ("settings.json", "{", "[", r"settings\.json: cannot be read"),
    ],
)
def test_what_does_not_fit_is_named(served, file, old, new, message):
    text = (served / file).read_text("utf-8")
    assert old in text
    (served / file).write_text(text.replace(old, new), "utf-8")
    with pytest.raises(InputError, match=message):
        check_serving(served)


def test_what_cannot_be_served_is_refused(exported, tmp_path):
    target = tmp_path / "serving"
    for options, message in (
        ({"name": "a/b"}, "name: is 'a/b'"),
        ({"http_port": 80}, "http_port: is 80"),
        ({"threads": 0}, "threads: is 0"),
        ({"concurrency": 0}, "concurrency: is 0"),
    ):
        with pytest.raises(InputError, match=message):
            write_serving(exported, target, **options)
    rows = [{"input_ids": list(range(1, 9)), "token_type_ids": [0] * 8}] * 4
    quantised = quantize_static(exported, tmp_path / "int8", rows, algo="abs_max")
    with pytest.raises(InputError, match="is quantised"):
        write_serving(quantised, target)
    shutil.copytree(exported.parent, tmp_path / "copy")
    (tmp_path / "copy" / "model.pdmodel").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"model\.pdmodel"):
        write_serving(tmp_path / "copy", target)
    assert not target.exists()


def test_the_command_line(exported, tmp_path, capsys):
    target = tmp_path / "serving"
    assert main([str(exported), str(target), "--http_port", "9000"]) == 0
    assert "written and checked; not run" in capsys.readouterr().out
    assert main([str(exported), str(target)]) == 2
    assert "exists and is not empty" in capsys.readouterr().err
