"""Pairs, tagged tokens and questions as ids; offsets that map back to the text."""

import random
import unicodedata

import course_lib  # noqa: F401 - before paddle
from course_lib import runtime
from course_lib.data import (
    convert_example,
    convert_qa_examples,
    convert_tokens_example,
    tokenize_with_offsets,
    unknown_tokens,
)
from course_lib.data import tokens as remembering
from course_lib.data.reviews import load_reviews
from course_lib.runtime import InputError
from course_lib.training.pretraining import WordEncoder

import numpy as np
import pytest
from paddlenlp.datasets import MapDataset
from paddlenlp.transformers import BertTokenizer, ErnieTokenizer, RoFormerTokenizer


def ids(tokenizer, tokens):
    return tokenizer.convert_tokens_to_ids(tokens)


# --- pairs ------------------------------------------------------------------------------------


def test_a_pair_stands_between_cls_and_two_sep(tokenizer):
    example = {"sentence1": "好 吗", "sentence2": "不好", "label": 1}
    input_ids, types, label = convert_example(example, tokenizer)
    assert tokenizer.convert_ids_to_tokens(input_ids) == [
        *("[CLS]", "好", "吗", "[SEP]"),
        *("不", "好", "[SEP]"),
    ]
    assert types == [0, 0, 0, 0, 1, 1, 1]
    assert label == 1 and label.dtype == np.int64
    del example["label"]
    assert convert_example(example, tokenizer, is_test=True) == (input_ids, types)
    named = convert_example(example, tokenizer, is_test=True, return_dict=True)
    assert named == {"input_ids": input_ids, "token_type_ids": types}


@pytest.mark.filterwarnings("ignore:Be aware, overflowing")
@pytest.mark.parametrize("length", [5, 6, 9, 20, 60])
def test_pairs_are_cut_as_the_tokenizer_cuts_them(tokenizer, length):
    texts = [row["text"] for row in load_reviews("dev", max_examples=40)]
    for one, two in zip(texts[::2], texts[1::2], strict=True):
        example = {"sentence1": one[:30], "sentence2": two}
        upstream = tokenizer(
            one[:30], two, max_length=length, truncation=True, return_token_type_ids=True
        )
        ours = convert_example(example, tokenizer, length, is_test=True)
        assert ours == (upstream["input_ids"], upstream["token_type_ids"])


# --- tagged tokens ----------------------------------------------------------------------------

STRANGE = ["王", "A", "é", "Ａ", " ", "\u3000", "\u200b", "\u0301", "😀", "½", "한", "\n", "Σ", "İ"]


def test_labels_stay_beside_their_tokens(tokenizer):
    labels = list(range(len(STRANGE)))
    input_ids, types, out = convert_tokens_example({"tokens": STRANGE, "labels": labels}, tokenizer)
    assert len(input_ids) == len(types) == len(out) == len(STRANGE) + 2
    assert out == [-100, *labels, -100]
    assert set(types) == {0}
    words = tokenizer.convert_ids_to_tokens(input_ids)
    assert words[:4] == ["[CLS]", "王", "a", "e"] and words[-1] == "[SEP]"
    unknown = tokenizer.unk_token
    assert [words[1 + STRANGE.index(token)] for token in " \u3000\u200b\u0301"] == [unknown] * 4


@pytest.mark.upstream
def test_upstream_moves_labels_where_the_functions_here_do_not(tokenizer):
    """Tells when `is_split_into_words` of PaddleNLP keeps one id a token."""
    upstream = tokenizer(STRANGE, is_split_into_words=True)["input_ids"]
    assert len(upstream) != len(STRANGE) + 2


