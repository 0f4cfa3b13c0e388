"""The connection to an API server: urllib3 with the configuration of the kubernetes package."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from reconciler.cluster.client import Limits, Response, Transport, short_error
from reconciler.cluster.timelimit import TimeLimiter, note_socket

log = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 16
CONNECTIONS = 32
MAX_ANSWER_BYTES = 256 << 20
"""Of one answer; a page of 500 pods has about 10 MB."""
LATE = "the request took longer than it may"
MAX_LINE_BYTES = 8 << 20
"""Of one event of a watch; etcd holds objects of up to 1.5 MB."""


class TransportError(OSError):
    """urllib3's errors, as the OSError that `Transport` promises."""


class LimitPassedError(TransportError, TimeoutError):
    """A time limit was passed."""


class _LimitedConnection(HTTPConnection):
    def getresponse(self) -> Any:
        note_socket(self.sock)
        return super().getresponse()


class _LimitedTLSConnection(HTTPSConnection):
    def getresponse(self) -> Any:
        note_socket(self.sock)
        return super().getresponse()


class _LimitedPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _LimitedConnection


class _LimitedTLSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _LimitedTLSConnection


class PooledResponse:
    """An answer that is read as a whole or line by line. `end` is called once, when nothing more is read of it."""

    def __init__(self, raw: Any, silence: float, end: Callable[[], bool]) -> None:
        self.raw, self.status, self.headers = raw, int(raw.status), raw.headers
        self._silence, self._end = silence, end

    def read(self) -> bytes:
        chunks: list[bytes] = []
        size = 0
        for chunk in self._chunks():
            chunks.append(chunk)
            if (size := size + len(chunk)) > MAX_ANSWER_BYTES:
                self._end()
                raise TransportError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        return b"".join(chunks)

    def lines(self) -> Iterator[bytes]:
        """Whole lines. Raises LimitPassedError when none that says anything has come for the time of a read: a line
        that comes byte by byte, and empty lines, are silence too."""
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
        try:
            yield from self.raw.stream(CHUNK_BYTES, decode_content=True)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise transport_error(error, self._end()) from error
        if self._end():  # what was shut may look like an ordinary end
            raise LimitPassedError(LATE)

    def close(self) -> None:
        self._end()
        self.raw.release_conn()
        self.raw.close()


def transport_error(error: BaseException, is_late: bool) -> TransportError:
    """is_late: whether the total time of the request was passed, which shows as a connection that was closed."""
    if is_late:
        return LimitPassedError(LATE)
    is_refused = isinstance(error, urllib3.exceptions.NewConnectionError)  # a timeout in urllib3's classes
    is_timeout = isinstance(error, (urllib3.exceptions.TimeoutError, TimeoutError))
    return LimitPassedError(short_error(error)) if is_timeout and not is_refused else TransportError(short_error(error))


class PooledTransport:
    """A connection pool with the credentials of an `ApiClient` of the kubernetes package. limiter: its thread lasts as
    long as the process, so it is not the transport's own: each 401 makes another transport."""

    def __init__(self, api: Any, limiter: TimeLimiter) -> None:
        self.api, self.pool = api, api.rest_client.pool_manager
        self.pool.pool_classes_by_scheme = {"http": _LimitedPool, "https": _LimitedTLSPool}
        self._limiter = limiter

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, limits: Limits) -> Response:
        all_headers = dict(headers)
        try:
            self.api.update_params_for_auth(all_headers, [], ["BearerToken"], path, method, body)
        except Exception as error:  # the package reads the token's file, which may be half written, with any exception
            raise TransportError(f"the credentials cannot be read: {short_error(error)}") from error
        address = self.api.configuration.host.rstrip("/") + path
        timeout = urllib3.Timeout(connect=limits.connect, read=limits.read)
        options = {
            "headers": all_headers,
            "body": body,
            "timeout": timeout,
            "preload_content": False,
            "redirect": False,
        }
        try:
            end = self._limiter.begin(limits.total)
        except RuntimeError as error:
            raise TransportError(f"no request is sent without a time limit: {short_error(error)}") from error
        try:
            return PooledResponse(self.pool.request(method, address, **options), limits.read, end)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            translated = transport_error(error, end())
            if isinstance(translated, LimitPassedError):
                self.pool.clear()  # the idle connections may lead nowhere as well
            raise translated from error
        except BaseException:
            end()
            raise


@cache
def _tell_unverified(server: str) -> None:
    """Once for each server: the process connects anew every now and then."""
    log.warning("the certificate of %s is not checked: the kubeconfig says insecure-skip-tls-verify", server)


@dataclass(frozen=True, slots=True)
class Connector:
    """Connects by a kubeconfig, or by the service account inside a cluster. limiter: of all its connections."""

    kubeconfig: Path | None = None
    context: str | None = None
    limiter: TimeLimiter = field(default_factory=TimeLimiter)

    def __call__(self) -> Transport:
        """The kubernetes package is imported on first use (0.4 s)."""
        from kubernetes import client, config

        from reconciler.cluster.kubeconfig import load_kubeconfig

        settings = client.Configuration()
        if self.kubeconfig is None and "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            load_kubeconfig(self.kubeconfig, self.context, settings)
        if not settings.verify_ssl:
            _tell_unverified(settings.host)
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # two lines for each request
        settings.connection_pool_maxsize = CONNECTIONS
        settings.retries = False
        return PooledTransport(client.ApiClient(settings), self.limiter)
