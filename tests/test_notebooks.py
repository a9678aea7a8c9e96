"""The chapters, and the tool that makes the learner's editions of them."""

import ast
import configparser
import functools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from course_lib.notebook.checks import attempted, solved
from course_lib.runtime import InputError
from course_lib.runtime.settings import PROFILES
from tools import exercises, notebooks, translate

import nbformat
import numpy as np
import psutil
import pytest
from course_kernel import course_kernel, run_forked
from exercise_runner import wrong_answers
from processes import python, run

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = notebooks.chapters()
chapters = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
CHINESE = re.compile(r"[\u3400-\u9fff]")
ONCE = "once"  # the tag of slow cells that no exercise needs: only nbval runs them
SCRIPT = '''\
# %% [markdown]
# # A chapter

# %%
numbers = [3, 1, 2]

# %% [markdown]
# ### Exercise 1: the largest

# %% answer="90-largest"
largest = ...
### BEGIN SOLUTION
largest = max(numbers)
### END SOLUTION

# %% check="90-largest" points=2
from course_lib.notebook.checks import attempted, solved

if attempted("90-largest", largest):
    assert largest != min(numbers), "That is the smallest."
    assert largest == 3, "Look at all the numbers."
    solved("90-largest")

# %% answer="90-double"
def double(number):
    """Return twice the number."""
    ### BEGIN SOLUTION
    twice = 2 * number
    return twice
    ### END SOLUTION

# %% check="90-double" points=1
if attempted("90-double", double(2)):
    assert double(3) == 6, "Twice 3 is 6."
    solved("90-double")

# %%
# NBVAL_CHECK_OUTPUT
print(len(numbers))
'''


# The chapters


@functools.cache
def read(path: Path) -> nbformat.NotebookNode:
    """Read a chapter, which no test changes."""
    return notebooks.read(path)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def output_texts(cell: nbformat.NotebookNode) -> list[str]:
    """Everything in the outputs of a cell that a reader sees as text."""
    texts = []
    for output in cell.outputs:
        data = output.get("data", {})
        texts += [output.get("text", ""), *(v for k, v in data.items() if k.startswith("text/"))]
        images = output.get("metadata", {}).values()
        texts += [image["alt"] for image in images if isinstance(image, dict) and "alt" in image]
    return texts


@chapters
def test_anatomy(path):
    cells = read(path).cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")
    assert re.search(r"\bminutes?\b", cells[0].source), "the title says how long the chapter takes"
    setup = next(cell.source for cell in cells if cell.cell_type == "code")
    for name in ("import course_lib", "seed_everything(", "select_device(", "profile()"):
        assert name in setup or name.replace("import ", "from ") in setup, f"no {name} in the setup"
    assert 3 <= len(re.findall(r"^#+ Exercise \d", prose, re.MULTILINE)) <= 5
    quiz = re.split(r"^#+ Quiz.*$", prose, flags=re.MULTILINE)
    assert len(quiz) == 2, "one heading Quiz"
    questions = re.split(r"^## ", quiz[1], flags=re.MULTILINE)[0]
    assert questions.count("<details>") == questions.count("</details>") == 5
    for heading in ("On your own", "On a GPU", "Summary"):
        assert re.search(rf"^#+ {heading}", prose, re.MULTILINE), heading
    words = re.search(r"^\*\*Words\*\*: (.+?)(\n\n|\Z)", prose, re.MULTILINE | re.DOTALL)
    assert words, "a glossary: **Words**: English 中文 `API name` · ..."
    for entry in words[1].split("·"):
        assert re.search("[a-z]", entry) and CHINESE.search(entry), entry


@chapters
def test_the_check_of_each_exercise_can_be_graded(path):
    # `generate` checks where answers and checks are
    checks = [cell for cell in read(path).cells if exercises.name_of(cell, "check")]
    assert 3 <= len(checks) <= 5
    for cell in checks:
        name = exercises.name_of(cell, "check")
        assert f'attempted("{name}"' in cell.source and f'solved("{name}")' in cell.source
        assert cell.metadata.nbgrader.locked and cell.metadata.nbgrader.points >= 1


@chapters
def test_saved_outputs_come_from_this_code_in_one_run(path):
    notebook = read(path)
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    saved = notebook.metadata.get("course", {})
    assert saved.get("code") == notebooks.code_digest(notebook), f"make execute: {path.name}"
    assert saved.get("profile") == "cpu"
    types = {output.output_type for cell in code_cells(notebook) for output in cell.outputs}
    assert "error" not in types


