"""Chapters: solutions/ is the source, notebooks/ is generated from it.

    python tools/notebooks.py generate [--check]       write (or compare) the learner's editions
    python tools/notebooks.py execute [NAME ...]       run solutions/ afresh and save the outputs
    python tools/notebooks.py import FILE.py NOTEBOOK  percent script -> notebook in solutions/
    python tools/notebooks.py export NOTEBOOK FILE.py  and back
    python tools/notebooks.py html NAME [--output F]   one page to look at in a browser

A chapter may be edited in JupyterLab or as a script in jupytext's percent format. `import` keeps
the identifiers of cells that stayed the same, and their outputs down to the first code cell that
changed: what follows a change was not computed by the code that now stands above it.

An exercise is three cells: a prompt in markdown, an answer and its check.

    # %% [markdown]
    # ### Exercise 1: how long is long?
    # Which share of the reviews has more than 100 characters?

    # %% answer="01-long-share"
    long_share = ...
    ### BEGIN SOLUTION
    long_share = sum(length > 100 for length in lengths) / len(lengths)
    ### END SOLUTION

    # %% check="01-long-share" points=2
    if attempted("01-long-share", long_share):
        assert long_share <= 1, "A share lies between 0 and 1: divide by the number of reviews."
        assert abs(long_share - 0.2) < 0.05, "Count the characters of each text, not the reviews."
        solved("01-long-share")

The name is the number of the chapter, a hyphen, and words; it becomes nbgrader's grade_id. The
block between the two marks is what the learner writes: in notebooks/ it is replaced by the line
`# your answer here`, so what stands outside the block must be valid Python on its own. A variable
starts as `...` (not filled in); a function gets a docstring, so that its empty body is legal and
returns None. `attempted` and `solved` come from course_lib.notebook.checks. Four typical
wrong answers for each exercise stand in tests/exercises/NN_name.txt.

A learner's edition carries a digest of its own cells. As long as they match it, `generate` may
replace the file; where someone has worked in it, `generate` refuses (unless told --force). Outputs
are not work; text, tags, other metadata and attachments are. Notebooks of other names are the
learner's own: nothing is ever deleted.

A code cell that begins with `# NBVAL_CHECK_OUTPUT` has its output compared by nbval; the mark is
taken out of the learner's edition, which has no outputs.
"""

from __future__ import annotations

import argparse
import ast
import base64
import copy
import difflib
import hashlib
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.runtime import InputError, atomic_file, tuning  # noqa: E402

SOLUTIONS, LEARNERS = ROOT / "solutions", ROOT / "notebooks"
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = "# your answer here"
CHECK_OUTPUT = ("# NBVAL_CHECK_OUTPUT", "nbval-check-output")
METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}
VIEW = ("collapsed", "execution", "ExecuteTime", "jupyter", "scrolled", "trusted")
WIDGET = "application/vnd.jupyter.widget-view+json"
SOLUTION_BLOCK = re.compile(
    rf"^(?P<indent>[ \t]*){BEGIN}[ \t]*\n(?P<body>.*?)^[ \t]*{END}[ \t]*$", re.DOTALL | re.MULTILINE
)
# Whatever may have been meant as a mark: "###Begin Solution", "# END_SOLUTION", an HTML comment.
LOOSE_MARK = re.compile(r"(?:#|<!-+)[\s#]*(?:BEGIN|END)[\s_-]*SOLUTION", re.IGNORECASE)


# Reading and writing


