"""Figures that two or more chapters draw: plain data in, a figure out."""

from collections.abc import Mapping, Sequence

from .style import BESIDE, COLORS, INK, MARKERS, MUTED, SERIES, CourseFigure, drawable

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator, PercentFormatter


def speed_accuracy(frame: pd.DataFrame) -> CourseFigure:
    """Show what speed costs in accuracy, one point a model; up and to the right is better.

    Args:
        frame: of `course_lib.compression.compare`. The first row is what the others are held to: a
            bar reaches over the 95% interval of a model's difference from it.
    """
    first = frame["score"].iloc[0]
    with CourseFigure(figsize=(7.2, 4.0)) as figure:
        axes = figure.subplots()
        axes.axhline(first, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for number, (name, row) in enumerate(frame.iterrows()):
            ends = sorted((first + row["low"], first + row["high"]))
            spread = [[max(0, row["score"] - ends[0])], [max(0, ends[1] - row["score"])]]
            axes.errorbar(
                row["speedup"], row["score"], None if number == 0 else spread, capsize=3,
                linestyle="", elinewidth=1.2, label=drawable(f"{name}, {row['megabytes']:.1f} MB"),
                **SERIES[number],
            )  # fmt: skip
        axes.set(xlabel="times as fast as the first", ylabel="score")
        axes.set_xlim(0, 1.1 * frame["speedup"].max())
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")
        summary = "; ".join(
            f"{name}: {row['speedup']:.2f} times as fast, score {row['score']:.1%}, "
            f"{row['megabytes']:.1f} MB"
            for name, row in frame.iterrows()
        )
        return figure.finish(f"Accuracy against speed. {summary}.")


def difference_intervals(tables: Mapping[str, pd.DataFrame], unit: str = "") -> CourseFigure:
    """Show how much better or worse each method is than another: a point and an interval.

    Args:
        tables: one panel per score, each a table with a row per method and the columns
            "difference", "low" and "high", as `course_lib.training.paired_bootstrap` returns them.
        unit: of the differences, written below.
    """
    frames = list(tables.values())
    names = [drawable(name) for name in frames[0].index]
    places = np.arange(len(names))
    with CourseFigure(figsize=(8.4, 1.1 + 0.42 * len(names))) as figure:
        panels = figure.subplots(1, len(frames), sharey=True, squeeze=False)[0]
        for axes, (title, frame) in zip(panels, tables.items(), strict=True):
            axes.axvline(0, color=INK, linewidth=1, marker="")
            for place, row in zip(places, frame.itertuples(), strict=True):
                color = COLORS[0] if row.low > 0 else COLORS[1] if row.high < 0 else MUTED
                marker = "o" if row.low > 0 else "v" if row.high < 0 else "s"
                axes.plot([row.low, row.high], [place, place], color=color, marker="|")
                axes.plot(row.difference, place, color=color, marker=marker, linestyle="")
            axes.set(title=drawable(title), xlabel=unit, yticks=places, yticklabels=names)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.grid(axis="x")
        panels[0].set_ylim(len(names) - 0.5, -0.5)
        values = ". ".join(
            f"{title}: "
            + "; ".join(
                f"{name} {row.difference:+.3f} ({row.low:+.3f} to {row.high:+.3f})"
                for name, row in zip(frame.index, frame.itertuples(), strict=True)
            )
            for title, frame in tables.items()
        )
        return figure.finish(f"Differences with their intervals. {values}.")


def window_map(
    windows: Sequence[tuple[int, int]], length: int, answer: tuple[int, int] | None = None
) -> CourseFigure:
    """Show which part of a long text each window sees, and which windows hold the whole answer.

    Args:
        windows: (first, end) of each window in characters or tokens of the text, end excluded.
        length: of the text, in the same unit.
        answer: (first, end) of the stretch that is looked for.
    """
    holds = [answer is not None and a <= answer[0] and answer[1] <= b for a, b in windows]
    with CourseFigure(figsize=(7.2, 1.1 + 0.34 * len(windows))) as figure:
        axes = figure.subplots()
        for row, ((first, end), whole) in enumerate(zip(windows, holds, strict=True)):
            style = {"color": COLORS[0] if whole or answer is None else "#9DB8CC"}
            axes.barh(row, end - first, 0.56, left=first, linewidth=0, **style)
            note = f" {first} to {end}" + (", holds the answer" if whole else "")
            axes.text(length, row, f" {note}", va="center", fontsize=9, color=INK)  # in the margin
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
        return figure.finish(alt + ".")


def learning_curves(
    history: Mapping[str, Sequence[float]], chance: float | None = None
) -> CourseFigure:
    """Show the training loss of every step beside what the dev split says after each epoch.

    Args:
        history: what `course_lib.training.fit` returns; used are "loss" (one value a step) and,
            where they are not empty, "epoch_step" (the step at the end of each epoch), "dev_loss"
            and "dev_accuracy" (0 to 1), one value an epoch.
        chance: accuracy of guessing, drawn as a line for comparison.
    """
    values = np.asarray(history["loss"], dtype=float)
    dev_loss, dev_accuracy = history.get("dev_loss", ()), history.get("dev_accuracy", ())
    dev_steps = history.get("epoch_step", ())
    steps = np.arange(1, values.size + 1)
    window = pd.Series(values).rolling(max(1, values.size // 20), min_periods=1)
    smooth = window.mean().to_numpy()
    panels = 2 if len(dev_accuracy) else 1
    with CourseFigure(figsize=(4.4 * panels, 3.2)) as figure:
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
        # Labels at almost the same height would print over each other, those at 0 over the axis.
        line = 0.075 * left.get_ylim()[1]
        position = -0.4 * line
        for index in sorted(range(len(ends)), key=ends.__getitem__):
            position = max(position + line, ends[index])
            at, name = ((values.size, "train"), (*dev_steps[-1:], "dev"))[index]
            label, place = f"{name} {ends[index]:.2f}", {**BESIDE, "xytext": (8, 0)}
            left.annotate(label, (at, position), color=COLORS[index], **place)
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
            place = {**BESIDE, "xytext": (0, 9), "ha": "center", "va": "bottom"}
            text, point = f"best {dev_accuracy[best]:.1%}", (dev_steps[best], dev_accuracy[best])
            right.annotate(text, point, color=color, **place)
            if chance is not None:
                right.axhline(chance, color=MUTED, linewidth=1, linestyle=":", marker="")
                place = {**BESIDE, "xytext": (0, 4), "va": "bottom"}
                right.annotate(f"  guessing {chance:.0%}", (0, chance), color=MUTED, **place)
            alt += f". Dev accuracy is best, {dev_accuracy[best]:.1%}, at step {dev_steps[best]}"
        for axes in grid:
            axes.grid(axis="y")
            ticks = MaxNLocator(5, integer=True).tick_values(0, values.size)
            axes.set_xticks([tick for tick in ticks if 0 <= tick <= values.size])
            axes.yaxis.set_major_locator(MaxNLocator(5))
        return figure.finish(alt + ".")
