"""The guide's three tools on its files: sparse texts, suspect labels and changed copies.

    python -m course_lib.chapters.analyze sparse --dataset_dir data --params_path checkpoint
    python -m course_lib.chapters.analyze dirty --dataset_dir data
    python -m course_lib.chapters.analyze augment --dataset_dir data --aug_strategy swap

Each reads and writes lines of `text TAB label,label##child` in dataset_dir. `sparse` compares the
dev texts with the training texts by the vectors of a trained model, or by TF-IDF; `dirty` judges
each label by models that were trained without it; neither needs TrustAI. `augment` calls
`paddlenlp.dataaug` with word lists that are made of the training texts, without a download.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from course_lib.chapters.ch10a import word_changes
from course_lib.cli import shared
from course_lib.cli.hierarchical import COMPLETE, DATASET, SPLIT_FILES
from course_lib.cli.shared import Commands, Table, argument, switch
from course_lib.runtime import InputError, atomic_file, seed_everything, select_device
from course_lib.runtime.commands import whole
from course_lib.runtime.files import read_json
from course_lib.tasks import hierarchical as tree
from course_lib.tasks.hierarchical.files import DATA
from course_lib.tasks.labels import FillWords, FrozenBackbone

import numpy as np
from cleanlab.multilabel_classification import get_label_quality_scores
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline

PROG = "python -m course_lib.chapters.analyze"
STRATEGIES = ("substitute", "insert", "delete", "swap")
TRAIN: Table = {"--train_file": SPLIT_FILES["--train_file"]}
CHANGES: Table = {
    "--aug_type": argument("words come from --custom_file, or from the masked language model "
                           "(substitute only)", "mlm", choices=("custom", "mlm")),
    "--custom_file": argument('JSON of {"word": ["another", ...]}, for --aug_type custom'),
    "--aug_percent": argument("share of the words that are changed", 0.1, type=shared.positive),
    "--seed": argument("of everything random", 3, type=shared.SEED),
}  # fmt: skip
SPARSE: Table = {
    **DATASET, **SPLIT_FILES, **COMPLETE, **CHANGES, **shared.LENGTH, **shared.TRUST,
    "--params_path": argument("a trained model, whose vectors compare texts (default: TF-IDF)"),
    "--annotate": switch("valid_file gets texts of unlabeled_file, to be labeled"),
    "--unlabeled_file": argument("in dataset_dir, for --annotate", DATA),
    "--aug_strategy": argument("how the texts of valid_file are changed", "duplicate",
                               choices=("duplicate", *STRATEGIES)),
    "--rationale_num": argument("nearest texts whose mean cosine is the support", 3, type=whole(1)),
    "--sparse_num": argument("dev texts with the least support", 100, type=whole(1)),
    "--valid_num": argument("texts that are the nearest to these", 100, type=whole(1)),
    "--valid_threshold": argument("their least cosine (with a model 0.7, else 0)", type=float),
    "--sparse_file": argument("is written to dataset_dir", "sparse.txt"),
    "--valid_file": argument("is written to dataset_dir", "valid.txt"),
}  # fmt: skip
DIRTY: Table = {
    **DATASET, **TRAIN, **COMPLETE,
    "--dirty_num": argument("suspects, the worst first", 100, type=whole(1)),
    "--dirty_threshold": argument("suspects have a lower quality of labels", 1.0, type=float),
    "--dirty_file": argument("gets the suspects", "train_dirty.txt"),
    "--rest_file": argument("gets the other training texts", "train_dirty_rest.txt"),
    "--seed": argument("of the five parts", 0, type=shared.SEED),
}  # fmt: skip
AUGMENT: Table = {
    **DATASET, **TRAIN, **COMPLETE, **CHANGES,
    "--aug_file": argument("is written to dataset_dir", "aug.txt"),
    "--aug_strategy": argument("how words are changed; mix: in turn all that are possible",
                               "substitute", choices=("mix", *STRATEGIES)),
    "--create_n": argument("copies of each text", 2, type=whole(1)),
}  # fmt: skip

Rows = Sequence[Mapping]


def quick_features() -> TfidfVectorizer:
    """Characters and pairs of characters; each row has the length 1, so a product is a cosine."""
    return TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True, min_df=2)


def fit_quick(texts: Sequence[str], targets: np.ndarray) -> Pipeline:
    """One logistic regression per column of `targets` [texts, labels]: the model of chapter 10a."""
    each = OneVsRestClassifier(LogisticRegression(C=10, solver="liblinear"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Label not")  # that no text, or each text has
        return make_pipeline(quick_features(), each).fit(texts, targets)


def out_of_fold(texts: Sequence[str], targets: np.ndarray, seed: int = 0) -> np.ndarray:
    """Probabilities [texts, labels] from models that were trained without the text."""
    found = np.zeros(targets.shape)
    for learn, judge in KFold(5, shuffle=True, random_state=seed).split(texts):
        model = fit_quick([texts[place] for place in learn], targets[learn])
        found[judge] = model.predict_proba([texts[place] for place in judge])
    return found


def supporters(similar: np.ndarray, count: int, threshold: float) -> list[int]:
    """Columns of a matrix of cosines that are near to its rows: first the nearest of each row."""
    order = np.argsort(-similar, axis=1, kind="stable").T
    pairs = ((row, place) for places in order for row, place in enumerate(places))
    near = dict.fromkeys(int(place) for row, place in pairs if similar[row, place] > threshold)
    return list(itertools.islice(near, count))


def _vectors(
    args: argparse.Namespace, texts: Sequence[str]
) -> Callable[[Sequence[str]], np.ndarray]:
    """A function from texts to rows of length 1, for products that are cosines."""
    if args.params_path is None:
        return quick_features().fit(texts).transform
    select_device("cpu")
    backbone = FrozenBackbone(args.params_path, args.max_seq_length or 128)

    def vectors(texts: Sequence[str]) -> np.ndarray:
        found = backbone.features([{"text": text} for text in texts])
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    return vectors


def _texts(rows: Rows) -> list[str]:
    return [row["text"] for row in rows]


def _cosines(vectors: Callable, ones: Sequence[str], others: Sequence[str]) -> np.ndarray:
    similar = vectors(ones) @ vectors(others).T
    return np.asarray(similar.toarray() if hasattr(similar, "toarray") else similar)


def _read(args: argparse.Namespace, name: str) -> tuple[tree.Taxonomy, list[dict]]:
    """The labels, and the rows of a file in dataset_dir; the first fault is named with its line."""
    taxonomy = tree.read_labels(Path(args.dataset_dir, args.label_file), args.complete_labels)
    return taxonomy, tree.read_dataset(Path(args.dataset_dir, name), taxonomy, args.complete_labels)


def _write(args: argparse.Namespace, files: Mapping[str, Rows], **more: float) -> None:
    """Write rows to files of dataset_dir; print how many, and more numbers, as JSON."""
    inputs = ("train_file", "dev_file", "label_file", "unlabeled_file")
    for name in {getattr(args, one, None) for one in inputs} & files.keys():
        raise InputError(str(name), "is read by this command", "a file of its own for the output")
    for name, rows in files.items():
        with atomic_file(Path(args.dataset_dir, name)) as file:
            for row in rows:
                labels = f"\t{','.join(row['labels'])}" if "labels" in row else ""
                file.write(f"{row['text']}{labels}\n")
    shared.print_json({**{name: len(rows) for name, rows in files.items()}, **more})


def _changed(
    args: argparse.Namespace, rows: Rows, texts: Sequence[str], strategies: Sequence[str], copies=1
) -> list[dict]:
    """Changed copies of rows, by the strategies in turn; `texts` have the vocabulary."""
    others, expected = {}, 'an object of {"word": ["another", ...]}'
    if args.aug_type == "custom":
        if args.custom_file is None:
            raise InputError("--custom_file", "is missing", f"a JSON file with {expected}")
        others = read_json(args.custom_file, expected)
        if not isinstance(others, dict) or not all(
            isinstance(one, list) for one in others.values()
        ):
            raise InputError(args.custom_file, "holds something else", expected)
    elif "insert" in strategies:
        raise InputError("--aug_strategy", "is insert without words", "--aug_type custom, too")
    seed_everything(args.seed)
    random, turn, made = np.random.RandomState(args.seed), itertools.cycle(strategies), []
    with tempfile.TemporaryDirectory() as folder:
        changes = word_changes(texts, others, Path(folder), args.aug_percent)
        if args.aug_type == "mlm" and "substitute" in strategies:
            changes["substitute"] = FillWords(rate=args.aug_percent)
        for row in rows:
            for _ in range(copies):
                text = changes[next(turn)](row["text"], random)
                if text.strip() and text != row["text"]:
                    made.append({**row, "text": text})
    if not made:
        problem = "changed no text: PaddleNLP leaves words in Latin letters and numbers as they are"
        raise InputError("--aug_strategy", problem, "Chinese texts, or another strategy")
    return made


def _sparse(args: argparse.Namespace) -> None:
    train = _read(args, args.train_file)[1]
    dev = _read(args, args.dev_file)[1]
    pool: Rows = train
    if args.annotate:
        unlabeled = tree.read_texts(Path(args.dataset_dir, args.unlabeled_file))
        pool = [{"text": text} for text in unlabeled]
    texts = _texts(train)
    vectors = _vectors(args, texts)
    support = np.sort(_cosines(vectors, _texts(dev), texts), axis=1)[:, -args.rationale_num :]
    support = support.mean(axis=1)
    lonely = [dev[place] for place in np.argsort(support, kind="stable")[: args.sparse_num]]
    least = args.valid_threshold
    least = (0.7 if args.params_path else 0.0) if least is None else least
    near = supporters(_cosines(vectors, _texts(lonely), _texts(pool)), args.valid_num, least)
    if not near:
        raise InputError("--valid_threshold", f"{least}: no text is nearer", "a smaller one")
    rows: Rows = [pool[place] for place in near]
    if not args.annotate and args.aug_strategy != "duplicate":
        rows = _changed(args, rows, texts, [args.aug_strategy])
    means = {"support": support.mean(), "sparse_support": np.sort(support)[: len(lonely)].mean()}
    means = {key: round(float(value), 4) for key, value in means.items()}
    _write(args, {args.sparse_file: lonely, args.valid_file: rows}, **means)


def _dirty(args: argparse.Namespace) -> None:
    taxonomy, train = _read(args, args.train_file)
    if len(train) < 10:
        path = Path(args.dataset_dir, args.train_file)
        raise InputError(path, f"has {len(train)} texts", "at least 10, for five parts")
    targets = taxonomy.indicators([row["labels"] for row in train])
    found = out_of_fold(_texts(train), targets, args.seed)
    given = [np.flatnonzero(row).tolist() for row in targets]
    quality = get_label_quality_scores(given, found)
    order = np.argsort(quality, kind="stable")
    worst = [place for place in order if quality[place] < args.dirty_threshold][: args.dirty_num]
    suspects = set(worst)
    rest = [row for n, row in enumerate(train) if n not in suspects]
    _write(args, {args.dirty_file: [train[place] for place in worst], args.rest_file: rest})


def _augment(args: argparse.Namespace) -> None:
    train = _read(args, args.train_file)[1]
    possible = [one for one in STRATEGIES if one != "insert" or args.aug_type == "custom"]
    strategies = possible if args.aug_strategy == "mix" else [args.aug_strategy]
    copies = _changed(args, train, _texts(train), strategies, args.create_n)
    _write(args, {args.aug_file: copies})


COMMANDS: Commands = {
    "sparse": (_sparse, "dev texts without support in train, and texts that support them", SPARSE),
    "dirty": (_dirty, "training texts whose labels are suspect", DIRTY),
    "augment": (_augment, "changed copies of the training texts", AUGMENT),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    return shared.run_command(PROG, __doc__.splitlines()[0], COMMANDS, argv)


if __name__ == "__main__":
    raise SystemExit(main())
