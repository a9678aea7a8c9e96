"""Chapter 06: which kernels a model really runs on, and what a limit costs."""

import ctypes
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from course_lib.deploy import Predictor
from course_lib.deploy.paddle_engine import captured
from course_lib.notebook.style import INK, MUTED, SERIES, CourseFigure, drawable
from course_lib.runtime import InputError

import numpy as np
import paddle

PRIMITIVES = {  # those of oneDNN's that calculate; "reorder" only changes formats
    "inner_product": "fc",
    "matmul": "matmul",
    "binary": "add",
    "softmax": "softmax",
    "layer_normalization": "layer_norm",
    "eltwise": "activation",
}
_EXECUTED = re.compile(
    r"onednn_verbose,(?:v1,primitive,)?exec,cpu,(?P<primitive>\w+),(?P<kernel>[^,]*),[^,]*,"
    r"(src|data)[_:](?P<format>[a-z0-9]+)"
)


def kernels(predictor: Predictor) -> Counter[tuple[str, str, str]]:
    """What oneDNN runs for one small batch, from its own log.

    Returns:
        How often (operator, number format of its inputs, kernel) ran; for example 14 times ("fc",
        "s8", "brgemm:avx512_core_vnni"): matrix products of signed 8-bit numbers, by VNNI
        instructions. Empty without oneDNN.

    Raises:
        InputError: for ONNX Runtime.
    """
    if predictor.backend != "paddle":
        raise InputError("kernels", "are those of oneDNN", 'backend "paddle"')
    library = next(Path(paddle.__file__).parent.glob("libs/*dnnl*"), None)
    if library is None:
        return Counter()
    ids = np.ones((2, 8), "int64")
    batch = dict.fromkeys(predictor.input_names, ids * 0) | {"input_ids": ids}
    predictor.run(batch)  # the first time it also prepares the weights
    dnnl = ctypes.CDLL(str(library))  # the one that Paddle has loaded
    with captured() as read:
        dnnl.dnnl_set_verbose(1)
        try:
            predictor.run(batch)
        finally:
            dnnl.dnnl_set_verbose(0)
        log = read()
    return Counter(
        (PRIMITIVES[match["primitive"]], match["format"], match["kernel"])
        for match in map(_EXECUTED.match, log.splitlines())
        if match and match["primitive"] in PRIMITIVES
    )


def int8_operators(predictor: Predictor) -> dict[str, tuple[int, int]]:
    """Count the operators that calculate, as they really run: see `kernels`.

    A file full of quantized operators that run in FP32 is the most common reason why a quantized
    model is slow.

    Returns:
        {"fc": (in INT8, in FP32), "matmul": ..., "add": ..., ...}; "fc" are the matrix products
        with weights, "matmul" those of attention. (Without INT8 kernels "matmul" are both.)
    """
    counts = {name: [0, 0] for name in PRIMITIVES.values()}
    for (name, number_format, _), count in kernels(predictor).items():
        counts[name][0 if number_format in ("s8", "u8") else 1] += count
    return {name: (int8, others) for name, (int8, others) in counts.items()}


def limit_costs(values: np.ndarray, limits: Mapping[str, float]) -> CourseFigure:
    """Show where limits of an INT8 scale lie among a tensor's values, and what each costs.

    Args:
        values: of a tensor, of any shape.
        limits: by name the largest value that must fit; it becomes 127.
    """
    sizes = np.abs(np.asarray(values, dtype="float32")).reshape(-1)
    top = float(sizes.max())
    counts, edges = np.histogram(sizes, 2**15, (0, top))
    middles, shares = (edges[:-1] + edges[1:]) / 2, counts / sizes.size

    def costs(limit: float) -> tuple[float, float]:
        step, inside = limit / 127, middles <= limit
        off = np.where(inside, np.round(middles / step) * step, limit) - middles
        rounded, clipped = (float(off[part] ** 2 @ shares[part]) for part in (inside, ~inside))
        return rounded, clipped

    grid = np.linspace(0.06 * top, max(top, *limits.values()), 80)
    rounding, clipping = np.array([costs(limit) for limit in grid]).T
    total = rounding + clipping
    with CourseFigure(figsize=(7.4, 4.9)) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.25])
        above.hist(sizes, 120, color="#9DB8CC", log=True)
        above.set(title="How often a value is that large", ylabel="values")
        for line, style, name in ((rounding, "--", "rounding"), (clipping, ":", "clipping")):
            below.plot(grid, line, style, color=MUTED, marker="", linewidth=1.4, label=name)
        below.plot(grid, total, color=INK, marker="", linewidth=1.4, label="both")
        summary = []
        for number, (name, limit) in enumerate(limits.items()):
            style = SERIES[number]
            cost = sum(costs(limit))
            for axes in (above, below):
                axes.axvline(limit, color=style["color"], linewidth=1.2, marker="", alpha=0.8)
            below.plot(
                limit, cost, linestyle="", markersize=8, zorder=5,
                label=f"{drawable(name)} {limit:.2f}", **style,
            )  # fmt: skip
            beyond = float((sizes > limit).mean())
            summary.append(f"{name} {limit:.2f}, error {cost:.1e}, {beyond:.3%} of values clipped")
        below.set(
            yscale="log", ylim=(total.min() / 6, 2 * total.max()), xlim=(0, 1.02 * grid[-1]),
            title="What a limit there costs", ylabel="mean squared error",
            xlabel="absolute value, and limit",
        )  # fmt: skip
        handles, names = below.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside right upper")
        alt = (
            f"Values up to {top:.2f}, and the squared error against the limit. {'; '.join(summary)}"
        )
        return figure.finish(alt + ".")
