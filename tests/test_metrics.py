"""Span F1, answers to questions and the bootstrap of F1, beside seqeval and PaddleNLP."""

import random
import subprocess
import sys
import warnings

import course_lib  # noqa: F401 - before paddle
from course_lib.chapters.ch04 import seen_and_unseen
from course_lib.data import convert_qa_examples
from course_lib.data.spans import bio_spans
from course_lib.runtime import InputError
from course_lib.training import (
    Answer,
    answer_f1,
    decode_answers,
    exact_match,
    paired_bootstrap,
    paired_bootstrap_f1,
    span_counts,
    span_scores,
)
from course_lib.training.answers import _normalized

import numpy as np
import pytest
from paddlenlp.metrics import squad
from seqeval.metrics import classification_report
from seqeval.scheme import IOB2

TYPES = ("PER", "LOC", "ORG")
NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG")


def test_metrics_do_not_load_paddle():
    code = (
        "import sys; from course_lib.training import metrics, answers, span_scores, decode_answers;"
        "print(sorted({'paddle', 'paddlenlp'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


# --- entities ---------------------------------------------------------------------------------


def test_span_scores_by_hand():
    gold = [[1, 2, 0, 3, 4], [5, 6, 6, 0, 1]]
    predicted = [[1, 2, 0, 3, 0], [5, 6, 6, 0, 3]]  # right: PER, ORG; a LOC too short; PER as LOC
    scores = span_scores(gold, predicted, TYPES)
    assert list(scores) == ["all", *TYPES]
    assert scores["all"] == {
        "precision": 0.5, "recall": 0.5, "f1": 0.5, "right": 2, "found": 4, "true": 4
    }  # fmt: skip
    assert scores["PER"] == {
        "precision": 1, "recall": 0.5, "f1": pytest.approx(2 / 3), "right": 1, "found": 1, "true": 2
    }  # fmt: skip
    assert scores["LOC"]["f1"] == 0 and scores["LOC"]["found"] == 2
    assert scores["ORG"]["f1"] == 1
    assert span_counts(gold, predicted, TYPES)[1].tolist() == [[0, 0, 1], [0, 1, 0], [1, 1, 1]]


def _random_rows(seed):
    """Any labels in gold, too: an I- may stand anywhere; a prediction is gold with errors."""
    draw = np.random.RandomState(seed)
    gold, predicted = [], []
    for _ in range(60):
        row = draw.choice(7, size=draw.randint(1, 25), p=[0.4, *[0.1] * 6])
        gold.append(row)
        predicted.append(np.where(draw.rand(len(row)) < 0.25, draw.randint(7, size=len(row)), row))
    return gold, predicted


def _seqeval(gold, predicted, **mode):
    rows = [[[NAMES[label] for label in row] for row in rows] for rows in (gold, predicted)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return classification_report(*rows, output_dict=True, zero_division=0, **mode)


def _same(scores, report):
    return all(
        scores[name][own] == pytest.approx(report[other][key])
        for name, other in [("all", "micro avg"), *((kind, kind) for kind in TYPES)]
        for own, key in (("precision",) * 2, ("recall",) * 2, ("f1", "f1-score"))
        if other in report
    )


@pytest.mark.parametrize("seed", range(8))
def test_span_scores_are_those_of_seqeval_by_default_not_strict(seed):
    """Whatever the order of the label list."""
    gold, predicted = _random_rows(seed)
    order = np.random.RandomState(seed).permutation(7)  # its place in the list -> label
    names, places = [NAMES[label] for label in order], np.argsort(order)
    rows = [[places[row] for row in each] for each in (gold, predicted)]
    report = _seqeval(gold, predicted)
    for scores in (span_scores(gold, predicted, TYPES), span_scores(*rows, names)):
        assert 0.1 < scores["all"]["f1"] < 0.9
        assert scores["all"]["true"] == report["micro avg"]["support"]
        assert _same(scores, report)
        assert not _same(scores, _seqeval(gold, predicted, mode="strict", scheme=IOB2))


def test_predictions_on_special_tokens_and_padding_do_not_count():
    gold = [[-100, 1, 2, -100, -100], [-100, 0, 0, 5, -100]]
    predicted = [[3, 1, 2, 2, 5], [1, 0, 0, 5, 6]]
    arrays = np.array(gold), np.array(predicted)
    for rows in ((gold, predicted), arrays):
        assert span_scores(*rows, TYPES)["all"]["f1"] == 1
        assert span_counts(*rows, TYPES).sum(axis=(0, 1)).tolist() == [2, 2, 2]


def test_spans_may_be_given_instead_of_labels():
    gold, predicted = [[1, 2, 0, 3]], [{(0, 2, 0), (3, 4, 2)}]
    assert span_scores(gold, predicted, TYPES) == span_scores(gold, [[1, 2, 0, 5]], TYPES)
    assert predicted == [{(0, 2, 0), (3, 4, 2)}]


def test_names_of_the_training_are_scored_apart():
    tokens = [list("王明在北京"), list("李四在上海")]
    rows = [[1, 2, 0, 3, 4]] * 2, [[1, 2, 0, 3, 4], [0, 0, 0, 5, 6]]
    gold, predicted = ([bio_spans(row) for row in side] for side in rows)
    scores = seen_and_unseen(gold, predicted, TYPES, tokens, {"北京": 1, "上海": 1})
    counts = {part: [scores[part][key] for key in ("right", "found", "true")] for part in scores}
    assert counts["seen"] == [1, 2, 2]  # 上海 as ORG
    assert counts["unseen"] == [1, 1, 2]  # 李四 not found
    assert counts["all"] == [2, 3, 4]


@pytest.mark.parametrize(("gold", "predicted"), [([], []), ([[]], [[]]), ([[0]], [[0]])])
def test_nothing_to_find_is_zero_as_in_seqeval(gold, predicted):
    scores = span_scores(gold, predicted, TYPES)
    assert scores["all"] == dict.fromkeys(scores["all"], 0)


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "f1"),
    [
        ("北京", ["北京"], 1, 1),
        ("“北京”。", ["北京"], 1, 1),
        ("【北京】……‘好’〈书〉—～＋＄", ["北京好书"], 1, 1),
        ("A股3.5％", ["a股35"], 1, 1),  # A is no word of its own
        ("北京市", ["北京"], 0, 0.8),  # 2 of 3, 2 of 2
        ("北京市", ["北京", "北京市"], 1, 1),
        ("南京", ["北京"], 0, 0.5),
        ("", ["北京"], 0, 0),
        ("。", ["！"], 1, 1),  # nothing left of either
        ("1998年", ["1999年"], 0, 0.5),  # a number is one token
        ("IBM公司", ["IBM"], 0, 0.5),  # IBM, 公, 司: 1 of 3, 1 of 1
        ("二〇〇八年", ["二〇〇〇年"], 0, 0.8),  # 〇 is a character
        ("京京", ["京"], 0, 2 / 3),  # a character counts as often as both have it
        ("中国银行", ["中国 银行"], 0, 1),  # as in the scripts
        ("the Great Wall", ["Great Wall"], 1, 1),
        ("Great Wall", ["Wall of China"], 0, 0.4),
    ],
)
def test_answers_by_hand(prediction, answers, exact, f1):
    assert exact_match(prediction, answers) == exact
    assert answer_f1(prediction, answers) == pytest.approx(f1)


