"""Words found, kept whole, added with sensible vectors, saved, hidden, and measured."""

import copy

from course_lib import runtime
from course_lib.chapters.ch16 import vector_effect, vocabulary_table
from course_lib.data import tokenize_with_offsets
from course_lib.models import build_vocabulary, load_backbone, save_model
from course_lib.runtime import InputError, seed_everything
from course_lib.tasks.vocabulary import (
    DictionaryEncoder,
    add_words,
    cut_first,
    cutter,
    find_words,
    load_with_words,
    pretrain_words,
)

import numpy as np
import paddle
import pandas as pd
import pytest
import tiny
from paddlenlp.transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BasicTokenizer,
    ErnieConfig,
    ErnieForMaskedLM,
    ErnieForQuestionAnswering,
    ErnieForSequenceClassification,
    ErnieForTokenClassification,
    ErnieModel,
    ErnieTokenizer,
)

TEXTS = [
    "这款笔记本的性价比很高，散热也好",
    "酒店的服务态度很差，房间隔音不行",
    "笔记本屏幕不错，Windows XP 驱动难找",
    "前台的服务态度一般，性价比不高",
    "研究生命的起源",
] * 4
WORDS = ["笔记本", "性价比", "服务态度"]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join(build_vocabulary(TEXTS, min_count=1)) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def tokenizer(vocabulary):
    return ErnieTokenizer(str(vocabulary), do_lower_case=True)


def build(kind=ErnieForMaskedLM, **more):
    seed_everything(5)
    rows = len(build_vocabulary(TEXTS, min_count=1))
    model = kind(ErnieConfig(**{"vocab_size": rows, **tiny.CONFIG, **more}))
    with paddle.no_grad():
        for parameter in model.parameters():  # biases, too
            parameter.set_value(parameter + 0.1 * paddle.randn(parameter.shape))
    model.eval()
    return model


def flat(outputs):
    tensors = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return np.concatenate([tensor.numpy().ravel() for tensor in tensors])


# --- finding words --------------------------------------------------------------------------------


def corpus():
    """散热 sticks together, 价比 always follows 性, 没有 is a word of everyday Chinese."""
    near = "的了是在我他她很也都"
    texts = [f"{a}散热{b}{a}性价比{b}{a}没有{b}" for a in near for b in near]
    return [*texts, *(f"{a}{b}" for a in near for b in near)]


def test_words_are_found_by_their_rules():
    frame = find_words(corpus(), min_count=50, min_pmi=2).set_index("word")
    assert list(frame.index) == ["性价比", "散热", "没有"]
    assert frame["count"].tolist() == [100, 100, 100]
    row = frame.loc["散热"]
    characters = sum(map(len, corpus()))
    assert row["pmi"] == pytest.approx(np.log2(100 * characters / (100 * 100)))
    assert row["neighbor"] == pytest.approx(0.1)
    limit = frame.loc["没有", "surprise"] + 0.1  # jieba has seen it often
    special = find_words(corpus(), min_count=50, min_pmi=2, min_surprise=limit)
    assert list(special["word"]) == ["性价比", "散热"]
    pieces = find_words(corpus(), min_count=50, min_pmi=2, max_neighbor=1)
    assert {"性价", "价比"} <= set(pieces["word"])
    assert len(find_words(corpus(), max_words=1, min_count=50, min_pmi=2)) == 1
    assert find_words(corpus(), min_count=50, min_pmi=12).empty


# --- keeping them whole ---------------------------------------------------------------------------


def test_a_line_in_the_vocabulary_alone_is_never_found(vocabulary, tmp_path):
    """Why words are added with add_tokens: Chinese is cut before WordPiece looks."""
    path = tmp_path / "vocab.txt"
    path.write_text(vocabulary.read_text(encoding="utf-8") + "笔记本\n", encoding="utf-8")
    naive = ErnieTokenizer(str(path))
    assert naive.convert_tokens_to_ids("笔记本") == naive.vocab_size - 1
    assert naive.tokenize("笔记本") == ["笔", "记", "本"]
    assert BasicTokenizer().tokenize("笔记本") == ["笔", "记", "本"]


def test_the_cutters_agree_but_where_words_overlap():
    longest, likeliest = cutter(WORDS), cutter(WORDS, "jieba")
    for text in [*TEXTS, "", " 笔记本 ", "性价比性价比"]:
        assert "".join(longest(text)) == "".join(likeliest(text)) == text
        assert longest(text) == likeliest(text)
    assert longest("这款笔记本的性价比") == ["这款", "笔记本", "的", "性价比"]
    words = ["研究生", "研究", "生命"]
    assert cutter(words)("研究生命的起源") == ["研究生", "命的起源"]
    assert cutter(words, "jieba")("研究生命的起源") == ["研究", "生命", "的起源"]
    assert cutter(["服务", "服务态度"])("服务态度") == ["服务态度"]


