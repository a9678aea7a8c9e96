import json
import os
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from course_lib.chapters.ch06 import int8_operators, kernels
from course_lib.chapters.ch17 import tiny_training
from course_lib.compression import quantize_static
from course_lib.compression.embeddings import quantize_embeddings
from course_lib.data import create_dataloader
from course_lib.deploy import Predictor, convert, export_model
from course_lib.models import load_backbone, save_model
from course_lib.runtime import InputError, machine
from course_lib.runtime.machine import child_environment

import numpy as np
import paddle
import pytest
import tiny
from paddlenlp import transformers
from paddlenlp.datasets import MapDataset

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ["房间很干净，服务很好", "太差了", "书很好看", "电脑坏了，客服不理人，再也不来了"]


@pytest.fixture(scope="module")
def classifier():
    model, tokenizer = tiny.classifier(TEXTS)
    model.classifier.bias.set_value(paddle.to_tensor([0.1, -0.1]))
    return model, tokenizer


@pytest.fixture(scope="module")
def exported(classifier, tmp_path_factory):
    model, tokenizer = classifier
    return export_model(model, tmp_path_factory.mktemp("model"), tokenizer, 64)


@pytest.fixture(scope="module")
def several():
    """A classifier that may give a text any number of its three labels."""
    model, tokenizer = tiny.classifier(TEXTS, ["书", "酒店", "好"], seed=3)
    model.config.problem_type = "multi_label_classification"
    model.classifier.bias.set_value(paddle.to_tensor([0.8, -0.8, 0.1]))
    return model, tokenizer


@pytest.fixture(scope="module")
def with_thresholds(several, tmp_path_factory):
    thresholds = {"书": 0.5, "酒店": 0.5, "好": 0.5}
    directory = tmp_path_factory.mktemp("several")
    return export_model(several[0], directory, several[1], 64, thresholds=thresholds).parent


def describe_anew(directory, **changes):
    """Change deploy.json by hand."""
    file = directory / "deploy.json"
    description = json.loads(file.read_text(encoding="utf-8")) | changes
    file.write_text(json.dumps(description), encoding="utf-8")


@pytest.fixture(scope="module")
def quantised(classifier, exported, tmp_path_factory):
    rows = [classifier[1](text) for text in TEXTS]
    return quantize_static(exported, tmp_path_factory.mktemp("int8"), rows, algo="abs_max")


def test_an_exported_model_answers_as_its_source_and_leaves_it_as_it_was(classifier, exported):
    model, tokenizer = classifier
    assert model.training and "forward" not in model.__dict__
    predictor = Predictor(exported.parent)
    data = MapDataset([{"text": text} for text in TEXTS])
    model.eval()
    for batch in create_dataloader(data, tokenizer, "test", batch_size=3):
        expected = model(*batch).numpy()
        names = ("input_ids", "token_type_ids")
        got = predictor.run({name: x.numpy() for name, x in zip(names, batch, strict=True)})
        assert np.abs(got[0] - expected).max() < 1e-5
        (without,) = predictor.run({"input_ids": batch[0].numpy()})  # types are all 0
        assert (without == got[0]).all()
    model.train()
    assert predictor.labels == ["negative", "positive"]
    assert predictor.max_length == 64
    assert not predictor.quantized and not predictor.int8


def test_texts_keep_their_order_and_batches_do_not_matter(exported):
    predictor = Predictor(exported, threads=1)
    probabilities = predictor.predict(TEXTS, batch_size=2)
    assert probabilities.shape == (4, 2)
    assert probabilities.sum(axis=1) == pytest.approx(1, abs=1e-6)
    alone = np.concatenate([predictor.predict([text]) for text in TEXTS])
    assert probabilities == pytest.approx(alone, abs=1e-5)


def test_a_predictor_leaves_training_its_threads(exported):
    """Paddle sets them for the process: to the predictor's by making one, to 1 by each run."""
    before = tiny_training(5)
    predictor = Predictor(exported, threads=int(os.environ.get("OMP_NUM_THREADS", 1)) + 1)
    assert tiny_training(5) == before
    predictor.predict(TEXTS)
    assert tiny_training(5) == before


