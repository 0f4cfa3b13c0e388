"""`/report` of the reconciler: the page of the plan in force, and the status next to it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from reconciler.planning.plan_pages import read_page
from reconciler.report.status_text import condition_sentence
from reconciler.threads.http import Reply

GUARD = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of each answer. The page's own policy is in its head, with the digests of its style and script."""


@dataclass(slots=True)
class ReportPages:
    """Answers from the folder of pages. digest: of the plan in force, empty for none. status: the document of the
    status ConfigMap. The page of one plan is kept in memory."""

    folder: Path
    digest: Callable[[], str]
    status: Callable[[], Mapping[str, Any] | None]
    _kept: tuple[str, bytes] = field(default=("", b""))

    def page(self, request: BaseHTTPRequestHandler) -> Reply:
        """Return the page, packed where the browser takes that."""
        digest = self.digest()
        if not digest:
            return _text(503, "no plan is in force yet\n")
        if self._kept[0] != digest:
            packed = read_page(self.folder, digest)
            if packed is None:
                return _text(503, "the page of this plan is being written\n")
            self._kept = digest, packed
        packed, headers = self._kept[1], {**GUARD, "Content-Type": "text/html; charset=utf-8"}
        if "gzip" in str(request.headers.get("Accept-Encoding", "")):
            return Reply(200, packed, {**headers, "Content-Encoding": "gzip"})
        return Reply(200, gzip.decompress(packed), headers)

    def status_json(self, _: BaseHTTPRequestHandler) -> Reply:
        """Return the status document, each condition with its sentence; null before the first."""
        status = self.status() or None
        if status is not None:
            conditions = [{**row, "sentence": _sentence(row)} for row in status.get("conditions") or ()]
            status = {**status, "conditions": conditions}
        body = json.dumps(status, sort_keys=True).encode()
        return Reply(200, body, {**GUARD, "Content-Type": "application/json"})


def _sentence(condition: Mapping[str, str]) -> str:
    return condition_sentence(condition["type"], condition["status"] == "True")


def _text(status: int, text: str) -> Reply:
    return Reply(status, text.encode(), {**GUARD, "Content-Type": "text/plain; charset=utf-8"})