ODD = ["冯·诺依曼", "宝马(进口)", "*st海航", "GPU显卡", "ＧＰＵ", "İst", "充电", "充电宝"]


def test_words_with_symbols_and_capitals_stay_whole_by_both_ways():
    for by in ("longest", "jieba"):
        cut = cutter(ODD, by)
        for word in [*ODD, *map(str.lower, ODD), *map(str.upper, ODD)]:
            assert cut(f"买{word}，İ") == ["买", word, "，İ"], by
    for text in ("打IP电话", "打ip电话"):  # jieba's own word is the likelier one
        assert cutter(["电话"], "jieba")(text) == [text]


def test_a_cut_by_added_words_gives_the_tokenizers_own_tokens():
    tokenizer = ErnieTokenizer.from_pretrained(str(runtime.data_dir() / "backbone"))
    tokenizer.add_tokens(ODD)
    other = copy.deepcopy(tokenizer)
    cut_first(other, cutter(ODD))
    pieces = [
        *ODD,
        *map(str.upper, ODD),
        *"充电宝马进口海航gpU([) \t，",
        "[SEP]",
        "[sep]",
        "[MASK]",
    ]
    random = np.random.default_rng(0)
    for _ in range(300):
        text = "".join(random.choice(pieces, random.integers(12)))
        assert other.tokenize(text) == tokenizer.tokenize(text), text
        assert tokenize_with_offsets(text, other) == tokenize_with_offsets(text, tokenizer)
    cut_first(other, cutter(ODD, "jieba"))
    assert other.tokenize("买gpu显卡[SEP]冯·诺依曼") == ["买", "gpu显卡", "[SEP]", "冯·诺依曼"]
    assert tokenize_with_offsets("GPU显卡[SEP]x", other)[1] == [(0, 5), (5, 10), (10, 11)]


# --- adding them ----------------------------------------------------------------------------------

HEADS = {
    ErnieForMaskedLM: AutoModelForMaskedLM,
    ErnieForSequenceClassification: AutoModelForSequenceClassification,
    ErnieForTokenClassification: AutoModelForTokenClassification,
    ErnieForQuestionAnswering: AutoModelForQuestionAnswering,
    ErnieModel: ErnieModel,
}


@pytest.mark.parametrize("kind", HEADS)
def test_old_texts_give_the_same_before_after_and_loaded_again(kind, tokenizer, tmp_path):
    model = build(kind)
    rows = len(tokenizer)
    ids = paddle.to_tensor([tokenizer("房间隔音不行")["input_ids"]])
    before = model(ids)
    added = add_words(model, tokenizer, WORDS)
    assert added == [rows, rows + 1, rows + 2] and len(tokenizer) == rows + 3
    assert model.config.vocab_size == rows + 3
    after = model(ids)
    if kind is ErnieForMaskedLM:
        assert after.shape[-1] == rows + 3
        assert np.array_equal(after.numpy()[..., :rows], before.numpy())
    else:
        assert np.array_equal(flat(after), flat(before))
    save_model(model, tokenizer, tmp_path / "model")
    again, loaded = load_with_words(tmp_path / "model", HEADS[kind])
    again.eval()
    assert len(loaded) == again.get_input_embeddings().weight.shape[0] == rows + 3
    with_words = paddle.to_tensor([loaded("笔记本的性价比")["input_ids"]])
    assert with_words.shape == [1, 5]
    assert np.array_equal(flat(again(with_words)), flat(model(with_words)))
    assert loaded.tokenize("笔记本的性价比") == ["笔记本", "的", "性价比"]


def fresh(tokenizer):
    tokenizer.added_tokens_encoder.clear()
    tokenizer.added_tokens_decoder.clear()
    return tokenizer


@pytest.mark.upstream
def test_upstream_still_forgets_the_second_bias(tmp_path):
    """When this fails, `_grow` can be `resize_token_embeddings`."""
    model = build()
    rows = model.config.vocab_size
    model.resize_token_embeddings(rows + 2)
    assert model.cls.predictions.decoder_bias.shape == [rows]
    assert model.cls.predictions.decoder.bias.shape == [rows + 2]
    model.save_pretrained(str(tmp_path))
    with pytest.raises(RuntimeError, match="decoder_bias"):
        ErnieForMaskedLM.from_pretrained(str(tmp_path))


