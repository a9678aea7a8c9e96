"""The book: a static site in both languages, made of the chapters as they are saved.

    python tools/book.py [--only 12 ...] [--language zh] [--out build/book]

Sphinx (in .venv-book, `make book`) builds it; nothing is executed. This tool prepares what Sphinx
reads, builds en/ and zh/ and looks at every page: a link or picture that leads nowhere, anything
that a page would fetch from another host, or a search that finds nothing (in Chromium, where there
is one) fails the build.

A chapter or page that has no Chinese edition yet is in zh/ in English, a chapter with a note. Both
sites have the same pages, so the switch of languages leads to the same page. Links to source files
lead to files/, a copy of them. BOOK_REPOSITORY (owner/name on GitHub; GITHUB_REPOSITORY in its
workflows) gives the buttons that open a chapter in Colab and AI Studio their address; without it
they are left out.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.chapters.progress import reading_order  # noqa: E402
from course_lib.runtime import InputError  # noqa: E402
from tools import exercises  # noqa: E402

LANGUAGES = ("en", "zh")
BOOK = ROOT / "docs" / "book"
PAGES = {  # of the repository, by their names in the book
    "docs/QUESTIONS.md": "questions.md",
    "docs/your_own_data.md": "your_own_data.md",
    "docs/command_line.md": "command_line.md",
    "docs/gpu.md": "gpu.md",
    "docs/copying.md": "copying.md",
    "docs/two_stacks.md": "two_stacks.md",
    "docs/instructors.md": "instructors.md",
    "docs/trainer_arguments.md": "trainer_arguments.md",
    "docs/compression_state.md": "compression_state.md",
    "docs/taskflow.md": "taskflow.md",
    "docs/capstone.md": "capstone.md",
    "docs/stacks.md": "stacks.md",
    "data/README.md": "data.md",
    "CONTRIBUTING.md": "contributing.md",
    "docs/adding_a_chapter.md": "adding_a_chapter.md",
    "i18n/README.md": "translating.md",
    "README.md": "index.md",
}
TEXTS = {
    "stub": (exercises.STUB, "# 在这里写出你的答案"),
    "answer": ("Show an answer", "显示参考答案"),
    "no answer": ("Hide the answer", "隐藏参考答案"),
    "check": ("Show the check", "显示检查代码"),
    "no check": ("Hide the check", "隐藏检查代码"),
    "untranslated": (None, ":::{note}\n本章尚无中文版，以下为英文原文。\n:::"),
    "table": (
        "| chapter | you will | read and do | compute on 2 cores |",
        "| 章节 | 你将学会 | 阅读和练习 | 计算（2 核） |",
    ),
    "glossary": ("Glossary", "术语表"),
    "glossary text": (
        "Each term with its Chinese name, the name of the API, and the chapters that explain it.",
        "本书的全部术语：英文、中文、API 名称，以及讲解它的章节。",
    ),
    "glossary head": (("English", "中文", "API", "Chapters"), ("英文", "中文", "API", "章节")),
    "papers": ("Papers and sources", "论文与资料"),
    "papers text": (
        "What the chapters cite, by chapter.",
        "各章引用的论文与资料。",
    ),
}
TIME = re.compile(r"\n(?=\*\*(?:Before you start|开始之前)\*\*)")
SWITCH = re.compile(r'^<a href="\w+(\.zh)?\.md">(中文|English)</a>\n', re.MULTILINE)
LINK = re.compile(
    r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?!https?:|mailto:|data:|#)([^)#\s]*)(#[^)\s]*)?\)"
)


def text(name: str, language: str) -> str:
    return TEXTS[name][LANGUAGES.index(language)]


# What Sphinx reads


class Staging:
    """The sources of one language's site, and the files that its pages link to."""

    def __init__(self, language: str, target: Path, files: Path, only: list[str]):
        self.language, self.target, self.files, self.only = language, target, files, only
        paths = list((ROOT / "solutions").glob("[0-9][0-9]*_*.ipynb"))
        paths.sort(key=reading_order)
        self.chapters = [p for p in paths if not only or p.stem.split("_")[0] in only]
        self.titles: dict[str, str] = {}
        self.anchors: dict[str, dict[str, str]] = {}  # of Chinese headings, by the English ones

    def write(self) -> None:
        shutil.rmtree(self.target, ignore_errors=True)
        self.target.mkdir(parents=True)
        terms: dict[str, list[str]] = {}
        papers: list[str] = []
        books: dict[Path, tuple[NotebookNode, Path]] = {}
        for path in self.chapters:
            chinese = path.parent / "zh" / path.name
            source = chinese if self.language == "zh" and chinese.exists() else path
            notebook = nbformat.read(source, as_version=4)
            english = notebook if source == path else nbformat.read(path, as_version=4)
            pairs = zip(headings(english), headings(notebook), strict=False)
            self.anchors[path.name] = {heading_slug(old): heading_slug(new) for old, new in pairs}
            books[path] = notebook, source
            for entry in words(english):
                terms.setdefault(entry, []).append(path.stem)
        for path, (notebook, source) in books.items():
            title = re.match(r"# (.+)", notebook.cells[0].source)
            self.titles[path.stem] = title[1] if title else path.stem
            papers += [f"## {self.titles[path.stem]}", "", *citations(notebook), ""]
            nbformat.write(self.chapter(notebook, source), self.target / path.name)
            self.copy(f"notebooks/{source.relative_to(ROOT / 'solutions')}")
        for page, name in PAGES.items():
            if name != "index.md":
                chinese = ROOT / re.sub(r"\.md$", ".zh.md", page)
                translated = self.language == "zh" and chinese.exists()
                content = (chinese if translated else ROOT / page).read_text(encoding="utf-8")
                content = SWITCH.sub("", content)  # the book has its own
                (self.target / name).write_text(self.relink(content, page), encoding="utf-8")
        (self.target / "glossary.md").write_text(self.glossary(terms), encoding="utf-8")
        head = [f"# {text('papers', self.language)}", "", text("papers text", self.language), ""]
        (self.target / "papers.md").write_text("\n".join([*head, *papers]), encoding="utf-8")
        index = (BOOK / f"index.{self.language}.md").read_text(encoding="utf-8")
        if self.only:  # a part of the book has no reference
            index = re.sub(r"^.*\bapi/.*\n", "", index, flags=re.MULTILINE)
        listed = "\n".join(path.stem for path in self.chapters)
        (self.target / "index.md").write_text(
            index.replace("CHAPTERS", listed).replace("TABLE", "\n".join(self.table())),
            encoding="utf-8",
        )

    def table(self) -> list[str]:
        """Return the README's table of chapters."""
        readme = "README.zh.md" if self.language == "zh" else "README.md"
        link = r"\| \[.+?\]\(notebooks/(?:zh/)?(\d\d[a-z]?_\w+)\.ipynb\)"
        content = (ROOT / readme).read_text(encoding="utf-8")
        found = re.findall(rf"^{link} (\| .+ \|)$", content, re.MULTILINE)
        rows = [f"| [{self.titles[n]}]({n}.ipynb) {rest}" for n, rest in found if n in self.titles]
        return [text("table", self.language), "| --- | --- | --- | --- |", *rows]

    def relink(self, content: str, where: str) -> str:
        """Let relative links of a file of the repository lead to pages of the book or to files/."""

        def replace(match: re.Match) -> str:
            label, link, anchor = match[1], unquote(match[2]), unquote(match[3] or "")
            path = posixpath.normpath(posixpath.join(posixpath.dirname(where), link))
            name = re.fullmatch(r"(?:solutions|notebooks)/(?:zh/)?(\d\d[a-z]?_\w+\.ipynb)", path)
            if label.startswith("!"):
                return f"{label}({self.picture(path)})"
            if name and (self.target / name[1]).stem in {each.stem for each in self.chapters}:
                place = slug(anchor)[1:]
                place = self.anchors.get(name[1], {}).get(place, place)
                return f"{label}({name[1]}{'#' if place else ''}{place})"
            if name:  # a chapter that --only leaves out
                return label[1:-1]
            page = re.sub(r"\.zh\.md$", ".md", path)
            if page in PAGES and (page != "README.md" or not anchor):  # the index has other ones
                return f"{label}({PAGES[page]}{slug(anchor)})"
            if (ROOT / path).is_file():
                self.copy(path)
                return f"{label}(source:{path})"
            if (ROOT / path).is_dir():
                return label[1:-1]
            raise InputError(where, f"links to {link}", "a file of the repository")

        return LINK.sub(replace, content)

    def copy(self, path: str) -> None:
        """Put a file of the repository beside the pages."""
        copied = self.files / path
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copied)

    def picture(self, path: str) -> str:
        (self.target / "pictures").mkdir(exist_ok=True)
        shutil.copyfile(ROOT / path, self.target / "pictures" / Path(path).name)
        return f"pictures/{Path(path).name}"

    def chapter(self, notebook: NotebookNode, source: Path) -> NotebookNode:
        """Return a chapter for the book: answers and checks folded, figures with their texts."""
        cells: list[NotebookNode] = []
        where = source.relative_to(ROOT).as_posix()
        for place, cell in enumerate(notebook.cells):
            if cell.cell_type == "markdown":
                cell["source"] = self.relink(cell.source, where)
                cells.append(cell)
                continue
            cell["source"] = cell.source.removeprefix("# NBVAL_CHECK_OUTPUT\n")
            cell["metadata"] = nbformat.from_dict({"mystnb": {}})
            for output in cell.outputs:
                if picture := output.get("metadata", {}).get("image/png"):
                    cell.metadata.mystnb["image"] = {"alt": picture["alt"]}
            cells += self.exercise(cell, notebook.cells[place])
        cells[0]["source"] = TIME.sub("\\\\\n", cells[0].source)  # a line of its own
        if self.language == "zh" and source.parent.name != "zh":
            title, gap, rest = cells[0].source.partition("\n")
            cells[0]["source"] = f"{title}\n\n{text('untranslated', 'zh')}\n{gap}{rest}"
        notebook["cells"] = cells
        notebook["metadata"] = nbformat.from_dict(
            {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}
        )
        return notebook

    def exercise(self, cell: NotebookNode, original: NotebookNode) -> list[NotebookNode]:
        """Return the cells for a code cell: an answer comes blank first, then folded."""
        source = cell.source
        if exercises.BEGIN not in source:
            if source.count("attempted("):
                self.fold(cell, "check")
            return [cell]
        blank = copy.deepcopy(cell)
        blank["source"] = exercises.SOLUTION_BLOCK.sub(
            rf"\g<indent>{text('stub', self.language)}", source
        )
        blank["outputs"], blank["id"] = [], f"{cell.id}-blank"
        marks = re.compile(rf"^[ \t]*({exercises.BEGIN}|{exercises.END})\n?", re.MULTILINE)
        cell["source"] = marks.sub("", source)
        self.fold(cell, "answer")
        return [blank, cell]

    def fold(self, cell: NotebookNode, kind: str) -> None:
        cell.metadata["tags"] = ["hide-input", kind]
        cell.metadata.mystnb["code_prompt_show"] = text(kind, self.language)
        cell.metadata.mystnb["code_prompt_hide"] = text(f"no {kind}", self.language)

    def glossary(self, terms: dict[str, list[str]]) -> str:
        rows = []
        lines = (ROOT / "i18n/zh/glossary.tsv").read_text(encoding="utf-8").splitlines()[1:]
        for english, chinese, api, *_ in (line.split("\t") for line in lines):
            stems = [s for each in chinese.split("；") for s in terms.get(f"{english} {each}", [])]
            numbers = {stem: stem.partition("_")[0] for stem in stems}
            links = " ".join(f"[{number}]({stem}.ipynb)" for stem, number in numbers.items())
            code = " ".join(f"`{name}`" for name in api.split(" · ") if name)
            rows.append(f"| {english} | {chinese} | {code} | {links} |")
        head = [
            f"# {text('glossary', self.language)}",
            "",
            text("glossary text", self.language),
            "",
        ]
        columns = text("glossary head", self.language)
        return "\n".join([*head, f"| {' | '.join(columns)} |", "| --- | --- | --- | --- |", *rows])