@chapters
def test_outputs_name_no_machine_and_quote_little(path):
    for number, cell in enumerate(read(path).cells, 1):
        for text in output_texts(cell) if cell.cell_type == "code" else []:
            place = re.search(r"(?<![\w./:])/(home|root|tmp|usr|opt|var|mnt|work|Users)/\S*", text)
            assert place is None, f"cell {number} prints {place}"
            host = os.uname().nodename
            assert len(host) < 4 or host not in text, f"cell {number} prints the host's name"
            longest = max((len(CHINESE.findall(line)) for line in text.splitlines()), default=0)
            assert longest <= 120, f"cell {number} quotes {longest} characters of a review"


@chapters
def test_files_go_where_a_killed_kernel_is_cleared_up_after_and_no_note_is_left(path):
    for cell in read(path).cells:
        loose = re.findall(r"^.*\b(?:mkdtemp|TemporaryDirectory)\(.*$", cell.source, re.MULTILINE)
        loose = [line for line in loose if "dir=work" not in line and "with " not in line]
        assert loose == [], "use runtime.scratch_dir"
        assert not re.search(r"\b(TODO|FIXME|XXX)\b", cell.source), cell.source[:200]


@chapters
def test_every_picture_is_followed_by_its_description(path):
    cells = read(path).cells
    pictures = 0
    for number, cell in enumerate(cells, 1):
        if cell.cell_type != "code":
            continue
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            pictures += 1
            after = cells[number] if number < len(cells) else None
            described = after is not None and re.match(r"\*Figure: .{30,}", after.source, re.DOTALL)
            assert described, f"cell {number} draws; the next one must begin with *Figure: ...*"
            images = [each for each in cell.outputs if "image/png" in each.get("data", {})]
            alts = {each.metadata.get("image/png", {}).get("alt") for each in images}
            assert alts == {notebooks.caption(after)}, "run: make notebooks"
    assert pictures >= 1


def test_learners_editions_are_up_to_date():
    assert notebooks.generate(check=True) == [], "run: make notebooks"


def reached(tree: ast.AST, known: dict[str, object]) -> Iterator[tuple[int, int, int]]:
    """Yield the places of a cell that run when `known` holds: branches are taken that depend on it.

    What needs known names only is evaluated, so that a size that does not fit raises its error.
    """

    def evaluable(node: ast.AST) -> bool:
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        part = isinstance(node, ast.Slice | ast.Starred | ast.FormattedValue)
        return not part and bool(names) and names <= known.keys()

    def value(node: ast.AST) -> object:
        return eval(ast.unparse(node), known.copy())

    if isinstance(tree, ast.stmt | ast.expr) and not isinstance(tree, ast.Constant):
        yield tree.lineno, tree.col_offset, tree.end_col_offset
    children = list(ast.iter_child_nodes(tree))
    if isinstance(tree, ast.Assign) and isinstance(tree.targets[0], ast.Name):
        known.pop(tree.targets[0].id, None)
        if evaluable(tree.value):  # such as on_gpu = sizes.name == "gpu"
            known[tree.targets[0].id] = value(tree.value)
            return
    elif isinstance(tree, ast.If | ast.IfExp) and evaluable(tree.test):
        chosen = tree.body if value(tree.test) else tree.orelse
        children = chosen if isinstance(chosen, list) else [chosen]
    elif isinstance(tree, ast.FunctionDef | ast.Lambda):
        own = {each.arg for each in ast.walk(tree.args) if isinstance(each, ast.arg)}
        known = {name: known[name] for name in known.keys() - own}
    elif isinstance(tree, ast.expr) and evaluable(tree):
        value(tree)
        return
    elif (
        isinstance(tree, ast.BoolOp)
        and evaluable(tree.values[0])
        and bool(value(tree.values[0])) == isinstance(tree.op, ast.Or)
    ):
        return
    for child in children:
        yield from reached(child, known)


def reached_in(path: Path, profile: str) -> set[tuple[int, ...]]:
    known = {"profile": lambda: PROFILES[profile], "max": max, "min": min, "int": int}
    places = set()
    for number, cell in enumerate(code_cells(read(path))):
        left_out = profile == "rehearsal" and ONCE in cell.metadata.get("tags", [])
        if not cell.source.startswith("%%") and not left_out:
            source = re.sub(r"^[%!].*$", "", cell.source, flags=re.MULTILINE)
            places |= {(number, *place) for place in reached(ast.parse(source), known)}
    return places


