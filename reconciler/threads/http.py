"""HTTP servers: probes and metrics for the kubelet and Prometheus, webhooks for git servers.

A request has a time limit as a whole, and where too many are open the oldest is dropped: requests that drip their bytes
block nobody.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from compiler.fields.texts import whole_number
from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.timings import TIMINGS, HttpTimings

log = logging.getLogger(__name__)

CONCURRENT_LIMIT = 16
LAST_PORT = 65535
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of Prometheus metrics."""


class Reply(NamedTuple):
    """An answer in another content type than plain text."""

    status: int
    body: bytes
    headers: Mapping[str, str]


Answer = Callable[[BaseHTTPRequestHandler], tuple[int, str] | Reply]
"""For a request, whose body is not read yet; a text is sent as Prometheus takes it."""


class HttpServer(ThreadingHTTPServer):
    """Serves requests of one method on "host:port" (host may be empty) from a thread, until `shutdown`. Raises
    ValueError for an address of another form, OSError for one that is in use."""

    daemon_threads = True

    def __init__(
        self, name: str, listen: str, method: str, answer: Answer, timings: HttpTimings = TIMINGS.http
    ) -> None:
        host, _, port = listen.rpartition(":")
        if (number := whole_number(port)) is None or number > LAST_PORT:
            raise ValueError(f"{listen!r} is not host:port")
        self.heartbeat, self._stop = Heartbeat(name, timings.heartbeat_limit), threading.Event()
        self._request_limit = timings.request
        self._opened_at: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__((host, number), _handler(method, answer, timings.request))
        start_thread(self._serve, self._stop, self.heartbeat)

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

    def _serve(self) -> float:
        """Serve until `shutdown`, or an error."""
        self.serve_forever()
        self._stop.set()
        return 0.0

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.info("a connection broke", exc_info=True)


def _handler(method: str, answer: Answer, seconds: float) -> type[BaseHTTPRequestHandler]:
    def respond(self: BaseHTTPRequestHandler) -> None:
        found = answer(self)
        reply = (
            found if isinstance(found, Reply) else Reply(found[0], found[1].encode(), {"Content-Type": CONTENT_TYPE})
        )
        self.close_connection = True
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(_: BaseHTTPRequestHandler, text: str, *args: object) -> None:
        log.debug("http", extra={"detail": text % args})

    names = {"timeout": seconds, "server_version": "gangplan", "sys_version": "", "log_message": log_message}
    return type("Handler", (BaseHTTPRequestHandler,), {**names, f"do_{method}": respond})
