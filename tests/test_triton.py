"""examples/serving/triton: the repository has Triton's form, and its Python runs."""

import json
import shutil
import sys
import types
from pathlib import Path

from course_lib.deploy import Predictor
from course_lib.runtime import InputError

import numpy as np
import pytest
from google.protobuf import json_format
from tiny import LABELS, TEXTS, export, load_module

LOGITS = 'key: "LOGITS"\n      value: '  # of the ensemble's last step
SCRIPT = Path(__file__).parents[1] / "examples/serving/triton/triton_repository.py"
pytest.importorskip("tritonclient.grpc", reason="tritonclient exists for Linux only")
script = load_module(SCRIPT)
check_repository, write_repository = script.check_repository, script.write_repository


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return export(tmp_path_factory.mktemp("model"), onnx=True)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    return export(tmp_path_factory.mktemp("several"), several=True, onnx=True)


@pytest.fixture()
def repository(exported, tmp_path):
    return write_repository(exported, tmp_path / "models", "reviews", 8)


@pytest.fixture()
def backend(monkeypatch):
    """What the Python backend's README says of triton_python_backend_utils, and a loader."""
    utils = types.ModuleType("triton_python_backend_utils")

    def tensor(name, array):
        assert isinstance(array, np.ndarray)
        return types.SimpleNamespace(name=lambda: name, as_numpy=lambda: array)

    def response(output_tensors, error=None):
        return types.SimpleNamespace(
            output_tensors=lambda: output_tensors,
            error=lambda: error,
            has_error=lambda: error is not None,
        )

    def get_input_tensor_by_name(request, name):
        return next((one for one in request.inputs() if one.name() == name), None)

    utils.Tensor, utils.InferenceResponse = tensor, response
    utils.TritonError = lambda message: types.SimpleNamespace(message=lambda: message)
    utils.InferenceRequest = lambda inputs: types.SimpleNamespace(inputs=lambda: inputs)
    utils.get_input_tensor_by_name = get_input_tensor_by_name
    monkeypatch.setitem(sys.modules, utils.__name__, utils)
    return utils


class Server:
    """Runs an ensemble's steps as Triton does: by the maps, each batch with its first dimension."""

    def __init__(self, repository, name, utils, predictor):
        self.configs = check_repository(repository)
        self.name, self.utils, self.predictor = name, utils, predictor
        self.models = {}
        for model, config in self.configs.items():
            if config.backend == "python":
                module = load_module(repository / model / "1" / "model.py")
                self.models[model] = module.TritonPythonModel()
                arguments = {"model_name": model, "model_version": "1"}
                self.models[model].initialize({"model_config": as_json(config), **arguments})

    def infer(self, requests):
        """A list of arrays of bytes [texts, 1] -> a list of {"LABELS", "PROBABILITIES"}."""
        known = [{"TEXT": request} for request in requests]
        for step in self.configs[self.name].ensemble_scheduling.step:
            inputs = [{key: one[step.input_map[key]] for key in step.input_map} for one in known]
            if step.model_name in self.models:
                answers = self._python(step.model_name, inputs)
            else:
                names = [output.name for output in self.configs[step.model_name].output]
                answers = [dict(zip(names, self.predictor.run(one), strict=True)) for one in inputs]
            for one, answer in zip(known, answers, strict=True):
                for tensor in self.configs[step.model_name].output:
                    value = answer[tensor.name]
                    assert value.shape[1:] == tuple(tensor.dims) or list(tensor.dims) == [-1]
                    one[step.output_map[tensor.name]] = value
        return [
            {output.name: one[output.name] for output in self.configs[self.name].output}
            for one in known
        ]

    def _python(self, model, inputs):
        responses = self.models[model].execute([self.request(one) for one in inputs])
        assert not any(response.has_error() for response in responses)
        return [{one.name(): one.as_numpy() for one in each.output_tensors()} for each in responses]

    def request(self, arrays):
        tensors = [self.utils.Tensor(name, array) for name, array in arrays.items()]
        return self.utils.InferenceRequest(tensors)


def as_json(config):
    """The configuration as Triton hands it to initialize()."""
    return json_format.MessageToJson(config, preserving_proto_field_name=True)


def as_bytes(texts):
    return np.array([[text.encode()] for text in texts], dtype=np.object_)


@pytest.mark.parametrize("kind", ["exported", "several"])
def test_the_repository_answers_as_the_predictor_does(kind, backend, tmp_path, request):
    source = request.getfixturevalue(kind)
    repository = write_repository(source, tmp_path / "models")
    predictor = Predictor(source, "onnx")
    server = Server(repository, "classifier", backend, predictor)
    answers = server.infer([as_bytes(TEXTS[:1]), as_bytes(TEXTS[1:])])
    labels = [json.loads(one) for answer in answers for one in answer["LABELS"][:, 0]]
    expected = predictor.classify(TEXTS)
    assert labels == [np.atleast_1d(one["label"]).tolist() for one in expected]
    if kind == "several":
        assert len({len(one) for one in labels}) > 1  # some texts have more labels than others
    probabilities = np.concatenate([answer["PROBABILITIES"] for answer in answers])
    assert probabilities.dtype == np.float32
    assert np.abs(probabilities - predictor.predict(TEXTS)).max() < 1e-5


