"""A receiver of webhooks: a push to the branch is fetched at once, and polling stays as the fallback.

Input of strangers is not examined: the length is checked before the body is read, the signature before it is parsed.
GitHub, Gitea and Bitbucket sign the body (HMAC-SHA256), GitLab sends the secret itself.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from reconciler.threads.http import HttpServer
from reconciler.timings import TIMINGS, HttpTimings

log = logging.getLogger(__name__)

BODY_LIMIT = 1 << 20
_SIGNATURE_HEADERS = ("X-Hub-Signature-256", "X-Hub-Signature", "X-Gitea-Signature")
_TOKEN_HEADER = "X-Gitlab-Token"  # noqa: S105 (the name of a header)


@dataclass(frozen=True, slots=True)
class WebhookReceiver:
    """Decides on each request. poke: called for a push to `branch`. The secret's file is read each time."""

    branch: str
    secret_file: Path
    poke: Callable[[], None]

    def status_for(self, headers: Message, body: bytes) -> int:
        """Act on one request; its HTTP status."""
        try:
            secret, reason = self.secret_file.read_bytes().strip(), "it is empty"
        except OSError as error:
            secret, reason = b"", str(error)
        if not secret:
            log.warning("the webhook's secret cannot be read", extra={"reason": reason})
            return 503
        if not _is_signed(headers, body, secret):
            return 401
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            return 400
        reference = data.get("ref") if isinstance(data, dict) else None
        if isinstance(reference, str) and reference != f"refs/heads/{self.branch}":
            return 200
        self.poke()
        return 202


def _is_signed(headers: Message, body: bytes, secret: bytes) -> bool:
    expected = hmac.new(secret, body, hashlib.sha256).hexdigest()
    given = [headers[name].removeprefix("sha256=") for name in _SIGNATURE_HEADERS if name in headers]
    if given:
        return any(hmac.compare_digest(each.encode(), expected.encode()) for each in given)
    return hmac.compare_digest(headers.get(_TOKEN_HEADER, "").encode(), secret)


def serve_webhook(listen: str, receiver: WebhookReceiver, timings: HttpTimings = TIMINGS.http) -> HttpServer:
    """Serve POST on "host:port" from a thread. Raises as `HttpServer`."""

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        length = request.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            status = 411
        elif len(length) > 9 or int(length) > BODY_LIMIT:
            status = 413
        else:
            status = receiver.status_for(request.headers, request.rfile.read(int(length)))
        log.info("webhook", extra={"status": status, "peer": request.client_address[0]})
        return status, ""

    return HttpServer("webhook", listen, "POST", answer, timings)