@chapters
def test_what_runs_on_a_gpu_has_run_on_the_cpu(path):
    """In the profile cpu, or in the rehearsal of the gpu profile: see run_exercises."""
    rehearsed = reached_in(path, "rehearsal") | reached_in(path, "cpu")
    others = reached_in(path, "gpu") | reached_in(path, "smoke")
    assert others - rehearsed == set(), "(code cell from 0, line, columns)"


@chapters
def test_what_the_rehearsal_leaves_out_is_no_exercise_and_needs_no_answer(path):
    cells = code_cells(read(path))
    answers = [cell.source for cell in cells if exercises.name_of(cell, "answer")]
    made = re.findall(r"^(?:def|class) (\w+)|^(\w+) = ", "\n".join(answers), re.MULTILINE)
    for cell in (cell for cell in cells if ONCE in cell.metadata.get("tags", [])):
        nodes = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)]
        assert "nbgrader" not in cell.metadata
        assert {node.id for node in nodes}.isdisjoint(sum(made, ())), cell.source


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x = n[: sizes.test_examples and sizes.test_examples // 2]", set()),
        ("if sizes.name == 'gpu':\n    a", set()),
        ("gpu = sizes.name == 'gpu'\nif sizes.max_steps is None:\n    if gpu:\n        a", {4}),
        ("for i in range(2):\n    b = a if sizes.train_examples is None else c", {2}),
    ],
)
def test_what_only_a_gpu_reaches_is_told(code, found):
    def lines(profile):
        known = {"sizes": PROFILES[profile]}
        return set(reached(ast.parse(code), known))

    assert {line for line, *_ in lines("gpu") - lines("rehearsal") - lines("cpu")} == found
    with pytest.raises(TypeError):  # None: all of them
        list(reached(ast.parse("x = sizes.test_examples // 2"), {"sizes": PROFILES["gpu"]}))


def run_exercises(path: Path, wrong: dict[str, list[str]]) -> dict[str, dict]:
    """What exercise_runner.py finds out in the profile rehearsal: two steps as on a GPU."""
    with tempfile.TemporaryDirectory() as directory:
        given = {"solutions": str(path), "wrong": wrong}
        Path(directory, "exercises.json").write_text(json.dumps(given), encoding="utf-8")
        places = {"COURSE_EXERCISES": directory, "IPYTHONDIR": directory}
        profile = {"COURSE_PROFILE": "rehearsal", "COURSE_DEVICE": "cpu"}
        run_forked(notebooks.LEARNERS / path.name, ONCE, **places, **profile)
        return json.loads(Path(directory, "results.json").read_text(encoding="utf-8"))


@pytest.mark.slow
@chapters
def test_every_exercise_tells_blank_wrong_and_right_apart(path):
    wrong = wrong_answers(ROOT / "tests" / "exercises" / f"{path.stem}.txt")
    codes = {name: [code for code, _ in answers] for name, answers in wrong.items()}
    results = run_exercises(path, codes)
    assert set(wrong) == set(results)
    for name, result in results.items():
        assert result["blank"]["raised"] is None, (name, result["blank"])
        assert f"{name}: not solved yet" in result["blank"]["text"]
        assert result["graded"]["raised"] == "AssertionError", "a blank answer would earn points"
        if result["function"]:
            assert "your answer is None. Is a `return`" in result["unreturned"]["message"], name
        assert result["right"]["raised"] is None, (name, result["right"])
        assert f"{name}: correct" in result["right"]["text"]
        assert len(wrong[name]) >= 4, f"{name}: four typical wrong answers"
        for (code, hint), outcome in zip(wrong[name], result["wrong"], strict=True):
            found = outcome["raised"], outcome["in"]
            assert found == ("AssertionError", "check"), (name, code, outcome)
            assert hint and hint in outcome["message"], (name, code, outcome["message"])


# The tool


