"""Backbones: fresh, saved, loaded, and refused in words."""

import json
import os
import shutil
import socket
import string
import tempfile

from course_lib.models import (
    SPECIAL_TOKENS,
    build_vocabulary,
    freeze_layers,
    load_backbone,
    save_model,
    suggested_learning_rate,
)
from course_lib.runtime import InputError, seed_everything

import numpy as np
import paddle
import pytest
from paddlenlp.transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    ErnieConfig,
    ErnieForMaskedLM,
    ErnieForSequenceClassification,
    ErnieModel,
    ErnieTokenizer,
)
from safetensors.numpy import load_file, save_file

TEXTS = ["今天天气很好，房间也很好", "笔记本 CPU i7 不错", "很好很好 ok"] * 3
SMALL = {
    "num_hidden_layers": 2,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*_):
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.delenv("COURSE_BACKBONE", raising=False)


def fresh(**settings):
    seed_everything(3)
    return load_backbone("fresh", vocab_texts=TEXTS, **{**SMALL, **settings})


@pytest.fixture
def saved(tmp_path):
    return save_model(*fresh(label_list=["negative", "positive"]), tmp_path / "model")


def logits(model, tokenizer, text="今天房间很好"):
    model.eval()
    encoded = tokenizer(text)
    ids = paddle.to_tensor([encoded["input_ids"]])
    return model(ids, paddle.to_tensor([encoded["token_type_ids"]])).numpy()


def test_no_latin_letter_digit_or_common_punctuation_is_unknown():
    _, tokenizer = load_backbone("fresh", vocab_texts=["好是吗真的书"] * 3, **SMALL)
    text = "".join(reversed(string.ascii_letters + string.digits))
    for each in (string.printable, text, "“好”，是吗？（真的！）《书》……——、；：￥5"):
        assert "[UNK]" not in tokenizer.tokenize(each)


def test_what_the_vocabulary_was_built_from_is_spelled(tmp_path):
    text = "ΟΔΟΣ ｜ 1\u20e3 か\u3099x हिन्दी İst e\u0301x Ⅷa 〇b µm ﬁn"
    tokens = build_vocabulary([text], min_count=1)
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    tokenizer = ErnieTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=True)
    assert "[UNK]" not in tokenizer.tokenize(text)
    vocabulary = build_vocabulary(["É好", "é好", "e\u0301好", "罕"], min_count=3)
    assert "好" in vocabulary and "##e" in vocabulary
    assert not {"罕", "É", "é"} & set(vocabulary)


def test_every_vocabulary_token_is_one_that_the_tokenizer_produces():
    _, tokenizer = fresh()
    for token in tokenizer.vocab.token_to_idx:
        if token in SPECIAL_TOKENS:
            continue
        text = f"a{token[2:]}" if token.startswith("##") and len(token) > 2 else token
        assert token in tokenizer.tokenize(text), token


def test_the_same_seed_gives_the_same_weights():
    (first, _), (second, _) = fresh(), fresh()
    for name, value in first.state_dict().items():
        assert (value.numpy() == second.state_dict()[name].numpy()).all()


def test_round_trip_without_network(saved):
    model, tokenizer = fresh()
    expected = logits(model, tokenizer)
    loaded, loaded_tokenizer = load_backbone(saved)
    auto = AutoModelForSequenceClassification.from_pretrained(str(saved))
    auto_tokenizer = AutoTokenizer.from_pretrained(str(saved))
    assert type(loaded) is type(auto) is ErnieForSequenceClassification
    assert type(loaded_tokenizer) is type(auto_tokenizer) is ErnieTokenizer
    assert loaded.training
    np.testing.assert_array_equal(logits(loaded, loaded_tokenizer), expected)
    np.testing.assert_array_equal(logits(auto, auto_tokenizer), expected)
    assert loaded.config.id2label == {0: "negative", 1: "positive"}
    files = {path.name for path in saved.iterdir()}
    assert {"config.json", "model.safetensors", "vocab.txt"} <= files
    assert not any(name.endswith((".pdparams", ".bin", ".pkl")) for name in files)


