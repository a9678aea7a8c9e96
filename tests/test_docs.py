"""What the prose names exists: modules and functions, files, targets of make, commands, options."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import course_lib  # noqa: F401, before anything that may import paddle

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("data/**/*.md")]
NO_NAMES = {"course_lib.tables"}  # a key in ONNX files
FOLDERS = [path.name for path in ROOT.iterdir() if path.is_dir()]
EXAMPLES = {  # what the page on a new chapter would make
    "solutions/12_word_embeddings.ipynb",
    "tests/exercises/12_word_embeddings.txt",
    "course_lib/chapters/ch12.py",
}
PROSE = [*PAGES, *ROOT.glob("course_lib/**/*.py"), *ROOT.glob("solutions/*.ipynb")]


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_names_of_the_library_exist():
    named: dict[str, str] = {}
    for path in PROSE:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"\bcourse_lib(?:\.[A-Za-z]\w*)+", text):
            if name not in NO_NAMES:
                named.setdefault(name, path.relative_to(ROOT).as_posix())
    assert len(named) > 100
    assert {name: place for name, place in named.items() if not exists(name)} == {}


pages = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())


@pages
def test_links_and_targets_exist(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    asked = re.findall(r"(?:^ *|`)(?:COURSE_\w+=\S+ )*make ([a-z-]+)(?=`|  +#|$)", text, re.M)
    assert [name for name in asked if name not in targets] == []
    files = re.findall(rf"(?<![\w/.])(?:{'|'.join(FOLDERS)})/[\w./-]+\.\w+", text)
    assert [file for file in files if file not in EXAMPLES and not (ROOT / file).exists()] == []


@pages
def test_commands_and_their_options_exist(page, capsys):
    text = re.sub(r"\\\n *", "", page.read_text(encoding="utf-8"))
    for name, rest in re.findall(r"python (?:-m )?((?:course_lib|tools)[\w./]*)([^`\n#\"]*)", text):
        module, words = name.removesuffix(".py").replace("/", "."), rest.split()
        if (ROOT / module.replace(".", "/")).is_dir():
            module += ".__main__"
        command = [word for word in words[:1] if re.fullmatch("[a-z_]+", word)]
        with pytest.raises(SystemExit) as end:
            importlib.import_module(module).main([*command, "--help"])
        known = re.findall(r"--\w+", capsys.readouterr().out)
        assert end.value.code == 0, f"{name} {command}"
        assert {word for word in words if word.startswith("--")} <= set(known), name
