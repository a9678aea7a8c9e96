"""Chapters: solutions/ is the source, notebooks/ is generated from it.

    python tools/notebooks.py generate [--check]       write (or compare) the learner's editions,
                                                       and the Chinese ones (tools/translate.py)
    python tools/notebooks.py execute [NAME ...]       run solutions/ and save the outputs
    python tools/notebooks.py import FILE.py NOTEBOOK  percent script -> notebook in solutions/
    python tools/notebooks.py export NOTEBOOK FILE.py  and back

A chapter may be edited in JupyterLab or as a script in jupytext's percent format. `import` keeps
the identifiers of cells that stayed the same, and their outputs down to the first code cell that
changed: what follows a change was not computed by the code that now stands above it. The notation
of exercises is explained in tools/exercises.py.

A learner's edition carries a digest of its own cells. As long as they match it, `generate` may
replace the file; where someone has worked in it, `generate` refuses (unless told --force). Outputs
are not work; text, tags, other metadata and attachments are. Notebooks of other names are the
learner's own: nothing is ever deleted.

A code cell that begins with `# NBVAL_CHECK_OUTPUT` has its output compared by nbval; the mark is
taken out of the learner's edition, which has no outputs.
"""

from __future__ import annotations

import argparse
import base64
import copy
import hashlib
import json
import os
import re
import sys
import warnings
from itertools import pairwise, takewhile, zip_longest
from pathlib import Path

# nbformat's validator would compile 38 grammars, in three seconds, for a check that it never makes.
sys.modules.setdefault("rfc3987_syntax", None)

import jupytext  # noqa: E402
import nbformat  # noqa: E402
from jupytext.combine import map_outputs_to_inputs  # noqa: E402
from nbconvert.preprocessors import ClearOutputPreprocessor  # noqa: E402
from nbformat import NotebookNode  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.chapters.progress import reading_order  # noqa: E402
from course_lib.runtime import InputError, atomic_file, tuning  # noqa: E402
from course_lib.runtime.files import read_bytes, read_json  # noqa: E402
from tools import exercises  # noqa: E402

SOLUTIONS, LEARNERS = ROOT / "solutions", ROOT / "notebooks"
CHECK_OUTPUT = "# NBVAL_CHECK_OUTPUT"
METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}
PERCENT_SCRIPT = "a script in jupytext's percent format"
VIEW = ("collapsed", "execution", "ExecuteTime", "jupyter", "scrolled", "trusted")
WIDGET = "application/vnd.jupyter.widget-view+json"


# Reading and writing


def chapters(names: list[str] | None = None) -> list[Path]:
    """Return the notebooks of solutions/ in order; `names` are stems, prefixes or paths of some.

    A chapter that was added later has a letter behind its number: 04a is read before 04.
    """
    found = [path for path in SOLUTIONS.glob("*.ipynb") if exercises.NUMBER.match(path.name)]
    found.sort(key=reading_order)
    if not names:
        return found
    chosen = []
    for name in names:
        stem = Path(name).name.removesuffix(".ipynb")
        matches = [path for path in found if path.stem == stem or path.stem.startswith(f"{stem}_")]
        if not matches:
            known = ", ".join(path.stem for path in found) or "none yet"
            raise InputError(name, "no such chapter in solutions/", f"one of: {known}")
        chosen += matches
    return chosen


def read(path: str | os.PathLike) -> NotebookNode:
    """Read a notebook (any nbformat 4; cells without an id get one) or raise InputError."""
    data = read_json(path, "a notebook")
    if not isinstance(data, dict) or "nbformat" not in data:
        raise InputError(path, "is JSON, but no notebook", "an object with nbformat and cells")
    if data["nbformat"] != 4 or not isinstance(data.get("nbformat_minor"), int):
        version = f"{data['nbformat']}.{data.get('nbformat_minor')}"
        raise InputError(path, f"has nbformat {version}", "nbformat 4: save it in JupyterLab")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about ids, which are looked at below
        try:
            nbformat.validate(copy.deepcopy(data))  # it writes ids into what it is given
        except nbformat.ValidationError as error:
            raise InputError(path, _short(error), "a valid notebook") from None
        except (LookupError, TypeError):  # before it comes to the schema
            problem = "its cells are not a list of cells"
            raise InputError(path, problem, "a valid notebook") from None
    notebook = nbformat.v4.to_notebook(data)
    seen: dict[str, int] = {}
    for number, cell in enumerate(notebook.cells, 1):
        first = seen.setdefault(cell.get("id"), number)
        if "id" in cell and first != number:
            problem = f"has the id {cell.id!r} of cell {first}"
            raise InputError(f"{path}, cell {number}", problem, "another id")
    identify(notebook)
    return notebook