def rewrite(course: Path, script: str, name: str = "90_demo") -> Path:
    """Import a script as a chapter."""
    path = course / "solutions" / f"{name}.ipynb"
    (course / "demo.py").write_text(script, encoding="utf-8")
    notebooks.import_script(course / "demo.py", path)
    return path


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one chapter, 90_demo, in a directory of its own."""
    for name, folder in (("SOLUTIONS", "solutions"), ("LEARNERS", "notebooks")):
        (tmp_path / folder).mkdir()
        monkeypatch.setattr(notebooks, name, tmp_path / folder)
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    rewrite(tmp_path, SCRIPT)
    return tmp_path


def test_import_and_export_lose_nothing(course):
    source, again = course / "solutions" / "90_demo.ipynb", course / "again.ipynb"
    notebooks.export_script(source, course / "back.py")
    script = (course / "back.py").read_text(encoding="utf-8")
    assert 'answer="90-largest"' in script and "points=2" in script and "nbgrader" not in script
    for text in (script, script.replace("\n\n# %% [", "\n# %% [")):  # spacing is no content
        (course / "back.py").write_text(text, encoding="utf-8")
        notebooks.import_script(course / "back.py", again)
        assert again.read_text(encoding="utf-8") == source.read_text(encoding="utf-8")


CELL = {"cell_type": "code", "source": "", "metadata": {}}
MARKDOWN = {**CELL, "cell_type": "markdown"}


def export_with(course: Path, cell: dict) -> nbformat.NotebookNode:
    """Export a notebook with one more cell, its third."""
    source = course / "solutions" / "90_demo.ipynb"
    notebook = notebooks.read(source)
    code = {"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {}
    notebook.cells.insert(2, nbformat.from_dict({**cell, "id": "new", **code}))
    notebooks.write(notebook, source)
    notebooks.export_script(source, course / "back.py")
    return notebook


@pytest.mark.parametrize(
    "cell",
    [
        {**CELL, "source": "1\n# %% part\n2"},
        {**MARKDOWN, "source": "about\n%%\nmagics"},
        {**CELL, "source": "1\n"},
        {**CELL, "source": "x = 'a\u2028b'"},
        {**MARKDOWN, "attachments": {"a.png": {"image/png": "AAAA"}}},
        {**CELL, "metadata": {"nbgrader": {"grade_id": "Q1-answer"}}},
    ],
)
def test_export_refuses_what_import_would_change(course, cell):
    with pytest.raises(InputError, match=r"90_demo\.ipynb, cell 3"):
        export_with(course, cell)
    assert not (course / "back.py").exists()


@pytest.mark.parametrize(
    "cell",
    [
        {**CELL, "source": 'x = """\n# %%\n"""'},
        {**CELL, "source": "%matplotlib inline\n# %time f()\n!ls\nf?"},
        {**CELL, "source": "# +\n# only comments\n# -", "metadata": {"tags": ["a"], "title": "t"}},
        {**MARKDOWN, "source": '%time\n"""\n# + a', "metadata": {"tags": ["a"]}},
        {**CELL, "cell_type": "raw", "source": "---\ntitle: a\n---"},
    ],
)
def test_what_a_script_can_hold_comes_back(course, cell):
    notebook = export_with(course, cell)
    again = notebooks.import_script(course / "back.py", course / "again.ipynb")
    for one, other in zip(notebook.cells, again.cells, strict=True):
        assert [one[part] for part in cell] == [other[part] for part in cell]


def test_ids_survive_an_edit(course):
    path = course / "solutions" / "90_demo.ipynb"
    before = [cell.id for cell in notebooks.read(path).cells]
    changed = SCRIPT.replace("[3, 1, 2]", "[3, 1]").replace("# %%\n# NB", "# %%\n1\n\n# %%\n# NB")
    rewrite(course, changed)
    after = [cell.id for cell in notebooks.read(path).cells]
    assert after[:-2] + after[-1:] == before and len(set(after)) == len(after)

    head, double, tail = re.split(r"(?=^# %%(?: answer=.90-double|\n# NBVAL))", SCRIPT, flags=re.M)
    rewrite(course, SCRIPT)
    rewrite(course, f"{head}{tail}\n{double}")  # cells that have moved
    moved = [cell.id for cell in notebooks.read(path).cells]
    assert moved == [*before[:5], before[-1], *before[5:-1]]


def test_generate_takes_out_answers_outputs_and_marks(course):
    target = course / "notebooks" / "90_demo.ipynb"
    assert notebooks.generate(check=True) == [target] and not target.exists()
    assert notebooks.generate() == [target]
    assert notebooks.generate() == notebooks.generate(check=True) == []
    source, edition = (
        notebooks.read(course / d / "90_demo.ipynb") for d in ("solutions", "notebooks")
    )
    assert [cell.id for cell in edition.cells] == [cell.id for cell in source.cells]
    code = [cell.source for cell in code_cells(edition)]
    assert code[1] == "largest = ...\n# your answer here"
    assert code[3].endswith('number."""\n    # your answer here')
    assert code[-1] == "print(len(numbers))"
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code_cells(edition))
    assert code_cells(edition)[2].metadata.nbgrader.points == 2


