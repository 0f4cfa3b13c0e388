"""`gangplan reconcile` says everything as JSON, from its options on, and says a thing once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.api_servers import ApiHandler, Seen, serving
from tests.builders.git_servers import Certificates
from tests.builders.kubeconfigs import write_kubeconfig

ROOT = Path(__file__).resolve().parents[4]


def lines_of(*arguments: str | Path, code: int) -> list[dict[str, Any]]:
    """What `gangplan reconcile` says before it ends with this exit code."""
    command = [sys.executable, "-m", "reconciler", "reconcile", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    return lines


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_certificate_that_is_not_checked_is_told_once(tmp_path: Path) -> None:
    """urllib3 warned of each request in two lines that were no JSON."""
    certificates, seen = Certificates(tmp_path / "certificates"), Seen()
    certificates.make()
    with serving(ApiHandler, certificates, seen=seen, status=503) as port:
        address = f"https://127.0.0.1:{port}"
        insecure: Any = {"insecure-skip-tls-verify": True}
        kubeconfig = write_kubeconfig(tmp_path, address, **insecure)
        where = ("--repo", tmp_path, "--cluster", "c", "--data", tmp_path / "data", "--kubeconfig", kubeconfig)
        told, last = lines_of(*where, "--timeout", "4", code=1)
    assert len(seen.asked) > 4
    message = f"the certificate of {address} is not checked: the kubeconfig says insecure-skip-tls-verify"
    assert (told["level"], told["message"]) == ("warning", message)
    assert (last["level"], "503" in last["message"]) == ("error", True)


def test_a_configuration_and_options_that_are_wrong_are_told_as_json(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("repo: r\npol: 5\n")
    (line,) = lines_of("--config", tmp_path / "config.yaml", code=1)
    assert (line["level"], line["message"]) == ("error", f"{tmp_path}/config.yaml:2: pol: there is no such option")
    line = lines_of("--repo", "r", code=1)[-1]
    assert (line["level"], line["message"]) == ("error", "Missing option '--cluster'.")


def test_help_is_for_people() -> None:
    command = [sys.executable, "-m", "reconciler", "reconcile", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith("Usage: ")
    assert done.stderr == ""
