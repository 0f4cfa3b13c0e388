"""Shared by the cases: a control plane, a repository, the reconciler as a process notified by webhooks, and rows of
figures."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tests.controlplane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.e2e.stories.story import GitRepository, ReconcilerProcess, install_rights

GPUS = 8
WAIT = 1800.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the worlds; None: as large as the bar of the case requires. busy: processes next to them that only
    compute."""

    gangs: int | None = None
    pods: int = 8
    objects: int = 10_000
    nodes: int = 10_000
    busy: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. bar: at most this, None where it only informs."""

    case: str
    what: str
    value: float
    unit: str = "s"
    bar: float | None = None

    @property
    def is_missed(self) -> bool:
        return self.bar is not None and self.value > self.bar

    def cells(self) -> list[str]:
        bar = "" if self.bar is None else f"<= {self.bar:g} {self.unit} {'MISSED' if self.is_missed else 'held'}"
        return [self.case, self.what, f"{self.value:.2f} {self.unit}", bar]


@dataclass(frozen=True, slots=True)
class Bed:
    """A control plane with the rights of deploy/, and a folder for files."""

    plane: ControlPlane
    folder: Path

    def add_gpu_nodes(self, count: int) -> None:
        """Make so many nodes; looks rarely whether they are ready, since a list of ten thousand takes a second."""
        capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
        self.plane.add_nodes([f"gpu-{at}" for at in range(count)], capacity=capacity, wait=False)

        def unready() -> int:
            time.sleep(0.3 + count / 1000)
            return sum(
                bool(node["spec"].get("taints")) or not any(map(_is_ready, node["status"].get("conditions", ())))
                for node in self.plane.api("GET", "/api/v1/nodes")["items"]
            )

        self.plane.wait_until(unready, lambda seen: not seen, timeout=WAIT, what=f"readiness of {count} nodes")

    def renew_leases_rarely(self) -> None:
        """Let the nodes' leases be good for half a day, also in the eyes of the node controller: ten thousand that are
        renewed every few seconds are more than this machine can write."""
        self._change_options("kwok", {"--node-lease-duration-seconds": "40000"})
        self._change_options("kube-controller-manager", {"--node-monitor-grace-period": "40000s"})

    def _change_options(self, component: str, options: Mapping[str, str]) -> None:
        command = Path(f"/proc/{self.plane.pid(component)}/cmdline").read_text().rstrip("\0").split("\0")
        named = [(word, word.partition("=")[0]) for word in command]
        changed = [f"{name}={options[name]}" if name in options else word for word, name in named]
        self.plane.remove_component(component)
        self.plane.add_component(component, changed, {})

    def cpu_seconds(self, component: str) -> float:
        pid = self.plane.pid(component)
        return cpu_seconds(pid) if pid is not None else 0.0


@contextmanager
def make_bed() -> Iterator[Bed]:
    with tempfile.TemporaryDirectory() as name, ControlPlane() as plane:
        install_rights(plane)
        yield Bed(plane, Path(name))


@contextmanager
def busy_processes(plane: ControlPlane, count: int) -> Iterator[None]:
    """Meanwhile, so many processes want a core each; they end with the control plane at the latest."""
    names = [f"busy-{number}" for number in range(count)]
    try:
        for name in names:
            plane.add_component(name, [sys.executable, "-c", "while True: pass"], {})
        yield
    finally:
        for name in names:
            plane.remove_component(name)


class NotifiedReconciler(ReconcilerProcess):
    """A reconciler that learns of a commit by a webhook, so that it need not look at the branch all the time."""

    def __init__(self, bed: Bed, repository: GitRepository, *options: str) -> None:
        self.repository, self.secret = repository, secrets.token_hex(16)
        folder = bed.folder / "gangplan"
        folder.mkdir(exist_ok=True)
        (folder / "webhook-secret").write_text(self.secret)
        self.webhook, self.listen = (f"127.0.0.1:{port}" for port in free_ports(2))
        webhook = ("--webhook", self.webhook, "--webhook-secret", str(folder / "webhook-secret"))
        super().__init__(bed.plane, repository, folder, "--poll", "30", "--listen", self.listen, *webhook, *options)

    @property
    def pid(self) -> int:
        assert self.process is not None  # noqa: S101  - it was started
        return self.process.pid

    def commit(self) -> str:
        """Commit the files of the repository and notify the reconciler, as GitLab does; return the commit's id."""
        commit = self.repository.commit()
        headers = {"X-Gitlab-Token": self.secret, "Content-Type": "application/json"}
        body = json.dumps({"ref": "refs/heads/main"}).encode()
        request = urllib.request.Request(f"http://{self.webhook}", body, headers)
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310  - our own address
        return commit

    def wait_until_settled(self, commit: str) -> None:
        """Wait until this commit is in force and no work remains."""

        def is_settled() -> bool:
            status = self.read_status()
            conditions = {each["type"]: each["status"] for each in status["conditions"]}
            return status["commit"] == commit and conditions.get("Applied") in (True, "True")

        self.plane.wait_until(is_settled, timeout=WAIT, what=f"commit {commit[:8]} to be applied")

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        with urllib.request.urlopen(f"http://{self.listen}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE))

    def peak_memory(self) -> float:
        """MB of resident memory that the process has had at most."""
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) / 1000 if found else 0.0


def _is_ready(condition: Mapping[str, str]) -> bool:
    return condition["type"] == "Ready" and condition["status"] == "True"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def child_cpu_seconds(pid: int) -> float:
    """Return the same of the children that run, which the process itself has not been charged with yet."""
    found = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return sum(cpu_seconds(int(child)) for children in found for child in children)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def requests_by(bed: Bed, since: int) -> dict[str, int]:
    """Return the reconciler's requests since so many of them: "VERB resource" -> number."""
    found: dict[str, int] = {}
    for entry in bed.plane.audited_requests()[since:]:
        about: Any = entry.get("objectRef") or {}
        key = " ".join(filter(None, (entry["verb"], about.get("resource", "?"), about.get("subresource"))))
        found[key] = found.get(key, 0) + 1
    return found


def print_requests(bed: Bed, since: int) -> None:
    """Print the reconciler's most frequent requests."""
    asked = sorted(requests_by(bed, since).items(), key=lambda pair: -pair[1])
    click.echo(f"  requests: {', '.join(f'{count} {what}' for what, count in asked[:12])}", err=True)
