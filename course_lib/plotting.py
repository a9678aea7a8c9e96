"""Figures of the course: one style, one font with Chinese glyphs, plain data in, a Figure out.

Every function returns a figure of its own (nothing is kept in pyplot), drawn in the course's style
whatever the surrounding settings are. A notebook shows it sharp on dense screens and with a text
alternative, which is also its attribute `alt`. `use_course_style` is for figures drawn by hand.

Colours are those of Okabe and Ito (Color Universal Design, 2008), told apart by readers with any
common colour vision; series differ in marker and line as well. The font is a subset of Noto Sans
CJK (data/fonts, SIL Open Font License).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from course_lib.runtime import InputError, data_dir

import matplotlib
import numpy as np
import pandas as pd
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch, Rectangle
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
)

FONT_FILE, FONT = "fonts/CourseSansSC-Regular.otf", "Course Sans SC"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, MUTED, GRID = "#222222", "#666666", "#E3E3E3"
POSITIVE, NEGATIVE = COLORS[0], COLORS[1]
_PADDED = "#F6BE93"  # far lighter than the tokens beside it
_HEAT = LinearSegmentedColormap.from_list("course", ["#F5F9FC", "#0072B2"])
_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}  # behind a label, hides lines
_STYLE = {
    "font.family": [FONT],
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.titlecolor": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": "#AAAAAA",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.prop_cycle": matplotlib.cycler(color=COLORS, marker=MARKERS),
    "axes.unicode_minus": False,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
}


class CourseFigure(Figure):
    """A Figure that notebooks show at twice the screen's resolution, with a text alternative."""

    alt: str = ""

    def _repr_png_(self) -> tuple[bytes, dict[str, object]]:
        buffer = io.BytesIO()
        # Without the version of matplotlib in it, the same figure gives the same bytes.
        with _course_style():
            self.savefig(buffer, format="png", dpi=2 * self.dpi, metadata={"Software": None})
        width, height = (round(inches * self.dpi) for inches in self.get_size_inches())
        return buffer.getvalue(), {"width": width, "height": height, "alt": self.alt}


def use_course_style() -> None:
    """Draw all further figures of this process, those of pyplot too, in the course's style."""
    path = Path(data_dir(), FONT_FILE)
    if all(Path(entry.fname) != path for entry in font_manager.fontManager.ttflist):
        if not path.is_file():
            raise InputError(path, "is missing", "the font that the course ships")
        font_manager.fontManager.addfont(path)
    # paddleslim, which paddlenlp imports, turns to Agg: plt.show() would show nothing in a notebook
    inline = "inline" in os.environ.get("MPLBACKEND", "")  # a notebook's kernel sets it
    if inline and matplotlib.get_backend().lower() == "agg":
        from IPython import get_ipython

        if (shell := get_ipython()) is not None:
            shell.enable_matplotlib("inline")
    matplotlib.rcdefaults()
    matplotlib.rcParams.update(_STYLE)


@contextmanager
def _course_style(**settings: object) -> Iterator[None]:
    with matplotlib.rc_context():
        use_course_style()
        matplotlib.rcParams.update(settings)
        yield


def _finish(figure: CourseFigure, alt: str) -> CourseFigure:
    figure.alt = alt
    # Whole pixels, and a trace more: matplotlib before 3.11 cuts fractions off, later ones round.
    size = (figure.get_size_inches() * figure.dpi).round()
    figure.set_size_inches((size + 0.01) / figure.dpi)
    # Ticks are created on drawing: draw now, while the course's style holds.
    figure.draw_without_rendering()
    return figure


@lru_cache
def _glyphs() -> frozenset[int]:
    return frozenset(font_manager.get_font(Path(data_dir(), FONT_FILE)).get_charmap())


def _drawable(text: str, characters: int | None = None) -> str:
    """Put text on one line, shorten it, and show what the font lacks (emoji, say) as a box."""
    flat = " ".join(str(text).split())
    if characters is not None and len(flat) > characters:
        flat = flat[: characters - 1] + "\u2026"
    # matplotlib reads what stands between two dollar signs as a formula.
    flat = flat.replace("$", "\uff04")
    return "".join(char if ord(char) in _glyphs() else "\u25a1" for char in flat)


def _direct_label(axes: Axes, x: float, y: float, text: str, color: str, **placement) -> None:
    placement = {"xytext": (6, 0), "ha": "left", "va": "center", **placement}
    axes.annotate(text, (x, y), textcoords="offset points", color=color, **placement)


