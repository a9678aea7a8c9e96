"""Semantic search: encoders that learn, an index that finds, a reranker."""

import math
import random
import threading
import time

from course_lib.chapters.ch20 import (
    CharacterIndex,
    compare_search,
    meanings,
    paraphrase_search,
    recall_at_k,
    text_halves,
)
from course_lib.chapters.glosses import gloss
from course_lib.deploy import Predictor, export_model
from course_lib.runtime import InputError, seed_everything
from course_lib.tasks.search import (
    BiEncoder,
    CrossEncoder,
    SentenceIndex,
    encode,
    fuse,
    rerank,
    score_pairs,
    train_bi_encoder,
    train_cross_encoder,
)

import faiss
import numpy as np
import paddle
import pytest
import tiny
from paddlenlp.transformers import ErnieConfig, ErnieModel

# (about the same thing, in other characters): what no count of characters can see
THINGS = [("猫狗", "宠物"), ("书报", "阅读"), ("房床", "酒店"), ("键屏", "电脑")]
THINGS += [("车船", "交通"), ("米面", "粮食"), ("雨雪", "天气"), ("医药", "健康")]


@pytest.fixture(scope="module")
def tokenizer(make_tokenizer):
    letters = sorted(
        {letter for thing in THINGS for part in thing for letter in part} | set("的好")
    )
    return make_tokenizer(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *letters])


def small(tokenizer, seed=1, layers=1):
    seed_everything(seed)
    sizes = {**tiny.CONFIG, "num_attention_heads": 4, "num_hidden_layers": layers}
    return ErnieModel(ErnieConfig(vocab_size=len(tokenizer), **sizes))


def pairs_of(count, seed=0, things=8):
    """Two letters in any order and number, and the word for them."""
    draw = random.Random(seed)
    pairs = []
    for number in range(count):
        letters, word = THINGS[number % things]
        first = "".join(draw.choice(letters + "的") for _ in range(draw.randint(3, 6))) + letters[0]
        pairs.append((first, "好" * draw.randint(0, 3) + word))
    return pairs


@pytest.fixture(scope="module")
def trained(tokenizer):
    model = BiEncoder(small(tokenizer), tokenizer, max_length=16)
    losses = train_bi_encoder(model, pairs_of(256), epochs=4, batch_size=8, learning_rate=5e-3)
    return model, losses


# --- pairs out of texts ---------------------------------------------------------------------------


def test_a_text_is_cut_where_a_sentence_ends_nearest_to_its_middle():
    text = "早上下雨。我们在房间里等了两个小时。下午天晴了，去看了湖。"
    assert text_halves([text], min_length=4) == [
        ("早上下雨。我们在房间里等了两个小时。", "下午天晴了，去看了湖。")
    ]
    short = text_halves([text], min_length=4, max_length=5)
    assert short == [("两个小时。", "下午天晴了")]  # neighbors: the end, and the beginning
    texts = ["没有句号的一句话", "好。这是比较长的第二句话，足够长。", "！！！前面有标点的一句话。"]
    assert text_halves(texts, min_length=6) == []
    assert len(text_halves(texts, min_length=2)) == 1


def test_each_query_has_an_answer_and_differs_from_it():
    collection, numbers, queries, right = paraphrase_search()
    assert len(collection) == len(set(collection)) == len(numbers) and len(queries) == 80
    assert not {*queries} & {*collection} and {*right} <= {*numbers}
    assert not {*queries} & {text for group in meanings("train") for text in group}
    assert all(gloss(text) for text in [*collection, *queries])
    assert gloss("没有翻译") == "" != gloss(collection[0])


# --- the bi-encoder -------------------------------------------------------------------------------


def test_vectors_have_length_1_whatever_stands_beside_them_in_a_batch(tokenizer):
    model = BiEncoder(small(tokenizer), tokenizer, 16)
    texts = ["猫", "猫狗的房床键屏", "书报"]
    vectors = encode(model, texts, batch_size=3)
    assert vectors.shape == (3, 32) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(encode(model, [text])[0], vector, atol=1e-5)


