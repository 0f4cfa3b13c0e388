"""A proxy before the API server that breaks things by rules, and keeps a log of every request with its outcome.

It speaks plain HTTP to the reconciler and hands out a kubeconfig of its own, with a token of its own, so that
credentials can be rotated. A rule says which requests it hits; its fault gets the exchange and decides what the
reconciler sees and whether the API server ever hears of it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import re
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Json = Any
WRITES = ("POST", "PUT", "PATCH", "DELETE")
_HOP_HEADERS = {"authorization", "connection", "content-length", "host", "keep-alive", "transfer-encoding"}
_MAX_LOGGED_BODY = 1 << 18


class CutError(Exception):
    """The connection to the reconciler is to be closed without another byte."""


@dataclass
class Request:
    """One request of the reconciler and its outcome. at: seconds on the monotonic clock. upstream: the API server's
    status, None if it was never asked. sent: the status that the reconciler saw, None if it saw none. found: the
    answered object of a write."""

    at: float
    method: str
    path: str
    query: str
    body: bytes
    headers: Mapping[str, str]
    upstream: int | None = None
    sent: int | None = None
    fault: str = ""
    found: Json = None

    @property
    def is_watch(self) -> bool:
        return "watch" in parse_qs(self.query)

    @property
    def is_write(self) -> bool:
        """Whether it changes something; a dry run does not."""
        return self.method in WRITES and "dryRun" not in parse_qs(self.query)

    @property
    def is_committed(self) -> bool:
        """Whether the API server has done it, whatever the reconciler was told."""
        return self.is_write and self.upstream is not None and self.upstream < 300

    @property
    def json(self) -> Json:
        """The body, None if there is none or it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def __str__(self) -> str:
        question = f"?{self.query}" if self.query else ""
        note = f" [{self.fault}]" if self.fault else ""
        return f"{self.at:.3f} {self.method} {self.path}{question}: {self.upstream} -> {self.sent}{note}"


