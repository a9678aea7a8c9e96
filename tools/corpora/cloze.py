"""How the cloze questions were chosen, what gives them away, and their figures."""

from __future__ import annotations

import hashlib
import json
import random
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from course_lib import runtime
from course_lib.chapters.ch04 import Mention, candidates, mentions
from course_lib.data.cloze import HINTS, Question, frozen, load_cloze
from course_lib.data.people_daily import BLOCK, split_lines, text, words
from course_lib.data.sources import read_records
from course_lib.data.splits import SPLITS
from course_lib.runtime import atomic_file
from tools.corpora.reporting import interval, markdown_table, read_audit

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
_NUMBER = re.compile(r"[\d一二三四五六七八九十百千万亿][\d.·%一二三四五六七八九十百千万亿]*")


class Cloze(NamedTuple):
    """A question with what the baselines look at."""

    question: Question
    row: dict  # as `load_cloze` gives it
    mentions: list[Mention]  # of its type in the context, in order
    cut: int  # where in the context the sentence was


def labels_digest(chosen: Iterable[Question]) -> str:
    """SHA-256 of the questions' places, and of the words and types of the lines asked about."""
    places = sorted(tuple(each) for each in chosen)
    lines = sorted({each.line for each in chosen})
    content = (places, [words(line) for line in lines])
    return hashlib.sha256(repr(content).encode()).hexdigest()


def build() -> dict[str, int]:
    """Choose the questions anew and write data/cloze/questions.json.

    Returns:
        The number of questions of each split.
    """
    chosen = {split: choose(split) for split in SPLITS}
    content = {
        "made_by": "python -m tools.corpora build cloze",
        "labels": {split: labels_digest(questions) for split, questions in chosen.items()},
        "splits": chosen,
    }
    with atomic_file(runtime.data_dir() / "cloze" / "questions.json") as handle:
        handle.write(json.dumps(content, separators=(",", ":")).replace("],[", "],\n[") + "\n")
    return {split: len(questions) for split, questions in chosen.items()}


def choose(split: str) -> list[Question]:
    """The questions of a split that few baselines answer, each answer a few times; sorted."""
    kept = []
    for item in possible(split):
        right = guesses(item)
        if right["most shared words"] and _drawn(item.question.id) > THINNED:
            continue
        if sum(right.values()) <= GUESSES:
            kept.append(item)
    kept.sort(key=lambda item: item.question.order)
    count: Counter[str] = Counter()
    chosen = []
    for item in kept:
        answer = item.row["answers"][0]
        count[answer] += 1
        if count[answer] <= MOST[split]:
            chosen.append(item.question)
    return sorted(chosen)


def possible(split: str) -> Iterator[Cloze]:
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
            around = around or _around(line, size - len(text(line)), inside)
            end = mention.start + len(mention.name)
            item = cloze(Question(line, first, last, mention.start, end, mention.kind, *around))
            if _is_fit(item):
                names.add(mention.name)
                yield item


def cloze(question: Question) -> Cloze:
    """A question with its row, its candidates and the place of the cut."""
    row = question.row()
    before = range(question.context_first, question.line)
    ahead = sum(len(text(line)) + 1 for line in before if text(line).strip())
    return Cloze(
        question, row, candidates(question), min(ahead + question.first, len(row["context"]))
    )


def _is_fit(item: Cloze) -> bool:
    """Whether the context answers the question, among others, in other words."""
    question, row, named, _ = item
    context, starts = row["context"], row["answer_starts"]
    whole = text(question.line)
    answer = whole[question.start : question.end]
    names = {mention.name for mention in named}
    alike = [n for n in names if n != answer and (n in answer or answer in n)]
    if len(context) > LONGEST or alike or answer not in names or len(names) < CANDIDATES:
        return False
    sentence = whole[question.first : question.last]
    others = {w for w, _ in words(question.line) if len(w) > 1 and w in sentence} - {answer}
    near = [context[max(start - NEAR, 0) : start + len(answer) + NEAR] for start in starts]
    if sum(any(word in part for part in near) for word in others) < SHARED:
        return False
    grams = {sentence[i : i + GRAM] for i in range(len(sentence) - GRAM + 1)}
    return sum(gram in context for gram in grams) <= COPY * len(grams)