def test_the_first_vectors(tokenizer):
    parts = tokenizer.convert_tokens_to_ids(tokenizer.tokenize("笔记本"))
    for vectors in ("mean", "random", "zero"):
        model, own = build(), fresh(tokenizer)
        old = model.get_input_embeddings().weight.numpy()
        bias = model.cls.predictions.decoder.bias.numpy()
        paddle.seed(3)
        state = paddle.get_rng_state()[0].current_seed()
        word = add_words(model, own, ["笔记本"], vectors, seed=1)[0]
        assert paddle.get_rng_state()[0].current_seed() == state
        head = model.cls.predictions
        assert head.decoder.weight is model.get_input_embeddings().weight  # tied
        assert head.decoder_bias is head.decoder.bias
        vector, new_bias = head.decoder.weight.numpy()[word], float(head.decoder.bias[word])
        if vectors == "mean":
            assert np.allclose(vector, old[parts].mean(axis=0))
            assert new_bias == pytest.approx(bias[parts].mean())
        elif vectors == "zero":
            assert not vector.any() and new_bias == 0
        else:
            assert 0.005 < vector.std() < 0.05 and new_bias == 0
            other = build()
            add_words(other, fresh(tokenizer), ["笔记本"], vectors, seed=2)
            assert not np.array_equal(other.get_input_embeddings().weight.numpy()[word], vector)


def test_a_frozen_embedding_stays_frozen(tokenizer):
    model = build()
    model.get_input_embeddings().weight.stop_gradient = True
    add_words(model, tokenizer, WORDS)
    assert model.get_input_embeddings().weight.stop_gradient


def test_rows_to_spare_are_used_first(tokenizer, tmp_path):
    """Published ERNIEs have 40,000 rows for 39,981 tokens."""
    model = build(vocab_size=1000)
    ids = add_words(model, tokenizer, WORDS)
    assert ids[0] == len(tokenizer) - 3 and model.config.vocab_size == 1000
    save_model(model, tokenizer, tmp_path / "model")
    with pytest.raises(InputError, match=r"tokens.*1000"):  # far too many to spare
        load_with_words(tmp_path / "model", AutoModelForMaskedLM)


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["笔记 本"], "words"),
        (["x[MASK]"], "special token"),
        (["笔"], "笔 is a token"),
        (["性价比", "性价比"], "性价比"),
        (["Zz", "zz"], "zz"),
    ],
)
def test_adding_refuses_and_changes_nothing(words, where, tokenizer):
    model, tokens = build(), len(tokenizer)
    with pytest.raises(InputError, match=where):
        add_words(model, tokenizer, words)
    assert (len(tokenizer), model.config.vocab_size) == (tokens, tokens)


def test_a_tokenizer_that_is_ahead_of_its_model_is_refused(tokenizer):
    tokenizer.add_tokens(["性价比"])
    with pytest.raises(InputError, match="tokenizer"):
        add_words(build(), tokenizer, ["笔记本"])


def test_loading_refuses_what_does_not_fit(tokenizer, tmp_path):
    model = build()
    add_words(model, tokenizer, WORDS)
    directory = save_model(model, tokenizer, tmp_path / "model")
    added = directory / "added_tokens.json"
    content = added.read_text(encoding="utf-8")
    added.unlink()
    with pytest.raises(InputError, match="tokens"):
        load_with_words(directory, AutoModelForMaskedLM)
    added.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="added_tokens"):
        load_with_words(directory, AutoModelForMaskedLM)
    added.write_text(content.replace("性价比", "性比价"), encoding="utf-8")
    with pytest.raises(InputError, match=r"added_tokens\.json: is damaged or was changed"):
        load_with_words(directory, AutoModelForMaskedLM)
    (directory / "manifest.json").unlink()
    load_with_words(directory, AutoModelForMaskedLM)
    (directory / "model.safetensors").unlink()
    with pytest.raises(InputError, match="has no weights"):
        load_with_words(directory, AutoModelForMaskedLM)
    with pytest.raises(InputError, match=r"config\.json"):
        load_with_words(tmp_path, AutoModelForMaskedLM)


def test_load_backbone_takes_a_classifier_with_words(tokenizer, tmp_path):
    model = build(ErnieForSequenceClassification)
    model.config.id2label = {0: "bad", 1: "good"}
    add_words(model, tokenizer, WORDS)
    save_model(model, tokenizer, tmp_path / "model")
    again, loaded = load_backbone(tmp_path / "model", trained=True)
    assert len(loaded) == again.config.vocab_size
    assert loaded.tokenize("性价比") == ["性价比"]
    (tmp_path / "model" / "added_tokens.json").unlink()
    with pytest.raises(InputError, match="tokens"):
        load_backbone(tmp_path / "model")