def words(notebook: NotebookNode) -> list[str]:
    """Return the entries of a chapter's list **Words**, without the names of APIs."""
    found = notebook.cells[-1].source.partition("**Words**")[2].partition("**Next**")[0]
    entries = " ".join(found.lstrip(": ").split()).split(" · ")
    return [entry.partition("`")[0].strip(" ,;.") for entry in entries]


def headings(notebook: NotebookNode) -> list[str]:
    """Return the titles of a chapter and its sections, in order."""
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    text = re.sub(r"```.*?```", "", "\n".join(cells), flags=re.DOTALL)
    return re.findall(r"^#+ (.+)$", text, re.MULTILINE)


def citations(notebook: NotebookNode) -> list[str]:
    """Return a list of the links to other hosts in a chapter's prose."""
    found: dict[str, str] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for match in re.finditer(
                r"([^.。:：(（\n]*)\[([^\]]+)\]\((https?://[^)]+)\)", cell.source
            ):
                before = match[1].split()[-4:] if re.fullmatch(r"\d{4}", match[2]) else []
                found.setdefault(match[3], " ".join([*before, match[2]]))
    return [f"- [{label}]({url})" for url, label in found.items()] or ["-"]


def slug(anchor: str) -> str:
    """Turn JupyterLab's anchor of a heading into the book's."""
    return "#" + heading_slug(anchor[1:].replace("-", " ")) if anchor else ""


