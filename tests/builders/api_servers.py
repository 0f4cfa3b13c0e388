"""API servers and proxies on loopback, over plain HTTP or TLS."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.builders.git_servers import Certificates


class Seen:
    """What a server was asked, with which tokens, on how many connections."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.tokens: list[str] = []
        self.connections = 0


class ApiHandler(BaseHTTPRequestHandler):
    """An API server. Of its answers: `/short` ends too early, `/last` ends the connection without saying so, `/missing`
    is a 404."""

    protocol_version = "HTTP/1.1"
    seen: Seen
    status = 200

    def setup(self) -> None:
        super().setup()
        self.seen.connections += 1

    def do_GET(self) -> None:
        self.seen.asked.append(self.path)
        self.seen.tokens.append(self.headers["Authorization"])
        if "watch=1" in self.path:
            self._say_events()
            return
        body = json.dumps({"kind": "Pod"}).encode()
        self.send_response(404 if self.path == "/missing" else self.status)
        self.send_header("Content-Length", str(len(body) + 10 * (self.path == "/short")))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.path in ("/short", "/last")

    def _say_events(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (b'{"type": "ADD', b'ED"}\n{"type": "DELETED"}\n', b'{"type": "BOOKMARK"}\n'):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


class ProxyHandler(BaseHTTPRequestHandler):
    """A proxy, which answers plain requests itself and hands on the bytes of tunnels."""

    protocol_version = "HTTP/1.1"
    lines: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.lines.append((f"{self.command} {self.path}", self.headers["Authorization"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def do_CONNECT(self) -> None:
        self.lines.append((f"{self.command} {self.path}", self.headers["Authorization"]))
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as server:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_hand_on, args=(server.recv, self.wfile.write))
            back.start()
            _hand_on(self.connection.recv, server.sendall)
            server.shutdown(socket.SHUT_WR)
            back.join()
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def _hand_on(read: Callable[[int], bytes], write: Callable[[bytes], Any]) -> None:
    while data := read(65536):
        write(data)


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler], certificates: Certificates | None = None, **attributes: Any
) -> Iterator[int]:
    """The port on which such a server listens, with TLS where there are certificates. attributes: of the handler."""
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), attributes)) as server:
        if certificates is not None:
            server.socket = certificates.context().wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