def _require_suffix(path: Path, suffix: str) -> None:
    """Two paths in the wrong order must not overwrite one kind of file with another."""
    if path.suffix != suffix:
        raise InputError(path, f"does not end in {suffix}", f"the name of a {suffix} file")


def text_of(notebook: NotebookNode) -> str:
    """Serialize a notebook so that equal notebooks give equal bytes."""
    nbformat.validate(notebook)
    return nbformat.v4.writes(notebook) + "\n"


def write(notebook: NotebookNode, path: str | os.PathLike) -> None:
    try:
        text = text_of(notebook)
    except nbformat.ValidationError as error:
        problem = f"would not be a valid notebook: {_short(error)}"
        raise InputError(path, problem, "other metadata in its cells") from None
    with atomic_file(path) as handle:
        handle.write(text)


def identify(notebook: NotebookNode) -> None:
    """Give every cell without an id one that depends on its content alone."""
    taken = {cell.id for cell in notebook.cells if "id" in cell}
    for cell in notebook.cells:
        if "id" not in cell:
            digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()
            names = (digest[start : start + 8] for start in range(56))
            cell["id"] = next(name for name in names if name not in taken)
            taken.add(cell.id)
    notebook["nbformat"], notebook["nbformat_minor"] = 4, 5


# Between percent scripts and notebooks


def import_script(script: str | os.PathLike, target: str | os.PathLike) -> NotebookNode:
    """Turn a percent script into the notebook `target` and write it."""
    script, target = Path(script), Path(target)
    _require_suffix(script, ".py")
    _require_suffix(target, ".ipynb")
    try:
        text = read_bytes(script).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(script, "is not UTF-8 text", PERCENT_SCRIPT) from None
    notebook = _from_script(text, script)
    notebook["metadata"] = nbformat.from_dict(METADATA)
    if target.exists():
        _update(notebook, read(target))
    identify(notebook)
    write(notebook, target)
    return notebook


def _update(notebook: NotebookNode, previous: NotebookNode) -> None:
    """Take over from `previous` the ids of cells, and outputs above the first changed code."""
    places = map_outputs_to_inputs(notebook.cells, previous.cells)  # as jupytext --update does
    for cell, place in zip(notebook.cells, places, strict=True):
        if place is not None:
            cell["id"] = previous.cells[place].id
    pairs = zip(_code(notebook), _code(previous), strict=False)
    for cell, old in takewhile(lambda pair: pair[0].source == pair[1].source, pairs):
        cell["outputs"], cell["execution_count"] = old.outputs, old.execution_count
    if "course" in previous.metadata:
        notebook.metadata["course"] = previous.metadata.course


def _code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _from_script(text: str, where: Path) -> NotebookNode:
    try:
        notebook = jupytext.reads(text, fmt="py:percent")
    except Exception as error:  # jupytext has no error of its own for metadata it cannot use
        problem = f"jupytext cannot read it ({type(error).__name__}: {_short(error)})"
        raise InputError(where, problem, PERCENT_SCRIPT) from None
    for number, cell in enumerate(notebook.cells, 1):
        cell.pop("id", None)  # jupytext draws it at random
        cell.metadata.pop("lines_to_next_cell", None)  # how the script was spaced
        exercises.to_nbgrader(cell, f"{where}, cell {number}")
    return notebook


