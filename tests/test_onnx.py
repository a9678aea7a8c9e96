"""ONNX Runtime gives what the model in Python gives; what cannot be converted is refused."""

import json
import shutil

import course_lib  # noqa: F401
from course_lib.chapters.ch06 import int8_operators
from course_lib.compression import quantize_static
from course_lib.compression.embeddings import quantize_embeddings
from course_lib.data import load_reviews
from course_lib.deploy import Predictor, export_model
from course_lib.deploy.onnx import convert
from course_lib.models import load_backbone
from course_lib.runtime import InputError

import numpy as np
import onnx
import paddle
import pytest
from tiny import TEXTS, classifier, rows


@pytest.fixture(scope="module")
def source():
    model, tokenizer = classifier(TEXTS)
    model.classifier.bias.set_value(paddle.to_tensor([0.1, -0.1]))
    return model, tokenizer


@pytest.fixture(scope="module")
def converted(source, tmp_path_factory):
    path = export_model(source[0], tmp_path_factory.mktemp("model"), source[1], 64)
    assert convert(path) == path.with_suffix(".onnx")
    return path


def test_the_backbone_gives_the_same_probabilities_as_in_python(tmp_path):
    """On some dev reviews; benchmarks/serving.py compares the whole split."""
    paddle.seed(5)
    model, tokenizer = load_backbone(label_list=["negative", "positive"])
    model.classifier.weight.set_value(model.classifier.weight * 20)  # so that labels differ
    convert(export_model(model, tmp_path, tokenizer, 96))
    texts = [example["text"] for example in load_reviews("dev", max_examples=24)]
    model.eval()
    rows = [tokenizer(text, max_length=96, truncation=True)["input_ids"] for text in texts]
    expected = paddle.nn.functional.softmax(
        paddle.concat([model(paddle.to_tensor([row])) for row in rows])
    ).numpy()
    assert 3 < expected.argmax(axis=1).sum() < 21
    for backend in ("onnx", "paddle"):
        probabilities = Predictor(tmp_path, backend).predict(texts, batch_size=7)
        assert np.abs(probabilities - expected).max() < 1e-4
        assert (probabilities.argmax(axis=1) == expected.argmax(axis=1)).all()


def test_the_file_is_lean_and_checked(converted):
    model = onnx.load(f"{converted}.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == 17
    inputs = [
        (i.name, [d.dim_param for d in i.type.tensor_type.shape.dim]) for i in model.graph.input
    ]
    sizes = ["batch_size", "seq_len"]
    assert inputs == [("input_ids", sizes), ("token_type_ids", sizes)]
    (output,) = model.graph.output
    first, second = output.type.tensor_type.shape.dim
    assert (first.dim_param, second.dim_value) == ("batch_size", 2)
    sizes = [converted.with_suffix(ending).stat().st_size for ending in (".onnx", ".pdiparams")]
    graph = sizes[0] - sizes[1]  # what is not weights
    assert 0 < graph < 60_000, "a table would add 15 kB or more, as often as it is there"


def test_the_padding_row_is_zero_as_in_paddle(converted):
    """paddle2onnx multiplies by a mask for it, which convert has multiplied already."""
    ids = np.array([[0, 0, 3], [2, 0, 0]])
    results = [
        Predictor(converted, backend).run({"input_ids": ids})[0] for backend in ("onnx", "paddle")
    ]
    assert np.abs(results[0] - results[1]).max() < 1e-5
    graph = onnx.load(f"{converted}.onnx").graph
    tables = {
        node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"
    }
    looked_up = [n for n in graph.node if n.op_type == "Gather" and n.input[0] in tables]
    assert len(looked_up) >= 3
    words = next(n for n in looked_up if n.input[1] == "input_ids")
    assert not onnx.numpy_helper.to_array(tables[words.input[0]])[0].any()


def test_inputs_that_do_not_fit_are_refused_as_by_paddle(converted):
    predictor = Predictor(converted, "onnx")
    with pytest.raises(InputError, match="input_ids holds 1000000; expected 0 to"):
        predictor.run({"input_ids": np.full((2, 5), 10**6)})
    with pytest.raises(InputError, match="int8: is on for ONNX Runtime"):
        Predictor(converted, "onnx", int8=True)
    with pytest.raises(InputError, match="kernels: are those of oneDNN"):
        int8_operators(predictor)


def test_quantized_programs_and_tables_are_refused(converted, tmp_path):
    made = quantize_static(converted, tmp_path / "int8", rows(), algo="abs_max")
    with pytest.raises(InputError, match=r"is quantized, .* expected the FP32 export"):
        convert(made)
    made = quantize_embeddings(converted, tmp_path / "tables" / "model")
    with pytest.raises(InputError, match="cannot be converted"):
        convert(made)
    assert not list(tmp_path.rglob("*onnx*"))


def test_an_operator_that_paddle2onnx_lacks_does_not_end_this_process(tmp_path):
    class Odd(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.table = paddle.nn.Embedding(9, 4)

        def forward(self, ids):
            return paddle.lgamma(self.table(ids))

    spec = [paddle.static.InputSpec([None, None], "int64", "ids")]
    path = export_model(Odd(), tmp_path, input_spec=spec)
    with pytest.raises(InputError, match=r"cannot be converted \(.*lgamma"):
        convert(path)
    assert not list(tmp_path.glob("*onnx*")) and not list(tmp_path.glob(".*"))


def test_missing_damaged_and_stale_files_are_refused(source, converted, tmp_path):
    with pytest.raises(InputError, match=r"holds no \*\.onnx; .* deploy\.onnx"):
        Predictor(tmp_path, "onnx")
    copy = tmp_path / "copy"
    shutil.copytree(converted.parent, copy)
    whole = (copy / "model.onnx").read_bytes()
    (copy / "model.onnx").write_bytes(whole[:-9])
    with pytest.raises(InputError, match=r"model\.onnx: is damaged .* bytes instead of"):
        Predictor(copy, "onnx")
    description = json.loads((copy / "deploy.json").read_text(encoding="utf-8"))
    (copy / "deploy.json").write_text(json.dumps(description | {"files": {}}), encoding="utf-8")
    for content in (whole[: len(whole) // 2], b"", b"nonsense"):
        (copy / "model.onnx").write_bytes(content)
        with pytest.raises(InputError, match=r"model\.onnx: cannot be loaded"):
            Predictor(copy, "onnx")
    # only the ONNX file and what describes it are needed ...
    (copy / "model.onnx").write_bytes(whole)
    for ending in (".pdmodel", ".pdiparams"):
        (copy / f"model{ending}").unlink()
    assert Predictor(copy / "model.onnx", "onnx").predict(TEXTS).shape == (4, 2)
    # ... and a new export takes the old one's away
    export_model(source[0], copy)
    assert not (copy / "model.onnx").exists()