def length_histogram(
    lengths: Sequence[int],
    max_seq_length: int | None = None,
    unit: str = "characters",
    title: str | None = None,
) -> CourseFigure:
    """Show how long texts are, and how many of them a maximum would cut.

    Args:
        lengths: one length a text, in `unit`.
        max_seq_length: where texts will be cut, in the same unit; None draws no limit.
        unit: what was counted ("characters", "tokens").
        title: default: the number of texts.

    Raises:
        ValueError: `lengths` is empty.
    """
    values = np.asarray(lengths)
    if values.size == 0:
        raise ValueError("lengths is empty: there is nothing to draw")
    median, high = (int(np.percentile(values, q)) for q in (50, 95))
    longest = int(values.max())
    # The last half per cent would squeeze everything else to the left: the axis ends before it.
    end = max(int(np.percentile(values, 99.5)), (max_seq_length or 0) * 5 // 4, 1)
    cut = None if max_seq_length is None else float((values > max_seq_length).mean())
    with _course_style():
        figure = CourseFigure(figsize=(7.2, 3.3))
        axes = figure.subplots()
        # Whole units a bar, and an edge exactly where the limit cuts.
        width = -(-end // 60)
        first = -0.5 if max_seq_length is None else (max_seq_length + 0.5) % width - width
        edges = np.arange(first, end + width + 1, width)
        heights, _, bars = axes.hist(values, bins=edges, color=COLORS[0], alpha=0.85, linewidth=0)
        top = max(float(heights.max()), 1.0)
        axes.set(
            xlim=(0, end + 1), ylim=(0, top * 1.22), xlabel=f"length in {unit}", ylabel="texts"
        )
        axes.grid(axis="y")
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        for value, text, height in ((median, "median", 1.14), (high, "95th percentile", 1.03)):
            axes.plot([value, value], [0, top * height], color=INK, linewidth=1, marker="")
            _direct_label(axes, value, top * height, f"{text} {value:,}", INK, bbox=_PAPER)
        if cut is not None:
            for bar, left in zip(bars, edges[:-1], strict=True):
                if left > max_seq_length:
                    bar.set(facecolor=COLORS[1], hatch="////", edgecolor="white")
            axes.axvline(
                max_seq_length + 0.5, color=COLORS[1], linewidth=1.6, linestyle="--", marker=""
            )
            room = max_seq_length < 0.7 * end
            _direct_label(
                axes,
                max_seq_length,
                top * 0.84,
                f"max_seq_length {max_seq_length}\ncuts {cut:.1%} of the texts",
                "#A84A00",
                xytext=(6 if room else -6, 0),
                ha="left" if room else "right",
                bbox=_PAPER,
            )
        axes.set_title(title or f"{values.size:,} texts")
        beyond = int((values > end).sum())
        if beyond:
            note = f"{beyond} longer, up to {longest:,}"
            axes.annotate(
                f"{note} \u2192",
                (1, 0.03),
                xycoords="axes fraction",
                ha="right",
                va="bottom",
                color=MUTED,
                fontsize=9,
            )
        alt = (
            f"Histogram of the lengths of {values.size:,} texts in {unit}: median {median}, "
            f"95th percentile {high}, longest {longest:,}."
        )
        if cut is not None:
            alt += f" A maximum of {max_seq_length} cuts {cut:.1%} of them."
        return _finish(figure, alt)


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Mean of each value and up to `window - 1` before it (it never looks ahead)."""
    sums = np.cumsum(np.insert(values, 0, 0.0))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def learning_curves(
    history: Mapping[str, Sequence[float]], chance: float | None = None
) -> CourseFigure:
    """Show the training loss of every step beside what the dev split says after each epoch.

    Args:
        history: what `course_lib.training.fit` returns; used are "loss" (one value a step) and,
            where they are not empty, "epoch_step" (the step at the end of each epoch), "dev_loss"
            and "dev_accuracy" (0 to 1), one value an epoch.
        chance: accuracy of guessing, drawn as a line for comparison.

    Raises:
        ValueError: there are no steps, or the values of epochs differ in number.
    """
    values = np.asarray(history["loss"], dtype=float)
    if values.size == 0:
        raise ValueError("the history has no steps: there is nothing to draw")
    dev_loss, dev_accuracy = history.get("dev_loss", ()), history.get("dev_accuracy", ())
    dev_steps = history.get("epoch_step", ())
    for name, series in (("dev_loss", dev_loss), ("dev_accuracy", dev_accuracy)):
        if len(series) not in (0, len(dev_steps)):
            raise ValueError(f"{name} has {len(series)} values for {len(dev_steps)} epochs")
    steps = np.arange(1, values.size + 1)
    smooth = _running_mean(values, max(1, values.size // 20))
    panels = 2 if len(dev_accuracy) else 1
    with _course_style():
        figure = CourseFigure(figsize=(4.4 * panels, 3.2))
        grid = figure.subplots(1, panels, squeeze=False)[0]
        left = grid[0]
        left.plot(steps, values, color=COLORS[0], alpha=0.25, linewidth=1, marker="")
        left.plot(steps, smooth, color=COLORS[0], marker="")
        left.set(title="Loss", xlabel="step", xlim=(0, values.size * 1.22))
        shown = np.concatenate([np.sort(values)[: max(1, int(values.size * 0.99))], dev_loss])
        left.set_ylim(0, float(shown.max()) * 1.12)
        ends = [float(smooth[-1])]
        if len(dev_loss):
            left.plot(dev_steps, dev_loss, color=COLORS[1], marker=MARKERS[1], linestyle="--")
            ends.append(float(dev_loss[-1]))
        # Two labels at almost the same height would print over each other.
        apart = 0.075 * left.get_ylim()[1]
        push = 0.0
        if len(ends) == 2 and abs(ends[0] - ends[1]) < apart:
            push = (apart - abs(ends[0] - ends[1])) / 2
        for index, (end, name) in enumerate(zip(ends, ("train", "dev"), strict=False)):
            sign = 1 if end >= ends[index - 1] and (end, index) != (ends[index - 1], 1) else -1
            position = end + sign * push
            at = values.size if index == 0 else dev_steps[-1]
            _direct_label(left, at, position, f"{name} {end:.2f}", COLORS[index], xytext=(8, 0))
        alt = f"Training loss over {values.size} steps, from {values[0]:.2f} to {smooth[-1]:.2f}"
        if len(dev_loss):
            alt += f"; dev loss ends at {dev_loss[-1]:.2f}"
        if panels == 2:
            right = grid[1]
            color, marker = COLORS[2], MARKERS[2]
            right.plot(dev_steps, dev_accuracy, color=color, marker=marker)
            right.set(title="Accuracy on dev", xlabel="step", xlim=(0, values.size * 1.22))
            floor = min([*dev_accuracy, *([] if chance is None else [chance])])
            spread = max(max(dev_accuracy) - floor, 0.04)
            right.set_ylim(floor - 0.12 * spread, min(1.0, max(dev_accuracy) + 0.3 * spread))
            right.yaxis.set_major_formatter(PercentFormatter(1, decimals=0 if spread > 0.1 else 1))
            best = int(np.argmax(dev_accuracy))
            place = {"xytext": (0, 9), "ha": "center", "va": "bottom"}
            text = f"best {dev_accuracy[best]:.1%}"
            _direct_label(right, dev_steps[best], dev_accuracy[best], text, color, **place)
            if chance is not None:
                right.axhline(chance, color=MUTED, linewidth=1, linestyle=":", marker="")
                place = {"xytext": (0, 4), "va": "bottom"}
                _direct_label(right, 0, chance, f"  guessing {chance:.0%}", MUTED, **place)
            alt += f". Dev accuracy is best, {dev_accuracy[best]:.1%}, at step {dev_steps[best]}"
        for axes in grid:
            axes.grid(axis="y")
            ticks = MaxNLocator(5, integer=True).tick_values(0, values.size)
            axes.set_xticks([tick for tick in ticks if 0 <= tick <= values.size])
            axes.yaxis.set_major_locator(MaxNLocator(5))
        return _finish(figure, alt + ".")


def confusion_matrix(matrix: Sequence[Sequence[int]], label_names: Sequence[str]) -> CourseFigure:
    """Show how often each true label (row) was predicted as each label (column).

    Args:
        matrix: counts, shape [labels, labels], as `course_lib.training.confusion_matrix` returns.
        label_names: the name of each row and column.

    Raises:
        ValueError: the shape does not fit, or the matrix counts nothing.
    """
    matrix, count = np.asarray(matrix), len(label_names)
    if matrix.shape != (count, count) or matrix.sum() == 0:
        raise ValueError(f"matrix {matrix.shape} of {matrix.sum()} texts for {count} label names")
    label_names = [_drawable(name) for name in label_names]
    share = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    accuracy = matrix.trace() / matrix.sum()
    side = max(3.4, 0.62 * count + 1.6)
    with _course_style():
        figure = CourseFigure(figsize=(side + 0.35, side))
        axes = figure.subplots()
        axes.imshow(share, cmap=_HEAT, vmin=0, vmax=1)
        axes.set_xticks(range(count), label_names, rotation=0 if count < 6 else 45)
        axes.set_yticks(range(count), label_names)
        axes.set(xlabel="predicted", ylabel="true", title=f"Accuracy {accuracy:.1%}")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, colors=INK)
        # White lines between the cells tell them apart where the shades are close.
        axes.set_xticks(np.arange(count + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(count + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=3)
        axes.tick_params(which="minor", length=0)
        for row, column in np.ndindex(matrix.shape):
            color = "white" if share[row, column] > 0.55 else INK
            large = count <= 4
            text = f"{matrix[row, column]:,}"
            where = {"ha": "center", "color": color}
            if large:
                axes.text(column, row - 0.06, text, va="center", fontsize=15, **where)
                axes.text(
                    column, row + 0.22, f"{share[row, column]:.1%} of row", va="center", **where
                )
            else:
                axes.text(column, row, text, va="center", fontsize=9, **where)
        rows = (
            f"{label_names[i]}: {matrix[i, i]:,} of {matrix[i].sum():,} right" for i in range(count)
        )
        return _finish(figure, f"Confusion matrix, accuracy {accuracy:.1%}. {'; '.join(rows)}.")


def _probability_rows(predictions: Sequence[Mapping]) -> tuple[list[str], np.ndarray]:
    if len(predictions) == 0:
        raise ValueError("no predictions: there is nothing to draw")
    names = list(predictions[0]["probabilities"])
    rows = [[each["probabilities"][name] for name in names] for each in predictions]
    return [_drawable(name) for name in names], np.asarray(rows, dtype=float)


def probability_bars(
    predictions: Sequence[Mapping],
    labels: Sequence[int] | None = None,
    title: str | None = None,
    max_characters: int = 26,
) -> CourseFigure:
    """Show the probability of each label for each text, one full bar a text.

    Args:
        predictions: what `course_lib.training.predict` returns; used are "text" and
            "probabilities" (by label name, in the order of the ids; they sum to 1).
        labels: true label ids, one a text; printed behind the bars when given.
        title: printed above.
        max_characters: longer texts are shortened in the figure.

    Raises:
        ValueError: there are no predictions, or `labels` differ in number.
    """
    label_names, rows = _probability_rows(predictions)
    texts = [_drawable(each["text"], max_characters) for each in predictions]
    if labels is not None and len(labels) != len(texts):
        raise ValueError(f"{len(labels)} labels for {len(texts)} predictions")
    two = len(label_names) == 2
    palette = (NEGATIVE, POSITIVE) if two else COLORS
    hatches = ("////", "") if two else ("", "////", "", "....", "", "\\\\\\\\")
    with _course_style(**{"hatch.linewidth": 0.6}):
        figure = CourseFigure(figsize=(7.6, 0.95 + 0.42 * len(texts)))
        axes = figure.subplots()
        heights = np.arange(len(texts))
        left = np.zeros(len(texts))
        for column in range(len(label_names)):
            color = palette[column % len(palette)]
            hatch = hatches[column % len(hatches)]
            style = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
            axes.barh(heights, rows[:, column], 0.62, left=left, **style)
            for height, start, value in zip(heights, left, rows[:, column], strict=True):
                if value >= 0.09:
                    box = {"facecolor": color, "edgecolor": "none", "pad": 1.5}
                    axes.text(
                        start + value / 2,
                        height,
                        f"{value:.0%}" if value < 0.995 else f"{value:.1%}",
                        ha="center",
                        va="center_baseline",
                        color="white",
                        fontsize=9,
                        bbox=box if hatch else None,
                    )
            left += rows[:, column]
        axes.set(xlim=(0, 1), ylim=(len(texts) - 0.5, -0.5), xticks=[])
        axes.set_yticks(heights, texts)
        axes.tick_params(length=0, labelcolor=INK)
        axes.spines[:].set_visible(False)
        if labels is not None:
            for height, label in zip(heights, labels, strict=True):
                text = f"labelled {label_names[label]}"
                color = palette[label % len(palette)]
                _direct_label(axes, 1, height, text, color, annotation_clip=False)
        ends = {"fontsize": 10, "va": "bottom", "transform": axes.get_xaxis_transform()}
        if two:
            axes.text(0, 1.02, label_names[0], color=NEGATIVE, ha="left", **ends)
            axes.text(1, 1.02, label_names[1], color=POSITIVE, ha="right", **ends)
        else:
            figure.legend(
                axes.containers, label_names, loc="outside upper center", ncols=len(label_names)
            )
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        likely = rows.argmax(axis=1)
        # Enough to tell the bars apart: the alt text joins all excerpts into one line.
        short = [_drawable(text, min(max_characters, 12)) for text in texts]
        parts = (
            f"{text}: {label_names[best]} {row[best]:.0%}"
            for text, row, best in zip(short, rows, likely, strict=True)
        )
        return _finish(figure, f"Probabilities. {'; '.join(parts)}.")


def confident_mistakes(
    predictions: Sequence[Mapping], labels: Sequence[int], count: int = 6, max_characters: int = 26
) -> CourseFigure:
    """Show the wrongly classified texts that the model was surest about, surest first.

    Args:
        predictions: what `course_lib.training.predict` returns.
        labels: true label ids, one a prediction.
        count: how many at most.
        max_characters: longer texts are shortened in the figure.

    Raises:
        ValueError: the numbers differ, or nothing was classified wrongly.
    """
    _, rows = _probability_rows(predictions)
    true = np.asarray(labels, dtype=int)
    if true.shape != (len(predictions),):
        raise ValueError(f"{true.size} labels for {len(predictions)} predictions")
    wrong = np.flatnonzero(rows.argmax(axis=1) != true)
    if wrong.size == 0:
        raise ValueError("every text was classified right: there is no mistake to show")
    chosen = wrong[np.argsort(-rows[wrong].max(axis=1), kind="stable")][:count]
    return probability_bars(
        [predictions[i] for i in chosen],
        labels=true[chosen],
        title=f"Surest of the {wrong.size:,} mistakes in {len(predictions):,} texts",
        max_characters=max_characters,
    )


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

    Raises:
        ValueError: there are less than two stages, or the numbers do not fit.
    """
    if len(stages) < 2 or len(calls) != len(stages) - 1:
        raise ValueError(f"{len(stages)} stages and {len(calls)} calls; expected one call between")
    width, gap, height = 1.8, 1.15, 1.15
    right = len(stages) * (width + gap) - gap
    low = -2.3 if side else -0.7
    box = {"boxstyle": "round,pad=0.02,rounding_size=0.08", "linewidth": 1.2}
    arrow = {"arrowstyle": "-|>", "color": MUTED, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
    with _course_style():
        # One unit is 0.65 inches in both directions, so boxes keep their shape.
        figure = CourseFigure(figsize=(0.65 * (right + 0.2), 0.65 * (0.7 - low)))
        axes = figure.subplots()
        axes.set(xlim=(-0.1, right + 0.1), ylim=(low, 0.7), xticks=[], yticks=[])
        axes.spines[:].set_visible(False)

        def draw(x: float, y: float, name: str, content: str, color: str) -> None:
            corner = (x - width / 2, y - height / 2)
            style = {**box, "edgecolor": color, "facecolor": "white"}
            axes.add_patch(FancyBboxPatch(corner, width, height, **style))
            text = {"ha": "center", "fontsize": 8}
            axes.text(x, y + 0.36, name, color=color, va="center", **text)
            content = "\n".join(_drawable(line) for line in content.splitlines())
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
        return _finish(figure, alt)


def padding_map(strategies: Mapping[str, Sequence[Sequence[int]]], rows: int = 160) -> CourseFigure:
    """Show how much of each batch is padding: one row a sequence, padded cells in another colour.

    Args:
        strategies: the batches of each way to make them, by its name; a batch is the lengths of
            its sequences in tokens. The share printed is that of all batches.
        rows: draw the first batches, up to so many sequences.

    Raises:
        ValueError: there is no strategy, or one has no batch or an empty batch.
    """
    if not strategies or not all(len(each) and all(map(len, each)) for each in strategies.values()):
        raise ValueError("expected at least one batch of at least one sequence in each strategy")
    widest = max(max(map(max, batches)) for batches in strategies.values())
    tallest = 0
    pictures, shares, lines = {}, {}, {}
    for name, batches in strategies.items():
        padded = sum(max(batch) * len(batch) for batch in batches)
        shares[name] = 1 - sum(map(sum, batches)) / padded
        kinds, edges = [], [0]
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
    with _course_style():
        figure = CourseFigure(figsize=(max(4.6, 2.35 * len(strategies)), 3.9))
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
        grid[0].set_ylabel("one row a sequence, batches apart")
        handles = [Patch(facecolor=COLORS[0]), Patch(facecolor=_PADDED)]
        figure.legend(handles, ["tokens", "padding"], loc="outside lower center", ncols=2)
        said = "; ".join(f"{name}: {share:.0%}" for name, share in shares.items())
        return _finish(figure, f"Rows of tokens and of padding. Share of padding: {said}.")


def window_map(
    windows: Sequence[tuple[int, int]], length: int, answer: tuple[int, int] | None = None
) -> CourseFigure:
    """Show which part of a long text each window sees, and which windows hold the whole answer.

    Args:
        windows: (first, end) of each window in characters or tokens of the text, end excluded.
        length: of the text, in the same unit.
        answer: (first, end) of the stretch that is looked for.

    Raises:
        ValueError: there is no window, or one lies outside the text.
    """
    if not windows or not all(0 <= first < end <= length for first, end in windows):
        raise ValueError(f"{list(windows)} for a text of {length}; expected windows inside it")
    holds = [answer is not None and a <= answer[0] and answer[1] <= b for a, b in windows]
    with _course_style(**{"hatch.linewidth": 0.6}):
        figure = CourseFigure(figsize=(7.2, 1.1 + 0.34 * len(windows)))
        axes = figure.subplots()
        for row, ((first, end), whole) in enumerate(zip(windows, holds, strict=True)):
            style = {"color": COLORS[0] if whole or answer is None else "#9DB8CC"}
            axes.barh(row, end - first, 0.56, left=first, linewidth=0, **style)
            note = f" {first} to {end}" + (", holds the answer" if whole else "")
            side = {"ha": "left"} if end < 0.7 * length else {"ha": "right"}
            at = end if end < 0.7 * length else first
            axes.text(at, row, note + " ", va="center", fontsize=9, color=INK, **side)
        if answer is not None:
            place = {"color": COLORS[1], "alpha": 0.35, "linewidth": 0}
            axes.axvspan(*answer, **place)
            axes.text(
                sum(answer) / 2, -0.62, "answer", color="#A84A00", ha="center", fontsize=9,
                va="bottom",
            )  # fmt: skip
        axes.set(xlim=(0, length), ylim=(len(windows) - 0.5, -0.6), xlabel="position in the text")
        axes.set_yticks(range(len(windows)), [f"feature {row}" for row in range(len(windows))])
        axes.tick_params(axis="y", length=0)
        axes.set_title(f"{len(windows)} windows over a text of {length:,}", pad=18)
        alt = f"{len(windows)} overlapping windows over a text of {length:,}"
        if answer is not None:
            alt += f"; {sum(holds)} of them hold the whole answer"
        return _finish(figure, alt + ".")


def answer_positions(
    tokens: Sequence[str],
    start: Sequence[float],
    end: Sequence[float],
    named: int = 3,
) -> CourseFigure:
    """Show where a question-answering head sees the answer begin (upwards) and end (downwards).

    Args:
        tokens: of one window.
        start, end: the probability of each token to be the first and the last of the answer.
        named: how many of the highest bars of either kind carry their token.

    Raises:
        ValueError: the three differ in length, or there is no token.
    """
    if not len(tokens) == len(start) == len(end) > 0:
        raise ValueError(f"{len(tokens)} tokens, {len(start)} starts and {len(end)} ends")
    heights = np.asarray([start, end], dtype=float)
    with _course_style():
        figure = CourseFigure(figsize=(7.6, 3.2))
        axes = figure.subplots()
        top = 1.3 * float(heights.max())
        said = []
        for values, color, sign, word in zip(
            heights, COLORS, (1, -1), ("begins", "ends"), strict=False
        ):
            axes.bar(range(len(tokens)), sign * values, color=color, width=1.0, linewidth=0)
            best = np.argsort(-values, kind="stable")[:named]
            for place in best:
                x, y = place, sign * values[place]
                align = {"ha": "center", "va": "bottom" if sign > 0 else "top"}
                axes.text(x, y + sign * 0.01 * top, _drawable(tokens[place]), color=INK, **align)
            axes.text(
                1, sign * 0.98 * top, f"the answer {word} here", color=color,
                va="top" if sign > 0 else "bottom", fontsize=9,
            )  # fmt: skip
            said.append(f"{word} at {tokens[best[0]]!r} ({values[best[0]]:.0%})")
        axes.axhline(0, color=MUTED, linewidth=0.8, marker="")
        axes.set(
            xlim=(-1, len(tokens)), ylim=(-top, top), xlabel="token of the window",
            ylabel="probability",
        )  # fmt: skip
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):.0%}"))
        return _finish(figure, f"Probabilities over {len(tokens)} tokens: {' and '.join(said)}.")


def size_comparison(models: Mapping[str, Mapping[str, float]]) -> CourseFigure:
    """Show what accuracy costs in time and in memory, one point a model.

    Args:
        models: by name {"accuracy": 0 to 1, "margin": half of its interval, "ms": time of a
            training step in milliseconds, "megabytes": memory of a training step}.

    Raises:
        ValueError: there is no model.
    """
    if not models:
        raise ValueError("no models: there is nothing to draw")
    panels = {"ms": "one training step, ms", "megabytes": "memory of a training step, MB"}
    with _course_style():
        figure = CourseFigure(figsize=(7.6, 3.9))
        grid = figure.subplots(1, 2, sharey=True)
        for axes, (key, label) in zip(grid, panels.items(), strict=True):
            for number, (name, model) in enumerate(models.items()):
                style = {
                    "color": COLORS[number % len(COLORS)],
                    "marker": MARKERS[number % len(MARKERS)],
                }
                axes.errorbar(
                    model[key], model["accuracy"], model["margin"], capsize=3, linestyle="",
                    elinewidth=1.2, label=_drawable(name), **style,
                )  # fmt: skip
            axes.set(xlabel=label, xlim=(0, 1.1 * max(model[key] for model in models.values())))
            axes.grid(axis="y")
            axes.xaxis.set_major_locator(MaxNLocator(5))
        grid[0].set_ylabel("accuracy on dev")
        grid[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        handles, names = grid[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=min(4, len(names)))
        said = "; ".join(
            f"{name}: {model['accuracy']:.1%}, {model['ms']:.0f} ms, {model['megabytes']:.0f} MB"
            for name, model in models.items()
        )
        return _finish(figure, f"Accuracy against time and memory. {said}.")


def speed_accuracy(frame: pd.DataFrame) -> CourseFigure:
    """Show what speed costs in accuracy, one point a model; up and to the right is better.

    Args:
        frame: of `course_lib.compression.compare`. The first row is what the others are held to: a
            bar reaches over the 95% interval of a model's difference from it.

    Raises:
        ValueError: there is no model.
    """
    if not len(frame):
        raise ValueError("no models: there is nothing to draw")
    first = frame["score"].iloc[0]
    with _course_style():
        figure = CourseFigure(figsize=(7.2, 4.0))
        axes = figure.subplots()
        axes.axhline(first, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for number, (name, row) in enumerate(frame.iterrows()):
            style = {
                "color": COLORS[number % len(COLORS)],
                "marker": MARKERS[number % len(MARKERS)],
            }
            ends = sorted((first + row["low"], first + row["high"]))
            spread = [[max(0, row["score"] - ends[0])], [max(0, ends[1] - row["score"])]]
            axes.errorbar(
                row["speedup"], row["score"], None if number == 0 else spread, capsize=3,
                linestyle="", elinewidth=1.2, label=_drawable(f"{name}, {row['megabytes']:.1f} MB"),
                **style,
            )  # fmt: skip
        axes.set(xlabel="times as fast as the first", ylabel="score")
        axes.set_xlim(0, 1.1 * frame["speedup"].max())
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")
        said = "; ".join(
            f"{name}: {row['speedup']:.2f} times as fast, score {row['score']:.1%}, "
            f"{row['megabytes']:.1f} MB"
            for name, row in frame.iterrows()
        )
        return _finish(figure, f"Accuracy against speed. {said}.")


def head_importance(
    worth: Sequence[Sequence[float]], outlined: Sequence[tuple[int, int]] = ()
) -> CourseFigure:
    """Show what each attention head is worth, a row a layer, as a share of the most important one.

    Args:
        worth: importance of shape [layers, heads], at least 0, such as
            `course_lib.compression.importance` gives.
        outlined: (layer, head) of heads to draw a frame around.

    Raises:
        ValueError: the shape is another, or nothing is worth anything.
    """
    worth = np.asarray(worth, dtype=float)
    if worth.ndim != 2 or not worth.size or worth.max() <= 0:
        raise ValueError(f"worth has shape {worth.shape}; expected [layers, heads], not all 0")
    share = worth / worth.max()
    layers, heads = share.shape
    with _course_style():
        figure = CourseFigure(figsize=(max(4.0, 0.58 * heads + 1.0), 0.52 * layers + 1.1))
        axes = figure.subplots()
        axes.imshow(share, cmap=_HEAT, vmin=0, vmax=1, aspect="auto")
        for layer, head in np.ndindex(share.shape):
            color = "white" if share[layer, head] > 0.55 else INK
            text = f"{share[layer, head]:.0%}"
            axes.text(head, layer, text, ha="center", va="center", color=color, fontsize=9)
        for layer, head in outlined:
            corner = (head - 0.44, layer - 0.42)
            style = {"fill": False, "edgecolor": COLORS[1], "linewidth": 2.2}
            axes.add_patch(Rectangle(corner, 0.88, 0.84, **style))
        axes.set_xticks(range(heads))
        axes.set_yticks(range(layers))
        axes.set(xlabel="head", ylabel="layer", title="Importance, in % of the largest")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, colors=INK)
        most, least = (
            np.unravel_index(place, share.shape) for place in (share.argmax(), share.argmin())
        )
        alt = (
            f"Importance of {heads} heads in each of {layers} layers. The most important is head "
            f"{most[1]} of layer {most[0]}, the least head {least[1]} of layer {least[0]}, with "
            f"{share.min():.0%} of that."
        )
        return _finish(figure, alt)


def width_tradeoff(
    widths: Sequence[float],
    accuracy: Mapping[str, Sequence[float]],
    milliseconds: Sequence[float],
    megabytes: Sequence[float],
    chosen: float | None = None,
) -> CourseFigure:
    """Show what a width keeps of accuracy, and what it costs in time and on disk.

    Args:
        widths: shares of the whole width, one a model.
        accuracy: for each way of making the models, 0 to 1 a width.
        milliseconds: time of a batch, one value a width.
        megabytes: on disk, one value a width.
        chosen: one of `widths`, to be marked and have its figures written beside it.

    Raises:
        ValueError: the numbers of values differ, there are none, or `chosen` is no width.
    """
    widths = [float(width) for width in widths]
    columns = [*accuracy.values(), milliseconds, megabytes]
    if not widths or not accuracy or any(len(column) != len(widths) for column in columns):
        raise ValueError(f"{[len(column) for column in columns]} values for {len(widths)} widths")
    if chosen is not None and chosen not in widths:
        raise ValueError(f"chosen is {chosen}; expected one of {widths}")
    order = np.argsort(widths)
    at = [widths[place] for place in order]
    low = min(min(values) for values in accuracy.values())
    high = max(max(values) for values in accuracy.values())
    spread = max(high - low, 0.04)
    with _course_style():
        figure = CourseFigure(figsize=(8.2, 3.3))
        left, *bars = figure.subplots(1, 3, width_ratios=[2.1, 1, 1])
        for number, (name, values) in enumerate(accuracy.items()):
            style = {"color": COLORS[number], "marker": MARKERS[number]}
            values = [values[place] for place in order]
            left.plot(at, values, label=_drawable(name), **style)
            if chosen is not None:
                value = values[at.index(chosen)]
                there = [other[widths.index(chosen)] for other in accuracy.values()]
                if value in there[:number]:
                    continue  # one label for one place
                # series stand one above the other in the order of their values there
                rank = sum(value < other for other in there)
                place = {"xytext": (0, -9 if rank else 9), "ha": "center"}
                place["va"] = "top" if rank else "bottom"
                place["bbox"] = _PAPER
                _direct_label(left, chosen, value, f"{value:.1%}", COLORS[number], **place)
        left.set(title="Accuracy", xlabel="width", ylim=(low - 0.22 * spread, high + 0.3 * spread))
        left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        left.legend(loc="lower right")
        left.grid(axis="y")
        for axes, values, title in zip(
            bars, (milliseconds, megabytes), ("ms a batch", "MB on disk"), strict=True
        ):
            heights = [values[place] for place in order]
            faded = ["#9DB8CC" if chosen not in (None, width) else COLORS[0] for width in at]
            axes.bar(range(len(at)), heights, 0.62, color=faded, linewidth=0)
            for place, (width, height) in enumerate(zip(at, heights, strict=True)):
                if chosen in (None, width):
                    axes.text(place, height, f"{height:.0f}", ha="center", va="bottom", fontsize=9)
            axes.set(title=title, xlabel="width", ylim=(0, 1.15 * max(heights)))
            axes.set_xticks(range(len(at)), [f"{width:g}" for width in at])
        left.set_xticks(at, [f"{width:g}" for width in at])
        said = "; ".join(
            f"width {width:g}: "
            + ", ".join(f"{name} {values[place]:.1%}" for name, values in accuracy.items())
            + f", {milliseconds[place]:.0f} ms, {megabytes[place]:.0f} MB"
            for width, place in zip(at, order, strict=True)
            if chosen in (None, width)
        )
        return _finish(figure, f"Accuracy, time and size by width. {said}.")


def limit_costs(values: np.ndarray, limits: Mapping[str, float]) -> CourseFigure:
    """Show where limits of an INT8 scale lie among a tensor's values, and what each costs.

    Args:
        values: of a tensor, of any shape.
        limits: by name the largest value that shall fit; it becomes 127.

    Raises:
        ValueError: there is no value other than 0, no limit, or one that is not above 0.
    """
    sizes = np.abs(np.asarray(values, dtype="float32")).reshape(-1)
    if not limits or not all(limit > 0 for limit in limits.values()) or not sizes.any():
        raise ValueError(f"limits {dict(limits)}; expected some above 0, and values not all 0")
    top = float(sizes.max())
    counts, edges = np.histogram(sizes, 2**15, (0, top))
    middles, shares = (edges[:-1] + edges[1:]) / 2, counts / sizes.size

    def costs(limit: float) -> tuple[float, float]:
        step, inside = limit / 127, middles <= limit
        off = np.where(inside, np.round(middles / step) * step, limit) - middles
        return tuple(float(off[part] ** 2 @ shares[part]) for part in (inside, ~inside))

    grid = np.linspace(0.06 * top, max(top, *limits.values()), 80)
    rounding, clipping = np.array([costs(limit) for limit in grid]).T
    total = rounding + clipping
    with _course_style():
        figure = CourseFigure(figsize=(7.4, 4.9))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.25])
        above.hist(sizes, 120, color="#9DB8CC", log=True)
        above.set(title="How often a value is that large", ylabel="values")
        for line, style, name in ((rounding, "--", "rounding"), (clipping, ":", "clipping")):
            below.plot(grid, line, style, color=MUTED, marker="", linewidth=1.4, label=name)
        below.plot(grid, total, color=INK, marker="", linewidth=1.4, label="both")
        said = []
        for number, (name, limit) in enumerate(limits.items()):
            color = COLORS[number % len(COLORS)]
            cost = sum(costs(limit))
            for axes in (above, below):
                axes.axvline(limit, color=color, linewidth=1.2, marker="", alpha=0.8)
            below.plot(
                limit, cost, color=color, linestyle="", markersize=8, zorder=5,
                marker=MARKERS[number % len(MARKERS)], label=f"{_drawable(name)} {limit:.2f}",
            )  # fmt: skip
            beyond = float((sizes > limit).mean())
            said.append(f"{name} {limit:.2f}, error {cost:.1e}, {beyond:.3%} of values clipped")
        below.set(
            yscale="log", ylim=(total.min() / 6, 2 * total.max()), xlim=(0, 1.02 * grid[-1]),
            title="What a limit there costs", ylabel="mean squared error",
            xlabel="absolute value, and limit",
        )  # fmt: skip
        handles, names = below.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside right upper")
        alt = f"Values up to {top:.2f}, and the squared error against the limit. {'; '.join(said)}"
        return _finish(figure, alt + ".")


