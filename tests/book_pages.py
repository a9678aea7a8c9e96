"""axe-core on every page of build/book (`make book-check`): nothing that keeps a reader out."""

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


@pytest.mark.parametrize("theme, only", [("light", {}), ("dark", {"runOnly": "color-contrast"})])
def test_no_page_has_a_serious_violation(site, theme, only):
    pages = sorted(path.relative_to(BOOK).as_posix() for path in BOOK.glob("*/**/*.html"))
    pages = [name for name in pages if "/files/" not in f"/{name}"]
    assert len(pages) > 50, "make book comes first"
    found, axe = defaultdict(list), AXE.read_text(encoding="utf-8")
    options = json.dumps({"resultTypes": ["violations"], **only})
    with page("about:blank") as tab:
        tab.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": theme}],
        )
        for name in pages:
            tab.send("Page.navigate", url=f"{site}/{name}")
            tab.until(f"location.pathname == '/{name}' && document.readyState == 'complete'")
            tab.run("new Promise(done => setTimeout(done, 300))")  # colors change gradually
            tab.run(f"{axe}; true")
            for rule, html, summary in tab.run(RUN.replace("OPTIONS", options)):
                found[rule, html].append((name, summary))
    lines = [
        f"{rule}: {html}\n    on {len(on)} pages, such as {on[0][0]}: {json.dumps(on[0][1])}"
        for (rule, html), on in found.items()
    ]
    assert not lines, f"{len(lines)} kinds:\n" + "\n".join(lines)
