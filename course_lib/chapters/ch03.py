"""Figures of chapter 03, and its tokenizer of words."""

from collections.abc import Mapping, Sequence

from course_lib.notebook.style import COLORS, INK, MUTED, CourseFigure, drawable
from course_lib.runtime import InputError
from course_lib.runtime.visible import is_blank

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.ticker import MaxNLocator
from paddlenlp.data import JiebaTokenizer, Vocab

_PADDED = "#F6BE93"  # far lighter than the tokens beside it


def pipeline_flow(
    stages: Sequence[tuple[str, str]],
    calls: Sequence[str],
    side: tuple[str, str, int] | None = None,
) -> CourseFigure:
    """Show what becomes of data: a box for each form it takes, an arrow for each call between.

    Args:
        stages: (name, example of its content), in order; the content may have several lines.
        calls: what turns each stage into the next, one less than stages.
        side: (name, content, number of the call that it steers): a box below that arrow.
    """
    width, gap, height = 1.8, 1.15, 1.15
    right = len(stages) * (width + gap) - gap
    low = -2.3 if side else -0.7
    box = {"boxstyle": "round,pad=0.02,rounding_size=0.08", "linewidth": 1.2}
    arrow = {"arrowstyle": "-|>", "color": MUTED, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
    # One unit is 0.65 inches in both directions, so boxes keep their shape.
    with CourseFigure(figsize=(0.65 * (right + 0.2), 0.65 * (0.7 - low))) as figure:
        axes = figure.subplots()
        axes.set(xlim=(-0.1, right + 0.1), ylim=(low, 0.7), xticks=[], yticks=[])
        axes.spines[:].set_visible(False)

        def draw(x: float, y: float, name: str, content: str, color: str) -> None:
            corner = (x - width / 2, y - height / 2)
            style = {**box, "edgecolor": color, "facecolor": "white"}
            axes.add_patch(FancyBboxPatch(corner, width, height, **style))
            text = {"ha": "center", "fontsize": 8}
            axes.text(x, y + 0.36, name, color=color, va="center", **text)
            content = "\n".join(drawable(line) for line in content.splitlines())
            axes.text(x, y - 0.14, content, color=INK, va="center", **text)

        for number, (name, content) in enumerate(stages):
            x = width / 2 + number * (width + gap)
            draw(x, 0, name, content, COLORS[0])
            if number:
                middle = x - (width + gap) / 2
                ends = {"xy": (x - width / 2, 0), "xytext": (x - width / 2 - gap, 0)}
                axes.annotate("", **ends, arrowprops=arrow)
                call = {"ha": "center", "va": "bottom", "fontsize": 8, "color": "#A84A00"}
                axes.text(middle, 0.08, calls[number - 1], **call)
        if side:
            name, content, number = side
            x = (number + 1) * (width + gap) - gap / 2
            draw(x, -1.65, name, content, "#007A59")
            ends = {"xy": (x, -0.04), "xytext": (x, -1.65 + height / 2)}
            axes.annotate("", **ends, arrowprops={**arrow, "color": "#007A59"})
        steps = "; ".join(
            f"{call} makes {name}"
            for call, (name, _) in zip(
                (call.replace("\n", " ") for call in calls), stages[1:], strict=True
            )
        )
        alt = f"Boxes and arrows. It begins with {stages[0][0]}; {steps}."
        if side:
            alt += f" {side[0]} steers {calls[side[2]]}."
        return figure.finish(alt)


def padding_map(strategies: Mapping[str, Sequence[Sequence[int]]], rows: int = 160) -> CourseFigure:
    """Show how much of each batch is padding: one row per sequence, padded cells in another color.

    Args:
        strategies: the batches of each way to make them, by its name; a batch is the lengths of
            its sequences in tokens. The share printed is that of all batches.
        rows: draw the first batches, up to so many sequences.
    """
    widest = max(max(map(max, batches)) for batches in strategies.values())
    tallest = 0
    pictures, shares, lines = {}, {}, {}
    for name, batches in strategies.items():
        padded = sum(max(batch) * len(batch) for batch in batches)
        shares[name] = 1 - sum(map(sum, batches)) / padded
        kinds: list = []
        edges = [0]
        for batch in batches:
            if kinds and len(kinds) + len(batch) > rows:
                break
            for length in batch:
                kinds.append([1] * length + [2] * (max(batch) - length))
            edges.append(len(kinds))
        pictures[name] = np.zeros((len(kinds), widest), dtype=int)
        for row, kind in zip(pictures[name], kinds, strict=True):
            row[: len(kind)] = kind
        lines[name] = edges
        tallest = max(tallest, len(kinds))
    colors = ListedColormap(["white", COLORS[0], _PADDED])
    with CourseFigure(figsize=(max(4.6, 2.35 * len(strategies)), 3.9)) as figure:
        grid = figure.subplots(1, len(strategies), squeeze=False, sharex=True, sharey=True)[0]
        for axes, (name, picture) in zip(grid, pictures.items(), strict=True):
            extent = (0, widest, len(picture), 0)
            axes.imshow(
                picture, cmap=colors, vmin=0, vmax=2, aspect="auto", extent=extent,
                interpolation="nearest",
            )  # fmt: skip
            for edge in lines[name][1:-1]:
                axes.axhline(edge, color="white", linewidth=1.5, marker="")
            axes.set(ylim=(tallest, 0), xlabel="position", yticks=[])
            axes.set_title(f"{name}\n{shares[name]:.0%} padding")
            axes.spines["left"].set_visible(False)
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        grid[0].set_ylabel("one row per sequence, batches apart")
        handles = [Patch(facecolor=COLORS[0]), Patch(facecolor=_PADDED)]
        figure.legend(handles, ["tokens", "padding"], loc="outside lower center", ncols=2)
        summary = "; ".join(f"{name}: {share:.0%}" for name, share in shares.items())
        return figure.finish(f"Rows of tokens and of padding. Share of padding: {summary}.")


class WordTokenizer:
    """PaddleNLP's JiebaTokenizer, corrected, in the shape that the course's functions expect.

    `create_dataloader`, `fit`, `evaluate` and `predict` take it as they take ErnieTokenizer. There
    is no [CLS] and no [SEP]; white space is dropped.

    jieba finds a word only when all beginnings of it are in its dictionary, too (笔 and 笔记 for
    笔记本), with the frequency 0 when they are no words; JiebaTokenizer leaves them out. jieba's
    hidden Markov model glues unknown characters together into words that are not in the
    vocabulary; it is switched off. A word with a symbol other than +#&._%- is never found.

    Args:
        vocabulary: with a pad_token and an unk_token.

    Raises:
        InputError: the vocabulary lacks one of the two, or its ids are not 0, 1, 2, ...
    """

    pad_token_type_id = 0

    def __init__(self, vocabulary: Vocab) -> None:
        for name in ("pad_token", "unk_token"):
            if getattr(vocabulary, name, None) is None:
                raise InputError("vocabulary", f"has no {name}", f'{name}="..." when it is made')
        if set(vocabulary.token_to_idx.values()) != set(range(len(vocabulary.token_to_idx))):
            problem = "its ids leave numbers out (a file that repeats a token, say)"
            raise InputError("vocabulary", problem, "each token once, ids 0, 1, 2, ...")
        self.vocabulary = vocabulary
        self.vocab_size = len(vocabulary)
        self.pad_token_id = vocabulary[vocabulary.pad_token]
        self.unk_token_id = vocabulary[vocabulary.unk_token]
        self._jieba = JiebaTokenizer(vocabulary)
        frequencies = self._jieba.tokenizer.FREQ
        for word in list(frequencies):
            for end in range(1, len(word)):
                frequencies.setdefault(word[:end], 0)

    def tokenize(self, text: str) -> list[str]:
        """Cut a text into words, known or not."""
        return [word for word in self._jieba.cut(text, use_hmm=False) if not is_blank(word)]

    def __call__(
        self,
        text: str,
        max_length: int | None = None,
        truncation: bool = False,
        return_token_type_ids: bool = True,
    ) -> dict[str, list[int]]:
        """Encode one text.

        Args:
            max_length: of the ids, when `truncation`.

        Returns:
            `{"input_ids", "token_type_ids"}`, two lists of one length, at least 1: a text without
            any word is [UNK]. The types are all 0.
        """
        ids = self.vocabulary.to_indices(self.tokenize(text)) or [self.unk_token_id]
        if truncation and max_length is not None:
            ids = ids[:max_length]
        encoded = {"input_ids": ids}
        if return_token_type_ids:
            encoded["token_type_ids"] = [0] * len(ids)
        return encoded