def taxonomy_tree(
    scores: Mapping[str, float],
    counts: Mapping[str, int] | None = None,
    separator: str = "##",
    rows: int = 24,
) -> CourseFigure:
    """Show labels that are paths as trees from left to right, coloured by F1.

    Args:
        scores: F1 by label, 0 to 1, all ancestors of a label among them.
        counts: texts by label; labels of fewer than one are left grey.
        separator: between the parts of a path.
        rows: labels without children that one column of the figure takes, where the trees allow it.

    Raises:
        ValueError: there are no scores, one is not from 0 to 1, or a parent is missing.
    """
    if not scores or not all(0 <= value <= 1 for value in scores.values()):
        raise ValueError(f"scores {dict(list(scores.items())[:3])}; expected some, from 0 to 1")
    children: dict[str, list[str]] = {"": []}
    for label in scores:
        above = separator.join(label.split(separator)[:-1])
        if above and above not in scores:
            raise ValueError(f"{label!r} has no parent {above!r} among the scores")
        children.setdefault(above, []).append(label)

    def leaves(label: str) -> int:
        return sum(map(leaves, children.get(label, ()))) or 1

    panels: list[list[str]] = [[]]
    for root in children[""]:  # whole trees side by side, in their order
        if panels[-1] and sum(map(leaves, panels[-1])) + leaves(root) > rows:
            panels.append([])
        panels[-1].append(root)
    height = max(sum(map(leaves, roots)) for roots in panels)
    depth = max(label.count(separator) for label in scores) + 1
    with _course_style():
        figure = CourseFigure(figsize=(1.28 * depth * len(panels) + 0.9, 0.27 * height + 0.7))
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, roots in zip(grid, panels, strict=True):
            axes.set(xlim=(-0.02, depth), ylim=(height - 0.4, -0.6))
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
                value, empty = scores[label], counts is not None and not counts.get(label)
                face = "#EEEEEE" if empty else _HEAT(value)
                axes.add_patch(
                    FancyBboxPatch(
                        (level, y - 0.36), 0.84, 0.72, facecolor=face, edgecolor="#BBBBBB",
                        boxstyle="round,pad=0,rounding_size=0.08", linewidth=0.6, zorder=2,
                    )
                )  # fmt: skip
                ink = "white" if value > 0.8 and not empty else INK
                name = _drawable(label.rpartition(separator)[2], 6)
                style = {"va": "center", "fontsize": 8.5, "color": ink, "zorder": 3}
                axes.text(level + 0.04, y, name, ha="left", **style)
                figures = "–" if empty else f"{value:.2f}"
                axes.text(level + 0.8, y, figures, ha="right", **style)
                return y

            for root in roots:
                draw(root, 0)
        scale = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(0, 1), _HEAT)
        bar = figure.colorbar(scale, ax=list(grid), shrink=min(1, 2.2 / (0.27 * height)), pad=0.01)
        bar.set_label("F1")
        bar.outline.set_visible(False)
        known = [label for label in scores if counts is None or counts.get(label)]
        ranked = sorted(known, key=scores.__getitem__)
        said = f"Tree of {len(scores)} labels on {depth} levels, coloured by F1."
        if len(known) < len(scores):
            said += f" {len(scores) - len(known)} have no text, and are grey."
        if ranked:
            best, worst = (f"{label} ({scores[label]:.2f})" for label in (ranked[-1], ranked[0]))
            said += f" The best is {best}, the worst {worst}."
        return _finish(figure, said)


