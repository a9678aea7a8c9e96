"""Files that are not what a command reads: one line names the file and the line, all else stays."""

import ctypes
import itertools
import json
import os
import random
import re
import shutil
import signal
from contextlib import contextmanager

import pytest
from workshop import ALL, COMMANDS, FIGURES, contents, run

COUNT = 200 if ALL else 25  # files a command
TABLES = [f"{name}.{form}" for form in ("tsv", "csv", "jsonl") for name in "ab"]
SPLITS, LABEL, DATA = ["guide/train.txt", "guide/dev.txt"], "guide/label.txt", "guide/data.txt"
MODEL = ["config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"]
SERVED = ["deploy.json", "model.pdmodel", "model.pdiparams", "vocab.txt"]
READ = {  # what commands read; where it is a table, all tables of the command have its form
    "train": TABLES,
    "compress": TABLES,
    "evaluate": TABLES[1::2],
    "predict": [*TABLES[::2], "a.txt"],
    "export": [f"model/{name}" for name in MODEL],
    "serve": [f"served/{name}" for name in SERVED],
    "check": [*SPLITS, LABEL, DATA],
    "hierarchical train": [*SPLITS, LABEL],
    "hierarchical evaluate": [*SPLITS, LABEL],
    "hierarchical predict": [DATA, LABEL],
    "hierarchical export": [f"guided/{name}" for name in [*MODEL, "thresholds.json"]],
    "prune": [*SPLITS, LABEL],
    "from_doccano": ["doccano.jsonl"],
    "to_doccano": [SPLITS[0], LABEL],
}
WORDS = {
    **COMMANDS,
    "evaluate": "evaluate --model_dir ../model --test_file ../b.tsv",
    "serve": "serve ../served --port 0",
    "check": "hierarchical check ../guide",
}
PLACES = {  # something else than a file
    "missing": lambda path: None,
    "a directory": lambda path: path.mkdir(),
    "a loop of links": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "forbidden": lambda path: path.touch(0),
}
ENCODED = {"GB18030": "gb18030", "UTF-16": "utf-16", "no mark": "utf-16-be", "UTF-32": "utf-32"}
ADDED = {"NUL": "\0", "byte": "\ue000", "half": "\ud800", "long": "今" * 100_001}
FAULTS = {  # of a line, by the form of its file: what is replaced, and by what
    "columns": {"tsv": ("$", "\tx"), "csv": ("$", ",x"), "jsonl": ("text", "txt"),
                "tree": ("\t", " "), "label": ("$", ",x"), "data": ("$", "\tx")},
    "label": {"tsv": ("b$|a$", "z"), "csv": ("b$|a$", "z"), "jsonl": (r'(\[.*|"\w")}', "7}"),
              "tree": ("\t.*", "\t车"), "label": (".*", "车##好")},
    "blank": {"tsv": ("^[^\t]*", "  "), "csv": ("^[^,]*", "  "), "jsonl": ('": "[^"]*', '": "  '),
              "tree": ("^[^\t]*", "  "), **dict.fromkeys(["label", "data", "txt"], (".*", " "))},
    "record": {"csv": ("^", '"'), "jsonl": ("..$", "")},
}  # fmt: skip
MODELS = {
    "empty": b"", "zeros": bytes(500), "a list": b"[]", "null": b"null", "bytes": b"\xff\xfe\xfd",
    "deep": b"[" * 100_000, "half": b'{"vocab_size": "\\ud800"}', "long": b"1" * 1_000_000,
    "only a mark": b"\xef\xbb\xbf", "a number": b'{"hidden_size": 1e999}',
}  # fmt: skip
TEXTS = ["empty", "only a mark", *ENCODED, *ADDED, *FAULTS, "cut", "hole"]


def form_of(file: str) -> str:
    return {LABEL: "label", DATA: "data", "a.txt": "txt"}.get(file) or (
        "tree" if file in SPLITS else file.rpartition(".")[2]
    )


def with_ends(lines: list[str], chance: random.Random) -> str:
    """A text with a mark at its beginning or not, and line ends of one kind or of all."""
    ends = chance.choice([["\n"], ["\r\n"], ["\n", "\r\n", "\r"]])
    return chance.choice(["", "\ufeff"]) + "".join(line + chance.choice(ends) for line in lines)


def malformed(kind: str, form: str, lines: list[str], chance) -> tuple[bytes, int | None] | None:
    """What such a file holds and the line to blame; None where the form has no such fault."""
    at = chance.randrange(form in ("tsv", "csv"), len(lines) - 1)
    if kind in ("empty", "only a mark"):
        return (b"" if kind == "empty" else b"\xef\xbb\xbf"), None
    if kind in ENCODED:
        first = 1 + (form in ("tsv", "csv")) if kind == "GB18030" else 1
        return "".join(line + "\n" for line in lines).encode(ENCODED[kind]), first
    if kind in ("cut", "hole"):
        before = with_ends(lines[:at], chance).encode()
        first = re.search("[^\0-\x7f]", lines[at])
        cut = lines[at][: first.end()].encode()[:-1]
        return before + (bytes(512) if kind == "hole" else cut), at + 1
    if kind in ADDED:
        start = '"text": "' if form == "jsonl" else ""
        added = r"\ud800" if start and kind == "half" else ADDED[kind]
        line = lines[at].replace(start, start + added, 1)
    elif form in FAULTS[kind]:
        line = re.sub(*FAULTS[kind][form], lines[at], count=1)
    else:
        return None
    text = with_ends([*lines[:at], line, *lines[at + 1 :]], chance)
    return text.encode(errors="surrogatepass").replace("\ue000".encode(), b"\xff"), at + 1


