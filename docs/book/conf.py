"""Sphinx's settings for the book; tools/book.py calls it once per language.

Sphinx with myst-nb and sphinx-book-theme was chosen over Jupyter Book 2, which fetches its theme
and its templates while it builds: this stack builds without a network, has Chinese messages and an
index of Chinese words, and turns every warning into an error.
"""

import os
import re
import sys
from pathlib import Path

import jieba
import latex2mathml.converter
from sphinx.search.zh import SearchChinese

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tools.book import heading_slug  # noqa: E402

CHINESE = os.environ.get("BOOK_LANGUAGE", "en") == "zh"
REPOSITORY = os.environ.get("BOOK_REPOSITORY") or os.environ.get("GITHUB_REPOSITORY")

project = "PaddleNLP 实战" if CHINESE else "PaddleNLP, hands on"
author = "课程作者" if CHINESE else "the authors of the course"
copyright = author
language = "zh_CN" if CHINESE else "en"
extensions = ["myst_nb"]
if os.environ.get("BOOK_REFERENCE") == "yes":
    extensions += ["autoapi.extension", "sphinx.ext.napoleon"]
    autoapi_dirs = [str(HERE.parents[1] / "course_lib")]
    autoapi_root = "api"
    autoapi_ignore = ["*/chapters/*"]
    autoapi_options = ["members"]
    autoapi_member_order = "bysource"
    autoapi_add_toctree_entry = False
    autoapi_keep_files = False
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}  # widgets are shown by their static figures
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
myst_heading_slug_func = heading_slug
myst_url_schemes = {
    "http": None,
    "https": None,
    "mailto": None,
    "source": "../files/{{path}}",
    "site": "../{{path}}",
}
# A notebook begins where it likes; autoapi meets the same name in a package and its module.
suppress_warnings = [
    "config.cache",
    "myst.header",
    "mystnb.unknown_mime_type",
    "misc.highlighting_failure",
    "autoapi",
]

smartquotes = False
html_show_copyright = False
html_theme = "sphinx_book_theme"
html_title = project
html_static_path = [str(HERE / "static")]
templates_path = [str(HERE / "templates")]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_search_language = "zh"  # the English pages have Chinese words, too
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
html_math_renderer = "mathml"
html_theme_options = {
    "use_fullscreen_button": False,
    "use_download_button": False,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "toc_title": "本页内容" if CHINESE else "On this page",
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "search_bar_text": "搜索全书" if CHINESE else "Search the book",
    "navbar_persistent": [],
    "footer_content_items": [],
    "article_header_end": ["language.html", "article-header-buttons.html"],
}


class Words(SearchChinese):
    """Chinese words by jieba, which learns the terms of the glossary; English ones by stem."""

    language_name = "English"  # of the stemmer in the browser; there is no Chinese one

    def __init__(self, options):
        super().__init__({**options, "dict": ""})  # else jieba's own words would be added again
        lines = (HERE.parents[1] / "i18n/zh/glossary.tsv").read_text(encoding="utf-8").splitlines()
        for line in lines[1:]:
            for term in line.split("\t")[1].split("；"):
                jieba.add_word(term)


def mathml(self, node):
    """Write a formula as MathML, which browsers draw without a script."""
    from docutils import nodes

    display = "block" if isinstance(node, nodes.math_block) else "inline"
    self.body.append(latex2mathml.converter.convert(node.astext(), display=display))
    raise nodes.SkipNode


def literal(match):
    """Return code of a docstring, of which napoleon must not see a line break or a backslash."""
    return f"``{' '.join(match[1].replace(chr(92), '').split())}``\\ "


def quote_code(app, what, name, obj, options, lines):
    """Make code of what a docstring has in single backticks, which reStructuredText refers by."""
    text = "\n".join(lines).replace("|", "\\|")
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)", literal, text)
    if what in ("module", "package"):  # an indented block of those is an example
        text = re.sub(r"\n\n(?=    \S)", "\n\n::\n\n", text)
    lines[:] = text.split("\n")


def add_buttons(app, pagename, templatename, context, doctree):
    """Add what opens a chapter elsewhere, and the switch that shows all answers."""
    chapter = pagename[:2].isdigit()
    context["other"] = f"../{'en' if CHINESE else 'zh'}/"
    context["other"] += "" if pagename.startswith(("api/", "py-modindex")) else f"{pagename}.html"
    context["is_chapter"], context["chinese"] = chapter, CHINESE
    if "/" in pagename:
        context["other"] = f"{'../' * pagename.count('/')}{context['other']}"
    if not chapter:
        return
    folder = "notebooks"
    if CHINESE and (HERE.parents[1] / "notebooks/zh" / f"{pagename}.ipynb").exists():
        folder = "notebooks/zh"
    path = f"{folder}/{pagename}.ipynb"

    def say(english, chinese):
        return chinese if CHINESE else english

    download = say("Download the notebook", "下载 notebook")
    links = [
        (".ipynb", f"../files/{path}", download),
        (
            "JupyterLab",
            f"http://localhost:8888/lab/tree/{path}",
            say("Open in JupyterLab, after `make lab`", "在 JupyterLab 中打开（先运行 make lab）"),
        ),
    ]
    if REPOSITORY:
        links += [
            (
                "Colab",
                f"https://colab.research.google.com/github/{REPOSITORY}/blob/main/{path}",
                say("Open in Colab", "在 Colab 中打开"),
            ),
            (
                "AI Studio",
                f"https://github.com/{REPOSITORY}/blob/main/bootstrap/bootstrap.ipynb",
                say(
                    "Open in AI Studio: upload the bootstrap notebook",
                    "在 AI Studio 中打开：上传 bootstrap notebook",
                ),
            ),
        ]
    context["header_buttons"].append(
        {
            "type": "group",
            "icon": "fas fa-rocket",
            "label": "launch-buttons",
            "tooltip": say("Open this chapter", "打开本章"),
            "buttons": [
                {"type": "link", "text": name, "url": url, "tooltip": tip}
                for name, url, tip in links
            ],
        }
    )


def setup(app):
    app.add_search_language(Words)
    app.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    if "autoapi.extension" in extensions:
        app.connect("autodoc-process-docstring", quote_code, priority=100)
    app.connect("html-page-context", add_buttons, priority=900)
