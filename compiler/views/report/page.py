"""The page: markup, style, script and data in one HTML file that loads nothing."""

from __future__ import annotations

import html
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from compiler.diagnostics.render.words import printable
from compiler.outcome import Outcome
from compiler.views.report.document import Base, report_document

_FOLDER = Path(__file__).parent
SCRIPTS = (
    "base",
    "model",
    "layout",
    "details",
    "picture",
    "search",
    "room",
    "queues",
    "waiting",
    "time",
    "proof",
    "main",
)
"""The script's files, in the order in which they are joined."""
LIVE = ("live",)
"""Behind them, where a reconciler serves the page."""
REPLAY = ("base", "curves", "replay")
"""Keys of the page of a replay (`gangplan simulate --page`)."""
_ESCAPED = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
"""In strings of JSON only: no `</script>` and no comment ends the data."""


def report_page(outcome: Outcome, base: Base | None = None) -> str:
    """Return the HTML of an outcome with a plan; the same bytes for the same plan."""
    return page_of(report_document(outcome, base))


def live_page(outcome: Outcome) -> str:
    """Return the page as a reconciler serves it: it asks for `report/status.json` next to it, and for the next plan."""
    return page_of(report_document(outcome), is_live=True)


def page_of(document: Mapping[str, Any], *, is_live: bool = False) -> str:
    """Return the page of a plan."""
    scripts = (*SCRIPTS, *(LIVE if is_live else ()))
    return _page(document, document["cluster"], "plan", scripts, "; connect-src 'self'" if is_live else "")


def replay_page(document: Mapping[str, Any]) -> str:
    """Return the page of a replay, of a document of `compiler/views/simulation.py`."""
    return _page(document, document["title"], "replay", REPLAY)


def _page(document: Mapping[str, Any], title: str, body: str, scripts: Sequence[str], policy: str = "") -> str:
    """body: name of the HTML file with the page's sections. policy: what else the page may do."""
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    parts = [(_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in scripts]
    script = "\n".join(('"use strict";', "(() => {", *parts, "})();\n"))
    sources = f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; base-uri 'none'"
    filled = {
        "TITLE": html.escape(f"gangplan: {printable(title)}"),
        "POLICY": sources + policy,
        "STYLE": style,
        "BODY": (_FOLDER / f"{body}.html").read_text(encoding="utf-8"),
        "DATA": embedded_json(document),
        "SCRIPT": script,
    }
    pieces = (_FOLDER / "page.html").read_text(encoding="utf-8").split("@@")
    return "".join(filled[piece] if at % 2 else piece for at, piece in enumerate(pieces))


def embedded_json(document: Mapping[str, Any]) -> str:
    """JSON for a script element. It is ASCII, so that no encoding and no line separator can spoil it."""
    return json.dumps(document, separators=(",", ":")).translate(_ESCAPED)


def _source(text: str) -> str:
    """Return the text as a source of a Content-Security-Policy."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
