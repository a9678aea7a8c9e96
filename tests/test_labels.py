"""Uneven classes, learning curves, augmentation: each recipe's effect, and bad input."""

import copy
from collections import Counter

import course_lib  # noqa: F401
from course_lib.chapters.ch15 import compare_imbalance, imbalance_table
from course_lib.data import load_reviews, tokenize_with_offsets
from course_lib.runtime import InputError, data_dir
from course_lib.tasks.labels import (
    FillWords,
    Finetune,
    FocalLoss,
    FrozenBackbone,
    augment,
    best_threshold,
    labeled_subset,
    make_imbalanced,
    over_sample,
    tfidf_learner,
    under_sample,
)
from course_lib.tasks.vocabulary import add_words

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import training_runs
from paddlenlp.datasets import MapDataset
from paddlenlp.transformers import AutoModelForMaskedLM, ErnieConfig, ErnieForMaskedLM
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score


def rows(*counts):
    """So many examples of class 0, 1, ..., mixed."""
    labels = np.repeat(np.arange(len(counts)), counts)
    np.random.RandomState(0).shuffle(labels)
    examples = [{"text": f"文本{i}", "label": int(one), "id": i} for i, one in enumerate(labels)]
    return MapDataset(examples, label_list=[str(one) for one in range(len(counts))])


def counts(dataset):
    return Counter(row["label"] for row in dataset)


def ids(dataset):
    return [row["id"] for row in dataset]


# --- sampling


def test_a_class_is_made_rare_at_the_ratio_asked_for():
    data = rows(300, 400, 200)
    made = make_imbalanced(data, 20, rare=0)
    assert counts(made) == {0: 20, 1: 400, 2: 200}
    assert ids(made) == sorted(ids(made)) and made.label_list == data.label_list
    assert ids(made) == ids(make_imbalanced(data, 20, rare=0))
    assert ids(made) != ids(make_imbalanced(data, 20, rare=0, seed=1))
    assert counts(make_imbalanced(rows(300, 400), 20, 0, max_examples=210)) == {0: 10, 1: 200}
    assert len(data) == 900, "the data passed in stays as it is"


@pytest.mark.parametrize(
    "data, options, names",
    [
        (rows(5, 400), {"ratio": 20}, "20 leaves 20 of 5"),
        (rows(5, 10), {"ratio": 1, "rare": 2}, "of 0 examples of class 2"),
    ],
)
def test_what_cannot_be_made_uneven_is_refused(data, options, names):
    with pytest.raises(InputError, match=names):
        make_imbalanced(data, **options)


def test_sampling_keeps_the_small_class_whole_and_repeats_its_examples_alike():
    data = rows(10, 200, 30)
    less = under_sample(data)
    assert counts(less) == {0: 10, 1: 10, 2: 10}
    assert len(set(ids(less))) == 30, "no example twice"
    rare = {row["id"] for row in data if row["label"] == 0}
    assert rare <= set(ids(less))
    assert ids(less) != ids(under_sample(data, seed=1))
    data = rows(30, 100)
    more = over_sample(data)
    assert counts(more) == {0: 100, 1: 100}
    assert ids(more)[:130] == ids(data), "what was there stays, copies stand behind it"
    times = Counter(row["id"] for row in more if row["label"] == 0)
    assert len(times) == 30 and set(times.values()) == {3, 4}


# --- the loss


def test_focal_loss_is_its_formula_and_without_gamma_cross_entropy():
    random = np.random.RandomState(0)
    logits = paddle.to_tensor(3 * random.randn(12, 3), "float32")
    labels = paddle.to_tensor(random.randint(3, size=12), "int64")
    assert float(FocalLoss(0)(logits, labels)) == pytest.approx(
        float(F.cross_entropy(logits, labels)), rel=1e-6
    )
    weights = [0.5, 2.0, 1.0]
    each = F.cross_entropy(logits, labels, reduction="none").numpy()
    expected = np.mean(each * np.array(weights)[labels.numpy()])
    assert float(FocalLoss(0, weights)(logits, labels)) == pytest.approx(expected, rel=1e-6)
    shaped = logits.reshape([3, 4, 3]), labels.reshape([3, 4])
    assert float(FocalLoss(2)(*shaped)) == pytest.approx(float(FocalLoss(2)(logits, labels)))
    true = F.softmax(logits.astype("float64")).numpy()[range(12), labels.numpy()]
    expected = np.mean(-((1 - true) ** 2) * np.log(true))
    assert float(FocalLoss(2.0)(logits, labels)) == pytest.approx(expected, rel=1e-5)


