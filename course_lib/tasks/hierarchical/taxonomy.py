"""Labels and what stands above them: a tree, or a graph without cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from course_lib.data.readers import check_label, shown
from course_lib.runtime import InputError

import numpy as np

SEPARATOR = "##"


class Taxonomy:
    """A list of labels in a fixed order (their ids), and the parents of each.

    A label is a path from the top, its parts joined by the separator: `书##不好##内容`. Its parent
    is the path without the last part, which must be a label too. A node of a graph with several
    parents is written as several paths that end alike (`nodes` finds them). `from_edges` makes a
    Taxonomy whose labels are bare names instead, each with all of its parents.

    Args:
        labels: the paths, in the order of their ids.
        separator: between the parts of a path.

    Raises:
        InputError: there is no label; one is empty, repeated or holds a comma, which separates
            labels; a path has an empty part, or its parent is no label.
    """

    def __init__(self, labels: Sequence[str], separator: str = SEPARATOR) -> None:
        if not isinstance(separator, str) or not separator or separator in (",", "\t"):
            raise InputError("separator", f"is {separator!r}", 'characters such as "##"')
        labels = check_labels(labels)
        known = set(labels)
        parents: dict[str, tuple[str, ...]] = {}
        for label in labels:
            fault = path_fault(label, separator)
            if fault:
                raise InputError("labels", *fault)
            above = label.rpartition(separator)[0]
            if above and above not in known:
                problem = f"{shown(label)} has no parent {shown(above)} in the list"
                raise InputError("labels", problem, "every ancestor of a label as a label")
            parents[label] = (above,) if above else ()
        self._set_up(labels, parents, separator)

    @classmethod
    def from_edges(cls, parents: Mapping[str, Iterable[str]]) -> Taxonomy:
        """A Taxonomy of bare names, in which one may have several parents.

        Args:
            parents: for each label the labels right above it; a top one may be left out.

        Raises:
            InputError: there is a cycle; a label is none, see the class.
        """
        given = {child: tuple(dict.fromkeys(above)) for child, above in parents.items()}
        labels = check_labels([*dict.fromkeys([*sum(given.values(), ()), *given])])
        edges = {label: given.get(label, ()) for label in labels}
        placed: dict[str, None] = {}
        while len(placed) < len(edges):
            ready = [
                label
                for label, above in edges.items()
                if label not in placed and all(parent in placed for parent in above)
            ]
            if not ready:
                left = [label for label in edges if label not in placed]
                problem = f"{', '.join(map(shown, left[:5]))} stand above and below each other"
                raise InputError("edges", problem, "a graph without cycles")
            placed.update(dict.fromkeys(ready))
        taxonomy = cls.__new__(cls)
        taxonomy._set_up(list(placed), edges, SEPARATOR)
        return taxonomy

    def _set_up(self, labels: list[str], parents: dict[str, tuple[str, ...]], separator: str):
        self.labels, self.separator = tuple(labels), separator
        self.ids = {label: number for number, label in enumerate(labels)}
        self._parents = parents
        self._level: dict[str, int] = {}
        for label in labels:
            self._find_level(label)
        depth = max(self._level.values())
        self.levels: tuple[tuple[str, ...], ...] = tuple(
            tuple(label for label in labels if self._level[label] == level)
            for level in range(1, depth + 1)
        )
        """The labels of each level, the top one first."""
        self._order = [label for level in self.levels for label in level]

    def _find_level(self, label: str) -> int:
        if label not in self._level:
            above = [self._find_level(parent) for parent in self._parents[label]]
            self._level[label] = 1 + max(above, default=0)
        return self._level[label]

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self.ids

    def parents(self, label: str) -> tuple[str, ...]:
        """The labels right above one; empty at the top."""
        self._require(label)
        return self._parents[label]

    def ancestors(self, label: str) -> tuple[str, ...]:
        """All labels above one, from the top down, without itself."""
        above: set[str] = set()
        waiting = list(self.parents(label))
        while waiting:
            parent = waiting.pop()
            if parent not in above:
                above.add(parent)
                waiting += self._parents[parent]
        return tuple(sorted(above, key=lambda one: (self._level[one], self.ids[one])))

    def children(self, label: str | None = None) -> tuple[str, ...]:
        """The labels right below one; with None those at the top."""
        if label is None:
            return self.levels[0]
        self._require(label)
        return tuple(one for one in self.labels if label in self._parents[one])

    def level(self, label: str) -> int:
        """1 at the top; below, one more than the deepest parent's."""
        self._require(label)
        return self._level[label]

    @property
    def nodes(self) -> dict[str, tuple[str, ...]]:
        """The last part of the paths, with all the labels that end in it.

        One with several stands for a node of several parents, or for different things of one name.
        """
        found: dict[str, tuple[str, ...]] = {}
        for label in self.labels:
            name = label.rpartition(self.separator)[2]
            found[name] = (*found.get(name, ()), label)
        return found

    def unfold(self) -> Taxonomy:
        """The same graph with paths as labels, as the files want them: a label a way from the top.

        Raises:
            InputError: a name holds the separator, as paths do.
        """
        paths: dict[str, list[str]] = {}
        for label in self._order:
            if self.separator in label:
                problem = f"{shown(label)} holds {self.separator!r}"
                raise InputError("labels", problem, "bare names, made by from_edges")
            above = [path for parent in self._parents[label] for path in paths[parent]]
            paths[label] = [f"{path}{self.separator}{label}" for path in above] or [label]
        return Taxonomy([path for label in self._order for path in paths[label]], self.separator)

    def missing(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The ancestors of labels that are not among them, from the top down.

        Raises:
            InputError: one is no label.
        """
        given = set(labels)
        lacking = {above for label in given for above in self.ancestors(label)} - given
        return tuple(sorted(lacking, key=lambda one: (self._level[one], self.ids[one])))

    def complete(self, labels: Iterable[str]) -> list[str]:
        """Labels with all their ancestors, each once, in the order of the ids.

        Raises:
            InputError: one is no label.
        """
        given = set(labels)
        return sorted(given | set(self.missing(given)), key=self.ids.__getitem__)

    def indicators(self, rows: Sequence[Iterable[str]]) -> np.ndarray:
        """Lists of labels as zeros and ones.

        Returns:
            bool array of shape [rows, labels].

        Raises:
            InputError: one is no label.
        """
        matrix = np.zeros((len(rows), len(self.labels)), dtype=bool)
        for number, labels in enumerate(rows):
            if isinstance(labels, str):
                raise InputError("rows", f"row {number} is a string", "a list of labels")
            for label in labels:
                self._require(label)
                matrix[number, self.ids[label]] = True
        return matrix

    def names(self, matrix: np.ndarray) -> list[list[str]]:
        """The inverse of `indicators`; each row in the order of the ids."""
        return [[self.labels[column] for column in np.flatnonzero(row)] for row in matrix]

    def _require(self, label: str) -> None:
        if label not in self.ids:
            problem = f"{shown(str(label))} is no label"
            raise InputError("labels", problem, f"one of the {len(self.labels)} of the taxonomy")


def path_fault(label: str, separator: str) -> tuple[str, str] | None:
    """What is wrong with the path of a label, and what would be right; None: nothing."""
    parts = label.split(separator)
    if "," in label:
        return f"{shown(label)} holds a comma, which separates labels", "a label without one"
    if not all(part.strip() for part in parts):
        return f"{shown(label)} has an empty part", f"names with {separator} between them"
    if any(part != part.strip() for part in parts):
        return f"{shown(label)} has white space around a part", f"{separator} with none beside it"
    if separator + separator[-1] in label:
        problem = f"{shown(label)} has more than {separator} between its parts"
        return problem, f"{separator} alone"
    return None


def check_labels(labels: Iterable[str]) -> list[str]:
    """The labels as a list, or InputError where one cannot stand in a file."""
    labels = list(labels)
    if not labels:
        raise InputError("labels", "are none", "at least one label")
    seen: set[str] = set()
    for label in labels:
        if not isinstance(label, str):
            raise InputError("labels", f"hold a {type(label).__name__}", "names")
        if check_label(label, "labels") != label:
            raise InputError("labels", f"{shown(label)} has white space around it", "none")
        if "," in label:
            problem = f"{shown(label)} holds a comma, which separates labels"
            raise InputError("labels", problem, "a label without one")
        if label in seen:
            raise InputError("labels", f"{shown(label)} is there twice", "each label once")
        seen.add(label)
    return labels