def edit(path: Path, old: str, new: str) -> bytes:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path.read_bytes()


@pytest.mark.parametrize("chapter_changes", [False, True])
@pytest.mark.parametrize(
    ("old", "new"),
    [("# your answer here", "max(numbers)"), ("# A chapter", "# My notes"), ("{", "\0")],
)
def test_generate_keeps_what_a_learner_has_written(course, capsys, chapter_changes, old, new):
    (target,) = notebooks.generate()
    (course / "solutions" / "91_next.ipynb").write_bytes(
        (course / "solutions" / "90_demo.ipynb").read_bytes().replace(b"90-", b"91-")
    )
    worked = edit(target, old, new)
    if chapter_changes:
        rewrite(course, SCRIPT.replace("# A chapter", "# Chapter two"))
    assert target in notebooks.generate(check=True)
    assert notebooks.main(["generate"]) == 2
    message = capsys.readouterr().err
    assert "90_demo.ipynb: someone has worked in it" in message and "--force" in message
    assert target.read_bytes() == worked and list(target.parent.iterdir()) == [target]
    assert notebooks.main(["generate", "--force"]) == 0
    assert target.read_bytes() != worked and notebooks.generate(check=True) == []


def test_tags_metadata_and_attachments_are_work(course):
    (target,) = notebooks.generate()
    for part, value in (
        ("metadata", {"nbgrader": {"points": 3}}),
        ("attachments", {"a.png": {"image/png": "AAAA"}}),
    ):
        worked = notebooks.read(target)
        worked.cells[2][part] = value
        notebooks.write(worked, target)
        with pytest.raises(InputError, match="worked in it"):
            notebooks.generate()
        assert notebooks.read(target) == worked


def test_outputs_counts_views_and_an_empty_cell_are_no_work(course):
    (target,) = notebooks.generate()
    fresh = target.read_bytes()
    ran = notebooks.read(target)
    cell = code_cells(ran)[-1]
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text="3\n")]
    cell.execution_count = 6
    cell.metadata = {"execution": {"iopub.status.idle": "2026"}, "collapsed": True}
    ran.cells.append(nbformat.v4.new_code_cell("", id="empty"))
    ran.metadata.language_info["version"] = "3.11.9"  # as JupyterLab saves it
    notebooks.write(ran, target)
    assert notebooks.generate(check=True) == [target]
    assert notebooks.generate() == [target] and target.read_bytes() == fresh
    notebooks.write(ran, target)
    rewrite(course, SCRIPT.replace("# A chapter", "# Chapter two"))
    assert notebooks.generate() == [target] and notebooks.generate(check=True) == []


def test_generate_leaves_all_other_notebooks_alone(course):
    (target,) = notebooks.generate()
    copy = target.with_name("90_demo-Copy1.ipynb")  # as JupyterLab names it
    ran = notebooks.read(target)
    code_cells(ran)[0]["execution_count"] = 1
    notebooks.write(ran, copy)
    shutil.copy(target, target.with_name("91_gone.ipynb"))
    before = {path: path.read_bytes() for path in target.parent.iterdir()}
    assert notebooks.generate(check=True) == notebooks.generate() == []
    assert notebooks.main(["generate", "--force"]) == 0
    assert {path: path.read_bytes() for path in target.parent.iterdir()} == before


