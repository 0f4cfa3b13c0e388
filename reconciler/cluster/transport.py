"""The connection to an API server: urllib3 with the configuration of the kubernetes package."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import urllib3

from reconciler.cluster.client import Response, Transport, short_error

CHUNK_BYTES = 1 << 16
CONNECTIONS = 32


class TransportError(OSError):
    """urllib3's errors, as the OSError that `Transport` promises."""


class PooledResponse:
    """An answer that is read as a whole or line by line."""

    def __init__(self, raw: Any) -> None:
        self.raw, self.status, self.headers = raw, int(raw.status), raw.headers

    def read(self) -> bytes:
        try:
            return bytes(self.raw.read())
        except urllib3.exceptions.HTTPError as error:
            raise TransportError(short_error(error)) from error

    def lines(self) -> Iterator[bytes]:
        rest = b""
        try:
            for chunk in self.raw.stream(CHUNK_BYTES, decode_content=True):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from whole
        except urllib3.exceptions.HTTPError as error:
            raise TransportError(short_error(error)) from error

    def close(self) -> None:
        self.raw.release_conn()
        self.raw.close()


class PooledTransport:
    """A connection pool with the credentials of an `ApiClient` of the kubernetes package."""

    def __init__(self, api: Any) -> None:
        self.api, self.pool = api, api.rest_client.pool_manager

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, timeout: tuple[float, float]
    ) -> Response:
        all_headers = dict(headers)
        self.api.update_params_for_auth(all_headers, [], ["BearerToken"], path, method, body)
        address = self.api.configuration.host.rstrip("/") + path
        limits = urllib3.Timeout(connect=timeout[0], read=timeout[1])
        options = {"headers": all_headers, "body": body, "timeout": limits, "preload_content": False, "redirect": False}
        try:
            return PooledResponse(self.pool.request(method, address, **options))
        except urllib3.exceptions.HTTPError as error:
            raise TransportError(short_error(error)) from error


def make_connector(kubeconfig: Path | None = None, context: str | None = None) -> Callable[[], Transport]:
    """What connects by a kubeconfig, or by the service account inside a cluster. The kubernetes package is imported on
    first use (0.4 s)."""

    def connect() -> Transport:
        from kubernetes import client, config

        settings = client.Configuration()
        if kubeconfig is None and "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig) if kubeconfig else None,
                context=context,
                client_configuration=settings,
                persist_config=False,
            )
        settings.connection_pool_maxsize = CONNECTIONS
        settings.retries = False
        return PooledTransport(client.ApiClient(settings))

    return connect