def heading_slug(title: str) -> str:
    """Return the anchor of a heading: its words and digits, in small letters."""
    return "-".join(re.findall(r"\w+", title.lower()))


# What Sphinx has written


class Page(HTMLParser):
    """The ids of a page, its links, and what it would fetch."""

    def __init__(self, content: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(content)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.ids.update(value for key, value in attributes if key in ("id", "name") and value)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        for key in ("src", "srcset", "poster", "data"):
            if given.get(key) and tag not in ("a", "div"):
                self.fetched.append(given[key] or "")
        if tag == "link" and given.get("rel") not in ("canonical", "author", "next", "prev"):
            self.fetched.append(given.get("href") or "")


def faults(out: Path) -> Iterator[str]:
    """Yield each link that leads nowhere, and each thing from another host."""
    found = (path for path in sorted(out.rglob("*.html")) if "_static" not in path.parts)
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in found}
    for path, page in pages.items():
        where = path.relative_to(out).as_posix()
        for link in dict.fromkeys(page.links + page.fetched):
            parts = urlsplit(link)
            if parts.scheme in ("http", "https") or parts.netloc:
                if link in page.fetched:
                    yield f"{where}: would fetch {link}"
                continue
            if parts.scheme:
                continue
            target = path.parent / unquote(parts.path) if parts.path else path
            target = Path(os.path.normpath(target))
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{where}: {link} leads nowhere"
            elif unquote(parts.fragment) not in {"", *getattr(pages.get(target), "ids", ())}:
                yield f"{where}: {link}: there is no such place on that page"
    for path in [*out.rglob("*.css"), *out.rglob("*.js")]:
        content = path.read_text(encoding="utf-8", errors="replace")
        for url in re.findall(
            r"(?:url\(|@import|importScripts\()\s*[\"']?(https?://[^)\"']+)", content
        ):
            yield f"{path.relative_to(out)}: would fetch {url}"


