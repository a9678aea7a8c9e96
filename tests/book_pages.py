"""Every page of build/book in Chromium (`make book-check`): axe-core finds nothing that keeps a
reader out, a telephone is wide enough, and nothing comes from another host."""

import json
from collections import defaultdict

from tools import book

import pytest
from browser import page

BOOK = book.ROOT / "build" / "book"
AXE = next(
    (book.ROOT / ".venv-book").glob("lib/python*/site-packages/axe_playwright_python/axe.min.js")
)
# What axe calls moderate or minor is advice: a landmark more, an order of headings.
RUN = """axe.run(document, OPTIONS).then(result => result.violations
    .filter(one => ["serious", "critical"].includes(one.impact))
    .flatMap(({id, nodes}) => nodes.map(one => [id, one.html.slice(0, 99), one.failureSummary])))"""


@pytest.fixture(scope="module")
def site():
    with book.served(BOOK) as address:
        yield address


def visited(tab, site):
    """Open each page in turn; yields its name."""
    found = [path.relative_to(BOOK) for path in BOOK.glob("*/**/*.html")]
    pages = sorted(p.as_posix() for p in found if not {"files", "_static"} & {*p.parts})
    assert len(pages) > 50, "make book comes first"
    for name in pages:
        tab.send("Page.navigate", url=f"{site}/{name}")
        tab.until(f"location.pathname == '/{name}' && document.readyState == 'complete'")
        yield name


@pytest.mark.parametrize("theme, only", [("light", {}), ("dark", {"runOnly": "color-contrast"})])
def test_no_page_has_a_serious_violation(site, theme, only):
    found, axe = defaultdict(list), AXE.read_text(encoding="utf-8")
    options = json.dumps({"resultTypes": ["violations"], **only})
    with page("about:blank") as tab:
        tab.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": theme}],
        )
        for name in visited(tab, site):
            tab.run("new Promise(done => setTimeout(done, 300))")  # colors change gradually
            tab.run(f"{axe}; true")
            for rule, html, summary in tab.run(RUN.replace("OPTIONS", options)):
                found[rule, html].append((name, summary))
    lines = [
        f"{rule}: {html}\n    on {len(on)} pages, such as {on[0][0]}: {json.dumps(on[0][1])}"
        for (rule, html), on in found.items()
    ]
    assert not lines, f"{len(lines)} kinds:\n" + "\n".join(lines)


def test_every_page_fits_a_telephone_and_fetches_nothing_from_another_host(site):
    wide, fetched = {}, {}
    with page("about:blank") as tab:
        sizes = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        tab.send("Emulation.setDeviceMetricsOverride", **sizes)
        for name in visited(tab, site):
            if (width := tab.run("document.scrollingElement.scrollWidth")) > 390:
                wide[name] = width
            names = tab.run("performance.getEntriesByType('resource').map(one => one.name)")
            if other := [url for url in names if not url.startswith((site, "data:"))]:
                fetched[name] = other
    assert not wide and not fetched