class Exchange:
    """What a fault can do with a request: ask the API server, answer the reconciler, or neither."""

    def __init__(self, proxy: FaultProxy, handler: _Handler, request: Request) -> None:
        self.proxy, self._handler, self.request = proxy, handler, request

    def forward(self) -> http.client.HTTPResponse:
        """Ask the API server. Raises CutError when it does not answer."""
        request = self.request
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_HEADERS}
        headers["Authorization"] = f"Bearer {self.proxy.upstream_token}"
        try:
            answer = self._handler.ask_upstream(request, headers)
        except (OSError, http.client.HTTPException) as error:
            raise CutError from error
        request.upstream = answer.status
        return answer

    def forward_whole(self) -> tuple[int, dict[str, str], bytes]:
        """Ask the API server, for all of its answer."""
        answer = self.forward()
        try:
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise CutError from error
        self._note_found(body)
        return answer.status, {"Content-Type": answer.headers.get("Content-Type", "application/json")}, body

    def _note_found(self, body: bytes) -> None:
        if self.request.is_write and len(body) < _MAX_LOGGED_BODY:
            with contextlib.suppress(ValueError):
                self.request.found = json.loads(body)

    def reply(self, status: int, headers: Mapping[str, str], body: bytes, length: int | None = None) -> None:
        """Answer the reconciler; `length` may lie."""
        self.request.sent = status
        handler = self._handler
        handler.send_response_only(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)
        handler.wfile.flush()

    def reply_error(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        """Answer as an API server words its errors: a 403 is that of a young one, which has no roles yet."""
        cause = 'User "fault" cannot do this' if status == 403 else "made by a fault of the test"
        said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason}
        body = json.dumps({**said, "message": f"{reason}: {cause}", "code": status}).encode()
        self.reply(status, {"Content-Type": "application/json", **(headers or {})}, body)

    def write_raw(self, data: bytes) -> None:
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def relay(self) -> None:
        """Be no obstacle."""
        if self.request.is_watch:
            self.relay_stream()
            return
        status, headers, body = self.forward_whole()
        if self.proxy.is_partitioned:
            raise CutError
        self.reply(status, headers, body)

    def relay_stream(self, is_frozen: Callable[[], bool] = lambda: False, late: float = 0.0) -> None:
        """Pass a watch on, chunk by chunk, each so many seconds late. While `is_frozen()` the bytes are swallowed, and
        the connection never recovers: it stays open and silent, as half-open ones do."""
        answer = self.forward()
        self.request.sent = answer.status
        handler = self._handler
        handler.send_response_only(answer.status)
        handler.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.flush()
        frozen = False
        with self.proxy.stream(handler.connection, self.request) as stream:
            try:
                for chunk in late_chunks(answer, late) if late else _chunks(answer):
                    frozen = frozen or is_frozen() or stream.frozen
                    if not frozen:
                        self.write_raw(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise CutError from error
            if frozen:
                self.proxy.wait_for_end(handler.connection)
                raise CutError
        self.write_raw(b"0\r\n\r\n")


def _chunks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    return iter(lambda: answer.read1(1 << 16), b"")


def late_chunks(answer: http.client.HTTPResponse, seconds: float) -> Iterator[bytes]:
    """The chunks of an answer, each so many seconds after it came; so is the error that ends them."""
    come: queue.SimpleQueue[tuple[float, bytes | Exception]] = queue.SimpleQueue()

    def read() -> None:
        try:
            for chunk in _chunks(answer):
                come.put((time.monotonic(), chunk))
            come.put((time.monotonic(), b""))
        except Exception as error:
            come.put((time.monotonic(), error))

    threading.Thread(target=read, name="late chunks", daemon=True).start()
    while True:
        at, chunk = come.get()
        time.sleep(max(0.0, at + seconds - time.monotonic()))
        if isinstance(chunk, Exception):
            raise chunk
        if not chunk:
            return
        yield chunk


Fault = Callable[[Exchange], None]


@dataclass
class Rule:
    """Which requests a fault hits: method and path?query by regular expressions, all after the first `skip` that
    match, at most `times` of them. chance: of being hit at all, by the proxy's seeded dice."""

    fault: Fault
    method: str = ""
    path: str = ""
    skip: int = 0
    times: int | None = None
    chance: float = 1.0
    hits: list[Request] = field(default_factory=list)
    hit_event: threading.Event = field(default_factory=threading.Event)

    def matches(self, request: Request) -> bool:
        address = f"{request.path}?{request.query}"
        return bool(re.fullmatch(self.method or ".*", request.method) and re.search(self.path, address))

    def wait(self, timeout: float) -> bool:
        """Wait for the first hit; whether it came."""
        return self.hit_event.wait(timeout)


@dataclass
class _Stream:
    connection: socket.socket
    request: Request
    frozen: bool = False


class FaultProxy:
    """`with FaultProxy(kubeconfig, folder) as proxy:` serves until its end; the reconciler uses `proxy.kubeconfig`."""

    def __init__(self, upstream: Path, folder: Path, *, roll: Callable[[], float] = lambda: 0.0) -> None:
        config = json.loads(upstream.read_text())
        address = urlsplit(config["clusters"][0]["cluster"]["server"])
        assert address.hostname
        assert address.port
        self.upstream_address = address.hostname, address.port
        self.upstream_token = config["users"][0]["user"]["token"]
        self.tls = ssl.create_default_context(cafile=config["clusters"][0]["cluster"]["certificate-authority"])
        folder.mkdir(parents=True, exist_ok=True)
        self.kubeconfig = folder / "proxied.kubeconfig"
        self.log: list[Request] = []
        self.is_partitioned = False
        self.roll = roll
        self._rules: list[Rule] = []
        self._streams: list[_Stream] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._healed = threading.Event()
        self._healed.set()
        self._token = ""
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="fault proxy", daemon=True).start()
        self.rotate_token()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._ended.set()
        self._healed.set()
        self.cut_streams()
        self._server.shutdown()
        self._server.server_close()

    # --- rules

    def add_rule(self, rule: Rule) -> Rule:
        """From now on; the first rule that matches and is not used up wins."""
        with self._lock:
            self._rules.append(rule)
        return rule

    def remove_rule(self, rule: Rule) -> None:
        with self._lock:
            self._rules.remove(rule)

    @contextlib.contextmanager
    def rule(self, rule: Rule) -> Iterator[Rule]:
        """The rule for the length of a block."""
        self.add_rule(rule)
        try:
            yield rule
        finally:
            self.remove_rule(rule)

    def fault_of(self, request: Request) -> Fault | None:
        """The fault that hits the request; it is counted."""
        with self._lock:
            for rule in self._rules:
                if not rule.matches(request):
                    continue
                if rule.skip > 0:
                    rule.skip -= 1
                    continue
                if (rule.times is not None and len(rule.hits) >= rule.times) or self.roll() >= rule.chance:
                    continue
                rule.hits.append(request)
                rule.hit_event.set()
                request.fault = getattr(rule.fault, "__name__", type(rule.fault).__name__)
                return rule.fault
        return None

    # --- streams and the network

    @contextlib.contextmanager
    def stream(self, connection: socket.socket, request: Request) -> Iterator[_Stream]:
        stream = _Stream(connection, request)
        with self._lock:
            self._streams.append(stream)
        try:
            yield stream
        finally:
            with self._lock:
                self._streams.remove(stream)

    def freeze_watches(self, path: str = "") -> int:
        """Make the watches that run now half-open: they stay open, and nothing comes any more; how many."""
        with self._lock:
            found = [stream for stream in self._streams if re.search(path, stream.request.path)]
            for stream in found:
                stream.frozen = True
        return len(found)

    def cut_streams(self, path: str = "") -> None:
        """Close the watches that run now."""
        with self._lock:
            for stream in self._streams:
                if re.search(path, stream.request.path):
                    with contextlib.suppress(OSError):
                        stream.connection.shutdown(socket.SHUT_RDWR)

    def wait_for_end(self, connection: socket.socket) -> None:
        """Return when the reconciler closes the connection, or the proxy ends."""
        connection.settimeout(0.5)
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                try:
                    if not connection.recv(1 << 10):
                        return
                except ConnectionError:
                    return

    @contextlib.contextmanager
    def partition(self) -> Iterator[None]:
        """Nothing gets through either way: requests hang, watches are silent. Afterwards all old connections break."""
        self._healed.clear()
        self.is_partitioned = True
        self.freeze_watches()
        try:
            yield
        finally:
            self.is_partitioned = False
            self._healed.set()
            self.cut_streams()

    def wait_healed(self) -> None:
        self._healed.wait()

    # --- credentials

    def rotate_token(self, empty_for: float = 0.0) -> None:
        """A new token; the old one is refused from now on. The file is empty for a moment first, as it is with careless
        writers."""
        token = secrets.token_hex(8)
        if empty_for:
            self.kubeconfig.write_text("")
        self._token = token
        self.cut_streams()
        time.sleep(empty_for)
        assert self._server is not None
        self.kubeconfig.write_text(kubeconfig_text(self._server.server_address[1], token))

    def accepts(self, authorization: str) -> bool:
        return authorization == f"Bearer {self._token}"

    # --- the log

    def writes(self, method: str = "", path: str = "", since: float = 0.0) -> list[Request]:
        """The writes that the API server has done."""
        rule = Rule(_relay, method, path)
        recent = [request for request in list(self.log) if request.at >= since]  # of a log that only grows
        return [request for request in recent if request.is_committed and rule.matches(request)]

    def log_text(self, last: int = 60) -> str:
        return "\n".join(map(str, self.log[-last:]))


