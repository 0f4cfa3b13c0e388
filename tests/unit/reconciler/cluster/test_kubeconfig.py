"""Credential plugins of a kubeconfig: what fails or hangs is told, and nothing is asked without credentials."""

from __future__ import annotations

import base64
import json
import sys
import time
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import Configuration
from kubernetes.config import ConfigException

from reconciler.cluster.client import ApiError, Client
from reconciler.cluster.kubeconfig import load_kubeconfig
from reconciler.cluster.transport import Connector
from reconciler.timings import TIMINGS, ClientTimings
from tests.builders.kubeconfigs import write_kubeconfig
from tests.builders.processes import ends

VERSION = "client.authentication.k8s.io/v1"


def write_config(folder: Path, script: str, **plugin: Any) -> Path:
    """A kubeconfig whose credentials come from a Python script beside it."""
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
