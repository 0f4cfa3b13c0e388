"""node: a node is lost under a running gang. one-more: one more job in a large cluster that runs many."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

from bench.reconcile.bed import GPUS, WAIT, Bed, NotifiedReconciler, Row, Sizes, cpu_seconds
from bench.reconcile.gangs import gang_jobs, wait_for_running
from bench.reconcile.looks import PODS_PATH
from tests.e2e.stories.story import (
    CLUSTER,
    SCHEDULER,
    GitRepository,
    is_gated,
    job_pods,
    node_pool,
    queue,
    role,
    volcano_job,
)

NODE_TIMEOUT, NODE_BAR = 10.0, 5.0
GANGS, ONE_MORE_BAR = 1000, 1.0
LOOK = 0.03
"""Seconds between two looks at what is timed."""


def _repository(bed: Bed, nodes: int) -> GitRepository:
    repository = GitRepository(bed.folder / "repo")
    specs = (CLUSTER, SCHEDULER, node_pool("gpu", nodes, gpus=GPUS), queue("team"))
    repository.write_file("cluster-specs/test/cluster.yaml", *specs)
    bed.plane.follow_scheduler_configmap("volcano-system", "volcano-scheduler-configmap")
    return repository


def gang_repository(bed: Bed, nodes: int) -> GitRepository:
    """Return a commit with one gang on two whole nodes."""
    repository = _repository(bed, nodes)
    repository.write_file("jobs/gang.yaml", volcano_job("gang", role("worker", 2, gpus=GPUS), queue="team"))
    repository.commit()
    return repository


def measure_node(bed: Bed, _sizes: Sizes) -> Iterator[Row]:
    """Seconds from NotReady until the gang runs without the lost node, less the time that was set."""
    bed.add_gpu_nodes(4)
    repository = gang_repository(bed, 4)
    with NotifiedReconciler(bed, repository, "--node-timeout", f"{NODE_TIMEOUT:g}"):

        def places() -> set[str]:
            pods = job_pods(bed.plane, "gang")
            running = [pod["spec"]["nodeName"] for pod in pods if pod["status"].get("phase") == "Running"]
            return set(running) if len(running) == len(pods) else set()

        lost = min(bed.plane.wait_until(places, what="the gang to run"))
        bed.plane.fail_node(lost)
        node = bed.plane.api("GET", f"/api/v1/nodes/{lost}")
        ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
        since = datetime.fromisoformat(ready["lastTransitionTime"]).timestamp()
        bed.plane.wait_until(places, lambda seen: len(seen) == 2 and lost not in seen, what="the gang to move")
        yield Row(
            "node",
            f"NotReady to Running, beyond the {NODE_TIMEOUT:g} s set",
            time.time() - since - NODE_TIMEOUT,
            bar=NODE_BAR,
        )


def measure_one_more(bed: Bed, sizes: Sizes) -> Iterator[Row]:
    """Seconds from the fetch of a commit with one more job to its first gate, next to gangs that run.

    Ten thousand nodes renew no leases here, and their controller ends once they are ready: a machine with two cores
    would do nothing else.
    """
    nodes, gangs, pods = sizes.nodes, sizes.gangs or GANGS, 1
    bed.renew_leases_rarely()
    bed.add_gpu_nodes(nodes)
    bed.plane.kill("kube-controller-manager")
    repository = _repository(bed, nodes)
    repository.write_file("jobs/all.yaml", *gang_jobs("gang", gangs, pods))
    with NotifiedReconciler(bed, repository) as reconciler:
        reconciler.wait_until_settled(repository.commit())
        wait_for_running(bed.plane, gangs * pods)
        time.sleep(10.0)
        lines, computed = len(reconciler.log_lines()), cpu_seconds(reconciler.pid)
        repository.write_file("jobs/more.yaml", volcano_job("more", role("worker", 1, gpus=1), queue="team"))
        commit = reconciler.commit()
        pod = f"{PODS_PATH}/more-worker-0"
        bed.plane.wait_until(lambda: bed.plane.api("GET", pod), timeout=WAIT, what="the pod", pause=LOOK)
        made_at = time.time()
        bed.plane.wait_until(
            lambda: not is_gated(bed.plane.api("GET", pod)), timeout=WAIT, what="the first gate", pause=LOOK
        )
        lifted_at = time.time()
        done = reconciler.log_lines()[lines:]
        fetched = next(line for line in done if line["message"] == "a compile begins" and line["commit"] == commit)
        begun_at = datetime.fromisoformat(fetched["time"]).timestamp()
        what = f"{nodes} nodes, {gangs} gangs: fetch to first gate"
        yield Row("one-more", what, lifted_at - begun_at, bar=ONE_MORE_BAR)
        for line in done:
            if line["message"] in ("a compile has ended", "dry run"):
                yield Row("one-more", f"of it: {line['message']}", float(line["seconds"]))
            if line["message"] == "change":
                written_at = datetime.fromisoformat(line["time"]).timestamp()
                yield Row("one-more", f"of it, until written: {line['object']}", written_at - begun_at)
        yield Row("one-more", "of it, until Volcano has made the pod", made_at - begun_at)
        yield Row("one-more", "CPU of the reconciler", cpu_seconds(reconciler.pid) - computed)
        yield Row("one-more", "peak memory of the reconciler", reconciler.peak_memory(), "MB")
