"""Chapter 13: labels for a model in the style of UIE, its training, and files for Taskflow."""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from course_lib.data import LengthGroupedBatchSampler
from course_lib.data.spans import Span, bio_spans
from course_lib.training.steps import train_steps

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional

# Prompts of a person, a place, an organization; of an aspect, its opinion word and degree word.
PROMPTS = {"PER": "人名", "LOC": "地名", "ORG": "机构名"}
ASPECT, OPINION, DEGREE = "评价维度", "观点词", "程度词"

# Rules that stand in for an annotator: an aspect, words of degree, an opinion, side by side.
_ASPECTS = (
    "服务态度 服务 态度 房间 卫生间 早餐 地理位置 位置 交通 环境 设施 价格 性价比 隔音 空调 床 "
    "前台 大堂 屏幕 键盘 外观 外形 做工 散热 电池 速度 系统 声音 配置 性能 风扇 触摸板 内存 "
    "显卡 质量 内容 文字 情节 故事 印刷 纸张 纸质 包装 语言 文笔 翻译 装帧 插图 字体 送货 物流"
)
_DEGREES = (
    "都 也 还 还是 还算 很 也很 非常 比较 太 真 真的 挺 十分 有点 有些 更 相当 超 蛮 确实 的确 "
    "实在 特别 极 最 算 够 较 就 是 又 显得 感觉 可以说 不 不太 不够 不是 不是很 不算"
)
_OPINIONS = (
    "干净 整洁 舒服 舒适 宽敞 不错 好 差 一般 丰富 热情 周到 方便 便利 便宜 贵 漂亮 清晰 陈旧 "
    "旧 小 大 吵 安静 冷淡 优美 精美 生动 流畅 精彩 感人 细腻 幽默 粗糙 模糊 合理 实惠 简单 "
    "简陋 慢 快 低 高 强 弱 齐全 完善 优越 时尚 大方 满意 糟糕 恶劣 深刻 空洞 枯燥 通俗 朴实 "
    "优秀 稳定 灵敏 新颖 难吃 好吃 可口 新鲜 清楚 严重 及时 破旧 温馨 友好 耐心"
)
HELD_OUT = ("早餐", "屏幕", "印刷", "漂亮", "陈旧", "丰富")  # words that training never sees


def _any(words: str) -> str:
    return "|".join(sorted(words.split(), key=len, reverse=True))


_RULE = re.compile(
    f"({_any(_ASPECTS)})((?:{_any(_DEGREES)})*)({_any(_OPINIONS)})(?!像|多|几|姐|堂|概|部|硬)"
)


def _entity(number: int, label: str, start: int, end: int) -> dict[str, Any]:
    return {"id": number, "label": label, "start_offset": start, "end_offset": end}


def news_records(
    dataset: Iterable[Mapping], label_list: Sequence[str], longest: int = 48
) -> list[dict[str, Any]]:
    """The first characters of tagged sentences as doccano exports entities and relations."""
    names, records = list(PROMPTS.values()), []
    for example in dataset:
        spans = sorted(bio_spans(example["labels"][:longest], label_list))
        entities = [_entity(i, names[kind], *ends) for i, (*ends, kind) in enumerate(spans)]
        text = "".join(example["tokens"][:longest])
        records.append({"text": text, "entities": entities, "relations": []})
    return records


def review_records(reviews: Iterable[Mapping], longest: int = 40) -> list[dict[str, Any]]:
    """Records of sentences with an aspect that has an opinion and perhaps a degree word."""
    records = []
    for sentence in (s for r in reviews for s in re.findall(r"[^。！？!?；;…\n ]+", r["text"])):
        found = list(_RULE.finditer(sentence)) if 6 <= len(sentence) <= longest else []
        entities: list[dict[str, Any]] = []
        relations: list[dict[str, Any]] = []
        for match in found:
            first = len(entities)
            for label, group in ((ASPECT, 1), (OPINION, 3), (DEGREE, 2)):
                if match[group]:
                    entities.append(_entity(len(entities), label, *match.span(group)))
                if match[group] and group > 1:
                    ends = {"from_id": first, "to_id": len(entities) - 1}
                    relations.append({"id": len(relations), **ends, "type": label})
        if found:
            records.append({"text": sentence, "entities": entities, "relations": relations})
    return records


def training_clauses(reviews: Iterable[Mapping], count: int | None) -> list[dict[str, Any]]:
    """`review_records` without the held-out words, those with the most aspects first.

    Only a sentence with two aspects teaches that an opinion belongs to one of them."""
    records = [r for r in review_records(reviews) if not any(w in r["text"] for w in HELD_OUT)]
    random.Random(42).shuffle(records)
    records.sort(key=lambda record: -sum(e["label"] == ASPECT for e in record["entities"]))
    return records[:count]


