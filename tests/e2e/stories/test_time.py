"""Time passes on the real cluster: nothing happens there, and yet the answer changes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from compiler.fields.times import epoch_seconds, rfc3339
from compiler.kubernetes import PROMISED_START_ANNOTATION
from solver.forecast import ENOUGH
from tests.controlplane import ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    SCHEDULER,
    VOLCANO_JOBS_PATH,
    GitRepository,
    Object,
    ReconcilerProcess,
    add_gpu_nodes,
    bound_pods,
    is_gated,
    job_phase,
    job_pods,
    node_pool,
    planned_pods,
    queue,
    role,
    run_gangplan,
    volcano_job,
    wait_for_phase,
)

pytestmark = pytest.mark.e2e


def test_a_job_starts_when_maintenance_is_over_although_nothing_happens(plane: ControlPlane, tmp_path: Path) -> None:
    add_gpu_nodes(plane, 1, gpus=8)
    over = int(time.time()) + 45
    window = f'  maintenance: [{{start: "{rfc3339(over - 600)}", duration: 10m}}]\n'
    repository = GitRepository(tmp_path / "repo")
    repository.write_file(
        "cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, node_pool("gpu", 1) + window, queue("team")
    )
    repository.write_file("jobs/train.yaml", volcano_job("train", role("worker", 1, gpus=8), queue="team"))
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        said = plane.wait_until(
            lambda: plane.api("GET", f"{VOLCANO_JOBS_PATH}/train")["metadata"]["annotations"].get(
                "gangplan.dev/waiting", ""
            ),
            lambda seen: bool(seen),
            what="the job to be told why it waits",
        )
        assert "GW116" in said
        assert time.time() < over, "the story was too slow to see the maintenance"
        wait_for_phase(plane, "train")
        assert time.time() >= over
        assert bound_pods(plane, "train") == planned_pods(plane, "train")
        compiles = reconciler.log_lines()
        assert not [line for line in compiles if line.get("message") == "commit rejected"]


def lasting(name: str, *roles: Object, duration: str, **spec: Any) -> Object:
    job = volcano_job(name, *roles, queue="team", **spec)
    job["metadata"]["annotations"] = {"gangplan.dev/expected-duration": duration}
    return job


def test_a_large_gang_gets_its_reserved_supernode_and_only_gangs_that_end_before_are_backfilled(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """Jobs that ended before tell the large one in which window it starts, which stays on it while it runs."""
    nodes = add_gpu_nodes(plane, 4, gpus=8)
    for node, gpus in ((nodes[2], 8), (nodes[3], 4)):  # of the second supernode half a node is free, for ever
        occupant = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
        foreign = {"metadata": {"name": f"foreign-{node}"}, "spec": {"nodeName": node, "containers": [occupant]}}
        plane.api("POST", "/api/v1/namespaces/default/pods", foreign)
    repository = GitRepository(tmp_path / "repo")
    repository.write_file(
        "cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, node_pool("gpu", 4, supernode=2), queue("team")
    )
    small = [volcano_job(f"past-{i}", role("worker", 1, run_for="1s"), queue="team") for i in range(ENOUGH)]
    repository.write_file("jobs/past.yaml", *small)
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        plane.wait_until(
            lambda: reconciler.read_status()["finishedTotal"], lambda seen: seen == ENOUGH, what="ten runs to end"
        )
        first = lasting("first", role("worker", 1, gpus=8, run_for="40s"), duration="40s")
        repository.write_file("jobs/first.yaml", first)
        repository.commit()
        wait_for_phase(plane, "first")
        began = epoch_seconds(job_pods(plane, "first")[0]["status"]["startTime"])
        assert began is not None
        one_supernode = {"mode": "hard", "highestTierAllowed": 1}
        repository.write_file(
            "jobs/large.yaml", lasting("large", role("worker", 2, gpus=8), duration="1h", networkTopology=one_supernode)
        )
        repository.write_file(
            "jobs/short.yaml", lasting("short", role("worker", 1, gpus=8, run_for="3s"), duration="4s")
        )
        repository.write_file("jobs/long.yaml", lasting("long", role("worker", 1, gpus=8), duration="1h"))
        repository.write_file("jobs/beside.yaml", lasting("beside", role("worker", 1, gpus=4), duration="1h"))
        repository.commit()
        for name in ("short", "beside"):
            plane.wait_until(
                lambda name=name: job_phase(plane, name),  # type: ignore[misc]
                lambda seen: seen in ("Running", "Completed"),
                what=f"{name} to run",
            )
        large = reconciler.gang_status("large")
        assert (large["decision"], large["startsAt"]) == ("wait", rfc3339(began + 40))
        assert large["startWindow"]["earliest"] <= large["startWindow"]["latest"]
        told = plane.api("GET", f"{VOLCANO_JOBS_PATH}/large")["metadata"]["annotations"][PROMISED_START_ANNOTATION]
        assert reconciler.waiting_codes("long") == ["GW114"]
        run_gangplan(
            "snapshot", "--kubeconfig", str(plane.kubeconfig_for("gangplan")), "-o", str(tmp_path / "state.json")
        )
        said = run_gangplan(
            "explain", "large", "--repo", str(repository.folder), "--state", str(tmp_path / "state.json")
        )
        assert f"expected to start about {rfc3339(began + 40)}" in " ".join(said.split())
        assert "expected to start between" in said

        wait_for_phase(plane, "large")
        assert job_phase(plane, "first") == job_phase(plane, "short") == "Completed"
        assert bound_pods(plane, "large") == planned_pods(plane, "large") == {"worker": {"gpu-0": 1, "gpu-1": 1}}
        live = plane.api("GET", f"{VOLCANO_JOBS_PATH}/large")["metadata"]["annotations"]
        assert live[PROMISED_START_ANNOTATION] == told
        assert bound_pods(plane, "beside") == {"worker": {"gpu-3": 1}}
        assert all(is_gated(pod) for pod in job_pods(plane, "long"))
        assert not [line for line in reconciler.log_lines() if line["message"] == "evicted"]
