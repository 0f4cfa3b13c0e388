"""`python -m bench.reconcile`: gangs on a real control plane, through the repository and straight to stock Volcano, in
one run.

Stock: `kubectl create` of all jobs at once, until the last pod runs. Gangplan: from the commit with the same jobs, told
by a webhook, until the last pod runs. Both on nodes that kwok plays, with Volcano's default configuration for stock and
gangplan's for gangplan, and with the same looks at the pods. What counts is the ratio, on a machine that does nothing
else: gangplan computes more than Volcano does, so it suffers more where the cores are shared.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import tempfile
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from tests.controlplane import ControlPlane
from tests.controlplane.build import build
from tests.controlplane.processes import free_ports
from tests.e2e.stories.story import (
    CLUSTER,
    QUEUES_PATH,
    SCHEDULER,
    VOLCANO_JOBS_PATH,
    GitRepository,
    ReconcilerProcess,
    install_rights,
    node_pool,
    queue,
    role,
    volcano_job,
)

PODS_PATH = "/api/v1/namespaces/default/pods"
GPUS = 8
WAIT = 1800.0
LOOK = 1.0
"""Seconds between two looks at the pods: each is work for the API server that is measured."""


def gang_jobs(gangs: int, pods: int) -> list[dict[str, Any]]:
    return [volcano_job(f"gang-{at:04}", role("worker", pods, gpus=1), queue="team") for at in range(gangs)]


def wait_for_running(plane: ControlPlane, count: int) -> None:
    """Wait until so many pods exist and none of them does anything but run; each look costs the API server little."""

    def outstanding() -> int:
        time.sleep(LOOK)
        page = plane.api("GET", f"{PODS_PATH}?limit=1")
        known = len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)
        if known < count:
            return count - known
        return len(plane.api("GET", f"{PODS_PATH}?limit=1&fieldSelector=status.phase%21%3DRunning")["items"])

    plane.wait_until(outstanding, lambda left: left == 0, timeout=WAIT, what=f"{count} running pods")


def measure_stock(plane: ControlPlane, folder: Path, gangs: int, pods: int) -> float:
    """Seconds from `kubectl create` to the last running pod."""
    file = folder / "jobs.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": gang_jobs(gangs, pods)}))
    kubectl = build() / "bin" / "kubectl"
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    began = time.monotonic()
    with subprocess.Popen([kubectl, "create", "-f", str(file)], env=environment, stdout=subprocess.DEVNULL) as creation:
        wait_for_running(plane, gangs * pods)
    if creation.returncode:
        raise subprocess.CalledProcessError(creation.returncode, "kubectl create")
    return time.monotonic() - began


def clear(plane: ControlPlane) -> None:
    plane.wait_until(lambda: plane.api("DELETE", VOLCANO_JOBS_PATH), timeout=WAIT, what="the deletion of all jobs")
    plane.wait_until(
        lambda: plane.api("GET", f"{PODS_PATH}?limit=1")["items"], lambda left: not left, timeout=WAIT, what="no pods"
    )


def measure_gangplan(plane: ControlPlane, folder: Path, gangs: int, pods: int, nodes: int) -> float:
    """Seconds from the commit to the last running pod; prints when what happened."""
    repository = GitRepository(folder / "repo")
    specs = (CLUSTER, SCHEDULER, node_pool("gpu", nodes, gpus=GPUS), queue("team"))
    repository.write_file("cluster-specs/test/cluster.yaml", *specs)
    first = repository.commit()
    secret = folder / "webhook-secret"
    secret.write_text(secrets.token_hex(16))
    address = f"127.0.0.1:{free_ports(1)[0]}"
    options = ("--poll", "30", "--webhook", address, "--webhook-secret", str(secret))
    with ReconcilerProcess(plane, repository, folder / "gangplan", *options) as reconciler:
        plane.wait_until(
            lambda: reconciler.read_status()["commit"], lambda seen: seen == first, timeout=300, what="the first commit"
        )
        plane.stop_following()
        repository.write_file("jobs/all.yaml", *gang_jobs(gangs, pods))
        began, began_at = time.monotonic(), datetime.now(UTC)
        repository.commit()
        send_webhook(address, secret.read_text())
        wait_for_running(plane, gangs * pods)
        seconds = time.monotonic() - began
        print_timeline(reconciler.log_lines(), began_at)
        return seconds


def send_webhook(address: str, secret: str) -> None:
    """Say that the branch was pushed, as GitLab does."""
    headers = {"X-Gitlab-Token": secret, "Content-Type": "application/json"}
    body = json.dumps({"ref": "refs/heads/main"}).encode()
    request = urllib.request.Request(f"http://{address}", body, headers)
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310  - our own address


def print_timeline(lines: list[dict[str, Any]], began_at: datetime) -> None:
    """When the passes ended that made jobs and lifted gates, and how fast gates were lifted."""
    for what, message, part in (("jobs made", "change", "create Job"), ("gates lifted", "gates lifted", "")):
        times = [
            (datetime.fromisoformat(line["time"]) - began_at).total_seconds()
            for line in lines
            if line["message"] == message and part in line.get("change", "")
        ]
        click.echo(f"  {what}: from {min(times, default=0):.1f} s to {max(times, default=0):.1f} s after the commit")
    rows = [line for line in lines if line["message"] == "lifting gates"]
    taken = sum(float(row["seconds"]) for row in rows)
    click.echo(f"  {sum(int(row['pods']) for row in rows) / max(taken, 0.001):.0f} gates/s while gates were lifted")


@click.command()
@click.option("--gangs", default=200, show_default=True, type=click.IntRange(1))
@click.option("--pods", default=8, show_default=True, type=click.IntRange(1), help="Pods of a gang, one device each.")
def reconcile(gangs: int, pods: int) -> None:
    """Compare stock Volcano and gangplan on one control plane; prints both times and their ratio."""
    nodes = -(-gangs * pods // GPUS)
    with tempfile.TemporaryDirectory() as name, ControlPlane() as plane:
        folder = Path(name)
        install_rights(plane)
        capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
        plane.add_nodes([f"gpu-{at}" for at in range(nodes)], capacity=capacity)
        plane.api("POST", QUEUES_PATH, queue("team"))
        stock = measure_stock(plane, folder, gangs, pods)
        click.echo(f"stock Volcano: {stock:.1f} s for {gangs} gangs of {pods} pods on {nodes} nodes")
        clear(plane)
        plane.api("DELETE", f"{QUEUES_PATH}/team")
        plane.follow_scheduler_configmap("volcano-system", "volcano-scheduler-configmap")
        seconds = measure_gangplan(plane, folder, gangs, pods, nodes)
        click.echo(f"gangplan: {seconds:.1f} s from the commit")
        click.echo(f"ratio: {seconds / stock:.2f}; load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    reconcile()
