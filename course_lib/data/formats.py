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
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from course_lib import data
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
_LOADERS = {
    "chnsenticorp": "load_reviews",
    "glue/cola": "load_reviews",
    "lcqmc": "load_pairs",
    "msra_ner": "load_people_daily",
    "cmrc2018": "load_cloze",
    "squad": "load_cloze",
}
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
        InputError: an unknown name, or a text that the format cannot carry; no example is ever
            left out.
        ValueError: an unknown split.
    """
    if name not in _LOADERS:
        raise InputError("name", f"is {name!r}", f"one of {', '.join(_LOADERS)}")
    load = getattr(data, _LOADERS[name])
    suffix = ".json" if name in ("cmrc2018", "squad") else ".tsv"
    paths = {}
    for split in SPLITS if splits is None else [splits] if isinstance(splits, str) else splits:
        examples = load(split, max_examples=max_examples, seed=seed)
        paths[split] = path = Path(directory, *name.split("/"), split + suffix)
        if name == "chnsenticorp":
            write_chnsenticorp(examples, path, split)
        elif name == "glue/cola":
            write_cola(examples, path, split)
        elif name == "lcqmc":
            write_lcqmc(examples, path)
        elif name == "msra_ner":
            write_msra_ner(examples, path, examples.label_list)
        elif name == "cmrc2018":
            write_cmrc2018(examples, path)
        else:
            write_squad(examples, path)
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
    columns = {
        "train": ["label", "text_a"],
        "dev": ["qid", "label", "text_a"],
        "test": ["qid", "text_a"],
    }[split]

    def fields(name: str, example: dict) -> list[str]:
        row = {"qid": name, "text_a": example["text"]}
        if "label" in columns:
            row["label"] = _binary(example, name)
        return [row[column] for column in columns]

    _write_tsv(examples, path, fields, "\t".join(columns) + "\n")


def write_cola(examples: Iterable[dict], path: str | os.PathLike, split: str = "train") -> None:
    """Write `{"text", "label": 0 or 1[, "id"]}` in the columns of GLUE's CoLA.

    Args:
        split: "train" and "dev" write source, label, the author's mark (empty) and sentence
            without a header; "test" writes index and sentence with a header.

    Raises InputError as `write_chnsenticorp` does.
    """
    header = {"train": "", "dev": "", "test": "index\tsentence\n"}[split]

    def fields(name: str, example: dict) -> list[str]:
        if split == "test":
            return [name, example["text"]]
        return [name, _binary(example, name), "", example["text"]]

    _write_tsv(examples, path, fields, header)


def write_lcqmc(examples: Iterable[dict], path: str | os.PathLike) -> None:
    """Write `{"sentence1", "sentence2", "label": 0 or 1[, "id"]}` as query, title, label.

    Raises InputError as `write_chnsenticorp` does.
    """

    def fields(name: str, example: dict) -> list[str]:
        return [example["sentence1"], example["sentence2"], _binary(example, name)]

    _write_tsv(examples, path, fields)


def write_msra_ner(
    examples: Iterable[dict], path: str | os.PathLike, label_list: Sequence[str]
) -> None:
    r"""Write `{"tokens": list[str], "labels": list[int][, "id"]}`: tokens, tab, label names.

    Tokens and labels are joined by \002. load_dataset gives the labels as indices into its own
    list, `MSRA_LABELS`, whatever the order of `label_list` is.

    Args:
        label_list: the names of the labels; all must be in `MSRA_LABELS`.

    Raises InputError as `write_chnsenticorp` does; also for an unknown label, or another number of
    labels than of tokens.
    """
    for label in label_list:
        if label not in MSRA_LABELS:
            raise InputError("label_list", f"has {label!r}", f"only {', '.join(MSRA_LABELS)}")

    def fields(name: str, example: dict) -> list[str]:
        tokens, labels = example["tokens"], example["labels"]
        if len(tokens) != len(labels):
            problem = f"{len(tokens)} tokens and {len(labels)} labels"
            raise InputError(f"example {name}", problem, "one label for each token")
        for token in tokens:
            if not token or "\002" in token:
                problem = f"the token {token!r}"
                raise InputError(f"example {name}", problem, r"characters other than \002")
        return ["\002".join(tokens), "\002".join(label_list[label] for label in labels)]

    _write_tsv(examples, path, fields)


def write_cmrc2018(examples: Iterable[dict], path: str | os.PathLike) -> None:
    """Write `{"id", "context", "question", "answers", "answer_starts"[, "title"]}` as CMRC 2018.

    Neighbours with one context share a paragraph. JSON carries every character; only white space
    at the ends of a text is refused, because the reader strips it.

    Raises InputError as `write_chnsenticorp` does; also for an id that comes again, and an answer
    that is empty or not at its offset.
    """
    _write_questions(examples, path, impossible=False)


def write_squad(examples: Iterable[dict], path: str | os.PathLike) -> None:
    """The same as `write_cmrc2018` in SQuAD's form: `is_impossible` marks what has no answer."""
    _write_questions(examples, path, impossible=True)


