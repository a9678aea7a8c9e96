"""The tools that built the corpora: the same bits again, audits, the tables of data/README.md."""

from __future__ import annotations

import os
import re

import course_lib  # noqa: F401  (before paddle)
from course_lib import runtime
from course_lib.data import load_cloze, load_pairs, load_reviews, sources
from course_lib.data.people_daily import text
from tools.corpora import cloze, pairs, people_daily, reviews
from tools.corpora.__main__ import CORPORA, main
from tools.corpora.reporting import interval, read_audit

import pytest
from processes import python

ROOT = runtime.data_dir().parent


@pytest.mark.parametrize("corpus", CORPORA)
def test_the_readme_holds_the_computed_tables(corpus, capsys):
    readme = (runtime.data_dir() / "README.md").read_text(encoding="utf-8")
    mark = rf"<!-- {corpus} stats(?: (\d))? -->\n\n(.*?)\n\n<!-- end -->"
    blocks = re.findall(mark, readme, re.DOTALL)
    assert main(["stats", corpus]) == 0
    tables = capsys.readouterr().out.strip().split("\n\n")
    assert [table for _, table in sorted(blocks, key=lambda block: block[0])] == tables


def test_rebuilding_gives_the_same_bits(tmp_path):
    # Another process with another hash seed: no order of a set may reach the file.
    for corpus, name in (
        ("reviews", "reviews/split.json"),
        ("people_daily", "people_daily/organisations.json"),
    ):
        (tmp_path / corpus).mkdir()
        environment = {**os.environ, "COURSE_DATA": str(tmp_path), "PYTHONHASHSEED": "1"}
        result = python("-m", "tools.corpora", "build", corpus, env=environment, cwd=ROOT)
        assert result.returncode == 0, result.stderr
        frozen = (runtime.data_dir() / name).read_bytes()
        assert (tmp_path / name).read_bytes() == frozen and len(frozen) < 120_000
        assert (tmp_path / sources.CHECKSUMS).read_text() in result.stdout


def test_no_text_of_others_is_shipped():
    """No twelve characters of Chinese text; questions by hand share names with their passages."""
    folders = [runtime.data_dir() / name for name in ("reviews", "people_daily", "review_tree")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    files += [runtime.data_dir() / "README.md", runtime.data_dir() / "cloze" / "questions.json"]
    shipped = [path.read_text(encoding="utf-8") for path in files]
    grams = {content[i : i + 12] for content in shipped for i in range(len(content) - 11)}
    grams = {gram for gram in grams if re.search("[\u4e00-\u9fff]", gram)}
    texts = [row["text"] for dataset in load_reviews() for row in dataset.data]
    texts += [text(line) for line in range(1, 19_485)]
    for each in texts:
        assert not any(each[i : i + 12] in grams for i in range(len(each) - 11)), each


def test_intervals_are_wilsons():
    assert interval(15, 200) == "4.6% to 12.0%" and interval(0, 200) == "0.0% to 1.9%"
    assert interval(104, 104) == "96.4% to 100.0%"


# --- audits -----------------------------------------------------------------------------------


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
