"""The model of chapter 13 in the style of UIE, trained for longer; data/results/extraction.json.

    python benchmarks/extraction.py     nine minutes on one core

Trains on 2,000 sentences of news and on all clauses of the train reviews that the rule of chapter
13 finds, also on prompts for opinions and degrees that are not there. Taskflow then answers on
test. F1 of names is beside a tagger of the same sentences and the dictionary of their names. F1 of
opinions and degrees needs the text of the aspect and the span of the word to be those of the rule,
which misses many: so precision is too low. Clauses with a held-out word are apart. Intervals are of
a bootstrap over the sentences or clauses. The model is kept below --work, and not trained again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import warnings
from datetime import date
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.chapters import ch13
from course_lib.data import load_people_daily, load_reviews
from course_lib.data.spans import bio_spans, look_up, training_names
from course_lib.models import freeze_layers, load_backbone
from course_lib.runtime import atomic_file, data_dir, machine, seed_everything, select_device
from course_lib.tasks.tagging import BackboneTagger, predict_tags, train_tagger
from course_lib.training import paired_bootstrap_f1, span_counts

import numpy as np
from paddlenlp import Taskflow
from paddlenlp.transformers import UIE
from paddlenlp.utils.log import logger

NAMES, PARTS = list(ch13.PROMPTS.values()), [ch13.ASPECT, ch13.OPINION, ch13.DEGREE]


def cut(example: dict) -> dict:
    return {key: example[key][:48] for key in ("tokens", "labels")}


def training_examples(rows: list[dict], labels: list[str]) -> list[dict]:
    """UIE's examples, also those of an opinion or a degree that is not there."""
    draw, examples = random.Random(42), []
    for record in ch13.news_records(rows, labels):
        examples += ch13.uie_examples(record, NAMES, draw)
    for record in ch13.training_clauses(load_reviews("train"), None):
        found = {one["prompt"]: one for one in ch13.uie_examples(record, [ch13.ASPECT])}
        for start, end in found[ch13.ASPECT]["result_list"]:
            for kind in PARTS[1:]:
                asked = f"{record['text'][start:end]}的{kind}"
                none = {"prompt": asked, "content": record["text"], "result_list": []}
                found.setdefault(asked, none)
        examples += found.values()
    return examples


