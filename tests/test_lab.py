"""JupyterLab as a learner meets it, in Chromium: start page, chapter, exercise, widgets."""

import json
import re
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager

from course_lib.chapters.progress import progress
from course_lib.notebook.checks import solved
from course_lib.notebook.visual_logs import _wait_for
from course_lib.runtime import InputError
from tools.notebooks import LEARNERS, METADATA, ROOT

import nbformat
import pytest
from browser import page
from course_kernel import course_kernel
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

APP, NOTEBOOK = "window.jupyterapp", "window.jupyterapp.shell.currentWidget"
CELLS = f"{NOTEBOOK}.content.widgets"


# Progress


def chapter(path, title, *said):
    check = (
        'if attempted("90-a", a):\n    solved("90-a")\nif attempted("90-b", b):\n    solved("90-b")'
    )
    outputs = [new_output("stream", text=text) for text in said]
    cells = [new_markdown_cell(f"# {title}\n\n**Time**: about 7 minutes to read and do.")]
    nbformat.write(new_notebook(cells=[*cells, new_code_cell(check, outputs=outputs)]), path)


def test_progress_is_what_the_check_cells_have_printed(tmp_path, capsys):
    solved("90-a")
    chapter(
        tmp_path / "90_demo.ipynb", "90 · A", capsys.readouterr().out + "90-b: not solved yet\n"
    )
    chapter(tmp_path / "90a_more.ipynb", "90a · B")
    (tmp_path / "91_broken.ipynb").write_text("<<<<<<< HEAD\n")
    (tmp_path / "start.ipynb").write_text("{}")
    broken = "is not JSON (Expecting value: line 1 column 1 (char 0))"
    assert progress(tmp_path).splitlines()[2:] == [
        "| [90a · B](90a_more.ipynb) | 7 | 0 / 2 | 90-a, 90-b |",
        "| [90 · A](90_demo.ipynb) | 7 | 1 / 2 | 90-b |",
        f"| [91_broken](91_broken.ipynb) | | | {broken} |",
        "| **Together** | | **1 / 4** | |",
    ]
    with pytest.raises(InputError, match="holds no chapter"):
        progress(tmp_path / "absent")


@pytest.mark.parametrize("folder", [LEARNERS, LEARNERS / "zh"], ids=["en", "zh"])
def test_every_learners_edition_has_a_title_minutes_and_exercises(folder):
    for line in progress(folder).splitlines()[2:-1]:
        title, minutes, done = line.split(" | ")[:3]
        assert re.match(r"\| \[\d\d", title) and 10 <= int(minutes) <= 240, line
        assert re.fullmatch(r"0 / [1-9]", done), line


# In the browser


@contextmanager
def jupyter_lab(root, *more, token="", **variables):
    """Yield the address of a JupyterLab whose files are in `root`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = [f"--ServerApp.root_dir={root}", f"--port={port}", "--ip=127.0.0.1", "--no-browser"]
    options += ["--allow-root", f"--IdentityProvider.token={token}", "--expose-app-in-browser"]
    options += [
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with course_kernel(HOME=str(root), JUPYTER_CONFIG_DIR=str(root / "config"), **variables) as env:
        command = [sys.executable, "-m", "jupyterlab", *options, *more]
        with (root / "log").open("w+b") as log:
            server = subprocess.Popen(command, env=env, stdout=log, stderr=log)
            try:
                address = f"http://127.0.0.1:{port}"
                _wait_for(server, f"{address}/api", log)
                yield address
            finally:
                server.terminate()
                server.wait(30)


class Lab:
    """A notebook in JupyterLab's main area; cells are named by their ids."""

    def __init__(self, tab):
        self.tab = tab
        tab.until(f"{APP}.commands")

    def do(self, command, **arguments):
        """Run one of JupyterLab's commands to its end; a cell that fails is such an end, too."""
        call = f"{APP}.commands.execute('{command}', {json.dumps(arguments)})"
        self.tab.run(f"{call}.then(() => true, () => true)")

    def open(self, name):
        self.do("docmanager:open", path=f"notebooks/{name}")
        self.tab.until(f"{NOTEBOOK}.context.path.endsWith('{name}') && {CELLS}.length > 0")
        self.tab.until(f"{NOTEBOOK}.sessionContext.session.kernel.status == 'idle'", 120)

    def show(self, cell):
        """Scroll to a cell (only those near the window are in the page); returns its script."""
        index = f"{CELLS}.findIndex(c => c.model.id == '{cell}')"
        self.tab.run(f"{NOTEBOOK}.content.activeCellIndex = {index}")
        self.tab.run(f"{NOTEBOOK}.content.scrollToItem({index}).then(() => true)")
        return f"{CELLS}[{index}]"

    def answer(self, cell, text):
        """Type over what is in a cell; run it and the next one."""
        node = self.show(cell)
        self.tab.run(f"{node}.model.sharedModel.setSource('')")
        self.do("notebook:enter-edit-mode")
        self.tab.type(text)
        self.do("notebook:run-cell-and-select-next")
        self.do("notebook:run-cell")

    def printed(self, cell, words, seconds=120):
        """Wait for words in an output, shown or not: a cell far from the window is not drawn."""
        found = f"{CELLS}.find(c => c.model.id == '{cell}').model.outputs.toJSON()"
        self.tab.until(f"JSON.stringify({found}).includes({json.dumps(words)})", seconds)

    def focus(self, cell, selector):
        node = f"{self.show(cell)}.node.querySelector('{selector}')"
        self.tab.until(node)
        self.tab.run(f"{node}.focus()")


