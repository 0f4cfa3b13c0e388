"""A webhook is believed by its signature, and costs next to nothing without one."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import select
import socket
import time
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

from reconciler.git.webhook import BODY_LIMIT, WebhookReceiver, serve_webhook
from reconciler.threads.http import CONCURRENT_LIMIT, HttpServer
from reconciler.timings import TIMINGS, HttpTimings

SECRET = b"hook-secret"
PUSH = json.dumps({"ref": "refs/heads/main"}).encode()


class Hook:
    """A receiver, and how often it poked."""

    def __init__(self, secret_file: Path) -> None:
        secret_file.write_bytes(SECRET + b"\n")
        self.pokes: list[None] = []
        self.receiver = WebhookReceiver("main", secret_file, lambda: self.pokes.append(None))

    @property
    def count(self) -> int:
        return len(self.pokes)

    @contextlib.contextmanager
    def serving(self, timings: HttpTimings = TIMINGS.http) -> Iterator[HttpServer]:
        server = serve_webhook("127.0.0.1:0", self.receiver, timings)
        yield server
        server.shutdown()
        server.server_close()

    def status(self, body: bytes, **headers: str) -> int:
        message = Message()
        for name, value in headers.items():
            message[name.replace("_", "-")] = value
        return self.receiver.status_for(message, body)


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    return Hook(tmp_path / "secret")


def signature(body: bytes, secret: bytes = SECRET) -> str:
    return hmac.new(secret, body, hashlib.sha256).hexdigest()


def test_each_way_to_sign_is_known(hook: Hook) -> None:
    assert hook.status(PUSH, X_Hub_Signature_256="sha256=" + signature(PUSH)) == 202
    assert hook.status(PUSH, X_Hub_Signature="sha256=" + signature(PUSH)) == 202
    assert hook.status(PUSH, X_Gitea_Signature=signature(PUSH)) == 202
    assert hook.status(PUSH, x_gitlab_token=SECRET.decode()) == 202
    assert hook.count == 4


def test_what_is_not_signed_is_not_even_parsed(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.git.webhook.json", None)
    assert hook.status(PUSH) == 401
    assert hook.status(PUSH, X_Hub_Signature_256="sha256=" + signature(PUSH, b"other")) == 401
    assert hook.status(PUSH, X_Hub_Signature_256="sha256=" + signature(PUSH + b" ")) == 401
    assert hook.status(PUSH, X_Hub_Signature_256="\xff") == 401
    assert hook.status(PUSH, X_Gitlab_Token="") == 401
    assert hook.count == 0


@pytest.mark.parametrize(
    ("body", "status", "count"),
    [
        (b'{"ref": "refs/heads/other"}', 200, 0),
        (b'{"ref": "refs/heads/a/refs/heads/main"}', 200, 0),
        (b'{"push": {"changes": []}}', 202, 1),
        (b"{", 400, 0),
        (b"\xff", 400, 0),
        (b"[" * 100_000, 400, 0),
    ],
)
def test_a_push_to_another_branch_is_nothing_to_us(hook: Hook, body: bytes, status: int, count: int) -> None:
    assert hook.status(body, X_Hub_Signature_256="sha256=" + signature(body)) == status
    assert hook.count == count


@pytest.mark.parametrize("content", [None, b"", b" \n"])
def test_without_a_secret_nothing_is_believed(hook: Hook, content: bytes | None) -> None:
    file = hook.receiver.secret_file
    file.unlink() if content is None else file.write_bytes(content)
    assert hook.status(PUSH, X_Gitlab_Token="") == 503
    assert hook.count == 0


HEAD = f"POST / HTTP/1.1\r\nContent-Length: {len(PUSH)}\r\nX-Gitlab-Token: {SECRET.decode()}\r\n\r\n".encode()


def post(server: HttpServer, request: bytes) -> bytes:
    """The first line of the answer."""
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        connection.sendall(request)
        return connection.makefile("rb").readline()


def test_over_http(hook: Hook) -> None:
    rows = (
        (f"Content-Length: {BODY_LIMIT + 1}", 413),  # before a byte of it is read
        ("Content-Length: " + "9" * 5000, 413),
        ("Content-Length: -1", 411),
        ("Transfer-Encoding: chunked", 411),
    )
    with hook.serving() as server:
        assert b" 202 " in post(server, HEAD + PUSH)
        for header, status in rows:
            assert f" {status} ".encode() in post(server, f"POST / HTTP/1.1\r\n{header}\r\n\r\n".encode())
    assert hook.count == 1


def test_connections_that_drip_keep_nobody_out(hook: Hook) -> None:
    """Eight of them did, for as long as they liked: the limit was one for each byte."""
    with hook.serving() as server:
        address = ("127.0.0.1", server.server_port)
        slow = [socket.create_connection(address) for _ in range(3 * CONCURRENT_LIMIT)]
        for each in slow:
            with contextlib.suppress(OSError):
                each.sendall(HEAD + PUSH[:1])
        assert b" 202 " in post(server, HEAD + PUSH)
        for each in slow:
            each.close()


def test_a_request_has_a_limit_for_the_whole_of_it(hook: Hook) -> None:
    with (
        hook.serving(HttpTimings(request=0.2)) as server,
        socket.create_connection(("127.0.0.1", server.server_port)) as slow,
        contextlib.suppress(OSError),  # it is shut, or reset
    ):
        slow.sendall(b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n")
        while select.select([slow], [], [], 0.05)[0] == []:
            slow.sendall(b"x")
    assert hook.count == 0


def test_an_address_that_is_none_is_refused(hook: Hook) -> None:
    with pytest.raises(ValueError, match="not host:port"):
        serve_webhook("8080:", hook.receiver)


def test_the_thread_survives_any_error_and_shows_that_it_turns(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """One error where it looks for connections that are open for too long, and no webhook came any more."""
    errors, look = [MemoryError()], HttpServer.service_actions

    def fail_once(server: HttpServer) -> None:
        if errors:
            raise errors.pop()
        look(server)

    monkeypatch.setattr(HttpServer, "service_actions", fail_once)
    with hook.serving() as server:
        server.heartbeat.error_pause = 0.0
        while errors:
            time.sleep(0.001)
        assert b" 202 " in post(server, HEAD + PUSH)
        assert server.heartbeat.errors == 1
        server.heartbeat.rest()
        server.service_actions()
        assert server.heartbeat.last_beat is not None
