"""A figure to play with, and one beside it for readers who have no widget front end."""

import html
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from .style import CourseFigure

import ipywidgets

FALLBACKS = {
    "slider": "(Run this cell in JupyterLab to move the slider.)",
    "text": "(Run this cell in JupyterLab to type a sentence of your own here.)",
}


class LiveFigure:
    """A slider, or a box to type in, that redraws a figure, and a figure that needs neither.

    Where there is no kernel or no widget front end (a saved page, nbval, a plain terminal) one line
    of text is in their place, and the fixed figure is the same.

    Args:
        draw: takes the value, returns the figure for it.
        values: what the slider can be set to, in order; or the text that is in the box at first.
        name: what the value is, printed beside it.
        figure: for readers without a widget front end, the same for several values, say.
        start: the slider's value at first; default: the first.

    Attributes:
        control: setting `control.value` does what moving or typing does.
        image: the figure for that value, as PNG.
        message: what went wrong, as HTML; empty otherwise.
    """

    def __init__(
        self,
        draw: Callable[[Any], CourseFigure],
        values: Sequence[Hashable] | str,
        name: str,
        figure: CourseFigure,
        start: Hashable | None = None,
    ) -> None:
        self._draw, self.figure = draw, figure
        look = {
            "description": name,
            "style": {"description_width": "initial"},
            "layout": ipywidgets.Layout(width="34em", max_width="100%"),
        }
        if isinstance(values, str):
            self._fallback = FALLBACKS["text"]
            self.control = ipywidgets.Textarea(value=values, rows=3, **look)
        else:
            self._fallback = FALLBACKS["slider"]
            first = values[0] if start is None else start
            self.control = ipywidgets.SelectionSlider(options=list(values), value=first, **look)
        self.image = ipywidgets.Image(format="png")
        self.message = ipywidgets.HTML()
        self.widget = ipywidgets.VBox([self.control, self.image, self.message])
        self.control.observe(self._update, names="value")
        self._update()

    def _update(self, _change: object = None) -> None:
        self.message.value = ""
        value = self.control.value
        if isinstance(value, str) and not value.strip():
            return
        try:
            png, size = self._draw(value)._repr_png_()
        except Exception as error:  # ipywidgets would hide it in a log that nobody reads
            what = html.escape(f"{type(error).__name__}: {error}")
            self.message.value = f'<p role="alert" style="color: #A84A00">{what}</p>'
        else:
            self.image.value = png
            self.image.width, self.image.height = str(size["width"]), str(size["height"])

    def _ipython_display_(self) -> None:
        from IPython.display import display

        bundle = self.widget._repr_mimebundle_() or {}
        display({**bundle, "text/plain": self._fallback}, raw=True)
        display(self.figure)
