"""Chapter 15a's plain layer, and what fails in paddlenlp.prompt (mended? correct its table)."""

from course_lib.chapters.ch15a import PromptClassifier
from course_lib.runtime import data_dir

import pytest
from paddlenlp import prompt
from paddlenlp.transformers import AutoModelForMaskedLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(str(data_dir() / "backbone"))
masked_lm = AutoModelForMaskedLM.from_pretrained(str(data_dir() / "backbone"))


def run(template, words, **options):
    form = prompt.AutoTemplate.create_from(template, tokenizer, 32)
    words = prompt.ManualVerbalizer(words, tokenizer, **options)
    asked = prompt.PromptModelForSequenceClassification(masked_lm, form, words)
    collate = prompt.prompt_utils.PromptDataCollatorWithPadding(tokenizer)
    batch = collate([form({"text": one}) for one in "好差"])
    return asked(**batch).numpy(), batch


def test_the_plain_layer_agrees_with_the_library():
    found, batch = run("很{'mask'}。{'text': 'text'}", {0: "差", 1: "好"})
    at = {"position_ids": batch["position_ids"]}
    layer = PromptClassifier(lambda *ids, **more: masked_lm(*ids, **more, **at), tokenizer, "差好")
    assert layer(batch["input_ids"]).numpy() == pytest.approx(found, abs=1e-3)


@pytest.mark.upstream
def test_verbalizers_multiply_logarithms_and_permute_classes(tmp_path):
    pair = "很{'mask': None, 'length': 2}。{'text': 'text'}", {0: "失望", 1: "不错"}
    product, gaps = (run(*pair, mask_aggregate_type=kind)[0] for kind in ("product", None))
    assert product == pytest.approx(gaps.prod(axis=1), rel=1e-3)
    prompt.ManualVerbalizer(dict(enumerate("甲乙丙丁戊己庚辛壬癸子")), tokenizer).save(tmp_path)
    assert prompt.ManualVerbalizer.load_from(tmp_path, tokenizer).labels[2] == "10"
