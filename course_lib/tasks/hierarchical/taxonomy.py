"""Labels and what stands above them: a tree, or a graph without cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from course_lib.data.readers import check_label, shown
from course_lib.runtime import InputError

import numpy as np

SEPARATOR = "##"


class Taxonomy:
    """A list of labels in a fixed order (their ids), and the parents of each.

    A label is a path from the top, its parts joined by "##": `书##不好##内容`. Its parent
    is the path without the last part, which must be a label too. A node of a graph with several
    parents is written as several paths that end alike (`nodes` finds them). `from_edges` makes a
    Taxonomy whose labels are bare names instead, each with all of its parents.

    Args:
        labels: the paths, in the order of their ids.

    Attributes:
        labels: in the order of their ids.
        ids: the number of each label.
        levels: the labels of each level, the top one first.

    Raises:
        InputError: there is no label; one is empty, repeated or holds a comma, which separates
            labels; a path has an empty part, or its parent is no label.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        if not labels:
            raise InputError("labels", "are none", "at least one label")
        known = set(labels)
        parents: dict[str, tuple[str, ...]] = {}
        for label in labels:
            check_label(label, "labels")
            fault = path_fault(label)
            above = label.rpartition(SEPARATOR)[0]
            if label in parents:
                fault = f"{shown(label)} is there twice", "each label once"
            elif above and above not in known:
                problem = f"{shown(label)} has no parent {shown(above)} in the list"
                fault = problem, "every ancestor of a label as a label"
            if fault:
                raise InputError("labels", *fault)
            parents[label] = (above,) if above else ()
        self._set_up(parents)

    @classmethod
    def from_edges(cls, parents: Mapping[str, Iterable[str]]) -> Taxonomy:
        """A Taxonomy of bare names, in which one may have several parents.

        Args:
            parents: for each label the labels right above it; a top one may be left out.

        Raises:
            InputError: there is a cycle.
        """
        edges = {child: tuple(dict.fromkeys(above)) for child, above in parents.items()}
        labels = dict.fromkeys([*sum(edges.values(), ()), *edges])
        taxonomy = cls.__new__(cls)
        try:
            taxonomy._set_up({label: edges.get(label, ()) for label in labels})
        except CycleError as error:
            names = ", ".join(map(shown, error.args[1][:5]))
            problem = f"{names} stand above and below each other"
            raise InputError("edges", problem, "a graph without cycles") from None
        return taxonomy

    def _set_up(self, parents: dict[str, tuple[str, ...]]) -> None:
        self.labels, self._parents = tuple(parents), parents
        self.ids = {label: number for number, label in enumerate(parents)}
        self._level: dict[str, int] = {}
        for label in TopologicalSorter(parents).static_order():
            above = (self._level[parent] for parent in parents[label])
            self._level[label] = 1 + max(above, default=0)
        levels: list[list[str]] = [[] for _ in range(max(self._level.values()))]
        self._children: dict[str | None, list[str]] = {label: [] for label in (None, *parents)}
        for label in parents:
            levels[self._level[label] - 1].append(label)
            for parent in parents[label] or (None,):
                self._children[parent].append(label)
        self.levels = tuple(map(tuple, levels))

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self.ids

    def parents(self, label: str) -> tuple[str, ...]:
        """The labels right above one; empty at the top."""
        return self._parents[label]

    def ancestors(self, label: str) -> tuple[str, ...]:
        """All labels above one, from the top down, without itself."""
        above: set[str] = set()
        waiting = list(self._parents[label])
        while waiting:
            parent = waiting.pop()
            if parent not in above:
                above.add(parent)
                waiting += self._parents[parent]
        return self._from_the_top(above)

    def children(self, label: str | None = None) -> tuple[str, ...]:
        """The labels right below one; with None those at the top."""
        return tuple(self._children[label])

    def level(self, label: str) -> int:
        """1 at the top; below, one more than the deepest parent's."""
        return self._level[label]

    @property
    def nodes(self) -> dict[str, tuple[str, ...]]:
        """The last part of the paths, with all the labels that end in it.

        One with several stands for a node of several parents, or for different things of one name.
        """
        labels: dict[str, tuple[str, ...]] = {}
        for label in self.labels:
            name = label.rpartition(SEPARATOR)[2]
            labels[name] = (*labels.get(name, ()), label)
        return labels

    def unfold(self) -> Taxonomy:
        """The same graph with paths as labels, as the files want them: a label a way from the top.

        Raises:
            InputError: a name cannot be a part of a path, or is a path already.
        """
        paths: dict[str, list[str]] = {}
        for label in self._from_the_top(self.labels):
            above = [path for parent in self._parents[label] for path in paths[parent]]
            paths[label] = [f"{path}{SEPARATOR}{label}" for path in above] or [label]
        return Taxonomy([path for way in paths.values() for path in way])

    def missing(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The ancestors of labels that are not among them, from the top down."""
        present = set(labels)
        above = {ancestor for label in present for ancestor in self.ancestors(label)}
        return self._from_the_top(above - present)

    def complete(self, labels: Iterable[str]) -> list[str]:
        """Labels with all their ancestors, each once, in the order of the ids."""
        present = set(labels)
        return sorted(present | set(self.missing(present)), key=self.ids.__getitem__)

    def indicators(self, rows: Sequence[Iterable[str]]) -> np.ndarray:
        """Lists of labels as zeros and ones: a bool array of shape [rows, labels]."""
        matrix = np.zeros((len(rows), len(self.labels)), dtype=bool)
        for number, labels in enumerate(rows):
            matrix[number, [self.ids[label] for label in labels]] = True
        return matrix

    def names(self, matrix: np.ndarray) -> list[list[str]]:
        """The inverse of `indicators`; each row in the order of the ids."""
        return [[self.labels[column] for column in np.flatnonzero(row)] for row in matrix]

    def _from_the_top(self, labels: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(labels, key=lambda one: (self._level[one], self.ids[one])))


def path_fault(label: str, separator: str = SEPARATOR) -> tuple[str, str] | None:
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
