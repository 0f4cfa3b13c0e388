"""Pages of plans on disk, by the plan's digest: the compile's child writes them, the HTTP server reads them."""

from __future__ import annotations

import contextlib
import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.planning.snapshot import write_whole

if TYPE_CHECKING:
    from compiler.outcome import Outcome

KEPT_PAGES = 4
"""The newest: the one of the plan in force is among them, unless so many commits were rejected since."""
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


def write_page(outcome: Outcome, folder: Path) -> None:
    """Write the page of a plan whole or not at all, and remove old ones."""
    from compiler.views.report.page import live_page

    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / _file_name(outcome.digest), gzip.compress(live_page(outcome).encode(), mtime=0))
    for old in sorted(folder.glob("*.gz"), key=lambda each: each.stat().st_mtime)[:-KEPT_PAGES]:
        old.unlink(missing_ok=True)


def read_page(folder: Path, digest: str) -> bytes | None:
    """Return the page of the plan with this digest, as gzip; None where it is not written yet."""
    with contextlib.suppress(OSError):
        return (folder / _file_name(digest)).read_bytes()
    return None


def _file_name(digest: str) -> str:
    found = _DIGEST.fullmatch(digest)
    return f"{found[1] if found else 'none'}.html.gz"
