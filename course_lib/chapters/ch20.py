"""Chapter 20: ways to search compared in recall and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from course_lib.notebook.style import (
    CourseFigure,
    course_style,
    drawable,
    finish,
    plain_numbers,
    series_style,
)
from course_lib.tasks.search import recall_at_k

import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter


def compare_search(
    methods: Mapping[str, Callable[[list[str]], np.ndarray]],
    queries: Sequence[str],
    right: Sequence[int],
    counts: Sequence[int] = (1, 10),
) -> pd.DataFrame:
    """Recall and time of several ways to search, which take turns on the same queries.

    Args:
        methods: by name, from a list of queries to places int [queries, K]. Each is called with
            one query at a time, as a person asks, after one call that is not measured.
        right, counts: as for `recall_at_k`.

    Returns:
        One row per method: "recall@K", "low@K" and "high@K" for each K of `counts`, and "ms", the
        median time of a query.
    """
    places: dict[str, list] = {name: [] for name in methods}
    times: dict[str, list[float]] = {name: [] for name in methods}
    for search in methods.values():
        search([queries[0]])
    turns = np.random.RandomState(0)
    for query in queries:
        for name in turns.permutation(list(methods)):
            start = time.perf_counter()
            places[name].append(methods[name]([query]))
            times[name].append(1000 * (time.perf_counter() - start))
    table = {}
    for name in methods:
        recall = recall_at_k(np.concatenate(places[name]), right, counts)
        table[name] = {
            f"{column}@{count}": recall.loc[count, column]
            for count in counts
            for column in ("recall", "low", "high")
        }
        table[name]["ms"] = float(np.median(times[name]))
    return pd.DataFrame.from_dict(table, orient="index")


def recall_against_time(frame: pd.DataFrame, count: int) -> CourseFigure:
    """Show what each way to search finds and how long it takes; up and to the left is better.

    Args:
        frame: from `compare_search`.
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
        summary = "; ".join(
            f"{name}: {row[columns[0]]:.1%} in {row['ms']:.3g} ms" for name, row in frame.iterrows()
        )
        return finish(figure, f"Recall at {count} against time. {summary}.")
