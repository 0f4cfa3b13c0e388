"""Kubeconfigs, their credential plugins and connections: what fails or hangs is told, and nothing is asked without
credentials."""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import Configuration
from kubernetes.config import ConfigException

from reconciler.cluster.client import ApiError, Client, Retry
from reconciler.cluster.kubeconfig import load_kubeconfig
from reconciler.cluster.transport import Connector
from reconciler.timings import TIMINGS, ClientTimings
from tests.builders.api_servers import ApiHandler, ProxyHandler, Seen, serving
from tests.builders.git_servers import Certificates
from tests.builders.kubeconfigs import TOKEN, write_kubeconfig
from tests.builders.processes import ends
from tests.unit.reconciler.cluster.test_client import PODS

VERSION = "client.authentication.k8s.io/v1"


def write_config(folder: Path, script: str, **plugin: Any) -> Path:
    """A kubeconfig whose credentials come from a Python script next to it."""
    (folder / "plugin.py").write_text(script)
    described = {"apiVersion": VERSION, "command": sys.executable, "args": ["plugin.py"], **plugin}
    ours = [{"name": f"{VERSION[:-3]}/exec", "extension": "ours"}]
    return write_kubeconfig(folder, "http://127.0.0.1:1", {"exec": described}, extensions=ours)


def answer(status: Any, version: str = VERSION) -> str:
    return f"print({json.dumps({'apiVersion': version, 'kind': 'ExecCredential', 'status': status})!r})"


def load(path: Path, timings: ClientTimings = TIMINGS.client) -> Configuration:
    settings = Configuration()
    load_kubeconfig(path, None, settings, timings)
    return settings


def test_a_token_and_what_the_plugin_is_told(tmp_path: Path) -> None:
    script = (
        "import json, os\n"
        "asked = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "token = os.environ['GIVEN'] + asked['spec']['cluster']['config'] + str(asked['spec']['interactive'])\n"
        "print(json.dumps({'apiVersion': asked['apiVersion'], 'status': {'token': token}}))"
    )
    path = write_config(tmp_path, script, env=[{"name": "GIVEN", "value": "a"}], provideClusterInfo=True)
    assert load(path).api_key["BearerToken"] == "Bearer aoursFalse"


def test_a_token_that_has_expired_is_asked_for_again(tmp_path: Path) -> None:
    script = (
        "import json, pathlib\n"
        "file = pathlib.Path('count'); file.write_text((file.read_text() if file.exists() else '') + 'x')\n"
        "status = {'token': file.read_text(), 'expirationTimestamp': '2020-01-01T00:00:00Z'}\n"
        f"print(json.dumps({{'apiVersion': '{VERSION}', 'status': status}}))"
    )
    settings = load(write_config(tmp_path, script))
    assert settings.get_api_key_with_prefix("BearerToken") == "Bearer xx"


def test_a_good_token_is_used_while_the_plugin_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that hung when the token was to be renewed, five minutes before its end, cost the lease."""
    soon = (datetime.now(UTC) + timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    path = write_config(tmp_path, answer({"token": "good", "expirationTimestamp": soon}))
    settings = load(path, ClientTimings(plugin_refresh=1.0))
    (tmp_path / "plugin.py").write_text("open('asked', 'a').write('x'); import time; time.sleep(600)")
    for _ in range(3):
        assert settings.get_api_key_with_prefix("BearerToken") == "Bearer good"
    assert (tmp_path / "asked").read_text() == "x", "not with each request"
    (tmp_path / "plugin.py").write_text(answer({"token": "new"}))
    monkeypatch.setattr(time, "monotonic", lambda: inf)
    assert settings.get_api_key_with_prefix("BearerToken") == "Bearer new"


def test_a_certificate_with_its_key(tmp_path: Path) -> None:
    status = {"clientCertificateData": "certificate", "clientKeyData": base64.b64encode(b"key").decode()}
    settings: Any = load(write_config(tmp_path, answer(status)))
    assert Path(settings.cert_file).read_text() == "certificate"
    assert Path(settings.key_file).read_text() == status["clientKeyData"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; sys.exit('log in\\nfirst')", "ended with 1: log in first"),
        ("import sys; sys.exit(3)", "ended with 3: without a message"),
        ("print('no json')", "does not answer in JSON"),
        ("print('[]')", "answers with no ExecCredential"),
        (answer({"token": "t"}, "client.authentication.k8s.io/v1beta1"), "answers with no ExecCredential"),
        (answer({"token": ""}), "gives neither a token nor a certificate with key"),
        (answer({"clientCertificateData": "x"}), "gives neither a token nor a certificate with key"),
        (answer(None), "gives neither a token nor a certificate with key"),
    ],
)
def test_a_plugin_that_fails_is_told_and_nothing_is_asked_without_credentials(
    script: str, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The kubernetes package logs a line of its own and goes on as `system:anonymous`, to whom everything is
    forbidden."""
    with pytest.raises(ApiError, match=message) as found:
        Client(Connector(write_config(tmp_path, script))).request("GET", "/version")
    assert "\n" not in str(found.value)
    assert not caplog.records


def test_a_plugin_that_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match="/nothing cannot be run: No such file"):
        load(write_config(tmp_path, "", command="/nothing"))
    path = write_config(tmp_path, "")
    path.write_text(path.read_text().replace(f'"apiVersion": "{VERSION}"', '"version": 1'))
    with pytest.raises(ConfigException, match=r"not described in full: .*apiVersion"):
        load(path)


def test_a_plugin_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """Each request would wait without end, and no pass would come to its own."""
    path = write_config(tmp_path, "", command="sh", args=["-c", "sleep 120 & echo $! >started; wait"])
    began_at = time.monotonic()
    with pytest.raises(ConfigException, match="gave no answer in 2 s"):
        load(path, ClientTimings(plugin=2.0))
    assert time.monotonic() - began_at < 60
    assert ends(int((tmp_path / "started").read_text()))


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


@pytest.mark.parametrize("has_proxy", [False, True])
def test_tls_with_a_certificate_of_our_own_also_through_a_proxy(tmp_path: Path, seen: Seen, *, has_proxy: bool) -> None:
    """The proxy sees the server's name and not the token."""
    certificates = Certificates(tmp_path / "certificates")
    certificates.make()
    lines: list[tuple[str, str | None]] = []
    with serving(ApiHandler, certificates, seen=seen) as port, serving(ProxyHandler, lines=lines) as proxy_port:
        authority = {"certificate-authority": str(certificates.folder / "ca.crt")}
        proxy = {"proxy-url": f"http://127.0.0.1:{proxy_port}"} if has_proxy else {}
        client = connected(tmp_path, f"https://127.0.0.1:{port}", **authority, **proxy)
        for _ in range(3):
            assert client.request("GET", "/good") == {"kind": "Pod"}
        assert (seen.tokens, seen.connections) == ([f"Bearer {TOKEN}"] * 3, 1)
        assert lines == ([(f"CONNECT 127.0.0.1:{port}", None)] if has_proxy else [])
        with pytest.raises(Retry, match="CERTIFICATE_VERIFY_FAILED"):
            connected(tmp_path, f"https://127.0.0.1:{port}", **proxy).request("GET", "/good")
