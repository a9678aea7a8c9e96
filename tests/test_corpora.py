"""The tools that built the corpora: the same bits again, the tables of data/README.md."""

import os
import re

from course_lib import runtime
from course_lib.data import load_reviews, sources
from course_lib.data.people_daily import text
from tools.corpora.__main__ import CORPORA, main
from tools.corpora.reporting import interval

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
