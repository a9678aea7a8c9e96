"""The repository: lazy packages, sizes, documents, and no network."""

import importlib
import json
import os
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

import course_lib  # noqa: F401
from tools import check_size

import pytest
from processes import python

# ---- packages whose names load on first use


TASKS = ("hierarchical", "tagging", "search", "vocabulary", "labels", "explain")
PACKAGES = ("data", "training", "compression", "deploy", *(f"tasks.{task}" for task in TASKS))


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_of_a_package_is_listed_and_loads(name):
    package = import_module(f"course_lib.{name}")
    assert package.__all__ == sorted(package.__all__) and {*package.__all__} <= {*dir(package)}
    for one in package.__all__:
        assert hasattr(package, one), one
    with pytest.raises(AttributeError, match=f"module 'course_lib.{name}' has no attribute 'x'"):
        package.x  # noqa: B018


def test_nothing_is_loaded_before_it_is_asked_for(tmp_path, monkeypatch):
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "__init__.py").write_text(
        "from course_lib.runtime.lazy import lazy\n"
        "__all__, __getattr__, __dir__ = lazy(__name__, part='answer')\n"
    )
    (tmp_path / "slow" / "part.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import slow

    assert "answer" in dir(slow) and "__name__" in dir(slow)
    assert not hasattr(slow, "question") and "slow.part" not in sys.modules
    assert slow.answer == 42 and "slow.part" in sys.modules


# ---- tools/check_size.py: what it counts, and when it fails


LONG = "\n".join(["def work():", '    """Two', '    lines."""', *["    x = 1"] * 60, ""])


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"runtime__files": "x = 1\n" * 500, "chapters__ch01": "x = 1\n" * 200}, None),
        ({"runtime__files": "x = 1\n" * 501}, "course_lib/runtime/files.py: 501, limit 500"),
        ({"chapters__ch01": "x = 1\n" * 201}, "course_lib/chapters/ch01.py: 201, limit 200"),
        ({f"runtime__m{n}": "x = 1\n" * 400 for n in range(4)}, "runtime: 1,600, limit 1,500"),
        ({"old__names": "class A: ...\n" * 351}, "public names outside chapters: 351, limit 350"),
        ({"chapters__ch01": "", "old__few": "def _a(): ...\n" * 476}, None),
        ({"data__one": LONG.replace("    x = 1\n", "", 1)}, None),
        ({"data__one": LONG}, "course_lib/data/one.py: work: 61, limit 60"),
        ({"data__one": "@cached\n" + LONG}, "course_lib/data/one.py: work: 62, limit 60"),
    ],
)
def test_a_broken_budget_is_named_and_fails(tmp_path, capsys, monkeypatch, files, complaint):
    monkeypatch.setattr(check_size, "CEILINGS", {})
    for name, text in files.items():
        path = tmp_path / "course_lib" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    status = check_size.main([], tmp_path)
    printed = capsys.readouterr().out
    assert status == (complaint is not None)
    assert (complaint or "no limit is broken") in printed
    assert check_size.main(["--report"], tmp_path) == 0


def test_the_table_adds_up(capsys):
    check_size.main(["--report"])
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    counts = {line[0]: line[1] for line in table if line and line[0].startswith("course_lib/")}
    library = check_size.ROOT / "course_lib"
    for package in ("runtime", "data"):
        files = (library / package).rglob("*.py")
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        assert counts[f"course_lib/{package}"] == f"{lines:,}"


# ---- what the prose names exists: modules and functions, files, targets of make, commands, options


ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("data/**/*.md")]
NO_NAMES = {"course_lib.tables"}  # a key in ONNX files
FOLDERS = [path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "outputs"]
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
    assert len(named) > 90
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


# ---- nothing in the course connects beyond this machine, and the guard that says so works


OFFLINE = Path(__file__).parent / "offline"

