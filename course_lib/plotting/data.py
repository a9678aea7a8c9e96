"""Figures of what goes in: lengths of texts, padding, windows, marked entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.plotting.style import (
    COLORS,
    INK,
    MUTED,
    PAPER,
    CourseFigure,
    course_style,
    direct_label,
    drawable,
    finish,
)

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import FancyBboxPatch, Patch, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

_PADDED = "#F6BE93"  # far lighter than the tokens beside it


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
    with course_style():
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
            direct_label(axes, value, top * height, f"{text} {value:,}", INK, bbox=PAPER)
        if cut is not None:
            for bar, left in zip(bars, edges[:-1], strict=True):
                if left > max_seq_length:
                    bar.set(facecolor=COLORS[1], hatch="////", edgecolor="white")
            axes.axvline(
                max_seq_length + 0.5, color=COLORS[1], linewidth=1.6, linestyle="--", marker=""
            )
            room = max_seq_length < 0.7 * end
            direct_label(
                axes,
                max_seq_length,
                top * 0.84,
                f"max_seq_length {max_seq_length}\ncuts {cut:.1%} of the texts",
                "#A84A00",
                xytext=(6 if room else -6, 0),
                ha="left" if room else "right",
                bbox=PAPER,
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
        return finish(figure, alt)


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
    with course_style():
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
        return finish(figure, alt)


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
    with course_style():
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
        return finish(figure, f"Rows of tokens and of padding. Share of padding: {said}.")


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
    with course_style(**{"hatch.linewidth": 0.6}):
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
        return finish(figure, alt + ".")


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
    with course_style():
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
                axes.text(x, y + 0.75, drawable(kind, 12), fontsize=7.5, color=MUTED, va="center")
            for character, (x, y, width) in zip(text, own, strict=True):
                style = {"ha": "center", "va": "center", "fontsize": 12}
                axes.text(x + width / 2, y + 0.3, drawable(character), **style)
        axes.set(xlim=(-0.1, max(row, widest) + 0.1), ylim=(line, -0.1))
        axes.set_axis_off()
        found = [
            f"{text[first:end]} ({kind})"
            for text, marks in zip(texts, spans, strict=True)
            for first, end, kind in marks
        ]
        return finish(figure, f"{len(texts)} texts. Marked: {', '.join(found) or 'nothing'}.")
