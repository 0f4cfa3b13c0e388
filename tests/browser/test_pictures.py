"""What the page draws, against stored pictures: places, colours and patterns. Letters differ with a machine's fonts."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.views.report.page import page_of
from tests.browser.chromium import Page, running_browser
from tests.browser.worlds import large_document

HERE = Path(__file__).parent
STORED = HERE / "pictures"
TOLERANCE = 0.05
"""Share of pixels that may differ."""
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with running_browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.mark.parametrize(
    ("case", "width", "dark", "selector"),
    [
        ("reservation", 1000, False, ".picture"),
        ("reservation", 400, True, ".picture"),
        ("reservation", 1000, False, ".chart"),
        ("preempt", 400, False, ".picture"),
        ("large", 2000, False, ".picture"),
    ],
)
def test_a_picture_is_as_it_was_stored(
    page: Page, tmp_path: Path, case: str, width: int, dark: bool, selector: str
) -> None:
    """The data is what the golden cases store, so another plan is no other picture."""
    golden = HERE.parent / "golden" / case / "report.json"
    document = json.loads(golden.read_text()) if golden.is_file() else large_document(600, 60)
    (tmp_path / "plan.html").write_text(page_of(document), encoding="utf-8")
    page.open(tmp_path / "plan.html", width, dark=dark)
    drawn = page.picture(selector)
    stored = STORED / f"{case}-{selector.removeprefix('.')}-{width}{'-dark' * dark}.png"
    (made := tmp_path / stored.name).write_bytes(base64.b64decode(drawn))
    assert stored.is_file(), f"look at {made}; if it is right, copy it to {STORED}"
    share = page.difference(drawn, base64.b64encode(stored.read_bytes()).decode())
    assert share < TOLERANCE, f"{share:.1%} differs: look at {made}; if it is right, copy it to {STORED}"


def test_a_picture_in_other_colours_or_of_another_size_is_seen(page: Page, tmp_path: Path) -> None:
    document = json.loads((HERE.parent / "golden/reservation/report.json").read_text())
    file = tmp_path / "plan.html"
    file.write_text(page_of(document), encoding="utf-8")

    def drawn(width: int, mode: str) -> str:
        page.open(file, width)
        page.evaluate(f"document.querySelector('input[value={mode}]').click()")
        return page.picture(".picture")

    job, state, narrow = drawn(1000, "job"), drawn(1000, "state"), drawn(900, "job")
    assert page.difference(job, job) == 0
    assert TOLERANCE < page.difference(job, state) < 1
    assert page.difference(job, narrow) == 1
