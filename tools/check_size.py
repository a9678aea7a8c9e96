"""The weight of the library against its budgets, which are in BUDGETS below.

    python tools/check_size.py            print the table; status 1 when a limit is broken
    python tools/check_size.py --report   print the same and pass

Where a budget is not reached yet, CEILINGS holds today's weight: the limit is the larger of the
two, so nothing grows meanwhile. Lower a ceiling with each cut, and delete it at the budget.

All lines of a file count, docstrings and blank lines too. A public name is a function or class at
the top level of a module, without an underscore in front. A function is measured without its
docstring. A package that is not in BUDGETS has none of its own; it counts in the whole.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGETS = {
    "runtime": 1500,
    "data": 3200,
    "models": 1200,
    "training": 2600,
    "compression": 2300,
    "deploy": 1800,
    "tasks": 4000,
    "cli": 1090,
    "notebook": 900,
}
LIBRARY, TESTS, NAMES = 17_000, 19_200, 350
CEILINGS = {
    "course_lib/runtime": 1767,
    "course_lib/models": 1436,
    "course_lib without chapters": 17_788,
}
COMPANION = 200  # lines of each module in chapters/
MODULE, FUNCTION = 500, 60
FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef


def sources(folder: Path) -> dict[str, str]:
    """Return the text of each Python file under `folder` by its path in it; empty if absent."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
    }


def public_names(text: str) -> list[str]:
    """Return the public functions and classes that a module defines at its top level."""
    defined = [
        node for node in ast.parse(text).body if isinstance(node, (*FUNCTIONS, ast.ClassDef))
    ]
    return [node.name for node in defined if not node.name.startswith("_")]


def functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield the name of each function or method with its lines, decorators in, docstring out."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTIONS):
            first, body = min(each.lineno for each in [node, *node.decorator_list]), node.body[0]
            docstring = ast.get_docstring(node) is not None
            outside = body.end_lineno - body.lineno + 1 if docstring else 0
            yield node.name, node.end_lineno - first + 1 - outside


def measure(root: Path) -> tuple[list[tuple[str, int, int | None, int | None]], list[str]]:
    """Return the table's rows (what, lines, budget, public names) and the broken budgets."""
    library = sources(root / "course_lib")
    lines = {path: len(text.splitlines()) for path, text in library.items()}
    names = {path: len(public_names(text)) for path, text in library.items()}
    packages = {path: path.split("/")[0] if "/" in path else "(top)" for path in library}
    outside = sorted(set(packages.values()) - BUDGETS.keys() - {"chapters"})
    kept = [path for path in library if packages[path] != "chapters"]
    companions = [path for path in library if path.startswith("chapters/ch")]
    groups = {
        f"course_lib/{package}": ([path for path in kept if packages[path] == package], budget)
        for package, budget in [*BUDGETS.items(), *((each, None) for each in outside)]
    }
    groups["course_lib without chapters"] = kept, LIBRARY
    groups["course_lib/chapters"] = sorted(set(library) - set(kept)), COMPANION * len(companions)
    rows: list[tuple[str, int, int | None, int | None]] = [
        (what, sum(lines[path] for path in paths), budget, sum(names[path] for path in paths))
        for what, (paths, budget) in groups.items()
    ]
    tests = sum(len(text.splitlines()) for text in sources(root / "tests").values())
    rows.append(("tests", tests, TESTS, None))
    measured = [(f"{path}: {n}", k) for path in library for n, k in functions(library[path])]
    modules = [(path, lines[path]) for path in library if path not in companions]
    limits = [(modules, MODULE), ([(path, lines[path]) for path in companions], COMPANION)]
    broken = [(what, count, budget) for what, count, budget, _ in rows if budget is not None]
    for items, limit in [*limits, (measured, FUNCTION)]:
        broken += [(f"course_lib/{what}", count, limit) for what, count in items]
    public = sum(names[path] for path in kept)
    broken.append(("public names outside chapters", public, NAMES))
    for what, items, limit in (("module", modules, MODULE), ("function", measured, FUNCTION)):
        if items:
            where, count = max(items, key=lambda item: item[1])
            rows.append((f"longest {what}, {where}", count, limit, None))
    allowed = [(what, n, max(budget, CEILINGS.get(what, 0))) for what, n, budget in broken]
    return rows, [f"{what}: {n:,}, limit {limit:,}" for what, n, limit in allowed if n > limit]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Compare the library's weight with its budgets.")
    parser.add_argument("--report", action="store_true", help="print only: pass in any case")
    options = parser.parse_args(arguments)
    rows, broken = measure(root)
    width = max(len(what) for what, *_ in rows) + 2
    print(f"{'package':<{width}}{'lines':>7}{'budget':>8}{'names':>7}")
    for what, count, budget, public in rows:
        marks = ["" if each is None else f"{each:,}" for each in (budget, public)]
        print(f"{what:<{width}}{count:>7,}{marks[0]:>8}{marks[1]:>7}".rstrip())
    print(*broken or ["no limit is broken"], sep="\n")
    return int(bool(broken) and not options.report)


if __name__ == "__main__":
    sys.exit(main())
