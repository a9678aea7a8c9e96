"""Labels and their parents: the paths of a tree."""

import os
from collections.abc import Iterable, Sequence

from ...data.readers import check_label, shown
from ...runtime import InputError

import numpy as np

SEPARATOR = "##"


class Taxonomy:
    """A list of labels in a fixed order (their ids), and the parents of each.

    A label is a path from the top, its parts joined by "##": `书##不好##内容`. Its parent
    is the path without the last part, which must be a label too. A node with several parents is
    written as several paths that end alike.

    Args:
        labels: the paths, in the order of their ids.

    Attributes:
        labels: in the order of their ids.
        ids: the number of each label.
        levels: the labels of each level, the top one first.

    Raises:
        InputError: there is no label, or one text instead of several; a label is repeated, is no
            path (`check_path`), or its parent is no label.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        if not labels or isinstance(labels, str):
            raise InputError("labels", f"are {labels!r}", "a list of at least one label")
        known = set(labels)
        self.ids: dict[str, int] = {}
        self._children: dict[str | None, list[str]] = {label: [] for label in (None, *labels)}
        for label in labels:
            self.check_path(label, "labels")
            parent = self.parent(label)
            if label in self.ids:
                raise InputError("labels", f"{shown(label)} is there twice", "each label once")
            if parent is not None and parent not in known:
                problem = f"{shown(label)} has no parent {shown(parent)} in the list"
                raise InputError("labels", problem, "every ancestor of a label as a label")
            self.ids[label] = len(self.ids)
            self._children[parent].append(label)
        self.labels = tuple(labels)
        levels = range(1, 1 + max(map(self.level, labels)))
        self.levels = tuple(
            tuple(label for label in labels if self.level(label) == level) for level in levels
        )

    @staticmethod
    def check_path(
        label: str, where: str | os.PathLike, line: int | None = None, separator: str = SEPARATOR
    ) -> str:
        """Give a label back with "##" instead of its separator.

        Raises:
            InputError: it is empty, holds a comma (which separates labels) or characters that
                cannot be seen, or one of its parts is empty or begins or ends with white space.
        """
        check_label(label, where, line)
        parts = label.split(separator)
        if "," in label:
            problem = f"{shown(label)} holds a comma, which separates labels"
        elif not all(part.strip() for part in parts):
            problem = f"{shown(label)} has an empty part"
        elif any(part != part.strip() for part in parts):
            problem = f"{shown(label)} has white space around a part"
        elif separator + separator[-1] in label:
            problem = f"{shown(label)} has more than {separator} between its parts"
        elif separator != SEPARATOR and SEPARATOR in label:
            problem = f"{shown(label)} holds {SEPARATOR}"
        else:
            return label.replace(separator, SEPARATOR)
        expected = f"names without a comma, with {separator} alone between them"
        raise InputError(where, problem, expected, line)

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self.ids

    def parent(self, label: str) -> str | None:
        """The label right above one; None at the top."""
        return label.rpartition(SEPARATOR)[0] or None

    @staticmethod
    def ancestors(label: str) -> tuple[str, ...]:
        """All labels above one, from the top down, without itself."""
        parts = label.split(SEPARATOR)
        return tuple(SEPARATOR.join(parts[:end]) for end in range(1, len(parts)))

    def children(self, label: str | None = None) -> tuple[str, ...]:
        """The labels right below one; with None those at the top."""
        return tuple(self._children[label])

    def level(self, label: str) -> int:
        """1 at the top, and one more for each part of the path."""
        return 1 + label.count(SEPARATOR)

    def missing(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The ancestors of labels that are not among them, from the top down."""
        present = set(labels)
        above = {ancestor for label in present for ancestor in self.ancestors(label)}
        return tuple(sorted(above - present, key=lambda one: (self.level(one), self.ids[one])))

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
