"""Figures and experiments of chapter 18."""

from collections.abc import Mapping, Sequence

from course_lib.notebook.style import (
    COLORS,
    HEAT,
    INK,
    MARKERS,
    MUTED,
    NEGATIVE,
    POSITIVE,
    CourseFigure,
    drawable,
)

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter


def token_attributions(
    tokens: Sequence[str],
    scores: Sequence[float],
    label: str = "the label",
    values: bool = True,
    row: int = 20,
) -> CourseFigure:
    """Draw a text whose tokens are colored by how much they support (+) or contradict (–) a label.

    Signs below the tokens repeat what the color says, so that nothing depends on color.

    Args:
        tokens: "##" of a continued word is left out.
        scores: one per token, above 0 for the label; the largest has the deepest color.
        label: what is explained.
        values: say how much, below each token of at least a tenth of the largest; else signs alone.
        row: Chinese characters per line.
    """
    scores = np.asarray(scores, dtype=float)
    texts = [drawable(token.removeprefix("##"), 2 * row) for token in tokens]
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
    with CourseFigure(figsize=(8.0, 0.72 * (line + 1) + 0.75)) as figure:
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
                number = f"{sign}{abs(score):.1f}" if values else sign
                style = {"ha": "center", "va": "center", "fontsize": 8, "color": MUTED}
                axes.text(middle, y + 0.8, number, **style)
        axes.set(xlim=(-0.1, max(row, max(widths)) + 0.1), ylim=(line + 1.0, -0.05))
        axes.set_title(f"What supports {drawable(label, 30)} (+) and what contradicts it (–)")
        axes.set_axis_off()
        order = np.argsort(-scores, kind="stable")
        best = [f"{texts[i]} ({scores[i]:+.2f})" for i in order[:3] if scores[i] > 0]
        worst = [f"{texts[i]} ({scores[i]:+.2f})" for i in order[::-1][:3] if scores[i] < 0]
        alt = f"{len(texts)} tokens. For {label}: {', '.join(best) or 'none'}. "
        return figure.finish(f"{alt}Against it: {', '.join(worst) or 'none'}.")


def deletion_curves(
    curves: Mapping[str, Sequence[float]], label: str = "the label"
) -> CourseFigure:
    """Show how a probability falls while the tokens of a text are masked one after another.

    Args:
        curves: probabilities from the whole text to none of it, by the order of masking.
        label: whose probability it is.
    """
    lines = {name: np.asarray(curve, dtype=float) for name, curve in curves.items()}
    with CourseFigure(figsize=(7.0, 3.4)) as figure:
        axes = figure.subplots()
        for name, curve in lines.items():
            every = max(1, curve.size // 8)
            share = np.linspace(0, 1, curve.size)
            axes.plot(
                share, curve, markevery=every, label=f"{drawable(name, 24)}: {curve.mean():.2f}"
            )
        axes.set(xlim=(0, 1), ylim=(-0.03, 1.03), xlabel="share of the tokens that are masked")
        title = f"Probability of {drawable(label, 30)} while tokens are masked"
        axes.set(ylabel="probability", title=title)
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(axis="y")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title="masked first: mean")
        means = ", ".join(f"{name} {curve.mean():.2f}" for name, curve in lines.items())
        return figure.finish(f"Probability while tokens are masked; mean of each curve: {means}.")


def attention_map(
    tokens: Sequence[str], weights: Sequence[Sequence[float]], title: str = "Attention"
) -> CourseFigure:
    """Show how much each token (a row) looks at each other one (a column).

    Args:
        tokens: of one text, with [CLS] and [SEP].
        weights: of shape [tokens, tokens]; every row sums to 1.
    """
    weights = np.asarray(weights, dtype=float)
    count = len(tokens)
    names = [drawable(token, 6) for token in tokens]
    side = min(8.0, max(3.6, 0.24 * count + 1.4))
    with CourseFigure(figsize=(side + 0.9, side)) as figure:
        axes = figure.subplots()
        picture = axes.imshow(weights, cmap=HEAT, vmin=0)
        size = 9 if count <= 30 else max(4, 270 / count)
        axes.set_xticks(range(count), names, fontsize=size)
        for label, name in zip(axes.get_xticklabels(), names, strict=True):
            label.set_rotation(0 if len(name) == 1 else 90)
        axes.set_yticks(range(count), names, fontsize=size)
        axes.tick_params(length=0, colors=INK)
        axes.set(title=drawable(title, 60), xlabel="looks at", ylabel="token")
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(picture, ax=axes, shrink=0.7)
        bar.ax.yaxis.set_major_formatter(PercentFormatter(1))
        bar.outline.set_visible(False)
        best = [int(place) for place in np.unravel_index(weights.argmax(), weights.shape)]
        alt = f"{title}: {count} tokens. The largest weight, {weights.max():.0%}, is that of "
        return figure.finish(f"{alt}{tokens[best[0]]!r} looking at {tokens[best[1]]!r}.")


def attention_grid(maps: np.ndarray) -> CourseFigure:
    """Show the attention of all heads at once, small: a row per layer, a column per head.

    Args:
        maps: of shape [layers, heads, tokens, tokens]; every last row sums to 1. Each picture has a
            scale of its own, from 0 to its largest weight.
    """
    layers, heads, tokens = maps.shape[:3]
    with CourseFigure(figsize=(8.0, 8.0 * layers / max(heads, 4) + 0.7)) as figure:
        grid = figure.subplots(layers, heads, squeeze=False)
        for layer, row in enumerate(grid):
            for head, axes in enumerate(row):
                axes.imshow(maps[layer, head], cmap=HEAT, vmin=0)
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
                if layer == 0:
                    axes.set_title(str(head + 1), fontsize=9, loc="center", pad=3)
            row[0].set_ylabel(f"layer {layer + 1}", fontsize=9)
        figure.suptitle("Attention of every head: each row of a picture is a token that looks")
        alt = f"{layers} rows of {heads} small pictures, {tokens} by {tokens} tokens each, one a "
        return figure.finish(f"{alt}head; darker where a token (row) looks more at a column.")


def layer_scatter(
    points: Mapping[str, np.ndarray], labels: Sequence[int], label_names: Sequence[str]
) -> CourseFigure:
    """Show the same examples as points in a plane, once for each layer, marked by their labels.

    Args:
        points: [examples, 2] by the name of a layer, such as the first two principal components.
        labels: an index into `label_names` an example.
        label_names: at most six.
    """
    labels = np.asarray(labels, dtype=int)
    clouds = {name: np.asarray(cloud, dtype=float) for name, cloud in points.items()}
    with CourseFigure(figsize=(8.0, 2.3)) as figure:
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
        names = [drawable(name, 20) for name in names]
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        alt = f"{labels.size} examples as points, marked by label ({', '.join(label_names)}), in "
        return figure.finish(f"{alt}{len(clouds)} panels: {', '.join(clouds)}.")
