"""Figures and experiments of chapter 01."""

from collections.abc import Mapping, Sequence

from course_lib.notebook.style import (
    BESIDE,
    COLORS,
    HEAT,
    INK,
    MUTED,
    NEGATIVE,
    PAPER,
    POSITIVE,
    CourseFigure,
    drawable,
)

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator


def length_histogram(
    lengths: Sequence[int],
    max_seq_length: int | None = None,
    unit: str = "characters",
    title: str | None = None,
) -> CourseFigure:
    """Show how long texts are, and how many of them a maximum would cut.

    Args:
        lengths: one per text, in `unit`.
        max_seq_length: where texts will be cut, in the same unit; None draws no limit.
        unit: what was counted ("characters", "tokens").
        title: default: the number of texts.
    """
    values = np.asarray(lengths)
    median, high = (int(np.percentile(values, q)) for q in (50, 95))
    longest = int(values.max())
    # The last half per cent would squeeze everything else to the left: the axis ends before it.
    end = max(int(np.percentile(values, 99.5)), (max_seq_length or 0) * 5 // 4, 1)
    cut = None if max_seq_length is None else float((values > max_seq_length).mean())
    with CourseFigure(figsize=(7.2, 3.3)) as figure:
        axes = figure.subplots()
        # Whole units per bar, and an edge exactly where the limit cuts.
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
            note = {**BESIDE, "color": INK, "bbox": PAPER}
            axes.annotate(f"{text} {value:,}", (value, top * height), **note)
        if max_seq_length is not None:
            for bar, left in zip(bars, edges[:-1], strict=True):
                if left > max_seq_length:
                    bar.set(facecolor=COLORS[1], hatch="////", edgecolor="white")
            limit = {"color": COLORS[1], "linewidth": 1.6, "linestyle": "--", "marker": ""}
            axes.axvline(max_seq_length + 0.5, **limit)
            text = f"max_seq_length {max_seq_length}\ncuts {cut:.1%} of the texts"
            note = {**BESIDE, "color": "#A84A00", "bbox": PAPER}
            if max_seq_length >= 0.7 * end:
                note |= {"xytext": (-6, 0), "ha": "right"}
            axes.annotate(text, (max_seq_length, top * 0.84), **note)
        axes.set_title(title or f"{values.size:,} texts")
        beyond = int((values > end).sum())
        if beyond:
            note = f"{beyond} longer, up to {longest:,} \u2192"
            corner = {"xycoords": "axes fraction", "ha": "right", "va": "bottom"}
            axes.annotate(note, (1, 0.03), **corner, color=MUTED, fontsize=9)
        alt = (
            f"Histogram of the lengths of {values.size:,} texts in {unit}: median {median}, "
            f"95th percentile {high}, longest {longest:,}."
        )
        if cut is not None:
            alt += f" A maximum of {max_seq_length} cuts {cut:.1%} of them."
        return figure.finish(alt)


def confusion_matrix(matrix: Sequence[Sequence[int]], label_names: Sequence[str]) -> CourseFigure:
    """Show how often each true label (row) was predicted as each label (column).

    Args:
        matrix: counts, shape [labels, labels], as `sklearn.metrics.confusion_matrix` returns.
        label_names: the name of each row and column.
    """
    matrix, count = np.asarray(matrix), len(label_names)
    label_names = [drawable(name) for name in label_names]
    share = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    accuracy = matrix.trace() / matrix.sum()
    side = max(3.4, (0.9 if count <= 4 else 0.62) * count + 1.6)
    with CourseFigure(figsize=(side + 0.35, side)) as figure:
        axes = figure.subplots()
        axes.imshow(share, cmap=HEAT, vmin=0, vmax=1)
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
        return figure.finish(f"Confusion matrix, accuracy {accuracy:.1%}. {'; '.join(rows)}.")


def probability_bars(
    predictions: Sequence[Mapping],
    labels: Sequence[int] | None = None,
    title: str | None = None,
) -> CourseFigure:
    """Show the probabilities of two labels for each text, one full bar per text.

    Args:
        predictions: what `course_lib.training.predict` returns.
        labels: true label ids, one per text; printed behind the bars when given.
        title: printed above.
    """
    names = [drawable(name) for name in predictions[0]["probabilities"]]
    rows = np.array([list(each["probabilities"].values()) for each in predictions])
    texts = [drawable(each["text"], 26) for each in predictions]
    heights, left = np.arange(len(texts)), np.zeros(len(texts))
    with CourseFigure({"hatch.linewidth": 0.6}, figsize=(7.6, 0.95 + 0.42 * len(texts))) as figure:
        axes = figure.subplots()
        for values, color, hatch in zip(rows.T, (NEGATIVE, POSITIVE), ("////", ""), strict=True):
            style = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
            axes.barh(heights, values, 0.62, left=left, **style)
            for height, start, value in zip(heights, left, values, strict=True):
                if value >= 0.09:
                    text = f"{value:.0%}" if value < 0.995 else f"{value:.1%}"
                    box = {"facecolor": color, "edgecolor": "none", "pad": 1.5} if hatch else None
                    style = {"ha": "center", "va": "center_baseline", "color": "white"}
                    axes.text(start + value / 2, height, text, **style, fontsize=9, bbox=box)
            left = left + values
        axes.set(xlim=(0, 1), ylim=(len(texts) - 0.5, -0.5), xticks=[])
        axes.set_yticks(heights, texts)
        axes.tick_params(length=0, labelcolor=INK)
        axes.spines[:].set_visible(False)
        for height, label in zip(heights, () if labels is None else labels, strict=False):
            style = {"color": (NEGATIVE, POSITIVE)[label], "annotation_clip": False, **BESIDE}
            axes.annotate(f"labeled {names[label]}", (1, height), **style)
        ends = {"fontsize": 10, "va": "bottom", "transform": axes.get_xaxis_transform()}
        axes.text(0, 1.02, names[0], color=NEGATIVE, ha="left", **ends)
        axes.text(1, 1.02, names[1], color=POSITIVE, ha="right", **ends)
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        # enough to tell the bars apart: the alt text joins all excerpts into one line
        parts = (
            f"{drawable(text, 12)}: {names[row.argmax()]} {row.max():.0%}"
            for text, row in zip(texts, rows, strict=True)
        )
        return figure.finish(f"Probabilities. {'; '.join(parts)}.")


def confident_mistakes(
    predictions: Sequence[Mapping], labels: Sequence[int], count: int = 6
) -> CourseFigure:
    """Show the wrongly classified texts that the model was surest about, surest first.

    Args:
        predictions: what `course_lib.training.predict` returns.
        labels: true label ids, one per prediction.
        count: how many at most.
    """
    rows = np.array([list(each["probabilities"].values()) for each in predictions])
    true = np.asarray(labels, dtype=int)
    wrong = np.flatnonzero(rows.argmax(axis=1) != true)
    chosen = wrong[np.argsort(-rows[wrong].max(axis=1), kind="stable")][:count]
    title = f"Surest of the {wrong.size:,} mistakes in {len(predictions):,} texts"
    return probability_bars([predictions[i] for i in chosen], true[chosen], title)
