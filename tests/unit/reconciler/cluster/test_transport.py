"""Time limits on the wire, against servers that answer byte by byte or not at all."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import urllib3
from kubernetes.config import ConfigException

from reconciler.cluster.client import Client, Silent, Unauthorized
from reconciler.cluster.transport import Connector, LimitPassedError, PooledResponse, PooledTransport, TransportError
from reconciler.timings import ClientTimings, Limits
from tests.builders.kubeconfigs import write_kubeconfig
from tests.unit.reconciler.cluster.test_client import PODS

HEADERS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SHORT = Limits(60.0, 60.0, 0.5)
"""Seconds; each byte may take longer than the whole."""


Serve = Callable[[socket.socket, threading.Event], None]


def drip(head: bytes, data: bytes) -> Serve:
    """A server that says `head`, then a byte of the data each 50 ms for as long as somebody reads."""

    def serve(connection: socket.socket, ended: threading.Event) -> None:
        connection.sendall(head)
        bytes_of = itertools.cycle(data[at : at + 1] for at in range(len(data)))
        while not ended.wait(0.05):
            connection.sendall(next(bytes_of, b""))

    return serve


DRIPS = {
    "headers": drip(b"HTTP/1.1 200 OK\r\n", b"X-Slow: yes\r\n"),
    "body": drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
    "chunks": drip(HEADERS, b"1\r\nx\r\n"),
    "empty lines": drip(HEADERS, b"1\r\n\n\r\n"),
    "nothing": drip(HEADERS, b""),
}
Start = Callable[[Serve], PooledTransport]


def say(text: bytes) -> Serve:
    return lambda connection, ended: connection.sendall(text)


answer_well = say(b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 15\r\n\r\n{"kind": "Pod"}')
refuse_credentials = say(b"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")


@pytest.fixture
def serve() -> Iterator[Start]:
    """Starts a server that serves each connection so, and gives a transport to it."""
    ended = threading.Event()
    listeners: list[socket.socket] = []

    def start(answer: Serve) -> PooledTransport:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        connection.recv(65536)
                        answer(connection, ended)
                    except OSError:
                        continue

        threading.Thread(target=run, daemon=True).start()
        return made_transport(f"http://127.0.0.1:{listener.getsockname()[1]}")

    yield start
    ended.set()
    for listener in listeners:
        listener.close()


def made_transport(host: str) -> PooledTransport:
    pool = urllib3.PoolManager(retries=False)
    return PooledTransport(
        SimpleNamespace(
            rest_client=SimpleNamespace(pool_manager=pool),
            configuration=SimpleNamespace(host=host),
            update_params_for_auth=lambda *_: None,
        )
    )


def test_credentials_that_are_refused_for_hours_leave_no_threads_behind(serve: Start, tmp_path: Path) -> None:
    """Each 401 makes another transport, and each had a thread for its time limits, which never ended."""
    client = Client(Connector(write_kubeconfig(tmp_path, serve(refuse_credentials).api.configuration.host)))
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(Unauthorized):
            client.request("GET", "/api/v1/pods")
    assert threading.active_count() <= before + 1


@pytest.mark.parametrize("answer", ["headers", "body", "chunks", "nothing"])
def test_a_request_ends_in_its_time_however_slowly_its_bytes_come(serve: Start, answer: str) -> None:
    began = time.monotonic()
    with pytest.raises(LimitPassedError, match="took longer than it may"):
        serve(DRIPS[answer]).send("GET", "/", {}, None, SHORT).read()
    assert time.monotonic() - began < 50, "it ended by the limit of the whole, not by that of a byte"


@pytest.mark.parametrize("answer", ["chunks", "empty lines", "nothing"])
def test_a_watch_on_which_no_event_comes_is_silent_although_bytes_come(serve: Start, answer: str) -> None:
    connected = serve(DRIPS[answer])
    with pytest.raises(Silent, match="nothing came on the watch of pods"):
        list(Client(lambda: connected, ClientTimings(watch_silence=0.4)).watch(PODS, "5", 300))


def test_a_good_answer_is_read_and_its_limit_ends_nothing_later(serve: Start) -> None:
    connected = serve(answer_well)
    for _ in range(3):
        response = connected.send("GET", "/", {}, None, SHORT)
        assert response.read() == b'{"kind": "Pod"}'
        response.close()


def test_an_answer_without_end_is_not_read_to_the_end_of_memory(serve: Start) -> None:
    response = serve(answer_well).send("GET", "/", {}, None, SHORT)
    assert isinstance(response, PooledResponse)
    response.max_bytes = 10
    with pytest.raises(TransportError, match="more than 10 bytes"):
        response.read()


def test_a_token_that_cannot_be_read_is_an_error_of_the_wire() -> None:
    connected = made_transport("http://127.0.0.1:9")

    def refresh(*_: object) -> None:
        raise ConfigException("Token file exists but empty.")

    connected.api.update_params_for_auth = refresh
    with pytest.raises(TransportError, match="Token file exists but empty"):
        connected.send("GET", "/", {}, None, SHORT)
