"""Make the corpus that the backbone is pretrained on, and show that no test text is in it.

    python tools/backbone/prepare.py --texts CORPUS_DIR --output corpus.npz --tokenizer DIRECTORY

CORPUS_DIR holds unlabeled texts, `NAME.txt.gz`, one paragraph per line (the model card names the
ones that were used). The reviews and the People's Daily paragraphs of the TRAIN splits are added.
The last tenth of every document is held out for the out-of-domain tasks (outside.py). A paragraph
is dropped when it equals a held-out, dev or test text, or shares 60% of the 8-grams of the shorter
of the two with one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import course_lib  # noqa: F401  before paddle
from course_lib.data import load_reviews, people_daily
from course_lib.models import build_vocabulary
from course_lib.runtime import InputError, atomic_directory, atomic_file

import numpy as np

REVIEWS, NEWS = "reviews", "news"
LONGEST = 2000  # characters of a paragraph
MIN_COUNT = 5  # occurrences of a character
LATIN_WORDS = 600  # whole words that save a tenth of the technical texts' tokens
GRAM = 8  # characters; this and the next as in tools/corpora/reviews.py
CONTAINMENT = 0.6
HELD_OUT = 10  # one paragraph in so many, at the end of each document
CHECKED = 16  # every so many-th paragraph is encoded again by the tokenizer alone, and compared


def grams(text: str) -> set[str]:
    """The distinct 8-grams of a text."""
    return {text[start : start + GRAM] for start in range(len(text) - GRAM + 1)}


class Fence:
    """Knows the dev and test texts, and tells which paragraphs come too near to one."""

    def __init__(self, held_out: Iterable[str]) -> None:
        self.sizes: list[int] = []
        self.holders: dict[str, list[int]] = {}
        self.whole: set[str] = set()
        for number, text in enumerate(held_out):
            self.whole.add(_squeeze(text))
            own = grams(_squeeze(text))
            self.sizes.append(len(own))
            for gram in own:
                self.holders.setdefault(gram, []).append(number)

    def stops(self, text: str) -> bool:
        """Whether a paragraph must not be trained on."""
        text = _squeeze(text)
        if text in self.whole:
            return True
        own = grams(text)
        shared = Counter(number for gram in own for number in self.holders.get(gram, ()))
        return any(
            count >= CONTAINMENT * min(len(own), self.sizes[number])
            for number, count in shared.items()
        )


def held_out_texts() -> Iterator[str]:
    """Every dev and test text of the reviews and of People's Daily."""
    for dataset in load_reviews(("dev", "test")):
        yield from (example["text"] for example in dataset)
    lines = people_daily.split_lines()
    yield from (people_daily.text(line) for name in ("dev", "test") for line in lines[name])


def course_paragraphs() -> Iterator[tuple[str, str]]:
    """(source, paragraph) of what comes with the course: the train splits."""
    for example in load_reviews("train"):
        yield REVIEWS, example["text"]
    for line in people_daily.split_lines()["train"]:
        yield NEWS, people_daily.text(line)


def read_documents(directory: Path) -> Iterator[tuple[str, str, str, bool]]:
    """(source, document, paragraph, held out) of every `*.txt.gz` in a directory, in order.

    A line that starts with a byte order mark begins a new work, whose name stands in 《》; a file
    without such lines is one document. The last tenth of a document's paragraphs is held out.
    """
    files = sorted(directory.glob("*.txt.gz"))
    if not files:
        raise InputError(directory, "holds no *.txt.gz", "a directory of unlabeled texts")
    for path in files:
        source = path.name.removesuffix(".txt.gz")
        documents: dict[str, list[str]] = {}
        name = source
        for line in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines():
            if line.startswith("\ufeff"):
                name = line[1:].partition("》")[0].strip("《")
            documents.setdefault(name, []).append(line.strip("\ufeff \t")[:LONGEST])
        for name, lines in documents.items():
            kept = len(lines) - len(lines) // HELD_OUT
            for number, text in enumerate(lines):
                yield source, name, text, number >= kept


def allowed(
    rows: Iterable[tuple[str, str]], held_out: Iterable[str] = ()
) -> tuple[list[tuple[str, str]], Counter]:
    """The (source, paragraph) that may be trained on, and how many were dropped, by source."""
    fence = Fence(chain(held_out_texts(), held_out))
    kept, stopped = [], Counter()
    for source, text in rows:
        if not text:
            continue
        if fence.stops(text):
            stopped[source] += 1
        else:
            kept.append((source, text))
    return kept, stopped


