"""The HTTP service under load, on loopback: one JSON line.

    python benchmarks/serving.py

A classifier (the shipped backbone, fine-tuned for a minute) is cut to 2/3 of its heads and neurons,
quantised to INT8, exported and served: the fastest form that the course makes of it. (It is not
trained after the cut; how right its labels are makes no difference here.) 32 clients, in one
process of their own that does as little as it can, send one short review each, wait for the answer
and send the next. They do so to the service with dynamic batching, and to the same service with
`--max_batch 1`, which is one request at a time; the two take turns.

`ratio`: requests per second with batching over those without, the median of the rounds. Batching
saves what a run of the model costs however small it is, so it gains most for short texts:
`ratio_by_characters` says how much for longer ones. Every answer is held against the Predictor's
own; `lost`, `twice` and `wrong` count what is not right with them.

`after_sigterm`: the service is told to stop in the middle of such a load. What it says that it
accepted, it must have answered, and the clients must have got.

`malformed`: so many requests of the kinds in `bad_requests`. Each must get a status of 4xx, and the
service must answer the next good one.

`agreement`: of the engines with the model in Python, on the whole dev split.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.chapters.ch11 import running
from course_lib.runtime import machine

CLIENTS = 32
TOLERANCE = 5e-3  # of an INT8 probability: texts are padded differently in other company


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--requests", type=int, default=960, help="of one turn; %(default)s")
    add("--rounds", type=int, default=3, help="turns of each service; %(default)s")
    add("--characters", type=int, nargs="+", default=[20, 50, 120], help="longest text of a run")
    add("--malformed", type=int, default=1000, help="bad requests; %(default)s")
    add("--train_examples", type=int, default=800, help="to fine-tune on; %(default)s")
    add("--dev_examples", type=int, help="to compare the engines on; default: all")
    add("--threads", type=int, default=max(1, machine.usable_cores() - 1), help="of the model")
    add("--max_batch", type=int, default=16, help="texts of a batch; %(default)s")
    add("--work_dir", help="keep the exports here, and use those that are there")
    add("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(clients(**json.loads(args.worker))))
        return
    with contextlib.ExitStack() as stack:
        work = args.work_dir or stack.enter_context(tempfile.TemporaryDirectory())
        paths = prepare(Path(work), args)
        result = {"task": "requests per second of the HTTP service, with and without batching"}
        result |= throughput(paths, args)
        result |= stopped(paths, args)
        result |= malformed(paths, args)
        result |= agreement(paths, args)
    result |= {"clients": CLIENTS, "requests": args.requests, "rounds": args.rounds}
    result |= {"threads": args.threads, "max_batch": args.max_batch}
    print(json.dumps({**result, "cores": machine.usable_cores()}))


def report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def prepare(work: Path, args: argparse.Namespace) -> dict[str, Path]:
    """The trained model and its exports."""
    from course_lib.compression import importance, prune, quantize_static
    from course_lib.data import create_dataloader, load_reviews
    from course_lib.deploy import convert, export_model
    from course_lib.models import load_backbone
    from course_lib.tasks.finetuning import fine_tune

    paths = {"model": work / "trained" / "model"}
    paths |= {name: work / name for name in ("fp32", "int8", "small")}
    if not paths["model"].is_dir():
        splits = {
            "train": load_reviews("train", max_examples=args.train_examples),
            "dev": load_reviews("dev", max_examples=100),
        }
        fine_tune(splits, work / "trained", epochs=1)
    if not (paths["small"] / "model.pdmodel").is_file():
        model, tokenizer = load_backbone(paths["model"], trained=True)
        prefix = export_model(model, paths["fp32"], tokenizer, 128)
        convert(prefix)
        texts = [example["text"] for example in load_reviews("train", max_examples=64)]
        rows = [tokenizer(text, max_length=128, truncation=True) for text in texts]
        quantize_static(prefix, paths["int8"], rows, algo="abs_max")
        worth = importance(
            model, create_dataloader(load_reviews("dev", max_examples=64), tokenizer)
        )
        cut = export_model(prune(model, "2/3", *worth), work / "cut", tokenizer, 128)
        quantize_static(cut, paths["small"], rows, algo="abs_max")
    return paths


def throughput(paths: dict[str, Path], args: argparse.Namespace) -> dict:
    from course_lib.data import load_reviews
    from course_lib.deploy import Predictor

    predictor = Predictor(paths["small"], threads=args.threads)
    every = sorted({example["text"] for example in load_reviews("train")})
    options = ["--threads", str(args.threads), "--max_wait_ms", "2", "--max_batch"]
    runs: dict[int, dict] = {}
    counts = dict.fromkeys(("lost", "twice", "wrong"), 0)
    with (
        running(paths["small"], *options, str(args.max_batch)) as (batched, _),
        running(paths["small"], *options, "1") as (single, _),
    ):
        for most in args.characters:
            texts = [text for text in every if len(text) <= most and text.isprintable()]
            texts = texts[:: max(1, len(texts) // args.requests)][: args.requests]
            expected = predictor.classify(texts)
            rows: dict[str, list[dict]] = {"batched": [], "single": []}
            for url in (batched, single):
                load(url, texts)  # warms up: each new shape of a batch costs its first run more
            for number in range(args.rounds if most == args.characters[0] else 1):
                for name, url in (("batched", batched), ("single", single)):
                    before = health(url)
                    run = load(url, texts)
                    after = health(url)
                    rows[name].append(run)
                    counts["lost"] += len(texts) - len(run["answers"])
                    counts["twice"] += (
                        run["extra"] + after["answered"] - before["answered"] - len(texts)
                    )
                    counts["wrong"] += sum(
                        not same(answer, expected[int(index)])
                        for index, answer in run["answers"].items()
                    )
                    rate = len(texts) / run["seconds"]
                    report(f"{most} characters, round {number + 1}, {name}: {rate:.0f} requests/s")
            runs[most] = rows
    ratios = {
        most: [round(s["seconds"] / b["seconds"], 2) for b, s in zip(*rows.values(), strict=True)]
        for most, rows in runs.items()
    }
    first = runs[args.characters[0]]
    return {
        "ratio": middle(ratios[args.characters[0]]),
        "ratio_by_round": ratios[args.characters[0]],
        "ratio_by_characters": {most: middle(values) for most, values in ratios.items()},
        "requests_per_second": {
            name: round(middle([args.requests / run["seconds"] for run in rows]), 1)
            for name, rows in first.items()
        },
        "p50_ms": {name: middle([run["p50_ms"] for run in rows]) for name, rows in first.items()},
        "p95_ms": {name: middle([run["p95_ms"] for run in rows]) for name, rows in first.items()},
        **counts,
    }


def middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def same(answer: dict, expected: dict) -> bool:
    pairs = [
        (share, expected["probabilities"][key]) for key, share in answer["probabilities"].items()
    ]
    close = all(abs(one - other) <= TOLERANCE for one, other in pairs)
    tie = abs(pairs[0][0] - 0.5) <= TOLERANCE
    return close and (tie or answer["label"] == expected["label"])


def health(url: str) -> dict:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=30)
    connection.request("GET", "/health")
    return json.loads(connection.getresponse().read())


def load(url: str, texts: list[str], **more) -> dict:
    """Run the clients in a process of their own."""
    port = urllib.parse.urlsplit(url).port
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(texts, file)
        file.flush()
        told = json.dumps({"port": port, "file": file.name, **more})
        command = [sys.executable, __file__, "--worker", told]
        done = subprocess.run(
            command, capture_output=True, text=True, env=machine.child_environment(), timeout=300
        )
    if done.returncode != 0:
        raise SystemExit(f"the clients failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def clients(
    port: int, file: str, kill: int | None = None, after: int = 0, limit: float = 120
) -> dict:
    """32 clients in one loop: each sends a text, waits for its answer, and sends the next one.

    Args:
        kill, after: a process to send SIGTERM to, once so many answers are there. From then on a
            connection that is closed before any byte of an answer, and a status of 503, count as
            refused; one that is closed within an answer counts as broken.
    """
    texts = json.loads(Path(file).read_text(encoding="utf-8"))
    start = (
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: "
    )
    bodies = [json.dumps({"text": text}).encode() for text in texts]
    requests = iter(enumerate(b"%s%d\r\n\r\n%s" % (start, len(body), body) for body in bodies))
    answers, times, counts = {}, [], {"extra": 0, "refused": 0, "broken": 0}
    selector = selectors.DefaultSelector()
    began = time.perf_counter()

    def send(connection: socket.socket) -> None:
        index, request = next(requests, (None, None))
        if index is None:
            selector.unregister(connection)
            return connection.close()
        selector.modify(connection, selectors.EVENT_READ, [index, b"", time.perf_counter()])
        with contextlib.suppress(ConnectionError):  # the next recv says so, too
            connection.sendall(request)

    for _ in range(CLIENTS):
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ)
        send(connection)
    while selector.get_map() and time.perf_counter() - began < limit:
        for key, _ in selector.select(1):
            connection, (index, content, sent) = key.fileobj, key.data
            try:
                piece = connection.recv(65536)
            except ConnectionError:
                piece = b""
            content += piece
            head, found, body = content.partition(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length:")[2].split()[0]) if found else 0
            if piece and (not found or len(body) < size):
                key.data[1] = content
            elif not piece:
                counts["broken" if content else "refused"] += 1
                selector.unregister(connection)
                connection.close()
            else:
                counts["extra"] += len(body) > size  # a second answer
                times.append(time.perf_counter() - sent)
                if head.split()[1] == b"200":
                    answers[index] = json.loads(body)
                else:
                    counts["refused"] += 1
                if kill and len(answers) == after:
                    os.kill(kill, signal.SIGTERM)
                send(connection)
    times.sort()
    return {
        "seconds": time.perf_counter() - began,
        "p50_ms": round(1000 * times[len(times) // 2], 1),
        "p95_ms": round(1000 * times[int(0.95 * len(times))], 1),
        "answers": answers,
        **counts,
    }


def stopped(paths: dict[str, Path], args: argparse.Namespace) -> dict:
    """Stop the service under load, and count."""
    from course_lib.data import load_reviews

    texts = [example["text"] for example in load_reviews("train", max_examples=2000)]
    texts = [text for text in texts if text.isprintable()]
    with running(paths["small"], "--threads", str(args.threads)) as (url, process):
        run = load(url, texts, kill=process.pid, after=200)
        status = process.wait(60)
        told = json.loads(process.stdout.readline())
    counts = {"accepted": told["accepted"], "answered": len(run["answers"]), "exit_status": status}
    counts |= {"lost": told["accepted"] - len(run["answers"])}
    return {"after_sigterm": counts | {name: run[name] for name in ("refused", "broken")}}


def bad_requests() -> list[tuple[str, bytes, bool]]:
    """What is wrong, a body, and whether to send it in chunks."""
    bodies = {
        "bad JSON": [b"", b"{", b'{"text": "a', b"\xff\xfe", b'{"text": }', b"'text'"],
        "wrong types": [
            b"[]",
            b"null",
            b'{"text": 5}',
            b'{"texts": "a"}',
            b'{"texts": [1]}',
            b"{}",
        ],
        "huge bodies": [b" " * 3_000_000, b'{"text": "' + b"a" * 1_200_000 + b'"}'],
        "control characters": [
            b'{"text": "a\x00b"}',
            b'{"text": "a\\u0000b"}',
            b'{"text": "\\u001b"}',
        ],
        "lone surrogates": [b'{"text": "\\ud800"}', b'{"texts": ["a", "\\udfff"]}'],
        "deep nesting": [b"[" * 500_000, b'{"text":' * 100_000, b"[" * 900 + b"]" * 900],
    }
    return [
        (kind, body, chunks) for kind in bodies for body in bodies[kind] for chunks in (False, True)
    ]


def malformed(paths: dict[str, Path], args: argparse.Namespace) -> dict:
    kinds = bad_requests()
    statuses: dict[str, dict[int, int]] = {}
    headers = {"Content-Type": "application/json"}
    with running(paths["small"], "--threads", str(args.threads)) as (url, process):
        host = urllib.parse.urlsplit(url).netloc
        for number in range(args.malformed):
            kind, body, chunks = kinds[number % len(kinds)]
            connection = http.client.HTTPConnection(host, timeout=30)
            pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
            with contextlib.closing(connection):
                # without a length, http.client sends an iterable in chunks
                connection.request("POST", "/predict", pieces if chunks else body, headers)
                status = connection.getresponse().status
            found = statuses.setdefault(kind, {})
            found[status] = found.get(status, 0) + 1
        alive = process.poll() is None and health(url)["status"] == "ok"
        fine = len(load(url, ["房间很干净"] * 40)["answers"])
    all_refused = all(400 <= status < 500 for found in statuses.values() for status in found)
    told = {"requests": args.malformed, "all_4xx": all_refused, "statuses": statuses}
    return {"malformed": told | {"goes_on": alive and fine == 40}}


def agreement(paths: dict[str, Path], args: argparse.Namespace) -> dict:
    from course_lib.data import load_reviews
    from course_lib.deploy import Predictor
    from course_lib.models import load_backbone

    import numpy as np
    import paddle

    texts = [example["text"] for example in load_reviews("dev", max_examples=args.dev_examples)]
    model, tokenizer = load_backbone(paths["model"], trained=True)
    model.eval()
    rows = [tokenizer(text, max_length=128, truncation=True)["input_ids"] for text in texts]
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    expected = np.zeros((len(rows), len(model.config.id2label)), "float32")
    with paddle.no_grad():
        for start in range(0, len(order), 32):
            chosen = order[start : start + 32]
            longest = max(len(rows[index]) for index in chosen)
            ids = np.array([rows[i] + [0] * (longest - len(rows[i])) for i in chosen])
            logits = model(paddle.to_tensor(ids))
            expected[chosen] = paddle.nn.functional.softmax(logits).numpy()
    engines = {
        "paddle fp32": Predictor(paths["fp32"]),
        "onnx": Predictor(paths["fp32"], "onnx"),
        "paddle int8": Predictor(paths["int8"]),
    }
    table = {}
    for name, predictor in engines.items():
        got = predictor.predict(texts)
        other = int((got.argmax(axis=1) != expected.argmax(axis=1)).sum())
        table[name] = {
            "largest_difference": float(np.abs(got - expected).max()),
            "other_labels": other,
        }
        report(f"{name}: {table[name]}")
    return {"agreement": table, "dev_examples": len(texts)}


if __name__ == "__main__":
    main()
