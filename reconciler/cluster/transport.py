"""The connection to an API server: connections of urllib3 with the configuration of the kubernetes package, and the
requests of http.client on them (docs/develop/decisions/0015-kubernetes-client.md)."""

from __future__ import annotations

import io
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import urllib3

from reconciler.cluster.client import Response, Transport, short_error
from reconciler.timings import TIMINGS, ClientTimings, Limits

log = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 16
CONNECTIONS = 32
MAX_ANSWER_BYTES = 256 << 20
"""Limit for one answer; a page of 500 pods has about 10 MB."""
LATE = "the request took longer than it may"
MAX_LINE_BYTES = 8 << 20
"""Limit for one event of a watch; etcd stores objects of up to 1.5 MB."""
_WIRE_ERRORS = (urllib3.exceptions.HTTPError, HTTPException, OSError)


class TransportError(OSError):
    """The errors of urllib3 and http.client, as the OSError that `Transport` promises."""


class LimitPassedError(TransportError, TimeoutError):
    """A time limit was passed."""


class _TimedReader(io.RawIOBase):
    """The bytes of an answer. Each read is limited by its own time and by the rest of the whole request's. A socket's
    own limit is for each byte, so a server that drips bytes would hold a thread for ever."""

    def __init__(self, raw: io.RawIOBase, connection: Any, seconds: float, end_at: float) -> None:
        self._raw, self._connection, self._seconds, self._end_at = raw, connection, seconds, end_at

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        try:
            left = max(self._end_at - time.monotonic(), 0.001)
            self._connection.settimeout(min(self._seconds, left))
            return self._raw.readinto(buffer)
        except TimeoutError as error:
            raise TimeoutError(LATE if time.monotonic() >= self._end_at else str(error)) from error

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(HTTPResponse):
    def __init__(self, sock: Any, seconds: float, end_at: float, **options: Any) -> None:
        super().__init__(sock, **options)
        self.fp: Any = io.BufferedReader(_TimedReader(self.fp.detach(), sock, seconds, end_at))


class _Connection(urllib3.connection.HTTPConnection):
    def limit_connecting(self, seconds: float) -> None:
        """Until it is connected, be so patient for each step."""
        self.timeout = seconds


class _TLSConnection(_Connection, urllib3.connection.HTTPSConnection):
    pass


class _Pool(urllib3.HTTPConnectionPool):
    """Connections of urllib3, TLS and proxies included, with requests of http.client: urllib3's own layers are slow."""

    ConnectionCls = _Connection

    def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, limits: Limits
    ) -> tuple[Any, HTTPResponse]:
        """Return a connection, and the answer that is still to be read from it."""
        connection: Any = self._get_conn()
        connection.response_class = partial(_Answer, seconds=limits.read, end_at=time.monotonic() + limits.total)
        try:
            if connection.is_closed:
                connection.limit_connecting(limits.connect)
                self._connect(connection)
            connection.sock.settimeout(limits.read)
            HTTPConnection.request(connection, method, target, body, dict(headers))
            return connection, HTTPConnection.getresponse(connection)
        except BaseException:
            connection.close()
            raise

    def _connect(self, connection: Any) -> None:
        connection.connect()

    def keep(self, connection: Any) -> None:
        """Keep a connection, of which the last answer was read to its end, for the next request."""
        self._put_conn(connection)


class _TLSPool(_Pool, urllib3.HTTPSConnectionPool):
    ConnectionCls = _TLSConnection

    def _connect(self, connection: Any) -> None:
        if self.proxy is None:
            connection.connect()
        else:
            self._prepare_proxy(connection)  # asks it for a tunnel, and connects


