"""The process of a command: it loads only what it needs, says everything once and in its place, and ends in time."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compiler.volcano.fairshare import STATE_CONFIG_MAP
from reconciler.changes.results import Condition
from reconciler.cli.commands import is_success, state_items
from reconciler.cluster.client import Forbidden
from reconciler.report.status import Report
from tests.builders.api_servers import ApiHandler, Seen, serving
from tests.builders.fake_cluster import FakeCluster
from tests.builders.git_servers import Certificates
from tests.builders.kubeconfigs import write_kubeconfig
from tests.builders.scripted_server import error_answer

ROOT = Path(__file__).resolve().parents[4]
SMALL = ROOT / "tests" / "golden" / "five-gangs" / "repo"
HUNG = """
import threading
from reconciler.cli.commands import end_in_time
from reconciler.timings import LoopTimings
end_in_time(lambda: True, LoopTimings(stop_limit=0.2))
threading.Event().wait()
"""


def test_an_end_that_takes_too_long_is_cut_off() -> None:
    done = subprocess.run([sys.executable, "-c", HUNG], timeout=60, check=False, capture_output=True)
    assert done.returncode == 1
    assert b"did not end within 0.2 s" in done.stderr


def test_a_signal_before_the_start_is_handled_and_ends_it(tmp_path: Path) -> None:
    """The first process of a container is not ended by a signal without a handler: it waited for a server on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        config = str(write_kubeconfig(tmp_path, address))
        options = ["--repo", str(tmp_path), "--cluster", "c", "--data", str(tmp_path / "data")]
        command = [sys.executable, "-m", "reconciler", "reconcile", *options, "--kubeconfig", config]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            server.settimeout(60)
            connection, _ = server.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 128 + signal.SIGTERM
        finally:
            process.kill()
            process.wait()


PRINTING_SOLVER = """
import os
import highspy

class Printing(highspy.Highs):
    def __init__(self):
        os.write(1, b"Running HiGHS\\n")
        open("has-run", "w").close()
        super().__init__()

highspy.Highs = Printing
from reconciler.cli import main
main()
"""


def test_what_a_library_prints_does_not_reach_the_output(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PRINTING_SOLVER, "plan", "--repo", str(SMALL), "-o", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert (tmp_path / "has-run").exists()
    assert json.loads(done.stdout)["kind"] == "Plan"
    assert "Running HiGHS" not in done.stderr


def test_a_closed_output_is_no_error() -> None:
    script = f"exec {sys.executable} -m reconciler plan --repo {SMALL} >&-"
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def lines_of(*arguments: str | Path, code: int) -> list[dict[str, Any]]:
    """What `gangplan reconcile` says before it ends with this exit code."""
    command = [sys.executable, "-m", "reconciler", "reconcile", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    return lines


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


HEAVY = ("git", "kubernetes", "prometheus_client", "urllib3")
LOAD_TREE = "from pathlib import Path; from reconciler.cli import load_tree; load_tree(Path({folder!r}))"
OF_COMPILES = (
    "compiler.explain.catalogue",
    "compiler.outcome",
    "compiler.pipeline",
    "highspy",
    "numpy",
    "solver.problem",
)


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        pytest.param(LOAD_TREE, HEAVY, id="reading a folder"),
        pytest.param("import reconciler.cli.commands", OF_COMPILES, id="reconcile, whose worker compiles"),
        pytest.param(
            "import compiler.cli.check, compiler.cli.reading_cache",
            ("compiler.reading", "pydantic"),
            id="a known check",
        ),
    ],
)
def test_a_process_loads_only_what_it_uses(tmp_path: Path, code: str, unwanted: tuple[str, ...]) -> None:
    script = f"import sys; {code.format(folder=str(tmp_path))}; print([n for n in {unwanted!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_once_succeeds_only_where_the_newest_commit_is_in_force() -> None:
    """A rewritten history that is held ended with 0."""

    def report(*conditions: tuple[str, bool]) -> Report:
        return Report("c0ffee", "c0ffee", tuple(Condition(name, status, "", "") for name, status in conditions))

    good = (("Fetched", True), ("Applied", True), ("HistoryRewritten", False), ("PruneHeld", True))
    assert is_success(report(*good))
    assert not is_success(report(*good, ("Compiled", False)))
    assert not is_success(report(("HistoryRewritten", True)))


def test_a_snapshot_holds_quotas_where_they_may_be_listed() -> None:
    cluster = FakeCluster()
    for kind in ("Pod", "ResourceQuota"):
        item = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "n"}}
        cluster.put(f"/api/v1/namespaces/n/{kind.lower()}s/a", item)

    def kinds(forbidden: str) -> list[str]:
        cluster.before = lambda method, path, body: error_answer(403) if forbidden in path else None
        return [item["kind"] for item in state_items(cluster.client())]

    assert kinds("nothing") == ["Pod", "ResourceQuota"]
    assert kinds("resourcequotas") == ["Pod"]
    with pytest.raises(Forbidden):
        kinds("pods")


def test_a_snapshot_holds_what_namespaces_used_where_it_may_be_read() -> None:
    cluster, (namespace, name) = FakeCluster(), STATE_CONFIG_MAP
    assert [*state_items(cluster.client())] == []
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}
    cluster.put(f"/api/v1/namespaces/{namespace}/configmaps/{name}", item)
    assert [found["kind"] for found in state_items(cluster.client())] == ["ConfigMap"]
    labels = {"app": "volcano-scheduler", "component": "fairshare"}
    elsewhere = {**item, "metadata": {"name": "use", "namespace": "batch", "labels": labels}}
    cluster.put("/api/v1/namespaces/batch/configmaps/use", elsewhere)
    assert [found["metadata"]["name"] for found in state_items(cluster.client())] == [name, "use"]
    cluster.before = lambda method, path, body: error_answer(403) if "configmaps" in path else None
    assert [*state_items(cluster.client())] == []
