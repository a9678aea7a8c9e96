"""Chapter 10a: scores in a tree of labels, and PaddleNLP's changes of words without a download."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from course_lib.notebook.style import HEAT, INK, CourseFigure, drawable

import jieba
import matplotlib
from matplotlib.patches import FancyBboxPatch
from paddlenlp.data import Vocab
from paddlenlp.dataaug import WordDelete, WordInsert, WordSubstitute, WordSwap

STOP_WORDS = "的 了 是 在 也 都 就 和 ， 。 、 ！ ？"


def taxonomy_tree(
    scores: Mapping[str, float],
    counts: Mapping[str, int] | None = None,
    separator: str = "##",
    rows: int = 24,
) -> CourseFigure:
    """Show labels that are paths as trees from left to right, colored by F1.

    Args:
        scores: F1 by label, 0 to 1, all ancestors of a label among them.
        counts: texts by label; labels without one are left gray.
        separator: between the parts of a path.
        rows: labels without children that one column of the figure takes, where the trees allow it.
    """
    children: dict[str, list[str]] = {"": []}
    for label in scores:
        above = separator.join(label.split(separator)[:-1])
        children.setdefault(above, []).append(label)
    panels, heights = _panels(children, rows)
    depth = max(label.count(separator) for label in scores) + 1
    size = 1.28 * depth * len(panels) + 0.9, 0.27 * max(heights) + 0.7
    with CourseFigure(figsize=size) as figure:
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, roots in zip(grid, panels, strict=True):
            axes.set(xlim=(-0.02, depth), ylim=(max(heights) - 0.4, -0.6))
            axes.axis("off")
            line = 0

            def draw(label: str, level: int, axes=axes) -> float:
                nonlocal line
                below = [draw(child, level + 1) for child in children.get(label, ())]
                y = sum(below) / len(below) if below else float(line)
                line += not below
                for other in below:
                    middle = level + 0.9
                    axes.plot(
                        [level + 0.84, middle, middle, level + 1], [y, y, other, other],
                        color="#BBBBBB", linewidth=0.9, marker="", zorder=1,
                    )  # fmt: skip
                known = counts is None or counts.get(label)
                name = drawable(label.rpartition(separator)[2], 6)
                _box(axes, level, y, name, scores[label] if known else None)
                return y

            for root in roots:
                draw(root, 0)
        scale = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(0, 1), HEAT)
        shrink = min(1, 2.2 / (0.27 * max(heights)))
        bar = figure.colorbar(scale, ax=list(grid), shrink=shrink, pad=0.01)
        bar.set_label("F1")
        bar.outline.set_visible(False)
        known = [label for label in scores if counts is None or counts.get(label)]
        ranked = sorted(known, key=scores.__getitem__)
        alt = f"Tree of {len(scores)} labels on {depth} levels, colored by F1."
        if len(known) < len(scores):
            alt += f" {len(scores) - len(known)} have no text, and are gray."
        if ranked:
            best, worst = (f"{label} ({scores[label]:.2f})" for label in (ranked[-1], ranked[0]))
            alt += f" The best is {best}, the worst {worst}."
        return figure.finish(alt)


def _panels(children: Mapping[str, list[str]], rows: int) -> tuple[list[list[str]], list[int]]:
    """Whole trees side by side, in their order, and how many leaves each column has."""

    def leaves(label: str) -> int:
        return sum(map(leaves, children.get(label, ()))) or 1

    panels: list[list[str]] = [[]]
    heights = [0]
    for root in children[""]:
        if panels[-1] and heights[-1] + leaves(root) > rows:
            panels.append([])
            heights.append(0)
        panels[-1].append(root)
        heights[-1] += leaves(root)
    return panels, heights


def _box(axes, level: int, y: float, name: str, score: float | None) -> None:
    """A label's box with its name and score; gray without a score."""
    face = "#EEEEEE" if score is None else HEAT(score)
    axes.add_patch(
        FancyBboxPatch(
            (level, y - 0.36), 0.84, 0.72, facecolor=face, edgecolor="#BBBBBB",
            boxstyle="round,pad=0,rounding_size=0.08", linewidth=0.6, zorder=2,
        )
    )  # fmt: skip
    ink = "white" if score is not None and score > 0.8 else INK
    style = {"va": "center", "fontsize": 8.5, "color": ink, "zorder": 3}
    axes.text(level + 0.04, y, name, ha="left", **style)
    axes.text(level + 0.8, y, "–" if score is None else f"{score:.2f}", ha="right", **style)


def same_aspect(aspects: Iterable[tuple[str, Sequence[str]]]) -> dict[str, list[str]]:
    """By keyword the others of its aspect, also of another domain; {} for one of several aspects.

    Args:
        aspects: names with their keywords.
    """
    words: dict[str, list[str]] = defaultdict(list)
    for name, keywords in aspects:
        words[name] += keywords
    names = [word for terms in words.values() for word in dict.fromkeys(terms)]
    groups = [[one for one in dict.fromkeys(t) if names.count(one) == 1] for t in words.values()]
    return {one: [other for other in group if other != one] for group in groups for one in group}


def word_changes(
    texts: Iterable[str], others: Mapping[str, Sequence[str]], folder: Path, share: float = 0.1
) -> dict[str, Callable]:
    """Four of PaddleNLP's changes of words as functions for `augment`, with word lists of our own.

    Args:
        texts: their words are the vocabulary.
        others: by word those that may take its place.
        folder: where the lists are written.
        share: of the words that is changed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "custom.json").write_text(json.dumps(others, ensure_ascii=False), encoding="utf-8")
    (folder / "stop_words").write_text("\n".join(STOP_WORDS.split()), encoding="utf-8")
    jieba.setLogLevel("WARNING")
    known = dict.fromkeys([*(word for text in texts for word in jieba.cut(text)), *others])
    Vocab.build_vocab([[*known]], unk_token="[UNK]").to_json(str(folder / "vocab"))

    def change(kind: type, *options, **named) -> Callable:
        class Offline(kind):
            def _load_file(self, mode):  # PaddleNLP would download it
                return str(folder / mode)

        method = Offline(*options, aug_percent=share, **named)

        def changed(text, state):
            random.seed(int(state.randint(2**31)))  # PaddleNLP draws from the global one
            return (method.augment(text)[0] or [text])[0]

        return changed

    custom = {"custom_file_path": str(folder / "custom.json")}
    return {
        "substitute": change(WordSubstitute, "custom", **custom),
        "insert": change(WordInsert, "custom", **custom),
        "delete": change(WordDelete),
        "swap": change(WordSwap),
    }
