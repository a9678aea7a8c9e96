"""Try several answers at each exercise while a chapter runs as a learner has it.

An extension of IPython, which tests/course_kernel.py names when it starts the kernel. In
`COURSE_EXERCISES` is a directory with exercises.json: the chapter in solutions/, and wrong answers
by the name of the exercise. Before the kernel runs a check cell, the blank answer (also as
nbgrader would run it), one without a `return`, the solution and the wrong answers are tried, each
in a copy of the namespace, so that no answer can reach a later cell. What they did goes to
results.json.
"""

import ast
import contextlib
import io
import json
import os
import re
import textwrap
from pathlib import Path

from tools.exercises import name_of, replace_answer
from tools.notebooks import read

from IPython.core.interactiveshell import InteractiveShell


def wrong_answers(file: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the wrong answers in a file of tests/exercises: the codes and hints of each exercise.

    After a line of description, an exercise's name stands alone on its line; each answer is a line
    `mistake => hint` with the indented code below it.
    """
    exercises: dict[str, list[tuple[str, str]]] = {}
    name, blocks = "", re.split(r"^(?=\S)", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for block in blocks[2:]:
        head, _, code = block.partition("\n")
        _, arrow, hint = head.partition(" => ")
        if arrow:
            exercises[name].append((textwrap.dedent(code).strip("\n"), hint))
        else:
            name = head.rstrip()
            exercises[name] = []
    return exercises


def attempt(shell: InteractiveShell, answer: str, check: str, graded: bool = False) -> dict:
    """Return what the check cell does after `answer`: its text and, if it raised, the error."""
    namespace = dict(shell.user_ns)
    text = io.StringIO()
    result: dict = {"raised": None, "message": "", "in": "answer"}
    if graded:
        os.environ["NBGRADER_EXECUTION"] = "autograde"
    try:
        with contextlib.redirect_stdout(text):
            for result["in"], source in (("answer", answer), ("check", check)):
                code = shell.transform_cell(source)
                exec(compile(code, shell.compile.cache(code), "exec"), namespace)
    except Exception as error:
        result.update(raised=type(error).__name__, message=str(error))
    finally:
        os.environ.pop("NBGRADER_EXECUTION", None)
    return {**result, "text": text.getvalue()}


def try_answers(shell: InteractiveShell, answer: str, check: str, wrong: list[str]) -> dict:
    """Return what the check says of each answer; `answer` is the cell with the solution."""
    blank = replace_answer(answer)
    parsed = ast.walk(ast.parse(shell.transform_cell(blank)))
    return {
        "function": any(isinstance(node, ast.FunctionDef) for node in parsed),
        "blank": attempt(shell, blank, check),
        "graded": attempt(shell, blank, check, graded=True),
        "unreturned": attempt(shell, replace_answer(answer, "made = 1"), check),
        "right": attempt(shell, answer, check),
        "wrong": [attempt(shell, replace_answer(answer, code), check) for code in wrong],
    }


def load_ipython_extension(shell: InteractiveShell) -> None:
    directory = Path(os.environ["COURSE_EXERCISES"])
    given = json.loads((directory / "exercises.json").read_text(encoding="utf-8"))
    exercises, answer = {}, ""
    for cell in read(Path(given["solutions"])).cells:
        if name_of(cell, "answer"):
            answer = cell.source
        elif name_of(cell, "check"):
            exercises[cell.source] = (name_of(cell, "check"), answer)
    results: dict[str, dict] = {}

    def before(cell) -> None:
        if cell.raw_cell in exercises:
            name, answer = exercises[cell.raw_cell]
            wrong = given["wrong"].get(name, [])
            results[name] = try_answers(shell, answer, cell.raw_cell, wrong)
            (directory / "results.json").write_text(json.dumps(results), encoding="utf-8")

    shell.events.register("pre_run_cell", before)