class Handler(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def served(out: Path) -> Iterator[str]:
    """Serve a folder inside the block; yields its address."""
    handler = partial(Handler, directory=out)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def searched(out: Path) -> Iterator[str]:
    """Search both sites in Chromium, if there is one, and yield each that finds nothing."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        return
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
    with served(out) as site:
        for language, query in (("en", "tokenizers"), ("zh", "词向量的相似度")):
            address = f"{site}/{language}/search.html?q={query}"
            done = subprocess.run([browser, *options, "--dump-dom", address], capture_output=True)
            items = re.search(r'class="search".*?<li\b', done.stdout.decode(), re.DOTALL)
            if items is None:
                yield f"{language}: a search for {query!r} finds nothing"


def build(out: Path, only: list[str], languages: Sequence[str] = LANGUAGES) -> list[str]:
    """Build the sites and return what is wrong."""
    shutil.rmtree(out, ignore_errors=True)
    running = {}
    for language in languages:
        source = out.parent / "book-source" / language
        Staging(language, source, out / "files", only).write()
        reference = "yes" if language == "en" and not only else "no"
        variables = {"BOOK_LANGUAGE": language, "BOOK_REFERENCE": reference, "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
        places = ["-c", BOOK, "-d", source.parent / f"{language}.cache", source, out / language]
        running[language] = subprocess.Popen(
            [*command, *map(str, places)], env={**os.environ, **variables}
        )
    found = [f"{name}: Sphinx has warned" for name, each in running.items() if each.wait()]
    shutil.copyfile(BOOK / "start.html", out / "index.html")
    shutil.rmtree(out / "jupyter_execute", ignore_errors=True)  # what myst-nb leaves there
    if languages != LANGUAGES:  # to look at a page; links to the other language lead nowhere
        return found
    return [*found, *faults(out), *searched(out)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the book in both languages.")
    parser.add_argument("--only", nargs="+", default=[], help="numbers of chapters (default: all)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "book")
    parser.add_argument("--language", choices=LANGUAGES, help="one of the sites, not checked")
    options = parser.parse_args(arguments)
    languages = (options.language,) if options.language else LANGUAGES
    start = time.monotonic()
    try:
        found = build(options.out.resolve(), options.only, languages)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(*found, sep="\n", end="\n" if found else "")
    size = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file())
    pages = sum(1 for _ in options.out.rglob("*.html"))
    report = {"pages": pages, "megabytes": round(size / 1e6, 1), "faults": len(found)}
    print(json.dumps({**report, "seconds": round(time.monotonic() - start)}))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
