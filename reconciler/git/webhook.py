"""A receiver of webhooks: a push to the branch is fetched at once, and polling stays as the fallback.

What a stranger sends is not looked at: the length is checked before the body is read, the signature before it is
parsed. A request has a time limit for the whole of it, and where too many are open the oldest gives way: those that
drip their bytes keep nobody out. GitHub, Gitea and Bitbucket sign the body (HMAC-SHA256), GitLab sends the secret
itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.timings import TIMINGS, GitTimings

log = logging.getLogger(__name__)

BODY_LIMIT = 1 << 20
CONCURRENT_LIMIT = 16
_SIGNATURE_HEADERS = ("X-Hub-Signature-256", "X-Hub-Signature", "X-Gitea-Signature")
_TOKEN_HEADER = "X-Gitlab-Token"  # noqa: S105 (the name of a header)


@dataclass(frozen=True, slots=True)
class WebhookReceiver:
    """What is to be done about a request. poke: called for a push to `branch`. The secret's file is read each time."""

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


class WebhookServer(ThreadingHTTPServer):
    """Shuts connections that are open for too long, and the oldest where there are too many."""

    daemon_threads = True

    def __init__(self, *args: Any, timings: GitTimings = TIMINGS.git) -> None:
        self.heartbeat, self._stop = Heartbeat("webhook", timings.webhook_heartbeat_limit), threading.Event()
        self._request_limit = timings.webhook_request
        self._opened_at: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._opened_at[request] = time.monotonic()
            self._shut(list(self._opened_at)[:-CONCURRENT_LIMIT])
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Called twice a second."""
        self.heartbeat.beat()
        now = time.monotonic()
        with self._lock:
            self._shut([each for each, at in self._opened_at.items() if now - at > self._request_limit])

    def _shut(self, connections: list[socket.socket]) -> None:
        """End what reads from them; each thread then closes its own."""
        for each in connections:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._opened_at.pop(request, None)
        super().shutdown_request(request)

    def serve(self) -> float:
        """Serve until `shutdown`, or an error."""
        self.serve_forever()
        self._stop.set()
        return 0.0

    def start(self) -> None:
        """Serve from a thread."""
        start_thread(self.serve, self._stop, self.heartbeat)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.info("a webhook's connection broke", exc_info=True)


def serve_webhook(listen: str, receiver: WebhookReceiver, timings: GitTimings = TIMINGS.git) -> WebhookServer:
    """Serve POST on "host:port" from a thread. Raises ValueError for another form, OSError for an address in use."""
    host, _, port = listen.rpartition(":")
    if not port.isdigit():
        raise ValueError(f"{listen!r} is not host:port")

    class Handler(BaseHTTPRequestHandler):
        timeout = timings.webhook_request
        server_version = "gangplan"
        sys_version = ""

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isascii() or not length.isdigit():
                status = 411
            elif len(length) > 9 or int(length) > BODY_LIMIT:
                status = 413
            else:
                status = receiver.status_for(self.headers, self.rfile.read(int(length)))
            self.close_connection = True
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, code: object = "-", size: object = "-") -> None:
            log.info("webhook", extra={"status": code, "peer": self.client_address[0]})

        def log_message(self, format: str, *args: object) -> None:
            log.info("webhook", extra={"detail": format % args})

    server = WebhookServer((host, int(port)), Handler, timings=timings)
    server.start()
    return server
