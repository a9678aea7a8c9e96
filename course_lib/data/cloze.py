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
from typing import TYPE_CHECKING, NamedTuple

from .people_daily import text
from .sources import read_records, read_shipped
from .splits import SPLITS, drawn, load_splits

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

GAP = "【？】"  # three characters, all in the vocabularies of ERNIE and of data/backbone
HINTS = {"PER": "填人名：", "LOC": "填地名：", "ORG": "填机构名："}
GOLD = "gold"


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

    @property
    def order(self) -> float:
        """A random number that only the id decides, to mix questions by."""
        return random.Random("order " + self.id).random()

    def pieces(self) -> Iterator[tuple[int, str]]:
        """The lines of the context with their texts, the sentence cut out; empty ones left out."""
        for line in range(self.context_first, self.context_last + 1):
            piece = text(line)
            if line == self.line:
                piece = piece[: self.first] + piece[self.last :]
            if piece.strip():
                yield line, piece

    def row(self) -> dict:
        """The question as `load_cloze` gives it."""
        whole = text(self.line)
        answer = whole[self.start : self.end]
        before, after = whole[self.first : self.start], whole[self.end : self.last]
        context = "\n".join(piece for _, piece in self.pieces())
        starts = _places(context, answer)
        return {
            "id": self.id,
            "context": context,
            "question": HINTS[self.kind] + before + GAP + after,
            "answers": [answer] * len(starts),
            "answer_starts": starts,
            "type": self.kind,
        }


def load_cloze(
    splits: str | Sequence[str] = SPLITS, max_examples: int | None = None, seed: int = 42
) -> MapDataset | list[MapDataset]:
    """Load the questions.

    Args:
        splits: those of `load_people_daily`, and no line is in two of them; or "gold" for the
            questions by hand, about passages of dev (gold-dev-001) and test (gold-test-001).
        max_examples, seed: as for `load_reviews`; a draw is not balanced.

    Returns:
        MapDatasets of `{"id": "line-00042-17-20", "context": str, "question": str,
        "answers": list[str], "answer_starts": list[int], "type": "PER" | "LOC" | "ORG"}` in a
        mixed, fixed order. All places of the answer in the context are given: `answers[i]` is at
        `context[answer_starts[i]:]`. The lines of a context are joined by line breaks. Questions
        by hand have no "type"; an accepted answer of theirs that is part of the first one counts
        within it only, others wherever they are.
    """

    def read(name: str) -> list[dict]:
        if name == GOLD:
            records = read_records("cloze/gold.jsonl")
            return [_gold_row(record) for record in drawn(records, max_examples, seed)]
        return [question.row() for question in drawn(frozen(name), max_examples, seed)]

    return load_splits(splits, read, max_examples, known=(*SPLITS, GOLD))


def frozen(split: str) -> list[Question]:
    """The chosen questions of a split in their mixed order."""
    chosen = json.loads(read_shipped("cloze/questions.json"))["splits"][split]
    return sorted((Question(*place) for place in chosen), key=lambda question: question.order)


def _places(context: str, name: str) -> list[int]:
    """Where a name or number begins, but not within a longer number: 3 is not in 13."""
    before = r"(?<!\d)" if name[0].isdigit() else ""
    after = r"(?!\d)" if name[-1].isdigit() else ""
    pattern = f"(?={before}{re.escape(name)}{after})"  # looks ahead, as places may overlap
    return [match.start() for match in re.finditer(pattern, context)]


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
