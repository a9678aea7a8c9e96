"""From texts to padded batches: convert, batchify, sample by length, load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from course_lib.runtime import InputError

import numpy as np
from paddle.io import BatchSampler, DataLoader
from paddlenlp.data import Dict, Pad, Stack, Tuple
from paddlenlp.datasets import MapDataset

MODES = ("train", "dev", "test")


def convert_example(
    example: dict[str, Any],
    tokenizer,
    max_seq_length: int = 128,
    is_test: bool = False,
    return_dict: bool = False,
) -> tuple | dict[str, Any]:
    """Turn one example into the ids a model reads.

    Args:
        example: `{"text": str, "label": int}`; no label is needed when `is_test`.
        tokenizer: any PaddleNLP tokenizer.
        max_seq_length: longer texts are cut; it counts tokens, [CLS] and [SEP] included.
        is_test: leave the label out.
        return_dict: give `{"input_ids", "token_type_ids"[, "labels"]}` for `dict_batchify_fn`.

    Returns:
        `(input_ids, token_type_ids, label)`: two lists of ints of one length and an np.int64, or
        the first two when `is_test`.

    Raises:
        InputError: `max_seq_length` leaves no room for a token between [CLS] and [SEP].
    """
    if not isinstance(max_seq_length, int) or max_seq_length < 3:
        raise InputError(
            "max_seq_length", f"is {max_seq_length!r}", "a whole number of at least 3 tokens"
        )
    encoded = tokenizer(
        example["text"], max_length=max_seq_length, truncation=True, return_token_type_ids=True
    )
    fields = {"input_ids": encoded["input_ids"], "token_type_ids": encoded["token_type_ids"]}
    if not is_test:
        fields["labels"] = np.int64(example["label"])
    return fields if return_dict else tuple(fields.values())


def batchify_fn(tokenizer, is_test: bool = False) -> Callable[[list[tuple]], tuple]:
    """Make the function that pads and stacks a list of `convert_example` tuples.

    Returns:
        A callable: list of N examples -> `(input_ids [N, L], token_type_ids [N, L], labels [N])`,
        int64 arrays, L the longest of these N; without labels when `is_test`.
    """
    return Tuple(*_columns(tokenizer, is_test).values())


def dict_batchify_fn(tokenizer, is_test: bool = False) -> Callable[[list[dict]], tuple]:
    """The same as `batchify_fn` for examples that are dicts (`return_dict=True`).

    PaddleNLP's Dict takes dicts but gives a tuple, in the order of its keys.
    """
    return Dict(_columns(tokenizer, is_test))


def _columns(tokenizer, is_test: bool) -> dict[str, Callable]:
    columns = {
        "input_ids": Pad(axis=0, pad_val=tokenizer.pad_token_id, dtype="int64"),
        "token_type_ids": Pad(axis=0, pad_val=tokenizer.pad_token_type_id, dtype="int64"),
    }
    if not is_test:
        columns["labels"] = Stack(dtype="int64")
    return columns


class LengthGroupedBatchSampler(BatchSampler):
    """Batches of examples of like length, so that little is padded, in an order that is random.

    With `shuffle`, an epoch is a random permutation of all examples, cut into pools of
    `pool_batches` batches; each pool is sorted by length (equal lengths stay in random order) and
    cut into batches, and then the batches of all pools are put in random order. So an example
    meets others of its pool with about its length: which ones changes every epoch, and a batch's
    place in the epoch says nothing about its length. What is lost against a plain shuffle is the
    mix of lengths within a batch; where the label depends on the length, so does the mix of
    labels. A smaller `pool_batches` gives more of that mix and more padding; 1 is a plain shuffle.

    Without `shuffle`, all examples are sorted by length, longest first, so that a batch that does
    not fit into memory shows at once; `restore` puts results back into the order of the data.

    The batches depend on (seed, epoch) alone. `set_epoch(epoch, start_batch)` chooses the epoch
    and skips batches already used, for resuming in its middle; when an iteration has run to its
    end, the sampler moves on to the beginning of the next epoch by itself. Because a DataLoader
    reads ahead, a position to be saved must be counted by who consumes the batches.

    Args:
        lengths: tokens of each example; all equal gives batches without grouping.
        batch_size: examples a batch; the last one may be smaller.
        shuffle, seed: see above.
        drop_last: leave out the `len(lengths) % batch_size` examples that do not fill a batch
            (chosen at random every epoch when shuffling, else the shortest).
        pool_batches: batches a pool.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int,
        shuffle: bool = True,
        seed: int = 42,
        drop_last: bool = False,
        pool_batches: int = 50,
    ) -> None:
        if len(lengths) == 0:
            raise ValueError("lengths is empty; expected the length of at least one example")
        for name, value in (("batch_size", batch_size), ("pool_batches", pool_batches)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}; expected a whole number of at least 1")
        if not isinstance(seed, int) or not 0 <= seed < 2**32:  # else every epoch would raise
            raise InputError("seed", f"is {seed!r}", "a whole number from 0 to 2**32 - 1")
        self.lengths = np.asarray(lengths, dtype=np.int64)
        super().__init__(dataset=self.lengths, batch_size=batch_size, drop_last=drop_last)
        self.shuffle, self.seed, self.pool_batches = shuffle, seed, pool_batches
        self.epoch = self.start_batch = 0

    def set_epoch(self, epoch: int, start_batch: int = 0) -> None:
        """Let the next iteration give epoch `epoch` from its batch `start_batch` (0-based) on."""
        if epoch < 0 or not 0 <= start_batch <= len(self):
            raise ValueError(
                f"epoch {epoch}, start_batch {start_batch}; expected an epoch of at least 0 and "
                f"a batch of 0 to {len(self)}"
            )
        self.epoch, self.start_batch = epoch, start_batch

    def batches(self, epoch: int | None = None) -> list[list[int]]:
        """All batches of an epoch (by default the coming one) as lists of indices."""
        count = len(self.lengths)
        if self.shuffle:
            random = np.random.RandomState([self.seed, self.epoch if epoch is None else epoch])
            order = random.permutation(count)
            pool = self.pool_batches * self.batch_size
        else:
            order, pool = np.arange(count), count
        if self.drop_last and self.shuffle:
            order = order[: count - count % self.batch_size]
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            members = order[start : start + pool]
            members = members[np.argsort(-self.lengths[members], kind="stable")]
            for first in range(0, len(members), self.batch_size):
                batches.append(members[first : first + self.batch_size].tolist())
        if self.drop_last and batches and len(batches[-1]) < self.batch_size:
            batches.pop()
        if self.shuffle:
            batches = [batches[index] for index in random.permutation(len(batches))]
        return batches

    @property
    def order(self) -> list[int]:
        """The indices of the coming epoch, one after the other, as its batches give them."""
        return [index for batch in self.batches() for index in batch]

    def restore(self, results: Sequence) -> list:
        """Put results that came in the order of the batches back into the order of the data.

        Only for a sampler that does not shuffle and drops nothing.
        """
        if self.shuffle or len(results) != len(self.lengths) or self.drop_last:
            raise ValueError("restore needs one result for each example, in an unshuffled order")
        restored: list = [None] * len(results)
        for index, result in zip(self.order, results, strict=True):
            restored[index] = result
        return restored

    def __iter__(self) -> Iterator[list[int]]:
        epoch = self.epoch
        yield from self.batches()[self.start_batch :]
        if self.epoch == epoch:  # set_epoch has not been called meanwhile
            self.set_epoch(epoch + 1)

    def __len__(self) -> int:
        """Batches in a whole epoch, whatever `start_batch` is."""
        full, rest = divmod(len(self.lengths), self.batch_size)
        return full + (rest > 0 and not self.drop_last)


