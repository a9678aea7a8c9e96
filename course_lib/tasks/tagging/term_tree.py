"""A tree of terms, and a tagger of its terms in text, in the manner of wordtag and TermTree.

FAQ: how do you add entities and word classes of your own to wordtag? Wordtag works in two steps:
a model cuts the text into words with classes, then the words are looked up in a tree of terms. Here
`course_lib.tasks.tagging.lac` does the first (or none does: characters), and `match` the second.

A file has one term per line, in four columns separated by tabs, UTF-8:

    # name   type   parent   aliases
    计算机   类别
    笔记本   类别   计算机   笔记本电脑,手提电脑
    联想     品牌            Lenovo

Names are unique. A parent is another name of the file, or empty. Aliases are separated by commas;
several terms may share one alias. Empty columns at the end of a line may be left out; empty lines,
and lines that begin with #, are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.data.readers import read_lines
from course_lib.runtime import InputError
from course_lib.runtime.visible import hidden_character, is_blank

COLUMNS = "name, type, parent and aliases with a tab between"


@dataclass(frozen=True)
class Term:
    """A node of the tree: a name, its type, the name of its parent (None at a root), aliases."""

    name: str
    type: str
    parent: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mention:
    """Where a term is in a text: `text[start:end]`.

    Several terms where they share an alias; `terms[0]`, the first in the tree, gives the type.
    """

    start: int
    end: int
    text: str
    terms: tuple[Term, ...]

    @property
    def type(self) -> str:
        """The type of the first term."""
        return self.terms[0].type


class TermTree:
    """Terms by their names and aliases."""

    def __init__(self) -> None:
        self._terms: dict[str, Term] = {}
        self._called: dict[str, list[Term]] = {}
        self.longest = 0  # characters of the longest name or alias

    @classmethod
    def read(cls, path: str | os.PathLike) -> TermTree:
        """Read a file of terms in the format that this module's docstring describes.

        Raises:
            InputError: names the file and the line: not UTF-8, another number of columns, a missing
                name or type, a name that comes twice, an unknown parent, or a circle of parents.
        """
        rows: dict[str, tuple[int, Term]] = {}
        for number, line in enumerate(read_lines(path), start=1):
            if is_blank(line) or line.startswith("#"):
                continue
            columns = [column.strip() for column in line.split("\t")]
            if not 2 <= len(columns) <= 4:
                raise InputError(path, f"has {len(columns)} columns", COLUMNS, number)
            name, kind, parent, aliases = columns + [""] * (4 - len(columns))
            names = tuple(alias.strip() for alias in aliases.split(",")) if aliases else ()
            term = Term(name, kind, parent or None, names)
            _check(term, path, number)
            if name in rows:
                problem = f"has {name!r} again, as line {rows[name][0]}"
                raise InputError(path, problem, "each name once", number)
            rows[name] = (number, term)
        tree = cls()
        waiting = dict(rows)
        for start in rows:  # parents first, wherever they stand
            chain: dict[str, None] = {}
            name = start
            while name in waiting and name not in chain:
                chain[name] = None
                name = waiting[name][1].parent
            if name in chain:
                problem = f"{' < '.join([*chain, name])} is a circle"
                raise InputError(path, problem, "a tree", rows[name][0])
            for each in reversed(chain):
                number, term = waiting.pop(each)
                if term.parent is not None and term.parent not in rows:
                    problem = f"the parent {term.parent!r} is no term"
                    raise InputError(path, problem, "a name of this file", number)
                tree._insert(term)
        # the order of the file decides between terms with one alias, not that of the parents
        order = {name: number for name, (number, _) in rows.items()}
        for terms in tree._called.values():
            terms.sort(key=lambda term: order[term.name])
        return tree

    def add(
        self, name: str, type: str, parent: str | None = None, aliases: Iterable[str] = ()
    ) -> Term:
        """Add a term at run time; the next `match` finds it.

        Raises:
            InputError: an empty name or type, a name that exists, or an unknown parent.
        """
        term = Term(name, type, parent, tuple(aliases))
        _check(term, "term", None)
        if name in self._terms:
            raise InputError("name", f"is {name!r}, a term already", "a new one")
        if parent is not None and parent not in self._terms:
            raise InputError("parent", f"is {parent!r}, which is no term", "a term of the tree")
        self._insert(term)
        return term

    def _insert(self, term: Term) -> None:
        self._terms[term.name] = term
        for called in dict.fromkeys((term.name, *term.aliases)):
            self._called.setdefault(called, []).append(term)
            self.longest = max(self.longest, len(called))

    def __len__(self) -> int:
        return len(self._terms)

    def __getitem__(self, name: str) -> Term:
        return self._terms[name]

    def find(self, called: str) -> tuple[Term, ...]:
        """All terms with this name or alias, in the order of the tree."""
        return tuple(self._called.get(called, ()))

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Parent, its parent, and so on up to the root."""
        ancestors = []
        parent = self[name].parent
        while parent is not None:
            ancestors.append(parent)
            parent = self._terms[parent].parent
        return tuple(ancestors)