def test_generate_without_chapters_is_refused(course, capsys):
    (target,) = notebooks.generate()
    (course / "solutions" / "90_demo.ipynb").unlink()
    assert notebooks.main(["generate", "--force"]) == 2
    assert "holds no chapters" in capsys.readouterr().err and target.exists()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("### END SOLUTION\n\n# %% check", "\n# %% check", "without its partner"),
        ("numbers = [3, 1, 2]", "### BEGIN SOLUTION\n1\n### END SOLUTION", "1 solution blocks"),
        ('    """Return twice the number."""\n', "", "not Python"),
        ("### BEGIN SOLUTION\nlargest = max(numbers)\n### END SOLUTION", "", "0 solution blocks"),
        ("### BEGIN SOLUTION", "###BEGIN SOLUTION", "cell 4: .*not written exactly"),
        ("### BEGIN SOLUTION\n", "### BEGIN SOLUTION\n### BEGIN SOLUTION\n", "cell 4: "),
        ("# # A chapter", "# ### BEGIN SOLUTION\n# x\n# ### END SOLUTION", "cell 1: 1 solution"),
        ("# # A chapter", "# <!-- begin solution -->", "cell 1: .*not written exactly"),
        ('"90-double"', '"90-largest"', "cell 6: '90-largest' is also in cell 4"),
        ('answer="90-largest"', 'answer="91-largest"', "cell 4: exercise '91-largest'"),
        ('# %% answer="90-largest"', "# %%", "cell 5: the check of '90-largest' follows no answer"),
        ('# %% check="90-largest" points=2', "# %%", "cell 5: not the check of '90-largest'"),
        ('# %% answer="90-double"', '# %% check="90-largest" points=1', "cell 6: the check of"),
        ('# %% answer="90-largest"', '# %% [markdown] answer="90-largest"', "in a markdown cell"),
    ],
)
def test_generate_refuses_a_chapter_that_would_leak_or_break(course, old, new, problem):
    assert SCRIPT.count(old) >= 1
    count = -1 if old == '"90-double"' else 1
    rewrite(course, SCRIPT.replace(old, new, count))
    with pytest.raises(InputError, match=rf"90_demo\.ipynb.*{problem}"):
        notebooks.generate()
    assert list((course / "notebooks").iterdir()) == []


def test_two_cells_of_one_id_are_refused(course):
    path = course / "solutions" / "90_demo.ipynb"
    first, second = (cell.id for cell in notebooks.read(path).cells[:2])
    edit(path, second, first)
    with pytest.raises(InputError, match=rf"90_demo.*, cell 2: has the id '{first}' of cell 1"):
        notebooks.generate()


def kernels_running() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "ipykernel_launcher" in child.cmdline()]


def test_execute_saves_outputs_that_a_second_run_repeats(course):
    path = course / "solutions" / "90_demo.ipynb"
    assert notebooks.execute(path) is None
    first = path.read_bytes()
    notebook = notebooks.read(path)
    assert [cell.execution_count for cell in code_cells(notebook)] == [1, 2, 3, 4, 5, 6]
    assert "90-largest: correct" in code_cells(notebook)[2].outputs[0].text
    assert notebook.metadata.course.code == notebooks.code_digest(notebook)
    assert notebooks.execute(path) is None
    assert path.read_bytes() == first
    assert kernels_running() == []

    # What stands below a change was not computed by the code above it any more.
    rewrite(course, SCRIPT.replace("= 2 * number", "= number + number"))
    changed = notebooks.read(path)
    assert [cell.execution_count for cell in code_cells(changed)] == [1, 2, 3, None, None, None]
    assert changed.metadata.course.code != notebooks.code_digest(changed)


@pytest.mark.parametrize(
    ("old", "new", "cell", "hint"),
    [
        ("max(numbers)", "min(numbers)", 5, "That is the smallest."),
        ("    return twice\n", "", 7, "your answer is None. Is a `return` or `yield` missing?"),
        ("largest = max(numbers)", "import os; os._exit(1)", 4, "('largest = ...'): Kernel died"),
    ],
)
def test_execute_leaves_the_file_alone_when_a_cell_fails(course, capsys, old, new, cell, hint):
    path = rewrite(course, SCRIPT.replace(old, new))
    ran = notebooks.read(path)
    code_cells(ran)[-1]["execution_count"] = 6  # saved by an earlier run
    notebooks.write(ran, path)
    before = path.read_bytes()
    assert notebooks.main(["execute", "90"]) == 1
    message = capsys.readouterr().err
    assert f"90_demo.ipynb, cell {cell}" in message and hint in message
    assert path.read_bytes() == before and len(list(path.parent.iterdir())) == 1
    assert kernels_running() == []


CELLS = '"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells"'


@pytest.mark.parametrize(
    "content",
    [
        b"\x89PNG\r\n\xff\0",
        b"",
        b"[]",
        b'{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": []}',
        b'{"nbformat": 4, "metadata": {}, "cells": []}',
        f"{{{CELLS}: null}}".encode(),
        f'{{{CELLS}: [{{"cell_type": "code"}}]}}'.encode(),
    ],
    ids=range(7),
)
def test_a_broken_notebook_is_named_in_one_line(course, capsys, content):
    path = course / "solutions" / "90_demo.ipynb"
    path.write_bytes(content)
    for arguments in (["generate"], ["execute"], ["import", str(course / "demo.py"), str(path)]):
        assert notebooks.main(arguments) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1 and "90_demo.ipynb" in lines[0] and "; expected" in lines[0]
    assert path.read_bytes() == content


