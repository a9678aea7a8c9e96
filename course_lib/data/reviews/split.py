"""How the frozen split was made: kept texts, blocks, neighbours, near-duplicates.

Neighbouring lines are parts of one review, whole reviews are repeated elsewhere in a file, and
shop and hotel customers copy each other. So texts are dealt to train, dev and test by blocks of
100 in file order, and then every pair that stands across two splits is looked at: two texts
conflict when they are neighbours (at most GAP lines apart at any of their occurrences) or near
duplicates. Texts are removed, the one with most conflicts first, until no conflict is left.
"""

from __future__ import annotations

import heapq
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from course_lib.data.reviews.corpus import (
    FILES,
    SHA256,
    SPLITS,
    STRETCHES,
    clean,
    digest,
    domain_of,
    example,
    key,
    read_lines,
    reason_to_drop,
    split_path,
)
from course_lib.runtime import atomic_file

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

Place = tuple[str, int]  # file, 1-based line


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
        cells[file, domain_of(file, line)].append(name)
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


def neighbours(kept: dict[str, list[Place]], gap: int = GAP) -> set[tuple[str, str]]:
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


def make() -> tuple[dict, Counter]:
    """Make the split from the texts.

    Returns:
        What data/reviews/split.json holds, and how many texts each step took away.
    """
    kept, taken = kept_texts()
    split_of = deal(kept)
    pairs = neighbours(kept)
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
        "made_by": "python -m course_lib.data.reviews build",
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
    with atomic_file(split_path()) as handle:
        handle.write(json.dumps(made, separators=(",", ":")).replace('],"', '],\n"') + "\n")
    return taken
