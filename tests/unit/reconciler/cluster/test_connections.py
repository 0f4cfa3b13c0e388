"""Connections to an API server: kept, made anew where one is of no use, and made through a proxy where one is named."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from reconciler.cluster import transport
from reconciler.cluster.client import Client, Retry
from reconciler.cluster.transport import Connector
from tests.builders.git_servers import Certificates
from tests.unit.reconciler.cluster.test_client import PODS

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


class _Handler(BaseHTTPRequestHandler):
    """An API server. Of its answers: `/short` ends too early, `/last` ends the connection without saying so, `/missing`
    is a 404."""

    protocol_version = "HTTP/1.1"
    seen: Seen

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
        self.send_response(404 if self.path == "/missing" else 200)
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


class Seen:
    """What a server was asked, with which tokens, on how many connections."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.tokens: list[str] = []
        self.connections = 0


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port on which such a server listens."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def server(seen: Seen) -> Iterator[str]:
    with serving(type("Handler", (_Handler,), {"seen": seen})) as port:
        yield f"http://127.0.0.1:{port}"


def connected(folder: Path, address: str, **cluster: str) -> Client:
    """A client by a kubeconfig. cluster: more of what it says of the cluster."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": address, **cluster}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "current-context": "x",
    }
    (folder / "config").write_text(json.dumps(config))
    return Client(Connector(folder / "config"))


def test_a_connection_is_kept_after_a_good_answer_and_a_refusal(tmp_path: Path, server: str, seen: Seen) -> None:
    client = connected(tmp_path, server)
    for _ in range(3):
        assert client.request("GET", "/good") == {"kind": "Pod"}
        with pytest.raises(Exception, match="404"):
            client.request("GET", "/missing")
        kinds = [json.loads(line)["type"] for line in client.watch(PODS, "5", 300)]
        assert kinds == ["ADDED", "DELETED", "BOOKMARK"]
    assert (len(seen.asked), seen.connections) == (9, 1)


def test_an_answer_that_ends_too_early_is_told_and_its_connection_is_not_used_again(
    tmp_path: Path, server: str, seen: Seen
) -> None:
    client = connected(tmp_path, server)
    with pytest.raises(Retry, match="broke off"):
        client.request("GET", "/short")
    assert client.request("GET", "/good") == {"kind": "Pod"}
    assert seen.connections == 2


def test_a_watch_that_is_left_in_the_middle_leaves_no_connection_for_others(
    tmp_path: Path, server: str, seen: Seen
) -> None:
    client = connected(tmp_path, server)
    lines = client.watch(PODS, "5", 300)
    next(lines)
    lines.close()  # type: ignore[attr-defined]  # a generator
    assert client.request("GET", "/good") == {"kind": "Pod"}
    assert seen.connections == 2


def test_a_connection_that_the_server_has_ended_is_made_anew(tmp_path: Path, server: str, seen: Seen) -> None:
    client = connected(tmp_path, server)
    for path in ("/last", "/good", "/last", "/good"):
        assert client.request("GET", path) == {"kind": "Pod"}
        if path == "/last":
            threading.Event().wait(0.2)  # the end reaches us
    assert seen.connections == 3


def test_a_path_in_the_servers_address_stands_before_each_path(tmp_path: Path, server: str, seen: Seen) -> None:
    connected(tmp_path, f"{server}/clusters/a/").request("GET", "/good")
    assert seen.asked == ["/clusters/a/good"]


def test_a_token_is_looked_at_again_after_a_moment_and_not_for_each_request(
    tmp_path: Path, server: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connected(tmp_path, server)
    client.request("GET", "/good")
    connection: Any = client._transport
    connection.api.configuration.refresh_api_key_hook = lambda settings: settings.api_key.update(BearerToken="new")
    client.request("GET", "/good")
    monkeypatch.setattr(transport, "CREDENTIAL_SECONDS", 0.0)
    connection._credentials = ({}, 0.0)
    for _ in range(2):
        client.request("GET", "/good")
    assert seen.tokens == ["Bearer t", "Bearer t", "new", "new"]


class _Proxy(BaseHTTPRequestHandler):
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
            back = threading.Thread(target=hand_on, args=(server.recv, self.wfile.write))
            back.start()
            hand_on(self.connection.recv, server.sendall)
            server.shutdown(socket.SHUT_WR)
            back.join()
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def hand_on(read: Callable[[int], bytes], write: Callable[[bytes], Any]) -> None:
    while data := read(65536):
        write(data)


def test_requests_without_tls_are_given_to_a_proxy_with_their_whole_address(tmp_path: Path) -> None:
    lines: list[tuple[str, str | None]] = []
    with serving(type("Handler", (_Proxy,), {"lines": lines})) as port:
        client = connected(tmp_path, "http://api.example", **{"proxy-url": f"http://127.0.0.1:{port}"})
        assert client.request("GET", "/version") == {}
    assert lines == [("GET http://api.example/version", "Bearer t")]


@needs_openssl
@pytest.mark.parametrize("has_proxy", [False, True])
def test_tls_with_a_certificate_of_our_own_also_through_a_proxy(tmp_path: Path, seen: Seen, *, has_proxy: bool) -> None:
    """The proxy sees the server's name and not the token."""
    certificates = Certificates(tmp_path / "certificates")
    certificates.make()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.folder / "server.crt", certificates.folder / "server.key")
    lines: list[tuple[str, str | None]] = []
    with (
        serving(type("Handler", (_Handler,), {"seen": seen}), context) as port,
        serving(type("Handler", (_Proxy,), {"lines": lines})) as proxy_port,
    ):
        authority = {"certificate-authority": str(certificates.folder / "ca.crt")}
        proxy = {"proxy-url": f"http://127.0.0.1:{proxy_port}"} if has_proxy else {}
        client = connected(tmp_path, f"https://127.0.0.1:{port}", **authority, **proxy)
        for _ in range(3):
            assert client.request("GET", "/good") == {"kind": "Pod"}
        assert (seen.tokens, seen.connections) == (["Bearer t"] * 3, 1)
        assert lines == ([(f"CONNECT 127.0.0.1:{port}", None)] if has_proxy else [])
        with pytest.raises(Retry, match="CERTIFICATE_VERIFY_FAILED"):
            connected(tmp_path, f"https://127.0.0.1:{port}", **proxy).request("GET", "/good")
