"""The course's style: its font, its colors, and what all figures need to be drawn in it.

Colors are those of Okabe and Ito (Color Universal Design, 2008), told apart by readers with any
common color vision; series differ in marker and line as well. The font is a subset of Noto Sans
CJK (data/fonts, SIL Open Font License).
"""

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path

from ..runtime import InputError, data_dir

import matplotlib
from matplotlib import font_manager
from matplotlib.axis import Axis
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


# A label right of a point, for `annotate`, and the look of the first series, the second, ...
BESIDE = {"textcoords": "offset points", "xytext": (6, 0), "ha": "left", "va": "center"}
SERIES = 3 * [
    {"color": color, "marker": marker} for color, marker in zip(COLORS, MARKERS, strict=True)
]


class CourseFigure(Figure):
    """A figure in the course's style, at twice the screen's resolution, with a text alternative.

        with CourseFigure(figsize=(7, 4)) as figure:
            figure.subplots().plot([1, 2])
            return figure.finish("A line that rises.")

    Args:
        settings: of matplotlib, on top of the style.
        **options: those of `matplotlib.figure.Figure`.
    """

    alt: str = ""

    def __init__(self, settings: Mapping[str, object] | None = None, **options: object) -> None:
        self._style = ExitStack()
        self._settings = dict(settings or {})
        with _course_style(self._settings):
            super().__init__(**options)

    def __enter__(self) -> "CourseFigure":
        self._style.enter_context(_course_style(self._settings))
        return self

    def __exit__(self, *error: object) -> None:
        self._style.close()

    def finish(self, alt: str, plain: Axis | None = None) -> "CourseFigure":
        """Give the drawn figure its text alternative and a size in whole pixels.

        Args:
            plain: a logarithmic axis: 1, 2, 5, 10, ... are written there, and nothing that could
                overlap between them.
        """
        self.alt = alt
        if plain is not None:
            plain.set_major_locator(LogLocator(subs=(1, 2, 5)))
            plain.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            plain.set_minor_formatter(NullFormatter())
        # Whole pixels, and a trace more: matplotlib before 3.11 cuts fractions off.
        size = (self.get_size_inches() * self.dpi).round()
        self.set_size_inches((size + 0.01) / self.dpi)
        # Ticks are created on drawing: draw now, while the course's style holds.
        self.draw_without_rendering()
        return self

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
def _course_style(settings: Mapping[str, object] | None = None) -> Iterator[None]:
    """Draw in the course's style, with these settings on top, and leave others' as they were."""
    with matplotlib.rc_context():
        use_course_style()
        matplotlib.rcParams.update(settings or {})
        yield


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
