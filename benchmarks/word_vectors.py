"""Where word vectors help: two classifiers, three ways to begin, few and many labeled reviews.

    python benchmarks/word_vectors.py [--output data/results/word_vectors.json]
        [--bag 50,400,3200] [--cnn 50,400] [--seeds 42,43,44]

Builds the vectors of chapter 12 from the training split, then trains a bag of embeddings and a text
CNN on so many labeled reviews: with random vectors that learn, with word2vec's vectors frozen, and
with word2vec's vectors that learn. The learning rate is the same for all three. All are scored on
the whole test split. A difference is that to random vectors, of the mean over the seeds,
with the 95% interval of a paired bootstrap over the reviews. The file is written after each size.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path

from course_lib.chapters import ch12
from course_lib.data import load_reviews
from course_lib.runtime import atomic_file, machine, select_device
from course_lib.training import paired_bootstrap

import numpy as np
from gensim.models import Word2Vec
from paddlenlp.utils.log import logger


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="data/results/word_vectors.json")
    parser.add_argument("--machine", default=machine.cpu().model, help="in the result; %(default)s")
    parser.add_argument("--bag", default="50,400,3200", help="labels; default: %(default)s")
    parser.add_argument("--cnn", default="50,400", help="labels; default: %(default)s")
    parser.add_argument("--seeds", default="42,43,44", help="default: %(default)s")
    parser.add_argument("--test_examples", type=int, help="default: all")
    parser.add_argument("--max_steps", type=int, help="of each training; default: all")
    args = parser.parse_args()
    select_device("cpu")
    logger.set_level("ERROR")
    warnings.filterwarnings("ignore", message="When training, we now always track")
    seeds = [int(seed) for seed in args.seeds.split(",")]
    start = time.process_time()
    result = {
        "command": " ".join(["python", *sys.argv]),
        "date": time.strftime("%Y-%m-%d"),
        "machine": args.machine,
        "seeds": seeds,
        "cpu_seconds": {},
        "rows": [],
    }
    reviews = ch12.cut_reviews([example["text"] for example in load_reviews("train")])
    sentences = reviews + ch12.news_words()
    cut = time.process_time() - start
    keyed = Word2Vec(sentences, **ch12.WORD2VEC).wv
    trained = time.process_time() - start - cut
    result["cpu_seconds"] |= {"cut": round(cut, 1), "word2vec": round(trained, 1)}
    result |= {"words": len(keyed), "tokens": sum(map(len, sentences))}
    with tempfile.TemporaryDirectory(prefix="vectors-") as folder:
        files = ch12.classifier_files(Path(folder), keyed.index_to_key, keyed.vectors, reviews)
        for kind in ("bag", "cnn"):
            for count in map(int, filter(None, getattr(args, kind).split(","))):
                right = defaultdict(list)
                options = {"max_examples": args.test_examples, "max_steps": args.max_steps}
                for _, mode, _, row in ch12.compare_vectors(files, kind, [count], seeds, **options):
                    right[mode].append(row)
                for mode, rows in right.items():
                    difference = paired_bootstrap(
                        np.mean(rows, axis=0), np.mean(right["random"], axis=0)
                    )
                    entry = {"classifier": kind, "labels": count, "vectors": mode}
                    entry["accuracy"] = round(float(np.mean(rows)), 4)
                    entry["of_seeds"] = [round(float(np.mean(row)), 4) for row in rows]
                    entry |= {name: round(value, 4) for name, value in difference.items()}
                    result["rows"].append(entry)
                    print(entry, file=sys.stderr)
                result["cpu_seconds"]["all"] = round(time.process_time() - start, 1)
                Path(args.output).parent.mkdir(parents=True, exist_ok=True)
                with atomic_file(args.output) as file:
                    file.write(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != "rows"}))


if __name__ == "__main__":
    main()