def chapters(names: list[str] | None = None) -> list[Path]:
    """Return the notebooks of solutions/ in order; `names` are stems, prefixes or paths of some."""
    found = sorted(SOLUTIONS.glob("[0-9][0-9]_*.ipynb"))
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
    path = Path(path)
    text = _text(path, "a notebook")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(path, "is not JSON", "a notebook") from None
    if not isinstance(data, dict) or "nbformat" not in data:
        raise InputError(path, "is JSON, but no notebook", "an object with nbformat and cells")
    if data["nbformat"] != 4 or not isinstance(data.get("nbformat_minor"), int):
        version = f"{data['nbformat']}.{data.get('nbformat_minor')}"
        raise InputError(path, f"has nbformat {version}", "nbformat 4: save it in JupyterLab")
    cells = data.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise InputError(path, "its cells are not a list of cells", "a valid notebook")
    seen: dict[str, int] = {}
    for number, cell in enumerate(cells, 1):  # nbformat would quietly give the second another id
        name = cell.get("id")
        if isinstance(name, str) and seen.setdefault(name, number) != number:
            raise InputError(
                f"{path}, cell {number}", f"has the id {name!r} of cell {seen[name]}", "another id"
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a missing id, which is put right below
        try:
            nbformat.validate(data)
        except nbformat.ValidationError as error:
            raise InputError(path, _short(error), "a valid notebook") from None
        notebook = nbformat.reads(text, as_version=4)
    if not all("id" in cell for cell in notebook.cells):
        identify(notebook)
    return notebook


def _text(path: Path, expected: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(path, "does not exist", expected) from None
    except UnicodeDecodeError:
        raise InputError(path, "is not UTF-8 text", expected) from None
    except OSError as error:
        raise InputError(path, error.strerror or "cannot be read", expected) from None


def _require_suffix(path: Path, suffix: str) -> None:
    """Two paths in the wrong order must not overwrite one kind of file with another."""
    if path.suffix != suffix:
        raise InputError(path, f"does not end in {suffix}", f"the name of a {suffix} file")


def text_of(notebook: NotebookNode) -> str:
    """Serialise a notebook so that equal notebooks give equal bytes."""
    nbformat.validate(notebook)
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def write(notebook: NotebookNode, path: str | os.PathLike) -> None:
    path = Path(path)
    lines = nbformat.v4.rwbase.split_lines(copy.deepcopy(notebook))
    try:
        text = text_of(lines)
    except nbformat.ValidationError as error:
        problem = f"would not be a valid notebook: {_short(error)}"
        raise InputError(path, problem, "other metadata in its cells") from None
    with atomic_file(path) as handle:
        handle.write(text)


# Names of cells


def identify(notebook: NotebookNode, previous: NotebookNode | None = None) -> None:
    """Give every cell an id that depends on the content alone, or the one it had in `previous`."""
    known: dict[int, str] = {}
    if previous is not None:
        old, new = ([(c.cell_type, c.source) for c in nb.cells] for nb in (previous, notebook))
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            if tag == "equal" or (tag == "replace" and i2 - i1 == j2 - j1):
                ids = [cell.id for cell in previous.cells[i1:i2]]
                known.update(zip(range(j1, j2), ids, strict=True))
    taken = set(known.values())
    for index, cell in enumerate(notebook.cells):
        if index in known:
            cell["id"] = known[index]
            continue
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()
        candidates = (digest[start : start + 8] for start in range(0, 56))
        cell["id"] = next(name for name in candidates if name not in taken)
        taken.add(cell["id"])
    notebook["nbformat"], notebook["nbformat_minor"] = 4, 5


def name_of(cell: NotebookNode, role: str) -> str | None:
    """Return the exercise of an answer or check cell (`role`), None when it is not one."""
    entry = cell.metadata.get("nbgrader")
    grade_id = str(entry.get("grade_id", "")) if isinstance(entry, dict) else ""
    return grade_id.removesuffix(f"-{role}") if grade_id.endswith(f"-{role}") else None


def _to_nbgrader(cell: NotebookNode, where: str) -> None:
    if "answer" in cell.metadata and "check" in cell.metadata:
        raise InputError(where, "a cell with answer= and check=", "one cell for each")
    for role in ("answer", "check"):
        name = cell.metadata.pop(role, None)
        if name is None:
            continue
        if not isinstance(name, str) or not re.fullmatch(r"\d\d-[a-z0-9-]+", name):
            raise InputError(where, f"{role}={name!r}", f'a name such as {role}="01-long-share"')
        points = cell.metadata.pop("points", None)
        if role == "check" and (not isinstance(points, int) or points < 1):
            raise InputError(where, f'check="{name}" has no points', "points=1 or more")
        cell.metadata["nbgrader"] = {
            "schema_version": 3,
            "grade_id": f"{name}-{role}",
            "solution": role == "answer",
            "grade": role == "check",
            "locked": role == "check",
            "task": False,
        }
        if role == "check":
            cell.metadata["nbgrader"]["points"] = points


def _from_nbgrader(cell: NotebookNode) -> None:
    for role in ("answer", "check"):
        name = name_of(cell, role)
        if name is not None:
            points = cell.metadata.pop("nbgrader").get("points")
            cell.metadata[role] = name
            if role == "check":
                cell.metadata["points"] = points


# Between percent scripts and notebooks


def import_script(script: str | os.PathLike, target: str | os.PathLike) -> NotebookNode:
    """Turn a percent script into the notebook `target` and write it."""
    script, target = Path(script), Path(target)
    _require_suffix(script, ".py")
    _require_suffix(target, ".ipynb")
    notebook = _from_script(_text(script, "a script in jupytext's percent format"), script)
    previous = read(target) if target.exists() else None
    identify(notebook, previous)
    notebook["metadata"] = nbformat.from_dict(METADATA)
    if previous is not None:
        new, old_code = (
            [cell for cell in each.cells if cell.cell_type == "code"]
            for each in (notebook, previous)
        )
        for cell, old in zip(new, old_code, strict=False):
            if cell.source != old.source:
                break
            cell["outputs"], cell["execution_count"] = old.outputs, old.execution_count
        if "course" in previous.metadata:
            notebook.metadata["course"] = previous.metadata.course
    write(notebook, target)
    return notebook


def _from_script(text: str, where: Path) -> NotebookNode:
    try:
        notebook = jupytext.reads(text, fmt="py:percent")
    except Exception as error:  # jupytext has no error of its own for metadata it cannot use
        problem = f"jupytext cannot read it ({type(error).__name__}: {_short(error)})"
        raise InputError(where, problem, "a script in jupytext's percent format") from None
    for number, cell in enumerate(notebook.cells, 1):
        cell.metadata.pop("lines_to_next_cell", None)  # how the script was spaced
        _to_nbgrader(cell, f"{where}, cell {number}")
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
        _from_nbgrader(cell)
    filters = {"notebook_metadata_filter": "-all", "cell_metadata_filter": "all"}
    exported["metadata"] = nbformat.from_dict({"jupytext": filters})
    text = jupytext.writes(exported, fmt="py:percent")
    _require_same_cells(notebook, _from_script(text, source), source)
    with atomic_file(script) as handle:
        handle.write(text)


def _require_same_cells(notebook: NotebookNode, back: NotebookNode, where: Path) -> None:
    empty = nbformat.v4.new_raw_cell()  # in place of those that the other has more
    for number, (cell, other) in enumerate(
        zip_longest(notebook.cells, back.cells, fillvalue=empty), 1
    ):
        place = f"{where}, cell {number}"
        pairs = zip_longest(cell.source.split("\n"), other.source.split("\n"))
        for line, (wanted, got) in enumerate(pairs, 1):
            if wanted != got:
                change = f"lose the line {wanted!r}"
                if got is not None:
                    change = f"turn the line {wanted!r} into {got!r}"
                problem = f"a script would {change}"
                raise InputError(place, problem, "a line that a percent script can hold", line)
        for part in ("cell_type", "metadata", "attachments"):
            if cell.get(part, {}) != other.get(part, {}):
                problem = f"a script would change its {part.replace('_', ' ')}"
                raise InputError(place, problem, "a cell that a percent script can hold")


# The learner's edition


def replace_answer(source: str, answer: str | None = None) -> str:
    """Put `answer`, or the blank line that a learner finds, in place of the solution blocks."""

    def replacement(match: re.Match) -> str:
        text = STUB if answer is None else answer
        return "\n".join(match["indent"] + line if line else line for line in text.splitlines())

    return SOLUTION_BLOCK.sub(replacement, source)


def check_exercises(notebook: NotebookNode, where: str | os.PathLike) -> None:
    """Raise InputError unless each exercise is one answer with its check in the next cell.

    Args:
        where: path of the notebook; a name that begins with two digits is that of a chapter, whose
            exercises begin with the same digits.
    """
    chapter = re.match(r"\d\d(?=_)", Path(where).name)
    seen: dict[str, int] = {}
    asked = None  # the answer in the cell before
    for number, cell in enumerate(notebook.cells, 1):
        place = f"{where}, cell {number}"
        answer, check = (name_of(cell, role) for role in ("answer", "check"))
        name = answer or check
        if asked is not None and check != asked:
            raise InputError(place, f"not the check of {asked!r}", "it right after the answer")
        if check is not None and asked is None:
            raise InputError(place, f"the check of {check!r} follows no answer", "the answer first")
        if name is not None and cell.cell_type != "code":
            raise InputError(place, f"{name!r} in a {cell.cell_type} cell", "a code cell")
        if name is not None and chapter and not name.startswith(f"{chapter[0]}-"):
            raise InputError(place, f"exercise {name!r}", f"a name that begins with {chapter[0]}-")
        if answer is not None and seen.setdefault(answer, number) != number:
            raise InputError(place, f"{answer!r} is also in cell {seen[answer]}", "another name")
        asked = answer
    if asked is not None:
        raise InputError(f"{where}, cell {number}", f"{asked!r} has no check", "one right after it")


def blank_answer(cell: NotebookNode, place: str) -> str:
    """Return the cell's source without the solution, or raise InputError if it could leak."""
    answer = name_of(cell, "answer")
    blocks = len(SOLUTION_BLOCK.findall(cell.source))
    if len(LOOSE_MARK.findall(cell.source)) != 2 * blocks:
        raise InputError(
            place,
            "a solution mark without its partner, or not written exactly so",
            f"a line {BEGIN}, and later a line {END}",
        )
    if blocks != (0 if answer is None else 1):
        raise InputError(place, f"{blocks} solution blocks", "one in each answer cell only")
    if answer is None:
        return cell.source
    source = replace_answer(cell.source)
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as error:
        problem = getattr(error, "msg", error)
        raise InputError(
            place, f"the blank answer is not Python ({problem})", "a docstring or `= ...`"
        ) from None
    return source


def learner_edition(notebook: NotebookNode, where: str | os.PathLike = "notebook") -> NotebookNode:
    """Return the notebook that a learner gets: no answers, no outputs, the same ids.

    Raises:
        InputError: an exercise without its check (see `check_exercises`), an answer without a
            block, a block outside an answer, or a blank answer that is not valid Python.
    """
    check_exercises(notebook, where)
    result = copy.deepcopy(notebook)
    for number, cell in enumerate(result.cells, 1):
        cell["source"] = blank_answer(cell, f"{where}, cell {number}")
        cell["metadata"] = _cell_metadata(cell)
        if cell.cell_type != "code":
            continue
        cell["outputs"], cell["execution_count"] = [], None
        if cell.source.startswith(CHECK_OUTPUT[0]):
            cell["source"] = cell.source.partition("\n")[2]
        tags = [tag for tag in cell.metadata.get("tags", []) if tag != CHECK_OUTPUT[1]]
        if tags:
            cell.metadata["tags"] = tags
        else:
            cell.metadata.pop("tags", None)
    course = {"generated": work_digest(result)}
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


def is_untouched(path: Path, edition: NotebookNode) -> bool:
    """Tell whether `path` holds what was generated, or what `edition` holds, and nothing else."""
    try:
        present = read(path)
    except InputError:
        return False
    course = present.metadata.get("course")
    generated = course.get("generated") if isinstance(course, dict) else None
    return work_digest(present) in (generated, work_digest(edition))


def _cell_metadata(cell: NotebookNode) -> NotebookNode:
    """Keep what is part of the chapter (nbgrader's entries, tags) and drop what tools leave."""
    kept = {key: cell.metadata[key] for key in ("nbgrader", "tags") if key in cell.metadata}
    return nbformat.from_dict(kept)


def generate(check: bool = False, force: bool = False) -> list[Path]:
    """Write notebooks/ and the README's picture from solutions/; return the files that differed.

    With `check` they are only compared. Notebooks of other names are left alone.

    Raises:
        InputError: there are no chapters, one of them is not fit to be handed out, or someone has
            worked in an edition that would be replaced (not with `force`). Nothing was written.
    """
    sources = chapters()
    if not sources:
        raise InputError(SOLUTIONS, "holds no chapters", "NN_name.ipynb to generate from")
    wanted = {}
    for path in sources:
        edition = learner_edition(read(path), path.relative_to(ROOT))
        split = nbformat.v4.rwbase.split_lines(copy.deepcopy(edition))
        wanted[LEARNERS / path.name] = (edition, text_of(split).encode())
    changed = [
        path
        for path, (_, text) in wanted.items()
        if not path.is_file() or path.read_bytes() != text
    ]
    if not check:
        for path in changed:
            if not force and path.exists() and not is_untouched(path, wanted[path][0]):
                raise InputError(
                    path.relative_to(ROOT),
                    "someone has worked in it, and it would be replaced",
                    "it moved or renamed first (or --force, which loses that work)",
                )
        for path in changed:
            write(wanted[path][0], path)
    target, picture = ROOT / "docs" / "quick_start.png", readme_picture()
    if picture is not None and (not target.exists() or target.read_bytes() != picture):
        changed.append(target)
        if not check:
            with atomic_file(target, "wb") as file:
                file.write(picture)
    return changed


def readme_picture() -> bytes | None:
    """Return the saved figure of chapter 01's demo, which the README shows; None without one."""
    for path in chapters():
        for cell in read(path).cells:
            if path.stem.startswith("01_") and "SentimentDemo(" in cell.source:
                for output in cell.get("outputs", []):
                    if "image/png" in output.get("data", {}):
                        return base64.b64decode(output.data["image/png"])
    return None


# Running


@contextmanager
def course_kernel(python: str = sys.executable, **variables: str) -> Iterator[dict[str, str]]:
    """Yield an environment in which the kernel "python3" is `python` and finds course_lib.

    A kernel of the same name in the user's own Jupyter directories would be found first otherwise.
    """
    with tempfile.TemporaryDirectory(prefix="course-kernel-") as directory:
        folder = Path(directory, "kernels", "python3")
        folder.mkdir(parents=True)
        argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        argv.append(
            "--IPKernelApp.log_level=ERROR"
        )  # its warnings are about Jupyter, not a chapter
        specification = {"argv": argv, **METADATA["kernelspec"]}
        folder.joinpath("kernel.json").write_text(json.dumps(specification), encoding="utf-8")
        # What course_lib has set in this process is for the kernel's own course_lib to set.
        dropped = ("MPLBACKEND", *tuning.VARIABLES)
        environment = {k: v for k, v in os.environ.items() if k not in dropped}
        for name, value in (("JUPYTER_PATH", directory), ("PYTHONPATH", str(ROOT))):
            environment[name] = os.pathsep.join(filter(None, [value, os.environ.get(name)]))
        yield {**environment, **variables}


def code_digest(notebook: NotebookNode) -> str:
    """Return a fingerprint of all code, to tell saved outputs from outputs of an older version."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def tidy(notebook: NotebookNode) -> None:
    """Take out of the outputs what differs between two runs without meaning anything."""
    notebook["metadata"] = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell["metadata"] = _cell_metadata(cell)
        if cell.cell_type != "code":
            continue
        # A progress bar is a widget: without its kernel, all that is left of it is its first state.
        cell["outputs"] = [output for output in cell.outputs if not _is_bar(output)]
        for output in cell.outputs:
            if output.output_type == "stream":
                # A progress bar rewrites its line; what a reader sees is the last state of it.
                output["text"] = re.sub(r"[^\n]*\r(?=[^\n])", "", output.text)
            data = output.get("data", {})
            data.pop(WIDGET, None)  # its model exists in the kernel that has just ended
            for holder, key in ((output, "text"), (data, "text/plain")):
                if key in holder:
                    holder[key] = re.sub(r"\b0x[0-9a-f]{6,16}\b", "0x...", holder[key])


def _is_bar(output: NotebookNode) -> bool:
    data = output.get("data", {})
    return WIDGET in data and re.match(r"\s*\d+%\|", data.get("text/plain", "")) is not None


def execute(path: Path, profile: str = "cpu", save: bool = True) -> str | None:
    """Run a notebook in a fresh kernel, in its own directory; return what went wrong, if anything.

    Outputs are saved only when every cell ran. The profile is part of what is saved, so a run to
    be saved is one with the CPU and the shipped defaults.
    """
    import nbclient
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    notebook = read(path)
    identify(notebook, copy.deepcopy(notebook))
    fixed = {"COURSE_PROFILE": profile, "COURSE_DEVICE": "cpu"}
    with course_kernel(**fixed) as environment:
        environment.pop("COURSE_BACKBONE", None)
        kernels = Path(environment["JUPYTER_PATH"].split(os.pathsep)[0], "kernels")
        manager = AsyncKernelManager(
            kernel_name="python3",
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(kernels)]),
        )
        client = nbclient.NotebookClient(
            notebook,
            km=manager,
            timeout=1800,
            startup_timeout=600,
            record_timing=False,
            store_widget_state=False,
            coalesce_streams=True,
            resources={"metadata": {"path": str(path.parent)}},
        )
        try:
            # nbclient leaves a kernel running that came from a manager it was given, unless told.
            client.execute(cleanup_kc=True, env=environment)
        except (nbclient.exceptions.CellExecutionError, nbclient.exceptions.DeadKernelError) as err:
            return f"{path.name}, {_last_cell(notebook)}: {_short(err)}; the file is as it was"
        except nbclient.exceptions.CellTimeoutError:
            return f"{path.name}, {_last_cell(notebook)}: ran for 30 minutes; the file is as it was"
    if save:
        tidy(notebook)
        notebook.metadata["course"] = {"profile": profile, "code": code_digest(notebook)}
        write(notebook, path)
    return None


def _last_cell(notebook: NotebookNode) -> str:
    numbered = list(enumerate(notebook.cells, 1))
    code = [(number, cell) for number, cell in numbered if cell.cell_type == "code"]
    failed = [
        (number, cell)
        for number, cell in code
        if any(output.output_type == "error" for output in cell.outputs)
    ]
    started = [(number, cell) for number, cell in code if cell.execution_count]
    number, cell = (failed or started or code)[-1]
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    return f"cell {number} ({first[:60]!r})"


def _short(error: Exception) -> str:
    name, value = getattr(error, "ename", None), getattr(error, "evalue", "")
    first = next(iter(str(error).splitlines()), type(error).__name__)
    return f"{name}: {value}" if name else first


def html(path: Path, output: Path) -> None:
    """Write a notebook with its saved outputs as one HTML page."""
    import nbconvert

    _require_suffix(output, ".html")
    page, _ = nbconvert.HTMLExporter().from_notebook_node(read(path))
    with atomic_file(output) as handle:
        handle.write(page)


# Command line


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Generate, execute and convert the chapters.",
        epilog="The notation of exercises is explained at the top of tools/notebooks.py.",
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
    command = commands.add_parser("html", help="a page of one chapter, to look at")
    command.add_argument("name")
    command.add_argument("--output", type=Path)
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
        elif options.command == "export":
            export_script(options.notebook, options.script)
        else:
            path = chapters([options.name])[0]
            output = options.output or Path(f"{path.stem}.html")
            html(path, output)
            print(output)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
