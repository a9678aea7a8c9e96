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
from pathlib import Path

import pytest
from workshop import ALL, COMMANDS, FIGURES, contents, run

COUNT = 200 if ALL else 25  # files a command
TABLES = [f"{name}.{form}" for form in ("tsv", "csv", "jsonl") for name in "ab"]
SPLITS, LABEL, DATA = ["guide/train.txt", "guide/dev.txt"], "guide/label.txt", "guide/data.txt"
MODEL = ["config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"]
SERVED = ["deploy.json", "model.pdmodel", "model.pdiparams", "vocab.txt"]
TREE = [*SPLITS, LABEL]
READ = {  # what commands read; where it is a table, all tables of the command have its form
    "train": TABLES, "compress": TABLES, "evaluate": TABLES[1::2],
    "predict": [*TABLES[::2], "a.txt"], "export": [f"model/{name}" for name in MODEL],
    "serve": [f"served/{name}" for name in SERVED], "check": [*TREE, DATA],
    "hierarchical train": TREE, "hierarchical evaluate": TREE, "prune": TREE,
    "hierarchical predict": [DATA, LABEL],
    "hierarchical export": [f"guided/{name}" for name in [*MODEL, "thresholds.json"]],
    "from_doccano": ["doccano.jsonl"], "to_doccano": [SPLITS[0], LABEL],
}  # fmt: skip
WORDS = COMMANDS | {
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
ENCODED = {"GB18030": "gb18030", "UTF-16": "utf-16", "UTF-32": "utf-32"}
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
TEXTS = ["good", "empty", "only a mark", *ENCODED, *ADDED, *FAULTS, "cut", "hole"]


def with_ends(lines: list[str], chance: random.Random) -> bytes:
    """Lines with ends of one kind or of all, after a mark or not."""
    ends = chance.choice([["\n"], ["\r\n"], ["\n", "\r\n", "\r"]])
    text = chance.choice(["", "\ufeff"]) + "".join(line + chance.choice(ends) for line in lines)
    return text.encode(errors="surrogatepass").replace("\ue000".encode(), b"\xff")


def malformed(kind: str, file: str, content: bytes, chance) -> tuple[bytes, int | None] | None:
    """What such a file holds and the line to blame; None where its form has no such fault."""
    if "/" in file and file not in (*TREE, DATA):
        return MODELS.get(kind, content[: len(content) // 2]), None
    form = {LABEL: "label", DATA: "data"}.get(file, file.rpartition(".")[2])
    form = "tree" if file in SPLITS else form
    lines, head = content.decode().splitlines(), form in ("tsv", "csv")
    at = chance.randrange(head, len(lines) - 1)
    if kind in ("empty", "only a mark"):
        return MODELS[kind], None
    if kind in ENCODED:
        return content.decode().encode(ENCODED[kind]), 1 + head if kind == "GB18030" else 1
    if kind == "hole":
        return with_ends(lines[:at], chance) + bytes(512), at + 1
    if kind == "cut":  # in the middle of a character
        end = re.search("[^\0-\x7f]", lines[at]).end()
        return with_ends(lines[:at], chance) + lines[at][:end].encode()[:-1], at + 1
    if kind in ADDED:
        start = '"text": "' if form == "jsonl" else ""
        added = r"\ud800" if start and kind == "half" else ADDED[kind]
        lines[at] = lines[at].replace(start, start + added, 1)
    elif kind != "good":
        if form not in FAULTS[kind]:
            return None
        lines[at] = re.sub(*FAULTS[kind][form], lines[at], count=1)
    return with_ends(lines, chance), at + 1


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
    with pytest.MonkeyPatch.context() as context:
        context.chdir(place / "cwd")
        assert run(COMMANDS["export"].split()) == 0
        Path("out").rename(place / "served")
        for words in COMMANDS.values():
            assert "." not in words.split()[-1] or run(words.split()) == 0
    return place


@contextmanager
def nobody_special(seconds: int = 60):
    """No right to open what is forbidden, and no time to wait for a pipe."""
    libc, head, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)()
    libc.capget(head, sets)
    kept, sets[0] = sets[0], sets[0] & ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    libc.capset(head, sets)
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"waits for {seconds} s"))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        sets[0] = kept
        libc.capset(head, sets)


def wrong(status: int, out: str, err: str, file: str, line: int | None) -> str | None:
    """What is not right in how a command refuses a file."""
    where = f"../{file}" if line is None else f"../{file}, line {line}: "
    findings = [one for one in out.splitlines() if one.startswith("error: ")]  # of check
    if status != 2 or "Traceback" in err:
        return f"status {status}"
    if not findings and (out or len(re.findall("^error: ", err, re.M)) != 1):
        return "not one error"
    directory = file.split("/")[0] if "/" in file and not file.startswith("guide/") else where
    named = where in "\n".join([*findings, err]) or directory in err
    return None if named else f"does not name {where}"


@pytest.mark.parametrize("command", READ)
def test_what_is_malformed_is_refused_in_one_line(command, place, monkeypatch, capsys):
    monkeypatch.chdir(place / "cwd")
    model, writes_file = command.endswith(("export", "serve")), "." in WORDS[command].split()[-1]
    chance, faults, done, before = random.Random(command), [], 0, contents(place)
    kinds = itertools.cycle([*PLACES, *(MODELS if model else TEXTS)])
    capsys.readouterr()
    while done < COUNT:
        kind, file = next(kinds), chance.choice(READ[command])
        path, line = place / file, None
        if (kind, file) == ("missing", DATA) or (kind, command) == ("label", "predict"):
            continue  # neither is a fault
        if kind == "good" and not writes_file:
            continue  # the same results are not a file to compare
        if kind in PLACES:
            path.unlink()
            PLACES[kind](path)
        elif made := malformed(kind, file, before[path], chance):
            line = made[1]
            path.write_bytes(made[0])
        else:
            continue
        manifest = path.with_name("manifest.json")
        sealed = manifest not in before or not ALL or chance.random() < 0.5
        if not sealed:
            manifest.unlink()
        words = WORDS[command].replace(".tsv", f".{file.rpartition('.')[2]}").split()
        with nobody_special():
            status = run(words)
        out, err = capsys.readouterr()
        fault = wrong(status, out, err, file, line)
        if kind == "good" or (status == 0 and not sealed):  # without hashes, and still a model
            fault = status or None
            shutil.rmtree("out", ignore_errors=True)
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        path.write_bytes(before[path])
        if not sealed:
            manifest.write_bytes(before[manifest])
        if contents(place) != before:
            fault = f"{fault}, and files have changed"
        if fault:
            faults.append((kind, file, line, fault, out[-300:], err[-300:]))
        done += 1
        FIGURES[f"malformed files of {command}, {'accepted' if status == 0 else 'refused'}"] += 1
    assert not faults, f"{len(faults)} of {done}: " + "\n".join(map(str, faults[:20]))
