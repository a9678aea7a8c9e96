"""From texts to padded batches: convert, batchify, sample by length, load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..runtime import InputError, errors
from ..runtime.errors import one_of
from .tokens import remembered_ids, token_ids

import numpy as np
from paddle.io import BatchSampler, DataLoader
from paddlenlp.data import Pad, Stack, Tuple
from paddlenlp.datasets import MapDataset

MODES = ("train", "dev", "test")
BATCHING = ("grouped", "plain", "tokens")


def convert_example(
    example: dict[str, Any],
    tokenizer,
    max_seq_length: int = 128,
    is_test: bool = False,
    return_dict: bool = False,
) -> tuple | dict[str, Any]:
    """Turn one example into the ids a model reads.

    Args:
        example: `{"text": str, "label": int}`, or a pair, `{"sentence1": str,
            "sentence2": str, "label": int}`; no label is needed when `is_test`.
        tokenizer: any PaddleNLP tokenizer.
        max_seq_length: longer texts are cut, of a pair the longer one first; it counts tokens,
            [CLS] and [SEP] included.
        is_test: leave the label out.
        return_dict: give `{"input_ids", "token_type_ids"[, "labels"]}`, as a Trainer wants them.

    Returns:
        `(input_ids, token_type_ids, label)`: two lists of ints of one length and an np.int64, or
        the first two when `is_test`.

    Raises:
        InputError: `max_seq_length` leaves no room for a token between [CLS] and [SEP], or the
            label is not an index (0.8 would become 0).
    """
    errors.whole("max_seq_length", max_seq_length, 5 if "sentence1" in example else 3)
    if "sentence1" in example:
        fields = _pair_ids(example, tokenizer, max_seq_length)
    elif (ids := remembered_ids(example["text"], tokenizer)) is not None:
        input_ids = tokenizer.build_inputs_with_special_tokens(ids[: max_seq_length - 2])
        fields = {"input_ids": input_ids, "token_type_ids": [0] * len(input_ids)}
    else:
        options = {"truncation": True, "return_token_type_ids": True}
        encoded = tokenizer(example["text"], max_length=max_seq_length, **options)
        fields = {name: encoded[name] for name in ("input_ids", "token_type_ids")}
    if not is_test:
        fields["labels"] = np.int64(errors.whole("label", example["label"], 0))
    return fields if return_dict else tuple(fields.values())


def _pair_ids(example: dict[str, Any], tokenizer, max_seq_length: int) -> dict[str, Any]:
    """`[CLS] sentence1 [SEP] sentence2 [SEP]`, whose types are 1 after the first [SEP]."""
    first, second = (token_ids(example[key], tokenizer) for key in ("sentence1", "sentence2"))
    # What truncation="longest_first" does; but that warns at every pair that it cuts.
    while len(first) + len(second) > max_seq_length - 3:
        (first if len(first) > len(second) else second).pop()
    return {
        "input_ids": tokenizer.build_inputs_with_special_tokens(first, second),
        "token_type_ids": tokenizer.create_token_type_ids_from_sequences(first, second),
    }


def batchify_fn(tokenizer, is_test: bool = False) -> Callable:
    """Make the function that pads and stacks a list of `convert_example` results.

    Returns:
        A callable: list of N examples -> `(input_ids [N, L], token_type_ids [N, L], labels [N])`,
        int64 arrays, L the longest of these N; without labels when `is_test`.
    """
    columns = padded_columns(tokenizer)
    if not is_test:
        columns["labels"] = Stack(dtype="int64")
    return Tuple(*columns.values())


def padded_columns(tokenizer) -> dict[str, Callable]:
    """What pads the ids and types of a batch, by their names."""
    return {
        "input_ids": Pad(axis=0, pad_val=tokenizer.pad_token_id, dtype="int64"),
        "token_type_ids": Pad(axis=0, pad_val=tokenizer.pad_token_type_id, dtype="int64"),
    }


def map_by_length(
    function: Callable[[list], Iterable],
    rows: Sequence,
    batch_size: int,
    length: Callable[[Any], int] = len,
) -> list:
    """Call a function on batches of rows of similar length, which saves padding.

    Args:
        function: takes a list of at most `batch_size` rows; returns one result per row.
        length: of a row.

    Returns:
        The results, in the order of `rows`.
    """
    errors.whole("batch_size", batch_size, 1)
    order = sorted(range(len(rows)), key=lambda index: length(rows[index]))
    results: list = [None] * len(rows)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        for index, result in zip(chosen, function([rows[i] for i in chosen]), strict=True):
            results[index] = result
    return results


class ResumableBatchSampler(BatchSampler):
    """What the samplers below have in common: epochs, resuming, and several replicas.

    The batches depend on the arguments and the epoch alone. `set_epoch(epoch, start_batch)`
    chooses the epoch and skips batches already used, for resuming in its middle. An iteration that
    runs to its end moves the sampler on to the next epoch. A DataLoader reads ahead, so the code
    that consumes the batches must count them, to save a position.

    **Replicas.** In training on several processes, the samplers differ in `rank` only. What all
    processes read together in one step is a *global batch*; rank r takes its rows r,
    r + num_replicas, r + 2 * num_replicas, ..., so that lengths are alike and numbers of rows
    differ by one at most. All replicas get the same number of batches, none of them empty, and
    together each index exactly once (paddle's DistributedBatchSampler repeats some). Where the rows
    of a global batch cannot be dealt out evenly, a mean of the replicas' means is not the mean of
    the batch.

    Args:
        lengths: tokens of each example.
        shuffle, seed: of the order; `RandomState([seed, epoch])` draws it.
        pool_batches: how much is shuffled before it is sorted by length, see the samplers.
        num_replicas: processes that share the epoch.
        rank: this one, from 0.

    Raises:
        InputError: there are fewer examples than replicas, the rank is not one of them, or
            `pool_batches` is below 1, which would give no batches.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        shuffle: bool,
        seed: int,
        pool_batches: int,
        num_replicas: int = 1,
        rank: int = 0,
    ) -> None:
        if not 0 <= rank < num_replicas:
            raise InputError("rank", f"is {rank}", f"0 to {num_replicas - 1}")
        if len(lengths) < num_replicas:
            problem = f"has {len(lengths)} for {num_replicas} replicas"
            raise InputError("lengths", problem, "at least one example for each replica")
        errors.whole("pool_batches", pool_batches, 1)
        self.lengths = np.asarray(lengths).astype(np.int64)  # sorted by -length: signed
        self.seed, self.shuffle, self.pool_batches = seed, shuffle, pool_batches
        self.num_replicas, self.rank = num_replicas, rank
        self.epoch = self.start_batch = 0

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        """Cut the indices, in random order when shuffling, into global batches."""
        raise NotImplementedError

    def _pools(self, order: np.ndarray, rows: int) -> Iterator[np.ndarray]:
        """`pool_batches` x `rows` indices at a time, or all without shuffling, longest first."""
        size = self.pool_batches * rows if self.shuffle else len(self.lengths)
        for start in range(0, len(order), size):
            pool = order[start : start + size]
            yield pool[np.argsort(-self.lengths[pool], kind="stable")]

    def set_epoch(self, epoch: int, start_batch: int = 0) -> None:
        """Let the next iteration give epoch `epoch` from its batch `start_batch` (0-based) on."""
        if start_batch and start_batch > (count := self.count(epoch)):
            problem = f"is {start_batch}, but epoch {epoch} has {count} batches"
            raise InputError("start_batch", problem, "the position in an epoch of the same data")
        self.epoch, self.start_batch = epoch, start_batch

    def global_batches(self, epoch: int | None = None) -> list[list[int]]:
        """What all replicas read together in each step of an epoch (by default the coming one)."""
        order = np.arange(len(self.lengths))
        if not self.shuffle:
            return [batch.tolist() for batch in self._cut(order)]
        random = np.random.RandomState([self.seed, self.epoch if epoch is None else epoch])
        batches = self._cut(random.permutation(order))
        return [batches[index].tolist() for index in random.permutation(len(batches))]

    def batches(self, epoch: int | None = None) -> list[list[int]]:
        """This replica's batches of an epoch (by default the coming one) as lists of indices."""
        return [batch[self.rank :: self.num_replicas] for batch in self.global_batches(epoch)]

    def count(self, epoch: int) -> int:
        """Batches in an epoch; it is drawn for that, so a loop asks once an epoch."""
        return len(self.global_batches(epoch))

    def restore(self, results: Sequence) -> list:
        """Put results that came in the order of the batches back into the order of the data.

        Only for a sampler that does not shuffle and gives every example by itself; else a
        ValueError is raised.
        """
        order = [index for batch in self.batches() for index in batch]
        if self.shuffle or len(results) != len(self.lengths) or len(order) != len(results):
            raise ValueError("restore needs one result for each example, in an unshuffled order")
        return [results[place] for place in np.argsort(order)]

    def __iter__(self) -> Iterator[list[int]]:
        epoch = self.epoch
        yield from self.batches()[self.start_batch :]
        if self.epoch == epoch:  # set_epoch has not been called meanwhile
            self.epoch, self.start_batch = epoch + 1, 0

    def __len__(self) -> int:
        """Batches in the whole coming epoch, whatever `start_batch` is."""
        return self.count(self.epoch)


