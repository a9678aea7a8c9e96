"""The sentence pairs: the file, the splits and what must not cross them, and that nothing but
reading both sentences helps much."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import course_lib
from course_lib.data import load_pairs, pairs
from course_lib.data.reporting import read_audit
from course_lib.runtime import InputError

import pytest
from paddlenlp.transformers import AutoTokenizer

DATA = Path(course_lib.__file__).parents[1] / "data"
CAP = 0.65  # accuracy that no trivial baseline may pass; the majority has 0.5
SIDES = ("sentence1", "sentence2")


@pytest.fixture(scope="module")
def loaded():
    return dict(zip(pairs.SPLITS, load_pairs(), strict=True))


@pytest.fixture(scope="module")
def everything(loaded):
    return [(name, row) for name, dataset in loaded.items() for row in dataset.data]


@pytest.fixture(scope="module")
def report():
    """What `python -m course_lib.data.pairs stats` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert pairs.main(["stats"]) == 0
    return printed.getvalue()


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


def test_splits_as_string_list_and_tuple(loaded):
    assert load_pairs("dev").data == loaded["dev"].data
    both = load_pairs(["test", "dev"])
    assert [dataset.data for dataset in both] == [loaded["test"].data, loaded["dev"].data]
    assert isinstance(load_pairs(("dev",)), list)
    with pytest.raises(ValueError, match="split 'valid'; expected one of train, dev, test"):
        load_pairs("valid")


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_max_examples_is_balanced_seeded_and_a_subset(loaded, count):
    subset = load_pairs("dev", max_examples=count)
    labels = Counter(row["label"] for row in subset.data)
    assert len(subset) == count and abs(labels[0] - labels[1]) <= 1
    assert load_pairs("dev", max_examples=count).data == subset.data
    ids = [row["id"] for row in loaded["dev"].data]
    assert all(row["id"] in ids for row in subset.data)
    if count == 40:
        assert load_pairs("dev", max_examples=count, seed=1).data != subset.data
    assert len(load_pairs("dev", max_examples=10**6)) == len(ids)


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


# --- damaged files ----------------------------------------------------------------------------


def change(line, column, value):
    """An edit of one field: lines are 1-based, as the error names them."""

    def edit(lines):
        fields = lines[line - 1].split("\t")
        fields[column] = value
        lines[line - 1] = "\t".join(fields)

    return edit


DAMAGES = {
    "header": (change(1, 0, "qid"), 1, "another header"),
    "no header": (lambda lines: lines.pop(0), 1, "another header"),
    "cut line": (lambda lines: lines.__setitem__(4, lines[4][:20]), 5, r"\d fields?; expected 6"),
    "tab in a sentence": (change(9, 2, "一\t二"), 9, "7 fields; expected 6"),
    "empty line": (lambda lines: lines.insert(6, ""), 7, "1 field; expected 6"),
    "empty sentence": (change(3, 3, ""), 3, "sentence2 is empty"),
    "blank sentence": (change(3, 2, "\u3000"), 3, "sentence1 is empty"),
    "space behind": (change(3, 2, "好 "), 3, "white space around"),
    "label": (change(600, 4, "1"), 600, "unknown label '1'; expected different or same"),
    "kind": (change(8, 5, "joke"), 8, "kind 'joke'"),
    "group": (change(8, 1, "旅行"), 8, "group '旅行'"),
    "id of another group": (change(8, 0, "law-1-1"), 8, "id 'law-1-1' in group"),
    "id again": (lambda lines: lines.insert(3, lines[1]), 4, r"again \(first in line 2\)"),
}


@pytest.mark.parametrize(("edit", "line", "told"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_line_is_told_with_its_number(monkeypatch, tmp_path, edit, line, told):
    lines = (DATA / "pairs" / "pairs.tsv").read_text(encoding="utf-8").splitlines()
    edit(lines)
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setattr(pairs, "pairs_path", lambda: path)
    with pytest.raises(InputError, match=rf"pairs\.tsv, line {line}: .*{told}") as caught:
        load_pairs("dev")
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "does not exist"),
        (b"", "is empty"),
        ("\t".join(pairs.COLUMNS).encode() + b"\n", "holds no pair"),
        ("\t".join(pairs.COLUMNS).encode() + b"\n\xb5\xda", "line 2: byte 0xb5 is not utf-8"),
    ],
)
def test_a_file_that_is_no_file_of_pairs(monkeypatch, tmp_path, capsys, content, told):
    path = tmp_path / "pairs.tsv"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr(pairs, "pairs_path", lambda: path)
    with pytest.raises(InputError, match=told):
        load_pairs("dev")
    assert pairs.main(["stats"]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1


def test_windows_line_ends_are_read(monkeypatch, tmp_path, loaded):
    shutil.copy(DATA / "pairs" / "pairs.tsv", tmp_path)
    path = tmp_path / "pairs.tsv"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    monkeypatch.setattr(pairs, "pairs_path", lambda: path)
    assert load_pairs("test").data == loaded["test"].data


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


def test_each_group_has_both_labels_and_one_split(everything):
    labels, splits = defaultdict(Counter), defaultdict(set)
    for name, row in everything:
        group = row["id"].rpartition("-")[0]
        labels[group][row["label"]] += 1
        splits[group].add(name)
    assert len(labels) == 100
    assert all(min(count[0], count[1]) >= 2 for count in labels.values())
    assert all(len(names) == 1 for names in splits.values())


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
    rows = pairs.split_rows()
    for part in rows.values():
        for row in part:
            near = pairs.overlap(row["sentence1"], row["sentence2"]) > 0.4
            row["label"] = pairs.LABELS[near]
    monkeypatch.setattr(pairs, "split_rows", lambda: rows)
    found = pairs.baselines()
    assert found["threshold on overlap of characters"][1] == 1
    assert found["forest on the four measures"][0] > 0.95


def test_a_sentence_ends_alike_on_both_sides(everything):
    """A question beside a statement would be "different" at first sight."""
    differ = Counter(
        row["label"] for _, row in everything if len({row[side][-1] == "？" for side in SIDES}) == 2
    )
    assert sum(differ.values()) < 0.05 * len(everything)


# --- published --------------------------------------------------------------------------------


def test_readme_holds_the_computed_tables(report):
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- pairs stats -->\n\n(.*?)\n\n<!-- end -->", readme, re.DOTALL)
    assert blocks == report.strip().split("\n\n")


def test_audit_judges_the_drawn_pairs(everything):
    rows = read_audit("pairs")
    assert [row["id"] for row in rows] == pairs.draw_audit()
    assert len(set(pairs.draw_audit())) == 200
    labels = {row["id"]: pairs.LABELS[row["label"]] for _, row in everything}
    for row in rows:
        assert row["verdict"] in pairs.VERDICTS
        if row["read_as"] == "cannot tell":
            assert row["verdict"] == "cannot tell"
        else:
            agrees = row["read_as"] == labels[row["id"]]
            assert agrees == (row["verdict"] == "agree"), row["id"]
        assert bool(row["reason"]) == (row["verdict"] != "agree")
