"""Run one chapter as a learner would, trying several answers at each exercise.

    python exercise_runner.py NOTEBOOK WRONG.json RESULT.json

The notebook runs once, in this process, with every answer left blank. At each check cell the blank
answer (also as nbgrader would run it), one without a `return`, the solution and the wrong answers
are tried, each in a copy of the namespace, so that no answer can reach a later cell.
"""

import ast
import contextlib
import io
import json
import os
import re
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

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


def run(notebook: Path, wrong: dict[str, list[str]]) -> dict[str, dict]:
    shell = InteractiveShell.instance()
    os.chdir(notebook.parent)
    results, answer = {}, ""
    for number, cell in enumerate(read(notebook).cells, 1):
        if cell.cell_type != "code":
            continue
        if name_of(cell, "answer"):
            answer = cell.source
        name = name_of(cell, "check")
        if name:
            blank = replace_answer(answer)
            parsed = ast.walk(ast.parse(shell.transform_cell(blank)))
            results[name] = {
                "function": any(isinstance(node, ast.FunctionDef) for node in parsed),
                "blank": attempt(shell, blank, cell.source),
                "graded": attempt(shell, blank, cell.source, graded=True),
                "unreturned": attempt(shell, replace_answer(answer, "made = 1"), cell.source),
                "right": attempt(shell, answer, cell.source),
                "wrong": [
                    attempt(shell, replace_answer(answer, code), cell.source)
                    for code in wrong.get(name, [])
                ],
            }
        outcome = shell.run_cell(replace_answer(cell.source))
        if not outcome.success:
            error = outcome.error_before_exec or outcome.error_in_exec
            raise SystemExit(f"cell {number}, answers left blank: {type(error).__name__}: {error}")
    return results


if __name__ == "__main__":
    source, wrong_answers, target = map(Path, sys.argv[1:])
    outcome = run(source.resolve(), json.loads(wrong_answers.read_text(encoding="utf-8")))
    target.write_text(json.dumps(outcome), encoding="utf-8")