# --- what the first vectors are worth -------------------------------------------------------------


def test_the_effect_of_the_vectors(vocabulary):
    def load():
        return build(), ErnieTokenizer(str(vocabulary))

    frame = vector_effect(load, WORDS, TEXTS, hidden=0.4)
    assert list(frame.index) == ["characters", "mean", "random", "zero"]
    assert frame.loc["characters", "distance"] == pytest.approx(0, abs=1e-6)
    assert (frame["distance"].iloc[1:] > 1e-4).all()
    assert frame["loss"].notna().all() and (frame["loss"] > 0).all()
    assert np.isnan(frame.loc["characters", "word found"])
    assert frame["word found"].iloc[1:].between(0, 1).all()
    assert frame.attrs["texts"] == 16 and frame.attrs["hidden"] > 10
    pd.testing.assert_frame_equal(frame, vector_effect(load, WORDS, TEXTS, hidden=0.4))

    frame = vector_effect(load, ["笔记本"], ["笔记本好", "没有"], hidden=0.99)
    tokenizer = ErnieTokenizer(str(vocabulary))
    ids = tokenizer("笔记本好")["input_ids"]
    hide = [*ids[:4], tokenizer.mask_token_id, ids[5]]
    loss = paddle.nn.functional.cross_entropy(
        build()(paddle.to_tensor([hide]))[0, 4:5], paddle.to_tensor(ids[4:5])
    )
    assert frame.loc["characters", "loss"] == pytest.approx(float(loss), abs=1e-5)


# --- whole words ----------------------------------------------------------------------------------


def test_words_of_the_dictionary_begin_once(tokenizer):
    encoder = DictionaryEncoder(tokenizer, ["性价比很高", "研究生"])
    for text in [*TEXTS, "é Café\tnaïve", "3.5GB"]:
        ids, _ = encoder(text)
        assert ids == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert encoder("性价比很高，")[1] == [True, False, False, False, False, True]
    assert encoder("研究生命")[1] == [True, False, False, True]
    alone = DictionaryEncoder(tokenizer, [], "characters")
    assert alone("性价比 Windows")[1][:4] == [True] * 4
    assert not any(alone("windows")[1][1:])  # pieces of one Latin word


def test_words_are_found_in_the_tokenizers_case(tokenizer, vocabulary):
    texts = ["windows驱动", "Windows驱动 很难找"]
    assert DictionaryEncoder(tokenizer, ["WINDOWS驱动"])(texts[0])[1].count(True) == 1

    def load():
        return build(), ErnieTokenizer(str(vocabulary))

    assert vector_effect(load, ["Windows驱动"], [*texts, "好"] * 9, 0.5).attrs["texts"] == 9


def test_second_pretraining_learns_the_words_that_it_has_read(tokenizer):
    options = {"epochs": 30, "batch_size": 4, "learning_rate": 1e-2, "mask_rate": 0.3}
    history = pretrain_words(build(), tokenizer, TEXTS, WORDS, progress=False, **options)
    assert len(history["loss"]) == 30 * 5
    assert np.mean(history["loss"][-10:]) < np.mean(history["loss"][:10]) - 1
    with pytest.raises(InputError, match="max_seq_length: lets 23 tokens pass"):
        pretrain_words(build(max_position_embeddings=20), tokenizer, TEXTS, WORDS)


# --- what it gives --------------------------------------------------------------------------------


def test_the_table_pairs_reviews_over_seeds():
    label = [0, 1] * 20
    first = pd.DataFrame({"label": label, "a": label, "b": label})
    first["b"] = [1 - value if i < 10 else value for i, value in enumerate(label)]
    second = first.assign(b=label)
    for run in (first, second):
        run.attrs["tokens"] = {"a": 10.0, "b": 8.0}
    table = vocabulary_table([first, second])
    assert table.loc["a", "accuracy"] == 1 and table.loc["b", "accuracy"] == 0.875
    assert table.loc["b", "difference"] == -0.125
    assert table.loc["b", "low"] < -0.125 < table.loc["b", "high"] < 0
    assert np.isnan(table.loc["a", "difference"])
    assert table["tokens"].tolist() == [10, 8]
    assert vocabulary_table([first]).loc["b", "accuracy"] == 0.75
