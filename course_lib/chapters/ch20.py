"""Figures and experiments of chapter 20."""

from __future__ import annotations

from course_lib.notebook.style import (
    CourseFigure,
    course_style,
    drawable,
    finish,
    plain_numbers,
    series_style,
)

import pandas as pd
from matplotlib.ticker import PercentFormatter


def recall_against_time(frame: pd.DataFrame, count: int) -> CourseFigure:
    """Show what each way to search finds and how long it takes; up and to the left is better.

    Args:
        frame: of `compare_search`.
        count: the K of the recall that is drawn, with its interval.
    """
    columns = [f"{name}@{count}" for name in ("recall", "low", "high")]
    with course_style():
        figure = CourseFigure(figsize=(7.2, 3.8))
        axes = figure.subplots()
        for number, (name, row) in enumerate(frame.iterrows()):
            recall, low, high = row[columns]
            axes.errorbar(
                row["ms"], recall, [[recall - low], [high - recall]], capsize=3, linestyle="",
                elinewidth=1.2, label=drawable(str(name)), **series_style(number),
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set(xlabel="milliseconds a query", ylabel=f"recall@{count}")
        plain_numbers(axes.xaxis)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")
        said = "; ".join(
            f"{name}: {row[columns[0]]:.1%} in {row['ms']:.3g} ms" for name, row in frame.iterrows()
        )
        return finish(figure, f"Recall at {count} against time. {said}.")
