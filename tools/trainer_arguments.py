"""docs/trainer_arguments.md: what every argument of PaddleNLP's Trainer does in this version.

    python tools/trainer_arguments.py generate [--check]   write (or compare) the page

Names, types and defaults are those of the installed classes. docs/trainer_arguments.yml has the
defaults that the documents give, so that the page computes where the two differ, and what an
argument does, as its test in tests/test_trainer_arguments.py observes it.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.runtime import atomic_file  # noqa: E402

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
    here, compression = fields(TrainingArguments), fields(CompressionArguments)
    changed = other_defaults()
    lines = [
        "<!-- Written by tools/trainer_arguments.py from the installed PaddleNLP; "
        "do not edit it here. -->",
        "",
        "# The arguments of the Trainer",
        "",
        f"The {len(ARGUMENTS)} arguments of `TrainingArguments` that the documents describe, as "
        f"they are in PaddleNLP {paddlenlp.__version__}. Each was set by a test, and what the page "
        "says of it is what that test observes (`tests/test_trainer_arguments.py`). The status "
        "says how much could be seen:",
        "",
        *_table(
            ["Status", "Meaning", "Arguments"],
            [
                [status, meaning, sum(a.status == status for a in ARGUMENTS.values())]
                for status, meaning in STATUSES.items()
            ],
        ),
        "",
    ]
    for title, group in GROUPS.items():
        rows = []
        for name, argument in group.items():
            value = _code(default(here[name]))
            if name in changed:
                value += f" (documents: {_code(argument.documented)})"
            mark = " (*)" if argument.differs else ""
            kind = type_name(here[name])
            rows.append([f"`{name}`", kind, value, argument.status, argument.effect + mark])
        header = ["Argument", "Type", "Default", "Status", "What was seen"]
        lines += [f"## {title}", "", *_table(header, rows), ""]
    lines += [
        "## Where this version differs from the documents",
        "",
        "Arguments marked (*) above, and those with another default.",
        "",
    ]
    for name, argument in ARGUMENTS.items():
        told = [argument.differs] if argument.differs else []
        if name in changed:
            now, (then,) = changed[name]
            told.insert(0, f"The default is {_code(now)}, not {_code(then)}.")
        if told:
            lines.append(f"- `{name}`: {' '.join(told)}")
    others = [name for name in here if name not in ARGUMENTS]
    rows = [[f"`{n}`", type_name(here[n]), _code(default(here[n]))] for n in others]
    lines += [
        "",
        "## Not in the documents",
        "",
        f"The other {len(others)} fields of this version's `TrainingArguments`, most of them for "
        "large models on many devices. They are not tested here.",
        "",
        *_table(["Field", "Type", "Default"], rows),
        "",
        "## CompressionArguments",
        "",
        "The fields that `CompressionArguments` adds. Where the default is None, the next column "
        "is what `print_config()` puts in its place.",
        "",
    ]
    different, filled = other_defaults(CompressionArguments), filled_in()
    rows = []
    for name, field in compression.items():
        if name not in here:
            row = [f"`{name}`", type_name(field), _code(default(field))]
            row.append(_code(filled[name]) if name in filled else "")
            there = COMPRESSION.get(name)
            told = "not described" if there is None else " or ".join(map(_code, there))
            rows.append([*row, told or "no default given"])
    header = ["Field", "Type", "Default", "After `print_config()`", "Documents"]
    lines += [
        *_table(header, rows),
        "",
        "It inherits all fields of `TrainingArguments`. These have another default than there, or "
        "than in the documents on compression:",
        "",
    ]
    rows = []
    for name, field in compression.items():
        if name in here and (default(field) != default(here[name]) or name in different):
            there = " or ".join(map(_code, COMPRESSION[name]))
            parent = _code(default(here[name]))
            rows.append([f"`{name}`", _code(default(field)), parent, there])
    header = ["Field", "Default", "In `TrainingArguments`", "Documents"]
    lines += [*_table(header, rows), ""]
    return "\n".join(lines)


def _code(value: object) -> str:
    return value if value is REQUIRED else f"`{value!r}`"


def _table(header: list[str], rows: list[list]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (header, ["---"] * len(header), *rows)]


def generate(check: bool = False) -> bool:
    """Write the page, or with `check` only compare it; return whether it differed."""
    text = page()
    differs = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text
    if differs and not check:
        PAGE.parent.mkdir(exist_ok=True)
        with atomic_file(PAGE) as file:
            file.write(text)
    return differs


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Generate docs/trainer_arguments.md.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("generate", help="write the page from the installed classes")
    command.add_argument("--check", action="store_true", help="only compare; status 1 if different")
    options = parser.parse_args(arguments)
    differs = generate(options.check)
    if differs:
        verb = "differs from the code" if options.check else "written"
        print(f"{PAGE.relative_to(ROOT)}: {verb}")
    if options.check and differs:
        print("run: python tools/trainer_arguments.py generate", file=sys.stderr)
    return int(options.check and differs)


if __name__ == "__main__":
    sys.exit(main())
