"""The page: markup, style, script and data in one HTML file that loads nothing."""

from __future__ import annotations

import html
import json
from base64 import b64encode
from collections.abc import Mapping
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
_ESCAPED = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
"""In strings of JSON only: no `</script>` and no comment ends the data."""


def report_page(outcome: Outcome, base: Base | None = None) -> str:
    """The HTML of an outcome with a plan; the same bytes for the same plan."""
    return page_of(report_document(outcome, base))


def page_of(document: Mapping[str, Any]) -> str:
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    parts = [(_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    script = "\n".join(('"use strict";', "(() => {", *parts, "})();\n"))
    filled = {
        "TITLE": html.escape(f"gangplan: {printable(document['cluster'])}"),
        "POLICY": f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; base-uri 'none'",
        "STYLE": style,
        "DATA": embedded_json(document),
        "SCRIPT": script,
    }
    pieces = (_FOLDER / "page.html").read_text(encoding="utf-8").split("@@")
    return "".join(filled[piece] if at % 2 else piece for at, piece in enumerate(pieces))


def embedded_json(document: Mapping[str, Any]) -> str:
    """JSON for a script element. It is ASCII, so that no encoding and no line separator can spoil it."""
    return json.dumps(document, separators=(",", ":")).translate(_ESCAPED)


def _source(text: str) -> str:
    """The text as a source of a Content-Security-Policy."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
