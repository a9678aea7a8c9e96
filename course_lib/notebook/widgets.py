"""Things to move in a notebook, each with a figure for readers who have no widget front end."""

from __future__ import annotations

import html
from collections.abc import Callable, Hashable, Mapping, Sequence

from course_lib.notebook.figures import probability_bars
from course_lib.notebook.style import NEGATIVE, POSITIVE, CourseFigure

import ipywidgets

FALLBACK = "(Run this cell in JupyterLab to type a sentence of your own here.)"
SLIDER_FALLBACK = "(Run this cell in JupyterLab to move the slider.)"


class SentimentDemo:
    """A text box whose bars show, while you type, how probable each label is.

    A notebook shows the box and below it a figure of the same model on fixed sentences. Where there
    is no kernel or no widget front end (a saved page, nbval, a plain terminal) one line of text
    stands in for the box, and the figure is the same.

    Args:
        predict: takes a list of texts, returns one dict a text with "text" and "probabilities" by
            label name, such as
            `lambda texts: course_lib.training.predict(model, texts, tokenizer)`.
        examples: the fixed sentences; the first is in the box at the start.

    Attributes:
        box: the text box; setting `box.value` does what typing does.
        bars: one progress bar a label, `value` 0 to 1.
        message: what went wrong, as HTML; empty otherwise.
        figure: the fixed sentences.
    """

    def __init__(
        self, predict: Callable[[list[str]], Sequence[Mapping]], examples: Sequence[str]
    ) -> None:
        self._predict = predict
        predictions = predict(list(examples))
        self.figure: CourseFigure = probability_bars(predictions)
        names = list(predictions[0]["probabilities"])
        colors = [NEGATIVE, POSITIVE] if len(names) == 2 else [POSITIVE] * len(names)
        wide = ipywidgets.Layout(width="34em", max_width="100%")
        self.box = ipywidgets.Textarea(
            value=examples[0], placeholder="Type a sentence", rows=3, layout=wide
        )
        self.bars = {
            name: ipywidgets.FloatProgress(
                min=0, max=1, layout=ipywidgets.Layout(width="20em"), style={"bar_color": color}
            )
            for name, color in zip(names, colors, strict=True)
        }
        self._shares = {name: ipywidgets.Label() for name in names}
        self.message = ipywidgets.HTML()
        rows = [
            ipywidgets.HBox(
                [
                    ipywidgets.Label(name, layout=ipywidgets.Layout(width="7em")),
                    self.bars[name],
                    self._shares[name],
                ]
            )
            for name in names
        ]
        self.widget = ipywidgets.VBox([self.box, *rows, self.message])
        self.box.observe(self._update, names="value")
        self._update()

    def _update(self, _change: object = None) -> None:
        text = self.box.value.strip()
        probabilities: Mapping[str, float] = {}
        self.message.value = ""
        if text:
            try:
                probabilities = self._predict([text])[0]["probabilities"]
            except Exception as error:  # ipywidgets would hide it in a log that nobody reads
                self.message.value = _alert(error)
        for name, bar in self.bars.items():
            bar.value = probabilities.get(name, 0.0)
            self._shares[name].value = f"{probabilities[name]:.1%}" if probabilities else "\u2013"

    def _ipython_display_(self) -> None:
        _display(self.widget, FALLBACK, self.figure)


class FigureSlider:
    """A slider that draws a figure anew, and below it a figure that needs no slider.

    Args:
        draw: takes one of `values`, returns the figure for it.
        values: what the slider can be set to, in order.
        name: what the values are, printed beside the slider.
        figure: for readers without a widget front end, the same for all values side by side, say.
        start: the value at first; default: the first.

    Attributes:
        slider: setting `slider.value` does what moving does.
        image: the figure for that value, as PNG.
        message: what went wrong, as HTML; empty otherwise.
    """

    def __init__(
        self,
        draw: Callable[[Hashable], CourseFigure],
        values: Sequence[Hashable],
        name: str,
        figure: CourseFigure,
        start: Hashable | None = None,
    ) -> None:
        self._draw, self.figure = draw, figure
        self.slider = ipywidgets.SelectionSlider(
            options=list(values),
            value=values[0] if start is None else start,
            description=name,
            style={"description_width": "initial"},
            layout=ipywidgets.Layout(width="30em", max_width="100%"),
        )
        self.image = ipywidgets.Image(format="png")
        self.message = ipywidgets.HTML()
        self.widget = ipywidgets.VBox([self.slider, self.image, self.message])
        self.slider.observe(self._update, names="value")
        self._update()

    def _update(self, _change: object = None) -> None:
        self.message.value = ""
        try:
            png, size = self._draw(self.slider.value)._repr_png_()
        except Exception as error:
            self.message.value = _alert(error)
        else:
            self.image.value = png
            self.image.width, self.image.height = str(size["width"]), str(size["height"])

    def _ipython_display_(self) -> None:
        _display(self.widget, SLIDER_FALLBACK, self.figure)


def _alert(error: Exception) -> str:
    what = html.escape(f"{type(error).__name__}: {error}")
    return f'<p role="alert" style="color: #A84A00">{what}</p>'


def _display(widget: ipywidgets.Widget, fallback: str, figure: CourseFigure) -> None:
    from IPython.display import display

    bundle = widget._repr_mimebundle_() or {}
    display({**bundle, "text/plain": fallback}, raw=True)
    display(figure)
