"""Conversion, batchify, the length-grouped sampler and the loader."""

import copy
import itertools
import random

import course_lib  # noqa: F401 - before paddle
from course_lib.data import (
    LengthGroupedBatchSampler,
    TokenBudgetBatchSampler,
    batchify_fn,
    convert_example,
    create_dataloader,
)
from course_lib.runtime import InputError

import numpy as np
import paddle
import pytest
from paddlenlp.datasets import MapDataset

LETTERS = "好坏房间屏幕书内容很不干净吵的"


@pytest.fixture(scope="module")
def tokenizer(make_tokenizer):
    return make_tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS])


def reviews(count, seed=0, longest=40):
    rng = random.Random(seed)
    rows = [
        {"text": "".join(rng.choices(LETTERS, k=rng.randint(1, longest))), "label": index % 2}
        for index in range(count)
    ]
    return MapDataset(rows, label_list=["negative", "positive"])


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


def padding(lengths, batches):
    """Padded tokens of all batches for each real token."""
    return sum(len(b) * max(lengths[i] for i in b) for b in batches) / sum(lengths)


# --- convert and batchify ---------------------------------------------------------------------


def test_batchify_pads_with_the_tokenizers_id_and_keeps_the_labels(tokenizer):
    rows = [{"text": "好", "label": 1}, {"text": "好坏好", "label": 0}]
    ids, types, labels = batchify_fn(tokenizer)([convert_example(row, tokenizer) for row in rows])
    assert ids.tolist()[0][3:] == [tokenizer.pad_token_id] * 2
    assert ids.shape == types.shape == (2, 5) and labels.tolist() == [1, 0]
    assert {array.dtype for array in (ids, types, labels)} == {np.dtype("int64")}


# --- the sampler ------------------------------------------------------------------------------

SIZES = [(count, batch) for count in (1, 31, 33, 700) for batch in (1, 7, 32)]


@pytest.mark.parametrize(("count", "batch_size"), SIZES)
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_every_index_comes_once_an_epoch(count, batch_size, shuffle, drop_last):
    lengths = np.random.RandomState(count).randint(3, 128, count)
    sampler = LengthGroupedBatchSampler(
        lengths, batch_size, shuffle, drop_last=drop_last, pool_batches=5
    )
    for epoch in range(3):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        indices = flat(batches)
        kept = count - count % batch_size if drop_last else count
        assert len(indices) == len(set(indices)) == kept
        assert set(indices) <= set(range(count))
        assert len(batches) == len(sampler)
        sizes = sorted({len(batch) for batch in batches}, reverse=True)
        assert sizes in ([], [batch_size], [batch_size, count % batch_size], [count % batch_size])


@pytest.mark.parametrize("seed", range(5))
def test_batches_depend_on_seed_and_epoch_alone(seed):
    lengths = np.random.RandomState(seed).randint(3, 128, 1000)
    one = LengthGroupedBatchSampler(lengths, 16, seed=seed)
    other = LengthGroupedBatchSampler(lengths, 16, seed=seed)
    epochs = [one.batches(epoch) for epoch in range(4)]
    np.random.seed(1)
    random.seed(1)
    other.set_epoch(2)
    assert list(other) == epochs[2]
    assert all(left != right for left, right in itertools.combinations(epochs, 2))
    assert LengthGroupedBatchSampler(lengths, 16, seed=seed + 1).batches(0) != epochs[0]


@pytest.mark.parametrize("start", [0, 1, 20, 62, 63])
def test_an_epoch_can_be_resumed_at_any_batch(start):
    sampler = LengthGroupedBatchSampler(range(1000), 16)
    next(iter(sampler))  # a broken pass does not move on
    assert list(sampler) == sampler.batches(0) and sampler.epoch == 1
    whole = sampler.batches(3)
    sampler.set_epoch(3, start_batch=start)
    assert len(sampler) == 63
    assert list(sampler) == whole[start:]
    assert list(sampler) == sampler.batches(4)


def test_grouping_saves_padding_and_mixes_partners():
    # Lengths like those of the reviews: many short, a long tail.
    lengths = np.minimum(np.random.RandomState(0).lognormal(3.8, 0.9, 6400).astype(int) + 3, 128)
    sampler = LengthGroupedBatchSampler(lengths, 32)
    plain = LengthGroupedBatchSampler(np.zeros(6400, int), 32)
    assert padding(lengths, sampler.batches()) < 1.1
    assert padding(lengths, plain.batches()) > 1.6
    correlations, shared = [], []
    before = pairs(sampler.batches(20))
    for epoch in range(20):
        batches = sampler.batches(epoch)
        means = [lengths[batch].mean() for batch in batches]
        correlations.append(np.corrcoef(range(len(batches)), means)[0, 1])
        together = pairs(batches)
        shared.append(len(together & before) / len(before))
        before = together
    # A batch's place says nothing about its length: 200 batches give a standard error of 0.07.
    assert abs(np.mean(correlations)) < 0.05
    assert max(map(abs, correlations)) < 0.25
    # Partners change: of the pairs in one batch, few are together again in the next epoch.
    assert np.mean(shared) < 0.15


def pairs(batches):
    return {pair for batch in batches for pair in itertools.combinations(sorted(batch), 2)}


