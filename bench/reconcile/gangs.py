"""gangs: the same jobs straight to stock Volcano and through a commit, in one run.

Stock: `kubectl create` of all jobs at once, until the last pod runs. Gangplan: from the commit with the same jobs, told
by a webhook, until the last pod runs. Both on nodes that kwok plays, with Volcano's default configuration for stock and
gangplan's for gangplan, and with the same looks at the pods. What counts is the ratio, on a machine that does nothing
else: gangplan computes more than Volcano does, so it suffers more where the cores are shared.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click

from bench.reconcile.bed import GPUS, WAIT, Bed, Row, Sizes, ToldReconciler, cpu_seconds, make_bed, print_requests
from tests.controlplane import ControlPlane
from tests.controlplane.build import build
from tests.e2e.stories.story import (
    CLUSTER,
    QUEUES_PATH,
    SCHEDULER,
    VOLCANO_JOBS_PATH,
    GitRepository,
    node_pool,
    queue,
    role,
    volcano_job,
)

PODS_PATH = "/api/v1/namespaces/default/pods"
LOOK = 1.0
"""Seconds between two looks at the pods: each is work for the API server that is measured."""
GANGS = 200
BARS = {1: 1.2}
"""Pods of a gang -> times what stock takes."""
BAR = 1.1


def gang_jobs(prefix: str, gangs: int, pods: int) -> list[dict[str, Any]]:
    """Jobs with names of their own on each side: Volcano may lose a job that has the name of one that was just deleted
    (`reconciler/runs/lost_jobs.py`)."""
    return [volcano_job(f"{prefix}-{at:04}", role("worker", pods, gpus=1), queue="team") for at in range(gangs)]


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


def measure_stock(bed: Bed, gangs: int, pods: int) -> float:
    """Seconds from `kubectl create` to the last running pod."""
    file = bed.folder / "jobs.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": gang_jobs("stock", gangs, pods)}))
    kubectl = build() / "bin" / "kubectl"
    environment = {**os.environ, "KUBECONFIG": str(bed.plane.kubeconfig)}
    began = time.monotonic()
    with subprocess.Popen([kubectl, "create", "-f", str(file)], env=environment, stdout=subprocess.DEVNULL) as creation:
        wait_for_running(bed.plane, gangs * pods)
    if creation.returncode:
        raise subprocess.CalledProcessError(creation.returncode, "kubectl create")
    return time.monotonic() - began


def clear(plane: ControlPlane) -> None:
    plane.wait_until(lambda: plane.api("DELETE", VOLCANO_JOBS_PATH), timeout=WAIT, what="the deletion of all jobs")
    plane.wait_until(
        lambda: plane.api("GET", f"{PODS_PATH}?limit=1")["items"], lambda left: not left, timeout=WAIT, what="no pods"
    )


def measure_gangplan(bed: Bed, gangs: int, pods: int, nodes: int) -> tuple[float, float, float]:
    """Seconds from the commit to the last running pod, and of CPU that the API server and the reconciler took
    meanwhile; prints when what happened."""
    repository = GitRepository(bed.folder / "repo")
    specs = (CLUSTER, SCHEDULER, node_pool("gpu", nodes, gpus=GPUS), queue("team"))
    repository.write_file("cluster-specs/test/cluster.yaml", *specs)
    first = repository.commit()
    with ToldReconciler(bed, repository) as reconciler:
        reconciler.wait_until_settled(first)
        bed.plane.stop_following()
        repository.write_file("jobs/all.yaml", *gang_jobs("gang", gangs, pods))
        requests = len(bed.plane.audited_requests())
        served, computed = bed.cpu_seconds("kube-apiserver"), cpu_seconds(reconciler.pid)
        began, began_at = time.monotonic(), datetime.now(UTC)
        reconciler.commit()
        wait_for_running(bed.plane, gangs * pods)
        seconds, computed = time.monotonic() - began, cpu_seconds(reconciler.pid) - computed
        served = bed.cpu_seconds("kube-apiserver") - served
        print_timeline(reconciler.log_lines(), began_at)
        print_requests(bed, requests)
        return seconds, served, computed


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


@contextmanager
def empty_world(_sizes: Sizes) -> Iterator[Bed]:
    with make_bed() as bed:
        yield bed


def measure_gangs(bed: Bed, sizes: Sizes) -> Iterator[Row]:
    """Stock Volcano and gangplan on one control plane: both times and their ratio."""
    gangs, pods = sizes.gangs or GANGS, sizes.pods
    nodes = -(-gangs * pods // GPUS)
    bed.add_gpu_nodes(nodes)
    bed.plane.api("POST", QUEUES_PATH, queue("team"))
    what, served = f"{gangs} gangs x {pods} pods", bed.cpu_seconds("kube-apiserver")
    stock = measure_stock(bed, gangs, pods)
    yield Row("gangs", f"{what}, stock Volcano", stock)
    yield Row("gangs", "CPU of the API server", bed.cpu_seconds("kube-apiserver") - served)
    clear(bed.plane)
    bed.plane.api("DELETE", f"{QUEUES_PATH}/team")
    bed.plane.follow_scheduler_configmap("volcano-system", "volcano-scheduler-configmap")
    seconds, served, computed = measure_gangplan(bed, gangs, pods, nodes)
    yield Row("gangs", f"{what}, commit to Running", seconds)
    yield Row("gangs", "CPU of the API server", served)
    yield Row("gangs", "CPU of the reconciler", computed)
    yield Row("gangs", "commit to Running, times stock", seconds / stock, "", BARS.get(pods, BAR))
