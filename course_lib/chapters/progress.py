"""Which exercises are solved: the table of notebooks/start.ipynb and of `make progress`.

Nothing is kept beside the notebooks: an exercise is solved when the saved output of its check cell
says so. Clearing the outputs sets the count back to zero.
"""

import re
from pathlib import Path

from course_lib.runtime import InputError
from course_lib.runtime.files import read_json

WORDS = {
    "en": ("Chapter", "Minutes", "Solved", "Still open", "Together"),
    "zh": ("章", "分钟", "已完成", "未完成", "合计"),
}


def reading_order(notebook: Path) -> str:
    """Return a key to sort chapters by: one with a letter behind its number, 04a, is before 04."""
    return notebook.name.replace("_", "~", 1)  # "~" sorts behind all letters


def exercises(notebook: Path) -> tuple[str, int | None, dict[str, bool]]:
    """Return a chapter's title, the minutes that it takes, and whether each exercise is solved.

    Raises:
        InputError: the file is no notebook.
    """
    cells = read_json(notebook, "a notebook").get("cells", [])
    source = "\n".join("".join(cell["source"]) for cell in cells)
    title = re.search(r"^# (.+)", source, re.MULTILINE)
    minutes = re.search(r"\*\*(?:Time|用时)\*\*\D*(\d+)", source)
    printed = "".join(
        "".join(output.get("text", ""))
        for cell in cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "stream"
    )
    names = re.findall(r'\bsolved\(\s*"([^"]+)"', source)
    said = set(re.findall(r"^([\w-]+): correct", re.sub(r"\x1b\[\d+m", "", printed), re.MULTILINE))
    return (
        title.group(1) if title else notebook.stem,
        int(minutes.group(1)) if minutes else None,
        {name: name in said for name in names},
    )


def progress(folder: str | Path = ".") -> str:
    """Return a Markdown table of the chapters in `folder`, learners' notebooks in either language.

    A notebook that cannot be read, say one with a conflict of a merge in it, has its own line.
    """
    found = [path for path in Path(folder).glob("*.ipynb") if re.match(r"\d\d[a-z]?_", path.name)]
    if not found:
        raise InputError(folder, "holds no chapter", "the folder notebooks/ or notebooks/zh/")
    chapter, time, solved, left, together = WORDS[
        "zh" if Path(folder).resolve().name == "zh" else "en"
    ]
    lines = [f"| {chapter} | {time} | {solved} | {left} |", "| --- | ---: | ---: | --- |"]
    total = done = 0
    for path in sorted(found, key=reading_order):
        try:
            title, minutes, names = exercises(path)
        except InputError as error:
            lines.append(f"| [{path.stem}]({path.name}) | | | {error.problem} |")
            continue
        total, done = total + len(names), done + sum(names.values())
        still = ", ".join(name for name, right in names.items() if not right)
        row = f"[{title}]({path.name}) | {minutes or ''} | {sum(names.values())} / {len(names)}"
        lines.append(f"| {row} | {still} |")
    return "\n".join([*lines, f"| **{together}** | | **{done} / {total}** | |"])


if __name__ == "__main__":
    import sys

    print(progress(*sys.argv[1:]))