def threshold_tradeoff(
    probabilities: np.ndarray, true: np.ndarray, threshold: float | None = None, name: str = ""
) -> CourseFigure:
    """Show what a threshold does with one label: who passes it, and precision, recall and F1.

    Args:
        probabilities: of the label, one a text, 0 to 1.
        true: which texts have it.
        threshold: marked in both panels; None marks none.
        name: of the label, for the title.

    Raises:
        ValueError: arrays of different shapes, no text with the label, a number outside 0 to 1.
    """
    values, has = np.asarray(probabilities, "float64"), np.asarray(true, bool)
    inside = threshold is None or 0 <= threshold <= 1
    if values.ndim != 1 or values.shape != has.shape or not has.any() or not inside:
        raise ValueError(
            f"probabilities {values.shape}, true {has.shape} with {has.sum()} texts, threshold "
            f"{threshold}; expected two lists alike, a text with the label, numbers from 0 to 1"
        )

    def figures(limit: float) -> tuple[float, float, float]:
        right, found = (has & (values >= limit)).sum(), (values >= limit).sum()
        precision = right / found if found else np.nan  # nothing found: neither right nor wrong
        return precision, right / has.sum(), 2 * right / (found + has.sum())

    grid = np.linspace(0.01, 0.99, 99)
    curves = np.array([figures(limit) for limit in grid]).T
    names = ("precision", "recall", "F1")
    with _course_style():
        figure = CourseFigure(figsize=(8.4, 3.1))
        left, right = figure.subplots(1, 2)
        bins = np.linspace(0, 1, 21)
        texts, groups = [values[~has], values[has]], ["without the label", "with it"]
        left.hist(texts, bins, label=groups, color=["#BBBBBB", COLORS[0]])
        left.set(title=f"Texts by probability {_drawable(name)}".strip(), yscale="log")
        left.set(xlabel="probability", ylabel="texts", ylim=(0.7, None), xlim=(0, 1))
        left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        left.legend(loc="upper right")
        for number, curve in enumerate(curves):
            style = {"color": COLORS[number], "linestyle": ("--", ":", "-")[number], "marker": ""}
            right.plot(grid, curve, label=names[number], **style)
        right.set(title="What a threshold gives", xlabel="threshold", xlim=(0, 1), ylim=(0, 1.03))
        best = int(curves[2].argmax())
        alt = f"Probabilities of a label that {has.sum()} of {has.size} texts have. The best F1, "
        alt += f"{curves[2][best]:.2f}, is at {grid[best]:.2f}."
        if threshold is not None:
            found = figures(threshold)
            for axes in (left, right):
                axes.axvline(threshold, color=INK, linewidth=1, linestyle="-.", marker="")
            for number, value in enumerate(found):
                mark = {"color": COLORS[number], "marker": MARKERS[number], "linestyle": ""}
                right.plot(threshold, value, **mark)
            said = ", ".join(f"{n} {v:.2f}" for n, v in zip(names, found, strict=True))
            right.set(title=f"At {threshold:.2f}: {said}".replace("nan", "–"))
            alt += f" At {threshold:.2f}: {said}."
        right.legend(loc="upper left", bbox_to_anchor=(1, 1))
        return _finish(figure, alt)