@pytest.mark.parametrize(("length", "kept"), [(3, 1), (5, 3), (7, 5), (8, 5)])
def test_long_sentences_are_cut_with_their_labels(tokenizer, length, kept):
    example = {"tokens": list("王明在北京"), "labels": [1, 2, 0, 3, 4]}
    input_ids, _, labels = convert_tokens_example(example, tokenizer, length)
    assert tokenizer.convert_ids_to_tokens(input_ids)[1:-1] == example["tokens"][:kept]
    assert labels == [-100, *example["labels"][:kept], -100]


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"tokens": ["好", "坏"], "labels": [0]}, "tokens: 2 tokens and 1 labels"),
        ({"tokens": ["iPhone"], "labels": [0]}, r"the token 'iPhone' is \d tokens to the tokeniz"),
        ({"tokens": ["北京"], "labels": [0]}, "the token '北京' is 2 tokens"),
    ],
)
def test_tokens_that_would_move_the_labels_are_refused(tokenizer, example, message):
    with pytest.raises(InputError, match=message):
        convert_tokens_example(example, tokenizer)
    with pytest.raises(InputError, match="max_seq_length"):
        convert_tokens_example({"tokens": ["好"], "labels": [0]}, tokenizer, 2)


# --- offsets ----------------------------------------------------------------------------------

ALPHABETS = {
    "usual": "好坏北京，。、“”的 abAB12.-%",
    "white space": "好a1 \t\n\r\u3000\xa0\u2009\u2028\x85\x0b\x1c\u200b\ufeff",
    "full width": "ＡＢｃ１２，％ﾱ㎡①好a",
    "marks": "éÅe\u0301\u0302ñȘاِकी한글İΣσςßﬁ好",
    "signs": "😀☃👍🏽\u200d❤️$€^`~|©好a",
    "rare": "豈𠀀𪚥㐀\ue000\ufffd\0\x01\x7f≠好",
}


