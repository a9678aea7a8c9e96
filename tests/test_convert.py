"""Weights between PyTorch's names and PaddleNLP's."""

import json

import course_lib
from course_lib.models import SPECIAL_TOKENS, convert, patches
from course_lib.runtime import InputError

import numpy as np
import paddle
import pytest
from paddlenlp.transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertForQuestionAnswering,
    ErnieConfig,
    ErnieForMaskedLM,
    ErnieForTokenClassification,
    model_utils,
)

SIZES = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}
LINEAR = "encoder.layer.1.intermediate.dense.weight"


def arrays(model) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in model.state_dict().items()}


@pytest.fixture
def masked_lm():
    course_lib.runtime.seed_everything(3)
    return ErnieForMaskedLM(ErnieConfig(**SIZES))


@pytest.mark.parametrize(
    ("model_class", "config", "prefix"),
    [
        (ErnieForMaskedLM, ErnieConfig, "ernie"),
        (ErnieForTokenClassification, ErnieConfig, "ernie"),
        (BertForQuestionAnswering, BertConfig, "bert"),
    ],
)
def test_round_trip_changes_no_bit(model_class, config, prefix):
    original = arrays(model_class(config(**SIZES)))
    torch = convert.to_torch(original, prefix)
    back = convert.to_paddle(torch, prefix)
    assert back.keys() == original.keys()
    for name, array in original.items():
        assert (back[name] == array).all(), name
    again = convert.to_torch(back, prefix)
    assert again.keys() == torch.keys()
    assert all((again[name] == torch[name]).all() for name in torch)


def test_names_and_shapes_are_hugging_faces(masked_lm):
    torch = convert.to_torch(arrays(masked_lm))
    assert torch["bert.embeddings.LayerNorm.weight"].shape == (12,)
    assert torch[f"bert.{LINEAR}"].shape == (20, 12)
    assert torch["cls.predictions.decoder.weight"].shape == (30, 12)
    assert torch["cls.predictions.bias"].shape == (30,)
    matrix = masked_lm.ernie.encoder.layers[1].linear1.weight.numpy()
    assert (torch[f"bert.{LINEAR}"] == matrix.T).all()


def test_a_linear_computes_the_same_on_both_sides(masked_lm):
    """y = x W^T + b with PyTorch's W is what Paddle's layer gives."""
    torch = convert.to_torch(arrays(masked_lm))
    x = np.random.RandomState(0).randn(4, 12).astype("float32")
    layer = masked_lm.ernie.encoder.layers[0].self_attn.k_proj
    name = "bert.encoder.layer.0.attention.self.key"
    by_hand = x @ torch[f"{name}.weight"].T + torch[f"{name}.bias"]
    np.testing.assert_allclose(layer(paddle.to_tensor(x)).numpy(), by_hand, atol=1e-6)


def test_index_tables_are_left_out_and_strangers_refused(masked_lm):
    torch = convert.to_torch(arrays(masked_lm))
    torch["bert.embeddings.position_ids"] = np.arange(16)[None]
    assert convert.to_paddle(torch).keys() == arrays(masked_lm).keys()
    with pytest.raises(InputError, match=r"transformer\.h\.0.*not a weight of BERT"):
        convert.to_paddle({"transformer.h.0.attn.weight": np.zeros((2, 2))})
    with pytest.raises(InputError, match=r"has shape .*a matrix"):
        convert.to_paddle({LINEAR: np.zeros(3)})