def test_a_bad_text_or_score_fails_its_own_request_only(repository, backend):
    server = Server(repository, "reviews", backend, None)
    bad = [np.array([[b"\xff\xfe"]], dtype=np.object_), as_bytes(["好", " \u200b\n"])]
    requests = [server.request({"TEXT": one}) for one in [*bad, as_bytes(["好"])]]
    broken, empty, good = server.models["reviews_tokenizer"].execute(requests)
    assert "utf-8" in broken.error().message() and "empty text" in empty.error().message()
    assert not good.has_error() and good.output_tensors()
    requests = [
        server.request({"LOGITS": np.float32([[0.1, x, 0.2]])}) for x in (np.nan, np.inf, 1)
    ]
    nan, infinite, good = server.models["reviews_postprocess"].execute(requests)
    assert "not finite" in nan.error().message() and "not finite" in infinite.error().message()
    assert not good.has_error()


def test_a_pickle_beside_the_tokenizer_is_not_run(repository, backend):
    model = Server(repository, "reviews", backend, None).models["reviews_tokenizer"]
    (repository / "reviews_tokenizer" / "1" / "dict.wordseg.pickle").write_bytes(b"")
    with pytest.raises(RuntimeError, match="pickle"):
        model.initialize(
            {"model_config": as_json(check_repository(repository)["reviews_tokenizer"])}
        )


def test_the_repository_has_tritons_layout(repository, exported):
    found = {str(one.relative_to(repository)) for one in repository.rglob("*") if one.is_file()}
    parts = ("reviews", "reviews_model", "reviews_postprocess", "reviews_tokenizer")
    tokenizer = ("model.py", "special_tokens_map.json", "tokenizer_config.json", "vocab.txt")
    assert found == {
        "README.md",
        *(f"{part}/config.pbtxt" for part in parts),
        *("reviews/1/.keep", "reviews_model/1/model.onnx"),
        *("reviews_postprocess/1/model.py", "reviews_postprocess/labels.txt"),
        *(f"reviews_tokenizer/1/{name}" for name in tokenizer),
    }
    labels = (repository / "reviews_postprocess/labels.txt").read_text("utf-8")
    assert labels.split("\n") == [*LABELS, ""]
    configs = check_repository(repository)
    assert {one.max_batch_size for one in configs.values()} == {8}
    assert configs["reviews_model"].dynamic_batching.ByteSize()


@pytest.mark.parametrize(
    ("model", "old", "new", "message"),
    [
        ("", "}\n", "}}\n", "is no model configuration"),
        ("_model", "TYPE_FP32", "TYPE_FP16", "LOGITS is TYPE_FP32 .*logits is TYPE_FP16"),
        ("_model", "token_type_ids", "segments", "its inputs are input_ids, segments"),
        ("", '"reviews_model"', '"model"', "step model: no such model"),
        ("", 'key: "LOGITS"', 'key: "X"', "postprocess: maps LABELS, .* its inputs LOGITS"),
        ("", f'{LOGITS}"logits"', f'{LOGITS}"x"', "LOGITS: no step before it gives 'x'"),
        ("", 'name: "PROBABILITIES"', 'name: "SCORES"', "no step before it gives 'SCORES'"),
    ],
)
def test_what_does_not_fit_is_named(repository, model, old, new, message):
    file = repository / f"reviews{model}" / "config.pbtxt"
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(InputError, match=message):
        check_repository(repository)


def test_a_damaged_onnx_file_is_named(repository):
    (repository / "reviews_model/1/model.onnx").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"model\.onnx: is no ONNX file"):
        check_repository(repository)
    with pytest.raises(InputError, match=r"holds no \*/config\.pbtxt"):
        check_repository(repository / "reviews")


def test_what_cannot_be_served_is_refused(exported, tmp_path):
    def changed(**keys):
        folder = tmp_path / f"changed-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(exported.parent, folder)
        file = folder / "deploy.json"
        file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **keys}), "utf-8")
        return folder

    target = tmp_path / "models"
    (bare := changed()).joinpath("model.onnx").unlink()
    for source, options, message in (
        (changed(task="question answering"), {}, "is for question answering"),
        (changed(labels=["a\nb", "c", "d"]), {}, r"'a\\nb' breaks the line"),
        (bare, {}, r"holds no \*\.onnx; expected what deploy\.onnx\.convert"),
        (exported, {"name": "../up"}, r"name: is '\.\./up'"),
    ):
        with pytest.raises(InputError, match=message):
            write_repository(source, target, **options)
    assert not target.exists()
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not empty"):
        write_repository(exported, target)
    assert script.main([str(exported), str(target)]) == 2
    assert [one.name for one in target.iterdir()] == ["mine.txt"]
    assert script.main([str(exported), str(tmp_path / "new"), "--name", "reviews"]) == 0
