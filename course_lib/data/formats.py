"""The course's corpora, and a user's own examples, in the files of official data sets.

`paddlenlp.datasets.load_dataset(NAME, data_files=..., splits=...)` reads a local file with the
reader of the official data set NAME. The writers here make such files, and refuse every example
that PaddleNLP 2.8.1's reader would not give back as it is: those readers strip each line (a
full-width space at its end too), split it at tabs, and end it at a carriage return; lcqmc then
leaves out a line without a word, the others crash or cut the text. The JSON readers strip contexts
and answers without moving answer_start.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from course_lib.data.splits import SPLITS
from course_lib.runtime import InputError, atomic_file

# data set -> split of the course -> what to give load_dataset as `splits`, which chooses the
# columns that are read. msra_ner has no official dev split, cmrc2018 and squad no public test.
OFFICIAL_SPLITS = {
    "chnsenticorp": {"train": "train", "dev": "dev", "test": "test"},
    "glue/cola": {"train": "train", "dev": "dev", "test": "test"},
    "lcqmc": {"train": "train", "dev": "dev", "test": "test"},
    "msra_ner": {"train": "train", "dev": "test", "test": "test"},
    "cmrc2018": {"train": "train", "dev": "dev", "test": "dev"},
    "squad": {"train": "train_v1", "dev": "dev_v1", "test": "dev_v1"},
}
MSRA_LABELS = ("B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "O")
_SOURCES = {
    "chnsenticorp": ("reviews", "load_reviews"),
    "glue/cola": ("reviews", "load_reviews"),
    "lcqmc": ("pairs", "load_pairs"),
    "msra_ner": ("people_daily", "load_people_daily"),
    "cmrc2018": ("cloze", "load_cloze"),
    "squad": ("cloze", "load_cloze"),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_SEPARATORS = {"\t": "a tab", "\n": "a line break", "\r": "a carriage return"}


def materialize(
    name: str,
    directory: str | os.PathLike,
    splits: str | Sequence[str] | None = None,
    max_examples: int | None = None,
    seed: int = 42,
) -> dict[str, Path]:
    """Write a corpus of the course as the official data set `name`.

    Args:
        name: "chnsenticorp" or "glue/cola" (the reviews), "msra_ner" (People's Daily), "lcqmc"
            (sentence pairs), "cmrc2018" or "squad" (cloze questions).
        directory: the files are `directory/name/train.tsv` and so on (.json for the last two).
        splits: "train", "dev" or "test", or several; None writes all three.
        max_examples, seed: as for the corpus' own loader.

    Returns:
        The path of each split. `OFFICIAL_SPLITS[name][split]` is the word to give load_dataset as
        `splits`; for glue/cola the call is `load_dataset("glue", "cola", data_files=...)`. The
        official test files of chnsenticorp and cola have no labels, so these have none either.

    Raises:
        InputError: an unknown name or split, or a text that the format cannot carry; no example is
            ever left out.
    """
    if name not in _SOURCES:
        raise InputError("name", f"is {name!r}", f"one of {', '.join(_SOURCES)}")
    wanted = SPLITS if splits is None else [splits] if isinstance(splits, str) else list(splits)
    for split in wanted:
        if split not in SPLITS:
            raise InputError("splits", f"has {split!r}", f"one of {', '.join(SPLITS)}")
    module, function = _SOURCES[name]
    load = getattr(import_module(f"course_lib.data.{module}"), function)
    suffix = ".json" if name in ("cmrc2018", "squad") else ".tsv"
    folder = Path(directory, *name.split("/"))
    paths = {}
    for split in wanted:
        examples = load(split, max_examples=max_examples, seed=seed)
        paths[split] = folder / (split + suffix)
        if name == "chnsenticorp":
            write_chnsenticorp(examples, paths[split], split)
        elif name == "glue/cola":
            write_cola(examples, paths[split], split)
        elif name == "lcqmc":
            write_lcqmc(examples, paths[split])
        elif name == "msra_ner":
            write_msra_ner(examples, paths[split], examples.label_list)
        elif name == "cmrc2018":
            write_cmrc2018(examples, paths[split])
        else:
            write_squad(examples, paths[split])
    return paths


def write_chnsenticorp(
    examples: Iterable[dict], path: str | os.PathLike, split: str = "train"
) -> None:
    """Write `{"text", "label": 0 or 1[, "id"]}` in the columns of ChnSentiCorp.

    Args:
        split: "train" writes label and text, "dev" qid, label and text, "test" qid and text; the
            qid is the example's "id", or its place in the file.

    Raises:
        InputError: an example (named by its id) that the reader would not give back as it is.
    """
    header = {
        "train": ["label", "text_a"],
        "dev": ["qid", "label", "text_a"],
        "test": ["qid", "text_a"],
    }
    if split not in header:
        raise InputError("split", f"is {split!r}", f"one of {', '.join(header)}")

    def lines():
        for name, example in _named(examples):
            row = {"qid": name, "text_a": _text(example, "text", name)}
            if "label" in header[split]:
                row["label"] = _binary(example, name)
            yield _tsv([row[column] for column in header[split]], name)

    _write_lines(lines(), path, "\t".join(header[split]) + "\n")


def write_cola(examples: Iterable[dict], path: str | os.PathLike, split: str = "train") -> None:
    """Write `{"text", "label": 0 or 1[, "id"]}` in the columns of GLUE's CoLA.

    Args:
        split: "train" and "dev" write source, label, the author's mark (empty) and sentence
            without a header; "test" writes index and sentence with a header.

    Raises:
        InputError: as for `write_chnsenticorp`.
    """
    if split not in SPLITS:
        raise InputError("split", f"is {split!r}", f"one of {', '.join(SPLITS)}")

    def lines():
        for name, example in _named(examples):
            text = _text(example, "text", name)
            yield _tsv(
                [name, text] if split == "test" else [name, _binary(example, name), "", text], name
            )

    _write_lines(lines(), path, "index\tsentence\n" if split == "test" else "")


def write_lcqmc(examples: Iterable[dict], path: str | os.PathLike) -> None:
    """Write `{"sentence1", "sentence2", "label": 0 or 1[, "id"]}` as query, title, label.

    Raises:
        InputError: as for `write_chnsenticorp`.
    """
    _write_lines(
        (
            _tsv(
                [
                    _text(example, "sentence1", name),
                    _text(example, "sentence2", name),
                    _binary(example, name),
                ],
                name,
            )
            for name, example in _named(examples)
        ),
        path,
    )


def write_msra_ner(
    examples: Iterable[dict], path: str | os.PathLike, label_list: Sequence[str]
) -> None:
    r"""Write `{"tokens": list[str], "labels": list[int][, "id"]}`: tokens, tab, label names.

    Tokens and labels are joined by \002. load_dataset gives the labels as indices into its own
    list, `MSRA_LABELS`, whatever the order of `label_list` is.

    Args:
        label_list: the names of the labels; all must be in `MSRA_LABELS`.

    Raises:
        InputError: as for `write_chnsenticorp`; also an unknown label, or as many labels as not
            as tokens.
    """
    for label in label_list:
        if label not in MSRA_LABELS:
            raise InputError("label_list", f"has {label!r}", f"only {', '.join(MSRA_LABELS)}")

    def lines():
        for name, example in _named(examples):
            tokens, labels = _list(example, "tokens", name), _list(example, "labels", name)
            if len(tokens) != len(labels):
                problem = f"{len(tokens)} tokens and {len(labels)} labels"
                raise InputError(f"example {name}", problem, "one label for each token")
            if not tokens:
                raise InputError(f"example {name}", "no tokens", "at least one")
            for token in tokens:
                if not isinstance(token, str) or not token or "\002" in token:
                    problem = f"the token {token!r}"
                    raise InputError(f"example {name}", problem, r"characters other than \002")
            for label in labels:
                if not _is_index(label, len(label_list)):
                    problem = f"the label {label!r}"
                    raise InputError(
                        f"example {name}", problem, f"a number from 0 to {len(label_list) - 1}"
                    )
            names = [label_list[label] for label in labels]
            yield _tsv(["\002".join(tokens), "\002".join(names)], name)

    _write_lines(lines(), path)


def write_cmrc2018(examples: Iterable[dict], path: str | os.PathLike) -> None:
    """Write `{"id", "context", "question", "answers", "answer_starts"[, "title"]}` as CMRC 2018.

    Neighbours with one context share a paragraph. JSON carries every character; only white space
    at the ends of a text is refused, because the reader strips it.

    Raises:
        InputError: as for `write_chnsenticorp`; also an id that comes again, an empty answer, or
            one that does not stand at its offset.
    """
    _write_questions(examples, path, impossible=False)


def write_squad(examples: Iterable[dict], path: str | os.PathLike) -> None:
    """The same as `write_cmrc2018` in SQuAD's form: `is_impossible` marks what has no answer."""
    _write_questions(examples, path, impossible=True)


def _write_questions(examples: Iterable[dict], path: str | os.PathLike, impossible: bool) -> None:
    data: list[dict] = []
    seen: set[str] = set()
    for name, example in _named(examples):
        if name in seen:
            raise InputError(f"example {name}", "the id comes again", "an id of its own")
        seen.add(name)
        title = _stripped(example, "title", name) if "title" in example else ""
        context = _stripped(example, "context", name)
        question: dict[str, Any] = {"id": name, "question": _stripped(example, "question", name)}
        answers, starts = _list(example, "answers", name), _list(example, "answer_starts", name)
        if len(answers) != len(starts):
            problem = f"{len(answers)} answers and {len(starts)} answer_starts"
            raise InputError(f"example {name}", problem, "one offset for each answer")
        for answer, start in zip(answers, starts, strict=True):
            _check_string(answer, "an answer", name)
            if not answer or answer != answer.strip():
                problem = f"the answer {answer!r} is empty or has white space at an end"
                raise InputError(f"example {name}", problem, "what the reader will not strip")
            if not _is_index(start, len(context)) or not context.startswith(answer, start):
                problem = f"the answer {answer!r} does not stand at {start!r}"
                raise InputError(f"example {name}", problem, "its offset in the context")
        question["answers"] = [
            {"text": answer, "answer_start": int(start)}
            for answer, start in zip(answers, starts, strict=True)
        ]
        if impossible:
            question["is_impossible"] = not answers
        if not data or data[-1]["title"] != title:
            data.append({"title": title, "paragraphs": []})
        paragraphs = data[-1]["paragraphs"]
        if not paragraphs or paragraphs[-1]["context"] != context:
            paragraphs.append({"context": context, "qas": []})
        paragraphs[-1]["qas"].append(question)
    if not data:
        raise InputError(path, "no example to write", "at least one")
    with atomic_file(path) as file:
        json.dump({"version": "1.1", "data": data}, file, ensure_ascii=False, indent=1)
        file.write("\n")


def _named(examples: Iterable[dict]) -> Iterable[tuple[str, dict]]:
    """Each example with its id, or with its place (1, 2, ...) where it has none."""
    for place, example in enumerate(examples, 1):
        name = example.get("id", str(place))
        if not isinstance(name, str) or not name:
            raise InputError(f"example {place}", f"id is {name!r}", "a string")
        _check_string(name, "the id", str(place))
        yield name, example


def _text(example: dict, key: str, name: str) -> str:
    if key not in example:
        raise InputError(f"example {name}", f"no {key!r}", "a text")
    _check_string(example[key], key, name)
    return example[key]


def _check_string(value: object, what: str, name: str) -> None:
    if not isinstance(value, str):
        raise InputError(f"example {name}", f"{what} is {value!r}", "a string")
    if _SURROGATE.search(value):
        raise InputError(f"example {name}", f"half a surrogate pair in {what}", "plain text")


def _stripped(example: dict, key: str, name: str) -> str:
    text = _text(example, key, name)
    if text != text.strip():
        problem = f"{key} begins or ends with white space, which PaddleNLP's reader strips"
        raise InputError(f"example {name}", problem, "no white space there, offsets moved along")
    return text


def _list(example: dict, key: str, name: str) -> list:
    value = example.get(key)
    if not isinstance(value, (list, tuple)):
        raise InputError(f"example {name}", f"{key} is {value!r}", "a list")
    return list(value)


def _is_index(value: Any, count: int) -> bool:
    whole = hasattr(value, "__index__") and not isinstance(value, bool)  # numpy's integers too
    return whole and 0 <= value < count


def _binary(example: dict, name: str) -> str:
    label: Any = example.get("label")
    if not _is_index(label, 2):
        raise InputError(f"example {name}", f"label is {label!r}", "0 or 1")
    return str(int(label))


def _tsv(fields: list[str], name: str) -> str:
    """Join the columns; what `line.strip().split("\\t")` would not give back is refused."""
    for field in fields:
        _check_string(field, "a column", name)
        for character, called in _SEPARATORS.items():
            if character in field:
                problem = f"{called} in {field[:20]!r}"
                expected = "a text of one line without tabs: the format cannot carry it"
                raise InputError(f"example {name}", problem, expected)
    line = "\t".join(fields)
    if line != line.strip():
        side, field = ("ends", fields[-1]) if line == line.lstrip() else ("begins", fields[0])
        problem = f"{field[:20]!r} is empty or {side} with white space, which the reader strips"
        raise InputError(f"example {name}", problem, "a visible character there")
    return line


def _write_lines(lines: Iterable[str], path: str | os.PathLike, header: str = "") -> None:
    written = False
    with atomic_file(path) as file:
        file.write(header)
        for line in lines:
            file.write(line + "\n")
            written = True
        if not written:  # PaddleNLP's readers raise on a file without examples
            raise InputError(path, "no example to write", "at least one")
