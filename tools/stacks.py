"""Which sections of the chapters run on Paddle 2.6 and on 3: docs/stacks.md, by running them.

    .venv/bin/python tools/stacks.py run [NAME ...]           this Python's stack: the learner's
    .venv-paddle3/bin/python tools/stacks.py run [NAME ...]   editions, in the profile smoke
    .venv/bin/python tools/stacks.py generate [--check]       write the page from both results

`run` adds to data/results/stacks.json after each chapter. A section runs when none of its cells
raises; a blank exercise does not raise.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.runtime import atomic_file, stack
from tools import notebooks, pages

RESULTS, PAGE = ROOT / "data" / "results" / "stacks.json", ROOT / "docs" / "stacks.md"
RUNS = "runs"


def sections(notebook) -> dict[str, str]:
    """Return the outcome of each section of a notebook that has been run, by its heading."""
    found, heading = {}, ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            titles = [line[3:].strip() for line in cell.source.splitlines() if line[:3] == "## "]
            heading = titles[-1] if titles else heading
            continue
        found.setdefault(heading or "Setup", RUNS)
        errors = [output for output in cell.outputs if output.output_type == "error"]
        if errors and found[heading or "Setup"] == RUNS:
            reason = (errors[0].evalue.strip().splitlines() or [""])[-1][:200]
            found[heading or "Setup"] = f"{errors[0].ename}: {reason}"
    return found


def run(path: Path) -> dict[str, str]:
    """Run one notebook to its end, whatever fails on the way, and return its sections' outcomes."""
    import nbclient

    notebook = notebooks.read(path)
    client = notebooks.client_of(notebook, path.parent, allow_errors=True, timeout=900)
    environment = notebooks.kernel_environment(COURSE_PROFILE="smoke", COURSE_DEVICE="cpu")
    try:
        client.execute(cleanup_kc=True, env=environment)
    except nbclient.exceptions.DeadKernelError:
        return {**sections(notebook), "The whole": "the kernel died"}
    return sections(notebook)


def run_all(names: list[str]) -> None:
    """Run chapters on this Python's stack, and keep what came out."""
    for source in notebooks.chapters(names):
        begin = time.monotonic()
        outcome = {
            "command": "python tools/stacks.py run",
            "date": datetime.date.today().isoformat(),
            "seconds": 0,
            "sections": run(ROOT / "notebooks" / source.name),
        }
        outcome["seconds"] = round(time.monotonic() - begin)
        results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
        results.setdefault(f"Paddle {stack.VERSION}", {})[source.stem] = outcome
        ordered = {key: dict(sorted(results[key].items())) for key in sorted(results)}
        with atomic_file(RESULTS) as file:
            file.write(json.dumps(ordered, ensure_ascii=False, indent=1) + "\n")
        stops = {key: text for key, text in outcome["sections"].items() if text != RUNS}
        print(source.stem, outcome["seconds"], "s", stops or "all sections run", flush=True)


def page() -> str:
    """Return the text of docs/stacks.md."""
    results = json.loads(RESULTS.read_text("utf-8"))
    stacks = list(results)
    rows, runs = [], dict.fromkeys(stacks, 0)
    for chapter in sorted({name for each in results.values() for name in each}):
        outcomes = {each: results[each].get(chapter, {}).get("sections", {}) for each in stacks}
        for section in dict.fromkeys(key for each in outcomes.values() for key in each):
            told = [outcomes[each].get(section, "not run yet") for each in stacks]
            for each, text in zip(stacks, told, strict=True):
                runs[each] += text == RUNS
            rows.append([chapter, section, *(text.replace("|", "\\|") for text in told)])
    counts = ", ".join(f"{runs[each]} on {each}" for each in stacks)
    tried = {row[0] for row in rows}
    missing = [
        path.stem.partition("_")[0] for path in notebooks.chapters() if path.stem not in tried
    ]
    gaps = [f"No section was tried of the chapters {', '.join(missing)}."] if missing else []
    return "\n".join(
        [
            "<!-- Written by tools/stacks.py; do not edit it here. -->",
            "",
            "# What runs on which version of Paddle",
            "",
            "Every section runs on Paddle 2.6.2: the outputs in `solutions/` come from it, and",
            "`make test` runs them again. This page shows which sections also run on a newer",
            "version: the same cells, on a CPU, with few steps (profile `smoke`).",
            f"Of {len(rows)} sections that were tried, these run without an error: {counts}.",
            *gaps,
            "",
            *pages.table(["chapter", "section", *stacks], rows),
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] != ["run"]:
        return pages.run(given, "tools/stacks.py", PAGE, page)
    parser = argparse.ArgumentParser(prog="tools/stacks.py run", description="Run chapters.")
    parser.add_argument("names", nargs="*", help="chapters, such as 06; none means all")
    run_all(parser.parse_args(given[1:]).names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
