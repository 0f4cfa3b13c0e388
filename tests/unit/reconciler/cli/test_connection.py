"""What stands between a command and its cluster is said in one line, and never takes for ever."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import reconciler.cli  # noqa: F401 - adds the commands
from compiler.cli.root import cli
from reconciler.cli.connection import reported_cluster
from tests.builders.fake_cluster import FakeCluster
from tests.builders.kubeconfigs import TOKEN, write_kubeconfig
from tests.builders.writing import thing

COMMANDS = {
    "reconcile": ("reconcile", "--repo", "https://git.invalid/x", "--cluster", "demo", "--once"),
    "snapshot": ("snapshot",),
    "status": ("status", "--cluster", "demo"),
    "suspend": ("suspend", "default/train", "--cluster", "demo"),
    "resume": ("resume", "all", "--cluster", "demo"),
    "rerun": ("rerun", "default/train", "--cluster", "demo"),
}


@pytest.fixture(params=sorted(COMMANDS))
def command(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    arguments = COMMANDS[request.param]
    return (*arguments, "--data", str(tmp_path / "data")) if request.param == "reconcile" else arguments


@pytest.fixture(autouse=True)
def _no_cluster_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def kubeconfig(folder: Path, port: int, user: dict[str, Any] | None = None) -> str:
    return str(write_kubeconfig(folder, f"http://127.0.0.1:{port}", user))


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 1
    assert done.output.count("\n") == 1, done.output
    assert done.output.startswith("Error: ")
    assert isinstance(done.exception, SystemExit), "a clean end"
    assert TOKEN not in done.output
    return done


def test_what_is_wrong_with_a_kubeconfig_is_one_line(command: tuple[str, ...], tmp_path: Path) -> None:
    """Of one that is not there it was click's usage of the command, three lines above the error."""
    assert "no kubeconfig was found: give --kubeconfig" in run(*command).output
    for path in (tmp_path / "nothing", tmp_path):
        assert f"kubeconfig {path}: no such file" in run(*command, "--kubeconfig", str(path)).output
    path = tmp_path / "kubeconfig"
    for text in ("", "a: [", "{}", "just text", '{"contexts": 3}'):
        path.write_text(text)
        assert f"the kubeconfig {path} cannot be used" in run(*command, "--kubeconfig", str(path)).output
    good = kubeconfig(tmp_path, 1)
    output = run(*command, "--kubeconfig", good, "--context", "elsewhere").output
    assert f'context "elsewhere" does not exist in {good}' in output


def test_a_server_that_is_not_there(command: tuple[str, ...], tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    output = run(*command, "--kubeconfig", kubeconfig(tmp_path, port)).output
    assert f"the connection to the server 127.0.0.1:{port} was refused - did you specify the right host" in output


def test_a_server_without_an_address(tmp_path: Path) -> None:
    path = str(write_kubeconfig(tmp_path, "http://server.invalid:6443", None))
    output = run(*COMMANDS["status"], "--kubeconfig", path).output
    assert "unable to connect to the server server.invalid:6443: no such host" in output


@pytest.mark.parametrize(
    ("reported", "said"),
    [
        ((), "no reconciler has reported in namespace"),
        (("a-status", "b-status"), "several clusters have reports: a, b"),
        (("prod-status", "prod-requests"), ""),
    ],
)
def test_a_cluster_is_named_where_there_is_not_just_one(reported: tuple[str, ...], said: str) -> None:
    client = FakeCluster().client()
    for name in reported:
        client.create(thing("ConfigMap", f"gangplan-{name}", namespace="gangplan-system"))
    with pytest.raises(click.ClickException, match=said) if said else nullcontext():
        assert reported_cluster(client, "gangplan-system") == "prod"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that takes connections and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"reconcile"}))
def test_a_server_that_says_nothing(name: str, silent_port: int, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, silent_port)
    output = run(*COMMANDS[name], "--kubeconfig", path, "--timeout", "0.2").output
    assert "did not end within 0.2 s (--timeout)" in output


def test_the_start_of_the_reconciler_obeys_its_time_limit(silent_port: int, tmp_path: Path) -> None:
    """One request may take 15 s, a credential plugin 30."""
    path = kubeconfig(tmp_path, silent_port)
    began_at = time.monotonic()
    arguments = (*COMMANDS["reconcile"], "--data", str(tmp_path / "data"), "--kubeconfig", path, "--timeout", "1")
    assert "unable to reach the server: no answer within 1 s (--timeout)" in run(*arguments).output
    assert time.monotonic() - began_at < 14


def test_a_time_limit_is_no_failure_of_what_it_interrupts(silent_port: int, tmp_path: Path) -> None:
    """It was said to be one of the credentials, where a plugin hangs."""
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["3179"]}
    path = kubeconfig(tmp_path, silent_port, {"exec": plugin})
    output = run(*COMMANDS["status"], "--kubeconfig", path, "--timeout", "2").output
    assert output == "Error: the command did not end within 2 s (--timeout)\n"
