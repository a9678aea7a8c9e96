"""The inbox of chapter 23: what a seed decides, and the faults that it announces."""

from collections import Counter

from course_lib.chapters import ch23
from course_lib.data import load_reviews
from course_lib.runtime import InputError

import pytest

SEEDS = (23, 24)
inboxes = pytest.mark.parametrize("seed", SEEDS)


def test_a_seed_gives_the_same_bytes_and_another_one_other_messages(tmp_path):
    for folder, seed in (("one", 23), ("again", 23), ("other", 24)):
        ch23.write_inbox(seed, tmp_path / folder)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()
        assert file.read_bytes() != (tmp_path / "other" / file.name).read_bytes()
    rows = ch23.read_rows(tmp_path / "one" / "test.tsv")
    assert [*rows[0]] == ["id", "text"] and len(rows) == ch23.SIZES["test"]
    others = {row["text"] for row in ch23.read_rows(tmp_path / "other" / "test.tsv")}
    assert sum(row["text"] in others for row in rows) < 0.2 * len(rows)
    inbox, faults = ch23.make_inbox(23)
    assert ch23.read_rows(tmp_path / "one" / "train.tsv") == inbox["train"]
    assert len(ch23.read_rows(tmp_path / "one" / "faults.tsv")) == sum(map(len, faults.values()))


@inboxes
def test_the_faults_are_there_in_the_announced_numbers(seed):
    inbox, faults = ch23.make_inbox(seed)
    assert {name: len(rows) for name, rows in faults.items()} == ch23.FAULTS
    keys = {split: [ch23.same(row["text"]) for row in rows] for split, rows in inbox.items()}
    held_out = keys["dev"] + keys["test"]
    assert len(set(held_out)) == len(held_out)
    labels, found = {}, {name: set() for name in ch23.FAULTS}
    for key, row in zip(keys["train"], inbox["train"], strict=True):
        labels.setdefault(key, []).append(row["label"])
    for number, (key, row) in enumerate(zip(keys["train"], inbox["train"], strict=True)):
        again = key in keys["train"][:number]
        two = len(set(labels[key])) > 1
        kind = "empty" if not key else "leaks" if key in held_out else "conflicts" if two else ""
        found.get(kind or ("duplicates" if again else ""), set()).add(row["id"])
    for name in ("empty", "leaks", "conflicts", "duplicates"):
        assert found[name] == faults[name], name


@inboxes
@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_message_is_for_the_desk_of_its_complaint(seed, split):
    inbox, faults = ch23.make_inbox(seed)
    pieces = {}
    for row in load_reviews(split):
        desk = "thanks" if row["label"] else row["domain"]
        pieces[ch23.piece_of(row["text"], row["domain"])] = desk
    skipped = set().union(*(faults[name] for name in ("empty", "leaks", "conflicts")))
    other = set()
    for row in inbox[split]:
        if row["id"] not in skipped | faults["duplicates"]:
            desks = {desk for piece, desk in pieces.items() if piece and piece in row["text"]}
            desk = max(desks - {"thanks"}, default="thanks")
            assert desks and len(desks - {"thanks"}) <= 1, row
            other |= {row["id"]} if desk != row["label"] else set()
    assert other == {"train": faults["wrong labels"], "dev": faults["wrong labels in dev"]}.get(
        split, set()
    )
    counts = Counter(row["label"] for row in inbox["test"])
    assert counts == {name: share * ch23.SIZES["test"] for name, share in ch23.SHARES.items()}


@pytest.mark.parametrize(("value", "seed"), [("", 23), (" 7 ", 7)])
def test_the_seed_is_the_instructors(monkeypatch, value, seed):
    monkeypatch.setenv("COURSE_CAPSTONE_SEED", value)
    assert ch23.chosen_seed() == seed
    monkeypatch.setenv("COURSE_CAPSTONE_SEED", "x1")
    with pytest.raises(InputError, match="COURSE_CAPSTONE_SEED"):
        ch23.chosen_seed()