def _relay(exchange: Exchange) -> None:
    exchange.relay()


def kubeconfig_text(port: int, token: str) -> str:
    """A kubeconfig (JSON is YAML) for the proxy."""
    cluster = {"name": "test", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    user = {"name": "gangplan", "user": {"token": token}}
    context = {"name": "test", "context": {"cluster": "test", "user": "gangplan", "namespace": "default"}}
    parts = {"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "test"}
    return json.dumps({"apiVersion": "v1", "kind": "Config", **parts})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    proxy: FaultProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reconciler that is killed breaks its connections; that is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    _upstream: http.client.HTTPSConnection | None = None
    _response: http.client.HTTPResponse | None = None

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815  - the names are http.server's

    def log_message(self, format: str, *args: Any) -> None:
        """The proxy keeps its own log."""

    def finish(self) -> None:
        try:
            if self._response is not None:  # else the socket of one that is cut stays open
                self._response.close()
        finally:
            if self._upstream is not None:
                self._upstream.close()
            with contextlib.suppress(OSError):
                super().finish()

    def ask_upstream(self, request: Request, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        address = f"{request.path}?{request.query}" if request.query else request.path
        for attempt in (1, 2):
            fresh = self._upstream is None
            if self._upstream is None:
                host, port = self.server.proxy.upstream_address
                self._upstream = http.client.HTTPSConnection(host, port, context=self.server.proxy.tls, timeout=600)
            try:
                self._upstream.request(request.method, address, request.body or None, dict(headers))
                self._response = self._upstream.getresponse()
            except (OSError, http.client.HTTPException):
                self._upstream.close()
                self._upstream = None
                # An idle connection that the server has closed meanwhile; nothing has been done on it.
                if fresh or attempt == 2:
                    raise
            else:
                return self._response
        raise AssertionError

    def _serve(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        request = Request(time.monotonic(), self.command, parts.path, parts.query, body, dict(self.headers.items()))
        proxy.log.append(request)
        exchange = Exchange(proxy, self, request)
        try:
            if proxy.is_partitioned:
                proxy.wait_healed()
                raise CutError  # noqa: TRY301  - what was on the wire is lost
            if not proxy.accepts(self.headers.get("Authorization", "")):
                exchange.reply_error(401, "Unauthorized")
                return
            fault = proxy.fault_of(request) or _relay
            fault(exchange)
        except (CutError, OSError):
            self.close_connection = True