def _texts(seed, alphabet, count=300, longest=9):
    draw = random.Random(seed)
    return ["".join(draw.choices(alphabet, k=draw.randint(0, longest))) for _ in range(count)]


@pytest.mark.parametrize(
    ("alphabet", "spaces"),
    [
        ("北京市上海中国，。《》“”、！", False),
        ([*"abc", "the ", "a ", " ", ",", "!", "great ", "wall "], True),
    ],
)
def test_figures_are_those_of_paddlenlp(alphabet, spaces):
    """For Chinese without letters and spaces, and for English."""
    texts = _texts(3, alphabet)
    scores = []
    for one, two in zip(texts[::2], texts[1::2], strict=True):
        assert _normalized(one) == squad.normalize_answer(one)
        assert exact_match(one, [two]) == squad.compute_exact(two, one)
        scores.append(answer_f1(one, [two]))
        assert scores[-1] == pytest.approx(squad.compute_f1(two, one, spaces))
    assert sum(0 < score < 1 for score in scores) > 20


def test_paddlenlp_loses_what_follows_a_space():
    """Tells when `compute_f1` of PaddleNLP reads the whole of a Chinese answer."""
    assert squad.compute_f1("中国 银行", "中国", is_whitespace_splited=False) == 1
    assert answer_f1("中国", ["中国 银行"]) == pytest.approx(2 / 3)


# --- from scores to answers -------------------------------------------------------------------


def _feature(example, offsets, before=3):
    mapping = [None] * before + offsets + [None]
    return {"example": example, "offset_mapping": mapping, "input_ids": [0] * len(mapping)}