class PooledResponse:
    """An answer that is read as a whole or line by line. silence: seconds for a line of it. keep: called with the
    connection where another request may use it."""

    max_bytes = MAX_ANSWER_BYTES

    def __init__(self, connection: Any, raw: HTTPResponse, silence: float, keep: Callable[[Any], None]) -> None:
        self.status: int = raw.status
        self.headers: Any = raw.headers
        self._connection, self._raw = connection, raw
        self._silence, self._keep = silence, keep

    def read(self) -> bytes:
        answer = bytearray()
        for chunk in self._chunks():
            answer += chunk
            if len(answer) > self.max_bytes:
                self.close()
                raise TransportError(f"the answer has more than {self.max_bytes} bytes")
        return bytes(answer)

    def lines(self) -> Iterator[bytes]:
        """Whole lines. Raises LimitPassedError when none but empty ones has arrived for the time of a read."""
        rest = b""
        last_line_at = time.monotonic()
        for chunk in self._chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            if any(whole):
                last_line_at = time.monotonic()
            yield from whole
            if time.monotonic() - last_line_at > self._silence:
                raise LimitPassedError(f"no whole line in {self._silence:g} s")
            if len(rest) > MAX_LINE_BYTES:
                raise TransportError(f"a line has more than {MAX_LINE_BYTES} bytes")

    def _chunks(self) -> Iterator[bytes]:
        raw = self._raw
        read = raw.read1 if raw.chunked else raw.read  # read1 of an answer with a length would wait beyond its end
        try:
            while chunk := read(CHUNK_BYTES):
                yield chunk
            if raw.length:
                raise IncompleteRead(b"", raw.length)
        except _WIRE_ERRORS as error:
            self.close()
            raise transport_error(error) from error

    def close(self) -> None:
        """Give the connection back where the answer was read to its end; else its rest would arrive with the next."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._raw.isclosed() and not self._raw.will_close:
            self._keep(connection)
        else:
            connection.close()
            self._raw.close()


def transport_error(error: BaseException) -> TransportError:
    is_refused = isinstance(error, urllib3.exceptions.NewConnectionError)  # a timeout in urllib3's classes
    is_timeout = isinstance(error, (urllib3.exceptions.TimeoutError, TimeoutError))
    return LimitPassedError(short_error(error)) if is_timeout and not is_refused else TransportError(short_error(error))


class PooledTransport:
    """A connection pool with the credentials of an `ApiClient` of the kubernetes package."""

    def __init__(self, api: Any, timings: ClientTimings = TIMINGS.client) -> None:
        self.api, self._manager, self._timings = api, api.rest_client.pool_manager, timings
        self._manager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}
        host = api.configuration.host.rstrip("/")
        is_forwarded = self._manager.proxy is not None and urlsplit(host).scheme == "http"
        self._prefix = host if is_forwarded else urlsplit(host).path
        self._proxy_headers = dict(self._manager.proxy_headers) if is_forwarded else {}
        self._host, self._pool = host, self._manager.connection_from_url(host)
        self._credentials: tuple[dict[str, str], float] = ({}, -inf)

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, limits: Limits) -> Response:
        all_headers = {**headers, **self._proxy_headers, **self._current_credentials(method, path)}
        pool = self._pool
        try:
            connection, raw = pool.ask(method, self._prefix + path, all_headers, body, limits)
        except _WIRE_ERRORS as error:
            translated = transport_error(error)
            if isinstance(translated, LimitPassedError):
                self._manager.clear()  # the idle ones may lead nowhere as well
                self._pool = self._manager.connection_from_url(self._host)
            raise translated from error
        return PooledResponse(connection, raw, limits.read, pool.keep)

    def _current_credentials(self, method: str, path: str) -> dict[str, str]:
        """Return the authentication header. Raises TransportError."""
        known, good_until = self._credentials
        if time.monotonic() < good_until:
            return known
        made: dict[str, str] = {}
        try:
            self.api.update_params_for_auth(made, [], ["BearerToken"], path, method, None)
        except Exception as error:  # the package reads the token's file, which may be half written, with any exception
            raise TransportError(f"the credentials cannot be read: {short_error(error)}") from error
        self._credentials = made, time.monotonic() + self._timings.credentials
        return made


@cache
def _warn_unverified(server: str) -> None:
    """Once for each server: the process connects again every now and then."""
    log.warning("the certificate of %s is not checked: the kubeconfig says insecure-skip-tls-verify", server)


@dataclass(frozen=True, slots=True)
class Connector:
    """Connects by a kubeconfig, or by the service account inside a cluster."""

    kubeconfig: Path | None = None
    context: str | None = None
    timings: ClientTimings = TIMINGS.client

    def __call__(self) -> Transport:
        """The kubernetes package is imported on first use (0.4 s)."""
        from kubernetes import client, config

        from reconciler.cluster.kubeconfig import load_kubeconfig

        settings = client.Configuration()
        if self.kubeconfig is None and "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            load_kubeconfig(self.kubeconfig, self.context, settings, self.timings)
        if not settings.verify_ssl:
            _warn_unverified(settings.host)
        settings.connection_pool_maxsize = CONNECTIONS
        settings.retries = False
        return PooledTransport(client.ApiClient(settings), self.timings)
