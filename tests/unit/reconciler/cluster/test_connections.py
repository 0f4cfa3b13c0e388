"""Connections to an API server: kept, made anew where one is of no use, and made through a proxy where one is named."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.cluster.client import Client, Retry
from reconciler.cluster.transport import Connector
from reconciler.timings import ClientTimings
from tests.builders.api_servers import ApiHandler, ProxyHandler, Seen, serving
from tests.builders.git_servers import Certificates
from tests.builders.kubeconfigs import TOKEN, write_kubeconfig
from tests.unit.reconciler.cluster.test_client import PODS


@pytest.fixture
def seen() -> Seen:
    return Seen()


def connected(folder: Path, address: str, **cluster: Any) -> Client:
    return Client(Connector(write_kubeconfig(folder, address, **cluster)))


@pytest.fixture
def server(seen: Seen) -> Iterator[str]:
    with serving(ApiHandler, seen=seen) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def client(tmp_path: Path, server: str) -> Client:
    return connected(tmp_path, server)


def test_a_connection_is_kept_after_a_good_answer_and_a_refusal(client: Client, seen: Seen) -> None:
    for _ in range(3):
        assert client.request("GET", "/good") == {"kind": "Pod"}
        with pytest.raises(Exception, match="404"):
            client.request("GET", "/missing")
        kinds = [json.loads(line)["type"] for line in client.watch(PODS, "5", 300)]
        assert kinds == ["ADDED", "DELETED", "BOOKMARK"]
    assert (len(seen.asked), seen.connections) == (9, 1)


def test_a_connection_on_which_an_answer_was_not_read_to_its_end_is_not_used_again(client: Client, seen: Seen) -> None:
    """One that ends too early, which is reported, and a watch that is left in the middle."""
    with pytest.raises(Retry, match="broke off"):
        client.request("GET", "/short")
    lines = client.watch(PODS, "5", 300)
    next(lines)
    lines.close()  # type: ignore[attr-defined]  # a generator
    assert client.request("GET", "/good") == {"kind": "Pod"}
    assert seen.connections == 3


def test_a_connection_that_the_server_has_ended_is_made_anew(client: Client, seen: Seen) -> None:
    for path in ("/last", "/good", "/last", "/good"):
        assert client.request("GET", path) == {"kind": "Pod"}
        if path == "/last":
            threading.Event().wait(0.2)  # the end reaches us
    assert seen.connections == 3


def test_a_path_in_the_servers_address_stands_before_each_path(tmp_path: Path, server: str, seen: Seen) -> None:
    connected(tmp_path, f"{server}/clusters/a/").request("GET", "/good")
    assert seen.asked == ["/clusters/a/good"]


def test_a_token_is_read_again_after_a_moment_not_for_each_request(tmp_path: Path, server: str, seen: Seen) -> None:
    for seconds in (60.0, 0.0):
        client = Client(Connector(write_kubeconfig(tmp_path, server), timings=ClientTimings(credentials=seconds)))
        client.request("GET", "/good")
        connection: Any = client._transport
        connection.api.configuration.refresh_api_key_hook = lambda settings: settings.api_key.update(BearerToken="new")
        client.request("GET", "/good")
    assert seen.tokens == [*[f"Bearer {TOKEN}"] * 3, "new"]


def test_requests_without_tls_are_given_to_a_proxy_with_their_whole_address(tmp_path: Path) -> None:
    lines: list[tuple[str, str | None]] = []
    with serving(ProxyHandler, lines=lines) as port:
        client = connected(tmp_path, "http://api.example", **{"proxy-url": f"http://127.0.0.1:{port}"})
        assert client.request("GET", "/version") == {}
    assert lines == [("GET http://api.example/version", f"Bearer {TOKEN}")]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
@pytest.mark.parametrize("has_proxy", [False, True])
def test_tls_with_a_certificate_of_our_own_also_through_a_proxy(tmp_path: Path, seen: Seen, *, has_proxy: bool) -> None:
    """The proxy sees the server's name and not the token."""
    certificates = Certificates(tmp_path / "certificates")
    certificates.make()
    lines: list[tuple[str, str | None]] = []
    with (
        serving(ApiHandler, certificates, seen=seen) as port,
        serving(ProxyHandler, lines=lines) as proxy_port,
    ):
        authority = {"certificate-authority": str(certificates.folder / "ca.crt")}
        proxy = {"proxy-url": f"http://127.0.0.1:{proxy_port}"} if has_proxy else {}
        client = connected(tmp_path, f"https://127.0.0.1:{port}", **authority, **proxy)
        for _ in range(3):
            assert client.request("GET", "/good") == {"kind": "Pod"}
        assert (seen.tokens, seen.connections) == ([f"Bearer {TOKEN}"] * 3, 1)
        assert lines == ([(f"CONNECT 127.0.0.1:{port}", None)] if has_proxy else [])
        with pytest.raises(Retry, match="CERTIFICATE_VERIFY_FAILED"):
            connected(tmp_path, f"https://127.0.0.1:{port}", **proxy).request("GET", "/good")