def export_script(source: str | os.PathLike, script: str | os.PathLike) -> None:
    """Write the notebook `source` as a percent script that `import` turns into the same cells.

    Raises:
        InputError: a script cannot hold a cell as it is, such as one with a line `# %%`, with
            attachments, or with an empty line at its end. Nothing was written.
    """
    source = Path(source)
    _require_suffix(Path(script), ".py")
    notebook = read(source)
    exported = copy.deepcopy(notebook)
    for cell in exported.cells:
        exercises.from_nbgrader(cell)
    filters = {"notebook_metadata_filter": "-all", "cell_metadata_filter": "all"}
    exported["metadata"] = nbformat.from_dict({"jupytext": filters})
    text = jupytext.writes(exported, fmt="py:percent")
    _require_same_cells(notebook, _from_script(text, source), source)
    with atomic_file(script) as handle:
        handle.write(text)


def _require_same_cells(notebook: NotebookNode, back: NotebookNode, where: Path) -> None:
    parts = ("cell_type", "source", "metadata", "attachments")
    cells, others = (
        [{part: cell.get(part, {}) for part in parts} for cell in each.cells]
        for each in (notebook, back)
    )
    for number, (cell, other) in enumerate(zip_longest(cells, others), 1):
        if cell != other:
            expected = "no line `# %%`, no magic in prose, no attachment, no empty line at its end"
            raise InputError(f"{where}, cell {number}", "a script would change it", expected)


# The learner's edition


def learner_edition(notebook: NotebookNode, where: str | os.PathLike = "notebook") -> NotebookNode:
    """Return the notebook that a learner gets: no answers, no outputs, the same ids.

    Raises:
        InputError: see `check_exercises` and `blank_answer` in tools/exercises.py.
    """
    exercises.check_exercises(notebook, where)
    result, _ = ClearOutputPreprocessor().preprocess(copy.deepcopy(notebook), {})
    for number, cell in enumerate(result.cells, 1):
        cell["source"] = exercises.blank_answer(cell, f"{where}, cell {number}")
        cell["metadata"] = _cell_metadata(cell)
        if cell.cell_type == "code" and cell.source.startswith(CHECK_OUTPUT):
            cell["source"] = cell.source.partition("\n")[2]
    course = {"generated": work_digest(result)}
    if "language" in notebook.metadata.get("course", {}):
        course["language"] = notebook.metadata.course.language
    result["metadata"] = nbformat.from_dict({**METADATA, "course": course})
    return result


def work_digest(notebook: NotebookNode) -> str:
    """Return a fingerprint of what a learner works on: all cells, but for empty ones.

    JupyterLab adds an empty cell when the last one is run, and VIEW when a cell runs or is folded.
    """
    cells = [
        (
            cell.cell_type,
            cell.source,
            {key: value for key, value in cell.metadata.items() if key not in VIEW},
            cell.get("attachments", {}),
        )
        for cell in notebook.cells
        if cell.source.strip()
    ]
    return hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()[:16]


def is_untouched(path: Path) -> bool:
    """Tell whether `path` holds what was generated and nothing else."""
    try:
        present = read(path)
    except InputError:
        return False
    course = present.metadata.get("course")
    return isinstance(course, dict) and work_digest(present) == course.get("generated")


def _cell_metadata(cell: NotebookNode) -> NotebookNode:
    """Keep what is part of the chapter (nbgrader's entries, tags) and drop what tools leave."""
    kept = {key: cell.metadata[key] for key in ("nbgrader", "tags") if key in cell.metadata}
    return nbformat.from_dict(kept)


def caption(cell: NotebookNode) -> str:
    """Return the caption of the figure above a cell without its markup; "" where there is none."""
    first = cell.source.split("\n\n")[0]
    label = re.match(r"\*(Figure|图)[:：]", first) if cell.cell_type == "markdown" else None
    plain = re.sub(r"[*`$]|\]\([^)]*\)|\[", "", first[label.end() :]) if label else ""
    return " ".join(plain.split())