def latency_curves(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    ylabel: str = "latency, ms",
    notes: Sequence[str] = (),
) -> CourseFigure:
    """Show what a service's clients wait against how much it answers, one line a service.

    Args:
        lines: by name (texts a second, milliseconds) for each load, in rising order of the load.
        ylabel: which latency it is.
        notes: what stands beside the points of the line drawn last, such as the number of clients.

    Raises:
        ValueError: there are no lines, or one without points or with a latency of 0 or less.
    """
    if not lines or not all(points and min(y for _, y in points) > 0 for points in lines.values()):
        raise ValueError(f"lines {list(lines)}; expected some, each of points above 0")
    with _course_style():
        figure = CourseFigure(figsize=(7.2, 4.0))
        axes = figure.subplots()
        for number, (name, points) in enumerate(lines.items()):
            style = {
                "color": COLORS[number % len(COLORS)],
                "marker": MARKERS[number % len(MARKERS)],
            }
            axes.plot(*zip(*points, strict=True), label=_drawable(name), markersize=5, **style)
        for note, (x, y) in zip(notes, points, strict=False):
            _direct_label(axes, x, y, str(note), MUTED, xytext=(0, -11), ha="center", fontsize=8)
        axes.set(xlabel="texts a second", ylabel=ylabel, yscale="log")
        axes.margins(y=0.12)  # room for a note below the lowest point
        axes.set_xlim(0, 1.06 * max(x for points in lines.values() for x, _ in points))
        _plain_numbers(axes.yaxis)
        axes.grid(axis="y", which="both")
        figure.legend(loc="outside upper center", ncols=2)
        said = "; ".join(
            f"{name}: {points[0][1]:.0f} ms at {points[0][0]:.0f} texts a second to "
            f"{points[-1][1]:.0f} ms at {points[-1][0]:.0f}"
            for name, points in lines.items()
        )
        return _finish(figure, f"{ylabel} against throughput. {said}.")


def token_attributions(
    tokens: Sequence[str],
    scores: Sequence[float],
    label: str = "the label",
    values: bool = True,
    row: int = 20,
) -> CourseFigure:
    """Draw a text whose tokens are coloured by what speaks for a label (+) and against it (–).

    Signs stand below the tokens, so that nothing depends on colour.

    Args:
        tokens: "##" of a continued word is left out.
        scores: one a token, above 0 for the label; the largest has the deepest colour.
        label: what is explained.
        values: say how much, below each token of at least a tenth of the largest; else signs alone.
        row: Chinese characters a line.

    Raises:
        ValueError: the two differ in length, there is no token, or a score is not finite.
    """
    scores = np.asarray(scores, dtype=float)
    if not len(tokens) == scores.size > 0 or not np.isfinite(scores).all():
        raise ValueError(
            f"{len(tokens)} tokens and {scores.size} scores; expected a finite one each"
        )
    texts = [_drawable(token.removeprefix("##"), 2 * row) for token in tokens]
    widths = [max(1.0, sum(1.0 if ord(c) > 0x2E7F else 0.55 for c in text)) for text in texts]
    places, line, x = [], 0, 0.0
    for width in widths:
        if x and x + width > row:
            line, x = line + 1, 0.0
        places.append((x, line))
        x += width
    largest = float(np.abs(scores).max()) or 1.0
    heat = {
        sign: LinearSegmentedColormap.from_list("sign", ["#FFFFFF", color])
        for sign, color in ((1, POSITIVE), (-1, NEGATIVE))
    }
    with _course_style():
        figure = CourseFigure(figsize=(8.0, 0.72 * (line + 1) + 0.75))
        axes = figure.subplots()
        for text, score, width, (x, y) in zip(texts, scores, widths, places, strict=True):
            share = abs(score) / largest
            color = heat[1 if score > 0 else -1](0.85 * share)
            axes.add_patch(Rectangle((x, y), width, 0.62, facecolor=color, edgecolor="white"))
            ink = "white" if score > 0 and share > 0.75 else INK
            middle = x + width / 2
            axes.text(middle, y + 0.33, text, ha="center", va="center", fontsize=13, color=ink)
            if share >= 0.1:
                sign = "+" if score > 0 else "–"
                said = f"{sign}{abs(score):.1f}" if values else sign
                style = {"ha": "center", "va": "center", "fontsize": 8, "color": MUTED}
                axes.text(middle, y + 0.8, said, **style)
        axes.set(xlim=(-0.1, max(row, max(widths)) + 0.1), ylim=(line + 1.0, -0.05))
        axes.set_title(f"What speaks for {_drawable(label, 30)} (+) and against it (–)")
        axes.set_axis_off()
        order = np.argsort(-scores, kind="stable")
        best = [f"{texts[i]} ({scores[i]:+.2f})" for i in order[:3] if scores[i] > 0]
        worst = [f"{texts[i]} ({scores[i]:+.2f})" for i in order[::-1][:3] if scores[i] < 0]
        alt = f"{len(texts)} tokens. For {label}: {', '.join(best) or 'none'}. "
        return _finish(figure, f"{alt}Against it: {', '.join(worst) or 'none'}.")