def test_saving_what_was_loaded_and_saving_again_over_it(saved):
    model, tokenizer = load_backbone(saved)
    save_model(model, tokenizer, saved)
    again, tokenizer = load_backbone(saved)
    np.testing.assert_array_equal(logits(again, tokenizer), logits(model, tokenizer))
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_an_encoder_gets_a_new_head_and_keeps_its_weights(tmp_path):
    model, tokenizer = fresh()
    model.ernie.save_pretrained(str(tmp_path / "encoder"), safe_serialization=True)
    tokenizer.save_pretrained(str(tmp_path / "encoder"))
    loaded, _ = load_backbone(tmp_path / "encoder", num_classes=4)
    assert isinstance(model.ernie, ErnieModel)
    assert loaded.classifier.weight.shape == [16, 4]
    for name, value in model.ernie.state_dict().items():
        assert (value.numpy() == loaded.ernie.state_dict()[name].numpy()).all(), name


def test_weights_in_paddles_own_format_load_too(saved, tmp_path):
    model, tokenizer = load_backbone(saved)
    model.save_pretrained(str(tmp_path / "old"), safe_serialization=False)
    tokenizer.save_pretrained(str(tmp_path / "old"))
    loaded, tokenizer = load_backbone(tmp_path / "old")
    np.testing.assert_array_equal(logits(loaded, tokenizer), logits(model, tokenizer))
    weights = tmp_path / "old" / "model_state.pdparams"
    weights.write_bytes(weights.read_bytes()[:500])
    with pytest.raises(InputError, match=r"model_state.pdparams: is damaged"):
        load_backbone(tmp_path / "old")


def test_every_file_of_a_model_may_be_read_by_whom_the_umask_lets(tmp_path):
    before = os.umask(0o022)
    try:
        save_model(*fresh(), tmp_path / "model")
    finally:
        os.umask(before)
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "model").iterdir()} == {0o644}


def test_which_backbone_is_the_default(saved, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    with pytest.raises(InputError, match="vocab_texts"):
        load_backbone()
    shutil.copytree(saved, tmp_path / "backbone")
    shipped, _ = load_backbone()
    assert shipped.config.hidden_size == 16
    monkeypatch.setenv("COURSE_BACKBONE", "fresh")
    chosen, _ = load_backbone(vocab_texts=TEXTS)
    assert chosen.config.hidden_size != 16


def test_a_model_may_know_its_learning_rate(saved):
    model, _ = load_backbone(saved)
    assert suggested_learning_rate(model) == suggested_learning_rate(fresh()[0]) > 5e-5
    del model.config.suggested_learning_rate
    assert suggested_learning_rate(model) == 5e-5


def edit_config(directory, **values):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def edit_vocab(directory, change):
    path = directory / "vocab.txt"
    tokens = change(path.read_text(encoding="utf-8").splitlines())
    path.write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")


def drop_weight(directory, *names):
    path = directory / "model.safetensors"
    weights = load_file(path)
    for name in names:
        del weights[name]
    save_file(weights, path, metadata={"format": "np"})


def no(name):
    return lambda directory: (directory / name).unlink()


def holds(name, content):
    return lambda directory: (directory / name).write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"hidden_size": 24}, "model.safetensors: does not fit"),
        ({"num_hidden_layers": 3}, "[24] here, and 15 more weights differ"),
        ({"num_hidden_layers": 1}, "absent here, and 15 more weights differ"),
        ({"architectures": ["Nothing"]}, "config.json: is of Nothing"),
        ({"architectures": ["ErnieForTokenClassification"]}, "is of Ernie"),
        ({"id2label": ["a", "b"]}, 'its id2label is ["a", "b"]'),
        ({"id2label": {"0": "a", "2": "b"}}, "a name of its own for each id"),
        ({"id2label": {"0": "a", "1": "a"}}, "its id2label is"),
        ({"id2label": {"0": "a"}}, "names 1 classes in id2label"),
        ({"id2label": {"0": "\ud800", "1": "b"}}, "config.json: is not JSON"),
        ({"vocab_size": 7}, "vocab.txt: has"),
        (no("config.json"), "has no config.json"),
        (holds("config.json", b"{"), "config.json: is not JSON"),
        (holds("config.json", b"[]"), "config.json: is a JSON list, not an"),
        (no("model.safetensors"), "has no weights"),
        (holds("model.safetensors", b""), "model.safetensors: is damaged"),
        (no("vocab.txt"), "has no vocab.txt"),
        (holds("vocab.txt", b"\xff\n"), "vocab.txt: cannot be read"),
        (holds("tokenizer_config.json", b"{"), "its tokenizer cannot be loaded"),
        (lambda d: drop_weight(d, "classifier.bias"), "classifier.bias is absent there"),
        (lambda d: edit_vocab(d, lambda tokens: tokens[1:]), "vocab.txt: has"),
        (lambda d: edit_vocab(d, lambda tokens: [*tokens, "新"]), "vocab.txt: has"),
        (lambda d: edit_vocab(d, lambda tokens: ["x" + t for t in tokens]), "cannot be loaded"),
        (lambda d: edit_vocab(d, lambda tokens: ["x", "y", *tokens[2:]]), "vocab.txt: lacks [PAD]"),
    ],
)
def test_a_directory_that_is_not_right(saved, damage, message):
    (saved / "manifest.json").unlink()  # so that it is the content that counts
    edit_config(saved, **damage) if isinstance(damage, dict) else damage(saved)
    with pytest.raises(InputError) as error:
        load_backbone(saved)
    assert message in str(error.value) and str(saved) in str(error.value)
    assert "\n" not in str(error.value)