def _check(term: Term, where: str | os.PathLike, line: int | None) -> None:
    names = [("name", term.name), ("type", term.type), *(("alias", one) for one in term.aliases)]
    for part, value in names:
        if not isinstance(value, str) or not value.strip() or hidden_character(value):
            raise InputError(where, f"its {part} is {value!r}", "characters that can be seen", line)
    if term.parent == term.name:
        raise InputError(where, f"{term.name!r} is its own parent", "another term", line)


def match(
    tree: TermTree,
    pieces: str | Sequence[str] | Sequence[tuple[str, str]],
    allowed: Mapping[str, Collection[str]] | None = None,
) -> list[Mention]:
    """Find the terms of a tree in a text, from left to right, the longest at each place.

    Args:
        pieces: a text, whose terms may begin and end at any character; or its words, or
            `(word, class)` from `cut_words`: then a term is one word or several whole ones (市长,
            mayor, is not found in 南京市 长江 大桥, Nanjing Yangtze Bridge).
        allowed: class -> types of terms that a word of this class can be. The class of a term's
            last word decides; a class that is not in it allows all.

    Returns:
        Mentions that do not overlap, with offsets in the joined text.
    """
    pairs: list[Any] = [(piece, None) if isinstance(piece, str) else piece for piece in pieces]
    words, classes = [word for word, _ in pairs], [kind for _, kind in pairs]
    offsets = [0]
    for word in words:
        offsets.append(offsets[-1] + len(word))
    text = "".join(words)
    mentions = []
    first = 0
    while first < len(words):
        last = first
        while last < len(words) and offsets[last + 1] - offsets[first] <= tree.longest:
            last += 1
        for end in range(last, first, -1):
            called = text[offsets[first] : offsets[end]]
            terms = tree.find(called)
            if allowed is not None and classes[end - 1] in allowed:
                terms = tuple(term for term in terms if term.type in allowed[classes[end - 1]])
            if terms:
                mentions.append(Mention(offsets[first], offsets[end], called, terms))
                first = end - 1
                break
        first += 1
    return mentions


def bioes_labels(length: int, mentions: Iterable[Mention]) -> list[str]:
    """One label per character: S-TYPE for a single one, otherwise B-, I-, E-TYPE; O outside."""
    labels = ["O"] * length
    for mention in mentions:
        size = mention.end - mention.start
        parts = "S" if size == 1 else "B" + "I" * (size - 2) + "E"
        for place, part in enumerate(parts, start=mention.start):
            labels[place] = f"{part}-{mention.type}"
    return labels


def bioes_spans(labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """`(start, end, type)` of each entity of a row of BIOES labels.

    Raises:
        InputError: the row is not valid: an I or E without its B, a B without its E, another label.
    """
    spans = []
    begin: Any = None  # where the open entity began
    for place, label in enumerate([*labels, "O"]):
        part, _, kind = label.partition("-")
        where = f"labels, place {place}"
        if label != "O" and (part not in set("BIES") or not kind):
            raise InputError(where, f"is {label!r}", "O, or B-, I-, E-, S- and a type")
        goes_on = part in ("I", "E")
        if goes_on and (begin is None or labels[begin][2:] != kind):
            raise InputError(where, f"is {label!r} without its B-", f"B-{kind} before it")
        if begin is not None and not goes_on:
            expected = f"I-{labels[begin][2:]} or E-{labels[begin][2:]}"
            raise InputError(where, f"is {label!r} within an entity", expected)
        if part in ("B", "S"):
            begin = place
        if part in ("E", "S"):
            spans.append((begin, place + 1, kind))
            begin = None
    return spans
