"""Things to move in a notebook, each with a figure for readers who have no widget front end."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence

from course_lib.plotting import NEGATIVE, POSITIVE, CourseFigure, probability_bars

import ipywidgets

FALLBACK = "(Run this cell in JupyterLab to type a sentence of your own here.)"


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
                what = html.escape(f"{type(error).__name__}: {error}")
                self.message.value = f'<p role="alert" style="color: #A84A00">{what}</p>'
        for name, bar in self.bars.items():
            bar.value = probabilities.get(name, 0.0)
            self._shares[name].value = f"{probabilities[name]:.1%}" if probabilities else "\u2013"

    def _ipython_display_(self) -> None:
        from IPython.display import display

        bundle = self.widget._repr_mimebundle_() or {}
        display({**bundle, "text/plain": FALLBACK}, raw=True)
        display(self.figure)