SLIDER = """from course_lib.notebook.widgets import LiveFigure
from matplotlib.figure import Figure

LiveFigure(lambda number: Figure(), [1, 2, 3], "number", Figure())"""
DIAGNOSE = """def diagnose(input_ids, token_type_ids):
    if input_ids[0] != tokenizer.cls_token_id or input_ids[-1] != tokenizer.sep_token_id:
        return "no special tokens"
    if input_ids.count(tokenizer.unk_token_id) > len(input_ids) / 2:
        return "wrong vocabulary"
"""
PAIRS = "    if input_ids.count(tokenizer.sep_token_id) == 2 and 1 not in token_type_ids:"


@pytest.mark.browser
def test_a_learner_solves_an_exercise_and_the_start_page_knows(tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in ("start.ipynb", "01_quick_start_sentiment.ipynb"):
        shutil.copy(LEARNERS / name, folder)
    cell = new_code_cell(SLIDER, id="slider")
    nbformat.write(new_notebook(cells=[cell], metadata=METADATA), folder / "slider.ipynb")
    with (
        jupyter_lab(tmp_path, COURSE_PROFILE="smoke", COURSE_DEVICE="cpu") as address,
        page(f"{address}/lab/tree/notebooks/start.ipynb") as tab,
    ):
        lab = Lab(tab)
        lab.open("start.ipynb")
        lab.do("notebook:run-all-cells")
        lab.printed("progress", "0 / 4")

        lab.open("01_quick_start_sentiment.ipynb")
        lab.do("notebook:run-all-cells")
        lab.printed("ee0d2cea", "not solved yet", 300)  # the last exercise
        lab.focus("0c44056d", ".widget-textarea textarea")
        image = f"{lab.show('0c44056d')}.node.querySelector('img.widget-image').src"
        before = tab.until(image)
        tab.type("很好")
        tab.until(f"{image} != {json.dumps(before)}")

        right = '    return "right"'
        lab.answer("371b00a6", DIAGNOSE + right)
        lab.printed("c7278251", "all token types are 0")
        lab.answer("371b00a6", f'{DIAGNOSE}{PAIRS}\n        return "pair as one text"\n{right}')
        lab.printed("c7278251", "01-diagnose: correct")
        lab.do("docmanager:save")

        lab.open("start.ipynb")
        lab.do("notebook:run-all-cells")
        lab.printed("progress", "1 / 4")

        lab.open("slider.ipynb")
        lab.do("notebook:run-all-cells")
        lab.focus("slider", ".noUi-handle")
        tab.press("ArrowRight", 39)
        tab.until(f"{lab.show('slider')}.node.querySelector('.widget-readout').innerText == '2'")


@pytest.mark.browser
def test_the_browsers_language_chooses_the_edition(tmp_path):
    for path in LEARNERS.glob("**/start.ipynb"):
        copied = tmp_path / "notebooks" / path.relative_to(LEARNERS)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copied)
    options = re.search(r"jupyter lab (.*)/\$\(START\)", (ROOT / "Makefile").read_text())[1]
    options = options.replace("docs/lab", str(ROOT / "docs/lab"))
    with (
        jupyter_lab(tmp_path, *f"{options}/static/start.html".split(), token="secret") as address,
        page("about:blank") as tab,
    ):
        for language, folder in (("zh-CN", "notebooks/zh"), ("de", "notebooks")):
            tab.send("Emulation.setUserAgentOverride", userAgent="a", acceptLanguage=language)
            tab.send("Page.navigate", url=f"{address}/?token=secret")
            tab.until(f"location.pathname.endsWith('/tree/{folder}/start.ipynb')")
            tab.until(f"{APP}.commands")