def uie_examples(
    record: Mapping[str, Any], types: Iterable[str], negatives: random.Random | None = None
) -> list[dict[str, Any]]:
    """What UIE is trained with: a prompt, the text, and the spans that answer the prompt.

    `negatives` asks for 6 of 10 `types` that the text does not have; None asks for all of them.
    """
    text, known = record["text"], {entity["id"]: entity for entity in record["entities"]}
    answers: dict[str, list] = {}
    for kind in types:
        found = [(e["start_offset"], e["end_offset"]) for e in known.values() if e["label"] == kind]
        if found or negatives is None or negatives.random() < 0.6:
            answers[kind] = found
    for relation in record["relations"]:
        head, tail = known[relation["from_id"]], known[relation["to_id"]]
        prompt = f"{text[head['start_offset'] : head['end_offset']]}的{relation['type']}"
        answers.setdefault(prompt, []).append((tail["start_offset"], tail["end_offset"]))
    return [{"prompt": p, "content": text, "result_list": spans} for p, spans in answers.items()]


def encode_example(example: Mapping[str, Any], tokenizer, longest: int = 80) -> tuple:
    """Ids and token types of [CLS] prompt [SEP] text [SEP], and targets float32 [2, tokens].

    The targets are 1 where an answer begins (row 0) and where it ends (row 1).
    """
    encoded = tokenizer(
        text=[example["prompt"]], text_pair=[example["content"]], truncation=True,
        max_seq_len=longest, return_offsets_mapping=True, return_dict=False,
    )[0]  # fmt: skip
    places = [tuple(place) for place in encoded["offset_mapping"]]
    first = places.index((0, 0), 1) + 1
    targets = np.zeros((2, len(places)), "float32")
    for span in example["result_list"]:
        for row, offset in enumerate(span):
            for token in range(first, len(places) - 1):
                if places[token][row] == offset:
                    targets[row, token] = 1
    return encoded["input_ids"], encoded["token_type_ids"], targets


def train_uie(
    model: nn.Layer,
    tokenizer,
    examples: Sequence[Mapping[str, Any]],
    max_steps: int | None = None,
    batch_size: int = 8,
    learning_rate: float = 8e-4,
    weight: float = 4.0,
) -> list[float]:
    """Train UIE's pointers once over the examples, with more weight for the few borders."""
    for head in (model.linear_start, model.linear_end):
        head.bias.set_value(paddle.full([1], -3.0))  # most tokens are no border
    rows = [encode_example(example, tokenizer) for example in examples]
    sampler = LengthGroupedBatchSampler([len(row[0]) for row in rows], batch_size, True, 42)

    def loss_on(chosen: Sequence[int]) -> paddle.Tensor:
        longest = max(len(rows[number][0]) for number in chosen)
        ids = np.full((2, len(chosen), longest), tokenizer.pad_token_id, "int64")
        ids[1], targets = 0, np.zeros((2, len(chosen), longest), "float32")
        for place, number in enumerate(chosen):
            length = len(rows[number][0])
            ids[:, place, :length], targets[:, place, :length] = rows[number][:2], rows[number][2]
        real = (ids[0] != tokenizer.pad_token_id).astype("float32")
        wanted = paddle.to_tensor(targets)
        said = paddle.stack(model(*map(paddle.to_tensor, ids)))
        weights = paddle.to_tensor(real) * (1 + (weight - 1) * wanted)
        losses = functional.binary_cross_entropy(said, wanted, weights, reduction="sum")
        return losses / (2 * float(real.sum()))

    steps = min(len(sampler), max_steps or len(sampler))
    return train_steps(model, sampler, loss_on, steps, learning_rate)


def entity_spans(results: Iterable[Mapping[str, Sequence[Mapping]]]) -> list[set[Span]]:
    """What Taskflow("information_extraction") found for the prompts of entities, as spans."""
    kinds = {name: number for number, name in enumerate(PROMPTS.values())}
    return [
        {
            (e["start"], e["end"], kinds[name])
            for name in kinds
            for e in result.get(name, ())
            if "start" in e  # without: the answer is a piece of the prompt
        }
        for result in results
    ]


def opinion_scores(flow, reviews: Iterable[Mapping]) -> dict[str, dict[str, float]]:
    """Which of the rule's pairs the schema {ASPECT: OPINION} finds, by whether a word is new."""
    records = review_records(reviews)
    hits: dict[str, list[bool]] = {"known words": [], "held-out word": []}
    for record, result in zip(records, flow([r["text"] for r in records]), strict=True):
        found = {
            (aspect["text"], opinion["text"], opinion["start"])
            for aspect in result.get(ASPECT, ())
            for opinion in aspect.get("relations", {}).get(OPINION, ())
            if "start" in opinion
        }
        for example in uie_examples(record, ()):
            aspect, _, kind = example["prompt"].rpartition("的")
            for start, end in example["result_list"] if kind == OPINION else ():
                pair = aspect, record["text"][start:end], start
                part = "held-out word" if {*pair} & {*HELD_OUT} else "known words"
                hits[part].append(pair in found)
    return {k: {"pairs": len(v), "recall": sum(v) / max(1, len(v))} for k, v in hits.items()}