def test_sure_examples_give_numbers():
    for gamma in (0.0, 0.5, 2.0):
        sure = paddle.to_tensor([[0.0, 500.0], [500.0, 0.0]], stop_gradient=False)
        loss = FocalLoss(gamma)(sure, paddle.to_tensor([1, 1]))
        loss.backward()
        assert np.isfinite(float(loss)) and np.isfinite(sure.grad.numpy()).all()


def test_paddle_s_own_weights_cancel_in_a_batch_of_one_class():
    """Why the recipe has its own mean; when this fails, the chapter must be told."""
    logits, weights = paddle.to_tensor([[0.3, 1.0], [0.0, 2.0]]), [10.0, 0.5]
    labels = paddle.to_tensor([1, 1])
    theirs = paddle.nn.CrossEntropyLoss(weight=paddle.to_tensor(weights))(logits, labels)
    plain = float(F.cross_entropy(logits, labels))
    assert float(theirs) == pytest.approx(plain)
    assert float(FocalLoss(0, weights)(logits, labels)) == pytest.approx(0.5 * plain)


# --- the threshold


def test_the_best_threshold_is_the_best_of_all():
    random = np.random.RandomState(3)
    rare = random.rand(200) < 0.1
    values = random.rand(200) * 0.35 + 0.15 * rare
    limit = best_threshold(values, rare)
    scores = {t: f1_score(rare, values >= t, average="macro") for t in np.linspace(0, 1, 1001)}
    assert f1_score(rare, values >= limit, average="macro") >= max(scores.values()) - 1e-9
    assert limit < 0.5, "the rare class never gets more than a half here"


def test_a_threshold_that_changes_nothing_stays_at_one_half():
    assert best_threshold([0.9, 0.8, 0.1, 0.2], [True, True, False, False]) == 0.5
    assert best_threshold([0.3, 0.3, 0.3], [True, False, False]) == 0.5


# --- the comparison


def test_the_table_is_scikit_learn_s():
    random = np.random.RandomState(0)
    labels = (random.rand(300) < 0.8).astype(int)
    answers = {
        "nothing": np.where(random.rand(300) < 0.8, labels, 1),
        "better": np.where(random.rand(300) < 0.9, labels, 0),
    }
    table = imbalance_table(labels, answers)
    weights = np.where(labels == 0, 1 / (labels == 0).sum(), 20 / (labels == 1).sum())
    at_20 = imbalance_table(labels, answers, ratio=20)
    for name, answer in answers.items():
        for made, weight in ((table, None), (at_20, weights)):
            options = {"sample_weight": weight}
            expected = {
                "macro F1": f1_score(labels, answer, average="macro", **options),
                "accuracy": accuracy_score(labels, answer, **options),
                "recall": recall_score(labels, answer, pos_label=0, **options),
                "precision": precision_score(labels, answer, pos_label=0, **options),
            }
            assert made.loc[name, list(expected)].to_dict() == pytest.approx(expected)
    assert table["recall"].tolist() == pytest.approx(at_20["recall"].tolist())
    assert (at_20.loc["nothing"].filter(like="gain") == 0).all()
    row = at_20.loc["better"]
    assert row["gain"] == pytest.approx(row["macro F1"] - at_20.loc["nothing", "macro F1"])
    assert row["gain low"] < row["gain"] < row["gain high"]
    assert row["recall gain low"] <= row["recall gain"] <= row["recall gain high"]


def test_intervals_cover_what_they_say_and_pairs_are_pairs():
    """The spread of a difference of two recalls in closed form."""
    labels = np.array([0] * 200 + [1] * 400)
    plain, other = np.ones(600, int), np.ones(600, int)
    plain[:100] = 0
    other[:120] = 0  # the same hundred, and twenty more
    row = imbalance_table(labels, {"a": plain, "b": other}, resamples=4000).loc["b"]
    spread = 1.96 * np.sqrt(0.1 * 0.9 / 200)  # 20 of 200 differ, all in one direction
    assert row["recall gain"] == pytest.approx(0.1)
    assert row["recall gain high"] - row["recall gain low"] == pytest.approx(2 * spread, rel=0.06)


def test_several_seeds_are_averaged():
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    one, two = np.array([0, 0, 0, 1, 1, 1, 1, 1]), np.array([0, 1, 1, 1, 1, 1, 1, 0])
    both = imbalance_table(labels, {"a": np.stack([one, two]), "b": np.stack([two, one])})
    each = [imbalance_table(labels, {"a": answer}).loc["a"] for answer in (one, two)]
    for figure in ("macro F1", "recall", "precision", "accuracy"):
        assert both.loc["a", figure] == pytest.approx(np.mean([row[figure] for row in each]))
        assert both.loc["b", figure] == pytest.approx(both.loc["a", figure])
    assert both.loc["b", "gain low"] <= 0 <= both.loc["b", "gain high"]


