import time

from course_lib.compression import compare, quantize_static
from course_lib.compression.comparison import _full_batch
from course_lib.deploy import Predictor, export_model
from course_lib.models import load_backbone
from course_lib.notebook.figures import speed_accuracy
from course_lib.runtime import InputError

import numpy as np
import pandas as pd
import pytest
import tiny
from paddlenlp.transformers import ErnieForTokenClassification

TEXTS = ["房间很干净，服务很好", "太差了", "书很好看", "电脑坏了，客服不理人"] * 5


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models")
    model, tokenizer = tiny.classifier(TEXTS)
    path = export_model(model, directory / "fp32", tokenizer, 64)
    rows = [tokenizer(text) for text in TEXTS]
    return {"FP32": path, "INT8": quantize_static(path, directory / "int8", rows, algo="abs_max")}


def test_what_is_compared_is_what_predictors_say(models):
    predictor = Predictor(models["FP32"])
    predicted = predictor.predict(TEXTS).argmax(axis=1)
    labels = np.where(np.arange(len(TEXTS)) < 4, 1 - predicted, predicted)  # 4 of 20 wrong
    frame = compare(models, TEXTS, labels, batch_size=8, max_length=16, threads=1, rounds=3)
    assert list(frame.index) == ["FP32", "INT8"]
    assert frame.attrs == {"batch_size": 8, "max_length": 16, "threads": 1, "rounds": 3}
    first, second = frame.iloc[0], frame.iloc[1]
    assert first["score"] == 0.8
    assert (first[["speedup", "difference", "low", "high"]] == [1, 0, 0, 0]).all()
    again = (Predictor(models["INT8"]).predict(TEXTS).argmax(axis=1) == labels).mean()
    assert second["score"] == pytest.approx(again)
    assert second["low"] <= second["difference"] <= second["high"]
    assert second["speedup"] == pytest.approx(first["median_ms"] / second["median_ms"])
    assert first["examples_per_second"] == pytest.approx(8000 / first["median_ms"])
    assert (frame["p95_ms"] >= frame["median_ms"]).all()
    size = sum(file.stat().st_size for file in models["FP32"].parent.glob("model.pd*")) / 1e6
    assert first["megabytes"] == pytest.approx(size)


def test_times_are_those_of_each_model_in_turn(models):
    calls = []

    class Slow(Predictor):
        def run(self, inputs):
            calls.append(("slow", inputs["input_ids"].shape))
            time.sleep(0.05)
            return super().run(inputs)

    class Fast(Predictor):
        def run(self, inputs):
            calls.append(("fast", inputs["input_ids"].shape))
            return super().run(inputs)

    pair = {"slow": Slow(models["FP32"], threads=1), "fast": Fast(models["FP32"], threads=1)}
    features = [{"input_ids": [1, 2, 3]}, {"input_ids": [4, 5]}]
    frame = compare(pair, features, [0, 1], batch_size=2, max_length=8, rounds=4)
    assert frame["median_ms"]["slow"] >= 50
    timed = calls[:12]  # 2 to warm up and 4 rounds of two models
    assert all({timed[i][0], timed[i + 1][0]} == {"slow", "fast"} for i in range(0, 12, 2))
    assert {shape for _, shape in timed} == {(2, 8)}


def test_timed_batches_are_full_of_real_tokens():
    batch = _full_batch([{"input_ids": [1, 2, 3]}, {"input_ids": [4, 5]}], 2, 4)
    assert batch["input_ids"].tolist() == [[1, 2, 3, 4], [5, 1, 2, 3]]


def test_a_measure_of_the_users_own(models):
    def margin(outputs, label):
        return float(outputs[0][label] - outputs[0][1 - label])

    zeros = [0] * len(TEXTS)
    frame = compare(models, TEXTS, zeros, max_length=16, rounds=1, threads=1, score=margin)
    probabilities = np.log(Predictor(models["FP32"]).predict(TEXTS))
    expected = (probabilities[:, 0] - probabilities[:, 1]).mean()
    assert frame["score"]["FP32"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0], "examples: are 20, with 1 labels"),
        ([0] * 19 + [2], "labels: row 19 is 2; expected a class below 2"),
    ],
)
def test_labels_that_would_count_as_mistakes_are_refused(labels, message, models):
    with pytest.raises(InputError, match=message):
        compare(models, TEXTS, labels)


def test_models_on_different_numbers_of_threads_are_not_compared(models):
    pair = {str(count): Predictor(models["FP32"], threads=count) for count in (1, 2)}
    with pytest.raises(InputError, match="2 has threads 2, 1 has 1"):
        compare(pair, TEXTS, [0] * len(TEXTS))


def test_models_of_different_classes_are_not_compared(models, tmp_path):
    three, tokenizer = load_backbone("fresh", 3, vocab_texts=TEXTS, **tiny.SIZES)
    names, _ = load_backbone("fresh", label_list=["bad", "good"], vocab_texts=TEXTS, **tiny.SIZES)
    tagger = ErnieForTokenClassification(names.config)
    several, _ = load_backbone("fresh", vocab_texts=TEXTS, **tiny.SIZES)
    several.config.problem_type = "multi_label_classification"
    different = {"three": three, "names": names, "tagger": tagger, "several": several}
    paths = {
        name: export_model(model, tmp_path / name, tokenizer, 64)
        for name, model in different.items()
    }
    for name, message in (
        ("three", "three has labels .*LABEL_2.* FP32 has"),
        ("names", r"names has labels \['bad', 'good'\]"),
        ("tagger", "tagger has task token classification, FP32 has sequence classification"),
        ("several", "several has problem multi_label"),
    ):
        with pytest.raises(InputError, match=f"models: {message}"):
            compare({"FP32": models["FP32"], name: paths[name]}, TEXTS, [0] * len(TEXTS))
    for name, kind in (("tagger", "token classification"), ("several", "multi_label")):
        with pytest.raises(InputError, match=f"score: is missing, and the models are for {kind}"):
            compare({name: paths[name]}, TEXTS, [0] * len(TEXTS))


def test_the_picture_says_what_the_frame_says():
    columns = ["megabytes", "median_ms", "speedup", "score", "difference", "low", "high"]
    rows = [[40, 30, 1, 0.9, 0, 0, 0], [12, 10, 3, 0.896, -0.004, -0.009, 0.001]]
    frame = pd.DataFrame(rows, ["FP32", "INT8"], columns)
    figure = speed_accuracy(frame)
    assert "INT8: 3.00 times as fast, score 89.6%, 12.0 MB" in figure.alt
    axes = figure.axes[0]
    points = [tuple(c.lines[0].get_xydata()[0]) for c in axes.containers]
    assert points == [(1, 0.9), (3, 0.896)]
    ends = axes.containers[1].lines[2][0].get_segments()[0][:, 1]
    assert ends == pytest.approx([0.891, 0.901])