class LengthGroupedBatchSampler(ResumableBatchSampler):
    """Batches of examples of similar length, so that little is padded, in random order.

    With `shuffle`, an epoch is a random permutation of all examples, cut into pools of
    `pool_batches` batches. Each pool is sorted by length (equal lengths stay in random order) and
    cut into batches; then all batches are put in random order. The partners of an example change
    every epoch, and a batch's place in the epoch says nothing about its length. Unlike in a plain
    shuffle, lengths within a batch are alike; where the label depends on the length, labels are,
    too. A smaller `pool_batches` mixes more and pads more; 1 is a plain shuffle.

    Without `shuffle`, all examples are sorted by length, longest first, so that a batch that does
    not fit into memory shows at once; `restore` puts results back into the order of the data.

    R replicas with batches of B read together, step by step, what one process with batches of
    B * R reads. One exception: when the last global batch has fewer rows than there are replicas,
    these join the global batch before, where some replicas then have B + 1 rows.

    Args:
        lengths: tokens of each example; all equal gives batches without grouping.
        batch_size: examples a batch of one replica; the last one may be smaller.
        shuffle, seed, num_replicas, rank: see `ResumableBatchSampler`.
        drop_last: leave out the examples that do not fill a global batch (chosen at random every
            epoch when shuffling, else the shortest).
        pool_batches: global batches a pool.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int,
        shuffle: bool = True,
        seed: int = 42,
        drop_last: bool = False,
        pool_batches: int = 50,
        num_replicas: int = 1,
        rank: int = 0,
    ) -> None:
        super().__init__(lengths, shuffle, seed, pool_batches, num_replicas, rank)
        self.batch_size = errors.whole("batch_size", batch_size, 1)
        self.drop_last = drop_last

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        rows = self.batch_size * self.num_replicas
        if self.drop_last and self.shuffle:
            order = order[: len(order) - len(order) % rows]
        batches: list[np.ndarray] = []
        for pool in self._pools(order, rows):
            batches += [pool[first : first + rows] for first in range(0, len(pool), rows)]
        if self.drop_last and batches and len(batches[-1]) < rows:
            batches.pop()
        if batches and len(batches[-1]) < self.num_replicas:
            batches[-2:] = [np.concatenate(batches[-2:])]
        return batches


class TokenBudgetBatchSampler(ResumableBatchSampler):
    """Batches of similar length with as many rows as a budget of tokens allows.

    Time and memory grow with a batch's padded tokens. Here they are bounded: length of the longest
    example x rows <= `max_tokens`. So a batch has few long examples or many short ones, and all
    batches cost about the same.

    Pools, order and `restore` are as with `LengthGroupedBatchSampler`. Two things differ. Where the
    loss is a mean over the batch, an example in a batch of few rows counts more. And the number of
    batches changes a little from epoch to epoch: `len(sampler)` is that of the coming epoch,
    `count(epoch)` that of any.

    Args:
        lengths: tokens of each example, at least 1.
        max_tokens: padded tokens of a batch.
        shuffle, seed: see `ResumableBatchSampler`.
        pool_batches: a pool holds as many examples as so many batches of examples of mean length.

    Raises:
        InputError: an example has no token, or more than `max_tokens`: a batch would have no end,
            or no row.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        max_tokens: int,
        shuffle: bool = True,
        seed: int = 42,
        pool_batches: int = 50,
    ) -> None:
        super().__init__(lengths, shuffle, seed, pool_batches)
        self.max_tokens = max_tokens
        if self.lengths.min() < 1:
            problem = f"example {self.lengths.argmin()} has no token"
            raise InputError("lengths", problem, "at least 1, or the budget bounds nothing")
        longest = int(self.lengths.argmax())
        if self.lengths[longest] > max_tokens:
            problem = f"is {max_tokens}, but example {longest} has {self.lengths[longest]} tokens"
            raise InputError("max_tokens", problem, "at least that, or a lower max_seq_length")

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        batches = []
        for pool in self._pools(order, max(1, int(self.max_tokens / self.lengths.mean()))):
            first = 0
            while first < len(pool):
                height = self.max_tokens // self.lengths[pool[first]]
                batches.append(pool[first : first + height])
                first += height
        return batches