def vocabulary(texts: list[str]) -> list[str]:
    """Characters, the rest of GB 2312, and the most frequent Latin words.

    A rare character of GB 2312 whose embedding was hardly trained still beats [UNK]: it can be
    copied into an answer, and fine-tuning can learn it.
    """
    words = Counter()
    for text in texts:
        words.update(_latin_words(text))
    tokens = build_vocabulary(texts, min_count=MIN_COUNT)
    known = set(tokens)
    tokens += [character for character in _gb2312() if character not in known]
    known.update(tokens)
    chosen = sorted(words.items(), key=lambda item: (-item[1], item[0]))[:LATIN_WORDS]
    return [*tokens, *(word for word, _ in chosen if word not in known)]


def _gb2312() -> Iterator[str]:
    """The 6,763 Chinese characters of GB 2312, in its order."""
    for row in range(0xB0, 0xF8):
        for cell in range(0xA1, 0xFF):
            yield from bytes((row, cell)).decode("gb2312", errors="ignore")


def _latin_words(text: str) -> Iterator[str]:
    ascii_only = "".join(c if c.isascii() and c.isalpha() else " " for c in text.lower())
    return (word for word in ascii_only.split() if len(word) >= 3)


def _squeeze(text: str) -> str:
    return "".join(text.split())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="an .npz file")
    parser.add_argument("--tokenizer", type=Path, required=True, help="directory; written if new")
    options = parser.parse_args()
    try:
        prepare(options.texts, options.output, options.tokenizer)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def prepare(directory: Path, output: Path, tokenizer_directory: Path) -> None:
    """Write the encoded corpus and its tokenizer; print a JSON line of counts.

    The .npz holds `ids` (uint16, all paragraphs joined, no special tokens), `starts` (packed bits,
    1 where a word begins), `ends` (int64, the end of each paragraph in ids), `source` (uint8, index
    into `sources`), and `tokens`, the vocabulary.
    """
    from course_lib.training.pretraining import WordEncoder

    from paddlenlp.transformers import ErnieTokenizer

    begun = time.time()
    documents = list(read_documents(directory))
    texts = ((source, text) for source, _, text, out in documents if not out)
    held_out = (text for *_, text, out in documents if out)
    rows, stopped = allowed(chain(texts, course_paragraphs()), held_out)
    if not (tokenizer_directory / "vocab.txt").exists():
        tokens = vocabulary([text for _, text in rows])
        with atomic_directory(tokenizer_directory, "vocab.txt") as temporary:
            vocab_file = temporary / "vocab.txt"
            vocab_file.write_text("\n".join(tokens) + "\n", encoding="utf-8")
            ErnieTokenizer(str(vocab_file), do_lower_case=True).save_pretrained(str(temporary))
    tokenizer = ErnieTokenizer.from_pretrained(str(tokenizer_directory))
    encoder = WordEncoder(tokenizer)
    sources = list(dict.fromkeys(source for source, _ in rows))
    ids, starts, ends, source_ids = [], [], [], []
    total, characters = 0, Counter()
    for number, (source, text) in enumerate(rows):
        own, own_starts = encoder(text)
        if number % CHECKED == 0:
            expected = tokenizer(text, add_special_tokens=False)["input_ids"]
            if own != expected:
                raise InputError(
                    source, f"is encoded unlike the tokenizer does: {text[:80]}", "equal ids"
                )
        if not own:
            continue
        ids.append(np.array(own, dtype=np.uint16))
        starts.append(np.array(own_starts, dtype=bool))
        total += len(own)
        ends.append(total)
        source_ids.append(sources.index(source))
        characters[source] += len(text)
    all_ids = np.concatenate(ids)
    with atomic_file(output, "wb") as handle:
        np.savez_compressed(
            handle,
            ids=all_ids,
            starts=np.packbits(np.concatenate(starts)),
            ends=np.array(ends, dtype=np.int64),
            source=np.array(source_ids, dtype=np.uint8),
            sources=np.array(sources),
            vocab_size=tokenizer.vocab_size,
            tokens=np.array(tokenizer.convert_ids_to_tokens(range(tokenizer.vocab_size))),
        )
    counts = {
        "vocabulary": tokenizer.vocab_size,
        "tokens": total,
        "unknown": int((all_ids == tokenizer.unk_token_id).sum()),
        "characters": dict(characters),
        "paragraphs": dict(Counter(source for source, _ in rows)),
        "stopped_at_the_fence": dict(stopped),
        "seconds": round(time.time() - begun),
    }
    print(json.dumps(counts, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main())