def save_hugging_face(directory, model) -> None:
    directory.mkdir()
    weights = convert.to_torch(arrays(model))
    weights = {n: a.astype("float16") for n, a in weights.items() if "decoder" not in n}
    convert.write_weights(directory / "model.safetensors", weights, "pt")
    (directory / "config.json").write_text(json.dumps({**SIZES, "model_type": "bert"}))
    words = [*SPECIAL_TOKENS, *"酒店很好不错房间干净服务热情早餐一般位置方便"][:30]
    (directory / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")


def test_a_directory_becomes_one_of_paddlenlp(masked_lm, tmp_path):
    save_hugging_face(tmp_path / "theirs", masked_lm)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("years")
    with pytest.raises(InputError, match=r"own: holds files, but no config\.json"):
        convert.convert_directory(tmp_path / "theirs", tmp_path / "own")
    ours = convert.convert_directory(tmp_path / "theirs", tmp_path / "ours")
    model = AutoModel.from_pretrained(str(ours))
    tokenizer = AutoTokenizer.from_pretrained(str(ours))
    model.eval()
    masked_lm.eval()
    ids = paddle.to_tensor([tokenizer("酒店很好")["input_ids"]])
    assert ids.tolist()[0][0] == 1
    np.testing.assert_allclose(model(ids)[0].numpy(), masked_lm.ernie(ids)[0].numpy(), atol=2e-2)
    as_lm = ErnieForMaskedLM.from_pretrained(str(ours))
    as_lm.eval()
    np.testing.assert_allclose(as_lm(ids).numpy(), masked_lm(ids).numpy(), atol=2e-2)


@pytest.mark.upstream
def test_upstream_still_cannot_load_a_bare_encoder_from_float16(masked_lm, tmp_path, monkeypatch):
    """When this fails, PaddleNLP has been fixed and the patch can go."""
    save_hugging_face(tmp_path / "theirs", masked_lm)
    ours = convert.convert_directory(tmp_path / "theirs", tmp_path / "ours")
    monkeypatch.setattr(model_utils, "_load_state_dict_into_model", patches.upstream_load_state)
    with pytest.raises(AssertionError, match="dtype not match"):
        AutoModel.from_pretrained(str(ours))


def test_damaged_and_mismatching_files_are_refused_in_words(masked_lm, tmp_path):
    save_hugging_face(tmp_path / "theirs", masked_lm)
    weights, config = tmp_path / "theirs/model.safetensors", tmp_path / "theirs/config.json"
    whole = weights.read_bytes()

    def refusal() -> str:
        with pytest.raises(InputError) as caught:
            convert.convert_directory(tmp_path / "theirs", tmp_path / "ours")
        assert not (tmp_path / "ours").exists()
        return str(caught.value)

    weights.write_bytes(whole[: len(whole) // 2])
    assert "model.safetensors: is damaged" in refusal()
    weights.write_bytes(whole)
    config.write_text(json.dumps({**SIZES, "hidden_size": 24}))
    assert "embeddings.layer_norm.bias is [12] there and [24] here, and " in refusal()
    config.write_text(json.dumps({**SIZES, "num_hidden_layers": 3}))
    assert "encoder.layers.2.linear1.bias is absent there and " in refusal()
    config.write_text("{")
    assert "config.json: is not JSON" in refusal()
    weights.unlink()
    config.write_text(json.dumps(SIZES))
    assert "model.safetensors: does not exist" in refusal()


@pytest.mark.upstream
@pytest.mark.skipif(paddle.get_device() != "cpu", reason="right on a GPU")
def test_a_frozen_layer_norm_derives_rightly(monkeypatch):
    def results(frozen: bool):
        paddle.seed(1)
        norm, value = paddle.nn.LayerNorm(8), paddle.rand([3, 8])
        norm.weight.set_value(paddle.rand([8]) + 0.5)
        norm.weight.stop_gradient, value.stop_gradient = frozen, False
        output = norm(value)
        (output * paddle.rand([3, 8])).sum().backward()
        return np.stack([output.numpy(), value.grad.numpy()])

    monkeypatch.setattr(paddle.nn.LayerNorm, "forward", patches.upstream_layer_norm)
    right = results(frozen=False)
    assert not np.allclose(results(frozen=True), right, atol=1e-2)  # or paddle has been fixed
    for forward in (patches._layer_norm, patches._normalize_then_scale):
        monkeypatch.setattr(paddle.nn.LayerNorm, "forward", forward)
        np.testing.assert_allclose(results(frozen=True), right, atol=1e-5)