WORDS = ["充电", "充电宝", "GPU显卡", "ＧＰＵ", "Café", "冯·诺依曼", "ΟΔΟΣ", "İst"]
WORDS += ["new york", "xp"]
MARKS = ["[SEP]", "[sep]", "[UNK]", "[MASK]", "[E1]", "NEW", "new", "龘"]
TOKENIZERS = {
    "ernie": lambda path: ErnieTokenizer.from_pretrained(path),
    "ernie without a trie": lambda path: ErnieTokenizer(f"{path}/vocab.txt"),
    "cased": lambda path: ErnieTokenizer(f"{path}/vocab.txt", do_lower_case=False),
    "bert without a trie": lambda path: BertTokenizer(f"{path}/vocab.txt"),
    "accents kept": lambda path: BertTokenizer(f"{path}/vocab.txt", strip_accents=False),
    "jieba first": lambda path: RoFormerTokenizer(f"{path}/vocab.txt", use_jieba=True),
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_tokens_and_ids_are_the_tokenizers_and_offsets_lead_back(kind):
    tokenizer = TOKENIZERS[kind](str(runtime.data_dir() / "backbone"))
    rng = random.Random(1)
    for added in ("nothing", "words", "special tokens"):
        if added == "words":
            tokenizer.add_tokens(WORDS)
        elif added == "special tokens":
            tokenizer.add_tokens(["NEW"], special_tokens=True)
            tokenizer.add_special_tokens({"additional_special_tokens": ["[E1]"]})
            tokenizer.add_tokens(["龘"])
        encode = WordEncoder(tokenizer)
        for letters in ALPHABETS.values():
            pieces = [*letters, *letters, *WORDS, *map(str.upper, WORDS), *MARKS]
            for _ in range(12):
                text = "".join(rng.choices(pieces, k=rng.randint(0, 12)))
                check_ids(text, tokenizer, encode)


def check_ids(text, tokenizer, encode):
    expected = tokenizer.tokenize(text)
    own = ids(tokenizer, expected)
    tokens, offsets = tokenize_with_offsets(text, tokenizer)
    assert tokens == expected, text
    check_offsets(text, tokens, offsets, tokenizer)
    found, starts = encode(text)
    assert found == own and len(starts) == len(own) and starts[:1] in ([], [True])
    unknown = [span for span, token in zip(offsets, tokens, strict=True) if token == "[UNK]"]
    assert unknown_tokens(text, tokenizer) == [(text[a:b], a, b) for a, b in unknown]
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert convert_example({"text": text}, tokenizer, 512, is_test=True)[0] == [cls, *own, sep]
    pair = {"sentence1": text, "sentence2": text}
    both = [cls, *own, sep, *own, sep]
    assert convert_example(pair, tokenizer, 512, is_test=True)[0] == both
    row = {"question": text, "context": text}
    (feature,) = convert_qa_examples([row], tokenizer, 512, 9, 200, is_test=True)
    assert feature["input_ids"] == both
    assert feature["offset_mapping"][len(own) + 2 : -1] == offsets
    single = [tokenizer.tokenize(character) for character in text]
    single = [token[0] if len(token) == 1 else "[UNK]" for token in single]
    found = convert_tokens_example({"tokens": list(text)}, tokenizer, 512, is_test=True)[0]
    assert found == [cls, *ids(tokenizer, single), sep]


def check_offsets(text, tokens, offsets, tokenizer):
    assert len(tokens) == len(offsets)
    assert offsets == sorted(offsets)
    for token, (first, end) in zip(tokens, offsets, strict=True):
        assert 0 <= first < end <= len(text)
        again = tokenizer.tokenize(text[first:end])
        if token in (*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()):
            assert again == [token]
        elif end - first > 1 or not token.startswith("##"):
            assert token.removeprefix("##") in "".join(again).replace("##", "").lower()
    covered = {place for first, end in offsets for place in range(first, end)}
    for place, character in enumerate(text):
        if tokenizer.tokenize(character) and place not in covered:
            pytest.fail(f"{character!r} at {place} of {text!r} is in no token")


ODD = ["[CLS]", "[cls]", "[C\0LS]", "[ MASK ]", "##好", "ΑΣ", "Ǆ", "İ", "가", "x" * 101, "\u2028"]
ODD += ["👨\u200d👩", "\u3000"]


@pytest.mark.parametrize("kind", sorted(TOKENIZERS.keys() - {"jieba first"}))
def test_remembered_ids_are_the_tokenizers_for_characters_of_all_kinds(kind, monkeypatch):
    """All 1.1 million code points were compared once like this; here a sample of them."""
    monkeypatch.setattr(remembering, "MOST", 500)  # so that the memory is emptied and filled again
    tokenizer = TOKENIZERS[kind](str(runtime.data_dir() / "backbone"))
    tokenizer.add_tokens(["é", "gpu显卡"])
    rng = random.Random(3)
    marks = [chr(point) for point in range(0x20000) if unicodedata.combining(chr(point))]
    remembered = 0
    for _ in range(300):
        text = [chr(rng.randrange(0x20000 if rng.random() < 0.9 else 0x110000)) for _ in range(9)]
        text += rng.choices(marks, k=3) + rng.choices([*ODD, *"aÉ好。 "], k=4)
        rng.shuffle(text)
        found = []
        for switch in ("course", "paddlenlp"):
            monkeypatch.setenv("COURSE_TOKENIZER", switch)
            own = remembering.token_ids("".join(text), tokenizer)
            found.append((own, tokenize_with_offsets("".join(text), tokenizer)))
            remembered += remembering.remembered_ids("".join(text), tokenizer) is not None
        assert found[0] == found[1], text
    assert 30 < remembered < 300


def test_added_words_are_one_token_at_their_place():
    tokenizer = ErnieTokenizer.from_pretrained(str(runtime.data_dir() / "backbone"))
    text = "买充电宝，GPU显卡、龘"
    encode = WordEncoder(tokenizer)

    def last():
        tagged = convert_tokens_example({"tokens": list(text)}, tokenizer, is_test=True)[0]
        return tagged[-2], encode(text)[0][-1]

    assert last() == (tokenizer.unk_token_id,) * 2
    tokenizer.add_tokens(["充电", "充电宝", "GPU显卡", "龘"])
    assert tokenize_with_offsets(text, tokenizer) == (
        ["买", "充电宝", "，", "gpu显卡", "、", "龘"],
        [(0, 1), (1, 4), (4, 5), (5, 10), (10, 11), (11, 12)],
    )
    assert last() == (len(tokenizer) - 1,) * 2, "an id from before the word was added"


@pytest.mark.upstream
def test_upstream_moves_offsets_after_unknown_words(tokenizer):
    """Tells when `get_offset_mapping` of PaddleNLP is right, and this module can use it."""
    text = "ＡＢ ＣＤ好"
    tokens, offsets = tokenize_with_offsets(text, tokenizer)
    assert tokens == ["[UNK]", "[UNK]", "好"]
    assert [text[first:end] for first, end in offsets] == ["ＡＢ", "ＣＤ", "好"]
    upstream = tokenizer.get_offset_mapping(text)
    assert [text[first:end] for first, end in upstream] == ["Ａ", "Ｂ ＣＤ", "好"]


# --- questions --------------------------------------------------------------------------------


def question(context, answer="北京", asked="王明在哪里？", **more):
    starts = [i for i in range(len(context)) if context.startswith(answer, i)]
    return {
        "id": "q-1",
        "context": context,
        "question": asked,
        "answers": [answer] * len(starts),
        "answer_starts": starts,
        **more,
    }


def answer_of(feature, context):
    first, last = int(feature["start_positions"]), int(feature["end_positions"])
    if (first, last) == (0, 0):
        return None
    return context[feature["offset_mapping"][first][0] : feature["offset_mapping"][last][1]]


def test_a_short_passage_gives_one_feature(tokenizer):
    context = "王明 在北京。"
    (feature,) = convert_qa_examples([question(context)], tokenizer)
    words = tokenizer.convert_ids_to_tokens(feature["input_ids"])
    assert words == ["[CLS]", *"王明在哪里？", "[SEP]", *"王明在北京。", "[SEP]"]
    assert feature["token_type_ids"] == [0] * 8 + [1] * 7
    assert feature["offset_mapping"] == [None] * 8 + [
        (0, 1), (1, 2), (3, 4), (4, 5), (5, 6), (6, 7), None
    ]  # fmt: skip
    assert feature["example"] == 0
    assert answer_of(feature, context) == "北京"


@pytest.mark.parametrize("stride", [1, 3, 7, 11, 500])
def test_windows_cover_the_passage_and_map_back(tokenizer, stride):
    rng = random.Random(stride)
    for count in (1, 10, 11, 12, 13, 22, 23, 60):
        context = "".join(rng.choices("王明在上海北京 ☃Ａ", k=count)) + "北京"
        example = question(context)
        features = convert_qa_examples(
            [question("好"), example], tokenizer, 20, stride, 6, is_test=False
        )[1:]
        seen = set()
        for feature in features:
            assert feature["example"] == 1
            length = len(feature["input_ids"])
            assert length <= 20
            assert len(feature["token_type_ids"]) == len(feature["offset_mapping"]) == length
            inside = [pair for pair in feature["offset_mapping"] if pair]
            seen.update(inside)
            whole = [
                start
                for start in example["answer_starts"]
                if {(start, start + 1), (start + 1, start + 2)} <= set(inside)
            ]
            found = answer_of(feature, context)
            assert found == ("北京" if whole else None)
            if whole:  # the first of the accepted ones
                position = int(feature["start_positions"])
                assert feature["offset_mapping"][position][0] == whole[0]
        tokens, offsets = tokenize_with_offsets(context, tokenizer)
        assert seen == set(offsets)
        if len(tokens) > 11:
            step = min(stride, 11)
            assert len(features) == 1 + -(-(len(tokens) - 11) // step)


def test_windows_are_those_of_the_tokenizers_stride(tokenizer):
    """What is taught about stride: the same ids as PaddleNLP's own call on usual text."""
    example = question("王明在北京，" * 12)
    ours = convert_qa_examples([example], tokenizer, 32, 9, 16)
    upstream = tokenizer(
        [example["question"]], [example["context"]], max_length=32, stride=9, truncation=True,
        return_offsets_mapping=True,
    )  # fmt: skip
    assert len(ours) > 3
    assert [feature["input_ids"] for feature in ours] == upstream["input_ids"]
    assert [feature["token_type_ids"] for feature in ours] == upstream["token_type_ids"]
    for feature, mapping in zip(ours, upstream["offset_mapping"], strict=True):
        places = [i for i, pair in enumerate(feature["offset_mapping"]) if pair]
        assert [feature["offset_mapping"][i] for i in places] == [tuple(mapping[i]) for i in places]


@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        ("他买了iPhone手机", "Phone", "Phone"),
        ("他 在\u3000北 京 住", "北 京", "北 京"),
        ("在 北京 住", " 北京 ", "北京"),  # white space has no token
        ("在ＡＢＣ住", "ＡＢＣ", "ＡＢＣ"),
        ("在ＡＢＣ住", "Ｂ", "ＡＢＣ"),  # [UNK] as a whole: the smallest span that holds it
        ("在cafe\u0301住", "cafe\u0301", "cafe"),  # the accent alone is of no token
        ("😀在😀👍住", "😀👍", "😀👍"),
        ("在\n住", "\n", None),
    ],
)
def test_answers_among_unusual_characters(tokenizer, context, answer, expected):
    (feature,) = convert_qa_examples([question(context, answer)], tokenizer)
    assert answer_of(feature, context) == expected