def test_the_mean_is_that_of_the_real_tokens(tokenizer):
    model = BiEncoder(small(tokenizer), tokenizer)
    model.eval()
    ids = tokenizer("猫狗")["input_ids"]
    states = model.encoder(paddle.to_tensor([ids]))[0][0].numpy()
    mean = states.mean(axis=0)
    np.testing.assert_allclose(encode(model, ["猫狗"])[0], mean / np.linalg.norm(mean), atol=1e-5)


def test_training_teaches_what_characters_cannot_tell(tokenizer, trained):
    model, losses = trained
    queries, right = zip(*pairs_of(64, seed=9), strict=True)
    words = ["好" + word for _, word in THINGS]
    wanted = [next(i for i, (_, word) in enumerate(THINGS) if word in text) for text in right]

    def hits(vectors, documents):
        return float(((vectors @ documents.T).argmax(axis=1) == wanted).mean())

    raw = BiEncoder(small(tokenizer), tokenizer, max_length=16)
    assert hits(encode(raw, queries), encode(raw, words)) < 0.5
    assert hits(encode(model, queries), encode(model, words)) > 0.9
    assert losses[0] > math.log(8) - 0.5 and np.mean(losses[-8:]) < losses[0] / 2
    assert not model.training


def test_the_same_seed_gives_the_same_model(tokenizer):
    runs = []
    for seed in (1, 1, 2):
        model = BiEncoder(small(tokenizer), tokenizer)
        losses = train_bi_encoder(model, pairs_of(24), batch_size=8, seed=seed)
        runs.append((losses, encode(model, ["猫狗"])))
    assert runs[0][0] == runs[1][0] != runs[2][0]
    np.testing.assert_array_equal(runs[0][1], runs[1][1])


def test_a_text_is_no_negative_of_itself(tokenizer):
    """All pairs equal: nothing is left to be told apart, so there is no loss."""
    model = BiEncoder(small(tokenizer), tokenizer)
    before = encode(model, ["猫"])
    losses = train_bi_encoder(model, [("猫狗", "宠物")] * 8, batch_size=8, learning_rate=1e-3)
    assert losses == [pytest.approx(0, abs=1e-6)]
    np.testing.assert_allclose(encode(model, ["猫"]), before, atol=1e-3)
    apart = train_bi_encoder(model, pairs_of(8), batch_size=8)
    assert apart[0] > 0.5


def test_steps(tokenizer):
    model = BiEncoder(small(tokenizer), tokenizer)
    assert len(train_bi_encoder(model, pairs_of(17), batch_size=8)) == 2  # the 17th has no negative
    assert len(train_bi_encoder(model, pairs_of(18), batch_size=8, epochs=2)) == 6
    assert len(train_bi_encoder(model, pairs_of(18), batch_size=8, epochs=2, max_steps=4)) == 4


def test_a_loss_that_is_no_number_stops_the_training(tokenizer):
    model = BiEncoder(small(tokenizer), tokenizer)
    model.encoder.embeddings.word_embeddings.weight.set_value(
        paddle.full([len(tokenizer), 32], float("nan"))
    )
    with pytest.raises(InputError, match="the loss is nan at step 1"):
        train_bi_encoder(model, pairs_of(8))
    for steps, told in ((2, "the loss is nan at step 2"), (1, "the weights became infinite")):
        model = BiEncoder(small(tokenizer), tokenizer)
        with pytest.raises(InputError, match=told):
            train_bi_encoder(model, pairs_of(16), batch_size=8, learning_rate=1e39, max_steps=steps)


def test_an_export_gives_the_same_vectors(tokenizer, trained, tmp_path):
    model, _ = trained
    spec = [paddle.static.InputSpec([None, None], "int64", "input_ids")]
    predictor = Predictor(export_model(model, tmp_path, tokenizer, 16, spec), threads=1)
    with pytest.raises(InputError, match="export of a BiEncoder; expected one of a CrossEncoder"):
        score_pairs(predictor, pairs_of(2))
    texts = [first for first, _ in pairs_of(20)]
    np.testing.assert_allclose(encode(predictor, texts, 8), encode(model, texts, 8), atol=1e-4)


