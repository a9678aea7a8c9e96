"""The course's corpora, and a user's own examples, in the files of official data sets.

`paddlenlp.datasets.load_dataset(NAME, data_files=..., splits=...)` reads them. What PaddleNLP
2.8.1's reader would not give back as it is, is refused: the readers strip each line, split it at
tabs and end it at a carriage return, and strip contexts and answers without moving answer_start.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from course_lib import data
from course_lib.data.splits import SPLITS
from course_lib.runtime import InputError, atomic_file

# data set -> split of the course -> the word for load_dataset: msra_ner has no official dev
# split, cmrc2018 and squad no public test
OFFICIAL_SPLITS = {
    "chnsenticorp": {"train": "train", "dev": "dev", "test": "test"},
    "glue/cola": {"train": "train", "dev": "dev", "test": "test"},
    "lcqmc": {"train": "train", "dev": "dev", "test": "test"},
    "msra_ner": {"train": "train", "dev": "test", "test": "test"},
    "cmrc2018": {"train": "train", "dev": "dev", "test": "dev"},
    "squad": {"train": "train_v1", "dev": "dev_v1", "test": "dev_v1"},
}
MSRA_LABELS = ("B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "O")
_LOADERS = {"lcqmc": "load_pairs", "msra_ner": "load_people_daily"}
_LOADERS |= dict.fromkeys(("cmrc2018", "squad"), "load_cloze")  # of the others load_reviews
_HEADERS = {
    ("chnsenticorp", "train"): "label\ttext_a\n",
    ("chnsenticorp", "dev"): "qid\tlabel\ttext_a\n",
    ("chnsenticorp", "test"): "qid\ttext_a\n",
    ("glue/cola", "test"): "index\tsentence\n",
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
        `splits`; for glue/cola the call is `load_dataset("glue", "cola", data_files=...)`.

    Raises:
        InputError: an unknown name, or a text that the format cannot carry.
    """
    if name not in OFFICIAL_SPLITS:
        raise InputError("name", f"is {name!r}", f"one of {', '.join(OFFICIAL_SPLITS)}")
    load = getattr(data, _LOADERS.get(name, "load_reviews"))
    suffix = ".json" if name in ("cmrc2018", "squad") else ".tsv"
    paths = {}
    for split in SPLITS if splits is None else [splits] if isinstance(splits, str) else splits:
        examples = load(split, max_examples=max_examples, seed=seed)
        paths[split] = path = Path(directory, *name.split("/"), split + suffix)
        write_official(name, examples, path, split, getattr(examples, "label_list", None))
    return paths


def write_official(
    name: str,
    examples: Iterable[dict],
    path: str | os.PathLike,
    split: str = "train",
    label_list: Sequence[str] | None = None,
) -> None:
    r"""Write examples as a file of the official data set `name`.

    Args:
        examples: of texts, pairs (lcqmc), tokens (msra_ner) or questions (cmrc2018, squad), as the
            course's loaders give them; labels of texts and pairs are 0 or 1. An "id" names an
            example in errors, and in a column "qid".
        split: "train", "dev" or "test": the files of chnsenticorp and glue/cola differ in their
            columns, and those for "test" have no labels.
        label_list: for msra_ner, the names of the labels, all of them in `MSRA_LABELS`: what
            load_dataset gives are indices into that list, whatever the order of this one is.

    Raises:
        InputError: an example (named by its id) that the reader would not give back as it is.
    """
    if split not in OFFICIAL_SPLITS.get(name, ()):
        expected = f"one of {', '.join(OFFICIAL_SPLITS)}, and train, dev or test"
        raise InputError("name, split", f"are {name!r}, {split!r}", expected)
    if name in ("cmrc2018", "squad"):
        return _write_questions(examples, path, impossible=name == "squad")
    for label in label_list or () if name == "msra_ner" else ():
        if label not in MSRA_LABELS:
            raise InputError("label_list", f"has {label!r}", f"only {', '.join(MSRA_LABELS)}")
    with atomic_file(path) as file:
        file.write(_HEADERS.get((name, split), ""))
        for identity, example in _named(examples, path):
            if name == "msra_ner":
                columns = _tagged(example, identity, label_list or ())
            elif name == "lcqmc":
                columns = [example["sentence1"], example["sentence2"], _binary(example, identity)]
            elif split == "test":
                columns = [identity, example["text"]]
            elif name == "glue/cola":  # source, label, the author's mark, sentence
                columns = [identity, _binary(example, identity), "", example["text"]]
            else:
                columns = [_binary(example, identity), example["text"]]
                columns = columns if split == "train" else [identity, *columns]
            file.write(_line(columns, identity) + "\n")
    return None


def _tagged(example: dict, name: str, label_list: Sequence[str]) -> list[str]:
    tokens, labels = example["tokens"], example["labels"]
    if len(tokens) != len(labels):
        problem = f"{len(tokens)} tokens and {len(labels)} labels"
        raise InputError(f"example {name}", problem, "one label for each token")
    for token in tokens:
        if not token or "\002" in token:
            problem, expected = f"the token {token!r}", r"characters other than \002"
            raise InputError(f"example {name}", problem, expected)
    for label in labels:
        if not 0 <= label < len(label_list):  # Python would take -1 for the last one
            raise InputError(f"example {name}", f"the label {label}", "an index into label_list")
    return ["\002".join(tokens), "\002".join(label_list[label] for label in labels)]


def _write_questions(examples: Iterable[dict], path: str | os.PathLike, impossible: bool) -> None:
    entries: list[dict] = []
    seen: set[str] = set()
    for name, example in _named(examples, path):
        if name in seen:
            raise InputError(f"example {name}", "the id comes again", "each id once")
        seen.add(name)
        title, context = example.get("title", ""), example["context"]
        texts = {"title": title, "context": context, "question": example["question"]}
        for key, text in texts.items():
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


def _line(columns: list[str], name: str) -> str:
    """One line of a TSV file, refused where its reader would not give it back."""
    for column in columns:
        for character, called in _SEPARATORS.items():
            if character in column:
                problem = f"{called} in {column[:20]!r}"
                expected = "a text of one line without tabs: the format cannot carry it"
                raise InputError(f"example {name}", problem, expected)
    line = "\t".join(columns)
    if line != line.strip():
        column = columns[-1 if line == line.lstrip() else 0]
        problem = f"{column[:20]!r} is empty or has white space at an end, which the reader strips"
        raise InputError(f"example {name}", problem, "a visible character")
    return line