def _gaps(line: int) -> Iterator[tuple[int, int, Mention]]:
    """Sentences of a line (first character, end) with an entity that could be asked for."""
    whole = text(line)
    for match in _SENTENCE.finditer(whole):
        first, last = match.span()
        sentence = match[0]
        if not SENTENCE[0] <= len(sentence) <= SENTENCE[1]:
            continue
        if any(sentence.count(opening) != sentence.count(closing) for opening, closing in _PAIRS):
            continue
        for mention in mentions(line):
            end = mention.start + len(mention.name)
            within = first <= mention.start and end <= last
            # One name of a list (A、B和C) could be any other of them.
            listed = "、" in (whole[mention.start - 1 : mention.start], whole[end : end + 1])
            if within and not listed and sentence.count(mention.name) == 1:
                yield first, last, mention


def _around(line: int, missing: int, inside: set[int]) -> tuple[int, int]:
    """The first and last line of a context: neighbors of a line within its block, taken by turns
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
                missing -= len(text(other))
            else:
                open_sides.remove(side)
        side = -side
    return ends[-1], ends[1]


def _drawn(name: str) -> float:
    """A random number of its own for each name, so that no question hangs on another."""
    return random.Random(name).random()


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
    _, row, named, cut = item
    return {
        name: guess(row["context"], row["question"], named, cut).name in row["answers"]
        for name, guess in BASELINES.items()
    }


def gold_guesses() -> dict[str, float]:
    """The share of the questions by hand that each baseline answers, choosing among entities and
    numbers of the passage; there is no cut."""
    gold = load_cloze("gold").data
    passages = [_passage_mentions(*record["lines"]) for record in read_records("cloze/gold.jsonl")]
    shares = {}
    for name, guess in BASELINES.items():
        if guess is not _nearest_to_cut:
            right = 0
            for row, named in zip(gold, passages, strict=True):
                left = [each for each in named if each.name not in row["question"]]
                right += guess(row["context"], row["question"], left, 0).name in row["answers"]
            shares[name] = right / len(gold)
    return shares


def _passage_mentions(first: int, last: int) -> list[Mention]:
    """The entities and numbers of some lines, joined by line breaks."""
    named: list[Mention] = []
    offset = 0
    for line in range(first, last + 1):
        numbers = [Mention(m.start(), m[0], "NUM") for m in _NUMBER.finditer(text(line))]
        for mention in sorted([*mentions(line), *numbers]):
            named.append(mention._replace(start=offset + mention.start))
        offset += len(text(line)) + 1
    return named


# --- audit and figures ------------------------------------------------------------------------


def audit_figures() -> dict[str, dict[str, int]]:
    """How often the reader's answer is an accepted one, and how often he was sure, by kind.

    Rows whose question was not chosen again, after labels had changed, are left out.
    """
    rows = {row["id"]: row for dataset in (*load_cloze(), load_cloze("gold")) for row in dataset}
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
    """All tables as Markdown, as data/README.md has them."""
    return "\n\n".join((_sizes(), _baselines(), _judged()))


def _sizes() -> str:
    rows = []
    named = [(split, list(load_cloze(split))) for split in SPLITS]
    gold = list(load_cloze("gold"))
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
        right = [guesses(cloze(question)) for question in frozen(split)]
        rows.append([split] + [f"{sum(g[n] for g in right) / len(right):.1%}" for n in BASELINES])
    by_hand = gold_guesses()
    shares = [f"{by_hand[name]:.1%}" if name in by_hand else "-" for name in BASELINES]
    return markdown_table(["exact match", *BASELINES], [*rows, ["by hand", *shares]])


def _judged() -> str:
    rows = []
    for kind, counts in audit_figures().items():
        agree, read = counts["agree"], counts["read"]
        share = f"{agree} ({agree / read:.1%})"
        sure = [counts["sure"], counts["sure and agree"]]
        rows.append([kind, read, share, interval(agree, read), *sure])
    header = ["questions", "read", "same answer", "95% interval (Wilson)", "sure", "sure and same"]
    return markdown_table(header, rows)
