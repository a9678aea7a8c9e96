"""The backbone that ships, and what it was pretrained on."""

import gzip
import importlib.util
from pathlib import Path

from course_lib import runtime
from course_lib.data import load_reviews, people_daily
from course_lib.models import load_backbone, suggested_learning_rate
from course_lib.models.files import read_saved
from course_lib.runtime.manifest import read_manifest

import numpy as np
import paddle
import pytest
from paddlenlp.transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    ErnieTokenizer,
)

DIRECTORY = runtime.data_dir() / "backbone"
ROOT = Path(__file__).parents[1]
SENTENCE = "房间很干净，服务也不错。"  # The room is very clean, the service is not bad either.


@pytest.fixture(scope="module")
def ids(tokenizer):
    return paddle.to_tensor([tokenizer(SENTENCE)["input_ids"]])


def test_it_is_small_and_holds_no_pickle():
    files = list(DIRECTORY.iterdir())
    assert sum(file.stat().st_size for file in files) <= 25e6
    assert {file.suffix for file in files} == {".json", ".md", ".safetensors", ".txt"}


def test_each_file_that_a_model_is_made_of_is_listed_with_its_hash():
    names = {file.name for file in DIRECTORY.iterdir()} - {"manifest.json", "README.md"}
    assert set(read_manifest(DIRECTORY)) == names
    read_saved(DIRECTORY)


@pytest.mark.parametrize(
    ("model_class", "options", "shapes"),
    [
        (AutoModelForSequenceClassification, {"num_classes": 3}, [[1, 3]]),
        (AutoModelForTokenClassification, {"num_classes": 7}, [[1, 14, 7]]),
        (AutoModelForMaskedLM, {}, [[1, 14, 7649]]),
        (AutoModelForQuestionAnswering, {}, [[1, 14], [1, 14]]),
    ],
)
def test_heads_load(model_class, options, shapes, ids):
    model = model_class.from_pretrained(str(DIRECTORY), **options)
    model.eval()
    assert [scores.shape for scores in paddle.utils.flatten(model(ids))] == shapes
    encoder = AutoModel.from_pretrained(str(DIRECTORY))
    assert all(p.dtype == paddle.float32 for p in model.parameters())
    saved = encoder.encoder.layers[2].linear1.weight.numpy()
    assert (model.ernie.encoder.layers[2].linear1.weight.numpy() == saved).all()


def test_load_backbone_takes_it_by_default(ids, monkeypatch):
    monkeypatch.delenv("COURSE_BACKBONE", raising=False)
    model, tokenizer = load_backbone(num_classes=2)
    encoder = AutoModel.from_pretrained(str(DIRECTORY))
    weights = encoder.embeddings.word_embeddings.weight.numpy()
    assert (model.ernie.embeddings.word_embeddings.weight.numpy() == weights).all()
    assert isinstance(tokenizer, ErnieTokenizer)
    assert suggested_learning_rate(model) == 2e-4


def test_hidden_states_are_what_pytorch_computed(ids):
    """Frozen when the weights were converted; PyTorch gave the same to 1e-5."""
    model = AutoModel.from_pretrained(str(DIRECTORY))
    model.eval()
    sequence, pooled = model(ids)
    expected = {
        "first": [-0.8692, 0.5274, 0.3722, 0.7377],
        "third": [-2.1506, 0.4534, 0.6282, 1.3217],
        "pooled": [0.2831, 0.1163, 0.5368, -0.4472],
    }
    found = {"first": sequence[0, 0], "third": sequence[0, 3], "pooled": pooled[0]}
    for name, values in expected.items():
        np.testing.assert_allclose(found[name][:4].numpy(), values, atol=2e-4)
    assert float(sequence.mean()) == pytest.approx(0.008473, abs=1e-4)
    assert float(sequence.std()) == pytest.approx(0.848885, abs=1e-3)


