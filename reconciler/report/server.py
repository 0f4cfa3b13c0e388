"""/healthz, /readyz and /metrics over plain HTTP, for the kubelet and for Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

HttpAnswer = tuple[int, str]


def serve_pages(listen: str, pages: dict[str, Callable[[], HttpAnswer]]) -> ThreadingHTTPServer:
    """Serve on "host:port" (host may be empty) from a thread, until `shutdown()` of the returned server. Raises
    ValueError for an address of another form, OSError for one that is in use."""
    host, _, port = listen.rpartition(":")
    if not port.isdigit():
        raise ValueError(f"{listen!r} is not host:port")

    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        server_version = "gangplan"
        sys_version = ""

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            status, text = page() if page else (404, "not here\n")
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Probes come every few seconds; they are not logged."""

    server = ThreadingHTTPServer((host, int(port)), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server
