"""Files in the shapes of public Chinese data sets, quirks included, with made-up content.

    python tools/example_files.py DIRECTORY [--rows 2000]

writes those that docs/your_own_data.md names, to try its commands on.
"""

import argparse
import json
from pathlib import Path

import numpy as np

FILLER = [*"我他这那", "觉得", "还是", "真的", "今天", "东西", "大家", "朋友", "时候", "下午"]
OPINIONS = {"1": ["干净", "舒服", "满意", "推荐"], "0": ["太差", "失望", "糟糕", "破旧"]}
TOPICS = {
    name: words.split()
    for name, words in {
        "书籍": "文笔 情节 作者", "平板": "屏幕 电池 系统", "手机": "信号 铃声 短信",
        "水果": "新鲜 很甜 烂了", "洗发水": "头发 味道 泡沫", "热水器": "安装 水温 师傅",
        "蒙牛": "牛奶 包装 日期", "衣服": "尺码 布料 颜色", "计算机": "键盘 硬盘 驱动",
        "酒店": "房间 早餐 前台",
    }.items()
}  # fmt: skip
PEOPLE, PLACES = ["王明", "李红", "张三", "赵云"], ["北京", "上海", "广州", "成都"]


def text(draw: np.random.RandomState, hints: list[str], noise: float = 0.1) -> str:
    """A few everyday words, and mostly a hint among them."""
    words = [*draw.choice(FILLER, draw.randint(3, 8))]
    if draw.rand() >= noise:
        words.insert(draw.randint(len(words)), draw.choice(hints))
    return "，".join(map(str, words))


def write_files(directory: Path, size: int, seed: int = 0) -> None:
    """Write all files that docs/your_own_data.md names, of about `size` rows each."""
    draw = np.random.RandomState(seed)

    def write(name: str, lines: list[str], start: str = "") -> None:
        (directory / name).write_text(start + "\n".join(lines) + "\n", encoding="utf-8")

    reviews = [
        f'{label},"{text(draw, OPINIONS[label])}"' for label in "10" for _ in range(size // 2)
    ]
    reviews[3:3] = ["1,", f'1,"\ufeff{text(draw, OPINIONS["1"])}"']
    write("hotel.csv", ["label,review", *reviews, "0,"], "\ufeff")
    for name, rows in (("shopping.csv", size), ("shopping_test.csv", size // 2)):
        lines = [
            f'{topic},{draw.randint(2)},"{text(draw, hints)}"'
            for topic, hints in TOPICS.items()
            for _ in range(rows // 10)
        ]
        write(name, ["cat,label,review", *lines, "酒店,0,"])
    write("class.txt", list(TOPICS))
    for name, rows in (("news.txt", size), ("news_test.txt", size // 2)):
        topics = list(TOPICS.values()) * (rows // 10)
        write(name, [f"{text(draw, hints)}\t{n % 10}" for n, hints in enumerate(topics)])
    pairs = []
    for number in range(size):
        parts = [str(word) for word in draw.choice(FILLER, 4, replace=False)]
        other = parts[::-1] if number % 2 else draw.choice(FILLER, 4, replace=False)
        pairs.append("\t".join(["".join(parts), "".join(other), str(number % 2)]))
    write("pairs.tsv", ["text_a\ttext_b\tlabel", *pairs])
    sentences, paragraphs = [], []
    for number in range(size):
        person, place = draw.choice(PEOPLE), draw.choice(PLACES)
        before, after = text(draw, FILLER), text(draw, FILLER)
        tags = ["O"] * len(before) + ["B-PER", "I-PER", "O", "B-LOC", "I-LOC"] + ["O"] * len(after)
        if number % 50 == 1:
            tags[0] = "I-LOC"  # continues nothing
        characters = before + person + "在" + place + after
        sentences += [f"{a} {b}" for a, b in zip(characters, tags, strict=True)] + [""]
        start = -1 if number % 50 == 2 else len(before) + 3
        answers = [{"text": str(place), "answer_start": start}]
        question = "" if number == 4 else f"{person}在哪里？"
        asked = {"id": f"DEV_{number}", "question": question, "answers": answers}
        paragraphs.append({"id": f"P_{number}", "context": characters, "qas": [asked]})
    write("names.txt", sentences)
    data = [{"title": "", "paragraphs": [paragraph]} for paragraph in paragraphs]
    content = {"version": "v1.0", "data": data}
    write("questions.json", [json.dumps(content, ensure_ascii=False)])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write the files of docs/your_own_data.md.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=2000, help="of each file (default: 2000)")
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    write_files(options.directory, options.rows)


if __name__ == "__main__":
    main()