# --- the cross-encoder ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reranker(tokenizer):
    model = CrossEncoder(small(tokenizer, seed=2, layers=2), tokenizer, max_length=24)
    pairs = pairs_of(240, things=3)
    seconds = [second for _, second in pairs]  # things take turns: the next two are others
    wrong = [[seconds[(i + 1) % 240], seconds[(i + 2) % 240]] for i in range(240)]
    losses = train_cross_encoder(model, pairs, wrong, epochs=10, learning_rate=4e-3)
    return model, losses


def test_a_reranker_learns_what_belongs_together(reranker):
    model, losses = reranker
    assert losses[0] > math.log(3) - 0.5 and np.mean(losses[-8:]) < 0.3
    pairs = pairs_of(30, seed=8, things=3)
    right = score_pairs(model, pairs)
    assert right.shape == (30,)
    mixed = [(first, pairs[(i + 1) % 30][1]) for i, (first, _) in enumerate(pairs)]
    assert (right > score_pairs(model, mixed)).mean() > 0.9


def test_reranking_sorts_what_was_found_and_adds_nothing(reranker):
    model, _ = reranker
    words = ["好" + word for _, word in THINGS[:3]]
    queries = [first for first, _ in pairs_of(6, seed=4, things=3)]
    places = np.array([[*np.roll(np.arange(3), shift // 3), -1] for shift in range(6)])
    found = rerank(model, queries, words, places)
    assert found.shape == places.shape and (found[:, -1] == -1).all()
    for before, after in zip(places, found, strict=True):
        assert sorted(before) == sorted(after)
    scores = [score_pairs(model, [(queries[0], words[p])])[0] for p in found[0, :3]]
    assert scores == sorted(scores, reverse=True)
    assert (
        (found[:, 0] == np.arange(6) % 3).mean() > 0.8 > (places[:, 0] == np.arange(6) % 3).mean()
    )
    nothing = np.full((6, 2), -1)
    np.testing.assert_array_equal(rerank(model, queries, words, nothing), nothing)


def test_a_reranker_of_weights_that_are_no_numbers_is_refused(tokenizer):
    model = CrossEncoder(small(tokenizer), tokenizer, max_length=24)
    model.score.weight.set_value(paddle.full([32, 1], np.nan))
    with pytest.raises(InputError, match="scores are infinite or no numbers"):
        rerank(model, ["猫"], ["好", "狗"], np.array([[0, 1]]))


def test_a_rerankers_export_gives_the_same_scores(reranker, tokenizer, tmp_path):
    model, _ = reranker
    names = ("input_ids", "token_type_ids")
    spec = [paddle.static.InputSpec([None, None], "int64", name) for name in names]
    predictor = Predictor(export_model(model, tmp_path, tokenizer, 24, spec), threads=1)
    with pytest.raises(InputError, match="export of a CrossEncoder; expected one of a BiEncoder"):
        encode(predictor, ["猫"])
    pairs = pairs_of(20)
    np.testing.assert_allclose(score_pairs(predictor, pairs), score_pairs(model, pairs), atol=1e-3)


# --- the index ------------------------------------------------------------------------------------


def unit(count, size=16, seed=0):
    rows = np.random.RandomState(seed).randn(count, size).astype("float32")
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def filled(kind="flat", count=300, **options):
    index = SentenceIndex(16, kind, **options)
    index.add(unit(count), [f"句子{number}" for number in range(count)])
    return index


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf"])
def test_an_index_finds_the_nearest(kind):
    index = filled(kind, effort=64)
    queries = unit(20, seed=5)
    cosines, places = index.search(queries, 10)
    exact = np.argsort(-(queries @ unit(300).T), axis=1)[:, :10]
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(places, exact, strict=True)])
    assert shared == 1 if kind != "hnsw" else shared > 0.9
    if kind == "flat":
        np.testing.assert_array_equal(places, exact)
    products = np.take_along_axis(queries @ unit(300).T, places, axis=1)
    np.testing.assert_allclose(cosines, products, atol=1e-5)
    assert (np.diff(cosines, axis=1) <= 1e-6).all()
    assert index.sentences[7] == "句子7" and len(index) == 300
    first = index.search(unit(300), 1)[1]
    assert (first[:, 0] == np.arange(300)).mean() > 0.95


def test_effort_buys_recall():
    queries = unit(50, seed=5)
    exact = filled().search(queries, 1)[1]
    found = [filled("ivf", effort=effort).search(queries, 1)[1] for effort in (1, 16)]
    assert (found[0] == exact).mean() < 0.8 and (found[1] == exact).all()  # 16 groups in all


def test_what_is_added_later_is_found_and_missing_places_are_marked():
    index = filled("ivf", count=20)
    index.add(unit(3, seed=7), ["一", "二", "三"])
    cosines, places = index.search(unit(3, seed=7), 30)
    assert (places[:, 0] == [20, 21, 22]).all()
    assert (places[:, 23:] == -1).all() and np.isneginf(cosines[:, 23:]).all()
    assert (places[:, :23] >= 0).all()


@pytest.fixture(scope="module")
def repeated():
    """Vectors of 8,000 sentences, 20 different ones, in any order; and the 20."""
    different = unit(20)
    return different[np.random.RandomState(2).permutation(8000) % 20], different


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf"])
def test_repeated_sentences_are_all_found(kind, repeated, tmp_path):
    vectors, different = repeated
    index = SentenceIndex(16, kind, effort=16)
    for part in (slice(4000), slice(4000, None)):  # later ones are equal to earlier ones
        index.add(vectors[part], [f"句{row}" for row in range(8000)[part]])
    assert len(index) == 8000
    order = np.argsort(-(different @ vectors.T).round(6), axis=1, kind="stable")
    for one in (index, SentenceIndex.load(index.save(tmp_path / "index"))):
        assert (one.kind, one.size, one.effort, len(one.sentences)) == (kind, 16, 16, 8000)
        for count in (1, 10, 500):
            cosines, places = one.search(different, count)
            np.testing.assert_array_equal(places, order[:, :count])
            products = (vectors[places] * different[:, None]).sum(axis=2)
            np.testing.assert_allclose(cosines, products, atol=1e-5)
    one.add(-0.0 * unit(1) + different[3:4], ["新"])
    found = one.search(different[3:4], 500)[1][0]
    assert found[400] == 8000 and (vectors[found[:400]] == different[3]).all()
    fewer = SentenceIndex(16, kind, groups=1)
    fewer.add(different[[0, 0, 1]], ["一", "一", "二"])
    cosines, places = fewer.search(different[:1], 5)
    assert places.tolist() == [[0, 1, 2, -1, -1]] and np.isneginf(cosines[0, 3:]).all()


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf"])
def test_threads_add_and_search_while_others_save_and_load(kind, tmp_path, monkeypatch):
    serialize = faiss.serialize_index

    def slowly(index):
        content = serialize(index)
        time.sleep(0.005)  # another thread may add now, if nothing holds it
        return content

    monkeypatch.setattr("faiss.serialize_index", slowly)
    index, errors = SentenceIndex(16, kind, groups=4, effort=1000), []
    vectors, starts = unit(1000), iter(range(100, 1000, 10))
    index.add(vectors[:100], [f"句{n}" for n in range(100)])

    def add():
        for start in starts:
            sentences = [f"句{n}" for n in range(start, start + 10)]
            index.add(vectors[start : start + 10], sentences)
            places = index.search(vectors[start : start + 10], 1)[1][:, 0]
            assert [index.sentences[place] for place in places] == sentences

    def save():
        for _ in range(40):
            again = SentenceIndex.load(index.save(tmp_path / "index"))
            numbers = [int(sentence[1:]) for sentence in again.sentences[-20:]]
            last = again.search(vectors[numbers], 1)[1][:, 0]
            assert last.tolist() == [*range(len(again) - 20, len(again))]

    def caught(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=caught, args=[work]) for work in (add, add, save, save)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(index) == 1000
    assert [file.name for file in tmp_path.iterdir()] == ["index"]


def test_an_interrupted_add_is_not_searched_or_saved(tmp_path, monkeypatch):
    index = filled(count=20)
    monkeypatch.setattr(index, "_place", lambda digests: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index.add(unit(5, seed=3), ["新"] * 5)
    monkeypatch.undo()
    for use in (
        lambda: index.add(unit(5, seed=4), ["新"] * 5),
        lambda: index.search(unit(1)),
        lambda: index.save(tmp_path / "index"),
    ):
        with pytest.raises(InputError, match="a call of add was interrupted"):
            use()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["vectors.faiss", "sentences.json", "manifest.json"])
def test_a_damaged_index_is_refused(name, tmp_path):
    directory = filled(count=20).save(tmp_path)
    file = directory / name
    whole = file.read_bytes()
    for content in (whole[:-9], whole[:40] + b"9" + whole[41:], b"", None):
        file.unlink() if content is None else file.write_bytes(content)
        with pytest.raises(InputError, match=name):
            SentenceIndex.load(directory)


def test_files_of_two_indexes_are_refused(tmp_path):
    one, other = filled(count=20).save(tmp_path / "a"), filled(count=30).save(tmp_path / "b")
    (one / "sentences.json").write_bytes((other / "sentences.json").read_bytes())
    with pytest.raises(InputError, match=r"sentences\.json: is damaged or was changed"):
        SentenceIndex.load(one)


def test_wrong_vectors_are_refused_and_change_nothing():
    index = filled(count=20)
    nan, long = unit(2), 2 * unit(2)
    nan[1, 3] = np.nan
    cases = [
        (nan, ["一", "二"], "row 1 has length nan"),
        (long, ["一", "二"], "length 2"),
        (unit(2, size=8), ["一", "二"], "shape"),
        (unit(3), ["一", "二"], "shape"),
        (unit(2), ["一", " "], "empty"),
        (unit(1), "一", "one text"),
    ]
    for vectors, sentences, words in cases:
        with pytest.raises(InputError, match=words):
            index.add(vectors, sentences)
    assert len(index) == 20 and index.search(unit(1), 21)[1][0, 20] == -1
    for vectors in (nan, long, unit(2, size=8), unit(2)[0]):
        with pytest.raises(InputError):
            index.search(vectors)
    assert SentenceIndex(16).search(unit(1), 2)[1].tolist() == [[-1, -1]]


# --- the baseline, fusion, figures ----------------------------------------------------------------


def test_characters_find_what_shares_them():
    index = CharacterIndex(["房间很干净", "早餐太差", "屏幕很亮"])
    places = index.search(["房间干净吗", "早餐怎么样", "屏幕"], 2)
    assert places[:, 0].tolist() == [0, 1, 2] and places.shape == (3, 2)
    places = index.search(["猫", "间zzqx"], 5)  # what shares nothing is not found
    assert places.tolist() == [[-1] * 5, [0, *[-1] * 4]]
    assert fuse(places[:1], np.array([[3]]), count=4).tolist() == [[3, -1, -1, -1]]
    methods = {"characters": index.search}
    table = compare_search(methods, ["猫", "间"], [0, 0], (1, 10))
    assert table.loc["characters", ["recall@1", "recall@10"]].tolist() == [0.5, 0.5]


def test_fusing_goes_by_rank():
    one, other = np.array([[3, 1, 2]]), np.array([[1, 4, -1]])
    # 1: 1/62 + 1/61, 3: 1/61, 4: 1/62, 2: 1/63
    assert fuse(one, other, count=5).tolist() == [[1, 3, 4, 2, -1]]
    assert fuse(one, count=2).tolist() == [[3, 1]]


def test_recall_by_hand():
    places = np.array([[0, 1, 2], [1, 0, 2], [2, 1, -1], [0, 1, 2]])
    table = recall_at_k(places, [0, 0, 0, 2], counts=(1, 2, 3))
    assert table["recall"].tolist() == [0.25, 0.5, 0.75]
    assert (table["low"] <= table["recall"]).all() and (table["recall"] <= table["high"]).all()
    assert table.loc[1, "low"] == 0 and table.loc[1, "high"] < 1
    sure = recall_at_k(np.zeros((5, 1), int), [0] * 5, counts=(1,))
    assert sure.loc[1].tolist() == [1, 1, 1]


def test_an_index_leaves_somebodys_own_directory_alone(tmp_path):
    index = SentenceIndex(8)
    index.add(unit(3, 8), ["一", "二", "\ud800三"])
    (tmp_path / "thesis.txt").write_text("years")
    with pytest.raises(InputError, match="would be lost"):
        index.save(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "years"
    index.save(tmp_path / "new")
    index.save(tmp_path / "new")
    assert SentenceIndex.load(tmp_path / "new").sentences == index.sentences