def _write_questions(examples: Iterable[dict], path: str | os.PathLike, impossible: bool) -> None:
    entries: list[dict] = []
    seen: set[str] = set()
    for name, example in _named(examples, path):
        if name in seen:
            raise InputError(f"example {name}", "the id comes again", "each id once")
        seen.add(name)
        title, context = example.get("title", ""), example["context"]
        for key, text in (
            ("title", title),
            ("context", context),
            ("question", example["question"]),
        ):
            if text != text.strip():
                problem = f"{key} begins or ends with white space, which PaddleNLP's reader strips"
                expected = "no white space there, offsets moved along"
                raise InputError(f"example {name}", problem, expected)
        question = {"id": name, "question": example["question"], "answers": []}
        for answer, start in zip(example["answers"], example["answer_starts"], strict=True):
            if not answer or answer != answer.strip():
                problem = f"the answer {answer!r} is empty or has white space at an end"
                raise InputError(f"example {name}", problem, "what the reader will not strip")
            if start < 0 or not context.startswith(answer, start):
                problem = f"the answer {answer!r} is not at {start!r}"
                raise InputError(f"example {name}", problem, "its offset in the context")
            question["answers"].append({"text": answer, "answer_start": int(start)})
        if impossible:
            question["is_impossible"] = not question["answers"]
        if not entries or entries[-1]["title"] != title:
            entries.append({"title": title, "paragraphs": []})
        paragraphs = entries[-1]["paragraphs"]
        if not paragraphs or paragraphs[-1]["context"] != context:
            paragraphs.append({"context": context, "qas": []})
        paragraphs[-1]["qas"].append(question)
    with atomic_file(path) as file:
        json.dump({"version": "1.1", "data": entries}, file, ensure_ascii=False, indent=1)
        file.write("\n")


def _named(examples: Iterable[dict], path: str | os.PathLike) -> Iterator[tuple[str, dict]]:
    """Each example with its id, or with its place (1, 2, ...) where it has none."""
    place = 0
    for place, example in enumerate(examples, 1):
        yield str(example.get("id", place)), example
    if not place:  # PaddleNLP's readers raise on a file without examples
        raise InputError(path, "no example to write", "at least one")


def _binary(example: dict, name: str) -> str:
    if example["label"] not in (0, 1):  # the readers know no other label
        raise InputError(f"example {name}", f"label is {example['label']!r}", "0 or 1")
    return str(int(example["label"]))


def _write_tsv(
    examples: Iterable[dict],
    path: str | os.PathLike,
    fields: Callable[[str, dict], list[str]],
    header: str = "",
) -> None:
    """Write a line per example; what `line.strip().split("\\t")` would not give back is refused."""
    with atomic_file(path) as file:
        file.write(header)
        for name, example in _named(examples, path):
            columns = fields(name, example)
            for column in columns:
                for character, called in _SEPARATORS.items():
                    if character in column:
                        problem = f"{called} in {column[:20]!r}"
                        expected = "a text of one line without tabs: the format cannot carry it"
                        raise InputError(f"example {name}", problem, expected)
            line = "\t".join(columns)
            if line != line.strip():
                at_end = line == line.lstrip()
                side, column = ("ends", columns[-1]) if at_end else ("begins", columns[0])
                problem = f"{column[:20]!r} is empty or {side} with white space"
                raise InputError(
                    f"example {name}", f"{problem}, which the reader strips", "a visible character"
                )
            file.write(line + "\n")
