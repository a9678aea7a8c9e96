"""The waybills: what their marks may be, that nothing leaks, and that no number is anybody's."""

from __future__ import annotations

import re
from collections import Counter

import course_lib  # noqa: F401  (before paddle)
from course_lib.data.sources import read_shipped
from tools.corpora import waybills

MADE, WRITTEN = waybills.rows(waybills.SYNTHETIC), waybills.rows(waybills.BY_HAND)
EVERYTHING = MADE + WRITTEN
ASCII = str.maketrans("０１２３４５６７８９－＋", "0123456789-+")


def test_the_generator_gives_the_shipped_file_again(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    assert waybills.build() == {"plain": 650, "noisy": 650}
    written = (tmp_path / waybills.SYNTHETIC).read_bytes()
    monkeypatch.delenv("COURSE_DATA")
    assert written.decode() == read_shipped(waybills.SYNTHETIC)
    assert len(written) < 260_000
    assert read_shipped(waybills.BY_HAND)


def test_counts_and_formats():
    assert Counter(row["split"] for row in WRITTEN) == {"test": 120, "dev": 40}
    formats = Counter((row["format"], row["split"]) for row in WRITTEN)
    assert len(formats) == 16 and set(formats.values()) == {15, 5}
    assert all(row["english"] and row["english"].isprintable() for row in WRITTEN)
    assert len({row["id"] for row in EVERYTHING}) == len(EVERYTHING)


def test_marks_are_whole():
    for row in EVERYTHING:
        text, spans = waybills.parse(row["text"])
        assert spans and 0 < len(text) <= 126 and not set("{}\\\n") & set(text), row["id"]
        for start, end, field in spans:
            assert field in waybills.FIELDS, row["id"]
            assert text[start:end] == text[start:end].strip(), row["id"]
        rest = re.sub(r"[省市]：|省 | 省|《省|省市", "", unmarked(row))
        assert not re.search(r"[省州]", rest), row["id"]


def unmarked(row):
    return waybills.MARK.sub(" ", row["text"])


def test_texts_are_different_and_no_test_text_is_synthetic():
    texts = Counter(waybills.parse(row["text"])[0] for row in EVERYTHING)
    assert texts.most_common(1)[0][1] == 1
    train = [row for row in MADE if row["split"] == "train"]
    for field in ("phone", "street"):
        known = set(waybills.values(train, field))
        assert not known & set(waybills.values(WRITTEN, field))


def test_telephone_numbers_belong_to_nobody():
    """Mobile numbers begin with 12; local numbers of landlines with 0 or 1."""
    invented = re.compile(r"(86)?12\d{9}|0(10|2\d|\d{3})[01]\d{7}(\d{3})?")
    others = []
    for source in (MADE, WRITTEN):
        texts = [each.translate(ASCII) for each in waybills.values(source, "phone")]
        numbers = [re.sub(r"\D", "", each) for each in texts]
        others.append(sorted(each for each in numbers if not invented.fullmatch(each)))
    # masked, in Chinese numerals, misread by a scanner
    assert others == [[], ["", "1242088273", "1257118836", "1264471"]]
    for row in EVERYTHING:
        assert not re.search(r"(?<!\d)1[3-9]\d{9}(?!\d)", unmarked(row)), row["id"]


def test_places_are_a_tree():
    places = waybills.places()
    assert len(places) == len(set(places)) and len({place[0] for place in places}) == 31
    for province, city, district in places:
        assert re.search("省$|自治区$|市$", province) and re.search("市$|州$|地区$", city)
        assert re.search("[区县市旗]$", district)
