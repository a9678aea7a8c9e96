"""Every page of build/book in Chromium (`make book-check`): axe-core finds nothing that keeps a
reader out, a telephone is wide enough, and nothing comes from another host."""

import json
import os
from collections import defaultdict

from tools import book

from browser import page

BOOK = book.ROOT / "build" / "book"
AXE = next(
    (book.ROOT / ".venv-book").glob("lib/python*/site-packages/axe_playwright_python/axe.min.js")
)
# What axe calls moderate or minor is advice: a landmark more, an order of headings.
RUN = """axe.run(document, OPTIONS).then(result => result.violations
    .filter(one => ["serious", "critical"].includes(one.impact))
    .flatMap(({id, nodes}) => nodes.map(one => [id, one.html.slice(0, 99), one.failureSummary])))"""
# Contrast takes longest, on thousands of words of code: one of each kind of span stays a span.
ONE_OF_A_KIND = """{
    const seen = new Set();
    for (const span of document.querySelectorAll(".bd-article pre span")) {
        const around = [span, span.parentElement, span.closest("[class*='cell_']")];
        const kind = around.map(one => one?.className).join("|") + span.getAttribute("style");
        if (seen.has(kind)) span.replaceWith(...span.childNodes); else seen.add(kind);
    }
    document.querySelectorAll(".bd-article pre").forEach(pre => pre.normalize());
}"""
THEMES = {"light": {}, "dark": {"runOnly": "color-contrast"}}  # the rest does not depend on colors
TELEPHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}


def visited(tab, site):
    """Open each page in turn; yields its name. BOOK_PAGES (a part of names) chooses some."""
    found = [path.relative_to(BOOK) for path in BOOK.glob("*/**/*.html")]
    pages = sorted(p.as_posix() for p in found if not {"files", "_static"} & {*p.parts})
    assert len(pages) > 50, "make book comes first"
    for name in pages:
        if os.environ.get("BOOK_PAGES", "") in name:
            tab.send("Page.navigate", url=f"{site}/{name}")
            tab.until(f"location.pathname == '/{name}' && document.readyState == 'complete'")
            yield name


def test_every_page_is_accessible_fits_a_telephone_and_fetches_nothing_from_another_host():
    found, wide, fetched = defaultdict(list), {}, {}
    axe = AXE.read_text(encoding="utf-8")
    with book.served(BOOK) as site, page("about:blank") as tab:
        for name in visited(tab, site):
            tab.send("Emulation.setDeviceMetricsOverride", **TELEPHONE)
            if (width := tab.run("document.scrollingElement.scrollWidth")) > TELEPHONE["width"]:
                wide[name] = width
            tab.send("Emulation.clearDeviceMetricsOverride")
            names = tab.run("performance.getEntriesByType('resource').map(one => one.name)")
            if other := [url for url in names if not url.startswith((site, "data:"))]:
                fetched[name] = other
            tab.run(f"{ONE_OF_A_KIND} {axe}; true")
            for theme, only in THEMES.items():
                features = [{"name": "prefers-color-scheme", "value": theme}]
                tab.send("Emulation.setEmulatedMedia", features=features)
                tab.until(f"document.documentElement.dataset.theme == '{theme}'")
                tab.run("new Promise(done => setTimeout(done, 300))")  # colors change gradually
                options = json.dumps({"resultTypes": ["violations"], **only})
                for rule, html, summary in tab.run(RUN.replace("OPTIONS", options)):
                    found[theme, rule, html].append((name, summary))
    lines = [
        f"{theme}: {rule}: {html}\n    on {len(on)} pages, such as {on[0][0]}: {on[0][1]!r}"
        for (theme, rule, html), on in found.items()
    ]
    assert not (lines or wide or fetched), "\n".join([*lines, f"{wide = }", f"{fetched = }"])