# --- the loader -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["train", "dev", "test"])
@pytest.mark.parametrize("batching", ["grouped", "plain"])
def test_loader_gives_every_example_and_leaves_the_dataset_alone(tokenizer, mode, batching):
    dataset = reviews(100)
    before = copy.deepcopy(dataset.data)
    loader = create_dataloader(dataset, tokenizer, mode, 16, batching=batching)
    batches = list(loader)
    assert len(batches) == len(loader) == 7
    assert all(isinstance(field, paddle.Tensor) for batch in batches for field in batch)
    assert dataset.data == before and dataset[0] == before[0]
    assert loader.dataset is not dataset and loader.dataset.label_list == dataset.label_list

    seen = [ids[ids != 0].tolist() for batch in batches for ids in batch[0].numpy()]
    labels = flat(batch[2].tolist() for batch in batches)
    texts = [convert_example(row, tokenizer) for row in before]
    expected = [(ids, int(label)) for ids, _, label in texts]
    assert sorted(zip(seen, labels, strict=True)) == sorted(expected)
    if mode != "train":
        restored = loader.batch_sampler.restore(list(zip(seen, labels, strict=True)))
        assert restored == expected
    if batching == "plain" and mode != "train":
        assert list(zip(seen, labels, strict=True)) == expected


# --- several replicas, and a budget of tokens -------------------------------------------------


def random_lengths(seed, longest=60):
    rng = np.random.RandomState(seed)
    return np.minimum(rng.lognormal(2.5, 1, rng.randint(20, 400)).astype(int) + 1, longest)


def replicas(lengths, size, count, **options):
    return [
        LengthGroupedBatchSampler(lengths, size, num_replicas=count, rank=rank, **options)
        for rank in range(count)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_replicas_share_an_epoch(count, shuffle, seed):
    lengths = random_lengths(seed)
    samplers = replicas(lengths, 8, count, shuffle=shuffle, seed=seed, pool_batches=3)
    for epoch in range(3):
        shares = [sampler.batches(epoch) for sampler in samplers]
        assert sorted(flat(flat(shares))) == list(range(len(lengths)))
        assert {len(share) for share in shares} == {samplers[0].count(epoch)}
        steps = list(zip(*shares, strict=True))
        for step, together in zip(steps, samplers[0].global_batches(epoch), strict=True):
            rows = [len(part) for part in step]
            assert min(rows) >= 1 and max(rows) - min(rows) <= 1
            assert sorted(flat(step)) == sorted(together)
            assert max(rows) <= 8 + 1


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("examples", [48, 100, 241, 335])
def test_replicas_read_what_one_process_reads(count, drop_last, examples):
    lengths = np.random.RandomState(examples).randint(1, 90, examples)
    options = {"pool_batches": 3, "drop_last": drop_last}
    one = LengthGroupedBatchSampler(lengths, 4 * count, **options)
    samplers = replicas(lengths, 4, count, **options)
    for epoch in range(2):
        together = samplers[0].global_batches(epoch)
        if 0 < examples % (4 * count) < count and not drop_last:
            assert len(together) == one.count(epoch) - 1  # too few rows for a step of their own
            assert sorted(map(len, together))[-1] == 4 * count + examples % (4 * count)
        else:
            assert together == one.batches(epoch)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_budget_bounds_every_batch_of_an_epoch(shuffle, seed):
    lengths = random_lengths(seed)
    sampler = TokenBudgetBatchSampler(lengths, 130, shuffle, seed, pool_batches=3)
    for epoch in range(3):
        batches = sampler.batches(epoch)
        assert sorted(flat(batches)) == list(range(len(lengths)))
        assert all(len(batch) * max(lengths[batch]) <= 130 for batch in batches)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: TokenBudgetBatchSampler([3, 9], 8), "max_tokens: is 8, but example 1 has 9"),
        (lambda t: TokenBudgetBatchSampler([3, 0], 8), "lengths: example 1 has no token"),
        (lambda t: LengthGroupedBatchSampler([8], 8, num_replicas=2), "lengths: has 1 for 2"),
        (lambda t: LengthGroupedBatchSampler([8] * 4, 8, num_replicas=2, rank=2), "rank: is 2"),
        (lambda t: LengthGroupedBatchSampler([8], 0), "batch_size: is 0"),
        (lambda t: LengthGroupedBatchSampler([8] * 4, 2).set_epoch(1, 3), "start_batch: is 3, but"),
        (lambda t: convert_example({"text": "好"}, t, 2), "max_seq_length: is .*at least 3"),
        (lambda t: create_dataloader(reviews(4), t, max_seq_length=0), "max_seq_length: is "),
        (lambda t: create_dataloader(reviews(4), t, "eval"), "mode: is 'eval'; expected one of"),
        (lambda t: create_dataloader(reviews(4), t, batching="best"), "batching: is 'best'"),
        (lambda t: create_dataloader(MapDataset([]), t), "dataset: is empty"),
    ],
)
def test_what_cannot_be_dealt_out_is_refused(tokenizer, call, message):
    with pytest.raises(InputError, match=f"^{message}"):
        call(tokenizer)


def test_restore_refuses_what_it_cannot_put_back():
    shuffled, short = (LengthGroupedBatchSampler([1, 2], 8, shuffle=s) for s in (True, False))
    cut = LengthGroupedBatchSampler([1, 2, 3], 2, shuffle=False, drop_last=True)
    half = LengthGroupedBatchSampler([1, 2], 1, shuffle=False, num_replicas=2)
    for sampler, results in ((shuffled, [1, 2]), (short, [1]), (cut, [1, 2, 3]), (half, [1, 2])):
        with pytest.raises(ValueError, match="restore needs one result for each example"):
            sampler.restore(results)