def test_an_embedding_rounded_up_to_thousands_is_no_fault(tmp_path):
    _, tokenizer = fresh()
    model = ErnieForSequenceClassification(ErnieConfig(vocab_size=1000, num_labels=2, **SMALL))
    save_model(model, tokenizer, tmp_path / "m")
    (tmp_path / "m" / "manifest.json").unlink()
    edit_vocab(tmp_path / "m", lambda tokens: [*tokens, *map(str, range(979 - len(tokens)))])
    load_backbone(tmp_path / "m")
    edit_vocab(tmp_path / "m", lambda tokens: tokens[:900])
    with pytest.raises(InputError, match="has 900 tokens; expected 1000"):
        load_backbone(tmp_path / "m")


def test_a_trained_classifier_is_asked_for(saved):
    model, _ = load_backbone(saved, trained=True)
    assert model.config.id2label == {0: "negative", 1: "positive"}
    config = json.loads((saved / "config.json").read_text())
    (saved / "manifest.json").unlink()
    for name, problem in (("id2label", "no id2label"), ("architectures", "no task")):
        edited = {key: value for key, value in config.items() if key != name}
        (saved / "config.json").write_text(json.dumps(edited))
        with pytest.raises(InputError, match=f"is not a trained classifier: it has {problem}"):
            load_backbone(saved, trained=True)
    (saved / "config.json").write_text(json.dumps(config))
    drop_weight(saved, "classifier.weight", "classifier.bias")
    load_backbone(saved)
    with pytest.raises(InputError, match="is not a trained classifier: it has no classifier head"):
        load_backbone(saved, trained=True)
    for name in ("fresh", "ernie-3.0-medium-zh"):
        with pytest.raises(InputError, match=f"^{name}: is not a directory"):
            load_backbone(name, vocab_texts=TEXTS, trained=True)


def test_a_masked_language_model_gets_a_random_head_and_is_not_trained(saved, tmp_path):
    model = ErnieForMaskedLM.from_pretrained(str(saved))
    model.save_pretrained(str(tmp_path / "mlm"), safe_serialization=True)
    shutil.copy(saved / "vocab.txt", tmp_path / "mlm")
    shutil.copy(saved / "tokenizer_config.json", tmp_path / "mlm")
    loaded, _ = load_backbone(tmp_path / "mlm", num_classes=3)
    assert loaded.classifier.weight.shape == [16, 3]
    with pytest.raises(InputError, match="is of ErnieForMaskedLM"):
        load_backbone(tmp_path / "mlm", trained=True)


def test_names_of_classes_are_checked():
    with pytest.raises(InputError, match=r"^label_list: repeats"):
        fresh(label_list=["a", "a"])
    with pytest.raises(InputError, match=r"^num_classes: is 3; expected 2, as many as label_list"):
        fresh(label_list=["a", "b"], num_classes=3)