def create_dataloader(
    dataset: MapDataset,
    tokenizer,
    mode: str = "train",
    batch_size: int = 32,
    max_seq_length: int = 128,
    group_by_length: bool = True,
    seed: int = 42,
    num_workers: int = 0,
) -> DataLoader:
    """Tokenize a dataset once and give it in padded batches.

    The dataset passed in stays as it is: the loader holds a new MapDataset of ids
    (`loader.dataset`, with the same label_list). Its sampler is `loader.batch_sampler`.

    Args:
        dataset: examples `{"text": str, "label": int}`; where the first has no label, none are
            given out.
        tokenizer: any PaddleNLP tokenizer.
        mode: "train" shuffles; call `loader.batch_sampler.set_epoch(epoch)` before each epoch.
            "dev" and "test" do not shuffle, and `loader.batch_sampler.restore(results)` puts one
            result an example back into the order of `dataset`.
        batch_size: examples a batch.
        max_seq_length: tokens; longer texts are cut.
        group_by_length: batches of like length; False gives a plain shuffle, or the data's order.
        seed: of the shuffle.
        num_workers: processes that build batches; 0 is fastest here, the ids being ready.

    Returns:
        A DataLoader of tuples of int64 tensors `(input_ids [N, L], token_type_ids [N, L])` and,
        where there are labels, `labels [N]`.
    """
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; expected one of {', '.join(MODES)}")
    if len(dataset) == 0:
        raise ValueError("the dataset is empty; expected at least one example")
    is_test = "label" not in dataset[0]
    features = MapDataset(
        [convert_example(example, tokenizer, max_seq_length, is_test) for example in dataset],
        label_list=getattr(dataset, "label_list", None),
    )
    sampler = LengthGroupedBatchSampler(
        [len(feature[0]) if group_by_length else 0 for feature in features],
        batch_size,
        shuffle=mode == "train",
        seed=seed,
    )
    return DataLoader(
        features,
        batch_sampler=sampler,
        collate_fn=batchify_fn(tokenizer, is_test),
        num_workers=num_workers,
        return_list=True,
    )