def test_threads_may_share_a_predictor(exported):
    """Without a lock they get each other's answers, or Paddle crashes."""
    predictor = Predictor(exported.parent, threads=1)
    batches = [[text] * (1 + number) for number, text in enumerate(TEXTS)]
    expected = [predictor.predict(batch) for batch in batches]

    def work(number):
        return all(
            np.allclose(predictor.predict(batches[number]), expected[number], atol=1e-6)
            for _ in range(100)
        )

    with ThreadPoolExecutor(len(TEXTS)) as pool:
        assert all(pool.map(work, range(len(TEXTS))))


@pytest.mark.parametrize(
    ("kind", "shapes"),
    [("BertForTokenClassification", [(2, 7, 2)]), ("ErnieForQuestionAnswering", [(2, 7), (2, 7)])],
)
def test_other_heads(kind, shapes, tmp_path):
    config = getattr(transformers, kind.partition("For")[0] + "Config")
    model = getattr(transformers, kind)(config(vocab_size=50, num_attention_heads=4, **tiny.SIZES))
    model.eval()
    ids = np.random.RandomState(0).randint(1, 50, (2, 7))
    path = export_model(model, tmp_path)
    convert(path)
    expected = model(paddle.to_tensor(ids))
    expected = expected if isinstance(expected, tuple) else (expected,)
    for backend in ("paddle", "onnx"):
        outputs = Predictor(path, backend).run({"input_ids": ids})
        assert [output.shape for output in outputs] == shapes
        for one, other in zip(outputs, expected, strict=True):
            assert np.abs(one - other.numpy()).max() < 1e-5


def test_what_ran_in_int8_is_read_from_onednns_log(exported, quantised):
    if not machine.cpu().vnni:
        pytest.skip("needs a processor with VNNI")
    fp32, int8 = Predictor(exported), Predictor(quantised)
    assert int8_operators(fp32)["fc"] == (0, 8)
    assert int8.quantized and int8.int8
    assert int8_operators(int8)["fc"] == (8, 0)
    assert any("vnni" in kernel for name, _, kernel in kernels(int8) if name == "fc")
    assert int8_operators(int8)["add"][0] == 0, "sums stay in FP32"
    slow = Predictor(quantised, int8=False)  # the same file without INT8 kernels
    assert sum(count for count, _ in int8_operators(slow).values()) == 0
    assert int8_operators(slow)["matmul"][1] >= 8
    assert not kernels(Predictor(exported, mkldnn=False))


def test_int8_of_a_classifier_gives_nearly_its_probabilities(exported, quantised, capfd):
    difference = Predictor(quantised).predict(TEXTS) - Predictor(exported).predict(TEXTS)
    assert 0 < np.abs(difference).max() < 0.05
    assert capfd.readouterr().out == ""


def test_where_int8_cannot_pay_a_warning_says_why(exported, quantised, monkeypatch):
    with pytest.warns(UserWarning, match="no quantized operators: it runs in FP32") as caught:
        assert not Predictor(exported, int8=True).int8
    assert caught[0].filename == __file__, "the warning names the line that asked for INT8"
    plain = machine.CPU("GenuineIntel", "an older one", frozenset({"avx2"}))
    monkeypatch.setattr(machine, "cpu", lambda: plain)
    with pytest.warns(UserWarning, match="no VNNI instructions"):
        Predictor(quantised)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Predictor(exported)
        Predictor(quantised, int8=False)


def test_inputs_that_do_not_fit_are_refused(exported):
    predictor = Predictor(exported)
    ids = np.ones((2, 5), "int64")
    for inputs, message in (
        ({}, "input_ids is missing|token_type_ids is missing"),
        ({"input_ids": ids, "token_type_ids": ids[:1]}, "has shape"),
        ({"input_ids": ids[:0]}, "has shape"),
        ({"input_ids": ids.astype("float32")}, "holds float32"),
        ({"input_ids": ids * 10**6}, "input_ids holds 1000000; expected 0 to"),
        ({"input_ids": ids - 2}, "input_ids holds -1"),
        ({"input_ids": ids, "token_type_ids": ids * 99}, "token_type_ids holds 99"),
        ({"input_ids": np.ones((1, 9999), "int64")}, "shape \\[1, 9999\\]; expected at most"),
    ):
        with pytest.raises(InputError, match=message):
            predictor.run(inputs)
    with pytest.raises(InputError, match="mkldnn: is off and int8 on"):
        Predictor(exported, int8=True, mkldnn=False)


