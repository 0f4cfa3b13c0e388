"""`gangplan reconcile` says everything as JSON, from its options on, and says a thing once."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.builders.git_servers import Certificates

ROOT = Path(__file__).resolve().parents[4]


def lines_of(*arguments: str | Path, code: int) -> list[dict[str, Any]]:
    """What `gangplan reconcile` says before it ends with this exit code."""
    command = [sys.executable, "-m", "reconciler", "reconcile", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    return lines


class _StartingServer(BaseHTTPRequestHandler):
    """An API server that is not ready yet. Each answer ends its connection."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """Address and requests of an API server whose certificate nobody knows."""
    certificates = Certificates(tmp_path / "certificates")
    certificates.make()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.folder / "server.crt", certificates.folder / "server.key")
    asked: list[str] = []
    handler = type("Handler", (_StartingServer,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as started:
        started.socket = context.wrap_socket(started.socket, server_side=True)
        threading.Thread(target=started.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{started.server_port}", asked
        started.shutdown()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_certificate_that_is_not_checked_is_told_once(server: tuple[str, list[str]], tmp_path: Path) -> None:
    """urllib3 warned of each request in two lines that were no JSON."""
    address, asked = server
    config = {
        "clusters": [{"name": "c", "cluster": {"server": address, "insecure-skip-tls-verify": True}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    where = ("--repo", tmp_path, "--cluster", "c", "--data", tmp_path / "data", "--kubeconfig", tmp_path / "config")
    told, last = lines_of(*where, "--timeout", "4", code=1)
    assert len(asked) > 4
    assert told["level"] == "warning"
    assert (
        told["message"] == f"the certificate of {address} is not checked: the kubeconfig says insecure-skip-tls-verify"
    )
    assert (last["level"], "503" in last["message"]) == ("error", True)


def test_a_configuration_that_is_wrong_is_told_as_json(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("repo: r\npol: 5\n")
    (line,) = lines_of("--config", tmp_path / "config.yaml", code=1)
    assert (line["level"], line["message"]) == ("error", f"{tmp_path}/config.yaml:2: pol: there is no such option")


def test_options_that_are_wrong_are_told_as_json() -> None:
    lines = lines_of("--repo", "r", code=1)
    assert (lines[-1]["level"], lines[-1]["message"]) == ("error", "Missing option '--cluster'.")


def test_help_is_for_people() -> None:
    command = [sys.executable, "-m", "reconciler", "reconcile", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith("Usage: ")
    assert done.stderr == ""