# What a learner's first session does, without the training: import everything, build a tokenizer
# and a model, encode, run, save, load, and open a Taskflow (which reports its use to a server).
FLOW = """
import sys, course_lib
from pathlib import Path
from course_lib.runtime import seed_everything, select_device
import paddle, paddlenlp, paddleslim, visualdl
from paddlenlp.transformers import ErnieConfig, ErnieForSequenceClassification, ErnieTokenizer
here = Path(sys.argv[1])
vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "很", "好"]
(here / "vocab.txt").write_text("\\n".join(vocabulary))
select_device(); seed_everything()
tokenizer = ErnieTokenizer(vocab_file=str(here / "vocab.txt"))
model = ErnieForSequenceClassification(ErnieConfig(
    vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=8, num_labels=2))
model.save_pretrained(str(here / "model")); tokenizer.save_pretrained(str(here / "model"))
model = ErnieForSequenceClassification.from_pretrained(str(here / "model"))
model.eval()
ids = paddle.to_tensor([tokenizer("很好")["input_ids"]])
print(model(ids).shape)
words = paddlenlp.Taskflow("word_segmentation", mode="fast")("房间很大")
print(words)
"""


def run(code: str, log: Path, *args):
    return python("-c", code, *args, env={**os.environ, "COURSE_NETWORK_LOG": str(log)})


def records(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket().connect_ex(('192.0.2.1', 80))",
        "import socket; socket.getaddrinfo('192.0.2.1.example.org', 80)",
        "import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 9))",
        "import requests; requests.get('http://192.0.2.1/')",
        "import asyncio; asyncio.run(asyncio.open_connection('192.0.2.1', 80))",
    ],
)
def test_a_connection_is_refused_and_recorded_in_a_subprocess(code, tmp_path):
    done = run(code, tmp_path / "log")
    assert done.returncode != 0
    assert "the tests run offline" in done.stderr
    assert any("192.0.2.1" in record["target"] for record in records(tmp_path / "log"))


def test_a_connection_is_refused_in_this_process(tmp_path, monkeypatch):
    import socket

    monkeypatch.setenv("COURSE_NETWORK_LOG", str(tmp_path / "log"))
    with pytest.raises(ConnectionRefusedError, match="the tests run offline"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    assert "192.0.2.1" in records(tmp_path / "log")[0]["target"]


def test_loopback_and_unix_sockets_are_allowed(tmp_path):
    code = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
socket.getaddrinfo("localhost", 80)
unix = socket.socket(socket.AF_UNIX); unix.bind(sys.argv[1]); unix.listen()
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""
    done = run(code, tmp_path / "log", tmp_path / "s")
    assert done.returncode == 0, done.stderr
    assert not records(tmp_path / "log")


def test_a_session_of_the_course_connects_to_nothing(tmp_path):
    done = run(FLOW, tmp_path / "log", tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "[1, 2]" in done.stdout and "房间" in done.stdout
    assert records(tmp_path / "log") == []


@pytest.mark.upstream
def test_paddlenlp_would_report_its_use_without_course_lib(tmp_path):
    """The reason for runtime.imports; when this fails, upstream has stopped and so may we."""
    code = """
import zlib; zlib.compress(b"")
import paddlenlp
paddlenlp.Taskflow("word_segmentation", mode="fast")
"""
    run(code, tmp_path / "log")
    assert any("paddlepaddle.org" in record["target"] for record in records(tmp_path / "log"))


USE_ALL = """
import pkgutil, sys
import mine.text
for module in pkgutil.walk_packages(mine.text.__path__, "mine.text."):
    if not module.name.endswith("__main__"):
        __import__(module.name)
assert "course_lib" not in sys.modules
mine.text.cli.commands.main(["train", "--help"])
"""


def test_a_copy_of_the_library_works_under_another_name(tmp_path):
    copy = tmp_path / "mine" / "text"
    shutil.copytree(check_size.ROOT / "course_lib", copy, ignore=shutil.ignore_patterns("chapters"))
    done = python("-c", USE_ALL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "usage: python -m mine.text train" in done.stdout
    assert not [file for file in copy.rglob("*.py") if "from course_lib" in file.read_text("utf-8")]