def test_scores_that_are_no_numbers_are_refused(exported, monkeypatch):
    predictor = Predictor(exported, threads=1)
    monkeypatch.setattr(predictor._engine, "run", lambda _: [np.array([[0.1, np.nan]])])
    for answer in (predictor.classify, predictor.predict):  # the first class would be the best
        with pytest.raises(InputError, match="gives scores that are infinite or no numbers"):
            answer(["好"])


def test_missing_and_damaged_files_are_refused(exported, tmp_path):
    with pytest.raises(InputError, match="has no"):
        Predictor(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"holds no \*\.pdmodel"):
        Predictor(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(exported.parent, copy)
    weights = copy / "model.pdiparams"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputError, match="its SHA-256 is another one"):
        Predictor(copy)
    (copy / "model.pdmodel").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"model\.pdmodel: is damaged .* 8 bytes instead of"):
        Predictor(copy)
    describe_anew(copy, files={})  # as an older export, which keeps no sizes
    for content in (b"nonsense", b""):
        (copy / "model.pdmodel").write_bytes(content)
        with pytest.raises(InputError, match="is damaged or no program"):
            Predictor(copy)
    shutil.copyfile(f"{exported}.pdmodel", copy / "model.pdmodel")
    weights.unlink()
    with pytest.raises(InputError, match=r"has no model\.pdiparams"):
        Predictor(copy)


