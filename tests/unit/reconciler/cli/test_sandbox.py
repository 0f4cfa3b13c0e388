"""`gangplan sandbox` starts one sandbox at a time, ends its own processes and no others, and leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click import ClickException
from click.testing import CliRunner, Result

from compiler.reading import read_specs
from compiler.repository.tree import Repository
from reconciler.cli import state_folder
from reconciler.cli.sandbox import (
    FOLDER,
    Sandbox,
    end_sandbox,
    running_sandbox,
    sandbox,
    start_sandbox,
    start_time,
    write_sandbox,
)
from reconciler.settings import lock_data_folder
from tests.builders.processes import ends, is_alive
from tests.controlplane.plane import ControlPlane
from tests.controlplane.sandbox import Machines, Source
from tests.e2e.stories.story import CLUSTER, GitRepository, node_pool

ROOT = Path(__file__).resolve().parents[4]
SLEEP = "import time; time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
KEEPER = """
import os, sys
from pathlib import Path
from reconciler.cli.sandbox import Sandbox, start_time, write_sandbox
folder, repo, port, *_ = sys.argv[1:]
Path(folder).mkdir(parents=True)
print("building", flush=True)
pid = os.getpid()
write_sandbox(Path(folder), Sandbox(pid, start_time(pid), repo, "/k", f"http://127.0.0.1:{port}/report", "/bin"))
print("ready", flush=True)
sys.exit(sys.stdin.readline() != "stay\\n" or sys.stdin.read())
"""
"""A keeper that only reports, and then waits for as long as its caller lives."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return state_folder(FOLDER)


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own."""
    command = [sys.executable, "-c", getattr(request, "param", SLEEP)]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE) as child:
        yield child
        child.kill()


def call(*arguments: str) -> Result:
    return CliRunner().invoke(sandbox, [*arguments])


def sandbox_of(pid: int, repo: str = "/repo") -> Sandbox:
    return Sandbox(pid, start_time(pid), repo, "/k", "http://127.0.0.1:1/report", "/bin")


def put(folder: Path, found: Sandbox) -> None:
    folder.mkdir(parents=True)
    write_sandbox(folder, found)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": "x"}', '{"pid": 1, "started": "", "repo": "/"}'])
def test_a_state_that_cannot_be_read_is_no_sandbox(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(text)
    assert running_sandbox(folder) is None
    assert "no sandbox runs" in call("down").output
    assert not folder.exists()


def test_down_ends_the_keeper_and_leaves_nothing(folder: Path, process: subprocess.Popen[bytes]) -> None:
    put(folder, sandbox_of(process.pid))
    assert running_sandbox(folder) == sandbox_of(process.pid)
    assert "the sandbox has ended" in call("down").output
    assert not is_alive(process.pid)
    assert not folder.exists()


@pytest.mark.parametrize("process", [DEAF], indirect=True)
def test_down_kills_a_keeper_that_does_not_end(folder: Path, process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.stdout.readline()
    put(folder, sandbox_of(process.pid))
    end_sandbox(folder, patience=0.2)
    assert ends(process.pid)


def test_down_leaves_a_process_that_got_the_pid_of_a_dead_keeper(
    folder: Path, process: subprocess.Popen[bytes]
) -> None:
    put(folder, replace(sandbox_of(process.pid), started="1"))
    assert "no sandbox runs" in call("down").output
    assert is_alive(process.pid)
    assert not folder.exists()


def test_down_names_a_keeper_that_its_state_does_not(folder: Path) -> None:
    with lock_data_folder(folder):
        result = call("down")
    assert result.exit_code == 1
    assert "Fix: end the process tests.controlplane.sandbox" in result.output
    assert folder.exists()


def test_up_reports_the_sandbox_that_already_runs(folder: Path, process: subprocess.Popen[bytes]) -> None:
    put(folder, sandbox_of(process.pid, str(ROOT)))
    same, other = call("up", "--repo", str(ROOT)), call("up", "--repo", "/")
    assert same.exit_code == 0
    assert f"the sandbox of {ROOT} already runs" in same.stderr
    assert same.stdout.splitlines() == [
        'export KUBECONFIG=/k PATH="$PATH":/bin',
        "# report: http://127.0.0.1:1/report",
        "# to end it: gangplan sandbox down",
    ]
    assert other.exit_code == 1
    assert f"a sandbox of {ROOT} already runs. Fix: gangplan sandbox down" in other.stderr


def test_up_names_a_port_in_use(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = call("up", "--port", str(port))
    assert result.exit_code == 1
    assert f"port {port} of this machine cannot be used: Address already in use. Fix: --port" in result.stderr
    assert not folder.exists()


def test_a_package_without_the_control_plane_names_what_to_do(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ClickException, match="Fix: run scripts/setup in a clone of gangplan"):
        start_sandbox(folder, ROOT, None, 1, tmp_path)
    assert not folder.exists()


def up_in_a_process(folder: Path, tmp_path: Path, keeper: str) -> subprocess.CompletedProcess[str]:
    """`gangplan sandbox up` with the keeper of another checkout."""
    place = tmp_path / "checkout" / "tests" / "controlplane"
    place.mkdir(parents=True)
    for name, text in (("../__init__.py", ""), ("__init__.py", ""), ("sandbox.py", keeper)):
        (place / name).write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    where = f"Path({str(folder)!r}), Path({str(tmp_path)!r}), None, {port}, Path({str(tmp_path / 'checkout')!r})"
    code = (
        "import click; from pathlib import Path; from reconciler.cli.sandbox import start_sandbox\n"
        f"click.command()(lambda: start_sandbox({where}))()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def test_up_passes_on_the_progress_and_lets_the_keeper_stay(folder: Path, tmp_path: Path) -> None:
    done = up_in_a_process(folder, tmp_path, KEEPER)
    assert (done.returncode, done.stderr) == (0, "building\n")
    assert done.stdout.startswith("export KUBECONFIG=/k ")
    assert "/report\n# to end it: gangplan sandbox down\n" in done.stdout
    pid = json.loads((folder / "state.json").read_text())["pid"]
    assert ends(pid)  # this one reads from the pipe of `up`


def test_up_ends_with_the_error_of_the_keeper(folder: Path, tmp_path: Path) -> None:
    done = up_in_a_process(folder, tmp_path, "print('building'); print('error: no disk; logs are in x')")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "building\nError: no disk; logs are in x\n"


def test_the_keeper_ends_with_an_up_that_does_not_stay(folder: Path) -> None:
    """`up` was killed: the keeper reads the end of its input."""
    code = (
        "import time, tests.controlplane.sandbox as keeper\n"
        "def run(self):\n"
        "    while True: time.sleep(0.1)  # as `_follow`; a wait without an end may begin right after the signal\n"
        "keeper.Keeper.run = run\n"
        f"keeper.main({str(folder)!r}, '/', '1')"
    )
    done = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, cwd=ROOT, check=False)
    assert done.returncode == 0


def test_one_keeper_at_a_time_has_the_folder(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.controlplane.sandbox", str(folder), "/", "1"]
    pipe = subprocess.PIPE
    with lock_data_folder(folder), subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.read().startswith("error: another `gangplan sandbox up` is under way. Fix: ")
    assert keeper.returncode == 1


def test_the_source_follows_the_working_tree_and_leaves_it_alone(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "repo")
    repository.write_file("jobs/a.yaml", "a: 1\n")
    repository.write_file(".gitignore", "*.log\n")
    first = repository.commit()
    repository.write_file("data/large.bin", "x")
    repository.write_file("jobs/run.log", "x")
    repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER)
    before = repository.run_git("status", "--porcelain=v2")
    source = Source(repository.folder, tmp_path / "source.git")
    assert source.commit()
    assert not source.commit()
    repository.write_file("jobs/a.yaml", "a: 2\n")
    assert source.commit()
    shutil.rmtree(repository.folder / "cluster-specs")
    assert source.commit()
    repository.write_file("jobs/a.yaml", "a: 1\n")

    def git(*arguments: str) -> list[str]:
        command = ["git", f"--git-dir={source.folder}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    assert git("ls-tree", "-r", "--name-only", "main~1") == ["cluster-specs/test/cluster.yaml", "jobs/a.yaml"]
    assert git("ls-tree", "-r", "--name-only", "main") == ["jobs/a.yaml"]
    assert git("rev-parse", "main~3") == [first]
    repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER)
    assert repository.run_git("status", "--porcelain=v2") == before


def test_the_source_of_a_folder_without_history_begins_with_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.yaml").write_text("a: 1\n")
    assert Source(tmp_path, tmp_path / "source.git").commit()


class RecordedPlane(ControlPlane):
    """Takes every call and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str, Any]] = []

    def api(self, method: str, path: str, body: Any = None, content_type: str | None = None, *, user: str = "") -> Any:
        self.calls.append((method, path, body))

    def taken(self) -> list[tuple[str, str, Any]]:
        calls, self.calls = self.calls, []
        return calls