def test_it_guesses_a_hidden_character(tokenizer):
    model = AutoModelForMaskedLM.from_pretrained(str(DIRECTORY))
    model.eval()
    ids = tokenizer("房间很干[MASK]，服务也不错。")["input_ids"]
    scores = model(paddle.to_tensor([ids]))[0, ids.index(tokenizer.mask_token_id)]
    assert tokenizer.convert_ids_to_tokens(int(scores.argmax())) == "净"


def test_nothing_common_is_unknown(tokenizer):
    ascii_text = "".join(map(chr, range(0x21, 0x7F)))
    words = "Windows XP iPhone4S naïve 2.4GHz QQ12345 zyxwvq"
    punctuation = "，。！？、；：“”‘’（）《》【】—…·￥～"
    chinese = "".join(
        bytes((row, cell)).decode("gb2312", errors="ignore")
        for row in range(0xB0, 0xF8)
        for cell in range(0xA1, 0xFF)
    )
    for text in (ascii_text, " ".join(ascii_text), words, punctuation, chinese):
        assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]
    special = tokenizer.convert_ids_to_tokens(list(range(5)))
    assert special == ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]


@pytest.fixture(scope="module")
def prepare():
    spec = importlib.util.spec_from_file_location("prepare", ROOT / "tools/backbone/prepare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def squeeze(text: str) -> str:
    return "".join(text.split())


def pieces(text: str) -> set[str]:
    text = squeeze(text)
    return {text[start : start + 8] for start in range(len(text) - 7)}


def test_no_dev_or_test_text_is_in_the_pretraining_input(prepare):
    """Written anew here, so that a mistake in the fence does not hide itself."""
    kept, stopped = prepare.allowed(prepare.course_paragraphs())
    assert len(kept) > 25_000
    assert stopped["reviews"] == 0  # the split has seen to it
    where: dict[str, list[int]] = {}
    sizes, whole = [], set()
    for number, (_, text) in enumerate(kept):
        whole.add(squeeze(text))
        own = pieces(text)
        sizes.append(len(own))
        for piece in own:
            where.setdefault(piece, []).append(number)
    held_out = [e["text"] for dataset in load_reviews(("dev", "test")) for e in dataset]
    lines = people_daily.split_lines()
    held_out += [people_daily.text(line) for name in ("dev", "test") for line in lines[name]]
    assert len(held_out) > 7000
    for text in held_out:
        assert squeeze(text) not in whole
        own = pieces(text)
        shared: dict[int, int] = {}
        for piece in own:
            for number in where.get(piece, ()):
                shared[number] = shared.get(number, 0) + 1
        for number, common in shared.items():
            assert common < 0.6 * min(len(own), sizes[number]), (text[:40], kept[number])


def test_the_fence_stops_what_is_planted(prepare):
    review = next(e["text"] for e in load_reviews("test") if len(e["text"]) > 60)
    rows = [
        ("law", review),
        ("law", "第一条 " + review[:50] + "。"),
        ("law", review[10:25]),
        ("law", "第一条 为了规范古树名木的保护工作，制定本条例。"),
    ]
    kept, stopped = prepare.allowed(rows)
    assert kept == rows[3:]
    assert stopped["law"] == 3


def test_the_last_tenth_of_a_document_is_held_out(prepare, tmp_path):
    works = ["\ufeff《一》" + "甲", *(f"第{n}段" for n in range(19)), "\ufeff《二》乙", *"丙丁"]
    (tmp_path / "novels.txt.gz").write_bytes(gzip.compress("\n".join(works).encode()))
    rows = list(prepare.read_documents(tmp_path))
    assert [text for *_, text, out in rows if out] == ["第17段", "第18段"]
    assert {document for _, document, *_ in rows} == {"一", "二"}
    kept, stopped = prepare.allowed([("law", "第18段"), ("law", "第19段")], ["第18段"])
    assert kept == [("law", "第19段")] and stopped["law"] == 1
