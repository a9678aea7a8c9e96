"""A tree of terms, and a tagger of its terms in text, in the manner of wordtag and TermTree.

FAQ: how do you add entities and word classes of your own to wordtag? Wordtag works in two steps:
a model cuts the text into words with classes, then the words are looked up in a tree of terms. Here
`course_lib.tasks.tagging.lac` does the first (or none does: characters), and `match` the second.

A file has one term per line, in four columns separated by tabs, UTF-8:

    # name   type   parent   aliases
    计算机   类别
    笔记本   类别   计算机   笔记本电脑,手提电脑
    联想     品牌            Lenovo

Names are unique. A parent is the name of a line above, or empty. Aliases are separated by commas;
several terms may share one alias. Empty columns at the end of a line may be left out; empty lines,
and lines that begin with #, are ignored.
"""

import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from ...data.readers import read_lines
from ...runtime import InputError
from ...runtime.visible import hidden_character, is_blank

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
        self.types: set[str] = set()
        self.longest = 0  # characters of the longest name or alias

    @classmethod
    def read(cls, path: str | os.PathLike) -> "TermTree":
        """Read a file of terms in the format that this module's docstring describes.

        Raises:
            InputError: names the file and the line: not UTF-8, another number of columns, a missing
                name or type, a name that comes twice, or a parent that no line above names.
        """
        tree = cls()
        for number, line in enumerate(read_lines(path), start=1):
            if is_blank(line) or line.startswith("#"):
                continue
            columns = [column.strip() for column in line.split("\t")]
            if not 2 <= len(columns) <= 4:
                raise InputError(path, f"has {len(columns)} columns", COLUMNS, number)
            name, kind, parent, aliases = columns + [""] * (4 - len(columns))
            others = [alias.strip() for alias in aliases.split(",")] if aliases else []
            try:
                tree.add(name, kind, parent or None, others)
            except InputError as error:
                problem = f"its {error.where} {error.problem}"
                raise InputError(path, problem, error.expected, number) from None
        return tree

    def add(
        self, name: str, type: str, parent: str | None = None, aliases: Iterable[str] = ()
    ) -> Term:
        """Add a term at run time; the next `match` finds it.

        Raises:
            InputError: an empty name, type or alias, a name that exists, an unknown parent, or one
                text instead of several aliases.
        """
        if isinstance(aliases, str):  # its characters would be the aliases
            raise InputError("aliases", f"are one text, {aliases!r}", "a list of names")
        term = Term(name, type, parent, tuple(aliases))
        for part, value in [("name", name), ("type", type), *(("alias", one) for one in aliases)]:
            if not value.strip() or hidden_character(value):
                raise InputError(part, f"is {value!r}", "characters that can be seen")
        if name in self._terms:
            raise InputError("name", f"is {name!r}, a term already", "a new one")
        if parent is not None and parent not in self._terms:
            raise InputError(
                "parent", f"is {parent!r}, which is no term", "one that is added before"
            )
        self._terms[name] = term
        self.types.add(type)
        for called in dict.fromkeys((name, *term.aliases)):
            self._called.setdefault(called, []).append(term)
            self.longest = max(self.longest, len(called))
        return term

    def __len__(self) -> int:
        return len(self._terms)

    def __getitem__(self, name: str) -> Term:
        return self._terms[name]

    def find(self, called: str) -> tuple[Term, ...]:
        """All terms with this name or alias, in the order of the tree."""
        return tuple(self._called.get(called, ()))

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Parent, its parent, and so on up to the root."""
        parent = self[name].parent
        return () if parent is None else (parent, *self.ancestors(parent))


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

    Raises:
        InputError: `allowed` names a type that no term has.
    """
    unknown = {kind for kinds in (allowed or {}).values() for kind in kinds} - tree.types
    if unknown:
        expected = f"types of the tree: {', '.join(sorted(tree.types))}"
        raise InputError("allowed", f"names {', '.join(sorted(unknown))}", expected)
    pairs: list[Any] = [(piece, None) if isinstance(piece, str) else piece for piece in pieces]
    words, classes = [word for word, _ in pairs], [kind for _, kind in pairs]
    offsets = [0, *accumulate(map(len, words))]
    text = "".join(words)
    mentions, first = [], 0
    while first < len(words):
        last = bisect_right(offsets, offsets[first] + tree.longest) - 1
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
