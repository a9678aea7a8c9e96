"""The text CNN, and words from PaddleNLP's JiebaTokenizer and Vocab."""

import json
import random

from course_lib.chapters.ch03 import WordTokenizer
from course_lib.data import create_dataloader
from course_lib.models import TextCNN, suggested_learning_rate
from course_lib.runtime import InputError, seed_everything
from course_lib.training import evaluate, fit, predict

import jieba
import numpy as np
import paddle
import pytest
from paddlenlp.data import JiebaTokenizer, Vocab
from paddlenlp.datasets import MapDataset

GOOD, BAD = ["干净", "满意", "喜欢", "漂亮"], ["糟糕", "失望", "肮脏", "吵闹"]
NEUTRAL = ["房间", "酒店", "笔记本", "电脑", "这本书", "内容", "服务", "我们"]


def reviews(count: int, seed: int) -> MapDataset:
    """A good or a bad word among neutral ones."""
    rng = random.Random(seed)
    rows = []
    for index in range(count):
        words = rng.choices(NEUTRAL, k=rng.randint(1, 9))
        words.insert(rng.randint(0, len(words)), rng.choice([BAD, GOOD][index % 2]))
        rows.append({"text": "，".join(words), "label": index % 2})
    return MapDataset(rows, label_list=["negative", "positive"])


def vocabulary_of(texts) -> Vocab:
    rows = [[word for word in jieba.lcut(text) if word.strip()] for text in texts]
    return Vocab.build_vocab(rows, min_freq=3, pad_token="[PAD]", unk_token="[UNK]")


@pytest.fixture(scope="module")
def tokenizer() -> WordTokenizer:
    return WordTokenizer(vocabulary_of([row["text"] for row in reviews(200, 0)]))


def build(**options):
    seed_everything(0)
    model = TextCNN(30, **options)
    model.eval()
    return model


def ids(*shape) -> np.ndarray:
    return np.random.RandomState(0).randint(1, 30, shape)


# --- the models -------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "length", "classes"), [(1, 1, 2), (3, 7, 5), (2, 300, 2)])
def test_shapes(rows, length, classes):
    batch = ids(rows, length)
    batch[0] = 0  # a row of padding alone
    logits = build(num_classes=classes)(paddle.to_tensor(batch))
    assert logits.shape == [rows, classes] and bool(paddle.isfinite(logits).all())


@pytest.mark.parametrize("pad_id", [0, 29])
def test_padding_changes_nothing(pad_id):
    model = build(pad_id=pad_id)
    rows = [1 + ids(length) % 28 for length in (1, 2, 5, 12)]
    alone = [model(paddle.to_tensor(row[None])).numpy()[0] for row in rows]
    for width in (12, 13, 40):
        batch = np.full((4, width), pad_id)
        for index, row in enumerate(rows):
            batch[index, : len(row)] = row
        together = model(paddle.to_tensor(batch), paddle.to_tensor(batch * 0))
        np.testing.assert_allclose(together.numpy(), alone, atol=1e-6)
    together.square().sum().backward()
    gradients = {name: parameter.grad.numpy() for name, parameter in model.named_parameters()}
    assert not gradients["embedding.weight"][pad_id].any()
    assert all(gradient.any() for gradient in gradients.values())


def test_order_matters_and_each_token_counts():
    model = build()
    row = np.arange(1, 9)[None]
    logits = model(paddle.to_tensor(row)).numpy()
    assert not np.allclose(model(paddle.to_tensor(row[:, ::-1].copy())).numpy(), logits)
    others = np.where(np.eye(8, dtype=bool), 20, row)
    changed = abs(model(paddle.to_tensor(others)).numpy() - logits).max(-1)
    assert (changed > 1e-7).all()


def test_it_learns_with_fit_and_predicts(tokenizer, tmp_path):
    seed_everything(1)
    train, dev = reviews(200, 0), reviews(60, 1)
    model = TextCNN(tokenizer.vocab_size, label_list=train.label_list)
    loaders = [
        create_dataloader(data, tokenizer, mode, 16, 32)
        for data, mode in ((train, "train"), (dev, "dev"))
    ]
    before = evaluate(model, loaders[1])["loss"]
    options = {"learning_rate": 5e-3, "progress": False, "output_dir": tmp_path}
    history = fit(model, *loaders, epochs=4, **options)
    assert history["dev_loss"][-1] < before / 2 and history["dev_accuracy"][-1] >= 0.95
    answers = predict(model, ["房间糟糕，我们失望", "这本书，喜欢"], tokenizer)
    assert [answer["label"] for answer in answers] == ["negative", "positive"]
    assert suggested_learning_rate(model) == 1e-3

    again = TextCNN(tokenizer.vocab_size)
    fit(again, *loaders, epochs=4, **options, resume=True)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name].numpy(), value.numpy())


# --- words ------------------------------------------------------------------------------------


def test_encoding(tokenizer):
    encoded = tokenizer("这本书喜欢 飞机", max_length=9, truncation=True)
    words = tokenizer.tokenize("这本书喜欢 飞机")
    assert "".join(words) == "这本书喜欢飞机" and len(encoded["input_ids"]) == len(words)
    assert tokenizer.unk_token_id in encoded["input_ids"]
    assert encoded["token_type_ids"] == [0] * len(words)
    assert len(tokenizer("房间" * 90, max_length=5, truncation=True)["input_ids"]) == 5
    assert len(tokenizer("房间" * 90)["input_ids"]) == 90
    assert tokenizer(" \n")["input_ids"] == tokenizer("")["input_ids"] == [1]


def test_a_vocabulary_that_cannot_work_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"^vocabulary: has no pad_token"):
        WordTokenizer(Vocab.from_dict({"[UNK]": 0, "好": 1}, unk_token="[UNK]"))
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n好\n坏\n好\n", encoding="utf-8")
    repeated = Vocab.load_vocabulary(str(path), pad_token="[PAD]", unk_token="[UNK]")
    with pytest.raises(InputError, match=r"^vocabulary: its ids leave numbers out"):
        WordTokenizer(repeated)


@pytest.mark.upstream
def test_what_is_corrected_of_jiebatokenizer():
    """When the first half fails, upstream knows the beginnings of words: the correction can go."""
    vocabulary = Vocab.build_vocab([["笔记本", "很", "好"]], pad_token="[PAD]", unk_token="[UNK]")
    assert JiebaTokenizer(vocabulary).cut("笔记本很好", use_hmm=False) != ["笔记本", "很", "好"]
    assert WordTokenizer(vocabulary).tokenize("笔记本很好") == ["笔记本", "很", "好"]


@pytest.mark.upstream
def test_asking_the_mapping_itself_for_an_unknown_word_spoils_the_vocabulary():
    """Upstream: token_to_idx is a defaultdict. Ask the Vocab: it adds nothing."""
    vocabulary = Vocab.build_vocab([["好"]], pad_token="[PAD]", unk_token="[UNK]")
    assert vocabulary["坏"] == vocabulary["[UNK]"] and len(vocabulary.token_to_idx) == 3
    assert vocabulary.token_to_idx["坏"] == vocabulary["[UNK]"]
    assert "坏" in vocabulary
    names = json.loads(vocabulary.to_json())["token_to_idx"]
    assert Vocab.from_json(vocabulary.to_json()).to_tokens(1) == "坏"
    assert names["坏"] == 1