def test_nodes_and_namespaces_follow_the_repository() -> None:
    job = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a, namespace: team}\n"
    plane = RecordedPlane()
    machines = Machines(plane)

    def follow(pool: str) -> list[tuple[str, str, Any]]:
        files = {"cluster-specs/test/cluster.yaml": f"{CLUSTER}---\n{pool}", "jobs/a.yaml": job}
        machines.follow(read_specs(Repository.of_files({name: text.encode() for name, text in files.items()})))
        return plane.taken()

    namespace, *created = follow(node_pool("gpu", 2, gpus=4))
    assert namespace == ("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    assert [(method, path, body["metadata"]["name"]) for method, path, body in created] == [
        ("POST", "/api/v1/nodes", "gpu-0"),
        ("POST", "/api/v1/nodes", "gpu-1"),
    ]
    resources = {"cpu": "64000m", "memory": str(512 << 30), "pods": "110", "nvidia.com/gpu": "4"}
    assert created[0][2]["status"] == {"capacity": resources, "allocatable": resources}
    assert follow(node_pool("gpu", 2, gpus=4)) == []
    assert follow(node_pool("gpu", 2, gpus=4) + "  colour: red\n") == []  # an error there
    labelled = node_pool("gpu", 1, gpus=4) + "  labels: {zone: a}\n  taints: [{key: k, effect: NoSchedule}]\n"
    (gone, _, _), (_, where, patch), (_, status, _) = follow(labelled)
    assert (gone, where, status) == ("DELETE", "/api/v1/nodes/gpu-0", "/api/v1/nodes/gpu-0/status")
    assert patch["metadata"]["labels"]["zone"] == "a"
    assert patch["spec"] == {"unschedulable": None, "taints": [{"key": "k", "value": "", "effect": "NoSchedule"}]}
    assert follow(node_pool("gpu", 1, gpus=4))[0][2]["metadata"]["labels"]["zone"] is None
