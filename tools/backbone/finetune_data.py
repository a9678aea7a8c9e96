"""Encode the train and dev splits of the two tasks that the recipe is chosen on.

    python tools/backbone/finetune_data.py --tokenizer DIRECTORY --output tasks.npz

The .npz holds, for each of reviews_train, reviews_dev, news_train, news_dev: `NAME_ids` (uint16
with [CLS] and [SEP], joined), `NAME_ends`, `NAME_labels` (one a review; for news one a token, -100
on special tokens) and `NAME_starts`, where words begin. cloze_train_SEED and cloze_dev are windows
of questions and passages with token types; `_places` (first and last token of the answer), or which
tokens are the passage's (`_inside`), which question a window is of (`_example`) and its answer
(`_gold_ids`). No test text is read without --test, which is for the final results.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import course_lib  # noqa: F401  before paddle
from course_lib.chapters.ch20 import text_halves
from course_lib.data import load_cloze, load_reviews
from course_lib.data.people_daily import load_people_daily
from course_lib.runtime import atomic_file
from course_lib.training import TASKS
from course_lib.training.pretraining import WordEncoder

import numpy as np
from paddlenlp.transformers import ErnieTokenizer

LENGTH = 256
SEEDS = (42, 43, 44)
QUESTIONS = 400  # to learn from, and to answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--test", action="store_true", help="the test splits, too")
    options = parser.parse_args()
    tokenizer = ErnieTokenizer.from_pretrained(str(options.tokenizer))
    encoder = WordEncoder(tokenizer)
    arrays = {}
    held_out = ("dev", "test") if options.test else ("dev",)
    for split in ("train", *held_out):
        rows = []
        for example in load_reviews(split):
            ids, starts = encoder(example["text"])
            rows.append((ids, starts, example["label"]))
        arrays.update(_arrays(f"reviews_{split}", rows, tokenizer, one_label=True))
        rows = []
        for example in load_people_daily(split):
            tokens = [token.lower() for token in example["tokens"]]
            ids = tokenizer.convert_tokens_to_ids(tokens)
            starts = _starts(encoder, "".join(example["tokens"]))
            rows.append((ids, starts, example["labels"]))
        arrays.update(_arrays(f"news_{split}", rows, tokenizer, one_label=False))
    for size in (200, 400, 2000):
        for seed in SEEDS:
            chosen = {e["id"] for e in load_reviews("train", max_examples=size, seed=seed)}
            order = [e["id"] in chosen for e in load_reviews("train")]
            arrays[f"reviews_train_{size}_{seed}"] = np.flatnonzero(order)
    halves = text_halves([example["text"] for example in load_reviews("dev")])
    for name, texts in zip(("first", "second"), zip(*halves, strict=True), strict=True):
        rows = [(*encoder(text), 0) for text in texts]
        arrays.update(_arrays(name, rows, tokenizer, one_label=True))
    for seed in SEEDS:
        arrays.update(_questions(f"cloze_train_{seed}", "train", tokenizer, seed))
    for split in held_out:
        arrays.update(_questions(f"cloze_{split}", split, tokenizer))
    with atomic_file(options.output, "wb") as handle:
        np.savez_compressed(handle, **arrays)


def _questions(name: str, split: str, tokenizer, seed: int | None = None) -> dict[str, np.ndarray]:
    examples = load_cloze(split, QUESTIONS, *([] if seed is None else [seed]))
    windows = TASKS["qa"].features(examples, tokenizer, LENGTH)
    if seed is not None:
        windows = [window for window in windows if window["start_positions"] > 0]
    answers = [tokenizer(row["answers"][0], add_special_tokens=False) for row in examples]
    return {
        f"{name}_ids": np.concatenate([window["input_ids"] for window in windows]).astype("uint16"),
        f"{name}_ends": np.cumsum([len(window["input_ids"]) for window in windows]),
        f"{name}_types": np.concatenate([window["token_type_ids"] for window in windows]),
        f"{name}_places": np.array([(w["start_positions"], w["end_positions"]) for w in windows]),
        f"{name}_inside": np.array(
            [place is not None for window in windows for place in window["offset_mapping"]]
        ),
        f"{name}_example": np.array([window["example"] for window in windows]),
        f"{name}_gold_ids": np.concatenate([answer["input_ids"] for answer in answers]),
        f"{name}_gold_ends": np.cumsum([len(answer["input_ids"]) for answer in answers]),
    }


def _starts(encoder: WordEncoder, text: str) -> list[bool]:
    begins = {begin for _, begin, _ in encoder.cutter.tokenize(text)}
    return [position in begins for position in range(len(text))]


def _arrays(name: str, rows: list, tokenizer, one_label: bool) -> dict[str, np.ndarray]:
    ids, starts, labels, ends = [], [], [], []
    for own, own_starts, label in rows:
        own, own_starts = own[: LENGTH - 2], own_starts[: LENGTH - 2]
        ids += [tokenizer.cls_token_id, *own, tokenizer.sep_token_id]
        starts += [True, *own_starts, True]
        ends.append(len(ids))
        labels += [label] if one_label else [-100, *label[: LENGTH - 2], -100]
    return {
        f"{name}_ids": np.array(ids, dtype=np.uint16),
        f"{name}_starts": np.array(starts, dtype=bool),
        f"{name}_ends": np.array(ends, dtype=np.int64),
        f"{name}_labels": np.array(labels, dtype=np.int8),
    }


if __name__ == "__main__":
    main()