@pytest.fixture(scope="module")
def place(place):
    """Tables in all forms; an export to serve; and what commands that write a file wrote before."""
    for name in "ab":
        lines = (place / f"{name}.tsv").read_text("utf-8").splitlines()
        rows = [dict(zip(("text", "label"), line.split("\t"), strict=True)) for line in lines[1:]]
        others = {
            "csv": [line.replace("\t", ",") for line in lines],
            "jsonl": [json.dumps(row, ensure_ascii=False) for row in rows],
            "txt": [row["text"] for row in rows],
        }
        for form, lines in others.items():
            (place / f"{name}.{form}").write_text("\n".join([*lines, ""]), "utf-8")
    (place / "cwd").mkdir()
    os.chdir(place / "cwd")
    assert run(COMMANDS["export"].split()) == 0
    (place / "cwd/out").rename(place / "served")
    for words in COMMANDS.values():
        assert "." not in words.split()[-1] or run(words.split()) == 0
    return place


@contextmanager
def nobody_special(seconds: int = 30):
    """No right to open what is forbidden, and no time to wait for a pipe."""
    head, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None)
    libc.capget(head, sets)
    kept, sets[0] = sets[0], sets[0] & ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    libc.capset(head, sets)

    def late(*_):
        raise AssertionError(f"still waiting after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        sets[0] = kept
        libc.capset(head, sets)


def put(path, kind: str, file: str, chance) -> tuple[bool, int | None]:
    """Spoil a file; whether its form has such a fault, and the line to blame."""
    content, line = path.read_bytes(), None
    if kind in PLACES:
        path.unlink()
        PLACES[kind](path)
    elif "/" in file and "guide/" not in file:
        path.write_bytes(MODELS.get(kind, content[: len(content) // 2]))
    else:
        made = malformed(kind, form_of(file), content.decode().splitlines(), chance)
        if made is None:
            return False, None
        content, line = made
        path.write_bytes(content)
    return True, line


def put_back(before: dict) -> None:
    for path, content in before.items():
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        if not path.is_file() or path.is_symlink() or not path.stat().st_mode & 0o400:
            path.unlink(missing_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)


def fault_of(status, out: str, err: str, file: str, line: int | None, sealed: bool) -> str | None:
    """What is not right in the answer of a command to a malformed file."""
    errors = [one for one in err.splitlines() if "error" in one.lower()]
    findings = [one for one in out.splitlines() if ": error: " in one]  # of check
    where = f"../{file}" if line is None else f"../{file}, line {line}: "
    if not sealed and status == 0:
        return None  # without hashes, and still a model
    if status != 2:
        return f"status {status}"
    if not findings and (sum(one.startswith("error: ") for one in errors) != 1 or out):
        return "no single error"
    told = "\n".join(findings + err.splitlines())
    named = where in told or ("/" in file and "guide/" not in file and file.split("/")[0] in told)
    return None if named else f"does not name {where}"


@pytest.mark.parametrize("command", READ)
def test_what_is_malformed_is_refused_in_one_line(command, place, monkeypatch, capsys):
    monkeypatch.chdir(place / "cwd")
    chance, wrong, done, before = random.Random(command), [], 0, contents(place)
    model = command in ("export", "serve", "hierarchical export")
    capsys.readouterr()
    for kind in itertools.cycle([*PLACES, *(MODELS if model else TEXTS)]):
        if done == COUNT:
            break
        file = chance.choice(READ[command])
        if (command, kind) == ("predict", "label") or (kind, file) == ("missing", DATA):
            continue  # neither is a fault
        could, line = put(place / file, kind, file, chance)
        if not could:
            continue
        sealed = not model or not ALL or chance.random() < 0.5
        if not sealed:
            (place / file).with_name("manifest.json").unlink(missing_ok=True)
        words = WORDS[command].replace(".tsv", f".{file.rpartition('.')[2]}").split()
        try:
            with nobody_special():
                status = run(words)
        except (Exception, SystemExit) as error:
            status = repr(error)
        out, err = capsys.readouterr()
        fault = fault_of(status, out, err, file, line, sealed)
        put_back(before)
        if status == 0:
            shutil.rmtree("out", ignore_errors=True)
        if contents(place) != before:
            fault = f"{fault}, and files have changed"
        shutil.rmtree("out", ignore_errors=True)
        if fault:
            wrong.append((kind, file, line, fault, out[-300:], err[-300:]))
        done += 1
        FIGURES[f"malformed files of {command}, " + ("accepted" if status == 0 else "refused")] += 1
    assert not wrong, f"{len(wrong)} of {done}: " + "\n".join(map(str, wrong[:20]))
