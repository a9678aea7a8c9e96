"""The audits judge what was drawn, and give the published scores. Run by hand after an audit."""

from __future__ import annotations

import course_lib  # noqa: F401  (before paddle)
from course_lib.data import load_cloze, load_pairs, load_reviews
from tools.corpora import cloze, pairs, people_daily, reviews
from tools.corpora.reporting import read_audit


def test_the_audit_of_the_reviews_judges_what_was_drawn():
    rows = read_audit("reviews")
    assert [row["id"] for row in rows] == reviews.draw_audit() and len(rows) == 200
    labels = {row["id"]: row["label"] for split in load_reviews(["dev", "test"]) for row in split}
    for row in rows:
        expected = "cannot tell"
        if row["read_as"] != "cannot tell":
            agrees = ("negative", "positive").index(row["read_as"]) == labels[row["id"]]
            expected = "agree" if agrees else "wrong label"
        assert row["judgement"] == expected
        assert row["reason"].isascii() and len(row["reason"]) > 10


def test_the_audit_of_the_pairs_judges_what_was_drawn():
    rows = read_audit("pairs")
    assert [row["id"] for row in rows] == pairs.draw_audit() and len(rows) == 200
    labels = {row["id"]: ("different", "same")[row["label"]] for d in load_pairs() for row in d}
    for row in rows:
        assert row["verdict"] in pairs.VERDICTS
        if row["read_as"] == "cannot tell":
            assert row["verdict"] == "cannot tell"
        else:
            assert (row["read_as"] == labels[row["id"]]) == (row["verdict"] == "agree"), row["id"]
        assert bool(row["reason"]) == (row["verdict"] != "agree")


def test_the_audit_of_the_organisations_judges_what_the_rules_find():
    rows = read_audit("people_daily")
    drawn = people_daily.draw_audit()
    assert len(drawn) == 200 and {int(row["id"][5:]) for row in rows} == set(drawn)
    for line in drawn:
        of_line = [row for row in rows if row["id"] == f"line-{line:05d}" and row["start"]]
        judged = [(int(r["start"]), int(r["end"])) for r in of_line if r["verdict"] != "missed"]
        assert judged == people_daily.organisations(line)
        assert all(r["verdict"] in people_daily.VERDICTS and r["reason"].isascii() for r in of_line)
    counts = people_daily.baseline()
    assert 0.6 < people_daily.span_f1(counts["all"]) < 0.85
    assert counts["unseen"][2] > 0.2 * counts["all"][2]


def test_the_audit_of_the_questions_gives_the_published_figures():
    rows = read_audit("cloze")
    assert len({row["id"] for row in rows}) == len(rows)
    answers = {row["id"]: row["answers"] for row in [*load_cloze("dev"), *load_cloze("gold")]}
    for kind, prefix, at_least in (("generated", "line", 100), ("by hand", "gold", 60)):
        judged = [row for row in rows if row["id"].startswith(prefix) and row["id"] in answers]
        agree = sum(row["answer"] in answers[row["id"]] for row in judged)
        assert len(judged) >= at_least
        counts = cloze.audit_figures()[kind]
        assert (counts["read"], counts["agree"]) == (len(judged), agree)
        assert {row["sure"] for row in judged} <= {"yes", "no"}
