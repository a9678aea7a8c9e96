"""Answers about what goes on inside a model: each does what it says, and says what is wrong."""

from __future__ import annotations

import json

from course_lib.notebook.visual_logs import read_scalars
from course_lib.runtime import InputError
from course_lib.tasks.explain import hooks
from course_lib.training import create_optimizer
from course_lib.training.checkpoint import model_arrays

import numpy as np
import paddle
import pytest
import training_runs as runs
from visualdl import LogWriter


@pytest.fixture(scope="module")
def pair():
    return runs.trained_pair()


@pytest.fixture
def fresh():
    return runs.model_and_tokenizer()[0]


@pytest.fixture(scope="module")
def batch(pair):
    return next(iter(runs.loaders(pair[1], 4, 4)[0]))[:2]


# ---- states and attention


def test_states_are_those_of_paddlenlp_and_the_hooks_go(pair, batch):
    model, _ = pair
    states = hooks.hidden_states(model, *batch)
    model.eval()
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


def test_attention_is_that_of_paddlenlp_and_leaves_padding_out(pair, batch):
    model, tokenizer = pair
    maps = hooks.attention_maps(model, *batch)
    length = batch[0].shape[1]
    assert maps.shape == (2, 4, 2, length, length)
    model.eval()
    theirs = model(*batch, output_attentions=True, return_dict=True).attentions
    np.testing.assert_allclose(maps, np.stack([one.numpy() for one in theirs]), atol=1e-6)
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)
    padded = batch[0].numpy() == tokenizer.pad_token_id
    assert padded.any() and maps.transpose(1, 4, 0, 2, 3)[padded].max() < 1e-6


@pytest.mark.upstream
def test_need_weights_set_by_hand_is_undone_upstream(fresh, batch):
    fresh.ernie.encoder.layers[0].self_attn.need_weights = True
    fresh(*batch)
    assert not fresh.ernie.encoder.layers[0].self_attn.need_weights, "mended: simplify the docs"


def test_attention_that_is_computed_otherwise_is_noticed(fresh, batch):
    attention = fresh.ernie.encoder.layers[1].self_attn
    scale = type(attention).forward

    def other(query, *arguments, **options):
        return 2 * scale(attention, query, *arguments, **options)

    attention.forward = other
    with pytest.raises(InputError, match="output of layer 2 is"):
        hooks.attention_maps(fresh, *batch)
    assert not attention._forward_post_hooks


# ---- parameters


def test_a_parameter_gets_other_numbers_in_place(fresh, batch):
    optimizer, _ = create_optimizer(fresh, 1e-2, 5, warmup=0)
    bias = fresh.classifier.bias
    hooks.set_parameter(fresh, "classifier.bias", [3.0, -3.0])
    assert fresh.classifier.bias is bias and bias.numpy().tolist() == [3, -3]
    fresh.eval()
    assert (fresh(*batch).argmax(-1).numpy() == 0).all()
    fresh(*batch)[:, 1].sum().backward()
    optimizer.step()
    assert bias.numpy()[0] == 3 and bias.numpy()[1] < -3, "the optimizer still knows it"
    before = model_arrays(fresh)
    for name, value, words in (
        ("bias", [1, 2], "no parameter"),
        ("classifier.bias", [1, 2, 3], r"has shape \[3\]; expected \[2\]"),
        ("classifier.bias", [1, np.nan], "not finite"),
    ):
        with pytest.raises(InputError, match=words):
            hooks.set_parameter(fresh, name, value)
    assert all(np.array_equal(before[n], v) for n, v in model_arrays(fresh).items())


def test_a_parameter_of_ones_own_is_trained_and_saved():
    layer = paddle.nn.Linear(2, 2)
    scale = hooks.create_parameter(layer, "scale", [[1.0, 2.0]])
    hooks.create_parameter(layer, "fixed", 0.5, trained=False)
    assert layer.state_dict()["scale"].numpy().tolist() == [[1, 2]]
    optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    ((layer(paddle.ones([1, 2])) * layer.scale * layer.fixed) ** 2).sum().backward()
    optimizer.step()
    assert scale.numpy().tolist() != [[1, 2]] and layer.fixed.numpy().tolist() == [0.5]
    with pytest.raises(InputError, match="taken by Linear"):
        hooks.create_parameter(layer, "weight", 1.0)


# ---- VisualDL


def test_the_graph_is_written_and_the_model_stays_as_it_is(tmp_path):
    model = runs.model_and_tokenizer(num_hidden_layers=1)[0]
    names = [layer.full_name() for layer in model.sublayers(True)]
    with LogWriter(logdir=str(tmp_path)) as writer:
        writer.add_scalar(tag="train/loss", value=0.9, step=1)
    (curves,) = tmp_path.iterdir()
    curves.rename(tmp_path / "vdlrecords.0000000001.log")  # VisualDL counts seconds in these names
    graph = json.loads(hooks.log_graph(tmp_path, model).read_text())
    assert read_scalars(tmp_path)["value"].tolist() == pytest.approx([0.9])
    assert any("MultiHeadAttention" in node["name"] for node in graph["nodes"])
    assert model.training and "forward" not in vars(model)
    assert [layer.full_name() for layer in model.sublayers(True)] == names
    assert not any(layer._forward_pre_hooks for layer in model.sublayers(True))
    with pytest.raises(InputError, match="gives no graph"):
        hooks.log_graph(tmp_path, paddle.nn.Linear(2, 2))