def deletion_curves(
    curves: Mapping[str, Sequence[float]], label: str = "the label"
) -> CourseFigure:
    """Show how a probability falls while the tokens of a text are masked one after another.

    Args:
        curves: probabilities from the whole text to none of it, by the order of masking.
        label: whose probability it is.

    Raises:
        ValueError: no curve, one of fewer than two points, or a value that is no probability.
    """
    lines = {name: np.asarray(curve, dtype=float) for name, curve in curves.items()}
    fits = (c.ndim == 1 and c.size > 1 and ((c >= 0) & (c <= 1)).all() for c in lines.values())
    if not lines or not all(fits):
        raise ValueError("expected curves of two or more probabilities each")
    with _course_style():
        figure = CourseFigure(figsize=(7.0, 3.4))
        axes = figure.subplots()
        for name, curve in lines.items():
            every = max(1, curve.size // 8)
            share = np.linspace(0, 1, curve.size)
            axes.plot(
                share, curve, markevery=every, label=f"{_drawable(name, 24)}: {curve.mean():.2f}"
            )
        axes.set(xlim=(0, 1), ylim=(-0.03, 1.03), xlabel="share of the tokens that are masked")
        axes.set(
            ylabel="probability", title=f"Probability of {_drawable(label, 30)} while tokens go"
        )
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(axis="y")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title="masked first: mean")
        means = ", ".join(f"{name} {curve.mean():.2f}" for name, curve in lines.items())
        return _finish(figure, f"Probability while tokens are masked; mean of each curve: {means}.")


def attention_map(
    tokens: Sequence[str], weights: Sequence[Sequence[float]], title: str = "Attention"
) -> CourseFigure:
    """Show how much each token (a row) looks at each other one (a column).

    Args:
        tokens: of one text, with [CLS] and [SEP].
        weights: of shape [tokens, tokens]; every row sums to 1.

    Raises:
        ValueError: another shape, or rows that do not sum to 1.
    """
    weights = np.asarray(weights, dtype=float)
    count = len(tokens)
    if weights.shape != (count, count) or not np.allclose(weights.sum(axis=-1), 1, atol=1e-3):
        problem = f"weights of shape {weights.shape} for {count} tokens"
        raise ValueError(f"{problem}; expected [tokens, tokens] with rows that sum to 1")
    names = [_drawable(token, 6) for token in tokens]
    with _course_style():
        side = min(8.0, max(3.6, 0.24 * count + 1.4))
        figure = CourseFigure(figsize=(side + 0.9, side))
        axes = figure.subplots()
        picture = axes.imshow(weights, cmap=_HEAT, vmin=0)
        size = 9 if count <= 30 else max(4, 270 / count)
        axes.set_xticks(range(count), names, fontsize=size)
        for label, name in zip(axes.get_xticklabels(), names, strict=True):
            label.set_rotation(0 if len(name) == 1 else 90)
        axes.set_yticks(range(count), names, fontsize=size)
        axes.tick_params(length=0, colors=INK)
        axes.set(title=_drawable(title, 60), xlabel="looks at", ylabel="token")
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(picture, ax=axes, shrink=0.7)
        bar.ax.yaxis.set_major_formatter(PercentFormatter(1))
        bar.outline.set_visible(False)
        best = np.unravel_index(weights.argmax(), weights.shape)
        alt = f"{title}: {count} tokens. The largest weight, {weights.max():.0%}, is that of "
        return _finish(figure, f"{alt}{tokens[best[0]]!r} looking at {tokens[best[1]]!r}.")


def attention_grid(maps: np.ndarray) -> CourseFigure:
    """Show the attention of all heads at once, small: a row a layer, a column a head.

    Args:
        maps: of shape [layers, heads, tokens, tokens]; every last row sums to 1. Each picture has a
            scale of its own, from 0 to its largest weight.

    Raises:
        ValueError: another shape, or rows that do not sum to 1.
    """
    maps = np.asarray(maps, dtype=float)
    square = maps.ndim == 4 and maps.shape[-1] == maps.shape[-2] > 0
    if not square or not np.allclose(maps.sum(axis=-1), 1, atol=1e-3):
        problem = f"maps of shape {maps.shape}"
        raise ValueError(f"{problem}; expected [layers, heads, tokens, tokens], rows of sum 1")
    layers, heads, tokens = maps.shape[:3]
    with _course_style():
        figure = CourseFigure(figsize=(8.0, 8.0 * layers / max(heads, 4) + 0.7))
        grid = figure.subplots(layers, heads, squeeze=False)
        for layer, row in enumerate(grid):
            for head, axes in enumerate(row):
                axes.imshow(maps[layer, head], cmap=_HEAT, vmin=0)
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
                if layer == 0:
                    axes.set_title(str(head + 1), fontsize=9, loc="center", pad=3)
            row[0].set_ylabel(f"layer {layer + 1}", fontsize=9)
        figure.suptitle("Attention of every head: each row of a picture is a token that looks")
        alt = f"{layers} rows of {heads} small pictures, {tokens} by {tokens} tokens each, one a "
        return _finish(figure, f"{alt}head; darker where a token (row) looks more at a column.")


def layer_scatter(
    points: Mapping[str, np.ndarray], labels: Sequence[int], label_names: Sequence[str]
) -> CourseFigure:
    """Show the same examples as points in a plane, once for each layer, marked by their labels.

    Args:
        points: [examples, 2] by the name of a layer, such as the first two principal components.
        labels: an index into `label_names` an example.
        label_names: at most six.

    Raises:
        ValueError: no layer, another shape, a number that is not finite, or an unknown label.
    """
    labels = np.asarray(labels, dtype=int)
    clouds = {name: np.asarray(cloud, dtype=float) for name, cloud in points.items()}
    fits = (c.shape == (labels.size, 2) and np.isfinite(c).all() for c in clouds.values())
    known = labels.size and labels.min() >= 0 and labels.max() < len(label_names) <= len(COLORS)
    if not clouds or not all(fits) or not known:
        raise ValueError("expected finite [examples, 2] for each layer, and a known label each")
    with _course_style():
        figure = CourseFigure(figsize=(8.0, 2.3))
        for axes, (name, cloud) in zip(
            np.atleast_1d(figure.subplots(1, len(clouds))), clouds.items(), strict=True
        ):
            for index, label in enumerate(label_names):
                style = {"s": 14, "color": COLORS[index], "marker": MARKERS[index], "alpha": 0.6}
                axes.scatter(*cloud[labels == index].T, **style, linewidths=0, label=label)
            axes.set(xticks=[], yticks=[])
            axes.set_title(name, loc="center", fontsize=10)
            axes.set_box_aspect(1)
            axes.spines[:].set_visible(True)
            axes.margins(0.1)
        handles, names = axes.get_legend_handles_labels()
        names = [_drawable(name, 20) for name in names]
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        alt = f"{labels.size} examples as points, marked by label ({', '.join(label_names)}), in "
        return _finish(figure, f"{alt}{len(clouds)} panels: {', '.join(clouds)}.")


def batch_peaks(
    tried: Sequence[tuple[int, int | None]], budget: int, counted: Mapping[int, int] | None = None
) -> CourseFigure:
    """Show the memory of training on batches of several sizes, and which were too large.

    Args:
        tried: (examples, peak bytes; None where the process ran out of its memory).
        budget: bytes that a process may take.
        counted: bytes by examples that an estimate gives, drawn as a line.

    Raises:
        ValueError: no size has a peak.
    """
    peaks = {size: peak for size, peak in tried if peak is not None}
    if not peaks:
        raise ValueError("no size has a peak: there is nothing to draw")
    failed = sorted({size for size, peak in tried if peak is None})
    with _course_style():
        figure = CourseFigure(figsize=(6.8, 3.9))
        axes = figure.subplots()
        fitted = np.array(sorted(peaks.items()), dtype=float).T
        axes.plot(fitted[0], fitted[1] / 2**20, color=COLORS[0], label="peak of the process")
        if failed:
            style = {"color": COLORS[1], "marker": "X", "linestyle": "", "markersize": 8}
            axes.plot(failed, [budget / 2**20] * len(failed), label="did not fit", **style)
        if counted:
            line = np.array(sorted(counted.items()), dtype=float).T
            style = {"color": COLORS[2], "linestyle": "--", "marker": ""}
            axes.plot(line[0], line[1] / 2**20, label="counted, without Paddle itself", **style)
        axes.axhline(budget / 2**20, color=MUTED, linewidth=1, linestyle=":", marker="")
        place = {"xytext": (0, 4), "va": "bottom"}
        _direct_label(axes, 0, budget / 2**20, f"  budget {budget / 2**20:,.0f} MB", MUTED, **place)
        axes.set(xlabel="examples a batch", ylabel="MB", xlim=(0, 1.08 * max([*peaks, *failed])))
        axes.set_ylim(0, 1.15 * max(budget, *peaks.values()) / 2**20)
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        figure.legend(loc="outside upper center", ncols=3)
        said = ", ".join(f"{size}: {peak / 2**20:.0f}" for size, peak in sorted(peaks.items()))
        alt = f"Peak memory in MB by examples a batch: {said}. Budget {budget / 2**20:.0f} MB."
        if failed:
            alt += f" Too large: {', '.join(map(str, failed))}."
        return _finish(figure, alt)


