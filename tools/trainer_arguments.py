"""docs/trainer_arguments.md: what every argument of PaddleNLP's Trainer does in this version.

    python tools/trainer_arguments.py generate [--check]   write (or compare) the page

Names, types and defaults are those of the installed classes. docs/trainer_arguments.yml has the
defaults that the documents give, so that the page computes where the two differ, and what an
argument does, as its test in tests/test_trainer_arguments.py observes it.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import course_lib  # noqa: E402, F401, before paddlenlp
from tools import pages  # noqa: E402

import paddlenlp  # noqa: E402
import yaml  # noqa: E402
from paddlenlp.trainer import CompressionArguments, TrainingArguments  # noqa: E402
from paddlenlp.utils.log import logger  # noqa: E402

PAGE = ROOT / "docs" / "trainer_arguments.md"
REQUIRED = "required"


@dataclasses.dataclass(frozen=True)
class Argument:
    """What the documents say about an argument, and what its test has shown.

    Attributes:
        documented: the default in the documents.
        status: a key of STATUSES.
        effect: what the test observes.
        differs: what else the documents have differently; "" when nothing.
    """

    documented: object
    status: str
    effect: str
    differs: str = ""


_TABLES = yaml.safe_load((ROOT / "docs" / "trainer_arguments.yml").read_text(encoding="utf-8"))
STATUSES: dict[str, str] = _TABLES["statuses"]
GROUPS: dict[str, dict[str, Argument]] = {
    title: {name: Argument(**entry) for name, entry in group.items()}
    for title, group in _TABLES["arguments"].items()
}
ARGUMENTS = {name: argument for group in GROUPS.values() for name, argument in group.items()}
# defaults of CompressionArguments in the documents; all of them where the documents differ
COMPRESSION: dict[str, list] = _TABLES["compression"]


def default(field: dataclasses.Field) -> object:
    """The default of a dataclass's field; REQUIRED for one without."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED


def type_name(field: dataclasses.Field) -> str:
    """The type as words: "str or None", "list of str", or the values of an enumeration."""

    def words(kind) -> str:
        parts = typing.get_args(kind)
        if typing.get_origin(kind) is typing.Union:
            return " or ".join("None" if part is type(None) else words(part) for part in parts)
        if typing.get_origin(kind) is list:
            return f"list of {words(parts[0])}"
        if hasattr(kind, "__members__"):
            return ", ".join(member.value for member in kind)
        return kind.__name__

    return words(field.type)


def fields(cls: type) -> dict[str, dataclasses.Field]:
    return {field.name: field for field in dataclasses.fields(cls)}


def other_defaults(cls: type = TrainingArguments) -> dict[str, tuple[object, list]]:
    """Name -> (the default here, the documented ones), where the first is none of the second."""
    table = {name: [argument.documented] for name, argument in ARGUMENTS.items()}
    here = {name: default(field) for name, field in fields(cls).items()}
    return {
        name: (here[name], there)
        for name, there in (COMPRESSION if cls is CompressionArguments else table).items()
        if there and here[name] not in there
    }


def filled_in() -> dict[str, object]:
    """What `print_config` puts in the place of None in CompressionArguments."""
    level = logger.logger.level
    logger.set_level("ERROR")
    try:
        with tempfile.TemporaryDirectory() as directory:
            arguments = CompressionArguments(output_dir=directory)
            before = {name: getattr(arguments, name) for name in fields(CompressionArguments)}
            arguments.print_config()
    finally:
        logger.logger.setLevel(level)
    return {
        name: getattr(arguments, name)
        for name, value in before.items()
        if value is None and getattr(arguments, name) is not None
    }


def page() -> str:
    """The whole page in Markdown."""
    counts = [
        [status, meaning, sum(argument.status == status for argument in ARGUMENTS.values())]
        for status, meaning in STATUSES.items()
    ]
    lines = [
        "<!-- Written by tools/trainer_arguments.py from the installed PaddleNLP; "
        "do not edit it here. -->",
        "",
        "# The arguments of the Trainer",
        "",
        f"The {len(ARGUMENTS)} arguments of `TrainingArguments` that the documents describe, as "
        f"they are in PaddleNLP {paddlenlp.__version__}. A test sets each of them, and this page "
        "reports what the test observes (`tests/test_trainer_arguments.py`). The status says what "
        "the test could show:",
        "",
        *pages.table(["Status", "Meaning", "Arguments"], counts),
        "",
        *_documented_arguments(),
        *_other_arguments(),
        *_compression_arguments(),
        "",
    ]
    return "\n".join(lines)


def _documented_arguments() -> list[str]:
    here, changed = fields(TrainingArguments), other_defaults()
    lines, differences = [], []
    for title, group in GROUPS.items():
        rows = []
        for name, argument in group.items():
            value, kind = _code(default(here[name])), type_name(here[name])
            remarks = [argument.differs] if argument.differs else []
            mark = " (*)" if argument.differs else ""
            if name in changed:
                documented = _code(argument.documented)
                remarks.insert(0, f"The default is {value}, not {documented}.")
                value += f" (documents: {documented})"
            if remarks:
                differences.append(f"- `{name}`: {' '.join(remarks)}")
            rows.append([f"`{name}`", kind, value, argument.status, argument.effect + mark])
        header = ["Argument", "Type", "Default", "Status", "What it does"]
        lines += [f"## {title}", "", *pages.table(header, rows), ""]
    return [
        *lines,
        "## Where this version differs from the documents",
        "",
        "These are the arguments marked (*) above, and those with another default.",
        "",
        *differences,
        "",
    ]


def _other_arguments() -> list[str]:
    others = {
        name: field for name, field in fields(TrainingArguments).items() if name not in ARGUMENTS
    }
    rows = [
        [f"`{name}`", type_name(field), _code(default(field))] for name, field in others.items()
    ]
    return [
        "## Not in the documents",
        "",
        f"The other {len(others)} fields of this version's `TrainingArguments`, most of them for "
        "large models on many devices. They are not tested here.",
        "",
        *pages.table(["Field", "Type", "Default"], rows),
        "",
    ]


def _compression_arguments() -> list[str]:
    here = fields(TrainingArguments)
    different, filled = other_defaults(CompressionArguments), filled_in()
    added, inherited = [], []
    for name, field in fields(CompressionArguments).items():
        value = _code(default(field))
        documented = " or ".join(map(_code, COMPRESSION.get(name, [])))
        if name not in here:
            if not documented:
                documented = "no default given" if name in COMPRESSION else "not described"
            after = _code(filled[name]) if name in filled else ""
            added.append([f"`{name}`", type_name(field), value, after, documented])
        elif default(field) != default(here[name]) or name in different:
            inherited.append([f"`{name}`", value, _code(default(here[name])), documented])
    return [
        "## CompressionArguments",
        "",
        "These are the fields that `CompressionArguments` adds. If the default is None, the next "
        "column shows the value that `print_config()` sets.",
        "",
        *pages.table(["Field", "Type", "Default", "After `print_config()`", "Documents"], added),
        "",
        "It inherits all fields of `TrainingArguments`. These have another default than there, or "
        "than in the documents on compression:",
        "",
        *pages.table(["Field", "Default", "In `TrainingArguments`", "Documents"], inherited),
    ]


def _code(value: object) -> str:
    return value if value is REQUIRED else f"`{value!r}`"


def main(arguments: list[str] | None = None) -> int:
    return pages.run(arguments, "tools/trainer_arguments.py", PAGE, page)


if __name__ == "__main__":
    sys.exit(main())
