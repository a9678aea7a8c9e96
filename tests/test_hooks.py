"""Answers about what goes on inside a model: each does what it says, and says what is wrong."""

from __future__ import annotations

from course_lib.runtime import InputError
from course_lib.tasks.explain import hooks

import numpy as np
import paddle
import pytest
import training_runs as runs


@pytest.fixture(scope="module")
def pair():
    return runs.trained_pair()


@pytest.fixture
def fresh():
    return runs.model_and_tokenizer()[0]


@pytest.fixture(scope="module")
def batch(pair):
    return next(iter(runs.loaders(pair[1], 4, 4)[0]))[:2]


def test_states_are_those_of_paddlenlp_and_the_hooks_go(pair, batch):
    model, _ = pair
    states = hooks.hidden_states(model, *batch)
    model.eval()
    with paddle.no_grad():
        theirs = model(*batch, output_hidden_states=True, return_dict=True).hidden_states
    assert list(states) == ["embeddings", "layer 1", "layer 2"] and len(theirs) == 3
    for ours, their in zip(states.values(), theirs, strict=True):
        assert np.array_equal(ours, their)
    assert not any(layer._forward_post_hooks for layer in model.sublayers(True))


def test_recorded_counts_calls_and_keeps_gradients(fresh, batch):
    with hooks.recorded({"pooler": fresh.ernie.pooler, "all": fresh.ernie}) as outputs:
        fresh(*batch), fresh(*batch)
    assert [len(calls) for calls in outputs.values()] == [2, 2]
    assert outputs["pooler"][0].shape == [4, 24] and not outputs["pooler"][0].stop_gradient
    assert outputs["all"][0].shape == [4, batch[0].shape[1], 24], "the first of a tuple"
    with pytest.raises(ZeroDivisionError), hooks.recorded({"pooler": fresh.ernie.pooler}):
        1 / 0  # noqa: B018
    assert not fresh.ernie.pooler._forward_post_hooks
    with pytest.raises(InputError, match="BERT-like"):
        hooks.hidden_states(paddle.nn.Linear(2, 2), *batch)


def test_attention_is_what_the_queries_and_keys_give_and_leaves_padding_out(pair, batch):
    model, tokenizer = pair
    maps = hooks.attention_maps(model, *batch)
    length = batch[0].shape[1]
    assert maps.shape == (2, 4, 2, length, length)
    states = paddle.to_tensor(hooks.hidden_states(model, *batch)["embeddings"])
    attention = model.ernie.encoder.layers[0].self_attn
    query, key = (
        project(states).reshape([4, length, 2, 12]).numpy()
        for project in (attention.q_proj, attention.k_proj)
    )
    padded = batch[0].numpy() == tokenizer.pad_token_id
    products = np.einsum("nqhd,nkhd->nhqk", query, key) / 12**0.5
    weights = np.exp(np.where(padded[:, None, None], -np.inf, products))
    np.testing.assert_allclose(maps[0], weights / weights.sum(-1, keepdims=True), atol=1e-6)
    assert padded.any() and maps.transpose(1, 4, 0, 2, 3)[padded].max() < 1e-6


@pytest.mark.upstream
def test_need_weights_set_by_hand_is_undone_upstream(fresh, batch):
    fresh.ernie.encoder.layers[0].self_attn.need_weights = True
    fresh(*batch)
    assert not fresh.ernie.encoder.layers[0].self_attn.need_weights, "mended: simplify the docs"