def test_each_remedy_gets_its_data_and_its_loss():
    calls = {}

    def learner(train, criterion, seed):
        name = list(calls)[-1]
        calls[name] = (counts(train), criterion, seed)
        chances = {"nothing": 0.3}.get(name, 0.6)

        def classify(examples):
            values = np.full(len(examples), 0.1)
            values[[row["label"] == 0 for row in examples]] = chances
            return np.stack([values, 1 - values], axis=1)

        return classify

    data = [rows(10, 200), rows(4, 80), rows(20, 40)]
    found = compare_imbalance(learner, *data, seed=7, progress=lambda name: calls.update({name: 0}))
    assert [*found] == [*calls, "threshold"], "nothing is trained for the threshold"
    assert calls["nothing"][0] == calls["focal loss"][0] == {0: 10, 1: 200}
    assert calls["under-sampling"][0] == {0: 10, 1: 10}
    assert calls["over-sampling"][0] == {0: 200, 1: 200}
    assert calls["nothing"][1] is None
    assert calls["class weights"][1].weight.numpy() == pytest.approx([10.5, 0.525])
    assert calls["focal loss"][1].gamma == 2 and {one[2] for one in calls.values()} == {7}
    labels = np.array([row["label"] for row in data[2]])
    assert found["nothing"].tolist() == [1] * 60, "0.3 is below one half"
    assert (found["threshold"] == labels).all(), "and above the threshold that dev shows"


# --- learning curves


def test_subsets_are_balanced_and_lie_inside_each_other():
    data = rows(300, 200, 100)
    small, large = labeled_subset(data, 30), labeled_subset(data, 90)
    assert counts(small) == {0: 10, 1: 10, 2: 10}
    assert counts(large) == {0: 30, 1: 30, 2: 30}
    assert set(ids(small)) < set(ids(large)) and ids(large) == sorted(ids(large))
    assert ids(small) != ids(labeled_subset(data, 30, seed=1))
    assert counts(labeled_subset(data, 400)) == {0: 150, 1: 150, 2: 100}
    assert len(labeled_subset(data, 600)) == 600
    for size in (2, 601):
        with pytest.raises(InputError, match="size"):
            labeled_subset(data, size)


def test_a_linear_model_has_no_other_loss():
    with pytest.raises(InputError, match="criterion"):
        tfidf_learner(training_runs.dataset(20), FocalLoss())


def test_finetuning_learns_with_the_loss_and_for_the_steps_that_it_is_told(monkeypatch):
    import course_lib.tasks.labels.few_labels as labels

    data, test = training_runs.dataset(60), training_runs.dataset(40, seed=1)
    monkeypatch.setattr(
        labels, "load_backbone", lambda **_: training_runs.model_and_tokenizer(seed=1)
    )
    losses = []

    def criterion(logits, targets):
        losses.append(len(targets))
        return F.cross_entropy(logits, targets)

    learner = Finetune(steps=80, batch_size=8, max_seq_length=32, learning_rate=5e-3)
    classify = learner(data, criterion)
    assert len(losses) == 80 and set(losses) == {8, 4}
    answers = classify(test)
    assert answers.shape == (40, 2) and answers.sum(1) == pytest.approx(np.ones(40), abs=1e-5)
    assert np.mean(answers.argmax(1) == [row["label"] for row in test]) > 0.9
    assert (learner(data, criterion)(test) == answers).all(), "the same seed, the same bits"
    assert (learner(data, criterion, seed=1)(test) != answers).any()
    short = Finetune(steps=3, batch_size=8, max_seq_length=32)(data)(test)
    assert np.abs(short - 0.5).mean() < np.abs(answers - 0.5).mean()