def memory_price(frame: pd.DataFrame) -> CourseFigure:
    """Show what accumulation and recompute save in memory, and what they cost in time.

    Args:
        frame: what `course_lib.recipes.price_of_memory` returns.

    Raises:
        ValueError: it has no rows.
    """
    if frame.empty:
        raise ValueError("the table has no rows: there is nothing to draw")
    names = [
        f"{parts} piece{'s' if parts > 1 else ''}{', recompute' if again else ''}"
        for parts, again in frame.index
    ]
    colors = [COLORS[1] if again else COLORS[0] for _, again in frame.index]
    with _course_style():
        figure = CourseFigure(figsize=(7.6, 0.9 + 0.36 * len(names)))
        panels = {"activations": "activations, MB", "milliseconds": "forward and backward, ms"}
        grid = figure.subplots(1, 2, sharey=True)
        for axes, (key, title) in zip(grid, panels.items(), strict=True):
            bars = axes.barh(names, frame[key], color=colors, height=0.62)
            axes.bar_label(bars, [f"{value:,.0f}" for value in frame[key]], padding=3)
            axes.set(title=title, xlim=(0, 1.18 * frame[key].max()))
            axes.xaxis.set_visible(False)
            axes.spines["bottom"].set_visible(False)
        grid[0].invert_yaxis()
        said = "; ".join(
            f"{name}: {row.activations:.0f} MB, {row.milliseconds:.0f} ms"
            for name, row in zip(names, frame.itertuples(), strict=True)
        )
        return _finish(figure, f"Memory of the activations, and time. {said}.")


def transition_map(
    transitions: Sequence[Sequence[float]], labels: Sequence[str], title: str = "Transitions"
) -> CourseFigure:
    """Show the scores that a CRF gives to each label (a column) after each other one (a row).

    Args:
        transitions: of shape [labels, labels], `[label, the next label]`; above 0 it is liked.
        labels: their names. The scores are written into the cells of at most 12 labels.

    Raises:
        ValueError: another shape, or a score that is not finite.
    """
    scores = np.asarray(transitions, dtype=float)
    count = len(labels)
    if scores.shape != (count, count) or not count or not np.isfinite(scores).all():
        problem = f"transitions of shape {scores.shape} for {count} labels"
        raise ValueError(f"{problem}; expected finite ones of shape [labels, labels]")
    names = [_drawable(label, 10) for label in labels]
    largest = float(np.abs(scores).max()) or 1.0
    colors = LinearSegmentedColormap.from_list("signed", [NEGATIVE, "#FFFFFF", POSITIVE])
    with _course_style():
        side = 4.4 if count <= 12 else 7.2
        figure = CourseFigure(figsize=(side + 1.0, side))
        axes = figure.subplots()
        picture = axes.imshow(scores, cmap=colors, vmin=-largest, vmax=largest)
        size = 9 if count <= 12 else 7
        axes.set_xticks(range(count), names, fontsize=size, rotation=90)
        axes.set_yticks(range(count), names, fontsize=size)
        axes.tick_params(length=0, colors=INK)
        axes.set(title=_drawable(title, 60), xlabel="the next label", ylabel="label")
        axes.spines[:].set_visible(False)
        if count <= 12:
            for (row, column), value in np.ndenumerate(scores):
                deep = abs(value) > 0.7 * largest
                style = {"ha": "center", "va": "center", "fontsize": 8}
                color = "white" if deep and value > 0 else INK
                axes.text(column, row, f"{value:.2f}", color=color, **style)
        else:
            bar = figure.colorbar(picture, ax=axes, shrink=0.7)
            bar.outline.set_visible(False)
        said = []
        for word, place in (("highest", scores.argmax()), ("lowest", scores.argmin())):
            row, column = np.unravel_index(place, scores.shape)
            said.append(f"{word} {scores[row, column]:.2f}, {labels[row]} to {labels[column]}")
        return _finish(figure, f"{title}: {count} labels; {'; '.join(said)}.")


def share_panels(panels: Mapping[str, pd.DataFrame], xlabel: str, title: str) -> CourseFigure:
    """Show how several shares change with a setting, one panel a way of doing it.

    Args:
        panels: by title a frame whose index is the setting (numbers above 0, drawn by their
            logarithm) and whose columns are shares from 0 to 1; the same columns in all.
        xlabel: what the setting is.
        title: over all panels.

    Raises:
        ValueError: no panel, other columns in one, an empty frame, or values out of bounds.
    """
    frames = list(panels.values())
    fits = all(
        list(frame.columns) == list(frames[0].columns)
        and frame.size
        and frame.ge(0).all(axis=None)
        and frame.le(1).all(axis=None)
        and min(frame.index) > 0
        for frame in frames
    )
    if not frames or not fits:
        raise ValueError("expected frames of the same columns, of shares from 0 to 1")
    with _course_style():
        figure = CourseFigure(figsize=(0.8 + 3.4 * len(frames), 3.6))
        grid = np.atleast_1d(figure.subplots(1, len(frames), sharey=True))
        for axes, (name, frame) in zip(grid, panels.items(), strict=True):
            for column in frame:
                axes.plot(frame.index, frame[column], label=_drawable(column))
            axes.set(title=_drawable(name, 40), xlabel=xlabel, xscale="log", ylim=(-0.03, 1.03))
            axes.set_xticks(list(frame.index), [f"{value:g}" for value in frame.index])
            axes.minorticks_off()
            axes.yaxis.set_major_formatter(PercentFormatter(1))
            axes.grid(axis="y")
        handles, names = grid[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        figure.suptitle(_drawable(title), x=0.02, ha="left", fontsize=11)
        said = "; ".join(
            f"{name}, {column}: " + ", ".join(f"{value:.0%}" for value in frame[column])
            for name, frame in panels.items()
            for column in frame
        )
        return _finish(figure, f"{title}, by {xlabel}. {said}.")


def entity_text(
    texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int, str]]], row: int = 30
) -> CourseFigure:
    """Draw texts with their entities on coloured ground, the type below each.

    Args:
        texts: one below the other.
        spans: (first, end, type) of each text, end excluded; they do not overlap.
        row: Chinese characters a line.

    Raises:
        ValueError: not one list of spans a text, no text, or a span outside its text.
    """
    fits = len(texts) == len(spans) > 0 and all(
        0 <= first < end <= len(text)
        for text, own in zip(texts, spans, strict=False)
        for first, end, _ in own
    )
    if not fits:
        raise ValueError("expected one list of spans (first, end, type) a text, inside it")
    kinds = list(dict.fromkeys(kind for own in spans for _, _, kind in own))
    places, line, widest = [], 0, 1.0
    for text in texts:
        x, own = 0.0, []
        for character in text:
            width = 1.0 if ord(character) > 0x2E7F else 0.6
            if x and x + width > row:
                line, x = line + 1, 0.0
            own.append((x, line, width))
            x += width
            widest = max(widest, x)
        places.append(own)
        line += 1
    with _course_style():
        figure = CourseFigure(figsize=(8.4, 0.62 * line + 0.35))
        axes = figure.subplots()
        for text, own, marks in zip(texts, places, spans, strict=True):
            for first, end, kind in marks:
                color = COLORS[kinds.index(kind) % len(COLORS)]
                for at in range(first, end):
                    x, y, width = own[at]
                    box = Rectangle((x, y), width, 0.55, facecolor=color, alpha=0.3, linewidth=0)
                    axes.add_patch(box)
                x, y, _ = own[first]
                axes.text(x, y + 0.75, _drawable(kind, 12), fontsize=7.5, color=MUTED, va="center")
            for character, (x, y, width) in zip(text, own, strict=True):
                style = {"ha": "center", "va": "center", "fontsize": 12}
                axes.text(x + width / 2, y + 0.3, _drawable(character), **style)
        axes.set(xlim=(-0.1, max(row, widest) + 0.1), ylim=(line, -0.1))
        axes.set_axis_off()
        found = [
            f"{text[first:end]} ({kind})"
            for text, marks in zip(texts, spans, strict=True)
            for first, end, kind in marks
        ]
        return _finish(figure, f"{len(texts)} texts. Marked: {', '.join(found) or 'nothing'}.")


