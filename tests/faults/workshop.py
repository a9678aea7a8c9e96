"""Tiny files and models for the commands, and a warm process that runs and kills them.

Importing Paddle takes longer than a run, so `python tests/faults/workshop.py` imports it once,
computes nothing, and forks for each line of JSON that it reads.
"""

import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from course_lib.__main__ import main
from course_lib.hierarchical.__main__ import main as guide
from course_lib.models import load_backbone, save_model
from course_lib.runtime import seed_everything
from course_lib.tasks.hierarchical import Taxonomy, write_dataset
from course_lib.tasks.hierarchical.model import Classifier

ALL = os.environ.get("COURSE_FAULTS") == "all"
TEXTS = ["房间很干净，服务很好", "太差了", "书很好看", "电脑坏了，客服不理人，再也不来了"]
TREE = ["书", "书##好", "书##差", "店", "店##好"]
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "fsync"}
FIGURES = Counter()
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def build(place: Path) -> Path:
    """Files for each command: a.tsv, b.tsv and guide/; models: model/ and guided/, of a tree."""
    sizes = {"num_hidden_layers": 1, "hidden_size": 24, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 64, "vocab_texts": TEXTS * 3}
    seed_everything(1)
    save_model(*load_backbone("fresh", label_list=["a", "b"], **sizes), place / "model")
    kind = "multi_label_classification"
    several = load_backbone("fresh", label_list=TREE, problem_type=kind, **sizes)
    Classifier(*several).save(place / "guided")
    splits, taxonomy = {}, Taxonomy(TREE)
    for table, split, marks in (("a", "train", "今天了"), ("b", "dev", "我的")):
        texts = [text + mark for text in TEXTS for mark in marks]
        rows = [f"{text}\t{'ab'[number % 2]}" for number, text in enumerate(texts)]
        (place / f"{table}.tsv").write_text("\n".join(["text\tlabel", *rows, ""]), "utf-8")
        splits[split] = [
            {"text": text, "labels": taxonomy.complete([TREE[1 + number % 2 * 3]])}
            for number, text in enumerate(texts)
        ]
    write_dataset(place / "guide", splits, TREE, TEXTS)
    with open(place / "doccano.jsonl", "w", encoding="utf-8") as file:
        for row in splits["train"]:
            record = {"text": row["text"], "label": row["labels"]}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return place


def contents(directory: Path) -> dict[Path, bytes]:
    """What each file below a directory holds."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def run(words: list[str]) -> int:
    """One command line, in this process."""
    return guide(words[1:]) if words[0] == "hierarchical" else main(words)


_TSV = "--train_file ../a.tsv --dev_file ../b.tsv"
_TREE = "--params_path ../guided --dataset_dir ../guide"
COMMANDS = {  # that write, and last of their words the place
    "train": f"train {_TSV} --test_file ../b.tsv --model_name_or_path ../model --epochs 3 "
    "--batch_size 4 --device cpu --output_dir out",
    "hierarchical train": "hierarchical train --dataset_dir ../guide --model_name ../model "
    "--epochs 3 --batch_size 4 --device cpu --save_dir out",
    "compress": f"compress --model_name_or_path ../model {_TSV} --strategy dynabert+ptq "
    "--algo_list abs_max --batch_num_list 1 --batch_size_list 4 --width_mult_list 0.75 "
    "--num_train_epochs 1 --device cpu --output_dir out",
    "export": "export --model_dir ../model --output_dir out",
    "hierarchical export": "hierarchical export --params_path ../guided --output_path out",
    "prune": "hierarchical prune --params_dir ../guided --dataset_dir ../guide --width_mult 1/2 "
    "--num_train_epochs 1 --device cpu --output_dir out",
    "predict": "predict --model_dir ../model --input_file ../a.tsv --output_file predicted.jsonl",
    "hierarchical predict": f"hierarchical predict {_TREE} --output_path labels.jsonl",
    "hierarchical evaluate": f"hierarchical evaluate {_TREE} --bad_case_path out.txt",
    "from_doccano": "hierarchical from_doccano --doccano_file ../doccano.jsonl --save_dir out",
    "to_doccano": "hierarchical to_doccano --dataset_dir ../guide --output_path out.jsonl",
}


def _die(change: int = -1, size: int | None = None) -> list[int]:
    """Die before that change of a file here, or in the middle of a file that gets longer.

    Returns:
        The number of changes so far.
    """
    here, count, sync = os.getcwd(), [0], os.fsync

    def watch(event: str, args: tuple) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & os.O_ACCMODE
        if writes or event in CHANGES:
            count[0] += os.path.abspath(os.fsdecode(args[0])).startswith(here)
            if count[0] == change:
                os.kill(os.getpid(), signal.SIGKILL)

    def fsync(handle: int) -> None:
        watch("fsync", (here,))
        sync(handle)

    os.fsync = fsync
    sys.addaudithook(watch)
    if size is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return count


def _child(cwd: str, words: list[str], after: float = 0, **death: int) -> None:
    os.chdir(cwd)
    for number in (1, 2):
        os.dup2(os.open(f"../told.{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    count = _die(**death)
    status = run(words)
    sys.stdout.flush()
    sys.stderr.flush()
    Path("../changes").write_text(str(count[0]))
    os._exit(status)


def _serve() -> None:
    importlib.import_module("course_lib.compression")  # and most of the library with it
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        started, child = time.perf_counter(), os.fork()
        if not child:
            try:
                _child(**order)
            finally:
                os._exit(70)
        if "after" in order:
            threading.Timer(order["after"], os.kill, (child, signal.SIGKILL)).start()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([status, time.perf_counter() - started]), flush=True)


@contextlib.contextmanager
def warm() -> Iterator[Callable]:
    """Yield what runs words in a directory: exit status or -signal, standard error, seconds.

    It may die `after` these seconds, or as `_die` says.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen([sys.executable, __file__], text=True, env=ENV, **pipes)

    def run(cwd: Path, words: list[str], **death: float) -> tuple[int, str, float]:
        print(json.dumps({"cwd": str(cwd), "words": words, **death}), file=server.stdin, flush=True)
        status, seconds = json.loads(server.stdout.readline())
        return status, (cwd.parent / "told.2").read_text(errors="replace"), seconds

    try:
        assert server.stdout.readline() == "ready\n"
        yield run
    finally:
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    _serve()