def test_a_fresh_tokenizer_leaves_nothing_behind_and_can_be_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model, tokenizer = fresh()
    assert list(tmp_path.iterdir()) == []
    save_model(model, tokenizer, tmp_path / "m")
    assert str(tmp_path) not in (tmp_path / "m" / "tokenizer_config.json").read_text()
    _, again = load_backbone(tmp_path / "m")
    assert again.vocab.token_to_idx == tokenizer.vocab.token_to_idx


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ({"label_list": ["negative", "positive"]}, None),
        ({"num_classes": 2}, None),
        ({"label_list": ["positive", "negative"]}, "for negative, positive, not for positive, neg"),
        ({"label_list": ["差", "好"]}, "not for 差, 好: its encoder is kept, and its head starts"),
        ({"label_list": ["差", "中", "好"]}, "not for 差, 中, 好"),
        ({"num_classes": 3}, "not for 3 classes"),
    ],
)
def test_a_head_is_kept_for_its_own_classes_only(saved, options, warning, recwarn):
    before, _ = load_backbone(saved)
    before.classifier.bias.set_value(paddle.ones([2]))
    save_model(before, load_backbone(saved)[1], saved)
    seed_everything(5)
    loaded, _ = load_backbone(saved, **options)
    messages = [str(one.message) for one in recwarn if one.category is UserWarning]
    names = list(loaded.config.id2label.values())
    assert len(names) == loaded.config.num_labels == loaded.classifier.weight.shape[1]
    assert names == options.get("label_list", names)
    kept = loaded.classifier.bias.tolist() == [1, 1]
    old, new = before.state_dict(), loaded.state_dict()
    same = {name for name in old if np.array_equal(old[name].numpy(), new[name].numpy())}
    assert same | {"classifier.weight", "classifier.bias"} == set(old)
    if warning is None:
        assert kept and same == set(old) and not messages
    else:
        assert len(messages) == 1 and warning in messages[0] and str(saved) in messages[0]
        assert loaded.classifier.bias.abs().sum() == 0 and "classifier.weight" not in same
        assert 0.01 < float(loaded.classifier.weight.std()) < 0.03  # initializer_range is 0.02
        with pytest.raises(InputError, match=r"was trained for negative, positive"):
            load_backbone(saved, trained=True, **options)


def test_a_head_is_not_kept_where_a_late_one_of_many_names_differs(tmp_path):
    """The warning lists five names; the comparison has to see them all."""
    save_model(*fresh(label_list=list("abcdefg")), tmp_path / "m")
    with pytest.warns(UserWarning, match=r"for a, b, c, d, e, ... \(7 classes\): .* starts again"):
        load_backbone(tmp_path / "m", label_list=list("abcdegf"))


def test_places_that_hold_no_model_or_take_none(tmp_path):
    (tmp_path / "file").write_text("mine")
    for name, problem in (
        (tmp_path / "file", "file: is a file; expected a directory"),
        (tmp_path / "nothing", "does not exist"),
        ("no-such-model", "^no-such-model: .*no network"),
    ):
        with pytest.raises(InputError, match=problem):
            load_backbone(name)
    with pytest.raises(InputError, match="file"):
        save_model(*fresh(), tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_frozen_layers_keep_their_weights_and_the_others_learn():
    model, _ = fresh()
    freeze_layers(model, 1)
    before = {name: value.numpy() for name, value in model.named_parameters()}
    optimizer = paddle.optimizer.SGD(1.0, parameters=model.parameters())
    model(paddle.to_tensor([[1, 6, 2]])).pow(2).sum().backward()
    optimizer.step()
    changed = {
        name
        for name, value in model.named_parameters()
        if not np.array_equal(value.numpy(), before[name])
    }
    assert not any("embeddings" in name or "layers.0." in name for name in changed)
    assert any("layers.1." in name for name in changed)
    assert any("classifier" in name for name in changed)
    freeze_layers(model, 0)
    assert not any(parameter.stop_gradient for parameter in model.parameters())
    freeze_layers(model.ernie, 2)  # an encoder without a head
    assert all(parameter.stop_gradient for parameter in model.ernie.encoder.parameters())
    assert not any(parameter.stop_gradient for parameter in model.ernie.pooler.parameters())