def vector_effects(effect: pd.DataFrame) -> CourseFigure:
    """Draw what added words do before any training, by their first vectors.

    Args:
        effect: as `course_lib.recipes.vector_effect` gives it; the first row is the reading
            without added words, drawn as a line in the panel of the loss.
    """
    kinds = list(effect.index[1:])
    panels = {
        "loss": ("Loss of characters between", "nats a hidden character", "{:.2f}"),
        "distance": ("Distance of their states", "1 - cosine", "{:.3f}"),
        "word found": ("Hidden word found", "share of the texts", "{:.0%}"),
    }
    with _course_style():
        figure = CourseFigure(figsize=(8.4, 3.2))
        for axes, (column, (title, unit, form)) in zip(
            figure.subplots(1, 3), panels.items(), strict=True
        ):
            values = effect[column].iloc[1:]
            axes.bar(kinds, values, width=0.6, color=COLORS[: len(kinds)])
            top = max(values)
            for place, value in enumerate(values):
                axes.annotate(
                    form.format(value),
                    (place, value),
                    xytext=(0, 3),
                    textcoords="offset points",
                    ha="center",
                )
            if column == "loss":
                plain = effect[column].iloc[0]
                axes.axhline(plain, color=INK, linestyle="--", linewidth=1)
                axes.set_xlabel(f"dashed: {effect.index[0]}, {form.format(plain)}")
            axes.set(title=title, ylabel=unit, ylim=(0, 1.15 * top if top else 1))
        said = "; ".join(
            f"{name}: loss {row['loss']:.2f}, distance {row['distance']:.3f}"
            for name, row in effect.iterrows()
        )
        return _finish(figure, f"Added words before training. {said}.")


def method_differences(table: pd.DataFrame, unit: str = "accuracy") -> CourseFigure:
    """Draw how much better or worse each method is than the first, with its interval.

    Args:
        table: a row a method, with "difference", "low" and "high"; the first row, which has none,
            is what the others are compared with.
        unit: of the differences.
    """
    base, rows = table.index[0], table.iloc[1:]
    with _course_style():
        figure = CourseFigure(figsize=(8.0, 0.9 + 0.5 * len(rows)))
        axes = figure.subplots()
        places = np.arange(len(rows))[::-1]
        spans = [rows["difference"] - rows["low"], rows["high"] - rows["difference"]]
        style = {"fmt": "o", "color": COLORS[0], "ecolor": INK, "capsize": 4}
        axes.errorbar(rows["difference"], places, xerr=np.array(spans, dtype=float), **style)
        axes.axvline(0, color=MUTED, linestyle="--", linewidth=1)
        axes.set_yticks(places, [_drawable(name, 45) for name in rows.index])
        axes.set(ylim=(-0.6, len(rows) - 0.4), xlabel=f"{unit} minus that of {base!r}")
        axes.grid(axis="x")
        said = "; ".join(
            f"{name}: {row['difference']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f})"
            for name, row in rows.iterrows()
        )
        return _finish(figure, f"Difference of {unit} to {base}. {said}.")


def precision_recall(
    probabilities: Sequence[float], true: Sequence[bool], threshold: float = 0.5, name: str = ""
) -> CourseFigure:
    """Show all bargains between precision and recall of one class, and the one of a threshold.

    Args:
        probabilities: of the class, one an example, 0 to 1.
        true: which examples are of the class.
        threshold: marked on the curve.
        name: of the class, for the title.

    Raises:
        ValueError: arrays of different shapes, no example of the class, a number outside 0 to 1.
    """
    values, has = np.asarray(probabilities, "float64"), np.asarray(true, bool)
    if values.ndim != 1 or values.shape != has.shape or not has.any() or not 0 <= threshold <= 1:
        raise ValueError(
            f"probabilities {values.shape}, true {has.shape} with {has.sum()} of the class, "
            f"threshold {threshold}; expected two lists alike, one of the class, 0 to 1"
        )

    def point(limit: float) -> tuple[float, float]:
        right, found = (has & (values >= limit)).sum(), (values >= limit).sum()
        return right / has.sum(), right / found if found else 1.0

    curve = np.array([point(limit) for limit in np.unique(values)[::-1]]).T
    recall, precision = point(threshold)
    with _course_style():
        figure = CourseFigure(figsize=(6.4, 3.8))
        axes = figure.subplots()
        axes.plot(
            *curve, color=COLORS[0], drawstyle="steps-post", marker="", label="all thresholds"
        )
        style = {"color": COLORS[1], "marker": "D", "linestyle": "", "markersize": 9}
        axes.plot(recall, precision, label=f"threshold {threshold:.2f}", **style)
        share = has.mean()
        axes.axhline(share, color=MUTED, linewidth=1, linestyle=":", marker="", label="chance")
        said = f"recall {recall:.2f}, precision {precision:.2f}"
        axes.set(title=f"{_drawable(name)} at {threshold:.2f}: {said}".strip())
        axes.set(xlabel="recall", ylabel="precision", xlim=(-0.02, 1.02), ylim=(0, 1.05))
        axes.grid()
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        alt = f"Precision against recall, {has.sum()} of {has.size} examples are of the class. "
        return _finish(figure, alt + f"At the threshold {threshold:.2f}: {said}.")


def gain_intervals(gains: Mapping[str, pd.DataFrame], unit: str = "") -> CourseFigure:
    """Show what remedies gain against doing nothing: a point and an interval each, 0 is no gain.

    Args:
        gains: by name of a figure (a panel each), tables with a row a remedy and the columns
            "gain", "low" and "high".
        unit: of the gains, written below.

    Raises:
        ValueError: no table, or tables of different remedies.
    """
    frames = list(gains.values())
    rows = [list(frame.index) for frame in frames]
    if not rows or not rows[0] or any(row != rows[0] for row in rows):
        raise ValueError("no table, or tables of different remedies: there is nothing to compare")
    names = [_drawable(name) for name in frames[0].index]
    places = np.arange(len(names))
    with _course_style():
        figure = CourseFigure(figsize=(8.4, 1.1 + 0.42 * len(names)))
        panels = figure.subplots(1, len(frames), sharey=True, squeeze=False)[0]
        for axes, (title, frame) in zip(panels, gains.items(), strict=True):
            axes.axvline(0, color=INK, linewidth=1, marker="")
            for place, row in zip(places, frame.itertuples(), strict=True):
                color = COLORS[0] if row.low > 0 else COLORS[1] if row.high < 0 else MUTED
                marker = "o" if row.low > 0 else "v" if row.high < 0 else "s"
                axes.plot([row.low, row.high], [place, place], color=color, marker="|")
                axes.plot(row.gain, place, color=color, marker=marker, linestyle="")
            axes.set(title=_drawable(title), xlabel=unit, yticks=places, yticklabels=names)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.grid(axis="x")
        panels[0].invert_yaxis()
        said = ". ".join(
            f"{title}: "
            + "; ".join(
                f"{name} {row.gain:+.3f} ({row.low:+.3f} to {row.high:+.3f})"
                for name, row in zip(frame.index, frame.itertuples(), strict=True)
            )
            for title, frame in gains.items()
        )
        return _finish(figure, f"Gains against doing nothing, with intervals. {said}.")


def accuracy_by_size(points: pd.DataFrame, chance: float | None = None) -> CourseFigure:
    """Show how accuracy grows with the number of labelled examples, a line a learner.

    Args:
        points: what `course_lib.recipes.curve_points` returns.
        chance: accuracy of guessing, drawn as a line.

    Raises:
        ValueError: there is no point.
    """
    if points.empty:
        raise ValueError("no points: there is nothing to draw")
    sizes = sorted(set(points.index.get_level_values("examples")))
    with _course_style():
        figure = CourseFigure(figsize=(7.2, 4.0))
        axes = figure.subplots()
        names = list(dict.fromkeys(points.index.get_level_values("learner")))
        for number, name in enumerate(names):
            line = points.xs(name, level="learner").sort_index()
            spread = [line["accuracy"] - line["low"], line["high"] - line["accuracy"]]
            shift = 1.04 ** (number - (len(names) - 1) / 2)  # so that bars do not hide each other
            axes.errorbar(
                line.index * shift, line["accuracy"], np.maximum(spread, 0), capsize=3,
                elinewidth=1.2, color=COLORS[number % len(COLORS)],
                marker=MARKERS[number % len(MARKERS)], label=_drawable(name),
            )  # fmt: skip
        if chance is not None:
            axes.axhline(chance, color=MUTED, linewidth=1, linestyle=":", marker="", label="chance")
        axes.set(xscale="log", xlabel="labelled examples", ylabel="accuracy")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.set_xticks([], minor=True)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")
        said = "; ".join(
            f"{name} with {size}: {row.accuracy:.1%} ({row.low:.1%} to {row.high:.1%})"
            for (name, size), row in zip(points.index, points.itertuples(), strict=True)
        )
        return _finish(figure, f"Accuracy by number of labelled examples. {said}.")


def recall_against_time(frame: pd.DataFrame, count: int) -> CourseFigure:
    """Show what each way to search finds and how long it takes; up and to the left is better.

    Args:
        frame: of `course_lib.recipes.compare_search`.
        count: the K of the recall that is drawn, with its interval.

    Raises:
        ValueError: there is no method, or no recall at this count.
    """
    columns = [f"{name}@{count}" for name in ("recall", "low", "high")]
    if not len(frame) or not {*columns, "ms"} <= set(frame.columns):
        raise ValueError(f"no columns {columns} and ms: there is nothing to draw")
    with _course_style():
        figure = CourseFigure(figsize=(7.2, 3.8))
        axes = figure.subplots()
        for number, (name, row) in enumerate(frame.iterrows()):
            recall, low, high = row[columns]
            axes.errorbar(
                row["ms"], recall, [[recall - low], [high - recall]], capsize=3, linestyle="",
                elinewidth=1.2, color=COLORS[number % len(COLORS)],
                marker=MARKERS[number % len(MARKERS)], label=_drawable(str(name)),
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set(xlabel="milliseconds a query", ylabel=f"recall@{count}")
        _plain_numbers(axes.xaxis)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")
        said = "; ".join(
            f"{name}: {row[columns[0]]:.1%} in {row['ms']:.3g} ms" for name, row in frame.iterrows()
        )
        return _finish(figure, f"Recall at {count} against time. {said}.")


def _plain_numbers(axis) -> None:
    """Write 1, 2, 5, 10, 20 at a logarithmic axis, and nothing that could overlap between them."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
