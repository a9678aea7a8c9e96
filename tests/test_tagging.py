"""Taggers with a CRF and without."""

from __future__ import annotations

import itertools

import course_lib  # noqa: F401
from course_lib.chapters.ch19 import compare_crf, rule_crf
from course_lib.runtime import InputError, seed_everything
from course_lib.tasks.tagging import (
    BackboneTagger,
    Crf,
    entity_scores,
    predict_tags,
    train_tagger,
)
from course_lib.training import paired_bootstrap_f1

import numpy as np
import paddle
import pytest
import tiny
from paddlenlp.transformers import ErnieConfig, ErnieForTokenClassification

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
CITIES, NAMES = ["北京", "上海", "天津"], ["王明", "李红", "张伟"]


@pytest.fixture(scope="module")
def sentences():
    """Names and places whose type the characters tell."""
    examples = []
    for name, city in itertools.product(NAMES, CITIES):
        tokens = list(f"{name}在{city}。")
        examples.append({"tokens": tokens, "labels": [1, 2, 0, 3, 4, 0]})
    return examples


@pytest.fixture(scope="module")
def tokenizer(make_tokenizer):
    tokens = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", *"在。", *"".join(CITIES + NAMES)]
    return make_tokenizer(tokens)


def tagger_of(tokenizer, crf):
    seed_everything(7)
    sizes = {**tiny.CONFIG, "max_position_embeddings": 16, "num_labels": 5}
    config = ErnieConfig(vocab_size=len(tokenizer.vocab), **sizes)
    return BackboneTagger(ErnieForTokenClassification(config), tokenizer, LABELS, crf=crf)


@pytest.mark.parametrize("crf", [True, False])
def test_both_taggers_learn_and_score(tokenizer, sentences, crf):
    tagger = tagger_of(tokenizer, crf)
    losses = train_tagger(tagger, sentences, epochs=30, batch_size=5, learning_rate=5e-3)
    assert len(losses) == 60 and losses[-1] < 0.1 * losses[0]
    scores = entity_scores(tagger, sentences)
    assert scores["all"]["f1"] == 1.0 and scores["all"]["broken"] == 0
    assert (scores["LOC"]["true"], scores["PER"]["true"]) == (9, 9)
    assert not tagger.training
    if crf:  # it has seen I-PER behind B-PER, and never behind B-LOC
        table = tagger.crf.transitions.numpy()
        assert table[1, 2] > table[3, 2] + 0.1


def test_with_transitions_of_zero_the_two_are_one_model(tokenizer, sentences):
    tagger = tagger_of(tokenizer, crf=True)
    batch = [paddle.to_tensor([tagger.encode(row["tokens"])]) for row in sentences[:1]]
    labels = paddle.to_tensor([sentences[0]["labels"]])
    with_crf = float(tagger(*batch, paddle.to_tensor([6]), labels))
    tagger.crf = None
    assert float(tagger(*batch, paddle.to_tensor([6]), labels)) == pytest.approx(with_crf, abs=1e-5)


def test_tags_do_not_depend_on_the_batch_and_training_is_repeatable(tokenizer, sentences):
    rows = [
        example["tokens"][:size] for example, size in zip(sentences, (6, 2, 4, 1), strict=False)
    ]
    runs = []
    for _ in range(2):
        tagger = tagger_of(tokenizer, crf=True)
        losses = train_tagger(tagger, sentences, epochs=9, batch_size=4, max_steps=5)
        runs.append(losses)
    assert runs[0] == runs[1] and len(runs[0]) == 5
    together = predict_tags(tagger, [*rows, []])
    assert together == [*(predict_tags(tagger, [row])[0] for row in rows), []]
    assert list(map(len, together)) == [6, 2, 4, 1, 0]


@pytest.fixture(scope="module")
def backbone(tokenizer, tmp_path_factory):
    directory = tmp_path_factory.mktemp("backbone")
    tagger_of(tokenizer, crf=False).model.save_pretrained(str(directory))
    tokenizer.save_pretrained(str(directory))
    return directory


def test_a_crf_is_compared_with_none_from_the_same_start(backbone, sentences):
    settings = {"learning_rate": 5e-3, "epochs": 20, "batch_size": 3, "max_steps": 25}
    first, again = (compare_crf(sentences, sentences, LABELS, backbone, **settings) for _ in "ab")
    # transitions of 0, the same head, batch and dropout: the same loss
    assert first.losses["with"][0] == pytest.approx(first.losses["without"][0], abs=1e-5)
    assert first.losses["with"][-1] != first.losses["without"][-1]
    assert first.losses == again.losses and first.scores.equals(again.scores)
    for name, crf in (("without", None), ("with", Crf)):
        tagger, row = first.taggers[name], first.scores.loc[name]
        assert isinstance(tagger.crf, crf or type(None))
        assert row.to_dict() == entity_scores(tagger, sentences)["all"]
        assert first.counts[name].shape == (len(sentences), 3)
        assert first.counts[name].sum(axis=0).tolist() == list(row[["right", "found", "true"]])
    interval = paired_bootstrap_f1(first.counts["with"], first.counts["without"], resamples=200)
    expected = first.scores.f1["with"] - first.scores.f1["without"]
    assert interval["difference"] == pytest.approx(expected)
    other = compare_crf(sentences, sentences, LABELS, backbone, seed=1, max_steps=1)
    assert other.losses["with"][0] != first.losses["with"][0]


