"""The course's style: its font, its colours, and what all figures need to be drawn in it.

Colours are those of Okabe and Ito (Color Universal Design, 2008), told apart by readers with any
common colour vision; series differ in marker and line as well. The font is a subset of Noto Sans
CJK (data/fonts, SIL Open Font License).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from course_lib.runtime import InputError, data_dir

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

FONT_FILE, FONT = "fonts/CourseSansSC-Regular.otf", "Course Sans SC"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, MUTED, GRID = "#222222", "#666666", "#E3E3E3"
POSITIVE, NEGATIVE = COLORS[0], COLORS[1]
HEAT = LinearSegmentedColormap.from_list("course", ["#F5F9FC", "#0072B2"])
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}  # behind a label, hides lines
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
        with course_style():
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
def course_style(**settings: object) -> Iterator[None]:
    """Draw in the course's style, with these settings on top, and leave others' as they were."""
    with matplotlib.rc_context():
        use_course_style()
        matplotlib.rcParams.update(settings)
        yield


def finish(figure: CourseFigure, alt: str) -> CourseFigure:
    """Give a drawn figure its text alternative and a size in whole pixels."""
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


def drawable(text: str, characters: int | None = None) -> str:
    """Put text on one line, shorten it, and show what the font lacks (emoji, say) as a box."""
    flat = " ".join(str(text).split())
    if characters is not None and len(flat) > characters:
        flat = flat[: characters - 1] + "\u2026"
    # matplotlib reads what stands between two dollar signs as a formula.
    flat = flat.replace("$", "\uff04")
    return "".join(char if ord(char) in _glyphs() else "\u25a1" for char in flat)


def series_style(number: int) -> dict[str, str]:
    """Colour and marker of the series of that number; after six they begin anew."""
    return {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)]}


def direct_label(axes: Axes, x: float, y: float, text: str, color: str, **placement) -> None:
    """Write beside a point what a legend would say; right of it unless `placement` says else."""
    placement = {"xytext": (6, 0), "ha": "left", "va": "center", **placement}
    axes.annotate(text, (x, y), textcoords="offset points", color=color, **placement)


def plain_numbers(axis) -> None:
    """Write 1, 2, 5, 10, 20 at a logarithmic axis, and nothing that could overlap between them."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