def test_a_frozen_backbone_reads_each_text_once_and_learns_from_few():
    learner = FrozenBackbone(max_seq_length=24, steps=60)
    before = {name: value.numpy() for name, value in learner.encoder.state_dict().items()}
    train, test = load_reviews("train", 60), load_reviews("dev", 60)
    first, reads = learner.features(train), []
    assert first.shape == (60, 384)
    alone = learner.features(list(train)[7:8])[0]
    assert alone == pytest.approx(first[7], abs=1e-5), "padding does not count"
    answers = learner(train, None, 1)(train)
    right = np.mean(answers.argmax(1) == [row["label"] for row in train])
    assert right > 0.9 and answers.sum(1) == pytest.approx(np.ones(60), abs=1e-5)
    learner.encoder.register_forward_pre_hook(lambda layer, inputs: reads.append(inputs))
    assert (learner(train, None, 1)(train) == answers).all() and not reads
    weighted = learner(train, FocalLoss(0, [10.0, 0.1]), 1)(test)
    assert len(reads) == 2, "two batches of new texts"
    plain = learner(train, None, 1)(test)
    assert weighted[:, 0].mean() > plain[:, 0].mean() + 0.05, "the loss is the one asked for"
    after = learner.encoder.state_dict()
    assert all((after[name].numpy() == value).all() for name, value in before.items())


# --- augmentation


def texts():
    return MapDataset(
        [
            {"text": "房间很干净，早餐也不错", "label": 1},  # clean room, breakfast not bad either
            {"text": "服务态度太差了", "label": 0},  # the service was too bad
            {"text": "好", "label": 1},
        ],
        label_list=["negative", "positive"],
    )


def test_copies_have_the_label_of_their_original():
    def drop(text, random):  # of one character nothing would be left
        place = random.randint(len(text))
        return text[:place] + text[place + 1 :]

    data = texts()
    more = augment(data, drop, copies=2)
    assert [row["text"] for row in more][:3] == [row["text"] for row in data]
    assert more.label_list == data.label_list and len(data) == 3
    made = list(more)[3:]
    assert len(made) == 4
    for row in made:
        origin = data[row["made_from"]]
        assert row["label"] == origin["label"]
        assert len(row["text"]) == len(origin["text"]) - 1
    assert list(more) == list(augment(data, drop, copies=2))
    assert list(more) != list(augment(data, drop, copies=2, seed=1))


@pytest.fixture(scope="module")
def fill():
    return FillWords(rate=0.3, top=3)


def test_a_language_model_fills_whole_words_and_leaves_the_rest(fill):
    data = MapDataset([*load_reviews("train", 6), {"text": "WiFi 123 ！", "label": 0}])
    more = augment(data, fill)
    assert len(more) == 13, "where there is nothing Chinese, nothing is filled"
    for row in list(more)[7:]:
        origin = data[row["made_from"]]["text"]
        assert len(row["text"]) == len(origin)
        changed = [(a, b) for a, b in zip(origin, row["text"], strict=True) if a != b]
        assert 0 < len(changed) < len(origin)
        assert all("\u4e00" <= one <= "\u9fff" for pair in changed for one in pair)
    assert list(more) == list(augment(data, fill))


def test_words_that_were_added_and_special_tokens_stay(fill):
    tokenizer = copy.deepcopy(fill.tokenizer)
    model = AutoModelForMaskedLM.from_pretrained(str(data_dir() / "backbone"))
    add_words(model, tokenizer, ["充电宝", "WiFi很", "早餐"])
    with paddle.no_grad():  # the added words are the likeliest ones everywhere
        model.get_output_embeddings().bias[-3:] = 99
    text = "[SEP]房间有充电宝，[MASK]WIFI很快，早 餐也 不错"
    sizes = {"hidden_size": 8, "num_attention_heads": 1, "num_hidden_layers": 1}
    spare = ErnieForMaskedLM(ErnieConfig(vocab_size=9000, **sizes))  # the tokenizer has fewer
    for own in ((model, tokenizer), (spare, tokenizer), (fill.model, fill.tokenizer)):
        change = FillWords(*own, rate=0.9)
        made = change(text, np.random.RandomState(0))
        assert len(made) == len(text) and made != text
        for token, (begin, end) in zip(*tokenize_with_offsets(text, change.tokenizer), strict=True):
            assert made[begin:end] == text[begin:end] or len(token) == 1


def test_only_the_beginning_that_is_read_is_changed():
    fill = FillWords(rate=0.9, max_seq_length=12)
    text = "房间很干净" * 10
    made = fill(text, np.random.RandomState(0))
    assert made[10:] == text[10:] and made != text


# --- what users give


def test_tfidf_gives_a_column_for_each_class_also_without_examples():
    train = MapDataset(
        [{"text": text, "label": label} for text, label in [("好", 0), ("坏", 2)] * 3],
        label_list=["a", "b", "c", "d"],
    )
    classify = tfidf_learner(train)
    found = classify([{"text": "坏"}])
    assert found.shape == (1, 4) and found.argmax() == 2 and found[0, [1, 3]].tolist() == [0, 0]