def test_without_an_answer_both_positions_are_cls(tokenizer):
    row = question("王明在北京", answers=[], answer_starts=[])
    (feature,) = convert_qa_examples([row], tokenizer)
    assert feature["start_positions"] == feature["end_positions"] == 0
    (feature,) = convert_qa_examples([question("")], tokenizer)
    assert len(feature["input_ids"]) == 9
    bare = {"context": "王明在北京", "question": "谁？"}
    (feature,) = convert_qa_examples([bare], tokenizer, is_test=True)
    assert "start_positions" not in feature


def test_a_long_question_is_cut_and_the_passage_is_not(tokenizer):
    """PaddleNLP's own call never returns here: its window has a negative length."""
    row = question("王明在北京，" * 20, asked="谁" * 100)
    features = convert_qa_examples([row], tokenizer, 40, 10, 12)
    who = ids(tokenizer, "谁")
    assert all(feature["input_ids"].count(who) == 12 for feature in features)
    assert features[-1]["offset_mapping"][-2] == (119, 120)


def test_questions_are_mapped(tokenizer):
    data = MapDataset([question("王明在北京"), question("王明在北京，" * 9)])
    features = data.map(lambda rows: convert_qa_examples(rows, tokenizer, 32, 8, 16), batched=True)
    assert len(features) > 3
    assert [row["example"] for row in features] == [0] + [1] * (len(features) - 1)


def test_bad_arguments_and_answers_are_refused(tokenizer):
    row = question("王明在北京")
    with pytest.raises(InputError, match="max_seq_length: is 67; expected at least 68"):
        convert_qa_examples([row], tokenizer, 67)
    with pytest.raises(InputError, match="doc_stride: is 0"):
        convert_qa_examples([row], tokenizer, doc_stride=0)
    for start in (2, -2, 99):
        with pytest.raises(InputError, match=f"example q-1: the answer '北京' is not at {start}"):
            convert_qa_examples([{**row, "answer_starts": [start]}], tokenizer)
