"""From annotated examples to the ids a model reads: sentence pairs, tagged tokens, questions.

Each function is the counterpart of `convert_example` for one kind of example, and each has its
batchify function. Windows are made here, because PaddleNLP 2.8.1 makes them (`stride`) only for
lists of pairs, and never ends when a question fills a window.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ..runtime import InputError, errors
from .tokens import token_ids, words_with_offsets

import numpy as np

IGNORED = -100  # the label of [CLS], [SEP] and padding, which PaddleNLP's losses leave out

# The trie of a tokenizer -> token -> id; adding words gives the tokenizer another trie.
_ids_of: WeakKeyDictionary = WeakKeyDictionary()


def convert_tokens_example(
    example: dict[str, Any],
    tokenizer,
    max_seq_length: int = 128,
    is_test: bool = False,
    return_dict: bool = False,
) -> tuple | dict[str, Any]:
    """Turn tagged characters into ids, one id for each, with the labels beside them.

    Position i + 1 of the ids is token i, always: a token that the tokenizer drops (a space) or
    does not know is [UNK]. Letters are lowered and accents taken off as the tokenizer does.
    (`tokenizer(tokens, is_split_into_words=True)` drops and splits tokens and so moves labels.)

    Args:
        example: `{"tokens": list[str], "labels": list[int]}`; no labels when `is_test`. A token is
            a character, or a word that the vocabulary has.
        max_seq_length: tokens, [CLS] and [SEP] included; what is longer is cut at its end.
        is_test, return_dict: as for `convert_example`.

    Returns:
        `(input_ids, token_type_ids, labels)`, three lists of one length, labels -100 at [CLS] and
        [SEP]; the first two when `is_test`; or a dict of them.

    Raises:
        InputError: `max_seq_length` below 3, a token that would become several ids, or another
            number of labels than of tokens.
    """
    errors.whole("max_seq_length", max_seq_length, 3)
    name = _name(example, "tokens")
    tokens = example["tokens"]
    ids = [_token_id(token, tokenizer, name) for token in tokens[: max_seq_length - 2]]
    input_ids = tokenizer.build_inputs_with_special_tokens(ids)
    fields = {"input_ids": input_ids, "token_type_ids": [0] * len(input_ids)}
    if not is_test:
        if len(example["labels"]) != len(tokens):
            problem = f"{len(tokens)} tokens and {len(example['labels'])} labels"
            raise InputError(name, problem, "one label for each token")
        fields["labels"] = [IGNORED, *example["labels"][: len(ids)], IGNORED]
    return fields if return_dict else tuple(fields.values())


def _token_id(token: str, tokenizer, name: str) -> int:
    known = _ids_of.setdefault(tokenizer.tokens_trie, {})
    if token not in known:
        pieces = tokenizer.tokenize(token)
        if len(pieces) > 1 and len(token) > 1:
            problem = f"the token {token!r} is {len(pieces)} tokens to the tokenizer"
            raise InputError(name, problem, "one character per token, each with its own label")
        piece = pieces[0] if len(pieces) == 1 else tokenizer.unk_token
        known[token] = tokenizer.convert_tokens_to_ids(piece)
    return known[token]


def convert_qa_examples(
    examples: Sequence[dict[str, Any]],
    tokenizer,
    max_seq_length: int = 192,
    doc_stride: int = 64,
    max_question_length: int = 64,
    is_test: bool = False,
) -> list[dict[str, Any]]:
    """Turn questions on passages into features `[CLS] question [SEP] window [SEP]`.

    A passage that does not fit gives several features, whose windows begin `doc_stride` tokens
    apart (PaddleNLP's meaning of stride; Hugging Face's is the overlap). Every token of a passage
    is in a window. For `MapDataset.map(..., batched=True)` too.

    Args:
        examples: `{"context": str, "question": str, "answers": list[str], "answer_starts":
            list[int]}`; the last two are not looked at when `is_test`.
        tokenizer: a WordPiece tokenizer, such as ErnieTokenizer.
        max_seq_length: tokens of a feature, the three special ones included.
        doc_stride: tokens from the beginning of a window to that of the next; where a window is
            smaller, windows follow each other without a gap.
        max_question_length: tokens; a longer question is cut at its end.

    Returns:
        One dict a feature, in the order of the examples and their windows: `input_ids` and
        `token_type_ids` (0 up to the first [SEP]); `example` (index into `examples`);
        `offset_mapping`, for each id (first, end) in the context's characters, None where the id is
        not of the context; and unless `is_test`, `start_positions` and `end_positions`: the first
        and last token of the first accepted answer that lies in the window whole, both 0 ([CLS])
        where none does.

    Raises:
        InputError: lengths that leave no room for the context, a tokenizer without WordPiece, or
            an answer that is not at its offset.
    """
    if max_seq_length < max_question_length + 4:  # else windows would never end
        expected = f"at least {max_question_length + 4}, 4 more than max_question_length"
        raise InputError("max_seq_length", f"is {max_seq_length}", expected)
    errors.whole("doc_stride", doc_stride, 1)
    if isinstance(examples, Mapping):
        raise InputError("examples", "is one example", "a list of them: map(..., batched=True)")
    features = []
    for index, example in enumerate(examples):
        name = _name(example, f"example {index}")
        question_ids = token_ids(example["question"], tokenizer)[:max_question_length]
        words, offsets = words_with_offsets(example["context"], tokenizer)
        context_ids = [one for _, ids in words for one in ids]
        room = max_seq_length - 3 - len(question_ids)
        spans = [] if is_test else _answer_tokens(example, offsets, name)
        for first, end in _windows(len(offsets), room, min(doc_stride, room)):
            ids = context_ids[first:end]
            before = len(question_ids) + 2
            feature = {
                "input_ids": tokenizer.build_inputs_with_special_tokens(question_ids, ids),
                "token_type_ids": tokenizer.create_token_type_ids_from_sequences(question_ids, ids),
                "example": index,
                "offset_mapping": [None] * before + offsets[first:end] + [None],
            }
            if not is_test:
                inside = [span for span in spans if first <= span[0] and span[1] < end]
                start, last = inside[0] if inside else (first - before, first - before)
                feature["start_positions"] = np.int64(start - first + before)
                feature["end_positions"] = np.int64(last - first + before)
            features.append(feature)
    return features


def _windows(count: int, room: int, stride: int) -> Iterator[tuple[int, int]]:
    first = 0
    while True:  # an empty context has one empty window, so that every example has a feature
        yield first, min(first + room, count)
        if first + room >= count:
            return
        first += stride


def _answer_tokens(
    example: dict[str, Any], offsets: list[tuple[int, int]], name: str
) -> list[tuple[int, int]]:
    """First and last token of each answer that has a token."""
    spans = []
    for answer, start in zip(example["answers"], example["answer_starts"], strict=True):
        if not answer or start < 0 or not example["context"].startswith(answer, start):
            problem = f"the answer {answer!r} is not at {start}"
            raise InputError(name, problem, "its offset in the context")
        end = start + len(answer)
        # spans rise, both their first places and their ends
        first = bisect_right(offsets, start, key=lambda span: span[1])
        last = bisect_left(offsets, end, key=lambda span: span[0]) - 1
        if first <= last:
            spans.append((first, last))
    return spans


def _name(example: dict[str, Any], otherwise: str) -> str:
    return f"example {example['id']}" if "id" in example else otherwise
