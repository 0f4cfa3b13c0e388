"""gangs: the same jobs straight to stock Volcano and through a commit, in one run.

Stock: `kubectl create` of all jobs at once, until the last pod runs. Gangplan: from the commit with the same jobs,
notified by a webhook, until the last pod runs. Both on nodes that kwok simulates, with Volcano's default configuration
for stock and gangplan's for gangplan, and with the same looks at the pods. The ratio counts: quiet, on a machine
without other work, and next to processes that only compute (`--busy`), where gangplan suffers more, since it computes
more than Volcano does. late: gangplan alone, with events that must not confuse it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from bench.reconcile.bed import (
    GPUS,
    WAIT,
    Bed,
    NotifiedReconciler,
    Row,
    Sizes,
    busy_processes,
    child_cpu_seconds,
    cpu_seconds,
    make_bed,
    print_requests,
)
from bench.reconcile.looks import PODS_PATH, Overbooking, flapping_node, granted_evictions, looks_at_nodes
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
from tests.faults.answers import late_watch
from tests.faults.kinds import POD_WATCH
from tests.faults.proxy import FaultProxy, Rule

LOOK = 1.0
"""Seconds between two looks at the pods: each is work for the API server that is measured."""
GANGS = 200
BARS = {1: 1.1}
"""Pods of a gang -> times what stock takes on a quiet machine."""
BAR, BUSY_BAR = 1.05, 1.2
COMPILES = "gangplan_compile_seconds_count"
LATE_SECONDS = 1.0
"""By which the watch of pods is late."""


@dataclass(frozen=True, slots=True)
class GangplanRun:
    """seconds: from the commit to the last running pod. served, computed, compiled: CPU seconds of the API server, of
    the reconciler and of its compile worker meanwhile. compiles: how many plans were made. evicted: pods."""

    seconds: float
    served: float
    computed: float
    compiled: float
    compiles: float
    overbooking: Overbooking
    evicted: int

    def rows(self, case: str, what: str) -> Iterator[Row]:
        yield Row(case, f"{what}, commit to Running", self.seconds)
        yield Row(case, "CPU of the API server", self.served)
        yield Row(case, "CPU of the reconciler", self.computed)
        yield Row(case, "CPU of its compile worker", self.compiled)
        yield Row(case, "plans made", self.compiles, "")
        yield Row(case, f"overbooked at most, {self.overbooking.looks} looks", len(self.overbooking.nodes), "nodes", 0)
        yield Row(case, "evicted", self.evicted, "pods", 0)


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
    command = [str(build() / "bin" / "kubectl"), "create", "-f", str(file)]
    environment = {**os.environ, "KUBECONFIG": str(bed.plane.kubeconfig)}
    with looks_at_nodes(bed.plane):
        began = time.monotonic()
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as creation:
            wait_for_running(bed.plane, gangs * pods)
        seconds = time.monotonic() - began
    if creation.returncode:
        raise subprocess.CalledProcessError(creation.returncode, "kubectl create")
    return seconds


def clear(plane: ControlPlane) -> None:
    plane.wait_until(lambda: plane.api("DELETE", VOLCANO_JOBS_PATH), timeout=WAIT, what="the deletion of all jobs")
    plane.wait_until(
        lambda: plane.api("GET", f"{PODS_PATH}?limit=1")["items"], lambda left: not left, timeout=WAIT, what="no pods"
    )


def measure_gangplan(bed: Bed, gangs: int, pods: int, *options: str) -> GangplanRun:
    """From a commit with the jobs to the last running pod; prints when what happened. options: of the reconciler."""
    repository = GitRepository(bed.folder / "repo")
    specs = (CLUSTER, SCHEDULER, node_pool("gpu", nodes_for(gangs, pods), gpus=GPUS), queue("team"))
    repository.write_file("cluster-specs/test/cluster.yaml", *specs)
    first = repository.commit()
    bed.plane.follow_scheduler_configmap("volcano-system", "volcano-scheduler-configmap")
    with NotifiedReconciler(bed, repository, *options) as reconciler:
        reconciler.wait_until_settled(first)
        bed.plane.stop_following()
        repository.write_file("jobs/all.yaml", *gang_jobs("gang", gangs, pods))
        with looks_at_nodes(bed.plane) as overbooking:
            requests = len(bed.plane.audited_requests())
            served, computed = bed.cpu_seconds("kube-apiserver"), cpu_seconds(reconciler.pid)
            compiled, compiles = child_cpu_seconds(reconciler.pid), reconciler.metric(COMPILES)
            began, began_at = time.monotonic(), datetime.now(UTC)
            reconciler.commit()
            wait_for_running(bed.plane, gangs * pods)
            seconds, computed = time.monotonic() - began, cpu_seconds(reconciler.pid) - computed
            served = bed.cpu_seconds("kube-apiserver") - served
            compiled = child_cpu_seconds(reconciler.pid) - compiled
            compiles = reconciler.metric(COMPILES) - compiles
        print_timeline(reconciler.log_lines(), began_at)
        print_requests(bed, requests)
        for node, more in overbooking.nodes.items():
            click.echo(f"  overbooked: {node} by {more} GPUs", err=True)
        evicted = sum(1 for _ in granted_evictions(bed.plane.audited_requests()[requests:]))
        return GangplanRun(seconds, served, computed, compiled, compiles, overbooking, evicted)


def nodes_for(gangs: int, pods: int) -> int:
    """Nodes that these gangs fill, with one GPU for a pod."""
    return -(-gangs * pods // GPUS)


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
    bed.renew_leases_rarely()  # else kwok, short of cores, loses nodes: each has a kubelet of its own elsewhere
    bed.add_gpu_nodes(nodes_for(gangs, pods))
    bed.plane.api("POST", QUEUES_PATH, queue("team"))
    what = f"{gangs} gangs x {pods} pods" + (f", {sizes.busy} busy processes" if sizes.busy else "")
    with busy_processes(bed.plane, sizes.busy):
        served = bed.cpu_seconds("kube-apiserver")
        stock = measure_stock(bed, gangs, pods)
        yield Row("gangs", f"{what}, stock Volcano", stock)
        yield Row("gangs", "CPU of the API server", bed.cpu_seconds("kube-apiserver") - served)
        clear(bed.plane)
        bed.plane.api("DELETE", f"{QUEUES_PATH}/team")
        run = measure_gangplan(bed, gangs, pods)
    yield from run.rows("gangs", what)
    bar = BUSY_BAR if sizes.busy else BARS.get(pods, BAR)
    yield Row("gangs", "commit to Running, times stock", run.seconds / stock, "", bar)


def measure_late(bed: Bed, sizes: Sizes) -> Iterator[Row]:
    """Gangplan with a watch of pods that is late and a node that flaps: no node is given twice."""
    gangs, pods = sizes.gangs or GANGS, sizes.pods
    nodes = nodes_for(gangs, pods)
    bed.add_gpu_nodes(nodes)
    with (
        FaultProxy(bed.plane.kubeconfig_for("gangplan"), bed.folder / "proxy") as proxy,
        busy_processes(bed.plane, sizes.busy),
        flapping_node(bed.plane, f"gpu-{nodes // 2}"),
    ):
        proxy.add_rule(Rule(late_watch(LATE_SECONDS), "GET", POD_WATCH))
        run = measure_gangplan(bed, gangs, pods, "--kubeconfig", str(proxy.kubeconfig))
    yield from run.rows("late", f"{gangs} gangs x {pods} pods, watch {LATE_SECONDS:g} s late")