def create_dataloader(
    dataset: MapDataset,
    tokenizer,
    mode: str = "train",
    batch_size: int = 32,
    max_seq_length: int = 128,
    batching: str = "grouped",
    max_tokens: int | None = None,
    seed: int = 42,
    num_workers: int = 0,
) -> DataLoader:
    """Tokenize a dataset once and give it in padded batches.

    The dataset passed in stays as it is: the loader holds a new MapDataset of ids
    (`loader.dataset`, with the same label_list). Its sampler is `loader.batch_sampler`.

    Args:
        dataset: examples as for `convert_example`; where the first has no label, none are given
            out.
        tokenizer: any PaddleNLP tokenizer.
        mode: "train" shuffles; call `loader.batch_sampler.set_epoch(epoch)` before each epoch.
            "dev" and "test" do not shuffle, and `loader.batch_sampler.restore(results)` puts one
            result per example back into the order of `dataset`.
        batch_size: examples a batch; not looked at when `batching` is "tokens".
        max_seq_length: tokens; longer texts are cut.
        batching: "grouped", batches of similar length; "plain", a plain shuffle, or the data's
            order; "tokens", batches of similar length with at most `max_tokens` padded tokens.
        max_tokens: for "tokens" only.
        seed: of the shuffle.
        num_workers: processes that build batches; 0 is fastest here, the ids being ready.

    Returns:
        A DataLoader of tuples of int64 tensors `(input_ids [N, L], token_type_ids [N, L])` and,
        where there are labels, `labels [N]`.

    Raises:
        InputError: the dataset is empty or of another task, `mode` or `batching` is another word,
            or `max_tokens` is missing for "tokens" or given for another `batching`.
    """
    # A misspelled word would only change the order, without a message.
    one_of("mode", mode, MODES)
    one_of("batching", batching, BATCHING)
    if (max_tokens is None) == (batching == "tokens"):
        problem = f"is {max_tokens} with batching {batching!r}"
        raise InputError("max_tokens", problem, 'a number with batching "tokens", else None')
    if len(dataset) == 0:
        raise InputError("dataset", "is empty", "at least one example")
    first = dataset[0]
    if "text" not in first and "sentence1" not in first:
        problem = f"its examples have {', '.join(first)}"
        expected = "texts or pairs; of other tasks course_lib.training.TASKS[...].features"
        raise InputError("dataset", problem, expected)
    is_test = "label" not in first
    features = MapDataset(
        [convert_example(example, tokenizer, max_seq_length, is_test) for example in dataset],
        label_list=getattr(dataset, "label_list", None),
    )
    lengths = [len(feature[0]) for feature in features]
    if max_tokens is not None:
        sampler: ResumableBatchSampler = TokenBudgetBatchSampler(
            lengths, max_tokens, mode == "train", seed
        )
    else:
        if batching == "plain":
            lengths = [0] * len(features)
        sampler = LengthGroupedBatchSampler(lengths, batch_size, mode == "train", seed)
    return DataLoader(
        features,
        batch_sampler=sampler,
        collate_fn=batchify_fn(tokenizer, is_test),
        num_workers=num_workers,
        return_list=True,
    )