def test_a_tokenizer_that_is_damaged_or_another_is_refused(exported, tmp_path):
    assert "vocab.txt" in files_of(exported.parent)
    for name, content, message in (
        ("vocab.txt", None, r"has no vocab\.txt; expected the file that was exported"),
        ("vocab.txt", b"[PAD]\n", r"vocab\.txt: is damaged .* 6 bytes instead of"),
        ("tokenizer_config.json", b"{", "is damaged"),
        ("special_tokens_map.json", b"{", "is damaged"),
    ):
        copy = shutil.copytree(exported.parent, tmp_path / f"{name}{bool(content)}.onnx")
        (copy / name).unlink() if content is None else (copy / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            Predictor(copy).predict(["好"])
    order = (exported.parent / "vocab.txt").read_text("utf-8").splitlines(keepends=True)
    order[8], order[9] = order[9], order[8]  # as long as before, and other texts for the model
    copy = shutil.copytree(exported.parent, tmp_path / "order")
    (copy / "vocab.txt").write_text("".join(order), "utf-8")
    with pytest.raises(InputError, match="its SHA-256 is another one"):
        Predictor(copy).predict(["好"])
    describe_anew(copy, files={})  # an older export keeps no records
    assert Predictor(copy).predict(["好"]).shape == (1, 2)


def test_models_without_a_head_and_longer_texts_than_positions_are_refused(classifier, tmp_path):
    model, tokenizer = classifier
    with pytest.raises(InputError, match="has no head"):
        export_model(model.ernie, tmp_path)
    with pytest.raises(InputError, match="max_length: is 9999"):
        export_model(model, tmp_path, tokenizer, 9999)
    assert not list(tmp_path.iterdir())


def test_an_export_replaces_an_older_one_and_leaves_other_files(classifier, exported, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    export_model(classifier[0], tmp_path)
    paddle.seed(9)
    other, _ = load_backbone("fresh", vocab_texts=TEXTS * 3, num_classes=3, **tiny.SIZES)
    path = export_model(other, tmp_path)
    assert Predictor(path).run({"input_ids": np.ones((1, 4), "int64")})[0].shape == (1, 3)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not list(tmp_path.glob(".*"))


def test_an_export_beside_a_foreign_model_leaves_it_whole(classifier, tmp_path):
    paddle.seed(9)
    other, tokenizer = load_backbone(
        "fresh", vocab_texts=["天地玄黄"] * 3, num_classes=3, **tiny.SIZES
    )
    theirs = save_model(other, tokenizer, tmp_path / "theirs")
    before = {file.name: file.read_bytes() for file in theirs.iterdir()}
    for own_tokenizer in (None, classifier[1]):
        with pytest.raises(InputError, match=r"config\.json: is another model's"):
            export_model(classifier[0], theirs, own_tokenizer)
        assert {file.name: file.read_bytes() for file in theirs.iterdir()} == before
    export_model(other, theirs, tokenizer)  # its own
    assert load_backbone(theirs)[0].config.num_labels == 3


def test_one_label_or_several(classifier, exported, several, tmp_path):
    one = Predictor(exported)
    assert one.problem == "single_label" and one.thresholds is None
    for row, probabilities in zip(one.classify(TEXTS, 3), one.predict(TEXTS), strict=True):
        assert list(row["probabilities"]) == one.labels
        assert list(row["probabilities"].values()) == pytest.approx(probabilities.tolist())
        assert row["label"] == one.labels[probabilities.argmax()]
    assert one.classify([]) == []

    model, tokenizer = several
    half = Predictor(export_model(model, tmp_path / "half", tokenizer, 64))
    model.eval()
    ids = [paddle.to_tensor([tokenizer(text)["input_ids"]]) for text in TEXTS]
    expected = np.concatenate([paddle.nn.functional.sigmoid(model(x)).numpy() for x in ids])
    assert half.problem == "multi_label"
    assert half.predict(TEXTS) == pytest.approx(expected, abs=1e-5)
    for row, probabilities in zip(half.classify(TEXTS), expected, strict=True):
        assert row["label"] == [
            n for n, p in zip(half.labels, probabilities, strict=True) if p >= 0.5
        ]
    thresholds = {"好": 0.0, "书": 1.0, "酒店": np.float32(0.5)}
    own = Predictor(export_model(model, tmp_path / "own", tokenizer, 64, thresholds=thresholds))
    assert own.thresholds == [1.0, 0.5, 0.0]  # in the order of the labels
    assert all("好" in row["label"] and "书" not in row["label"] for row in own.classify(TEXTS))
    made = quantize_static(
        own.path, tmp_path / "int8", [tokenizer(t) for t in TEXTS], algo="abs_max"
    )
    assert Predictor(made).thresholds == own.thresholds


def test_thresholds_that_do_not_fit_are_refused(classifier, several, tmp_path):
    right = {"书": 0.5, "酒店": 0.5, "好": 0.5}
    for model, wrong, message in (
        (classifier[0], {"negative": 0.5, "positive": 0.5}, "thresholds is .* of a multi_label"),
        (several[0], {"书": 0.5}, "do not name the model's labels"),
        (several[0], right | {"坏": 0.5}, "do not name the model's labels"),
        (several[0], right | {"书": 1.5}, "1.5.*; expected less than or equal to 1"),
        (several[0], right | {"书": float("nan")}, "thresholds is .*nan"),
    ):
        with pytest.raises(InputError, match=message):
            export_model(model, tmp_path, thresholds=wrong)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("labels", x) for x in ("ab", [], [1, 2], ["a", ""], ["a", "a"], ["a", "\ud800"])],
        *[("thresholds", x) for x in (0.5, [0.5], ["0.5"] * 3, [0.5, 0.5, 1.1])],
        ("thresholds", [0.5, 0.5, float("nan")]),
        ("problem", "many"),
        ("problem", "single_label"),  # which has no thresholds
        ("task", 5),
        *[("max_length", x) for x in (0, "64", True)],
        ("pad_token_id", None),
        *[("files", x) for x in ([], {"model.pdiparams": 5}, {"model.pdiparams": {"bytes": 5}})],
    ],
)
def test_a_deploy_json_that_cannot_be_is_refused(key, value, with_thresholds, tmp_path):
    shutil.copytree(with_thresholds, tmp_path, dirs_exist_ok=True)
    describe_anew(tmp_path, **{key: value})
    named = "thresholds" if value == "single_label" else key
    with pytest.raises(InputError, match=rf"deploy\.json: {named} is .*; expected"):
        Predictor(tmp_path)