def _brute(start_logits, end_logits, features, examples, longest):
    """Every pair of tokens of every window, one by one."""
    results = []
    for index, example in enumerate(examples):
        best: dict[tuple[int, int], float] = {}
        for row, feature in enumerate(features):
            offsets = feature["offset_mapping"]
            if feature["example"] != index:
                continue
            for i, first in enumerate(offsets):
                for j, last in enumerate(offsets):
                    if first is None or last is None or not 0 <= j - i < longest:
                        continue
                    score = float(start_logits[row][i]) + float(end_logits[row][j])
                    place = (first[0], last[1])
                    best[place] = max(best.get(place, score), score)
        ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))
        results.append(
            [Answer(example["context"][a:b], a, b, score) for (a, b), score in ranked]
        )  # fmt: skip
    return results


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ties", [False, True])
def test_decoding_finds_what_trying_every_span_finds(seed, ties):
    draw = np.random.RandomState(seed)
    examples, features = [], []
    for index in range(6):
        length = draw.randint(1, 30)
        context = "".join(draw.choice(list("天地玄黄宇宙洪荒"), length))
        offsets = [(place, place + 1) for place in range(length)]
        if index % 2:  # two tokens of one character
            offsets.insert(1, offsets[0])
        window, stride = draw.randint(1, 12), draw.randint(1, 8)
        firsts = range(0, len(offsets), min(stride, window))
        examples.append({"context": context})
        features += [_feature(index, offsets[i : i + window], draw.randint(2, 6)) for i in firsts]
    draw.shuffle(features)
    width = max(len(feature["offset_mapping"]) for feature in features) + 4
    logits = draw.randn(2, len(features), width).astype("float32") * 3
    if ties:
        logits = logits.round()
    longest, kept = int(draw.randint(1, 12)), int(draw.randint(1, 9))
    results = decode_answers(*logits, features, examples, longest, kept)
    expected = _brute(*logits, features, examples, longest)
    for result, answers in zip(results, expected, strict=True):
        assert result["candidates"] == answers[:kept]
        assert Answer(*(result[key] for key in Answer._fields)) == answers[0]
    rows = [
        [part[i][: len(f["offset_mapping"])] for i, f in enumerate(features)] for part in logits
    ]
    assert decode_answers(*rows, features, examples, longest, kept) == results  # without padding


def test_perfect_scores_give_back_the_answers_of_real_windows(tokenizer):
    context = "王明在IBM公司工作。" * 20 + "他１９９８年到了北京。" + "李四没有去。" * 10
    answers = ["１９９８年", "北京", "李四没有去", "王明"]
    examples = [
        {"context": context, "question": "是？", "answers": [text],
         "answer_starts": [context.index(text)]} for text in answers
    ]  # fmt: skip
    features = convert_qa_examples(examples, tokenizer, 64, 16, 20)
    assert len(features) > 4 * len(examples)
    logits = np.full((2, len(features), 64), -5.0)
    for row, feature in enumerate(features):
        for part, key in zip(logits, ("start_positions", "end_positions"), strict=True):
            part[row, feature[key]] = 5
    results = decode_answers(*logits, features, examples)
    assert [result["text"] for result in results] == answers
    assert [result["start"] for result in results] == [context.index(text) for text in answers]
    assert all(exact_match(r["text"], e["answers"]) for r, e in zip(results, examples, strict=True))


def test_a_context_without_tokens_is_told_in_words():
    examples = [{"context": " "}, {"context": "天"}]
    features = [_feature(0, []), _feature(1, [(0, 1)])]
    nothing, one = decode_answers(np.zeros((2, 5)), np.zeros((2, 5)), features, examples)
    assert nothing == {
        "text": "", "start": None, "end": None, "score": None, "candidates": [],
        "reason": "the context has no token",
    }  # fmt: skip
    assert one["text"] == "天" and "reason" not in one
    assert exact_match(nothing["text"], ["天"]) == 0


def test_logits_that_are_not_finite_are_refused():
    features, examples = [_feature(0, [(0, 1), (1, 2)])], [{"context": "天地"}]
    zeros = np.zeros((1, 6))
    assert decode_answers(zeros, zeros, features, examples)[0]["text"] == "天"
    with pytest.raises(InputError, match="feature 0: its logits are not all finite"):
        decode_answers(zeros, np.full((1, 6), np.nan), features, examples)
    with pytest.raises(InputError, match="a list of accepted answers"):
        exact_match("北京", "北京")


# --- intervals --------------------------------------------------------------------------------


def _counts(draw, sentences, recall):
    true = draw.randint(0, 5, size=sentences)
    right = draw.binomial(true, recall)
    return np.stack([right, right + draw.binomial(2, 0.2, size=sentences), true], axis=1)


def test_bootstrap_of_f1_agrees_with_plain_resampling():
    draw = np.random.RandomState(0)
    first, second = _counts(draw, 300, 0.8), _counts(draw, 300, 0.7)
    result = paired_bootstrap_f1(first, second, resamples=2000)

    def f1(counts):
        right, found, true = counts.sum(axis=0)
        return 2 * right / (found + true)

    assert result["difference"] == pytest.approx(f1(first) - f1(second))
    draws = []
    for _ in range(2000):
        rows = draw.randint(300, size=300)
        draws.append(f1(first[rows]) - f1(second[rows]))
    low, high = np.quantile(draws, [0.025, 0.975])
    width = high - low
    assert result["low"] == pytest.approx(low, abs=0.08 * width)
    assert result["high"] == pytest.approx(high, abs=0.08 * width)
    assert result["low"] > 0
    assert paired_bootstrap_f1(first, second, resamples=2000) == result


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        ([1.0], [0, 1, 1], "shapes"),
        ([0.0, float("nan")], [0.0, 1.0], "NaN"),
        ([1], [0], "two or more"),
    ],
)
def test_bootstrap_compares_numbers_of_the_same_examples(first, second, problem):
    with pytest.raises(ValueError, match=problem):
        paired_bootstrap(first, second)
