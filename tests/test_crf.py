"""A CRF whose loss is a likelihood."""

from __future__ import annotations

import itertools

import course_lib  # noqa: F401
from course_lib.tasks.tagging import Crf

import numpy as np
import paddle
import pytest
from paddlenlp.layers import LinearChainCrf, ViterbiDecoder


def scored(crf, emissions, length):
    """Every row of labels with its score, by counting."""
    table = crf.transitions.numpy()
    rows = {}
    for row in itertools.product(range(crf.num_tags), repeat=length):
        emitted = sum(emissions[place, label] for place, label in enumerate(row))
        rows[row] = emitted + sum(table[pair] for pair in itertools.pairwise(row))
    return rows


@pytest.fixture
def small():
    paddle.seed(1)
    crf = Crf(3)
    crf.transitions.set_value(paddle.randn([3, 3]))
    return crf, paddle.randn([2, 4, 3]), paddle.to_tensor([4, 2]), [[0, 2, 1, 1], [2, 0, 0, 0]]


def test_the_loss_of_a_crf_is_a_likelihood_and_its_decoder_finds_the_best_row(small):
    crf, emissions, lengths, labels = small
    losses = crf.loss(emissions, lengths, paddle.to_tensor(labels)).numpy()
    decoded = crf.decode(emissions, lengths)
    for number, length in enumerate(lengths.tolist()):
        rows = scored(crf, emissions.numpy()[number], length)
        total = np.log(np.sum(np.exp(list(rows.values()))))
        gold = rows[tuple(labels[number][:length])]
        assert losses[number] == pytest.approx(total - gold, abs=1e-4)
        assert tuple(decoded.tolist()[number][:length]) == max(rows, key=rows.get)
    _, theirs = ViterbiDecoder(crf.transitions, with_start_stop_tag=False)(emissions, lengths)
    assert theirs.tolist() == decoded.tolist()


def test_padding_and_its_labels_do_not_count(small):
    crf, emissions, lengths, labels = small
    before = crf.loss(emissions, lengths, paddle.to_tensor(labels))
    emissions[1, 2:] = 50.0
    labels[1][2:] = [1, 2]
    after = crf.loss(emissions, lengths, paddle.to_tensor(labels))
    assert np.allclose(before.numpy(), after.numpy(), atol=1e-5)


@pytest.mark.upstream
def test_upstream_still_normalises_with_the_transitions_the_other_way_round(small):
    """When this fails, `Crf.forward` can go."""
    crf, emissions, lengths, _ = small
    upstream = LinearChainCrf(3, with_start_stop_tag=False)
    upstream.transitions.set_value(crf.transitions)
    assert not np.allclose(upstream(emissions, lengths).numpy(), crf(emissions, lengths).numpy())
    upstream.transitions.set_value(crf.transitions.t())
    assert np.allclose(
        upstream(emissions, lengths).numpy(), crf(emissions, lengths).numpy(), atol=1e-4
    )


def test_a_new_crf_changes_nothing(small):
    _, emissions, lengths, _ = small
    decoded = Crf(3).decode(emissions, lengths)
    assert decoded.tolist()[0] == emissions.argmax(-1).tolist()[0]
