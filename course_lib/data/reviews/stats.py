"""The figures of data/README.md, computed: `python -m course_lib.data.reviews stats`."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from itertools import pairwise

from course_lib.data.reporting import markdown_table, read_audit, wilson
from course_lib.data.reviews.audit import JUDGEMENTS
from course_lib.data.reviews.corpus import (
    FILES,
    MAIL,
    NUMBER,
    PHONE,
    SPLITS,
    STRETCHES,
    URL,
    clean,
    example,
    read_lines,
    split_path,
)
from course_lib.data.reviews.split import GAP, kept_texts, make

MASKS = (PHONE, MAIL, URL, NUMBER)
# Words that point to a domain, to check the borders; nothing is sorted by them.
WORDS = {
    "book": ["书", "作者", "出版", "小说", "阅读", "故事", "读者", "当当"],
    "hotel": ["酒店", "宾馆", "房间", "入住", "前台", "早餐", "携程", "退房"],
    "computer": [
        "电脑",
        "笔记本",
        "本本",
        "机器",
        "屏幕",
        "键盘",
        "散热",
        "硬盘",
        "驱动",
        "内存",
        "显卡",
        "电池",
        "系统",
        "京东",
    ],
}


def report() -> str:
    """All tables as Markdown, as they stand in data/README.md."""
    sections = (_removal(), _splits(), _masks(), _borders(), _order(), _audit())
    return "\n\n".join(sections) + "\n"


def _removal() -> str:
    raw = [line for file in FILES for line in read_lines(file)]
    distinct = len(set(raw))
    cleaned = len({clean(line) for line in set(raw)})
    kept, _ = kept_texts()
    made, taken = make()
    final = sum(len(lines[file]) for lines in made["splits"].values() for file in FILES)
    across = taken["neighbour or near-duplicate across splits"]
    same = cleaned - sum(taken[r] for r in ("reply", "heading", "fragment", "both classes"))
    rows: list[list[object]] = [
        ["lines in both files", len(raw)],
        ["distinct lines", distinct],
        ["distinct after normalising and masking", cleaned],
        ["- hotel replies", -taken["reply"]],
        ["- headings of a list", -taken["heading"]],
        ["- fragments", -taken["fragment"]],
        ["- the same but for punctuation, case or a leading number", len(kept) - same],
        ["- in both classes", -taken["both classes"]],
        ["- neighbour or near-duplicate of a text in another split", -across],
        ["= examples", final],
    ]
    return markdown_table(["step", "texts"], rows)


def _splits() -> str:
    frozen = json.loads(split_path().read_text(encoding="utf-8"))["splits"]
    rows: list[list[object]] = []
    for split in SPLITS:
        examples = [example(file, line) for file in FILES for line in frozen[split][file]]
        counts = Counter((row["label"], row["domain"]) for row in examples)
        lengths = sorted(len(str(row["text"])) for row in examples)
        cells = [counts[label, domain] for label in (0, 1) for domain in WORDS]
        mean, median = round(statistics.mean(lengths)), round(statistics.median(lengths))
        rows.append([split, len(examples), *cells, mean, median, lengths[len(lengths) * 95 // 100]])
    header = ["split", "examples"]
    header += [f"{sign} {domain}" for sign in ("neg.", "pos.") for domain in WORDS]
    return markdown_table([*header, "mean characters", "median", "95%"], rows)


def _masks() -> str:
    frozen = json.loads(split_path().read_text(encoding="utf-8"))["splits"]
    rows: list[list[object]] = []
    for split in SPLITS:
        texts = [str(example(f, line)["text"]) for f in FILES for line in frozen[split][f]]
        rows.append([split, *(sum(t.count(mask) for t in texts) for mask in MASKS)])
    return markdown_table(["masks", *MASKS], rows)


def _stretches() -> list[tuple[str, int, int, str]]:
    found = []
    for file in FILES:
        borders = [*(first for first, _ in STRETCHES[file]), len(read_lines(file)) + 1]
        for (first, domain), following in zip(STRETCHES[file], borders[1:], strict=True):
            found.append((file, first, following - 1, domain))
    return found


def _borders() -> str:
    rows: list[list[object]] = []
    for file, first, last, domain in _stretches():
        lines = read_lines(file)[first - 1 : last]
        hits = [{d for d, words in WORDS.items() if any(w in t for w in words)} for t in lines]
        shares = [f"{sum(d in hit for hit in hits) / len(hits):.0%}" for d in WORDS]
        strays = sum(bool(hit) and domain not in hit for hit in hits)
        rows.append([f"{file} {first}-{last}", domain, *shares, strays])
    header = ["lines", "domain", *(f"{domain} words" for domain in WORDS)]
    return markdown_table([*header, "only words of others"], rows)


def _order() -> str:
    """How far a stretch that repeats another keeps its order."""
    rows: list[list[object]] = []
    stretches = _stretches()
    for file, first, last, domain in stretches:
        same = [s for s in stretches if s[0] == file and s[3] == domain]
        if len(same) < 2 or (file, first, last, domain) == same[0]:
            continue
        _, start, end, _ = same[0]
        places: dict[str, list[int]] = {}
        for line in range(start, end + 1):
            places.setdefault(read_lines(file)[line - 1], []).append(line)
        pairs = near = 0
        stretch = read_lines(file)[first - 1 : last]
        for one, other in pairwise(stretch):
            if one != other and one in places and other in places:
                pairs += 1
                near += any(abs(a - b) <= GAP for a in places[one] for b in places[other])
        rows.append([f"{file} {first}-{last}", domain, pairs, f"{near / pairs:.0%}"])
    header = ["lines", "domain", "adjacent pairs also in the first stretch", f"within {GAP} there"]
    return markdown_table(header, rows)


def _audit() -> str:
    counts = Counter(row["judgement"] for row in read_audit("reviews"))
    total = sum(counts.values())
    rows: list[list[object]] = []
    for judgement in JUDGEMENTS:
        low, high = wilson(counts[judgement], total)
        share = counts[judgement] / total
        rows.append([judgement, counts[judgement], f"{share:.1%}", f"{low:.1%} to {high:.1%}"])
    return markdown_table(["judgement", "reviews", "share", "95% interval (Wilson)"], rows)
