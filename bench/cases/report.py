"""The page of the report for 10,000 nodes of 8 devices and 1,000 jobs, in a headless Chromium."""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

from bench.registry import Figures, register_case

MOST_BYTES = 3_000_000


def measure_page() -> Figures:
    """seconds: from the navigation until the page is ready, as the browser counts them; the best of five, since the
    first has cold caches. cpu: of this process, which writes the page."""
    from compiler.views.report.page import page_of
    from tests.browser.chromium import running_browser
    from tests.browser.worlds import large_document

    document = large_document()
    start = time.process_time()
    text = page_of(document)
    spent = time.process_time() - start
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "plan.html"
        file.write_text(text, encoding="utf-8")
        ready = []
        with running_browser(Path(folder) / "chromium") as page:
            for _ in range(5):
                page.open(file)
                ready.append(float(page.evaluate("document.documentElement.dataset.ready")) / 1000)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Figures(min(ready), spent, peak, claims={"the page is under 3 MB": len(text) < MOST_BYTES})


register_case(
    "report-10000x1000", "report of 10,000 nodes x 1,000 jobs until ready in a browser", measure_page, seconds=0.5
)