def test_no_file_is_overwritten_by_one_of_another_kind(course, capsys):
    path, script = course / "solutions" / "90_demo.ipynb", course / "demo.py"
    before = path.read_bytes()
    for arguments in (["export", path, path], ["import", path, path], ["import", script, script]):
        assert notebooks.main(list(map(str, arguments))) == 2
        assert "does not end in" in capsys.readouterr().err
    assert path.read_bytes() == before and script.read_text("utf-8") == SCRIPT


def test_runner_notices_a_check_that_accepts_anything(course):
    path = rewrite(
        course, SCRIPT.replace('assert largest == 3, "Look at all the numbers."', "pass")
    )
    notebooks.generate()
    result = run_exercises(path, {"90-largest": ["largest = min(numbers)", "largest = 7"]})
    smallest, seven = result["90-largest"]["wrong"]
    assert (smallest["raised"], smallest["message"]) == ("AssertionError", "That is the smallest.")
    assert seven["raised"] is None
    assert result["90-double"]["right"]["raised"] is None


# What check cells call


def test_attempted(capsys, monkeypatch):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    assert attempted("90-x", 0, "", [], np.arange(2))  # falsy is not blank
    assert not attempted("90-x", 1, ...)
    solved("90-x")
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"\033\[\d+m", "", line) for line in lines] == [
        "90-x: not solved yet",
        "90-x: correct",
    ]
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert attempted("90-x", 1)
    with pytest.raises(AssertionError, match="not solved yet"):
        attempted("90-x", ...)


# nbval


def test_nbval_forgives_times_and_places_but_no_counts():
    rules = configparser.ConfigParser()
    rules.read(ROOT / "tests" / "nbval_sanitize.cfg", encoding="utf-8")

    def clean(text: str) -> str:
        for name in rules.sections():
            text = re.sub(rules[name]["regex"], rules[name]["replace"], text, flags=re.MULTILINE)
        return text

    now = "2 epochs, 640 texts in 47 s at 99 tokens/s\nmodel at 0xdeadbeef00 in /srv/you/y\n"
    saved = "2 epochs, {} texts in 3.1 s at 1,234 tokens/s\nmodel at 0x7f00 in /home/me/x\n"
    assert clean(now) == clean(saved.format(640)) != clean(saved.format(641))


def test_a_notebook_runs_in_one_process_or_too_late_not_at_all(course):
    notebooks.generate()
    options = ["--rootdir", ROOT, "-c", ROOT / "pyproject.toml", "--confcutdir", ROOT]
    options += ["-p", "conftest", "-vv", "-n", "2", "--dist", "loadscope", "--nbval-lax"]
    for until, outcome in (("1", "6 skipped"), ("9e9", "6 passed")):
        with course_kernel(COURSE_NBVAL_UNTIL=until) as environment:
            command = ["-m", "pytest", *options, notebooks.LEARNERS / "90_demo.ipynb"]
            done = python(*command, env=environment, cwd=course)
        assert outcome in done.stdout, done.stdout
        assert len(set(re.findall(r"\[gw\d\]", done.stdout))) == 1, done.stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_generated_notebooks_are_tracked_with_their_sources():
    listed = run("git", "ls-files", cwd=ROOT)
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = {file for file in listed.stdout.split() if re.fullmatch(r"notebooks/.*\.ipynb", file)}
    chinese = [f"zh/{path.name}" for path in translate.editions()]
    names = [*(path.name for path in CHAPTERS), *chinese, "start.ipynb", "zh/start.ipynb"]
    assert files == {f"notebooks/{name}" for name in names}


def test_the_readme_lists_every_chapter_with_its_times():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in CHAPTERS:
        first = read(path).cells[0].source
        title = re.match(r"# (.+)", first).group(1)
        row = next(line for line in readme.splitlines() if f"notebooks/{path.name}" in line)
        assert row.startswith(f"| [{title}](")
        times = re.search(r"about (.+?) to read and do, about (.+?) of computing", first).groups()
        assert row.endswith("| {} | {} |".format(*times)), times