def test_a_deploy_json_that_is_none_is_refused(exported, tmp_path):
    shutil.copytree(exported.parent, tmp_path / "x")
    for content in (b"", b"{", b"[1]", b'"a"', b"\xff\xfe", b"[" * 100_000, b'{"labels": ['):
        (tmp_path / "x" / "deploy.json").write_bytes(content)
        with pytest.raises(InputError, match=r"deploy\.json: is (no|empty)"):
            Predictor(tmp_path / "x")
    shutil.copy(exported.parent / "deploy.json", tmp_path / "x")
    describe_anew(tmp_path / "x", labels=["a", "b", "c"])
    with pytest.raises(InputError, match="names 3 labels of outputs"):
        Predictor(tmp_path / "x").predict(TEXTS)
    (tmp_path / "x" / "deploy.json").unlink()
    bare = Predictor(tmp_path / "x")
    assert bare.run({"input_ids": np.ones((1, 4), "int64")})[0].shape == (1, 2)
    with pytest.raises(InputError, match="has no labels"):
        bare.predict(TEXTS)


def test_each_model_of_a_directory_has_its_record(classifier, exported, quantised, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(exported.parent, copy)
    # a second model beside it, quantised from it: each has its record, also once it is rewritten
    rows = [classifier[1](text) for text in TEXTS]
    quantize_static(copy, copy, rows, algo="abs_max", name="int8")
    assert len(files_of(copy)) == 7  # and the vocabulary
    quantize_embeddings(copy / "int8", copy / "int8")
    for name in ("model", "int8"):
        Predictor(copy / name).predict(TEXTS)
    expected = {"model.pdmodel", "model.pdiparams", "vocab.txt", "tokenizer_config.json"}
    expected |= {"special_tokens_map.json"}
    assert set(files_of(quantised.parent)) == expected
    # an older export has no record
    description = json.loads((copy / "deploy.json").read_text(encoding="utf-8"))
    del description["files"], description["problem"], description["thresholds"]
    (copy / "deploy.json").write_text(json.dumps(description), encoding="utf-8")
    assert Predictor(copy).predict(TEXTS).shape == (4, 2)
    export_model(classifier[0], copy, name="new")
    assert set(files_of(copy)) == {"new.pdmodel", "new.pdiparams"}
    (copy / "deploy.json").write_text("{")  # damaged, and replaced
    export_model(classifier[0], copy, name="new")
    assert set(files_of(copy)) == {"new.pdmodel", "new.pdiparams"}


EXPORT = """
import hashlib, sys
from pathlib import Path
from test_deploy import TEXTS, tiny, export_model, load_backbone, paddle, quantize_embeddings

paddle.seed(0)
model, tokenizer = load_backbone("fresh", vocab_texts=TEXTS, **tiny.SIZES)
path = export_model(model, sys.argv[1], tokenizer)
quantize_embeddings(path, path.with_name("small"))
for file in sorted(path.parent.iterdir()):
    print(file.name, hashlib.sha256(file.read_bytes()).hexdigest())
"""


def test_an_export_is_the_same_bytes_anywhere(exported, tmp_path):
    """Paddle notes the lines of code that made each operator, with their paths."""
    (tmp_path / "elsewhere").symlink_to(ROOT)
    children = []
    for seed, root in enumerate((ROOT, tmp_path / "elsewhere")):
        environment = {
            **child_environment(),
            "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")]),
            "PYTHONHASHSEED": str(seed),
        }
        command = [sys.executable, "-c", EXPORT, str(tmp_path / str(seed))]
        children.append(
            subprocess.Popen(command, env=environment, cwd=root / "tests", stdout=subprocess.PIPE)
        )
    first, second = (child.communicate()[0].decode().splitlines() for child in children)
    assert len(first) >= 6 and first == second
    folders = [str(ROOT), str(Path(paddle.__file__).parents[1]), str(tmp_path)]
    for file in [*(tmp_path / "0").iterdir(), *exported.parent.iterdir()]:
        for folder in folders:
            assert folder.encode() not in file.read_bytes(), file.name


def test_no_file_names_the_place_that_a_model_was_read_from(tmp_path):
    model, tokenizer = load_backbone(label_list=["a", "b"])
    save_model(model, tokenizer, tmp_path / "here")
    model, tokenizer = load_backbone(tmp_path / "here", label_list=["a", "b"])
    save_model(model, tokenizer, tmp_path / "model")
    export_model(model, tmp_path / "export", tokenizer, 64)
    for file in [*(tmp_path / "model").iterdir(), *(tmp_path / "export").iterdir()]:
        assert not any(str(place).encode() in file.read_bytes() for place in (ROOT, tmp_path)), file


def files_of(directory):
    return json.loads((directory / "deploy.json").read_text(encoding="utf-8"))["files"]
