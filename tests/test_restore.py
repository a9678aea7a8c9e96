import json
import shutil

from course_lib.chapters.ch11 import load_static
from course_lib.compression import cut, quantize_static
from course_lib.deploy import export_model
from course_lib.runtime import InputError

import numpy as np
import paddle
import pytest
from paddlenlp import transformers

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}
KEPT = [[0, 2], [1, 2, 3]], [[1, 2, 3], [4, 5, 6, 7]]


def build(kind, **changes):
    config = getattr(transformers, kind.partition("For")[0] + "Config")
    paddle.seed(3)
    model = getattr(transformers, kind)(config(**SIZES | changes))
    for parameter in model.parameters():  # biases too
        parameter.set_value(parameter + paddle.randn(parameter.shape) * 0.2)
    model.eval()
    return model


def answers(model, ids):
    outputs = model(paddle.to_tensor(ids))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return [output.numpy() for output in outputs]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    model = build("ErnieForSequenceClassification", num_labels=3)
    return model, export_model(model, tmp_path_factory.mktemp("model"))


@pytest.fixture()
def copied(exported, tmp_path):
    shutil.copytree(exported[1].parent, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize("smaller", [False, True])
@pytest.mark.parametrize(
    "head", ["SequenceClassification", "TokenClassification", "QuestionAnswering"]
)
@pytest.mark.parametrize("body", ["Ernie", "Bert"])
def test_every_bit_comes_back(body, head, smaller, tmp_path):
    model = build(f"{body}For{head}", num_labels=5)
    if smaller:
        model = cut(model, *KEPT)
    export_model(model, tmp_path)
    build("ErnieForSequenceClassification")  # the names' counter has moved on
    restored = load_static(tmp_path)
    assert type(restored) is type(model) and not restored.training
    ours, theirs = restored.state_dict(), model.state_dict()
    assert ours.keys() == theirs.keys()
    for name in theirs:
        if "pooler" not in name or head == "SequenceClassification":
            assert ours[name].numpy().tobytes() == theirs[name].numpy().tobytes(), name
    ids = np.random.RandomState(0).randint(1, 50, (3, 9))
    for one, other in zip(answers(restored, ids), answers(model, ids), strict=True):
        assert (one == other).all()


def test_a_restored_model_trains_on_as_its_source_does_and_is_exported_again(exported, tmp_path):
    ids = paddle.to_tensor(np.random.RandomState(1).randint(1, 50, (4, 7)))
    labels = paddle.to_tensor([0, 2, 1, 1])
    results = []
    for model in (build("ErnieForSequenceClassification", num_labels=3), load_static(exported[1])):
        optimizer = paddle.optimizer.AdamW(1e-3, parameters=model.parameters())
        for _ in range(3):
            paddle.nn.functional.cross_entropy(model(ids), labels).backward()
            optimizer.step()
            optimizer.clear_grad()
        results.append(answers(model, ids.numpy())[0])
    assert (results[0] == results[1]).all()
    assert np.abs(results[1] - answers(exported[0], ids.numpy())[0]).max() > 1e-3  # it did train
    again = load_static(export_model(model, tmp_path))
    assert (answers(again, ids.numpy())[0] == results[1]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 3}, r"uses 41 weights, and not as .* its 57"),
        ({"vocab_size": 51}, r"word_embeddings\.weight is \[50, 32\] there and \[51, 32\] here"),
        ({"num_labels": 2, "id2label": None}, r"classifier\.bias is \[3\] there and \[2\] here"),
        ({"num_attention_heads": 8}, "its program and the model of these settings differ by"),
        ({"hidden_act": "relu"}, "its program and the model of these settings differ by"),
        ({"hidden_size": "wide"}, r"config\.json: no ErnieForSequenceClassification can be built"),
        ({"num_attention_heads": 0}, r"config\.json: no ErnieForSequenceClassification can be"),
    ],
)
def test_another_configuration_is_refused(copied, change, message):
    file = copied / "config.json"
    settings = {**json.loads(file.read_text(encoding="utf-8")), **change}
    file.write_text(json.dumps({k: v for k, v in settings.items() if v is not None}))
    with pytest.raises(InputError, match=message):
        load_static(copied)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("BertForSequenceClassification", "differ by|uses 41 weights"),
        ("ErnieForTokenClassification", "uses 41 weights, and not as ErnieForTokenClass"),
        ("MyModel", "names the class 'MyModel', which PaddleNLP does not have"),
    ],
)
def test_another_class_is_refused(copied, name, message):
    file = copied / "deploy.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "class": name}))
    with pytest.raises(InputError, match=message):
        load_static(copied)


def test_a_quantized_program_is_refused(exported, tmp_path):
    rows = [{"input_ids": list(range(1, 9)), "token_type_ids": [0] * 8}] * 4
    path = quantize_static(exported[1], tmp_path, rows, algo="abs_max")
    with pytest.raises(InputError, match="is quantized: its weights are rounded"):
        load_static(path)
