"""Attributions, hidden states and attention."""

from course_lib.models.patches import upstream_layer_norm
from course_lib.runtime import InputError
from course_lib.tasks.explain import attribution, hooks

import numpy as np
import paddle
import pytest
import training_runs as runs

# ---- reasons for a prediction: the telling tokens are found, and what is wrong is said


FILLER = "今天房间书本的了是我看"
HINTS = [11, 12]


@pytest.fixture(scope="module")
def pair():
    return runs.trained_pair()


@pytest.fixture(scope="module")
def text(pair):
    """Its last two characters give away the label that the model does not give to masks alone."""
    answer = attribution.occlusion(*pair, f"{FILLER}好赞")
    return FILLER + ("坏差" if answer.base > 0 else "好赞")


@pytest.mark.parametrize(
    "method", [attribution.occlusion, attribution.lime, attribution.integrated_gradients]
)
def test_the_telling_tokens_are_found(pair, text, method):
    model, tokenizer = pair
    model.train()
    answer = method(model, tokenizer, text)
    assert model.training and not model.get_input_embeddings()._forward_post_hooks
    assert answer.label == ("好" in text) and answer.probability > 0.9
    assert "".join(answer.tokens) == text
    assert int(answer.scores.argmax()) in HINTS
    assert answer.scores[HINTS].sum() > 0.5 * np.abs(answer.scores).sum()
    again = method(model, tokenizer, text)
    assert np.array_equal(again.scores, answer.scores)
    other = method(model, tokenizer, text, label=1 - answer.label)
    np.testing.assert_allclose(other.scores, -answer.scores, atol=1e-3)  # two classes


def test_occlusion_is_what_the_score_loses(pair, text):
    model, tokenizer = pair
    answer, place = attribution.occlusion(model, tokenizer, text), HINTS[0]
    ids = np.array([answer.ids] * 2)
    ids[1, place + 1] = tokenizer.mask_token_id
    model.eval()
    logits = model(paddle.to_tensor(ids)).numpy().astype("float64")
    odds = logits[:, answer.label] - logits[:, 1 - answer.label]
    assert answer.scores[place] == pytest.approx(odds[0] - odds[1], abs=1e-4)
    missed = abs(answer.scores.sum() - (answer.score - answer.base))
    assert answer.error == pytest.approx(missed / abs(answer.score - answer.base))


def test_integrated_gradients_are_complete(pair, text):
    model, tokenizer = pair
    coarse, fine = (
        attribution.integrated_gradients(model, tokenizer, text, steps=steps) for steps in (2, 64)
    )
    assert fine.error < 0.03 and fine.error < coarse.error
    assert fine.scores.sum() == pytest.approx(fine.score - fine.base, rel=0.03)


def test_paddle_grad_is_wrong_without_the_gradients_of_layer_norm():
    """When this fails, Paddle is mended, and integrated_gradients may use paddle.grad."""
    norm, slopes = paddle.nn.LayerNorm(8), []
    norm.weight.set_value(paddle.arange(1, 9, dtype="float32"))
    numbers = np.random.RandomState(0).randn(4, 8).astype("float32")
    for way in ("grad", "backward"):
        values = paddle.to_tensor(numbers, stop_gradient=False)
        score = (upstream_layer_norm(norm, values) ** 2).sum()
        if way == "grad":
            slopes.append(paddle.grad(score, [values])[0].numpy())
        else:
            score.backward()
            slopes.append(values.grad.numpy())
    wrong = np.abs(slopes[0] - slopes[1]).max()
    assert wrong > 0.05 * np.abs(slopes[1]).max()


def test_deletion_curves_fall_faster_than_by_chance(pair, text):
    model, tokenizer = pair
    answer = attribution.lime(model, tokenizer, text)
    curves = {
        order: attribution.deletion_curve(model, tokenizer, answer, order)
        for order in ("for", "random", "against")
    }
    for curve in curves.values():
        assert len(curve) == len(text) + 1
        assert curve[0] == pytest.approx(answer.probability, abs=1e-5)
        assert curve[-1] == pytest.approx(1 / (1 + np.exp(-answer.base)), abs=1e-5)
    means = {order: curve.mean() for order, curve in curves.items()}
    assert means["for"] < means["random"] < means["against"]
    one = attribution.deletion_curve(model, tokenizer, answer, "random", draws=1)
    assert np.ptp(one) > 0 and not np.allclose(one, curves["random"])


@pytest.mark.parametrize("text", [" ", "\u200b", None, "今" * 300])
def test_what_has_no_tokens_or_too_many_is_refused(pair, text):
    with pytest.raises(InputError, match=r"text: (has 302 tokens|text 1 is empty)"):
        attribution.lime(*pair, text, max_seq_length=1000)


def test_no_scores_of_a_model_without_numbers(pair, text):
    model, tokenizer = runs.model_and_tokenizer()
    weight = model.get_input_embeddings().weight
    weight.set_value(paddle.full_like(weight, float("nan")))
    with pytest.raises(InputError, match="no numbers"):
        attribution.occlusion(model, tokenizer, text)


def test_gradients_are_found_where_the_caller_switched_them_off(pair, text):
    model, tokenizer = pair
    wanted = attribution.integrated_gradients(model, tokenizer, text, steps=4)
    with paddle.no_grad():
        answer = attribution.integrated_gradients(model, tokenizer, text, steps=4)
    np.testing.assert_allclose(answer.scores, wanted.scores)


# ---- answers about what goes on inside a model: each does what it says, and says what is wrong


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