def train(folder: Path, examples: list[dict], max_steps: int | None) -> dict:
    """Train as the notebook does, and save what Taskflow loads."""
    begun = time.process_time()
    seed_everything(42)
    tokenizer = load_backbone()[1]
    model = UIE.from_pretrained(str(data_dir() / "backbone"))
    freeze_layers(model, model.config.num_hidden_layers // 2)
    losses = ch13.train_uie(model, tokenizer, examples, max_steps=max_steps)
    for part in (model, tokenizer):
        part.save_pretrained(str(folder))
    seconds = round(time.process_time() - begun)
    made = {"prompts": len(examples), "steps": len(losses), "cpu_seconds": seconds}
    return made | {"loss": [round(float(np.mean(p)), 4) for p in (losses[:20], losses[-50:])]}


def rule_spans(record: dict) -> set[tuple]:
    """The rule's aspects, and with each its words: ((aspect, start), end, index in PARTS)."""
    spans, known = set(), {entity["id"]: entity for entity in record["entities"]}
    for entity in known.values():
        if entity["label"] == ch13.ASPECT:
            spans.add((("", entity["start_offset"]), entity["end_offset"], 0))
    for relation in record["relations"]:
        head, tail = known[relation["from_id"]], known[relation["to_id"]]
        aspect = record["text"][head["start_offset"] : head["end_offset"]]
        kind = PARTS.index(relation["type"])
        spans.add(((aspect, tail["start_offset"]), tail["end_offset"], kind))
    return spans


def flow_spans(result: dict) -> set[tuple]:
    """The same of an answer of Taskflow; without a start it is a piece of the prompt."""
    spans = set()
    for aspect in result.get(ch13.ASPECT, ()):
        words = [("", aspect, 0)]
        for kind, name in enumerate(PARTS[1:], 1):
            words += [(aspect["text"], w, kind) for w in aspect.get("relations", {}).get(name, ())]
        spans |= {
            ((of, word["start"]), word["end"], kind) for of, word, kind in words if "start" in word
        }
    return spans


def scores(counts: np.ndarray, names: list[str]) -> dict:
    """F1 with its interval of all types together and of each; `counts` as of `span_counts`."""
    found = {}
    for name, rows in zip(
        ["all", *names], [counts.sum(axis=1), *counts.swapaxes(0, 1)], strict=True
    ):
        interval = paired_bootstrap_f1(rows, 0 * rows)
        right, given, true = rows.sum(axis=0).tolist()
        found[name] = {"f1": interval.pop("difference"), **interval}
        found[name] |= {
            "precision": right / max(1, given),
            "recall": right / max(1, true),
            "true": true,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--work", type=Path, default=Path("outputs/extraction"), help="models; %(default)s")
    add("--max_steps", type=int, help="of each training; default: all")
    add("--test_examples", type=int, default=1000, help="sentences of news; %(default)s")
    add("--test_reviews", type=int, help="default: all")
    add("--machine", default=machine.cpu().model, help="in the result; %(default)s")
    add("--output", type=Path, default=data_dir() / "results" / "extraction.json")
    args = parser.parse_args()
    select_device("cpu")
    logger.set_level("ERROR")
    warnings.filterwarnings("ignore")  # Taskflow calls tokenizers in old ways
    both = load_people_daily("train", max_examples=4000)  # the first half: chapter 09's tagger
    rows, labels = [cut(one) for one in both][:2000], both.label_list
    tests = [cut(one) for one in load_people_daily("test", max_examples=args.test_examples)]
    result: dict = {
        "command": " ".join(["python", *sys.argv]),
        "date": date.today().isoformat(),
        "machine": args.machine,
    }
    record = args.work / "training.json"
    if not record.is_file():
        made = train(args.work / "uie", training_examples(rows, labels), args.max_steps)
        record.write_text(json.dumps(made))
    result |= {"training": json.loads(record.read_text()), "test_sentences": len(tests)}
    begun = time.process_time()
    seed_everything(42)
    model, tokenizer = load_backbone(label_list=labels, head="TokenClassification")
    freeze_layers(model, 2)
    tagger = BackboneTagger(model, tokenizer, labels, crf=False)
    train_tagger(tagger, rows, 2, 16, 5e-4, max_steps=args.max_steps)
    flow = Taskflow(
        "information_extraction",
        schema=NAMES,
        task_path=str(args.work / "uie"),
        max_seq_len=64,
        num_threads=1,
    )
    spans = {
        "dictionary": look_up(tests, training_names(rows)),
        "tagger": [bio_spans(row) for row in predict_tags(tagger, [t["tokens"] for t in tests])],
        "UIE": ch13.entity_spans(flow(["".join(one["tokens"]) for one in tests])),
    }
    gold = [bio_spans(one["labels"]) for one in tests]
    counts = {name: span_counts(gold, found, NAMES) for name, found in spans.items()}
    result["names"] = {name: scores(each, NAMES) for name, each in counts.items()}
    totals = (counts[name].sum(axis=1) for name in ("UIE", "tagger"))
    result["UIE - tagger"] = paired_bootstrap_f1(*totals)
    flow.set_schema({ch13.ASPECT: PARTS[1:]})
    records = ch13.review_records(load_reviews("test", max_examples=args.test_reviews))
    true = [rule_spans(one) for one in records]
    found = [flow_spans(answer) for answer in flow([one["text"] for one in records])]
    new = np.array([any(word in one["text"] for word in ch13.HELD_OUT) for one in records])
    counted = span_counts(true, found, PARTS)
    parts = {"known words": ~new, "held-out word": new}
    result["reviews"] = {part: scores(counted[rows], PARTS) for part, rows in parts.items()}
    result["clauses"] = {part: int(rows.sum()) for part, rows in parts.items()}
    result["scoring_cpu_seconds"] = round(time.process_time() - begun)
    result = json.loads(json.dumps(result), parse_float=lambda digits: round(float(digits), 4))
    with atomic_file(args.output) as target:
        json.dump(result, target, ensure_ascii=False, indent=1)
        target.write("\n")
    print(json.dumps(result, ensure_ascii=False))


if __name__ == "__main__":
    main()