def captioned(notebook: NotebookNode) -> NotebookNode:
    """Return a copy in which each saved picture has its caption as its text alternative."""
    result = copy.deepcopy(notebook)
    for cell, after in pairwise(result.cells):
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output["metadata"] = nbformat.from_dict({"image/png": {"alt": caption(after)}})
    return result


def generate(check: bool = False, force: bool = False) -> list[Path]:
    """Write notebooks/, the Chinese editions and the README's picture; return what differed.

    In solutions/, the pictures get their text alternatives. With `check` all is only compared.
    Notebooks of other names are left alone.

    Raises:
        InputError: there are no chapters, one of them is not fit to be handed out, or someone has
            worked in an edition that would be replaced (not with `force`). Nothing was written.
    """
    sources = chapters()
    if not sources:
        raise InputError(SOLUTIONS, "holds no chapters", "NN_name.ipynb to generate from")
    from tools import translate  # which imports this module

    chinese = {path: captioned(book) for path, book in translate.editions().items()}
    originals = {path: read(path) for path in sources}
    books = originals | chinese
    editions = chinese | {
        LEARNERS / path.relative_to(SOLUTIONS): learner_edition(book, path.relative_to(ROOT))
        for path, book in books.items()
    }
    changed = [path for path, edition in editions.items() if not _holds(path, edition)]
    if not check:
        for path in changed:
            if not force and path.exists() and not is_untouched(path):
                raise InputError(
                    path.relative_to(ROOT),
                    "someone has worked in it, and it would be replaced",
                    "it moved or renamed first (or --force, which loses that work)",
                )
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(editions[path], path)
    for path, book in originals.items():
        if (told := captioned(book)) != book:
            changed.append(path)
            if not check:
                write(told, path)
    target, picture = ROOT / "docs" / "quick_start.png", readme_picture()
    if picture is not None and (not target.exists() or target.read_bytes() != picture):
        changed.append(target)
        if not check:
            with atomic_file(target, "wb") as file:
                file.write(picture)
    return changed


def _holds(path: Path, edition: NotebookNode) -> bool:
    return path.is_file() and path.read_bytes() == text_of(edition).encode()


def readme_picture() -> bytes | None:
    """Return the saved figure of chapter 01's demo, which the README shows; None without one."""
    for path in SOLUTIONS.glob("01_*.ipynb"):
        for cell in _code(read(path)):
            for output in cell.outputs if "LiveFigure(bars" in cell.source else []:
                if "image/png" in output.get("data", {}):
                    return base64.b64decode(output.data["image/png"])
    return None


# Running


def kernel_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a kernel that finds course_lib and runs the shipped defaults."""
    # What course_lib has set in this process is for the kernel's own course_lib to set.
    dropped = ("MPLBACKEND", "COURSE_BACKBONE", *tuning.VARIABLES)
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    paths = [str(ROOT), os.environ.get("PYTHONPATH")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **variables}


def code_digest(notebook: NotebookNode) -> str:
    """Return a fingerprint of all code, to tell saved outputs from outputs of an older version."""
    code = [cell.source for cell in _code(notebook)]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def tidy(notebook: NotebookNode) -> None:
    """Take out of the outputs what differs between two runs without meaning anything."""
    notebook["metadata"] = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell["metadata"] = _cell_metadata(cell)
    for cell in _code(notebook):
        # A progress bar is a widget: without its kernel, all that is left of it is its first state.
        cell["outputs"] = [output for output in cell.outputs if not _is_bar(output)]
        for output in cell.outputs:
            data = output.get("data", {})
            data.pop(WIDGET, None)  # its model exists in the kernel that has just ended
            for holder, key in ((output, "text"), (data, "text/plain")):
                if key in holder:
                    holder[key] = re.sub(r"\b0x[0-9a-f]{6,16}\b", "0x...", holder[key])


def _is_bar(output: NotebookNode) -> bool:
    data = output.get("data", {})
    return WIDGET in data and re.match(r"\s*\d+%\|", data.get("text/plain", "")) is not None


def client_of(notebook: NotebookNode, place: Path, **options):
    """Return a client that runs a notebook in the directory `place`, by this Python's kernel."""
    import nbclient
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    return nbclient.NotebookClient(
        notebook,
        # No other directories: a kernel "python3" of the user's own would be found first.
        km=AsyncKernelManager(kernel_spec_manager=KernelSpecManager(kernel_dirs=[])),
        extra_arguments=["--IPKernelApp.log_level=ERROR"],  # it warns about Jupyter, not a chapter
        startup_timeout=600,
        resources={"metadata": {"path": str(place)}},
        **options,
    )


