"""The sentence pairs: the file, the splits and what must not cross them, and that nothing but
reading both sentences helps much."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import course_lib  # noqa: F401  (before paddle)
from course_lib import runtime
from course_lib.data import load_pairs
from course_lib.data.pairs import LABELS, split_rows
from course_lib.data.splits import SPLITS
from tools.corpora import pairs

import pytest
from paddlenlp.transformers import AutoTokenizer

DATA = runtime.data_dir()
CAP = 0.65  # accuracy that no trivial baseline may pass; the majority has 0.5
SIDES = ("sentence1", "sentence2")


@pytest.fixture(scope="module")
def loaded():
    return dict(zip(SPLITS, load_pairs(), strict=True))


@pytest.fixture(scope="module")
def everything(loaded):
    return [(name, row) for name, dataset in loaded.items() for row in dataset.data]


# --- loading ----------------------------------------------------------------------------------


def test_examples_are_the_rows_of_the_file(loaded, everything):
    lines = (DATA / "pairs" / "pairs.tsv").read_text(encoding="utf-8").splitlines()[1:]
    shipped = {line.split("\t")[0]: line.split("\t") for line in lines}
    assert len(shipped) == len(lines) == len(everything)
    for _, row in everything:
        assert set(row) == {"sentence1", "sentence2", "label", "id"}
        _, _, one, other, label, _ = shipped[row["id"]]
        assert (row["sentence1"], row["sentence2"]) == (one, other)
        assert ["different", "same"][row["label"]] == label
    for dataset in loaded.values():
        assert dataset.label_list == ["different", "same"]


def test_rows_of_the_file_are_complete():
    kinds = {"same": pairs.SAME_KINDS, "different": pairs.DIFFERENT_KINDS}
    rows = [row for part in split_rows().values() for row in part]
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        assert all(value and value == value.strip() for value in row.values())
        assert row["kind"] in kinds[row["label"]]
        assert re.fullmatch(r"[a-z]+-\d+", row["group"])
        assert re.fullmatch(row["group"] + r"-\d+", row["id"])


# --- the pairs themselves ---------------------------------------------------------------------


def plain(text):
    return re.sub(r"[\W_]+", "", text)


def test_no_pair_is_there_twice_in_any_order(everything):
    seen = Counter(frozenset(plain(row[side]) for side in SIDES) for _, row in everything)
    assert max(seen.values()) == 1
    assert all(len(pair) == 2 for pair in seen)  # and none pairs a sentence with itself


def test_what_is_the_same_as_the_same_is_the_same(everything):
    """Follow "same" from sentence to sentence: no "different" pair may lie within one circle."""
    circle = {}
    for _, row in everything:
        if row["label"] == 1:
            one, other = (circle.get(row[side], {row[side]}) for side in SIDES)
            circle.update(dict.fromkeys(one | other, one | other))
    assert max(map(len, circle.values())) >= 3
    for _, row in everything:
        if row["label"] == 0:
            assert row["sentence2"] not in circle.get(row["sentence1"], ()), row["id"]


def test_no_sentence_and_no_near_duplicate_crosses_splits_or_groups(everything):
    at = defaultdict(set)
    for name, row in everything:
        for side in SIDES:
            at[row[side]].add((name, row["id"].rpartition("-")[0]))
    assert [text for text, places in at.items() if len(places) > 1] == []
    # The closest sentences of two groups (两天 / 两天, 怎么 / 怎么) share far less than twins do.
    grams = [({t[i : i + 2] for i in range(len(t) - 1)}, t, next(iter(at[t]))) for t in at]
    for index, (one, text, place) in enumerate(grams):
        for other, other_text, other_place in grams[index + 1 :]:
            if place != other_place:
                assert len(one & other) < 0.6 * len(one | other), (text, other_text)


def test_each_sentence_has_the_tokenizers_vocabulary(everything):
    tokenizer = AutoTokenizer.from_pretrained(str(DATA / "backbone"))
    texts = {row[side] for _, row in everything for side in SIDES}
    unknown = total = 0
    for text in texts:
        ids = tokenizer(text)["input_ids"][1:-1]
        total += len(ids)
        unknown += ids.count(tokenizer.unk_token_id)
    assert total > 5_000
    assert unknown / total < 0.001
    assert tokenizer("魑魅𠮷")["input_ids"].count(tokenizer.unk_token_id) > 0


# --- what must stay weak ----------------------------------------------------------------------


def test_measures():
    assert pairs.overlap("甲乙丙", "乙丙丁") == 0.5
    assert pairs.overlap("甲乙丙？", "丙甲乙。") == 1
    assert pairs.overlap("甲乙丙", "丙甲乙", size=2) == pytest.approx(1 / 3)
    assert pairs.edit_distance("甲乙丙", "甲丙") == pytest.approx(1 / 3)
    assert pairs.edit_distance("甲乙", "甲乙") == 0 and pairs.edit_distance("甲", "乙") == 1


def test_trivial_baselines_are_weak(everything):
    found = pairs.baselines()
    assert len(found) == 9
    for name, (held_out, everywhere) in found.items():
        # The held-out part is 240 pairs: one standard error is 3%.
        assert held_out <= CAP + 0.03, name
        assert everywhere <= CAP, name
    # The single thresholds and the single sentences are weaker still.
    assert max(found[name][1] for name in found if "forest" not in name) <= 0.6


def test_the_baselines_see_what_is_there(monkeypatch):
    """Were the same pairs the overlapping ones, the threshold and the forest would find it."""
    rows = split_rows()
    for part in rows.values():
        for row in part:
            near = pairs.overlap(row["sentence1"], row["sentence2"]) > 0.4
            row["label"] = LABELS[near]
    monkeypatch.setattr(pairs, "split_rows", lambda: rows)
    found = pairs.baselines()
    assert found["threshold on overlap of characters"][1] == 1
    assert found["forest on the four measures"][0] > 0.95


def test_splits_are_large_enough_and_balanced(loaded, everything):
    assert len(everything) >= 600
    for name, share in (("train", 0.6), ("dev", 0.2), ("test", 0.2)):
        labels = Counter(row["label"] for row in loaded[name].data)
        assert len(loaded[name]) / len(everything) == pytest.approx(share, abs=0.02)
        assert labels[0] / len(loaded[name]) == pytest.approx(0.5, abs=0.02)
        # Each domain is in each split.
        assert len({row["id"].split("-")[0] for row in loaded[name].data}) == 20
        head = Counter(row["label"] for row in loaded[name].data[:40])
        assert min(head.values()) > 8  # mixed


def test_a_sentence_ends_alike_on_both_sides(everything):
    """A question beside a statement would be "different" at first sight."""
    differ = Counter(
        row["label"] for _, row in everything if len({row[side][-1] == "？" for side in SIDES}) == 2
    )
    assert sum(differ.values()) < 0.05 * len(everything)


def test_each_group_has_both_labels_and_one_split(everything):
    labels, splits = defaultdict(Counter), defaultdict(set)
    for name, row in everything:
        group = row["id"].rpartition("-")[0]
        labels[group][row["label"]] += 1
        splits[group].add(name)
    assert len(labels) == 100
    assert all(min(count[0], count[1]) >= 2 for count in labels.values())
    assert all(len(names) == 1 for names in splits.values())
