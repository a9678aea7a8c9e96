"""Widgets: they draw anew, and a saved page shows a figure in their place."""

import base64
import re
import warnings

import course_lib  # noqa: F401, before anything that may import paddle
from course_lib.chapters.ch01 import length_histogram, probability_bars
from course_lib.chapters.ch03 import padding_map
from course_lib.notebook.style import NEGATIVE, POSITIVE
from course_lib.notebook.visual_logs import screenshot
from course_lib.notebook.widgets import LiveFigure

import nbformat
import numpy as np
import pytest
from PIL import Image

# A glyph that the font lacks is a warning. Sockets are those of earlier tests of this process.
pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning", "ignore:the browser")


def predict(texts: list[str]) -> list[dict]:
    if any("boom" in text for text in texts):
        raise RuntimeError("<no model>")
    shares = [min(text.count("好") / 4, 1) for text in texts]
    return [
        {"text": text, "probabilities": {"negative": 1 - share, "positive": share}}
        for text, share in zip(texts, shares, strict=True)
    ]


def bars(*texts: str):
    return probability_bars(predict(list(texts)))


@pytest.fixture
def demo():
    return LiveFigure(bars, "很好", "sentence", bars("很好", "不行"))


def test_the_figure_follows_what_is_typed_and_says_what_goes_wrong(demo):
    seen = {demo.image.value}
    for text in ("好好", "好好好好"):
        demo.control.value = text
        seen.add(demo.image.value)
        assert demo.image.value == bars(text)._repr_png_()[0]
    assert len(seen) == 3 and demo.control.continuous_update
    demo.control.value = "boom"
    assert "RuntimeError: &lt;no model&gt;" in demo.message.value
    demo.control.value = " "
    assert demo.message.value == ""


def test_without_a_front_end_there_is_a_line_and_a_figure(demo, monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", lambda *a, **k: shown.append((a[0], k)))
    demo._ipython_display_()
    (bundle, options), (figure, _) = shown
    assert options == {"raw": True} and "application/vnd.jupyter.widget-view+json" in bundle
    assert re.search("JupyterLab", bundle["text/plain"])
    assert figure is demo.figure and "很好" in figure.alt


def test_a_slider_draws_anew_and_says_what_goes_wrong():
    still = length_histogram([3, 5, 8, 200, 900], 128)
    demo = LiveFigure(
        lambda width: padding_map({"x": [[width, 1]][: width - 1]}), [2, 9, 1], "w", still
    )
    assert demo.control.value == 2 and demo.figure is still
    demo.control.value = 9
    assert demo.message.value == ""
    demo.control.value = 1
    assert "ValueError" in demo.message.value


@pytest.mark.browser
def test_saved_page_shows_the_figure_in_a_browser(demo, tmp_path, monkeypatch):
    import IPython.display
    import nbconvert

    outputs = []

    def keep(shown, raw: bool = False) -> None:
        if raw:  # as a saved notebook has it: without the widget, whose kernel is gone
            data, metadata = {"text/plain": shown["text/plain"]}, {}
        else:
            png, size = shown._repr_png_()
            data, metadata = {"image/png": base64.b64encode(png).decode()}, {"image/png": size}
        outputs.append(nbformat.v4.new_output("display_data", data=data, metadata=metadata))

    monkeypatch.setattr(IPython.display, "display", keep)
    demo._ipython_display_()
    cell = nbformat.v4.new_code_cell("demo", execution_count=1, outputs=outputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        page, _ = nbconvert.HTMLExporter(template_name="basic").from_notebook_node(
            nbformat.v4.new_notebook(cells=[cell])
        )
    assert "Run this cell in JupyterLab" in page and 'alt="Probabilities' in page
    (tmp_path / "page.html").write_text(f"<!doctype html><body>{page}", encoding="utf-8")
    picture = screenshot((tmp_path / "page.html").as_uri(), tmp_path / "shot.png", (900, 500))
    if picture is None:
        pytest.skip("no browser shows it here")
    pixels = np.asarray(Image.open(picture).convert("RGB")).reshape(-1, 3)
    for color in (POSITIVE, NEGATIVE):
        wanted = [int(color[start : start + 2], 16) for start in (1, 3, 5)]
        share = (np.abs(pixels.astype(int) - wanted).max(axis=1) < 12).mean()
        assert share > 0.01, f"{color} covers {share:.2%} of the page"