def execute(path: Path, profile: str = "cpu", save: bool = True) -> str | None:
    """Run a notebook in a fresh kernel, in its own directory; return what went wrong, if anything.

    Outputs are saved only when every cell ran. The profile is part of what is saved, so a run to
    be saved is one with the CPU and the shipped defaults.
    """
    import nbclient

    notebook, place = read(path), "before the first cell"

    def remember(cell: NotebookNode, cell_index: int) -> None:
        nonlocal place
        line = next((line for line in cell.source.splitlines() if line.strip()), "")
        place = f"cell {cell_index + 1} ({line[:60]!r})"

    client = client_of(
        notebook,
        path.parent,
        timeout=1800,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,  # which also leaves of a rewritten line its last state
        on_cell_execute=remember,
    )
    environment = kernel_environment(COURSE_PROFILE=profile, COURSE_DEVICE="cpu")
    try:
        # nbclient leaves a kernel running that came from a manager it was given, unless told.
        client.execute(cleanup_kc=True, env=environment)
    except (nbclient.exceptions.CellExecutionError, nbclient.exceptions.DeadKernelError) as error:
        return f"{path.name}, {place}: {_short(error)}; the file is as it was"
    except nbclient.exceptions.CellTimeoutError:
        return f"{path.name}, {place}: ran for 30 minutes; the file is as it was"
    if save:
        tidy(notebook)
        notebook.metadata["course"] = {"profile": profile, "code": code_digest(notebook)}
        write(notebook, path)
    return None


def _short(error: Exception) -> str:
    name, value = getattr(error, "ename", None), getattr(error, "evalue", "")
    first = next(iter(str(error).splitlines()), type(error).__name__)
    return f"{name}: {value}" if name else first


# Command line


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Generate, execute and convert the chapters.",
        epilog="The notation of exercises is explained at the top of tools/exercises.py.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("generate", help="write notebooks/ from solutions/")
    command.add_argument("--check", action="store_true", help="only compare; status 1 if different")
    command.add_argument("--force", action="store_true", help="replace what learners worked in")
    command = commands.add_parser("execute", help="run solutions/ and save the outputs")
    command.add_argument("names", nargs="*", help="01, or 01_quick_start_sentiment (default: all)")
    command.add_argument("--profile", default="cpu", choices=["cpu", "gpu", "smoke"])
    command.add_argument("--no-save", action="store_true", help="run only, keep the saved outputs")
    command = commands.add_parser("import", help="percent script -> notebook")
    command.add_argument("script", type=Path)
    command.add_argument("notebook", type=Path)
    command = commands.add_parser("export", help="notebook -> percent script")
    command.add_argument("notebook", type=Path)
    command.add_argument("script", type=Path)
    options = parser.parse_args(arguments)
    try:
        if options.command == "generate":
            changed = generate(options.check, options.force)
            verb = "differs from its source" if options.check else "written"
            for path in changed:
                print(f"{path.relative_to(ROOT)}: {verb}")
            if options.check and changed:
                print("run: make notebooks", file=sys.stderr)
            return int(options.check and bool(changed))
        if options.command == "execute":
            failed = 0
            for path in chapters(options.names):
                problem = execute(path, options.profile, save=not options.no_save)
                failed += problem is not None
                print(problem or f"{path.name}: done", file=sys.stderr if problem else sys.stdout)
            return min(failed, 1)
        if options.command == "import":
            import_script(options.script, options.notebook)
        else:
            export_script(options.notebook, options.script)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