def test_layers_of_both_taggers_can_be_frozen(backbone, sentences):
    result = compare_crf(sentences, sentences, LABELS, backbone, frozen_layers=1, max_steps=1)
    for tagger in result.taggers.values():
        assert all(each.stop_gradient for each in tagger.model.ernie.encoder.parameters())
        assert not tagger.model.classifier.weight.stop_gradient


@pytest.mark.parametrize("crf", [True, False])
def test_the_order_of_the_labels_changes_nothing(tokenizer, sentences, crf):
    """Losses of padded batches, tags, scores and counts of broken labels, with O last."""
    order = [3, 4, 2, 1, 0]  # place -> label
    data = [
        {key: row[key][:size] for key in row}
        for row, size in zip(sentences, (6, 4, 1), strict=False)
    ]
    other = [row | {"labels": [order.index(label) for label in row["labels"]]} for row in data]
    plain, mixed = tagger_of(tokenizer, crf), tagger_of(tokenizer, crf)
    mixed.label_list = [LABELS[label] for label in order]
    for name in ("weight", "bias"):
        value = getattr(plain.model.classifier, name).numpy()[..., order]
        getattr(mixed.model.classifier, name).set_value(value)
    both = ((plain, data), (mixed, other))
    first, again = (train_tagger(one, rows, epochs=9, max_steps=9) for one, rows in both)
    assert again == pytest.approx(first, rel=1e-4)
    first, again = (entity_scores(one, rows) for one, rows in both)
    assert first == again and first["all"]["true"] == 5 and first["all"]["found"] > 0


def test_broken_labels_are_counted(tokenizer, sentences):
    tagger, rows = tagger_of(tokenizer, crf=False), [[1, 2, 2, 0, 3, 4], [2, 2, 0, 4, 1, 4]]
    for order, expected in (([0, 1, 2, 3, 4], 3), ([4, 0, 1, 2, 3], 3)):
        tagger.label_list = [LABELS[label] for label in order]
        predicted = [[order.index(label) for label in row] for row in rows]
        scores = entity_scores(tagger, sentences[:2], predicted)
        assert scores["all"]["broken"] == expected


def test_decoding_by_the_rules_finds_the_best_row_that_bio_allows():
    """All rows of three labels, tried one by one."""
    crf = rule_crf(LABELS)
    random = np.random.RandomState(3)
    emissions = random.randn(20, 3, len(LABELS)).astype("float32")
    allowed = [
        row
        for row in itertools.product(range(len(LABELS)), repeat=3)
        if all(
            not LABELS[after].startswith("I-") or LABELS[before][2:] == LABELS[after][2:]
            for before, after in itertools.pairwise(row)
        )
    ]
    best = [max(allowed, key=lambda row: sum(scores[range(3), list(row)])) for scores in emissions]
    found = crf.decode(paddle.to_tensor(emissions), paddle.to_tensor([3] * 20)).numpy()
    assert found.tolist() == [list(row) for row in best]
    plain = emissions.argmax(axis=2)
    assert (plain != found).any() and (plain == found).any()
    order = [3, 4, 2, 0, 1]
    mixed = rule_crf([LABELS[label] for label in order]).transitions.numpy()
    assert (mixed == crf.transitions.numpy()[order][:, order]).all()


def test_what_cannot_be_tagged_is_refused(tokenizer):
    tagger = tagger_of(tokenizer, crf=False)
    for labels, message in (([0, 1], "1 tokens and 2 labels"), ([5], "expected 0 to 4")):
        with pytest.raises(InputError, match=message):
            train_tagger(tagger, [{"tokens": ["在"], "labels": labels}])
    with pytest.raises(InputError, match="15 tokens; expected at most 14"):
        predict_tags(tagger, [["在"] * 15])
    for crf in (True, False):  # whose best label would be the first one
        tagger = tagger_of(tokenizer, crf)
        tagger.model.classifier.bias.set_value(paddle.full([5], np.nan))
        with pytest.raises(InputError, match="scores are infinite or no numbers"):
            predict_tags(tagger, [["在"]])


def test_sentences_of_one_token_have_a_loss(tokenizer):
    examples = [{"tokens": ["在"], "labels": [0]}, {"tokens": ["王"], "labels": [1]}]
    for crf in (True, False):
        losses = train_tagger(tagger_of(tokenizer, crf), examples, epochs=2)
        assert all(0 < loss < 10 for loss in losses)
    emissions = paddle.to_tensor([[[1.0, 2.0, 3.0]]])
    loss = Crf(3).loss(emissions, paddle.to_tensor([1]), paddle.to_tensor([[0]]))
    expected = paddle.logsumexp(emissions[0, 0]) - 1.0
    assert float(loss) == pytest.approx(float(expected), abs=1e-5)
